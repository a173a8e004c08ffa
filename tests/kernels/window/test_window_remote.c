/* The queue of one-sided operations against access that is as unordered as it may be: whatever has been started is done
 * in random order, of a random number of slots. When a signal takes effect, all that the queue held before it for its
 * rank must have. */
#include "kernels/base/number/rng.h"
#include "kernels/comm/rma.h"
#include "kernels/window/internal.h"
#include "tests/check.h"

enum { RANKS = 3, BYTES = 3 << 20, SIGNAL = BYTES - 8, TRIALS = 60, MOST_OPS = 30 };

struct fake {
    struct mt_rma rma;
    struct mt_rma_op op[MT_RMA_SLOTS];
    bool busy[MT_RMA_SLOTS];
    int nslots;
    uint64_t seed, draws;
    char *memory[RANKS];
    /* What was queued for a rank: the bytes that precede each signal, and their values. */
    int64_t put_end[RANKS][MOST_OPS];
    int nsignals[RANKS], nseen[RANKS];
    const char *source;
    int64_t nfenced, ndone; /* puts that a fence precedes: each so many; and those that are done */
};

static int start(struct mt_rma *rma, const struct mt_rma_op *op, struct mt_err *err) {
    struct fake *f = (struct fake *)rma;
    (void)err;
    CHECK(op->kind == MT_RMA_ADD || op->size_bytes <= MT_RMA_SEGMENT_BYTES, "a segment of %lld bytes",
          (long long)op->size_bytes);
    if (f->nfenced) {
        int64_t number = (op->at - MT_WINDOW_HEADER_BYTES) / 8;
        CHECK(f->ndone >= number / f->nfenced * f->nfenced, "put %lld, when %lld are done: before a fence",
              (long long)number, (long long)f->ndone);
    }
    for (int s = 0; s < f->nslots; s++) {
        if (f->busy[s]) continue;
        f->busy[s] = true;
        f->op[s] = *op;
        return s;
    }
    return -1;
}

static enum mt_status test(struct mt_rma *rma, int slot, bool *done, uint64_t *value, struct mt_err *err) {
    struct fake *f = (struct fake *)rma;
    struct mt_rma_op *op = &f->op[slot];
    (void)err;
    CHECK(f->busy[slot], "slot %d", slot);
    *done = mt_random_below(f->seed, 2, f->draws++, 4) == 0;
    if (!*done) return MT_OK;
    f->busy[slot] = false;
    f->ndone++;
    char *place = f->memory[op->rank] + op->at;
    if (op->kind == MT_RMA_PUT) {
        memcpy(place, op->from, (size_t)op->size_bytes);
    } else if (op->kind == MT_RMA_GET) {
        memcpy(op->to, place, (size_t)op->size_bytes);
    } else if (op->kind == MT_RMA_READ) {
        memcpy(value, place, 8);
    } else {
        uint64_t word;
        memcpy(&word, place, 8);
        CHECK_EQ(op->value, word + 1); /* signals are in order too */
        memcpy(place, &op->value, 8);
        int64_t end = f->put_end[op->rank][f->nseen[op->rank]++];
        CHECK(!memcmp(f->memory[op->rank], f->source, (size_t)end), "a signal before what was put before it");
    }
    return MT_OK;
}

static void release(struct mt_rma *rma, bool broken) {
    (void)rma, (void)broken;
}

static const struct mt_rma_class fake_class = {start, test, release};

/* A signal is read while more is queued than there are slots: neither are all puts done before, nor is any lost. */
static void test_read(const char *source) {
    enum { PUTS = 2000, ALIKE = 8 };
    struct mt_err err = MT_ERR_INIT;
    struct fake f = {.rma = {&fake_class}, .nslots = MT_RMA_SLOTS, .seed = 15, .source = source};
    for (int r = 0; r < RANKS; r++) f.memory[r] = calloc(1, BYTES);
    struct mt_window_remote *remote = mt_window_remote_new(&f.rma, RANKS);
    for (int i = 0; i < PUTS; i++) mt_window_remote_put(remote, i * ALIKE, source + i * ALIKE, ALIKE, 1);
    uint64_t value = 7, done;
    int left;
    memcpy(f.memory[0] + SIGNAL, &(uint64_t){15}, 8);
    for (int i = 0; i < 10; i++) {
        CHECK_OK(mt_window_remote_read(remote, SIGNAL, 0, 10, &value, &err), err);
        CHECK_EQ(value, 15);
        value = 7;
    }
    CHECK_OK(mt_window_remote_progress(remote, &done, &left, &err), err);
    CHECK(left > PUTS / 2, "of %d puts %d are left", PUTS, left);
    while (left) CHECK_OK(mt_window_remote_progress(remote, &done, &left, &err), err);
    CHECK(!memcmp(f.memory[1], source, PUTS * ALIKE), "all puts are there");
    mt_window_remote_free(remote, false);
    for (int r = 0; r < RANKS; r++) free(f.memory[r]);
}

