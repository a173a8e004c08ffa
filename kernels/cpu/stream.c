/* Streams and events on the CPU: a stream is a thread that takes work from a queue, in order.
 *
 * After an error a stream skips its work until mt_stream_sync has reported the error. An event that it records passes
 * the error to the streams that wait for it, so that no stream computes with missing data, and the first stream that is
 * synchronised reports the error. */
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "kernels/cpu/internal.h"

enum item_kind { ITEM_OP, ITEM_COLL, ITEM_OVERLAP, ITEM_COPY, ITEM_WINDOW, ITEM_RECORD, ITEM_WAIT };
struct item {
    enum item_kind kind;
    const struct mt_backend *backend;
    /* struct mt_call, mt_coll_call or mt_overlap_call, of which only the last is written to; or mt_window_work, the
     * item's own */
    void *call;
    struct event *event;
    uint64_t ticket; /* number of the event's record */
    double *seconds;
    void *to; /* a copy's */
    const void *from;
    size_t size_bytes;
};

struct stream {
    struct mt_stream base;
    const struct mt_cpu_device *cpu;
    char name[16];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    struct item *queue; /* a ring */
    size_t first, count, capacity;
    uint64_t submitted, completed;
    struct item current;
    bool busy;
    atomic_bool stop;
    struct mt_err err;       /* the first error, until it has been reported */
    atomic_bool computes;    /* has been given operators */
    struct mt_cpu_debt debt; /* the thread's own */
};

struct event {
    struct mt_event base;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t recorded, done; /* tickets */
    struct stream *stream;   /* of the last record that was queued */
    struct mt_err err;       /* of the stream of the last record that was done */
};

static void do_record(struct event *event, uint64_t ticket, const struct mt_err *err) {
    pthread_mutex_lock(&event->lock);
    if (ticket > event->done) {
        event->done = ticket;
        event->err = *err;
    }
    pthread_cond_broadcast(&event->changed);
    pthread_mutex_unlock(&event->lock);
}

/* Emulation (mt_cpu_debt): a stream sleeps once it owes most_owed_s, not after every operator; and before work that
 * other streams wait for if it owes least_paid_s. */
static const double most_owed_s = 0.5e-3, least_paid_s = 20e-6;

/* The clock of the work that is stretched. One thread: its CPU time, without what other processes took from it. A team:
 * wall time, since its threads wait for each other and the two cannot be separated. */
static double worked_s(const struct mt_cpu_device *cpu) {
    return cpu->base.threads > 1 ? cpu->clock->now_s() : cpu->clock->worked_s();
}

/* Time spent on waiting and waking up belongs to no operator. */
static void has_waited(struct stream *stream) {
    if (stream->cpu->speed < 1) stream->debt.worked_s = worked_s(stream->cpu);
}

/* Wait until the record has been made, or the stream is to stop. */
static enum mt_status do_wait(struct stream *stream, struct event *event, uint64_t ticket, struct mt_err *err) {
    pthread_mutex_lock(&event->lock);
    bool waits = event->done < ticket;
    if (waits) stream->debt.owed_s = 0;                         /* a stream that waits owes nothing */
    while (event->done < ticket && !atomic_load(&stream->stop)) /* wake up regularly to check `stop` */
        mt_cond_wait_until(&event->changed, &event->lock, mt_now_s() + 0.1);
    if (event->err.status) *err = event->err;
    pthread_mutex_unlock(&event->lock);
    if (waits) has_waited(stream);
    return err->status;
}

static const char *item_name(const struct item *item) {
    const struct mt_call *call = item->call;
    switch (item->kind) {
    case ITEM_OP: return call->what ? call->what : mt_op_info[call->kind].name;
    case ITEM_COLL: return ((const struct mt_coll_call *)item->call)->what;
    case ITEM_OVERLAP: return ((const struct mt_overlap_call *)item->call)->operands.what;
    case ITEM_COPY: return "a copy";
    case ITEM_WINDOW: return ((const struct mt_window_work *)item->call)->what;
    case ITEM_RECORD: return "the record of an event";
    case ITEM_WAIT: break;
    }
    return "the wait for an event";
}

/* Whether emulation stretches an item: an operator, or a copy (a collective call without schedule) between operators.
 */
static bool is_stretched(const struct stream *stream, const struct item *item) {
    if (stream->cpu->speed == 1 || item->kind == ITEM_OVERLAP) return false;
    return item->kind == ITEM_OP ||
           (atomic_load(&stream->computes) && !((const struct mt_coll_call *)item->call)->schedule);
}

