/* Recomputation: what backward makes again instead of keeping it.
 *
 * Values are marked before the graph is differentiated. While backward operators are added, an input that is marked is
 * made again by a copy of its operator, in front of the first that wants it; the copy's own inputs likewise. Dropout
 * draws by tag, step and element, so a copy drops the same elements.
 *
 * Segments are those of T. Chen, B. Xu, C. Zhang, C. Guestrin, "Training Deep Nets with Sublinear Memory Cost" (2016):
 * the forward pass is cut where a single value carries all that follows; those values are kept, and what lies between
 * two of them lives for one segment at a time. Of all ways to take every so many bytes' next cut, the one that holds
 * the least at once. What comes after the last cut is kept: backward begins with it. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "synth/graph/graph.h"

enum { KEPT = -1, DROPPED = -2 };

static bool pointwise(enum mt_op_kind kind) {
    /* Their gradients want their inputs, so those are there. */
    return kind == MT_OP_gelu || kind == MT_OP_relu || kind == MT_OP_norm_apply;
}

static void drop_pointwise(struct mt_graph *g) {
    for (int i = 0; i < g->nops; i++)
        for (int o = 0; o < g->ops[i].nout && pointwise(g->ops[i].kind); o++) g->again[g->ops[i].out[o]] = DROPPED;
}

static double value_bytes(const struct mt_graph *g, int value) {
    return (double)mt_value_count(g, value) * (double)mt_type_size(g->values[value].type);
}

/* Made by a forward operator of what is fed: not a weight's cast. */
static bool carried(const struct mt_graph *g, int value) {
    return g->values[value].kind == MT_VALUE_TEMP && mt_graph_param_of(g, value) < 0;
}

/* cut[i]: the one value that is used after operator i and was made before or by it; -1 where there are more. */
static void find_cuts(const struct mt_graph *g, int *cut) {
    int *last_use = mt_malloc((size_t)g->nvalues * sizeof *last_use), nlive = 0, *live;
    live = mt_malloc((size_t)g->nvalues * sizeof *live);
    for (int v = 0; v < g->nvalues; v++) last_use[v] = -1;
    for (int i = 0; i < g->nops; i++)
        for (int k = 0; k < g->ops[i].nin; k++) last_use[g->ops[i].in[k]] = i;
    for (int i = 0; i < g->nops; i++) {
        for (int o = 0; o < g->ops[i].nout; o++)
            if (carried(g, g->ops[i].out[o])) live[nlive++] = g->ops[i].out[o];
        int n = 0;
        for (int k = 0; k < nlive; k++)
            if (last_use[live[k]] > i) live[n++] = live[k];
        nlive = n;
        cut[i] = nlive == 1 ? live[0] : -1;
    }
    free(last_use);
    free(live);
}

/* Cut at the next place after every `every` bytes: the most that is held at once. Where `mark`, the values in between
 * are dropped. */
static double cut_every(struct mt_graph *g, const int *cut, double every, bool mark) {
    double kept = 0, segment = 0, most = 0;
    int begin = 0;
    for (int i = 0; i < g->nops; i++) {
        for (int o = 0; o < g->ops[i].nout; o++)
            if (carried(g, g->ops[i].out[o])) segment += value_bytes(g, g->ops[i].out[o]);
        if (cut[i] < 0 || segment < every) continue;
        for (int j = begin; j <= i && mark; j++)
            for (int o = 0; o < g->ops[j].nout; o++) {
                int v = g->ops[j].out[o];
                if (v != cut[i] && carried(g, v)) g->again[v] = DROPPED;
            }
        kept += value_bytes(g, cut[i]);
        most = fmax(most, segment);
        segment = 0;
        begin = i + 1;
    }
    return kept + fmax(most, segment);
}

static void drop_segments(struct mt_graph *g) {
    enum { TRIED = 512 };
    int *cut = mt_malloc((size_t)g->nops * sizeof *cut);
    double all = 0, best_bytes = INFINITY, best_every = INFINITY;
    for (int v = 0; v < g->nvalues; v++)
        if (carried(g, v)) all += value_bytes(g, v);
    find_cuts(g, cut);
    for (int n = 1; n <= TRIED; n++) {
        double bytes = cut_every(g, cut, all / n, false);
        if (bytes < best_bytes) best_bytes = bytes, best_every = all / n;
    }
    cut_every(g, cut, best_every, true);
    free(cut);
}

void mt_graph_recompute(struct mt_graph *graph, enum mt_recompute what) {
    static void (*const drop[MT_NRECOMPUTE])(struct mt_graph * g) = {
        [MT_RECOMPUTE_POINTWISE] = drop_pointwise, [MT_RECOMPUTE_SEGMENTS] = drop_segments};
    assert(!graph->again && graph->role == MT_ROLE_FORWARD);
    if (what == MT_RECOMPUTE_NONE) return;
    graph->again = mt_new(&graph->arena, int, graph->nvalues);
    graph->nagain = graph->nvalues;
    for (int v = 0; v < graph->nvalues; v++) graph->again[v] = KEPT;
    drop[what](graph);
}

int mt_graph_recomputed(struct mt_graph *g, int value) {
    if (value >= g->nagain || g->again[value] == KEPT) return value;
    if (g->again[value] >= 0) return g->again[value];
    struct mt_op op = g->ops[g->values[value].producer]; /* a copy: the vector grows */
    for (int o = 0; o < op.nout; o++) {
        struct mt_value made = g->values[op.out[o]];
        int copy = mt_graph_value(g, mt_arena_printf(&g->arena, "%s/again", made.name), MT_VALUE_TEMP, made.type,
                                  made.naxes, made.label);
        /* one that is kept stays what others want */
        if (g->again[op.out[o]] == DROPPED) g->again[op.out[o]] = copy;
        op.out[o] = copy;
    }
    mt_graph_op(g, mt_arena_printf(&g->arena, "%s/again", op.name), &op);
    return g->again[value];
}
