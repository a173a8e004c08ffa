/* Gathers with joint tiles: B is read once, all rows of A are awaited from all ranks, a rank's own too; what else may
 * be joint; and which problems of few rows one kernel runs. */
#include "tests/kernels/overlap/even.h"
#include "tests/kernels/overlap/job.h"

static const uint64_t seed = 20261204;

/* Rows of A are in staging when the puts that a tile awaits are there; of each rank with columns every row comes once.
 */
static void check_schedule(const struct mt_overlap *p, int me, const struct mt_overlap_schedule *all) {
    const struct mt_overlap_schedule *s = &all[me];
    int64_t products = 0;
    for (int t = 0; t < s->ntiles; t++) {
        const struct mt_overlap_tile *tile = &s->tiles[t];
        if (tile->kind != MT_TILE_MATMUL) continue;
        int64_t awaited = 0;
        products++;
        CHECK(tile->from == MT_OVERLAP_STAGED && tile->from_row == tile->row && !tile->k, "tile %d", t);
        for (int w = tile->first_wait; w < tile->first_wait + tile->nwaits; w++)
            for (int j = 0; j < all[s->waits[w].from].nputs; j++) {
                const struct mt_overlap_put *put = &all[s->waits[w].from].puts[j];
                if (put->peer != me || put->flag != s->waits[w].flag) continue;
                int64_t from = put->to_row > tile->row ? put->to_row : tile->row, end = tile->row + tile->rows;
                if (put->to_row + put->rows < end) end = put->to_row + put->rows;
                CHECK(end > from && s->waits[w].count == 1 && !s->waits[w].k, "tile %d awaits what it does not read",
                      t);
                awaited += end - from;
            }
        CHECK_EQ(awaited, tile->rows);
    }
    int64_t down = (p->m + p->tile[0] - 1) / p->tile[0], across = (p->shares[me] + p->tile[1] - 1) / p->tile[1];
    CHECK_EQ(products, down * across);
    bool own = false;
    for (int j = 0; j < s->nputs; j++) { /* peers first */
        own |= s->puts[j].peer == me;
        CHECK_EQ(s->puts[j].peer == me, own);
    }
    CHECK_EQ(own, p->rows[me] && p->shares[me]);
}

static void test_schedules(void) {
    for (int n = 1; n <= 6; n++)
        for (int number = 0; number < 20; number++) {
            struct job job;
            struct mt_err err = MT_ERR_INIT;
            struct mt_overlap_schedule all[JOB_RANKS];
            job_init(&job, n, number * JOB_NFORMS, seed);
            job_join(&job);
            CHECK_OK(mt_overlap_check(&job.problem, &err), err);
            for (int r = 0; r < n; r++) mt_overlap_schedule(&job.problem, r, &all[r]);
            for (int r = 0; r < n; r++) check_schedule(&job.problem, r, all);
            for (int r = 0; r < n; r++) mt_overlap_schedule_release(&all[r]);
        }
}

static void refuse(struct mt_overlap p, const char *why) {
    struct mt_err err = MT_ERR_INIT;
    CHECK_EQ(mt_overlap_check(&p, &err), MT_EINPUT);
    CHECK(strstr(err.text, why), "%s, not: %s", err.text, why);
}

static void test_check(void) {
    struct job job;
    job_init(&job, 3, 0, seed);
    job_join(&job);
    struct mt_overlap p = job.problem, other = p;
    const int64_t group = 1;
    CHECK(mt_overlap_equal(&p, &other), "equal");
    other.joint = false;
    CHECK(!mt_overlap_equal(&p, &other), "one is joint");
    refuse((other = p, other.slabs = 2, other), "joint tiles, and K in slabs");
    refuse((other = p, other.groups = &group, other.ngroups = 1, other), "joint tiles, and groups of rows");
    refuse((other = p, other.how = MT_OVERLAP_FUSED, other.engines = true, other), "joint tiles, and puts by copy");
    job_init(&job, 3, MT_OVERLAP_REDUCE, seed);
    job.problem.joint = true;
    refuse(job.problem, "only AllGather+GEMM has joint tiles");
}

/* ---- of few rows, in one kernel ---- */

struct few {
    struct mt_overlap p;
    int64_t rows[JOB_RANKS], shares[JOB_RANKS];
};

