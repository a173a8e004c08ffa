/* `motley bench overlap` on GPUs: all variants of all forms, captured and checked, even and ragged, and of few rows.
 * Ranks share a GPU where there are too few: then NCCL is told that they are on different hosts, and times mean little.
 * ranks: 2 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "launcher/bench/overlap/internal.h"
#include "launcher/session/session.h"
#include "launcher/watch/watch.h"
#include "tests/kernels/cuda/device/shared.h"

int main(void) {
    static const int64_t shapes[][3] = {{512, 768, 512}, {320, 392, 504}, {16, 512, 512}}, ragged[] = {5, 3};
    static const struct {
        enum mt_type precision;
        int shape;
        const int64_t *shares;
    } runs[] = {{MT_BF16, 0, NULL}, {MT_F32, 1, ragged}, {MT_BF16, 1, ragged}, {MT_BF16, 2, NULL}};
    enum { NRUNS = sizeof runs / sizeof *runs };
    const struct mt_watch_options watch = {.heartbeat_s = MT_WATCH_HEARTBEAT_S, .deadline_s = 600};
    struct mt_err err = MT_ERR_INIT;
    int rank;
    setenv("MOTLEY_TUNE", "off", 0); /* two ranks on one GPU would tune at once, for minutes */
    CHECK_OK(mt_session_begin(&watch, MT_OK, &err), err);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < NRUNS; i++) {
        const struct mt_bench_overlap_options options = {.device = "cuda",
                                                         .precision = runs[i].precision,
                                                         .shares = runs[i].shares,
                                                         .nshares = 2,
                                                         .repetitions = 1,
                                                         .deadline_s = 60};
        /* Ranks that share a GPU take turns of milliseconds, also while they wait for each other. */
        struct mt_bench_overlap bench = {.options = &options, .slices = 1, .least = 2, .doc = MT_TABLES_INIT};
        bench.device = open_shared_gpu(rank);
        if (!bench.device) {
            mt_session_end(MT_OK, 0, &err);
            return 77;
        }
        CHECK_OK(mt_bench_overlap_open(&bench, &err), err);
        for (int form = 0; form < MT_OVERLAP_NFORMS; form++)
            CHECK_OK(mt_bench_overlap_measure(&bench, (enum mt_overlap_form)form, shapes[runs[i].shape], NULL, &err),
                     err);
        CHECK_EQ(bench.nlines, rank ? 0 : MT_OVERLAP_NFORMS);
        mt_bench_overlap_close(&bench);
    }
    return mt_session_end(MT_OK, 0, &err);
}
