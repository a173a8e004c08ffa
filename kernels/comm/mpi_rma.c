/* One-sided access by MPI-3: one MPI window in a passive epoch (MPI_Win_lock_all) for its whole life.
 *
 * A rank must never block on a peer that is stopped, so every operation is a request that is polled, and none is an
 * MPI_Win_flush, which has no deadline. The only requests whose completion means arrival are those that return
 * something: a put is an MPI_Rget_accumulate with MPI_REPLACE, whose result, the old content, is dropped. So a put's
 * bytes are sent both ways, which full-duplex links hide; within a host windows use shared memory instead.
 *
 * The first access to a rank may still block, for the rank's answer (Open MPI's pt2pt takes its lock then): all ranks
 * access each other once while they make the window.
 *
 * Words are read by the same atomic operations, also by their owner, and MPI_Win_sync orders them with what is loaded
 * and stored directly. */
#include <mpi.h>

#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/comm/internal.h"

struct slot {
    bool busy, atomic;
    MPI_Request request;
    uint64_t value, old;
    char *dropped; /* MT_RMA_SEGMENT_BYTES; null until the first put */
};

struct mpi_rma {
    struct mt_rma rma;
    MPI_Comm comm;
    MPI_Win window;
    struct slot slots[MT_RMA_SLOTS];
    struct mpi_rma *abandoned; /* the next */
};

/* Those that were released while MPI could still write to their slots. */
static struct mpi_rma *abandoned;

static enum mt_status fail(struct mt_err *err, int code, const char *what) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    return mt_fail(err, MT_EPEER, "MPI: %s: %s", what, text);
}

static int begin(struct mpi_rma *m, struct slot *slot, const struct mt_rma_op *op) {
    int bytes = (int)op->size_bytes;
    if (op->kind == MT_RMA_GET)
        return MPI_Rget(op->to, bytes, MPI_BYTE, op->rank, op->at, bytes, MPI_BYTE, m->window, &slot->request);
    if (op->kind == MT_RMA_PUT) {
        if (!slot->dropped) slot->dropped = mt_malloc(MT_RMA_SEGMENT_BYTES);
        return MPI_Rget_accumulate(op->from, bytes, MPI_BYTE, slot->dropped, bytes, MPI_BYTE, op->rank, op->at, bytes,
                                   MPI_BYTE, MPI_REPLACE, m->window, &slot->request);
    }
    MPI_Op how = op->kind == MT_RMA_SET ? MPI_REPLACE : op->kind == MT_RMA_ADD ? MPI_SUM : MPI_NO_OP;
    slot->value = op->value;
    MPI_Win_sync(m->window);
    return MPI_Rget_accumulate(&slot->value, 1, MPI_UINT64_T, &slot->old, 1, MPI_UINT64_T, op->rank, op->at, 1,
                               MPI_UINT64_T, how, m->window, &slot->request);
}

static int start(struct mt_rma *rma, const struct mt_rma_op *op, struct mt_err *err) {
    struct mpi_rma *m = (struct mpi_rma *)rma;
    int s = 0;
    while (s < MT_RMA_SLOTS && m->slots[s].busy) s++;
    if (s == MT_RMA_SLOTS) return -1;
    struct slot *slot = &m->slots[s];
    int code = begin(m, slot, op);
    if (code) {
        fail(err, code, "starting one-sided access");
        return -1;
    }
    slot->busy = true;
    slot->atomic = op->kind != MT_RMA_PUT && op->kind != MT_RMA_GET;
    return s;
}

static enum mt_status test(struct mt_rma *rma, int s, bool *done, uint64_t *value, struct mt_err *err) {
    struct mpi_rma *m = (struct mpi_rma *)rma;
    struct slot *slot = &m->slots[s];
    int flag, code = MPI_Test(&slot->request, &flag, MPI_STATUS_IGNORE);
    if (code) return fail(err, code, "one-sided access");
    *done = flag;
    if (!flag) return MT_OK;
    slot->busy = false;
    *value = slot->old;
    if (slot->atomic) MPI_Win_sync(m->window);
    return MT_OK;
}

static void release(struct mt_rma *rma, bool broken) {
    struct mpi_rma *m = (struct mpi_rma *)rma;
    for (int s = 0; s < MT_RMA_SLOTS; s++) broken |= m->slots[s].busy;
    if (broken) {
        m->abandoned = abandoned;
        abandoned = m;
        return;
    }
    MPI_Win_unlock_all(m->window);
    MPI_Win_free(&m->window);
    MPI_Comm_free(&m->comm);
    for (int s = 0; s < MT_RMA_SLOTS; s++) free(m->slots[s].dropped);
    free(m);
}

static const struct mt_rma_class class = {start, test, release};

static int touch_all(struct mpi_rma *m) {
    int n, code = MPI_Comm_size(m->comm, &n);
    uint64_t none = 0, ignored;
    for (int r = 0; r < n && !code; r++) {
        code = MPI_Fetch_and_op(&none, &ignored, MPI_UINT64_T, r, 0, MPI_NO_OP, m->window);
        if (!code) code = MPI_Win_flush(r, m->window);
    }
    return code ? code : MPI_Barrier(m->comm);
}

enum mt_status mt_mpi_expose(MPI_Comm of, void *memory, int64_t size_bytes, struct mt_rma **rma, struct mt_err *err) {
    struct mpi_rma *m = mt_calloc(1, sizeof *m);
    m->rma.class = &class;
    int code = MPI_Comm_dup(of, &m->comm);
    if (code) {
        free(m);
        return fail(err, code, "MPI_Comm_dup");
    }
    MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN);
    code = MPI_Win_create(memory, size_bytes, 1, MPI_INFO_NULL, m->comm, &m->window);
    if (!code) {
        MPI_Win_set_errhandler(m->window, MPI_ERRORS_RETURN);
        code = MPI_Win_lock_all(MPI_MODE_NOCHECK, m->window);
        if (!code) code = touch_all(m);
    }
    if (code) { /* peers may wait elsewhere, and to free a window or a communicator is collective */
        m->abandoned = abandoned;
        abandoned = m;
        fail(err, code, "exposing memory to other hosts");
        return mt_err_hint(err, "with Open MPI 4, set OMPI_MCA_osc=pt2pt");
    }
    *rma = &m->rma;
    return MT_OK;
}
