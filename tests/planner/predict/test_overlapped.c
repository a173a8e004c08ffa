/* Rates of overlapped instructions from a cluster: of GPUs whole waves, puts and slowdowns, of CPUs their own copies.
 * What is chosen for GPUs. Predictions lie between perfect overlap and none. */
#include "kernels/overlap/choice.h"
#include "planner/predict/overlapped.h"
#include "profiler/cluster/cluster.h"
#include "profiler/describe/describe.h"
#include "tests/check.h"
#include "tests/kernels/overlap/even.h"

enum { N = 2 };

static const int64_t shapes[][3] = {
    {8192, 2048, 8192}, {8192, 8192, 8192}, {4096, 14336, 4096}, {1024, 1024, 1024}, {8192, 28672, 8192}};

struct setting {
    struct mt_cluster *cluster;
    struct mt_costs costs;
    int device[N], group[N];
    int64_t rows[N], shares[N];
    struct mt_overlap problem;
    /* Set by take_rates. */
    struct mt_arena arena;
    struct mt_overlap_rates *rates;
    struct mt_overlap_links links;
    double error;
    bool nominal;
};

static void begin(struct setting *s, const char *cluster, enum mt_overlap_form form, const int64_t shape[3],
                  enum mt_type type) {
    struct mt_err err = MT_ERR_INIT;
    *s = (struct setting){.device = {0, 1}, .group = {0, 1}};
    CHECK_OK(mt_cluster_describe(cluster, NULL, &s->cluster, &err), err);
    s->costs = (struct mt_costs){.cluster = s->cluster, .nranks = N, .device = s->device};
    s->problem = even_overlap(form, N, shape, type, s->rows, s->shares);
    mt_overlap_choose_tiles(&s->problem);
}

static void take_rates(struct setting *s) {
    mt_predict_overlap_rates(&s->costs, &s->problem, s->group, &s->arena, &s->rates, &s->links, &s->error, &s->nominal);
}

static void end(struct setting *s) {
    mt_arena_release(&s->arena);
    mt_cluster_free(s->cluster);
}

/* Of the two, what is sent: half of the rows, or of the sums, and those again in a reduce. */
static double bytes_of(const struct setting *s) {
    const struct mt_overlap *p = &s->problem;
    double elements = (double)(p->form == MT_OVERLAP_GATHER ? p->m * p->k : p->m * p->cols) / N;
    if (p->form == MT_OVERLAP_REDUCE) elements *= 2;
    return elements * (double)mt_type_size(p->wire);
}

static void test_gpus(void) {
    for (int form = 0; form < MT_OVERLAP_NFORMS; form++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            struct setting s;
            struct mt_cost cost;
            struct mt_err err = MT_ERR_INIT;
            begin(&s, "h200:1x2", (enum mt_overlap_form)form, shapes[i], MT_BF16);
            struct mt_cluster_link *link = &s.cluster->links[s.cluster->nodes[0].inside];
            link->copy_Bps = 3.9e11;
            link->puts = (struct mt_cluster_puts){3e-6, 3.6e11, 2e-6, 0.1, 0.2};
            take_rates(&s);
            for (int r = 0; r < N; r++) {
                CHECK_EQ(s.rates[r].units, s.cluster->classes[0].threads);
                CHECK_EQ(s.rates[r].workers, 1);
                CHECK(!s.rates[r].holds, "copy engines put");
                CHECK_NEAR(s.rates[r].compute_slowdown, 1.1, 1e-12);
                CHECK_NEAR(s.rates[r].put_slowdown, 1.2, 1e-12);
                CHECK_NEAR(s.links.bandwidth_Bps[r * N + !r], 3.9e11, 1);
                CHECK_NEAR(s.links.latency_s[r * N + !r], 2e-6, 1e-12);
                CHECK_NEAR(s.rates[r].put_s, 6e-6, 1e-12); /* a copy of the rows, and one of the flags */
            }
            /* At the rates, the whole GEMM takes what the cost of operators says: waves and a launch. */
            double parts = ceil((double)s.problem.m / 128) * ceil((double)(form ? s.problem.cols : s.shares[0]) / 256);
            double wave = 2.0 * 128 * 256 * (double)(form ? s.shares[0] : s.problem.k) * s.rates[0].units;
            double gemm_s = s.rates[0].tile_s + ceil(parts / s.rates[0].units) * wave / s.rates[0].flops;
            double flops = 2.0 * (double)s.problem.m * (double)s.problem.cols * (double)s.problem.k / N;
            CHECK(gemm_s > 0.9 * flops / s.cluster->classes[0].flops[MT_BF16], "%g s", gemm_s);
            CHECK_OK(mt_predict_overlapped(&s.costs, &s.problem, s.group, &cost, &err), err);
            double sent_s = bytes_of(&s) / 3.9e11;
            CHECK(cost.s > 0.99 * fmax(gemm_s, sent_s), "form %d, shape %zu: %g s, GEMM %g, sent %g", form, i, cost.s,
                  gemm_s, sent_s);
            CHECK(cost.s < 1.6 * (gemm_s + sent_s) + 2e-4, "form %d, shape %zu: %g s, GEMM %g, sent %g", form, i,
                  cost.s, gemm_s, sent_s);
            end(&s);
        }
}

