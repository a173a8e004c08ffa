/* The order of messages after a graph was destroyed.
 *
 * Where data goes by NCCL's proxy thread (sockets, InfiniBand), each launch hands it a list of transfers: from a host
 * function on a stream of NCCL's as long as graphs with work of the communicator exist, else from the thread that
 * enqueues. NCCL learns some time after cuGraphDestroy that there are none. A launch after that can overtake the host
 * function of the one before, and its messages are taken for the other's: seen with NCCL 2.28 and three ranks over
 * sockets. So a communicator that was ever captured keeps a graph of its own, which is never launched: a byte from this
 * rank to itself. */
#include "kernels/cuda/nccl/internal.h"

/* On `stream`, which captures. */
static enum mt_status queue_byte(struct nccl *nccl, ncclComm_t comm, CUdeviceptr bytes, CUstream stream,
                                 struct mt_err *err) {
    int me = 0;
    ncclResult_t result = ncclCommUserRank(comm, &me);
    if (!result) result = ncclGroupStart();
    if (result) return cuda_nccl_fail(err, result, "ncclGroupStart");
    ncclResult_t sent = ncclSend((const void *)bytes, 1, ncclInt8, me, comm, stream),
                 received = ncclRecv((void *)(bytes + 1), 1, ncclInt8, me, comm, stream), ended = ncclGroupEnd();
    bool wrong = sent && sent != ncclInProgress;
    if (!wrong) sent = received, wrong = sent && sent != ncclInProgress;
    return cuda_nccl_wait(nccl, comm, wrong ? sent : ended, "capturing a message of a rank to itself", err);
}

static enum mt_status capture_byte(struct nccl *nccl, ncclComm_t comm, CUdeviceptr bytes, CUstream stream,
                                   CUgraph *graph, struct mt_err *err) {
    CUDA_TRY(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), err, "cuStreamBeginCapture");
    enum mt_status st = queue_byte(nccl, comm, bytes, stream, err);
    CUresult ended = cuStreamEndCapture(stream, graph);
    if (st) return st;
    return ended ? cuda_fail(err, ended, "cuStreamEndCapture") : MT_OK;
}

static enum mt_status keep_graph(struct nccl *nccl, ncclComm_t comm, CUgraph *graph, struct mt_err *err) {
    CUstream stream;
    CUdeviceptr bytes;
    if (*graph) return MT_OK;
    CUDA_TRY(cuMemAlloc(&bytes, 2), err, "cuMemAlloc");
    CUresult made = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    enum mt_status st =
        made ? cuda_fail(err, made, "cuStreamCreate") : capture_byte(nccl, comm, bytes, stream, graph, err);
    if (!made) cuStreamDestroy(stream);
    cuMemFree(bytes); /* nothing will run */
    return st;
}

enum mt_status cuda_nccl_keep_order(struct nccl *nccl, const struct cuda_queue *queue, struct mt_err *err) {
    CUstreamCaptureStatus capture;
    CUDA_TRY(cuStreamIsCapturing(queue->stream, &capture), err, "cuStreamIsCapturing");
    if (capture != CU_STREAM_CAPTURE_STATUS_NONE) nccl->captured = true;
    if (!nccl->captured || capture != CU_STREAM_CAPTURE_STATUS_NONE) return MT_OK;
    enum mt_status st = keep_graph(nccl, nccl->world, &nccl->graph, err);
    for (struct cuda_nccl_group *g = nccl->groups; g && !st; g = g->next)
        st = keep_graph(nccl, g->nccl, &g->graph, err);
    return st;
}

static void destroy(CUgraph *graph) {
    if (*graph) cuGraphDestroy(*graph);
    *graph = NULL;
}

void cuda_nccl_forget_order(struct nccl *nccl) {
    destroy(&nccl->graph);
    for (struct cuda_nccl_group *g = nccl->groups; g; g = g->next) destroy(&g->graph);
}
