/* run.json: reading, checking, writing. */
#include "launcher/run/run.h"

#include <float.h>
#include <math.h>

#include "kernels/base/file.h"
#include "kernels/base/text/json.h"
#include "planner/plan/plan.h"

enum { MOST_RANKS = 1 << 16, MOST_STEPS = 1 << 30 };
#define MOST_COUNT ((int64_t)1 << 40) /* as in jobs, so that no sum of two overflows */

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

void mt_run_idle(struct mt_run_doc *run, int rank, const char *host) {
    struct mt_run_rank *row = &run->ranks[rank];
    row->host = mt_arena_strdup(&run->arena, host);
    row->device = "idle";
    row->idle = true;
}

int64_t mt_run_continue(struct mt_run_doc *run, const struct mt_run_doc *before, int64_t step) {
    int64_t count = step - (before->first_step - 1), known = count < before->nlosses ? count : before->nlosses;
    if (run->nlosses || count <= 0) return 0;
    if (!known || count > MOST_STEPS) return count;
    run->first_step = before->first_step;
    for (int64_t i = 0; i < count; i++) mt_run_add_loss(run, i < known ? before->losses[i] : NAN);
    for (int v = 0; v < before->nvals; v++)
        if (before->vals[v].step <= step) mt_run_add_val(run, before->vals[v].step, before->vals[v].loss);
    return count - known;
}

void mt_run_expect(struct mt_run_doc *run, const struct mt_plan *plan) {
    const struct mt_plan_prediction *f = plan->prediction;
    if (!f) return;
    run->predicted_step_s = f->step_s;
    run->predicted_error = f->error;
    run->predicted_error_below = f->error_below;
    for (int r = 0; r < run->nranks; r++) {
        run->ranks[r].predicted_compute_s = f->times[r].compute_s;
        run->ranks[r].predicted_wait_s = f->times[r].exposed_s + f->times[r].idle_s;
    }
}

