/* Inside the communicator over NCCL: what comm.c (its life), group.c (its groups) and problem.c (problems)
 * share. */
#ifndef MT_KERNELS_CUDA_NCCL_INTERNAL_H
#define MT_KERNELS_CUDA_NCCL_INTERNAL_H

#include <nccl.h>

#include "kernels/comm/comm.h"
#include "kernels/cuda/driver/driver.h"

/* A group that is not all ranks in order; place p of the group is its rank p. */
struct cuda_nccl_group {
    struct cuda_nccl_group *next;
    ncclComm_t nccl;
    int n;
    int ranks[];
};

/* Memory of a stream for stages. What was outgrown is kept: graphs may use it. */
struct cuda_nccl_stage {
    struct cuda_nccl_stage *next;
    CUstream stream;
    CUdeviceptr memory;
    int64_t size_bytes;
};

struct nccl {
    struct mt_comm comm;
    struct nccl *next; /* of all that there are */
    double deadline_s; /* until NCCL must have done what it was told */
    enum mt_nccl_impl way;
    ncclComm_t world; /* null: aborted */
    struct cuda_nccl_group *groups;
    struct cuda_nccl_stage *stages;
    bool broken;
};

enum mt_status cuda_nccl_fail(struct mt_err *err, ncclResult_t result, const char *what);

/* Until NCCL has queued what it was told by a call that returned `result`, which may take answers of other ranks:
 * MT_ESTALL after the communicator's deadline. A failure breaks the communicator. */
enum mt_status cuda_nccl_settle(struct nccl *nccl, ncclComm_t comm, ncclResult_t result, const char *what,
                                struct mt_err *err);

/* A communicator of NCCL for rank `rank` of `nranks`, all of which are here together. */
enum mt_status cuda_nccl_join(struct nccl *nccl, const ncclUniqueId *id, int rank, int nranks, ncclComm_t *comm,
                              struct mt_err *err);

/* That of the problem's group, made when the group is first met. */
enum mt_status cuda_nccl_comm_of(struct nccl *nccl, const struct cuda_queue *queue, const struct mt_coll *problem,
                                 const int *group, ncclComm_t *comm, struct mt_err *err);

/* How a ReduceScatter or AllGather is asked for: as told, if that serves, or the cheapest. */
enum mt_nccl_impl cuda_nccl_impl_of(const struct nccl *nccl, const struct mt_coll *problem);

enum mt_status cuda_nccl_problem(struct nccl *nccl, const struct cuda_queue *queue, const struct mt_coll *problem,
                                 const int *group, void *const buffer[2], struct mt_err *err);
enum mt_status cuda_nccl_arrays(struct nccl *nccl, const struct cuda_queue *queue, const struct mt_coll *problem,
                                const int *group, const struct mt_comm_arrays *arrays, struct mt_err *err);

#endif
