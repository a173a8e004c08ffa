/* Sums over micro-batches: loss, token count and gradients.
 *
 * Each has an accumulator, which is zeroed in the prologue; BODY and LAST add to it. With reduce "step" it is as the
 * operators make it, so that gradients are accumulated as partial sums, whole on every rank, and reduced once, in LAST.
 * With "micro_batch" gradients are reduced first, to the layout that their update wants, and their accumulators have
 * that layout; with "node" they are reduced within each node, and over nodes once, in LAST. Such a gradient is added to
 * its accumulator when the next bucket has been sent, so that computation does not wait for its message; and gradients
 * of one parameter are joined first, so that there is one message. */
#include "synth/builder/internal.h"
#include "synth/layout/convert/route.h"
#include "synth/ops/ops.h"

static bool reduces_each(const struct mt_builder *b) {
    return b->has_body && b->choice->decisions.reduced != MT_REDUCED_STEP;
}

/* Whether the operator's inputs that are sums over samples are one of its linear sets, and are all made in BODY. */
static bool is_join(const struct mt_builder *b, int op) {
    const struct mt_op *o = &b->graph->ops[op];
    unsigned sets[MT_MAX_IN], sums = 0;
    int nsets = mt_op_linear_sets(o, sets);
    if (b->classes[op] != MT_SUMMED || o->role != MT_ROLE_BACKWARD) return false;
    for (int i = 0; i < o->nin; i++) {
        int producer = b->graph->values[o->in[i]].producer;
        if (!b->summed[o->in[i]]) continue;
        sums |= 1u << i;
        if (producer < 0 || (b->classes[producer] != MT_SAMPLE && !b->joins[producer])) return false;
    }
    for (int s = 0; s < nsets; s++)
        if (sets[s] == sums) return true;
    return false;
}

void mt_builder_find_joins(struct mt_builder *b) {
    for (int o = 0; o < b->graph->nops && reduces_each(b); o++) b->joins[o] = is_join(b, o);
}

/* Whether a sum over a block's samples is reported, or wanted where samples are over. */
static bool leaves_samples(const struct mt_builder *b, int gvalue) {
    const struct mt_graph *g = b->graph;
    if (!b->summed[gvalue] || mt_builder_has_batch(g, gvalue)) return false;
    if (gvalue == g->loss_sum || gvalue == g->token_count) return true;
    for (int c = b->first_consumer[gvalue]; c < b->first_consumer[gvalue + 1] && !b->forward_only; c++)
        if (b->classes[b->consumers[c]] == MT_SUMMED && !b->joins[b->consumers[c]]) return true;
    return false;
}

/* The layout in which updates want a gradient: replicated if one of them does, because shares are slices of it. -1: no
 * update takes it. */
static int layout_of_update(struct mt_builder *b, int gvalue) {
    int found = -1, whole = mt_builder_whole(b, gvalue, MT_EPILOGUE);
    for (int c = b->first_consumer[gvalue]; c < b->first_consumer[gvalue + 1]; c++) {
        int op = b->consumers[c];
        const struct mt_op *o = &b->graph->ops[op];
        struct mt_rule rule = mt_builder_rule(b, op, MT_EPILOGUE);
        for (int i = 0; i < o->nin && o->role == MT_ROLE_UPDATE && rule.kind != MT_RULE_LINEAR; i++) {
            if (o->in[i] != gvalue) continue;
            int layout = mt_builder_wanted(b, op, &rule, i, MT_EPILOGUE);
            if (found < 0 || layout == whole) found = layout < 0 ? found : layout;
        }
    }
    return found;
}

static int layout_within_nodes(struct mt_builder *b, int from, int to) {
    struct conversion *c = mt_builder_known_conversion(b, from, to);
    if (!c->within) c->within = mt_layout_within_nodes(&b->program->layouts, &b->mesh, from, to) + 2;
    return c->within - 2;
}

/* The layout of the accumulator of a sum that is made in layout `fresh`; -1: the same. */
static int layout_of_accumulator(struct mt_builder *b, int gvalue, int fresh) {
    int layout = reduces_each(b) ? layout_of_update(b, gvalue) : -1;
    if (layout < 0 || b->choice->decisions.reduced == MT_REDUCED_MICRO_BATCH || b->mesh.nnodes == 1) return layout;
    return mt_builder_is_partial(b, fresh) ? layout_within_nodes(b, fresh, layout) : -1;
}

