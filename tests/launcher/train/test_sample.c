/* Picking tokens: frequencies over many draws against the softmax by its formula. */
#include <stdio.h>

#include "kernels/base/number/rng.h"
#include "launcher/train/sample.h"
#include "tests/check.h"

enum { VOCAB = 6, DRAWS = 50000, SEED = 5 };

static const double logits[VOCAB] = {1.0, -0.5, 2.0, 2.0, 0.25, -30};

/* Expected probabilities with the k likeliest at a temperature; ties at the border all count. */
static void check(double temperature, int k, const int *allowed) {
    double p[VOCAB], total = 0;
    int64_t seen[VOCAB] = {0};
    for (int i = 0; i < VOCAB; i++) total += p[i] = allowed[i] ? exp(logits[i] / temperature) : 0;
    for (uint64_t d = 0; d < DRAWS; d++) {
        int32_t token = mt_sample_pick(logits, VOCAB, temperature, k, mt_random_uniform(SEED, (uint64_t)k, d));
        CHECK(token >= 0 && token < VOCAB);
        seen[token]++;
    }
    for (int i = 0; i < VOCAB; i++) {
        double want = p[i] / total, deviation = sqrt(want * (1 - want) / DRAWS);
        CHECK_NEAR((double)seen[i] / DRAWS, want, 5 * deviation + 1e-12);
    }
}

int main(void) {
    printf("seed %d\n", SEED);
    check(1, 0, (const int[]){1, 1, 1, 1, 1, 1});
    check(0.5, 0, (const int[]){1, 1, 1, 1, 1, 1});
    check(2, 3, (const int[]){1, 0, 1, 1, 0, 0});
    check(1, 2, (const int[]){0, 0, 1, 1, 0, 0});
    check(1, 100, (const int[]){1, 1, 1, 1, 1, 1});
    CHECK_EQ(mt_sample_pick(logits, VOCAB, 0, 0, 0.99), 2);
    CHECK_EQ(mt_sample_pick(logits, VOCAB, 1, 1, 0.0), 2); /* of equals at the border both stay: the first at 0 */
    CHECK_EQ(mt_sample_pick(logits, VOCAB, 1, 0, 0.0), 0);
    const double huge[2] = {1e300, -1e300};
    CHECK_EQ(mt_sample_pick(huge, 2, 1e-3, 0, 0.999999), 0);
    return 0;
}
