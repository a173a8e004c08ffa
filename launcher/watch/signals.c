/* Flags that the handlers set. */
#include "launcher/watch/signals.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

static volatile sig_atomic_t asked_checkpoint, asked_stop, continued_by;

static void on_checkpoint(int number) {
    (void)number;
    asked_checkpoint = 1;
}

static void on_stop(int number) {
    (void)number;
    asked_stop = 1;
}

static void on_continue(int number, siginfo_t *about, void *context) {
    (void)number, (void)context;
    if (about->si_code <= 0) continued_by = about->si_pid; /* not the kernel, as for a terminal */
}

static const struct {
    int number;
    void (*handler)(int);
    bool once; /* the second signal does what it does by default */
} handlers[] = {
    {SIGUSR1, on_checkpoint, false}, {SIGUSR2, on_stop, false}, {SIGTERM, on_stop, false}, {SIGINT, on_stop, true}};
enum { NHANDLERS = sizeof handlers / sizeof *handlers };

static struct sigaction before[NHANDLERS], before_continue;

void mt_signals_install(void) {
    for (int h = 0; h < NHANDLERS; h++) {
        struct sigaction action = {.sa_handler = handlers[h].handler, .sa_flags = SA_RESTART};
        if (handlers[h].once) action.sa_flags |= (int)SA_RESETHAND;
        sigemptyset(&action.sa_mask);
        sigaction(handlers[h].number, &action, &before[h]);
    }
    struct sigaction action = {.sa_sigaction = on_continue, .sa_flags = SA_RESTART | SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGCONT, &action, &before_continue);
}

void mt_signals_restore(void) {
    for (int h = 0; h < NHANDLERS; h++) {
        if (handlers[h].number == SIGUSR1 || handlers[h].number == SIGUSR2) before[h].sa_handler = SIG_IGN;
        sigaction(handlers[h].number, &before[h], NULL);
    }
    sigaction(SIGCONT, &before_continue, NULL);
}

int mt_signals_take(void) {
    int asked = (asked_checkpoint ? MT_REQUEST_CHECKPOINT : 0) | (asked_stop ? MT_REQUEST_STOP : 0);
    if (asked & MT_REQUEST_CHECKPOINT) asked_checkpoint = 0;
    if (asked & MT_REQUEST_STOP) asked_stop = 0;
    return asked;
}

int mt_signals_continued_by(void) {
    int pid = continued_by;
    continued_by = 0;
    return pid;
}

void mt_signals_stop(void) {
    asked_stop = 1;
}

bool mt_signals_stopping(void) {
    return asked_stop;
}
