/* The least priced sum (priced.h) over all ways of all variables, by branch and bound. The bound is that of
 * mini-buckets (Dechter and Rish, "Mini-buckets: a general scheme for bounded inference", J. ACM 2003) along the order
 * of the search (Kask and Dechter, "A general scheme for automatic generation of search heuristics from specification
 * dependencies", AI 2001): variables are eliminated from the last to the first, and where a joint table would be too
 * large, parts of it are minimized separately. */
#ifndef MT_TESTS_PLANNER_FRONTIER_BRANCH_H
#define MT_TESTS_PLANNER_FRONTIER_BRANCH_H

#include "tests/planner/frontier/priced.h"

enum {
    BRANCH_SCOPE = 26,
    BRANCH_TABLE = 1 << 14, /* entries of a joint table */
};

/* A term of the sum, or a bound of one, over a few variables. */
struct branch_table {
    int n, var[BRANCH_SCOPE]; /* places in the order of the search, rising */
    size_t stride[BRANCH_SCOPE];
    double *cost;
    int origin; /* the place that was eliminated to make it; number of variables: a term */
    int last;   /* var[n - 1], or -1 */
};

struct branch {
    const struct priced *p;
    struct mt_arena arena;
    int *order, *place; /* [nvars]: variable at a place, and back */
    struct branch_table *tables;
    int ntables, tables_capacity;
    int *best; /* [nvars]: ways */
    double best_s;
    int64_t nodes, most_nodes;
};

/* ---- the order of the search ---- */

/* Eliminated first, so searched last: whatever meets the fewest others by then. */
static inline void branch_find_order(struct branch *b) {
    int n = b->p->nvars;
    bool *meets = mt_new(&b->arena, bool, n *n), *gone = mt_new(&b->arena, bool, n);
    b->order = mt_new(&b->arena, int, n);
    b->place = mt_new(&b->arena, int, n);
    for (int v = 0; v < b->p->graph->nvalues; v++) {
        const struct priced_value *value = &b->p->values[v];
        for (int a = -1; a < value->nreaders && value->counts; a++)
            for (int c = -1; c < value->nreaders; c++)
                meets[(a < 0 ? value->maker : value->readers[a]) * n + (c < 0 ? value->maker : value->readers[c])] =
                    true;
    }
    for (int at = n - 1; at >= 0; at--) {
        int best = -1;
        double least = INFINITY;
        for (int i = 0; i < n; i++) {
            double table = 1;
            for (int j = 0; j < n && !gone[i]; j++)
                if (meets[i * n + j] && !gone[j]) table *= b->p->vars[j].nways;
            if (!gone[i] && table < least) best = i, least = table;
        }
        gone[best] = true, b->order[at] = best, b->place[best] = at;
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                if (meets[best * n + i] && meets[best * n + j]) meets[i * n + j] = true;
    }
}

/* ---- tables ---- */

static inline size_t branch_size(const struct branch *b, const int *var, int n) {
    size_t size = 1;
    for (int i = 0; i < n && size <= BRANCH_TABLE; i++) size *= (size_t)b->p->vars[b->order[var[i]]].nways;
    return size;
}

static inline struct branch_table *branch_add_table(struct branch *b, const int *var, int n, int origin) {
    mt_arena_grow(&b->arena, &b->tables, b->ntables, &b->tables_capacity, sizeof *b->tables);
    struct branch_table *t = &b->tables[b->ntables++];
    *t = (struct branch_table){.n = n, .origin = origin, .last = n ? var[n - 1] : -1};
    size_t size = 1;
    for (int i = n - 1; i >= 0; i--) {
        t->var[i] = var[i];
        t->stride[i] = size;
        size *= (size_t)b->p->vars[b->order[var[i]]].nways;
    }
    t->cost = mt_new(&b->arena, double, size);
    return t;
}

