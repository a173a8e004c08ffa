/* Each gradient operator against finite differences of its forward operators, in f64.
 *
 * A case is a function of some inputs to weighted outputs, L = sum of weight * output; its gradient operators give dL
 * by every input, which must equal (L(x + h) - L(x - h)) / 2h. */
#include "kernels/base/number/rng.h"
#include "tests/kernels/op/calls.h"

static const uint64_t seed = 7;
static const struct mt_clock the_clock = {.step = 4, .seed = 7, .lr = 0.1};

#define TENSOR(...) call_tensor(MT_F64, sizeof((int64_t[]){__VA_ARGS__}) / 8, (int64_t[]){__VA_ARGS__})

static struct mt_tensor normals(struct mt_tensor t, uint64_t stream) {
    for (int64_t i = 0; i < mt_tensor_count(&t); i++)
        ((double *)t.data)[i] = mt_random_normal(seed, stream, (uint64_t)i);
    return t;
}
#define NORMALS(stream, ...) normals(TENSOR(__VA_ARGS__), stream)

/* A case: forward(x, y) fills the outputs from the inputs; dy are the weights. */
struct problem {
    const char *name;
    int nx, ny;
    struct mt_tensor x[6], y[4], dx[6], dy[4];
    struct mt_tensor extra[6]; /* targets, statistics: of the case alone */
    struct mt_attr attr;
    void (*forward)(struct problem *);
    void (*backward)(struct problem *);
};

static double loss(struct problem *p) {
    double sum = 0;
    p->forward(p);
    for (int o = 0; o < p->ny; o++)
        for (int64_t i = 0; i < mt_tensor_count(&p->y[o]); i++)
            sum += ((double *)p->y[o].data)[i] * ((double *)p->dy[o].data)[i];
    return sum;
}

static void check(struct problem *p) {
    p->forward(p);
    p->backward(p);
    for (int k = 0; k < p->nx; k++) {
        double *x = p->x[k].data, *dx = p->dx[k].data, scale = 0;
        int64_t n = mt_tensor_count(&p->x[k]);
        for (int64_t i = 0; i < n; i++) scale = fmax(scale, fabs(dx[i]));
        CHECK(scale > 1e-3, "%s: gradient %d is nothing", p->name, k);
        for (int64_t i = 0; i < n; i++) {
            double old = x[i], h = 1e-5;
            x[i] = old + h;
            double above = loss(p);
            x[i] = old - h;
            double below = loss(p);
            x[i] = old;
            double want = (above - below) / (2 * h);
            CHECK(fabs(dx[i] - want) <= 1e-7 * (1 + scale), "%s: gradient %d [%lld] is %.12g, not %.12g", p->name, k,
                  (long long)i, dx[i], want);
        }
    }
    for (int k = 0; k < p->nx; k++) free(p->x[k].data), free(p->dx[k].data);
    for (int k = 0; k < p->ny; k++) free(p->y[k].data), free(p->dy[k].data);
    for (int k = 0; k < 6; k++) free(p->extra[k].data);
}

/* Inputs and outputs are there: make memory for gradients, and weights. */
static void prepare(struct problem *p) {
    while (p->x[p->nx].data) p->nx++;
    while (p->y[p->ny].data) p->ny++;
    for (int k = 0; k < p->nx; k++) p->dx[k] = call_tensor(MT_F64, p->x[k].naxes, p->x[k].extent);
    for (int k = 0; k < p->ny; k++)
        p->dy[k] = normals(call_tensor(MT_F64, p->y[k].naxes, p->y[k].extent), 100 + (uint64_t)k);
    check(p);
}

