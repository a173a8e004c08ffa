/* Times from curves: known functions come back, and what was never measured is taken from what is near. */
#include "profiler/cluster/shape.h"
#include "tests/check.h"

static struct mt_op_shape gemm(const char *variant, int64_t m, int64_t n, int64_t k) {
    struct mt_op_shape s = {.kind = MT_OP_matmul, .type = MT_F32, .rows = m, .dim = {n, k}};
    snprintf(s.variant, sizeof s.variant, "%s", variant);
    s.flops = 2.0 * (double)m * (double)n * (double)k;
    s.bytes = 4.0 * (double)(m * n + n * k + m * k);
    return s;
}

static struct mt_op_shape elements(enum mt_op_kind kind, int64_t n) {
    return (struct mt_op_shape){
        .kind = kind, .type = MT_F32, .rows = n, .dim = {1, 1}, .flops = 16.0 * (double)n, .bytes = 28.0 * (double)n};
}

/* A device that does 50 GF/s on large GEMMs, half of that at 32 rows, and takes 2 us to start. */
static double truth(const struct mt_op_shape *s) {
    return 2e-6 + s->flops / 50e9 * (1 + 32.0 / (double)s->rows);
}

static struct mt_cluster_class new_class(void) {
    struct mt_cluster_class class = {.name = "c", .kind = "cpu", .overhead_s = 2e-6, .memory_Bps = 10e9};
    class.flops[MT_F32] = 50e9;
    return class;
}

static void measured(void) {
    struct mt_cluster cluster = {0};
    struct mt_cluster_class class = new_class();
    struct mt_curve_builder *b = mt_curves_new();
    /* Out of order, each three times, one of them an outlier. */
    for (int64_t rows = 4096; rows >= 16; rows /= 2)
        for (int i = 0; i < 3; i++) {
            struct mt_op_shape s = gemm("nn", rows, 256, 128);
            mt_curves_sample(b, &s, truth(&s) * (i == 1 ? 3 : 1));
        }
    mt_curves_finish(b, 0, &cluster, &class);
    CHECK_EQ(class.ncurves, 1);
    CHECK_EQ(class.curves[0].npoints, 9);
    CHECK(!strcmp(class.curves[0].op, "matmul") && !strcmp(class.curves[0].variant, "nn"));
    double error;
    for (int64_t rows = 16; rows <= 4096; rows += 5) { /* linear in rows: exact between points */
        struct mt_op_shape s = gemm("nn", rows, 256, 128);
        CHECK_NEAR(mt_class_op_s(&class, &s, &error) / truth(&s), 1, 1e-9);
    }
    struct mt_op_shape far = gemm("nn", 100000, 256, 128), half = gemm("nn", 8, 256, 128);
    CHECK_NEAR(mt_class_op_s(&class, &far, &error) / truth(&far), 1, 1e-9);
    double at_end;
    far.rows = 4096;
    mt_class_op_s(&class, &far, &at_end);
    CHECK(error > at_end, "beyond the end the band widens: %g, %g", error, at_end);
    double t = mt_class_op_s(&class, &half, NULL), first = class.curves[0].time_s[0];
    CHECK_NEAR(t, (class.overhead_s + first) / 2, 1e-12);
    mt_arena_release(&cluster.arena);
}

static void replaced(void) {
    struct mt_cluster cluster = {0};
    struct mt_cluster_class class = new_class();
    for (int pass = 0; pass < 2; pass++) {
        struct mt_curve_builder *b = mt_curves_new();
        struct mt_op_shape s = gemm("nn", 64, 32, 32), only[2] = {gemm("tn", 64, 32, 32), gemm("nt", 8, 4, 4)};
        mt_curves_sample(b, &s, pass ? 2e-3 : 1e-3);
        mt_curves_sample(b, &only[pass], 5e-3);
        mt_curves_finish(b, 0, &cluster, &class);
    }
    CHECK_EQ(class.ncurves, 3);
    CHECK_TEXT(class.curves[0].variant, "nn");
    CHECK_TEXT(class.curves[1].variant, "nt");
    CHECK_TEXT(class.curves[2].variant, "tn");
    CHECK_NEAR(class.curves[0].time_s[0], 2e-3, 0);
    struct mt_curve_builder *b = mt_curves_new(); /* nothing new */
    struct mt_op_shape empty = gemm("nn", 0, 64, 64);
    mt_curves_sample(b, &empty, 1);
    mt_curves_finish(b, 0, &cluster, &class);
    CHECK_EQ(class.ncurves, 3);
    mt_arena_release(&cluster.arena);
}

