/* Predictions of overlapped GEMMs against what can be reckoned by hand, and against bounds that hold for all. */
#include "kernels/base/number/rng.h"
#include "kernels/base/wait.h"
#include "planner/overlap/predict.h"
#include "tests/check.h"
#include "tests/planner/overlap/candidates.h"

enum { MOST = 8 };
static const uint64_t seed = 20261123;

struct setting {
    struct mt_overlap problem;
    struct mt_overlap_rates rates[MOST];
    double bandwidth_Bps[MOST * MOST], latency_s[MOST * MOST];
    struct mt_overlap_links links;
    int64_t rows[MOST], shares[MOST];
};

/* Tiles of 10 by 10 with k = 10 take 1 ms; 1 element of f32 takes 10 us on a link: 10 rows of 10 take 1 ms. */
static void begin(struct setting *s, enum mt_overlap_form form, int n, int64_t rows, int64_t share) {
    *s = (struct setting){
        .problem = {form, n, .type = MT_F32, .out = MT_F32, .wire = MT_F32, .tile = {10, 10}, .chunk = 10}};
    for (int r = 0; r < n; r++) {
        s->rows[r] = rows, s->shares[r] = share;
        s->problem.m += rows;
        s->rates[r] = (struct mt_overlap_rates){.workers = 1,
                                                .flops = 2e6,
                                                .memory_Bps = INFINITY,
                                                .streams = 1,
                                                .egress_Bps = INFINITY,
                                                .ingress_Bps = INFINITY,
                                                .compute_slowdown = 1,
                                                .put_slowdown = 1};
    }
    for (int i = 0; i < n * n; i++) s->bandwidth_Bps[i] = 4e5;
    s->problem.cols = form == MT_OVERLAP_GATHER ? n * share : 10;
    s->problem.k = form == MT_OVERLAP_GATHER ? 10 : n * share;
    s->problem.rows = s->rows, s->problem.shares = s->shares;
    s->links = (struct mt_overlap_links){s->bandwidth_Bps, s->latency_s};
}

static struct mt_overlap_prediction predict(const struct setting *s) {
    struct mt_overlap_schedule schedules[MOST];
    struct mt_overlap_prediction prediction;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_overlap_check(&s->problem, &err), err);
    for (int r = 0; r < s->problem.n; r++) mt_overlap_schedule(&s->problem, r, &schedules[r]);
    CHECK_OK(mt_overlap_predict(&s->problem, schedules, s->rates, &s->links, &prediction, &err), err);
    for (int r = 0; r < s->problem.n; r++) mt_overlap_schedule_release(&schedules[r]);
    return prediction;
}