static void gelu_forward(struct problem *p) {
    CALL(gelu, &p->attr, &the_clock, (p->x[0]), (p->y[0]));
}
static void gelu_backward(struct problem *p) {
    CALL(gelu_grad, &p->attr, &the_clock, (p->dy[0], p->x[0]), (p->dx[0]));
}
static void relu_forward(struct problem *p) {
    CALL(relu, &p->attr, &the_clock, (p->x[0]), (p->y[0]));
}
static void relu_backward(struct problem *p) {
    CALL(relu_grad, &p->attr, &the_clock, (p->dy[0], p->x[0]), (p->dx[0]));
}
static void dropout_forward(struct problem *p) {
    CALL(dropout, &p->attr, &the_clock, (p->x[0]), (p->y[0]));
}
static void dropout_backward(struct problem *p) {
    CALL(dropout, &p->attr, &the_clock, (p->dy[0]), (p->dx[0]));
}

static void silu_forward(struct problem *p) {
    CALL(silu_mul, &p->attr, &the_clock, (p->x[0], p->x[1]), (p->y[0]));
}
static void silu_backward(struct problem *p) {
    CALL(silu_mul_grad, &p->attr, &the_clock, (p->dy[0], p->x[0], p->x[1]), (p->dx[0], p->dx[1]));
}
static void rotary_forward(struct problem *p) {
    CALL(rotary, &p->attr, &the_clock, (p->x[0]), (p->y[0]));
}
static void rotary_backward(struct problem *p) {
    struct mt_attr back = p->attr;
    back.inverse = true;
    CALL(rotary, &back, &the_clock, (p->dy[0]), (p->dx[0]));
}

static void element_wise(void) {
    prepare(&(struct problem){.name = "silu_mul",
                              .x = {NORMALS(1, 5, 7), NORMALS(2, 5, 7)},
                              .y = {TENSOR(5, 7)},
                              .forward = silu_forward,
                              .backward = silu_backward});
    prepare(&(struct problem){.name = "rotary",
                              .x = {NORMALS(1, 2, 9, 3, 6)},
                              .y = {TENSOR(2, 9, 3, 6)},
                              .attr = {.rope_base = 20},
                              .forward = rotary_forward,
                              .backward = rotary_backward});
    prepare(&(struct problem){.name = "gelu",
                              .x = {NORMALS(1, 5, 7)},
                              .y = {TENSOR(5, 7)},
                              .forward = gelu_forward,
                              .backward = gelu_backward});
    prepare(&(struct problem){.name = "relu",
                              .x = {NORMALS(1, 5, 7)},
                              .y = {TENSOR(5, 7)},
                              .forward = relu_forward,
                              .backward = relu_backward});
    prepare(&(struct problem){.name = "dropout",
                              .x = {NORMALS(1, 5, 7)},
                              .y = {TENSOR(5, 7)},
                              .attr = {.p = 0.4, .tag = 3},
                              .forward = dropout_forward,
                              .backward = dropout_backward});
}

static void matmul_forward(struct problem *p) {
    CALL(matmul, &p->attr, &the_clock, (p->x[0], p->x[1]), (p->y[0]));
}
static void matmul_backward(struct problem *p) {
    CALL(matmul, (&(struct mt_attr){.nm = 2, .nn = 1, .nk = 2, .trans_b = true}), &the_clock, (p->dy[0], p->x[1]),
         (p->dx[0]));
    CALL(matmul, (&(struct mt_attr){.nm = 1, .nn = 2, .nk = 2, .trans_a = true, .out_acc = true}), &the_clock,
         (p->x[0], p->dy[0]), (p->dx[1]));
}

static void sum_forward(struct problem *p) {
    CALL(sum, &p->attr, &the_clock, (p->x[0]), (p->y[0]));
}
static void sum_backward(struct problem *p) { /* a sum's gradient is given to every addend */
    CALL(fill, (&(struct mt_attr){.value = 0, .to = MT_F64}), &the_clock, (p->x[0]), (p->extra[0]));
    CALL(add, (&(struct mt_attr){.axes = 7u & ~p->attr.axes}), &the_clock, (p->extra[0], p->dy[0]), (p->dx[0]));
}
static void add_forward(struct problem *p) {
    CALL(add, &p->attr, &the_clock, (p->x[0], p->x[1]), (p->y[0]));
}
static void add_backward(struct problem *p) {
    memcpy(p->dx[0].data, p->dy[0].data, (size_t)mt_tensor_count(&p->dy[0]) * 8);
    CALL(sum, (&(struct mt_attr){.axes = 7u & ~p->attr.axes}), &the_clock, (p->dy[0]), (p->dx[1]));
}

