/* Lists of NCCL's calls for hierarchical collectives. */
#include "kernels/coll/nccl_nodes.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/coll/nodes.h"

struct maker {
    struct mt_nodes nodes;
    struct mt_nccl_list *list;
    struct mt_arena scratch;
    const int64_t **bounds; /* [nodes]: of the current cell */
    int *places;            /* [nodes]: of an interval */
};

static bool has_lists(enum mt_coll_kind kind) {
    return kind == MT_ALL_REDUCE || kind == MT_REDUCE_SCATTER || kind == MT_ALL_GATHER;
}

bool mt_nccl_runs(const struct mt_coll_algorithm *algorithm) {
    return algorithm == mt_coll_of_nccl(algorithm->kind) ||
           (has_lists(algorithm->kind) && algorithm == mt_coll_find(algorithm->kind, "hierarchical"));
}

bool mt_nccl_by_node(const struct mt_coll *problem) {
    return has_lists(problem->kind) && mt_nodes_apply(problem);
}

/* The number of a group of ranks, added if it is new. */
static int group_of(struct maker *m, const int *places, int n, int me) {
    struct mt_nccl_list *list = m->list;
    for (int g = 0; g < list->ngroups; g++)
        if (list->groups[g].n == n && !memcmp(list->groups[g].places, places, (size_t)n * sizeof *places)) return g;
    mt_arena_grow(&list->arena, &list->groups, list->ngroups, &list->groups_capacity, sizeof *list->groups);
    int *copy = mt_arena_memdup(&list->arena, places, (size_t)n * sizeof *places);
    list->groups[list->ngroups] = (struct mt_nccl_ranks){n, me, copy};
    return list->ngroups++;
}

static void add_call(struct maker *m, struct mt_nccl_call call) {
    struct mt_nccl_list *list = m->list;
    mt_arena_grow(&list->arena, &list->calls, list->ncalls, &list->calls_capacity, sizeof call);
    list->calls[list->ncalls++] = call;
}

/* A call for each contiguous run of elements [lo, hi) of a cell. */
static void add_calls(struct maker *m, const struct mt_cell *cell, struct mt_nccl_call like, int64_t lo, int64_t hi) {
    for (; lo < hi; lo += like.count) {
        like.count = mt_cell_run(&m->nodes, cell, lo, hi, &like.at);
        add_call(m, like);
    }
}

static void find_bounds(struct maker *m, const struct mt_cell *cell) {
    for (int j = 0; j < m->nodes.n; j++) m->bounds[j] = mt_cell_bounds(&m->nodes, cell, j);
}

/* Within this rank's node: `native` on all slices, or `rooted` on each. */
static void add_within(struct maker *m, const struct mt_cell *cell, enum mt_nccl_op native, enum mt_nccl_op rooted) {
    const struct mt_nodes *nodes = &m->nodes;
    int members = mt_nodes_members(nodes, nodes->mine);
    if (members < 2 || !cell->length) return;
    find_bounds(m, cell);
    const int64_t *slice = m->bounds[nodes->mine];
    int group = group_of(m, &nodes->places[nodes->first[nodes->mine]], members, nodes->at);
    int64_t each = slice[1] - slice[0], at;
    bool even = mt_cell_run(nodes, cell, 0, cell->length, &at) == cell->length;
    for (int q = 0; q < members; q++) even = even && slice[q + 1] - slice[q] == each;
    if (even)
        add_call(m, (struct mt_nccl_call){native, group, 0, at, each});
    else
        for (int q = 0; q < members; q++)
            add_calls(m, cell, (struct mt_nccl_call){.op = rooted, .group = group, .root = q}, slice[q], slice[q + 1]);
}

/* Across nodes: the intervals of this rank's slice, with the ranks that have them on all nodes. */
static void add_across(struct maker *m, const struct mt_cell *cell, enum mt_nccl_op op) {
    const struct mt_nodes *nodes = &m->nodes;
    find_bounds(m, cell);
    const int64_t *slice = &m->bounds[nodes->mine][nodes->at];
    for (int64_t lo = slice[0], hi; lo < slice[1]; lo = hi) {
        hi = slice[1];
        for (int j = 0; j < nodes->n; j++) { /* the member that has element lo; the interval ends with its slice */
            int low = 0, high = mt_nodes_members(nodes, j);
            while (high - low > 1) {
                int middle = (low + high) / 2;
                if (m->bounds[j][middle] <= lo)
                    low = middle;
                else
                    high = middle;
            }
            if (m->bounds[j][low + 1] < hi) hi = m->bounds[j][low + 1];
            m->places[j] = nodes->places[nodes->first[j] + low];
        }
        struct mt_nccl_call call = {.op = op, .root = cell->owner < 0 ? 0 : cell->owner};
        call.group = group_of(m, m->places, nodes->n, nodes->mine);
        add_calls(m, cell, call, lo, hi);
    }
}

void mt_nccl_list(const struct mt_coll *problem, struct mt_nccl_list *list) {
    *list = (struct mt_nccl_list){.ngroups = 0};
    struct maker m = {.list = list};
    m.nodes = mt_nodes_of(problem, &m.scratch);
    m.bounds = mt_new(&m.scratch, const int64_t *, m.nodes.n);
    m.places = mt_new(&m.scratch, int, m.nodes.n);
    bool whole = problem->kind == MT_ALL_REDUCE, gathers = problem->kind == MT_ALL_GATHER;
    enum mt_nccl_op across = whole ? MT_NCCL_ALL_REDUCE : gathers ? MT_NCCL_BROADCAST : MT_NCCL_REDUCE;
    for (int phase = 0; phase < MT_NCCL_PHASES; phase++) {
        for (int j = 0; j < (whole ? 1 : m.nodes.n); j++) {
            struct mt_cell cell = whole ? mt_cell_even(&m.nodes, 1, 0) : mt_cell_owned(&m.nodes, j, 0, 1);
            if (phase == 0 && !gathers) add_within(&m, &cell, MT_NCCL_REDUCE_SCATTER, MT_NCCL_REDUCE);
            if (phase == 1) add_across(&m, &cell, across);
            if (phase == 2 && (whole || gathers)) add_within(&m, &cell, MT_NCCL_ALL_GATHER, MT_NCCL_BROADCAST);
        }
        list->phase_end[phase] = list->ncalls;
    }
    mt_arena_release(&m.scratch);
}

void mt_nccl_list_release(struct mt_nccl_list *list) {
    mt_arena_release(&list->arena);
    *list = (struct mt_nccl_list){.ngroups = 0};
}