/* way[place] of all variables of the table's scope. */
static inline double branch_look_up(const struct branch_table *t, const int *way) {
    size_t at = 0;
    for (int i = 0; i < t->n; i++) at += t->stride[i] * (size_t)way[t->var[i]];
    return t->cost[at];
}

/* The next of all ways of some variables; false after the last. */
static inline bool branch_next(const struct branch *b, const int *var, int n, int *way) {
    for (int i = n - 1; i >= 0; i--) {
        if (++way[var[i]] < b->p->vars[b->order[var[i]]].nways) return true;
        way[var[i]] = 0;
    }
    return false;
}

static inline int branch_insert(int *var, int n, int place) {
    int i = n;
    for (int k = 0; k < n; k++)
        if (var[k] == place) return n;
    for (; i > 0 && var[i - 1] > place; i--) var[i] = var[i - 1];
    var[i] = place;
    return n + 1;
}

/* What a value costs at least by its maker and some of its readers: the value costs at least the average over parts of
 * its readers. All of them in one part: what it costs. */
static inline void branch_add_part(struct branch *b, int v, const int *readers, int nreaders, int nparts) {
    const struct priced_value *value = &b->p->values[v];
    int var[BRANCH_SCOPE], n = 0, *way = mt_calloc((size_t)b->p->nvars, sizeof *way);
    n = branch_insert(var, n, b->place[value->maker]);
    for (int r = 0; r < nreaders; r++) n = branch_insert(var, n, b->place[readers[r]]);
    struct branch_table *t = branch_add_table(b, var, n, b->p->nvars);
    const struct priced_var *maker = &b->p->vars[value->maker];
    size_t at = 0;
    do {
        unsigned wanted = 0;
        for (int r = 0; r < nreaders; r++) {
            const struct priced_var *reader = &b->p->vars[readers[r]];
            wanted |= reader->wanted[way[b->place[readers[r]]]][priced_touched(reader, v)];
        }
        int made = maker->made[way[b->place[value->maker]]][priced_touched(maker, v)];
        t->cost[at++] = (nparts == 1 ? value->serve[made] : value->at_least[made])[wanted] / nparts;
    } while (branch_next(b, var, n, way));
    free(way);
}

static inline void branch_add_value(struct branch *b, int v) {
    const struct priced_value *value = &b->p->values[v];
    int first[PRICED_READERS + 1] = {0}, nparts = 0;
    for (int r = 0; r < value->nreaders; nparts++) {
        int var[BRANCH_SCOPE], n = branch_insert(var, 0, b->place[value->maker]);
        for (first[nparts] = r; r < value->nreaders; r++) {
            n = branch_insert(var, n, b->place[value->readers[r]]);
            if (r > first[nparts] && branch_size(b, var, n) > BRANCH_TABLE) break;
        }
    }
    first[nparts] = value->nreaders;
    for (int i = 0; i < nparts; i++) branch_add_part(b, v, value->readers + first[i], first[i + 1] - first[i], nparts);
}

/* Tables of one bucket, jointly minimized over its variable. */
static inline void branch_eliminate(struct branch *b, int place, const int *member, int nmembers, const int *var,
                                    int n) {
    int *way = mt_calloc((size_t)b->p->nvars, sizeof *way);
    struct branch_table *t = branch_add_table(b, var, n - 1, place); /* var[n - 1] is the place */
    size_t at = 0, i = 0, nways = (size_t)b->p->vars[b->order[place]].nways;
    t->cost[0] = INFINITY;
    do {
        double sum = 0;
        for (int m = 0; m < nmembers; m++) sum += branch_look_up(&b->tables[member[m]], way);
        t->cost[at] = i ? fmin(t->cost[at], sum) : sum;
        if (++i == nways) i = 0, at++;
    } while (branch_next(b, var, n, way));
    free(way);
}

