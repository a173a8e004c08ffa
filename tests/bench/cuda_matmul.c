/* How fast products run on the GPU: the library's first algorithm against the measured one; or, with `own`, the
 * library's measured one against our kernel's (MOTLEY_GEMM).
 *
 *     cuda_matmul [f32] [own] [124M] [1558M] [odd] [square] [pairs]      (bf16, and all shapes when none is named)
 *
 * GPT-2 of 124M parameters with 32 sequences of 1024, and of 1558M with 16: each layer's products as a step makes them,
 * forward with bias (and GELU), the gradient of the input (times GELU's slope), and those of weight and bias, in f32;
 * then the head with a vocabulary of 50257; then squares; then what each of two GPUs multiplies where tensor
 * parallelism divides a product in half. Both ways run in turns; a time is the least of the turns, over calls queued at
 * once. Choosing is what the first measured call of a shape took: with an empty $MOTLEY_CACHE all are measured anew. */
#include "kernels/base/arena.h"
#include "kernels/device/device.h"
#include "tests/check.h"

enum { SEQ = 1024, VOCAB = 50304, ODD_VOCAB = 50257, TURNS = 5, MOST_CALLS = 500, CHUNK = 1 << 22 };
static const double turn_s = 0.05, deadline_s = 300;

static struct mt_device *device;
static struct mt_stream *stream;
static struct mt_err err = MT_ERR_INIT;
static bool own; /* the library's against ours */
static enum mt_type type = MT_BF16;
static char *noise[MT_NTYPES]; /* CHUNK elements in [-1/2, 1/2) */

static void make_noise(enum mt_type of) {
    noise[of] = mt_malloc((size_t)(CHUNK * mt_type_size(of)));
    mt_type_noise(of, noise[of], CHUNK, -0.5, 1);
}

static struct mt_tensor tensor(enum mt_type of, int naxes, int64_t first, int64_t second) {
    struct mt_tensor t = {.type = of, .naxes = naxes, .extent = {first, second}, .global = {first, second}};
    int64_t bytes = mt_tensor_count(&t) * mt_type_size(of);
    CHECK_OK(mt_device_alloc(device, bytes, &t.data, &err), err);
    CHECK_OK(mt_device_repeat(device, t.data, bytes, noise[of], CHUNK * mt_type_size(of), &err), err);
    return t;
}

/* Seconds for `calls` of them; second: the second of what is compared. */
static double run(const struct mt_backend *backend, const struct mt_call *call, int calls, bool second) {
    setenv("MOTLEY_TUNE", own || second ? "on" : "off", 1);
    if (own) setenv("MOTLEY_GEMM", second ? "own" : "library", 1);
    double start = mt_now_s();
    for (int i = 0; i < calls; i++) mt_stream_op(stream, backend, call, NULL);
    CHECK_OK(mt_stream_sync(stream, deadline_s, &err), err);
    return mt_now_s() - start;
}

struct rates {
    double flops, first_s, best_s, choosing_s;
};

static struct rates compare(const struct mt_call *call, double flops) {
    struct mt_call c = *call;
    void *scratch = NULL;
    const struct mt_backend *backend = mt_device_backend(device, &c);
    CHECK(backend, "the device does not take it");
    int64_t bytes = backend->scratch_bytes(&c);
    if (bytes) CHECK_OK(mt_device_alloc(device, bytes, &scratch, &err), err);
    c.scratch = scratch;
    struct rates r = {.flops = flops, .first_s = INFINITY, .best_s = INFINITY};
    run(backend, &c, 1, false);
    double once = run(backend, &c, 1, false);
    r.choosing_s = run(backend, &c, 1, true);
    int calls = once * MOST_CALLS < turn_s ? MOST_CALLS : (int)ceil(turn_s / once);
    for (int turn = 0; turn < TURNS; turn++) {
        double first = run(backend, &c, calls, false) / calls, best = run(backend, &c, calls, true) / calls;
        if (first < r.first_s) r.first_s = first;
        if (best < r.best_s) r.best_s = best;
    }
    if (scratch) mt_device_free(device, scratch);
    return r;
}

