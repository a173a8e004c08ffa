/* Random jobs of at most two forward operators on two ranks, all of whose programs are judged (judged.h); and one where
 * data parallelism hides its messages. */
#ifndef MT_TESTS_PLANNER_FRONTIER_COMPARE_JUDGED_H
#define MT_TESTS_PLANNER_FRONTIER_COMPARE_JUDGED_H

#include "tests/planner/frontier/judged.h"

struct judged_totals {
    int njobs, nspecial; /* whose best is no simple strategy */
    int64_t nprograms;
    double regret, worst, regret_at_shares; /* the first and the last are sums */
};

static inline void judged_begin(struct judged *j, uint64_t seed, const char *cluster, int64_t units0, int64_t units1) {
    *j = (struct judged){.job = {.seed = seed}, .units = {units0, units1}};
    j->best_s = j->found_s = j->data_s = j->tensor_s = j->replicated_s = INFINITY;
    small_cluster_of(&j->job, cluster);
    j->job.graph = mt_graph_new(MT_F32);
}

static inline void judged_finish(struct judged *j, int x, const char *second) {
    static const int64_t none[2] = {0, 0};
    struct mt_graph *g = j->job.graph;
    int targets = mt_graph_input(g, "targets", MT_I32, "batch");
    g->loss_sum = mt_op_sum(g, "loss", x, (1u << g->values[x].naxes) - 1);
    g->token_count = mt_op_count(g, "count", targets);
    small_train(&j->job);
    small_split(&j->job, g->batch, none);
    small_split(&j->job, mt_graph_find_label(g, second), none);
    mt_layouts_init(&j->layouts, 2);
    j->rules = mt_new(&j->job.arena, struct mt_rule, g->nops);
    j->layout = mt_new(&j->job.arena, int, g->nvalues);
    for (int v = 0; v < g->nvalues; v++) j->layout[v] = -1;
    judged_list(j);
}

static inline void judged_open(struct judged *j, uint64_t seed, int64_t units) {
    static const char *const clusters[] = {"h100:1 net=25G + a10:1", "a100-40:1x2 nvlink=300G", "t4:1 net=10G + a10:1",
                                           "cpu-8t:1x2"};
    judged_begin(j, seed, clusters[seed / 5 % 4], units, units);
    struct small_job *job = &j->job;
    struct mt_graph *g = job->graph;
    g->batch = small_label(job, "batch", units * (1 + small_draw(job, 4)));
    small_label(job, "a", 4 + small_draw(job, 21));
    small_label(job, "b", units * (1 + small_draw(job, 4)));
    small_label(job, "c", 4 + small_draw(job, 21));
    int x;
    if (seed % 5 == 0) {
        int tokens = mt_graph_input(g, "tokens", MT_I32, "batch");
        x = mt_op_embedding(g, "embed", small_param(job, "a,b"), tokens);
    } else {
        x = mt_graph_input(g, "x", MT_F32, "batch a");
        x = mt_op_matmul(g, "first", x, small_param(job, "a,b"), 1, 0);
    }
    if (seed % 5 == 2) x = mt_op_relu(g, "second", x);
    if (seed % 5 == 3) x = mt_op_add(g, "second", x, small_param(job, "b"));
    if (seed % 5 == 4) x = mt_op_matmul(g, "second", x, small_param(job, "b,c"), 1, 0);
    judged_finish(j, x, "b");
}

static inline void judged_close(struct judged *j) {
    mt_layouts_release(&j->layouts);
    small_job_close(&j->job);
}

