/* How fast the operators of GPT-2 124M run, four sequences of 1024 a step, in f32 and bf16.
 *
 *     ops [cpu] [products] [attention] [others]      (all of them when none is named)
 *
 * Each operator's time is the least of several runs. Products: forward and both gradients as a step makes them, with
 * their median rate; attention: as flops of the causal half; others, of plain C: as bytes read and written. With `cpu`
 * the time is the process's CPU time over its threads: for busy machines, with OMP_NUM_THREADS=1. */
#include <omp.h>
#include <stdarg.h>
#include <time.h>

#include "kernels/base/arena.h"
#include "kernels/op/op.h"
#include "tests/check.h"

enum { BATCH = 4, SEQ = 1024, HEADS = 12, SIZE = 64, EMBED = 768, FFN = 3072, VOCAB = 50257, REPEATS = 8 };

static const struct mt_backend *onednn;

static bool cpu_time;

static double now_s(void) {
    struct timespec t;
    clock_gettime(cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    double s = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    return cpu_time ? s / omp_get_max_threads() : s;
}

static struct mt_tensor tensor(enum mt_type type, int naxes, ...) {
    struct mt_tensor t = {.type = type, .naxes = naxes};
    va_list args;
    va_start(args, naxes);
    for (int a = 0; a < naxes; a++) t.extent[a] = t.global[a] = va_arg(args, int);
    va_end(args);
    int64_t n = mt_tensor_count(&t);
    t.data = mt_malloc((size_t)(n * mt_type_size(type)) + 64);
    mt_type_noise(type, t.data, n, type == MT_I32 ? 0 : -0.5, type == MT_I32 ? VOCAB : 1);
    return t;
}

/* The least seconds of a call, or -1 where the backend does not take it. Frees the tensors. */
static double time_call(const struct mt_backend *backend, enum mt_op_kind kind, const struct mt_attr *attr, int nin,
                        struct mt_tensor *in, int nout, struct mt_tensor *out) {
    struct mt_clock clock = {.step = 1, .seed = 1, .lr = 1e-4};
    struct mt_call call = {.kind = kind, .attr = attr, .nin = nin, .nout = nout, .in = in, .out = out, .clock = &clock};
    struct mt_err err = MT_ERR_INIT;
    double least = -1;
    if (backend->supports(&call)) {
        int64_t bytes = backend->scratch_bytes(&call);
        call.scratch = bytes ? aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64) : NULL;
        double all = 0;
        for (int i = 0; i < 2 || (i < REPEATS && all < 0.5); i++) {
            double start = now_s();
            CHECK_OK(backend->run(&call, &err), err);
            double took = now_s() - start;
            if (least < 0 || took < least) least = took;
            all += took;
        }
        free(call.scratch);
    }
    for (int i = 0; i < nin; i++) free(in[i].data);
    for (int i = 0; i < nout; i++) free(out[i].data);
    return least;
}

