/* Calls of operators one after the other on a stream. Their operands go round through more memory than caches hold.
 *
 *     mt_calls_new(device, room_bytes, &calls, &err);
 *     if (mt_calls_serve(calls, &c) && mt_calls_fit(calls, &c)) {
 *         mt_calls_queue(calls, stream, &c, n, &err);
 *         mt_calls_wait(calls, stream, times_s, &err);
 *     }
 *     mt_calls_free(calls); */
#ifndef MT_PROFILER_PROBES_CALLS_H
#define MT_PROFILER_PROBES_CALLS_H

#include "kernels/device/device.h"
#include "profiler/measure/grid.h"

struct mt_calls;

/* Operands take a part of room_bytes, the device's free memory. On failure *calls is there too, to be freed. */
enum mt_status mt_calls_new(struct mt_device *device, int64_t room_bytes, struct mt_calls **calls, struct mt_err *err);
void mt_calls_free(struct mt_calls *calls);

/* Whether the device has an implementation of such calls. */
bool mt_calls_serve(const struct mt_calls *calls, const struct mt_grid_case *c);
/* Whether there is memory for their operands. */
bool mt_calls_fit(const struct mt_calls *calls, const struct mt_grid_case *c);

/* Queue `count` calls, at most MT_MOST_CALLS. */
enum { MT_MOST_CALLS = 32 };
enum mt_status mt_calls_queue(struct mt_calls *calls, struct mt_stream *stream, const struct mt_grid_case *c, int count,
                              struct mt_err *err);
/* Wait until they are done. times_s[count]: from one call's start to the next one's; of the last, to its end. */
enum mt_status mt_calls_wait(struct mt_calls *calls, struct mt_stream *stream, double *times_s, struct mt_err *err);
/* Start and end of the calls that were queued last; valid until more are queued. */
const double (*mt_calls_seconds(const struct mt_calls *calls))[2];

#endif
