/* The tables: of each case its variants, and of all cases a line each, by the final. Ratios are medians of those within
 * a round. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/stats.h"
#include "launcher/bench/overlap/internal.h"

/* Ratios that count: of times, as good as the best; sequential's over the chosen, no worse than it. */
static const double near_best = 1.02, no_worse = 0.99;

static double *times_of(const struct mt_bench_case *c, int variant, bool final) {
    return final ? c->variants[variant].final_s : c->variants[variant].time_s;
}

/* The median over rounds of a's time over b's. */
static double ratio(const struct mt_bench_case *c, bool final, int a, int b) {
    double *ratios = mt_malloc((size_t)c->rounds * sizeof *ratios);
    for (int i = 0; i < c->rounds; i++) ratios[i] = times_of(c, a, final)[i] / times_of(c, b, final)[i];
    double median = mt_median(ratios, (size_t)c->rounds);
    free(ratios);
    return median;
}

/* max(T_gemm, T_comm) / T */
static double eta(const struct mt_bench_case *c, bool final, int variant) {
    return fmax(ratio(c, final, c->gemm_alone, variant), ratio(c, final, c->collective, variant));
}

static double final_of(const struct mt_bench_case *c, int variant) {
    return mt_median(c->variants[variant].final_s, (size_t)c->rounds);
}

static bool told(const struct mt_bench_variant *v) {
    return v->part <= MT_BENCH_PUTS;
}

static bool whole(const struct mt_bench_variant *v) {
    return v->part == MT_BENCH_SEQUENTIAL || v->part == MT_BENCH_OVERLAPPED;
}

static void put_case(struct mt_table *t, const struct mt_bench_case *c) {
    mt_cell_text(t, "%s", mt_overlap_name(c->problem.form));
    for (int i = 0; i < 3; i++) mt_cell_int(t, c->shape[i]);
}

static void add_case_columns(struct mt_table *t, bool machines_only) {
    static const char *const keys[] = {"form", "m", "n", "k"}, *const titles[] = {"form", "M", "N", "K"};
    for (int i = 0; i < 4; i++)
        mt_table_column(t, keys[i], titles[i], i ? MT_UNIT_COUNT : MT_UNIT_TEXT)->machines_only = machines_only;
}

static void put_variant(struct mt_table *t, const struct mt_bench_case *c, int i) {
    const struct mt_bench_variant *v = &c->variants[i];
    mt_table_row(t);
    put_case(t, c);
    mt_cell_text(t, "%s", v->name);
    mt_cell_real(t, v->median_s);
    mt_cell_real(t, v->predicted_s);
    mt_cell_real(t, v->predicted_s / v->median_s - 1);
    mt_cell_real(t, whole(v) ? eta(c, false, i) : NAN);
    mt_cell_real(t, whole(v) ? ratio(c, false, c->sequential, i) : NAN);
    mt_cell_text(t, "%s%s%s", i == c->chosen ? "chosen" : "", i == c->chosen && i == c->best ? ", " : "",
                 i == c->best ? "best" : "");
    if (i == c->best) mt_cell_style(t, MT_STYLE_BETTER);
}

/* What predictions were made of. */
static void tell_rates(struct mt_bench_case *c) {
    struct mt_table *t = mt_tables_add_values(&c->bench->doc, "rates");
    mt_table_put_text(t, "form", "%s", mt_overlap_name(c->problem.form));
    for (int i = 0; i < 3; i++)
        mt_table_put_real(t, i == 0 ? "m" : i == 1 ? "n" : "k", MT_UNIT_COUNT, (double)c->shape[i]);
    mt_table_put_text(t, "sums", "%s", mt_type_name(c->problem.out));
    mt_table_put_real(t, "rounds", MT_UNIT_COUNT, c->rounds);
    if (c->clock_Hz > 0) mt_table_put_real(t, "clock_Hz", MT_UNIT_COUNT, c->clock_Hz);
    mt_table_put_real(t, "flops", MT_UNIT_FLOPS, c->rates.flops * c->rates.workers);
    mt_table_put_real(t, "tile_s", MT_UNIT_SECONDS, c->rates.tile_s);
    mt_table_put_real(t, "in_step", MT_UNIT_RATIO, c->in_step);
    mt_table_put_real(t, "slowdown", MT_UNIT_RATIO, c->rates.compute_slowdown);
    mt_table_put_real(t, "memory_Bps", MT_UNIT_BPS, c->rates.memory_Bps);
    mt_table_put_real(t, "bandwidth_Bps", MT_UNIT_BPS, c->bandwidth_Bps);
    mt_table_put_real(t, "put_s", MT_UNIT_SECONDS, c->rates.put_s);
    mt_table_put_real(t, "latency_s", MT_UNIT_SECONDS, c->latency_s);
    if (c->fused.workers) {
        mt_table_put_real(t, "fused_flops", MT_UNIT_FLOPS, c->fused.flops * c->fused.workers);
        mt_table_put_real(t, "fused_slowdown", MT_UNIT_RATIO, c->fused.compute_slowdown);
        mt_table_put_real(t, "fused_memory_Bps", MT_UNIT_BPS, c->fused.memory_Bps * fmax(1, c->fused.movers));
        mt_table_put_real(t, "fused_bandwidth_Bps", MT_UNIT_BPS, c->fused_bandwidth_Bps);
        mt_table_put_real(t, "fused_latency_s", MT_UNIT_SECONDS, c->fused_latency_s);
    }
    for (int i = 0; i < c->nvariants; i++)
        if (!told(&c->variants[i])) mt_table_put_real(t, c->variants[i].name, MT_UNIT_SECONDS, c->variants[i].median_s);
}

