/* When work of a stream ran.
 *
 * Events before and after each call; where a call is queued while the one before it still runs, the end of that is the
 * start of this. The GPU's clock is tied to the host's by a base event whose time the host knows, to some
 * microseconds; it is tied again as it ages, since the two drift apart. */
#ifndef MT_KERNELS_CUDA_DEVICE_TIMES_H
#define MT_KERNELS_CUDA_DEVICE_TIMES_H

#include "kernels/cuda/driver/driver.h"

struct cuda_timing {
    double *seconds;
    CUevent start, end;
    bool shared; /* start is the end of the timing before */
};
struct cuda_times {
    CUstream stream;
    struct cuda_timing *pending;
    size_t npending, capacity;
    bool chained;   /* nothing was queued since the last end */
    CUevent *spare; /* events that are not in use */
    size_t nspare, spare_capacity;
    CUevent base;
    double base_s; /* mt_now_s when it came */
};
enum mt_status cuda_times_init(struct cuda_times *times, CUstream stream, struct mt_err *err);
void cuda_times_release(struct cuda_times *times);
/* Around what is queued; seconds null: no time is wanted. After a failure between them there is no end. */
enum mt_status cuda_times_begin(struct cuda_times *times, double *seconds, struct mt_err *err);
enum mt_status cuda_times_end(struct cuda_times *times, double *seconds, struct mt_err *err);
/* All that was queued is done: write the times down. */
enum mt_status cuda_times_resolve(struct cuda_times *times, struct mt_err *err);

#endif
