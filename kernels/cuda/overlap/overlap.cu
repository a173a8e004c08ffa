/* The first kernel of all runs of overlapped GEMMs but those of one kernel that puts itself. */
#include "kernels/cuda/window/window.cuh"

/* Count the epoch up, and write it to words[count], which copy engines put into peers' flags; or 0, if someone has given
 * up: then nothing more is told. One block. */
extern "C" __global__ void overlap_begin(u64 *epoch, u64 *words, i64 count, const __grid_constant__ watch w) {
    __shared__ u64 told;
    u64 now = *epoch + 1;
    if (threadIdx.x == 0) told = count && word_load(w.aborted) ? 0 : now;
    __syncthreads();
    if (threadIdx.x == 0) *epoch = now;
    for (i64 i = threadIdx.x; i < count; i += blockDim.x) words[i] = told;
}