void mt_bench_case_tell(struct mt_bench_case *c) {
    tell_rates(c);
    struct mt_bench_overlap *b = c->bench;
    struct mt_table *t = mt_tables_add(&b->doc, "variants", "", "");
    t->title = mt_arena_printf(t->arena, "%s %lld,%lld,%lld", mt_overlap_name(c->problem.form), (long long)c->shape[0],
                               (long long)c->shape[1], (long long)c->shape[2]);
    if (c->problem.out != c->problem.type && !c->bench->f32_sums)
        t->title = mt_arena_printf(t->arena, "%s, sums %s", t->title, mt_type_name(c->problem.out));
    if (c->clock_Hz > 0) t->title = mt_arena_printf(t->arena, "%s, then at %.0f MHz", t->title, 1e-6 * c->clock_Hz);
    add_case_columns(t, true);
    mt_table_columns(t, {"variant", "variant", MT_UNIT_TEXT}, {"time_s", "measured", MT_UNIT_SECONDS},
                     {"predicted_s", "predicted", MT_UNIT_SECONDS}, {"prediction_error", "error", MT_UNIT_CHANGE});
    mt_table_column(t, "eta", "eta", MT_UNIT_RATIO)->decimals = 3;
    mt_table_column(t, "speedup", "over sequential", MT_UNIT_RATIO)->decimals = 3;
    mt_table_column(t, "verdict", "", MT_UNIT_TEXT);
    for (int i = 0; i < c->nvariants; i++)
        if (told(&c->variants[i])) put_variant(t, c, i);
}

/* ---- all cases ---- */

void mt_bench_case_note(const struct mt_bench_case *c) {
    struct mt_bench_overlap *b = c->bench;
    const struct mt_bench_variant *v = c->variants, *chosen = &v[c->chosen];
    mt_arena_grow(&b->arena, &b->lines, b->nlines, &b->lines_capacity, sizeof *b->lines);
    struct mt_bench_line *line = &b->lines[b->nlines++];
    *line = (struct mt_bench_line){.form = c->problem.form,
                                   .shape = {c->shape[0], c->shape[1], c->shape[2]},
                                   .chosen = mt_arena_strdup(&b->arena, chosen->name),
                                   .best = mt_arena_strdup(&b->arena, v[c->best].name),
                                   .collective = mt_arena_strdup(&b->arena, v[c->collective].name),
                                   .gemm_s = final_of(c, c->gemm_alone),
                                   .collective_s = final_of(c, c->collective),
                                   .sequential_s = final_of(c, c->sequential),
                                   .chosen_s = final_of(c, c->chosen),
                                   .error = chosen->predicted_s / chosen->median_s - 1,
                                   .eta = eta(c, true, c->chosen),
                                   .speedup = ratio(c, true, c->sequential, c->chosen),
                                   .to_best = ratio(c, true, c->chosen, c->best)};
    struct mt_overlap best = v[c->best].problem;
    if (c->best == c->sequential) best = c->problem, best.how = MT_OVERLAP_APART;
    const struct mt_overlap_choice row = mt_overlap_choice_of(&best);
    line->row = *mt_overlap_choices_copy(&row, 1, &b->arena);
    for (int i = 0; i < c->nvariants; i++) {
        if (!whole(&v[i]) || isnan(v[i].predicted_s)) continue;
        double error = fabs(v[i].predicted_s / v[i].median_s - 1);
        line->errors += error, line->predicted++;
        line->worst_error = fmax(line->worst_error, error);
    }
}

