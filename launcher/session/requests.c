/* Signals that processes have received, reduced over ranks. */
#include "launcher/session/requests.h"

#include "kernels/base/wait.h"
#include "launcher/session/agree.h"
#include "launcher/watch/signals.h"

enum { TAG_REQUEST = 91 };

void mt_requests_init(struct mt_requests *requests, MPI_Comm comm) {
    *requests = (struct mt_requests){.comm = comm, .idle = MPI_COMM_NULL, .request = MPI_REQUEST_NULL};
}

void mt_requests_pass_on(MPI_Comm comm, int to) {
    int asked = mt_signals_take();
    if (asked) MPI_Send(&asked, 1, MPI_INT, to, TAG_REQUEST, comm);
}

/* A checkpoint that some rank of comm has been asked for lately is the same request. */
static int asked_of_idle(struct mt_requests *requests) {
    int all = 0, there = requests->idle != MPI_COMM_NULL;
    while (there) {
        MPI_Status status;
        int asked;
        MPI_Iprobe(MPI_ANY_SOURCE, TAG_REQUEST, requests->idle, &there, &status);
        if (!there) break;
        MPI_Recv(&asked, 1, MPI_INT, status.MPI_SOURCE, TAG_REQUEST, requests->idle, MPI_STATUS_IGNORE);
        all |= asked;
    }
    return mt_now_s() < requests->known_until_s ? all & ~MT_REQUEST_CHECKPOINT : all;
}

enum mt_status mt_requests_step(struct mt_requests *requests, double patience_s, int *answer, struct mt_err *err) {
    enum mt_status st = mt_requests_end(requests, patience_s, answer, err);
    if (st) return st;
    bool others = (*answer & ~requests->mine) & MT_REQUEST_CHECKPOINT;
    if (others) requests->echo_until_s = mt_now_s() + MT_ECHO_S;
    if (*answer & MT_REQUEST_CHECKPOINT) requests->known_until_s = mt_now_s() + MT_ECHO_S;
    requests->mine = mt_signals_take() | requests->due;
    requests->due = 0;
    if ((requests->mine & MT_REQUEST_CHECKPOINT) && mt_now_s() < requests->echo_until_s) {
        requests->mine &= ~MT_REQUEST_CHECKPOINT;
        requests->echo_until_s = 0;
    }
    requests->sent = requests->mine | asked_of_idle(requests);
    MPI_Iallreduce(&requests->sent, &requests->all, 1, MPI_INT, MPI_BOR, requests->comm, &requests->request);
    return MT_OK;
}

enum mt_status mt_requests_end(struct mt_requests *requests, double patience_s, int *answer, struct mt_err *err) {
    *answer = 0;
    if (requests->request == MPI_REQUEST_NULL) return MT_OK;
    enum mt_status st = mt_agree_wait(&requests->request, patience_s, err);
    if (!st) *answer = requests->all;
    return st;
}
