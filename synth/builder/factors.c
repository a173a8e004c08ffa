/* Gradients of weights from gathered factors.
 *
 * The gradient of a weight is a product that is summed over samples, dw = x^T dy. Where its rule does not divide the
 * samples, ranks gather x and dy from each other, rows (k + n) elements instead of the k n of a sum that is reduced,
 * and multiply: all of dw each, or only the part that they store, of which they then need those columns of dy (or x)
 * alone. (Xie et al., "Lighter-communication distributed machine learning via sufficient factor broadcasting", 2016;
 * Zhang et al., "Poseidon", 2017, chooses by layer.)
 *
 * Nothing but the update waits for such a product. It is put off: its factors wait in a bucket of their own, which is
 * sent when it holds half of those that wait or are to come in the block, but at least an eighth of a gradients'
 * bucket; and the product is computed when a later message has been sent, so that the backward pass goes on meanwhile.
 */
#include "synth/builder/internal.h"
#include "synth/ops/ops.h"

enum { LEAST_PART = 8 }; /* of a bucket */

bool mt_builder_divides_samples(const struct mt_builder *b, const struct mt_rule *rule) {
    if (rule->kind == MT_RULE_SPLIT && rule->split->label == b->graph->batch) return true;
    for (int k = 0; k < b->mesh.nnodes && rule->inner; k++)
        if (mt_builder_divides_samples(b, &rule->inner[k])) return true;
    return false;
}

/* Whether the operator is a product that sums over samples, and its rule does not divide them. */
static bool takes_all_samples(const struct mt_builder *b, int op, const struct mt_rule *rule) {
    const struct mt_op *o = &b->graph->ops[op];
    if (b->classes[op] != MT_SAMPLE || o->role != MT_ROLE_BACKWARD || !mt_op_repeats(o->kind)) return false;
    if (rule->kind == MT_RULE_LINEAR || mt_builder_divides_samples(b, rule)) return false;
    for (int i = 0; i < o->nout; i++)
        if (mt_builder_has_batch(b->graph, o->out[i])) return false;
    return true;
}

/* Whether all that is held of a value on samples is whole numbers in other layouts, which others must send. */
static bool is_elsewhere(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block) {
    bool elsewhere = false;
    for (int h = 0; h < b->nheld[gvalue]; h++) {
        int v = b->held[gvalue][h], held = b->program->values[v].layout;
        if (!mt_builder_usable(b, v, block) || mt_builder_is_partial(b, held)) continue;
        elsewhere |= mt_builder_conversion(b, held, layout, NULL) > MT_CONVERT_SLICE;
    }
    return elsewhere;
}

bool mt_builder_gathers_factors(struct mt_builder *b, int op, const struct mt_rule *rule, enum mt_block_kind block) {
    const struct mt_op *o = &b->graph->ops[op];
    bool gathers = false;
    if (!takes_all_samples(b, op, rule)) return false;
    for (int i = 0; i < o->nin; i++) {
        bool fed = b->graph->values[o->in[i]].kind == MT_VALUE_INPUT; /* in any layout */
        if (fed || !mt_builder_has_batch(b->graph, o->in[i])) continue;
        int layout = mt_builder_wanted(b, op, rule, i, block);
        gathers |= layout >= 0 && is_elsewhere(b, o->in[i], layout, block);
    }
    return gathers;
}

static int64_t bytes_of(const struct mt_builder *b, int gvalue) {
    return mt_value_count(b->graph, gvalue) * mt_type_size(b->graph->values[gvalue].type);
}

/* Nothing but updates takes its outputs, so that it need not be computed yet. */
static bool is_for_updates(const struct mt_builder *b, int op) {
    const struct mt_graph *g = b->graph;
    for (int i = 0; i < g->ops[op].nout; i++)
        for (int c = b->first_consumer[g->ops[op].out[i]]; c < b->first_consumer[g->ops[op].out[i] + 1]; c++)
            if (g->ops[b->consumers[c]].role != MT_ROLE_UPDATE) return false;
    return true;
}

void mt_builder_count_factors(struct mt_builder *b, enum mt_block_kind block) {
    const struct mt_graph *g = b->graph;
    b->coming_bytes = 0;
    for (int o = 0; o < g->nops && b->choice->batch; o++) {
        struct mt_rule rule = mt_builder_rule(b, o, block);
        if (!mt_builder_includes(b, o) || !is_for_updates(b, o) || !takes_all_samples(b, o, &rule)) continue;
        for (int i = 0; i < g->ops[o].nin; i++)
            if (g->values[g->ops[o].in[i]].producer >= 0) b->coming_bytes += bytes_of(b, g->ops[o].in[i]);
    }
}

