/* Ranks learn of each other's signals (launcher/watch/signals.h) one step later, by a reduction of one number that
 * travels while the step is computed.
 *
 * mpirun passes a signal on to all ranks, which it may reach on both sides of a step. So that one request makes one
 * checkpoint, a rank that had not been asked when a request was answered takes a signal that reaches it within
 * MT_ECHO_S after for the same request. */
#ifndef MT_LAUNCHER_SESSION_ASKING_H
#define MT_LAUNCHER_SESSION_ASKING_H

#include <mpi.h>

#include "kernels/base/err.h"

#define MT_ECHO_S 2.0

/* Between ranks. Collective, once a step: *answer is what anybody had been asked when the call before this one was
 * made, the same on all ranks, and what has been asked since is sent off. MT_ESTALL when others have not made that call
 * for patience_s: a rank may be a step behind that has been submitted. */
struct mt_asking {
    MPI_Comm comm;
    MPI_Request request;
    int mine, all;
    double echo_until_s; /* until then a request for a checkpoint is one that others have answered */
};
void mt_asking_init(struct mt_asking *asking, MPI_Comm comm);
enum mt_status mt_asking_step(struct mt_asking *asking, double patience_s, int *answer, struct mt_err *err);
/* Collective; *answer: what was still under way. */
enum mt_status mt_asking_end(struct mt_asking *asking, double patience_s, int *answer, struct mt_err *err);

#endif
