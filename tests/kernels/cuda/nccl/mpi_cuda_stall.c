/* A rank that does not come: what waits for it over NCCL ends by its deadline, names the instruction, and can be freed.
 * ranks: 2 */
#include <math.h>
#include <string.h>

#include "tests/kernels/cuda/nccl/cuda_ranks.h"

enum { COUNT = 1 << 20 };
static const double deadline_s = 2; /* nothing ends before it; that it ends at all is for CTest to see */

static struct mt_device *device;
static struct mt_stream *stream;
static int rank;

static void queue(struct mt_comm *comm, void *message, const char *what) {
    static const struct mt_schedule schedule = MT_SCHEDULE_INIT;
    static const int group[2] = {0, 1};
    static int64_t counts[2] = {COUNT / 2, COUNT / 2};
    struct mt_coll_call call = {.problem = {MT_ALL_REDUCE, MT_SUM, MT_F32, MT_F32, 2, rank, 0, counts},
                                .schedule = &schedule,
                                .comm = comm,
                                .group = group,
                                .deadline_s = deadline_s,
                                .message = {message},
                                .message_count = {COUNT},
                                .what = what};
    mt_stream_coll(stream, &call, NULL);
}

/* Rank 1 stays away from a collective. */
static void test_collective(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_comm *comm = cuda_ranks_comm(60);
    void *message;
    CHECK_OK(mt_device_alloc(device, COUNT * 4, &message, &err), err);
    queue(comm, message, "AllReduce both");
    CHECK_OK(mt_stream_sync(stream, 60, &err), err);
    MPI_Barrier(MPI_COMM_WORLD);
    double start_s = mt_now_s();
    if (rank == 0) {
        queue(comm, message, "AllReduce alone");
        CHECK_EQ(mt_stream_sync(stream, deadline_s, &err), MT_ESTALL);
        double took_s = mt_now_s() - start_s;
        CHECK(took_s >= deadline_s, "%g s", took_s);
        CHECK(strstr(err.text, "\"comm\" in AllReduce alone") && strstr(err.text, "no progress for 2 s"), "%s",
              err.text);
        err = (struct mt_err)MT_ERR_INIT;
        queue(comm, message, "AllReduce later");
        CHECK_EQ(mt_stream_sync(stream, 60, &err), MT_EPEER);
        CHECK(strstr(err.text, "AllReduce later"), "%s", err.text);
        mt_comm_free(comm);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) mt_comm_free(comm); /* without the other */
    MPI_Barrier(MPI_COMM_WORLD);
    mt_device_free(device, message);
}

/* Rank 1 stays away from the communicator's making. */
static void test_making(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_comm *comm;
    char id[MT_COMM_NCCL_ID_BYTES];
    cuda_ranks_id(id);
    double start_s = mt_now_s();
    if (rank == 0) {
        CHECK_EQ(mt_comm_nccl_new(id, 0, 2, deadline_s, &comm, &err), MT_ESTALL);
        CHECK(strstr(err.text, "no answer from the other ranks for 2 s"), "%s", err.text);
        CHECK(mt_now_s() - start_s >= deadline_s, "%g s", mt_now_s() - start_s);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    struct mt_err err = MT_ERR_INIT;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!cuda_ranks_open(&device)) {
        MPI_Finalize();
        return 77;
    }
    CHECK_OK(mt_stream_new(device, "comm", &stream, &err), err);
    test_collective();
    test_making();
    mt_stream_free(stream);
    mt_device_close(device);
    MPI_Finalize();
    return 0;
}
