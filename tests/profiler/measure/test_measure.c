/* What ranks tell each other, and when they stop repeating. */
#include "profiler/measure/measure.h"

#include "kernels/base/log.h"
#include "kernels/base/number/rng.h"
#include "kernels/base/wait.h"
#include "tests/check.h"
#include "tests/profiler/threads.h"

/* Records of all sizes, from all ranks to all, and to rank 0. */
static void exchange_rank(struct mt_comm *comm) {
    struct mt_exchange *x = mt_exchange_new(comm, 60);
    struct mt_err err = MT_ERR_INIT;
    for (size_t size = 0; size < 20; size++) {
        unsigned char mine[20], all[20 * 8];
        memset(mine, 10 + comm->rank, sizeof mine);
        CHECK_OK(mt_exchange_gather(x, mine, size, all, &err), err);
        for (int r = 0; r < comm->nranks; r++)
            for (size_t i = 0; i < size; i++) CHECK_EQ(all[(size_t)r * size + i], 10 + r);
        size_t starts[9], want = 0, length = size * (size_t)comm->rank % 7; /* ragged, some with nothing */
        char *text;
        CHECK_OK(mt_exchange_collect(x, mine, length, &text, starts, &err), err);
        CHECK_EQ(text != NULL, comm->rank == 0);
        for (int r = 0; r < comm->nranks && text; r++) {
            CHECK_EQ(starts[r], want);
            want += size * (size_t)r % 7;
            CHECK_EQ(starts[r + 1], want);
            for (size_t i = starts[r]; i < starts[r + 1]; i++) CHECK_EQ(text[i], 10 + r);
        }
        free(text);
    }
    double values[3] = {comm->rank, -comm->rank, 7};
    CHECK_OK(mt_exchange_max(x, values, 3, &err), err);
    CHECK_NEAR(values[0], comm->nranks - 1, 0);
    CHECK_NEAR(values[1], 0, 0);
    CHECK_NEAR(values[2], 7, 0);
    mt_exchange_free(x);
}

/* The first failure, on all ranks, with its text. */
static void agree_rank(struct mt_comm *comm) {
    struct mt_exchange *x = mt_exchange_new(comm, 60);
    struct mt_err err = MT_ERR_INIT;
    CHECK_EQ(mt_exchange_agree(x, MT_OK, &err), MT_OK);
    enum mt_status mine = MT_OK;
    if (comm->rank) mine = mt_fail(&err, MT_EMISSING, "rank %d has none", comm->rank);
    CHECK_EQ(mt_exchange_agree(x, mine, &err), comm->nranks > 1 ? MT_EMISSING : MT_OK);
    if (comm->nranks > 1) CHECK_TEXT(err.text, "rank 1 has none");
    mt_exchange_free(x);
}

/* Cases with a known scatter: certain at once, uncertain for ever, and certain everywhere but on the last rank. Time
 * is the only thing that ends the second. */
enum { SEED = 5 };
enum { CERTAIN, UNCERTAIN, LAST_RANK, NCASES };

struct fake {
    struct mt_comm *comm;
    struct mt_samples series[NCASES];
    int calls[NCASES];
    uint64_t drawn;
};

static enum mt_status fake_once(void *context, int which, double slot_s, struct mt_err *err) {
    struct fake *fake = context;
    (void)slot_s, (void)err;
    bool wide = which == UNCERTAIN || (which == LAST_RANK && fake->comm->rank == fake->comm->nranks - 1);
    for (int i = 0; i < 4; i++) {
        double u = mt_random_u32(SEED, (uint64_t)which, fake->drawn++) * 0x1p-32;
        mt_samples_add(&fake->series[which], 1 + (wide ? 1.5 : 0.001) * u);
    }
    fake->calls[which]++;
    mt_sleep_s(1e-4);
    return MT_OK;
}

static void measure_rank(struct mt_comm *comm) {
    struct mt_exchange *x = mt_exchange_new(comm, 60);
    struct mt_err err = MT_ERR_INIT;
    struct fake fake = {.comm = comm};
    const struct mt_measure measure = {NCASES, fake.series, fake_once, &fake, "fakes"};
    CHECK_OK(mt_measure_run(&measure, x, 0.5, &err), err); /* CTest sees whether it ends */
    double calls[2 * (NCASES)];
    for (int c = 0; c < NCASES; c++) calls[c] = fake.calls[c], calls[c + NCASES] = -fake.calls[c];
    CHECK_OK(mt_exchange_max(x, calls, 2 * (NCASES), &err), err);
    for (int c = 0; c < NCASES; c++) CHECK_NEAR(calls[c], -calls[c + NCASES], 0); /* in step */
    CHECK(fake.calls[CERTAIN] <= 3, "a certain case was measured %d times", fake.calls[CERTAIN]);
    CHECK(fake.calls[UNCERTAIN] >= fake.calls[CERTAIN], "%d", fake.calls[UNCERTAIN]);
    CHECK(fake.calls[LAST_RANK] >= fake.calls[CERTAIN], "%d", fake.calls[LAST_RANK]);
    if (fake.calls[UNCERTAIN] > 3) CHECK(fake.calls[LAST_RANK] > 3, "one rank's doubt is everybody's");
    for (int c = 0; c < NCASES; c++) mt_samples_release(&fake.series[c]);
    mt_exchange_free(x);
}

/* A rank that fails in the middle ends the measurement of all, by its own error. */
static enum mt_status failing_once(void *context, int which, double slot_s, struct mt_err *err) {
    struct fake *fake = context;
    (void)slot_s;
    mt_samples_add(&fake->series[which], 1);
    if (fake->comm->rank == 1 && which == 1) return mt_fail(err, MT_ESYSTEM, "rank 1 broke");
    return MT_OK;
}

static void failing_rank(struct mt_comm *comm) {
    struct mt_exchange *x = mt_exchange_new(comm, 60);
    struct mt_err err = MT_ERR_INIT;
    struct fake fake = {.comm = comm};
    const struct mt_measure measure = {NCASES, fake.series, failing_once, &fake, "failing"};
    CHECK_EQ(mt_measure_run(&measure, x, 0.1, &err), MT_ESYSTEM);
    CHECK_TEXT(err.text, "rank 1 broke");
    for (int c = 0; c < NCASES; c++) mt_samples_release(&fake.series[c]);
    mt_exchange_free(x);
}

int main(void) {
    printf("seed %d\n", SEED);
    mt_log_level(MT_LOG_WARN);
    for (int n = 1; n <= 5; n++) {
        run_ranks(n, exchange_rank);
        run_ranks(n, agree_rank);
    }
    run_ranks(1, measure_rank);
    run_ranks(3, measure_rank);
    run_ranks(2, failing_rank);
    return 0;
}
