#include "launcher/session/session.h"

#include <stdlib.h>

#include "kernels/base/log.h"
#include "launcher/session/agree.h"
#include "launcher/session/cores.h"

enum mt_status mt_session_start(const struct mt_watch_options *watch, enum mt_status parsed, struct mt_err *err) {
    int level;
    struct mt_err watch_err = MT_ERR_INIT;
    const struct mt_watch_options defaults = {.heartbeat_s = MT_WATCH_HEARTBEAT_S, .deadline_s = 60};
    /* A thread that waits in MPI yields its core to the ranks that compute. */
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    /* One-sided access between hosts (kernels/comm/mpi_rma.c): Open MPI's other component for it wants RDMA. */
    setenv("OMPI_MCA_osc", "pt2pt", 0);
    enum mt_status st = parsed, watched = mt_watch_begin(parsed ? &defaults : watch, &watch_err);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    mt_watch_phase(MT_WATCH_SLOW, "the set-up");
    if (!st && watched) {
        *err = watch_err;
        st = watched;
    }
    if (!st && level < MPI_THREAD_SERIALIZED)
        st = mt_fail(err, MT_EMISSING, "this MPI lets no thread but the first call it (level %d)", level);
    return mt_agree(MPI_COMM_WORLD, st, err);
}

enum mt_status mt_session_begin(const struct mt_watch_options *watch, enum mt_status parsed, struct mt_err *err) {
    int rank, nranks;
    enum mt_status st = mt_session_start(watch, parsed, err);
    if (st) return st;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    mt_watch_expect(rank, nranks);
    mt_log_rank(rank, !rank);
    st = mt_agree_same(MPI_COMM_WORLD, "Motley's version", MOTLEY_VERSION, err);
    if (!st) mt_cores_divide(MPI_COMM_WORLD);
    return st;
}

int mt_session_end(enum mt_status st, int code, const struct mt_err *err) {
    if (st && err->text[0]) mt_err_print(err);
    if (st) code = mt_exit_code(st);
    mt_watch_phase(MT_WATCH_SLOW, "the end");
    MPI_Finalize();
    mt_watch_end(!code);
    return code;
}

_Noreturn void mt_session_abort(struct mt_err *err) {
    mt_watch_fail(err);
    mt_agree_abort(MPI_COMM_WORLD, err);
}
