/* The first kernel of all runs of overlapped GEMMs but those of one kernel that puts itself. */

/* Count the epoch up, and write it to words[count], which copy engines put into peers' flags. One block. */
extern "C" __global__ void overlap_begin(u64 *epoch, u64 *words, i64 count) {
    u64 now = *epoch + 1;
    __syncthreads();
    if (threadIdx.x == 0) *epoch = now;
    for (i64 i = threadIdx.x; i < count; i += blockDim.x) words[i] = now;
}
