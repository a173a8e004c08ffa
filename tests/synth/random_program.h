/* Training graphs, random choices for them, and inputs: what tests of programs run on. */
#ifndef MT_TESTS_SYNTH_RANDOM_PROGRAM_H
#define MT_TESTS_SYNTH_RANDOM_PROGRAM_H

#include <stdlib.h>

#include "kernels/base/number/rng.h"
#include "synth/job/job.h"
#include "synth/builder/build.h"
#include "synth/interp/interp.h"
#include "synth/models/model.h"
#include "tests/check.h"
#include "tests/synth/layout/rules.h"
#include "tests/synth/layout/trees.h"
#include "synth/autodiff/autodiff.h"

enum { SEED = 20261120 };

static uint64_t draws;
static inline int64_t below(int64_t bound) {
    return (int64_t)mt_random_below(SEED, 1, draws++, (uint64_t)bound);
}

static inline struct mt_graph *training_graph_of(const char *text, enum mt_type type, int64_t batch, double dropout) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_model model;
    struct mt_graph *g;
    struct mt_job job;
    mt_job_default(&job);
    job.optimizer.clip = 0.5;
    job.optimizer.lr = 0.01;
    CHECK_OK(mt_model_parse(text, &model, &err), err);
    CHECK_OK(mt_model_graph(&model, type, batch, 0, dropout, &g, &err), err);
    static int made; /* every third scales its loss, every other allows any order */
    job.precision = type;
    job.any_order = made % 2;
    if (type == MT_F16 || made++ % 3 == 1) job.loss_scale = 16, job.loss_scale_interval = 2;
    mt_graph_set_precision(g, &job);
    CHECK_OK(mt_graph_differentiate(g, &err), err);
    CHECK_OK(mt_graph_optimize(g, &job.optimizer, &err), err);
    return g;
}

static inline struct mt_graph *training_graph(const char *text, int64_t batch, double dropout) {
    return training_graph_of(text, MT_F64, batch, dropout);
}

static inline struct mt_split random_shares(struct mt_arena *arena, const struct mt_graph *g, int label, int nranks) {
    struct mt_split s = {.name = g->labels[label].name, .label = label};
    s.sizes = mt_new(arena, int64_t, nranks);
    s.starts = mt_new(arena, int64_t, nranks + 1);
    for (int64_t i = 0; i < g->labels[label].extent; i++) s.sizes[below(nranks)]++;
    if (nranks > 1 && below(3) == 0) { /* a share of zero */
        int64_t from = below(nranks), to = (from + 1) % nranks;
        s.sizes[to] += s.sizes[from];
        s.sizes[from] = 0;
    }
    for (int r = 0; r < nranks; r++) s.starts[r + 1] = s.starts[r] + s.sizes[r];
    return s;
}

static inline int label_named(const struct mt_graph *g, const char *name) {
    int l = mt_graph_find_label(g, name);
    CHECK(l >= 0, "%s", name);
    return l;
}

/* `wild`: any rule for every operator; otherwise samples are split over the batch and the rest is drawn. */
static inline void random_choice(struct mt_arena *arena, const struct mt_graph *g, int nranks, bool wild,
                                 struct mt_choice *choice) {
    struct mt_split *splits = mt_new(arena, struct mt_split, g->nlabels);
    for (int l = 0; l < g->nlabels; l++) splits[l] = random_shares(arena, g, l, nranks);
    *choice = (struct mt_choice){
        .nranks = nranks, .splits = splits, .nsplits = g->nlabels, .decisions = {.gradient_wire = MT_F64}};
    choice->batch = &splits[label_named(g, "batch")];
    choice->decisions.sync = below(2) ? MT_SYNC_ALL_REDUCE : MT_SYNC_REDUCE_SCATTER;
    choice->decisions.bucket_bytes = below(2) * 1000;
    choice->micro = mt_new(arena, int64_t, nranks);
    for (int r = 0; r < nranks; r++) choice->micro[r] = choice->batch->sizes[r];
    if (draws % 2) choice->alike = mt_new(arena, int, nranks); /* all devices are; else nobody knows */
    choice->rules = mt_new(arena, struct mt_rule, g->nops);
    for (int o = 0; o < g->nops; o++) {
        struct mt_rule rules[MT_MAX_INDICES + MT_MAX_IN + 1];
        int n = all_rules(&g->ops[o], splits, g->nlabels, rules);
        CHECK(n > 0, "%s", g->ops[o].name);
        choice->rules[o] = rules[below(n)];
        for (int r = 0; r < n && !wild; r++)
            if (rules[r].kind == MT_RULE_SPLIT && rules[r].split->label == g->batch) choice->rules[o] = rules[r];
    }
}

/* What takes messages in BODY: only where all ranks have as many micro-batches. */
static inline void random_schedule(struct mt_choice *choice) {
    choice->decisions.gather = (enum mt_gather)below(MT_NGATHER);
    choice->decisions.reduced = (enum mt_reduced)below(MT_NREDUCED);
}

/* As a wild choice, or not, with `count` micro-batches on every rank, so that the body may communicate; the batch is a
 * multiple of `count`. */
