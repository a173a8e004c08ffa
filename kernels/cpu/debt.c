/* Emulation of slower devices: paying what streams owe, exactly on average. A sleep is some tens of microseconds too
 * long; that is taken off what is owed next. And what streams take operators for beside their work. */
#include <math.h>
#include <time.h>

#include "kernels/cpu/internal.h"

static double worked_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleep_until_s(double when_s) {
    struct timespec until = {.tv_sec = (time_t)when_s};
    until.tv_nsec = (long)((when_s - (double)until.tv_sec) * 1e9);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

const struct mt_cpu_clock mt_cpu_clock = {mt_now_s, worked_s, sleep_until_s};

void mt_cpu_debt_pay(struct mt_cpu_debt *debt, double least_s, const atomic_bool *stop) {
    if (debt->owed_s < least_s) return;
    double start_s = debt->clock->now_s(), end_s = start_s + debt->owed_s, now_s = start_s;
    for (; now_s < end_s && !atomic_load(stop); now_s = debt->clock->now_s())
        debt->clock->sleep_until_s(fmin(end_s, now_s + 0.1)); /* wake at times to look at `stop` */
    debt->owed_s -= now_s - start_s;
    debt->worked_s = debt->clock->worked_s();
}

static enum mt_status do_nothing(const struct mt_call *call, struct mt_err *err) {
    (void)call, (void)err;
    return MT_OK;
}

double mt_cpu_overhead_s(struct mt_device *device) {
    enum { COUNT = 256 };
    static const struct mt_backend nothing = {.name = "nothing", .run = do_nothing};
    static const struct mt_attr attr;
    static const double deadline_s = 60;
    const struct mt_call call = {.kind = MT_OP_count, .attr = &attr};
    double seconds[COUNT][2], sum_s = 0;
    struct mt_stream *stream;
    struct mt_event *event;
    struct mt_err err = MT_ERR_INIT;
    if (mt_cpu_stream_new(device, "probe", &stream, &err)) return 0;
    mt_cpu_event_new(device, &event, &err);
    for (int i = 0; i < COUNT; i++) {
        mt_cpu_stream_op(stream, &nothing, &call, seconds[i]);
        mt_cpu_event_record(event, stream); /* as programs do */
    }
    if (!mt_cpu_stream_sync(stream, deadline_s, &err))
        for (int i = 0; i < COUNT; i++) sum_s += seconds[i][1] - seconds[i][0];
    mt_cpu_stream_free(stream);
    mt_cpu_event_free(event);
    return sum_s * ((struct mt_cpu_device *)device)->speed / COUNT;
}
