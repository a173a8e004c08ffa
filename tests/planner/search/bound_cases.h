/* Random clusters of 2 to 5 ranks and random plans on them, each priced by mt_predict and compared with the lower bound
 * of its cluster: no plan may be faster. Clusters have slow and directed links, hosts with slow egress or ingress,
 * classes with curves that are not convex, slowdown by overlap; a third has fits of collectives, a third memory that is
 * too little for some plans. Plans have any subset of the ranks, any shares of the samples, micro-batches, any shares
 * of the state, all structures and several buckets; those that do not fit into memory do not count. */
#ifndef MT_TESTS_PLANNER_SEARCH_BOUND_CASES_H
#define MT_TESTS_PLANNER_SEARCH_BOUND_CASES_H

#include "kernels/base/number/rng.h"
#include "planner/balance/split.h"
#include "planner/cost/algorithms.h"
#include "planner/plan/choice.h"
#include "planner/predict/predict.h"
#include "planner/search/internal.h"
#include "profiler/cluster/shape.h"
#include "synth/autodiff/autodiff.h"
#include "synth/builder/build.h"
#include "tests/check.h"
#include "tests/planner/group_fits.h"
#include "tests/profiler/clusters.h"

enum { BOUND_MOST_RANKS = 5 };

static struct mt_err bound_err = MT_ERR_INIT;

struct bound_case {
    uint64_t seed;
    uint32_t draws;
    struct mt_cluster *cluster;
    struct mt_job job;
    struct mt_model model;
    struct mt_graph *graph;
    int device[BOUND_MOST_RANKS];
    struct mt_costs costs;
    struct mt_lower_options options;
    struct mt_search search;
    bool fitted, tight;     /* it has fits; limits of memory bind */
    double bound_s, best_s; /* best: of the plans */
};

static int bound_draw(struct bound_case *c, int n) {
    return (int)(mt_random_u32(c->seed, 7, c->draws++) % (uint32_t)n);
}

/* Times of GEMMs that jump up and down by half with their rows. */
static void bound_add_curves(struct bound_case *c, struct mt_cluster_class *class) {
    static const char *const variants[] = {"nn", "nt", "tn"};
    struct mt_arena *arena = &c->cluster->arena;
    enum { NROWS = 24 };
    class->ncurves = 3;
    class->curves = mt_new(arena, struct mt_curve, 3);
    for (int v = 0; v < 3; v++) {
        struct mt_curve *curve = &class->curves[v];
        *curve = (struct mt_curve){"matmul",
                                   variants[v],
                                   MT_F32,
                                   {64, 64},
                                   NROWS,
                                   mt_new(arena, int64_t, NROWS),
                                   mt_new(arena, double, NROWS),
                                   mt_new(arena, double, NROWS)};
        for (int i = 0; i < NROWS; i++) {
            curve->rows[i] = 1 + 16 * i;
            double flops = 2.0 * 64 * 64 * (double)curve->rows[i];
            curve->time_s[i] = (class->overhead_s + flops / class->flops[MT_F32]) * (0.75 + 0.1 * bound_draw(c, 6));
            curve->error[i] = 0.02;
        }
    }
}

