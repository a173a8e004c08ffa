/* Collective calls on the device: pack pieces of tensors into a message, communicate, unpack; or without a message. */
#ifndef MT_KERNELS_CUDA_NCCL_CALL_H
#define MT_KERNELS_CUDA_NCCL_CALL_H

#include "kernels/device/device.h"

struct cuda_queue;    /* driver/driver.h */
struct cuda_pipeline; /* pipeline.h */

/* A whole call (device.h): fill, pack, the collective by the call's communicator, unpack. pipeline: of the queue's
 * stream; null if the call is not pipelined. */
enum mt_status cuda_coll(const struct cuda_queue *queue, struct cuda_pipeline *pipeline,
                         const struct mt_coll_call *call, struct mt_err *err);

/* A whole call whose pieces need no message (arrays.c). *goes: whether this is one, the same on all ranks; if not,
 * nothing is done. */
enum mt_status cuda_coll_arrays(const struct cuda_queue *queue, struct cuda_pipeline *pipeline,
                                const struct mt_coll_call *call, bool *goes, struct mt_err *err);

#endif
