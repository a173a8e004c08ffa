/* Ranks learn of each other's signals (launcher/watch/signals.h) one step later, by a reduction of one number that
 * overlaps the step.
 *
 * mpirun passes a signal on to all ranks, and may reach some before and some after a step. So that one request makes
 * one checkpoint, a rank treats its own signal as the same request if it arrives within MT_ECHO_S of a request that
 * others made without it. */
#ifndef MT_LAUNCHER_SESSION_REQUESTS_H
#define MT_LAUNCHER_SESSION_REQUESTS_H

#include <mpi.h>

#include "kernels/base/err.h"

#define MT_ECHO_S 2.0

/* Collective, once a step. *answer: what any rank had been asked when the previous call was made, the same on all
 * ranks. The reduction of what has been asked since is started. MT_ESTALL when other ranks have not made the previous
 * call for patience_s: a rank may be a step behind one that was submitted. */
struct mt_requests {
    MPI_Comm comm;
    /* With ranks that are not in comm, whose requests this rank takes for its own; MPI_COMM_NULL: none. */
    MPI_Comm idle;
    MPI_Request request;
    int mine, sent, all;  /* mine: without those of idle ranks */
    int due;              /* what this rank asks for by itself at the next call: set it */
    double echo_until_s;  /* until then, a request for a checkpoint repeats one that was answered */
    double known_until_s; /* until then, so does one of an idle rank */
};
void mt_requests_init(struct mt_requests *requests, MPI_Comm comm);
enum mt_status mt_requests_step(struct mt_requests *requests, double patience_s, int *answer, struct mt_err *err);
/* What this process, which makes no such calls, has been asked since the last call: send it to a rank `to` of `comm`,
 * which has it as requests->idle. */
void mt_requests_pass_on(MPI_Comm comm, int to);
/* Collective: wait for the reduction in flight; *answer as above. */
enum mt_status mt_requests_end(struct mt_requests *requests, double patience_s, int *answer, struct mt_err *err);

#endif
