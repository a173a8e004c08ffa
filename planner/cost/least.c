/* What operators take at least, whatever part of them a rank has. With the class's rates alone a time is
 *
 *     fixed + something that grows in proportion to flops and bytes at least,
 *
 * and of a box with the part p of the work every operand has the part p or more. Measured curves bend, so of them the
 * best is taken that any point shows: of GEMMs the highest efficiency, of other kinds the least time for a unit of work
 * above the least time of all. Between two points a curve is linear, as are rates and work, so that ratios are extreme
 * at points. */
#include <math.h>
#include <string.h>

#include "planner/cost/internal.h"
#include "profiler/cluster/nominal.h"

static const struct mt_op_least nothing = {0, 0};

static bool is_gemm(enum mt_op_kind kind) {
    return kind == MT_OP_matmul || kind == MT_OP_fused_matmul;
}

static bool serves(const struct mt_curve *c, const struct mt_op_shape *shape, enum mt_type type) {
    if (c->type != type) return false;
    if (is_gemm(shape->kind)) return !strcmp(c->op, "matmul") || !strcmp(c->op, "fused_matmul");
    return !strcmp(c->op, mt_op_info[shape->kind].name);
}

/* Whether a curve's end is so short that curve.c takes the slope of the class's rates there. */
static bool is_short(const struct mt_cluster_class *class, const struct mt_curve *c) {
    enum { SHORT_OVERHEADS = 4 };
    return c->time_s[c->npoints - 1] < SHORT_OVERHEADS * class->overhead_s;
}

/* Seconds for one more row beyond a curve's end. */
static double last_slope(const struct mt_cluster_class *class, const struct mt_curve *c) {
    int last = c->npoints - 1;
    double before_s = last ? c->time_s[last - 1] : fmin(class->overhead_s, c->time_s[0]);
    return fmax(c->time_s[last] - before_s, 0) / (double)(c->rows[last] - (last ? c->rows[last - 1] : 0));
}

/* ---- GEMMs ---- */

/* Without bytes: at no rows a curve is taken to begin at the overhead, whatever the weights' bytes. */
static double flops_s(const struct mt_cluster_class *class, enum mt_type type, double rows, const int64_t dim[2]) {
    double work = rows * (double)dim[0] * (double)dim[1];
    return class->flops[type] > 0 && class->memory_Bps > 0 ? class->overhead_s + 2 * work / class->flops[type] : work;
}

/* The highest efficiency that the curve shows: of shapes with its own dims, for up to so many rows, by flops; of those
 * that are near, for the rows that it has, as curve.c takes it. */
static double efficiency(const struct mt_cluster_class *class, const struct mt_curve *c, double rows) {
    double best = flops_s(class, c->type, 0, c->dim) / fmax(fmin(class->overhead_s, c->time_s[0]), 1e-12);
    for (int i = 0; i < c->npoints; i++) {
        double s = mt_class_gemm_ideal_s(class, c->type, c->variant, (double)c->rows[i], c->dim);
        best = fmax(best, s / fmax(c->time_s[i], 1e-12));
    }
    if (rows <= (double)c->rows[c->npoints - 1]) return best;
    double row_s = flops_s(class, c->type, 1, c->dim) - flops_s(class, c->type, 0, c->dim);
    bool rates = class->flops[c->type] > 0 && class->memory_Bps > 0;
    if (is_short(class, c)) return rates ? fmax(best, 1) : INFINITY;
    return fmax(best, row_s / last_slope(class, c));
}

static struct mt_op_least by_efficiency(const struct mt_cluster_class *class, const struct mt_op_shape *shape) {
    double best = 0, rows = (double)shape->rows;
    for (int i = 0; i < class->ncurves; i++)
        if (serves(&class->curves[i], shape, shape->type))
            best = fmax(best, efficiency(class, &class->curves[i], rows));
    if (!(best > 0) || isinf(best)) return nothing;
    double any_s = flops_s(class, shape->type, 0, shape->dim), all_s = flops_s(class, shape->type, rows, shape->dim);
    return (struct mt_op_least){fmin(any_s / best, class->overhead_s), (all_s - any_s) / best};
}

/* ---- other kinds ---- */

static double work_at(const struct mt_curve *c, const struct mt_op_shape *shape, int64_t rows) {
    struct mt_op_shape there = *shape;
    there.rows = rows;
    memcpy(there.dim, c->dim, sizeof there.dim);
    return mt_op_shape_work(&there);
}

/* Attention is read by rows and scaled, overhead with the rest, so that it has no time that every call takes. */
static struct mt_op_least by_work(const struct mt_cluster_class *class, const struct mt_op_shape *shape) {
    bool scaled = shape->kind == MT_OP_attention || shape->kind == MT_OP_attention_grad;
    double any_s = scaled ? 0 : class->overhead_s, unit_s = INFINITY, work = mt_op_shape_work(shape);
    for (int i = 0; i < class->ncurves; i++) {
        const struct mt_curve *c = &class->curves[i];
        for (int k = 0; k < c->npoints && serves(c, shape, shape->type); k++) any_s = fmin(any_s, c->time_s[k]);
    }
    for (int i = 0; i < class->ncurves; i++) {
        const struct mt_curve *c = &class->curves[i];
        if (!serves(c, shape, shape->type)) continue;
        for (int k = 0; k < c->npoints; k++)
            unit_s = fmin(unit_s, (c->time_s[k] - any_s) / work_at(c, shape, c->rows[k]));
        int64_t last = c->rows[c->npoints - 1];
        bool beyond = scaled ? shape->rows > last : work > work_at(c, shape, last);
        if (!beyond) continue;
        double row_s = is_short(class, c) ? 0 : last_slope(class, c); /* 0: by rates, of shapes that are not known */
        unit_s = fmin(unit_s, row_s / (work_at(c, shape, last + 1) - work_at(c, shape, last)));
    }
    if (shape->kind == MT_OP_embedding_grad) unit_s = 0; /* its work is not in proportion to rows */
    return (struct mt_op_least){any_s, fmax(unit_s, 0) * work};
}

/* Every time of an empty box is the overhead at least. One with work may have to wait for more than that: from 0 to 1,
 * fixed + p all is no less than fixed_or_overhead + p (all + the difference). */
static struct mt_op_least by_rates(const struct mt_cluster_class *class, const struct mt_op_shape *shape) {
    struct mt_op_shape none = *shape;
    double unused;
    none.flops = none.bytes = 0;
    double fixed_s = mt_class_rates_s(class, &none, &unused), any_s = fmin(fixed_s, class->overhead_s);
    return (struct mt_op_least){any_s, mt_class_rates_s(class, shape, &unused) - any_s};
}

struct mt_op_least mt_cost_least(const struct mt_costs *costs, int rank, const struct mt_op_shape *given) {
    const struct mt_cluster_device *device = &costs->cluster->devices[costs->device[rank]];
    const struct mt_cluster_class *class = &costs->cluster->classes[device->class];
    struct mt_op_shape shape = *given;
    bool measured = false;
    shape.type = mt_class_measured_type(class, given->type);
    if (shape.rows <= 0 || shape.dim[0] <= 0 || shape.dim[1] <= 0) return nothing;
    for (int i = 0; i < class->ncurves; i++) measured |= serves(&class->curves[i], &shape, shape.type);
    struct mt_op_least least = !measured             ? by_rates(class, &shape)
                               : is_gemm(shape.kind) ? by_efficiency(class, &shape)
                                                     : by_work(class, &shape);
    return (struct mt_op_least){least.any_s / device->speed, least.all_s / device->speed};
}