static void embedding_forward(struct problem *p) {
    CALL(embedding, &p->attr, &the_clock, (p->x[0], p->extra[0]), (p->y[0]));
}
static void embedding_backward(struct problem *p) {
    CALL(embedding_grad, &p->attr, &the_clock, (p->dy[0], p->extra[0]), (p->dx[0]));
}

/* Whole numbers that repeat: ids, and targets of which some are not counted. */
static struct mt_tensor numbers(int64_t rows, int64_t columns, int first, int count) {
    struct mt_tensor t = call_tensor(MT_I32, 2, (int64_t[]){rows, columns});
    for (int64_t i = 0; i < rows * columns; i++)
        ((int32_t *)t.data)[i] = first + (int32_t)mt_random_below(seed, 9, (uint64_t)i, (uint64_t)count);
    return t;
}

static void linear(void) {
    prepare(&(struct problem){.name = "matmul",
                              .x = {NORMALS(1, 2, 3, 5), NORMALS(2, 5, 4, 2)},
                              .y = {TENSOR(2, 3, 4, 2)},
                              .attr = {.nm = 2, .nn = 2, .nk = 1},
                              .forward = matmul_forward,
                              .backward = matmul_backward});
    prepare(&(struct problem){.name = "sum",
                              .x = {NORMALS(1, 3, 4, 5)},
                              .y = {TENSOR(4)},
                              .attr = {.axes = 5},
                              .extra = {TENSOR(3, 4, 5)},
                              .forward = sum_forward,
                              .backward = sum_backward});
    prepare(&(struct problem){.name = "add",
                              .x = {NORMALS(1, 3, 4, 5), NORMALS(2, 3, 5)},
                              .y = {TENSOR(3, 4, 5)},
                              .attr = {.axes = 5},
                              .forward = add_forward,
                              .backward = add_backward});
    prepare(&(struct problem){.name = "embedding",
                              .x = {NORMALS(1, 6, 5)},
                              .y = {TENSOR(4, 5, 5)},
                              .extra = {numbers(4, 5, 0, 6)},
                              .forward = embedding_forward,
                              .backward = embedding_backward});
}

/* Layer norm in steps; extra: s, q, d1, d2. */
static void steps_forward(struct problem *p) {
    CALL(sum, (&(struct mt_attr){.axes = 4}), &the_clock, (p->x[0]), (p->extra[0]));
    CALL(norm_sqdev, &p->attr, &the_clock, (p->x[0], p->extra[0]), (p->extra[1]));
    CALL(norm_apply, &p->attr, &the_clock, (p->x[0], p->extra[0], p->extra[1], p->x[1], p->x[2]), (p->y[0]));
}
static void steps_backward(struct problem *p) {
    struct mt_tensor *x = p->x, *s = &p->extra[0], *q = &p->extra[1], *d1 = &p->extra[2], *d2 = &p->extra[3];
    CALL(norm_dots, &p->attr, &the_clock, (p->dy[0], x[0], *s, *q, x[1]), (*d1, *d2));
    CALL(norm_grad, &p->attr, &the_clock, (p->dy[0], x[0], *s, *q, x[1], *d1, *d2), (p->dx[0]));
    CALL(norm_param_grad, &p->attr, &the_clock, (p->dy[0], x[0], *s, *q), (p->dx[1], p->dx[2]));
}

