#include "launcher/session.h"

#include <stdlib.h>

#include "kernels/base/log.h"
#include "launcher/agree.h"
#include "launcher/cores.h"
#include "launcher/watch.h"

enum mt_status mt_session_begin(double heartbeat_s, double deadline_s, enum mt_status parsed, struct mt_err *err) {
    int level, rank, nranks;
    struct mt_err watch_err = MT_ERR_INIT;
    /* As in training: a thread that waits in MPI yields its core. */
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    struct mt_watch_options options = {.heartbeat_s = heartbeat_s, .deadline_s = deadline_s};
    enum mt_status st = parsed, watched = mt_watch_begin(&options, &watch_err);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    mt_watch_phase(MT_WATCH_SLOW, "the set-up");
    if (!st && watched) {
        *err = watch_err;
        st = watched;
    }
    if (!st && level < MPI_THREAD_SERIALIZED)
        st = mt_fail(err, MT_EMISSING, "this MPI lets no thread but the first call it (level %d)", level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    mt_watch_expect(rank, nranks);
    mt_log_rank(rank);
    if ((st = mt_agree(MPI_COMM_WORLD, st, err)) ||
        (st = mt_agree_same(MPI_COMM_WORLD, "Motley's version", MOTLEY_VERSION, err)))
        return st;
    mt_cores_divide(MPI_COMM_WORLD);
    return MT_OK;
}

void mt_session_end(bool well) {
    mt_watch_phase(MT_WATCH_SLOW, "the end");
    MPI_Finalize();
    mt_watch_end(well);
}

_Noreturn void mt_session_abort(struct mt_err *err) {
    mt_watch_fail(err);
    mt_agree_abort(MPI_COMM_WORLD, err);
}
