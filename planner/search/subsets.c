/* Subsets of the ranks that are worth a search, by quick estimates.
 *
 * A subset is a number of ranks for each cell (order.c). Of few ranks all subsets are listed, once for those that equal
 * nodes make equal. Of more, a local search by screening: from all ranks, single nodes, kinds of nodes, device classes,
 * the fastest ranks and single ranks; a move adds or drops nodes of a kind, a class, or ranks of a kind on all nodes of
 * a type; until no move makes the estimate shorter. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/search/internal.h"

enum { FEW_RANKS = 4, MOST_STARTS = 2, MOST_ROUNDS = 40 };
static const double better = 0.999; /* what a move must make of the estimate */

static bool full(const struct search_subsets *u) {
    return u->count >= u->most || mt_now_s() > u->whole->end_s;
}

static int ranks_in(const struct search_subsets *u, const int *of_cell) {
    int n = 0;
    for (int c = 0; c < u->places->ncells; c++) n += of_cell[c];
    return n;
}

/* The places of a subset, in order. */
int mt_search_subset_places(const struct search_places *p, const int *of_cell, int *places) {
    int n = 0;
    for (int c = 0; c < p->ncells; c++)
        for (int i = 0; i < of_cell[c]; i++) places[n++] = p->cells[c].first + i;
    return n;
}

/* Estimate it, or say that it is no less than give_up_s. */
static enum mt_status screen(struct search_subsets *u, struct search_subset *subset) {
    int *places = mt_calloc((size_t)subset->n, sizeof *places);
    mt_search_subset_places(u->places, subset->of_cell, places);
    enum mt_status st =
        mt_search_screen(u->whole, places, subset->n, u->give_up_s, &subset->screen_s, &subset->bounded);
    free(places);
    return st;
}

/* Screen a subset, once. Returns its index, or -1 where there is none such. */
int mt_search_subset_add(struct search_subsets *u, const int *of_cell, enum mt_status *st) {
    const struct search_places *p = u->places;
    size_t bytes = (size_t)p->ncells * sizeof *of_cell;
    int n = ranks_in(u, of_cell);
    if (!n || *st) return -1;
    for (int i = 0; i < u->count; i++)
        if (u->items[i].n == n && !memcmp(u->items[i].of_cell, of_cell, bytes)) {
            if (u->items[i].bounded && u->items[i].screen_s < u->give_up_s) *st = screen(u, &u->items[i]);
            return *st ? -1 : i;
        }
    struct search_subset subset = {.n = n, .of_cell = mt_arena_memdup(u->arena, of_cell, bytes), .step_s = INFINITY};
    if (u->screened) *st = screen(u, &subset);
    if (*st) return -1;
    mt_arena_grow(u->arena, &u->items, u->count, &u->capacity, sizeof *u->items);
    u->items[u->count] = subset;
    return u->count++;
}

/* ---- few ranks ---- */

/* Whether each node has no more than the equal node before it: cell by cell, at the first difference. */
static bool first_of_equals(const struct search_places *p, const int *of_cell) {
    for (int node = 1; node < p->nnodes; node++) {
        if (p->type[node] != p->type[node - 1]) continue;
        int cells = p->node_cell[node + 1] - p->node_cell[node];
        for (int i = 0; i < cells; i++) {
            int before = of_cell[p->node_cell[node - 1] + i], mine = of_cell[p->node_cell[node] + i];
            if (mine > before) return false;
            if (mine < before) break;
        }
    }
    return true;
}

static void list_all(struct search_subsets *u, enum mt_status *st) {
    const struct search_places *p = u->places;
    int *of_cell = mt_calloc((size_t)p->ncells, sizeof *of_cell);
    for (int c = 0; c < p->ncells && !*st;) {
        if (first_of_equals(p, of_cell)) mt_search_subset_add(u, of_cell, st);
        for (c = 0; c < p->ncells && of_cell[c] == p->cells[c].count; c++) of_cell[c] = 0;
        if (c < p->ncells) of_cell[c]++;
    }
    free(of_cell);
}

/* ---- starts ---- */

static int class_of(const struct search_subsets *u, int cell) {
    const struct mt_costs *costs = &u->whole->costs;
    return costs->cluster->devices[costs->device[u->places->cells[cell].first]].class;
}

/* Only the MOST_STARTS least estimates are of interest. */
static void add_start(struct search_subsets *u, const int *of_cell, enum mt_status *st) {
    double least_s[MOST_STARTS];
    for (int k = 0; k < MOST_STARTS; k++) least_s[k] = INFINITY;
    for (int i = 0; i < u->count; i++) {
        double s = u->items[i].screen_s;
        for (int k = 0; k < MOST_STARTS; k++) {
            double other = least_s[k];
            if (s < other) least_s[k] = s, s = other;
        }
    }
    u->give_up_s = least_s[MOST_STARTS - 1];
    if (!full(u)) mt_search_subset_add(u, of_cell, st);
}

