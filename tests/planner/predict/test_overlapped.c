/* Rates of overlapped instructions from a cluster: of GPUs whole waves, copy engines and slowdowns, of CPUs their own
 * copies; predictions between what no overlap can beat and what no overlap takes. */
#include "planner/predict/overlapped.h"
#include "profiler/cluster/cluster.h"
#include "profiler/describe/describe.h"
#include "tests/check.h"

enum { N = 2 };

static const int64_t shapes[][3] = {
    {8192, 2048, 8192}, {8192, 8192, 8192}, {4096, 14336, 4096}, {1024, 1024, 1024}, {8192, 28672, 8192}};

struct setting {
    struct mt_cluster *cluster;
    struct mt_costs costs;
    int device[N], group[N];
    int64_t rows[N], shares[N];
    struct mt_overlap problem;
};

static void begin(struct setting *s, const char *cluster, enum mt_overlap_form form, const int64_t shape[3],
                  enum mt_type type) {
    struct mt_err err = MT_ERR_INIT;
    bool gather = form == MT_OVERLAP_GATHER;
    *s = (struct setting){.device = {0, 1}, .group = {0, 1}};
    CHECK_OK(mt_cluster_describe(cluster, NULL, &s->cluster, &err), err);
    for (int r = 0; r < N; r++) s->rows[r] = shape[0] / N, s->shares[r] = shape[1] / N;
    s->costs = (struct mt_costs){.cluster = s->cluster, .nranks = N, .device = s->device};
    s->problem = (struct mt_overlap){.form = form,
                                     .n = N,
                                     .m = shape[0],
                                     .cols = gather ? shape[1] : shape[2],
                                     .k = gather ? shape[2] : shape[1],
                                     .rows = s->rows,
                                     .shares = s->shares,
                                     .type = type,
                                     .out = type,
                                     .wire = type};
    mt_overlap_choose_tiles(&s->problem);
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
            struct mt_arena arena = MT_ARENA_INIT;
            struct mt_overlap_rates *rates;
            struct mt_overlap_links links;
            struct mt_cost cost;
            struct mt_err err = MT_ERR_INIT;
            double error;
            bool nominal;
            begin(&s, "h200:1x2", (enum mt_overlap_form)form, shapes[i], MT_BF16);
            struct mt_cluster_link *link = &s.cluster->links[s.cluster->nodes[0].inside];
            link->copy_Bps = 3.9e11, link->compute_slowdown = 0.1, link->comm_slowdown = 0.2;
            mt_predict_overlap_rates(&s.costs, &s.problem, s.group, &arena, &rates, &links, &error, &nominal);
            for (int r = 0; r < N; r++) {
                CHECK_EQ(rates[r].units, s.cluster->classes[0].threads);
                CHECK_EQ(rates[r].workers, 1);
                CHECK(!rates[r].holds, "copy engines put");
                CHECK_NEAR(rates[r].compute_slowdown, 1.1, 1e-12);
                CHECK_NEAR(rates[r].put_slowdown, 1.2, 1e-12);
                CHECK_NEAR(links.bandwidth_Bps[r * N + !r], 3.9e11, 1);
            }
            /* At the rates, the whole GEMM takes what the cost of operators says: waves and a launch. */
            double parts = ceil((double)s.problem.m / 128) * ceil((double)(form ? s.problem.cols : s.shares[0]) / 256);
            double wave = 2.0 * 128 * 256 * (double)(form ? s.shares[0] : s.problem.k) * rates[0].units;
            double gemm_s = rates[0].tile_s + ceil(parts / rates[0].units) * wave / rates[0].flops;
            double flops = 2.0 * (double)s.problem.m * (double)s.problem.cols * (double)s.problem.k / N;
            CHECK(gemm_s > 0.9 * flops / s.cluster->classes[0].flops[MT_BF16], "%g s", gemm_s);
            CHECK_OK(mt_predict_overlapped(&s.costs, &s.problem, s.group, &cost, &err), err);
            double sent_s = bytes_of(&s) / 3.9e11;
            CHECK(cost.s > 0.99 * fmax(gemm_s, sent_s), "form %d, shape %zu: %g s, GEMM %g, sent %g", form, i, cost.s,
                  gemm_s, sent_s);
            CHECK(cost.s < 1.6 * (gemm_s + sent_s) + 2e-4, "form %d, shape %zu: %g s, GEMM %g, sent %g", form, i,
                  cost.s, gemm_s, sent_s);
            mt_arena_release(&arena);
            mt_cluster_free(s.cluster);
        }
}

static void test_cpus(void) {
    struct setting s;
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_overlap_rates *rates;
    struct mt_overlap_links links;
    double error;
    bool nominal;
    begin(&s, "cpu-1t:1x2", MT_OVERLAP_GATHER, shapes[3], MT_F32);
    mt_predict_overlap_rates(&s.costs, &s.problem, s.group, &arena, &rates, &links, &error, &nominal);
    CHECK(rates[0].holds && !rates[0].units && rates[0].compute_slowdown == 1, "a CPU copies itself");
    CHECK(nominal, "nothing was measured");
    mt_arena_release(&arena);
    mt_cluster_free(s.cluster);
}

int main(void) {
    test_gpus();
    test_cpus();
    return 0;
}
