/* run.json: reading, checking, writing. */
#include "launcher/run.h"

#include <math.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/json.h"

enum { MOST_RANKS = 1 << 16, MOST_STEPS = 1 << 30 };

void mt_run_init(struct mt_run_doc *run, int nranks) {
    *run = (struct mt_run_doc){.nranks = nranks, .first_step = 1};
    run->made_by = run->mpi = run->plan_hash = run->program_hash = run->model = run->data_hash = run->ended = "";
    run->parameter_hash = "";
    run->ranks = mt_new(&run->arena, struct mt_run_rank, nranks);
    for (int r = 0; r < nranks; r++) run->ranks[r] = (struct mt_run_rank){.host = "", .device = "", .emulated = 1};
}

void mt_run_release(struct mt_run_doc *run) {
    mt_arena_release(&run->arena);
    *run = (struct mt_run_doc){0};
}

void mt_run_add_loss(struct mt_run_doc *run, double loss) {
    mt_arena_grow(&run->arena, &run->losses, run->nlosses, &run->losses_capacity, sizeof *run->losses);
    run->losses[run->nlosses++] = loss;
}

void mt_run_add_val(struct mt_run_doc *run, int64_t step, double loss) {
    mt_arena_grow(&run->arena, &run->vals, run->nvals, &run->vals_capacity, sizeof *run->vals);
    run->vals[run->nvals++] = (struct mt_run_val){step, loss};
}

void mt_run_continue(struct mt_run_doc *run, const struct mt_run_doc *before, int64_t step) {
    int64_t count = step - (before->first_step - 1);
    if (run->nlosses || count <= 0 || count > before->nlosses) return;
    run->first_step = before->first_step;
    for (int64_t i = 0; i < count; i++) mt_run_add_loss(run, before->losses[i]);
    for (int v = 0; v < before->nvals; v++)
        if (before->vals[v].step <= step) mt_run_add_val(run, before->vals[v].step, before->vals[v].loss);
}

enum mt_status mt_run_check(const struct mt_run_doc *run, struct mt_err *err) {
    for (int v = 0; v < run->nvals; v++)
        if (run->vals[v].step < run->first_step - 1 || run->vals[v].step > run->first_step - 1 + run->nlosses)
            return mt_fail(err, MT_EINPUT, "validation[%d].step: %lld is outside the run's steps %lld to %lld", v,
                           (long long)run->vals[v].step, (long long)run->first_step,
                           (long long)run->first_step + run->nlosses - 1);
    for (int r = 0; r < run->nranks; r++)
        if (!(run->ranks[r].emulated > 0 && run->ranks[r].emulated <= 1))
            return mt_fail(err, MT_EINPUT, "ranks[%d].emulated: is %g, not above 0 and at most 1", r,
                           run->ranks[r].emulated);
    return MT_OK;
}

/* The members that are plain strings, one row each, for reader and writer. */
static const struct {
    const char *key;
    size_t at;
} texts[] = {
    {"made_by", offsetof(struct mt_run_doc, made_by)},
    {"mpi", offsetof(struct mt_run_doc, mpi)},
    {"plan_hash", offsetof(struct mt_run_doc, plan_hash)},
    {"program_hash", offsetof(struct mt_run_doc, program_hash)},
    {"model", offsetof(struct mt_run_doc, model)},
    {"data_hash", offsetof(struct mt_run_doc, data_hash)},
    {"ended", offsetof(struct mt_run_doc, ended)},
    {"parameter_hash", offsetof(struct mt_run_doc, parameter_hash)},
};
enum { NTEXTS = sizeof texts / sizeof *texts };

static const struct {
    const char *key;
    size_t at;
} rank_reals[] = {
    {"compute_s", offsetof(struct mt_run_rank, compute_s)},
    {"comm_s", offsetof(struct mt_run_rank, comm_s)},
    {"wait_s", offsetof(struct mt_run_rank, wait_s)},
    {"emulated", offsetof(struct mt_run_rank, emulated)},
};
enum { NRANK_REALS = sizeof rank_reals / sizeof *rank_reals };
static const struct {
    const char *key;
    size_t at;
} rank_ints[] = {
    {"samples", offsetof(struct mt_run_rank, samples)},
    {"arena_bytes", offsetof(struct mt_run_rank, arena_bytes)},
    {"start_rss_bytes", offsetof(struct mt_run_rank, start_rss_bytes)},
    {"peak_rss_bytes", offsetof(struct mt_run_rank, peak_rss_bytes)},
};