static void test_by_hand(void) {
    struct setting s;
    struct mt_overlap_prediction now;
    begin(&s, MT_OVERLAP_GATHER, 1, 100, 10); /* ten tiles on four workers */
    s.rates[0].workers = 4;
    CHECK_NEAR(predict(&s).s, 3e-3, 1e-12);
    s.rates[0].tile_s = 1e-3; /* and as much again for each tile */
    CHECK_NEAR(predict(&s).s, 6e-3, 1e-12);
    begin(&s, MT_OVERLAP_GATHER, 1, 95, 10); /* the last tile is half a tile, unless it counts as a whole */
    CHECK_NEAR(predict(&s).s, 9.5e-3, 1e-12);
    s.rates[0].whole_tiles = true;
    CHECK_NEAR(predict(&s).s, 10e-3, 1e-12);

    /* Two waves of four units of 2 ms, and as many of the second tile's eight units; 0.5 ms before each tile. */
    begin(&s, MT_OVERLAP_GATHER, 1, 60, 10);
    s.problem.tile[0] = 30;
    s.rates[0].unit[0] = 5, s.rates[0].unit[1] = 10, s.rates[0].units = 4, s.rates[0].tile_s = 5e-4;
    s.rates[0].flops = 2.0 * 5 * 10 * 10 * 4 / 2e-3;
    CHECK_NEAR(predict(&s).s, 9e-3, 1e-12);

    /* Two own tiles, and two whose rows arrive at 1 and 2 ms: no waiting. */
    begin(&s, MT_OVERLAP_GATHER, 2, 20, 10);
    now = predict(&s);
    CHECK_NEAR(now.s, 4e-3, 1e-12);
    CHECK_NEAR(now.waited_s, 0, 1e-12);
    /* They arrive at 5 and 10 ms, and 0.1 ms later. */
    for (int i = 0; i < 4; i++) s.bandwidth_Bps[i] = 0.8e5, s.latency_s[i] = 1e-4;
    now = predict(&s);
    CHECK_NEAR(now.s, 11.1e-3, 1e-12);
    CHECK_NEAR(now.compute_s, 4e-3, 1e-12);
    CHECK_NEAR(now.waited_s, 7.1e-3, 1e-12);
    /* Tiles take twice as long while rows are on their way: the last does not. */
    for (int r = 0; r < 2; r++) s.rates[r].compute_slowdown = 2;
    now = predict(&s);
    CHECK_NEAR(now.s, 11.1e-3, 1e-12);
    CHECK_NEAR(now.waited_s, 4.1e-3, 1e-12); /* it computes for 4, 2 and 1 ms */
    for (int i = 0; i < 4; i++) s.bandwidth_Bps[i] = 4e5, s.latency_s[i] = 0;
    CHECK_NEAR(predict(&s).s, 5e-3, 1e-12); /* in 2 ms of rows one tile; three more */
    /* Rows take twice as long while the rank computes: they arrive at 2 and, after a tile until 3 ms, at 3.5. */
    for (int r = 0; r < 2; r++) s.rates[r].compute_slowdown = 1, s.rates[r].put_slowdown = 2;
    CHECK_NEAR(predict(&s).s, 4.5e-3, 1e-12);
    /* A CPU copies itself: 2 ms, then four tiles. */
    for (int r = 0; r < 2; r++) s.rates[r].put_slowdown = 1, s.rates[r].holds = true;
    CHECK_NEAR(predict(&s).s, 6e-3, 1e-12);

    /* And each of the two puts takes 0.5 ms before its bytes, which no slowdown stretches: 3 ms, then four tiles. */
    for (int r = 0; r < 2; r++) s.rates[r].put_s = 5e-4;
    CHECK_NEAR(predict(&s).s, 7e-3, 1e-12);
    for (int r = 0; r < 2; r++) s.rates[r].holds = false; /* rows arrive at 1.5 and 3 ms, beside four tiles */
    CHECK_NEAR(predict(&s).s, 4e-3, 1e-12);

    /* Three ranks of one tile: to one peer after the other; both at a time at half the rate; or at the full. */
    begin(&s, MT_OVERLAP_GATHER, 3, 10, 10);
    for (int i = 0; i < 9; i++) s.bandwidth_Bps[i] = 1e5; /* 4 ms a put */
    CHECK_NEAR(predict(&s).s, 9e-3, 1e-12);
    for (int r = 0; r < 3; r++) s.rates[r].streams = 2;
    CHECK_NEAR(predict(&s).s, 6e-3, 1e-12); /* both at 4 ms, then two tiles */
    for (int r = 0; r < 3; r++) s.rates[r].egress_Bps = 1e5;
    CHECK_NEAR(predict(&s).s, 10e-3, 1e-12);
    for (int r = 0; r < 3; r++) s.rates[r].egress_Bps = INFINITY, s.rates[r].ingress_Bps = 1e5;
    CHECK_NEAR(predict(&s).s, 10e-3, 1e-12);

    /* Two ranks, two tiles each for the peer and for itself: four tiles, then two additions of 1 ms. The peer's last
     * partial sums are there at 3 ms. */
    begin(&s, MT_OVERLAP_SCATTER, 2, 20, 10);
    for (int r = 0; r < 2; r++) s.rates[r].memory_Bps = 3 * 4 * 100 / 1e-3;
    CHECK_NEAR(predict(&s).s, 6e-3, 1e-12);
    /* A mover adds meanwhile what is there, at 3 and at 4 ms: the last ends a millisecond after the tiles. */
    for (int r = 0; r < 2; r++) s.rates[r].movers = 1;
    now = predict(&s);
    CHECK_NEAR(now.s, 5e-3, 1e-12);
    CHECK_NEAR(now.compute_s, 4e-3, 1e-12);
    CHECK_NEAR(now.waited_s, 1e-3, 1e-12);
    /* Half as fast while there are tiles: the first is half done at 4 ms. */
    for (int r = 0; r < 2; r++) s.rates[r].moves_slowdown = 2;
    CHECK_NEAR(predict(&s).s, 5.5e-3, 1e-12);
    for (int r = 0; r < 2; r++) s.rates[r].moves_slowdown = 0;
    for (int r = 0; r < 2; r++) s.rates[r].memory_Bps /= 2; /* 2 ms each: from 3 and from 5 ms on; or by two at once */
    CHECK_NEAR(predict(&s).s, 7e-3, 1e-12);
    for (int r = 0; r < 2; r++) s.rates[r].movers = 2;
    CHECK_NEAR(predict(&s).s, 6e-3, 1e-12);
    for (int r = 0; r < 2; r++) s.rates[r].movers = 0, s.rates[r].memory_Bps *= 2;
    for (int i = 0; i < 4; i++) s.bandwidth_Bps[i] = 0.8e5; /* sent by 6 and by 11 ms */
    CHECK_NEAR(predict(&s).s, 12e-3, 1e-12);
}