static void do_work(struct stream *stream, const struct item *item, struct mt_err *err) {
    struct mt_cpu_debt *debt = &stream->debt;
    bool stretched = is_stretched(stream, item);
    if (!stretched) mt_cpu_debt_pay(debt, least_paid_s, &stream->stop); /* other ranks wait for it */
    if (item->seconds) item->seconds[0] = mt_cpu_debt_now_s(debt);
    double start_s = stream->cpu->base.threads > 1 ? worked_s(stream->cpu) : debt->worked_s; /* reading is slow: once */
    if (item->kind == ITEM_OP) mt_comm_computing(true);
    enum mt_status st = item->kind == ITEM_OP     ? item->backend->run(item->call, err)
                        : item->kind == ITEM_COLL ? mt_cpu_coll(item->call, err)
                                                  : mt_overlap_call_run(item->call, err);
    if (item->kind == ITEM_OP) mt_comm_computing(false);
    if (stream->cpu->speed < 1) debt->worked_s = worked_s(stream->cpu);
    if (stretched) mt_cpu_debt_add(debt, debt->worked_s - start_s, stream->cpu->speed);
    if (item->kind == ITEM_OVERLAP && stream->cpu->speed < 1) /* its tiles, after all of them */
        mt_cpu_debt_add(debt, ((const struct mt_overlap_call *)item->call)->operands.computed_s, stream->cpu->speed);
    if (item->seconds) item->seconds[1] = mt_cpu_debt_now_s(debt);
    mt_cpu_debt_pay(debt, most_owed_s, &stream->stop);
    if (st) mt_err_context(err, "%s", item_name(item));
}

static void do_window(struct stream *stream, const struct item *item, struct mt_err *err) {
    const struct mt_window_work *work = item->call;
    if (mt_cpu_window(work, err) && work->kind != MT_WINDOW_WAIT) mt_err_context(err, "%s", work->what);
    has_waited(stream);
}

static void do_item(struct stream *stream, const struct item *item, struct mt_err *err) {
    if (item->kind == ITEM_RECORD || item->kind == ITEM_WAIT || item->kind == ITEM_WINDOW)
        mt_cpu_debt_pay(&stream->debt, least_paid_s, &stream->stop);
    if (item->kind == ITEM_RECORD)
        do_record(item->event, item->ticket, err);
    else if (err->status || atomic_load(&stream->stop))
        return;
    else if (item->kind == ITEM_WAIT)
        do_wait(stream, item->event, item->ticket, err);
    else if (item->kind == ITEM_COPY)
        memcpy(item->to, item->from, item->size_bytes);
    else if (item->kind == ITEM_WINDOW)
        do_window(stream, item, err);
    else
        do_work(stream, item, err);
}

/* Flush subnormal numbers to zero in this thread and in the team that it starts: arithmetic with them is many times
 * slower, and gradients of confident predictions are full of them. */
