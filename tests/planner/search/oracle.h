/* Random small clusters, and the fastest plan on each by brute force: all non-empty subsets of the ranks, all shares of
 * the batch, three structures, two divisions of state, two sizes of buckets, whole shares and micro-batches of one.
 * Only the judge is shared with the search: a plan's program, and its prediction.
 *
 * Clusters have two to four ranks of up to three classes: times that rise in steps, slow links, links and hosts with
 * one slow direction, ranks that are of no use, memory that is too little for some plans, or for all. */
#ifndef MT_TESTS_PLANNER_SEARCH_ORACLE_H
#define MT_TESTS_PLANNER_SEARCH_ORACLE_H

#include "kernels/base/number/rng.h"
#include "planner/balance/split.h"
#include "planner/cost/algorithms.h"
#include "planner/plan/choice.h"
#include "planner/predict/predict.h"
#include "synth/builder/build.h"
#include "tests/planner/search/setting.h"

enum { ORACLE_MOST_RANKS = 4 };

struct oracle {
    struct setting setting;
    int64_t nplans;
    double even_s, proportional_s, single_s, best_s; /* infinite where nothing of the kind fits */
    char best[120];                                  /* what the best is, for people */
};

/* Draws of one cluster. */
struct oracle_draws {
    uint64_t seed;
    uint32_t next;
};
static inline int oracle_draw(struct oracle_draws *d, int below) {
    return (int)(mt_random_u32(d->seed, 7, d->next++) % (uint32_t)below);
}

/* Times of matrix multiplications that rise by steps of so many rows. */
static inline void oracle_stairs(struct mt_cluster *c, struct mt_cluster_class *class, int64_t step) {
    static const char *const variants[] = {"nn", "nt", "tn"};
    enum { STEPS = 12 };
    class->ncurves = 3;
    class->curves = mt_new(&c->arena, struct mt_curve, 3);
    for (int v = 0; v < 3; v++) {
        struct mt_curve *curve = &class->curves[v];
        *curve = (struct mt_curve){.op = "matmul", .variant = variants[v], .type = MT_F32, .dim = {64, 64}};
        curve->npoints = 2 * STEPS;
        curve->rows = mt_new(&c->arena, int64_t, 2 * STEPS);
        curve->time_s = mt_new(&c->arena, double, 2 * STEPS);
        curve->error = mt_new(&c->arena, double, 2 * STEPS);
        for (int i = 0; i < 2 * STEPS; i++) {
            curve->rows[i] = i / 2 * step + (i % 2 ? step : 1);
            curve->time_s[i] = class->overhead_s + 2.0 * 64 * 64 * (double)((i / 2 + 1) * step) / class->flops[MT_F32];
            curve->error[i] = 0.01;
        }
    }
}

static inline void oracle_open(struct oracle *o, uint64_t seed) {
    static const char *const models[] = {"mlp:context=8,embed=16,hidden=64,layers=1,vocab=64",
                                         "gpt2:layers=1,heads=2,embed=32,context=16,vocab=64",
                                         "mlp:context=8,embed=64,hidden=256,layers=2,vocab=64"};
    struct oracle_draws d = {seed, 0};
    int n = 2 + oracle_draw(&d, seed % 4 ? 2 : 3), per_node = 1 + oracle_draw(&d, n), nclasses = 1 + oracle_draw(&d, 3);
    struct mt_cluster *c = make_cluster(n, per_node, nclasses);
    *o = (struct oracle){.nplans = 0};
    double slower = pow(10, -oracle_draw(&d, 3)); /* computing against messages */
    for (int k = 0; k < c->nclasses; k++)
        for (int t = 0; t < MT_NTYPES; t++) c->classes[k].flops[t] *= slower;
    for (int k = 0; k < c->nclasses; k++)
        if (oracle_draw(&d, 2)) oracle_stairs(c, &c->classes[k], 8 << oracle_draw(&d, 4));
    for (int i = 0; i < n; i++) c->devices[i].speed = oracle_draw(&d, 5) ? 1.0 / (1 + oracle_draw(&d, 4)) : 0.02;
    for (int l = 0; l < c->nlinks; l++) {
        c->links[l].bandwidth_Bps *= pow(10, oracle_draw(&d, 5) - 1);
        c->links[l].latency_s *= pow(10, oracle_draw(&d, 3) - 2);
        c->links[l].shared_Bps = oracle_draw(&d, 2) ? 0 : c->links[l].bandwidth_Bps;
        c->links[l].compute_slowdown = 0.1 * oracle_draw(&d, 3);
    }
    for (int i = 0; i < c->nnodes; i++) {
        double rate = c->links[1].bandwidth_Bps / (1 + 9 * oracle_draw(&d, 2));
        if (oracle_draw(&d, 3) == 0) c->nodes[i].egress_Bps = rate;
        if (oracle_draw(&d, 3) == 0) c->nodes[i].ingress_Bps = rate;
    }
    int64_t batch = 1 + oracle_draw(&d, 8);
    set_up(&o->setting, c, models[oracle_draw(&d, 3)], batch);
    o->setting.costs.memo = mt_cost_memo_new();
    int64_t state = 16 * mt_graph_parameters(o->setting.graph);
    for (int i = 0; i < n; i++)
        if (oracle_draw(&d, 3) == 0) c->devices[i].memory_bytes = state / 4 + state * oracle_draw(&d, 16) / 8;
    CHECK_OK(mt_cluster_check(c, &err), err);
    mt_cluster_hash(c, c->hash);
}