/* Four tiles for a peer, of 1 ms each, and 2 ms each on the link; four of a rank's own. */
static void test_unsent(void) {
    struct setting s;
    begin(&s, MT_OVERLAP_SCATTER, 2, 40, 10);
    for (int i = 0; i < 4; i++) s.bandwidth_Bps[i] = 2e5;
    for (int mix = 0; mix < 2; mix++) {
        s.problem.mix = mix;
        for (int r = 0; r < 2; r++) s.rates[r].unsent = 0;
        CHECK_NEAR(predict(&s).s, 9e-3, 1e-12);
        /* The second tile waits for the first one's put, and so on, unless others come between them. */
        for (int r = 0; r < 2; r++) s.rates[r].unsent = 1;
        CHECK_NEAR(predict(&s).s, mix ? 9e-3 : 11e-3, 1e-12);
    }
}

/* Two ranks of one tile: the peer's rows take 5 ms, or 1 ms a slab, of which each is multiplied in 0.2 ms. */
static void test_slabs(void) {
    struct setting s;
    begin(&s, MT_OVERLAP_GATHER, 2, 10, 10);
    for (int i = 0; i < 4; i++) s.bandwidth_Bps[i] = 0.8e5;
    CHECK_NEAR(predict(&s).s, 6e-3, 1e-12);
    s.problem.slabs = 5;
    CHECK_NEAR(predict(&s).s, 6e-3, 1e-12); /* who waits at the start of a tile gains nothing */
    for (int r = 0; r < 2; r++) s.rates[r].within = true;
    CHECK_NEAR(predict(&s).s, 5.2e-3, 1e-12);
    /* 0.5 ms before each tile: until 1.5 ms its own, then the first slab until 2.2 ms, and one a millisecond. */
    for (int r = 0; r < 2; r++) s.rates[r].tile_s = 5e-4;
    struct mt_overlap_prediction now = predict(&s);
    CHECK_NEAR(now.s, 5.2e-3, 1e-12);
    CHECK_NEAR(now.waited_s, 2.2e-3, 1e-12);
    CHECK_NEAR(now.compute_s, 3e-3, 1e-12);
    /* Slabs every 0.1 ms: five tenths of its own tile, and all of the peer's, without waiting. */
    for (int i = 0; i < 4; i++) s.bandwidth_Bps[i] = 8e5;
    CHECK_NEAR(predict(&s).s, 3e-3, 1e-12);
    /* Each tile adds four slabs' sums, read twice and written, in 0.5 ms. */
    for (int r = 0; r < 2; r++) s.rates[r].adds_slabs = true, s.rates[r].memory_Bps = 4 * 3 * 4 * 100 / 5e-4;
    CHECK_NEAR(predict(&s).s, 4e-3, 1e-12);
    s.problem.slabs = 1;
    CHECK_NEAR(predict(&s).s, 3e-3, 1e-12);
    /* Two strips of two rotated slabs, 1 ms each: the first's at 1 and 3 ms, the second's, which begins with the last
     * slab, at 2 and 4. Two workers end their own tiles at 1 ms, and half a tile at 1.5, 2.5, 3.5 and 4.5 ms. */
    begin(&s, MT_OVERLAP_GATHER, 2, 20, 10);
    s.problem.k = 128, s.problem.slabs = 2, s.problem.chunk = 20;
    for (int i = 0; i < 4; i++) s.bandwidth_Bps[i] = 10 * 64 * 4 / 1e-3;
    for (int r = 0; r < 2; r++) s.rates[r].within = true, s.rates[r].flops = 2.0 * 10 * 10 * 128 / 1e-3;
    CHECK_NEAR(predict(&s).s, 4.5e-3, 1e-12);
    for (int r = 0; r < 2; r++) s.rates[r].workers = 2;
    now = predict(&s);
    CHECK_NEAR(now.s, 4.5e-3, 1e-12);
    CHECK_NEAR(now.waited_s, 2.5e-3, 1e-12);
}

