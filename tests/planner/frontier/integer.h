/* A frontier programme as an integer programme in the manner of Alpa (Zheng et al., OSDI 2022): a binary variable for
 * each alternative, and products of choices made linear by variables for pairs. Solved by GLPK; nothing is shared with
 * planner/frontier but the programme itself.
 *
 *   x[a]            alternative a of its group is chosen
 *   pair[m, S]      of a value and a group that reads it: it is made in m, and the group wants the set S
 *   arc[m, f, t]    of a value: it is made in m, and t is converted from f
 *
 *   one alternative of each group;  sums of pairs are the maker's and the reader's choices
 *   what a reader wants is converted:          sum_f arc[m, f, t] >= sum of pair[m, S] with t in S, of each reader
 *   only what is wanted is converted:          sum_f arc[m, f, t] <= sum over readers of pair[m, S] with t in S
 *   a source is held:                          arc[m, f, t] <= sum_g arc[m, g, f] for f other than m
 *   no cycles: for a set U of layouts without m, what wants one of U is entered from outside of U:
 *                                              sum of arc[m, f, t], f not in U, t in U >= sum of pair[m, S], S meets U
 *
 * The last rows are there for sets of two, and for all sets where a solution had cycles: then its objective is less
 * than what its alternatives cost, and it is solved again. With all of them the arcs are those of a cheapest
 * arborescence (Edmonds, "Optimum branchings", 1967), so that the alternatives alone must be whole. */
#ifndef MT_TESTS_PLANNER_FRONTIER_INTEGER_H
#define MT_TESTS_PLANNER_FRONTIER_INTEGER_H

#include "planner/frontier/frontier.h"
#include "planner/lp/lp.h"
#include "tests/check.h"

enum { INTEGER_LAYOUTS = 12, INTEGER_SETS = 32, INTEGER_READERS = 16 };

struct integer_reader {
    int group, at; /* the value's place in the group */
    int nsets;
    uint64_t set[INTEGER_SETS];
    int pair[INTEGER_LAYOUTS][INTEGER_SETS]; /* column, or -1 */
};

struct integer_value {
    const struct mt_frontier_table *table;
    int maker, at; /* group, or -1: nobody makes it */
    int nreaders;
    struct integer_reader readers[INTEGER_READERS];             /* the maker is one of them if it wants something */
    int arc[INTEGER_LAYOUTS][INTEGER_LAYOUTS][INTEGER_LAYOUTS]; /* [made][from][to]: column, or -1 */
    bool full[INTEGER_LAYOUTS];                                 /* [made]: there are rows for all sets */
};

struct integer {
    const struct mt_frontier *problem;
    struct mt_arena arena;
    struct mt_lp lp;
    double unit; /* of costs, in seconds */
    int **x;     /* [group][alternative] */
    struct integer_value *values;
};

static inline double integer_convert(const struct mt_frontier_table *t, int from, int to) {
    double s = t->convert_s[from * t->nlayouts + to];
    return isnan(s) ? t->price(t, from, to) : s;
}

static inline const struct mt_frontier_kind *integer_kind(const struct integer *p, int group) {
    return p->problem->groups[group].kind;
}

/* ---- what a choice costs, by the order of conversions ---- */

static inline double integer_order(const struct mt_frontier_table *t, uint64_t held, uint64_t wanted) {
    double least = wanted & ~held ? INFINITY : 0;
    for (int to = 0; to < t->nlayouts; to++) {
        double from = INFINITY;
        if (!((wanted & ~held) >> to & 1)) continue;
        for (int f = 0; f < t->nlayouts; f++)
            if (held >> f & 1) from = fmin(from, integer_convert(t, f, to));
        least = fmin(least, from + integer_order(t, held | (uint64_t)1 << to, wanted));
    }
    return least;
}

static inline double integer_value_s(const struct integer *p, int v, const int *choice, int *made) {
    const struct integer_value *value = &p->values[v];
    uint64_t wanted = 0;
    *made = -1;
    if (value->maker < 0) return 0;
    for (int r = 0; r < value->nreaders; r++) {
        const struct integer_reader *reader = &value->readers[r];
        wanted |= integer_kind(p, reader->group)->alternatives[choice[reader->group]].wanted[reader->at];
    }
    *made = integer_kind(p, value->maker)->alternatives[choice[value->maker]].made[value->at];
    return integer_order(value->table, (uint64_t)1 << *made, wanted);
}

