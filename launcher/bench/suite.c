/* Running benchmarks: opening the device, measuring its peak, then each benchmark in turn. */
#include "launcher/bench/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/file.h"
#include "launcher/session/agree.h"
#include "launcher/session/rank_device.h"
#include "launcher/watch/watch.h"
#include "synth/models/model.h"

static const double deadline_s = 60; /* to connect ranks */

static const struct {
    const char *name;
    enum mt_status (*run)(struct mt_bench *bench, struct mt_err *err);
} benches[] = {
#define MT_BENCH(name, what) {#name, mt_bench_##name},
#include "launcher/bench/benches.def"
#undef MT_BENCH
};
enum { NBENCHES = sizeof benches / sizeof *benches };

const char *const mt_bench_names[] = {
#define MT_BENCH(name, what) #name,
#include "launcher/bench/benches.def"
#undef MT_BENCH
    NULL};

/* ---- peak ---- */

/* A square GEMM, large enough that its launch does not count. */
static enum mt_status measure_gemm(struct mt_bench *b, struct mt_err *err) {
    enum { LEAST = 512, MOST = 8192 };
    static const double enough_s = 4e-3;
    struct mt_attr attr = {.nm = 1, .nn = 1, .nk = 1};
    enum mt_status st = MT_OK;
    double time_s = 0;
    for (int64_t n = LEAST; n <= MOST && time_s < enough_s && !st; n *= 2) {
        struct mt_tensor t = {.type = b->job.precision, .naxes = 2, .extent = {n, n}, .global = {n, n}};
        const struct mt_tensor in[2] = {t, t};
        const struct mt_call call = {.kind = MT_OP_matmul, .attr = &attr, .nin = 2, .nout = 1, .in = in, .out = &t};
        st = mt_bench_call(b, &call, b->options->seconds, &time_s, err);
        if (!st && time_s > 0) b->peak.flops = fmax(b->peak.flops, 2.0 * (double)(n * n * n) / time_s);
        if (!(time_s > 0)) break;
    }
    return st ? mt_err_context(err, "GEMM") : MT_OK;
}

static enum mt_status measure_copy(struct mt_bench *b, struct mt_err *err) {
    enum { ELEMENTS = 64 << 20 };
    struct mt_attr attr = {.to = MT_F32};
    struct mt_tensor t = {.type = MT_F32, .naxes = 1, .extent = {ELEMENTS}, .global = {ELEMENTS}};
    const struct mt_call call = {.kind = MT_OP_cast, .attr = &attr, .nin = 1, .nout = 1, .in = &t, .out = &t};
    double time_s;
    enum mt_status st = mt_bench_call(b, &call, b->options->seconds, &time_s, err);
    if (!st && time_s > 0) b->peak.copy_Bps = 2.0 * ELEMENTS * sizeof(float) / time_s;
    return st ? mt_err_context(err, "copy") : MT_OK;
}

static void print_peak(struct mt_bench *b) {
    static const struct mt_bench_column columns[] = {
        {"what", "peak", MT_BENCH_TEXT}, {"flops", "GEMM", MT_BENCH_FLOPS}, {"copy_Bps", "copy", MT_BENCH_BPS}};
    struct mt_bench_table table;
    mt_bench_table_begin(&table, b->json, "ceilings", columns, 3);
    mt_bench_text(&table, mt_type_name(b->job.precision));
    mt_bench_number(&table, b->peak.flops);
    mt_bench_number(&table, b->peak.copy_Bps);
    mt_bench_table_end(&table, !b->rank, "measured peak (a large GEMM; a large copy, bytes read and written)");
}

/* ---- running ---- */

/* Defaults that fit the kind of device. */
static void choose_job(struct mt_bench *b) {
    bool gpu = !strcmp(b->options->device, "cuda");
    b->job = b->options->job;
    b->model = b->options->model ? b->options->model : gpu ? "gpt2:124m,vocab=50304" : "gpt2:char";
    if (!b->options->batch_given) b->job.batch = (int64_t)(gpu ? 16 : 8) * b->nranks;
}

static enum mt_status open_all(struct mt_bench *b, struct mt_err *err) {
    choose_job(b);
    mt_watch_phase(MT_WATCH_SLOW, "opening the device");
    struct mt_model unused;
    enum mt_status st = mt_model_parse(b->model, &unused, err);
    if (!st && !b->rank && b->options->json) st = mt_file_writable(b->options->json, err);
    if ((st = mt_agree(MPI_COMM_WORLD, st, err))) return st;
    if ((st = mt_rank_device_open(MPI_COMM_WORLD, b->options->device, &b->device, err))) return st;
    st = mt_agree(MPI_COMM_WORLD, mt_stream_new(b->device, "compute", &b->stream, err), err);
    return st ? st : mt_rank_wire_open(MPI_COMM_WORLD, b->options->device, deadline_s, &b->wire, err);
}

static enum mt_status run_all(struct mt_bench *b, struct mt_err *err) {
    mt_watch_phase(MT_WATCH_SLOW, "measuring the peak");
    enum mt_status st = measure_gemm(b, err);
    if (!st) st = measure_copy(b, err);
    if ((st = mt_agree(MPI_COMM_WORLD, st, err))) return st;
    print_peak(b);
    for (int i = 0; i < NBENCHES && !st; i++) {
        if (!(b->options->which >> i & 1u)) continue;
        mt_watch_phase(MT_WATCH_SLOW, "measuring: %s", benches[i].name);
        st = benches[i].run(b, err);
        if (st && !b->rank) mt_err_context(err, "%s", benches[i].name);
    }
    return st;
}

static void begin_document(struct mt_bench *b, struct mt_json_out *out) {
    mt_json_out_init(out);
    mt_json_open(out, NULL, '{');
    mt_json_put_string(out, "format", "motley-bench");
    mt_json_put_int(out, "version", 1);
    mt_json_put_string(out, "motley", MOTLEY_VERSION);
    mt_json_put_string(out, "device", mt_device_describe(b->device));
    mt_json_put_int(out, "ranks", b->nranks);
    mt_json_put_string(out, "model", b->model);
    mt_json_put_string(out, "precision", mt_type_name(b->job.precision));
    b->json = out;
}

enum mt_status mt_bench_suite(const struct mt_bench_options *options, struct mt_err *err) {
    struct mt_bench b = {.options = options};
    struct mt_json_out out;
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b.nranks);
    enum mt_status st = open_all(&b, err);
    if (!st && !b.rank) {
        printf("%s, %d rank%s; %s, %s\n", mt_device_describe(b.device), b.nranks, b.nranks == 1 ? "" : "s", b.model,
               mt_type_name(b.job.precision));
        begin_document(&b, &out);
    }
    if (!st) st = run_all(&b, err);
    if (b.json) {
        mt_json_close(&out);
        if (!st && options->json) st = mt_file_replace(options->json, out.text, out.length, err);
        mt_json_out_release(&out);
    }
    mt_comm_free(b.wire);
    if (b.stream) mt_stream_free(b.stream);
    mt_device_close(b.device);
    return st;
}