static inline void oracle_close(struct oracle *o) {
    mt_cost_memo_free(o->setting.costs.memo);
    tear_down(&o->setting);
}

/* ---- brute force ---- */

struct oracle_way { /* all of a plan but shares */
    enum mt_state state;
    enum mt_sync sync;
    bool by_shares; /* state in proportion to samples; else evenly */
    int64_t bucket_bytes, micro;
};

/* The step of one plan; infinite where it does not fit. share[places]. */
static inline double oracle_price(struct oracle *o, const struct oracle_way *way, int n, const int *order,
                                  const int64_t *share) {
    struct mt_plan *p = new_plan(&o->setting);
    int labels[16], nlabels = mt_sharding_labels(o->setting.graph, labels);
    double weight[ORACLE_MOST_RANKS] = {0};
    int64_t *batch = mt_new(&p->arena, int64_t, p->nranks);
    p->nplaces = n;
    for (int i = 0; i < n; i++) {
        p->order[i] = order[i];
        batch[order[i]] = share[i];
        p->micro[order[i]] = share[i] < way->micro ? share[i] : way->micro;
        weight[order[i]] = way->by_shares ? (double)share[i] : 1;
    }
    p->splits = mt_new(&p->arena, struct mt_plan_split, nlabels + 1);
    p->splits[p->nsplits++] = (struct mt_plan_split){.name = "batch", .label = "batch", .align = 1, .sizes = batch};
    for (int l = 0; l < nlabels; l++) {
        const struct mt_label *label = &o->setting.graph->labels[labels[l]];
        struct mt_plan_split *split = &p->splits[p->nsplits++];
        *split = (struct mt_plan_split){.name = mt_arena_printf(&p->arena, "storage:%s", label->name),
                                        .label = label->name,
                                        .align = label->align,
                                        .sizes = mt_new(&p->arena, int64_t, p->nranks)};
        CHECK_OK(mt_split_proportional(label->extent, label->align, weight, p->nranks, split->sizes, &err), err);
    }
    p->decisions.nstorage = 1;
    p->decisions.storage = &(struct mt_storage_row){.pattern = "*", .state = way->state};
    mt_decisions_complete(&p->decisions, &p->arena);
    p->decisions.sync = way->sync;
    p->decisions.start = mt_plan_default_start(p->device);
    p->decisions.bucket_bytes = way->bucket_bytes;
    struct mt_costs costs = o->setting.costs;
    costs.nranks = n, costs.device = order;
    struct mt_program program;
    struct mt_prediction prediction;
    for (int pass = 0; pass < 2; pass++) { /* with the algorithms that are best for its messages */
        CHECK_OK(mt_program_from_plan(o->setting.graph, p, false, &program, &err), err);
        if (pass) break;
        CHECK_OK(
            mt_algorithm_rows(&program, &costs, &p->arena, &p->decisions.algorithms, &p->decisions.nalgorithms, &err),
            err);
        mt_program_release(&program);
    }
    CHECK_OK(mt_predict(&program, &costs, &options, &prediction, &err), err);
    double step_s = prediction.step_s;
    for (int i = 0; i < n; i++)
        if (prediction.ranks[i].arena_bytes > p->ranks[order[i]].memory_bytes) step_s = INFINITY;
    mt_arena_release(&prediction.arena);
    mt_program_release(&program);
    mt_plan_free(p);
    o->nplans++;
    return step_s;
}

/* All ways to run given shares. */
static inline double oracle_best_way(struct oracle *o, int n, const int *order, const int64_t *share) {
    double best = INFINITY;
    for (int structure = 0; structure < 3; structure++)
        for (int by_shares = 0; by_shares < (structure ? 2 : 1); by_shares++)
            for (int bucket = 0; bucket < 2; bucket++)
                for (int micro = 0; micro < 2; micro++) {
                    if (n == 1 && (structure || bucket)) continue;
                    if (micro && o->setting.job.batch < 2) continue;
                    struct oracle_way way = {structure ? MT_STATE_SPLIT : MT_STATE_REPLICATED,
                                             structure == 1 ? MT_SYNC_REDUCE_SCATTER : MT_SYNC_ALL_REDUCE, by_shares,
                                             bucket ? 1 << 20 : 0, micro ? 1 : o->setting.job.batch};
                    double step_s = oracle_price(o, &way, n, order, share);
                    best = fmin(best, step_s);
                    if (step_s >= o->best_s) continue;
                    o->best_s = step_s;
                    int length = snprintf(o->best, sizeof o->best,
                                          "state %s, %s%s, buckets of %lld, micro %lld:", mt_state_names[way.state],
                                          mt_sync_names[way.sync], by_shares ? " by shares" : "",
                                          (long long)way.bucket_bytes, (long long)way.micro);
                    for (int i = 0; i < n; i++)
                        length += snprintf(o->best + length, sizeof o->best - (size_t)length, " %d:%lld", order[i],
                                           (long long)share[i]);
                }
    return best;
}

