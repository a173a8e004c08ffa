/* Operators against the node cases of ONNX (package libonnx-testdata), in f32 and f64. A case that needs what no
 * operator of ours does (weights of classes, negative indices, other types) is left out and counted. */
#ifndef MOTLEY_ONNX
#include <stdio.h>
int main(void) {
    puts("skipped: built without the ONNX node cases: libonnx-testdata libonnx-dev protobuf-c-compiler "
         "libprotobuf-c-dev");
    return 77;
}
#else
#include <dirent.h>

#include "tests/kernels/op/calls.h"
#include "tests/kernels/op/onnx_case.h"

static enum mt_type type; /* that the cases are run in */
static const struct mt_attr plain = {0};

static struct mt_tensor shaped(enum mt_type t, const double *v, int naxes, const int64_t *extent) {
    struct mt_tensor x = call_tensor(t, naxes, extent);
    for (int64_t i = 0; v && i < mt_tensor_count(&x); i++) mt_type_store(t, x.data, i, v[i]);
    return x;
}
#define SHAPED(v, ...) shaped(type, v, sizeof((int64_t[]){__VA_ARGS__}) / 8, (int64_t[]){__VA_ARGS__})
#define SCALAR() shaped(type, NULL, 0, NULL)
#define FREE(...)                                                                                                      \
    do {                                                                                                               \
        struct mt_tensor list_[] = {__VA_ARGS__};                                                                      \
        for (size_t i_ = 0; i_ < sizeof list_ / sizeof *list_; i_++) free(list_[i_].data);                             \
    } while (0)

static double element(const struct mt_tensor *t, int64_t i) {
    return mt_type_load(t->type, t->data, i);
}

/* The case's values are singles, so doubles can be no closer to them than that. */
static void compare(const struct onnx_case *c, int output, const struct mt_tensor *got) {
    const struct array *want = &c->out[output];
    CHECK_EQ(mt_tensor_count(got), want->count);
    for (int64_t i = 0; i < want->count; i++)
        CHECK(fabs(element(got, i) - want->v[i]) <= 1e-5 + 1e-5 * fabs(want->v[i]),
              "%s: output %d [%lld] is %g, not %g", c->name, output, (long long)i, element(got, i), want->v[i]);
}

/* a[rows, columns]: the axes in the mask moved to the end. */
static void move_last(const struct array *a, unsigned mask, int64_t *rows, int64_t *columns, double *to) {
    *rows = *columns = 1;
    for (int x = 0; x < a->naxes; x++) *(mask >> x & 1 ? columns : rows) *= a->extent[x];
    for (int64_t i = 0; i < a->count; i++) {
        int64_t rest = i, at[2] = {0, 0}, stride[2] = {1, 1};
        for (int x = a->naxes - 1; x >= 0; x--) {
            int last = mask >> x & 1;
            at[last] += rest % a->extent[x] * stride[last];
            stride[last] *= a->extent[x];
            rest /= a->extent[x];
        }
        to[at[0] * *columns + at[1]] = a->v[i];
    }
}

/* The axes of a reduction, from an attribute or from input 1; all if there are none. */
static unsigned reduced_axes(const struct onnx_case *c) {
    const Onnx__AttributeProto *a = onnx_attribute(c, "axes");
    unsigned mask = 0, all = (1u << c->in[0].naxes) - 1;
    int n = a ? (int)a->n_ints : c->nin > 1 ? (int)c->in[1].count : 0;
    for (int i = 0; i < n; i++) {
        int64_t axis = a ? a->ints[i] : (int64_t)c->in[1].v[i];
        mask |= 1u << (axis < 0 ? axis + c->in[0].naxes : axis);
    }
    return n ? mask : onnx_int(c, "noop_with_empty_axes", 0) ? 0 : all;
}