static inline double integer_cost(const struct integer *p, const int *choice) {
    double sum = 0;
    int made;
    for (int g = 0; g < p->problem->ngroups; g++) sum += integer_kind(p, g)->alternatives[choice[g]].cost_s;
    for (int v = 0; v < p->problem->nvalues; v++) sum += integer_value_s(p, v, choice, &made);
    return sum;
}

/* ---- columns and rows ---- */

static inline int integer_col(struct integer *p, double cost_s, bool whole) {
    return mt_lp_col(&p->lp, "", 0, whole ? 1 : INFINITY, cost_s / p->unit, whole);
}

static inline void integer_find_values(struct integer *p) {
    const struct mt_frontier *f = p->problem;
    p->values = mt_new(&p->arena, struct integer_value, f->nvalues);
    for (int v = 0; v < f->nvalues; v++) p->values[v].table = f->tables[v], p->values[v].maker = -1;
    for (int g = 0; g < f->ngroups; g++)
        for (int i = 0; i < f->groups[g].kind->nvalues; i++) {
            const struct mt_frontier_kind *kind = f->groups[g].kind;
            struct integer_value *value = &p->values[f->groups[g].values[i]];
            struct integer_reader reader = {.group = g, .at = i};
            CHECK(value->table->nlayouts <= INTEGER_LAYOUTS, "%d layouts", value->table->nlayouts);
            for (int a = 0; a < kind->nalternatives; a++) {
                int s = 0;
                if (kind->alternatives[a].made[i] >= 0) value->maker = g, value->at = i;
                while (s < reader.nsets && reader.set[s] != kind->alternatives[a].wanted[i]) s++;
                CHECK(s < INTEGER_SETS);
                reader.set[s] = kind->alternatives[a].wanted[i];
                if (s == reader.nsets) reader.nsets++;
            }
            if (reader.nsets == 1 && !reader.set[0]) continue;
            CHECK(value->nreaders < INTEGER_READERS);
            value->readers[value->nreaders++] = reader;
        }
}

static inline bool integer_makes(const struct integer *p, const struct integer_value *value, int made) {
    const struct mt_frontier_kind *kind = integer_kind(p, value->maker);
    for (int a = 0; a < kind->nalternatives; a++)
        if (kind->alternatives[a].made[value->at] == made) return true;
    return false;
}

/* Pairs of a reader: their sums over sets are what is made, their sums over layouts what is wanted. */
static inline void integer_add_pairs(struct integer *p, struct integer_value *value, struct integer_reader *r) {
    const struct mt_frontier_kind *maker = integer_kind(p, value->maker), *kind = integer_kind(p, r->group);
    bool own = r->group == value->maker;
    for (int m = 0; m < value->table->nlayouts; m++)
        for (int s = 0; s < r->nsets; s++) r->pair[m][s] = integer_makes(p, value, m) ? integer_col(p, 0, false) : -1;
    for (int m = 0; m < value->table->nlayouts; m++) {
        if (r->pair[m][0] < 0) continue;
        int row = mt_lp_row(&p->lp, "made", 0, 0);
        for (int s = 0; s < r->nsets; s++) mt_lp_set(&p->lp, row, r->pair[m][s], 1);
        for (int a = 0; a < maker->nalternatives; a++)
            if (maker->alternatives[a].made[value->at] == m) mt_lp_set(&p->lp, row, p->x[value->maker][a], -1);
    }
    for (int s = 0; s < r->nsets; s++) {
        int row = mt_lp_row(&p->lp, "wanted", 0, 0);
        for (int m = 0; m < value->table->nlayouts; m++)
            if (r->pair[m][s] >= 0) mt_lp_set(&p->lp, row, r->pair[m][s], 1);
        for (int a = 0; a < kind->nalternatives; a++)
            if (kind->alternatives[a].wanted[r->at] == r->set[s]) mt_lp_set(&p->lp, row, p->x[r->group][a], -1);
    }
    for (int m = 0; m < value->table->nlayouts && own; m++)
        for (int s = 0; s < r->nsets && r->pair[m][s] >= 0; s++) {
            int row = mt_lp_row(&p->lp, "own", 0, 0);
            mt_lp_set(&p->lp, row, r->pair[m][s], 1);
            for (int a = 0; a < kind->nalternatives; a++)
                if (kind->alternatives[a].made[r->at] == m && kind->alternatives[a].wanted[r->at] == r->set[s])
                    mt_lp_set(&p->lp, row, p->x[r->group][a], -1);
        }
}

