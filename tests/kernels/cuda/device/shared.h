/* A GPU for each rank of a test, shared where there are too few: then NCCL is told that ranks are on different hosts.
 */
#ifndef MT_TESTS_KERNELS_CUDA_DEVICE_SHARED_H
#define MT_TESTS_KERNELS_CUDA_DEVICE_SHARED_H

#include <mpi.h>

#include "kernels/device/device.h"
#include "tests/check.h"

/* Collective. Null on all ranks where one has no GPU, which says why. */
static inline struct mt_device *open_shared_gpu(int rank) {
    struct mt_device *device = NULL;
    struct mt_err err = MT_ERR_INIT;
    char name[32];
    snprintf(name, sizeof name, "cuda:%d", rank);
    int own = mt_device_open(name, &device, &err) == MT_OK, all;
    MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (all) return device;
    if (own) mt_device_close(device);
    snprintf(name, sizeof name, "rank%d", rank);
    setenv("NCCL_HOSTID", name, 1);
    setenv("NCCL_P2P_DISABLE", "1", 1);
    setenv("NCCL_SHM_DISABLE", "1", 1);
    setenv("NCCL_IB_DISABLE", "1", 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    err = (struct mt_err)MT_ERR_INIT;
    own = mt_device_open("cuda:0", &device, &err) == MT_OK;
    CHECK(own || err.status == MT_EMISSING || err.status == MT_EINPUT, "%s", err.text);
    MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!own) printf("skipped: rank %d: %s\n", rank, err.text);
    if (own && !all) mt_device_close(device);
    return all ? device : NULL;
}

#endif