/* All of the cells for which `chosen`. */
static void add_cells(struct search_subsets *u, const bool *chosen, enum mt_status *st) {
    int *of_cell = mt_calloc((size_t)u->places->ncells, sizeof *of_cell);
    for (int c = 0; c < u->places->ncells; c++) of_cell[c] = chosen[c] ? u->places->cells[c].count : 0;
    add_start(u, of_cell, st);
    free(of_cell);
}

static void add_nodes(struct search_subsets *u, bool *chosen, enum mt_status *st) {
    const struct search_places *p = u->places;
    for (int type = 0; type < p->ntypes; type++) {
        memset(chosen, 0, (size_t)p->ncells * sizeof *chosen);
        for (int node = 0, n = 0; node < p->nnodes; node++) {
            if (p->type[node] != type) continue;
            for (int c = p->node_cell[node]; c < p->node_cell[node + 1]; c++) chosen[c] = true;
            if (!n++) add_cells(u, chosen, st);
        }
        add_cells(u, chosen, st);
    }
}

/* Classes, alone and the fastest together; and a rank of each kind alone. */
static void add_classes(struct search_subsets *u, bool *chosen, enum mt_status *st) {
    const struct search_places *p = u->places;
    int nclasses = u->whole->costs.cluster->nclasses;
    bool *done = mt_calloc((size_t)nclasses, sizeof *done), *together = mt_calloc((size_t)p->ncells, sizeof *together);
    int *of_cell = mt_calloc((size_t)p->ncells, sizeof *of_cell);
    for (;;) {
        int fastest = -1;
        double most = -1;
        for (int c = 0; c < p->ncells; c++) {
            double speed = mt_search_class_speed(u->whole, u->whole->class[p->cells[c].first]);
            if (!done[class_of(u, c)] && speed > most) most = speed, fastest = c;
        }
        if (fastest < 0) break;
        done[class_of(u, fastest)] = true;
        for (int c = 0; c < p->ncells; c++) {
            chosen[c] = class_of(u, c) == class_of(u, fastest);
            together[c] |= chosen[c];
        }
        add_cells(u, chosen, st);
        add_cells(u, together, st);
        memset(of_cell, 0, (size_t)p->ncells * sizeof *of_cell);
        of_cell[fastest] = 1;
        add_start(u, of_cell, st);
    }
    free(done);
    free(together);
    free(of_cell);
}

/* ---- moves ---- */

struct move {
    struct search_subsets *u;
    const int *from;
    int *to;
    int best;       /* index of the best neighbour */
    double worth_s; /* a move to what is not less is not worth it */
    enum mt_status *st;
};

static void begin_move(struct move *m) {
    memcpy(m->to, m->from, (size_t)m->u->places->ncells * sizeof *m->to);
}

static void end_move(struct move *m) {
    if (full(m->u)) return;
    m->u->give_up_s = m->worth_s;
    if (m->best >= 0) m->u->give_up_s = fmin(m->worth_s, m->u->items[m->best].screen_s);
    int i = mt_search_subset_add(m->u, m->to, m->st);
    if (i >= 0 && (m->best < 0 || m->u->items[i].screen_s < m->u->items[m->best].screen_s)) m->best = i;
}

static bool is_used(const struct search_places *p, const int *of_cell, int node) {
    for (int c = p->node_cell[node]; c < p->node_cell[node + 1]; c++)
        if (of_cell[c]) return true;
    return false;
}

/* So many nodes of a type: the first of them, full where they were not used. */
static void use_nodes(struct move *m, int type, int want) {
    const struct search_places *p = m->u->places;
    begin_move(m);
    for (int node = 0, n = 0; node < p->nnodes; node++) {
        if (p->type[node] != type) continue;
        bool used = is_used(p, m->from, node);
        for (int c = p->node_cell[node]; c < p->node_cell[node + 1]; c++)
            m->to[c] = n >= want ? 0 : used ? m->from[c] : p->cells[c].count;
        n++;
    }
    end_move(m);
}

static void move_nodes(struct move *m) {
    const struct search_places *p = m->u->places;
    for (int type = 0; type < p->ntypes; type++) {
        int used = 0, all = 0;
        for (int node = 0; node < p->nnodes; node++)
            if (p->type[node] == type) all++, used += is_used(p, m->from, node);
        const int want[] = {0, used / 2, used - 1, used + 1, 2 * used, all};
        for (size_t i = 0; i < sizeof want / sizeof *want; i++)
            if (want[i] >= 0 && want[i] <= all && want[i] != used) use_nodes(m, type, want[i]);
    }
}

