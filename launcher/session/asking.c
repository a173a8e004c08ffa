/* What processes were asked by signals, reduced over ranks. */
#include "launcher/session/asking.h"

#include "kernels/base/wait.h"
#include "launcher/session/agree.h"
#include "launcher/session/asking.h"
#include "launcher/watch/signals.h"

void mt_asking_init(struct mt_asking *asking, MPI_Comm comm) {
    *asking = (struct mt_asking){.comm = comm, .request = MPI_REQUEST_NULL};
}

enum mt_status mt_asking_step(struct mt_asking *asking, double patience_s, int *answer, struct mt_err *err) {
    enum mt_status st = mt_asking_end(asking, patience_s, answer, err);
    if (st) return st;
    bool others = (*answer & ~asking->mine) & MT_ASK_CHECKPOINT;
    if (others) asking->echo_until_s = mt_now_s() + MT_ECHO_S;
    asking->mine = mt_signals_take();
    if ((asking->mine & MT_ASK_CHECKPOINT) && mt_now_s() < asking->echo_until_s) {
        asking->mine &= ~MT_ASK_CHECKPOINT;
        asking->echo_until_s = 0;
    }
    MPI_Iallreduce(&asking->mine, &asking->all, 1, MPI_INT, MPI_BOR, asking->comm, &asking->request);
    return MT_OK;
}

enum mt_status mt_asking_end(struct mt_asking *asking, double patience_s, int *answer, struct mt_err *err) {
    *answer = 0;
    if (asking->request == MPI_REQUEST_NULL) return MT_OK;
    enum mt_status st = mt_agree_wait(&asking->request, patience_s, err);
    if (!st) *answer = asking->all;
    return st;
}