static enum mt_status read_rank(struct mt_json object, struct mt_run_doc *run, struct mt_run_rank *rank,
                                struct mt_err *err) {
    static const char *const keys[] = {"host",           "device",   "compute_s",   "comm_s",
                                       "wait_s",         "samples",  "arena_bytes", "start_rss_bytes",
                                       "peak_rss_bytes", "emulated", NULL};
    const char *host, *device;
    enum mt_status st;
    if ((st = mt_json_only(object, keys, err)) || (st = mt_json_string(object, "host", &host, err)) ||
        (st = mt_json_string(object, "device", &device, err)))
        return st;
    rank->host = mt_arena_strdup(&run->arena, host), rank->device = mt_arena_strdup(&run->arena, device);
    for (int i = 0; i < NRANK_REALS && !st; i++)
        st = mt_json_real(object, rank_reals[i].key, 0, INFINITY, (double *)((char *)rank + rank_reals[i].at), err);
    for (int i = 0; i < 4 && !st; i++)
        st = mt_json_int(object, rank_ints[i].key, 0, INT64_MAX, (int64_t *)((char *)rank + rank_ints[i].at), err);
    return st;
}

static enum mt_status read_ranks(struct mt_json root, struct mt_run_doc *run, struct mt_err *err) {
    struct mt_json ranks, item;
    enum mt_status st;
    if ((st = mt_json_get(root, "ranks", &ranks, err)) || (st = mt_json_length(ranks, MOST_RANKS, &run->nranks, err)))
        return st;
    run->ranks = mt_new(&run->arena, struct mt_run_rank, run->nranks);
    for (int r = 0; r < run->nranks && !st; r++)
        if (!(st = mt_json_item(ranks, r, &item, err))) st = read_rank(item, run, &run->ranks[r], err);
    return st;
}

static enum mt_status read_losses(struct mt_json root, struct mt_run_doc *run, struct mt_err *err) {
    static const char *const keys[] = {"step", "loss", NULL};
    struct mt_json losses, vals, item;
    enum mt_status st;
    int count;
    if ((st = mt_json_get(root, "losses", &losses, err)) ||
        (st = mt_json_length(losses, MOST_STEPS, &run->nlosses, err)))
        return st;
    run->losses = mt_new(&run->arena, double, run->nlosses);
    run->losses_capacity = run->nlosses;
    for (int i = 0; i < run->nlosses && !st; i++)
        if (!(st = mt_json_item(losses, i, &item, err)))
            st = mt_json_as_real(item, -INFINITY, INFINITY, &run->losses[i], err);
    if (st || (st = mt_json_get(root, "validation", &vals, err)) ||
        (st = mt_json_length(vals, MOST_STEPS, &count, err)))
        return st;
    for (int v = 0; v < count && !st; v++) {
        int64_t step;
        double loss;
        if (!(st = mt_json_item(vals, v, &item, err)) && !(st = mt_json_only(item, keys, err)) &&
            !(st = mt_json_int(item, "step", 0, INT64_MAX, &step, err)) &&
            !(st = mt_json_real(item, "loss", -INFINITY, INFINITY, &loss, err)))
            mt_run_add_val(run, step, loss);
    }
    return st;
}

