/* Running benchmarks: opening the device, measuring its peak, then each benchmark in turn. */
#include "launcher/bench/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/working.h"
#include "launcher/flags/files.h"
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

static void add_peak(struct mt_bench *b) {
    struct mt_table *t =
        mt_tables_add(&b->doc, "ceilings", "measured peak", "a large GEMM; a large copy, bytes read and written");
    mt_table_columns(t, {"what", "peak", MT_UNIT_TEXT}, {"flops", "GEMM", MT_UNIT_FLOPS},
                     {"copy_Bps", "copy", MT_UNIT_BPS});
    mt_table_row(t);
    mt_cell_text(t, "%s", mt_type_name(b->job.precision));
    mt_cell_positive(t, b->peak.flops);
    mt_cell_positive(t, b->peak.copy_Bps);
}

/* ---- running ---- */

static void tell(struct mt_bench *b) {
    if (!b->rank) mt_output_tell(&b->options->output, &b->doc);
}

/* Defaults that fit the kind of device. */
static void choose_job(struct mt_bench *b) {
    bool gpu = !strcmp(b->options->device, "cuda");
    b->job = b->options->job;
    b->model = b->options->model ? b->options->model : gpu ? "gpt2:124m,vocab=50304" : "gpt2:char";
    if (!b->options->batch_given) b->job.batch = (int64_t)(gpu ? 16 : 8) * b->nranks;
}

/* Of all benchmarks those between ranks are left out where there is one; what is named is not. */
static enum mt_status check_ranks(const struct mt_bench *b, struct mt_err *err) {
    for (int i = 0; i < NBENCHES && b->nranks == 1 && b->options->which != MT_BENCH_ALL; i++) {
        if (benches[i].run != mt_bench_collectives || !(b->options->which >> i & 1u)) continue;
        mt_fail(err, MT_EINPUT, "%s: there is one rank, and nothing to communicate", benches[i].name);
        return mt_err_hint(err, "`mpirun -n N motley bench %s` has several", benches[i].name);
    }
    return MT_OK;
}

static enum mt_status open_all(struct mt_bench *b, struct mt_err *err) {
    choose_job(b);
    mt_watch_phase(MT_WATCH_SLOW, "opening the device");
    struct mt_model unused;
    enum mt_status st = check_ranks(b, err);
    if (!st) st = mt_model_parse(b->model, &unused, err);
    struct mt_files files = {0};
    mt_files_writes(&files, "--json", b->rank ? NULL : b->options->output.path, MT_BENCH_FORMAT);
    if (!st) st = mt_files_check(&files, err);
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
    add_peak(b);
    tell(b);
    for (int i = 0; i < NBENCHES && !st; i++) {
        if (!(b->options->which >> i & 1u)) continue;
        mt_watch_phase(MT_WATCH_SLOW, "measuring: %s", benches[i].name);
        if (!b->rank) mt_working_begin("measuring");
        st = benches[i].run(b, err);
        if (!b->rank) mt_working_end();
        if (st && !b->rank) mt_err_context(err, "%s", benches[i].name);
        if (!st) tell(b);
    }
    return st;
}

/* The rows of a table; what is not known is left out. */
static void put_table(const struct mt_table *t, struct mt_json_out *out) {
    mt_json_open(out, t->name, '[');
    for (int r = 0; r < t->nrows; r++) {
        mt_json_open_inline(out, NULL, '{');
        for (int c = 0; c < t->rows[r].ncells; c++) {
            const struct mt_cell *cell = &t->rows[r].cells[c];
            if (cell->kind == MT_CELL_TEXT) mt_json_put_string(out, t->columns[c].key, cell->text);
            if (cell->kind == MT_CELL_NUMBER) mt_json_put_real(out, t->columns[c].key, cell->number);
        }
        mt_json_close(out);
    }
    mt_json_close(out);
}

static enum mt_status write_document(const struct mt_bench *b, const char *path, struct mt_err *err) {
    struct mt_json_out out;
    mt_json_out_init(&out);
    mt_json_open(&out, NULL, '{');
    mt_json_put_string(&out, "format", MT_BENCH_FORMAT);
    mt_json_put_int(&out, "version", 1);
    mt_json_put_string(&out, "motley", MOTLEY_VERSION);
    mt_json_put_string(&out, "device", mt_device_describe(b->device));
    mt_json_put_int(&out, "ranks", b->nranks);
    mt_json_put_string(&out, "model", b->model);
    mt_json_put_string(&out, "precision", mt_type_name(b->job.precision));
    for (int i = 0; i < b->doc.count; i++)
        if (b->doc.items[i].table) put_table(b->doc.items[i].table, &out);
    mt_json_close(&out);
    enum mt_status st = mt_file_replace(path, out.text, out.length, err);
    mt_json_out_release(&out);
    return st;
}

/* The document that --json FILE names has its own form, which scripts know. */
static enum mt_status end_output(struct mt_bench *b, struct mt_err *err) {
    const struct mt_output printed = {.json = b->options->output.json};
    enum mt_status st = mt_output_end(&printed, &b->doc, err);
    return st || !b->options->output.path ? st : write_document(b, b->options->output.path, err);
}

enum mt_status mt_bench_suite(const struct mt_bench_options *options, struct mt_err *err) {
    struct mt_bench b = {.options = options, .doc = MT_TABLES_INIT};
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b.nranks);
    enum mt_status st = open_all(&b, err);
    if (!st) {
        mt_tables_say(&b.doc, "%s, %d rank%s; %s, %s", mt_device_describe(b.device), b.nranks, b.nranks == 1 ? "" : "s",
                      b.model, mt_type_name(b.job.precision));
        tell(&b);
        st = run_all(&b, err);
    }
    if (!st && !b.rank) st = end_output(&b, err);
    mt_tables_release(&b.doc);
    mt_comm_free(b.wire);
    if (b.stream) mt_stream_free(b.stream);
    mt_device_close(b.device);
    return st;
}
