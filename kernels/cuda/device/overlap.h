/* Overlapped GEMMs of a stream: its second stream, for puts, and the words by which its kernels tell the host that they
 * have given up, and the host tells them to. */
#ifndef MT_KERNELS_CUDA_DEVICE_OVERLAP_H
#define MT_KERNELS_CUDA_DEVICE_OVERLAP_H

#include "kernels/cuda/overlap/overlap.h"

struct cuda_overlaps {
    CUstream moves;
    CUevent joint;
    struct cuda_watcher watcher; /* not made: nothing was queued yet */
    struct mt_window *window;    /* the stream's: of what runs, or null */
    bool failed;                 /* and has been reported */
};

/* Queue a call, and count its epoch up. */
enum mt_status cuda_overlaps_queue(struct cuda_overlaps *overlaps, const struct cuda_queue *queue,
                                   struct mt_overlap_call *call, struct mt_err *err);
/* MT_ESTALL if a kernel has waited in vain: the message names tile and peer, and the peers learn of it. MT_EPEER if
 * another rank has given up, or its process has ended; then kernels that wait go on. Each is reported once. */
enum mt_status cuda_overlaps_check(struct cuda_overlaps *overlaps, struct mt_err *err);
/* The stream is idle. */
void cuda_overlaps_release(struct cuda_overlaps *overlaps);

#endif
