/* A command that runs under mpirun or alone, from MPI_Init to MPI_Finalize.
 *
 *     st = mt_session_begin(&watch, st, &err);   // st: whether the flags were parsed
 *     if (!st) st = work(..., &err);             // collective, agrees
 *     return mt_session_end(st, 0, &err);        // rank 0 alone has the text, and prints it
 *
 * For use within a session: agree.h (agreement on failures), requests.h (signals), rank_device.h (a rank's device and
 * communicator), emulate.h (slower devices), cores.h (a host's cores). */
#ifndef MT_LAUNCHER_SESSION_SESSION_H
#define MT_LAUNCHER_SESSION_SESSION_H

#include "kernels/base/err.h"
#include "launcher/watch/watch.h"

/* Start the watch (with default options if the flags were wrong) and MPI; then set the rank for the log, check that all
 * ranks run one version of Motley, and divide the host's cores. All ranks return the same status. */
enum mt_status mt_session_begin(const struct mt_watch_options *watch, enum mt_status parsed, struct mt_err *err);

/* The watch and MPI alone: for `motley doctor`, which reports different versions, and cores as mpirun gave them. */
enum mt_status mt_session_start(const struct mt_watch_options *watch, enum mt_status parsed, struct mt_err *err);

/* Collective: print the error, then end MPI and the watch; in this order, since mpirun kills rank 0 when another rank
 * has failed. Returns the process's exit code: `code`, or that of the failure. */
int mt_session_end(enum mt_status st, int code, const struct mt_err *err);

/* A failure while peers may wait in a collective that is not MPI's: all processes end. */
_Noreturn void mt_session_abort(struct mt_err *err);

#endif