/* One kernel has a tile on each multiprocessor, and its blocks put. */
static void test_fused(void) {
    struct setting s;
    begin(&s, "h200:1x2", MT_OVERLAP_SCATTER, shapes[1], MT_BF16);
    struct mt_cluster_link *link = &s.cluster->links[s.cluster->nodes[0].inside];
    link->puts = (struct mt_cluster_puts){3e-6, 3.6e11, 2e-6, 0.1, 0.2};
    s.problem.how = MT_OVERLAP_FUSED, s.problem.tile[0] = 128, s.problem.tile[1] = 256;
    take_rates(&s);
    CHECK_EQ(s.rates[0].workers, 132);
    CHECK(!s.rates[0].units && s.rates[0].whole_tiles && s.rates[0].tile_s > 0, "tiles");
    CHECK_NEAR(s.links.bandwidth_Bps[1], 3.6e11, 1);
    CHECK_NEAR(s.rates[0].put_s, 0, 0);
    CHECK(s.nominal, "a described link");
    /* All tiles of a rank's GEMM, on all multiprocessors, at 0.9 to 1 of the rate of the public figure that is reached.
     */
    double each_s = 2.0 * 128 * 256 * 4096 / s.rates[0].flops, flops = 2.0 * 128 * 256 * 4096 * 132 / each_s;
    double reached = s.cluster->classes[0].flops[MT_BF16] * s.cluster->classes[0].calibration;
    CHECK(flops > 0.8 * reached && flops < 1.2 * reached, "%g of %g", flops, reached);
    link->puts = (struct mt_cluster_puts){0}, link->nominal = false, link->latency_s = 7e-6;
    take_rates(&s);
    CHECK(s.nominal, "puts that nobody has measured");
    CHECK_NEAR(s.links.latency_s[1], 7e-6, 0);
    end(&s);
}

