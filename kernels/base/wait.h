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

#endif
