/* A rank that the plan leaves out: it waits until the run ends, and ends with the same status.
 *
 * It holds no program, data or device, and joins no message of a step. It sleeps between polls of MPI, at most
 * `longest_s`, so that its core is free; passes signals on; and its watch's thread goes on as on every rank. */
#include "launcher/session/agree.h"
#include "launcher/train/internal.h"
#include "launcher/watch/watch.h"

enum { TAG_END = 92 };

enum mt_status mt_trainer_idle(struct trainer *t, struct mt_err *err) {
    static const double shortest_s = 1e-3, longest_s = 10e-3;
    int status, done = 0;
    MPI_Request end;
    mt_watch_phase(MT_WATCH_IDLE, "the wait of an idle rank for the end of the run");
    MPI_Irecv(&status, 1, MPI_INT, t->plan->order[0], TAG_END, t->all, &end);
    for (double sleep_s = shortest_s;; sleep_s = sleep_s * 1.5 < longest_s ? sleep_s * 1.5 : longest_s) {
        MPI_Test(&end, &done, MPI_STATUS_IGNORE);
        if (done) break;
        mt_requests_pass_on(t->all, t->plan->order[0]);
        mt_sleep_s(sleep_s);
    }
    err->text[0] = err->hint[0] = 0; /* the leader prints it */
    return err->status = (enum mt_status)status;
}

void mt_trainer_end_idle(struct trainer *t, enum mt_status st) {
    int status = (int)st;
    if (t->rank) return;
    for (int r = 0; r < t->plan->nranks; r++)
        if (t->place[r] < 0) MPI_Send(&status, 1, MPI_INT, r, TAG_END, t->all);
}