/* Made in `made`, a reader that wants one of `sets` has an arc from outside into them. */
static inline void integer_add_entry(struct integer *p, struct integer_value *value, int made, uint64_t sets) {
    for (int r = 0; r < value->nreaders; r++) {
        const struct integer_reader *reader = &value->readers[r];
        bool any = false;
        for (int s = 0; s < reader->nsets; s++) any |= (reader->set[s] & sets) != 0;
        if (!any) continue;
        int row = mt_lp_row(&p->lp, "entered", 0, INFINITY);
        for (int f = 0; f < value->table->nlayouts; f++)
            for (int t = 0; t < value->table->nlayouts; t++)
                if (!(sets >> f & 1) && sets >> t & 1 && value->arc[made][f][t] >= 0)
                    mt_lp_set(&p->lp, row, value->arc[made][f][t], 1);
        for (int s = 0; s < reader->nsets; s++)
            if (reader->set[s] & sets) mt_lp_set(&p->lp, row, reader->pair[made][s], -1);
    }
}

/* What enters a layout, as a part of a row. */
static inline void integer_set_entering(struct integer *p, const struct integer_value *value, int made, int to, int row,
                                        double factor) {
    for (int f = 0; f < value->table->nlayouts; f++)
        if (value->arc[made][f][to] >= 0) mt_lp_set(&p->lp, row, value->arc[made][f][to], factor);
}

/* Arcs from other layouts than that which is made are of use only where they are cheaper. */
static inline void integer_add_arcs(struct integer *p, struct integer_value *value, int made) {
    const struct mt_frontier_table *table = value->table;
    int n = table->nlayouts;
    uint64_t indirect = 0, able = 0; /* that some wants; that some can be made of */
    for (int r = 0; r < value->nreaders; r++)
        for (int s = 0; s < value->readers[r].nsets; s++) able |= value->readers[r].set[s];
    for (int t = 0; t < n; t++) {
        if (t == made || !(able >> t & 1)) continue;
        for (int f = 0; f < n; f++) {
            double cost = f == t ? INFINITY : integer_convert(table, f, t);
            if (isinf(cost) || (f != made && (!(able >> f & 1) || cost >= integer_convert(table, made, t)))) continue;
            value->arc[made][f][t] = integer_col(p, cost, false);
            if (f != made) indirect |= (uint64_t)1 << f | (uint64_t)1 << t;
        }
    }
    for (int t = 0; t < n; t++) {
        if (t == made || !(able >> t & 1)) continue;
        integer_add_entry(p, value, made, (uint64_t)1 << t);
        for (int u = t + 1; u < n; u++)
            if (u != made && (value->arc[made][t][u] >= 0) && (value->arc[made][u][t] >= 0))
                integer_add_entry(p, value, made, (uint64_t)1 << t | (uint64_t)1 << u);
        if (!(indirect >> t & 1)) continue;
        int row = mt_lp_row(&p->lp, "unwanted", -INFINITY, 0);
        integer_set_entering(p, value, made, t, row, 1);
        for (int r = 0; r < value->nreaders; r++)
            for (int s = 0; s < value->readers[r].nsets; s++)
                if (value->readers[r].set[s] >> t & 1) mt_lp_set(&p->lp, row, value->readers[r].pair[made][s], -1);
        for (int to = 0; to < n; to++) {
            if (value->arc[made][t][to] < 0) continue;
            row = mt_lp_row(&p->lp, "held", -INFINITY, 0);
            mt_lp_set(&p->lp, row, value->arc[made][t][to], 1);
            integer_set_entering(p, value, made, t, row, -1);
        }
    }
}

