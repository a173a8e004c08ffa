/* GEMMs of the oneDNN module against sums in double, over shapes, transpositions, types and epilogues. */
#include "kernels/base/arena.h"
#include "kernels/base/number/rng.h"
#include "kernels/op/op.h"
#include "tests/check.h"

static const uint64_t seed = 20261120;
static uint64_t drawn;
static const struct mt_backend *backend;

static double uniform(void) {
    return 2 * mt_random_uniform(seed, 1, drawn++) - 1;
}

static struct mt_tensor tensor(enum mt_type type, int naxes, const int64_t *extent, bool poison) {
    struct mt_tensor t = {.type = type, .naxes = naxes};
    for (int a = 0; a < naxes; a++) t.extent[a] = t.global[a] = extent[a];
    int64_t n = mt_tensor_count(&t);
    t.data = mt_malloc((size_t)(n * mt_type_size(type)));
    for (int64_t i = 0; i < n; i++) mt_type_store(type, t.data, i, poison ? NAN : uniform());
    return t;
}

struct problem {
    int64_t m[2], n[2], k[2];
    int nm, nn, nk;
};

static int64_t product_of(const int64_t *extent, int n) {
    int64_t p = 1;
    for (int a = 0; a < n; a++) p *= extent[a];
    return p;
}

static struct mt_tensor operand(enum mt_type type, const int64_t *first, int nfirst, const int64_t *second, int nsecond,
                                bool swapped, bool poison) {
    int64_t extent[4];
    const int64_t *x = swapped ? second : first, *y = swapped ? first : second;
    int nx = swapped ? nsecond : nfirst, ny = swapped ? nfirst : nsecond;
    for (int a = 0; a < nx; a++) extent[a] = x[a];
    for (int a = 0; a < ny; a++) extent[nx + a] = y[a];
    return tensor(type, nx + ny, extent, poison);
}

static double activation(enum mt_op_kind kind, double x) {
    if (kind == MT_OP_gelu) return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    return kind == MT_OP_relu ? fmax(x, 0) : x;
}

/* The whole of a matrix in double, as [first, second] or, when it is stored the other way round, turned. */
static double *widened(const struct mt_tensor *t, int64_t first, int64_t second, bool turned) {
    double *x = mt_malloc((size_t)(first * second) * sizeof *x);
    for (int64_t i = 0; i < first; i++)
        for (int64_t j = 0; j < second; j++)
            x[i * second + j] = mt_type_load(t->type, t->data, turned ? j * first + i : i * second + j);
    return x;
}

struct totals {
    double diff, norm;
};

static void compare(struct totals *t, const struct mt_tensor *y, int64_t i, double want) {
    double got = mt_type_load(y->type, y->data, i);
    CHECK(isfinite(got), "element %lld is %g", (long long)i, got);
    t->diff += (got - want) * (got - want);
    t->norm += want * want;
}

static void check_totals(const struct totals *t, enum mt_type type, const char *what) {
    double error = sqrt(t->diff / t->norm), allowed = type == MT_F32 ? 1e-5 : 1e-2;
    CHECK(error <= allowed, "%s: relative error %g", what, error);
}

static void run(struct mt_call *call) {
    struct mt_err err = MT_ERR_INIT;
    CHECK(backend->supports(call), "declined");
    int64_t bytes = backend->scratch_bytes(call);
    call->scratch = bytes ? aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64) : NULL;
    if (bytes) memset(call->scratch, 0xff, (size_t)bytes);
    CHECK_OK(backend->run(call, &err), err);
    free(call->scratch);
}

/* oneDNN multiplies bf16 on CPUs with AVX-512 only; elsewhere the backend declines it. */
static bool multiplies(enum mt_type type) {
#ifdef __x86_64__
    return type == MT_F32 || (type == MT_BF16 && __builtin_cpu_supports("avx512bw"));
#else
    return type == MT_F32;
#endif
}

