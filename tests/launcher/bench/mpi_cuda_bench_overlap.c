/* `motley bench overlap` on GPUs: all variants of all forms, captured and checked, even and ragged. Ranks share a GPU
 * where there are too few: then NCCL is told that they are on different hosts, and times mean little.
 * ranks: 2 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "launcher/bench/overlap/internal.h"
#include "launcher/session/session.h"
#include "launcher/watch/watch.h"
#include "tests/check.h"

static struct mt_device *open_device(int rank) {
    struct mt_device *device = NULL;
    struct mt_err err = MT_ERR_INIT;
    char kind[32];
    snprintf(kind, sizeof kind, "cuda:%d", rank);
    int own = mt_device_open(kind, &device, &err) == MT_OK, all_own, any;
    MPI_Allreduce(&own, &all_own, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (all_own) return device;
    if (own) mt_device_close(device);
    snprintf(kind, sizeof kind, "rank%d", rank);
    setenv("NCCL_HOSTID", kind, 1);
    setenv("NCCL_P2P_DISABLE", "1", 1);
    setenv("NCCL_SHM_DISABLE", "1", 1);
    setenv("NCCL_IB_DISABLE", "1", 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    err = (struct mt_err)MT_ERR_INIT;
    own = mt_device_open("cuda:0", &device, &err) == MT_OK;
    CHECK(own || err.status == MT_EMISSING || err.status == MT_EINPUT, "%s", err.text);
    MPI_Allreduce(&own, &any, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!own) printf("skipped: rank %d: %s\n", rank, err.text);
    return any ? device : NULL;
}

int main(void) {
    static const int64_t shapes[][3] = {{512, 768, 512}, {320, 392, 504}}, ragged[] = {5, 3};
    static const struct {
        enum mt_type precision;
        int shape;
        const int64_t *shares;
    } runs[] = {{MT_BF16, 0, NULL}, {MT_F32, 1, ragged}};
    const struct mt_watch_options watch = {.heartbeat_s = MT_WATCH_HEARTBEAT_S, .deadline_s = 600};
    struct mt_err err = MT_ERR_INIT;
    int rank;
    CHECK_OK(mt_session_begin(&watch, MT_OK, &err), err);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 2; i++) {
        const struct mt_bench_overlap_options options = {.device = "cuda",
                                                         .precision = runs[i].precision,
                                                         .shares = runs[i].shares,
                                                         .nshares = 2,
                                                         .repetitions = 1,
                                                         .deadline_s = 60};
        /* Ranks that share a GPU take turns of milliseconds, also while they wait for each other. */
        struct mt_bench_overlap bench = {.options = &options, .slices = 1, .least = 2, .doc = MT_TABLES_INIT};
        bench.device = open_device(rank);
        if (!bench.device) {
            mt_session_end(MT_OK, 0, &err);
            return 77;
        }
        CHECK_OK(mt_bench_overlap_open(&bench, &err), err);
        for (int form = 0; form < MT_OVERLAP_NFORMS; form++)
            CHECK_OK(mt_bench_overlap_measure(&bench, (enum mt_overlap_form)form, shapes[runs[i].shape], &err), err);
        CHECK_EQ(bench.nlines, rank ? 0 : MT_OVERLAP_NFORMS);
        mt_bench_overlap_close(&bench);
    }
    return mt_session_end(MT_OK, 0, &err);
}