static inline void integer_open(struct integer *p, const struct mt_frontier *problem) {
    *p = (struct integer){.problem = problem};
    p->lp = (struct mt_lp)MT_LP_INIT;
    for (int g = 0; g < problem->ngroups; g++) {
        double least = INFINITY;
        for (int a = 0; a < problem->groups[g].kind->nalternatives; a++)
            least = fmin(least, problem->groups[g].kind->alternatives[a].cost_s);
        p->unit += least / problem->ngroups;
    }
    p->x = mt_new(&p->arena, int *, problem->ngroups);
    integer_find_values(p);
    for (int g = 0; g < problem->ngroups; g++) {
        const struct mt_frontier_kind *kind = integer_kind(p, g);
        int row = mt_lp_row(&p->lp, "one", 1, 1);
        p->x[g] = mt_new(&p->arena, int, kind->nalternatives);
        for (int a = 0; a < kind->nalternatives; a++) {
            p->x[g][a] = integer_col(p, kind->alternatives[a].cost_s, true);
            mt_lp_set(&p->lp, row, p->x[g][a], 1);
        }
    }
    for (int v = 0; v < problem->nvalues; v++) {
        struct integer_value *value = &p->values[v];
        memset(value->arc, -1, sizeof value->arc);
        if (value->maker < 0) continue;
        for (int r = 0; r < value->nreaders; r++) integer_add_pairs(p, value, &value->readers[r]);
        for (int m = 0; m < value->table->nlayouts; m++)
            if (integer_makes(p, value, m)) integer_add_arcs(p, value, m);
    }
}

static inline void integer_close(struct integer *p) {
    mt_lp_release(&p->lp);
    mt_arena_release(&p->arena);
}

/* ---- solving ---- */

/* What the solution pays for a value. */
static inline double integer_paid(const struct integer *p, int v, const double *x) {
    const struct integer_value *value = &p->values[v];
    double sum = 0;
    for (int m = 0; m < value->table->nlayouts; m++)
        for (int f = 0; f < value->table->nlayouts; f++)
            for (int t = 0; t < value->table->nlayouts; t++)
                if (value->arc[m][f][t] >= 0) sum += x[value->arc[m][f][t]] * p->lp.cols[value->arc[m][f][t]].cost;
    return sum * p->unit;
}

/* Rows for all sets of layouts of a value made in `made`; false: they are there. */
static inline bool integer_add_sets(struct integer *p, struct integer_value *value, int made) {
    if (value->full[made]) return false;
    value->full[made] = true;
    for (uint64_t set = 1; set < (uint64_t)1 << value->table->nlayouts; set++)
        if ((set & (set - 1)) && !(set >> made & 1)) integer_add_entry(p, value, made, set);
    return true;
}

/* The least cost, and choice[ngroups]; INFINITY where GLPK did not end within most_nodes (0: any number) and limit_s.
 * MT_EMISSING without GLPK. */
static inline enum mt_status integer_solve(struct integer *p, int64_t most_nodes, double limit_s, int *choice,
                                           double *cost_s, struct mt_err *err) {
    *cost_s = INFINITY;
    p->lp.gap = 1e-9;
    p->lp.most_nodes = most_nodes;
    for (bool again = true; again;) {
        struct mt_lp_solution solution;
        enum mt_status st = mt_lp_solve(&p->lp, limit_s, &solution, err);
        if (st == MT_ESTALL || (!st && !solution.optimal)) return MT_OK;
        if (st) return st;
        again = false;
        for (int g = 0; g < p->problem->ngroups; g++)
            for (int a = 0; a < integer_kind(p, g)->nalternatives; a++)
                if (solution.x[p->x[g][a]] > 0.5) choice[g] = a;
        for (int v = 0; v < p->problem->nvalues; v++) {
            int made;
            double costs = integer_value_s(p, v, choice, &made);
            if (costs > integer_paid(p, v, solution.x) + 1e-7 * p->unit && integer_add_sets(p, &p->values[v], made))
                again = true;
        }
        if (!again) *cost_s = solution.objective * p->unit;
    }
    CHECK_NEAR(*cost_s, integer_cost(p, choice), 1e-6 * *cost_s);
    return MT_OK;
}

#endif
