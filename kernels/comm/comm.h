/* Communicators: run schedules between ranks.
 *
 * `mt_comm` is a small interface with three users: MPI (mpi.c, one process a rank), threads of one process
 * (local.c; tests, and commands that run on one rank) and NCCL (cuda/comm_nccl.c, one GPU a rank). Only one thread
 * at a time may use a communicator. A communicator either runs problems (CPU) or queues them (GPU).
 */
#ifndef MT_KERNELS_COMM_COMM_H
#define MT_KERNELS_COMM_COMM_H

#include "kernels/coll/coll.h"
#include "kernels/coll/nccl_impl.h"

struct mt_comm;

/* What a collective moves, where it lies apart: n arrays, each from from[i] to to[i], which may be the same memory.
 *
 *   all_reduce      count[i] elements
 *   reduce_scatter  from[i]: a block of count[i] for each rank; to[i]: this rank's
 *   all_gather      from[i]: this rank's block of count[i]; to[i]: all ranks'
 *
 * With `root` an array of the last two is one block, which is reduced to, or gathered from, rank root[i] of the group;
 * to[i], or from[i], is null on others. */
struct mt_comm_arrays {
    int n;
    const int64_t *count;
    const int *root; /* or null */
    const void *const *from;
    void *const *to;
};
struct mt_comm_class {
    const char *name;
    /* Run one rank's schedule to its end. `group[p]` is the communicator's rank of the group's place p;
     * `tag` tells collectives on different streams apart. buffer[0..1] are the problem's, of type acc;
     * buffer 2 is taken by the communicator. MT_ESTALL after `deadline_s` without any progress, naming the
     * peers that are waited for. */
    enum mt_status (*run)(struct mt_comm *comm, const struct mt_coll *problem, const struct mt_schedule *schedule,
                          const int *group, void *const buffer[2], int tag, double deadline_s, struct mt_err *err);
    /* Put one rank's part of a problem on `stream` (what the device takes its work from: cuda/comm_nccl.h) and return.
     * How it is done is the communicator's own affair: the schedule may tell it, and need not. Null: there is `run`. */
    enum mt_status (*queue)(struct mt_comm *comm, const void *stream, const struct mt_coll *problem,
                            const struct mt_schedule *schedule, const int *group, void *const buffer[2], int tag,
                            struct mt_err *err);
    /* As queue, of arrays that lie apart, of type problem.wire; all ranks of the group have as many, as long. Null: a
     * message must lie in one. */
    enum mt_status (*queue_arrays)(struct mt_comm *comm, const void *stream, const struct mt_coll *problem,
                                   const int *group, const struct mt_comm_arrays *arrays, struct mt_err *err);
    /* Set where queue_arrays is. Whether it would rather have blocks that are not alike as arrays with roots than as
     * one message. */
    bool (*parts_blocks)(struct mt_comm *comm, const struct mt_coll *problem);
    void (*release)(struct mt_comm *comm);
};
struct mt_comm {
    const struct mt_comm_class *class;
    int rank, nranks;
};

static inline enum mt_status mt_comm_run(struct mt_comm *comm, const struct mt_coll *problem,
                                         const struct mt_schedule *schedule, const int *group, void *const buffer[2],
                                         int tag, double deadline_s, struct mt_err *err) {
    return comm->class->run(comm, problem, schedule, group, buffer, tag, deadline_s, err);
}

/* Over MPI: a duplicate of the communicator `mpi_comm` (an MPI_Comm, passed by address so that this header needs
 * no mpi.h). While it waits it sleeps, so that the core is left to computation. */
enum mt_status mt_comm_mpi_new(const void *mpi_comm, struct mt_comm **comm, struct mt_err *err);

/* How long it sleeps at a time when nothing has happened for idle_s; 0: it polls. Whoever keeps others waiting finds
 * them asleep, half of that in the mean. */
double mt_comm_nap_s(double idle_s);

/* Over NCCL, for devices of kind "cuda": one rank makes an id, all of them hear of it and make the communicator
 * together, each with its device open. It queues collectives on the device's streams. Waiting for other ranks, here and
 * in what is queued, ends after deadline_s with MT_ESTALL. mt_comm_nccl_impl: blocks of unequal sizes go this way from
 * now on, where it serves them; on all ranks alike. */
enum { MT_COMM_NCCL_ID_BYTES = 128 };
enum mt_status mt_comm_nccl_id(void *id, struct mt_err *err);
enum mt_status mt_comm_nccl_new(const void *id, int rank, int nranks, double deadline_s, struct mt_comm **comm,
                                struct mt_err *err);
void mt_comm_nccl_impl(struct mt_comm *comm, enum mt_nccl_impl way);

/* `nranks` communicators that talk through memory, for as many threads; freed one by one. */
void mt_comm_local_new(int nranks, struct mt_comm **comms);

void mt_comm_free(struct mt_comm *comm);

#endif
