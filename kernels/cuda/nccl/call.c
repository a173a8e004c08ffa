/* A collective call on the device: what kernels/cpu/message.c does, by kernels. */
#include "kernels/cuda/nccl/call.h"

#include "kernels/cuda/driver/driver.h"
#include "kernels/cuda/nccl/pieces.h"

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

enum mt_status cuda_coll(const struct cuda_queue *queue, const struct mt_coll_call *call, struct mt_err *err) {
    const struct mt_coll *problem = &call->problem;
    bool arrays;
    enum mt_status st = cuda_coll_arrays(queue, call, &arrays, err);
    if (st || arrays) return st;
    if (call->zero) st = fill_neutral(queue, call, err);
    if (!st) st = cuda_pack(queue, problem->acc, call->message, call->pack, call->npack, err);
    if (!st && call->schedule) {
        const struct mt_comm_class *class = call->comm->class;
        if (!class->queue) return mt_fail(err, MT_EBUG, "communicator \"%s\" queues nothing", class->name);
        st = class->queue(call->comm, queue, problem, call->schedule, call->group, call->message, call->tag, err);
    }
    return st ? st : cuda_unpack(queue, problem->acc, call->message, call->unpack, call->nunpack, err);
}
