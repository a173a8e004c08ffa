/* From the times of all turns to ratios, and to how well the predictions did.
 *
 * Ratios are taken within a repetition, in which all plans met the same machine; then the median of their logarithms
 * and its interval. */
#include <math.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/number/stats.h"
#include "kernels/base/text/json.h"
#include "launcher/bench/internal.h"

static const double apart = 1.05; /* ratio of two steps from which their order is judged */

struct result {
    double step_s, predicted_s, error; /* NAN: nothing was predicted; error: predicted / measured - 1 */
    struct mt_interval to_first, to_best;
};

/* How the predictions did. */
struct verdict {
    int predicted, pairs, in_order; /* plans; pairs that differ enough, and of these those in the right order */
    double mean, worst;             /* of the errors without sign; NAN without predictions */
    int worst_plan;
};

static struct mt_interval ratio(const struct mt_bench_plans *b, int plan, int to, struct mt_arena *arena) {
    int n = b->options->repetitions;
    double *logs = mt_new(arena, double, n);
    if (plan == to) return (struct mt_interval){1, 1, 1};
    for (int i = 0; i < n; i++) logs[i] = log(b->plans[plan].step_s[i] / b->plans[to].step_s[i]);
    const struct mt_interval interval = mt_median_interval(logs, (size_t)n);
    if (n == 1) return (struct mt_interval){exp(logs[0]), 0, INFINITY};
    return (struct mt_interval){exp(interval.median), exp(interval.low), exp(interval.high)};
}

/* Fill results[nplans]; returns the best plan. */
static int compute(const struct mt_bench_plans *b, struct result *results, struct mt_arena *arena) {
    int best = 0;
    for (int i = 0; i < b->nplans; i++) {
        const struct mt_bench_plan *p = &b->plans[i];
        struct result *r = &results[i];
        r->step_s = mt_median(p->step_s, (size_t)b->options->repetitions);
        r->predicted_s = p->plan->prediction ? p->plan->prediction->step_s : NAN;
        r->error = r->predicted_s / r->step_s - 1;
        if (r->step_s < results[best].step_s) best = i;
    }
    for (int i = 0; i < b->nplans; i++) {
        results[i].to_first = ratio(b, i, 0, arena);
        results[i].to_best = ratio(b, i, best, arena);
    }
    return best;
}

static struct verdict judge(const struct mt_bench_plans *b, const struct result *results) {
    struct verdict v = {.worst_plan = -1, .mean = 0, .worst = 0};
    for (int i = 0; i < b->nplans; i++) {
        const struct result *x = &results[i];
        if (isnan(x->error)) continue;
        v.predicted++;
        v.mean += fabs(x->error);
        if (v.worst_plan < 0 || fabs(x->error) > v.worst) v.worst = fabs(x->error), v.worst_plan = i;
        for (int j = 0; j < i; j++) {
            const struct result *y = &results[j];
            if (isnan(y->error) || fmax(x->step_s / y->step_s, y->step_s / x->step_s) <= apart) continue;
            v.pairs++;
            v.in_order +=
                (x->predicted_s < y->predicted_s) == (x->step_s < y->step_s) && x->predicted_s != y->predicted_s;
        }
    }
    if (v.predicted)
        v.mean /= v.predicted;
    else
        v.mean = v.worst = NAN;
    return v;
}

/* ---- for people ---- */

static void add_plans(const struct mt_bench_plans *b, const struct result *results, int best, struct mt_tables *out) {
    struct mt_table *t = mt_tables_add(out, "plans", "", "");
    mt_table_columns(t, {"plan", "plan", MT_UNIT_TEXT}, {"predicted_s", "predicted", MT_UNIT_SECONDS},
                     {"step_s", "measured", MT_UNIT_SECONDS}, {"tokens_per_s", "tokens/s", MT_UNIT_QUANTITY});
    mt_table_column(t, "to_best", "to the best", MT_UNIT_RATIO)->decimals = 3;
    mt_table_column(t, "to_best_least", "95% from", MT_UNIT_NUMBER)->decimals = 3;
    mt_table_column(t, "to_best_most", "to", MT_UNIT_NUMBER)->decimals = 3;
    mt_table_column(t, "prediction_error", "prediction", MT_UNIT_CHANGE);
    for (int i = 0; i < b->nplans; i++) {
        const struct result *r = &results[i];
        mt_table_row(t);
        mt_cell_text(t, "%s", b->plans[i].path);
        mt_cell_real(t, r->predicted_s);
        mt_cell_real(t, r->step_s);
        mt_cell_real(t, (double)(b->batch * b->seq) / r->step_s);
        mt_cell_real(t, r->to_best.median);
        if (i == best) {
            mt_cell_word(t, "best");
            mt_cell_style(t, MT_STYLE_BETTER);
            mt_cell_blank(t);
        } else {
            bool known = b->options->repetitions > 1;
            mt_cell_real(t, known ? r->to_best.low : NAN);
            mt_cell_real(t, known ? r->to_best.high : NAN);
        }
        mt_cell_real(t, r->error);
    }
}

