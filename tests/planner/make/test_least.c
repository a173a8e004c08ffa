/* The smallest program of a job: where it is refused, none of the programs that a person could ask for fits, counted
 * here one by one; where it is not, it fits; and what the refusal says would do, does. */
#include <stdlib.h>

#include "kernels/base/text/units.h"
#include "planner/lp/module.h"
#include "planner/make/make.h"
#include "profiler/describe/describe.h"
#include "tests/check.h"

#define MODEL "gpt2:layers=3,heads=2,embed=128,context=8,vocab=256"

static struct mt_cluster *describe(const char *text, double memory_bytes) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_cluster *c;
    CHECK_OK(mt_cluster_describe(text, NULL, &c, &err), err);
    for (int d = 0; d < c->ndevices; d++) c->devices[d].memory_bytes = (int64_t)memory_bytes;
    return c;
}

static struct mt_plan_request request_of(int64_t batch) {
    struct mt_plan_request q = {
        .model = MODEL, .fixed = {.decisions = mt_decisions_unset}, .limit_s = 20, .hypothetical = true};
    mt_job_default(&q.job);
    q.job.batch = batch;
    q.job.recompute = MT_RECOMPUTE_UNSET;
    return q;
}

/* The least bytes of the rank that has most, over all kinds of recomputation, of state, and of micro-batches, with
 * equal shares: with equal ranks that is what each must have. */
static int64_t count(int nranks, int64_t batch) {
    static struct mt_storage_row rows[] = {{.pattern = "*", .state = MT_STATE_SPLIT}};
    int64_t least = INT64_MAX, share = (batch + nranks - 1) / nranks; /* a larger micro-batch is as this one */
    for (int what = 0; what < MT_NRECOMPUTE; what++)
        for (int micro = 1; micro <= share; micro++)
            for (int split = 0; split < 3; split++) { /* 2: weights gathered for each layer */
                struct mt_err err = MT_ERR_INIT;
                struct mt_plan_request q = request_of(batch);
                struct mt_plan *plan;
                int64_t micros[8], most = 0;
                for (int r = 0; r < nranks; r++) micros[r] = micro;
                q.device = "cuda", q.nranks = nranks;
                q.job.recompute = (enum mt_recompute)what;
                q.fixed.micro = micros;
                q.fixed.decisions.bucket_bytes = 0;
                q.fixed.decisions.start = MT_START_FULL;
                if (split) q.fixed.decisions.nstorage = 1, q.fixed.decisions.storage = rows;
                if (split == 2) q.fixed.decisions.gather = MT_GATHER_LAYER;
                if (split == 2) q.fixed.decisions.reduced = MT_REDUCED_MICRO_BATCH;
                if (mt_plan_make(&q, &plan, &err)) { /* unequal numbers of micro-batches */
                    CHECK(split == 2 && strstr(err.text, "micro-batches"), "%s", err.text);
                    continue;
                }
                for (int r = 0; r < nranks; r++)
                    if (plan->memory[r].arena_bytes > most) most = plan->memory[r].arena_bytes;
                if (most < least) least = most;
                mt_plan_free(plan);
            }
    return least;
}

static enum mt_status least(const struct mt_cluster *c, const struct mt_plan_request *q, struct mt_err *err) {
    struct mt_plan_found found;
    bool counted;
    *err = (struct mt_err)MT_ERR_INIT;
    enum mt_status st = mt_plan_least(c, q, &found, &counted, err);
    CHECK(counted == (st != MT_OK), "%s", err->text);
    for (int r = 0; !st && r < c->ndevices; r++)
        CHECK(found.plan->memory[r].arena_bytes <= c->devices[r].memory_bytes, "rank %d", r);
    if (!st) CHECK_OK(mt_plan_check(found.plan, err), *err);
    if (!st) CHECK(found.plan->prediction && found.plan->prediction->step_s > 0, "no prediction");
    if (!st) CHECK_EQ(found.plan->prediction->nidle, found.plan->nranks - found.plan->nplaces); /* each with a reason */
    mt_plan_found_release(&found);
    return st;
}

/* Equal ranks: refused below the count, found above it. Shares that follow from memory may do with a little less. */
static void test_equal(const char *text, int64_t batch) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_plan_request q = request_of(batch);
    struct mt_cluster *c = describe(text, 0);
    double need = (double)count(c->ndevices, batch);
    mt_cluster_free(c);
    static const double factors[] = {0.3, 0.9, 0.97, 1, 1.02, 1.5};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        c = describe(text, need * factors[i]);
        enum mt_status st = least(c, &q, &err), want = factors[i] < 1 ? MT_EINPUT : MT_OK;
        CHECK(st == want, "%s, batch %lld, %g of %g bytes: %d: %s", text, (long long)batch, factors[i], need, (int)st,
              err.text);
        if (st) CHECK(strstr(err.text, MODEL " does not fit into memory: even with "), "%s", err.text);
        mt_cluster_free(c);
    }
    printf("%-40s batch %lld: %.0f bytes a rank\n", text, (long long)batch, need);
}

