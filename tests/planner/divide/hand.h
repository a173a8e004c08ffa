/* Plans that the field makes by hand, as rows of a plan: data parallelism, ZeRO, hybrid sharding, Megatron's tensor
 * parallelism and its sequence form. Nothing of the search is used, but for the judge's own parts: rows of algorithms,
 * and the prediction of the program that the plan stands for. */
#ifndef MT_TESTS_PLANNER_DIVIDE_HAND_H
#define MT_TESTS_PLANNER_DIVIDE_HAND_H

#include <math.h>
#include <string.h>

#include "planner/balance/split.h"
#include "planner/cost/algorithms.h"
#include "planner/divide/divide.h"
#include "planner/plan/choice.h"
#include "synth/check/check.h"
#include "tests/check.h"

enum hand_form {
    HAND_DATA,
    HAND_ZERO1,
    HAND_ZERO3,
    HAND_HYBRID,       /* shares within nodes */
    HAND_TENSOR,       /* over all ranks */
    HAND_SEQUENCE,     /* the same, with norms by positions */
    HAND_TENSOR_NODES, /* within nodes, samples across */
    HAND_SEQUENCE_NODES,
    HAND_NFORMS
};
static const char *const hand_names[HAND_NFORMS] = {"data",
                                                    "zero1",
                                                    "zero3",
                                                    "hybrid",
                                                    "tensor over all",
                                                    "tensor+sequence over all",
                                                    "tensor in nodes",
                                                    "tensor+sequence in nodes"};

static inline bool hand_is_tensor(enum hand_form form) {
    return form >= HAND_TENSOR;
}
static inline bool hand_in_nodes(enum hand_form form) {
    return form == HAND_TENSOR_NODES || form == HAND_SEQUENCE_NODES;
}
static inline bool hand_has_sequence(enum hand_form form) {
    return form == HAND_SEQUENCE || form == HAND_SEQUENCE_NODES;
}

/* A split of a label in proportion to speed[nranks] (null: evenly), over the ranks, the hosts or those of each host. */
static inline void hand_split(const struct mt_divide *d, struct mt_plan *p, const char *name, const char *label,
                              enum mt_over over, const double *speed) {
    struct mt_err err = MT_ERR_INIT;
    const struct mt_label *l = &d->graph->labels[mt_graph_find_label(d->graph, label)];
    int n = p->nranks, nnodes = 1;
    double weight[64], even[64];
    int64_t of_node[64];
    struct mt_plan_split *s = &p->splits[p->nsplits++];
    *s = (struct mt_plan_split){
        .name = name, .label = label, .align = l->align, .sizes = mt_new(&p->arena, int64_t, n), .over = over};
    CHECK(n <= 64, "%d", n);
    for (int r = 0; r < n; r++) even[r] = speed ? speed[r] : 1;
    for (int r = 0; r < n && d->node; r++)
        if (d->node[r] >= nnodes) nnodes = d->node[r] + 1;
    if (over == MT_OVER_ALL) CHECK_OK(mt_split_proportional(l->extent, l->align, even, n, s->sizes, &err), err);
    if (over == MT_OVER_HOST) {
        memset(weight, 0, sizeof weight);
        for (int r = 0; r < n; r++) weight[d->node[r]] += even[r];
        CHECK_OK(mt_split_proportional(l->extent, l->align, weight, nnodes, of_node, &err), err);
        for (int r = 0; r < n; r++) s->sizes[r] = of_node[d->node[r]];
    }
    for (int first = 0, end; over == MT_OVER_DEVICE && first < n; first = end) {
        for (end = first; end < n && d->node[end] == d->node[first];) end++;
        CHECK_OK(mt_split_proportional(l->extent, l->align, even + first, end - first, s->sizes + first, &err), err);
    }
}

static inline struct mt_row_levels hand_inner(struct mt_plan *p, const char *name) {
    const char **inner = mt_new(&p->arena, const char *, 1);
    inner[0] = name;
    return (struct mt_row_levels){.ninner = 1, .inner = inner};
}

/* `by`: within the nodes' samples where the form is in nodes, else among all ranks; null: as far as that alone. */
static inline void hand_rule(struct mt_plan *p, enum hand_form form, const char *by) {
    struct mt_rule_row row = {.pattern = "*", .operators = MT_OPERATORS_SPLIT, .split = by};
    if (hand_in_nodes(form)) {
        row.split = "batch";
        if (by) row.levels = hand_inner(p, by);
    } else if (!by) {
        row = (struct mt_rule_row){.pattern = "*", .operators = MT_OPERATORS_REPLICATE, .split = ""};
    }
    p->decisions.rules[p->decisions.nrules++] = row;
}

static inline void hand_keep(struct mt_plan *p, enum hand_form form, const char *pattern, const char *by) {
    struct mt_storage_row row = {.pattern = pattern, .state = MT_STATE_SPLIT, .split = by};
    if (hand_in_nodes(form)) row.split = "", row.levels = hand_inner(p, by);
    p->decisions.storage[p->decisions.nstorage++] = row;
}

