/* Plans written by hand, and what is printed of one. */
#ifndef MT_TESTS_PLANNER_PLAN_PLANS_H
#define MT_TESTS_PLANNER_PLAN_PLANS_H

#include "planner/plan/tables.h"
#include "tests/edited.h"
#include "tests/lines.h"

static inline void add_prediction(struct mt_plan *p) {
    memset(p->cluster_hash, 'c', 32);
    struct mt_plan_prediction *f = p->prediction = mt_new(&p->arena, struct mt_plan_prediction, 1);
    *f = (struct mt_plan_prediction){
        .step_s = 0.2125, .error = 0.04, .error_below = 0.03125, .bound_s = 0.2, .nominal = true, .nrejected = 3};
    f->times = mt_new(&p->arena, struct mt_plan_time, 3);
    f->times[0] = (struct mt_plan_time){0.2, 0.0125, 0};
    f->times[1] = (struct mt_plan_time){0.1, 0.02, 0.0925};
    f->times[2] = (struct mt_plan_time){1. / 7, 0, 1e-9};
    f->rejected = mt_new(&p->arena, struct mt_plan_rejected, 3);
    f->rejected[0] = (struct mt_plan_rejected){"proportional shares", "slower", 0.25};
    f->rejected[1] = (struct mt_plan_rejected){"even shares", "slower", 0.425};
    f->rejected[2] = (struct mt_plan_rejected){"replicated state", "does not fit: rank 2 lacks 1.20 GiB", 0};
}

/* Three ranks, written by hand. */
static inline struct mt_plan *make_plan(void) {
    struct mt_plan *p = mt_plan_new(3);
    p->made_by = "motley test";
    p->model = "gpt2:layers=2";
    memset(p->model_hash, 'a', 32);
    memset(p->program_hash, '0', 32);
    p->job.batch = 10;
    p->job.seq = 64;
    static const char *const hosts[] = {"big", "big", "small.cluster"};
    static const double speeds[] = {1, 0.7, 0.3};
    static int64_t batch[] = {5, 4, 1}, vocab[] = {128, 0, 129}, micro[] = {2, 4, 1};
    for (int r = 0; r < 3; r++) {
        p->ranks[r] = (struct mt_plan_rank){hosts[r], r ? "xeon-2t" : "", speeds[r], r == 2 ? 1 << 30 : 0, 0};
        p->memory[r] = (struct mt_plan_memory){.state_bytes = 1000 + r, .arena_bytes = 2000 + r, .window_bytes = 4096};
    }
    memcpy(p->micro, micro, sizeof micro);
    p->nsplits = 2;
    p->splits = mt_new(&p->arena, struct mt_plan_split, 2);
    p->splits[0] = (struct mt_plan_split){.name = "batch", .label = "batch", .align = 1, .sizes = batch};
    p->splits[1] = (struct mt_plan_split){.name = "storage:vocab", .label = "vocab", .align = 8, .sizes = vocab};
    struct mt_rule_row rules[] = {{.pattern = "lm_head*", .operators = MT_OPERATORS_REPLICATE, .split = ""},
                                  {.pattern = "*", .operators = MT_OPERATORS_SPLIT, .split = "batch"}};
    struct mt_storage_row storage[] = {{.pattern = "*.ln_?.*", .state = MT_STATE_REPLICATED},
                                       {.pattern = "*", .state = MT_STATE_SPLIT}};
    struct mt_algorithm_row algorithms[] = {{MT_REDUCE_SCATTER, "ring", 0},
                                            {MT_ALL_GATHER, "bruck", 4096},
                                            {MT_ALL_GATHER, "direct", 65536},
                                            {MT_ALL_GATHER, "auto", 0}};
    p->decisions = mt_decisions_copy(&(struct mt_decisions){.nrules = 2,
                                                            .nstorage = 2,
                                                            .nalgorithms = 4,
                                                            .rules = rules,
                                                            .storage = storage,
                                                            .algorithms = algorithms,
                                                            .sync = MT_SYNC_REDUCE_SCATTER,
                                                            .start = MT_START_FULL,
                                                            .bucket_bytes = 4 << 20,
                                                            .gradient_wire = MT_BF16},
                                     &p->arena);
    add_prediction(p);
    p->flops_per_step = 1.5e12;
    p->parameters = 124439808;
    return p;
}

/* Rank 1 is idle, and rank 2 has the first place of the program. */
static inline struct mt_plan *make_idle(void) {
    struct mt_plan *p = make_plan();
    p->nplaces = 2;
    p->order[0] = 2, p->order[1] = 0;
    static int64_t batch[] = {9, 0, 1};
    p->splits[0].sizes = batch;
    p->micro[1] = 0;
    p->prediction->nidle = 1;
    p->prediction->idle = mt_new(&p->arena, struct mt_plan_idle, 1);
    p->prediction->idle[0] = (struct mt_plan_idle){1, "its link slows all", 0.5};
    return p;
}

/* Samples over the two hosts, heads within them. */
static inline struct mt_plan *make_mesh(void) {
    static const char *const heads[] = {"heads"}, *const differ[] = {"heads", ""};
    static int64_t batch[] = {8, 8, 2}, sizes[] = {3, 1, 4}, micro[] = {4, 4, 2};
    struct mt_plan *p = make_plan();
    struct mt_plan_split *splits = mt_new(&p->arena, struct mt_plan_split, 3);
    memcpy(splits, p->splits, 2 * sizeof *splits);
    splits[0].sizes = batch, splits[0].over = MT_OVER_HOST;
    splits[2] =
        (struct mt_plan_split){.name = "heads", .label = "heads", .align = 1, .sizes = sizes, .over = MT_OVER_DEVICE};
    p->splits = splits, p->nsplits = 3;
    memcpy(p->micro, micro, sizeof micro);
    struct mt_rule_row rules[] = {{"*.attn*", MT_OPERATORS_SPLIT, "batch", {1, heads, 0, 2}},
                                  {"*.mlp*", MT_OPERATORS_SPLIT, "", {2, differ, 0, 0}},
                                  {"*", MT_OPERATORS_SPLIT, "batch", {0}}};
    struct mt_storage_row storage[] = {{"*.c_attn.*", MT_STATE_SPLIT, "heads", {.occurrence = 2}},
                                       {"*.c_proj.*", MT_STATE_SPLIT, "", {2, differ, 0, 0}},
                                       {"*", MT_STATE_SPLIT, "", {0}}};
    struct mt_decisions d = p->decisions;
    d.nrules = d.nstorage = 3, d.rules = rules, d.storage = storage;
    p->decisions = mt_decisions_copy(&d, &p->arena);
    return p;
}

/* Takes the plan. Its tables have these pieces of lines, where spaces count as one. */
static inline void check_printed(struct mt_plan *p, const char *const *lines, size_t nlines) {
    struct mt_tables doc = MT_TABLES_INIT;
    mt_plan_tables(p, &doc);
    check_lines(&doc, lines, nlines);
    mt_plan_free(p);
}

#endif
