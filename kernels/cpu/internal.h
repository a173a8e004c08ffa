/* The CPU device's own parts. */
#ifndef MT_KERNELS_CPU_INTERNAL_H
#define MT_KERNELS_CPU_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "kernels/device/class.h"

struct mt_cpu_allocation {
    struct mt_cpu_allocation *next;
    void *memory;
    size_t size_bytes;
};

/* What streams measure and sleep by. */
struct mt_cpu_clock {
    double (*now_s)(void);                /* mt_now_s */
    double (*worked_s)(void);             /* the calling thread's time on a processor */
    void (*sleep_until_s)(double when_s); /* of now_s; may return late, or early */
};
extern const struct mt_cpu_clock mt_cpu_clock;

struct mt_cpu_device {
    struct mt_device base;            /* its threads: of each stream's OpenMP team */
    const struct mt_cpu_clock *clock; /* mt_cpu_clock; tests set their own before there are streams */
    double speed;                     /* emulated; 1: its own */
    const struct mt_backend *onednn;  /* or null */
    pthread_mutex_t lock;             /* of allocations */
    struct mt_cpu_allocation *allocations;
};

/* Its streams and events (stream.c), for the class. */
enum mt_status mt_cpu_stream_new(struct mt_device *device, const char *name, struct mt_stream **stream,
                                 struct mt_err *err);
void mt_cpu_stream_free(struct mt_stream *stream);
void mt_cpu_stream_op(struct mt_stream *stream, const struct mt_backend *backend, const struct mt_call *call,
                      double *seconds);
void mt_cpu_stream_coll(struct mt_stream *stream, const struct mt_coll_call *call, double *seconds);
void mt_cpu_stream_wait(struct mt_stream *stream, struct mt_event *event);
void mt_cpu_stream_copy(struct mt_stream *stream, enum mt_copy direction, void *to, const void *from,
                        int64_t size_bytes);
struct mt_stream_progress mt_cpu_stream_query(struct mt_stream *stream);
enum mt_status mt_cpu_stream_sync(struct mt_stream *stream, double deadline_s, struct mt_err *err);
enum mt_status mt_cpu_event_new(struct mt_device *device, struct mt_event **event, struct mt_err *err);
void mt_cpu_event_free(struct mt_event *event);
void mt_cpu_event_record(struct mt_event *event, struct mt_stream *stream);
enum mt_status mt_cpu_event_sync(struct mt_event *event, double deadline_s, struct mt_err *err);

/* Bytes that can still be had under the kernel's MemAvailable and the limits of this process's cgroups (v1 and v2, with
 * all parents; file caches that can be dropped count as free). `root` goes before /proc and /sys: "" but in tests. */
int64_t mt_cpu_memory_bytes(const char *root);

/* The work of one collective call, by the calling thread. */
enum mt_status mt_cpu_coll(const struct mt_coll_call *call, struct mt_err *err);

/* A stream that works at a lower speed: it runs ahead of the clock that is emulated by what it owes, and pays by
 * sleeping; what it sleeps too long is owed to it. */
struct mt_cpu_debt {
    const struct mt_cpu_clock *clock;
    double owed_s;
    double worked_s; /* clock->worked_s when an item, or a wait after it, ended last */
};
/* The time on the emulated clock. */
static inline double mt_cpu_debt_now_s(const struct mt_cpu_debt *debt) {
    return debt->clock->now_s() + debt->owed_s;
}
/* Work at `speed` that took so long. */
static inline void mt_cpu_debt_add(struct mt_cpu_debt *debt, double worked_s, double speed) {
    debt->owed_s += worked_s * (1 / speed - 1);
}
/* Sleep if at least `least_s` is owed; sooner awake when *stop is set. What going to sleep works is nobody's. */
void mt_cpu_debt_pay(struct mt_cpu_debt *debt, double least_s, const atomic_bool *stop);

/* What an emulated device takes an operator for longer than it works, in seconds of its own speed: measured with
 * operators that do nothing. 0 where no thread can be had. */
double mt_cpu_overhead_s(struct mt_device *device);

#endif