/* What is put after a fence starts when all that was put before it is done, to whichever rank. */
static void test_fence(void) {
    enum { PUTS = 200, EACH = 7 };
    struct mt_err err = MT_ERR_INIT;
    struct fake f = {.rma = {&fake_class}, .nslots = MT_RMA_SLOTS, .seed = 21, .nfenced = EACH};
    char *part[RANKS] = {calloc(1, (size_t)mt_window_part_bytes(8 * PUTS))};
    uint64_t words[PUTS];
    for (int r = 0; r < RANKS; r++) f.memory[r] = calloc(1, BYTES);
    struct mt_window w = {.nranks = RANKS, .size_bytes = 8 * PUTS, .deadline_s = 60, .part = part};
    w.remote = mt_window_remote_new(&f.rma, RANKS);
    for (int i = 0; i < PUTS; i++) {
        words[i] = (uint64_t)i + 1;
        if (i && i % EACH == 0) CHECK_OK(mt_window_fence(&w, &err), err);
        CHECK_OK(mt_window_put(&w, 8 * i, &words[i], 8, 1 + i % 2, &err), err);
    }
    CHECK_OK(mt_window_quiet(&w, &err), err);
    CHECK_EQ(f.ndone, PUTS);
    for (int i = 0; i < PUTS; i++)
        CHECK(!memcmp(f.memory[1 + i % 2] + MT_WINDOW_HEADER_BYTES + 8 * i, &words[i], 8), "put %d", i);
    mt_window_remote_free(w.remote, false);
    for (int r = 0; r < RANKS; r++) free(f.memory[r]);
    free(part[0]);
}

int main(void) {
    struct mt_err err = MT_ERR_INIT;
    char *source = malloc(BYTES), *back = malloc(BYTES);
    for (int i = 0; i < BYTES; i++) source[i] = (char)(1 + i % 127);
    test_read(source);
    test_fence();
    for (int trial = 0; trial < TRIALS; trial++) {
        struct fake f = {
            .rma = {&fake_class}, .nslots = 1 + trial % MT_RMA_SLOTS, .seed = (uint64_t)trial, .source = source};
        int64_t end[RANKS] = {0};
        int left = 1;
        uint64_t done, draw = 0;
        for (int r = 0; r < RANKS; r++) f.memory[r] = calloc(1, BYTES);
        struct mt_window_remote *remote = mt_window_remote_new(&f.rma, RANKS);
        for (int i = 0; i < MOST_OPS; i++) {
            int r = (int)mt_random_below(f.seed, 3, draw++, RANKS);
            int64_t size = (int64_t)mt_random_below(f.seed, 3, draw++, i % 5 ? 1000 : BYTES / MOST_OPS * 5);
            if (mt_random_below(f.seed, 3, draw++, 3)) {
                if (size > SIGNAL - end[r]) size = SIGNAL - end[r];
                if (size) mt_window_remote_put(remote, end[r], source + end[r], size, r);
                end[r] += size;
            } else {
                f.put_end[r][f.nsignals[r]++] = end[r];
                mt_window_remote_signal(remote, SIGNAL, (uint64_t)f.nsignals[r], MT_SIGNAL_SET, r);
            }
            CHECK_OK(mt_window_remote_progress(remote, &done, &left, &err), err);
        }
        while (left) CHECK_OK(mt_window_remote_progress(remote, &done, &left, &err), err);
        for (int r = 0; r < RANKS; r++) {
            CHECK(!memcmp(f.memory[r], source, (size_t)end[r]), "all puts are there");
            CHECK_EQ(f.nseen[r], f.nsignals[r]);
            mt_window_remote_get(remote, back, 0, end[r], r);
            for (left = 1; left;) CHECK_OK(mt_window_remote_progress(remote, &done, &left, &err), err);
            CHECK(!memcmp(back, source, (size_t)end[r]), "and can be got");
        }
        mt_window_remote_free(remote, false);
        for (int r = 0; r < RANKS; r++) free(f.memory[r]);
    }
    free(source);
    free(back);
    return 0;
}
