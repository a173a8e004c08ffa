/* Traces in the Chrome format (chrome://tracing, Perfetto): one process per rank, one thread per stream.
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

/* Collective: rank 0 writes all ranks' events to `path`. Times start at the earliest event. */
enum mt_status mt_trace_write(MPI_Comm comm, const char *path, const char *const *streams, int nstreams,
                              const struct mt_trace_event *events, int64_t count, double clock_s, struct mt_err *err);

#endif