static void flush_denormals(void) {
#if defined __SSE2__
    enum { FLUSH_TO_ZERO = 1 << 15, DENORMALS_ARE_ZERO = 1 << 6 };
    _mm_setcsr(_mm_getcsr() | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
#elif defined __aarch64__ && defined __GNUC__
    enum { FLUSH_TO_ZERO = 1 << 24 };
    __builtin_aarch64_set_fpcr(__builtin_aarch64_get_fpcr() | FLUSH_TO_ZERO);
#endif
}

static void *run(void *argument) {
    struct stream *stream = argument;
    struct mt_err err = MT_ERR_INIT;
    flush_denormals();
    omp_set_num_threads(stream->cpu->base.threads);
    has_waited(stream);
    prctl(PR_SET_TIMERSLACK, 1000UL); /* ns: communicators sleep for short times */
    pthread_mutex_lock(&stream->lock);
    for (;;) {
        if (!stream->count) {
            stream->debt.owed_s = fmax(stream->debt.owed_s, 0);
            while (!stream->count && !atomic_load(&stream->stop)) pthread_cond_wait(&stream->work, &stream->lock);
            has_waited(stream);
        }
        if (!stream->count) break;
        stream->current = stream->queue[stream->first];
        stream->first = (stream->first + 1) % stream->capacity;
        stream->count--;
        stream->busy = true;
        bool failed = stream->err.status; /* read now: mt_stream_sync may have reported it by the end of the item */
        err.status = stream->err.status;
        if (failed) err = stream->err;
        pthread_mutex_unlock(&stream->lock);
        do_item(stream, &stream->current, &err);
        pthread_mutex_lock(&stream->lock);
        if (!stream->count && stream->debt.owed_s > 0) { /* so that a sync ends at the emulated time */
            pthread_mutex_unlock(&stream->lock);
            mt_cpu_debt_pay(&stream->debt, least_paid_s, &stream->stop);
            pthread_mutex_lock(&stream->lock);
        }
        if (err.status && !failed) stream->err = err;
        stream->busy = false;
        if (stream->current.kind == ITEM_WINDOW) free(stream->current.call);
        stream->completed++;
        if (!stream->count) pthread_cond_broadcast(&stream->done);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

enum mt_status mt_cpu_stream_new(struct mt_device *device, const char *name, struct mt_stream **stream,
                                 struct mt_err *err) {
    struct stream *s = mt_calloc(1, sizeof *s);
    s->base.device = device;
    s->cpu = (const struct mt_cpu_device *)device;
    s->debt.clock = s->cpu->clock;
    snprintf(s->name, sizeof s->name, "%s", name);
    pthread_mutex_init(&s->lock, NULL);
    mt_cond_init(&s->work);
    mt_cond_init(&s->done);
    /* The main thread handles signals. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int failed = pthread_create(&s->thread, NULL, run, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed) {
        free(s);
        errno = failed;
        return mt_fail_errno(err, "cannot start the thread of stream \"%s\"", name);
    }
    pthread_setname_np(s->thread, s->name);
    *stream = &s->base;
    return MT_OK;
}

void mt_cpu_stream_free(struct mt_stream *base) {
    struct stream *stream = (struct stream *)base;
    pthread_mutex_lock(&stream->lock);
    atomic_store(&stream->stop, true);
    pthread_cond_signal(&stream->work);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
    pthread_mutex_destroy(&stream->lock);
    pthread_cond_destroy(&stream->work);
    pthread_cond_destroy(&stream->done);
    free(stream->queue);
    free(stream);
}

static void submit(struct stream *stream, struct item item) {
    pthread_mutex_lock(&stream->lock);
    if (stream->count == stream->capacity) {
        size_t capacity = stream->capacity ? 2 * stream->capacity : 256;
        struct item *queue = mt_malloc(capacity * sizeof *queue);
        for (size_t i = 0; i < stream->count; i++) queue[i] = stream->queue[(stream->first + i) % stream->capacity];
        free(stream->queue);
        stream->queue = queue, stream->first = 0, stream->capacity = capacity;
    }
    stream->queue[(stream->first + stream->count++) % stream->capacity] = item;
    stream->submitted++;
    if (item.kind == ITEM_OP) atomic_store(&stream->computes, true);
    pthread_cond_signal(&stream->work);
    pthread_mutex_unlock(&stream->lock);
}

void mt_cpu_stream_op(struct mt_stream *stream, const struct mt_backend *backend, const struct mt_call *call,
                      double *seconds) {
    submit((struct stream *)stream,
           (struct item){ITEM_OP, .backend = backend, .call = (void *)(uintptr_t)call, .seconds = seconds});
}

void mt_cpu_stream_coll(struct mt_stream *stream, const struct mt_coll_call *call, double *seconds) {
    submit((struct stream *)stream, (struct item){ITEM_COLL, .call = (void *)(uintptr_t)call, .seconds = seconds});
}

void mt_cpu_stream_overlap(struct mt_stream *stream, struct mt_overlap_call *call, double *seconds) {
    submit((struct stream *)stream, (struct item){ITEM_OVERLAP, .call = call, .seconds = seconds});
}

void mt_cpu_stream_copy(struct mt_stream *stream, enum mt_copy direction, void *to, const void *from,
                        int64_t size_bytes) {
    (void)direction;
    if (size_bytes)
        submit((struct stream *)stream,
               (struct item){ITEM_COPY, .to = to, .from = from, .size_bytes = (size_t)size_bytes});
}

void mt_cpu_stream_window(struct mt_stream *stream, const struct mt_window_work *work) {
    struct mt_window_work *own = mt_malloc(sizeof *own);
    *own = *work;
    submit((struct stream *)stream, (struct item){ITEM_WINDOW, .call = own});
}

void mt_cpu_event_record(struct mt_event *base, struct mt_stream *stream) {
    struct event *event = (struct event *)base;
    pthread_mutex_lock(&event->lock);
    uint64_t ticket = ++event->recorded;
    event->stream = (struct stream *)stream;
    pthread_mutex_unlock(&event->lock);
    submit((struct stream *)stream, (struct item){ITEM_RECORD, .event = event, .ticket = ticket});
}

void mt_cpu_stream_wait(struct mt_stream *stream, struct mt_event *base) {
    struct event *event = (struct event *)base;
    pthread_mutex_lock(&event->lock);
    uint64_t ticket = event->recorded;
    pthread_mutex_unlock(&event->lock);
    submit((struct stream *)stream, (struct item){ITEM_WAIT, .event = event, .ticket = ticket});
}

struct mt_stream_progress mt_cpu_stream_query(struct mt_stream *base) {
    struct stream *stream = (struct stream *)base;
    struct mt_stream_progress progress = {0};
    pthread_mutex_lock(&stream->lock);
    enum item_kind kind = stream->current.kind;
    progress.completed = stream->completed;
    if (stream->busy && (kind == ITEM_OP || kind == ITEM_COLL || kind == ITEM_OVERLAP || kind == ITEM_WINDOW))
        progress.what = item_name(&stream->current);
    if (progress.what && kind == ITEM_COLL)
        progress.collective = ((const struct mt_coll_call *)stream->current.call)->schedule;
    if (progress.what && kind == ITEM_OVERLAP) progress.collective = true;
    if (progress.what && kind == ITEM_WINDOW)
        progress.collective = ((const struct mt_window_work *)stream->current.call)->kind == MT_WINDOW_WAIT;
    pthread_mutex_unlock(&stream->lock);
    return progress;
}

/* The lock is held. */
static enum mt_status fail_stalled(struct stream *stream, double deadline_s, struct mt_err *err) {
    return mt_fail(err, MT_ESTALL, "stream \"%s\" has made no progress for %g s, in %s", stream->name, deadline_s,
                   stream->busy ? item_name(&stream->current) : "nothing");
}

/* Report and clear the stream's error. The lock is held. */
static enum mt_status report(struct stream *stream, struct mt_err *err) {
    if (!stream->err.status) return MT_OK;
    *err = stream->err;
    stream->err = (struct mt_err)MT_ERR_INIT;
    return err->status;
}

/* The time without progress: since the last change of the number of completed items. */
struct stall {
    struct mt_awake awake;
    uint64_t completed;
};
static double stalled_s(struct stall *stall, uint64_t completed) {
    double s = mt_awake_check(&stall->awake, 1);
    if (completed == stall->completed) return s;
    stall->completed = completed;
    return stall->awake.awake_s = 0;
}

static double wake_s(double left_s) {
    return mt_now_s() + (left_s < 0.5 ? left_s : 0.5);
}

enum mt_status mt_cpu_stream_sync(struct mt_stream *base, double deadline_s, struct mt_err *err) {
    struct stream *stream = (struct stream *)base;
    enum mt_status st = MT_OK;
    pthread_mutex_lock(&stream->lock);
    struct stall stall = {.completed = stream->completed};
    for (double s = stalled_s(&stall, stall.completed); stream->completed < stream->submitted && !st;) {
        mt_cond_wait_until(&stream->done, &stream->lock, wake_s(deadline_s - s));
        s = stalled_s(&stall, stream->completed);
        if (s >= deadline_s && stream->completed < stream->submitted) st = fail_stalled(stream, deadline_s, err);
    }
    if (!st) st = report(stream, err);
    pthread_mutex_unlock(&stream->lock);
    return st;
}

enum mt_status mt_cpu_event_sync(struct mt_event *base, double deadline_s, struct mt_err *err) {
    struct event *event = (struct event *)base;
    enum mt_status st = MT_OK;
    pthread_mutex_lock(&event->lock);
    struct stream *stream = event->stream;
    uint64_t ticket = event->recorded;
    struct stall stall = {.completed = stream ? mt_cpu_stream_query(&stream->base).completed : 0};
    for (double s = stalled_s(&stall, stall.completed); event->done < ticket && !st;) {
        mt_cond_wait_until(&event->changed, &event->lock, wake_s(deadline_s - s));
        if (event->done >= ticket) break;
        pthread_mutex_unlock(&event->lock);
        pthread_mutex_lock(&stream->lock);
        s = stalled_s(&stall, stream->completed);
        if (s >= deadline_s) st = fail_stalled(stream, deadline_s, err);
        pthread_mutex_unlock(&stream->lock);
        pthread_mutex_lock(&event->lock);
    }
    pthread_mutex_unlock(&event->lock);
    if (st || !stream) return st;
    pthread_mutex_lock(&stream->lock);
    st = report(stream, err);
    pthread_mutex_unlock(&stream->lock);
    return st;
}

enum mt_status mt_cpu_event_new(struct mt_device *device, struct mt_event **event, struct mt_err *err) {
    (void)err;
    struct event *e = mt_calloc(1, sizeof *e);
    e->base.device = device;
    pthread_mutex_init(&e->lock, NULL);
    mt_cond_init(&e->changed);
    *event = &e->base;
    return MT_OK;
}

void mt_cpu_event_free(struct mt_event *base) {
    struct event *event = (struct event *)base;
    pthread_mutex_destroy(&event->lock);
    pthread_cond_destroy(&event->changed);
    free(event);
}
