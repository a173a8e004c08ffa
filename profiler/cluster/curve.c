/* The time of an operator on a class: from its own curve, else from the nearest curves, else from the class's rates.
 *
 * A nearby curve gives its time per unit of work (mt_op_shape_work). For GEMM and attention it is read at the same
 * number of rows, on which their efficiency depends; for other kinds at the same amount of work, since their speed
 * depends on the caches that their data fits into. */
#include <math.h>
#include <string.h>

#include "profiler/cluster/nominal.h"

enum { NEIGHBOURS = 4 };

/* Rough relative half-widths of figures that are not at a measured point. */
static const double beyond_error = 0.05;   /* for each doubling of rows beyond a curve's end */
static const double borrowed_error = 0.03; /* from another curve; plus octave_error for each doubling of dims */
static const double octave_error = 0.04;
static const double variant_octaves = 1; /* distance of another variant */
static const double empty_error = 0.5;   /* of an empty box */

/* Seconds at `rows` by the curve alone. */
static double curve_at(const struct mt_curve *c, double rows, double overhead_s, double *error) {
    const double *t = c->time_s;
    int last = c->npoints - 1, i = 0;
    double first_rows = (double)c->rows[0], last_rows = (double)c->rows[last];
    if (rows <= first_rows) { /* zero rows take the overhead, or the first measured time if that is less */
        double start_s = fmin(overhead_s, t[0]);
        *error = c->error[0];
        return start_s + (t[0] - start_s) * rows / first_rows;
    }
    if (rows <= last_rows) {
        while (rows > (double)c->rows[i + 1]) i++;
        double below = (double)c->rows[i], part = (rows - below) / ((double)c->rows[i + 1] - below);
        *error = fmax(c->error[i], c->error[i + 1]);
        return t[i] + (t[i + 1] - t[i]) * part;
    }
    double before_rows = last ? (double)c->rows[last - 1] : 0, before_s = last ? t[last - 1] : fmin(overhead_s, t[0]);
    double slope = fmax((t[last] - before_s) / (last_rows - before_rows), 0);
    *error = c->error[last] + beyond_error * log2(rows / last_rows);
    return t[last] + slope * (rows - last_rows);
}

static bool is_gemm(enum mt_op_kind kind) {
    return kind == MT_OP_matmul || kind == MT_OP_fused_matmul;
}

/* Whether times per unit of work depend on the rows more than on the amount of work. */
static bool by_rows(enum mt_op_kind kind) {
    return is_gemm(kind) || kind == MT_OP_attention || kind == MT_OP_attention_grad;
}

/* Distance in octaves between the dims of a curve and of a shape, plus that of the variant; infinity: not usable. */
static double distance(const struct mt_curve *c, const struct mt_op_shape *shape) {
    bool same = !strcmp(c->op, mt_op_info[shape->kind].name);
    bool gemm = is_gemm(shape->kind) && (same || !strcmp(c->op, "matmul") || !strcmp(c->op, "fused_matmul"));
    if (c->type != shape->type || !(same || gemm)) return INFINITY;
    double square = 0;
    for (int d = 0; d < 2; d++) {
        double octaves = log2((double)shape->dim[d] / (double)c->dim[d]);
        square += octaves * octaves;
    }
    bool variant = same && !strcmp(c->variant, shape->variant);
    bool transposed = gemm && strncmp(c->variant, shape->variant, 2);
    return sqrt(square) + (variant ? 0 : variant_octaves) + (transposed ? variant_octaves : 0);
}

struct neighbour {
    const struct mt_curve *curve;
    double octaves;
};

static bool same_dims(const struct mt_curve *c, const struct mt_op_shape *shape) {
    return c->dim[0] == shape->dim[0] && c->dim[1] == shape->dim[1];
}

/* The nearest curves, sorted by distance. */
static int nearest(const struct mt_cluster_class *class, const struct mt_op_shape *shape, bool variants,
                   struct neighbour found[NEIGHBOURS]) {
    int n = 0;
    for (int c = 0; c < class->ncurves; c++) {
        const struct mt_curve *curve = &class->curves[c];
        if (curve->type != shape->type) continue;
        bool same = !strcmp(curve->op, mt_op_info[shape->kind].name) && !strcmp(curve->variant, shape->variant);
        double octaves = same == !variants ? distance(curve, shape) : INFINITY;
        if (octaves == INFINITY || (n == NEIGHBOURS && octaves >= found[n - 1].octaves)) continue;
        int at = n < NEIGHBOURS ? n++ : n - 1;
        for (; at > 0 && found[at - 1].octaves > octaves; at--) found[at] = found[at - 1];
        found[at] = (struct neighbour){curve, octaves};
    }
    return n;
}

/* The time of the shape by one nearby curve. */
static double borrowed(const struct mt_cluster_class *class, const struct mt_curve *curve,
                       const struct mt_op_shape *shape, double *error) {
    struct mt_op_shape there = *shape;
    memcpy(there.dim, curve->dim, sizeof there.dim);
    double work = mt_op_shape_work(shape), rows = (double)shape->rows, work_there = mt_op_shape_work(&there);
    if (by_rows(shape->kind)) return curve_at(curve, rows, class->overhead_s, error) * (work / work_there);
    double scale = work / work_there;
    return curve_at(curve, rows * scale, class->overhead_s, error);
}

/* The geometric mean over nearby curves, weighted by the inverse square of the distance. */
static double from_neighbours(const struct mt_cluster_class *class, const struct mt_op_shape *shape,
                              const struct neighbour *found, int n, double *error) {
    double sum = 0, weights = 0, worst = 0;
    for (int i = 0; i < n; i++) {
        double e, weight = 1 / (found[i].octaves * found[i].octaves + 1e-9);
        sum += weight * log(fmax(borrowed(class, found[i].curve, shape, &e), 1e-12));
        weights += weight;
        worst = fmax(worst, e);
    }
    *error = worst + borrowed_error + octave_error * found[0].octaves;
    return exp(sum / weights);
}

static double find(const struct mt_cluster_class *class, const struct mt_op_shape *shape, double *error) {
    struct neighbour found[NEIGHBOURS];
    int n = nearest(class, shape, false, found);
    if (n && found[0].octaves == 0) return curve_at(found[0].curve, (double)shape->rows, class->overhead_s, error);
    if (!n) n = nearest(class, shape, true, found);
    for (int i = 1; i < n && same_dims(found[0].curve, shape);
         i++) /* if another variant has the same dims, use only such curves */
        if (!same_dims(found[i].curve, shape)) n = i;
    return n ? from_neighbours(class, shape, found, n, error) : mt_class_rates_s(class, shape, error);
}

/* Tensor cores are as fast in f16 as in bf16; f16 is not always measured. */
static enum mt_type measured_type(const struct mt_cluster_class *class, enum mt_type type) {
    bool as_bf16 = type == MT_F16 && class->flops[MT_F16] == 0 && class->flops[MT_BF16] > 0;
    return as_bf16 && strcmp(class->kind, "cpu") ? MT_BF16 : type;
}

double mt_class_op_s(const struct mt_cluster_class *class, const struct mt_op_shape *given, double *error) {
    struct mt_op_shape asked = *given, *shape = &asked;
    asked.type = measured_type(class, given->type);
    double unused;
    if (!error) error = &unused;
    if (shape->rows > 0 && shape->dim[0] > 0 && shape->dim[1] > 0) return find(class, shape, error);
    /* An empty box: an empty sum may still write zeros. */
    *error = empty_error;
    return class->overhead_s + (class->memory_Bps > 0 ? shape->bytes / class->memory_Bps : 0);
}