static inline void choice_in_step(struct mt_arena *arena, const struct mt_graph *g, int nranks, int64_t count,
                                  bool wild, struct mt_choice *choice) {
    random_choice(arena, g, nranks, wild, choice);
    int64_t *sizes = choice->batch->sizes, *starts = choice->batch->starts;
    for (int r = 0; r < nranks; r++) choice->micro[r] = sizes[r] = 0;
    for (int64_t i = 0; i < g->labels[g->batch].extent / count; i++) choice->micro[below(nranks)]++;
    for (int r = 0; r < nranks; r++) {
        sizes[r] = count * choice->micro[r];
        starts[r + 1] = starts[r] + sizes[r];
    }
    random_schedule(choice);
}

/* Samples are divided by `batch`; null: such a level replicates. */
static inline struct mt_rule without_samples(const struct mt_graph *g, const struct mt_op *op, struct mt_rule level,
                                             const struct mt_split *batch) {
    if (level.kind != MT_RULE_SPLIT || op->index_label[level.index] != g->batch) return level;
    level.split = batch;
    if (!batch) level.kind = MT_RULE_REPLICATE;
    return level;
}

/* Random trees over a random mesh, by turns wild and with samples over nodes wherever that can be, which the ranks of a
 * node may divide again; `count` micro-batches on every rank, and the batch is a multiple of it. */
static inline void tree_choice(struct mt_arena *arena, const struct mt_graph *g, int nranks, int64_t count,
                               struct mt_choice *choice) {
    struct dice dice = {.seed = SEED + draws++};
    random_choice(arena, g, nranks, true, choice);
    choice->mesh = random_mesh(&dice, arena, nranks, 3);
    struct mt_split *batch =
        random_host_split(&dice, arena, &choice->mesh, g->batch, g->labels[g->batch].extent / count);
    bool wild = below(3) == 0;
    for (int r = 0; r < nranks; r++) choice->micro[r] = batch->sizes[choice->mesh.node[r]];
    for (int k = 0; k < choice->mesh.nnodes; k++) batch->sizes[k] *= count, batch->starts[k + 1] *= count;
    choice->batch = batch;
    struct mt_split *within =
        random_device_split(&dice, arena, &choice->mesh, g->batch, g->labels[g->batch].extent, batch);
    for (int o = 0; o < g->nops; o++) {
        const struct mt_op *op = &g->ops[o];
        int64_t extent[MT_MAX_INDICES];
        mt_op_extents(g, op, extent);
        struct mt_rule rule = random_tree(&dice, arena, op, &choice->mesh, extent), *inner = NULL;
        int samples = -1;
        for (int i = 0; i < op->nindices; i++)
            if (op->index_label[i] == g->batch) samples = i;
        bool single = rule.kind == MT_RULE_SPLIT && rule.split->axis == MT_AXIS_DEVICE;
        if (samples >= 0) rule = without_samples(g, op, rule, single ? NULL : batch);
        if (rule.inner) {
            inner = mt_arena_memdup(arena, rule.inner, (size_t)choice->mesh.nnodes * sizeof *inner);
            bool again = rule.kind == MT_RULE_SPLIT && rule.index == samples;
            for (int k = 0; k < choice->mesh.nnodes && samples >= 0; k++)
                inner[k] = without_samples(g, op, inner[k], again ? within : NULL);
            rule.inner = inner;
        }
        bool whole = true; /* no inner level divides a node's share */
        for (int k = 0; k < choice->mesh.nnodes && inner; k++)
            whole &= inner[k].kind != MT_RULE_SPLIT || inner[k].index != rule.index;
        if (!wild && samples >= 0 && !single && mt_op_index_role(op, samples) != MT_INDEX_WHOLE && whole)
            rule = (struct mt_rule){.kind = MT_RULE_SPLIT, .index = samples, .split = batch, .inner = inner};
        choice->rules[o] = rule;
    }
    random_schedule(choice);
}

/* The choice of one of many rounds: of one to four ranks, in step or else by turns wild and not. */
static inline void choice_of_round(struct mt_arena *arena, const struct mt_graph *g, int round, bool in_step,
                                   struct mt_choice *choice) {
    int nranks = 1 + (int)below(4);
    if (in_step)
        choice_in_step(arena, g, nranks, 2 + below(2), round % 3, choice);
    else
        random_choice(arena, g, nranks, round % 2 == 0, choice);
    for (int r = 0; r < nranks && !in_step && round % 2; r++) choice->micro[r] = 1 + below(3);
    if (!in_step && round % 2 == 0) random_schedule(choice);
}

/* The whole of an input that random_inputs sets: tokens, targets (one of them not counted), positions. */
static inline int32_t *input_ids(const struct mt_graph *g, int value) {
    int64_t count = mt_value_count(g, value), limit = 7;
    int32_t *ids = malloc((size_t)count * sizeof *ids);
    bool positions = !strcmp(g->values[value].name, "positions");
    for (int64_t i = 0; i < count; i++)
        ids[i] = positions ? (int32_t)i : (int32_t)mt_random_below(SEED, (uint64_t)value, (uint64_t)i, (uint64_t)limit);
    if (!strcmp(g->values[value].name, "targets")) ids[count / 2] = -1;
    return ids;
}

static inline void set_inputs(struct mt_interp *interp, const struct mt_graph *g) {
    for (int v = 0; v < g->nvalues; v++) {
        if (g->values[v].kind != MT_VALUE_INPUT) continue;
        int32_t *ids = input_ids(g, v);
        mt_interp_set(interp, v, ids);
        free(ids);
    }
}

#endif
