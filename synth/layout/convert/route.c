/* Routes: conversions of partial sums over a mesh that take two collectives, where a direct one would be an AllToAll of
 * every part of every rank.
 *
 *   reduce within nodes  the wanted boxes, with the nodes' parts: shares of a node's ranks that every node repeats
 *                        (ReduceScatter within nodes, then AllReduce over nodes)
 *   reduce over nodes    the boxes that are held, reduced; then they are gathered
 *
 * A route is taken if fewer bytes cross nodes, or as many and fewer bytes are received in all. */
#include "synth/layout/convert/route.h"

#include <stdlib.h>
#include <string.h>

struct router {
    struct mt_layouts *layouts;
    const struct mt_mesh *mesh;
};

struct traffic { /* bytes that all ranks receive, in elements */
    double across, all;
};

static struct mt_layout draft(const struct router *router, int like, struct mt_arena *arena) {
    const struct mt_layout *l = &router->layouts->items[like];
    int n = router->mesh->nranks;
    struct mt_layout made = {.naxes = l->naxes, .reduce = l->reduce, .nparts = 1};
    memcpy(made.extent, l->extent, sizeof made.extent);
    made.box = mt_arena_memdup(arena, l->box, (size_t)n * sizeof *l->box);
    made.part = mt_new(arena, int, n);
    return made;
}

/* Whether the boxes of each node's ranks, those that are equal counted once, are as large as the whole together. */
static bool nodes_have_all(const struct router *router, const struct mt_layout *l) {
    const struct mt_mesh *mesh = router->mesh;
    int64_t whole = 1;
    bool all = true;
    for (int a = 0; a < l->naxes; a++) whole *= l->extent[a];
    for (int k = 0; k < mesh->nnodes && all; k++) {
        int64_t sum = 0;
        for (int r = 0; r < mesh->nranks; r++) {
            bool first = mesh->node[r] == k;
            for (int s = 0; s < r && first; s++)
                first = mesh->node[s] != k || !mt_box_equal(&l->box[s], &l->box[r], l->naxes);
            if (first) sum += mt_box_count(&l->box[r], l->naxes);
        }
        all = sum == whole;
    }
    return all;
}

static int intern(const struct router *router, struct mt_layout *l) {
    struct mt_err none = MT_ERR_INIT;
    if (l->nparts == 1) l->reduce = MT_REDUCE_NONE;
    int layout = mt_layout_intern(router->layouts, l);
    return mt_layout_check(router->layouts, layout, &none) ? -1 : layout;
}

/* The boxes of `boxes`, with a part for each node of the partial sums of `from`. */
static int parts_of_nodes(const struct router *router, int from, const struct mt_box *boxes) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_layout l = draft(router, from, &arena);
    int layout = -1, n = router->mesh->nranks;
    memcpy(l.box, boxes, (size_t)n * sizeof *boxes);
    memcpy(l.part, router->mesh->node, (size_t)n * sizeof *l.part);
    l.nparts = router->mesh->nnodes;
    if (nodes_have_all(router, &l)) layout = intern(router, &l);
    mt_arena_release(&arena);
    return layout;
}

/* Their own boxes, complete. */
static int reduced(const struct router *router, int from) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_layout l = draft(router, from, &arena);
    int layout = intern(router, &l);
    mt_arena_release(&arena);
    return layout;
}

/* By a conversion of all but AllToAlls. */
static struct traffic traffic_of(const struct router *router, int from, int to) {
    const struct mt_layout *old = &router->layouts->items[from], *new = &router->layouts->items[to];
    int n = router->mesh->nranks, *group = mt_calloc((size_t)n, sizeof *group);
    enum mt_conversion kind = mt_layout_groups(router->layouts, from, to, group);
    struct traffic t = {0, 0};
    for (int r = 0; r < n; r++) {
        int members = 0, elsewhere = 0;
        for (int s = 0; s < n; s++) {
            members += group[s] == group[r];
            elsewhere += group[s] == group[r] && router->mesh->node[s] != router->mesh->node[r];
        }
        double before = (double)mt_box_count(&old->box[r], old->naxes),
               after = (double)mt_box_count(&new->box[r], new->naxes), bytes = 0;
        if (kind == MT_CONVERT_ALL_REDUCE) bytes = 2 * after * (members - 1) / members;
        if (kind == MT_CONVERT_REDUCE_SCATTER) bytes = after * (members - 1);
        if (kind == MT_CONVERT_ALL_GATHER) bytes = after - before;
        t.all += bytes;
        if (members > 1) t.across += bytes * elsewhere / (members - 1);
    }
    free(group);
    return t;
}