static inline void branch_bucket(struct branch *b, int place) {
    int ntables = b->ntables, left = 0, *in = mt_calloc((size_t)ntables + 1, sizeof *in);
    for (int t = 0; t < ntables; t++)
        if (b->tables[t].last == place) in[left++] = t;
    while (left) { /* a mini-bucket: as many as fit together */
        int var[BRANCH_SCOPE], n = 0, *member = mt_calloc((size_t)left, sizeof *member), nmembers = 0, kept = 0;
        for (int i = 0; i < left; i++) {
            int joint[BRANCH_SCOPE], m = n;
            memcpy(joint, var, sizeof var);
            for (int k = 0; k < b->tables[in[i]].n && m < BRANCH_SCOPE; k++)
                m = branch_insert(joint, m, b->tables[in[i]].var[k]);
            if (nmembers && (m == BRANCH_SCOPE || branch_size(b, joint, m) > BRANCH_TABLE)) {
                in[kept++] = in[i];
                continue;
            }
            memcpy(var, joint, sizeof var);
            n = m;
            member[nmembers++] = in[i];
        }
        left = kept;
        branch_eliminate(b, place, member, nmembers, var, n);
        free(member);
    }
    free(in);
}

/* ---- the search ---- */

/* What a choice of the variables at places 0..depth costs at least: terms that are decided, and messages from the
 * places behind. */
static inline double branch_bound(const struct branch *b, const int *way, int depth) {
    double sum = 0;
    for (int t = 0; t < b->ntables; t++) {
        const struct branch_table *table = &b->tables[t];
        if (table->last <= depth && table->origin > depth) sum += branch_look_up(table, way);
    }
    return sum;
}

static inline void branch_search(struct branch *b, int *at /* [place] */, int depth) {
    if (depth == b->p->nvars) {
        int *way = mt_calloc((size_t)b->p->nvars, sizeof *way);
        for (int i = 0; i < b->p->nvars; i++) way[b->order[i]] = at[i];
        double sum = priced_sum(b->p, way);
        if (sum < b->best_s) b->best_s = sum, memcpy(b->best, way, (size_t)b->p->nvars * sizeof *way);
        free(way);
        return;
    }
    int n = b->p->vars[b->order[depth]].nways, order[PRICED_WAYS];
    double bound[PRICED_WAYS];
    for (int w = 0; w < n; w++) {
        int i = w;
        at[depth] = w;
        double least = branch_bound(b, at, depth);
        for (; i > 0 && bound[i - 1] > least; i--) bound[i] = bound[i - 1], order[i] = order[i - 1];
        bound[i] = least, order[i] = w;
    }
    for (int i = 0; i < n && bound[i] < b->best_s * (1 - 1e-13); i++) {
        CHECK(++b->nodes <= b->most_nodes, "branch and bound does not end: %lld nodes", (long long)b->nodes);
        at[depth] = order[i];
        branch_search(b, at, depth + 1);
    }
}

/* The least sum: b->best_s, b->best. Release with branch_release. */
static inline void branch_solve(struct branch *b, const struct priced *p) {
    *b = (struct branch){.p = p, .best_s = INFINITY, .most_nodes = 20000000};
    branch_find_order(b);
    for (int i = 0; i < b->p->nvars; i++) {
        struct branch_table *t = branch_add_table(b, &b->place[i], 1, b->p->nvars);
        memcpy(t->cost, b->p->vars[i].cost_s, (size_t)b->p->vars[i].nways * sizeof *t->cost);
    }
    for (int v = 0; v < b->p->graph->nvalues; v++)
        if (b->p->values[v].counts) branch_add_value(b, v);
    for (int place = b->p->nvars - 1; place >= 0; place--) branch_bucket(b, place);
    b->best = mt_new(&b->arena, int, b->p->nvars);
    int *at = mt_calloc((size_t)b->p->nvars + 1, sizeof *at);
    branch_search(b, at, 0);
    free(at);
}

static inline void branch_release(struct branch *b) {
    mt_arena_release(&b->arena);
}

#endif
