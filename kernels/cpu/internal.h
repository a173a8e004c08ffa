/* The CPU device: streams are threads with queues, memory is from mmap. device.c is its class (kernels/device/class.h);
 * operators run by the backends c/ (plain C, always there) and onednn/ (a module). The class owns devices,
 * streams and events; a device owns its allocations. */
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

/* The clock by which streams measure and sleep. */
struct mt_cpu_clock {
    double (*now_s)(void);                /* mt_now_s */
    double (*worked_s)(void);             /* the calling thread's CPU time */
    void (*sleep_until_s)(double when_s); /* a time of now_s; may return late or early */
};
extern const struct mt_cpu_clock mt_cpu_clock;

struct mt_cpu_device {
    struct mt_device base;            /* base.threads: the size of each stream's OpenMP team */
    const struct mt_cpu_clock *clock; /* mt_cpu_clock; tests set their own before there are streams */
    double speed;                     /* emulated; 1: full */
    const struct mt_backend *onednn;  /* or null */
    pthread_mutex_t lock;             /* of allocations */
    struct mt_cpu_allocation *allocations;
};

/* Streams and events (stream.c), for the class. */
enum mt_status mt_cpu_stream_new(struct mt_device *device, const char *name, struct mt_stream **stream,
                                 struct mt_err *err);
void mt_cpu_stream_free(struct mt_stream *stream);
void mt_cpu_stream_op(struct mt_stream *stream, const struct mt_backend *backend, const struct mt_call *call,
                      double *seconds);
void mt_cpu_stream_overlap(struct mt_stream *stream, struct mt_overlap_call *call, double *seconds);
void mt_cpu_stream_coll(struct mt_stream *stream, const struct mt_coll_call *call, double *seconds);
void mt_cpu_stream_window(struct mt_stream *stream, const struct mt_window_work *work);
void mt_cpu_stream_wait(struct mt_stream *stream, struct mt_event *event);
void mt_cpu_stream_copy(struct mt_stream *stream, enum mt_copy direction, void *to, const void *from,
                        int64_t size_bytes);
struct mt_stream_progress mt_cpu_stream_query(struct mt_stream *stream);
enum mt_status mt_cpu_stream_sync(struct mt_stream *stream, double deadline_s, struct mt_err *err);
enum mt_status mt_cpu_event_new(struct mt_device *device, struct mt_event **event, struct mt_err *err);
void mt_cpu_event_free(struct mt_event *event);
void mt_cpu_event_record(struct mt_event *event, struct mt_stream *stream);
enum mt_status mt_cpu_event_sync(struct mt_event *event, double deadline_s, struct mt_err *err);

/* Free bytes: the least of the kernel's MemAvailable and of what this process's cgroups leave (v1 and v2, with all
 * parents; reclaimable file caches count as free). `root` is put before /proc and /sys: "" except in tests. */
int64_t mt_cpu_memory_bytes(const char *root);

/* Run one collective call in the calling thread. */
enum mt_status mt_cpu_coll(const struct mt_coll_call *call, struct mt_err *err);
/* Or one one-sided operation. */
enum mt_status mt_cpu_window(const struct mt_window_work *work, struct mt_err *err);

/* Emulation of a lower speed: after work of t seconds a stream owes t (1 / speed - 1) seconds, which it sleeps later.
 * Its emulated clock is ahead of the real one by owed_s; after a sleep that was too long owed_s is negative. */
struct mt_cpu_debt {
    const struct mt_cpu_clock *clock;
    double owed_s;
    double worked_s; /* clock->worked_s when an item, or a wait after it, ended last */
};
static inline double mt_cpu_debt_now_s(const struct mt_cpu_debt *debt) {
    return debt->clock->now_s() + debt->owed_s;
}
/* Account for work of worked_s seconds at `speed`. */
static inline void mt_cpu_debt_add(struct mt_cpu_debt *debt, double worked_s, double speed) {
    debt->owed_s += worked_s * (1 / speed - 1);
}
/* Sleep off the debt if it is at least `least_s`; returns early when *stop is set. CPU time spent on going to sleep
 * belongs to no operator. */
void mt_cpu_debt_pay(struct mt_cpu_debt *debt, double least_s, const atomic_bool *stop);

#endif
