/* Training, as `motley train` does it, on all ranks.
 *
 * Ranks that the plan leaves out are idle until the run ends (idle.c). setup.c prepares a run, state.c its states,
 * loop.c runs it, report.c writes run.json; data.h is the training data, sample.h generates text with the result. */
#ifndef MT_LAUNCHER_TRAIN_TRAIN_H
#define MT_LAUNCHER_TRAIN_TRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/err.h"
#include "launcher/data/data.h"
#include "launcher/session/emulate.h"
#include "launcher/watch/watch.h"

struct mt_train_options {
    const char *plan;
    const struct mt_data_files *data;
    double val_fraction; /* without data->val: the last part of each source for validation */
    const char *out;     /* the run's folder, or null: run, run-2, ... */
    bool no_out;         /* nothing is written */
    const char *resume;  /* a folder or a file; or null */
    const char *init;    /* weights: a file or a folder (weights.h), or null */
    const char *trace;   /* the trace file to write, or null */
    const char *cluster; /* with it: the plan's cluster, whose predicted step goes into the trace; or null */
    const char *device;  /* "cpu", "cuda"; null: the plan's */
    int64_t steps;       /* stop after this step; -1: the plan's */
    int64_t checkpoint_every, eval_every, hash_every; /* steps; 0: only at the end */
    double checkpoint_minutes;                        /* between checkpoints by time; 0: none */
    int64_t log_every;
    int keep;
    double deadline_s, heartbeat_s, start_s; /* see launcher/watch/watch.h */
    bool eval_only;
    struct mt_emulation emulation;
};

void mt_train_defaults(struct mt_train_options *options);

/* Options of the watch for this run; the hint is in static memory, for one run at a time. */
struct mt_watch_options mt_train_watch(const struct mt_train_options *options);

/* Collective over all MPI processes, in a session (session.h), with signal handlers installed before it (signals.h).
 * One process has the error's text: the first rank that takes part, or rank 0 before it is known who does. */
enum mt_status mt_train(const struct mt_train_options *options, struct mt_err *err);

#endif
