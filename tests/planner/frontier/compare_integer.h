/* The frontier programme against an integer programme (integer.h): chains of twelve forward operators, of one kind each
 * or in equal layers, bundled and not, on four ranks of four device classes. */
#ifndef MT_TESTS_PLANNER_FRONTIER_COMPARE_INTEGER_H
#define MT_TESTS_PLANNER_FRONTIER_COMPARE_INTEGER_H

#include <time.h>

#include "planner/frontier/space.h"
#include "tests/planner/frontier/graphs.h"
#include "tests/planner/frontier/integer.h"

/* Layers of a matrix multiplication, an activation and a residual, every other time with a norm; or anything. */
static inline void deep_job_open(struct small_job *j, uint64_t seed) {
    enum { FORWARD = 12 };
    small_job_begin(j, seed, "h100:1 net=25G + a100-40:1 + a10:1 + t4:1");
    j->most_params = 6;
    struct mt_graph *g = j->graph;
    int x = mt_graph_input(g, "x", MT_F32, "batch a");
    x = small_matmul(j, x);
    bool layers = seed % 2, norm = seed % 4 == 1;
    for (int i = 1; i < FORWARD;) {
        j->values[j->nvalues++] = x;
        if (!layers) {
            x = small_step(j, x), i++;
            continue;
        }
        const char *label = small_last_label(j, x);
        int y = norm ? mt_op_layer_norm(g, "norm", x, small_param(j, label), -1, 1e-5) : x;
        y = mt_op_matmul(g, "up", y, small_param(j, mt_arena_printf(&j->arena, "%s,%s", label, label)), 1, 0);
        y = seed % 8 < 4 ? mt_op_gelu(g, "gelu", y) : mt_op_relu(g, "relu", y);
        x = mt_op_add(g, "residual", x, y);
        i += 3 + norm;
    }
    small_loss(j, x);
    small_train(j);
    small_split_proportional(j);
}

static inline double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Whether GLPK ended; then the costs are equal. */
static inline bool compare_problem(const struct mt_frontier *problem, int64_t most_nodes, double limit_s,
                                   bool verbose) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_frontier_solution solution;
    struct integer p;
    double begun = seconds_now(), cost_s;
    CHECK(mt_frontier_solve(problem, &arena, &solution), "no choice");
    CHECK(solution.exact, "states were cut");
    double frontier_took = seconds_now() - begun;
    int *choice = mt_new(&arena, int, problem->ngroups);
    begun = seconds_now();
    integer_open(&p, problem);
    enum mt_status st = integer_solve(&p, most_nodes, limit_s, choice, &cost_s, &err);
    if (st == MT_EMISSING) {
        printf("skipped: %s\n", err.text);
        exit(77);
    }
    CHECK_OK(st, err);
    if (verbose)
        printf("  %2d groups, %2d values, %4d columns, %4d rows: frontier %.6g s in %.3f s, GLPK %.6g s in %.1f s\n",
               problem->ngroups, problem->nvalues, p.lp.ncols, p.lp.nrows, solution.cost_s, frontier_took, cost_s,
               seconds_now() - begun);
    fflush(stdout);
    CHECK_NEAR(integer_cost(&p, solution.choice), solution.cost_s, 1e-9 * solution.cost_s);
    if (!isinf(cost_s)) CHECK_NEAR(solution.cost_s, cost_s, 1e-6 * cost_s);
    integer_close(&p);
    mt_arena_release(&arena);
    return !isinf(cost_s);
}

/* Bundled, and each operator alone. */
static inline bool compare_integer(uint64_t seed, int64_t most_nodes, double limit_s, bool verbose) {
    struct mt_err err = MT_ERR_INIT;
    struct small_job job;
    bool ended = true;
    deep_job_open(&job, seed);
    if (verbose) printf("seed %d:\n", (int)seed);
    for (int unbundled = 0; unbundled < 2; unbundled++) {
        struct mt_space space;
        struct mt_space_options options = {.graph = job.graph,
                                           .costs = &job.costs,
                                           .mesh = &job.mesh,
                                           .splits = job.splits,
                                           .nsplits = job.nsplits,
                                           .unbundled = unbundled,
                                           .exposed = 0.3};
        CHECK_OK(mt_space_open(&options, &space, &err), err);
        ended &= compare_problem(&space.problem, most_nodes, limit_s, verbose);
        mt_space_release(&space);
    }
    small_job_close(&job);
    return ended;
}

#endif
