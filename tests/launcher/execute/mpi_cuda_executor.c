/* Captured programs on several GPUs, with NCCL's collectives in the graph: see captured_round.h. Random choices of
 * every rule, bodies that communicate, uneven shares; the second half with a part of the multiprocessors on rank 1.
 * Then a peer that does not come: the run ends within its deadline, and names the collective. ranks: 2 */
#include <mpi.h>
#include <unistd.h>

#include "tests/launcher/execute/captured_round.h"

enum { SKIPPED = 77 };

static int rank, n;
static struct mt_device *device;

static struct mt_comm *comm_of(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_comm *comm;
    char id[MT_COMM_NCCL_ID_BYTES];
    if (rank == 0) CHECK_OK(mt_comm_nccl_id(id, &err), err);
    MPI_Bcast(id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    CHECK_OK(mt_comm_nccl_new(id, rank, n, 60, &comm, &err), err);
    return comm;
}

static void test_choices(struct mt_comm *comm) {
    for (int round = 0; round < 6; round++) {
        struct mt_arena arena = MT_ARENA_INIT;
        struct mt_choice choice;
        struct mt_graph *g = training_graph_of("gpt2:layers=2,heads=2,embed=16,context=8,vocab=24,bias=1,tied=1",
                                               round % 2 ? MT_BF16 : MT_F32, 6, round % 3 == 2 ? 0 : 0.1);
        if (round % 3 == 2)
            choice_in_step(&arena, g, n, 2, true, &choice);
        else
            random_choice(&arena, g, n, round % 3 == 0, &choice);
        for (int r = 0; r < n && round % 3 == 1; r++) choice.micro[r] = 1 + below(2);
        choice.decisions.gradient_wire = g->acc;
        captured_compare(g, &choice, rank, device, comm);
        mt_arena_release(&arena);
        mt_graph_free(g);
    }
}

static bool names_collective(const struct mt_lowered *low, const char *text) {
    for (int i = 0; i < low->ninstrs; i++)
        if (low->instrs[i].what == MT_LOWERED_COLLECTIVE && strstr(text, low->instrs[i].name)) return true;
    return false;
}

/* Rank 0 makes one step more than the others. */
static void test_stall(struct mt_comm *comm) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_graph *g =
        training_graph_of("gpt2:layers=1,heads=2,embed=16,context=8,vocab=24,bias=1,tied=1", MT_F32, 6, 0);
    struct captured_round round = {.graph = g, .device = device, .comm = comm};
    struct mt_choice choice;
    struct mt_executor *ex;
    random_choice(&arena, g, n, false, &choice);
    choice.decisions.gradient_wire = g->acc;
    CHECK_OK(mt_build(g, &choice, &round.train, &err), err);
    struct mt_lower_options options = {.fuse = true,
                                       .bandwidth_Bps = 1e9,
                                       .scratch_bytes = captured_scratch,
                                       .context = device,
                                       .chunks = true,
                                       .wire_sums = true};
    CHECK_OK(mt_lower(&round.train, rank, &options, &round.low[MT_RUN_TRAIN], &err), err);
    CHECK_OK(mt_executor_new(device, comm, round.low[MT_RUN_TRAIN], NULL, 1, &ex, &err), err);
    captured_set_states(&round, ex);
    struct captured_end end = {0};
    captured_runs(&round, ex, MT_RUN_TRAIN, EVALUATED_AFTER, 1, true, &end);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        struct mt_clock clock = {.step = 10, .seed = SEED, .lr = 0.01};
        struct mt_executor_progress sight;
        captured_give(&round, ex, MT_RUN_TRAIN, 10, false);
        CHECK_OK(mt_executor_submit(ex, MT_RUN_TRAIN, &clock, &err), err);
        mt_sleep_s(0.5);
        mt_executor_query(ex, &sight);
        CHECK(sight.waits && names_collective(round.low[MT_RUN_TRAIN], sight.text), "\"%s\"", sight.text);
        CHECK_EQ(mt_executor_finish(ex, &err), MT_ESTALL);
        CHECK(names_collective(round.low[MT_RUN_TRAIN], err.text), "%s", err.text);
        printf("%s\n", err.text);
        fflush(stdout);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    struct mt_err err = MT_ERR_INIT;
    char kind[32];
    int level;
    setenv("MOTLEY_TUNE", "off", 0); /* what tuning finds has tests of its own; here it would take minutes */
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    snprintf(kind, sizeof kind, "cuda:%d", rank);
    int opened = mt_device_open(kind, &device, &err) == MT_OK, all_opened;
    CHECK(opened || err.status == MT_EMISSING || err.status == MT_EINPUT, "%s", err.text);
    MPI_Allreduce(&opened, &all_opened, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!all_opened) {
        if (!opened) printf("skipped: rank %d: %s\n", rank, err.text);
        MPI_Finalize();
        return SKIPPED;
    }
    struct mt_comm *comm = comm_of();
    test_choices(comm);
    mt_comm_free(comm);
    mt_device_close(device);
    CHECK_OK(mt_device_open(kind, &device, &err), err);
    if (rank == 1) CHECK_OK(mt_device_emulate_sms(device, 32, &err), err);
    comm = comm_of();
    test_choices(comm);
    test_stall(comm);
    MPI_Finalize();
    fflush(stdout);
    _exit(0); /* the GPU of rank 0 is in a collective, which nothing but the end of the process ends */
}
