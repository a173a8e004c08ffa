/* The watch as its callers see it: starting its thread, telling it phases and failures, ending it. */
#include "launcher/watch/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kernels/base/log.h"
#include "launcher/watch/internal.h"

static struct watch *the_watch; /* one per process; never freed, since the thread runs until the process exits */

static void *run(void *argument) {
    struct watch *w = argument;
    mt_awake_check(&w->awake, WATCH_GAP_S);
    if (w->launch.rank)
        mt_watch_run_agent(w);
    else
        mt_watch_run_coordinator(w);
    return NULL;
}

/* ---- the start ---- */

static void allow_files(int64_t count) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= (rlim_t)count) return;
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY || limit.rlim_max > (rlim_t)count ? (rlim_t)count : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static enum mt_status open_listener(struct watch *w, struct mt_err *err) {
    char line[MT_LAUNCH_LINE];
    w->listening = -1;
    if (w->launch.rank || w->launch.nranks == 1) return MT_OK;
    allow_files(4 * (int64_t)w->launch.nranks + 512);
    enum mt_status st = mt_watch_listen(&w->listening, &w->token, line, sizeof line, err);
    if (st) return st;
    if (!mt_launch_publish(&w->launch, line))
        return mt_fail(err, MT_ESYSTEM, "the launcher does not publish where rank 0 listens for heartbeats");
    return MT_OK;
}

static enum mt_status start_thread(struct watch *w, struct mt_err *err) {
    pthread_t thread;
    sigset_t all, old; /* signals go to the main thread */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    errno = pthread_create(&thread, NULL, run, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (errno) return mt_fail_errno(err, "cannot start the thread of the watch");
    pthread_setname_np(thread, "watch");
    pthread_detach(thread);
    return MT_OK;
}

static double began_s; /* for the log */

enum mt_status mt_watch_begin(const struct mt_watch_options *options, struct mt_err *err) {
    began_s = mt_now_s();
    if (!(options->heartbeat_s > 0)) return MT_OK;
    struct watch *w = calloc(1, sizeof *w);
    enum mt_status st;
    if (!w) return mt_fail(err, MT_ESYSTEM, "no memory for the watch");
    w->options = *options;
    pthread_mutex_init(&w->lock, NULL);
    mt_cond_init(&w->changed);
    mt_launch_open(&w->launch);
    w->rank = w->launch.rank;
    w->parent = w->launch.launched ? getppid() : 0;
    w->pace = MT_WATCH_SLOW;
    snprintf(w->phase, sizeof w->phase, "the start");
    if (gethostname(w->host, sizeof w->host - 1)) strcpy(w->host, "unknown host");
    if (pipe2(w->wake, O_NONBLOCK | O_CLOEXEC)) {
        st = mt_fail_errno(err, "cannot make a pipe");
    } else {
        st = open_listener(w, err);
        if (!st) st = start_thread(w, err);
    }
    the_watch = w; /* after a failure too: mt_watch_end leaves the job */
    if (st) w->left = true;
    return st;
}

/* ---- phases and failures ---- */

static void wake(struct watch *w) {
    atomic_store(&w->news, true);
    if (write(w->wake[1], "", 1) < 0) return; /* the pipe is full, so the thread wakes anyway */
}

void mt_watch_phase(enum mt_watch_pace pace, const char *format, ...) {
    struct watch *w = the_watch;
    if (!w) return;
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&w->lock);
    vsnprintf(w->phase, sizeof w->phase, format, args);
    bool news = pace != MT_WATCH_QUICK || w->pace != pace;
    w->pace = pace;
    if (pace == MT_WATCH_SLOW) mt_log(MT_LOG_DEBUG, "after %.3f s: %s", mt_now_s() - began_s, w->phase);
    pthread_mutex_unlock(&w->lock);
    va_end(args);
    mt_watch_progress();
    if (news) wake(w);
}

void mt_watch_progress(void) {
    if (the_watch) atomic_fetch_add_explicit(&the_watch->progress, 1, memory_order_relaxed);
}

void mt_watch_expect(int rank, int nranks) {
    if (!the_watch || rank || the_watch->launch.nranks == nranks) return;
    mt_log(MT_LOG_WARN,
           "no heartbeats: the launcher reports %d rank%s by PMIx, but MPI has %d; only --deadline guards this "
           "job: start it with mpirun, or srun --mpi=pmix",
           the_watch->launch.nranks, the_watch->launch.nranks == 1 ? "" : "s", nranks);
}

void mt_watch_rank(int rank) {
    if (!the_watch) return;
    pthread_mutex_lock(&the_watch->lock);
    the_watch->rank = rank;
    pthread_mutex_unlock(&the_watch->lock);
}

void mt_watch_observe(mt_watch_query *query, void *context) {
    struct watch *w = the_watch;
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->query = query;
    w->query_context = context;
    pthread_mutex_unlock(&w->lock);
    mt_watch_progress();
}

/* Wake the thread and wait until it has left, at most most_s of this process's awake time; returns whether it has. */
static bool wait_for_thread(struct watch *w, double most_s) {
    struct mt_awake awake = {0};
    wake(w);
    while (!w->left && mt_awake_check(&awake, WATCH_GAP_S) < most_s)
        mt_cond_wait_until(&w->changed, &w->lock, mt_now_s() + WATCH_POLL_S);
    return w->left;
}

void mt_watch_fail(const struct mt_err *err) {
    struct watch *w = the_watch;
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->failing = true;
    w->err = *err;
    if (!w->left) wait_for_thread(w, 10); /* it ends the process */
    pthread_mutex_unlock(&w->lock);
}

void mt_watch_end(bool well) {
    struct watch *w = the_watch;
    if (!w) return;
    mt_watch_observe(NULL, NULL);
    if (!w->launch.rank) mt_launch_close(&w->launch);
    pthread_mutex_lock(&w->lock);
    w->leaving = true;
    w->well = well;
    if (!w->left) wait_for_thread(w, INFINITY);
    pthread_mutex_unlock(&w->lock);
    if (w->launch.rank) mt_launch_close(&w->launch);
}
