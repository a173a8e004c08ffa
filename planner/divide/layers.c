/* From programs with few layers to those with all.
 *
 * Layers are alike: each adds the same operators, messages, state and activations. So programs are looked for with a
 * few layers, and what a step takes and a rank holds with all of them is extrapolated from two such numbers of layers:
 *
 *     all = some + (some - few) (all - some) / (some - few)
 *
 * Segments of recomputation are the exception: of many layers they keep less. What is kept of the forward pass counts
 * by what the graph with all layers keeps. Only a program with all layers is a plan; the figures here decide which are
 * worth being built. */
#include <math.h>
#include <string.h>

#include "planner/balance/split.h"
#include "planner/divide/internal.h"
#include "planner/plan/choice.h"
#include "synth/ops/ops.h"

double mt_divide_of_all(const struct mt_divide_layers *layers, double few, double some) {
    double more = (double)(layers->all - layers->some) / (double)(layers->some - layers->few);
    return fmax(0, some + more * (some - few));
}

void mt_divide_begin_layers(const struct mt_dividing *d, struct mt_divide *divide, struct mt_divide_found *found,
                            struct mt_dividing *some) {
    const struct mt_divide_layers *layers = d->divide->layers;
    *divide = *d->divide;
    divide->graph = layers->some_graph;
    divide->layers = NULL;
    *found = (struct mt_divide_found){.ncandidates = 0};
    *some = *d;
    some->divide = divide;
    some->found = found;
    some->arena = &found->arena;
    some->layers = layers;
    some->kind = mt_new(some->arena, enum mt_label_kind, divide->graph->nlabels);
    mt_label_kinds(divide->graph, some->kind);
    double saved = mt_divide_of_all(layers, mt_divide_saved(layers->few_graph), mt_divide_saved(layers->some_graph));
    some->saved_more = saved > 0 ? mt_divide_saved(d->divide->graph) / saved : 1;
    some->priced_more = mt_graph_flops(d->divide->graph) / mt_graph_flops(layers->some_graph);
}

enum mt_status mt_divide_few(struct mt_dividing *d, const struct mt_divided *c, struct mt_arena *arena,
                             struct mt_choice *few, struct mt_err *err) {
    return mt_choice_from_plan(d->layers->few_graph, c->plan, false, arena, few, err);
}

/* The part of a rank's samples that a micro-batch has. */
static double part_of(const struct mt_dividing *d, const struct mt_choice *choice, int rank) {
    int64_t samples = mt_divide_samples(d, choice, rank);
    return samples > 0 ? (double)choice->micro[rank] / (double)samples : 0;
}

enum mt_status mt_divide_extrapolate(struct mt_dividing *d, struct mt_divided *c, const struct mt_prediction *few,
                                     struct mt_err *err) {
    const struct mt_divide_layers *layers = d->layers;
    struct mt_arena scratch = MT_ARENA_INIT;
    struct mt_choice choice;
    int n = d->nranks;
    double *saved = mt_new(&scratch, double, 2 * n), *fixed = mt_new(&scratch, double, n);
    enum mt_status st = mt_divide_few(d, c, &scratch, &choice, err);
    if (!st) {
        mt_divide_held(d, layers->few_graph, &choice, saved, fixed);
        mt_divide_held(d, layers->some_graph, &c->choice, saved + n, fixed);
    }
    c->prediction.step_s = mt_divide_of_all(layers, few->step_s, c->prediction.step_s);
    for (int r = 0; r < n && !st; r++) {
        const struct mt_rank_prediction *a = &few->ranks[r];
        struct mt_rank_prediction *b = &c->prediction.ranks[r];
        double kept = part_of(d, &c->choice, r) * mt_divide_of_all(layers, saved[r], saved[n + r]);
        double arena = mt_divide_of_all(layers, (double)a->arena_bytes, (double)b->arena_bytes);
        b->compute_s = mt_divide_of_all(layers, a->compute_s, b->compute_s);
        b->comm_s = mt_divide_of_all(layers, a->comm_s, b->comm_s);
        b->exposed_s = mt_divide_of_all(layers, a->exposed_s, b->exposed_s);
        b->idle_s = mt_divide_of_all(layers, a->idle_s, b->idle_s);
        b->state_bytes = (int64_t)mt_divide_of_all(layers, (double)a->state_bytes, (double)b->state_bytes);
        b->arena_bytes = (int64_t)fmax(arena + (d->saved_more - 1) * kept, (double)b->state_bytes);
    }
    mt_arena_release(&scratch);
    return st;
}

struct mt_divided *mt_divide_with_all(struct mt_dividing *d, const struct mt_divided *c) {
    struct mt_err ignored = MT_ERR_INIT;
    struct mt_divided all = *c;
    struct mt_arena scratch = MT_ARENA_INIT;
    struct mt_divided *made = NULL;
    all.plan = NULL;
    if (!mt_choice_from_plan(d->divide->graph, c->plan, false, &scratch, &all.choice, &ignored)) {
        all.choice.decisions = c->choice.decisions;
        all.choice.mesh = d->mesh;
        all.choice.node = d->divide->node;
        made = mt_divide_copy(d, &all);
        for (int s = 0; s < made->choice.nsplits; s++)
            made->splits[s].name = mt_arena_strdup(d->arena, made->splits[s].name);
        made->count = c->count;
        made->settled = c->settled;
    }
    mt_arena_release(&scratch);
    return made;
}
