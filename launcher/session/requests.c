/* Signals that processes have received, reduced over ranks. */
#include "launcher/session/requests.h"

#include "kernels/base/wait.h"
#include "launcher/session/agree.h"
#include "launcher/watch/signals.h"

void mt_requests_init(struct mt_requests *requests, MPI_Comm comm) {
    *requests = (struct mt_requests){.comm = comm, .request = MPI_REQUEST_NULL};
}

enum mt_status mt_requests_step(struct mt_requests *requests, double patience_s, int *answer, struct mt_err *err) {
    enum mt_status st = mt_requests_end(requests, patience_s, answer, err);
    if (st) return st;
    bool others = (*answer & ~requests->mine) & MT_REQUEST_CHECKPOINT;
    if (others) requests->echo_until_s = mt_now_s() + MT_ECHO_S;
    requests->mine = mt_signals_take();
    if ((requests->mine & MT_REQUEST_CHECKPOINT) && mt_now_s() < requests->echo_until_s) {
        requests->mine &= ~MT_REQUEST_CHECKPOINT;
        requests->echo_until_s = 0;
    }
    MPI_Iallreduce(&requests->mine, &requests->all, 1, MPI_INT, MPI_BOR, requests->comm, &requests->request);
    return MT_OK;
}

enum mt_status mt_requests_end(struct mt_requests *requests, double patience_s, int *answer, struct mt_err *err) {
    *answer = 0;
    if (requests->request == MPI_REQUEST_NULL) return MT_OK;
    enum mt_status st = mt_agree_wait(&requests->request, patience_s, err);
    if (!st) *answer = requests->all;
    return st;
}