static void tell(const struct mt_bench_plans *b, const struct result *results, const struct verdict *v, int best,
                 struct mt_tables *out) {
    const struct mt_bench_plans_options *o = b->options;
    mt_tables_say(out, "step of each plan: the median of %d turns of %lld steps, after %lld steps of warm-up each",
                  o->repetitions, (long long)o->steps, (long long)o->warmup);
    add_plans(b, results, best, out);
    if (!v->predicted) return;
    mt_tables_say(out, "pairs that differ by more than %.0f%%: %d, of which %d were predicted in the right order",
                  100 * (apart - 1), v->pairs, v->in_order);
    mt_tables_say(out, "error of predictions: mean %.1f%%, worst %.1f%% (%s)", 100 * v->mean, 100 * v->worst,
                  b->plans[v->worst_plan].path);
}

/* ---- for machines ---- */

static void put_interval(struct mt_json_out *out, const char *key, struct mt_interval interval) {
    mt_json_open_inline(out, key, '{');
    mt_json_put_real(out, "median", interval.median);
    mt_json_put_real_or_null(out, "low", interval.low);
    mt_json_put_real_or_null(out, "high", interval.high);
    mt_json_close(out);
}

static void put_plan(const struct mt_bench_plans *b, int i, const struct result *r, struct mt_json_out *out) {
    const struct mt_bench_plan *p = &b->plans[i];
    mt_json_open(out, NULL, '{');
    mt_json_put_string(out, "plan", p->path);
    mt_json_put_string(out, "plan_hash", p->plan->hash);
    mt_json_put_real_or_null(out, "predicted_s", r->predicted_s);
    mt_json_put_real(out, "step_s", r->step_s);
    mt_json_put_reals(out, "steps_s", p->step_s, b->options->repetitions);
    mt_json_put_real(out, "samples_per_s", (double)b->batch / r->step_s);
    mt_json_put_real(out, "tokens_per_s", (double)(b->batch * b->seq) / r->step_s);
    put_interval(out, "ratio_to_first", r->to_first);
    put_interval(out, "ratio_to_best", r->to_best);
    mt_json_put_real_or_null(out, "prediction_error", r->error);
    mt_json_put_real_or_null(out, "loss", p->loss);
    mt_json_close(out);
}

static enum mt_status write_json(const struct mt_bench_plans *b, const struct result *results, const struct verdict *v,
                                 int best, struct mt_err *err) {
    const struct mt_bench_plans_options *o = b->options;
    struct mt_json_out out;
    mt_json_out_init(&out);
    mt_json_open(&out, NULL, '{');
    mt_json_put_string(&out, "format", MT_BENCH_PLANS_FORMAT);
    mt_json_put_int(&out, "version", 1);
    mt_json_put_string(&out, "motley", MOTLEY_VERSION);
    mt_json_put_string(&out, "device", mt_device_describe(b->device));
    mt_json_put_int(&out, "ranks", b->nranks);
    mt_json_put_string(&out, "model", b->plans[0].plan->model);
    mt_json_put_int(&out, "repetitions", o->repetitions);
    mt_json_put_int(&out, "warmup", o->warmup);
    mt_json_put_int(&out, "steps", o->steps);
    mt_json_put_bool(&out, "in_memory_together", b->resident);
    mt_json_put_string(&out, "best", b->plans[best].path);
    mt_json_open(&out, "plans", '[');
    for (int i = 0; i < b->nplans; i++) put_plan(b, i, &results[i], &out);
    mt_json_close(&out);
    mt_json_open_inline(&out, "order", '{');
    mt_json_put_real(&out, "apart", apart);
    mt_json_put_int(&out, "pairs", v->pairs);
    mt_json_put_int(&out, "in_order", v->in_order);
    mt_json_close(&out);
    mt_json_open_inline(&out, "prediction_error", '{');
    mt_json_put_real_or_null(&out, "mean", v->mean);
    mt_json_put_real_or_null(&out, "worst", v->worst);
    mt_json_close(&out);
    mt_json_close(&out);
    enum mt_status st = mt_file_replace(o->output.path, out.text, out.length, err);
    mt_json_out_release(&out);
    return st;
}

enum mt_status mt_bench_plans_report(const struct mt_bench_plans *b, struct mt_err *err) {
    const struct mt_output *output = &b->options->output, printed = {.json = output->json};
    struct mt_tables doc = MT_TABLES_INIT;
    struct result *results = mt_new(&doc.arena, struct result, b->nplans);
    int best = compute(b, results, &doc.arena);
    const struct verdict v = judge(b, results);
    tell(b, results, &v, best, &doc);
    enum mt_status st = mt_output_end(&printed, &doc, err);
    if (!st && output->path) st = write_json(b, results, &v, best, err);
    mt_tables_release(&doc);
    return st;
}