static void bound_make_cluster(struct bound_case *c) {
    int n = 2 + bound_draw(c, BOUND_MOST_RANKS - 1), per_node = 1 + bound_draw(c, n), nclasses = 1 + bound_draw(c, 3);
    struct mt_cluster *k = c->cluster = make_cluster(n, per_node, nclasses);
    for (int d = 0; d < n; d++) k->devices[d].speed = 1.0 / (1 + bound_draw(c, 5));
    bool gpus = bound_draw(c, 2);
    for (int i = 0; i < k->nclasses; i++) {
        if (gpus) k->classes[i].kind = "cuda";
        k->classes[i].overhead_s = 1e-6 * (1 + bound_draw(c, 20));
        if (bound_draw(c, 2)) bound_add_curves(c, &k->classes[i]);
    }
    for (int l = 0; l < k->nlinks; l++) {
        k->links[l].latency_s *= 1 + bound_draw(c, 3);
        k->links[l].bandwidth_Bps *= pow(10, bound_draw(c, 4) - 2);
        k->links[l].shared_Bps = bound_draw(c, 2) ? 0 : k->links[l].bandwidth_Bps * (1 + bound_draw(c, 2));
        k->links[l].compute_slowdown = 0.1 * bound_draw(c, 4);
        k->links[l].comm_slowdown = 0.1 * bound_draw(c, 4);
    }
    for (int h = 0; h < k->nnodes && k->network >= 0; h++) {
        double Bps = k->links[k->network].bandwidth_Bps;
        if (!bound_draw(c, 3)) k->nodes[h].egress_Bps = Bps / (1 + bound_draw(c, 10));
        if (!bound_draw(c, 3)) k->nodes[h].ingress_Bps = Bps / (1 + bound_draw(c, 10));
    }
    if (!bound_draw(c, 2)) return;
    k->pairs = mt_new(&k->arena, struct mt_cluster_pair, n * n);
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++) {
            if (!bound_draw(c, 3)) continue;
            bool inside = k->devices[a].node == k->devices[b].node;
            const struct mt_cluster_link *l = &k->links[inside ? k->nodes[k->devices[a].node].inside : k->network];
            struct mt_cluster_pair *p = &k->pairs[k->npairs++];
            *p = (struct mt_cluster_pair){.a = a,
                                          .b = b,
                                          .link = (int)(l - k->links),
                                          .latency_s = l->latency_s,
                                          .latency_error = 0.05,
                                          .bandwidth_Bps = l->bandwidth_Bps * (1 + bound_draw(c, 8)) / 4,
                                          .bandwidth_error = 0.05};
            if (bound_draw(c, 2))
                p->reverse_Bps = l->bandwidth_Bps * (1 + bound_draw(c, 8)) / 4, p->reverse_error = 0.05;
        }
}

static struct mt_plan *bound_new_plan(const struct bound_case *c, int nranks, const int *device) {
    struct mt_plan *p = mt_plan_new(nranks);
    p->made_by = "motley test";
    p->model = mt_model_text(&c->model, &p->arena);
    p->job = c->job;
    p->device = mt_arena_strdup(&p->arena, mt_cluster_kind(c->cluster));
    for (int r = 0; r < nranks; r++) p->ranks[r].memory_bytes = c->cluster->devices[device[r]].memory_bytes;
    return p;
}

/* The most that a rank holds of a plan's program, and its step. */
static inline double bound_predict(const struct bound_case *c, struct mt_plan *p, const int *device, bool *fits,
                                   int64_t *arena_bytes) {
    struct mt_costs costs = {.cluster = c->cluster, .nranks = p->nranks, .device = device};
    struct mt_program program;
    struct mt_prediction prediction;
    struct mt_decisions *d = &p->decisions;
    CHECK_OK(mt_program_from_plan(c->graph, p, false, &program, &bound_err), bound_err);
    CHECK_OK(mt_algorithm_rows(&program, &costs, &p->arena, &d->algorithms, &d->nalgorithms, &bound_err), bound_err);
    mt_program_release(&program);
    CHECK_OK(mt_program_from_plan(c->graph, p, false, &program, &bound_err), bound_err);
    CHECK_OK(mt_predict(&program, &costs, &c->options, &prediction, &bound_err), bound_err);
    double step_s = prediction.step_s;
    *fits = true;
    *arena_bytes = 0;
    for (int r = 0; r < p->nranks; r++) {
        int64_t needs = prediction.ranks[r].arena_bytes;
        if (p->ranks[r].memory_bytes && needs > p->ranks[r].memory_bytes) *fits = false;
        if (needs > *arena_bytes) *arena_bytes = needs;
    }
    mt_arena_release(&prediction.arena);
    mt_program_release(&program);
    return step_s;
}

