/* Shared by the files of training: one rank's run, from its plan to its last step.
 *
 * Ranks are the program's, that is, places of the plan's order; rank 0 leads: it prints, and reads and writes files.
 * Functions that return a status are collective over them and agree: all return the same status, rank 0 has the text.
 * Ranks that the plan leaves out are in mt_trainer_idle meanwhile. */
#ifndef MT_LAUNCHER_TRAIN_INTERNAL_H
#define MT_LAUNCHER_TRAIN_INTERNAL_H

#include <mpi.h>

#include "kernels/comm/comm.h"
#include "kernels/device/device.h"
#include "launcher/checkpoint/checkpoint.h"
#include "launcher/data/data.h"
#include "launcher/metrics/metrics.h"
#include "launcher/train/job_changes.h"
#include "planner/balance/drift.h"
#include "launcher/execute/executor.h"
#include "planner/plan/planned.h"
#include "launcher/train/progress.h"
#include "launcher/run/run.h"
#include "launcher/train/series.h"
#include "launcher/session/rank_device.h"
#include "launcher/session/requests.h"
#include "launcher/watch/signals.h"
#include "launcher/run/trace.h"
#include "planner/predict/timeline.h"
#include "launcher/train/train.h"

struct trainer {
    const struct mt_train_options *options;
    MPI_Comm all;     /* its rank r is the plan's rank r */
    MPI_Comm comm;    /* its rank i is the plan's rank plan->order[i]; null on idle ranks */
    int rank, nranks; /* in comm; -1 on an idle rank */
    struct mt_plan *plan;
    int *place;         /* [plan->nranks]: of each rank of the plan in comm; -1: idle */
    const char **hosts; /* [plan->nranks] */
    struct mt_arena arena;
    struct mt_planned planned;
    int64_t seq, batch;
    struct mt_data data;
    struct mt_graph eval_graph; /* planned.graph without dropout; borrows everything but `ops` from it */
    struct mt_program eval_program;
    const char *kind; /* of the device */
    struct mt_rank_device chosen;
    struct mt_device *device;
    struct mt_comm *wire;
    struct mt_lowered *lowered[MT_NRUNS];
    struct mt_executor *executor;
    int64_t step, samples; /* finished and reported */
    int ahead;             /* steps submitted after `step` */
    struct trainer_ahead { /* of these, the oldest first */
        double start_s, lr;
    } in_flight[MT_EXECUTOR_DEPTH];
    double ended_s; /* end of the last finished step */
    bool positions_fed[MT_NRUNS];
    int64_t last_step;          /* of the run */
    bool keeps;                 /* the run has a folder */
    const char *folder;         /* at rank 0 */
    bool made_folder;           /* by this run, which was not told its name */
    int lock;                   /* on the folder, at rank 0; -1: none */
    int64_t saved_step;         /* of the newest checkpoint; -1: none */
    double saved_s;             /* when that, or the run's first step, began; or a timed one was asked for */
    struct mt_metrics *metrics; /* at rank 0; null: none are written */
    struct mt_requests requests;
    struct mt_run_doc run;   /* kept by rank 0, with rows for the plan's ranks */
    struct mt_run_rank mine; /* this rank's row of `run` */
    double train_s;
    struct trainer_series { /* this rank's seconds of each step */
        struct mt_series step, compute, comm, wait;
    } steady, window;      /* of all steps but the first; of the last few (drift.c) */
    struct mt_drift drift; /* kept by rank 0 */
    bool plan_kept;        /* in the run's folder */
    int64_t first_step;    /* `step` at the start */
    struct mt_progress progress;
    struct mt_timeline predicted; /* at rank 0, with --trace and --cluster */
    struct mt_trace_event *events;
    int nevents, events_capacity;
    struct mt_arena events_arena;
    double clock_s;                   /* see mt_trace_clock */
    double loss_scale, skipped_steps; /* after the last step; 0 without loss scaling */
};

/* setup.c: the plan and the ranks, collective over all processes, of which the first has the text; then, of ranks that
 * take part, from the plan to an executor, whose states are not set */
enum mt_status mt_trainer_join(struct trainer *t, struct mt_err *err);
enum mt_status mt_trainer_open(struct trainer *t, struct mt_err *err);
void mt_trainer_close(struct trainer *t);

/* idle.c: what an idle rank does, until the end; and the end, from rank 0 */
enum mt_status mt_trainer_idle(struct trainer *t, struct mt_err *err);
void mt_trainer_end_idle(struct trainer *t, enum mt_status st);

/* memory.c: memory among the ranks of one host */
enum mt_status mt_trainer_check_memory(struct trainer *t, struct mt_err *err);

/* state.c: initialising, loading, saving and comparing states */
enum mt_status mt_trainer_load(struct trainer *t, struct mt_err *err);
enum mt_status mt_trainer_save(struct trainer *t, struct mt_err *err);
enum mt_status mt_trainer_compare(struct trainer *t, struct mt_err *err);
enum mt_status mt_trainer_hash(struct trainer *t, struct mt_err *err);

/* folder.c, at rank 0: create and lock the run's folder; refuse another run's; and at the end. Publish: let the
 * folder's index name the checkpoint of t->step. */
enum mt_status mt_trainer_prepare_folder(struct trainer *t, struct mt_err *err);
void mt_trainer_leave_folder(struct trainer *t);
enum mt_status mt_trainer_publish(struct trainer *t, struct mt_err *err);

/* loop.c */
enum mt_status mt_trainer_run(struct trainer *t, struct mt_err *err);

/* scale.c: the loss scale before the first step, and after each step, which is reported if it was skipped. Exhausted:
 * the scale is at its minimum, or there is none. */
enum mt_status mt_trainer_begin_scale(struct trainer *t, struct mt_err *err);
enum mt_status mt_trainer_follow_scale(struct trainer *t, struct mt_err *err);
bool mt_trainer_scale_exhausted(const struct trainer *t);

/* report.c: times of steps, and run.json, for which it gathers the ranks' rows */
enum mt_status mt_trainer_report(struct trainer *t, const char *ended, struct mt_err *err);
void mt_trainer_account(struct trainer *t, double loss, double step_s);
void mt_trainer_say_step(struct trainer *t); /* measured and predicted */

/* drift.c: report better shares, by the measured times; collective, between steps. MT_ESTALL, on this rank alone, when
 * other ranks do not join for patience_s. */
enum mt_status mt_trainer_drift(struct trainer *t, double patience_s, struct mt_err *err);

#endif