/* So many ranks of the cell at index `at` of all nodes of a type that are used; all nodes where none is. */
static void use_ranks(struct move *m, int type, int at, int want) {
    const struct search_places *p = m->u->places;
    bool any = false;
    for (int node = 0; node < p->nnodes; node++) any |= p->type[node] == type && is_used(p, m->from, node);
    begin_move(m);
    for (int node = 0; node < p->nnodes; node++)
        if (p->type[node] == type && (!any || is_used(p, m->from, node))) m->to[p->node_cell[node] + at] = want;
    end_move(m);
}

static void move_ranks(struct move *m) {
    const struct search_places *p = m->u->places;
    for (int type = 0; type < p->ntypes; type++) {
        int node = 0;
        while (p->type[node] != type) node++; /* the first is used if any is */
        for (int at = 0; at < p->node_cell[node + 1] - p->node_cell[node]; at++) {
            int used = m->from[p->node_cell[node] + at], all = p->cells[p->node_cell[node] + at].count;
            const int want[] = {0, used / 2, used - 1, used + 1, 2 * used, all};
            for (size_t i = 0; i < sizeof want / sizeof *want; i++)
                if (want[i] >= 0 && want[i] <= all && want[i] != used) use_ranks(m, type, at, want[i]);
        }
    }
}

static void move_classes(struct move *m) {
    const struct search_places *p = m->u->places;
    for (int class = 0; class < m->u->whole->costs.cluster->nclasses; class ++)
        for (int all = 0; all < 2; all++) {
            bool changed = false;
            begin_move(m);
            for (int c = 0; c < p->ncells; c++) {
                if (class_of(m->u, c) != class) continue;
                m->to[c] = all ? p->cells[c].count : 0;
                changed |= m->to[c] != m->from[c];
            }
            if (changed) end_move(m);
        }
}

static void descend(struct search_subsets *u, int at, enum mt_status *st) {
    int *from = mt_calloc((size_t)u->places->ncells, sizeof *from),
        *to = mt_calloc((size_t)u->places->ncells, sizeof *to);
    for (int round = 0; round < MOST_ROUNDS && !full(u) && !*st; round++) {
        struct move m = {.u = u, .from = from, .to = to, .best = -1, .st = st};
        m.worth_s = better * u->items[at].screen_s;
        memcpy(from, u->items[at].of_cell, (size_t)u->places->ncells * sizeof *from);
        move_nodes(&m);
        move_classes(&m);
        move_ranks(&m);
        if (m.best < 0 || !(u->items[m.best].screen_s < m.worth_s)) break;
        at = m.best;
    }
    free(from);
    free(to);
}

/* ---- the whole ---- */

static int by_screen(const void *a, const void *b) {
    const struct search_subset *x = a, *y = b;
    if (x->screen_s != y->screen_s) return x->screen_s < y->screen_s ? -1 : 1;
    return y->n - x->n;
}

enum mt_status mt_search_complete_subsets(struct search_subsets *u, double most_s) {
    enum mt_status st = MT_OK;
    u->give_up_s = INFINITY;
    for (int i = 0; i < u->count && !st; i++)
        if (u->items[i].bounded && u->items[i].screen_s <= most_s) st = screen(u, &u->items[i]);
    if (u->count) qsort(u->items, (size_t)u->count, sizeof *u->items, by_screen);
    return st;
}

enum mt_status mt_search_list_subsets(struct search_subsets *u) {
    const struct search_places *p = u->places;
    enum mt_status st = MT_OK;
    bool *chosen = mt_new(u->arena, bool, p->ncells);
    u->screened = true;
    u->give_up_s = INFINITY;
    if (p->n <= FEW_RANKS) {
        list_all(u, &st);
    } else {
        int *all = mt_new(u->arena, int, p->ncells);
        for (int c = 0; c < p->ncells; c++) all[c] = p->cells[c].count;
        mt_search_subset_add(u, all, &st); /* however little time there is */
        add_nodes(u, chosen, &st);
        add_classes(u, chosen, &st);
        qsort(u->items, (size_t)u->count, sizeof *u->items, by_screen);
        for (int i = 0; i < MOST_STARTS && i < u->count && !st; i++) descend(u, i, &st);
    }
    double least_s = INFINITY;
    for (int i = 0; i < u->count; i++)
        if (!u->items[i].bounded) least_s = fmin(least_s, u->items[i].screen_s);
    return st ? st : mt_search_complete_subsets(u, SEARCH_NEAR * least_s);
}