static void print_rates(const char *name, const struct rates *r) {
    printf("%-34s %7.1f -> %7.1f TFLOP/s (%5.3f times), choosing %6.3f s\n", name, r->flops / r->first_s / 1e12,
           r->flops / r->best_s / 1e12, r->first_s / r->best_s, r->choosing_s);
}

/* One product, and what it is called. */
struct product {
    const char *name;
    int64_t m, n, k;
    bool ta, tb, weight; /* weight: y is f32 */
    bool fused;
    enum mt_op_kind epilogue;
};

static struct rates one(const struct product *p) {
    struct mt_attr attr = {
        .nm = 1, .nn = 1, .nk = 1, .trans_a = p->ta, .trans_b = p->tb, .out_acc = p->weight, .epilogue = p->epilogue};
    const struct mt_op_epilogue *epilogue = p->fused ? mt_op_epilogue(p->epilogue) : NULL;
    bool row = !epilogue || epilogue->bias, whole = epilogue && epilogue->whole;
    struct mt_tensor in[3] = {tensor(type, 2, p->ta ? p->k : p->m, p->ta ? p->m : p->k),
                              tensor(type, 2, p->tb ? p->n : p->k, p->tb ? p->k : p->n),
                              row ? tensor(type, 1, p->n, 1) : tensor(type, 2, p->m, p->n)};
    struct mt_tensor out[2] = {tensor(p->weight ? MT_F32 : type, 2, p->m, p->n),
                               whole ? tensor(type, 2, p->m, p->n) : tensor(MT_F32, 1, p->n, 1)};
    struct mt_call call = {.kind = p->fused ? MT_OP_fused_matmul : MT_OP_matmul,
                           .attr = &attr,
                           .nin = epilogue ? epilogue->nin : 2,
                           .nout = epilogue ? epilogue->nout : 1,
                           .in = in,
                           .out = out,
                           .what = p->name};
    CHECK_OK(mt_call_check(&call, &err), err);
    struct rates r = compare(&call, 2.0 * (double)p->m * (double)p->n * (double)p->k);
    char name[100];
    snprintf(name, sizeof name, "%s %lld %lld %lld", p->name, (long long)p->m, (long long)p->n, (long long)p->k);
    print_rates(name, &r);
    for (int i = 0; i < 3; i++) mt_device_free(device, in[i].data);
    for (int i = 0; i < 2; i++) mt_device_free(device, out[i].data);
    return r;
}

static void add(struct rates *sum, struct rates r, int times) {
    sum->flops += times * r.flops;
    sum->first_s += times * r.first_s, sum->best_s += times * r.best_s;
    sum->choosing_s += r.choosing_s;
}

/* The head's weight is the embedding table, stored [vocabulary, width]. */
static void head(struct rates *sum, int64_t rows, int64_t vocab, int64_t width) {
    add(sum, one(&(struct product){.name = "head y", .m = rows, .n = vocab, .k = width, .tb = true}), 1);
    add(sum, one(&(struct product){.name = "head dx", .m = rows, .n = width, .k = vocab}), 1);
    add(sum, one(&(struct product){.name = "head dw", .m = vocab, .n = width, .k = rows, .ta = true, .weight = true}),
        1);
}

static void print_sum(const struct rates *sum) {
    print_rates("all", sum);
    printf("  %.2f ms -> %.2f ms, choosing %.1f s\n", sum->first_s * 1e3, sum->best_s * 1e3, sum->choosing_s);
}