/* Two ranks of ten rows in one joint tile of 2 ms: it awaits the peer's rows, which come after 1 ms, and its own, which
 * are put last. */
static void test_joint(void) {
    struct setting s;
    begin(&s, MT_OVERLAP_GATHER, 2, 10, 10);
    s.problem.joint = true, s.problem.tile[0] = 20;
    for (int r = 0; r < 2; r++) s.rates[r].within = true;
    struct mt_overlap_prediction now = predict(&s);
    CHECK_NEAR(now.s, 3e-3, 1e-12);
    CHECK_NEAR(now.waited_s, 1e-3, 1e-12);
    for (int r = 0; r < 2; r++) s.rates[r].memory_Bps = 400 / 0.3e-3; /* its own rows, 0.3 ms after the peer's */
    CHECK_NEAR(predict(&s).s, 3.3e-3, 1e-12);
    for (int r = 0; r < 2; r++) s.rates[r].workers = 3; /* all of them put these */
    CHECK_NEAR(predict(&s).s, 3.1e-3, 1e-12);
}

/* Of [32, 8192] by [8192, 8192] in bf16, on 132 multiprocessors. */
static void test_few(void) {
    static const struct {
        enum mt_overlap_form form;
        int n, workers, parts;
        int64_t columns;
        double bytes, beside_s;
    } cases[] = {{MT_OVERLAP_GATHER, 2, 66, 2, 64, 0x1p26, 5.8e-6},  {MT_OVERLAP_GATHER, 2, 33, 4, 128, 0x1p26, 5.8e-6},
                 {MT_OVERLAP_GATHER, 8, 16, 8, 128, 0x1p24, 5.8e-6}, {MT_OVERLAP_GATHER, 8, 16, 8, 64, 0x1p24, 5.8e-6},
                 {MT_OVERLAP_REDUCE, 8, 132, 1, 64, 0x1p24, 3.8e-6}, {MT_OVERLAP_REDUCE, 2, 66, 2, 128, 0x1p26, 5.8e-6},
                 {MT_OVERLAP_GATHER, 1, 132, 1, 64, 0x1p27, 3.8e-6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct setting s;
        begin(&s, cases[i].form, cases[i].n, 32 / cases[i].n, 8192 / cases[i].n);
        struct mt_overlap *p = &s.problem;
        p->type = p->out = p->wire = MT_BF16, p->tile[0] = 32, p->tile[1] = cases[i].columns;
        p->k = 8192, p->cols = 8192;
        p->joint = p->form == MT_OVERLAP_GATHER, p->direct = !p->joint, p->how = MT_OVERLAP_FUSED;
        struct mt_overlap_few few = mt_overlap_few_of(p, 0, 132);
        CHECK_EQ(few.workers, cases[i].workers);
        CHECK_EQ(few.parts, cases[i].parts);
        CHECK_NEAR(few.bytes, cases[i].bytes, 0);
        CHECK_NEAR(few.beside_s, cases[i].beside_s, 1e-15);
        CHECK_NEAR(few.again, few.bytes / (double)p->tile[1] * 32 / 12, 1);
        /* The tile takes as long as is said, its sums as all of memory's rate does. */
        s.rates[0].memory_Bps = 1e12;
        mt_overlap_few_rates(p, 0, &few, 20e-6, s.rates);
        double k = p->joint ? 8192 : 8192.0 / p->n;
        CHECK_NEAR(2.0 * 32 * (double)p->tile[1] * k / s.rates[0].flops, 20e-6, 1e-15);
        CHECK_NEAR(s.rates[0].memory_Bps * s.rates[0].workers, 1e12, 1);
    }
}

static void random_setting(struct setting *s, int trial) {
    uint64_t draw = 0;
#define DRAW(below) ((int64_t)mt_random_below(seed, (uint64_t)trial, draw++, (uint64_t)(below)))
    int n = 1 + (int)DRAW(MOST);
    enum mt_overlap_form form = (enum mt_overlap_form)DRAW(MT_OVERLAP_NFORMS);
    begin(s, form, n, 1, 1);
    s->problem.m = 0;
    int64_t shares = 0;
    for (int r = 0; r < n; r++) {
        s->problem.m += s->rows[r] = DRAW(60);
        shares += s->shares[r] = DRAW(40);
        s->rates[r].workers = 1 + (int)DRAW(5);
        s->rates[r].streams = 1 + (int)DRAW(3);
        s->rates[r].flops = 1e6 * (double)(1 + DRAW(4));
        s->rates[r].memory_Bps = 1e6 * (double)(1 + DRAW(9));
        s->rates[r].egress_Bps = 1e5 * (double)(1 + DRAW(50));
        s->rates[r].ingress_Bps = 1e5 * (double)(1 + DRAW(50));
    }
    *(form == MT_OVERLAP_GATHER ? &s->problem.cols : &s->problem.k) = shares;
    for (int i = 0; i < n * n; i++) {
        s->bandwidth_Bps[i] = 1e5 * (double)(1 + DRAW(50));
        s->latency_s[i] = 1e-5 * (double)DRAW(10);
    }
    s->problem.chunk = 1 + DRAW(20);
    s->problem.mix = (int)DRAW(3);
    if (form == MT_OVERLAP_GATHER) s->problem.slabs = (int)DRAW(6);
    for (int r = 0; r < n; r++) s->rates[r].within = DRAW(4), s->rates[r].adds_slabs = !DRAW(3);
    for (int r = 0; r < n; r++) s->rates[r].movers = DRAW(2) ? 1 + (int)DRAW(3) : 0;
#undef DRAW
}

/* Whatever the setting: no rank sends or receives faster than it can, none computes faster; and it takes no longer than
 * all work of all ranks one after the other. */
static void test_bounds(void) {
    for (int trial = 0; trial < 300; trial++) {
        struct setting s;
        struct mt_overlap_schedule schedule;
        random_setting(&s, trial);
        struct mt_overlap_prediction now = predict(&s);
        struct setting by_workers = s; /* who then add and copy as well */
        for (int r = 0; r < s.problem.n; r++) by_workers.rates[r].movers = 0;
        by_workers.problem.rows = s.rows, by_workers.problem.shares = s.shares, by_workers.links = s.links;
        double least_s = now.compute_s, most_s = 0, work_s = predict(&by_workers).compute_s, received[MOST] = {0};
        for (int r = 0; r < s.problem.n; r++) {
            double sent = 0;
            mt_overlap_schedule(&s.problem, r, &schedule);
            for (int j = 0; j < schedule.nputs; j++) {
                const struct mt_overlap_put *put = &schedule.puts[j];
                double bytes = (double)(put->rows * put->cols * 4);
                int pair = r * s.problem.n + put->peer;
                if (put->peer == r) continue;
                sent += bytes;
                received[put->peer] += bytes;
                most_s += s.latency_s[pair] + bytes / fmin(s.bandwidth_Bps[pair],
                                                           fmin(s.rates[r].egress_Bps, s.rates[put->peer].ingress_Bps));
            }
            least_s = fmax(least_s, sent / s.rates[r].egress_Bps);
            most_s += work_s * s.rates[r].workers;
            mt_overlap_schedule_release(&schedule);
        }
        /* Nothing else changes where all wait at the start of tiles: no rank ends sooner. */
        struct setting at_start = s;
        for (int r = 0; r < s.problem.n; r++) at_start.rates[r].within = false;
        at_start.problem.rows = s.rows, at_start.problem.shares = s.shares;
        at_start.links = s.links;
        CHECK(now.s <= predict(&at_start).s * (1 + 1e-9), "trial %d: waiting within tiles is slower", trial);
        for (int r = 0; r < s.problem.n; r++) least_s = fmax(least_s, received[r] / s.rates[r].ingress_Bps);
        CHECK(now.s >= least_s * (1 - 1e-9) && now.s <= most_s * (1 + 1e-9), "trial %d: %g not in %g to %g", trial,
              now.s, least_s, most_s);
    }
}

/* Candidates can be run, and what was set before is among them or no better. */
static void test_candidates(void) {
    for (int trial = 0; trial < 40; trial++) {
        struct setting s;
        double best_s;
        random_setting(&s, trial);
        if (!s.problem.m) continue;
        double first_s = predict(&s).s;
        s.problem.mix = 0;
        s.problem = best_candidate(&s.problem, s.rates, &s.links, &best_s);
        CHECK_NEAR(predict(&s).s, best_s, 0);
        if (s.problem.form != MT_OVERLAP_GATHER) CHECK(best_s <= first_s * (1 + 1e-12), "mixes 0 to 2 were tried");
    }
}

/* One kernel's: those of whole rows as by chunks, then slabs of the largest chunks, then engines, with slabs as well;
 * all can be run. */
static void test_fused_candidates(void) {
    struct setting s;
    struct mt_overlap tried, whole;
    struct mt_err err = MT_ERR_INIT;
    static const int slabs[] = {4, 8, 16, 0, 3, 4, 5};
    begin(&s, MT_OVERLAP_GATHER, 2, 1000, 8);
    struct mt_overlap open = s.problem;
    open.k = 4096;
    for (int i = 0; i < 27; i++) {
        open.how = MT_OVERLAP_FUSED;
        CHECK(mt_overlap_candidate(&open, i, &tried), "candidate %d", i);
        CHECK_OK(mt_overlap_check(&tried, &err), err);
        open.how = MT_OVERLAP_ANY;
        CHECK(mt_overlap_candidate(&open, i < 6 ? i : i % 3, &whole), "candidate %d", i);
        CHECK(!whole.slabs && !whole.engines, "candidate %d", i);
        CHECK_EQ(tried.chunk, whole.chunk);
        CHECK_EQ(tried.slabs, i < 6 ? 0 : slabs[(i - 6) / 3]);
        CHECK_EQ(tried.engines, i >= 15);
    }
    CHECK(!mt_overlap_candidate(&open, 6, &tried), "by chunks");
    open.how = MT_OVERLAP_FUSED;
    CHECK(!mt_overlap_candidate(&open, 27, &tried), "by one kernel");
}

/* For few rows: joint gathers of up to 64 puts to each rank, and direct reduces, with each of two tiles. */
static void test_few_candidates(void) {
    struct setting s;
    struct mt_overlap tried;
    struct mt_err err = MT_ERR_INIT;
    for (int form = 0; form < MT_OVERLAP_NFORMS; form++) {
        int count = 0;
        begin(&s, (enum mt_overlap_form)form, 2, 100, 512);
        s.rows[1] = 60, s.problem.m = 160; /* ragged */
        struct mt_overlap *p = &s.problem;
        p->type = p->out = p->wire = MT_BF16, p->mix = 2;
        if (form == MT_OVERLAP_GATHER) p->slabs = 4, p->mix = 0;
        for (int i = 0; mt_overlap_few_candidate(p, i, &tried); i++, count++) {
            CHECK_OK(mt_overlap_check(&tried, &err), err);
            CHECK(mt_overlap_fused_few(&tried), "candidate %d", i);
            CHECK(tried.how == MT_OVERLAP_FUSED && tried.tile[0] == 160 && tried.tile[1] == 64 << i, "candidate %d", i);
            CHECK(form != MT_OVERLAP_GATHER || (tried.joint && tried.chunk == 2 && !tried.direct), "a gather");
            CHECK(form != MT_OVERLAP_REDUCE || (tried.direct && !tried.mix && !tried.joint), "a reduce");
        }
        CHECK_EQ(count, form == MT_OVERLAP_SCATTER ? 0 : 2);
        p->joint = true; /* whatever was chosen before, others are not joint */
        CHECK(form != MT_OVERLAP_GATHER || (mt_overlap_candidate(p, 0, &tried) && !tried.joint), "joint");
        p->joint = false, s.rows[1] = 157, p->m = 257;
        CHECK(!mt_overlap_few_candidate(p, 0, &tried), "257 rows");
    }
}

int main(void) {
    test_fused_candidates();
    test_few_candidates();
    test_joint();
    test_few();
    test_by_hand();
    test_unsent();
    test_slabs();
    test_bounds();
    test_candidates();
    return 0;
}
