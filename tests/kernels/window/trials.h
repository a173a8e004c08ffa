/* What one rank does in tests of windows, with delays injected before every step, on both sides of every signal. Run by
 * threads (test_window.c, also under ThreadSanitizer), processes of one host, and ranks over MPI (mpi_window.c). */
#ifndef MT_TESTS_KERNELS_WINDOW_TRIALS_H
#define MT_TESTS_KERNELS_WINDOW_TRIALS_H

#include "kernels/base/number/rng.h"
#include "kernels/base/wait.h"
#include "kernels/window/window.h"
#include "tests/check.h"

enum { TRIAL_RANKS = 8, TRIAL_WORDS = 1500, TRIAL_PARITIES = 2 };

/* The layout of the window: a block of words from each rank, by parity; signals after them. */
static inline int64_t trial_block(int64_t parity, int from) {
    return (parity * TRIAL_RANKS + from) * TRIAL_WORDS * 8;
}
enum { TRIAL_SIGNALS = TRIAL_PARITIES * TRIAL_RANKS * TRIAL_WORDS * 8 };
static inline int64_t trial_signal(int which, int from) { /* 0: data; 1: read; 2: sum; 3: set */
    return TRIAL_SIGNALS + (which * TRIAL_RANKS + from) * 8;
}
enum { TRIAL_BYTES = TRIAL_SIGNALS + 4 * TRIAL_RANKS * 8 };

static inline uint64_t trial_word(int from, int to, int64_t epoch, int64_t i) {
    return ((uint64_t)(from + 1) << 56) + ((uint64_t)(to + 1) << 48) + ((uint64_t)epoch << 24) + (uint64_t)i;
}

static inline void trial_delay(int rank, int64_t step, uint64_t seed) {
    double u = mt_random_uniform(seed, (uint64_t)rank, (uint64_t)step);
    if (u < 0.25) mt_sleep_s(u * 4e-3);
}

static inline void trial_check(const uint64_t *words, int from, int to, int64_t epoch) {
    for (int64_t i = 0; i < TRIAL_WORDS; i++)
        CHECK(words[i] == trial_word(from, to, epoch, i), "epoch %lld from %d to %d, word %lld: %llx", (long long)epoch,
              from, to, (long long)i, (unsigned long long)words[i]);
}

/* Every rank sends each other rank a block an epoch, into staging doubled by parity: it overwrites a block once the
 * receiver has told that it has read the one two epochs before. Odd ranks put halves, as rows and whole. */
static inline void trial_exchange(struct mt_window *w, int epochs, uint64_t seed) {
    int me = mt_window_rank(w), n = mt_window_nranks(w);
    struct mt_err err = MT_ERR_INIT;
    uint64_t *out = malloc((size_t)(n * TRIAL_WORDS) * 8), *in = malloc(TRIAL_WORDS * 8);
    for (int64_t e = 1, step = 0; e <= epochs; e++) {
        for (int k = 1; k < n; k++) {
            int peer = (me + k) % n;
            uint64_t *block = out + peer * TRIAL_WORDS;
            if (e > 2)
                CHECK_OK(mt_window_wait(w, trial_signal(1, peer), MT_CMP_GE, (uint64_t)e - 2, "room", &err), err);
            for (int64_t i = 0; i < TRIAL_WORDS; i++) block[i] = trial_word(me, peer, e, i);
            trial_delay(me, step++, seed);
            int64_t to = trial_block(e % 2, me), half = TRIAL_WORDS / 2 * 8;
            if (me % 2) { /* rows of 10 words: every other one first */
                for (int part = 0; part < 2; part++)
                    CHECK_OK(mt_window_put_rows(w, to + part * 80, 160, block + part * 10, 160, 80, TRIAL_WORDS / 20,
                                                peer, &err),
                             err);
                CHECK_OK(mt_window_signal(w, trial_signal(0, me), 1, MT_SIGNAL_ADD, peer, &err), err);
            } else {
                CHECK_OK(mt_window_put(w, to, block, half, peer, &err), err);
                trial_delay(me, step++, seed);
                CHECK_OK(mt_window_put_signal(w, to + half, (char *)block + half, TRIAL_WORDS * 8 - half,
                                              trial_signal(0, me), 1, MT_SIGNAL_ADD, peer, &err),
                         err);
            }
            CHECK_OK(mt_window_signal(w, trial_signal(2, 0), (uint64_t)me + 1, MT_SIGNAL_ADD, peer, &err), err);
        }
        for (int k = 1; k < n; k++) {
            int from = (me + n - k) % n;
            trial_delay(me, step++, seed);
            CHECK_OK(mt_window_wait(w, trial_signal(0, from), MT_CMP_GE, (uint64_t)e, "a block", &err), err);
            memcpy(in, mt_window_ptr(w, trial_block(e % 2, from), me), TRIAL_WORDS * 8);
            trial_check(in, from, me, e);
            CHECK_OK(mt_window_signal(w, trial_signal(1, me), (uint64_t)e, MT_SIGNAL_SET, from, &err), err);
        }
        CHECK_OK(mt_window_quiet(w, &err), err); /* `out` is written again */
    }
    uint64_t sum = 0;
    for (int r = 0; r < n; r++) sum += r == me ? 0 : (uint64_t)(r + 1) * (uint64_t)epochs;
    CHECK_OK(mt_window_wait(w, trial_signal(2, 0), MT_CMP_EQ, sum, "the sum of all", &err), err);
    CHECK_OK(mt_window_barrier(w, &err), err);
    free(out);
    free(in);
}

