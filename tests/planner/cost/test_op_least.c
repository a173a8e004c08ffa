/* What parts of operators take at least: no box, of whatever sizes, takes less. Classes with public rates and with
 * curves that bend up and down. */
#include "kernels/base/number/rng.h"
#include "planner/cost/cost.h"
#include "profiler/describe/describe.h"
#include "tests/check.h"
#include "tests/profiler/clusters.h"

enum { NCLASSES = 20, SHAPES = 40, BOXES = 50 };

static struct mt_err err = MT_ERR_INIT;
static uint32_t next;
static int draw(int below) {
    return (int)(mt_random_u32(99, 3, next++) % (uint32_t)below);
}

static const struct kind {
    enum mt_op_kind kind;
    const char *name, *variant;
} kinds[] = {{MT_OP_matmul, "matmul", "nn"},     {MT_OP_fused_matmul, "fused_matmul", "nt+gelu"},
             {MT_OP_attention, "attention", ""}, {MT_OP_layer_norm, "layer_norm", ""},
             {MT_OP_embedding, "embedding", ""}, {MT_OP_embedding_grad, "embedding_grad", ""},
             {MT_OP_gelu, "gelu", ""},           {MT_OP_adamw, "adamw", ""}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* A curve of the kind for one to six numbers of rows. */
static struct mt_curve random_curve(struct mt_arena *arena, const struct mt_cluster_class *class,
                                    const struct kind *kind) {
    struct mt_curve c = {.op = kind->name, .variant = kind->variant, .type = MT_F32, .npoints = 1 + draw(6)};
    c.dim[0] = 16 << draw(4), c.dim[1] = 16 << draw(4);
    c.rows = mt_new(arena, int64_t, c.npoints);
    c.time_s = mt_new(arena, double, c.npoints);
    c.error = mt_new(arena, double, c.npoints);
    for (int i = 0; i < c.npoints; i++) {
        c.rows[i] = (i ? c.rows[i - 1] : 0) + 1 + draw(200);
        double flops = 2.0 * (double)(c.rows[i] * c.dim[0] * c.dim[1]);
        c.time_s[i] = (class->overhead_s + flops / class->flops[MT_F32]) * (0.5 + 0.1 * draw(12));
    }
    return c;
}

/* rows, dim[0], dim[1] as they are; of kinds that have fewer dims, those are 1. */
static struct mt_op_shape shape_of(const struct kind *kind, int64_t rows, int64_t a, int64_t b) {
    struct mt_op_shape s = {.kind = kind->kind, .type = MT_F32, .rows = rows, .dim = {a, b}};
    double r = (double)rows, x = (double)a, y = (double)b;
    snprintf(s.variant, sizeof s.variant, "%s", kind->variant);
    switch (kind->kind) {
    case MT_OP_matmul:
    case MT_OP_fused_matmul: s.flops = 2 * r * x * y, s.bytes = 4 * (r * x + r * y + x * y); break;
    case MT_OP_attention: s.flops = 4 * r * x * x * y, s.bytes = 16 * r * x * y; break;
    case MT_OP_embedding: s.bytes = 8 * r * y + 4 * r; break;
    case MT_OP_embedding_grad: s.flops = r * y, s.bytes = 4 * (r * y + r + x * y); break;
    case MT_OP_layer_norm: s.dim[1] = 1, s.flops = 8 * r * x, s.bytes = 8 * r * x; break;
    default: s.dim[0] = s.dim[1] = 1, s.flops = 16 * r, s.bytes = 16 * r;
    }
    return s;
}

/* Positions and the width of a head are not divided. */
static void test_shape(const struct mt_costs *costs, const struct kind *kind) {
    int64_t rows = 1 + draw(600), a = 16 << draw(4), b = 16 << draw(4);
    struct mt_op_shape whole = shape_of(kind, rows, a, b);
    struct mt_op_least least = mt_cost_least(costs, 0, &whole);
    CHECK(least.any_s >= 0 && least.all_s >= 0, "%g %g", least.any_s, least.all_s);
    for (int i = 0; i < BOXES; i++) {
        bool dims = kind->kind != MT_OP_attention;
        int64_t r = 1 + draw((int)rows), x = dims && draw(2) ? 1 + draw((int)a) : a;
        int64_t y = dims && draw(2) ? 1 + draw((int)b) : b;
        struct mt_op_shape box = shape_of(kind, r, x, y);
        double part = (double)r / (double)rows;
        if (whole.dim[0] > 1) part *= (double)x / (double)a;
        if (whole.dim[1] > 1) part *= (double)y / (double)b;
        double s = mt_cost_op(costs, 0, &box).s, least_s = least.any_s + part * least.all_s;
        CHECK(s >= least_s * (1 - 1e-12), "%s %lld of %lld, %lld of %lld, %lld of %lld: %g s, at least %g s",
              kind->name, (long long)r, (long long)rows, (long long)x, (long long)a, (long long)y, (long long)b, s,
              least_s);
    }
    struct mt_op_shape empty = shape_of(kind, 0, a, b);
    CHECK(mt_cost_op(costs, 0, &empty).s >= least.any_s, "an empty %s", kind->name);
}

static void test_measured(void) {
    int known = 0;
    for (int k = 0; k < NCLASSES; k++) {
        struct mt_cluster *c = make_cluster(1, 1, 1);
        struct mt_cluster_class *class = &c->classes[0];
        int device = 0, most = draw(16);
        c->devices[0].speed = 1.0 / (1 + draw(3));
        if (draw(3) == 0) class->flops[MT_F32] = 0; /* of GEMMs' units of work then */
        class->curves = mt_new(&c->arena, struct mt_curve, most + 1);
        double flops = class->flops[MT_F32];
        class->flops[MT_F32] = 100e9;
        for (int i = 0; i < most; i++)
            class->curves[class->ncurves++] = random_curve(&c->arena, class, &kinds[draw(KINDS)]);
        class->flops[MT_F32] = flops;
        struct mt_costs costs = {.cluster = c, .nranks = 1, .device = &device};
        for (int i = 0; i < SHAPES * KINDS; i++) test_shape(&costs, &kinds[i % KINDS]);
        struct mt_op_shape gemm = shape_of(&kinds[0], 100, 64, 64);
        known += mt_cost_least(&costs, 0, &gemm).all_s > 0;
        mt_cluster_free(c);
    }
    CHECK(known > NCLASSES / 2, "only of %d classes anything is known", known);
}

/* By rates alone the whole takes exactly the two together. */
static void test_nominal(void) {
    struct mt_cluster *c;
    int device = 0;
    CHECK_OK(mt_cluster_describe("h100:1", NULL, &c, &err), err);
    struct mt_costs costs = {.cluster = c, .nranks = 1, .device = &device};
    for (int i = 0; i < SHAPES * KINDS; i++) {
        const struct kind *kind = &kinds[i % KINDS];
        test_shape(&costs, kind);
        struct mt_op_shape whole = shape_of(kind, 1000 + draw(1000), 64, 64);
        struct mt_op_least least = mt_cost_least(&costs, 0, &whole);
        double s = mt_cost_op(&costs, 0, &whole).s;
        CHECK_NEAR(least.any_s + least.all_s, s, 1e-9 * s);
    }
    mt_cluster_free(c);
}

int main(void) {
    test_nominal();
    test_measured();
    return 0;
}