static enum mt_status read_run(struct mt_json root, struct mt_run_doc *run, struct mt_err *err) {
    static const char *const keys[] = {"format",      "version",         "made_by", "mpi",
                                       "plan_hash",   "program_hash",    "model",   "ended",
                                       "first_step",  "tokens_per_step", "train_s", "tokens_per_s",
                                       "flops_per_s", "data_hash",       "losses",  "validation",
                                       "ranks",       "parameter_hash",  NULL};
    enum mt_status st;
    const char *text;
    int64_t version;
    if ((st = mt_json_only(root, keys, err)) || (st = mt_json_string(root, "format", &text, err))) return st;
    if (strcmp(text, MT_RUN_FORMAT)) return mt_json_fail(root, err, "format is \"%.40s\", not " MT_RUN_FORMAT, text);
    if ((st = mt_json_int(root, "version", MT_RUN_VERSION, MT_RUN_VERSION, &version, err))) return st;
    for (int i = 0; i < NTEXTS; i++) {
        if ((st = mt_json_string(root, texts[i].key, &text, err))) return st;
        *(const char **)((char *)run + texts[i].at) = mt_arena_strdup(&run->arena, text);
    }
    if ((st = mt_json_int(root, "first_step", 1, INT64_MAX, &run->first_step, err)) ||
        (st = mt_json_int(root, "tokens_per_step", 0, INT64_MAX, &run->tokens_per_step, err)) ||
        (st = mt_json_real(root, "train_s", 0, INFINITY, &run->train_s, err)) ||
        (st = mt_json_real(root, "tokens_per_s", 0, INFINITY, &run->tokens_per_s, err)) ||
        (st = mt_json_real(root, "flops_per_s", 0, INFINITY, &run->flops_per_s, err)) ||
        (st = read_ranks(root, run, err)) || (st = read_losses(root, run, err)))
        return st;
    return mt_run_check(run, err);
}

enum mt_status mt_run_read(const char *path, struct mt_run_doc *run, struct mt_err *err) {
    struct mt_json_doc doc;
    mt_run_init(run, 0);
    enum mt_status st = mt_json_load(path, &doc, err);
    if (!st) {
        st = read_run(doc.root, run, err);
        mt_json_release(&doc);
    }
    if (st) mt_run_release(run);
    return st;
}

/* A diverged loss is no JSON number; the largest one that is stands for it. */
static double to_finite(double x) {
    return isfinite(x) ? x : x < 0 ? -1e308 : 1e308;
}

static void write_rank(const struct mt_run_rank *rank, struct mt_json_out *out) {
    mt_json_open_inline(out, NULL, '{');
    mt_json_put_string(out, "host", rank->host);
    mt_json_put_string(out, "device", rank->device);
    for (int i = 0; i < 4; i++)
        mt_json_put_int(out, rank_ints[i].key, *(const int64_t *)((const char *)rank + rank_ints[i].at));
    for (int i = 0; i < NRANK_REALS; i++)
        mt_json_put_real(out, rank_reals[i].key, *(const double *)((const char *)rank + rank_reals[i].at));
    mt_json_close(out);
}

enum mt_status mt_run_write(const struct mt_run_doc *run, const char *path, struct mt_err *err) {
    struct mt_json_out out;
    mt_json_out_init(&out);
    mt_json_open(&out, NULL, '{');
    mt_json_put_string(&out, "format", MT_RUN_FORMAT);
    mt_json_put_int(&out, "version", MT_RUN_VERSION);
    for (int i = 0; i < NTEXTS; i++)
        mt_json_put_string(&out, texts[i].key, *(char *const *)((const char *)run + texts[i].at));
    mt_json_put_int(&out, "first_step", run->first_step);
    mt_json_put_int(&out, "tokens_per_step", run->tokens_per_step);
    mt_json_put_real(&out, "train_s", run->train_s);
    mt_json_put_real(&out, "tokens_per_s", run->tokens_per_s);
    mt_json_put_real(&out, "flops_per_s", run->flops_per_s);
    mt_json_open(&out, "ranks", '[');
    for (int r = 0; r < run->nranks; r++) write_rank(&run->ranks[r], &out);
    mt_json_close(&out);
    mt_json_open(&out, "validation", '[');
    for (int v = 0; v < run->nvals; v++) {
        mt_json_open_inline(&out, NULL, '{');
        mt_json_put_int(&out, "step", run->vals[v].step);
        mt_json_put_real(&out, "loss", to_finite(run->vals[v].loss));
        mt_json_close(&out);
    }
    mt_json_close(&out);
    mt_json_open_inline(&out, "losses", '[');
    for (int i = 0; i < run->nlosses; i++) mt_json_put_real(&out, NULL, to_finite(run->losses[i]));
    mt_json_close(&out);
    mt_json_close(&out);
    enum mt_status st = mt_file_replace(path, out.text, out.length, err);
    mt_json_out_release(&out);
    return st;
}