/* What a GPU sends to three peers goes over one link to a switch; or over as many as all pairs were seen to share. */
static void test_four(void) {
    enum { GPUS = 4 };
    struct mt_err err = MT_ERR_INIT;
    struct mt_cluster *cluster;
    int four[GPUS] = {0, 1, 2, 3};
    const double rate_Bps = 3.6e11;
    CHECK_OK(mt_cluster_describe("h200:1x4", NULL, &cluster, &err), err);
    struct mt_cluster_link *link = &cluster->links[cluster->nodes[0].inside];
    link->copy_Bps = rate_Bps;
    link->puts = (struct mt_cluster_puts){3e-6, rate_Bps, 2e-6, 0, 0};
    const struct mt_costs costs = {.cluster = cluster, .nranks = GPUS, .device = four};
    for (int i = 0; i < 4 * MT_OVERLAP_NFORMS; i++) {
        int64_t rows[GPUS], shares[GPUS];
        bool shared = i & 1, fused = i & 2;
        struct mt_arena arena = MT_ARENA_INIT;
        struct mt_overlap p =
            even_overlap((enum mt_overlap_form)(i / 4), GPUS, (int64_t[3]){8192, 1024, 8192}, MT_BF16, rows, shares);
        struct mt_overlap_rates *rates;
        struct mt_overlap_links links;
        struct mt_cost cost;
        double error, sent = (GPUS - 1) / (double)GPUS * 2 * (double)p.m;
        bool nominal;
        sent *= (double)(p.form == MT_OVERLAP_GATHER ? p.k : p.form == MT_OVERLAP_SCATTER ? p.cols : 2 * p.cols);
        mt_overlap_choose_tiles(&p);
        if (fused) p.how = MT_OVERLAP_FUSED, p.tile[0] = 128, p.tile[1] = 256;
        link->shared_Bps = shared ? GPUS * (GPUS - 1) * rate_Bps : 0;
        mt_predict_overlap_rates(&costs, &p, four, &arena, &rates, &links, &error, &nominal);
        for (int r = 0; r < GPUS; r++) {
            CHECK_NEAR(rates[r].egress_Bps, (shared ? GPUS - 1 : 1) * rate_Bps, 1);
            CHECK_NEAR(rates[r].ingress_Bps, (shared ? GPUS - 1 : 1) * rate_Bps, 1);
        }
        CHECK_OK(mt_predict_overlapped(&costs, &p, four, &cost, &err), err);
        CHECK(shared || cost.s > sent / rate_Bps, "form %d, fused %d: %g s, sent in %g", p.form, fused, cost.s,
              sent / rate_Bps);
        mt_arena_release(&arena);
    }
    mt_cluster_free(cluster);
}

static int chosen_slabs; /* of the last choice */
static bool chosen_engines, chosen_few;

static enum mt_overlap_how choose(struct setting *s, const bool transposed[3], double *as_is_s, double *best_s) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_overlap best;
    struct mt_cost cost;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_predict_overlapped(&s->costs, &s->problem, s->group, &cost, &err), err);
    *as_is_s = cost.s;
    CHECK_OK(mt_predict_overlap_choice(&s->costs, &s->problem, s->group, transposed, &arena, &best, best_s, &err), err);
    CHECK_OK(mt_overlap_check(&best, &err), err);
    CHECK(mt_overlap_nslabs(&best) == 1 || best.how == MT_OVERLAP_FUSED, "%d slabs of what waits for whole tiles",
          best.slabs);
    chosen_slabs = best.slabs, chosen_engines = best.engines;
    chosen_few = mt_overlap_fused_few(&best);
    CHECK_OK(mt_predict_overlapped(&s->costs, &best, s->group, &cost, &err), err);
    CHECK_NEAR(cost.s, *best_s, 1e-12); /* as the plan's program will be predicted */
    struct mt_overlap_choice row = mt_overlap_choice_of(&best);
    CHECK_OK(mt_overlap_choice_check(&row, &err), err);
    struct mt_overlap again = s->problem;
    CHECK(mt_overlap_choose(&again, &row, 1) && mt_overlap_equal(&again, &best), "a row says all that was chosen");
    again.m++;
    CHECK(!mt_overlap_choose(&again, &row, 1), "another shape");
    mt_arena_release(&arena);
    return best.how;
}

