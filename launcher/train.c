/* The phases of training. Each ends with all ranks in agreement. */
#include "launcher/train.h"

#include <stdlib.h>
#include <string.h>

#include "launcher/agree.h"
#include "launcher/trainer.h"

void mt_train_defaults(struct mt_train_options *options) {
    *options =
        (struct mt_train_options){.val_fraction = 0.1, .steps = -1, .log_every = 10, .keep = 2, .deadline_s = 300};
}

static enum mt_status train(struct trainer *t, struct mt_err *err) {
    enum mt_status st;
    if ((st = trainer_open(t, err)) || (st = trainer_load(t, err))) return st;
    return trainer_run(t, err);
}

enum mt_status mt_train(const struct mt_train_options *options, enum mt_status parsed, struct mt_err *err) {
    int level;
    /* A thread that waits in MPI yields its core to the ranks that compute. */
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    mt_signals_install(); /* what is asked while the run is set up is answered after its first steps */
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    enum mt_status st = parsed;
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

void mt_train_end(void) {
    MPI_Finalize();
}
