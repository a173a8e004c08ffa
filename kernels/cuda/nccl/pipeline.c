/* Two streams and five events. Of two buffers in turn, call k + 1 is packed where call k - 1 was unpacked: both are on
 * the side stream, in this order. What call k receives comes after its packing, hence after the unpacking of k - 2. */
#include "kernels/cuda/nccl/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/cuda/nccl/pieces.h"

static enum mt_status make(struct cuda_pipeline *p, struct mt_err *err) {
    CUevent *events[] = {&p->begun, &p->packed, &p->sent[0], &p->sent[1], &p->done};
    int least, greatest;
    if (p->done) return MT_OK;
    CUDA_TRY(cuCtxGetStreamPriorityRange(&least, &greatest), err, "cuCtxGetStreamPriorityRange");
    CUDA_TRY(cuStreamCreateWithPriority(&p->side, CU_STREAM_NON_BLOCKING, least), err, "cuStreamCreateWithPriority");
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        CUDA_TRY(cuEventCreate(events[i], CU_EVENT_DISABLE_TIMING), err, "cuEventCreate");
    return MT_OK;
}

/* Work that is queued on `later` from now on comes after what is queued on `sooner`. */
static enum mt_status order(CUstream sooner, CUevent event, CUstream later, struct mt_err *err) {
    CUDA_TRY(cuEventRecord(event, sooner), err, "cuEventRecord");
    CUDA_TRY(cuStreamWaitEvent(later, event, CU_EVENT_WAIT_DEFAULT), err, "cuStreamWaitEvent");
    return MT_OK;
}

/* The neutral element of the reduction: zero, or -infinity for a maximum. */
static enum mt_status fill_neutral(const struct cuda_queue *queue, const struct mt_coll_call *call,
                                   struct mt_err *err) {
    CUdeviceptr message = (CUdeviceptr)call->message[0];
    size_t count = (size_t)call->message_count[0], size_bytes = (size_t)mt_type_size(call->problem.acc);
    if (!count) return MT_OK;
    if (call->problem.reduce != MT_MAX)
        CUDA_TRY(cuMemsetD8Async(message, 0, count * size_bytes, queue->stream), err, "cuMemsetD8Async");
    else if (mt_type_is_half(call->problem.acc))
        CUDA_TRY(cuMemsetD16Async(message, call->problem.acc == MT_BF16 ? 0xff80 : 0xfc00, count, queue->stream), err,
                 "cuMemsetD16Async");
    else
        CUDA_TRY(cuMemsetD32Async(message, 0xff800000, count, queue->stream), err, "cuMemsetD32Async");
    return MT_OK;
}

static struct cuda_queue side_of(const struct cuda_pipeline *p, const struct cuda_queue *queue) {
    struct cuda_queue side = *queue;
    side.stream = p->side;
    side.shares = true;
    return side;
}

enum mt_status cuda_pipeline_pack(struct cuda_pipeline *p, const struct cuda_queue *queue,
                                  const struct mt_coll_call *call, const struct mt_piece *pieces, int count,
                                  struct mt_err *err) {
    enum mt_status st = p ? make(p, err) : MT_OK;
    if (st) return st;
    const bool aside = p && call->ahead;
    const struct cuda_queue side = p ? side_of(p, queue) : *queue, *on = aside ? &side : queue;
    if (call->zero) st = fill_neutral(on, call, err);
    if (!st) st = cuda_pack(on, call->problem.acc, call->message, pieces, count, err);
    if (!p || st) return st;
    p->calls = aside ? p->calls + 1 : 0;
    return aside ? order(p->side, p->packed, queue->stream, err) : order(queue->stream, p->begun, p->side, err);
}

static void keep(struct cuda_pipeline *p, const struct mt_coll_call *call, const struct mt_piece *pieces, int count) {
    p->pieces = mt_realloc(p->pieces, ((size_t)count + 1) * sizeof *p->pieces);
    if (count) memcpy(p->pieces, pieces, (size_t)count * sizeof *p->pieces);
    p->npieces = count;
    p->acc = call->problem.acc;
    for (int b = 0; b < 2; b++) p->message[b] = call->message[b];
}

enum mt_status cuda_pipeline_unpack(struct cuda_pipeline *p, const struct cuda_queue *queue,
                                    const struct mt_coll_call *call, const struct mt_piece *pieces, int count,
                                    struct mt_err *err) {
    if (!p) return cuda_unpack(queue, call->problem.acc, call->message, pieces, count, err);
    CUevent sent = p->sent[p->calls % 2], before = p->sent[(p->calls + 1) % 2];
    CUDA_TRY(cuEventRecord(sent, queue->stream), err, "cuEventRecord");
    enum mt_status st = MT_OK;
    if (call->ahead) {
        const struct cuda_queue side = side_of(p, queue);
        CUDA_TRY(cuStreamWaitEvent(p->side, before, CU_EVENT_WAIT_DEFAULT), err, "cuStreamWaitEvent");
        st = cuda_unpack(&side, p->acc, p->message, p->pieces, p->npieces, err);
    }
    if (!st && call->more) {
        keep(p, call, pieces, count);
        return MT_OK;
    }
    if (!st) st = cuda_unpack(queue, call->problem.acc, call->message, pieces, count, err);
    return st ? st : order(p->side, p->done, queue->stream, err);
}

void cuda_pipeline_release(struct cuda_pipeline *p) {
    CUevent events[] = {p->begun, p->packed, p->sent[0], p->sent[1], p->done};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i]) cuEventDestroy(events[i]);
    if (p->side) cuStreamDestroy(p->side);
    free(p->pieces);
    *p = (struct cuda_pipeline){0};
}
