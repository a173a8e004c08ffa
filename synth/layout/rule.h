/* Rules: the correct ways to run one operator on laid-out operands.
 *
 * An operator's rule on an axis of ranks is one of
 *   REPLICATE       all inputs R, all outputs R: every rank computes everything
 *   SPLIT(index, s) operands that carry the index are S on it, the others R; outputs that lack it become P(sum)
 *                   or P(max)
 *   LINEAR(set)     the inputs of one linear set are P(sum), the others R; outputs are P(sum)
 *
 * No strategy is coded by name: data, tensor, sequence, ZeRO-style parallelism are choices of rules, and the
 * collectives follow from the layouts at the edges.
 *
 *     struct mt_rule rules[MT_MAX_INDICES + MT_MAX_IN + 1];
 *     int n = mt_rules(op, splits, nsplits, rules);
 *     int wanted = mt_rule_input(&table, graph, op, &rules[k], 0, extents_of_input_0); */
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

/* The layouts that a rule demands of input i and gives output o. `extent[axis]` overrides the graph's extents where a
 * block has its own batch extent: pass the extents of the value in that block; rule->split must sum to the extent that
 * it splits. */
int mt_rule_input(struct mt_layouts *table, const struct mt_graph *graph, const struct mt_op *op,
                  const struct mt_rule *rule, int input, const int64_t *extent);
int mt_rule_output(struct mt_layouts *table, const struct mt_graph *graph, const struct mt_op *op,
                   const struct mt_rule *rule, int output, const int64_t *extent);

#endif
