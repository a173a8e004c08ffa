/* The frontier programme against branch and bound (branch.h), on random graphs of one to five forward operators, on two
 * and three ranks, and on four with rules of two levels, among nodes and within them: no regret; a bundle is no
 * cheaper; what is chosen can be built, and is proven. */
#ifndef MT_TESTS_PLANNER_FRONTIER_COMPARE_PRICED_H
#define MT_TESTS_PLANNER_FRONTIER_COMPARE_PRICED_H

#include "planner/frontier/space.h"
#include "synth/builder/build.h"
#include "synth/check/check.h"
#include "tests/planner/frontier/branch.h"

static inline void check_builds(const struct small_job *job, struct mt_rule *rules) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_program program;
    struct mt_choice choice = {.nranks = job->costs.nranks,
                               .splits = job->splits,
                               .nsplits = job->nsplits,
                               .rules = rules,
                               .mesh = job->mesh,
                               .node = job->node,
                               .decisions = {.gradient_wire = MT_F32}};
    if (job->meshed) choice.batch = &job->hosts;
    for (int s = 0; s < job->nsplits && !job->meshed; s++)
        if (job->splits[s].label == job->graph->batch) choice.batch = &job->splits[s];
    CHECK_OK(mt_build(job->graph, &choice, &program, &err), err);
    CHECK_OK(mt_check_program(&program, NULL, &err), err);
    mt_program_release(&program);
}

/* The cost of what is chosen, which is built, proven, and priced again by the oracle. */
static inline double frontier_s(const struct small_job *job, const struct mt_space_options *options,
                                const struct priced *p) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_space space;
    struct mt_frontier_solution solution;
    CHECK_OK(mt_space_open(options, &space, &err), err);
    CHECK(mt_frontier_solve(&space.problem, &arena, &solution), "seed %d: no choice", (int)job->seed);
    CHECK(solution.exact, "seed %d: states were cut", (int)job->seed);
    CHECK_NEAR(mt_frontier_cost(&space.problem, solution.choice), solution.cost_s, 1e-12 * solution.cost_s);
    struct mt_rule *rules = mt_new(&arena, struct mt_rule, job->graph->nops);
    mt_space_rules(&space, solution.choice, rules);
    double cost_s = solution.cost_s;
    CHECK_NEAR(priced_sum_of_rules(p, rules), cost_s, 1e-9 * cost_s);
    check_builds(job, rules);
    mt_space_release(&space);
    mt_arena_release(&arena);
    return cost_s;
}

/* Even shares for storage, of every third graph. */
static inline int storage_of(struct small_job *job, struct mt_arena *arena, struct mt_split *storage) {
    int labels[SMALL_MOST_LABELS],
        n = job->graph->nlabels <= SMALL_MOST_LABELS ? mt_sharding_labels(job->graph, labels) : 0;
    for (int l = 0; l < n && job->seed % 3 == 0 && job->meshed; l++) { /* by turns over nodes and within them */
        double even[SMALL_MOST_RANKS];
        for (int r = 0; r < job->costs.nranks; r++) even[r] = 1;
        storage[l] = small_split_of_axis(job, labels[l], l % 2 ? MT_AXIS_DEVICE : MT_AXIS_HOST, even, NULL);
    }
    for (int l = 0; l < n && job->seed % 3 == 0 && !job->meshed; l++) {
        int ranks = job->costs.nranks;
        int64_t extent = job->graph->labels[labels[l]].extent;
        storage[l] = (struct mt_split){.name = "storage", .label = labels[l]};
        storage[l].sizes = mt_new(arena, int64_t, ranks);
        storage[l].starts = mt_new(arena, int64_t, ranks + 1);
        for (int r = 0; r <= ranks; r++) storage[l].starts[r] = extent * r / ranks;
        for (int r = 0; r < ranks; r++) storage[l].sizes[r] = storage[l].starts[r + 1] - storage[l].starts[r];
    }
    return job->seed % 3 == 0 ? n : 0;
}

struct priced_totals {
    int ngraphs, nspecial; /* whose least sum is no simple strategy's */
    double worst;          /* regret */
};

static inline void compare_priced(uint64_t seed, bool verbose, struct priced_totals *totals) {
    static const double exposed[] = {1, 0.3, 0.05};
    struct mt_arena arena = MT_ARENA_INIT;
    struct small_job job;
    struct priced p;
    struct branch b;
    struct mt_split storage[SMALL_MOST_LABELS];
    small_job_open(&job, seed, seed % 5 == 4 ? 4 : 2 + (int)(seed & 1), 1 + (int)(seed / 2 % 5));
    int nstorage = storage_of(&job, &arena, storage);
    struct mt_space_options options = {.graph = job.graph,
                                       .costs = &job.costs,
                                       .mesh = &job.mesh,
                                       .hosts = job.meshed ? &job.hosts : NULL,
                                       .splits = job.splits,
                                       .nsplits = job.nsplits,
                                       .storage = storage,
                                       .nstorage = nstorage,
                                       .exposed = exposed[seed % 7 % 3]};
    priced_open(&p, &job, storage, nstorage, options.exposed);
    branch_solve(&b, &p);
    options.unbundled = true;
    double single_s = frontier_s(&job, &options, &p), regret = single_s / b.best_s - 1;
    if (verbose)
        printf("seed %3d: %d ranks, %2d variables, %8lld nodes: least %.6g s, frontier %.6g s, regret %.3g\n",
               (int)seed, job.costs.nranks, p.nvars, (long long)b.nodes, b.best_s, single_s, regret);
    totals->worst = fmax(totals->worst, regret);
    totals->ngraphs++;
    totals->nspecial += b.best_s < 0.99 * priced_simple_s(&p);
    CHECK_NEAR(single_s, b.best_s, 1e-9 * b.best_s);
    options.unbundled = false;
    double bundled_s = frontier_s(&job, &options, &p);
    CHECK(bundled_s >= single_s * (1 - 1e-9), "seed %d: bundles cost %g, operators %g", (int)seed, bundled_s, single_s);
    branch_release(&b);
    priced_close(&p);
    small_job_close(&job);
    mt_arena_release(&arena);
}

static inline void priced_print(const struct priced_totals *t) {
    printf("%d graphs: worst regret %g; the least sum of %d is no simple strategy's\n", t->ngraphs, t->worst,
           t->nspecial);
    CHECK(3 * t->nspecial > t->ngraphs || t->ngraphs < 10, "too easy");
}

#endif