static inline void judged_sum_up(const struct judged *j, const char *what, bool verbose, struct judged_totals *t) {
    double regret = j->found_s / j->best_s - 1, simple_s = fmin(j->replicated_s, fmin(j->data_s, j->tensor_s));
    double at_shares = j->regret_at_shares / j->nshares;
    bool special = j->best_s < 0.99 * simple_s;
    if (verbose)
        printf(
            "%s: %lld programs: best %.4g s (data %.4g, tensor %.4g, whole %.4g), frontier %.4g s, regret %.2f%%, at "
            "given shares %.2f%%\n    %s%s\n",
            what, (long long)j->nprograms, j->best_s, j->data_s, j->tensor_s, j->replicated_s, j->found_s, 100 * regret,
            100 * at_shares, special ? "no simple strategy: " : "", j->best);
    fflush(stdout);
    CHECK(regret > -1e-9, "the frontier's program is not among all programs");
    t->njobs++;
    t->nspecial += special;
    t->nprograms += j->nprograms;
    t->regret += regret;
    t->worst = fmax(t->worst, regret);
    t->regret_at_shares += at_shares;
}

static inline void compare_judged(uint64_t seed, int64_t units, bool verbose, struct judged_totals *t) {
    struct judged j;
    char what[40];
    judged_open(&j, seed, units);
    judged_all_shares(&j);
    snprintf(what, sizeof what, "seed %d", (int)seed);
    judged_sum_up(&j, what, verbose, t);
    judged_close(&j);
}

/* Two products, the second weight large: while its gradient is reduced, the gradients of the first layer are computed,
 * so that data parallelism hides the message; splitting the inner label sends half as much, with nothing to compute
 * meanwhile. At even shares. */
static inline void compare_hidden(bool verbose, struct judged_totals *t) {
    struct judged j;
    judged_begin(&j, 0, "cpu-8t:1x2", 2, 2);
    struct small_job *job = &j.job;
    struct mt_graph *g = job->graph;
    struct mt_cluster_class *class = &job->cluster->classes[job->cluster->devices[0].class];
    class->flops[MT_F32] = 1e9, class->memory_Bps = 1e11, class->overhead_s = 1e-8, class->calibration = 1;
    for (int l = 0; l < job->cluster->nlinks; l++) {
        struct mt_cluster_link *link = &job->cluster->links[l];
        link->bandwidth_Bps = 1e8, link->shared_Bps = 0, link->latency_s = 1e-8;
        link->compute_slowdown = link->comm_slowdown = 0;
    }
    g->batch = small_label(job, "batch", 48);
    small_label(job, "a", 2);
    small_label(job, "b", 96);
    small_label(job, "c", 48);
    int x = mt_graph_input(g, "x", MT_F32, "batch a");
    x = mt_op_matmul(g, "first", x, small_param(job, "a,b"), 1, 0);
    x = mt_op_matmul(g, "second", x, small_param(job, "b,c"), 1, 0);
    judged_finish(&j, x, "b");
    judged_set_share(&j, 0, 1);
    judged_set_share(&j, 1, 1);
    double data_s = judged_simple(&j, 0, false), data_comm_s = j.comm_s;
    double tensor_s = judged_simple(&j, 1, true), tensor_comm_s = j.comm_s;
    CHECK(data_comm_s > 1.5 * tensor_comm_s, "data sends for %g s, tensor for %g s", data_comm_s, tensor_comm_s);
    CHECK(data_s < 0.95 * tensor_s, "data takes %g s, tensor %g s", data_s, tensor_s);
    judged_at_shares(&j);
    judged_sum_up(&j, "data parallelism hides its messages", verbose, t);
    judged_close(&j);
}

static inline void judged_print(const struct judged_totals *t) {
    printf(
        "%d jobs, %lld programs: mean regret %.3f%%, worst %.2f%%; at given shares %.3f%%; the best of %d is no simple "
        "strategy\n",
        t->njobs, (long long)t->nprograms, 100 * t->regret / t->njobs, 100 * t->worst,
        100 * t->regret_at_shares / t->njobs, t->nspecial);
}

static inline void judged_check(const struct judged_totals *t) {
    CHECK(t->regret <= 0.02 * t->njobs, "mean regret %g", t->regret / t->njobs);
    CHECK(t->worst <= 0.1, "worst regret %g", t->worst);
    CHECK(t->nspecial > 0, "every best program is a simple strategy: too easy");
}

#endif
