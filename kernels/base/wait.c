/* Time and waiting. */
#include "kernels/base/wait.h"

#include <time.h>

double mt_now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static struct timespec timespec_of(double seconds) {
    if (!(seconds < 1e12)) seconds = 1e12;
    time_t whole = (time_t)seconds;
    return (struct timespec){whole, (long)((seconds - (double)whole) * 1e9)};
}

void mt_cond_init(pthread_cond_t *cond) {
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

int mt_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, double when_s) {
    struct timespec until = timespec_of(when_s);
    return pthread_cond_timedwait(cond, lock, &until);
}

void mt_sleep_s(double seconds) {
    struct timespec duration = timespec_of(seconds);
    nanosleep(&duration, NULL);
}

double mt_awake_check(struct mt_awake *awake, double most_s) {
    double now_s = mt_now_s(), gap_s = awake->seen_s > 0 ? now_s - awake->seen_s : 0;
    awake->seen_s = now_s;
    awake->awake_s += gap_s < most_s ? gap_s : most_s;
    return awake->awake_s;
}
