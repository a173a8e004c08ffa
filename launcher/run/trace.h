/* Traces in the Chrome format (chrome://tracing, Perfetto): one process per rank, one thread per stream; and the
 * predicted step, in processes of its own.
 *
 * Ranks' clocks are aligned by round trips, with an error of about half the shortest one. */
#ifndef MT_LAUNCHER_RUN_TRACE_H
#define MT_LAUNCHER_RUN_TRACE_H

#include <mpi.h>
#include <stdint.h>

#include "kernels/base/err.h"

struct mt_trace_event {
    const char *name; /* of the instruction */
    int stream;
    int64_t step;
    double start_s, end_s; /* mt_now_s on this rank */
};

/* Collective: rank 0's mt_now_s minus this rank's. */
double mt_trace_clock(MPI_Comm comm);

/* Processes of a trace from this number on are ranks of the predicted step. */
#define MT_TRACE_PREDICTED 1000000

/* The step of a plan as it is simulated. Of more than 16 ranks one of each class stands for all of it. */
struct mt_plan;
struct mt_timeline;
struct mt_trace_predicted {
    const struct mt_plan *plan;
    const struct mt_timeline *timeline;
};
/* Its events as a JSON array, as if it began at start_s; free() it. */
char *mt_trace_predicted_text(const struct mt_trace_predicted *predicted, double start_s, int64_t step);
/* That alone as a trace. */
enum mt_status mt_trace_predicted_write(const struct mt_trace_predicted *predicted, const char *path,
                                        struct mt_err *err);

/* Collective: rank 0 writes all ranks' events to `path`, and the predicted step (or null), which begins with the last
 * step of its own events. Times start at the earliest event. */
struct mt_trace_mine {
    const char *const *streams;
    int nstreams;
    const struct mt_trace_event *events;
    int64_t count;
    double clock_s;
};
enum mt_status mt_trace_write(MPI_Comm comm, const char *path, const struct mt_trace_mine *mine,
                              const struct mt_trace_predicted *predicted, struct mt_err *err);

#endif