static void put_line(struct mt_table *t, const struct mt_bench_line *line) {
    mt_table_row(t);
    mt_cell_text(t, "%s", mt_overlap_name(line->form));
    for (int i = 0; i < 3; i++) mt_cell_int(t, line->shape[i]);
    mt_cell_real(t, line->gemm_s);
    mt_cell_real(t, line->collective_s);
    mt_cell_text(t, "%s", line->collective);
    mt_cell_real(t, line->sequential_s);
    mt_cell_text(t, "%s", line->chosen);
    mt_cell_real(t, line->chosen_s);
    mt_cell_real(t, line->error);
    mt_cell_real(t, line->eta);
    mt_cell_real(t, line->speedup);
    mt_cell_text(t, "%s", line->best);
    mt_cell_real(t, line->to_best);
}

/* Those first where the chosen is slowest beside sequential. */
static int by_speedup(const void *a, const void *b) {
    const struct mt_bench_line *x = a, *y = b;
    return (x->speedup > y->speedup) - (x->speedup < y->speedup);
}

struct summary {
    double errors, worst_error, least_speedup, least_eta;
    int predicted, near, no_worse;
};

static struct summary sum_up(const struct mt_bench_overlap *b) {
    struct summary s = {.least_speedup = INFINITY, .least_eta = INFINITY};
    for (int i = 0; i < b->nlines; i++) {
        const struct mt_bench_line *line = &b->lines[i];
        s.errors += line->errors, s.predicted += line->predicted;
        s.worst_error = fmax(s.worst_error, line->worst_error);
        s.least_speedup = fmin(s.least_speedup, line->speedup), s.least_eta = fmin(s.least_eta, line->eta);
        s.near += line->to_best <= near_best;
        s.no_worse += line->speedup >= no_worse;
    }
    return s;
}

static void tell_summary(struct mt_bench_overlap *b) {
    struct summary s = sum_up(b);
    mt_tables_say(&b->doc,
                  "predictions: %.1f%% off on average, %.1f%% at worst; chosen within %.0f%% of the best: %d of %d",
                  100 * s.errors / s.predicted, 100 * s.worst_error, 100 * (near_best - 1), s.near, b->nlines);
    mt_tables_say(&b->doc, "chosen at least %.2f times as fast as sequential: %d of %d, at worst %.3f; least eta %.3f",
                  no_worse, s.no_worse, b->nlines, s.least_speedup, s.least_eta);
    struct mt_table *values = mt_tables_add_values(&b->doc, "choices");
    mt_table_put_real(values, "mean_error", MT_UNIT_FRACTION, s.errors / s.predicted);
    mt_table_put_real(values, "worst_error", MT_UNIT_FRACTION, s.worst_error);
    mt_table_put_real(values, "near_best", MT_UNIT_COUNT, s.near);
    mt_table_put_real(values, "no_worse", MT_UNIT_COUNT, s.no_worse);
    mt_table_put_real(values, "least_speedup", MT_UNIT_RATIO, s.least_speedup);
    mt_table_put_real(values, "least_eta", MT_UNIT_RATIO, s.least_eta);
    mt_table_put_real(values, "cases", MT_UNIT_COUNT, b->nlines);
}

void mt_bench_overlap_summarise(struct mt_bench_overlap *b) {
    struct mt_table *t = mt_tables_add(&b->doc, "overlap", "forms chosen by prediction, those first that gain least",
                                       "eta: the longer of the GEMM and the collective over the whole");
    add_case_columns(t, false);
    mt_table_columns(t, {"gemm_s", "GEMM", MT_UNIT_SECONDS}, {"collective_s", "collective", MT_UNIT_SECONDS},
                     {"collective", "by", MT_UNIT_TEXT}, {"sequential_s", "sequential", MT_UNIT_SECONDS},
                     {"chosen", "chosen", MT_UNIT_TEXT}, {"chosen_s", "takes", MT_UNIT_SECONDS},
                     {"prediction_error", "prediction", MT_UNIT_CHANGE});
    mt_table_column(t, "eta", "eta", MT_UNIT_RATIO)->decimals = 3;
    mt_table_column(t, "speedup", "over sequential", MT_UNIT_RATIO)->decimals = 3;
    mt_table_column(t, "best", "best", MT_UNIT_TEXT);
    mt_table_column(t, "to_best", "to the best", MT_UNIT_RATIO)->decimals = 3;
    qsort(b->lines, (size_t)b->nlines, sizeof *b->lines, by_speedup);
    for (int i = 0; i < b->nlines; i++) put_line(t, &b->lines[i]);
    tell_summary(b);
}
