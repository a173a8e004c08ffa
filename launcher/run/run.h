/* What a training run did: the document run.json, format "motley-run", version 3.
 *
 * Rank 0 writes it into the run's folder, at each checkpoint and at the end, together with the plan (plan.json).
 * `motley show` prints it, and `motley plan --from` plans again by the measured rates. trace.h writes timelines of
 * steps. */
#ifndef MT_LAUNCHER_RUN_RUN_H
#define MT_LAUNCHER_RUN_RUN_H

#include <stdbool.h>
#include <stdio.h>

#include "kernels/base/arena.h"
#include "kernels/base/err.h"
#include "kernels/base/table/table.h"

#define MT_RUN_FORMAT "motley-run"
#define MT_RUN_VERSION 3

struct mt_run_rank {
    const char *host, *device;                       /* "cpu, 2 threads, ..."; "idle" */
    int64_t samples;                                 /* its share of a step */
    double compute_s, comm_s;                        /* its streams' busy time, over the whole run */
    double wait_s;                                   /* the compute stream's idle time within steps */
    double emulated;                                 /* the fraction of its speed under --emulate; 1: not emulated */
    double step_compute_s, step_comm_s, step_wait_s; /* their medians over steps */
    double predicted_compute_s, predicted_wait_s;    /* of a step, by the plan; 0 without a prediction */
    int64_t arena_bytes;                             /* planned device memory for states and temporaries */
    int64_t peak_rss_bytes, start_rss_bytes;         /* of the process: the peak, and before the arena was allocated */
    int64_t multiprocessors;                         /* of a GPU, used for computing; 0: a CPU */
    int64_t all_multiprocessors;                     /* of the GPU; communication kernels may use all */
    bool idle;                                       /* the plan leaves it out: all numbers are 0 */
};

struct mt_run_doc {
    struct mt_arena arena;
    const char *made_by, *mpi; /* "motley 0.1.0", "Open MPI v4.1.4" */
    const char *plan_hash, *program_hash, *model, *data_hash;
    const char *ended;  /* "running", "finished", "diverged", "stopped by a signal", "failed: WHY" */
    int64_t first_step; /* losses[0] is of this step (from 1) */
    int64_t tokens_per_step;
    int nlosses, losses_capacity;
    double *losses; /* mean loss of each step's samples; not finite where it was not, or is not known */
    int nvals, vals_capacity;
    struct mt_run_val {
        int64_t step;
        double loss;
    } * vals; /* over the whole validation part, after so many steps */
    int nranks;
    struct mt_run_rank *ranks;
    /* Since the last start, as the ranks' times: training steps only, without evaluation and checkpoints. */
    double train_s, tokens_per_s;
    double step_s;                            /* the median step; 0: there was none */
    double predicted_step_s, predicted_error; /* the plan's, and its error band upwards; 0: it has none */
    double predicted_error_below;             /* downwards; in the document where it differs */
    double flops_per_s;                       /* by the model's formula, over all ranks */
    const char *parameter_hash;               /* at the end; "" before */
    double loss_scale;                        /* 0: the loss is not scaled */
    int64_t skipped_steps;                    /* since the first step, because a scaled gradient overflowed */
};

void mt_run_init(struct mt_run_doc *run, int nranks);
void mt_run_release(struct mt_run_doc *run);
void mt_run_add_loss(struct mt_run_doc *run, double loss);
void mt_run_add_val(struct mt_run_doc *run, int64_t step, double loss);

/* The plan leaves this rank out. */
void mt_run_idle(struct mt_run_doc *run, int rank, const char *host);

/* Continue a run: copy the losses and validations of `before` up to `step` into `run`, unless it has losses already.
 * Returns the number of steps up to `step` whose losses `before` does not have; they are NaN in `run`. */
int64_t mt_run_continue(struct mt_run_doc *run, const struct mt_run_doc *before, int64_t step);

/* Copy the plan's prediction into the run and its ranks. */
struct mt_plan;
void mt_run_expect(struct mt_run_doc *run, const struct mt_plan *plan);

enum mt_status mt_run_read(const char *path, struct mt_run_doc *run,
                           struct mt_err *err); /* checked; the caller releases it */
enum mt_status mt_run_write(const struct mt_run_doc *run, const char *path, struct mt_err *err);

/* Sentences, and the tables "run" (one row), "validations", "ranks". */
void mt_run_tables(const struct mt_run_doc *run, struct mt_tables *out);
/* "step 212 ms, predicted 208 ms (+1.9%, within the band of -3% +5%)", or its first part without prediction; in
 * `arena`. */
const char *mt_run_step_text(const struct mt_run_doc *run, struct mt_arena *arena);

#endif
