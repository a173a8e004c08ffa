/* Random meshes, and random rules over them: trees of two levels with ragged splits, zero shares among them, branches
 * that differ by node, and one index at both levels. */
#ifndef MT_TESTS_SYNTH_LAYOUT_TREES_H
#define MT_TESTS_SYNTH_LAYOUT_TREES_H

#include "synth/layout/rule.h"
#include "synth/ops/ops.h"
#include "tests/synth/layout/random_layout.h"

/* Nodes in any order of ranks, numbered by first rank. */
static inline struct mt_mesh random_mesh(struct dice *dice, struct mt_arena *arena, int nranks, int most_nodes) {
    int *node = mt_new(arena, int, nranks), nnodes = 1 + (int)roll(dice, nranks < most_nodes ? nranks : most_nodes);
    bool blocks = roll(dice, 2);
    int made = 0, *number = mt_new(arena, int, nnodes);
    for (int k = 0; k < nnodes; k++) number[k] = -1;
    for (int r = 0; r < nranks; r++) {
        int k = blocks ? r * nnodes / nranks : (int)roll(dice, nnodes);
        if (number[k] < 0) number[k] = made++;
        node[r] = number[k];
    }
    return (struct mt_mesh){.nranks = nranks, .nnodes = made, .node = node};
}

/* Ragged whole numbers that sum to `extent`. */
static inline void random_sizes(struct dice *dice, int64_t extent, int64_t *sizes, int count) {
    int idle = count > 1 && roll(dice, 3) == 0 ? (int)roll(dice, count) : -1;
    for (int i = 0; i < count; i++) sizes[i] = 0;
    for (int64_t e = 0; e < extent; e++) {
        int i = (int)roll(dice, count);
        sizes[i == idle ? (i + 1) % count : i]++;
    }
}

static inline struct mt_split *random_host_split(struct dice *dice, struct mt_arena *arena, const struct mt_mesh *mesh,
                                                 int label, int64_t extent) {
    struct mt_split *s = mt_new(arena, struct mt_split, 1);
    *s = (struct mt_split){.name = "host", .label = label, .axis = MT_AXIS_HOST};
    s->sizes = mt_new(arena, int64_t, mesh->nnodes);
    s->starts = mt_new(arena, int64_t, mesh->nnodes + 1);
    random_sizes(dice, extent, s->sizes, mesh->nnodes);
    for (int k = 0; k < mesh->nnodes; k++) s->starts[k + 1] = s->starts[k] + s->sizes[k];
    return s;
}

/* `within`: the split of the same index over the nodes, or null. `alike`: nodes of as many ranks divide alike. */
static inline struct mt_split *random_device_split(struct dice *dice, struct mt_arena *arena,
                                                   const struct mt_mesh *mesh, int label, int64_t extent,
                                                   const struct mt_split *within) {
    struct mt_split *s = mt_new(arena, struct mt_split, 1);
    *s = (struct mt_split){.name = "device", .label = label, .axis = MT_AXIS_DEVICE};
    s->sizes = mt_new(arena, int64_t, mesh->nranks);
    s->starts = mt_new(arena, int64_t, mesh->nranks);
    int64_t *own = mt_new(arena, int64_t, mesh->nranks), *before = mt_new(arena, int64_t, mesh->nranks);
    bool alike = roll(dice, 2);
    for (int k = 0, last = 0; k < mesh->nnodes; k++) {
        int count = 0, at = 0;
        for (int r = 0; r < mesh->nranks; r++) count += mesh->node[r] == k;
        int64_t share = within ? within->sizes[k] : extent, start = 0;
        if (alike && k > 0 && !within && count == last)
            memcpy(own, before, (size_t)count * sizeof *own);
        else
            random_sizes(dice, share, own, count);
        memcpy(before, own, (size_t)count * sizeof *own);
        last = count;
        for (int r = 0; r < mesh->nranks; r++) {
            if (mesh->node[r] != k) continue;
            s->sizes[r] = own[at++];
            s->starts[r] = start;
            start += s->sizes[r];
        }
    }
    return s;
}

/* One level: it replicates, splits an index that can be split, or is linear in `set`. */
static inline struct mt_rule random_level(struct dice *dice, const struct mt_op *op, int set) {
    struct mt_rule rule = {.kind = MT_RULE_REPLICATE};
    int64_t way = roll(dice, 8);
    if (way == 0) return rule;
    if (way == 1 && set >= 0) return (struct mt_rule){.kind = MT_RULE_LINEAR, .set = set};
    int index = op->nindices ? (int)roll(dice, op->nindices) : -1;
    if (index < 0 || mt_op_index_role(op, index) == MT_INDEX_WHOLE) return rule;
    return (struct mt_rule){.kind = MT_RULE_SPLIT, .index = index};
}

/* `extent[op->nindices]`: of the operator's indices. */
static inline struct mt_rule random_tree(struct dice *dice, struct mt_arena *arena, const struct mt_op *op,
                                         const struct mt_mesh *mesh, const int64_t *extent) {
    unsigned sets[MT_MAX_IN];
    int nsets = mt_op_linear_sets(op, sets), set = nsets ? (int)roll(dice, nsets) : -1;
    struct mt_rule rule = random_level(dice, op, set), *inner = mt_new(arena, struct mt_rule, mesh->nnodes);
    const struct mt_split *host = NULL;
    if (rule.kind == MT_RULE_SPLIT)
        rule.split = host = random_host_split(dice, arena, mesh, op->index_label[rule.index], extent[rule.index]);
    if (rule.kind == MT_RULE_SPLIT && roll(dice, 5) == 0) return rule; /* replicated within nodes */
    bool differ = roll(dice, 3) == 0;
    for (int k = 0; k < mesh->nnodes; k++) {
        inner[k] = k && !differ ? inner[0] : random_level(dice, op, set);
        if (inner[k].kind != MT_RULE_SPLIT || inner[k].split) continue;
        int i = inner[k].index;
        inner[k].split = random_device_split(dice, arena, mesh, op->index_label[i], extent[i],
                                             host && rule.index == i ? host : NULL);
    }
    if (rule.kind == MT_RULE_REPLICATE && inner[0].kind == MT_RULE_SPLIT && !differ && roll(dice, 5) == 0)
        return inner[0]; /* replicated over nodes */
    rule.inner = inner;
    return rule;
}

#endif