static inline void oracle_shares(struct oracle *o, int n, const int *order, int at, int64_t left, int64_t *share) {
    if (at >= ORACLE_MOST_RANKS) return;
    if (at < n - 1) {
        for (share[at] = 0; share[at] <= left; share[at]++) oracle_shares(o, n, order, at + 1, left - share[at], share);
        return;
    }
    share[at] = left;
    double step_s = oracle_best_way(o, n, order, share);
    if (n == 1) o->single_s = fmin(o->single_s, step_s);
    if (n < o->setting.costs.nranks) return;
    double even[ORACLE_MOST_RANKS], speed[ORACLE_MOST_RANKS];
    int64_t sizes[2][ORACLE_MOST_RANKS];
    for (int r = 0; r < n; r++) {
        const struct mt_cluster_device *device = &o->setting.cluster->devices[r];
        even[r] = 1, speed[r] = device->speed * o->setting.cluster->classes[device->class].flops[MT_F32];
    }
    CHECK_OK(mt_split_proportional(o->setting.job.batch, 1, even, n, sizes[0], &err), err);
    CHECK_OK(mt_split_proportional(o->setting.job.batch, 1, speed, n, sizes[1], &err), err);
    size_t bytes = (size_t)n * sizeof *share;
    if (!memcmp(share, sizes[0], bytes)) o->even_s = step_s;
    if (!memcmp(share, sizes[1], bytes)) o->proportional_s = step_s;
}

static inline void oracle_solve(struct oracle *o) {
    o->even_s = o->proportional_s = o->single_s = o->best_s = INFINITY;
    for (int subset = 1; subset < 1 << o->setting.costs.nranks; subset++) {
        int order[ORACLE_MOST_RANKS], n = 0;
        int64_t share[ORACLE_MOST_RANKS];
        for (int r = 0; r < o->setting.costs.nranks; r++)
            if (subset >> r & 1) order[n++] = r;
        oracle_shares(o, n, order, 0, o->setting.job.batch, share);
    }
}

/* The search on the same cluster; infinite where it refuses. */
static inline double oracle_search(struct oracle *o) {
    struct mt_plan *p = new_plan(&o->setting);
    enum mt_status st = search_for(&o->setting, p, NULL);
    double step_s = st ? INFINITY : p->prediction->step_s;
    if (st) CHECK_EQ(st, MT_EINPUT);
    for (int r = 0; r < p->nranks && !st; r++)
        CHECK(p->memory[r].arena_bytes <= p->ranks[r].memory_bytes, "rank %d", r);
    mt_plan_free(p);
    return step_s;
}

/* Regret over clusters with the seeds from `first` on: prints one line each if `verbose`, and the mean and the worst.
 */
static inline void oracle_compare(uint64_t first, int count, bool verbose, double *mean, double *worst) {
    int planned = 0;
    *mean = *worst = 0;
    for (uint64_t seed = first; seed < first + (uint64_t)count; seed++) {
        struct oracle o;
        oracle_open(&o, seed);
        oracle_solve(&o);
        double step_s = oracle_search(&o), regret = isfinite(o.best_s) ? step_s / o.best_s - 1 : 0;
        if (verbose)
            printf("seed %3d: %d ranks, batch %d, %5d plans: best %.4g s (%s), search %.4g s, regret %.2f%%\n",
                   (int)seed, o.setting.costs.nranks, (int)o.setting.job.batch, (int)o.nplans, o.best_s, o.best, step_s,
                   100 * regret);
        CHECK(isfinite(step_s) || !isfinite(o.best_s), "seed %d: refused, but %g s is possible", (int)seed, o.best_s);
        CHECK(step_s <= o.even_s * (1 + 1e-9), "seed %d: %g s, even shares %g s", (int)seed, step_s, o.even_s);
        CHECK(step_s <= o.proportional_s * (1 + 1e-9), "seed %d: %g s, proportional shares %g s", (int)seed, step_s,
              o.proportional_s);
        CHECK(step_s <= o.single_s * (1 + 1e-9), "seed %d: %g s, one rank %g s", (int)seed, step_s, o.single_s);
        if (isfinite(o.best_s)) {
            *mean += fmax(regret, 0);
            *worst = fmax(*worst, regret);
            planned++;
        }
        oracle_close(&o);
    }
    *mean /= planned ? planned : 1;
    printf("%d clusters, %d with a plan: mean regret %.3f%%, worst %.2f%%\n", count, planned, 100 * *mean,
           100 * *worst);
}

#endif
