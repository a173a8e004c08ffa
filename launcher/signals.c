/* Flags set by handlers, and their reduction over ranks. */
#include "launcher/signals.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "kernels/base/wait.h"
#include "launcher/agree.h"

static volatile sig_atomic_t asked_checkpoint, asked_stop;

static void on_checkpoint(int number) {
    (void)number;
    asked_checkpoint = 1;
}

static void on_stop(int number) {
    (void)number;
    asked_stop = 1;
}

static const struct {
    int number;
    void (*handler)(int);
} handlers[] = {{SIGUSR1, on_checkpoint}, {SIGUSR2, on_stop}, {SIGTERM, on_stop}};
enum { NHANDLERS = sizeof handlers / sizeof *handlers };

static struct sigaction before[NHANDLERS];

void mt_signals_install(void) {
    for (int h = 0; h < NHANDLERS; h++) {
        struct sigaction action = {.sa_handler = handlers[h].handler, .sa_flags = SA_RESTART};
        sigemptyset(&action.sa_mask);
        sigaction(handlers[h].number, &action, &before[h]);
    }
}

void mt_signals_restore(void) {
    for (int h = 0; h < NHANDLERS; h++) sigaction(handlers[h].number, &before[h], NULL);
}

int mt_signals_take(void) {
    int asked = (asked_checkpoint ? MT_ASK_CHECKPOINT : 0) | (asked_stop ? MT_ASK_STOP : 0);
    if (asked & MT_ASK_CHECKPOINT) asked_checkpoint = 0;
    if (asked & MT_ASK_STOP) asked_stop = 0;
    return asked;
}

bool mt_signals_stopping(void) {
    return asked_stop;
}

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
