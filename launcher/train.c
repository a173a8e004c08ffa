/* The phases of training. Each ends with all ranks in agreement. */
#include "launcher/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/agree.h"
#include "launcher/trainer.h"
#include "launcher/watch.h"

void mt_train_defaults(struct mt_train_options *options) {
    *options = (struct mt_train_options){.val_fraction = 0.1,
                                         .steps = -1,
                                         .log_every = 10,
                                         .keep = 2,
                                         .deadline_s = 300,
                                         .heartbeat_s = MT_WATCH_HEARTBEAT_S};
}

static enum mt_status train(struct trainer *t, struct mt_err *err) {
    enum mt_status st;
    if ((st = trainer_open(t, err)) || (st = trainer_load(t, err))) return st;
    return trainer_run(t, err);
}

static enum mt_status begin_watch(const struct mt_train_options *o, struct mt_err *err) {
    static char hint[512];
    const char *folder = o->out ? o->out : o->resume;
    if (folder)
        snprintf(hint, sizeof hint,
                 "--resume %.200s goes on from the last checkpoint, if there is one; `motley doctor` "
                 "looks for what is wrong",
                 folder);
    else
        snprintf(hint, sizeof hint,
                 "with --out and --checkpoint-every a run can go on from its last checkpoint; "
                 "`motley doctor` looks for what is wrong");
    struct mt_watch_options options = {
        .heartbeat_s = o->heartbeat_s, .start_s = o->start_s, .deadline_s = o->deadline_s, .hint = hint};
    return mt_watch_begin(&options, err);
}

enum mt_status mt_train(const struct mt_train_options *options, enum mt_status parsed, struct mt_err *err) {
    int level;
    /* A thread that waits in MPI yields its core to the ranks that compute. */
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    mt_signals_install(); /* what is asked while the run is set up is answered after its first steps */
    struct mt_err watch_err = MT_ERR_INIT;
    struct mt_train_options defaults;
    mt_train_defaults(&defaults);
    enum mt_status st = parsed, watched = begin_watch(parsed ? &defaults : options, &watch_err);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    mt_watch_phase(MT_WATCH_SLOW, "the set-up");
    if (!st && watched) {
        *err = watch_err;
        st = watched;
    }
    if (!st && level < MPI_THREAD_SERIALIZED)
        st = mt_fail(err, MT_EMISSING, "this MPI lets no thread but the first call it (level %d)", level);
    st = mt_agree(MPI_COMM_WORLD, st, err);
    if (!st) {
        struct trainer *t = mt_calloc(1, sizeof *t);
        t->options = options;
        t->comm = MPI_COMM_NULL;
        t->lock = -1;
        st = train(t, err);
        trainer_close(t);
        free(t);
    }
    mt_signals_restore();
    return st;
}

void mt_train_end(bool well) {
    mt_watch_phase(MT_WATCH_SLOW, "the end");
    MPI_Finalize();
    mt_watch_end(well);
}