/* The choice is no slower than what devices do by themselves; one kernel where it wins, on GPUs that have it. */
static void test_choice(void) {
    static const bool straight[3] = {false, false, false}, turned[3] = {false, false, true};
    int fused = 0, grouped = 0;
    for (int form = 0; form < MT_OVERLAP_NFORMS; form++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            struct setting s;
            double as_is_s, best_s, without_s;
            begin(&s, "h200:1x2", (enum mt_overlap_form)form, shapes[i], MT_BF16);
            enum mt_overlap_how how = choose(&s, straight, &as_is_s, &best_s);
            CHECK(best_s <= as_is_s, "form %d, shape %zu: %g s, not %g", form, i, best_s, as_is_s);
            fused += how == MT_OVERLAP_FUSED, grouped += how == MT_OVERLAP_CHUNKS;
            CHECK(choose(&s, turned, &as_is_s, &without_s) != MT_OVERLAP_FUSED, "a transposed result");
            CHECK(without_s >= best_s, "fewer candidates");
            s.cluster->classes[0].capability = 80;
            CHECK(choose(&s, straight, &as_is_s, &best_s) != MT_OVERLAP_FUSED, "another architecture");
            end(&s);
        }
    CHECK(fused > 2 && grouped > 2, "%d by one kernel, %d by groups", fused, grouped);
    struct setting s; /* NCCL crosses hosts, and CPUs have one implementation */
    double as_is_s, best_s;
    begin(&s, "h200:2x1 net=400G", MT_OVERLAP_GATHER, shapes[1], MT_BF16);
    CHECK_EQ(choose(&s, straight, &as_is_s, &best_s), MT_OVERLAP_NCCL);
    CHECK(best_s <= as_is_s, "%g s, not %g", best_s, as_is_s);
    /* What is sent takes half of A at the rate of the network, however fast puts are within hosts. */
    double sent_s = bytes_of(&s) / s.cluster->links[s.cluster->network].bandwidth_Bps;
    CHECK(best_s > sent_s, "%g s, sent in %g", best_s, sent_s);
    end(&s);
    begin(&s, "cpu-1t:1x2", MT_OVERLAP_GATHER, shapes[3], MT_F32);
    CHECK_EQ(choose(&s, straight, &as_is_s, &best_s), MT_OVERLAP_ANY);
    CHECK_NEAR(as_is_s, best_s, 0);
    end(&s);
}

/* Where sending takes about as long as the GEMM, waiting for whole rows leaves a wave of tiles after the last byte:
 * then slabs win. Where it takes no time to speak of they do not. */
static void test_slabs(void) {
    static const bool straight[3] = {false, false, false};
    for (int i = 0; i < 4; i++) {
        int slow = i / 2;
        struct setting s;
        double as_is_s, best_s;
        begin(&s, "h200:1x2", MT_OVERLAP_GATHER, shapes[i % 2], MT_BF16);
        struct mt_cluster_link *link = &s.cluster->links[s.cluster->nodes[0].inside];
        double flops = s.cluster->classes[0].flops[MT_BF16] * s.cluster->classes[0].calibration;
        double gemm_s = 2.0 * (double)s.problem.m * (double)s.problem.cols * (double)s.problem.k / N / flops;
        link->puts = (struct mt_cluster_puts){3e-6, slow ? bytes_of(&s) / gemm_s : 1e13, 2e-6, 0, 0};
        link->copy_Bps = link->puts.blocks_Bps / 2;
        enum mt_overlap_how how = choose(&s, straight, &as_is_s, &best_s);
        CHECK(!slow || how == MT_OVERLAP_FUSED, "%s", mt_overlap_how_names[how]);
        CHECK(slow ? chosen_slabs > 1 : !chosen_slabs, "%d slabs, slow: %d", chosen_slabs, slow);
        end(&s);
    }
}

/* One kernel beside copy engines has the tiles of the one and the puts of the other. It is
 * chosen where blocks put at a third of the engines' rate, unless a rank has nothing to receive. */
