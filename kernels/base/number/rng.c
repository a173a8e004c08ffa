/* Distributions and permutations from Philox blocks. */
#include "kernels/base/number/rng.h"

#include <assert.h>
#include <math.h>

#include "kernels/base/clones.h"

/* Blocks are taken in groups, an array for each word, so that the compiler vectorises each round over a group. */
MT_CLONES void mt_philox_blocks(uint64_t seed, uint64_t stream, uint64_t block, int64_t count, uint32_t *words) {
    enum { GROUP = 64 };
    uint32_t c0[GROUP], c1[GROUP], c2[GROUP], c3[GROUP];
    for (int64_t first = 0; first < count; first += GROUP) {
        uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
        for (int i = 0; i < GROUP; i++) {
            uint64_t index = block + (uint64_t)(first + i);
            c0[i] = (uint32_t)index, c1[i] = (uint32_t)(index >> 32);
            c2[i] = (uint32_t)stream, c3[i] = (uint32_t)(stream >> 32);
        }
        for (int round = 0; round < 10; round++) {
            for (int i = 0; i < GROUP; i++) {
                uint64_t p0 = (uint64_t)0xD2511F53u * c0[i], p1 = (uint64_t)0xCD9E8D57u * c2[i];
                c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0, c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
                c1[i] = (uint32_t)p1, c3[i] = (uint32_t)p0;
            }
            k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
        }
        int64_t n = count - first < GROUP ? count - first : GROUP;
        for (int64_t i = 0; i < n; i++) {
            uint32_t *w = words + 4 * (first + i);
            w[0] = c0[i], w[1] = c1[i], w[2] = c2[i], w[3] = c3[i];
        }
    }
}

double mt_random_normal(uint64_t seed, uint64_t stream, uint64_t index) {
    uint32_t w[4];
    mt_philox(seed, stream, index, w);
    uint64_t a = (((uint64_t)w[0] << 32) | w[1]) >> 11, b = (((uint64_t)w[2] << 32) | w[3]) >> 11;
    double u = ((double)a + 1) * 0x1p-53, v = (double)b * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

uint64_t mt_random_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t bound) {
    assert(bound > 0);
    uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    for (uint64_t try = 0;; try++) {
        uint32_t w[4];
        mt_philox(seed + try * 0x9E3779B97F4A7C15u, stream, index, w);
        uint64_t bits = ((uint64_t)w[0] << 32) | w[1];
        if (bits < limit) return bits % bound;
    }
}

uint64_t mt_random_permute(uint64_t seed, uint64_t stream, uint64_t index, uint64_t size) {
    assert(index < size);
    int half = 1;
    while (half < 32 && (UINT64_C(1) << (2 * half)) < size) half++;
    uint64_t mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t left = index >> half, right = index & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint32_t w[4];
            mt_philox(seed ^ (round << 56), stream, right, w);
            uint64_t mixed = left ^ ((((uint64_t)w[0] << 32) | w[1]) & mask);
            left = right, right = mixed;
        }
        index = (left << half) | right;
    } while (index >= size);
    return index;
}