/* Limits from 0.4 to 1.6 times what the whole job needs on one rank. */
static void bound_limit_memory(struct bound_case *c) {
    struct mt_plan *p = bound_new_plan(c, 1, c->device);
    int64_t whole_bytes, batch = c->job.batch;
    bool fits;
    p->splits = mt_new(&p->arena, struct mt_plan_split, 1);
    p->splits[p->nsplits++] = (struct mt_plan_split){.name = "batch", .label = "batch", .align = 1, .sizes = &batch};
    p->micro[0] = batch;
    mt_decisions_complete(&p->decisions, &p->arena);
    p->decisions.gradient_wire = MT_F32;
    bound_predict(c, p, c->device, &fits, &whole_bytes);
    mt_plan_free(p);
    for (int d = 0; d < c->cluster->ndevices; d++)
        c->cluster->devices[d].memory_bytes = whole_bytes * (8 + bound_draw(c, 25)) / 20;
}

static inline void bound_set_up(struct bound_case *c, uint64_t seed) {
    static const char *const models[] = {"mlp", "gpt2:layers=1,heads=2,embed=64,context=16,vocab=256",
                                         "gpt2:layers=2,heads=2,embed=32,context=8,vocab=1024"};
    *c = (struct bound_case){.seed = seed, .best_s = INFINITY};
    bound_make_cluster(c);
    mt_job_default(&c->job);
    c->job.batch = 1 + bound_draw(c, 12);
    CHECK_OK(mt_model_parse(models[bound_draw(c, 3)], &c->model, &bound_err), bound_err);
    CHECK_OK(mt_model_graph(&c->model, c->job.precision, c->job.batch, 0, 0, &c->graph, &bound_err), bound_err);
    CHECK_OK(mt_graph_differentiate(c->graph, &bound_err), bound_err);
    CHECK_OK(mt_graph_optimize(c->graph, &c->job.optimizer, &bound_err), bound_err);
    for (int d = 0; d < c->cluster->ndevices; d++) c->device[d] = d;
    c->costs = (struct mt_costs){.cluster = c->cluster, .nranks = c->cluster->ndevices, .device = c->device};
    c->options = (struct mt_lower_options){.fuse = true, .latency_s = 30e-6, .bandwidth_Bps = 1e9};
    if ((c->fitted = seed % 3 == 1)) add_fitted_groups(c->cluster, seed);
    if ((c->tight = seed % 3 == 2)) bound_limit_memory(c);
    c->search = (struct mt_search){.model = &c->model,
                                   .graph = c->graph,
                                   .job = &c->job,
                                   .costs = &c->costs,
                                   .options = &c->options,
                                   .fixed = {.decisions = mt_decisions_unset},
                                   .limit_s = 600};
    struct mt_plan *p = bound_new_plan(c, c->costs.nranks, c->device);
    CHECK_OK(mt_search_bound(&c->search, p, &c->search.fixed.decisions, &c->bound_s, &bound_err), bound_err);
    CHECK((c->bound_s > 0 || c->tight) && isfinite(c->bound_s), "seed %llu: a bound of %g", (unsigned long long)seed,
          c->bound_s);
    mt_plan_free(p);
}

static void bound_tear_down(struct bound_case *c) {
    mt_graph_free(c->graph);
    mt_cluster_free(c->cluster);
}

/* `extent` over n ranks by random weights, many of which are 0. */
static void bound_divide(struct bound_case *c, int64_t extent, int64_t align, int n, int64_t *sizes) {
    double weight[BOUND_MOST_RANKS], sum = 0;
    for (int r = 0; r < n; r++) sum += weight[r] = bound_draw(c, 3) ? 1 + bound_draw(c, 6) : 0;
    if (!(sum > 0)) weight[bound_draw(c, n)] = 1;
    CHECK_OK(mt_split_proportional(extent, align, weight, n, sizes, &bound_err), bound_err);
}