static inline void hand_tensor(const struct mt_divide *d, struct mt_plan *p, enum hand_form form, const double *speed) {
    static const char *const labels[] = {"heads", "ffn", "vocab", "seq"};
    enum mt_over over = hand_in_nodes(form) ? MT_OVER_DEVICE : MT_OVER_ALL;
    hand_split(d, p, "batch", "batch", hand_in_nodes(form) ? MT_OVER_HOST : MT_OVER_ALL, speed);
    for (int i = 0; i < 3 + hand_has_sequence(form); i++) {
        hand_split(d, p, labels[i], labels[i], over, speed);
        hand_rule(p, form, labels[i]);
    }
    hand_rule(p, form, NULL);
    hand_keep(p, form, "*.c_attn.*", "heads");
    hand_keep(p, form, "*.attn.c_proj.weight", "heads");
    hand_keep(p, form, "*.c_fc.*", "ffn");
    hand_keep(p, form, "*.mlp.c_proj.weight", "ffn");
    hand_keep(p, form, "wte.weight", "vocab");
}

/* Shares of state of every label by which a parameter is sharded. */
static inline void hand_shares(const struct mt_divide *d, struct mt_plan *p, enum mt_over over) {
    int labels[64], n = mt_sharding_labels(d->graph, labels);
    CHECK(d->graph->nlabels <= 64 && n < 12, "%d", n);
    for (int i = 0; i < n; i++) {
        const char *label = d->graph->labels[labels[i]].name;
        hand_split(d, p, mt_arena_printf(&p->arena, "storage:%s", label), label, over, NULL);
    }
    p->decisions.storage[p->decisions.nstorage++] = (struct mt_storage_row){.pattern = "*", .state = MT_STATE_SPLIT};
}

/* The plan of a form, with every share of samples in `count` micro-batches. */
static inline struct mt_plan *hand_plan(const struct mt_divide *d, enum hand_form form, const double *speed,
                                        int64_t count) {
    struct mt_plan *p = mt_plan_new(d->plan->nranks);
    p->job = d->plan->job;
    p->device = d->plan->device;
    memcpy(p->ranks, d->plan->ranks, (size_t)p->nranks * sizeof *p->ranks);
    p->splits = mt_new(&p->arena, struct mt_plan_split, 16);
    p->decisions = d->decisions;
    p->decisions.rules = mt_new(&p->arena, struct mt_rule_row, 8);
    p->decisions.storage = mt_new(&p->arena, struct mt_storage_row, 8);
    p->decisions.gradient_wire = mt_plan_wire(p);
    p->decisions.sync = MT_SYNC_REDUCE_SCATTER;
    p->decisions.gather = form == HAND_ZERO3 || form == HAND_HYBRID ? MT_GATHER_LAYER : MT_GATHER_STEP;
    p->decisions.reduced = form == HAND_ZERO3    ? MT_REDUCED_MICRO_BATCH
                           : form == HAND_HYBRID ? MT_REDUCED_NODE
                                                 : MT_REDUCED_STEP;
    if (hand_is_tensor(form)) {
        hand_tensor(d, p, form, speed);
    } else {
        hand_split(d, p, "batch", "batch", MT_OVER_ALL, speed);
        p->decisions.rules[p->decisions.nrules++] =
            (struct mt_rule_row){.pattern = "*", .operators = MT_OPERATORS_SPLIT, .split = "batch"};
        if (form != HAND_DATA) hand_shares(d, p, form == HAND_HYBRID ? MT_OVER_DEVICE : MT_OVER_ALL);
    }
    for (int r = 0; r < p->nranks; r++) p->micro[r] = (p->splits[0].sizes[r] + count - 1) / count;
    return p;
}

/* The step of a plan, proven and judged; infinite where it does not fit. */
static inline double hand_judge(const struct mt_divide *d, struct mt_plan *p) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_program program;
    struct mt_prediction found;
    bool fits = true;
    CHECK_OK(mt_program_from_plan(d->graph, p, false, &program, &err), err);
    CHECK_OK(mt_check_program(&program, NULL, &err), err);
    CHECK_OK(
        mt_algorithm_rows(&program, d->costs, &p->arena, &p->decisions.algorithms, &p->decisions.nalgorithms, &err),
        err);
    mt_program_release(&program);
    CHECK_OK(mt_program_from_plan(d->graph, p, false, &program, &err), err); /* with these algorithms */
    CHECK_OK(mt_predict(&program, d->costs, d->options, &found, &err), err);
    for (int r = 0; r < p->nranks; r++)
        fits &= !d->memory_bytes[r] || mt_rank_needs_bytes(&found.ranks[r]) <= d->memory_bytes[r];
    double step_s = fits ? found.step_s : INFINITY;
    mt_arena_release(&found.arena);
    mt_program_release(&program);
    return step_s;
}

/* What NCCL's communicators take on a rank, of a form's program. */
static inline int64_t hand_communicators(const struct mt_divide *d, enum hand_form form, int rank) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_plan *p = hand_plan(d, form, NULL, 1);
    struct mt_program program;
    struct mt_prediction found;
    CHECK_OK(mt_program_from_plan(d->graph, p, false, &program, &err), err);
    CHECK_OK(mt_predict(&program, d->costs, d->options, &found, &err), err);
    int64_t bytes = found.ranks[rank].communicator_bytes;
    mt_arena_release(&found.arena);
    mt_program_release(&program);
    mt_plan_free(p);
    return bytes;
}

/* With as few micro-batches as fit, at most `most`. */
static inline double hand_judged(const struct mt_divide *d, enum hand_form form, const double *speed, int64_t most) {
    double step_s = INFINITY;
    for (int64_t count = 1; count <= most && isinf(step_s); count *= 2) {
        struct mt_plan *p = hand_plan(d, form, speed, count);
        step_s = hand_judge(d, p);
        mt_plan_free(p);
    }
    return step_s;
}

#endif
