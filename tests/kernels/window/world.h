/* All processes of a test of windows over MPI, as one communicator of Motley's. One-sided puts go by messages, which
 * every build of Open MPI has, unless OMPI_MCA_osc says otherwise. */
#ifndef MT_TESTS_KERNELS_WINDOW_WORLD_H
#define MT_TESTS_KERNELS_WINDOW_WORLD_H

#include <mpi.h>
#include <stdlib.h>

#include "kernels/comm/comm.h"
#include "tests/check.h"

struct world {
    int rank, n;
    struct mt_comm *comm;
};

static struct world world_open(int *argc, char ***argv) {
    struct world world;
    struct mt_err err = MT_ERR_INIT;
    MPI_Comm all = MPI_COMM_WORLD;
    int level;
    setenv("OMPI_MCA_osc", "pt2pt", 0);
    MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(all, &world.rank);
    MPI_Comm_size(all, &world.n);
    CHECK_OK(mt_comm_mpi_new(&all, &world.comm, &err), err);
    return world;
}

static void world_close(struct world *world) {
    mt_comm_free(world->comm);
    MPI_Finalize();
}

#endif
