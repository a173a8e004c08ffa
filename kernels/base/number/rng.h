/* Counter-based random numbers: a value is a function of (seed, stream, index). So initialisation, dropout and data
 * order do not depend on the number of ranks or on the order in which they draw.
 *
 * Philox 4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC11. */
#ifndef MT_KERNELS_BASE_NUMBER_RNG_H
#define MT_KERNELS_BASE_NUMBER_RNG_H

#include <stdint.h>

/* The 128 random bits at counter (index, stream) under `seed`. */
static inline void mt_philox(uint64_t seed, uint64_t stream, uint64_t index, uint32_t out[4]) {
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32);
    uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c0 = n0, c1 = (uint32_t)p1, c2 = n2, c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* Word `index & 3` of block `index >> 2`: one 32-bit number per element index. */
static inline uint32_t mt_random_u32(uint64_t seed, uint64_t stream, uint64_t index) {
    uint32_t w[4];
    mt_philox(seed, stream, index >> 2, w);
    return w[index & 3];
}

/* Blocks [block, block + count): words[4 i + j] is word j of block + i. Several times as fast as mt_philox. */
void mt_philox_blocks(uint64_t seed, uint64_t stream, uint64_t block, int64_t count, uint32_t *words);

/* Uniform in [0, 1). */
static inline double mt_random_uniform(uint64_t seed, uint64_t stream, uint64_t index) {
    uint32_t w[4];
    mt_philox(seed, stream, index, w);
    uint64_t bits = (((uint64_t)w[0] << 32) | w[1]) >> 11;
    return (double)bits * 0x1p-53;
}

/* Normal with mean 0 and deviation 1 (Box-Muller on one counter block). */
double mt_random_normal(uint64_t seed, uint64_t stream, uint64_t index);

/* A whole number in [0, bound), without bias (rejection); bound > 0. */
uint64_t mt_random_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t bound);

/* The image of `index` under a random permutation of [0, size), in O(1) memory: a four-round Feistel
 * network over the next even number of bits, walked until it falls inside (Black and Rogaway, 2002). */
uint64_t mt_random_permute(uint64_t seed, uint64_t stream, uint64_t index, uint64_t size);

#endif
