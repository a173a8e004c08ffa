/* The tables: of each case its variants, and of all cases a line each. Ratios are medians of those within a round. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/stats.h"
#include "launcher/bench/overlap/internal.h"

static const double near_best = 1.02; /* of times: as good as the best */

/* The median over rounds of a's time over b's. */
static double ratio(const struct mt_bench_case *c, int a, int b) {
    int n = c->bench->options->repetitions;
    double *ratios = mt_malloc((size_t)n * sizeof *ratios);
    for (int i = 0; i < n; i++) ratios[i] = c->variants[a].time_s[i] / c->variants[b].time_s[i];
    double median = mt_median(ratios, (size_t)n);
    free(ratios);
    return median;
}

/* max(T_gemm, T_comm) / T */
static double eta(const struct mt_bench_case *c, int variant) {
    return fmax(ratio(c, c->gemm_alone, variant), ratio(c, c->collective, variant));
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
    mt_cell_real(t, whole(v) ? eta(c, i) : NAN);
    mt_cell_real(t, whole(v) ? ratio(c, c->sequential, i) : NAN);
    mt_cell_text(t, "%s%s%s", i == c->chosen ? "chosen" : "", i == c->chosen && i == c->best ? ", " : "",
                 i == c->best ? "best" : "");
    if (i == c->best) mt_cell_style(t, MT_STYLE_BETTER);
}

void mt_bench_case_tell(struct mt_bench_case *c) {
    struct mt_bench_overlap *b = c->bench;
    struct mt_table *t = mt_tables_add(&b->doc, "variants", "", "");
    t->title = mt_arena_printf(t->arena, "%s %lld,%lld,%lld", mt_overlap_name(c->problem.form), (long long)c->shape[0],
                               (long long)c->shape[1], (long long)c->shape[2]);
    add_case_columns(t, true);
    mt_table_column(t, "variant", "variant", MT_UNIT_TEXT);
    mt_table_column(t, "time_s", "measured", MT_UNIT_SECONDS);
    mt_table_column(t, "predicted_s", "predicted", MT_UNIT_SECONDS);
    mt_table_column(t, "prediction_error", "error", MT_UNIT_CHANGE);
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
                                   .gemm_s = v[c->gemm_alone].median_s,
                                   .collective_s = v[c->collective].median_s,
                                   .sequential_s = v[c->sequential].median_s,
                                   .chosen_s = chosen->median_s,
                                   .error = chosen->predicted_s / chosen->median_s - 1,
                                   .eta = eta(c, c->chosen),
                                   .speedup = ratio(c, c->sequential, c->chosen),
                                   .to_best = ratio(c, c->chosen, c->best)};
    for (int i = 0; i < c->nvariants; i++)
        if (whole(&v[i])) line->errors += fabs(v[i].predicted_s / v[i].median_s - 1), line->predicted++;
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

void mt_bench_overlap_summarise(struct mt_bench_overlap *b) {
    struct mt_table *t = mt_tables_add(&b->doc, "overlap", "forms chosen by prediction",
                                       "eta: the longer of the GEMM and the collective over the whole");
    add_case_columns(t, false);
    mt_table_column(t, "gemm_s", "GEMM", MT_UNIT_SECONDS);
    mt_table_column(t, "collective_s", "collective", MT_UNIT_SECONDS);
    mt_table_column(t, "collective", "by", MT_UNIT_TEXT);
    mt_table_column(t, "sequential_s", "sequential", MT_UNIT_SECONDS);
    mt_table_column(t, "chosen", "chosen", MT_UNIT_TEXT);
    mt_table_column(t, "chosen_s", "takes", MT_UNIT_SECONDS);
    mt_table_column(t, "prediction_error", "prediction", MT_UNIT_CHANGE);
    mt_table_column(t, "eta", "eta", MT_UNIT_RATIO)->decimals = 3;
    mt_table_column(t, "speedup", "over sequential", MT_UNIT_RATIO)->decimals = 3;
    mt_table_column(t, "best", "best", MT_UNIT_TEXT);
    mt_table_column(t, "to_best", "to the best", MT_UNIT_RATIO)->decimals = 3;
    double errors = 0;
    int predicted = 0, near = 0;
    for (int i = 0; i < b->nlines; i++) {
        put_line(t, &b->lines[i]);
        errors += b->lines[i].errors, predicted += b->lines[i].predicted;
        near += b->lines[i].to_best <= near_best;
    }
    mt_tables_say(&b->doc, "predictions: %.1f%% off on average; chosen within %.0f%% of the best: %d of %d",
                  100 * errors / predicted, 100 * (near_best - 1), near, b->nlines);
    struct mt_table *values = mt_tables_add_values(&b->doc, "choices");
    mt_table_put_real(values, "mean_error", MT_UNIT_FRACTION, errors / predicted);
    mt_table_put_real(values, "near_best", MT_UNIT_COUNT, near);
    mt_table_put_real(values, "cases", MT_UNIT_COUNT, b->nlines);
}
