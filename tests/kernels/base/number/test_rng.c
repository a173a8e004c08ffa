/* Philox against the published known answers of Random123, and what is built on it. */
#include "kernels/base/number/rng.h"
#include "tests/check.h"

int main(void) {
    uint32_t w[4];
    mt_philox(0, 0, 0, w);
    CHECK_EQ(w[0], 0x6627e8d5u);
    CHECK_EQ(w[1], 0xe169c58du);
    CHECK_EQ(w[2], 0xbc57ac4cu);
    CHECK_EQ(w[3], 0x9b00dbd8u);
    mt_philox(UINT64_MAX, UINT64_MAX, UINT64_MAX, w);
    CHECK_EQ(w[0], 0x408f276du);
    CHECK_EQ(w[1], 0x41c83b0eu);
    CHECK_EQ(w[2], 0xa20bc7c6u);
    CHECK_EQ(w[3], 0x6d5451fdu);

    uint32_t words[4 * 203];
    for (int64_t count = 1; count <= 200; count += 67) { /* across the carry out of the lower counter word */
        memset(words, 0xee, sizeof words);
        mt_philox_blocks(99, UINT64_C(5) << 40, UINT32_MAX - UINT64_C(70), count, words);
        for (int64_t i = 0; i < count; i++) {
            mt_philox(99, UINT64_C(5) << 40, UINT32_MAX - UINT64_C(70) + (uint64_t)i, w);
            CHECK(!memcmp(w, words + 4 * i, sizeof w), "block %lld of %lld", (long long)i, (long long)count);
        }
        CHECK_EQ(words[4 * count], 0xeeeeeeeeu);
    }

    for (uint64_t size = 1; size < 300; size += 7) {
        unsigned char seen[300] = {0};
        for (uint64_t i = 0; i < size; i++) {
            uint64_t p = mt_random_permute(42, 7, i, size);
            CHECK(p < size && !seen[p], "image %llu of %llu", (unsigned long long)p, (unsigned long long)size);
            seen[p] = 1;
        }
    }
    double sum = 0, squares = 0;
    int n = 200000;
    for (int i = 0; i < n; i++) {
        double x = mt_random_normal(1, 2, (uint64_t)i);
        sum += x, squares += x * x;
    }
    CHECK_NEAR(sum / n, 0, 0.01);
    CHECK_NEAR(squares / n, 1, 0.02);
    int counts[10] = {0};
    for (int i = 0; i < 100000; i++) counts[mt_random_below(3, 4, (uint64_t)i, 10)]++;
    for (int i = 0; i < 10; i++) CHECK_NEAR(counts[i], 10000, 500);
    return 0;
}
