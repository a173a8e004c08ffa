/* Collectives by copy engines: the trials of NCCL's, of all ranks in order, with windows that hold a message in one
 * piece and such that it takes many; small messages and other groups between them, which go by NCCL; captured, launched
 * again and again; a rank that stays away is named. Ranks share a GPU where there are too few: then NCCL is told that
 * they are on different hosts. ranks: 2 3 */
#include "kernels/device/window.h"
#include "tests/kernels/cuda/device/shared.h"
#include "tests/kernels/cuda/nccl/collectives.h"

static const double deadline_s = 60;

static struct mt_window *give_window(int64_t size_bytes, double wait_s) {
    struct mt_window *window;
    CHECK_OK(mt_device_window_new(device, comm, size_bytes, wait_s, &window, &err), err);
    CHECK_OK(comm->class->use_window(comm, window, &err), err);
    return window;
}

static void take_window(struct mt_window *window) {
    CHECK_OK(comm->class->use_window(comm, NULL, &err), err);
    mt_window_free(window);
}

static struct mt_coll_call call_of(enum mt_coll_kind kind, const int64_t *counts, const int *all, int64_t total) {
    static const struct mt_schedule schedule = MT_SCHEDULE_INIT;
    enum mt_reduce reduce = mt_coll_reduces(kind) ? MT_SUM : MT_REDUCE_NONE;
    return (struct mt_coll_call){.problem = {kind, reduce, MT_F32, MT_F32, nranks, rank, 0, counts},
                                 .schedule = &schedule,
                                 .comm = comm,
                                 .group = all,
                                 .deadline_s = deadline_s,
                                 .message = {message[0]},
                                 .message_count = {total},
                                 .what = "a message"};
}

/* An AllGather and an AllReduce in one graph: after launch i each rank has the blocks of all, times 2^i n^i. */
static void test_captured(const int *all) {
    enum { LAUNCHES = 6, IN_FLIGHT = 3 };
    struct mt_capture *capture;
    int64_t counts[MOST_RANKS], total = 0, first = 0;
    uint64_t launch;
    for (int r = 0; r < nranks; r++) {
        counts[r] = 100000 + 7000 * r;
        if (r < rank) first += counts[r];
        total += counts[r];
    }
    float *host = malloc((size_t)total * sizeof *host);
    for (int64_t i = 0; i < total; i++) host[i] = i >= first && i < first + counts[rank] ? (float)(i % 1000) : -1;
    CHECK_OK(mt_device_copy_in(device, message[0], host, total * 4, &err), err);
    struct mt_coll_call gather = call_of(MT_ALL_GATHER, counts, all, total);
    struct mt_coll_call reduce = call_of(MT_ALL_REDUCE, counts, all, total);
    for (int i = 0; i < 2; i++) { /* eagerly, then captured */
        if (i) CHECK_OK(mt_capture_begin(&stream, 1, &capture, &err), err);
        mt_stream_coll(stream, &gather, NULL);
        mt_stream_coll(stream, &reduce, NULL);
        if (i) CHECK_OK(mt_capture_end(capture, &err), err);
        CHECK_OK(mt_stream_sync(stream, deadline_s, &err), err);
    }
    for (int i = 0; i < LAUNCHES; i++) {
        CHECK_OK(mt_capture_launch(capture, &(struct mt_clock){0}, &launch, &err), err);
        if (i % IN_FLIGHT == IN_FLIGHT - 1 || i == LAUNCHES - 1)
            CHECK_OK(mt_stream_sync(stream, deadline_s, &err), err);
    }
    CHECK_OK(mt_device_copy_out(device, host, message[0], total * 4, &err), err);
    for (int64_t i = 0; i < total; i++) {
        double want = (double)(i % 1000);
        for (int k = 0; k < 1 + LAUNCHES; k++) want *= nranks;
        CHECK(host[i] == (float)want, "element %lld: %g, not %g", (long long)i, (double)host[i], want);
    }
    free(host);
    mt_capture_free(capture);
}

/* The last rank stays away. */
static void test_silence(const int *all) {
    int64_t counts[MOST_RANKS], total = 0;
    struct mt_window *window = give_window(4 << 20, 1);
    for (int r = 0; r < nranks; r++) total += counts[r] = 100000;
    struct mt_coll_call call = call_of(MT_ALL_REDUCE, counts, all, total);
    if (rank != nranks - 1) {
        mt_stream_coll(stream, &call, NULL);
        enum mt_status st = mt_stream_sync(stream, deadline_s, &err);
        char peer[32];
        snprintf(peer, sizeof peer, "for rank %d", nranks - 1);
        CHECK(st == MT_ESTALL || st == MT_EPEER, "%d: %s", (int)st, err.text);
        CHECK(strstr(err.text, peer) && strstr(err.text, "a message"), "%s", err.text);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == nranks - 1) mt_window_abort(window, "stayed away");
    trials_end();
    comm->class->use_window(comm, NULL, &err);
    mt_window_free(window);
}

int main(int argc, char **argv) {
    int level, all[MOST_RANKS], backwards[MOST_RANKS];
    MPI_Comm hosts = MPI_COMM_WORLD;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    if (!(device = open_shared_gpu(rank))) {
        MPI_Finalize();
        return 77;
    }
    setenv("MOTLEY_COLLECTIVES", "engines", 1);
    trials_begin();
    comm = cuda_ranks_comm(deadline_s);
    CHECK_OK(mt_comm_mpi_new(&hosts, &comm->host, &err), err);
    for (int r = 0; r < nranks; r++) all[r] = r, backwards[r] = nranks - 1 - r;
    int64_t whole;
    CHECK_OK(comm->class->window_bytes(comm, &whole, &err), err);
    CHECK(whole > 0);
    const int64_t sizes[] = {whole, (64 << 10) + (nranks - 1) * 2 * 40000};
    for (int w = 0; w < 2; w++) {
        struct mt_window *window = give_window(sizes[w], deadline_s);
        static const enum mt_coll_kind kinds[] = {MT_REDUCE_SCATTER, MT_ALL_GATHER, MT_ALL_REDUCE};
        for (int k = 0; k < 3; k++) trials(kinds[k], nranks, rank, all, NULL, "all");
        trials(MT_ALL_REDUCE, nranks, nranks - 1 - rank, backwards, NULL, "backwards");
        trials_of_tensors(all);
        test_captured(all);
        take_window(window);
    }
    test_silence(all);
    mt_comm_free(comm);
    mt_device_close(device);
    MPI_Finalize();
    return 0;
}
