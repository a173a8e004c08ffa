/* Strategies as constraints on rules. */
#include "planner/divide/strategy.h"

#include "synth/ops/ops.h"

#define STRATEGY(NAME, name, among, samples, widths, positions, factors, state, gather, reduced, help)                 \
    {name,                                                                                                             \
     help,                                                                                                             \
     MT_AMONG_##among,                                                                                                 \
     samples,                                                                                                          \
     widths,                                                                                                           \
     positions,                                                                                                        \
     MT_FACTORS_##factors,                                                                                             \
     MT_STORE_##state,                                                                                                 \
     MT_GATHER_##gather,                                                                                               \
     MT_REDUCED_##reduced},
const struct mt_strategy mt_strategies[MT_NSTRATEGIES] = {
#include "planner/divide/strategies.def"
};
#undef STRATEGY

bool mt_strategy_has_samples_alone(const struct mt_strategy *s) {
    return s->among == MT_AMONG_ALL && s->samples && s->state == MT_STORE_ANY && s->factors != MT_FACTORS_ALWAYS;
}

void mt_label_kinds(const struct mt_graph *g, enum mt_label_kind *kind) {
    for (int l = 0; l < g->nlabels; l++) kind[l] = l == g->batch ? MT_LABEL_SAMPLES : MT_LABEL_WIDTH;
    for (int v = 0; v < g->nvalues; v++)
        for (int a = 0; a < g->values[v].naxes && g->values[v].kind == MT_VALUE_INPUT; a++)
            if (g->values[v].label[a] != g->batch) kind[g->values[v].label[a]] = MT_LABEL_POSITIONS;
}

/* Whether the operator can be divided by samples. */
static bool has_samples(const struct mt_graph *g, const struct mt_op *op) {
    for (int i = 0; i < op->nindices; i++)
        if (op->index_label[i] == g->batch && mt_op_index_role(op, i) != MT_INDEX_WHOLE) return true;
    return false;
}

/* Whether the operator is the gradient of a weight, a product of two factors that is summed over samples. */
static bool is_product(const struct mt_graph *g, const struct mt_op *op) {
    if (op->role != MT_ROLE_BACKWARD || (op->kind != MT_OP_matmul && op->kind != MT_OP_embedding_grad)) return false;
    for (int a = 0; a < g->values[op->out[0]].naxes; a++)
        if (g->values[op->out[0]].label[a] == g->batch) return false;
    return true;
}

/* Its rule, where its factors are gathered: not by samples. */
static bool allows_factors(const struct mt_graph *g, const struct mt_op *op, const struct mt_rule *rule) {
    return rule->kind == MT_RULE_REPLICATE || (rule->kind == MT_RULE_SPLIT && op->index_label[rule->index] != g->batch);
}

/* One level of an operator's rule, among the ranks that share its work. */
static bool allows_level(const struct mt_strategy *s, const enum mt_label_kind *kind, const struct mt_op *op,
                         const struct mt_rule *level) {
    bool only_samples = s->samples && !s->widths && !s->positions;
    if (level->kind != MT_RULE_SPLIT) return !only_samples;
    switch (kind[op->index_label[level->index]]) {
    case MT_LABEL_SAMPLES: return s->samples;
    case MT_LABEL_POSITIONS: return s->positions;
    case MT_LABEL_WIDTH: return s->widths;
    }
    return false;
}

/* Whether every operator of the forward pass that has the label can be divided by it: ranks that hold such shares of a
 * weight can keep to them. */
static bool divides_all(const struct mt_graph *g, int label) {
    for (int o = 0; o < g->nops; o++)
        for (int i = 0; i < g->ops[o].nindices && g->ops[o].role == MT_ROLE_FORWARD; i++)
            if (g->ops[o].index_label[i] == label && mt_op_index_role(&g->ops[o], i) == MT_INDEX_WHOLE) return false;
    return true;
}

static bool allows_state(const struct mt_strategy_limits *limits, const struct mt_op *update,
                         const struct mt_rule *rule) {
    const struct mt_rule *inner = rule->inner ? &rule->inner[0] : NULL, *level = inner ? inner : rule;
    int axis = mt_sharding_axis(limits->graph, update->in[0]);
    bool by_axis = level->kind == MT_RULE_SPLIT && axis >= 0 && level->index == update->in_index[0][axis];
    bool whole = rule->kind == MT_RULE_REPLICATE && (!inner || inner->kind == MT_RULE_REPLICATE);
    bool as_computed = false;
    for (int i = 0; i < limits->ncompute; i++)
        as_computed |= level->kind == MT_RULE_SPLIT && level->split == &limits->compute[i];
    bool in_node = limits->nodes == (inner != NULL) && (!inner || rule->kind == MT_RULE_REPLICATE);
    switch (limits->strategy->state) {
    case MT_STORE_REPLICATED: return whole;
    case MT_STORE_ALL: return axis < 0 ? whole : by_axis && !inner;
    case MT_STORE_NODE: return axis < 0 ? whole : by_axis && in_node;
    case MT_STORE_COMPUTE: return whole || (in_node && as_computed && divides_all(limits->graph, level->split->label));
    case MT_STORE_ANY: return true;
    }
    return false;
}

bool mt_strategy_allows(const struct mt_strategy_limits *limits, const struct mt_op *op, const struct mt_rule *rule) {
    if (op->role == MT_ROLE_UPDATE) return allows_state(limits, op, rule);
    if (limits->strategy->factors == MT_FACTORS_ALWAYS && is_product(limits->graph, op))
        return allows_factors(limits->graph, op, rule);
    return !has_samples(limits->graph, op) ||
           allows_level(limits->strategy, limits->kind, op, rule->inner ? &rule->inner[0] : rule);
}
