/* Ranks agree on failure at the end of a phase, so that none goes on alone and nobody waits for one that has gone.
 *
 *     st = read_my_data(..., err);
 *     if ((st = mt_agree(comm, st, err))) goto out;   // on all ranks, or on none
 *
 * Only rank 0's `err` is filled: every rank's error, equal ones told once ("ranks 1-3 on b: ..."). On the others it is
 * empty, and mt_err_print must not be called: the command prints on rank 0 alone. */
#ifndef MT_LAUNCHER_SESSION_AGREE_H
#define MT_LAUNCHER_SESSION_AGREE_H

#include <mpi.h>
#include <stdbool.h>

#include "kernels/base/err.h"

/* Collective. Returns the same status everywhere: MT_OK, or that of the first rank that failed. */
enum mt_status mt_agree(MPI_Comm comm, enum mt_status mine, struct mt_err *err);

/* Collective: rank 0's status and error text, for phases in which rank 0 alone can fail. */
enum mt_status mt_agree_rank0(MPI_Comm comm, enum mt_status mine, struct mt_err *err);

/* Collective: refuse a mixture. Every rank gives its `value` of what is called `name` ("the plan's hash"); where they
 * are not all equal, MT_EINPUT naming ranks, hosts and values. */
enum mt_status mt_agree_same(MPI_Comm comm, const char *name, const char *value, struct mt_err *err);

/* Collective: a mixture that is no fault; rank 0 notes it in the log. */
void mt_agree_note(MPI_Comm comm, const char *name, const char *value);

/* Wait for a collective that has been begun, for so long of the time that this process is awake. MT_ESTALL: others have
 * not come; it is still under way, and its buffers stay MPI's. */
enum mt_status mt_agree_wait(MPI_Request *request, double patience_s, struct mt_err *err);

/* This process's host name, for messages; set once. */
const char *mt_agree_host(void);

/* The end of a run whose peers may not answer: print err with this rank and host, end all processes by MPI_Abort with
 * the status's exit code, and this one for certain within 5 seconds. */
_Noreturn void mt_agree_abort(MPI_Comm comm, const struct mt_err *err);

#endif
