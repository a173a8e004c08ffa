/* The clock that waits go by: CLOCK_MONOTONIC, as seconds. */
#ifndef MT_KERNELS_BASE_WAIT_H
#define MT_KERNELS_BASE_WAIT_H

#include <pthread.h>

double mt_now_s(void);

/* A condition whose timed waits go by this clock. */
void mt_cond_init(pthread_cond_t *cond);

/* Wait until somebody signals or `when_s` comes (infinity allowed); nonzero when it has come. */
int mt_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, double when_s);

void mt_sleep_s(double seconds);

/* Time that this process was awake for, while it waits and looks again and again: a gap between two looks counts for at
 * most `most_s`, since a process that is stopped looks at nothing. Begin with {0}; the first look returns 0. */
struct mt_awake {
    double seen_s, awake_s;
};
double mt_awake_check(struct mt_awake *awake, double most_s);

#endif
