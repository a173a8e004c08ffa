/* Waiting: every wait polls the abort word and a clock, and from time to time whether processes of this host live.
 *
 * A waiting rank polls, then sleeps, longer and longer, as communicators do. A process that was stopped itself does not
 * run into its deadline (mt_awake). */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/wait.h"
#include "kernels/comm/comm.h"
#include "kernels/window/internal.h"

static const double look_s = 0.1; /* between looks at processes */

static void host_name(char host[64]) {
    if (gethostname(host, 63)) strcpy(host, "an unknown host");
    host[63] = 0;
}

void mt_window_abort(struct mt_window *w, const char *reason) {
    struct mt_window_header *mine = mt_window_header(w, w->rank);
    struct mt_err ignored = MT_ERR_INIT;
    uint64_t none = 0, me = 1 + (uint64_t)w->rank;
    bool first = atomic_compare_exchange_strong(&mine->aborted, &none, me);
    w->failed = true;
    if (!first) return; /* the others know */
    snprintf(mine->reason, sizeof mine->reason, "%s", reason);
    for (int r = 0; r < w->nranks; r++) {
        none = 0;
        if (r == w->rank) continue;
        if (w->part[r])
            atomic_compare_exchange_strong(&mt_window_header(w, r)->aborted, &none, me);
        else
            mt_window_remote_signal(w->remote, offsetof(struct mt_window_header, aborted), me, MT_SIGNAL_SET, r);
    }
    /* Other hosts are told as far as they can be within a moment. */
    struct mt_awake awake = {0};
    uint64_t done;
    for (int left = w->remote != NULL; left && mt_awake_check(&awake, 1) < 0.5; mt_sleep_s(1e-4))
        if (mt_window_remote_progress(w->remote, &done, &left, &ignored)) break;
}

/* MT_EPEER if someone aborted. */
static enum mt_status look_for_abort(struct mt_window *w, struct mt_err *err) {
    uint64_t by = atomic_load_explicit(&mt_window_header(w, w->rank)->aborted, memory_order_acquire);
    if (!by) return MT_OK;
    int who = (int)by - 1;
    w->failed = true;
    return mt_fail(err, MT_EPEER, "rank %d gave up%s%s", mt_window_name(w, who), w->part[who] ? ": " : "",
                   w->part[who] ? mt_window_header(w, who)->reason : "");
}

/* MT_EPEER if a process of this host has ended without mt_window_free. */
static enum mt_status look_for_dead(struct mt_window *w, const char *what, struct mt_err *err) {
    for (int r = 0; r < w->nranks; r++) {
        if (!w->part[r] || r == w->rank) continue;
        int64_t process = atomic_load_explicit(&mt_window_header(w, r)->process, memory_order_acquire);
        if (!process || !kill((pid_t)process, 0) || errno != ESRCH) continue;
        mt_fail(err, MT_EPEER, "rank %d: the process of rank %d (%lld) has ended, while this rank waits for %s",
                mt_window_name(w, w->rank), mt_window_name(w, r), (long long)process, what);
        mt_window_abort(w, err->text);
        return MT_EPEER;
    }
    return MT_OK;
}

enum mt_status mt_window_check(struct mt_window *w, const char *what, struct mt_err *err) {
    enum mt_status st = look_for_abort(w, err);
    return st ? st : look_for_dead(w, what, err);
}

static enum mt_status stall(struct mt_window *w, const char *what, struct mt_err *err) {
    char host[64];
    host_name(host);
    mt_fail(err, MT_ESTALL, "rank %d on %s has waited for %g s for %s", mt_window_name(w, w->rank), host, w->deadline_s,
            what);
    mt_window_abort(w, err->text);
    return MT_ESTALL;
}

enum mt_status mt_window_await(struct mt_window *w, const struct mt_window_wait *wait, struct mt_err *err) {
    struct mt_awake awake = {0};
    uint64_t seen = 0, change = 0;
    double looked_s = 0;
    char what[256];
    if (w->failed) return mt_fail(err, MT_EPEER, "rank %d waits after an error", mt_window_name(w, w->rank));
    for (bool first = true;; first = false) {
        bool yes = false;
        enum mt_status st = wait->done(w, wait->of, &yes, &change, err);
        if (st) {
            w->failed = true;
            return st;
        }
        if (yes) return MT_OK;
        if ((st = look_for_abort(w, err))) return st;
        double idle_s = mt_awake_check(&awake, 1);
        if (!first && change != seen) awake.awake_s = idle_s = looked_s = 0;
        seen = change;
        if (idle_s > looked_s + look_s || idle_s > w->deadline_s) {
            wait->what(wait->of, change, what, sizeof what);
            looked_s = idle_s;
            if ((st = look_for_dead(w, what, err))) return st;
            if (idle_s > w->deadline_s) return stall(w, what, err);
        }
        double sleep_s = mt_comm_backoff_s(idle_s, mt_comm_computes());
        if (sleep_s > 0)
            mt_sleep_s(sleep_s);
        else
            sched_yield();
    }
}