/* What the hint names is enough: so much more on each rank, or so many more ranks. */
static void test_hint(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_plan_request q = request_of(8);
    double need = (double)count(2, 8), memory = 0.93 * need;
    struct mt_cluster *c = describe("a10:1x2", memory);
    CHECK_EQ(least(c, &q, &err), MT_EINPUT);
    mt_cluster_free(c);
    double more;
    char unit[8];
    int ranks;
    CHECK(sscanf(err.hint, "%lf %7s more on each of them would do, or %d more of a10", &more, unit, &ranks) == 3, "%s",
          err.hint);
    more *= !strcmp(unit, "MiB") ? 1 << 20 : !strcmp(unit, "KiB") ? 1 << 10 : 1;
    c = describe("a10:1x2", memory + 1.01 * more);
    CHECK(!least(c, &q, &err), "%s", err.text);
    mt_cluster_free(c);
    CHECK(ranks >= 1 && ranks < 16, "%d", ranks);
    char text[32];
    snprintf(text, sizeof text, "a10:1x%d", 2 + ranks);
    c = describe(text, memory);
    CHECK(!least(c, &q, &err), "%s", err.text);
    mt_cluster_free(c);
}

/* Ranks of many sizes: one that is too small for anything is left out, and the rest is divided by what there is. */
static void test_unequal(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_plan_request q = request_of(6);
    double need = (double)count(2, 6);
    static const double memory[][4] = {{1.3, 0.95, 1, 1}, {1, 1, 0.02, 1}, {2, 0.8, 0.8, 0.02}, {0.02, 3, 0.02, 0.02}};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
        struct mt_cluster *c = describe("a10:1x4", 0);
        for (int d = 0; d < 4; d++) c->devices[d].memory_bytes = (int64_t)(memory[i][d] * need);
        CHECK(!least(c, &q, &err), "%zu: %s", i, err.text);
        mt_cluster_free(c);
    }
}

/* What a person fixes is kept: what does not fit so is refused, and the hint says that it would fit otherwise. */
static void test_fixed(void) {
    static struct mt_storage_row replicated[] = {{.pattern = "*", .state = MT_STATE_REPLICATED}};
    struct mt_err err = MT_ERR_INIT;
    struct mt_plan_request q = request_of(8);
    struct mt_cluster *c = describe("a10:1x4", 1.02 * (double)count(4, 8));
    CHECK(!least(c, &q, &err), "%s", err.text);
    q.fixed.decisions.nstorage = 1, q.fixed.decisions.storage = replicated;
    CHECK_EQ(least(c, &q, &err), MT_EINPUT);
    CHECK(strstr(err.hint, "with --storage split "), "%s", err.hint);
    static const bool used[] = {false, true, false, false}; /* one rank has too little room for all */
    q.fixed.use = MT_USE_SOME, q.fixed.used = used;
    CHECK_EQ(least(c, &q, &err), MT_EINPUT);
    CHECK(!strstr(err.hint, "it fits without"), "%s", err.hint);
    q = request_of(8);
    q.job.recompute = MT_RECOMPUTE_NONE;
    int64_t micro[] = {1, 1, 1, 1}; /* gradients are accumulated, which takes more than a second sample */
    q.fixed.micro = micro;
    CHECK(!least(c, &q, &err), "%s", err.text); /* but not where they are reduced after each */
    q.fixed.decisions.gather = MT_GATHER_STEP, q.fixed.decisions.reduced = MT_REDUCED_STEP;
    CHECK_EQ(least(c, &q, &err), MT_EINPUT);
    CHECK(strstr(err.hint, "with --storage split "), "%s", err.hint);
    CHECK(!strstr(err.text, "micro-batches of 1"), "%s", err.text);
    mt_cluster_free(c);
}

/* The search refuses only what the count refuses. */
static void test_fastest(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_plan_request q = request_of(8);
    double need = (double)count(3, 8);
    struct mt_plan_found found;
    struct mt_cluster *c = describe("a10:1x3", 1.001 * need);
    enum mt_status st = mt_plan_fastest(c, &q, &found, &err);
    if (st == MT_EMISSING) {
        printf("skipped: %s\n", err.text);
        exit(77);
    }
    CHECK_OK(st, err);
    for (int r = 0; r < 3; r++) CHECK(found.plan->memory[r].arena_bytes <= c->devices[r].memory_bytes, "rank %d", r);
    mt_plan_found_release(&found);
    mt_cluster_free(c);
    c = describe("a10:1x3", 0.9 * need);
    CHECK_EQ(mt_plan_fastest(c, &q, &found, &err), MT_EINPUT);
    CHECK(strstr(err.text, MODEL " does not fit into memory: even with "), "%s", err.text);
    mt_cluster_free(c);
}

int main(void) {
    test_equal("a10:1", 8);
    test_equal("a10:1x2", 8);
    test_equal("a10:1x4", 4);
    test_equal("a10:1x5", 5);
    test_hint();
    test_unequal();
    test_fixed();
    test_fastest();
    return 0;
}
