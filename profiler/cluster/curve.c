/* The time of an operator on a class: from its own curve, else from the nearest curves, else from the class's rates.
 *
 * A nearby curve gives its time per unit of work (mt_op_shape_work). For attention it is read at the same number of
 * rows, on which the efficiency depends; for other kinds at the same amount of work, since their speed depends on the
 * caches that their data fits into.
 *
 * A nearby curve of a GEMM gives its efficiency: what a device takes that computes and moves bytes at the class's
 * rates, one after the other, over what was measured. Time per unit of work would not do: with few rows a GEMM is bound
 * by the bytes of its weights, with many by its flops, and a curve that ends at fewer rows than are asked for says
 * little about those. Of each measured curve of two H200s, left out and found from the others, the mean error is 13%
 * (7% above 10 GFLOP); by time per unit of work at the same rows it was 83 and 57%. */
#include <math.h>
#include <string.h>

#include "profiler/cluster/nominal.h"

enum { NEIGHBOURS = 4 };

/* Rough relative half-widths of figures that are not at a measured point. */
static const double beyond_error = 0.05;   /* for each doubling of rows beyond a curve's end */
static const double borrowed_error = 0.03; /* from another curve; plus octave_error for each doubling of dims */
static const double octave_error = 0.04;
static const double variant_octaves = 1;        /* distance of another variant */
static const double gemm_variant_octaves = 0.5; /* of GEMMs: another epilogue; and again if operands are transposed */
static const double short_overheads = 4;        /* a time of fewer overheads says little about more rows */
static const double empty_error = 0.5;          /* of an empty box */

/* Seconds at `rows` by the curve alone. Beyond its end its last slope counts; or row_s a row, by the class's rates,
 * where the end is so short that its slope is chance. */
static double curve_at(const struct mt_curve *c, double rows, double overhead_s, double row_s, double *error) {
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
    if (t[last] < short_overheads * overhead_s && row_s > 0) slope = row_s;
    *error = c->error[last] + beyond_error * log2(rows / last_rows);
    return t[last] + slope * (rows - last_rows);
}

static bool is_gemm(enum mt_op_kind kind) {
    return kind == MT_OP_matmul || kind == MT_OP_fused_matmul;
}

/* Whether times per unit of work depend on the rows more than on the amount of work. */
static bool by_rows(enum mt_op_kind kind) {
    return kind == MT_OP_attention || kind == MT_OP_attention_grad;
}

/* Distance in octaves between the dims of a curve and of a shape, plus that of the variant; infinity: not usable. */
static double distance(const struct mt_curve *c, const struct mt_op_shape *shape) {
    if (c->type != shape->type || strcmp(c->op, mt_op_info[shape->kind].name)) return INFINITY;
    double square = 0;
    for (int d = 0; d < 2; d++) {
        double octaves = log2((double)shape->dim[d] / (double)c->dim[d]);
        square += octaves * octaves;
    }
    return sqrt(square) + (strcmp(c->variant, shape->variant) ? variant_octaves : 0);
}

struct neighbour {
    const struct mt_curve *curve;
    double octaves;
};

static bool same_dims(const struct mt_curve *c, const struct mt_op_shape *shape) {
    return c->dim[0] == shape->dim[0] && c->dim[1] == shape->dim[1];
}

struct found {
    struct neighbour neighbours[NEIGHBOURS]; /* the nearest first */
    int n;
};

static void keep(struct found *found, const struct mt_curve *curve, double octaves) {
    if (octaves == INFINITY || (found->n == NEIGHBOURS && octaves >= found->neighbours[found->n - 1].octaves)) return;
    int at = found->n < NEIGHBOURS ? found->n++ : found->n - 1;
    for (; at > 0 && found->neighbours[at - 1].octaves > octaves; at--)
        found->neighbours[at] = found->neighbours[at - 1];
    found->neighbours[at] = (struct neighbour){curve, octaves};
}

/* ---- GEMMs ---- */

static double within(const struct mt_curve *c, double rows) {
    return fmin(fmax(rows, (double)c->rows[0]), (double)c->rows[c->npoints - 1]);
}

/* At the class's rates; without them in units of work. A gradient's output may be wider than its factors, and added to
 * (shape.h: "+f32", "+acc"). */
double mt_class_gemm_ideal_s(const struct mt_cluster_class *class, enum mt_type type, const char *variant, double rows,
                             const int64_t dim[2]) {
    double a = (double)dim[0], b = (double)dim[1], size_bytes = (double)mt_type_size(type);
    if (!(class->flops[type] > 0) || !(class->memory_Bps > 0)) return rows * a * b;
    double wide_bytes = strstr(variant, "+f32") ? (double)mt_type_size(MT_F32) : size_bytes;
    double out_bytes = wide_bytes * (strstr(variant, "+acc") ? 2 : 1);
    double bytes = strncmp(variant, "tn", 2) ? size_bytes * (rows * a + rows * b + a * b)
                                             : size_bytes * (rows * a + rows * b) + out_bytes * a * b;
    return class->overhead_s + 2 * rows * a * b / class->flops[type] + bytes / class->memory_Bps;
}