static bool run_add(const struct onnx_case *c) {
    const struct array *a = &c->in[0], *b = &c->in[1];
    if (c->nin != 2 || a->type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT) return false;
    int first = a->naxes - b->naxes;
    unsigned axes = 0;
    for (int i = first; i < a->naxes; i++) {
        CHECK_EQ(b->extent[i - first], a->extent[i]);
        axes |= 1u << i;
    }
    struct mt_tensor x = shaped(type, a->v, a->naxes, a->extent), y = shaped(type, b->v, b->naxes, b->extent);
    struct mt_tensor z = shaped(type, NULL, a->naxes, a->extent);
    CALL(add, (&(struct mt_attr){.axes = axes}), NULL, (x, y), (z));
    compare(c, 0, &z);
    FREE(x, y, z);
    return true;
}

static bool run_relu(const struct onnx_case *c) {
    struct mt_tensor x = shaped(type, c->in[0].v, c->in[0].naxes, c->in[0].extent), y = x;
    CALL(relu, &plain, NULL, (x), (y)); /* in place */
    compare(c, 0, &y);
    FREE(x);
    return true;
}

static bool run_matmul(const struct onnx_case *c) {
    const struct array *a = &c->in[0], *b = &c->in[1];
    int64_t m = a->extent[a->naxes - 2], k = a->extent[a->naxes - 1], n = b->extent[b->naxes - 1];
    struct mt_tensor y = SHAPED(NULL, a->count / k, n);
    for (int64_t i = 0; i < a->count / (m * k); i++) {
        struct mt_tensor x = SHAPED(a->v + i * m * k, m, k), w = SHAPED(b->v + i * k * n, k, n),
                         part = SHAPED(NULL, m, n);
        CALL(matmul, (&(struct mt_attr){.nm = 1, .nn = 1, .nk = 1}), NULL, (x, w), (part));
        memcpy((char *)y.data + i * m * n * mt_type_size(type), part.data, (size_t)(m * n * mt_type_size(type)));
        FREE(x, w, part);
    }
    compare(c, 0, &y);
    FREE(y);
    return true;
}

/* alpha and beta go into the inputs; c may be a matrix, a row, a number. */
static bool run_gemm(const struct onnx_case *c) {
    bool ta = onnx_int(c, "transA", 0), tb = onnx_int(c, "transB", 0);
    const struct array *a = &c->in[0], *b = &c->in[1], *bias = &c->in[2];
    int64_t m = a->extent[ta], k = a->extent[!ta], n = b->extent[!tb];
    for (int64_t i = 0; i < a->count; i++) a->v[i] *= onnx_float(c, "alpha", 1);
    for (int64_t i = 0; i < bias->count; i++) bias->v[i] *= onnx_float(c, "beta", 1);
    struct mt_tensor x = SHAPED(a->v, a->extent[0], a->extent[1]), w = SHAPED(b->v, b->extent[0], b->extent[1]);
    struct mt_tensor y = SHAPED(NULL, m, n), z = SHAPED(NULL, m, n);
    struct mt_attr attr = {.nm = 1, .nn = 1, .nk = 1, .trans_a = ta, .trans_b = tb, .epilogue = MT_OP_add};
    CHECK_EQ(k, b->extent[tb]);
    CALL(matmul, &attr, NULL, (x, w), (y));
    if (!bias->v) {
        compare(c, 0, &y);
    } else if (bias->count == n) {
        struct mt_tensor row = SHAPED(bias->v, n);
        CALL(fused_matmul, &attr, NULL, (x, w, row), (z));
        compare(c, 0, &z);
        CALL(add, (&(struct mt_attr){.axes = 2}), NULL, (y, row), (z));
        compare(c, 0, &z);
        FREE(row);
    } else {
        bool matrix = bias->count == m * n;
        struct mt_tensor other = shaped(type, bias->v, matrix ? 2 : 0, (int64_t[]){m, n});
        CALL(add, (&(struct mt_attr){.axes = matrix ? 3 : 0}), NULL, (y, other), (z));
        compare(c, 0, &z);
        FREE(other);
    }
    FREE(x, w, y, z);
    return true;
}

/* For one axis: the case's first input with it moved to the end, and what cross entropy makes of it. */
struct classes {
    int64_t rows, v;
    struct mt_tensor x, m, z, target, picked, l;
};

