/* A tenth of the ordinary jobs (jobs.h), every model, cluster and batch among them: planned, or rightly refused. All
 * are in tests/bench/jobs.c. */
#include "tests/planner/make/jobs.h"

#ifdef MOTLEY_SANITIZE
enum { EVERY = 97, LARGE = false };
#else
enum { EVERY = 11, LARGE = true }; /* EVERY: prime to the numbers of models, clusters and batches */
#endif

/* What was refused though it fits, when memory curves mixed two kinds of programs. */
static void test_refused_before(void) {
    static const int jobs[] = {1 /* mlp, h100:1, 8 */, 11 /* mlp, h100:1x8, 8 */, 155 /* 1558m, h200:1, 2 */};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        CHECK(jobs_plan(jobs[i], true, false, NULL), "job %d is refused", jobs[i]);
}

/* 1558m, a100-80:1x2 net=25G + t4:1x8, 32: T4s that have no room for a second sample have it with recomputation. The
 * step was 57% above the bound without. */
static void test_recomputation(void) {
    struct jobs_found found;
    CHECK(jobs_plan(177, true, false, &found), "refused");
    CHECK(found.gap < 0.2, "%g", found.gap);
}

/* The step of 355m, batch 32, on h100:2x8 net=100G with buckets of so many bytes (-1: the best, which is put there).
 */
static double step_with_buckets(int64_t *bucket_bytes) {
    struct mt_cluster *c;
    struct mt_plan_request request = {
        .model = "gpt2:355m", .job = jobs_job(32), .fixed = {.decisions = mt_decisions_unset}, .limit_s = 600};
    struct mt_plan_found found;
    CHECK_OK(mt_cluster_describe("h100:2x8 net=100G", NULL, &c, &jobs_err), jobs_err);
    request.fixed.decisions.bucket_bytes = *bucket_bytes;
    CHECK_OK(mt_plan_fastest(c, &request, &found, &jobs_err), jobs_err);
    double step_s = found.plan->prediction->step_s;
    *bucket_bytes = found.plan->decisions.bucket_bytes;
    mt_plan_found_release(&found);
    mt_cluster_free(c);
    return step_s;
}

/* Neither half nor twice the size of its buckets makes the best plan faster, but for the 0.5% that a program of many
 * splits must gain to be taken instead of one that divides samples alone (planner/search/divided.c). */
static void test_buckets(void) {
    int64_t best = -1;
    double step_s = step_with_buckets(&best);
    for (int twice = 0; twice < 2; twice++) {
        int64_t near = twice ? 2 * best : best / 2;
        double near_s = step_with_buckets(&near);
        CHECK(near_s >= step_s * 0.995 * (1 - 1e-3), "%g s with buckets of %lld bytes, %g s with %lld", near_s,
              (long long)near, step_s, (long long)best);
    }
}

int main(void) {
    int planned = 0, count = 0;
    test_refused_before();
    if (LARGE) test_recomputation();
    if (LARGE) test_buckets();
    for (int which = 0; which < JOBS; which += EVERY, count++) planned += jobs_plan(which, true, false, NULL);
    printf("%d of %d planned\n", planned, count);
    return 0;
}
