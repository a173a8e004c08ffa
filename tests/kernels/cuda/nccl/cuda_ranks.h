/* Ranks with a GPU each, and NCCL between them, for tests and benchmarks. After MPI_Init. */
#ifndef MT_TESTS_KERNELS_CUDA_NCCL_CUDA_RANKS_H
#define MT_TESTS_KERNELS_CUDA_NCCL_CUDA_RANKS_H

#include <mpi.h>
#include <stdio.h>

#include "kernels/device/device.h"
#include "tests/check.h"

/* Collective: the GPU of the rank's number on its host. False on all ranks where one has none. */
static inline bool cuda_ranks_open(struct mt_device **device) {
    struct mt_err err = MT_ERR_INIT;
    MPI_Comm host;
    char kind[32];
    int rank, place, opened, all;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &place);
    MPI_Comm_free(&host);
    snprintf(kind, sizeof kind, "cuda:%d", place);
    opened = mt_device_open(kind, device, &err) == MT_OK;
    CHECK(opened || err.status == MT_EMISSING || err.status == MT_EINPUT, "%s", err.text);
    MPI_Allreduce(&opened, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!opened) printf("skipped: rank %d: %s\n", rank, err.text);
    return all;
}

/* Collective: an id that all ranks have. */
static inline void cuda_ranks_id(char id[MT_COMM_NCCL_ID_BYTES]) {
    struct mt_err err = MT_ERR_INIT;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) CHECK_OK(mt_comm_nccl_id(id, &err), err);
    MPI_Bcast(id, MT_COMM_NCCL_ID_BYTES, MPI_BYTE, 0, MPI_COMM_WORLD);
}

/* Collective: all ranks' communicator. */
static inline struct mt_comm *cuda_ranks_comm(double deadline_s) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_comm *comm = NULL;
    char id[MT_COMM_NCCL_ID_BYTES];
    int rank, nranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    cuda_ranks_id(id);
    CHECK_OK(mt_comm_nccl_new(id, rank, nranks, deadline_s, &comm, &err), err);
    CHECK(comm->rank == rank && comm->nranks == nranks);
    return comm;
}

#endif