static void classes_of(const struct array *a, int64_t axis, struct classes *k) {
    double *moved = malloc((size_t)(a->count + 1) * sizeof(double));
    move_last(a, 1u << (axis < 0 ? axis + a->naxes : axis), &k->rows, &k->v, moved);
    k->x = SHAPED(moved, k->rows, k->v);
    k->m = SHAPED(NULL, k->rows), k->z = SHAPED(NULL, k->rows), k->picked = SHAPED(NULL, k->rows);
    k->l = SHAPED(NULL, k->rows);
    k->target = call_tensor(MT_I32, 1, (int64_t[]){k->rows});
    free(moved);
    CALL(row_max, &plain, NULL, (k->x), (k->m));
    CALL(exp_sum, &plain, NULL, (k->x, k->m), (k->z));
}
static void classes_free(struct classes *k) {
    FREE(k->x, k->m, k->z, k->picked, k->l, k->target);
}

/* An output as rows of classes, to compare by place. */
static void compare_rows(const struct onnx_case *c, int output, int64_t axis, const struct mt_tensor *got) {
    struct array want = c->out[output];
    struct onnx_case moved = {.name = c->name};
    int64_t rows, columns;
    double *v = malloc((size_t)(want.count + 1) * sizeof(double));
    move_last(&want, 1u << (axis < 0 ? axis + want.naxes : axis), &rows, &columns, v);
    want.v = v;
    moved.out[0] = want;
    compare(&moved, 0, got);
    free(v);
}

/* log softmax of class j is minus the loss of a row whose target is j. */
static void log_softmax(struct classes *k, const struct mt_tensor *y) {
    for (int64_t j = 0; j < k->v; j++) {
        for (int64_t r = 0; r < k->rows; r++) ((int32_t *)k->target.data)[r] = (int32_t)j;
        CALL(pick, &plain, NULL, (k->x, k->target), (k->picked));
        CALL(nll, &plain, NULL, (k->m, k->z, k->picked, k->target), (k->l));
        for (int64_t r = 0; r < k->rows; r++) mt_type_store(type, y->data, r * k->v + j, -element(&k->l, r));
    }
}

/* The gradient of the loss is the softmax, less one at the target. */
static bool run_softmax(const struct onnx_case *c) {
    struct classes k;
    int64_t axis = onnx_int(c, "axis", -1);
    classes_of(&c->in[0], axis, &k);
    struct mt_tensor y = SHAPED(NULL, k.rows, k.v), ones = SHAPED(NULL, k.rows);
    if (!strcmp(c->node->op_type, "LogSoftmax")) {
        log_softmax(&k, &y);
    } else {
        for (int64_t r = 0; r < k.rows; r++) {
            mt_type_store(type, ones.data, r, 1);
            ((int32_t *)k.target.data)[r] = (int32_t)(r % k.v);
        }
        CALL(nll_grad, &plain, NULL, (k.x, k.m, k.z, k.target, ones), (y));
        for (int64_t r = 0; r < k.rows; r++)
            mt_type_store(type, y.data, r * k.v + r % k.v, element(&y, r * k.v + r % k.v) + 1);
    }
    compare_rows(c, 0, axis, &y);
    FREE(y, ones);
    classes_free(&k);
    return true;
}

/* SoftmaxCrossEntropyLoss and, from logarithms, NegativeLogLikelihoodLoss: [N, C, d...] without weights. */
static bool run_loss(const struct onnx_case *c) {
    if (c->nin > 2 && c->in[2].v) return false;
    struct classes k;
    char reduction[64];
    bool logs = strcmp(c->node->op_type, "SoftmaxCrossEntropyLoss") != 0;
    classes_of(&c->in[0], 1, &k);
    int64_t ignored = onnx_int(c, "ignore_index", INT64_MIN);
    for (int64_t r = 0; r < k.rows; r++) {
        int64_t target = (int64_t)c->in[1].v[r];
        ((int32_t *)k.target.data)[r] = target == ignored ? -1 : (int32_t)target;
    }
    struct mt_tensor m = SHAPED(NULL, k.rows), z = SHAPED(NULL, k.rows), sum = SCALAR(), counted = SCALAR();
    if (logs) {
        CALL(pick, &plain, NULL, (k.x, k.target), (k.l));
        for (int64_t r = 0; r < k.rows; r++) mt_type_store(type, k.l.data, r, -element(&k.l, r));
    } else {
        CALL(cross_entropy, &plain, NULL, (k.x, k.target), (m, z, k.l));
    }
    CALL(sum, (&(struct mt_attr){.axes = 1}), NULL, (k.l), (sum));
    CALL(count, &plain, NULL, (k.target), (counted));
    onnx_text(c, "reduction", "mean", reduction);
    if (!strcmp(reduction, "mean")) mt_type_store(type, sum.data, 0, element(&sum, 0) / element(&counted, 0));
    compare(c, 0, !strcmp(reduction, "none") ? &k.l : &sum);
    if (c->nout > 1) {
        struct mt_tensor y = SHAPED(NULL, k.rows, k.v);
        log_softmax(&k, &y);
        compare_rows(c, 1, 1, &y);
        FREE(y);
    }
    FREE(m, z, sum, counted);
    classes_free(&k);
    return true;
}