static void test_engines(void) {
    static const bool straight[3] = {false, false, false};
    struct setting s;
    struct mt_cost by_blocks, by_engines;
    struct mt_err err = MT_ERR_INIT;
    double as_is_s, best_s;
    begin(&s, "h200:1x2", MT_OVERLAP_GATHER, shapes[0], MT_BF16);
    struct mt_cluster_link *link = &s.cluster->links[s.cluster->nodes[0].inside];
    link->copy_Bps = 3.9e11;
    link->puts = (struct mt_cluster_puts){3e-6, 1.3e11, 2e-6, 0.1, 0.2};
    struct mt_overlap open = s.problem;
    s.problem.how = MT_OVERLAP_FUSED, s.problem.tile[0] = 128, s.problem.tile[1] = 256, s.problem.chunk = 2048;
    CHECK_OK(mt_predict_overlapped(&s.costs, &s.problem, s.group, &by_blocks, &err), err);
    s.problem.engines = true;
    CHECK_OK(mt_predict_overlapped(&s.costs, &s.problem, s.group, &by_engines, &err), err);
    CHECK(by_engines.s < 0.9 * by_blocks.s, "%g s by engines, %g by blocks", by_engines.s, by_blocks.s);
    take_rates(&s);
    CHECK_EQ(s.rates[0].workers, 132);
    CHECK(s.rates[0].within && s.rates[0].whole_tiles, "tiles");
    CHECK_EQ(s.rates[0].streams, 1);
    CHECK_NEAR(s.links.bandwidth_Bps[1], 3.9e11, 1);
    CHECK_NEAR(s.links.latency_s[1], 2e-6, 1e-12);
    CHECK_NEAR(s.rates[0].put_s, 6e-6, 1e-12);
    CHECK_NEAR(s.rates[0].compute_slowdown, 1.1, 1e-12);
    CHECK_NEAR(s.rates[0].put_slowdown, 1.2, 1e-12);
    s.problem = open;
    CHECK_EQ(choose(&s, straight, &as_is_s, &best_s), MT_OVERLAP_FUSED);
    CHECK(chosen_engines, "by blocks");
    s.shares[0] = s.problem.cols, s.shares[1] = 0;
    choose(&s, straight, &as_is_s, &best_s);
    CHECK(!chosen_engines, "puts that would await a ready flag");
    end(&s);
}

/* Few rows: what one multiprocessor multiplies is not faster than its part of the best rate, nor all of them faster
 * than the library's GEMM; tiles that are smaller spread over more of them, and win. */
static void test_few_rows(void) {
    static const bool straight[3] = {false, false, false};
    struct setting large;
    int64_t other[2];
    begin(&large, "h200:1x2", MT_OVERLAP_GATHER, shapes[1], MT_BF16);
    CHECK(mt_overlap_fused_tile(&large.problem, 1, 132, other) && !mt_overlap_fused_tile(&large.problem, 2, 132, other),
          "smaller tiles of a shape that has enough large ones");
    CHECK_NEAR(mt_overlap_fused_time((int64_t[]){96, 256}), 0, 0);
    end(&large);
    for (int form = 0; form < MT_OVERLAP_NFORMS; form++)
        for (int64_t m = 16; m <= 256; m *= 2) {
            struct setting s;
            int64_t shape[3] = {m, 8192, 8192}, tile[2];
            double times_s[8], as_is_s, best_s;
            begin(&s, "h200:1x2", (enum mt_overlap_form)form, shape, MT_BF16);
            const struct mt_cluster_class *class = &s.cluster->classes[0];
            double peak = class->flops[MT_BF16] * class->calibration, deep = form ? 4096 : 8192;
            s.problem.how = MT_OVERLAP_FUSED;
            for (int t = 0; mt_overlap_fused_tile(&s.problem, t, 132, tile); t++) {
                double flops = 2.0 * (double)(tile[0] * tile[1]) * deep;
                s.problem.tile[0] = tile[0], s.problem.tile[1] = tile[1];
                take_rates(&s);
                CHECK(s.rates[0].flops * s.rates[0].workers <= peak, "%g of %g", s.rates[0].flops * 132, peak);
                times_s[t] = flops / s.rates[0].flops;
                CHECK(times_s[t] + s.rates[0].tile_s > 8192.0 * 4096 * 2 / class->memory_Bps, "all weights in %g s",
                      times_s[t]);
                CHECK(!t || times_s[t] < times_s[0], "%lld by %lld", (long long)tile[0], (long long)tile[1]);
            }
            s.problem.how = MT_OVERLAP_ANY;
            mt_overlap_choose_tiles(&s.problem);
            CHECK_EQ(choose(&s, straight, &as_is_s, &best_s), MT_OVERLAP_FUSED);
            CHECK(m > 128 || best_s < times_s[0], "%g s by one kernel, a tile of 128 by 256 takes %g", best_s,
                  times_s[0]);
            end(&s);
        }
}

