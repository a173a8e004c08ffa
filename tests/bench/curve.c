/* Times of products of extents that were never measured: each measured curve of a GEMM is left out in turn, and found
 * from the others.
 *
 *     bench_curve cluster.json [GFLOP]       # of products of at least so many [0]; a measured profile */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/stats.h"
#include "profiler/cluster/shape.h"
#include "tests/check.h"

static bool is_gemm(const struct mt_curve *c) {
    return !strcmp(c->op, "matmul") || !strcmp(c->op, "fused_matmul");
}

static struct mt_op_shape shape_of(const struct mt_curve *c, int point) {
    struct mt_op_shape s = {.kind = strcmp(c->op, "matmul") ? MT_OP_fused_matmul : MT_OP_matmul,
                            .type = c->type,
                            .rows = c->rows[point],
                            .dim = {c->dim[0], c->dim[1]}};
    snprintf(s.variant, sizeof s.variant, "%s", c->variant);
    double r = (double)s.rows, a = (double)s.dim[0], b = (double)s.dim[1];
    s.flops = 2 * r * a * b;
    s.bytes = (double)mt_type_size(s.type) * (r * a + r * b + a * b);
    return s;
}

/* Ratios to the measured times, as logarithms without sign. */
static size_t leave_out(const struct mt_cluster_class *class, int curve, double least_flops, double *apart) {
    struct mt_cluster_class others = *class;
    const struct mt_curve *left = &class->curves[curve];
    size_t n = 0;
    others.curves = mt_malloc((size_t) class->ncurves * sizeof *others.curves);
    others.ncurves = 0;
    for (int c = 0; c < class->ncurves; c++)
        if (c != curve) others.curves[others.ncurves++] = class->curves[c];
    for (int i = 0; i < left->npoints; i++) {
        struct mt_op_shape shape = shape_of(left, i);
        if (shape.flops >= least_flops) apart[n++] = fabs(log(mt_class_op_s(&others, &shape, NULL) / left->time_s[i]));
    }
    free(others.curves);
    return n;
}

int main(int argc, char **argv) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_cluster *cluster;
    if (argc < 2) {
        fprintf(stderr, "bench_curve: needs a cluster's profile: bench_curve cluster.json [GFLOP]\n");
        return 2;
    }
    CHECK_OK(mt_cluster_read(argv[1], &cluster, &err), err);
    double least_flops = argc > 2 ? 1e9 * strtod(argv[2], NULL) : 0;
    for (int k = 0; k < cluster->nclasses; k++) {
        const struct mt_cluster_class *class = &cluster->classes[k];
        size_t n = 0, most = 0;
        for (int c = 0; c < class->ncurves; c++) most += (size_t) class->curves[c].npoints;
        double *apart = mt_malloc((most + 1) * sizeof *apart), sum = 0, worst = 0;
        for (int c = 0; c < class->ncurves; c++)
            if (is_gemm(&class->curves[c])) n += leave_out(class, c, least_flops, apart + n);
        for (size_t i = 0; i < n; i++) sum += apart[i], worst = fmax(worst, apart[i]);
        if (n)
            printf("%s: %zu figures, |log(found / measured)|: mean %.3f, median %.3f, worst %.3f\n", class->name, n,
                   sum / (double)n, mt_median(apart, n), worst);
        free(apart);
    }
    mt_cluster_free(cluster);
    return 0;
}