/* Puts and gets between barriers; set, test and the comparisons. */
static inline void trial_barriers(struct mt_window *w, int rounds, uint64_t seed) {
    int me = mt_window_rank(w), n = mt_window_nranks(w);
    struct mt_err err = MT_ERR_INIT;
    uint64_t *block = malloc(TRIAL_WORDS * 8);
    for (int round = 1; round <= rounds; round++) {
        int peer = (me + round) % n;
        for (int64_t i = 0; i < TRIAL_WORDS; i++) block[i] = trial_word(me, peer, 1000 + round, i);
        trial_delay(me, round, seed);
        CHECK_OK(mt_window_put(w, trial_block(0, me), block, TRIAL_WORDS * 8, peer, &err), err);
        CHECK_OK(mt_window_barrier(w, &err), err);
        int from = (me + n - round % n) % n, other = (me + 1) % n, of = (other + n - round % n) % n;
        trial_check(mt_window_ptr(w, trial_block(0, from), me), from, me, 1000 + round);
        CHECK_OK(mt_window_get(w, block, trial_block(0, of), TRIAL_WORDS * 8, other, &err), err);
        trial_check(block, of, other, 1000 + round);
        CHECK_OK(mt_window_barrier(w, &err), err);
    }
    bool yes;
    CHECK_OK(mt_window_test(w, trial_signal(3, 0), MT_CMP_NE, 0, &yes, &err), err);
    CHECK(!yes, "nobody has set it");
    CHECK_OK(mt_window_barrier(w, &err), err);
    CHECK_OK(mt_window_signal(w, trial_signal(3, 0), 7, MT_SIGNAL_SET, (me + 1) % n, &err), err);
    CHECK_OK(mt_window_wait(w, trial_signal(3, 0), MT_CMP_GT, 6, "seven", &err), err);
    const bool want[] = {[MT_CMP_EQ] = true, [MT_CMP_NE] = false, [MT_CMP_GT] = false,
                         [MT_CMP_GE] = true, [MT_CMP_LT] = false, [MT_CMP_LE] = true};
    for (int cmp = MT_CMP_EQ; cmp <= MT_CMP_LE; cmp++) {
        CHECK_OK(mt_window_test(w, trial_signal(3, 0), (enum mt_cmp)cmp, 7, &yes, &err), err);
        CHECK(yes == want[cmp], "comparison %d with 7", cmp);
    }
    CHECK_OK(mt_window_barrier(w, &err), err);
    free(block);
}

/* A word of this rank's part that others put without a signal. */
static inline uint64_t trial_look(const struct mt_window *w, int64_t at) {
    return __atomic_load_n((uint64_t *)mt_window_ptr(w, at, mt_window_rank(w)), __ATOMIC_ACQUIRE);
}