/* By an AllToAll to complete boxes: every part that the rank does not have, from its node if some rank there has it. */
static struct traffic traffic_of_exchange(const struct router *router, int from, int to) {
    const struct mt_layout *old = &router->layouts->items[from], *new = &router->layouts->items[to];
    int n = router->mesh->nranks;
    bool *near = mt_calloc((size_t)(router->mesh->nnodes * old->nparts), sizeof *near);
    struct traffic t = {0, 0};
    for (int r = 0; r < n; r++) near[router->mesh->node[r] * old->nparts + old->part[r]] = true;
    for (int r = 0; r < n; r++) {
        double count = (double)mt_box_count(&new->box[r], new->naxes);
        for (int p = 0; p < old->nparts; p++) {
            if (old->cover[p] != old->cover[old->part[r]] || p == old->part[r]) continue;
            t.all += count;
            if (!near[router->mesh->node[r] * old->nparts + p]) t.across += count;
        }
    }
    free(near);
    return t;
}

static bool is_exchange(const struct router *router, int from, int to) {
    return mt_layout_groups(router->layouts, from, to, NULL) == MT_CONVERT_ALL_TO_ALL;
}

int mt_layout_route(struct mt_layouts *layouts, const struct mt_mesh *mesh, int from, int to) {
    const struct router own = {layouts, mesh}, *router = &own;
    if (mesh->nnodes < 2 || mesh->nnodes == mesh->nranks || mt_layout_is_partial(&layouts->items[to]) ||
        !mt_layout_is_partial(&layouts->items[from]) || !is_exchange(router, from, to))
        return to;
    int hops[2] = {parts_of_nodes(router, from, router->layouts->items[to].box), reduced(router, from)}, best = to;
    struct traffic least = traffic_of_exchange(router, from, to);
    for (int h = 0; h < 2; h++) {
        if (hops[h] < 0 || is_exchange(router, from, hops[h]) || is_exchange(router, hops[h], to)) continue;
        struct traffic first = traffic_of(router, from, hops[h]), second = traffic_of(router, hops[h], to);
        struct traffic sum = {first.across + second.across, first.all + second.all};
        if (sum.across > least.across || (sum.across == least.across && sum.all >= least.all)) continue;
        least = sum;
        best = hops[h];
    }
    return best;
}

/* The axis on which boxes of a layout are not whole; or the longest. */
static int axis_to_divide(const struct mt_layout *l, int nranks) {
    int axis = 0;
    for (int a = 1; a < l->naxes; a++)
        if (l->extent[a] > l->extent[axis]) axis = a;
    for (int r = 0; r < nranks; r++)
        for (int a = 0; a < l->naxes; a++)
            if (mt_box_count(&l->box[r], l->naxes) && (l->box[r].lo[a] > 0 || l->box[r].hi[a] < l->extent[a])) return a;
    return axis;
}

int mt_layout_within_nodes(struct mt_layouts *layouts, const struct mt_mesh *mesh, int from, int to) {
    const struct router own = {layouts, mesh}, *router = &own;
    const struct mt_layout *wanted = &layouts->items[to];
    int n = mesh->nranks, layout = parts_of_nodes(router, from, wanted->box);
    bool replicated = true;
    for (int r = 1; r < n; r++) replicated &= mt_box_equal(&wanted->box[r], &wanted->box[0], wanted->naxes);
    if (layout >= 0 && !is_exchange(router, from, layout) && !(replicated && wanted->naxes)) return layout;
    if (!wanted->naxes) return layout;
    /* Even shares of each node's ranks. */
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_layout l = draft(router, from, &arena);
    int axis = axis_to_divide(wanted, n), *count = mt_new(&arena, int, mesh->nnodes);
    int *place = mt_new(&arena, int, n);
    for (int r = 0; r < n; r++) place[r] = count[mesh->node[r]]++;
    for (int r = 0; r < n; r++) {
        l.box[r] = (struct mt_box){{0}, {0}};
        for (int a = 0; a < l.naxes; a++) l.box[r].hi[a] = l.extent[a];
        l.box[r].lo[axis] = l.extent[axis] * place[r] / count[mesh->node[r]];
        l.box[r].hi[axis] = l.extent[axis] * (place[r] + 1) / count[mesh->node[r]];
    }
    layout = parts_of_nodes(router, from, l.box);
    mt_arena_release(&arena);
    return layout >= 0 && !is_exchange(router, from, layout) ? layout : -1;
}