static void fused_forward(struct problem *p) {
    CALL(layer_norm, &p->attr, &the_clock, (p->x[0], p->x[1], p->x[2]), (p->y[0], p->extra[0], p->extra[1]));
}
static void fused_backward(struct problem *p) {
    CALL(layer_norm_grad, &p->attr, &the_clock, (p->dy[0], p->x[0], p->extra[0], p->extra[1], p->x[1]),
         (p->dx[0], p->dx[1], p->dx[2]));
}

/* Inputs a, gamma, beta, b; outputs x = a + b and its norm. The gradient that comes to x is added. */
static void residual_forward(struct problem *p) {
    CALL(residual_norm, &p->attr, &the_clock, (p->x[0], p->x[3], p->x[1], p->x[2]),
         (p->y[0], p->y[1], p->extra[0], p->extra[1]));
}
static void residual_backward(struct problem *p) {
    CALL(layer_norm_grad, &p->attr, &the_clock, (p->dy[1], p->y[0], p->extra[0], p->extra[1], p->x[1], p->dy[0]),
         (p->dx[0], p->dx[1], p->dx[2]));
    memcpy(p->dx[3].data, p->dx[0].data, (size_t)mt_tensor_count(&p->dx[0]) * 8);
}

static void norms(void) {
    prepare(&(struct problem){.name = "layer norm in steps",
                              .x = {NORMALS(1, 3, 4, 7), NORMALS(2, 7), NORMALS(3, 7)},
                              .y = {TENSOR(3, 4, 7)},
                              .extra = {TENSOR(3, 4), TENSOR(3, 4), TENSOR(3, 4), TENSOR(3, 4)},
                              .attr = {.eps = 1e-5},
                              .forward = steps_forward,
                              .backward = steps_backward});
    prepare(&(struct problem){.name = "layer_norm",
                              .x = {NORMALS(1, 3, 4, 7), NORMALS(2, 7), NORMALS(3, 7)},
                              .y = {TENSOR(3, 4, 7)},
                              .extra = {TENSOR(3, 4), TENSOR(3, 4)},
                              .attr = {.eps = 1e-5},
                              .forward = fused_forward,
                              .backward = fused_backward});
    prepare(&(struct problem){.name = "residual_norm",
                              .x = {NORMALS(1, 3, 4, 7), NORMALS(2, 7), NORMALS(3, 7), NORMALS(4, 3, 4, 7)},
                              .y = {TENSOR(3, 4, 7), TENSOR(3, 4, 7)},
                              .extra = {TENSOR(3, 4), TENSOR(3, 4)},
                              .attr = {.eps = 1e-5},
                              .forward = residual_forward,
                              .backward = residual_backward});
}

/* Root-mean-square norm in steps; extra: q, d. */
static void rms_forward(struct problem *p) {
    CALL(rms_sq, &p->attr, &the_clock, (p->x[0]), (p->extra[0]));
    CALL(rms_apply, &p->attr, &the_clock, (p->x[0], p->extra[0], p->x[1]), (p->y[0]));
}
static void rms_backward(struct problem *p) {
    struct mt_tensor *x = p->x, *q = &p->extra[0], *d = &p->extra[1];
    CALL(rms_dot, &p->attr, &the_clock, (p->dy[0], x[0], *q, x[1]), (*d));
    CALL(rms_grad, &p->attr, &the_clock, (p->dy[0], x[0], *q, x[1], *d), (p->dx[0]));
    CALL(rms_param_grad, &p->attr, &the_clock, (p->dy[0], x[0], *q), (p->dx[1]));
}

static void fused_rms_forward(struct problem *p) {
    CALL(rms_norm, &p->attr, &the_clock, (p->x[0], p->x[1]), (p->y[0], p->extra[0]));
}
static void fused_rms_backward(struct problem *p) {
    CALL(rms_norm_grad, &p->attr, &the_clock, (p->dy[0], p->x[0], p->extra[0], p->x[1]), (p->dx[0], p->dx[1]));
}