/* Each rank puts a number to two places of the next, with a fence between: nobody sees the second before the first. */
static inline void trial_fence(struct mt_window *w, uint64_t rounds, uint64_t seed) {
    int me = mt_window_rank(w), n = mt_window_nranks(w), from = (me + n - 1) % n;
    const int64_t first = 8 * (TRIAL_WORDS - 1), second = 0;
    struct mt_err err = MT_ERR_INIT;
    uint64_t *numbers = calloc(rounds + 1, sizeof *numbers), after = 0;
    bool yes;
    CHECK_OK(mt_window_put(w, trial_block(0, me) + first, numbers, 8, (me + 1) % n, &err), err);
    CHECK_OK(mt_window_put(w, trial_block(0, me) + second, numbers, 8, (me + 1) % n, &err), err);
    CHECK_OK(mt_window_barrier(w, &err), err);
    for (uint64_t round = 1; round <= rounds || after < rounds; round++) {
        if (round <= rounds) {
            numbers[round] = round;
            CHECK_OK(mt_window_put(w, trial_block(0, me) + first, &numbers[round], 8, (me + 1) % n, &err), err);
            CHECK_OK(mt_window_fence(w, &err), err);
            CHECK_OK(mt_window_put(w, trial_block(0, me) + second, &numbers[round], 8, (me + 1) % n, &err), err);
            CHECK_OK(mt_window_fence(w, &err), err);
            if (round % 16 == 0) trial_delay(me, (int64_t)round, seed);
        }
        CHECK_OK(mt_window_test(w, trial_signal(3, 7), MT_CMP_NE, 0, &yes, &err), err); /* progress */
        uint64_t seen = trial_look(w, trial_block(0, from) + second);
        CHECK(trial_look(w, trial_block(0, from) + first) >= seen, "%llu is here before what was put before it",
              (unsigned long long)seen);
        after = seen;
    }
    CHECK_OK(mt_window_barrier(w, &err), err);
    free(numbers);
}

/* Each rank puts to the one after the next, and tells the next after a fence, which tells that one. */
static inline void trial_relay(struct mt_window *w, int rounds, uint64_t seed) {
    int me = mt_window_rank(w), n = mt_window_nranks(w), next = (me + 1) % n, to = (me + 2) % n,
        from = (me + n - 2) % n;
    struct mt_err err = MT_ERR_INIT;
    uint64_t *block = malloc(TRIAL_WORDS * 8);
    for (int round = 1; round <= rounds; round++) {
        for (int64_t i = 0; i < TRIAL_WORDS; i++) block[i] = trial_word(me, to, 2000 + round, i);
        trial_delay(me, round, seed);
        CHECK_OK(mt_window_put(w, trial_block(1, me), block, TRIAL_WORDS * 8, to, &err), err);
        CHECK_OK(mt_window_fence(w, &err), err);
        CHECK_OK(mt_window_signal(w, trial_signal(3, 5), 1, MT_SIGNAL_ADD, next, &err), err);
        CHECK_OK(mt_window_wait(w, trial_signal(3, 5), MT_CMP_GE, (uint64_t)round, "a neighbour's put", &err), err);
        CHECK_OK(mt_window_signal(w, trial_signal(3, 6), 1, MT_SIGNAL_ADD, next, &err), err);
        CHECK_OK(mt_window_wait(w, trial_signal(3, 6), MT_CMP_GE, (uint64_t)round, "word of it", &err), err);
        trial_check(mt_window_ptr(w, trial_block(1, from), me), from, me, 2000 + round);
        CHECK_OK(mt_window_barrier(w, &err), err);
    }
    free(block);
}

/* Rank 0 stays away: the others stall, or hear of it, and say so; the window is then of no use. */
static inline void trial_silence(struct mt_window *w) {
    struct mt_err err = MT_ERR_INIT;
    int me = mt_window_rank(w);
    if (!me) return;
    enum mt_status st = mt_window_wait(w, trial_signal(0, 0), MT_CMP_GE, 1, "the rows of rank 0", &err);
    CHECK(st == MT_ESTALL || st == MT_EPEER, "status %d: %s", st, err.text);
    CHECK(st != MT_ESTALL || (strstr(err.text, "rows of rank 0") && strstr(err.text, "is 0, not >= 1")), "%s",
          err.text);
    CHECK(st != MT_EPEER || strstr(err.text, "gave up"), "%s", err.text);
    CHECK_EQ(mt_window_wait(w, trial_signal(0, 0), MT_CMP_GE, 0, "nothing", &err), MT_EPEER);
    CHECK_EQ(mt_window_quiet(w, &err), MT_EPEER);
}

#endif
