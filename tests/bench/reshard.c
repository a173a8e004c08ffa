/* Any layout to any other with little memory for messages.
 *
 *     bench_reshard [--pairs 1000] [--bytes 1MiB] [--staging 256KiB]
 *     mpirun -n N bench_reshard --device cuda|cpu [--pairs 50] [--bytes 256MiB] [--staging 64MiB] [--first 0]
 *
 * In one process: random pairs of layouts on 2 to 6 ranks, proven, run by threads, every element compared with the
 * layouts' definition, memory asserted (tests/synth/reshard.h). Under mpirun: random pairs on these ranks, each run by
 * the executor in one piece, as it is cut, and with its parts in turn instead of pipelined; the results are compared
 * bit by bit. With "cuda", small pairs of the same kinds are first run on both GPUs and CPUs, whose results are
 * compared.
 *
 * What is printed of each: the time of the slowest rank in one piece and as it is cut, the best of RUNS runs each, in
 * turn; its ratio; what the busiest rank sends or receives, over that time; the ratio with parts in turn; the number of
 * parts; bytes that are copied on the busiest rank; memory besides source and destination, of the larger rank: by the
 * program, as the device's free memory says when the executor has been made, and when it has run. */
#include <mpi.h>

#include "kernels/base/number/stats.h"
#include "kernels/base/text/units.h"
#include "launcher/execute/executor.h"
#include "launcher/session/rank_device.h"
#include "tests/synth/reshard.h"

enum { SEED_OF_PAIRS = 20261123, RUNS = 10, WARM_RUNS = 2 /* the first, and the one that is captured */ };
static const double deadline_s = 60;

static int pairs = -1, first_pair;
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
        else if (!strcmp(argv[i], "--first"))
            first_pair = atoi(argv[i + 1]);
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
static struct mt_err err = MT_ERR_INIT;
static float *source; /* whole numbers, by place, so that sums are exact in any order */

struct machine {
    struct mt_device *device;
    struct mt_comm *comm;
};

enum { WHOLE, CUT, BY_TURNS, NWAYS }; /* to run a conversion */
struct way {
    struct mt_lowered *low;
    struct mt_executor *ex;
    int64_t staging_bytes;         /* by the program */
    int64_t made_bytes, ran_bytes; /* by the device, of which states are taken off */
    int64_t before_bytes;
    double time_s;
};

static int64_t most(int64_t mine) {
    MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    return mine;
}

static double slowest(double mine) {
    MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return mine;
}

static struct machine open_machine(const char *of) {
    struct machine m;
    CHECK_OK(mt_rank_device_open(MPI_COMM_WORLD, of, &m.device, &err), err);
    CHECK_OK(mt_rank_wire_open(MPI_COMM_WORLD, of, deadline_s, &m.comm, &err), err);
    return m;
}

static void close_machine(struct machine *m) {
    mt_comm_free(m->comm);
    mt_device_close(m->device);
}

static int64_t used_bytes(const struct machine *m, const struct way *w) {
    return w->before_bytes - mt_device_memory_bytes(m->device) - w->low->state_bytes;
}

static struct way prepare(const struct machine *m, struct reshard *r, int way, int64_t staging) {
    struct way w = {.time_s = INFINITY};
    r->program.staging_bytes = way == WHOLE ? INT64_MAX : staging;
    r->program.staging_in_turn = way == BY_TURNS;
    CHECK_OK(
        mt_lower(&r->program, rank, &(struct mt_lower_options){.latency_s = 1e-5, .bandwidth_Bps = 1e10}, &w.low, &err),
        err);
    w.staging_bytes = most(w.low->arena_bytes - w.low->state_bytes);
    w.before_bytes = mt_device_memory_bytes(m->device);
    CHECK_OK(mt_executor_new(m->device, m->comm, w.low, NULL, deadline_s, &w.ex, &err), err);
    w.made_bytes = most(used_bytes(m, &w));
    CHECK_OK(mt_executor_set_state(w.ex, 0, source, &err), err);
    return w;
}

static void run_once(struct way *w, int run) {
    const struct mt_clock clock = {.step = run + 1};
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(mt_executor_run(w->ex, MT_RUN_TRAIN, &clock, &err), err);
    double took = slowest(mt_executor_times(w->ex).wall_s);
    if (run >= WARM_RUNS && took < w->time_s) w->time_s = took;
}

