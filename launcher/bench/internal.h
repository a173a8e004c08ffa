/* Inside `motley bench plans`: see plans.h. */
#ifndef MT_LAUNCHER_BENCH_INTERNAL_H
#define MT_LAUNCHER_BENCH_INTERNAL_H

#include <mpi.h>

#include "launcher/bench/plans.h"
#include "launcher/execute/executor.h"
#include "launcher/data/data.h"
#include "planner/plan/planned.h"

struct mt_bench_plan {
    const char *path;
    struct mt_plan *plan;
    MPI_Comm comm; /* of the ranks that take part, in the plan's order; null on others */
    int place;     /* of this rank in it; -1: idle */
    bool built;
    struct mt_planned planned;
    struct mt_lowered *lowered;
    struct mt_comm *wire;
    struct mt_executor *executor; /* null while its memory is given back */
    double *step_s;               /* [repetitions]: of the slowest rank */
    double loss;                  /* of the last step, at every rank that takes part */
};

struct mt_bench_plans {
    const struct mt_bench_plans_options *options;
    struct mt_arena arena;
    const char *kind;
    struct mt_device *device;
    int rank, nranks;
    int plan_rank; /* of this process in all plans */
    struct mt_bench_plan *plans;
    int nplans;
    struct mt_data data; /* where the options name some */
    int64_t batch, seq;
    bool resident; /* all programs are in memory together */
};

/* plan_turn.c: collective over MPI_COMM_WORLD, agree. Build and lower; then allocate and connect, which `stop` undoes;
 * then one turn, whose mean step is step_s[repetition]. */
enum mt_status mt_bench_plan_build(struct mt_bench_plans *b, struct mt_bench_plan *p, struct mt_err *err);
enum mt_status mt_bench_plan_start(struct mt_bench_plans *b, struct mt_bench_plan *p, struct mt_err *err);
void mt_bench_plan_stop(struct mt_bench_plan *p);
enum mt_status mt_bench_plan_turn(struct mt_bench_plans *b, struct mt_bench_plan *p, int repetition,
                                  struct mt_err *err);
void mt_bench_plan_release(struct mt_bench_plan *p);

/* plan_results.c: print, and write the JSON if it was asked for; at rank 0. */
enum mt_status mt_bench_plans_report(const struct mt_bench_plans *b, struct mt_err *err);

#endif
