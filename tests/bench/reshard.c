/* Any layout to any other with little memory for messages.
 *
 *     bench_reshard [--pairs 1000] [--bytes 1MiB] [--staging 256KiB]
 *     mpirun -n N bench_reshard --device cuda|cpu [--pairs 50] [--bytes 256MiB] [--staging 64MiB]
 *
 * In one process: random pairs of layouts on 2 to 6 ranks, proven, run by threads, every element compared with the
 * layouts' definition, memory asserted (tests/synth/reshard.h). Under mpirun: random pairs on these ranks, each run by
 * the executor as it is cut and in one piece; the results are compared bit by bit. What is printed of each: the
 * conversion, the number of chunks, the memory besides source and destination (by the program, and as the device's free
 * memory says: the larger of the ranks), the time of the slowest rank, and its ratio to that in one piece, the best of
 * RUNS runs each, in turn. */
#include <mpi.h>

#include "kernels/base/text/units.h"
#include "launcher/execute/executor.h"
#include "launcher/session/rank_device.h"
#include "tests/synth/reshard.h"

enum { SEED_OF_PAIRS = 20261123, RUNS = 8 };
static const double deadline_s = 60;

static int pairs = -1;
static int64_t bytes = -1, staging_bytes = -1;
static const char *kind;

static void take_bytes(const char *text, int64_t *to) {
    CHECK(mt_units_parse_bytes(text, to), "%s: is no number of bytes", text);
}

static void read_flags(int argc, char **argv) {
    CHECK(argc % 2 == 1, "flags have values");
    for (int i = 1; i < argc; i += 2) {
        if (!strcmp(argv[i], "--pairs"))
            pairs = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--bytes"))
            take_bytes(argv[i + 1], &bytes);
        else if (!strcmp(argv[i], "--staging"))
            take_bytes(argv[i + 1], &staging_bytes);
        else if (!strcmp(argv[i], "--device"))
            kind = argv[i + 1];
        else
            CHECK(false, "%s is no flag", argv[i]);
    }
    if (pairs < 0) pairs = kind ? 50 : 1000;
    if (bytes < 0) bytes = kind ? (int64_t)256 << 20 : 1 << 20;
    if (staging_bytes < 0) staging_bytes = kind ? (int64_t)64 << 20 : 256 << 10;
}

static int in_one_process(void) {
    struct dice dice = {.seed = SEED_OF_PAIRS};
    int count[MT_NCONVERSIONS] = {0}, cut[MT_NCONVERSIONS] = {0};
    double start_s = mt_now_s();
    for (int i = 0; i < pairs; i++) {
        enum mt_conversion conversion;
        int chunks = reshard_test(&dice, 2 + i % 5, bytes, staging_bytes, &conversion);
        count[conversion]++;
        cut[conversion] += chunks > 1;
    }
    for (int c = MT_CONVERT_ALL_REDUCE; c < MT_NCONVERSIONS; c++)
        printf("%-14s %4d pairs, %4d in chunks\n", conversion_names[c], count[c], cut[c]);
    printf("all proven and right, no rank staged more than %lld bytes; %.0f s\n", (long long)staging_bytes,
           mt_now_s() - start_s);
    return 0;
}

/* ---- under mpirun ---- */

static int rank, nranks;
static struct mt_device *device;
static struct mt_comm *comm;
static struct mt_err err = MT_ERR_INIT;

struct way { /* to run a conversion: as it is cut, or in one piece */
    struct mt_lowered *low;
    struct mt_executor *ex;
    int64_t staging_bytes, device_bytes; /* by the program; by the device, of which states are taken off */
    double time_s;
    void *result;
};

static int64_t most(int64_t mine) {
    MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    return mine;
}

/* This rank's box of the source: whole numbers, by place, so that sums are exact in any order. */
static void fill(struct mt_executor *ex) {
    const struct mt_tensor *t = mt_executor_state(ex, 0);
    int64_t n = mt_tensor_count(t);
    float *box = malloc((size_t)n * sizeof *box + 1);
    for (int64_t i = 0; i < n; i++) box[i] = (float)((i * 7 + rank * 13) % 61 - 30);
    CHECK_OK(mt_executor_set_state(ex, 0, box, &err), err);
    free(box);
}

