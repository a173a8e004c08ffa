/* Start and end times of a stream's calls, on the host's clock.
 *
 * There is an event before and after each call; where a call is queued while the one before it still runs, the end of
 * that one is its start. Times are relative to a base event whose time on the host's clock is known to some
 * microseconds; a new base is recorded when it gets old, since the clocks of GPU and host drift. */
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
    bool chained;   /* nothing was queued since the last end event */
    CUevent *spare; /* events that are not in use */
    size_t nspare, spare_capacity;
    CUevent base;
    double base_s; /* its mt_now_s */
};
enum mt_status cuda_times_init(struct cuda_times *times, CUstream stream, struct mt_err *err);
void cuda_times_release(struct cuda_times *times);
/* Before and after a call is queued; seconds[2]: start and end, null if they are not wanted. If the call fails, there
 * is no cuda_times_end. */
enum mt_status cuda_times_begin(struct cuda_times *times, double *seconds, struct mt_err *err);
enum mt_status cuda_times_end(struct cuda_times *times, double *seconds, struct mt_err *err);
/* Write the times, once all that was queued has run. */
enum mt_status cuda_times_resolve(struct cuda_times *times, struct mt_err *err);

#endif
