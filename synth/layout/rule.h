/* Rules: the correct ways to run one operator on laid-out operands.
 *
 *   rule   a tree over the mesh, of one level (all ranks) or two (nodes, then the ranks of each). A level is one of
 *     REPLICATE       its members compute the same
 *     SPLIT(index, s) its members divide the index: operands that carry it are split on it; outputs that lack it become
 *                     partial sums or maxima, by the index's role
 *     LINEAR(set)     its members compute different terms: the inputs of one linear set are partial sums, and so are
 *                     the outputs
 *   level  with inner == NULL all ranks are members, or the members that the split's axis names (a HOST split alone
 *          replicates within nodes, a DEVICE split alone over them). With inner, the nodes are the members, and
 *          inner[node] divides a node's work among its ranks; it has no inner itself. Where both levels split one
 *          index, the inner split divides the node's share. All LINEAR levels of a tree name one set.
 *
 * Data, tensor, sequence and ZeRO-style parallelism are choices of rules; the collectives follow from the layouts at
 * the edges. No strategy is coded by name.
 *
 *     struct mt_rule rule = {.kind = MT_RULE_SPLIT, .index = 0, .split = &batch};
 *     int wanted = mt_rule_input(&table, graph, op, &rule, NULL, 0, extents_of_input_0); */
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
    const struct mt_rule *inner;  /* [nnodes], or null; not owned */
};

/* The layout that a rule demands of input i, or gives output o. `extent[axis]` are the value's extents in its block,
 * which has a batch extent of its own; the splits must sum to the extents that they split. `mesh` may be null if the
 * rule has one level, of all ranks. -1 if no layout is what the rule gives: its terms are not divided into covers, or
 * are sums on some ranks and maxima on others. */
int mt_rule_input(struct mt_layouts *table, const struct mt_graph *graph, const struct mt_op *op,
                  const struct mt_rule *rule, const struct mt_mesh *mesh, int input, const int64_t *extent);
int mt_rule_output(struct mt_layouts *table, const struct mt_graph *graph, const struct mt_op *op,
                   const struct mt_rule *rule, const struct mt_mesh *mesh, int output, const int64_t *extent);

/* range[op->nindices]: what a rank iterates over, where the indices have extent[op->nindices]. Levels that are LINEAR
 * or REPLICATE leave the ranges whole. */
struct mt_range {
    int64_t lo, hi;
};
void mt_rule_ranges(const struct mt_op *op, const struct mt_rule *rule, const struct mt_mesh *mesh, int rank,
                    const int64_t *extent, struct mt_range *range);

#endif
