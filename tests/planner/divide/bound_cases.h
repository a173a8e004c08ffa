/* Random programs of all kinds on random clusters of up to 5 ranks, each judged by mt_predict and compared with the
 * bound on all programs (planner/divide/bound.h): none may be faster.
 *
 * Clusters are those of planner/search/bound_cases.h (slow and fast links, devices of unequal speeds, curves that bend,
 * fits of collectives) and described GPUs; networks go from slow ones to such that cost nothing, where the bound is
 * nearest. Programs run on any subset of the ranks: any rule for every operator; samples alone; trees over a random
 * mesh; and coherent ones, in which every operator is divided by the first of its labels in a random order. */
#ifndef MT_TESTS_PLANNER_DIVIDE_BOUND_CASES_H
#define MT_TESTS_PLANNER_DIVIDE_BOUND_CASES_H

#include "planner/divide/bound.h"
#include "planner/predict/predict.h"
#include "profiler/describe/describe.h"
#include "tests/planner/search/bound_cases.h"
#include "tests/synth/random_program.h"

static inline struct mt_cluster *all_described(struct bound_case *c) {
    static const char *const texts[] = {
        "h100:1x4 net=800G", "h100:1x2 net=100G + h100:1x2",       "a10:1 net=25G + l4:1x2",
        "t4:1x4 net=10G",    "h100:1 net=400G + a100-80:1 + t4:1", "a100-40:1x3 net=1600G"};
    struct mt_cluster *k;
    CHECK_OK(mt_cluster_describe(texts[bound_draw(c, 6)], NULL, &k, &bound_err), bound_err);
    return k;
}

/* Links up to so fast that messages take next to no time. */
static inline void all_vary_links(struct bound_case *c) {
    static const double faster[] = {1, 1, 30, 1e4};
    for (int l = 0; l < c->cluster->nlinks; l++) {
        struct mt_cluster_link *link = &c->cluster->links[l];
        double by = faster[bound_draw(c, 4)];
        link->latency_s /= by;
        link->bandwidth_Bps *= by;
        link->shared_Bps *= by;
        if (by > 1) link->compute_slowdown = link->comm_slowdown = 0;
    }
}

static inline void all_set_up(struct bound_case *c, uint64_t seed) {
    static const char *const models[] = {"mlp:context=8,embed=32,hidden=64,layers=2,vocab=64",
                                         "gpt2:layers=1,heads=4,embed=64,context=16,vocab=256",
                                         "gpt2:layers=2,heads=2,embed=256,context=64,vocab=512"};
    static const enum mt_type types[] = {MT_F32, MT_F32, MT_BF16};
    *c = (struct bound_case){.seed = seed, .best_s = INFINITY};
    bool described = seed % 2;
    if (described)
        c->cluster = all_described(c);
    else
        bound_make_cluster(c);
    all_vary_links(c);
    mt_job_default(&c->job);
    c->job.batch = 4 * (1 + bound_draw(c, 3));
    c->job.precision = types[described ? bound_draw(c, 3) : 0];
    CHECK_OK(mt_model_parse(models[bound_draw(c, 3)], &c->model, &bound_err), bound_err);
    CHECK_OK(mt_model_graph(&c->model, c->job.precision, c->job.batch, 0, 0, &c->graph, &bound_err), bound_err);
    mt_graph_set_precision(c->graph, &c->job);
    CHECK_OK(mt_graph_differentiate(c->graph, &bound_err), bound_err);
    CHECK_OK(mt_graph_optimize(c->graph, &c->job.optimizer, &bound_err), bound_err);
    for (int d = 0; d < c->cluster->ndevices; d++) c->device[d] = d;
    c->costs = (struct mt_costs){.cluster = c->cluster, .nranks = c->cluster->ndevices, .device = c->device};
    c->options = (struct mt_lower_options){.fuse = true, .latency_s = 30e-6, .bandwidth_Bps = 1e9};
    if ((c->fitted = !described && seed % 3 == 1)) add_fitted_groups(c->cluster, seed);
    c->search = (struct mt_search){.model = &c->model,
                                   .graph = c->graph,
                                   .job = &c->job,
                                   .costs = &c->costs,
                                   .options = &c->options,
                                   .fixed = {.decisions = mt_decisions_unset},
                                   .limit_s = 600};
    struct mt_divide_bound *bound;
    CHECK_OK(mt_divide_bound_open(c->graph, &c->job, mt_cluster_kind(c->cluster), &c->options, &bound, &bound_err),
             bound_err);
    c->bound_s = mt_divide_bound_s(bound, &c->costs);
    mt_divide_bound_close(bound);
    CHECK(c->bound_s > 0, "seed %d: a bound of %g", (int)seed, c->bound_s);
}