/* Joint tiles and direct sums of few rows, by hand: a launch, parts of K that are added, and B at the rate of memory;
 * before that A's rows, or after it an exchange of sums. */
static void test_joint(void) {
    static const bool straight[3] = {false, false, false};
    for (int form = MT_OVERLAP_GATHER; form <= MT_OVERLAP_REDUCE; form += MT_OVERLAP_REDUCE - MT_OVERLAP_GATHER) {
        struct setting s;
        struct mt_cost cost;
        struct mt_err err = MT_ERR_INIT;
        int64_t shape[3] = {32, 8192, 8192};
        double as_is_s, best_s;
        begin(&s, "h100:1x2", (enum mt_overlap_form)form, shape, MT_BF16);
        struct mt_cluster_link *link = &s.cluster->links[s.cluster->nodes[0].inside];
        const struct mt_cluster_class *class = &s.cluster->classes[0];
        double Bps = class->memory_Bps * class->calibration, weights = 8192.0 * 4096 * 2;
        double sent = (double)(form ? s.problem.m * s.problem.cols : s.problem.m / N * s.problem.k) * 2;
        for (int slow = 0; slow < 2; slow++) {
            link->puts = (struct mt_cluster_puts){3e-6, slow ? 1e9 : 3.6e11, 2e-6, 0, 0};
            double sent_s = sent / link->puts.blocks_Bps + 2e-6;
            for (int i = 0; i < 2; i++) {
                struct mt_overlap tried;
                CHECK(mt_overlap_few_candidate(&s.problem, i, &tried), "candidate %d", i);
                CHECK_OK(mt_predict_overlapped(&s.costs, &tried, s.group, &cost, &err), err);
                double beside_s = form && i == 0 ? 3.8e-6 : 5.8e-6;       /* 128 tiles; 64 of two parts, 32 of four */
                double again = weights / (double)tried.tile[1] * 32 / 12; /* of A, 12 times as fast */
                double by_hand_s = beside_s + (weights + again) / Bps + sent_s + (form ? 3 * sent / Bps : 0);
                CHECK(fabs(cost.s / by_hand_s - 1) < 0.02, "form %d, slow %d: %g s, not %g", form, slow, cost.s,
                      by_hand_s);
            }
        }
        link->puts = (struct mt_cluster_puts){3e-6, 3.6e11, 2e-6, 0, 0};
        CHECK_EQ(choose(&s, straight, &as_is_s, &best_s), MT_OVERLAP_FUSED);
        CHECK(chosen_few, "form %d", form);
        s.problem.keep = form == MT_OVERLAP_GATHER;
        s.problem.out = form ? MT_F32 : MT_BF16;
        choose(&s, straight, &as_is_s, &best_s);
        CHECK(!chosen_few, "form %d: what that kernel has not", form);
        end(&s);
        begin(&s, "h100:1x2", (enum mt_overlap_form)form, (int64_t[]){512, 8192, 8192}, MT_BF16);
        choose(&s, straight, &as_is_s, &best_s);
        CHECK(!chosen_few, "form %d: 512 rows", form);
        end(&s);
    }
}