/* Inputs a, gamma, b; outputs x = a + b and its norm. The gradient that comes to x is added. */
static void residual_rms_forward(struct problem *p) {
    CALL(residual_rms, &p->attr, &the_clock, (p->x[0], p->x[2], p->x[1]), (p->y[0], p->y[1], p->extra[0]));
}
static void residual_rms_backward(struct problem *p) {
    CALL(rms_norm_grad, &p->attr, &the_clock, (p->dy[1], p->y[0], p->extra[0], p->x[1], p->dy[0]),
         (p->dx[0], p->dx[1]));
    memcpy(p->dx[2].data, p->dx[0].data, (size_t)mt_tensor_count(&p->dx[0]) * 8);
}

static void rms_norms(void) {
    prepare(&(struct problem){.name = "rms_norm",
                              .x = {NORMALS(1, 3, 4, 7), NORMALS(2, 7)},
                              .y = {TENSOR(3, 4, 7)},
                              .extra = {TENSOR(3, 4)},
                              .attr = {.eps = 1e-2},
                              .forward = fused_rms_forward,
                              .backward = fused_rms_backward});
    prepare(&(struct problem){.name = "residual_rms",
                              .x = {NORMALS(1, 3, 4, 7), NORMALS(2, 7), NORMALS(3, 3, 4, 7)},
                              .y = {TENSOR(3, 4, 7), TENSOR(3, 4, 7)},
                              .extra = {TENSOR(3, 4)},
                              .attr = {.eps = 1e-2},
                              .forward = residual_rms_forward,
                              .backward = residual_rms_backward});
    prepare(&(struct problem){.name = "root-mean-square norm in steps",
                              .x = {NORMALS(1, 3, 4, 7), NORMALS(2, 7)},
                              .y = {TENSOR(3, 4, 7)},
                              .extra = {TENSOR(3, 4), TENSOR(3, 4)},
                              .attr = {.eps = 1e-2},
                              .forward = rms_forward,
                              .backward = rms_backward});
}

static void packed_forward(struct problem *p) {
    CALL(attention_packed, &p->attr, &the_clock, (p->x[0]), (p->y[0], p->extra[0]));
}
static void packed_backward(struct problem *p) {
    CALL(attention_packed_grad, &p->attr, &the_clock, (p->dy[0], p->x[0], p->y[0], p->extra[0]), (p->dx[0]));
}
static void attention_forward(struct problem *p) {
    CALL(attention, &p->attr, &the_clock, (p->x[0], p->x[1]), (p->y[0], p->extra[0]));
}
static void attention_backward(struct problem *p) {
    CALL(attention_grad, &p->attr, &the_clock, (p->dy[0], p->x[0], p->x[1], p->y[0], p->extra[0]),
         (p->dx[0], p->dx[1]));
}
/* Queries from position 6 of 11 on. */
static void late_forward(struct problem *p) {
    p->x[0].offset[1] = p->y[0].offset[1] = p->extra[0].offset[2] = 6;
    p->x[0].global[1] = p->y[0].global[1] = p->extra[0].global[2] = 11;
    attention_forward(p);
}
static void parts_forward(struct problem *p) {
    CALL(separate, &p->attr, &the_clock, (p->x[0]), (p->y[0], p->y[1]));
}
static void parts_backward(struct problem *p) {
    CALL(join, &p->attr, &the_clock, (p->dy[0], p->dy[1]), (p->dx[0]));
}
static void whole_forward(struct problem *p) {
    CALL(join, &p->attr, &the_clock, (p->x[0], p->x[1]), (p->y[0]));
}
static void whole_backward(struct problem *p) {
    CALL(separate, &p->attr, &the_clock, (p->dy[0]), (p->dx[0], p->dx[1]));
}

