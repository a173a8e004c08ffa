/* Every algorithm between threads; several collectives under way in two groups and with two tags; silence. */
#include <pthread.h>

#include "kernels/base/wait.h"
#include "kernels/comm/comm.h"
#include "tests/kernels/coll/reference.h"

enum { RANKS = 5 };

struct thread {
    struct mt_comm *comm;
    int rank;
};

static void trial(const struct thread *thread, const struct mt_coll_algorithm *algorithm, const struct mt_coll *problem,
                  const int *group, int tag) {
    void *buffer[2];
    reference_run(thread->comm, algorithm, problem, group, tag, buffer);
    free(buffer[0]);
    free(buffer[1]);
}

static void *run_all(void *argument) {
    const struct thread *thread = argument;
    const int all[RANKS] = {0, 1, 2, 3, 4}, groups[2][3] = {{4, 2, 0}, {1, 3}}, node[] = {0, 1, 0, 2, 1};
    int part = thread->rank % 2, place = part ? thread->rank / 2 : (4 - thread->rank) / 2;
    int64_t counts[RANKS * RANKS];
    for (int i = 0; i < mt_coll_nalgorithms; i++) {
        const struct mt_coll_algorithm *algorithm = mt_coll_algorithms[i];
        bool reduces = algorithm->kind == MT_ALL_REDUCE || algorithm->kind == MT_REDUCE_SCATTER;
        enum mt_reduce reduce = reduces ? MT_SUM : MT_REDUCE_NONE;
        for (int t = 0; t < REFERENCE_NTYPES; t++) {
            enum mt_type wire = reference_types[t].wire, acc = reference_types[t].acc;
            struct mt_coll problem = {algorithm->kind, reduce, wire, acc, RANKS, thread->rank, 3, counts, false, node};
            reference_counts(1, RANKS, RANKS * RANKS, 300, counts);
            if (algorithm->applies(&problem)) trial(thread, algorithm, &problem, all, 1);
            problem.n = part ? 2 : 3, problem.me = place, problem.root = 1; /* the first three nodes: {0, 1, 0} */
            if (algorithm->applies(&problem)) trial(thread, algorithm, &problem, groups[part], 2);
        }
    }
    return NULL;
}

static void *stay_waiting(void *argument) { /* rank 2 never comes */
    const struct thread *thread = argument;
    if (thread->rank == 2) return NULL;
    const int all[RANKS] = {0, 1, 2, 3, 4};
    int64_t counts[RANKS] = {1, 1, 1, 1, 1};
    float values[RANKS] = {0};
    void *buffer[2] = {values, NULL};
    struct mt_coll problem = {MT_ALL_REDUCE, MT_SUM, MT_F32, MT_F32, RANKS, thread->rank, 0, counts, false, NULL};
    struct mt_schedule schedule = MT_SCHEDULE_INIT;
    mt_coll_find(MT_ALL_REDUCE, "direct")->schedule(&problem, &schedule);
    struct mt_err err = MT_ERR_INIT;
    double start_s = mt_now_s();
    CHECK_EQ(mt_comm_run(thread->comm, &problem, &schedule, all, buffer, 3, 0.2, &err), MT_ESTALL);
    CHECK(mt_now_s() - start_s >= 0.2); /* that it ends at all is for CTest to see */
    CHECK(strstr(err.text, "AllReduce") && strstr(err.text, "from rank 2"), "%s", err.text);
    mt_schedule_release(&schedule);
    return NULL;
}

int main(void) {
    void *(*const work[])(void *) = {run_all, stay_waiting};
    struct mt_comm *comms[RANKS];
    mt_comm_local_new(RANKS, comms);
    for (int w = 0; w < 2; w++) {
        pthread_t threads[RANKS];
        struct thread arguments[RANKS];
        for (int r = 0; r < RANKS; r++) {
            arguments[r] = (struct thread){comms[r], r};
            CHECK(!pthread_create(&threads[r], NULL, work[w], &arguments[r]));
        }
        for (int r = 0; r < RANKS; r++) pthread_join(threads[r], NULL);
    }
    for (int r = 0; r < RANKS; r++) mt_comm_free(comms[r]);
    return 0;
}