/* Axes from `axis` on are one to us; outputs y, mean and 1 / deviation. */
static bool run_layer_norm(const struct onnx_case *c) {
    const struct array *a = &c->in[0];
    int64_t axis = onnx_int(c, "axis", -1), e = 1;
    for (int i = (int)(axis < 0 ? axis + a->naxes : axis); i < a->naxes; i++) e *= a->extent[i];
    int64_t rows = a->count / e;
    struct mt_attr attr = {.eps = onnx_float(c, "epsilon", 1e-5)};
    struct mt_tensor x = SHAPED(a->v, rows, e), gamma = SHAPED(c->in[1].v, e), beta = SHAPED(c->in[2].v, e);
    struct mt_tensor y = SHAPED(NULL, rows, e), s = SHAPED(NULL, rows), q = SHAPED(NULL, rows);
    for (int fused = 0; fused < 2; fused++) {
        if (fused) {
            CALL(layer_norm, &attr, NULL, (x, gamma, beta), (y, s, q));
        } else {
            CALL(sum, (&(struct mt_attr){.axes = 2}), NULL, (x), (s));
            CALL(norm_sqdev, &attr, NULL, (x, s), (q));
            CALL(norm_apply, &attr, NULL, (x, s, q, gamma, beta), (y));
        }
        compare(c, 0, &y);
        for (int64_t r = 0; r < rows; r++) {
            mt_type_store(type, s.data, r, element(&s, r) / (double)e);
            mt_type_store(type, q.data, r, 1 / sqrt(element(&q, r) / (double)e + attr.eps));
        }
        if (c->nout > 1) compare(c, 1, &s);
        if (c->nout > 2) compare(c, 2, &q);
    }
    FREE(x, gamma, beta, y, s, q);
    return true;
}

/* Along axis 0, as rows of a table. */
static bool run_gather(const struct onnx_case *c) {
    const struct array *a = &c->in[0], *ids = &c->in[1];
    bool negative = false;
    for (int64_t i = 0; i < ids->count; i++) negative |= ids->v[i] < 0;
    if (onnx_int(c, "axis", 0) != 0 || negative) return false;
    int64_t v = a->extent[0], e = a->count / v;
    struct mt_tensor table = SHAPED(a->v, v, e), y = SHAPED(NULL, ids->count, e);
    struct mt_tensor id = shaped(MT_I32, ids->v, 1, (int64_t[]){ids->count});
    CALL(embedding, &plain, NULL, (table, id), (y));
    compare(c, 0, &y);
    FREE(table, y, id);
    return true;
}

static bool run_reduce_sum(const struct onnx_case *c) {
    const struct array *a = &c->in[0];
    unsigned axes = reduced_axes(c);
    struct mt_tensor x = shaped(type, a->v, a->naxes, a->extent), y = {.type = type};
    int64_t left[ONNX_MAX];
    int n = 0;
    for (int i = 0; i < a->naxes; i++)
        if (!(axes >> i & 1)) left[n++] = a->extent[i];
    y = shaped(type, NULL, n, left);
    CALL(sum, (&(struct mt_attr){.axes = axes}), NULL, (x), (y));
    compare(c, 0, &y);
    FREE(x, y);
    return true;
}