/* From a grid of GEMMs to shapes between and around its dims. */
static void neighbours(void) {
    struct mt_cluster cluster = {0};
    struct mt_cluster_class class = new_class();
    struct mt_curve_builder *b = mt_curves_new();
    for (int64_t n = 128; n <= 2048; n *= 4)
        for (int64_t k = 128; k <= 2048; k *= 4)
            for (int64_t rows = 16; rows <= 4096; rows *= 4) {
                struct mt_op_shape s = gemm("nn", rows, n, k);
                mt_curves_sample(b, &s, truth(&s));
            }
    mt_curves_finish(b, 0, &cluster, &class);
    CHECK_EQ(class.ncurves, 9);
    double before = 0, error, wide;
    for (int64_t n = 96; n <= 4096; n += 96) { /* near, and rising with the work */
        struct mt_op_shape s = gemm("nn", 1000, n, 384);
        double t = mt_class_op_s(&class, &s, &error);
        CHECK(t > before && fabs(t / truth(&s) - 1) < 0.1, "n %lld: %g, truly %g", (long long)n, t, truth(&s));
        CHECK(error >= 0.03 && error < 0.4, "n %lld: %g", (long long)n, error);
        before = t;
    }
    struct mt_op_shape here = gemm("nn", 1000, 512, 512), other = gemm("nt", 1000, 512, 512), fused = here;
    double t = mt_class_op_s(&class, &here, &error), as = mt_class_op_s(&class, &other, &wide);
    CHECK(fabs(as / t - 1) < 5e-3 && wide > error, "another variant: %g, %g; bands %g, %g", t, as, error, wide);
    fused.kind = MT_OP_fused_matmul;
    snprintf(fused.variant, sizeof fused.variant, "nn+gelu");
    as = mt_class_op_s(&class, &fused, &wide);
    CHECK(fabs(as / t - 1) < 5e-3 && wide > error, "fused: %g, %g; bands %g, %g", t, as, error, wide);
    other = here, other.type = MT_F64; /* no curve of that type */
    CHECK_NEAR(mt_class_op_s(&class, &other, &wide), 2e-6 + here.flops / 50e9, 1e-9);
    CHECK(wide >= 0.5, "%g", wide);
    mt_arena_release(&cluster.arena);
}

/* A GPU that computes and moves bytes one after the other, at rates that a small product does not reach. One family is
 * measured, with few rows and square extents; others follow: few rows are bound by bytes, many by flops. */
static double gpu_s(const struct mt_op_shape *s) {
    return 5e-6 + s->flops / 600e12 + s->bytes / 4e12 + s->flops / 600e12 / (1 + s->flops / 10e9);
}

static void other_extents(void) {
    struct mt_cluster cluster = {0};
    struct mt_cluster_class class = {.name = "g", .kind = "cuda", .overhead_s = 5e-6, .memory_Bps = 4e12};
    class.flops[MT_F32] = 600e12;
    struct mt_curve_builder *b = mt_curves_new();
    for (int64_t n = 1024; n <= 8192; n *= 2)
        for (int64_t rows = 16; rows <= 1024; rows *= 4) {
            struct mt_op_shape s = gemm("nn", rows, n, n);
            mt_curves_sample(b, &s, gpu_s(&s));
        }
    mt_curves_finish(b, 0, &cluster, &class);
    static const int64_t asked[][3] = {{2048, 8192, 4096}, {2048, 4096, 8192}, {4096, 4096, 4096}, {16, 8192, 2048},
                                       {64, 16384, 1024},  {1024, 5464, 8192}, {8192, 1024, 1024}};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        struct mt_op_shape s = gemm("nt", asked[i][0], asked[i][1], asked[i][2]);
        double ratio = mt_class_op_s(&class, &s, NULL) / gpu_s(&s);
        CHECK(ratio > 0.85 && ratio < 1.15, "%lld x %lld x %lld: %g", (long long)asked[i][0], (long long)asked[i][1],
              (long long)asked[i][2], ratio);
    }
    mt_arena_release(&cluster.arena);
}

