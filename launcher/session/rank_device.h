/* The device that a rank uses, and the communicator between ranks.
 *
 *     mt_rank_device_open(comm, "cuda", &device, err);            // on all ranks, or on none
 *     mt_rank_wire_open(comm, "cuda", deadline_s, &wire, err);    // likewise
 *     ...
 *     mt_comm_free(wire); mt_device_close(device);
 *
 * Ranks of a host that see the same GPUs take them in order of rank; a launcher may instead show each rank its own.
 * Refused, with the ranks named: CPUs and GPUs in one job, more ranks than GPUs, two ranks with one GPU, different
 * versions of NCCL. */
#ifndef MT_LAUNCHER_SESSION_RANK_DEVICE_H
#define MT_LAUNCHER_SESSION_RANK_DEVICE_H

#include <mpi.h>

#include "kernels/comm/comm.h"
#include "kernels/device/device.h"
#include "kernels/device/gpu.h"

/* Collective. kind: "cpu" or "cuda". */
enum mt_status mt_rank_device_open(MPI_Comm comm, const char *kind, struct mt_device **device, struct mt_err *err);

/* The same in two parts, for a job with ranks that are idle and open no device: _choose over all ranks, so that every
 * rank's GPU is the same whoever is idle (`used`: this rank will open it; others may lack a driver, and GPUs); _take
 * over those that open theirs. */
struct mt_rank_device {
    char kind[32];
    struct mt_gpus gpus;
    int index; /* of the GPU */
};
enum mt_status mt_rank_device_choose(MPI_Comm comm, const char *kind, bool used, struct mt_rank_device *choice,
                                     struct mt_err *err);
enum mt_status mt_rank_device_take(MPI_Comm comm, const struct mt_rank_device *choice, struct mt_device **device,
                                   struct mt_err *err);

/* Collective: NCCL between GPUs; MPI for CPUs and for a single rank. */
enum mt_status mt_rank_wire_open(MPI_Comm comm, const char *kind, double deadline_s, struct mt_comm **wire,
                                 struct mt_err *err);

/* Collective over the ranks of a host: which of the GPUs that this rank sees it uses. */
enum mt_status mt_rank_gpu(MPI_Comm host, const struct mt_gpus *gpus, int *index, struct mt_err *err);

#endif