/* What the way leaves in the destination, in `result`. */
static void finish(struct way *w, void *result) {
    CHECK_OK(mt_executor_get_state(w->ex, 1, result, &err), err);
    mt_executor_free(w->ex);
}

static int64_t destination_bytes(const struct reshard *r) {
    for (int v = 0; v < r->program.nvalues; v++)
        if (r->program.values[v].next == r->out)
            return mt_box_count(mt_pvalue_box(&r->program, v, rank), mt_pvalue_layout(&r->program, v)->naxes) * 4;
    return 0;
}

static void forget(struct reshard *r) {
    mt_program_release(&r->program);
    mt_graph_free(r->graph);
}

/* Bytes that a rank must send or receive, at least: the larger of both. */
static int64_t link_bytes(const struct mt_coll *p) {
    int64_t out = 0, in = 0, total = 0;
    for (int q = 0; q < p->n; q++) {
        if (p->kind == MT_ALL_TO_ALL) {
            if (q != p->me) out += p->counts[p->me * p->n + q], in += p->counts[q * p->n + p->me];
        } else {
            total += p->counts[q];
        }
    }
    if (p->kind == MT_ALL_REDUCE) out = in = 2 * total * (p->n - 1) / p->n;
    if (p->kind == MT_REDUCE_SCATTER) out = total - p->counts[p->me], in = p->counts[p->me];
    if (p->kind == MT_ALL_GATHER) in = total - p->counts[p->me], out = p->counts[p->me];
    return (out > in ? out : in) * mt_type_size(p->wire);
}

static void print_pair(int pair, const struct reshard *r, const struct way *ways) {
    const struct mt_linstr *whole = &ways[WHOLE].low->instrs[0];
    char text[5][MT_UNITS_TEXT] = {"", "", "-", "-", ""};
    int64_t copied = most(whole->packed.bytes + whole->unpacked.bytes), linked = most(link_bytes(&whole->problem));
    mt_units_bytes((double)ways[CUT].staging_bytes, text[0]);
    mt_units_bytes((double)ways[WHOLE].staging_bytes, text[1]);
    if (!strcmp(kind, "cuda")) { /* a CPU's memory has other users */
        mt_units_bytes((double)ways[CUT].made_bytes, text[2]);
        mt_units_bytes((double)ways[CUT].ran_bytes, text[3]);
    }
    mt_units_bytes((double)copied, text[4]);
    if (rank) return;
    printf("%2d  %8.3f ms  %8.3f ms  ratio %5.3f  %5.0f GB/s  in turn %5.3f  %3d parts  copies %10s  staging %10s of "
           "%10s  device %10s, %10s  %.90s\n",
           pair, 1e3 * ways[WHOLE].time_s, 1e3 * ways[CUT].time_s, ways[CUT].time_s / ways[WHOLE].time_s,
           1e-9 * (double)linked / ways[CUT].time_s, ways[BY_TURNS].time_s / ways[WHOLE].time_s, ways[CUT].low->ninstrs,
           text[4], text[0], text[1], text[2], text[3], r->what);
    fflush(stdout);
}

/* Run one pair in all ways. Returns the number of parts. */
static int run_pair(const struct machine *m, struct dice *dice, int pair, void *const result[2], double ratio[2]) {
    struct reshard r;
    struct way ways[NWAYS];
    reshard_random(dice, &r, nranks, bytes);
    if (pair < first_pair) return forget(&r), 0;
    for (int way = 0; way < NWAYS; way++) {
        ways[way] = prepare(m, &r, way, staging_bytes);
        for (int run = 0; run <= WARM_RUNS; run++) run_once(&ways[way], run);
        ways[way].ran_bytes = most(used_bytes(m, &ways[way]));
    }
    for (int run = WARM_RUNS + 1; run < RUNS; run++)
        for (int way = 0; way < NWAYS; way++) run_once(&ways[way], run);
    for (int way = 0; way < NWAYS; way++) {
        finish(&ways[way], result[way > 0]);
        CHECK(!way || !memcmp(result[0], result[1], (size_t)destination_bytes(&r)), "%s: rank %d has other bits",
              r.what, rank);
    }
    for (int way = CUT; way < NWAYS; way++) {
        CHECK(ways[way].staging_bytes <= staging_bytes, "%s: stages %lld bytes", r.what,
              (long long)ways[way].staging_bytes);
        ratio[way - CUT] = ways[way].time_s / ways[WHOLE].time_s;
    }
    print_pair(pair, &r, ways);
    int parts = ways[CUT].low->ninstrs;
    for (int way = 0; way < NWAYS; way++) mt_lowered_free(ways[way].low);
    forget(&r);
    return parts;
}