/* Element by element: fast while the data fits into a cache of 4 MB, then by memory. */
static double update_s(int64_t n) {
    double bytes = 28.0 * (double)n;
    return 1e-6 + (bytes < 4e6 ? bytes / 40e9 : 4e6 / 40e9 + (bytes - 4e6) / 8e9);
}

static void caches(void) {
    struct mt_cluster cluster = {0};
    struct mt_cluster_class class = new_class();
    struct mt_curve_builder *b = mt_curves_new();
    for (int64_t n = 1 << 10; n <= 1 << 24; n *= 2) {
        struct mt_op_shape s = elements(MT_OP_adamw, n);
        mt_curves_sample(b, &s, update_s(n));
    }
    mt_curves_finish(b, 0, &cluster, &class);
    for (double n = 1 << 10; n < 1 << 26; n *= 1.3) { /* within a tenth but at the knee */
        struct mt_op_shape s = elements(MT_OP_adamw, (int64_t)n);
        double ratio = mt_class_op_s(&class, &s, NULL) / update_s((int64_t)n);
        CHECK(ratio > 0.99 && ratio < 1.4, "%g elements: %g", n, ratio);
        if (28 * n < 2e6 || 28 * n > 8e6) CHECK_NEAR(ratio, 1, 0.01);
    }
    /* Widths never measured: by the amount of data. */
    struct mt_curve_builder *c = mt_curves_new();
    for (int64_t rows = 16; rows <= 1 << 16; rows *= 2) {
        struct mt_op_shape s = {.kind = MT_OP_layer_norm, .type = MT_F32, .rows = rows, .dim = {256, 1}};
        mt_curves_sample(c, &s, update_s(rows * 256));
    }
    mt_curves_finish(c, 0, &cluster, &class);
    struct mt_op_shape s = {.kind = MT_OP_layer_norm, .type = MT_F32, .rows = 1 << 10, .dim = {1024, 1}};
    CHECK_NEAR(mt_class_op_s(&class, &s, NULL) / update_s(1 << 20), 1, 1e-9);
    mt_arena_release(&cluster.arena);
}

/* One time of a single element, as of a count that a job adds up, says nothing about a large sum. */
static void short_curves(void) {
    struct mt_cluster cluster = {0};
    struct mt_cluster_class class = new_class();
    struct mt_curve_builder *b = mt_curves_new();
    struct mt_op_shape one = elements(MT_OP_add, 1), many = elements(MT_OP_add, 64 << 20);
    mt_curves_sample(b, &one, 2.2e-6);
    mt_curves_finish(b, 0, &cluster, &class);
    CHECK_NEAR(mt_class_op_s(&class, &one, NULL), 2.2e-6, 1e-12);
    CHECK_NEAR(mt_class_op_s(&class, &many, NULL) / (many.bytes / class.memory_Bps), 1, 0.01);
    mt_arena_release(&cluster.arena);
}

static void rates(void) {
    struct mt_cluster_class class = new_class();
    double error, nominal_error;
    struct mt_op_shape big = gemm("nn", 4096, 4096, 4096), update = elements(MT_OP_adamw, 1000000);
    CHECK_NEAR(mt_class_op_s(&class, &big, &error), 2e-6 + big.flops / 50e9, 1e-9);
    CHECK_NEAR(mt_class_op_s(&class, &update, NULL), 2e-6 + 28e6 / 10e9, 1e-9);
    class.nominal = true, class.calibration = 0.5;
    CHECK_NEAR(mt_class_op_s(&class, &big, &nominal_error), 2e-6 + big.flops / 25e9, 1e-9);
    CHECK(nominal_error > error, "%g, %g", nominal_error, error);
    struct mt_op_shape none = gemm("nn", 0, 64, 64), zeros = gemm("tn", 0, 64, 64);
    none.bytes = 0, zeros.bytes = 4 * 64 * 64;
    CHECK_NEAR(mt_class_op_s(&class, &none, NULL), 2e-6, 0);
    CHECK_NEAR(mt_class_op_s(&class, &zeros, NULL), 2e-6 + zeros.bytes / 10e9, 1e-12);
}

int main(void) {
    measured();
    replaced();
    neighbours();
    other_extents();
    caches();
    short_curves();
    rates();
    return 0;
}
