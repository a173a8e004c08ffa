/* The bucketing policy: cases worked by hand, and random steps against a statement of the rules that looks at whole
 * lists, where the state machine sees one value after the other. */
#include "synth/builder/bucket.h"

#include <stdlib.h>

#include "tests/check.h"

enum { MOST = 200, SEED = 7 };

/* What happens in a step: a value is asked for; or an operator comes that yields, or that needs what waits. */
struct happening {
    enum { VALUE, YIELDS, NEEDS } what;
    enum mt_bucket_phase phase;
    int64_t bytes;
};

/* bucket[i] of each value, numbered from 0 in the order of sending; -1 of operators. Returns how many. */
static int by_machine(const struct happening *list, int n, int64_t bucket_bytes, bool attention, int *bucket) {
    struct mt_bucketing b;
    int64_t gradient_bytes = 0;
    int nyielding = 0, nsent = 0, nwaiting = 0;
    for (int i = 0; i < n; i++) {
        if (list[i].what == VALUE && list[i].phase == MT_BUCKET_GRADIENTS) gradient_bytes += list[i].bytes;
        nyielding += list[i].what == YIELDS && attention;
    }
    mt_bucketing_init(&b, bucket_bytes, gradient_bytes, nyielding);
    for (int i = 0; i <= n; i++) {
        enum mt_bucket_phase phase = i < n ? list[i].phase : MT_BUCKET_UPDATE;
        bool send = mt_bucketing_enter(&b, phase);
        if (i < n && list[i].what == YIELDS) send |= mt_bucketing_yield(&b);
        if (i < n && list[i].what == NEEDS) send = true;
        if (send && nwaiting) mt_bucketing_sent(&b), nsent++, nwaiting = 0;
        if (i == n) break;
        bucket[i] = list[i].what == VALUE ? nsent : -1;
        if (list[i].what != VALUE) continue;
        nwaiting++;
        if (mt_bucketing_add(&b, list[i].bytes, true)) mt_bucketing_sent(&b), nsent++, nwaiting = 0;
    }
    CHECK_EQ(nwaiting, 0);
    return nsent;
}

/* ---- the rules, bucket by bucket ---- */

/* Full at so much, if list[first] is the bucket's first value and `nfull` buckets of weights were full before. */
static double limit(const struct happening *list, int n, int first, double bucket_bytes, int nfull) {
    double all = 0, left = 0;
    for (int i = 0; i < n; i++) {
        if (list[i].what != VALUE || list[i].phase != MT_BUCKET_GRADIENTS) continue;
        all += (double)list[i].bytes;
        if (i >= first) left += (double)list[i].bytes;
    }
    if (list[first].phase == MT_BUCKET_UPDATE) return 0;
    if (floor(all / 4) < bucket_bytes) return bucket_bytes;
    if (list[first].phase == MT_BUCKET_WEIGHTS)
        return floor(bucket_bytes / (double[]){8, 4, 2, 1}[nfull < 3 ? nfull : 3]);
    if (list[first].phase != MT_BUCKET_GRADIENTS) return bucket_bytes;
    return fmin(bucket_bytes, fmax(floor(bucket_bytes / 8), floor(left / 2)));
}

/* The first happening before which, at the latest, a bucket that begins at list[first] is sent; *full: by being full.
 */
static int end_of(const struct happening *list, int n, int first, double full_at, bool attention, bool *full) {
    double bytes = 0;
    *full = false;
    for (int i = first; i < n; i++) {
        if (list[i].phase != list[first].phase || list[i].what == NEEDS) return i;
        if (list[i].what == YIELDS && attention && bytes >= full_at) return i;
        if (list[i].what != VALUE) continue;
        bytes += (double)list[i].bytes;
        if (bytes < full_at) continue;
        bool later = false;
        for (int j = i + 1; j < n && list[first].phase == MT_BUCKET_GRADIENTS; j++)
            later |= attention && list[j].what == YIELDS;
        if (later) continue;
        *full = true;
        return i + 1;
    }
    return n;
}

static int by_rules(const struct happening *list, int n, int64_t bucket_bytes, bool attention, int *bucket) {
    int nbuckets = 0, nfull = 0;
    for (int i = 0; i < n; i++) bucket[i] = -1;
    for (int first = 0; first < n;) {
        if (list[first].what != VALUE) {
            first++;
            continue;
        }
        bool full;
        double full_at = limit(list, n, first, (double)bucket_bytes, nfull);
        int end = end_of(list, n, first, full_at, attention && bucket_bytes > 0, &full);
        nfull += full && list[first].phase == MT_BUCKET_WEIGHTS;
        for (int i = first; i < end; i++)
            if (list[i].what == VALUE) bucket[i] = nbuckets;
        nbuckets++;
        first = end;
    }
    return nbuckets;
}

static int draw(int n) {
    return (int)(rand() / (RAND_MAX + 1.0) * n);
}

