/* `motley bench plans`: plans of one job against each other, in one run of mpirun.
 *
 * Every repetition takes each plan in turn, beginning with another one each time, so that what changes slowly on the
 * machine changes for all of them. In its turn a plan's states are initialised and it takes warm-up steps, then the
 * steps that count, as training takes them: submitted ahead, inputs copied, the executor's captured graph. Programs are
 * built, lowered and captured once and stay in memory, if all of them fit together; else each one's memory is given
 * back at the end of its turn.
 *
 *     plans.c         options to results: what the plans must have in common, the memory, the turns
 *     plan_turn.c     one plan: from the document to an executor, and its steps
 *     plan_results.c  ratios, order and errors of predictions; the table and the JSON */
#ifndef MT_LAUNCHER_BENCH_PLANS_H
#define MT_LAUNCHER_BENCH_PLANS_H

#include "kernels/base/err.h"
#include "launcher/data/data.h"
#include "launcher/flags/output.h"
#include "launcher/session/emulate.h"

#define MT_BENCH_PLANS_FORMAT "motley-bench-plans" /* of the JSON document */

struct mt_bench_plans_options {
    const char **paths;
    int npaths;
    const char *device;               /* a kind; null: the plans' */
    const struct mt_data_files *data; /* null: random tokens */
    struct mt_output output;
    int repetitions;
    int64_t steps, warmup;
    bool alone;        /* one program in memory at a time, even if all fit */
    double deadline_s; /* of waits for other ranks */
    struct mt_emulation emulation;
};

/* Measure and print; collective over MPI_COMM_WORLD, agrees. MT_EINPUT, by name: plans of different models, jobs, ranks
 * or devices, plans that do not fit this run of mpirun or into memory. */
enum mt_status mt_bench_plans(const struct mt_bench_plans_options *options, struct mt_err *err);

#endif
