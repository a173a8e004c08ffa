/* A command that runs under mpirun or alone, from MPI's beginning to its end.
 *
 *     st = mt_session_begin(&watch, st, &err);   // st: what the command line came to
 *     if (!st) st = work(..., &err);             // collective, agrees
 *     return mt_session_end(st, 0, &err);        // rank 0 alone has a text, and prints it
 */
#ifndef MT_LAUNCHER_SESSION_SESSION_H
#define MT_LAUNCHER_SESSION_SESSION_H

#include <mpi.h>

#include "kernels/base/err.h"
#include "launcher/watch/watch.h"

/* Start the watch (not as `watch` says where the command line is wrong) and MPI; then say who this process is, refuse a
 * mixture of versions, divide the host's cores. All ranks return the same: none goes on when another cannot. */
enum mt_status mt_session_begin(const struct mt_watch_options *watch, enum mt_status parsed, struct mt_err *err);

/* The watch and MPI alone: for who looks into mixtures, and what a host gives. */
enum mt_status mt_session_start(const struct mt_watch_options *watch, enum mt_status parsed, struct mt_err *err);

/* Collective: print the error, end MPI and the watch. Rank 0 prints before, as mpirun ends it when another rank has
 * ended badly. Returns what to exit with: `code`, or the failure's; the process may only exit after. */
int mt_session_end(enum mt_status st, int code, const struct mt_err *err);

/* A failure while peers may be waiting in a collective that is not MPI's: all processes end. */
_Noreturn void mt_session_abort(struct mt_err *err);

#endif
