/* Programs with overlapped instructions on GPUs, traced and captured: the same bits; and the losses of the same program
 * without them. By NCCL too, as where no rank reaches another's memory. Ranks share a GPU where there are too few: then
 * NCCL is told that they are on different hosts.
 * ranks: 3 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/kernels/cuda/device/shared.h"
#include "tests/launcher/execute/captured_round.h"
#include "tests/synth/programs.h"

static int rank, n;
static struct mt_device *device;

static struct mt_comm *comm_of(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_comm *comm;
    MPI_Comm all = MPI_COMM_WORLD;
    char id[MT_COMM_NCCL_ID_BYTES];
    if (rank == 0) CHECK_OK(mt_comm_nccl_id(id, &err), err);
    MPI_Bcast(id, sizeof id, MPI_BYTE, 0, all);
    CHECK_OK(mt_comm_nccl_new(id, rank, n, 60, &comm, &err), err);
    CHECK_OK(mt_comm_mpi_new(&all, &comm->host, &err), err);
    return comm;
}

/* What a choice's program reports; the number of its overlapped instructions. */
static int run_of(const struct mt_graph *g, const struct mt_choice *choice, struct mt_comm *comm,
                  struct captured_end *end) {
    struct captured_round round = {.graph = g, .device = device, .comm = comm};
    int overlapped = 0;
    captured_make(&round, choice, rank);
    for (int i = 0; i < round.low[MT_RUN_TRAIN]->ninstrs; i++)
        overlapped += round.low[MT_RUN_TRAIN]->instrs[i].what == MT_LOWERED_OVERLAP;
    captured_run(&round, true, end);
    for (int v = 0; v < g->nvalues; v++) free(end->states[v]);
    free(end->states);
    captured_release(&round);
    return overlapped;
}

static void test_round(struct mt_comm *comm, enum style style, enum mt_type type) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_choice choice;
    struct captured_end with, without;
    struct mt_graph *g =
        training_graph_of("gpt2:layers=1,heads=4,embed=32,context=8,vocab=24,bias=1,tied=1", type, 5, 0);
    make_choice(&arena, g, style, &choice);
    choice.decisions.gradient_wire = g->acc;
    captured_compare(g, &choice, rank, device, comm);
    int overlapped = run_of(g, &choice, comm, &with);
    choice.decisions.overlapped = MT_OVERLAPPED_NONE;
    CHECK_EQ(run_of(g, &choice, comm, &without), 0);
    CHECK(overlapped > 0, "style %d: nothing is overlapped", (int)style);
    double tolerance = type == MT_F32 ? 1e-5 : 2e-2;
    for (int i = 0; i < with.nreports; i++)
        CHECK_NEAR(with.reports[i][0], without.reports[i][0], tolerance * without.reports[i][0]);
    if (rank == 0)
        printf("style %d, %s: %d overlapped, loss sum %g\n", (int)style, mt_type_name(type), overlapped,
               with.reports[0][0]);
    mt_arena_release(&arena);
    mt_graph_free(g);
}

int main(int argc, char **argv) {
    int level;
    setenv("MOTLEY_TUNE", "off", 0);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    if (!(device = open_shared_gpu(rank))) {
        MPI_Finalize();
        return 77;
    }
    struct mt_comm *comm = comm_of();
    for (int style = OVERLAPPED; style <= OVERLAPPED_SUMS; style++)
        for (int half = 0; half < 2; half++) test_round(comm, (enum style)style, half ? MT_BF16 : MT_F32);
    setenv("MOTLEY_OVERLAP", "nccl", 1);
    for (int style = OVERLAPPED; style <= OVERLAPPED_SUMS; style++) test_round(comm, (enum style)style, MT_BF16);
    mt_comm_free(comm);
    mt_device_close(device);
    MPI_Finalize();
    return 0;
}
