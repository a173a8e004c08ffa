/* Every algorithm over MPI, in short and in segments, in the whole group and in part of it; a peer that stays silent.
 * ranks: 2 3 5 */
#include <mpi.h>

#include "kernels/base/number/hash.h"
#include "kernels/base/wait.h"
#include "kernels/comm/comm.h"
#include "tests/kernels/coll/reference.h"

static struct mt_comm *comm;

/* As reference_run, and compare bits over the group. */
static void trial(const struct mt_coll_algorithm *algorithm, const struct mt_coll *problem, const int *group, int tag) {
    struct mt_err err = MT_ERR_INIT;
    void *buffer[2];
    size_t acc = (size_t)mt_type_size(problem->acc);
    reference_run(comm, algorithm, problem, group, tag, buffer);
    if (reference_replicates(problem->kind)) {
        uint64_t mine = mt_hash64(buffer[0], (size_t)reference_size(problem, 0) * acc, 0), first = mine;
        void *hashes[2] = {&first, NULL};
        int64_t one[64] = {2};
        struct mt_coll tell = {MT_BROADCAST, MT_REDUCE_NONE, MT_I32, MT_I32, problem->n, problem->me, 0,
                               one,          false,          NULL};
        struct mt_schedule down = MT_SCHEDULE_INIT;
        mt_coll_find(MT_BROADCAST, "binomial")->schedule(&tell, &down);
        CHECK_OK(mt_comm_run(comm, &tell, &down, group, hashes, tag, 60, &err), err);
        CHECK(mine == first, "%s %s n %d %s in %s: rank %d has other bits", mt_coll_name(problem->kind),
              algorithm->name, problem->n, mt_type_name(problem->wire), mt_type_name(problem->acc), problem->me);
        mt_schedule_release(&down);
    }
    free(buffer[0]);
    free(buffer[1]);
}

static void trials_on(const struct mt_coll_algorithm *algorithm, int n, int me, const int *group, const int *node,
                      int64_t scale) {
    bool large = scale > 1000; /* ragged only, and two pairs of types */
    int64_t counts[64];
    bool reduces = algorithm->kind == MT_ALL_REDUCE || algorithm->kind == MT_REDUCE_SCATTER;
    for (int shape = large; shape < (large ? 2 : REFERENCE_NSHAPES); shape++) {
        reference_counts(shape, n, algorithm->kind == MT_ALL_TO_ALL ? n * n : n, scale, counts);
        for (int t = large; t < (large ? 3 : REFERENCE_NTYPES); t++) {
            struct mt_coll problem = {algorithm->kind,
                                      reduces ? MT_SUM : MT_REDUCE_NONE,
                                      reference_types[t].wire,
                                      reference_types[t].acc,
                                      n,
                                      me,
                                      n - 1,
                                      counts,
                                      false,
                                      node};
            if (!algorithm->applies(&problem)) return;
            trial(algorithm, &problem, group, 5);
            problem.reduce = MT_MAX;
            if (reduces && !large) trial(algorithm, &problem, group, 6);
        }
    }
}

/* On one node, or on nodes of every shape. */
static void trials(const struct mt_coll_algorithm *algorithm, int n, int me, const int *group, int64_t scale) {
    int node[64];
    trials_on(algorithm, n, me, group, NULL, scale);
    for (int map = 0; map < REFERENCE_NMAPS && algorithm->by_node; map++) {
        reference_nodes(map, n, node);
        trials_on(algorithm, n, me, group, node, scale);
    }
}

/* A round by hand, with what no algorithm has: two messages to one peer, ranges that overlap in part. Between ranks 0
 * and 1: both exchange and add [0, SIZE); then 0 adds its middle half to what follows, then takes over ten elements. */