/* Octaves between the shape and the nearest rows that the curve has, plus those of another variant. */
static double gemm_distance(const struct mt_curve *c, const struct mt_op_shape *shape) {
    if (strcmp(c->op, "matmul") && strcmp(c->op, "fused_matmul")) return INFINITY;
    double octaves[3] = {log2((double)shape->rows / within(c, (double)shape->rows)),
                         log2((double)shape->dim[0] / (double)c->dim[0]),
                         log2((double)shape->dim[1] / (double)c->dim[1])};
    bool same = !strcmp(c->op, mt_op_info[shape->kind].name) && !strcmp(c->variant, shape->variant);
    bool transposed = strncmp(c->variant, shape->variant, 2);
    return hypot(hypot(octaves[0], octaves[1]), octaves[2]) + (same ? 0 : gemm_variant_octaves) +
           (transposed ? gemm_variant_octaves : 0);
}

/* By the geometric mean of the efficiencies of the nearest curves, weighted by the inverse fourth power of the
 * distance; each at the shape's rows, or where it is nearest to them. 0: there is no curve. */
static double gemm_s(const struct mt_cluster_class *class, const struct mt_op_shape *shape, double *error) {
    struct found found = {.n = 0};
    for (int c = 0; c < class->ncurves; c++)
        if (class->curves[c].type == shape->type)
            keep(&found, &class->curves[c], gemm_distance(&class->curves[c], shape));
    double sum = 0, weights = 0, worst = 0;
    for (int i = 0; i < found.n; i++) {
        const struct mt_curve *c = found.neighbours[i].curve;
        double e, weight = 1 / (pow(found.neighbours[i].octaves, 4) + 1e-9);
        double rows = within(c, (double)shape->rows), measured_s = curve_at(c, rows, class->overhead_s, 0, &e);
        sum +=
            weight * log(mt_class_gemm_ideal_s(class, shape->type, c->variant, rows, c->dim) / fmax(measured_s, 1e-12));
        weights += weight;
        worst = fmax(worst, e);
    }
    if (!found.n) return 0;
    *error = worst + borrowed_error + octave_error * found.neighbours[0].octaves;
    return mt_class_gemm_ideal_s(class, shape->type, shape->variant, (double)shape->rows, shape->dim) /
           exp(sum / weights);
}

/* ---- other kinds ---- */

static double row_by_rates(const struct mt_cluster_class *class, const struct mt_op_shape *shape) {
    double unused;
    return fmax(mt_class_rates_s(class, shape, &unused) - class->overhead_s, 0) / (double)shape->rows;
}

/* The time of the shape by one nearby curve. */
static double borrowed(const struct mt_cluster_class *class, const struct mt_curve *curve,
                       const struct mt_op_shape *shape, double *error) {
    struct mt_op_shape there = *shape;
    memcpy(there.dim, curve->dim, sizeof there.dim);
    double work = mt_op_shape_work(shape), rows = (double)shape->rows, work_there = mt_op_shape_work(&there);
    double scale = work / work_there, row_s = row_by_rates(class, shape) / scale;
    if (by_rows(shape->kind)) return curve_at(curve, rows, class->overhead_s, row_s, error) * scale;
    return curve_at(curve, rows * scale, class->overhead_s, row_s, error);
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

static const struct mt_curve *own_curve(const struct mt_cluster_class *class, const struct mt_op_shape *shape) {
    for (int c = 0; c < class->ncurves; c++) {
        const struct mt_curve *curve = &class->curves[c];
        if (curve->type == shape->type && same_dims(curve, shape) && !strcmp(curve->variant, shape->variant) &&
            !strcmp(curve->op, mt_op_info[shape->kind].name))
            return curve;
    }
    return NULL;
}

static double find(const struct mt_cluster_class *class, const struct mt_op_shape *shape, double *error) {
    const struct mt_curve *own = own_curve(class, shape);
    if (own) return curve_at(own, (double)shape->rows, class->overhead_s, row_by_rates(class, shape), error);
    if (is_gemm(shape->kind)) {
        double s = gemm_s(class, shape, error);
        return s > 0 ? s : mt_class_rates_s(class, shape, error);
    }
    struct found found = {.n = 0};
    for (int c = 0; c < class->ncurves; c++) keep(&found, &class->curves[c], distance(&class->curves[c], shape));
    int n = found.n;
    for (int i = 1; i < n && same_dims(found.neighbours[0].curve, shape);
         i++) /* if another variant has the same dims, use only such curves */
        if (!same_dims(found.neighbours[i].curve, shape)) n = i;
    return n ? from_neighbours(class, shape, found.neighbours, n, error) : mt_class_rates_s(class, shape, error);
}

enum mt_type mt_class_measured_type(const struct mt_cluster_class *class, enum mt_type type) {
    bool as_bf16 = type == MT_F16 && class->flops[MT_F16] == 0 && class->flops[MT_BF16] > 0;
    return as_bf16 && strcmp(class->kind, "cpu") ? MT_BF16 : type;
}

double mt_class_op_s(const struct mt_cluster_class *class, const struct mt_op_shape *given, double *error) {
    struct mt_op_shape asked = *given, *shape = &asked;
    asked.type = mt_class_measured_type(class, given->type);
    double unused;
    if (!error) error = &unused;
    if (shape->rows > 0 && shape->dim[0] > 0 && shape->dim[1] > 0) return find(class, shape, error);
    /* An empty box: an empty sum may still write zeros. */
    *error = empty_error;
    return class->overhead_s + (class->memory_Bps > 0 ? shape->bytes / class->memory_Bps : 0);
}