static void one_matmul(const struct problem *p, bool ta, bool tb, enum mt_type type, bool out_acc, bool accumulate) {
    if (!multiplies(type)) return;
    struct mt_attr attr = {.nm = p->nm,
                           .nn = p->nn,
                           .nk = p->nk,
                           .trans_a = ta,
                           .trans_b = tb,
                           .out_acc = out_acc,
                           .accumulate = accumulate};
    struct mt_tensor in[2] = {operand(type, p->m, p->nm, p->k, p->nk, ta, false),
                              operand(type, p->k, p->nk, p->n, p->nn, tb, false)};
    struct mt_tensor out = operand(out_acc ? MT_F32 : type, p->m, p->nm, p->n, p->nn, false, !accumulate);
    int64_t m = product_of(p->m, p->nm), n = product_of(p->n, p->nn), k = product_of(p->k, p->nk);
    double *want = mt_calloc((size_t)(m * n), sizeof *want);
    double *a = widened(&in[0], m, k, ta), *b = widened(&in[1], n, k, !tb);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = accumulate ? mt_type_load(out.type, out.data, i * n + j) : 0;
            for (int64_t l = 0; l < k; l++) sum += a[i * k + l] * b[j * k + l];
            want[i * n + j] = sum;
        }
    struct mt_call call = {.kind = MT_OP_matmul, .attr = &attr, .nin = 2, .nout = 1, .in = in, .out = &out};
    run(&call);
    struct totals t = {0, 0};
    for (int64_t i = 0; i < m * n; i++) compare(&t, &out, i, want[i]);
    char what[200];
    snprintf(what, sizeof what, "m=%lld n=%lld k=%lld ta=%d tb=%d %s out_acc=%d accumulate=%d", (long long)m,
             (long long)n, (long long)k, ta, tb, mt_type_name(type), out_acc, accumulate);
    check_totals(&t, type, what);
    free(a), free(b), free(want), free(in[0].data), free(in[1].data), free(out.data);
}

static void one_fused(const struct problem *p, bool tb, enum mt_type type, enum mt_op_kind epilogue) {
    if (!multiplies(type)) return;
    struct mt_attr attr = {.nm = p->nm, .nn = p->nn, .nk = p->nk, .trans_b = tb, .epilogue = epilogue};
    struct mt_tensor in[3] = {operand(type, p->m, p->nm, p->k, p->nk, false, false),
                              operand(type, p->k, p->nk, p->n, p->nn, tb, false), tensor(type, p->nn, p->n, false)};
    struct mt_tensor out[2] = {operand(type, p->m, p->nm, p->n, p->nn, false, true),
                               operand(type, p->m, p->nm, p->n, p->nn, false, true)};
    int nout = epilogue == MT_OP_add ? 1 : 2;
    struct mt_call call = {.kind = MT_OP_fused_matmul, .attr = &attr, .nin = 3, .nout = nout, .in = in, .out = out};
    run(&call);
    int64_t m = product_of(p->m, p->nm), n = product_of(p->n, p->nn), k = product_of(p->k, p->nk);
    double *a = widened(&in[0], m, k, false), *b = widened(&in[1], n, k, !tb);
    struct totals sum = {0, 0}, y = {0, 0};
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double s = mt_type_load(type, in[2].data, j);
            for (int64_t l = 0; l < k; l++) s += a[i * k + l] * b[j * k + l];
            compare(&y, &out[0], i * n + j, activation(epilogue, s));
            if (nout == 2) compare(&sum, &out[1], i * n + j, s);
        }
    check_totals(&y, type, "fused_matmul");
    if (nout == 2) check_totals(&sum, type, "fused_matmul before the activation");
    for (int i = 0; i < 3; i++) free(in[i].data);
    for (int i = 0; i < 2; i++) free(out[i].data);
    free(a), free(b);
}

/* Rows and columns of very different sizes: the error of an element is small relative to the norms of its own two. */
static void ranges(void) {
    enum { M = 61, N = 45, K = 333 };
    struct mt_attr attr = {.nm = 1, .nn = 1, .nk = 1, .out_acc = true};
    struct problem p = {{M}, {N}, {K}, 1, 1, 1};
    struct mt_tensor in[2] = {operand(MT_BF16, p.m, 1, p.k, 1, false, false),
                              operand(MT_BF16, p.k, 1, p.n, 1, false, false)};
    struct mt_tensor out = operand(MT_F32, p.m, 1, p.n, 1, false, true);
    double norm_a[M] = {0}, norm_b[N] = {0};
    for (int i = 0; i < M * K; i++) {
        double x = mt_type_load(MT_BF16, in[0].data, i) * pow(10, i / K % 31 - 15);
        mt_type_store(MT_BF16, in[0].data, i, x);
        norm_a[i / K] += x * x;
    }
    for (int i = 0; i < K * N; i++) {
        double x = mt_type_load(MT_BF16, in[1].data, i) * pow(10, 7 - i % N % 15);
        mt_type_store(MT_BF16, in[1].data, i, x);
        norm_b[i % N] += x * x;
    }
    struct mt_call call = {.kind = MT_OP_matmul, .attr = &attr, .nin = 2, .nout = 1, .in = in, .out = &out};
    run(&call);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double want = 0, got = ((float *)out.data)[i * N + j];
            for (int l = 0; l < K; l++)
                want += mt_type_load(MT_BF16, in[0].data, i * K + l) * mt_type_load(MT_BF16, in[1].data, l * N + j);
            CHECK_NEAR(got, want, 1e-3 * sqrt(norm_a[i] * norm_b[j]));
        }
    free(in[0].data), free(in[1].data), free(out.data);
}

