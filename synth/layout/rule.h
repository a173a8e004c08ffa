/* Rules: the correct ways to run one operator on laid-out operands.
 *
 *   rule  one of
 *     REPLICATE       all inputs R, all outputs R: every rank computes everything
 *     SPLIT(index, s) operands that carry the index are S on it, the others R; outputs that lack it become P(sum) or
 *                     P(max), by the index's role
 *     LINEAR(set)     the inputs of one linear set are P(sum), the others R; outputs are P(sum)
 *
 * Data, tensor, sequence and ZeRO-style parallelism are choices of rules; the collectives follow from the layouts at
 * the edges. No strategy is coded by name.
 *
 *     struct mt_rule rule = {.kind = MT_RULE_SPLIT, .index = 0, .split = &batch};
 *     int wanted = mt_rule_input(&table, graph, op, &rule, 0, extents_of_input_0); */
#ifndef MT_SYNTH_LAYOUT_RULE_H
#define MT_SYNTH_LAYOUT_RULE_H

#include "synth/graph/graph.h"
#include "synth/layout/layout.h"

enum mt_rule_kind { MT_RULE_REPLICATE, MT_RULE_SPLIT, MT_RULE_LINEAR };

struct mt_rule {
    enum mt_rule_kind kind;
    int index;                    /* SPLIT */
    const struct mt_split *split; /* SPLIT: of the index's label; not owned */
    int set;                      /* LINEAR: which of mt_op_linear_sets */
};

/* The layout that a rule demands of input i, or gives output o. `extent[axis]` are the value's extents in its block,
 * which has a batch extent of its own; rule->split must sum to the extent that it splits. */
int mt_rule_input(struct mt_layouts *table, const struct mt_graph *graph, const struct mt_op *op,
                  const struct mt_rule *rule, int input, const int64_t *extent);
int mt_rule_output(struct mt_layouts *table, const struct mt_graph *graph, const struct mt_op *op,
                   const struct mt_rule *rule, int output, const int64_t *extent);

#endif
