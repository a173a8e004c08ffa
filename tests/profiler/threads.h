/* A function run by as many threads as ranks, each with its communicator; it may fail by CHECK alone. */
#ifndef MT_TESTS_PROFILER_THREADS_H
#define MT_TESTS_PROFILER_THREADS_H

#include <pthread.h>

#include "kernels/comm/comm.h"

typedef void rank_function(struct mt_comm *comm);

struct rank_thread {
    pthread_t thread;
    rank_function *function;
    struct mt_comm *comm;
};

static void *run_rank(void *argument) {
    struct rank_thread *r = argument;
    r->function(r->comm);
    return NULL;
}

static void run_ranks(int nranks, rank_function *function) {
    struct mt_comm *comms[16];
    struct rank_thread threads[16];
    mt_comm_local_new(nranks, comms);
    for (int r = 0; r < nranks; r++) {
        threads[r] = (struct rank_thread){.function = function, .comm = comms[r]};
        pthread_create(&threads[r].thread, NULL, run_rank, &threads[r]);
    }
    for (int r = 0; r < nranks; r++) pthread_join(threads[r].thread, NULL);
    for (int r = 0; r < nranks; r++) mt_comm_free(comms[r]);
}

#endif