static void attentions(void) {
    static const struct mt_attr attrs[] = {{.scale = 0.5},
                                           {.scale = 0.5, .causal = true},
                                           {.scale = 0.5, .causal = true, .p = 0.3, .tag = 2},
                                           {.scale = 0.5, .causal = true, .window = 4}};
    for (int i = 0; i < 4; i++) {
        prepare(&(struct problem){.name = i == 0   ? "attention"
                                          : i == 1 ? "causal attention"
                                          : i == 3 ? "attention in a window"
                                                   : "attention with dropout",
                                  .x = {NORMALS(1, 2, 11, 3, 2, 4)},
                                  .y = {TENSOR(2, 11, 2, 4)},
                                  .extra = {TENSOR(2, 2, 11)},
                                  .attr = attrs[i],
                                  .forward = packed_forward,
                                  .backward = packed_backward});
        prepare(&(struct problem){.name = "attention, 7 queries of 2 grouped heads, 9 keys",
                                  .x = {NORMALS(1, 2, 7, 2, 3, 4), NORMALS(2, 2, 9, 2, 2, 4)},
                                  .y = {TENSOR(2, 7, 2, 3, 4)},
                                  .extra = {TENSOR(2, 2, 3, 7)},
                                  .attr = attrs[i],
                                  .forward = attention_forward,
                                  .backward = attention_backward});
        prepare(&(struct problem){.name = "attention of later queries",
                                  .x = {NORMALS(1, 2, 5, 4, 3), NORMALS(2, 2, 11, 2, 2, 3)},
                                  .y = {TENSOR(2, 5, 4, 3)},
                                  .extra = {TENSOR(2, 4, 5)},
                                  .attr = attrs[i],
                                  .forward = late_forward,
                                  .backward = attention_backward});
    }
    prepare(&(struct problem){.name = "separate",
                              .x = {NORMALS(1, 3, 5, 2)},
                              .y = {TENSOR(3, 2), TENSOR(3, 4, 2)},
                              .attr = {.axis = 1, .parts = 2},
                              .forward = parts_forward,
                              .backward = parts_backward});
    prepare(&(struct problem){.name = "join",
                              .x = {NORMALS(1, 3, 4, 2), NORMALS(2, 3, 2)},
                              .y = {TENSOR(3, 5, 2)},
                              .attr = {.axis = 1, .parts = 2},
                              .forward = whole_forward,
                              .backward = whole_backward});
}

/* Cross entropy; extra: targets, m, z, picked. */
static void entropy_forward(struct problem *p) {
    struct mt_tensor *target = &p->extra[0], *m = &p->extra[1], *z = &p->extra[2], *picked = &p->extra[3];
    CALL(row_max, &p->attr, &the_clock, (p->x[0]), (*m));
    CALL(exp_sum, &p->attr, &the_clock, (p->x[0], *m), (*z));
    CALL(pick, &p->attr, &the_clock, (p->x[0], *target), (*picked));
    CALL(nll, &p->attr, &the_clock, (*m, *z, *picked, *target), (p->y[0]));
}
static void fused_entropy_forward(struct problem *p) {
    CALL(cross_entropy, &p->attr, &the_clock, (p->x[0], p->extra[0]), (p->extra[1], p->extra[2], p->y[0]));
}
static void entropy_backward(struct problem *p) {
    CALL(nll_grad, &p->attr, &the_clock, (p->x[0], p->extra[1], p->extra[2], p->extra[0], p->dy[0]), (p->dx[0]));
}

static void entropies(void) {
    for (int fused = 0; fused < 2; fused++)
        prepare(&(struct problem){.name = fused ? "cross_entropy" : "cross entropy in steps",
                                  .x = {NORMALS(1, 3, 5, 9)},
                                  .y = {TENSOR(3, 5)},
                                  .extra = {numbers(3, 5, -1, 10), TENSOR(3, 5), TENSOR(3, 5), TENSOR(3, 5)},
                                  .forward = fused ? fused_entropy_forward : entropy_forward,
                                  .backward = entropy_backward});
}

int main(void) {
    fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    element_wise();
    linear();
    norms();
    rms_norms();
    attentions();
    entropies();
    return 0;
}
