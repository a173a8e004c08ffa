/* One-sided operations queued on streams of CPUs, each rank a process: of one host, and each said to be on a host of
 * its own, so that all is MPI's, called by the stream's thread. ranks: 2 3 */
#include <mpi.h>

#include "tests/kernels/device/stream_trials.h"
#include "tests/kernels/window/world.h"

static const uint64_t seed = 20261129;

static struct mt_window *make(const struct world *world, bool apart, double deadline_s) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_window *window;
    int node[TRIAL_RANKS];
    for (int r = 0; r < world->n; r++) node[r] = r;
    CHECK_OK(mt_window_new(world->comm, apart ? node : NULL, TRIAL_BYTES, deadline_s, &window, &err), err);
    return window;
}

int main(int argc, char **argv) {
    struct world world = world_open(&argc, &argv);
    struct stream_rank s;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_device_open("cpu", &s.device, &err), err);
    CHECK_OK(mt_stream_new(s.device, "comm", &s.stream, &err), err);
    for (int apart = 0; apart < 2; apart++) {
        s.window = make(&world, apart, 60);
        stream_exchange(&s, 8, seed);
        stream_compare(&s);
        mt_window_free(s.window);
        s.window = make(&world, apart, 0.5);
        stream_silence(&s);
        MPI_Barrier(MPI_COMM_WORLD);
        if (!world.rank) {
            stream_check_silence(&s);
            mt_window_abort(s.window, "seen enough");
        }
        mt_window_free(s.window);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    s.window = make(&world, false, 60);
    stream_abort(&s);
    MPI_Barrier(MPI_COMM_WORLD);
    mt_window_free(s.window);
    mt_stream_free(s.stream);
    mt_device_close(s.device);
    world_close(&world);
    return 0;
}
