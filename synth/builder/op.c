/* Operators, with the values that they want: inputs are fed, invariant operators are emitted into the prologue, when
 * first wanted. */
#include <string.h>

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

/* ---- sums of partial values ---- */

/* Whether output element i is a function of input elements i alone, in all of which it is linear together. */
static bool adds_elements(const struct mt_op *o) {
    unsigned sets[MT_MAX_IN];
    bool together = false;
    int nsets = mt_op_linear_sets(o, sets);
    for (int s = 0; s < nsets; s++) together |= sets[s] == (1u << o->nin) - 1;
    if (o->nout != 1 || !together) return false;
    for (int i = 0; i < o->nin; i++)
        if (memcmp(o->in_index[i], o->out_index[0], sizeof o->in_index[i])) return false;
    for (int i = 0; i < o->nindices; i++) /* rotary: an element of its output reads two */
        if (mt_op_index_role(o, i) == MT_INDEX_WHOLE) return false;
    return true;
}

/* The newest layout that a partial sum is held in; -1: it is not partial. */
static int partial_layout(const struct mt_builder *b, int gvalue, enum mt_block_kind block) {
    for (int h = b->nheld[gvalue] - 1; h >= 0; h--) {
        int v = b->held[gvalue][h], layout = b->program->values[v].layout;
        if (!mt_builder_usable(b, v, block)) continue;
        bool sum = b->program->layouts.items[layout].reduce == MT_SUM;
        return sum && mt_layout_is_partial(&b->program->layouts.items[layout]) ? layout : -1;
    }
    return -1;
}

/* Partial sums that are held in other layouts than the rule says are added up in one of those that are held: that which
 * the fewest of the others must become by a message. -1: as the rule says. */
static int layout_of_sum(struct mt_builder *b, int op, const struct mt_rule *rule, enum mt_block_kind block) {
    const struct mt_op *o = &b->graph->ops[op];
    int layout[MT_MAX_IN], best = -1, fewest = MT_MAX_IN + 1;
    bool as_ruled = true;
    if (rule->kind != MT_RULE_LINEAR || !adds_elements(o)) return -1;
    for (int i = 0; i < o->nin; i++) {
        layout[i] = partial_layout(b, o->in[i], block);
        if (layout[i] < 0) return -1;
        as_ruled &= layout[i] == mt_builder_wanted(b, op, rule, i, block);
    }
    for (int i = 0; i < o->nin && !as_ruled; i++) {
        int messages = 0;
        for (int k = 0; k < o->nin; k++) messages += !mt_builder_is_near(b, o->in[k], layout[i], block);
        if (messages < fewest) fewest = messages, best = layout[i];
    }
    return best;
}

/* ---- values that are wanted ---- */

enum mt_status mt_builder_ensure(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block) {
    const struct mt_value *v = &b->graph->values[gvalue];
    if (v->kind == MT_VALUE_INPUT) {
        for (int h = 0; h < b->nheld[gvalue]; h++)
            if (mt_builder_usable(b, b->held[gvalue][h], block) &&
                b->program->values[b->held[gvalue][h]].layout == layout)
                return MT_OK;
        enum mt_block_kind at = mt_builder_has_batch(b->graph, gvalue) ? block : MT_PROLOGUE;
        int p = mt_builder_add(b, gvalue, layout, at, MT_UNIFORM);
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

static enum mt_status refuse_rule(const struct mt_builder *b, int op) {
    mt_fail(b->err, MT_EINPUT,
            "operator %s: by its rule the ranks' terms of a sum do not make whole sums, or are mixed "
            "with maxima",
            b->graph->ops[op].name);
    return mt_err_hint(b->err, "divide the sum alike on the ranks that have the same elements");
}

enum mt_status mt_builder_op(struct mt_builder *b, int op, enum mt_block_kind block) {
    const struct mt_op *o = &b->graph->ops[op];
    int in[MT_MAX_IN], out[MT_MAX_OUT];
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
    int sum = layout_of_sum(b, op, &rule, block);
    for (int i = 0; i < o->nin; i++) {
        int layout = sum >= 0 ? sum : mt_builder_wanted(b, op, &rule, i, block);
        enum mt_status st = layout < 0 ? refuse_rule(b, op) : mt_builder_want(b, o->in[i], layout, block, &in[i]);
        if (!st && o->role == MT_ROLE_UPDATE && mt_op_info[o->kind].exact)
            st = mt_builder_make_uniform(b, &in[i], op, block);
        if (st) return st;
    }
    bool of_block = b->has_body && (b->classes[op] == MT_SAMPLE || b->joins[op]);
    for (int i = 0; i < o->nout; i++) {
        int layout = sum >= 0 ? sum : mt_builder_given(b, op, &rule, i, block);
        if (layout < 0) return refuse_rule(b, op);
        out[i] = mt_builder_add(b, o->out[i], layout, block, mt_builder_uniform_of_op(b, op, in, layout));
        if (of_block && !mt_builder_has_batch(b->graph, o->out[i]))
            b->program->values[out[i]].covers = mt_builder_covers(block);
        mt_builder_hold(b, o->out[i], out[i]);
    }
    struct mt_instr instr = {.kind = MT_INSTR_OP, .gop = op, .nin = o->nin, .nout = o->nout, .in = in, .out = out};
    mt_program_add(b->program, block, &instr);
    return MT_OK;
}