static void bound_fill_plan(struct bound_case *c, struct mt_plan *p) {
    static const int64_t buckets[] = {0, 1 << 14, 1 << 16, 1 << 20};
    static struct mt_storage_row everything[] = {{.pattern = "*", .state = MT_STATE_REPLICATED},
                                                 {.pattern = "*", .state = MT_STATE_SPLIT}};
    int labels[16], nlabels = mt_sharding_labels(c->graph, labels);
    p->splits = mt_new(&p->arena, struct mt_plan_split, nlabels + 1);
    p->splits[p->nsplits++] = (struct mt_plan_split){
        .name = "batch", .label = "batch", .align = 1, .sizes = mt_new(&p->arena, int64_t, p->nranks)};
    bound_divide(c, c->job.batch, 1, p->nranks, p->splits[0].sizes);
    bool whole = bound_draw(c, 2);
    for (int r = 0; r < p->nranks; r++) {
        int64_t share = p->splits[0].sizes[r];
        p->micro[r] = share && !whole ? 1 + bound_draw(c, (int)share) : share;
    }
    for (int l = 0; l < nlabels; l++) {
        const struct mt_label *label = &c->graph->labels[labels[l]];
        struct mt_plan_split *split = &p->splits[p->nsplits++];
        *split = (struct mt_plan_split){.name = mt_arena_printf(&p->arena, "storage:%s", label->name),
                                        .label = label->name,
                                        .align = label->align,
                                        .sizes = mt_new(&p->arena, int64_t, p->nranks)};
        bound_divide(c, label->extent, label->align, p->nranks, split->sizes);
    }
    p->decisions.nstorage = 1;
    p->decisions.storage = &everything[p->nranks > 1 ? bound_draw(c, 2) : 0];
    mt_decisions_complete(&p->decisions, &p->arena);
    p->decisions.sync = bound_draw(c, 2) ? MT_SYNC_ALL_REDUCE : MT_SYNC_REDUCE_SCATTER;
    p->decisions.start = bound_draw(c, 2) ? MT_START_FULL : MT_START_ATTENTION;
    p->decisions.bucket_bytes = buckets[bound_draw(c, 4)];
    p->decisions.gradient_wire = MT_F32;
}

/* A random plan on a random subset: its step, with the algorithms that are fastest; infinite where it does not fit. */
static inline double bound_random_plan(struct bound_case *c) {
    int device[BOUND_MOST_RANKS], n = 0;
    while (!n)
        for (int d = 0; d < c->cluster->ndevices; d++)
            if (bound_draw(c, 3)) device[n++] = d;
    struct mt_plan *p = bound_new_plan(c, n, device);
    bool fits;
    int64_t most_bytes;
    bound_fill_plan(c, p);
    double step_s = bound_predict(c, p, device, &fits, &most_bytes);
    mt_plan_free(p);
    if (!fits) return INFINITY;
    c->best_s = fmin(c->best_s, step_s);
    return step_s;
}

/* What a bound of 0 says: no plan fits. */
static inline bool bound_says_none(const struct bound_case *c) {
    return !(c->bound_s > 0);
}

/* Plans of all clusters: that fit, of them on clusters with fits; that do not fit; below the bound. */
struct bound_tally {
    int plans, fitted, misfits, below;
};

static inline void bound_tell_below(const struct bound_case *c, const char *what, int i, double step_s,
                                    struct bound_tally *tally) {
    printf("seed %llu, %s %d: %g s, %.3f%% below the bound of %g s\n", (unsigned long long)c->seed, what, i, step_s,
           100 * (1 - step_s / c->bound_s), c->bound_s);
    tally->below++;
}

/* Plans of one cluster, as many as fit of at most eight times as many. */
static inline void bound_try(struct bound_case *c, int nplans, struct bound_tally *tally) {
    int fit = 0;
    for (int i = 0; i < 8 * nplans && fit < nplans; i++) {
        double step_s = bound_random_plan(c);
        tally->misfits += isinf(step_s);
        if (isinf(step_s)) continue;
        fit++;
        if (step_s >= c->bound_s && !bound_says_none(c)) continue;
        bound_tell_below(c, "plan", i, step_s, tally);
    }
    tally->plans += fit;
    if (c->fitted) tally->fitted += fit;
}

#endif
