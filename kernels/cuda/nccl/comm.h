/* Communicators over NCCL, one GPU a rank, for the device of the current context. Problems are queued (comm.h,
 * `queue`); what `queue` calls the stream is a const struct cuda_queue *.
 *
 *     char id[MT_COMM_NCCL_ID_BYTES];
 *     if (rank == 0) cuda_nccl_id(id, &err);
 *     MPI_Bcast(id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
 *     cuda_nccl_new(id, rank, nranks, &comm, &err); // all ranks together
 *     ...
 *     mt_comm_free(comm);
 *
 * A group other than all ranks in their order gets a communicator of its own when it is first met, and memory to
 * convert messages in grows as larger ones are met: so a step must have run once before it is captured into a graph.
 * Members of groups must meet them in the same order. Graphs that hold its calls must be destroyed before it is freed:
 * NCCL waits for that, here some seconds at most. Queueing takes the host 65 to 110 us a call, as NCCL does it in
 * a thread of its own where it may not block (10 us otherwise); in a graph it costs nothing. */
#ifndef MT_KERNELS_CUDA_NCCL_COMM_H
#define MT_KERNELS_CUDA_NCCL_COMM_H

#include "kernels/comm/comm.h"

/* What one rank makes and all ranks must have; then all make the communicator, which waits for all. Every wait for
 * other ranks, then and later, ends with MT_ESTALL after deadline_s. */
enum mt_status cuda_nccl_id(void *id, struct mt_err *err);
enum mt_status cuda_nccl_new(const void *id, int rank, int nranks, double deadline_s, struct mt_comm **comm,
                             struct mt_err *err);

/* kernels/coll/nccl_impl.h */
void cuda_nccl_impl(struct mt_comm *comm, enum mt_nccl_impl way);

/* What has gone wrong with queued work of any communicator, as far as it is known. Whoever waits for a stream asks from
 * time to time. */
enum mt_status cuda_nccl_check_all(struct mt_err *err);

/* End what is queued on all communicators, wherever it stands, so that streams come to an end; they can then only be
 * freed. Waits for some seconds at most. */
void cuda_nccl_abort_all(void);

#endif