static enum mt_status check(const struct mt_run_doc *run, struct mt_err *err) {
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

/* Members by type, for reader and writer; a member's name is its key. */
struct member {
    const char *key;
    size_t at;
};
#define DOC(member)                                                                                                    \
    { #member, offsetof(struct mt_run_doc, member) }
#define RANK(member)                                                                                                   \
    { #member, offsetof(struct mt_run_rank, member) }
static const struct member texts[] = {DOC(made_by), DOC(mpi),       DOC(plan_hash), DOC(program_hash),
                                      DOC(model),   DOC(data_hash), DOC(ended),     DOC(parameter_hash)};
enum { NTEXTS = sizeof texts / sizeof *texts };

static const struct member rank_reals[] = {
    RANK(compute_s),       RANK(comm_s),      RANK(wait_s),      RANK(emulated),
    RANK(step_compute_s),  RANK(step_comm_s), RANK(step_wait_s), RANK(predicted_compute_s),
    RANK(predicted_wait_s)};
static const struct member rank_ints[] = {RANK(samples),     RANK(multiprocessors), RANK(all_multiprocessors),
                                          RANK(arena_bytes), RANK(start_rss_bytes), RANK(peak_rss_bytes)};
enum { NREALS = sizeof rank_reals / sizeof *rank_reals, NINTS = sizeof rank_ints / sizeof *rank_ints };

/* Numbers from 0 on. */
static const struct member reals[] = {DOC(train_s), DOC(tokens_per_s),     DOC(flops_per_s),
                                      DOC(step_s),  DOC(predicted_step_s), DOC(predicted_error)};
enum { NRUNREALS = sizeof reals / sizeof *reals };

static enum mt_status read_rank(void *context, struct mt_json object, int index, struct mt_err *err) {
    const char *keys[3 + NREALS + NINTS + 1] = {"host", "device", "idle"};
    struct mt_run_doc *run = context;
    struct mt_run_rank *rank = &run->ranks[index];
    enum mt_status st;
    int n = 3;
    for (int i = 0; i < NREALS; i++) keys[n++] = rank_reals[i].key;
    for (int i = 0; i < NINTS; i++) keys[n++] = rank_ints[i].key;
    if ((st = mt_json_only(object, keys, err)) || (st = mt_json_text(object, "host", &run->arena, &rank->host, err)) ||
        (st = mt_json_text(object, "device", &run->arena, &rank->device, err)) ||
        (mt_json_has(object, "idle") && (st = mt_json_bool(object, "idle", &rank->idle, err))))
        return st;
    for (int i = 0; i < NREALS && !st; i++)
        st = mt_json_real(object, rank_reals[i].key, 0, DBL_MAX, (double *)((char *)rank + rank_reals[i].at), err);
    for (int i = 0; i < NINTS && !st; i++)
        st = mt_json_int(object, rank_ints[i].key, 0, INT64_MAX, (int64_t *)((char *)rank + rank_ints[i].at), err);
    return st;
}

static enum mt_status read_ranks(struct mt_json root, struct mt_run_doc *run, struct mt_err *err) {
    const struct mt_json_rows rows = {"ranks", MOST_RANKS, sizeof *run->ranks, read_rank};
    return mt_json_list(root, &rows, run, &run->arena, &run->ranks, &run->nranks, err);
}

static enum mt_status read_losses(struct mt_json root, struct mt_run_doc *run, struct mt_err *err) {
    static const char *const keys[] = {"step", "loss", NULL};
    struct mt_json losses, vals, item, number;
    enum mt_status st;
    int count;
    if ((st = mt_json_get(root, "losses", &losses, err)) ||
        (st = mt_json_length(losses, MOST_STEPS, &run->nlosses, err)))
        return st;
    run->losses = mt_new(&run->arena, double, run->nlosses);
    run->losses_capacity = run->nlosses;
    for (int i = 0; i < run->nlosses && !st; i++)
        if (!(st = mt_json_item(losses, i, &item, err))) st = mt_json_as_real_or_null(item, &run->losses[i], err);
    if (st || (st = mt_json_get(root, "validation", &vals, err)) ||
        (st = mt_json_length(vals, MOST_STEPS, &count, err)))
        return st;
    for (int v = 0; v < count && !st; v++) {
        int64_t step;
        double loss;
        if (!(st = mt_json_item(vals, v, &item, err)) && !(st = mt_json_only(item, keys, err)) &&
            !(st = mt_json_int(item, "step", 0, INT64_MAX, &step, err)) &&
            !(st = mt_json_get(item, "loss", &number, err)) && !(st = mt_json_as_real_or_null(number, &loss, err)))
            mt_run_add_val(run, step, loss);
    }
    return st;
}

static enum mt_status read_run(struct mt_json root, struct mt_run_doc *run, struct mt_err *err) {
    bool scaled = mt_json_has(root, "loss_scale");
    const char *keys[16 + NTEXTS + NRUNREALS] = {"format", "version",    "first_step", "tokens_per_step",
                                                 "losses", "validation", "ranks"};
    enum mt_status st;
    int n = 7;
    for (int i = 0; i < NTEXTS; i++) keys[n++] = texts[i].key;
    for (int i = 0; i < NRUNREALS; i++) keys[n++] = reals[i].key;
    if (scaled) keys[n++] = "loss_scale", keys[n++] = "skipped_steps";
    bool below = mt_json_has(root, "predicted_error_below");
    if (below) keys[n++] = "predicted_error_below";
    if ((st = mt_json_format(root, MT_RUN_FORMAT, MT_RUN_VERSION, err)) || (st = mt_json_only(root, keys, err)))
        return st;
    for (int i = 0; i < NTEXTS && !st; i++)
        st = mt_json_text(root, texts[i].key, &run->arena, (const char **)((char *)run + texts[i].at), err);
    for (int i = 0; i < NRUNREALS && !st; i++)
        st = mt_json_real(root, reals[i].key, 0, DBL_MAX, (double *)((char *)run + reals[i].at), err);
    run->predicted_error_below = run->predicted_error;
    if (st || (below && (st = mt_json_real(root, "predicted_error_below", 0, 1, &run->predicted_error_below, err))) ||
        (st = mt_json_int(root, "first_step", 1, MOST_COUNT, &run->first_step, err)) ||
        (st = mt_json_int(root, "tokens_per_step", 0, INT64_MAX, &run->tokens_per_step, err)) ||
        (scaled && ((st = mt_json_real(root, "loss_scale", 0, DBL_MAX, &run->loss_scale, err)) ||
                    (st = mt_json_int(root, "skipped_steps", 0, INT64_MAX, &run->skipped_steps, err)))) ||
        (st = read_ranks(root, run, err)) || (st = read_losses(root, run, err)))
        return st;
    struct mt_err why = MT_ERR_INIT;
    return check(run, &why) ? mt_json_fail(root, err, "%s", why.text) : MT_OK;
}

enum mt_status mt_run_read(const char *path, struct mt_run_doc *run, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_json_doc doc;
    mt_run_init(run, 0);
    enum mt_status st = mt_json_load(mt_file_in(path, "run.json", &arena), &doc, err);
    if (!st) {
        st = read_run(doc.root, run, err);
        mt_json_release(&doc);
    }
    mt_arena_release(&arena);
    if (st) mt_run_release(run);
    return st;
}

static void write_rank(const struct mt_run_rank *rank, struct mt_json_out *out) {
    mt_json_open_inline(out, NULL, '{');
    mt_json_put_string(out, "host", rank->host);
    mt_json_put_string(out, "device", rank->device);
    if (rank->idle) mt_json_put_bool(out, "idle", true);
    for (int i = 0; i < NINTS; i++)
        mt_json_put_int(out, rank_ints[i].key, *(const int64_t *)((const char *)rank + rank_ints[i].at));
    for (int i = 0; i < NREALS; i++)
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
    for (int i = 0; i < NRUNREALS; i++)
        mt_json_put_real(&out, reals[i].key, *(const double *)((const char *)run + reals[i].at));
    if (run->predicted_error_below != run->predicted_error)
        mt_json_put_real(&out, "predicted_error_below", run->predicted_error_below);
    if (run->loss_scale > 0) {
        mt_json_put_real(&out, "loss_scale", run->loss_scale);
        mt_json_put_int(&out, "skipped_steps", run->skipped_steps);
    }
    mt_json_open(&out, "ranks", '[');
    for (int r = 0; r < run->nranks; r++) write_rank(&run->ranks[r], &out);
    mt_json_close(&out);
    mt_json_open(&out, "validation", '[');
    for (int v = 0; v < run->nvals; v++) {
        mt_json_open_inline(&out, NULL, '{');
        mt_json_put_int(&out, "step", run->vals[v].step);
        mt_json_put_real_or_null(&out, "loss", run->vals[v].loss);
        mt_json_close(&out);
    }
    mt_json_close(&out);
    mt_json_open_inline(&out, "losses", '[');
    for (int i = 0; i < run->nlosses; i++) mt_json_put_real_or_null(&out, NULL, run->losses[i]);
    mt_json_close(&out);
    mt_json_close(&out);
    enum mt_status st = mt_file_replace(path, out.text, out.length, err);
    mt_json_out_release(&out);
    return st;
}