/* An infinity or a NaN shows in its row or column, and nowhere else. */
static void not_finite(void) {
    enum { M = 20, N = 40, K = 50 };
    struct mt_attr attr = {.nm = 1, .nn = 1, .nk = 1};
    struct problem p = {{M}, {N}, {K}, 1, 1, 1};
    static const enum mt_type types[] = {MT_F32, MT_BF16};
    for (int t = 0; t < (multiplies(MT_BF16) ? 2 : 1); t++) {
        struct mt_tensor in[2] = {operand(types[t], p.m, 1, p.k, 1, false, false),
                                  operand(types[t], p.k, 1, p.n, 1, false, false)};
        struct mt_tensor out = operand(types[t], p.m, 1, p.n, 1, false, true);
        mt_type_store(types[t], in[0].data, 3 * K + 7, INFINITY);
        mt_type_store(types[t], in[1].data, 9 * N + 33, NAN);
        struct mt_call call = {.kind = MT_OP_matmul, .attr = &attr, .nin = 2, .nout = 1, .in = in, .out = &out};
        run(&call);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++)
                CHECK(isfinite(mt_type_load(types[t], out.data, i * N + j)) == (i != 3 && j != 33), "%d, %d", i, j);
        free(in[0].data), free(in[1].data), free(out.data);
    }
}

static void declines(void) {
    struct problem empty = {{0}, {3}, {4}, 1, 1, 1};
    struct mt_attr attr = {.nm = 1, .nn = 1, .nk = 1};
    enum mt_type types[] = {MT_F64, MT_F32, MT_BF16};
    for (int i = 0; i < (multiplies(MT_BF16) ? 2 : 3); i++) {
        empty.m[0] = types[i] == MT_F32 ? 0 : 5;
        struct mt_tensor in[2] = {operand(types[i], empty.m, 1, empty.k, 1, false, false),
                                  operand(types[i], empty.k, 1, empty.n, 1, false, false)};
        struct mt_tensor out = operand(types[i], empty.m, 1, empty.n, 1, false, true);
        struct mt_call call = {.kind = MT_OP_matmul, .attr = &attr, .nin = 2, .nout = 1, .in = in, .out = &out};
        CHECK(!backend->supports(&call), "%s", mt_type_name(types[i]));
        free(in[0].data), free(in[1].data), free(out.data);
    }
}

int main(void) {
    struct mt_err err = MT_ERR_INIT;
    backend = mt_backend_onednn(&err);
    if (!backend) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    printf("seed %llu\n", (unsigned long long)seed);
    static const struct problem problems[] = {{{1}, {1}, {1}, 1, 1, 1},          {{3, 5}, {7}, {11}, 2, 1, 1},
                                              {{2, 33}, {3, 17}, {65}, 2, 2, 1}, {{64}, {257}, {31, 2}, 1, 1, 2},
                                              {{130}, {48}, {129}, 1, 1, 1},     {{1}, {100}, {300}, 1, 1, 1},
                                              {{300}, {1}, {77}, 1, 1, 1},       {{517}, {519}, {1}, 1, 1, 1},
                                              {{96}, {1031}, {40}, 1, 1, 1},     {{4, 75}, {2, 64}, {7, 74}, 2, 2, 2}};
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        for (int bits = 0; bits < 32; bits++) {
            enum mt_type type = bits & 4 ? MT_BF16 : MT_F32;
            bool out_acc = bits & 8;
            if (bits & 16 && type == MT_BF16 && !out_acc) continue; /* sums are kept in the accumulation type */
            one_matmul(&problems[i], bits & 1, bits & 2, type, out_acc, bits & 16);
        }
    /* Several of the blocks that the bf16 kernel packs, in each direction; and the tall one, of fused_matmul. */
    static const struct problem blocks[] = {{{5}, {3}, {6200}, 1, 1, 1},
                                            {{3100}, {35}, {70}, 1, 1, 1},
                                            {{35}, {3100}, {70}, 1, 1, 1},
                                            {{3100}, {5}, {3100}, 1, 1, 1}};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        for (int bits = 0; bits < 4; bits++)
            one_matmul(&blocks[i], bits & 1, bits & 2, MT_BF16, bits == 2, bits == 2 || bits == 3);
    if (multiplies(MT_BF16))
        ranges();
    else
        printf("bf16 is left out: this CPU has no AVX-512\n");
    not_finite();
    static const struct problem tall = {{2, 1250}, {1900}, {5}, 2, 1, 1};
    static const enum mt_op_kind epilogues[] = {MT_OP_gelu, MT_OP_relu, MT_OP_add};
    for (int bits = 0; bits < 4; bits++)
        for (int e = 0; e < 3; e++) {
            one_fused(&problems[2], bits & 1, bits & 2 ? MT_BF16 : MT_F32, epilogues[e]);
            one_fused(&tall, bits & 1, bits & 2 ? MT_BF16 : MT_F32, epilogues[e]);
        }
    declines();
    return 0;
}