static void test_random(void) {
    srand(SEED);
    for (int round = 0; round < 20000; round++) {
        struct happening list[MOST];
        int got[MOST], want[MOST], n = 0;
        int64_t largest = 1 + draw(50);
        for (int p = MT_BUCKET_WEIGHTS; p <= MT_BUCKET_UPDATE; p++)
            for (int k = draw(p == MT_BUCKET_SAMPLES || p == MT_BUCKET_REPORTS ? 4 : 40); k > 0; k--) {
                int what = draw(8);
                list[n++] = (struct happening){what == 0                              ? NEEDS
                                               : what < 3 && p == MT_BUCKET_GRADIENTS ? YIELDS
                                                                                      : VALUE,
                                               (enum mt_bucket_phase)p, 1 + draw((int)largest)};
            }
        int64_t bucket_bytes = draw(4) ? draw(1 + (int)largest * 8) : draw(3);
        for (int attention = 0; attention < 2; attention++) {
            CHECK_EQ(by_machine(list, n, bucket_bytes, attention, got),
                     by_rules(list, n, bucket_bytes, attention, want));
            for (int i = 0; i < n; i++)
                CHECK(got[i] == want[i], "round %d, %d of %d: bucket %d, not %d", round, i, n, got[i], want[i]);
        }
    }
}

/* ---- by hand ---- */

/* Values of equal size in a phase: the sizes of the buckets in order, as text. */
static void check_sizes(enum mt_bucket_phase phase, int nvalues, int64_t gradient_bytes, int64_t bucket_bytes,
                        const char *want) {
    struct mt_bucketing b;
    char got[256] = "";
    int n = 0;
    mt_bucketing_init(&b, bucket_bytes, gradient_bytes, 0);
    CHECK(!mt_bucketing_enter(&b, phase), "an empty bucket is sent");
    for (int i = 0; i <= nvalues; i++) {
        bool send = i < nvalues ? mt_bucketing_add(&b, 10, true) : mt_bucketing_enter(&b, MT_BUCKET_SAMPLES);
        n += i < nvalues;
        if (!send) continue;
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", *got ? " " : "", n);
        mt_bucketing_sent(&b);
        n = 0;
    }
    CHECK(!strcmp(got, want), "buckets of %s values, not %s", got, want);
}

static void test_sizes(void) {
    /* 64 gradients of 10 bytes, full at 160: half of what is left is more than that, twice; then it shrinks to 20. */
    check_sizes(MT_BUCKET_GRADIENTS, 64, 640, 160, "16 16 16 8 4 2 2");
    check_sizes(MT_BUCKET_GRADIENTS, 63, 630, 160, "16 16 16 15"); /* 630 / 4 < 160: too few buckets to shrink them */
    check_sizes(MT_BUCKET_WEIGHTS, 64, 640, 160, "2 4 8 16 16 16 2");
    check_sizes(MT_BUCKET_WEIGHTS, 40, 630, 160, "16 16 8");
    check_sizes(MT_BUCKET_REPORTS, 40, 640, 160, "16 16 8");
    check_sizes(MT_BUCKET_UPDATE, 3, 640, 160, "1 1 1");
    check_sizes(MT_BUCKET_GRADIENTS, 3, 640, 0, "1 1 1");
}

/* Start "attention": with 10 bytes each and full at 20, a full bucket takes along what comes until the operator. */
static void test_yield(void) {
    const struct happening v = {VALUE, MT_BUCKET_GRADIENTS, 10}, y = {YIELDS, MT_BUCKET_GRADIENTS, 0};
    const struct happening list[] = {v, y, v, v, y, v, v, v};
    int bucket[8];
    static const int full[] = {0, -1, 0, 1, -1, 1, 2, 2}, attention[] = {0, -1, 0, 0, -1, 1, 1, 2};
    CHECK_EQ(by_machine(list, 8, 20, false, bucket), 3);
    CHECK(!memcmp(bucket, full, sizeof full), "start full");
    CHECK_EQ(by_machine(list, 8, 20, true, bucket), 3);
    CHECK(!memcmp(bucket, attention, sizeof attention), "start attention");
    CHECK(mt_bucket_waits_for(MT_LAST, MT_ROLE_BACKWARD, MT_OP_attention_grad), "attention's backward pass");
    CHECK(!mt_bucket_waits_for(MT_BODY, MT_ROLE_BACKWARD, MT_OP_attention_grad), "of the last micro-batch only");
    CHECK(!mt_bucket_waits_for(MT_LAST, MT_ROLE_BACKWARD, MT_OP_matmul), "a GEMM does not yield");
}

static void test_keys(void) {
    int pairs[4] = {0, 0, 1, 1}, all[4] = {0, 0, 0, 0};
    struct mt_bucket_key a = {MT_ALL_REDUCE, MT_SUM, MT_F32, MT_F32, MT_LAST, all}, b = a;
    CHECK(mt_bucket_same_message(&a, &b, 4), "equal keys");
    b.group = pairs;
    CHECK(!mt_bucket_same_message(&a, &b, 4), "other ranks");
    CHECK(mt_bucket_same_message(&a, &b, 2), "other ranks are not among the first two");
    b = a, b.wire = MT_BF16;
    CHECK(!mt_bucket_same_message(&a, &b, 4), "another wire type");
    b = a, b.kind = MT_REDUCE_SCATTER;
    CHECK(!mt_bucket_same_message(&a, &b, 4), "another collective");
    b = a, b.block = MT_BODY;
    CHECK(!mt_bucket_same_message(&a, &b, 4), "another block");
}

int main(void) {
    test_sizes();
    test_yield();
    test_keys();
    test_random();
    return 0;
}