/* A LINEAR rule adds up what is held as parts, which may be other values of LAST than of BODY. */
static enum mt_status refuse_layouts(const struct mt_builder *b, int g) {
    mt_fail(b->err, MT_EINPUT, "%s: by its rule it is a sum of parts in some micro-batches, and whole in the last",
            b->graph->values[g].name);
    return mt_err_hint(b->err, "divide the operator that makes it, or replicate it");
}

static enum mt_status add_to_accumulator(struct mt_builder *b, int g, int fresh, enum mt_block_kind block) {
    int layout = b->program->values[fresh].layout;
    if (block == MT_BODY) {
        int zero = mt_builder_add(b, g, layout, MT_PROLOGUE, MT_UNIFORM);
        b->program->values[zero].covers = MT_COVERS_BODY;
        struct mt_instr instr = {.kind = MT_INSTR_ZERO, .gop = -1, .nout = 1, .out = &zero};
        mt_program_add(b->program, MT_PROLOGUE, &instr);
        b->accumulator[g] = zero;
    }
    int in[2] = {b->accumulator[g], fresh};
    if (b->program->values[in[0]].layout != layout) return refuse_layouts(b, g);
    enum mt_uniform uniform = b->uniform[in[0]] < b->uniform[fresh] ? b->uniform[in[0]] : b->uniform[fresh];
    int sum = mt_builder_add(b, g, layout, block, uniform);
    b->program->values[sum].covers = block == MT_BODY ? MT_COVERS_BODY : MT_COVERS_ALL;
    struct mt_instr instr = {.kind = MT_INSTR_ACCUMULATE, .gop = -1, .nin = 2, .nout = 1, .in = in, .out = &sum};
    mt_program_add(b->program, block, &instr);
    b->accumulator[g] = sum;
    if (block == MT_LAST) mt_builder_hold(b, g, sum);
    return MT_OK;
}

/* In its layout, which takes no message. */
static enum mt_status finish(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block) {
    int fresh;
    enum mt_status st = mt_builder_convert(b, gvalue, layout, block, &fresh);
    if (!st) st = add_to_accumulator(b, gvalue, fresh, block);
    enum mt_covers sums = b->sums;
    b->sums = MT_COVERS_ALL;
    if (!st && block == MT_LAST) st = mt_builder_send_gradient(b, gvalue);
    b->sums = sums;
    return st;
}

enum mt_status mt_builder_accumulate(struct mt_builder *b, int op, enum mt_block_kind block) {
    const struct mt_op *o = &b->graph->ops[op];
    enum mt_status st = MT_OK;
    if (b->classes[op] != MT_SAMPLE && !b->joins[op]) return MT_OK;
    b->sums = mt_builder_covers(block);
    for (int i = 0; i < o->nout && !st; i++) {
        int g = o->out[i];
        if (!leaves_samples(b, g)) continue;
        int fresh = b->held[g][b->nheld[g] - 1];
        int layout = layout_of_accumulator(b, g, b->program->values[fresh].layout);
        if (layout < 0) {
            st = add_to_accumulator(b, g, fresh, block);
        } else if (mt_builder_is_near(b, g, layout, block)) {
            st = finish(b, g, layout, block);
        } else {
            mt_builder_convert_soon(b, g, layout, block);
            mt_arena_grow(&b->scratch, &b->unfinished, b->nunfinished, &b->unfinished_capacity, sizeof *b->unfinished);
            b->unfinished[b->nunfinished++] = (struct unfinished){g, layout, 0};
        }
    }
    b->sums = MT_COVERS_ALL;
    return st;
}

enum mt_status mt_builder_finish_sums(struct mt_builder *b, enum mt_block_kind block, bool all) {
    enum mt_status st = MT_OK;
    int kept = 0;
    if (!b->nunfinished) return MT_OK;
    while (all && b->nbucket) mt_builder_flush(b); /* some are sent in two steps */
    b->sums = mt_builder_covers(block);
    for (int i = 0; i < b->nunfinished && !st; i++) {
        struct unfinished *u = &b->unfinished[i];
        if (!u->sent && mt_builder_is_near(b, u->value, u->layout, block)) u->sent = b->nsent;
        if (u->sent && (all || b->nsent > u->sent))
            st = finish(b, u->value, u->layout, block);
        else
            b->unfinished[kept++] = *u;
    }
    b->nunfinished = kept;
    b->sums = MT_COVERS_ALL;
    return st;
}
