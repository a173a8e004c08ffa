/* Communicators over NCCL, one GPU a rank, for the device of the current context. Collectives are enqueued (comm.h,
 * `queue`); its `stream` is a const struct cuda_queue *.
 *
 *     char id[MT_COMM_NCCL_ID_BYTES];
 *     if (rank == 0) cuda_nccl_id(id, &err);
 *     MPI_Bcast(id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
 *     cuda_nccl_new(id, rank, nranks, &comm, &err); // all ranks together
 *     ...
 *     mt_comm_free(comm);
 *
 * A group other than all ranks in their order gets a communicator of its own when it is first met, and staging buffers
 * grow with the messages: so a step must run once before it is captured into a graph. The members of groups must meet
 * them in the same order. Graphs with its collectives must be destroyed before the communicator is freed: NCCL waits
 * for that, here some seconds at most. To enqueue a collective takes the host 65 to 110 us, since a non-blocking
 * communicator does it in a thread of NCCL's (10 us otherwise); in a graph it costs nothing. */
#ifndef MT_KERNELS_CUDA_NCCL_COMM_H
#define MT_KERNELS_CUDA_NCCL_COMM_H

#include "kernels/comm/comm.h"

/* One rank creates the id and sends it to all others; then all ranks create the communicator, which waits for all.
 * Every wait for other ranks, then and later, ends with MT_ESTALL after deadline_s. */
enum mt_status cuda_nccl_id(void *id, struct mt_err *err);
enum mt_status cuda_nccl_new(const void *id, int rank, int nranks, double deadline_s, struct mt_comm **comm,
                             struct mt_err *err);

/* Queue messages of bytes between pairs of ranks as one group, in which none waits for another. Both sides of a pair
 * list its messages in the same order; `peer` is a rank of the communicator. `what` names the group in errors. */
struct cuda_queue;
struct cuda_nccl_message {
    void *data;
    int64_t size_bytes;
    int peer;
    bool sends;
};
enum mt_status cuda_nccl_exchange(struct mt_comm *comm, const struct cuda_queue *queue,
                                  const struct cuda_nccl_message *messages, int count, const char *what,
                                  struct mt_err *err);

/* kernels/coll/nccl_unequal.h */
void cuda_nccl_impl(struct mt_comm *comm, enum mt_nccl_impl impl);

/* The first asynchronous error of any communicator, as far as it is known. To be called from time to time while one
 * waits for a stream. */
enum mt_status cuda_nccl_check_all(struct mt_err *err);

/* Abort what is enqueued on all communicators, so that streams become idle. The communicators can then only be freed.
 * Waits for some seconds at most. */
void cuda_nccl_abort_all(void);

/* Whether threads still end communicators, freed ones too, and with them use the context. */
bool cuda_nccl_is_leaving(void);

#endif
