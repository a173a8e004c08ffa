/* A command that runs under mpirun or alone, from MPI's beginning to its end: for those that measure.
 *
 *     st = mt_session_begin(MT_WATCH_HEARTBEAT_S, 60, st, &err);   // st: what the command line came to
 *     if (!st) st = work(..., &err);                               // collective, agrees
 *     if (st && err.text[0]) mt_command_fail(&err);                // rank 0 alone has a text
 *     mt_session_end(!st);                                         // then exit */
#ifndef MT_LAUNCHER_SESSION_H
#define MT_LAUNCHER_SESSION_H

#include <mpi.h>
#include <stdbool.h>

#include "kernels/base/err.h"

/* Start the watch (watch.h) and MPI, divide the cores, say who this process is; all ranks return the same. */
enum mt_status mt_session_begin(double heartbeat_s, double deadline_s, enum mt_status parsed, struct mt_err *err);
void mt_session_end(bool well);

/* A failure while peers may be waiting in a collective that is not MPI's: all processes end. */
_Noreturn void mt_session_abort(struct mt_err *err);

#endif