static struct way prepare(struct reshard *r, int64_t staging) {
    struct way w = {.time_s = INFINITY};
    r->program.staging_bytes = staging;
    CHECK_OK(
        mt_lower(&r->program, rank, &(struct mt_lower_options){.latency_s = 1e-5, .bandwidth_Bps = 1e10}, &w.low, &err),
        err);
    w.staging_bytes = most(w.low->arena_bytes - w.low->state_bytes);
    int64_t before = mt_device_memory_bytes(device);
    CHECK_OK(mt_executor_new(device, comm, w.low, NULL, deadline_s, &w.ex, &err), err);
    w.device_bytes = most(before - mt_device_memory_bytes(device) - w.low->state_bytes);
    fill(w.ex);
    return w;
}

/* Not the first run, nor the one that is captured. */
static void run_once(struct way *w, int run) {
    const struct mt_clock clock = {.step = run + 1};
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(mt_executor_run(w->ex, MT_RUN_TRAIN, &clock, &err), err);
    double took = mt_executor_times(w->ex).wall_s, slowest;
    MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (run > 1 && slowest < w->time_s) w->time_s = slowest;
}

static void finish(struct way *w) {
    w->result = malloc((size_t)mt_tensor_bytes(mt_executor_state(w->ex, 1)) + 1);
    CHECK_OK(mt_executor_get_state(w->ex, 1, w->result, &err), err);
    mt_executor_free(w->ex);
}

static double run_pair(struct dice *dice) {
    struct reshard r;
    char text[3][MT_UNITS_TEXT] = {"", "", "-"};
    reshard_random(dice, &r, nranks, bytes);
    int y = -1;
    for (int v = 0; v < r.program.nvalues; v++)
        if (r.program.values[v].next == r.out) y = v;
    struct way whole = prepare(&r, INT64_MAX), cut = prepare(&r, staging_bytes);
    for (int run = 0; run < RUNS; run++) run_once(&whole, run), run_once(&cut, run);
    finish(&whole);
    finish(&cut);
    int nchunks = cut.low->ninstrs;
    const struct mt_layout *to = mt_pvalue_layout(&r.program, y);
    int64_t size = mt_box_count(&to->box[rank], to->naxes) * 4;
    CHECK(!memcmp(whole.result, cut.result, (size_t)size), "%s: rank %d has other bits", r.what, rank);
    CHECK(cut.staging_bytes <= staging_bytes, "%s: stages %lld bytes", r.what, (long long)cut.staging_bytes);
    double ratio = cut.time_s / whole.time_s;
    mt_units_bytes((double)cut.staging_bytes, text[0]);
    mt_units_bytes((double)whole.staging_bytes, text[1]);
    if (!strcmp(kind, "cuda")) mt_units_bytes((double)cut.device_bytes, text[2]); /* a CPU's memory has other users */
    if (!rank)
        printf("%-13s %3d chunks  staging %10s of %10s  device %10s  %9.3f ms  %5.3f of one piece\n",
               conversion_names[r.conversion], nchunks, text[0], text[1], text[2], 1e3 * cut.time_s, ratio);
    free(whole.result), free(cut.result);
    mt_lowered_free(whole.low), mt_lowered_free(cut.low);
    mt_program_release(&r.program);
    mt_graph_free(r.graph);
    return nchunks > 1 ? ratio : 0;
}

static int on_devices(void) {
    int level, n = 0;
    double worst = 0, sum = 0;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    CHECK(nranks >= 2 && nranks <= RESHARD_RANKS, "2 to %d ranks", RESHARD_RANKS);
    CHECK_OK(mt_rank_device_open(MPI_COMM_WORLD, kind, &device, &err), err);
    CHECK_OK(mt_rank_wire_open(MPI_COMM_WORLD, kind, deadline_s, &comm, &err), err);
    struct dice dice = {.seed = SEED_OF_PAIRS};
    for (int i = 0; i < pairs; i++) {
        double ratio = run_pair(&dice);
        if (ratio == 0) continue;
        n++;
        sum += log(ratio);
        if (ratio > worst) worst = ratio;
    }
    if (!rank && n)
        printf("%d of %d pairs in chunks: time of one piece x %.3f (geometric mean), x %.3f at worst\n", n, pairs,
               exp(sum / n), worst);
    mt_comm_free(comm);
    mt_device_close(device);
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv) {
    read_flags(argc, argv);
    return kind ? on_devices() : in_one_process();
}
