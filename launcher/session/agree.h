/* Ranks agree on failure at the end of a phase, so that none goes on alone and none waits for a rank that has stopped.
 *
 *     st = read_my_data(..., err);
 *     if ((st = mt_agree(comm, st, err))) goto out;   // on all ranks, or on none
 *
 * Only rank 0's `err` is filled, with every rank's error, equal ones once ("ranks 1-3 on b: ..."). On the others it is
 * empty, and mt_err_print must not be called: the command prints on rank 0 alone. */
#ifndef MT_LAUNCHER_SESSION_AGREE_H
#define MT_LAUNCHER_SESSION_AGREE_H

#include <mpi.h>
#include <stdbool.h>

#include "kernels/base/err.h"

/* Name rank r of `comm` by names[r] in messages from now on; without, it is rank r. */
void mt_agree_name_ranks(MPI_Comm comm, const int *names);
int mt_agree_rank_name(MPI_Comm comm, int rank);

/* Collective. Returns the same status everywhere: MT_OK, or that of the first rank that failed. */
enum mt_status mt_agree(MPI_Comm comm, enum mt_status mine, struct mt_err *err);

/* Collective: rank 0's status and error text, for phases in which rank 0 alone can fail. */
enum mt_status mt_agree_rank0(MPI_Comm comm, enum mt_status mine, struct mt_err *err);

/* Collective: every rank gives its `value` of `name` ("the plan's hash"). If they differ: MT_EINPUT, naming ranks,
 * hosts and values. */
enum mt_status mt_agree_same(MPI_Comm comm, const char *name, const char *value, struct mt_err *err);

/* Collective: the same, but a difference is only a warning in rank 0's log. */
void mt_agree_note(MPI_Comm comm, const char *name, const char *value);

/* Wait for a nonblocking collective, for patience_s of this process's awake time. MT_ESTALL: other ranks have not
 * joined; the collective is still in flight, and its buffers belong to MPI. */
enum mt_status mt_agree_wait(MPI_Request *request, double patience_s, struct mt_err *err);

/* This process's host name, for messages; set once. */
const char *mt_agree_host(void);

/* End a run whose peers may not answer: print err with this rank of `comm` and host, and end all processes of the job
 * by MPI_Abort with the status's exit code; this one exits within 5 seconds in any case. */
_Noreturn void mt_agree_abort(MPI_Comm comm, const struct mt_err *err);

#endif
