/* Signals and waits as work of a stream: a thread, and a warp. All that the stream did before has been done for the
 * whole system when a kernel begins; so what a signal releases are its own reads alone. */
#include "kernels/cuda/window/window.cuh"

/* Once a wait of the stream has been given up, peers are told nothing more. */
extern "C" __global__ void signal_on_stream(u64 *word, u64 value, int adds, const __grid_constant__ watch w) {
    if (!word_load(w.aborted)) signal<THREAD>(word, value, adds ? ADD : SET);
}

/* rank, window: for the host's message, as c is. */
extern "C" __global__ void __launch_bounds__(32)
    wait_on_stream(const u64 *word, int c, u64 value, u64 rank, u64 window, const __grid_constant__ watch w) {
    wait<WARP>(word, (cmp)c, value, w, [&] {
        w.stalled[4] = (u64)c, w.stalled[5] = rank, w.stalled[6] = window;
        return true;
    });
}