static bool run_reduce_rows(const struct onnx_case *c) {
    const struct array *a = &c->in[0];
    double *moved = malloc((size_t)a->count * sizeof(double));
    int64_t rows, v;
    move_last(a, reduced_axes(c), &rows, &v, moved);
    struct mt_tensor x = SHAPED(moved, rows, v), m = SHAPED(NULL, rows), z = SHAPED(NULL, rows);
    CALL(row_max, &plain, NULL, (x), (m));
    if (!strcmp(c->node->op_type, "ReduceLogSumExp")) {
        CALL(exp_sum, &plain, NULL, (x, m), (z));
        for (int64_t r = 0; r < rows; r++) mt_type_store(type, m.data, r, element(&m, r) + log(element(&z, r)));
    }
    compare(c, 0, &m);
    free(moved);
    FREE(x, m, z);
    return true;
}

static bool run_sum_square(const struct onnx_case *c) {
    if (c->out[0].count != 1) return false;
    struct mt_tensor x = SHAPED(c->in[0].v, c->in[0].count), y = SCALAR();
    CALL(sq_norm, &plain, NULL, (x), (y));
    compare(c, 0, &y);
    FREE(x, y);
    return true;
}

/* Without dropping: what is kept is divided by 1. */
static bool run_dropout(const struct onnx_case *c) {
    bool training = c->nin > 2 && c->in[2].v && c->in[2].v[0] != 0;
    if (training && c->in[1].v && c->in[1].v[0] != 0) return false;
    struct mt_tensor x = shaped(type, c->in[0].v, c->in[0].naxes, c->in[0].extent), y = x;
    CALL(dropout, &plain, NULL, (x), (y));
    compare(c, 0, &y);
    FREE(x);
    return true;
}

/* Inputs: rate, step, then weights, gradients and momenta of one or more tensors; outputs weights, then momenta. */
static bool run_momentum(const struct onnx_case *c) {
    char mode[64];
    int n = (c->nin - 2) / 3;
    struct mt_attr attr = {.momentum = onnx_float(c, "alpha", 0), .decay = onnx_float(c, "norm_coefficient", 0)};
    attr.lr_scale = 1;
    attr.nesterov = !strcmp(onnx_text(c, "mode", "", mode), "nesterov");
    if (c->in[1].v[0] != 0) return false; /* from the second step on, ONNX's beta scales the gradient */
    struct mt_clock clock = {.step = 1, .lr = c->in[0].v[0]};
    struct mt_tensor one = SCALAR();
    mt_type_store(type, one.data, 0, 1);
    for (int i = 0; i < n; i++) {
        const struct array *a = &c->in[2 + i];
        struct mt_tensor w = SHAPED(a->v, a->count), g = SHAPED(c->in[2 + n + i].v, a->count);
        struct mt_tensor m = SHAPED(c->in[2 + 2 * n + i].v, a->count);
        CALL(sgd, &attr, &clock, (w, m, g, one), (w, m));
        compare(c, i, &w);
        compare(c, n + i, &m);
        FREE(w, g, m);
    }
    FREE(one);
    return true;
}

static bool type_of(int onnx, enum mt_type *t) {
    *t = onnx == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE  ? MT_F64
         : onnx == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT ? MT_F32
                                                        : MT_BF16;
    return *t != MT_BF16 || onnx == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16;
}

static bool run_cast(const struct onnx_case *c) {
    enum mt_type from, to;
    if (!type_of(c->in[0].type, &from) || !type_of(c->out[0].type, &to)) return false;
    struct mt_tensor x = shaped(from, c->in[0].v, c->in[0].naxes, c->in[0].extent);
    struct mt_tensor y = shaped(to, NULL, c->in[0].naxes, c->in[0].extent);
    CALL(cast, (&(struct mt_attr){.to = to}), NULL, (x), (y));
    for (int64_t i = 0; i < c->out[0].count; i++) {
        double got = element(&y, i), want = c->out[0].v[i];
        CHECK(got == want || (got != got && want != want), "%s: [%lld] is %g, not %g", c->name, (long long)i, got,
              want);
    }
    FREE(x, y);
    return true;
}