/* How a factor becomes what is asked for, of what is held of it now. */
static enum mt_conversion conversion_of(struct mt_builder *b, const struct pending *p) {
    enum mt_conversion least = MT_NCONVERSIONS;
    for (int h = 0; h < b->nheld[p->value]; h++) {
        int v = b->held[p->value][h];
        if (!mt_builder_usable(b, v, p->block)) continue;
        enum mt_conversion kind = mt_builder_conversion(b, b->program->values[v].layout, p->layout, NULL);
        if (kind < least) least = kind;
    }
    return least;
}

/* Values that are sent alike follow each other. */
static void send_factors(struct mt_builder *b) {
    int n = b->nfactors, sorted = 0;
    struct pending *order = mt_new(&b->scratch, struct pending, n + 1);
    if (!n) return;
    for (int kind = 0; kind < MT_NCONVERSIONS; kind++)
        for (int i = 0; i < n; i++)
            if ((int)conversion_of(b, &b->factors[i]) == kind) order[sorted++] = b->factors[i];
    b->nfactors = 0;
    b->factor_bytes = 0;
    b->nsent++;
    mt_builder_send(b, order, sorted);
}

/* Ask for one factor. */
static enum mt_status ask_for(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block) {
    enum mt_status st = mt_builder_ensure(b, gvalue, layout, block);
    if (st || mt_builder_is_near(b, gvalue, layout, block)) return st;
    for (int i = 0; i < b->nfactors; i++)
        if (b->factors[i].value == gvalue && b->factors[i].layout == layout) return MT_OK;
    mt_arena_grow(&b->scratch, &b->factors, b->nfactors, &b->factors_capacity, sizeof *b->factors);
    b->factors[b->nfactors++] = (struct pending){gvalue, layout, block, b->sums, layout};
    b->factor_bytes += bytes_of(b, gvalue);
    return MT_OK;
}

enum mt_status mt_builder_put_off(struct mt_builder *b, int op, enum mt_block_kind block, bool *off) {
    const struct mt_op *o = &b->graph->ops[op];
    struct mt_rule rule = mt_builder_effective_rule(b, op, block);
    enum mt_status st = MT_OK;
    *off = false;
    if (!is_for_updates(b, op) || !mt_builder_gathers_factors(b, op, &rule, block)) return MT_OK;
    *off = true;
    for (int i = 0; i < o->nin && !st; i++) {
        int layout = mt_builder_wanted(b, op, &rule, i, block);
        if (layout >= 0) st = ask_for(b, o->in[i], layout, block); /* else the operator is refused when it is emitted */
        if (b->graph->values[o->in[i]].producer >= 0) b->coming_bytes -= bytes_of(b, o->in[i]);
    }
    mt_arena_grow(&b->scratch, &b->products, b->nproducts, &b->products_capacity, sizeof *b->products);
    b->products[b->nproducts++] = (struct product){op, 0};
    int64_t least = b->choice->decisions.bucket_bytes / LEAST_PART, half = (b->factor_bytes + b->coming_bytes) / 2;
    if (b->factor_bytes >= (half > least ? half : least)) send_factors(b);
    return st;
}

static bool has_factors(struct mt_builder *b, int op, enum mt_block_kind block) {
    const struct mt_op *o = &b->graph->ops[op];
    struct mt_rule rule = mt_builder_effective_rule(b, op, block);
    for (int i = 0; i < o->nin; i++) {
        int layout = mt_builder_wanted(b, op, &rule, i, block);
        if (layout >= 0 && !mt_builder_is_near(b, o->in[i], layout, block)) return false;
    }
    return true;
}

enum mt_status mt_builder_finish_products(struct mt_builder *b, enum mt_block_kind block, bool all) {
    enum mt_status st = MT_OK;
    int kept = 0;
    if (!b->nproducts) return MT_OK;
    if (all) send_factors(b);
    for (int i = 0; i < b->nproducts && !st; i++) {
        struct product *p = &b->products[i];
        if (!p->sent && has_factors(b, p->op, block)) p->sent = b->nsent;
        if (all || (p->sent && b->nsent > p->sent))
            st = mt_builder_sample_op(b, p->op, block);
        else
            b->products[kept++] = *p;
    }
    b->nproducts = kept;
    return st;
}