static struct mt_overlap *pose(struct few *few, enum mt_overlap_form form, int n, int64_t m, int64_t columns) {
    const int64_t extents[3] = {m, 8192, 8192};
    few->p = even_overlap(form, n, extents, MT_BF16, few->rows, few->shares);
    few->p.tile[0] = m, few->p.tile[1] = columns, few->p.chunk = m;
    few->p.how = MT_OVERLAP_FUSED;
    few->p.joint = form == MT_OVERLAP_GATHER, few->p.direct = form == MT_OVERLAP_REDUCE;
    return &few->p;
}

static bool serves(const struct mt_overlap *p) {
    return mt_overlap_fused_serves(p, 0, false, true, false);
}

static void test_few(void) {
    static const enum mt_overlap_form forms[] = {MT_OVERLAP_GATHER, MT_OVERLAP_REDUCE};
    struct few few;
    for (int f = 0; f < 2; f++) {
        struct mt_overlap *p = pose(&few, forms[f], 2, 32, 64), other;
        CHECK(mt_overlap_fused_few(p) && serves(p) && mt_overlap_fused_serves(p, 1, false, false, false), "form %d", f);
        CHECK(!mt_overlap_fused_serves(p, 0, true, true, false) && !mt_overlap_fused_serves(p, 0, false, true, true),
              "transposed");
        other = *p, other.out = MT_F32;
        CHECK(!mt_overlap_fused_few(&other), "f32 out");
        other = *p, other.tile[0] = 16;
        CHECK(!mt_overlap_fused_few(&other), "rows of two tiles");
        other = *p, other.tile[1] = 256;
        CHECK(!mt_overlap_fused_few(&other), "columns");
        other = *p, other.joint = other.direct = false;
        CHECK(!mt_overlap_fused_few(&other) && serves(&other), "the ordinary form");
        CHECK(mt_overlap_fused_few(pose(&few, forms[f], 2, 256, 128)), "256 rows");
        CHECK(!mt_overlap_fused_few(pose(&few, forms[f], 2, 258, 128)), "258 rows");
        CHECK_EQ(serves(&few.p), forms[f] == MT_OVERLAP_REDUCE); /* only a direct reduce has another form */
        p = pose(&few, forms[f], 2, 32, 128);
        few.shares[0]--, few.shares[1]++;
        CHECK(!serves(p), "8191");
        few.shares[0] = 0, few.shares[1] = 8192;
        CHECK(!mt_overlap_fused_few(p), "a rank without a part in it");
        CHECK_EQ(serves(p), forms[f] == MT_OVERLAP_REDUCE); /* only that has another form */
        CHECK_EQ(mt_overlap_fused_serves(p, 1, false, true, false), forms[f] == MT_OVERLAP_REDUCE);
    }
    struct mt_overlap *p = pose(&few, MT_OVERLAP_GATHER, 2, 32, 64);
    p->keep = true;
    CHECK(!serves(p), "its operand is kept");
}

static void test_few_tiles(void) {
    struct few few;
    int64_t tile[2];
    for (int64_t m = 1; m <= 256; m += 85)
        for (int i = 0; i < 2; i++) {
            CHECK(mt_overlap_few_tile(pose(&few, MT_OVERLAP_REDUCE, 1, m, 64), i, tile), "tile %d", i);
            CHECK(tile[0] == m && tile[1] == (i ? 128 : 64), "%lld by %lld", (long long)tile[0], (long long)tile[1]);
            memcpy(few.p.tile, tile, sizeof tile);
            CHECK(mt_overlap_fused_few(&few.p), "tile %d", i);
        }
    CHECK(!mt_overlap_few_tile(pose(&few, MT_OVERLAP_GATHER, 1, 64, 64), 2, tile), "a third");
    CHECK(!mt_overlap_few_tile(pose(&few, MT_OVERLAP_GATHER, 1, 257, 64), 0, tile), "257 rows");
    CHECK(!mt_overlap_few_tile(pose(&few, MT_OVERLAP_SCATTER, 1, 64, 64), 0, tile), "a scatter");
}

int main(void) {
    test_schedules();
    test_check();
    test_few();
    test_few_tiles();
    return 0;
}
