/* One-sided operations as work of a CUDA stream (kernels/device/window.h): copies, kernels of one warp that signal and
 * wait, and what becomes of waits in vain. */
#ifndef MT_KERNELS_CUDA_WINDOW_ON_STREAM_H
#define MT_KERNELS_CUDA_WINDOW_ON_STREAM_H

#include "kernels/cuda/window/watch.h"
#include "kernels/device/class.h"

/* Queue a copy of rows, between memory of GPUs: one copy where they are contiguous at both ends, else a box. */
enum mt_status cuda_put_rows(CUstream stream, CUdeviceptr to, int64_t to_stride, CUdeviceptr from, int64_t from_stride,
                             int64_t row_bytes, int64_t rows, struct mt_err *err);

/* Those of one stream. */
struct cuda_one_sided {
    struct cuda_watcher watcher; /* not made: nothing was queued yet */
    struct mt_window *window;    /* of what was queued last, or null */
    bool failed;                 /* and has been reported */
};

/* The first call loads what all need. */
enum mt_status cuda_one_sided_queue(struct cuda_one_sided *one_sided, const struct cuda_queue *queue,
                                    const struct mt_window_work *work, struct mt_err *err);
/* MT_ESTALL if a wait has ended in vain: the message names the rank that was waited for and what, and the others learn
 * of it. MT_EPEER if another rank has given up, or its process has ended; then waits end too. Each is reported once. */
enum mt_status cuda_one_sided_check(struct cuda_one_sided *one_sided, struct mt_err *err);
/* The stream is idle. */
void cuda_one_sided_release(struct cuda_one_sided *one_sided);

#endif
