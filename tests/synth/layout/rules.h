/* Every rule of an operator. */
#ifndef MT_TESTS_SYNTH_LAYOUT_RULES_H
#define MT_TESTS_SYNTH_LAYOUT_RULES_H

#include "synth/layout/rule.h"
#include "synth/ops/ops.h"

enum { MOST_RULES = MT_MAX_INDICES + MT_MAX_IN + 1 };

static inline const struct mt_split *split_of(const struct mt_split *splits, int nsplits, int label) {
    for (int s = 0; s < nsplits; s++)
        if (splits[s].label == label) return &splits[s];
    return NULL;
}

/* Every rule of `op` for splits of its labels: `splits` offers at most one per label. Returns how many (at most
 * MOST_RULES). Indices of one label that occur twice are separate rules. */
static inline int all_rules(const struct mt_op *op, const struct mt_split *splits, int nsplits, struct mt_rule *rules) {
    int n = 0;
    rules[n++] = (struct mt_rule){.kind = MT_RULE_REPLICATE};
    for (int i = 0; i < op->nindices; i++) {
        const struct mt_split *split = split_of(splits, nsplits, op->index_label[i]);
        if (split && mt_op_index_role(op, i) != MT_INDEX_WHOLE)
            rules[n++] = (struct mt_rule){.kind = MT_RULE_SPLIT, .index = i, .split = split};
    }
    unsigned sets[MT_MAX_IN];
    int nsets = mt_op_linear_sets(op, sets);
    for (int s = 0; s < nsets; s++) rules[n++] = (struct mt_rule){.kind = MT_RULE_LINEAR, .set = s};
    return n;
}

#endif
