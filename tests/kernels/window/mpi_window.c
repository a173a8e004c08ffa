/* Windows over MPI: all ranks on one host; each on a host of its own, so that everything is MPI's; and hosts of two
 * ranks, where both ways meet. Which hosts they are on is only said: memory is not shared where they say so.
 * ranks: 2 3 5 */
#include <mpi.h>

#include <signal.h>
#include <unistd.h>

#include "kernels/comm/comm.h"
#include "tests/kernels/window/trials.h"
#include "tests/kernels/window/world.h"

static const uint64_t seed = 20261123;

/* The last rank is stopped, and is on a host of its own: puts to it do not hang, and it is named; then it goes on. */
static void test_stopped(struct mt_comm *comm, int rank, int n) {
    enum { BYTES = 8 << 20 };
    int node[TRIAL_RANKS], pid = (int)getpid();
    struct mt_err err = MT_ERR_INIT;
    struct mt_window *w;
    char *data = calloc(1, BYTES), peer[32];
    for (int r = 0; r < n; r++) node[r] = r;
    const int names[] = {7, 9};
    mt_comm_name_ranks(comm, names); /* messages have these */
    snprintf(peer, sizeof peer, "its puts to rank %d", names[n - 1]);
    CHECK_OK(mt_window_new(comm, node, BYTES, 1, &w, &err), err);
    MPI_Bcast(&pid, 1, MPI_INT, n - 1, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == n - 1) raise(SIGSTOP);
    if (!rank) {
        double begin_s = mt_now_s();
        mt_sleep_s(0.2);
        enum mt_status st = mt_window_put(w, 0, data, BYTES, n - 1, &err);
        if (!st) st = mt_window_quiet(w, &err);
        CHECK(st == MT_ESTALL && strstr(err.text, peer) && strstr(err.text, "rank 7 on "), "status %d: %s", (int)st,
              err.text);
        printf("a stopped rank on another host was named after %.1f s\n", mt_now_s() - begin_s);
        kill(pid, SIGCONT);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank) mt_window_abort(w, "the end of this test");
    mt_window_free(w);
    mt_comm_name_ranks(comm, NULL);
    MPI_Barrier(MPI_COMM_WORLD); /* `data` is still being put */
    free(data);
}

int main(int argc, char **argv) {
    struct world world = world_open(&argc, &argv);
    struct mt_comm *comm = world.comm;
    struct mt_err err = MT_ERR_INIT;
    int rank = world.rank, n = world.n;
    int node[TRIAL_RANKS];
    for (int map = 0; map < 3; map++) {
        struct mt_window *w;
        for (int r = 0; r < n; r++) node[r] = map == 1 ? 10 - r : r / 2;
        CHECK_OK(mt_window_new(comm, map ? node : NULL, TRIAL_BYTES, 60, &w, &err), err);
        for (int r = 0; r < n; r++)
            CHECK((mt_window_ptr(w, 0, r) != NULL) == (!map || node[r] == node[rank]), "map %d, rank %d", map, r);
        trial_exchange(w, 8, seed + (uint64_t)map);
        trial_barriers(w, 4, seed);
        trial_relay(w, 4, seed);
        trial_fence(w, 100, seed);
        mt_window_free(w);
        if (map == 2 && n < 3) continue; /* one host, as in map 0 */
        CHECK_OK(mt_window_new(comm, map ? node : NULL, TRIAL_BYTES, 0.5, &w, &err), err);
        trial_silence(w);
        MPI_Barrier(MPI_COMM_WORLD);
        if (!rank) mt_window_abort(w, "seen enough");
        mt_window_free(w);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (n == 2) test_stopped(comm, rank, n);
    /* More memory than there is. */
    struct mt_window *w;
    CHECK_EQ(mt_window_new(comm, NULL, (int64_t)1 << 50, 60, &w, &err), MT_ESYSTEM);
    CHECK(strstr(err.text, "/dev/shm"), "%s", err.text);
    world_close(&world);
    return 0;
}
