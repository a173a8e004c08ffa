/* Time and waiting: CLOCK_MONOTONIC, in seconds. */
#ifndef MT_KERNELS_BASE_WAIT_H
#define MT_KERNELS_BASE_WAIT_H

#include <pthread.h>

double mt_now_s(void);

/* A condition whose timed waits use this clock. */
void mt_cond_init(pthread_cond_t *cond);

/* Wait for a signal, or until the time `when_s` (infinity allowed); nonzero when that has passed. */
int mt_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, double when_s);

void mt_sleep_s(double seconds);

/* Time for which a polling process was awake. A gap between two checks counts for at most `most_s`: a process that is
 * stopped (SIGSTOP, a suspended machine) must not run into its deadlines. Start with {0}; the first check returns 0. */
struct mt_awake {
    double seen_s, awake_s;
};
double mt_awake_check(struct mt_awake *awake, double most_s);

#endif