/* ---- signals ---- */

struct signal_wait {
    int64_t place;
    enum mt_cmp cmp;
    uint64_t value;
    const char *what;
};

static bool compare(uint64_t have, enum mt_cmp cmp, uint64_t value) {
    switch (cmp) {
    case MT_CMP_EQ: return have == value;
    case MT_CMP_NE: return have != value;
    case MT_CMP_GT: return have > value;
    case MT_CMP_GE: return have >= value;
    case MT_CMP_LT: return have < value;
    case MT_CMP_LE: return have <= value;
    }
    return false;
}

static enum mt_status signal_done(struct mt_window *w, void *of, bool *yes, uint64_t *change, struct mt_err *err) {
    const struct signal_wait *s = of;
    enum mt_status st = mt_window_load(w, s->place, change, err);
    *yes = !st && compare(*change, s->cmp, s->value);
    return st;
}

const char *mt_cmp_sign(enum mt_cmp cmp) {
    static const char *const signs[] = {"==", "!=", ">", ">=", "<", "<="};
    return signs[cmp];
}

static void signal_what(const void *of, uint64_t change, char *text, int size) {
    const struct signal_wait *s = of;
    snprintf(text, (size_t)size, "%s (signal %lld is %llu, not %s %llu)", s->what,
             (long long)(s->place - MT_WINDOW_HEADER_BYTES), (unsigned long long)change, mt_cmp_sign(s->cmp),
             (unsigned long long)s->value);
}

enum mt_status mt_window_wait(struct mt_window *w, int64_t signal, enum mt_cmp cmp, uint64_t value, const char *what,
                              struct mt_err *err) {
    struct signal_wait s = {MT_WINDOW_HEADER_BYTES + signal, cmp, value, what};
    return mt_window_await(w, &(struct mt_window_wait){signal_done, signal_what, &s}, err);
}

enum mt_status mt_window_test(struct mt_window *w, int64_t signal, enum mt_cmp cmp, uint64_t value, bool *yes,
                              struct mt_err *err) {
    struct signal_wait s = {MT_WINDOW_HEADER_BYTES + signal, cmp, value, ""};
    uint64_t change;
    *yes = false;
    if (w->failed) return mt_fail(err, MT_EPEER, "rank %d tests a signal after an error", mt_window_name(w, w->rank));
    enum mt_status st = signal_done(w, &s, yes, &change, err);
    if (st) w->failed = true;
    return st || *yes ? st : look_for_abort(w, err);
}

/* ---- barrier: dissemination (Hensgen, Finkel and Manber, 1988), log2 n rounds ---- */

struct barrier_wait {
    struct signal_wait signal;
    int from; /* its name */
};

static void barrier_what(const void *of, uint64_t change, char *text, int size) {
    (void)change;
    snprintf(text, (size_t)size, "rank %d at a barrier", ((const struct barrier_wait *)of)->from);
}

enum mt_status mt_window_barrier(struct mt_window *w, struct mt_err *err) {
    enum mt_status st = mt_window_quiet(w, err);
    w->barriers++;
    for (int round = 0, step = 1; step < w->nranks && !st; round++, step *= 2) {
        int64_t place = (int64_t)(offsetof(struct mt_window_header, barrier) + 8 * (size_t)round);
        struct barrier_wait b = {{place, MT_CMP_GE, w->barriers, ""},
                                 mt_window_name(w, (w->rank - step + w->nranks) % w->nranks)};
        st = mt_window_signal_at(w, place, 1, MT_SIGNAL_ADD, (w->rank + step) % w->nranks, err);
        if (!st) st = mt_window_await(w, &(struct mt_window_wait){signal_done, barrier_what, &b}, err);
    }
    return st ? st : mt_window_quiet(w, err);
}
