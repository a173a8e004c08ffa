/* Copy engines await nothing: which gathers they serve in one kernel, by the schedules of all ranks; and that nothing
 * else may have them. */
#include "tests/kernels/overlap/job.h"

static const uint64_t seed = 20261130;

static struct mt_overlap pose(struct job *job, int number) {
    *job = (struct job){.problem = {.form = MT_OVERLAP_GATHER, .type = MT_BF16, .out = MT_BF16, .wire = MT_BF16}};
    struct mt_overlap *p = &job->problem;
#define DRAW(i, below) ((int64_t)mt_random_below(seed, (uint64_t)number, (uint64_t)(i), (uint64_t)(below)))
    p->n = 1 + (int)DRAW(0, 5);
    p->keep = DRAW(1, 2);
    p->k = 64;
    for (int r = 0; r < p->n; r++) {
        p->m += job->rows[r] = DRAW(2 + 2 * r, 4) ? 1 + DRAW(20 + r, 200) : 0;
        p->cols += job->shares[r] = DRAW(3 + 2 * r, 4) ? 8 * (1 + DRAW(40 + r, 40)) : 0;
    }
    p->rows = job->rows, p->shares = job->shares;
    p->tile[0] = 128, p->tile[1] = 256, p->chunk = 1 + DRAW(60, 200);
    p->how = MT_OVERLAP_FUSED;
    return *p;
#undef DRAW
}

/* Whether a rank's puts await something, or are to itself. */
static bool needs_kernel(const struct mt_overlap *p, int rank) {
    struct mt_overlap_schedule schedule;
    bool needs = false;
    mt_overlap_schedule(p, rank, &schedule);
    for (int j = 0; j < schedule.nputs; j++) needs |= schedule.puts[j].nwaits > 0 || schedule.puts[j].peer == rank;
    mt_overlap_schedule_release(&schedule);
    return needs;
}

static void test_serves(void) {
    int served = 0, refused = 0;
    for (int number = 0; number < 400; number++) {
        struct job job;
        struct mt_err err = MT_ERR_INIT;
        struct mt_overlap p = pose(&job, number);
        bool needs = false;
        p.engines = true, p.slabs = number % 4;
        CHECK_OK(mt_overlap_check(&p, &err), err);
        for (int r = 0; r < p.n; r++) needs |= needs_kernel(&p, r);
        for (int r = 0; r < p.n; r++) {
            bool serves = mt_overlap_fused_serves(&p, r, false, false, false);
            struct mt_overlap by_blocks = p;
            by_blocks.engines = false, by_blocks.slabs = 0;
            CHECK(mt_overlap_fused_serves(&by_blocks, r, false, false, false), "gather %d", number);
            CHECK(serves == !needs, "gather %d, rank %d: serves %d", number, r, serves);
        }
        served += !needs, refused += needs;
    }
    CHECK(served > 50 && refused > 50, "%d served, %d refused", served, refused);
}

static void refuse(struct mt_overlap p) {
    struct mt_err err = MT_ERR_INIT;
    CHECK_EQ(mt_overlap_check(&p, &err), MT_EINPUT);
    CHECK(strstr(err.text, "puts by copy engines"), "%s", err.text);
}

static void test_check(void) {
    struct job job;
    struct mt_err err = MT_ERR_INIT;
    struct mt_overlap p = pose(&job, 1);
    p.engines = true;
    CHECK_OK(mt_overlap_check(&p, &err), err);
    p.slabs = 2;
    CHECK_OK(mt_overlap_check(&p, &err), err);
    refuse((p.slabs = 0, p.how = MT_OVERLAP_CHUNKS, p));
    refuse((p.how = MT_OVERLAP_ANY, p));
    int64_t cols = p.cols;
    p.cols = p.k, p.k = cols, p.keep = false, p.form = MT_OVERLAP_SCATTER, p.how = MT_OVERLAP_FUSED;
    refuse(p);
    p.engines = false;
    CHECK_OK(mt_overlap_check(&p, &err), err);
}

int main(void) {
    test_serves();
    test_check();
    return 0;
}
