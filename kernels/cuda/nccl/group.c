/* Communicators of groups other than all ranks in their order.
 *
 * The first rank of a group creates an id, and sends it to the others through the communicator of all ranks.
 * (ncclCommSplit is collective over all ranks, also those that are not in the group.) */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/wait.h"
#include "kernels/cuda/nccl/comm.h"
#include "kernels/cuda/nccl/internal.h"

static bool is_all(const struct nccl *nccl, const struct mt_coll *problem, const int *group) {
    bool all = problem->n == nccl->comm.nranks;
    for (int p = 0; all && p < problem->n; p++) all = group[p] == p;
    return all;
}

/* Wait until the stream is idle; fails if a communicator does, or with MT_ESTALL after the deadline. */
static enum mt_status drain(const struct nccl *nccl, CUstream stream, struct mt_err *err) {
    static const double nap_s = 20e-6;
    struct mt_awake awake = {0};
    CUresult result;
    while ((result = cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY) {
        if (cuda_nccl_check_all(err)) return err->status;
        if (mt_awake_check(&awake, 1) >= nccl->deadline_s)
            return mt_fail(err, MT_ESTALL, "NCCL: no answer from the group's other ranks for %g s", nccl->deadline_s);
        mt_sleep_s(nap_s);
    }
    return result ? cuda_fail(err, result, "sharing a group's id") : MT_OK;
}

static enum mt_status share_id(struct nccl *nccl, const struct cuda_queue *queue, const struct mt_coll *problem,
                               const int *group, CUdeviceptr place, ncclUniqueId *id, struct mt_err *err) {
    bool first = problem->me == 0;
    if (first) {
        ncclResult_t made = ncclGetUniqueId(id);
        if (made) return cuda_nccl_fail(err, made, "ncclGetUniqueId");
        CUDA_TRY(cuMemcpyHtoD(place, id, sizeof *id), err, "cuMemcpyHtoD");
    }
    ncclGroupStart();
    for (int p = 1; p < problem->n; p++) {
        if (first)
            ncclSend((const void *)place, sizeof *id, ncclChar, group[p], nccl->world, queue->stream);
        else if (p == problem->me)
            ncclRecv((void *)place, sizeof *id, ncclChar, group[0], nccl->world, queue->stream);
    }
    enum mt_status st = cuda_nccl_wait(nccl, nccl->world, ncclGroupEnd(), "sharing a group's id", err);
    if (!st) st = drain(nccl, queue->stream, err);
    if (!st && !first) CUDA_TRY(cuMemcpyDtoH(id, place, sizeof *id), err, "cuMemcpyDtoH");
    return st;
}

static enum mt_status create(struct nccl *nccl, const struct cuda_queue *queue, const struct mt_coll *problem,
                             const int *group, ncclComm_t *comm, struct mt_err *err) {
    CUstreamCaptureStatus capture;
    CUDA_TRY(cuStreamIsCapturing(queue->stream, &capture), err, "cuStreamIsCapturing");
    if (capture != CU_STREAM_CAPTURE_STATUS_NONE)
        return mt_fail(err, MT_EBUG, "a group's first collective is captured into a graph; it must run once before");
    CUdeviceptr place;
    ncclUniqueId id;
    CUDA_TRY(cuMemAlloc(&place, sizeof id), err, "cuMemAlloc");
    enum mt_status st = share_id(nccl, queue, problem, group, place, &id, err);
    if (!st) st = cuda_nccl_join(nccl, &id, problem->me, problem->n, comm, err);
    if (!st) cuMemFree(place); /* after a failure it might wait for ever */
    return st;
}

enum mt_status cuda_nccl_comm_of(struct nccl *nccl, const struct cuda_queue *queue, const struct mt_coll *problem,
                                 const int *group, ncclComm_t *comm, struct mt_err *err) {
    size_t size_bytes = (size_t)problem->n * sizeof *group;
    *comm = nccl->world;
    if (is_all(nccl, problem, group)) return MT_OK;
    for (struct cuda_nccl_group *g = nccl->groups; g; g = g->next)
        if (g->n == problem->n && !memcmp(g->ranks, group, size_bytes)) {
            *comm = g->nccl;
            return MT_OK;
        }
    *comm = NULL;
    enum mt_status st = create(nccl, queue, problem, group, comm, err);
    if (!*comm) return st;
    struct cuda_nccl_group *g =
        mt_malloc(sizeof *g + size_bytes); /* it exists, even after a failure, and must be released */
    *g = (struct cuda_nccl_group){.next = nccl->groups, .nccl = *comm, .n = problem->n};
    memcpy(g->ranks, group, size_bytes);
    nccl->groups = g;
    return st;
}
