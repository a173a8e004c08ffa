/* Predictions of overlapped GEMMs on four GPUs, and how long a prediction takes; of gathers also with rows that are
 * sent slab by slab in K; and of a large gather on two GPUs all that are tried. Rates are nominal: a GEMM's, and what a
 * GPU sends at; nothing here is measured but the time of predicting.
 *
 *     build/release/tests/bench_overlap_predict [TFLOPS [GB_PER_S [SLOWDOWN]]] */
#include "kernels/base/wait.h"
#include "planner/overlap/predict.h"
#include "tests/planner/overlap/candidates.h"

enum { N = 4 };

static void each_candidate(const struct mt_overlap_rates *rates, const struct mt_overlap_links *links) {
    const int64_t rows[] = {4096, 4096};
    struct mt_overlap open = {.form = MT_OVERLAP_GATHER,
                              .n = 2,
                              .m = 8192,
                              .cols = 8192,
                              .k = 8192,
                              .rows = rows,
                              .shares = rows,
                              .type = MT_BF16,
                              .out = MT_BF16,
                              .wire = MT_BF16,
                              .tile = {128, 256},
                              .how = MT_OVERLAP_FUSED};
    struct mt_overlap_rates fused[2] = {rates[0], rates[1]};
    struct mt_overlap_prediction found;
    struct mt_overlap tried;
    struct mt_err err = MT_ERR_INIT;
    printf("\n%-8s %6s %6s %6s %10s %12s\n", "tile", "rows", "slabs", "puts", "ms", "predicted in");
    for (open.tile[1] = 256; open.tile[1] >= 128; open.tile[1] /= 2)
        for (int i = 0; mt_overlap_candidate(&open, i, &tried); i++) {
            for (int r = 0; r < 2; r++) fused[r].streams = mt_overlap_fused_streams(&tried, fused[r].workers);
            double begin_s = mt_now_s();
            CHECK_OK(mt_overlap_predict_problem(&tried, fused, links, &found, &err), err);
            double s = mt_now_s() - begin_s;
            struct mt_overlap_schedule schedule;
            mt_overlap_schedule(&tried, 0, &schedule);
            printf("%lldx%-4lld %6lld %6d %6d %10.3f %9.1f ms\n", (long long)tried.tile[0], (long long)tried.tile[1],
                   (long long)tried.chunk, tried.slabs, schedule.nputs, 1e3 * found.s, 1e3 * s);
            mt_overlap_schedule_release(&schedule);
        }
}

int main(int argc, char **argv) {
    static const int64_t shapes[][3] = {
        {4096, 14336, 4096}, {8192, 8192, 8192}, {8192, 28672, 8192}, {4096, 12288, 12288}};
    double flops = 1e12 * (argc > 1 ? atof(argv[1]) : 800), bytes = 1e9 * (argc > 2 ? atof(argv[2]) : 380);
    double slowdown = argc > 3 ? atof(argv[3]) : 1.1, bandwidth[N * N], latency[N * N];
    for (int i = 0; i < N * N; i++) bandwidth[i] = bytes, latency[i] = 3e-6;
    struct mt_overlap_links links = {bandwidth, latency};
    struct mt_overlap_rates rates[N];
    for (int r = 0; r < N; r++)
        rates[r] = (struct mt_overlap_rates){.workers = 132,
                                             .flops = flops / 132,
                                             .tile_s = 2e-6,
                                             .sum_s = 2e-6,
                                             .memory_Bps = 2e10,
                                             .whole_tiles = true,
                                             .within = true,
                                             .streams = 4,
                                             .egress_Bps = bytes,
                                             .ingress_Bps = bytes,
                                             .compute_slowdown = slowdown,
                                             .put_slowdown = slowdown};
    printf("%-20s %6s %6s %6s %10s %10s %10s %6s %12s %10s %6s %6s\n", "form", "M", "N", "K", "GEMM ms", "sent ms",
           "together ms", "eta", "predicted in", "by slabs", "slabs", "eta");
    for (int form = 0; form < MT_OVERLAP_NFORMS; form++)
        for (int i = 0; i < 4; i++) {
            int64_t m = shapes[i][0], cols = shapes[i][1], k = shapes[i][2], rows[N], shares[N];
            for (int r = 0; r < N; r++) {
                rows[r] = m / N;
                shares[r] = (form == MT_OVERLAP_GATHER ? cols : k) / N;
            }
            struct mt_overlap problem = {.form = (enum mt_overlap_form)form,
                                         .n = N,
                                         .m = m,
                                         .cols = cols,
                                         .k = k,
                                         .rows = rows,
                                         .shares = shares,
                                         .type = MT_BF16,
                                         .out = MT_BF16,
                                         .wire = MT_BF16,
                                         .tile = {128, 256},
                                         .chunk = m / N};
            double best_s, begin_s = mt_now_s();
            best_candidate(&problem, rates, &links, &best_s);
            int candidates = form == MT_OVERLAP_GATHER ? 6 : form == MT_OVERLAP_SCATTER ? 4 : 5;
            double each_s = (mt_now_s() - begin_s) / candidates;
            double gemm_s = 2.0 * (double)m * (double)cols * (double)k / N / flops;
            double elements = form == MT_OVERLAP_GATHER ? (double)(m * k) : (double)(m * cols);
            double sent_s = elements * 2 * (N - 1) / N / bytes * (form == MT_OVERLAP_REDUCE ? 2 : 1);
            double longest_s = gemm_s > sent_s ? gemm_s : sent_s;
            printf("%-20s %6lld %6lld %6lld %10.3f %10.3f %10.3f %6.2f %9.1f ms", mt_overlap_name(problem.form),
                   (long long)m, (long long)cols, (long long)k, 1e3 * gemm_s, 1e3 * sent_s, 1e3 * best_s,
                   longest_s / best_s, 1e3 * each_s);
            problem.how = MT_OVERLAP_FUSED;
            struct mt_overlap by_slabs = best_candidate(&problem, rates, &links, &best_s);
            if (form == MT_OVERLAP_GATHER)
                printf(" %10.3f %6d %6.2f", 1e3 * best_s, by_slabs.slabs, longest_s / best_s);
            puts("");
        }
    each_candidate(rates, &links);
    return 0;
}
