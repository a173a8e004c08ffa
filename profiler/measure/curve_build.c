/* Curves from samples: sorted by name and rows; samples with equal name and rows become a point. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/stats.h"
#include "profiler/cluster/shape.h"
#include "profiler/measure/disturbed.h"

struct sample {
    struct mt_op_shape shape;
    double time_s;
};
struct mt_curve_builder {
    struct sample *samples;
    size_t count, capacity;
};

struct mt_curve_builder *mt_curves_new(void) {
    return mt_calloc(1, sizeof(struct mt_curve_builder));
}

void mt_curves_sample(struct mt_curve_builder *b, const struct mt_op_shape *shape, double time_s) {
    if (shape->rows <= 0 || shape->dim[0] <= 0 || shape->dim[1] <= 0) return;
    if (b->count == b->capacity) {
        b->capacity = b->capacity ? 2 * b->capacity : 256;
        b->samples = mt_realloc(b->samples, b->capacity * sizeof *b->samples);
    }
    b->samples[b->count++] = (struct sample){*shape, time_s};
}

static int compare(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

static int by_name(const void *left, const void *right) {
    const struct mt_curve *a = left, *b = right;
    int order = strcmp(a->op, b->op);
    if (!order) order = strcmp(a->variant, b->variant);
    if (!order) order = compare(a->type, b->type);
    for (int d = 0; !order && d < 2; d++) order = compare(a->dim[d], b->dim[d]);
    return order;
}

static struct mt_curve name_of(const struct mt_op_shape *shape) {
    return (struct mt_curve){.op = mt_op_info[shape->kind].name,
                             .variant = shape->variant,
                             .type = shape->type,
                             .dim = {shape->dim[0], shape->dim[1]}};
}

static int by_name_and_rows(const void *left, const void *right) {
    const struct sample *a = left, *b = right;
    struct mt_curve name_a = name_of(&a->shape), name_b = name_of(&b->shape);
    int order = by_name(&name_a, &name_b);
    if (!order) order = compare(a->shape.rows, b->shape.rows);
    return order ? order : (a->time_s > b->time_s) - (a->time_s < b->time_s);
}

/* The error of a point with one sample, whose spread is not known. */
static double error_of_median(const double *times, size_t n) {
    static const double of_one = 0.1;
    return n < 2 ? of_one : mt_interval_error(mt_median_interval(times, n));
}

/* Samples [0, count) of one name. */
static struct mt_curve make_curve(struct mt_arena *arena, const struct sample *samples, size_t count, double stolen) {
    struct mt_curve curve = name_of(&samples[0].shape);
    curve.op = mt_arena_strdup(arena, curve.op);
    curve.variant = mt_arena_strdup(arena, curve.variant);
    for (size_t i = 0; i < count; i++) curve.npoints += !i || samples[i].shape.rows != samples[i - 1].shape.rows;
    curve.rows = mt_new(arena, int64_t, curve.npoints);
    curve.time_s = mt_new(arena, double, curve.npoints);
    curve.error = mt_new(arena, double, curve.npoints);
    double *times = mt_malloc(count * sizeof *times);
    int point = 0;
    for (size_t i = 0, n; i < count; i += n, point++) {
        for (n = 0; i + n < count && samples[i + n].shape.rows == samples[i].shape.rows; n++)
            times[n] = samples[i + n].time_s;
        curve.rows[point] = samples[i].shape.rows;
        curve.time_s[point] = mt_median(times, n);
        curve.error[point] = mt_disturbed_error(error_of_median(times, n), stolen);
    }
    free(times);
    return curve;
}

void mt_curves_finish(struct mt_curve_builder *b, double stolen, struct mt_cluster *cluster,
                      struct mt_cluster_class *class) {
    if (b->count) qsort(b->samples, b->count, sizeof *b->samples, by_name_and_rows);
    struct mt_curve *curves = mt_new(&cluster->arena, struct mt_curve, (size_t) class->ncurves + b->count);
    int ncurves = 0;
    for (size_t i = 0, n; i < b->count; i += n) {
        struct mt_curve name = name_of(&b->samples[i].shape);
        for (n = 1; i + n < b->count; n++) {
            struct mt_curve next = name_of(&b->samples[i + n].shape);
            if (by_name(&name, &next)) break;
        }
        curves[ncurves++] = make_curve(&cluster->arena, b->samples + i, n, stolen);
    }
    int made = ncurves; /* in order of names */
    for (int c = 0; c < class->ncurves; c++)
        if (!made || !bsearch(&class->curves[c], curves, (size_t)made, sizeof *curves, by_name))
            curves[ncurves++] = class->curves[c];
    if (ncurves) qsort(curves, (size_t)ncurves, sizeof *curves, by_name);
    class->curves = curves;
    class->ncurves = ncurves;
    free(b->samples);
    free(b);
}