static void test_overlap(int rank) {
    enum { SIZE = 300000, HALF = SIZE / 2, TEN = 10 };
    const int group[2] = {0, 1};
    const int64_t counts[2] = {SIZE + HALF, 0};
    struct mt_coll problem = {MT_ALL_REDUCE, MT_SUM, MT_F32, MT_F32, 2, rank, 0, counts, false, NULL};
    struct mt_schedule schedule = MT_SCHEDULE_INIT;
    struct mt_err err = MT_ERR_INIT;
    float *data = malloc((SIZE + HALF) * sizeof *data), *value[2];
    for (int r = 0; r < 2; r++) {
        value[r] = malloc((SIZE + HALF) * sizeof *data);
        for (int i = 0; i < SIZE + HALF; i++)
            value[r][i] = (float)mt_random_normal(reference_seed, (uint64_t)r, (uint64_t)i);
    }
    memcpy(data, value[rank], (SIZE + HALF) * sizeof *data);
    mt_schedule_add(&schedule, (struct mt_step){MT_STEP_SEND, .peer = !rank, .count = SIZE});
    if (rank) mt_schedule_add(&schedule, (struct mt_step){MT_STEP_SEND, .peer = 0, .count = TEN});
    mt_schedule_add(&schedule, (struct mt_step){MT_STEP_REDUCE, .peer = !rank, .count = SIZE});
    if (!rank) {
        mt_schedule_add(&schedule, (struct mt_step){MT_STEP_ADD, .offset = SIZE / 4, .count = HALF, .to = SIZE});
        mt_schedule_add(&schedule, (struct mt_step){MT_STEP_RECV, .peer = 1, .offset = HALF, .count = TEN});
    }
    mt_schedule_end_round(&schedule);
    void *buffer[2] = {data, NULL};
    CHECK_OK(mt_comm_run(comm, &problem, &schedule, group, buffer, 9, 60, &err), err);
    for (int i = 0; i < SIZE + HALF; i++) {
        float want = i < SIZE ? value[0][i] + value[1][i] : value[rank][i];
        if (!rank && i >= SIZE) want += value[0][i - SIZE + SIZE / 4] + value[1][i - SIZE + SIZE / 4];
        if (!rank && i >= HALF && i < HALF + TEN) want = value[1][i - HALF];
        CHECK(data[i] == want, "rank %d, element %d: %g, not %g", rank, i, (double)data[i], (double)want);
    }
    mt_schedule_release(&schedule);
    free(data);
    for (int r = 0; r < 2; r++) free(value[r]);
}

/* Rank 0 says nothing: the others must give up in time and say whom they waited for. */
static void test_silence(int rank, int n) {
    struct mt_comm *other;
    struct mt_err err = MT_ERR_INIT;
    MPI_Comm world = MPI_COMM_WORLD;
    CHECK_OK(mt_comm_mpi_new(&world, &other, &err), err);
    if (rank) {
        int64_t counts[64] = {100000};
        int group[64];
        for (int r = 0; r < n; r++) group[r] = r;
        struct mt_coll problem = {MT_BROADCAST, MT_REDUCE_NONE, MT_F32, MT_F32, n, rank, 0, counts, false, NULL};
        struct mt_schedule schedule = MT_SCHEDULE_INIT;
        mt_coll_find(MT_BROADCAST, "scatter_gather")->schedule(&problem, &schedule);
        void *buffer[2] = {calloc(100000, sizeof(float)), NULL};
        double start_s = mt_now_s();
        CHECK_EQ(mt_comm_run(other, &problem, &schedule, group, buffer, 1, 0.3, &err), MT_ESTALL);
        CHECK(mt_now_s() - start_s >= 0.3, "%g s", mt_now_s() - start_s); /* that it ends at all is for CTest to see */
        CHECK(strstr(err.text, "Broadcast") && strstr(err.text, "waits for rank"), "%s", err.text);
        if (rank == 1 && n == 2)
            CHECK(strstr(err.text, "rank 1 has made no progress") && strstr(err.text, "rank 0"), "%s", err.text);
        CHECK_EQ(mt_comm_run(other, &problem, &schedule, group, buffer, 1, 0.3, &err), MT_EPEER);
        mt_schedule_release(&schedule);
        free(buffer[0]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    mt_comm_free(other);
}

int main(int argc, char **argv) {
    int level, rank, n, all[64], part[64], npart = 0, place = -1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    struct mt_err err = MT_ERR_INIT;
    MPI_Comm world = MPI_COMM_WORLD;
    CHECK_OK(mt_comm_mpi_new(&world, &comm, &err), err);
    CHECK(comm->rank == rank && comm->nranks == n);
    for (int r = 0; r < n; r++) all[r] = r;
    for (int r = n - 1; r >= 0; r--) /* without rank 1, backwards */
        if (r != 1) {
            if (r == rank) place = npart;
            part[npart++] = r;
        }
    for (int i = 0; i < mt_coll_nalgorithms; i++) {
        trials(mt_coll_algorithms[i], n, rank, all, 7);
        trials(mt_coll_algorithms[i], n, rank, all, 40000);
        if (place >= 0) trials(mt_coll_algorithms[i], npart, place, part, 50);
    }
    if (rank < 2) test_overlap(rank);
    test_silence(rank, n);
    mt_comm_free(comm);
    MPI_Finalize();
    return 0;
}
