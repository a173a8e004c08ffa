/* Tiles from the counter of fused.cu: each block takes one; or the blocks of a cluster take a pair, whose number the
 * first block passes on. */
#ifndef MT_KERNELS_CUDA_OVERLAP_PAIRS_CUH
#define MT_KERNELS_CUDA_OVERLAP_PAIRS_CUH

#include "kernels/cuda/overlap/fused/call.cuh"

/* Numbers of pairs that the first block of a cluster has taken, on their way to the second. It takes one while it loads
 * the pair before, whose first slab was let in by both blocks' consumers: they have multiplied the slab STAGES before
 * it, for whose pair the second block has read the number. So no place is written again before it was read. */
enum { HANDED = STAGES + 1 };
struct numbers {
    u64 there[HANDED];
    int number[HANDED];
};
__device__ inline void init_numbers(numbers &n) {
    for (int i = 0; i < HANDED; i++) barrier_init(shared_address(&n.there[i]), 1);
}
/* The word is there when the other block's barrier says so, which awaits its bytes. */
__device__ inline void send_word(const int *word, int value, const u64 *barrier, u32 rank) {
    asm volatile(
        "{.reg .b32 to, told;\nmapa.shared::cluster.u32 to, %0, %3;\nmapa.shared::cluster.u32 told, %2, %3;\n"
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [to], %1, [told];}" ::"r"(shared_address(word)),
        "r"(value), "r"(shared_address(barrier)), "r"(rank)
        : "memory");
}

/* The tiles that a block takes, one after the other; the warp that loads calls. */
struct taker {
    numbers &n;
    u32 rank;
    int place;
    u32 parity;
    __device__ inline int take(const call &c) {
        int i = 0;
        if (threadIdx.x % 32 == 0) {
            if (rank) {
                u32 barrier = shared_address(&n.there[place]);
                barrier_expect(barrier, sizeof(int));
                barrier_wait_for_cluster(barrier, parity);
                i = n.number[place];
            } else {
                i = (int)atomicAdd(c.work + TILES, 1);
                if (SHARE) send_word(&n.number[place], i, &n.there[place], 1);
            }
        }
        if (++place == HANDED) place = 0, parity ^= 1;
        return __shfl_sync(~0u, i, 0) * CLUSTER + (int)rank;
    }
};

#endif
