/* Training, as `motley train` does it, on all ranks. */
#ifndef MT_LAUNCHER_TRAIN_TRAIN_H
#define MT_LAUNCHER_TRAIN_TRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/err.h"
#include "launcher/session/emulate.h"
#include "launcher/watch/watch.h"

struct mt_train_options {
    const char *plan, *data;
    const char *val; /* a file for validation, or null: the last val_fraction of `data` */
    double val_fraction;
    const char *out;                                  /* the run's folder, or null: nothing is kept */
    const char *resume;                               /* a folder or a file; or null */
    const char *init;                                 /* safetensors with weights, or null */
    const char *trace;                                /* where to write a trace, or null */
    const char *device;                               /* "cpu", "cuda"; null: what the plan was made for */
    int64_t steps;                                    /* stop after this many; -1: the plan's */
    int64_t checkpoint_every, eval_every, hash_every; /* steps; 0: only at the end */
    int64_t log_every;
    int keep;
    double deadline_s, heartbeat_s, start_s; /* see launcher/watch/watch.h */
    bool eval_only;
    struct mt_emulation emulation;
};

void mt_train_defaults(struct mt_train_options *options);

/* How such a run is watched; its hint is kept for one run at a time. */
struct mt_watch_options mt_train_watch(const struct mt_train_options *options);

/* Collective over all of MPI's processes, in a session (session.h), with signals installed before it began (signals.h).
 * The error is told at rank 0 only; elsewhere err->text is empty. */
enum mt_status mt_train(const struct mt_train_options *options, struct mt_err *err);

#endif
