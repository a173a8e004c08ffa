/* Weights gathered for each layer (gather "layer").
 *
 * A layer is a run of operators of a block: as many as it takes until the weights that they want, and that no
 * rank-local step gives, are a full bucket (bucket.h), and those after it that want small weights only, so that a bias
 * is in the layer of its GEMM. Its weights are gathered together, one layer ahead: before the first operator that uses
 * a weight of the layer before. What was gathered is forgotten when a layer begins that does not use it, so that
 * weights take the memory of two buckets besides the shares; what the next layer uses too stays.
 *
 * Forward and backward pass are one sequence: the backward pass gathers again, in its own order. */
#include "synth/builder/internal.h"
#include "synth/ops/ops.h"

bool mt_builder_is_weight(const struct mt_builder *b, int gvalue) {
    return !mt_builder_has_batch(b->graph, gvalue) && !b->summed[gvalue] &&
           b->graph->values[gvalue].kind != MT_VALUE_INPUT;
}

bool mt_builder_gathers_layers(const struct mt_builder *b, enum mt_block_kind block) {
    return b->choice->decisions.gather == MT_GATHER_LAYER && (block == MT_BODY || block == MT_LAST);
}

static bool wants(const struct layer *layer, int gvalue, int layout) {
    for (int w = 0; w < layer->nweights; w++)
        if (layer->weights[w].value == gvalue && (layout < 0 || layer->weights[w].layout == layout)) return true;
    return false;
}

/* Add a weight to the last layer; one that the layer before has is kept. */
static void add_weight(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block) {
    struct layer *l = &b->layers[b->nlayers - 1];
    bool kept = b->nlayers > 1 && wants(l - 1, gvalue, layout);
    mt_arena_grow(&b->scratch, &l->weights, l->nweights, &l->capacity, sizeof *l->weights);
    struct pending *at = &l->weights[l->nweights++];
    if (kept) *at = l->weights[l->nkept], at = &l->weights[l->nkept++];
    *at = (struct pending){gvalue, layout, block, MT_COVERS_ALL, layout};
}

enum { SMALL_PART = 16 }; /* a weight of less than this part of a bucket joins a full layer */

static void begin_layer(struct mt_builder *b, int op) {
    mt_arena_grow(&b->scratch, &b->layers, b->nlayers, &b->layers_capacity, sizeof *b->layers);
    b->layers[b->nlayers++] = (struct layer){.first = op};
}

enum mt_status mt_builder_plan_layers(struct mt_builder *b, enum mt_block_kind block) {
    const struct mt_graph *g = b->graph;
    struct mt_bucketing bucketing;
    bool full = false;
    mt_bucketing_init(&bucketing, b->bucketing.bucket_bytes, b->bucketing.gradient_bytes, 0);
    b->nlayers = 0;
    b->layer = -1;
    for (int o = 0; o < g->nops; o++) {
        if (!mt_builder_includes(b, o) || b->classes[o] != MT_SAMPLE) continue;
        struct mt_rule rule = mt_builder_rule(b, o, block);
        bool closes = false;
        for (int i = 0; i < g->ops[o].nin && rule.kind != MT_RULE_LINEAR; i++) {
            int v = g->ops[o].in[i], layout;
            if (!mt_builder_is_weight(b, v)) continue;
            enum mt_status st = mt_builder_ensure(b, v, -1, block);
            if (st) return st;
            layout = mt_builder_wanted(b, o, &rule, i, block);
            if (layout < 0) continue; /* the operator is refused when it is emitted */
            if (b->nlayers && wants(&b->layers[b->nlayers - 1], v, layout)) continue;
            if (mt_builder_is_near(b, v, layout, block)) continue;
            int64_t bytes = mt_value_count(g, v) * mt_type_size(g->values[v].type);
            if (!b->nlayers || (full && bytes >= bucketing.bucket_bytes / SMALL_PART)) {
                begin_layer(b, o);
                mt_bucketing_sent(&bucketing);
                full = false;
            }
            add_weight(b, v, layout, block);
            closes |= mt_bucketing_add(&bucketing, bytes, false);
        }
        full |= closes;
    }
    return MT_OK;
}

/* Forget what neither layer `first` nor the one after wants. */
static void forget_others(struct mt_builder *b, int first, enum mt_block_kind block) {
    int n = 0;
    for (int i = 0; i < b->ngathered; i++) {
        bool wanted = false;
        for (int l = first; l < first + 2 && l < b->nlayers; l++) wanted |= wants(&b->layers[l], b->gathered[i], -1);
        if (wanted)
            b->gathered[n++] = b->gathered[i];
        else
            mt_builder_drop(b, b->gathered[i], block);
    }
    b->ngathered = n;
}

static void gather_layer(struct mt_builder *b, int layer) {
    const struct layer *l = &b->layers[layer];
    mt_builder_send(b, l->weights + l->nkept, l->nweights - l->nkept);
}

void mt_builder_enter_layer(struct mt_builder *b, int op, enum mt_block_kind block) {
    int next = b->layer + 1;
    if (!mt_builder_gathers_layers(b, block) || next >= b->nlayers || b->layers[next].first != op) return;
    b->layer = next;
    forget_others(b, next, block);
    if (next == 0) gather_layer(b, 0);
    if (next + 1 < b->nlayers) gather_layer(b, next + 1);
}

void mt_builder_leave_layers(struct mt_builder *b, enum mt_block_kind block) {
    if (mt_builder_gathers_layers(b, block)) forget_others(b, b->nlayers, block);
}