static void test_measured(void) {
    struct setting s;
    begin(&s, "h200:1x2", MT_OVERLAP_GATHER, shapes[3], MT_BF16);
    struct mt_cluster_link *link = &s.cluster->links[s.cluster->nodes[0].inside];
    CHECK(!mt_predict_puts_measured(&s.costs, s.group, N), "described");
    link->nominal = false;
    CHECK(mt_predict_puts_measured(&s.costs, s.group, N), "measured");
    link->puts = (struct mt_cluster_puts){0};
    CHECK(!mt_predict_puts_measured(&s.costs, s.group, N), "a profile without puts");
    end(&s);
    begin(&s, "h200:2x1 net=400G", MT_OVERLAP_GATHER, shapes[3], MT_BF16);
    for (int l = 0; l < s.cluster->nlinks; l++) s.cluster->links[l].nominal = false;
    CHECK(!mt_predict_puts_measured(&s.costs, s.group, N), "two hosts");
    end(&s);
}

static void test_cpus(void) {
    struct setting s;
    begin(&s, "cpu-1t:1x2", MT_OVERLAP_GATHER, shapes[3], MT_F32);
    take_rates(&s);
    CHECK(s.rates[0].holds && !s.rates[0].units && s.rates[0].compute_slowdown == 1, "a CPU copies itself");
    CHECK(s.nominal, "nothing was measured");
    end(&s);
}

/* An epilogue costs what it reads and writes more than the GEMM alone, at the memory's rate where that bounds both; a
 * GEMM without costs no more. So does the bias of sums, of whose rows a rank gets a part: no pass over them. */
static void test_epilogues(void) {
    static const enum mt_op_kind kinds[] = {MT_OP_add, MT_OP_gelu, MT_OP_relu, MT_OP_gelu_grad, MT_OP_relu_grad};
    struct setting s;
    begin(&s, "cpu-1t:1x2", MT_OVERLAP_GATHER, shapes[3], MT_F32);
    struct mt_cluster_class *class = &s.cluster->classes[0];
    class->flops[MT_F32] = 1e18;
    for (int e = -1; e < 5; e++) {
        const struct mt_op_epilogue *info = e < 0 ? NULL : mt_op_epilogue(kinds[e]);
        enum { M = 512, COLUMNS = 256, K = 64 };
        struct mt_attr attr = {.nm = 1, .nn = 1, .nk = 1, .epilogue = e < 0 ? 0 : kinds[e]};
        struct mt_tensor in[3] = {{.type = MT_F32, .naxes = 2, .extent = {M, K}},
                                  {.type = MT_F32, .naxes = 2, .extent = {K, COLUMNS}},
                                  {.type = MT_F32, .naxes = 2, .extent = {M, COLUMNS}}};
        struct mt_tensor out[2] = {in[2], in[2]};
        if (info && info->bias) in[2] = (struct mt_tensor){.type = MT_F32, .naxes = 1, .extent = {COLUMNS}};
        struct mt_call gemm = {.kind = info ? MT_OP_fused_matmul : MT_OP_matmul,
                               .attr = &attr,
                               .nin = info ? 3 : 2,
                               .nout = info ? info->nout : 1,
                               .in = in,
                               .out = out};
        double elements = !info                     ? 0
                          : info->kind == MT_OP_add ? COLUMNS
                          : info->bias              ? COLUMNS + M * COLUMNS
                                                    : M * COLUMNS;
        double want_s = 4 * elements / (class->memory_Bps * class->calibration);
        for (int parts = 1; parts <= (attr.epilogue == MT_OP_add ? 4 : 1); parts++) {
            out[0].extent[0] = M / parts;
            double s_of = mt_predict_epilogue(&s.costs, 0, &gemm).s;
            CHECK(fabs(s_of - want_s) <= 0.01 * want_s, "epilogue %d: %g s, not %g", e, s_of, want_s);
        }
    }
    end(&s);
}

int main(void) {
    test_epilogues();
    test_gpus();
    test_fused();
    test_four();
    test_choice();
    test_slabs();
    test_engines();
    test_few_rows();
    test_joint();
    test_measured();
    test_cpus();
    return 0;
}
