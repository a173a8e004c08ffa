/* The executor over MPI, against the interpreter: every process builds the same random programs and runs its rank.
 * ranks: 1 2 3 */
#include <mpi.h>

#include "tests/launcher/execute/executor_round.h"
#include "tests/synth/positions.h"

static int rank, n;

static void test_choice(const struct mt_graph *g, const struct mt_choice *choice, struct mt_comm *comm,
                        int64_t staging_bytes) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_program train, forward;
    CHECK_OK(mt_build(g, choice, &train, &err), err);
    CHECK_OK(mt_build_forward(g, choice, &forward, &err), err);
    train.staging_bytes = forward.staging_bytes = staging_bytes;
    struct round round = {.graph = g, .train = &train, .forward = &forward, .fuse = true};
    begin_round(&round);
    run_rank(&round, rank, comm);
    end_round(&round);
    mt_program_release(&train);
    mt_program_release(&forward);
}

/* All operators split over positions, in ragged shares, in one micro-batch and in two. */
static void test_positions(struct mt_comm *comm) {
    static const int64_t sizes[3][3] = {{11}, {7, 4}, {4, 2, 5}};
    struct mt_graph *g = training_graph("gpt2:layers=2,heads=2,embed=6,context=11,vocab=11,bias=1,tied=1", 6, 0);
    for (int64_t micro = 0; micro <= 3; micro += 3) {
        struct mt_arena arena = MT_ARENA_INIT;
        struct mt_choice choice;
        positions_choice(&arena, g, n, sizes[n - 1], micro, &choice);
        test_choice(g, &choice, comm, micro ? 400 : 0);
        mt_arena_release(&arena);
    }
    mt_graph_free(g);
}

int main(int argc, char **argv) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_comm *comm;
    MPI_Comm world = MPI_COMM_WORLD;
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    CHECK(level >= MPI_THREAD_SERIALIZED, "the communication thread may call MPI");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    CHECK_OK(mt_comm_mpi_new(&world, &comm, &err), err);
    for (int round = 0; round < 9; round++) {
        struct mt_arena arena = MT_ARENA_INIT;
        struct mt_choice choice;
        int kind = round % 3;
        struct mt_graph *g =
            training_graph("gpt2:layers=2,heads=2,embed=6,context=4,vocab=11,bias=1,tied=1", 6, kind == 2 ? 0 : 0.1);
        if (kind == 2)
            choice_in_step(&arena, g, n, 2, true, &choice);
        else
            random_choice(&arena, g, n, kind == 0, &choice);
        for (int r = 0; r < n && kind == 1; r++) choice.micro[r] = 1 + below(2);
        test_choice(g, &choice, comm, 0);
        test_choice(g, &choice, comm, 400); /* collectives in chunks */
        mt_arena_release(&arena);
        mt_graph_free(g);
    }
    test_positions(comm);
    mt_comm_free(comm);
    MPI_Finalize();
    return 0;
}
