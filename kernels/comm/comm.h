/* Communicators: run schedules between ranks.
 *
 *     mt_comm_mpi_new(&mpi_comm, &comm, &err);
 *     algorithm->schedule(&problem, &schedule);
 *     mt_comm_run(comm, &problem, &schedule, group, buffer, tag, 60, &err);
 *     mt_comm_free(comm);
 *
 * `mt_comm` is an interface with three implementations: MPI (mpi.c, a process for each rank), threads of one process
 * (local.c; for tests, and for commands that run on one rank) and NCCL (kernels/cuda/nccl/comm.c, a GPU for each rank).
 * Only one thread at a time may use a communicator. A communicator either runs problems (CPU) or queues them (GPU). */
#ifndef MT_KERNELS_COMM_COMM_H
#define MT_KERNELS_COMM_COMM_H

#include "kernels/coll/coll.h"
#include "kernels/coll/nccl_unequal.h"
#include "kernels/comm/rma.h"

struct mt_comm;
struct mt_window;

/* The operands of a collective without packing: n arrays, each from from[i] to to[i], which may be equal (in place).
 *
 *   all_reduce      count[i] elements
 *   reduce_scatter  from[i]: a block of count[i] for each rank; to[i]: this rank's
 *   all_gather      from[i]: this rank's block of count[i]; to[i]: all ranks'
 *
 * With `root`, array i of a reduce_scatter (all_gather) is one block, reduced to (broadcast from) rank root[i] of the
 * group; to[i] (from[i]) is null on the other ranks. */
struct mt_comm_arrays {
    int n;
    const int64_t *count;
    const int *root; /* or null */
    const void *const *from;
    void *const *to;
};
struct mt_comm_class {
    const char *name;
    /* Run one rank's schedule to its end. `group[p]` is the communicator's rank of the group's place p; collectives on
     * different streams have different tags. buffer[0..1] are the problem's, of type acc; the communicator allocates
     * buffer 2 (scratch). MT_ESTALL after `deadline_s` without progress; the message names the peers waited for. */
    enum mt_status (*run)(struct mt_comm *comm, const struct mt_coll *problem, const struct mt_schedule *schedule,
                          const int *group, void *const buffer[2], int tag, double deadline_s, struct mt_err *err);
    /* Queue one rank's part of a problem on `stream`, the device's own type of stream (kernels/cuda/nccl/comm.h), and
     * return. The communicator may use another algorithm than the schedule's. Null: there is `run` instead. */
    enum mt_status (*queue)(struct mt_comm *comm, const void *stream, const struct mt_coll *problem,
                            const struct mt_schedule *schedule, const int *group, void *const buffer[2], int tag,
                            struct mt_err *err);
    /* As `queue`, on arrays of type problem.wire; their number and lengths are equal on all ranks of the group. Null:
     * messages must be packed. */
    enum mt_status (*queue_arrays)(struct mt_comm *comm, const void *stream, const struct mt_coll *problem,
                                   const int *group, const struct mt_comm_arrays *arrays, struct mt_err *err);
    /* Set where queue_arrays is: whether blocks of unequal sizes are faster as arrays with roots than as one packed
     * message. */
    bool (*prefers_roots)(struct mt_comm *comm, const struct mt_coll *problem, const int *group);
    /* Of one whose ranks may move messages through a window in their devices' memory (kernels/device/window.h), of all
     * its ranks: how large one it wants, 0 for none; the same on all ranks. use_window: from now on it may use this
     * one, new; null: no more, and nothing that does is queued. Both null: never. */
    enum mt_status (*window_bytes)(struct mt_comm *comm, int64_t *size_bytes, struct mt_err *err);
    enum mt_status (*use_window)(struct mt_comm *comm, struct mt_window *window, struct mt_err *err);
    /* Null: it has no one-sided access (mt_comm_expose). */
    enum mt_status (*expose)(struct mt_comm *comm, void *memory, int64_t size_bytes, struct mt_rma **rma,
                             struct mt_err *err);
    void (*release)(struct mt_comm *comm);
};
struct mt_comm {
    const struct mt_comm_class *class;
    int rank, nranks;
    const int *names; /* [nranks]: by which messages name ranks, the caller's; null: by their numbers */
    /* Of one that moves devices' memory: the same ranks' communicator for their hosts, freed with it; or null. */
    struct mt_comm *host;
};

/* Messages name ranks by names[nranks] from now on: those of its host communicator too. */
static inline void mt_comm_name_ranks(struct mt_comm *comm, const int *names) {
    comm->names = names;
    if (comm->host) comm->host->names = names;
}

static inline int mt_comm_rank_name(const struct mt_comm *comm, int rank) {
    return comm->names ? comm->names[rank] : rank;
}

static inline enum mt_status mt_comm_run(struct mt_comm *comm, const struct mt_coll *problem,
                                         const struct mt_schedule *schedule, const int *group, void *const buffer[2],
                                         int tag, double deadline_s, struct mt_err *err) {
    return comm->class->run(comm, problem, schedule, group, buffer, tag, deadline_s, err);
}

/* Expose memory[size_bytes] to all ranks of the communicator (rma.h); collective, the sizes may differ. MT_EMISSING
 * where the communicator has no one-sided access. */
enum mt_status mt_comm_expose(struct mt_comm *comm, void *memory, int64_t size_bytes, struct mt_rma **rma,
                              struct mt_err *err);

/* Over MPI: duplicates the communicator `mpi_comm` (an MPI_Comm, passed by address so that this header needs no mpi.h).
 * It sleeps while it waits, to leave the core to computation. */
enum mt_status mt_comm_mpi_new(const void *mpi_comm, struct mt_comm **comm, struct mt_err *err);

/* The time for which a rank that has been idle for idle_s sleeps between two polls; 0: it polls without sleeping. So
 * the rank that arrives last finds the others asleep for half of this time on average. A rank whose other threads
 * compute leaves them the core sooner: each of them says when it begins and when it ends. Any thread may call. */
double mt_comm_backoff_s(double idle_s, bool computes);
void mt_comm_computing(bool begins);
bool mt_comm_computes(void);

/* Over NCCL, for devices of kind "cuda": one rank makes an id and sends it to all; then all make the communicator at
 * the same time, each with its device open. It queues collectives on the device's streams. Waits for other ranks, here
 * and in queued work, end after deadline_s with MT_ESTALL. mt_comm_nccl_impl: from now on use this implementation for
 * blocks of unequal sizes, where it serves them; to be called on all ranks. */
enum { MT_COMM_NCCL_ID_BYTES = 128 };
enum mt_status mt_comm_nccl_id(void *id, struct mt_err *err);
enum mt_status mt_comm_nccl_new(const void *id, int rank, int nranks, double deadline_s, struct mt_comm **comm,
                                struct mt_err *err);
void mt_comm_nccl_impl(struct mt_comm *comm, enum mt_nccl_impl impl);

/* `nranks` communicators for as many threads of this process; each is freed on its own. */
void mt_comm_local_new(int nranks, struct mt_comm **comms);

void mt_comm_free(struct mt_comm *comm);

#endif
