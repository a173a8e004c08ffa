/* Pipelined collective calls (mt_coll_call.ahead, more): while one is sent, a second stream packs the next one and
 * unpacks the one before.
 *
 *   side   ... pack 2 | unpack 1 ... pack 3 | unpack 2 ...
 *   main   ...  send 1 | send 2 | send 3 ...
 *
 * The first call is packed, and the last unpacked, on the main stream, which then waits for the side stream: so work
 * that is queued later finds all of them done. Copies of the side stream leave multiprocessors to NCCL, whose blocks
 * cannot share one with others. */
#ifndef MT_KERNELS_CUDA_NCCL_PIPELINE_H
#define MT_KERNELS_CUDA_NCCL_PIPELINE_H

#include "kernels/cuda/driver/driver.h"
#include "kernels/device/device.h"

/* Of one stream. All zero: nothing was pipelined yet; the side stream and its events are made when they are first
 * needed. */
struct cuda_pipeline {
    CUstream side;
    CUevent begun, packed, sent[2], done; /* sent: of even and odd calls */
    int calls;                            /* of the present sequence */
    /* What the last call still has to unpack. */
    void *message[2];
    enum mt_type acc;
    struct mt_piece *pieces;
    int npieces;
};

/* Fill and pack, before the call is sent; `pieces` of the call are what is copied. Null: all on the queue's stream. */
enum mt_status cuda_pipeline_pack(struct cuda_pipeline *pipeline, const struct cuda_queue *queue,
                                  const struct mt_coll_call *call, const struct mt_piece *pieces, int count,
                                  struct mt_err *err);
/* Unpack, after it was queued: now or with the next call. */
enum mt_status cuda_pipeline_unpack(struct cuda_pipeline *pipeline, const struct cuda_queue *queue,
                                    const struct mt_coll_call *call, const struct mt_piece *pieces, int count,
                                    struct mt_err *err);
void cuda_pipeline_release(struct cuda_pipeline *pipeline);

#endif