/* Small pairs on GPUs and on CPUs. */
static void compare_with_cpus(const struct machine *m, void *const result[2]) {
    struct machine cpus = open_machine("cpu");
    struct dice dice = {.seed = SEED_OF_PAIRS + 1};
    enum { SMALL_PAIRS = 30, SMALL_BYTES = 1 << 20, SMALL_STAGING = 256 << 10 };
    for (int i = 0; i < SMALL_PAIRS; i++) {
        struct reshard r;
        reshard_random(&dice, &r, nranks, SMALL_BYTES);
        int64_t size_bytes = destination_bytes(&r);
        for (int way = 0; way < NWAYS; way++) {
            const struct machine *machines[] = {&cpus, m};
            for (int on = 0; on < 2; on++) {
                struct way w = prepare(machines[on], &r, way, SMALL_STAGING);
                for (int run = 0; run <= WARM_RUNS; run++) run_once(&w, run);
                finish(&w, result[on]);
                mt_lowered_free(w.low);
            }
            CHECK(!memcmp(result[0], result[1], (size_t)size_bytes), "%s: rank %d has other bits on its GPU, way %d",
                  r.what, rank, way);
        }
        forget(&r);
    }
    if (!rank) printf("%d pairs of 1 MiB, run on GPUs in one piece, pipelined and in turn: as on CPUs\n", SMALL_PAIRS);
    close_machine(&cpus);
}

/* Of the ratios of n pairs. */
static void print_ratios(const char *what, double *ratio, int n) {
    double sum = 0, logs = 0, worst = 0;
    for (int i = 0; i < n; i++) {
        sum += ratio[i], logs += log(ratio[i]);
        if (ratio[i] > worst) worst = ratio[i];
    }
    if (!rank && n)
        printf("%s, %d pairs: time over one piece: mean %.3f, geometric mean %.3f, median %.3f, worst %.3f\n", what, n,
               sum / n, exp(logs / n), mt_median(ratio, (size_t)n), worst);
}

static int on_devices(void) {
    int level, n = 0, ncut = 0;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    CHECK(nranks >= 2 && nranks <= RESHARD_RANKS, "2 to %d ranks", RESHARD_RANKS);
    int64_t room_bytes = bytes > 2 << 20 ? bytes : 2 << 20;
    void *result[2] = {malloc((size_t)room_bytes + 1), malloc((size_t)room_bytes + 1)};
    source = malloc((size_t)room_bytes + 1);
    for (int64_t i = 0; i < room_bytes / 4; i++) source[i] = (float)((i * 7 + rank * 13) % 61 - 30);
    struct machine m = open_machine(kind);
    double start_s = mt_now_s();
    if (!strcmp(kind, "cuda")) compare_with_cpus(&m, result);
    if (!rank) printf("pair, time in one piece, time in parts of at most %lld bytes ...\n", (long long)staging_bytes);
    struct dice dice = {.seed = SEED_OF_PAIRS};
    double *of[4];
    for (int k = 0; k < 4; k++) of[k] = malloc(((size_t)pairs + 1) * sizeof(double));
    for (int i = 0; i < pairs; i++) {
        double ratio[2];
        int parts = run_pair(&m, &dice, i, result, ratio);
        if (!parts) continue;
        of[0][n] = ratio[0], of[1][n++] = ratio[1];
        if (parts > 1) of[2][ncut] = ratio[0], of[3][ncut++] = ratio[1];
    }
    print_ratios("all pairs", of[0], n);
    print_ratios("all pairs, in turn", of[1], n);
    print_ratios("those in parts", of[2], ncut);
    print_ratios("those in parts, in turn", of[3], ncut);
    if (!rank) printf("%.0f s\n", mt_now_s() - start_s);
    close_machine(&m);
    for (int k = 0; k < 4; k++) free(of[k]);
    free(source), free(result[0]), free(result[1]);
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv) {
    read_flags(argc, argv);
    return kind ? on_devices() : in_one_process();
}
