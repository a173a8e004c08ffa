/* Emulation of slower devices: paying what streams owe, exactly on average. A sleep is some tens of microseconds too
 * long; that is taken off what is owed next. */
#include <math.h>
#include <time.h>

#include "kernels/cpu/internal.h"

void mt_cpu_debt_pay(struct mt_cpu_debt *debt, double least_s, const atomic_bool *stop) {
    if (debt->owed_s < least_s) return;
    double start_s = mt_now_s(), end_s = start_s + debt->owed_s;
    for (double now_s = start_s; now_s < end_s && !atomic_load(stop); now_s = mt_now_s()) {
        double until_s = fmin(end_s, now_s + 0.1); /* wake at times to look at `stop` */
        struct timespec until = {.tv_sec = (time_t)until_s};
        until.tv_nsec = (long)((until_s - (double)until.tv_sec) * 1e9);
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    }
    debt->owed_s -= mt_now_s() - start_s;
}
