/* Recomputation (activation checkpointing): forward values that backward computes a second time instead of keeping
 * them.
 *
 * Values are marked before the graph is differentiated. A backward operator that reads a marked value gets a copy of
 * the value's operator in front of it, and so do the copy's own inputs; later readers share the copy. Dropout draws by
 * tag, step and element, so that a copy drops the same elements.
 *
 * Segments: T. Chen, B. Xu, C. Zhang, C. Guestrin, "Training Deep Nets with Sublinear Memory Cost" (2016). The forward
 * pass is cut where a single value carries all that follows. Those values are kept; the values between two cuts are
 * dropped and live for one segment at a time. The pass is cut at the first cut after every B bytes, for B = all bytes
 * / 1 ... / 512; the B that holds the fewest bytes at once is taken. What comes after the last cut is kept, because
 * backward begins with it. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "synth/graph/graph.h"

enum { KEPT = -1, DROPPED = -2 };

static void drop_pointwise(struct mt_graph *g) {
    for (int i = 0; i < g->nops; i++)
        for (int o = 0; o < g->ops[i].nout && g->ops[i].cheap; o++) g->recomputed[g->ops[i].out[o]] = DROPPED;
}

/* Parts of a value are read in place by the kernels that lowering makes. */
static double value_bytes(const struct mt_graph *g, int value) {
    int producer = g->values[value].producer;
    if (producer >= 0 && g->ops[producer].kind == MT_OP_separate) return 0;
    return (double)mt_value_count(g, value) * (double)mt_type_size(g->values[value].type);
}

/* An activation: neither fed nor kept, nor a cast of a weight. */
static bool is_activation(const struct mt_graph *g, int value) {
    return g->values[value].kind == MT_VALUE_TEMP && mt_graph_param_of(g, value) < 0;
}

/* cut[i]: the only activation that is live after operator i; -1 where there are more. */
static void find_cuts(const struct mt_graph *g, int *cut) {
    int *last_use = mt_malloc((size_t)g->nvalues * sizeof *last_use), nlive = 0, *live;
    live = mt_malloc((size_t)g->nvalues * sizeof *live);
    for (int v = 0; v < g->nvalues; v++) last_use[v] = -1;
    for (int i = 0; i < g->nops; i++)
        for (int k = 0; k < g->ops[i].nin; k++) last_use[g->ops[i].in[k]] = i;
    for (int i = 0; i < g->nops; i++) {
        for (int o = 0; o < g->ops[i].nout; o++)
            if (is_activation(g, g->ops[i].out[o])) live[nlive++] = g->ops[i].out[o];
        int n = 0;
        for (int k = 0; k < nlive; k++)
            if (last_use[live[k]] > i) live[n++] = live[k];
        nlive = n;
        cut[i] = nlive == 1 ? live[0] : -1;
    }
    free(last_use);
    free(live);
}

/* Cut at the first place after every `every` bytes; returns the bytes that are held at once at most. With `mark` the
 * values between cuts are marked as dropped. */
static double cut_every(struct mt_graph *g, const int *cut, double every, bool mark) {
    double kept = 0, segment = 0, most = 0;
    int begin = 0;
    for (int i = 0; i < g->nops; i++) {
        for (int o = 0; o < g->ops[i].nout; o++)
            if (is_activation(g, g->ops[i].out[o])) segment += value_bytes(g, g->ops[i].out[o]);
        if (cut[i] < 0 || segment < every) continue;
        for (int j = begin; j <= i && mark; j++)
            for (int o = 0; o < g->ops[j].nout; o++) {
                int v = g->ops[j].out[o];
                if (v != cut[i] && is_activation(g, v)) g->recomputed[v] = DROPPED;
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
        if (is_activation(g, v)) all += value_bytes(g, v);
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
    assert(!graph->recomputed && graph->role == MT_ROLE_FORWARD);
    if (what == MT_RECOMPUTE_NONE) return;
    graph->recomputed = mt_new(&graph->arena, int, graph->nvalues);
    graph->nrecomputed = graph->nvalues;
    for (int v = 0; v < graph->nvalues; v++) graph->recomputed[v] = KEPT;
    drop[what](graph);
}

int mt_graph_recomputed(struct mt_graph *g, int value) {
    if (value >= g->nrecomputed || g->recomputed[value] == KEPT) return value;
    if (g->recomputed[value] >= 0) return g->recomputed[value];
    struct mt_op op = g->ops[g->values[value].producer]; /* a copy: the vector grows */
    for (int o = 0; o < op.nout; o++) {
        struct mt_value original = g->values[op.out[o]];
        int copy = mt_graph_value(g, mt_arena_printf(&g->arena, "%s/again", original.name), MT_VALUE_TEMP,
                                  original.type, original.naxes, original.label);
        /* an output that is kept: its readers go on reading the original */
        if (g->recomputed[op.out[o]] == DROPPED) g->recomputed[op.out[o]] = copy;
        op.out[o] = copy;
    }
    for (int i = 0; i < op.nin; i++) op.in[i] = mt_graph_recomputed(g, op.in[i]);
    mt_graph_op(g, mt_arena_printf(&g->arena, "%s/again", op.name), &op);
    return g->recomputed[value];
}
