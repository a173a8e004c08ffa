/* A collective call on the device: what kernels/cpu/message.c does, by kernels. */
#include "kernels/cuda/nccl/call.h"

#include "kernels/cuda/driver/driver.h"
#include "kernels/cuda/nccl/pipeline.h"

enum mt_status cuda_coll(const struct cuda_queue *queue, struct cuda_pipeline *pipeline,
                         const struct mt_coll_call *call, struct mt_err *err) {
    const struct mt_coll *problem = &call->problem;
    if (!call->ahead && !call->more) pipeline = NULL;
    bool arrays;
    enum mt_status st = cuda_coll_arrays(queue, pipeline, call, &arrays, err);
    if (st || arrays) return st;
    st = cuda_pipeline_pack(pipeline, queue, call, call->pack, call->npack, err);
    if (!st && call->schedule) {
        const struct mt_comm_class *class = call->comm->class;
        if (!class->queue) return mt_fail(err, MT_EBUG, "communicator \"%s\" queues nothing", class->name);
        st = class->queue(call->comm, queue, problem, call->schedule, call->group, call->message, call->tag, err);
    }
    return st ? st : cuda_pipeline_unpack(pipeline, queue, call, call->unpack, call->nunpack, err);
}
