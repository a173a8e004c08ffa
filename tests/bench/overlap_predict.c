/* Predictions of overlapped GEMMs on four GPUs, and how long a prediction takes; of gathers also with rows that are
 * sent slab by slab in K. Rates are nominal: a GEMM's, and what a GPU sends at; nothing here is measured but the time
 * of predicting.
 *
 *     build/release/tests/bench_overlap_predict [TFLOPS [GB_PER_S [SLOWDOWN]]] */
#include "kernels/base/wait.h"
#include "planner/overlap/predict.h"
#include "tests/planner/overlap/candidates.h"

enum { N = 4 };

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
    return 0;
}