/* Concat and Split: the parts as they are given, or as they must come out. */
static bool run_parts(const struct onnx_case *c, bool join) {
    const struct array *whole = join ? &c->out[0] : &c->in[0], *parts = join ? c->in : c->out;
    int n = join ? c->nin : c->nout, axis = (int)onnx_int(c, "axis", 0);
    struct mt_attr attr = {.axis = axis < 0 ? axis + whole->naxes : axis, .parts = n};
    if (n < 2 || n > MT_MAX_OUT) return false;
    struct mt_tensor x = shaped(type, join ? NULL : whole->v, whole->naxes, whole->extent), part[MT_MAX_OUT];
    for (int p = 0; p < n; p++) part[p] = shaped(type, join ? parts[p].v : NULL, parts[p].naxes, parts[p].extent);
    call_run(join ? call_of(MT_OP_join, &attr, NULL, n, part, 1, &x)
                  : call_of(MT_OP_separate, &attr, NULL, 1, &x, n, part));
    if (join) compare(c, 0, &x);
    for (int p = 0; p < n; p++) {
        if (!join) compare(c, p, &part[p]);
        FREE(part[p]);
    }
    FREE(x);
    return true;
}
static bool run_concat(const struct onnx_case *c) {
    return run_parts(c, true);
}
static bool run_split(const struct onnx_case *c) {
    return run_parts(c, false);
}

static const struct {
    const char *op;
    bool (*run)(const struct onnx_case *);
    int at_least; /* how many cases there are that it can run */
} runs[] = {
    {"Add", run_add, 2},
    {"Sum", run_add, 1},
    {"Relu", run_relu, 1},
    {"MatMul", run_matmul, 3},
    {"Gemm", run_gemm, 11},
    {"Softmax", run_softmax, 7},
    {"LogSoftmax", run_softmax, 7},
    {"SoftmaxCrossEntropyLoss", run_loss, 18},
    {"NegativeLogLikelihoodLoss", run_loss, 9},
    {"LayerNormalization", run_layer_norm, 19},
    {"Gather", run_gather, 1},
    {"ReduceSum", run_reduce_sum, 10},
    {"ReduceMax", run_reduce_rows, 8},
    {"ReduceLogSumExp", run_reduce_rows, 8},
    {"ReduceSumSquare", run_sum_square, 2},
    {"Dropout", run_dropout, 8},
    {"Momentum", run_momentum, 3},
    {"Cast", run_cast, 4},
    {"Concat", run_concat, 12},
    {"Split", run_split, 6},
};
enum { NRUNS = sizeof runs / sizeof *runs };

/* Runs the folder's case if there is an operator for it. */
static void run_folder(const char *folder, int *ran, int *left) {
    struct onnx_case c;
    if (onnx_case_open(folder, &c))
        for (int i = 0; i < NRUNS; i++) {
            if (strcmp(c.node->op_type, runs[i].op)) continue;
            onnx_case_read(folder, &c);
            type = MT_F64;
            bool done = runs[i].run(&c);
            onnx_case_free(&c);
            onnx_case_open(folder, &c);
            onnx_case_read(folder, &c);
            type = MT_F32;
            if (done) runs[i].run(&c);
            (done ? ran : left)[i]++;
        }
    onnx_case_free(&c);
}

int main(void) {
    int ran[NRUNS] = {0}, left[NRUNS] = {0};
    DIR *dir = opendir(MOTLEY_ONNX);
    CHECK(dir, "%s", MOTLEY_ONNX);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char folder[512];
        snprintf(folder, sizeof folder, MOTLEY_ONNX "/%s", entry->d_name);
        if (!strncmp(entry->d_name, "test_", 5)) run_folder(folder, ran, left);
    }
    closedir(dir);
    for (int i = 0; i < NRUNS; i++) printf("%-26s %2d run, %2d left out\n", runs[i].op, ran[i], left[i]);
    fflush(stdout);
    for (int i = 0; i < NRUNS; i++) CHECK(ran[i] >= runs[i].at_least, "%s: only %d run", runs[i].op, ran[i]);
    return 0;
}
#endif
