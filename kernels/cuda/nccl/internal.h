/* Inside the communicator over NCCL: what comm.c (creation, errors, release), group.c (communicators of groups) and
 * problem.c (collectives) share. */
#ifndef MT_KERNELS_CUDA_NCCL_INTERNAL_H
#define MT_KERNELS_CUDA_NCCL_INTERNAL_H

#include <nccl.h>

#include "kernels/cuda/driver/driver.h"
#include "kernels/cuda/engine/engine.h"
#include "kernels/cuda/nccl/comm.h"

/* A group other than all ranks in order; ranks[p] is rank p of NCCL's communicator. */
struct cuda_nccl_group {
    struct cuda_nccl_group *next;
    ncclComm_t nccl;
    CUgraph graph; /* null, or as struct nccl's */
    int n;
    int ranks[];
};

/* A staging buffer of a stream. One that has become too small is kept: graphs may use it. */
struct cuda_nccl_stage {
    struct cuda_nccl_stage *next;
    CUstream stream;
    CUdeviceptr memory;
    int64_t size_bytes;
};

struct nccl {
    struct mt_comm comm;
    struct nccl *next; /* of all that there are */
    double deadline_s; /* for every call of NCCL */
    enum mt_nccl_impl impl;
    ncclComm_t world; /* null: aborted */
    struct cuda_nccl_group *groups;
    struct cuda_nccl_leaving *leaving; /* what was aborted, and may not have ended; or null */
    struct cuda_nccl_stage *stages;
    bool captured; /* some of its work */
    CUgraph graph; /* of order.c; null: not captured */
    bool broken;
    struct cuda_engines *engines; /* null: NCCL moves all */
};

enum mt_status cuda_nccl_fail(struct mt_err *err, ncclResult_t result, const char *what);

/* Wait until NCCL has enqueued the work of a call that returned `result`, for which it may need answers of other ranks.
 * MT_ESTALL after the communicator's deadline. A failure breaks the communicator. */
enum mt_status cuda_nccl_wait(struct nccl *nccl, ncclComm_t comm, ncclResult_t result, const char *what,
                              struct mt_err *err);

/* NCCL's communicator for rank `rank` of `nranks`; all of them call this. */
enum mt_status cuda_nccl_join(struct nccl *nccl, const ncclUniqueId *id, int rank, int nranks, ncclComm_t *comm,
                              struct mt_err *err);

/* The communicator of the problem's group, created when the group is first met. */
enum mt_status cuda_nccl_comm_of(struct nccl *nccl, const struct cuda_queue *queue, const struct mt_coll *problem,
                                 const int *group, ncclComm_t *comm, struct mt_err *err);

/* Before work is enqueued: whatever was captured, it is done in the order in which it is enqueued. */
enum mt_status cuda_nccl_keep_order(struct nccl *nccl, const struct cuda_queue *queue, struct mt_err *err);
void cuda_nccl_forget_order(struct nccl *nccl); /* before communicators are freed */

/* The implementation of a ReduceScatter or AllGather: nccl->impl if it can run the problem, else the cheapest. */
enum mt_nccl_impl cuda_nccl_impl_of(const struct nccl *nccl, const struct mt_coll *problem);

/* Of the schedule two facts are used: by_node, that it goes in phases within and across nodes
 * (kernels/coll/nccl_nodes.h), if there is a list for the problem; located, that its steps are made. Null: neither. */
enum mt_status cuda_nccl_problem(struct nccl *nccl, const struct cuda_queue *queue, const struct mt_coll *problem,
                                 const struct mt_schedule *schedule, const int *group, void *const buffer[2],
                                 struct mt_err *err);
enum mt_status cuda_nccl_arrays(struct nccl *nccl, const struct cuda_queue *queue, const struct mt_coll *problem,
                                const int *group, const struct mt_comm_arrays *arrays, struct mt_err *err);
enum mt_status cuda_nccl_messages(struct nccl *nccl, const struct cuda_queue *queue,
                                  const struct cuda_nccl_message *messages, int count, const char *what,
                                  struct mt_err *err);

#endif