static void model(const char *name, int batch, int64_t width, int layers) {
    int64_t rows = (int64_t)batch * SEQ;
    const struct {
        const char *y, *dx, *dw;
        int64_t in, out;
        enum mt_op_kind epilogue, slope; /* slope: of what made the product's x, or none */
    } parts[] = {{"qkv y", "qkv dx", "qkv dw", width, 3 * width, MT_OP_add, 0},
                 {"projection y", "projection dx", "projection dw", width, width, MT_OP_add, 0},
                 {"up y gelu", "up dx", "up dw", width, 4 * width, MT_OP_gelu, 0},
                 {"down y", "down dx slope", "down dw", 4 * width, width, MT_OP_add, MT_OP_gelu_grad}};
    struct rates sum = {0};
    printf("%s, %s\n", name, mt_type_name(type));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        int64_t in = parts[i].in, out = parts[i].out;
        const struct product y = {
            .name = parts[i].y, .m = rows, .n = out, .k = in, .fused = true, .epilogue = parts[i].epilogue};
        const struct product dx = {.name = parts[i].dx,
                                   .m = rows,
                                   .n = in,
                                   .k = out,
                                   .tb = true,
                                   .fused = parts[i].slope,
                                   .epilogue = parts[i].slope};
        const struct product dw = {.name = parts[i].dw,
                                   .m = in,
                                   .n = out,
                                   .k = rows,
                                   .ta = true,
                                   .weight = true,
                                   .fused = true,
                                   .epilogue = MT_OP_sum};
        add(&sum, one(&y), layers), add(&sum, one(&dx), layers), add(&sum, one(&dw), layers);
    }
    head(&sum, rows, VOCAB, width);
    print_sum(&sum);
}

static void odd(void) {
    struct rates even = {0}, sum = {0};
    printf("the head of 124M, vocabularies of %d and %d, %s\n", VOCAB, ODD_VOCAB, mt_type_name(type));
    head(&even, 32 * SEQ, VOCAB, 768);
    head(&sum, 32 * SEQ, ODD_VOCAB, 768);
    print_sum(&even), print_sum(&sum);
    printf("  %.3f times as long\n", sum.best_s / even.best_s);
}

static void squares(void) {
    printf("squares, %s\n", mt_type_name(type));
    for (int64_t n = 1024; n <= 8192; n *= 2) one(&(struct product){.name = "square", .m = n, .n = n, .k = n});
}

/* Of M x K by K x N, N divided (weights by columns, then by rows), and the gradient of such a weight. */
static void pairs(void) {
    static const int64_t shapes[][3] = {{8192, 1024, 8192},  {8192, 2048, 8192},  {8192, 4096, 8192},
                                        {8192, 8192, 8192},  {4096, 14336, 4096}, {4096, 12288, 12288},
                                        {8192, 28672, 8192}, {16, 8192, 8192},    {64, 8192, 8192},
                                        {128, 8192, 8192},   {256, 8192, 8192}};
    printf("halves, %s\n", mt_type_name(type));
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int64_t m = shapes[i][0], n = shapes[i][1] / 2, k = shapes[i][2];
        one(&(struct product){.name = "columns", .m = m, .n = n, .k = k});
        one(&(struct product){.name = "rows", .m = m, .n = k, .k = n});
        one(&(struct product){.name = "columns, turned", .m = m, .n = n, .k = k, .tb = true});
        if (m > 256) one(&(struct product){.name = "gradient", .m = k, .n = n, .k = m, .ta = true, .weight = true});
    }
}

static bool chosen(int argc, char **argv, const char *section, bool any) {
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], section)) return true;
    return !any;
}

int main(int argc, char **argv) {
    bool f32 = chosen(argc, argv, "f32", true);
    own = chosen(argc, argv, "own", true);
    bool any = argc > 1 + f32 + own;
    type = f32 ? MT_F32 : MT_BF16;
    if (mt_device_open("cuda", &device, &err)) {
        mt_err_print(&err);
        return mt_exit_code(err.status);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("%s\n", mt_device_describe(device));
    CHECK_OK(mt_stream_new(device, "compute", &stream, &err), err);
    make_noise(MT_BF16), make_noise(MT_F32);
    if (chosen(argc, argv, "124M", any)) model("GPT-2 124M", 32, 768, 12);
    if (chosen(argc, argv, "1558M", any)) model("GPT-2 1558M", 16, 1600, 48);
    if (chosen(argc, argv, "odd", any)) odd();
    if (chosen(argc, argv, "square", any)) squares();
    if (chosen(argc, argv, "pairs", any)) pairs();
    mt_stream_free(stream);
    mt_device_close(device);
    return 0;
}
