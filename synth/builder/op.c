/* Operators, with the values that they want: inputs are fed, invariant operators are emitted into the prologue, when
 * first wanted. */
#include "synth/builder/internal.h"
#include "synth/ops/ops.h"

struct mt_rule mt_builder_effective_rule(const struct mt_builder *b, int op, enum mt_block_kind block) {
    struct mt_rule rule = mt_builder_rule(b, op, block);
    if (rule.kind != MT_RULE_LINEAR) return rule;
    const struct mt_op *o = &b->graph->ops[op];
    unsigned sets[MT_MAX_IN];
    mt_op_linear_sets(o, sets);
    for (int i = 0; i < o->nin; i++) {
        if (!(sets[rule.set] >> i & 1)) continue;
        bool partial = false;
        for (int h = 0; h < b->nheld[o->in[i]]; h++) {
            int v = b->held[o->in[i]][h];
            const struct mt_layout *l = &b->program->layouts.items[b->program->values[v].layout];
            partial |= mt_builder_usable(b, v, block) && mt_layout_is_partial(l) && l->reduce == MT_SUM;
        }
        if (!partial) return (struct mt_rule){.kind = MT_RULE_REPLICATE};
    }
    return rule;
}

/* Replicated inputs of an update must be bit-equal: where the ranks may have computed them in different orders, the
 * first rank's are broadcast. */
static int made_uniform(struct mt_builder *b, int value, enum mt_block_kind block) {
    int layout = b->program->values[value].layout;
    if (b->uniform[value] || mt_builder_is_partial(b, layout) ||
        layout != mt_builder_whole(b, b->program->values[value].gvalue, block))
        return value;
    if (b->program->nranks == 1) return value;
    return mt_builder_broadcast(b, value, block);
}

enum mt_status mt_builder_ensure(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block) {
    const struct mt_value *v = &b->graph->values[gvalue];
    if (v->kind == MT_VALUE_INPUT) {
        for (int h = 0; h < b->nheld[gvalue]; h++)
            if (mt_builder_usable(b, b->held[gvalue][h], block) &&
                b->program->values[b->held[gvalue][h]].layout == layout)
                return MT_OK;
        enum mt_block_kind at = mt_builder_has_batch(b->graph, gvalue) ? block : MT_PROLOGUE;
        int p = mt_builder_add(b, gvalue, layout, at, true);
        b->program->values[p].input = true;
        mt_builder_hold(b, gvalue, p);
        return MT_OK;
    }
    if (v->producer >= 0 && b->classes[v->producer] == MT_INVARIANT && !b->emitted[v->producer]) {
        b->emitted[v->producer] = true;
        return mt_builder_op(b, v->producer, MT_PROLOGUE);
    }
    return MT_OK;
}

enum mt_status mt_builder_want(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block, int *value) {
    enum mt_status st = mt_builder_ensure(b, gvalue, layout, block);
    return st ? st : mt_builder_convert(b, gvalue, layout, block, value);
}

enum mt_status mt_builder_want_soon(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block) {
    enum mt_status st = mt_builder_ensure(b, gvalue, layout, block);
    if (!st) mt_builder_convert_soon(b, gvalue, layout, block);
    return st;
}

enum mt_status mt_builder_op(struct mt_builder *b, int op, enum mt_block_kind block) {
    const struct mt_op *o = &b->graph->ops[op];
    int in[MT_MAX_IN], out[MT_MAX_OUT];
    bool uniform = mt_op_info[o->kind].exact;
    struct mt_rule rule;
    for (int i = 0; i < o->nin; i++) /* producers in the prologue first: they decide what is held */
        if (b->graph->values[o->in[i]].producer >= 0) {
            enum mt_status st = mt_builder_ensure(b, o->in[i], -1, block);
            if (st) return st;
        }
    rule = mt_builder_effective_rule(b, op, block);
    if (o->attr.p > 0 && b->has_body && b->choice->batch && b->classes[op] == MT_SAMPLE &&
        (rule.kind != MT_RULE_SPLIT || rule.split->label != b->graph->batch)) {
        mt_fail(b->err, MT_EINPUT, "operator %s drops elements by sample, but its micro-batch mixes the ranks' samples",
                o->name);
        return mt_err_hint(b->err, "split it over the batch, or make every micro-batch as large as its share");
    }
    for (int i = 0; i < o->nin; i++) {
        enum mt_status st = mt_builder_want(b, o->in[i], mt_builder_wanted(b, op, &rule, i, block), block, &in[i]);
        if (st) return st;
        if (o->role == MT_ROLE_UPDATE && mt_op_info[o->kind].exact) in[i] = made_uniform(b, in[i], block);
        uniform &= b->uniform[in[i]];
    }
    bool of_block = b->has_body && (b->classes[op] == MT_SAMPLE || b->joins[op]);
    for (int i = 0; i < o->nout; i++) {
        int64_t extent[MT_MAX_AXES];
        mt_builder_extents(b, o->out[i], block, extent);
        int layout = mt_rule_output(&b->program->layouts, b->graph, o, &rule, NULL, i, extent);
        out[i] = mt_builder_add(b, o->out[i], layout, block, uniform);
        if (of_block && !mt_builder_has_batch(b->graph, o->out[i]))
            b->program->values[out[i]].covers = mt_builder_covers(block);
        mt_builder_hold(b, o->out[i], out[i]);
    }
    struct mt_instr instr = {.kind = MT_INSTR_OP, .gop = op, .nin = o->nin, .nout = o->nout, .in = in, .out = out};
    mt_program_add(b->program, block, &instr);
    return MT_OK;
}
