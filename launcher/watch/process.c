/* This process as the watch's thread sees it: where it is, whether it has failed or is leaving, and how it ends. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "kernels/base/arena.h"
#include "launcher/watch/internal.h"
#include "launcher/watch/signals.h"

/* Progress deadlines are longer than those of collectives and streams, whose errors say more. */
#define QUICK_PATIENCE_S(deadline_s) (1.5 * (deadline_s) + 4)
#define SLOW_PATIENCE_S(deadline_s) (10 * (deadline_s))

void mt_watch_describe(struct watch *w, struct watch_message *message) {
    struct mt_watch_progress progress = {.text = ""};
    *message = (struct watch_message){.token = w->token, .world_rank = w->launch.rank, .pid = (int32_t)getpid()};
    pthread_mutex_lock(&w->lock);
    if (w->query) w->query(w->query_context, &progress);
    message->rank = w->rank;
    message->waits = progress.waits;
    message->progress = progress.progress + atomic_load_explicit(&w->progress, memory_order_relaxed);
    message->patience_s = w->pace == MT_WATCH_IDLE   ? INFINITY
                          : w->pace == MT_WATCH_SLOW ? SLOW_PATIENCE_S(w->options.deadline_s)
                                                     : QUICK_PATIENCE_S(w->options.deadline_s);
    snprintf(message->at, sizeof message->at, "%s%s%s", w->phase, progress.text[0] ? ", " : "", progress.text);
    pthread_mutex_unlock(&w->lock);
    memcpy(message->host, w->host, sizeof message->host);
}

double mt_watch_beat_s(const struct watch *w) {
    double beat_s = 0.01 * w->launch.nranks;
    return beat_s < WATCH_POLL_S ? WATCH_POLL_S : beat_s > 1 ? 1 : beat_s;
}

/* The epoll set of these files. It is kept while they are the same: rank 0 of a large job has many. (One that was
 * closed, and whose number came back, is missing until the next change: then the poll after the timeout finds it.) */
static int waiting_for(struct watch *w, const struct pollfd *fds, int count) {
    size_t size = (size_t)count * sizeof *fds;
    if (w->waited && w->nwaited == count && !memcmp(w->waited, fds, size)) return w->waiting;
    if (w->waited && w->waiting >= 0) close(w->waiting);
    w->waiting = epoll_create1(EPOLL_CLOEXEC);
    w->waited = mt_realloc(w->waited, size);
    w->nwaited = count;
    memcpy(w->waited, fds, size);
    for (int i = 0; i < count && w->waiting >= 0; i++) {
        struct epoll_event event = {.events = (fds[i].events & POLLIN ? EPOLLIN : 0U) |
                                              (fds[i].events & POLLOUT ? EPOLLOUT : 0U)};
        if (fds[i].fd < 0 || !epoll_ctl(w->waiting, EPOLL_CTL_ADD, fds[i].fd, &event)) continue;
        close(w->waiting);
        w->waiting = -1;
    }
    return w->waiting;
}

/* Wait as poll does; true if this process was stopped meanwhile, for however short a time. poll itself goes on after a
 * stop as if nothing had been; epoll_wait ends with EINTR (signal(7), "Interruption of system calls by stop signals"),
 * and as this thread takes no signals, with nothing else. */
static bool await(struct watch *w, struct pollfd *fds, int count, double timeout_s) {
    struct epoll_event event;
    int set = waiting_for(w, fds, count), timeout_ms = (int)(1000 * timeout_s);
    bool stopped = set >= 0 && epoll_wait(set, &event, 1, timeout_ms) < 0 && errno == EINTR;
    poll(fds, (nfds_t)count, set >= 0 ? 0 : timeout_ms);
    return stopped;
}

/* A SIGCONT from the launcher, to a process that runs, begins the job's end (signals.h). One that was stopped has just
 * noticed it as it waited, or has a gap between its polls. */
static void heed_launcher(struct watch *w, bool stopped, double before_s) {
    double now_s = mt_now_s();
    if (stopped || now_s - before_s > WATCH_GAP_S) w->gap_s = now_s;
    int by = mt_signals_continued_by();
    if (by && by == w->parent && now_s - w->gap_s > WATCH_AFTER_GAP_S) mt_signals_stop();
}

double mt_watch_poll(struct watch *w, struct pollfd *fds, int count, double timeout_s) {
    char bytes[64];
    fds[0] = (struct pollfd){.fd = w->wake[0], .events = POLLIN};
    bool stopped = await(w, fds, count, timeout_s);
    if (fds[0].revents & POLLIN)
        while (read(w->wake[0], bytes, sizeof bytes) > 0) continue;
    heed_launcher(w, stopped, w->awake.seen_s);
    double awake_s = mt_awake_check(&w->awake, WATCH_GAP_S);
    if (w->parent && getppid() != w->parent) mt_watch_die(w, mt_exit_code(MT_EPEER), "the launcher has ended");
    return awake_s;
}

/* One write per message, so that lines of several ranks do not mix. */
void mt_watch_print(const struct watch *w, const char *text) {
    char whole[WATCH_TEXT + 600];
    snprintf(whole, sizeof whole, "%smotley: %s\n", isatty(STDERR_FILENO) ? "\n" : "", text);
    if (w->options.hint) mt_watch_append(whole, sizeof whole, "  hint: %.500s\n", w->options.hint);
    if (write(STDERR_FILENO, whole, strlen(whole)) < 0) return;
}

/* A process that was killed has mpirun end the others. It is left to do so: mpirun of Open MPI 4.1 may hang, or crash,
 * in its own end if they exit in the same instant (its PMIx server still has their connections to close). */
static void await_launcher(const struct watch *w, int code) {
    if (code == mt_exit_code(MT_EPEER) && w->parent && getppid() == w->parent) mt_sleep_s(WATCH_LAUNCHER_S);
}

void mt_watch_die(const struct watch *w, int code, const char *text) {
    signal(SIGALRM, SIG_DFL);
    alarm(3); /* the output's reader may be stopped too; the main thread takes the signal */
    if (text) mt_watch_print(w, text);
    if (!ftrylockfile(stdout)) fflush_unlocked(stdout);
    await_launcher(w, code);
    _exit(code);
}

int mt_watch_failure(struct watch *w, char *text, size_t size) {
    int code = 0;
    pthread_mutex_lock(&w->lock);
    if (w->failing) {
        code = mt_exit_code(w->err.status);
        snprintf(text, size, "rank %d on %s: %s", w->rank, w->host, w->err.text);
        if (w->err.hint[0]) mt_watch_append(text, size, "\n  hint: %s", w->err.hint);
    }
    pthread_mutex_unlock(&w->lock);
    return code;
}

bool mt_watch_has_news(struct watch *w) {
    return atomic_exchange(&w->news, false);
}

bool mt_watch_is_leaving(struct watch *w) {
    pthread_mutex_lock(&w->lock);
    bool leaving = w->leaving;
    pthread_mutex_unlock(&w->lock);
    return leaving;
}

bool mt_watch_leaves_with_error(struct watch *w) {
    pthread_mutex_lock(&w->lock);
    bool badly = w->leaving && !w->well;
    pthread_mutex_unlock(&w->lock);
    return badly;
}

void mt_watch_set_left(struct watch *w) {
    pthread_mutex_lock(&w->lock);
    w->left = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}