/* Every operator is split by the first of its labels in a random order; a few labels of that order are never used. */
static inline void all_coherent(struct mt_arena *arena, const struct mt_graph *g, int nranks,
                                struct mt_choice *choice) {
    int *order = mt_new(arena, int, g->nlabels);
    random_choice(arena, g, nranks, false, choice);
    for (int l = 0; l < g->nlabels; l++) order[l] = l;
    for (int l = g->nlabels - 1; l > 0; l--) {
        int k = (int)below(l + 1), swapped = order[l];
        order[l] = order[k], order[k] = swapped;
    }
    int used = 1 + (int)below(g->nlabels);
    for (int s = 0; s < choice->nsplits && below(2); s++) { /* even shares */
        struct mt_split *split = (struct mt_split *)(uintptr_t)&choice->splits[s];
        int64_t extent = g->labels[split->label].extent;
        for (int r = 0; r < nranks; r++) {
            split->starts[r + 1] = extent * (r + 1) / nranks;
            split->sizes[r] = split->starts[r + 1] - split->starts[r];
        }
    }
    for (int r = 0; r < nranks; r++) choice->micro[r] = choice->batch->sizes[r];
    for (int o = 0; o < g->nops; o++) {
        const struct mt_op *op = &g->ops[o];
        struct mt_rule *rule = &choice->rules[o];
        *rule = (struct mt_rule){.kind = MT_RULE_REPLICATE};
        for (int l = 0; l < used && rule->kind == MT_RULE_REPLICATE; l++)
            for (int i = 0; i < op->nindices && rule->kind == MT_RULE_REPLICATE; i++)
                if (op->index_label[i] == order[l] && mt_op_index_role(op, i) != MT_INDEX_WHOLE)
                    *rule = (struct mt_rule){.kind = MT_RULE_SPLIT, .index = i, .split = &choice->splits[order[l]]};
    }
}

/* A random program on a random subset: its step; infinite where the builder refuses it. */
static inline double all_random_program(struct bound_case *c) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_choice choice;
    struct mt_program program;
    struct mt_prediction prediction;
    struct mt_err err = MT_ERR_INIT;
    int device[BOUND_MOST_RANKS], n = 0;
    while (!n)
        for (int d = 0; d < c->cluster->ndevices; d++)
            if (bound_draw(c, 4)) device[n++] = d;
    switch (bound_draw(c, 6)) {
    case 0: random_choice(&arena, c->graph, n, true, &choice); break;
    case 1: random_choice(&arena, c->graph, n, false, &choice); break;
    case 2: choice_in_step(&arena, c->graph, n, 2, bound_draw(c, 2), &choice); break;
    case 3: tree_choice(&arena, c->graph, n, 1 + bound_draw(c, 2), &choice); break;
    default: all_coherent(&arena, c->graph, n, &choice);
    }
    choice.decisions.gradient_wire = MT_F32;
    double step_s = INFINITY;
    enum mt_status st = mt_build(c->graph, &choice, &program, &err);
    CHECK(!st || st == MT_EINPUT, "seed %d: %s", (int)c->seed, err.text);
    if (!st) {
        struct mt_costs costs = {.cluster = c->cluster, .nranks = n, .device = device};
        CHECK_OK(mt_predict(&program, &costs, &c->options, &prediction, &err), err);
        step_s = prediction.step_s;
        mt_arena_release(&prediction.arena);
        mt_program_release(&program);
    }
    mt_arena_release(&arena);
    if (step_s < c->best_s) c->best_s = step_s;
    return step_s;
}

/* Programs of one cluster, as many as are built of at most four times as many. */
static inline void all_try(struct bound_case *c, int nprograms, struct bound_tally *tally) {
    int built = 0;
    for (int i = 0; i < 4 * nprograms && built < nprograms; i++) {
        double step_s = all_random_program(c);
        tally->misfits += isinf(step_s);
        if (isinf(step_s)) continue;
        built++;
        if (step_s >= c->bound_s) continue;
        bound_tell_below(c, "program", i, step_s, tally);
    }
    tally->plans += built;
    if (c->fitted) tally->fitted += built;
}

#endif
