/* Emulation of slower devices: streams sleep off what they owe, exactly on average. A sleep is some tens of
 * microseconds too long; the excess is subtracted from what is owed next. */
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
        debt->clock->sleep_until_s(fmin(end_s, now_s + 0.1)); /* wake up regularly to check `stop` */
    debt->owed_s -= now_s - start_s;
    debt->worked_s = debt->clock->worked_s();
}