static double time_product(int m, int n, int k, bool ta, bool tb, bool accumulate, enum mt_type in, enum mt_type out) {
    struct mt_attr attr = {
        .nm = 1, .nn = 1, .nk = 1, .trans_a = ta, .trans_b = tb, .accumulate = accumulate, .out_acc = in != out};
    struct mt_tensor a[2] = {ta ? tensor(in, 2, k, m) : tensor(in, 2, m, k),
                             tb ? tensor(in, 2, n, k) : tensor(in, 2, k, n)};
    struct mt_tensor y = tensor(out, 2, m, n);
    return time_call(onednn, MT_OP_matmul, &attr, 2, a, 1, &y);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void products(enum mt_type type) {
    static const struct {
        const char *name;
        int in, out;
        bool stored_out_in; /* the head's weight is the embedding table */
    } layers[] = {{"qkv", EMBED, 3 * EMBED, false},
                  {"projection", EMBED, EMBED, false},
                  {"up", EMBED, FFN, false},
                  {"down", FFN, EMBED, false},
                  {"head", EMBED, VOCAB, true}};
    double rates[32], seconds = 0, flops = 0;
    int n = 0, rows = BATCH * SEQ;
    for (size_t l = 0; l < sizeof layers / sizeof *layers; l++) {
        int in = layers[l].in, out = layers[l].out;
        bool swapped = layers[l].stored_out_in;
        double work = 2.0 * rows * in * out;
        double times[] = {time_product(rows, out, in, false, swapped, false, type, type),
                          time_product(rows, in, out, false, !swapped, false, type, type),
                          swapped ? time_product(out, in, rows, true, false, false, type, MT_F32)
                                  : time_product(in, out, rows, true, false, false, type, MT_F32),
                          swapped ? time_product(out, in, rows, true, false, true, type, MT_F32)
                                  : time_product(in, out, rows, true, false, true, type, MT_F32)};
        printf("%-4s %-10s %5d -> %-5d  y %6.1f  dx %6.1f  dw %6.1f  dw+ %6.1f GF/s\n", mt_type_name(type),
               layers[l].name, in, out, work / times[0] / 1e9, work / times[1] / 1e9, work / times[2] / 1e9,
               work / times[3] / 1e9);
        int count = swapped ? 1 : 12;
        for (int i = 0; i < 4; i++) rates[n++] = work / times[i] / 1e9;
        seconds += count * (times[0] + times[1] + times[2]), flops += count * 3 * work;
    }
    qsort(rates, (size_t)n, sizeof *rates, by_value);
    printf("%-4s products: median %.1f GF/s; a step's %.2f TF take %.2f s (%.1f GF/s)\n", mt_type_name(type),
           (rates[n / 2] + rates[(n - 1) / 2]) / 2, flops / 1e12, seconds, flops / seconds / 1e9);
    struct mt_attr attr = {.nm = 1, .nn = 1, .nk = 1, .epilogue = MT_OP_gelu};
    struct mt_tensor in[3] = {tensor(type, 2, rows, EMBED), tensor(type, 2, EMBED, FFN), tensor(type, 1, FFN)};
    struct mt_tensor y[2] = {tensor(type, 2, rows, FFN), tensor(type, 2, rows, FFN)};
    double t = time_call(onednn, MT_OP_fused_matmul, &attr, 3, in, 2, y);
    printf("%-4s up with bias and gelu: %.1f ms, %.1f GF/s\n", mt_type_name(type), t * 1e3,
           2.0 * rows * EMBED * FFN / t / 1e9);
}

static void attention(enum mt_type type, double p) {
    double half = 2.0 * BATCH * HEADS * SEQ * SEQ * SIZE / 2; /* flops of a product over the causal half */
    struct mt_attr attr = {.scale = 0.125, .causal = true, .p = p, .tag = 7};
    struct mt_tensor qkv = tensor(type, 5, BATCH, SEQ, 3, HEADS, SIZE);
    struct mt_tensor out[2] = {tensor(type, 4, BATCH, SEQ, HEADS, SIZE), tensor(MT_F32, 3, BATCH, HEADS, SEQ)};
    double forward = time_call(onednn, MT_OP_attention_packed, &attr, 1, &qkv, 2, out);
    struct mt_tensor in[4] = {tensor(type, 4, BATCH, SEQ, HEADS, SIZE), tensor(type, 5, BATCH, SEQ, 3, HEADS, SIZE),
                              tensor(type, 4, BATCH, SEQ, HEADS, SIZE), tensor(MT_F32, 3, BATCH, HEADS, SEQ)};
    for (int64_t i = 0; i < mt_tensor_count(&in[3]); i++) ((float *)in[3].data)[i] += 7; /* about log 1024 */
    struct mt_tensor grad = tensor(type, 5, BATCH, SEQ, 3, HEADS, SIZE);
    double backward = time_call(onednn, MT_OP_attention_packed_grad, &attr, 4, in, 1, &grad);
    printf("%-4s attention p=%.1f: forward %.1f ms, %.1f GF/s; backward %.1f ms, %.1f GF/s\n", mt_type_name(type), p,
           forward * 1e3, 2 * half / forward / 1e9, backward * 1e3, 5 * half / backward / 1e9);
}

/* Operands are written as a type, T, A or I, and a letter an axis. */
static struct mt_tensor operand(enum mt_type type, const char *text, size_t length) {
    static const struct {
        char letter;
        int extent;
    } axes[] = {{'b', BATCH}, {'s', SEQ}, {'e', EMBED}, {'f', FFN}, {'v', VOCAB}, {'w', EMBED * FFN * 4}};
    int extent[4] = {1, 1, 1, 1}, naxes = (int)length - 1;
    for (int a = 0; a < naxes; a++)
        for (size_t i = 0; i < sizeof axes / sizeof *axes; i++)
            if (text[1 + a] == axes[i].letter) extent[a] = axes[i].extent;
    struct mt_tensor t = tensor(text[0] == 'I'   ? MT_I32
                                : text[0] == 'A' ? mt_type_acc(type)
                                                 : type,
                                naxes, extent[0], extent[1], extent[2], extent[3]);
    if (text[0] == 'A') /* statistics, second moments: positive */
        for (int64_t i = 0; i < mt_tensor_count(&t); i++) ((float *)t.data)[i] += 0.5f;
    return t;
}

static int operands(enum mt_type type, const char *text, struct mt_tensor *out, double *bytes) {
    int n = 0;
    while (*text) {
        size_t length = strcspn(text, " ");
        out[n] = operand(type, text, length);
        *bytes += (double)(mt_tensor_count(&out[n]) * mt_type_size(out[n].type));
        n++, text += length, text += strspn(text, " ");
    }
    return n;
}

static void others(enum mt_type type) {
    static const struct {
        enum mt_op_kind kind;
        const char *in, *out;
        struct mt_attr attr;
    } rows[] = {
        {MT_OP_add, "Tbse Tbse", "Tbse", {.axes = 7}},
        {MT_OP_add, "Tbsf Tf", "Tbsf", {.axes = 4}},
        {MT_OP_sum, "Tbsf", "Af", {.axes = 3}},
        {MT_OP_gelu, "Tbsf", "Tbsf", {0}},
        {MT_OP_gelu_grad, "Tbsf Tbsf", "Tbsf", {0}},
        {MT_OP_dropout, "Tbse", "Tbse", {.p = 0.1, .tag = 5}},
        {MT_OP_layer_norm, "Tbse Te Te", "Tbse Abs Abs", {.eps = 1e-5}},
        {MT_OP_residual_norm, "Tbse Tbse Te Te", "Tbse Tbse Abs Abs", {.eps = 1e-5}},
        {MT_OP_layer_norm_grad, "Tbse Tbse Abs Abs Te Tbse", "Tbse Ae Ae", {.eps = 1e-5}},
        {MT_OP_embedding, "Tve Ibs", "Tbse", {0}},
        {MT_OP_embedding_grad, "Tbse Ibs", "Ave", {0}},
        {MT_OP_cross_entropy, "Tbsv Ibs", "Abs Abs Abs", {0}},
        {MT_OP_cross_entropy_grad, "Tbsv Ibs", "Tbsv Abs", {.value = 1}},
        {MT_OP_nll_grad, "Tbsv Abs Abs Ibs Abs", "Tbsv", {0}},
        {MT_OP_cast, "Aw", "Tw", {0}},
        {MT_OP_sq_norm, "Aw", "A", {0}},
        {MT_OP_adamw, "Aw Aw Aw Aw A", "Aw Aw Aw", {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .lr_scale = 1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mt_tensor in[MT_MAX_IN], out[MT_MAX_OUT];
        struct mt_attr attr = rows[i].attr;
        attr.to = type;
        double bytes = 0;
        int nin = operands(type, rows[i].in, in, &bytes), nout = operands(type, rows[i].out, out, &bytes);
        double t = time_call(&mt_backend_c, rows[i].kind, &attr, nin, in, nout, out);
        printf("%-4s %-16s %-26s %8.2f ms, %5.1f GB/s\n", mt_type_name(type), mt_op_info[rows[i].kind].name, rows[i].in,
               t * 1e3, bytes / t / 1e9);
    }
}

static bool chosen(int argc, char **argv, const char *section) {
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], section)) return true;
    return argc == 1 + cpu_time;
}

int main(int argc, char **argv) {
    struct mt_err err = MT_ERR_INIT;
    onednn = mt_backend_onednn(&err);
    if (!onednn) {
        mt_err_print(&err);
        return mt_exit_code(err.status);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    cpu_time = argc > 1 && !strcmp(argv[1], "cpu");
    printf("%d threads\n", omp_get_max_threads());
    static const enum mt_type types[] = {MT_F32, MT_BF16};
    for (int i = 0; i < 2; i++) {
        if (chosen(argc, argv, "products")) products(types[i]);
        if (chosen(argc, argv, "attention")) attention(types[i], 0), attention(types[i], 0.1);
        if (chosen(argc, argv, "others")) others(types[i]);
    }
    return 0;
}
