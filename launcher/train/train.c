/* The phases of training; ranks agree at the end of each. */
#include "launcher/train/train.h"

#include <stdio.h>
#include <stdlib.h>

#include "launcher/train/internal.h"
#include "launcher/watch/watch.h"

void mt_train_defaults(struct mt_train_options *options) {
    *options = (struct mt_train_options){.steps = -1,
                                         .checkpoint_minutes = 10,
                                         .log_every = 10,
                                         .keep = 2,
                                         .deadline_s = 300,
                                         .heartbeat_s = MT_WATCH_HEARTBEAT_S};
}

static enum mt_status work(struct trainer *t, struct mt_err *err) {
    enum mt_status st;
    if ((st = mt_trainer_open(t, err)) || (st = mt_trainer_load(t, err))) return st;
    return mt_trainer_run(t, err);
}

static enum mt_status train(struct trainer *t, struct mt_err *err) {
    enum mt_status st = mt_trainer_join(t, err);
    if (st) return st;
    if (t->rank < 0) return mt_trainer_idle(t, err);
    st = work(t, err);
    mt_trainer_end_idle(t, st);
    return st;
}

struct mt_watch_options mt_train_watch(const struct mt_train_options *o) {
    static char hint[512];
    const char *folder = o->out ? o->out : o->resume;
    if (folder)
        snprintf(hint, sizeof hint,
                 "--resume %.200s goes on from the last checkpoint, if there is one; `motley doctor` "
                 "looks for what is wrong",
                 folder);
    else
        snprintf(hint, sizeof hint,
                 "--resume with the run's folder goes on from its last checkpoint, if there is one; `motley doctor` "
                 "looks for what is wrong");
    return (struct mt_watch_options){
        .heartbeat_s = o->heartbeat_s, .start_s = o->start_s, .deadline_s = o->deadline_s, .hint = hint};
}

enum mt_status mt_train(const struct mt_train_options *options, struct mt_err *err) {
    struct trainer *t = mt_calloc(1, sizeof *t);
    t->options = options;
    t->comm = t->all = MPI_COMM_NULL;
    t->lock = -1;
    enum mt_status st = train(t, err);
    mt_trainer_close(t);
    free(t);
    return st;
}
