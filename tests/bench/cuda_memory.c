/* How near memory-bound operators come to the memory's speed on a CUDA device, in bf16.
 *
 *     bench_cuda_memory [EMBED]      (768 when it is not given)
 *
 * Shapes of GPT-2 124M with batch 32: 32768 rows; of the Llama family's operators, heads have 64 elements. The bytes
 * are the operands', each once (of tables the rows that are wanted); the ceiling is a device copy of 1 GiB. Times are
 * the least of several, of a call among calls: the multiprocessors do not begin idle. */
#include "kernels/device/device.h"
#include "profiler/cluster/shape.h"
#include "tests/check.h"

enum { BATCH = 32, SEQ = 1024, VOCAB = 50304, REPEATS = 9, CHAIN = 4 };

static struct mt_device *device;
static struct mt_stream *stream;
static char *arena;
static int64_t arena_bytes;

/* A type, then an axis a letter: b batch, s seq, e embed, f 4 embed, q 3 embed, h heads, d of a head, v vocab. '='
 * after an output: in the memory of the input that may be worked on in place. */
static const struct row {
    enum mt_op_kind kind;
    const char *in, *out;
    struct mt_attr attr;
} rows[] = {
    {MT_OP_cross_entropy_grad, "Tbsv Ibs", "Tbsv= Abs", {.value = 1}},
    {MT_OP_cross_entropy, "Tbsv Ibs", "Abs Abs Abs", {0}},
    {MT_OP_nll_grad, "Tbsv Abs Abs Ibs Abs", "Tbsv=", {0}},
    {MT_OP_layer_norm, "Tbse Te Te", "Tbse Abs Abs", {.eps = 1e-5}},
    {MT_OP_residual_norm, "Tbse Tbse Te Te", "Tbse= Tbse Abs Abs", {.eps = 1e-5}},
    {MT_OP_layer_norm_grad, "Tbse Tbse Abs Abs Te", "Tbse= Ae Ae", {.eps = 1e-5}},
    {MT_OP_layer_norm_grad, "Tbse Tbse Abs Abs Te Tbse", "Tbse= Ae Ae", {.eps = 1e-5}},
    {MT_OP_layer_norm_grad, "Tbse Tbse Abs Abs Te Tbse", "Tbse= Ae Ae Ae", {.eps = 1e-5, .epilogue = MT_OP_sum}},
    {MT_OP_rms_norm, "Tbse Te", "Tbse Abs", {.eps = 1e-5}},
    {MT_OP_residual_rms, "Tbse Tbse Te", "Tbse= Tbse Abs", {.eps = 1e-5}},
    {MT_OP_rms_norm_grad, "Tbse Tbse Abs Te", "Tbse= Ae", {.eps = 1e-5}},
    {MT_OP_rms_norm_grad, "Tbse Tbse Abs Te Tbse", "Tbse= Ae", {.eps = 1e-5}},
    {MT_OP_rms_sq, "Tbse", "Abs", {.eps = 1e-5}},
    {MT_OP_rms_apply, "Tbse Abs Te", "Tbse", {.eps = 1e-5}},
    {MT_OP_rms_dot, "Tbse Tbse Abs Te", "Abs", {.eps = 1e-5}},
    {MT_OP_rms_grad, "Tbse Tbse Abs Te Abs", "Tbse=", {.eps = 1e-5}},
    {MT_OP_rms_param_grad, "Tbse Tbse Abs", "Ae", {.eps = 1e-5}},
    {MT_OP_silu_mul, "Tbsf Tbsf", "Tbsf=", {0}},
    {MT_OP_silu_mul_grad, "Tbsf Tbsf Tbsf", "Tbsf= Tbsf=", {0}},
    {MT_OP_rotary, "Tbshd", "Tbshd=", {.rope_base = 10000}},
    {MT_OP_rotary, "Tbshd", "Tbshd", {.rope_base = 10000, .inverse = true}},
    {MT_OP_gelu, "Tbsf", "Tbsf", {0}},
    {MT_OP_gelu_grad, "Tbsf Tbsf", "Tbsf=", {0}},
    {MT_OP_dropout, "Tbse", "Tbse=", {.p = 0.1, .tag = 5}},
    {MT_OP_add, "Tbse Tbse", "Tbse=", {.axes = 7}},
    {MT_OP_add, "Tbse Tse", "Tbse=", {.axes = 6}},
    {MT_OP_sum, "Tbse", "Ae", {.axes = 3}},
    {MT_OP_sum, "Tbsq", "Aq", {.axes = 3}},
    {MT_OP_sum, "Tbsf", "Af", {.axes = 3}},
    {MT_OP_sum, "Tbse", "Ase", {.axes = 1}},
    {MT_OP_embedding, "Tve Ibs", "Tbse", {0}},
    {MT_OP_embedding_grad, "Tbse Ibs", "Ave", {.accumulate = true}},
    {MT_OP_cast, "Ave", "Tve", {.to = MT_BF16}},
    {MT_OP_fill, "Ave", "Ave", {.to = MT_F32}},
    {MT_OP_sq_norm, "Ave", "A", {0}},
    {MT_OP_adamw, "Ave Ave Ave Ave A", "Ave= Ave= Ave=", {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .lr_scale = 1}},
    {MT_OP_sgd, "Ave Ave Ave A", "Ave= Ave=", {.momentum = 0.9, .lr_scale = 1}},
};

static int64_t extent_of(char letter, int64_t embed) {
    switch (letter) {
    case 'b': return BATCH;
    case 's': return SEQ;
    case 'e': return embed;
    case 'q': return 3 * embed;
    case 'f': return 4 * embed;
    case 'h': return embed / 64;
    case 'd': return 64;
    default: return VOCAB;
    }
}

/* `extent`: of all axes, or 0: as the letters say. Returns how many operands there are. */
static int describe(const char *text, int64_t embed, const struct mt_op_info *info, int nin, struct mt_tensor *t,
                    int64_t *place, int64_t *top) {
    int n = 0;
    for (const char *word = text; *word; n++) {
        size_t length = strcspn(word, " ");
        bool in_place = word[length - 1] == '=';
        struct mt_tensor *x = &t[n];
        *x = (struct mt_tensor){.type = *word == 'T' ? MT_BF16 : *word == 'A' ? MT_F32 : MT_I32};
        for (size_t i = 1; i < length - in_place; i++, x->naxes++)
            x->extent[x->naxes] = x->global[x->naxes] = extent_of(word[i], embed);
        if (in_place) {
            place[n] = place[info->in_place[n] - nin]; /* of the inputs, which lie before */
        } else {
            place[n] = *top;
            *top += (mt_tensor_count(x) * mt_type_size(x->type) + 255) / 256 * 256;
        }
        x->data = arena + place[n];
        word += length, word += strspn(word, " ");
    }
    return n;
}

static double least_seconds(const struct mt_call *call) {
    struct mt_err err = MT_ERR_INIT;
    const struct mt_backend *backend = mt_device_backend(device, call);
    double least = INFINITY, times[CHAIN][2];
    CHECK_OK(mt_call_check(call, &err), err);
    for (int i = 0; i < REPEATS; i++) {
        for (int c = 0; c < CHAIN; c++) mt_stream_op(stream, backend, call, times[c]);
        CHECK_OK(mt_stream_sync(stream, 60, &err), err);
        for (int c = 1; c < CHAIN; c++) least = fmin(least, times[c][1] - times[c][0]);
    }
    return least;
}

/* Ids in [0, VOCAB), everything else small numbers: bits that are a number in every type. */
static void fill_arena(void) {
    struct mt_err err = MT_ERR_INIT;
    enum { PIECE = 1 << 24 };
    uint16_t *bits = malloc(PIECE);
    uint32_t x = 12345;
    for (int i = 0; i < PIECE / 2; i++) {
        x = x * 1664525u + 1013904223u;
        bits[i] = (uint16_t)(0x3e00 | (x >> 9 & 0x80ff) | (x >> 20 & 0x100)); /* about -0.5 to 0.5 */
    }
    CHECK_OK(mt_device_repeat(device, arena, arena_bytes, bits, PIECE, &err), err);
    free(bits);
}

static void set_ids(const struct mt_tensor *t) {
    struct mt_err err = MT_ERR_INIT;
    int64_t n = mt_tensor_count(t);
    int32_t *ids = malloc((size_t)n * sizeof *ids);
    uint64_t x = 9;
    for (int64_t i = 0; i < n; i++) { /* small ones more often, as in text */
        x = x * 6364136223846793005u + 1442695040888963407u;
        double u = (double)(x >> 11) * 0x1p-53;
        ids[i] = (int32_t)(VOCAB * u * u * u);
    }
    CHECK_OK(mt_device_copy_in(device, t->data, ids, n * (int64_t)sizeof *ids, &err), err);
    free(ids);
}

static double measure(const struct row *row, int64_t embed, double *bytes) {
    struct mt_tensor t[MT_MAX_IN + MT_MAX_OUT];
    struct mt_clock clock = {.step = 100, .seed = 3, .lr = 1e-4};
    const struct mt_op_info *info = &mt_op_info[row->kind];
    int64_t place[MT_MAX_IN + MT_MAX_OUT], top = 0;
    int nin = describe(row->in, embed, info, 0, t, place, &top);
    int nout = describe(row->out, embed, info, nin, t + nin, place + nin, &top);
    for (int i = 0; i < nin; i++)
        if (t[i].type == MT_I32) set_ids(&t[i]);
    struct mt_call call = {
        .kind = row->kind, .attr = &row->attr, .nin = nin, .nout = nout, .in = t, .out = t + nin, .clock = &clock};
    struct mt_op_shape shape;
    mt_op_shape(&call, &shape);
    *bytes = shape.bytes;
    int64_t scratch = mt_device_backend(device, &call)->scratch_bytes(&call);
    CHECK(top + scratch <= arena_bytes);
    call.scratch = scratch ? arena + top : NULL;
    return least_seconds(&call);
}

int main(int argc, char **argv) {
    struct mt_err err = MT_ERR_INIT;
    int64_t embed = argc > 1 ? atol(argv[1]) : 768;
    if (mt_device_open("cuda", &device, &err)) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    void *memory;
    arena_bytes = INT64_C(10) << 30;
    CHECK_OK(mt_device_alloc(device, arena_bytes, &memory, &err), err);
    CHECK_OK(mt_stream_new(device, "compute", &stream, &err), err);
    arena = memory;
    fill_arena();
    const int64_t n = INT64_C(1) << 28;
    struct mt_attr to = {.to = MT_F32};
    struct mt_tensor x = {arena, MT_F32, 1, {n}, {0}, {n}}, y = x;
    y.data = arena + 4 * n;
    struct mt_call copy = {.kind = MT_OP_cast, .attr = &to, .nin = 1, .nout = 1, .in = &x, .out = &y};
    double ceiling = 8 * (double)n / least_seconds(&copy);
    printf("%s\na copy: %.0f GB/s\n\n%-20s %-34s %9s %9s %9s %7s\n", mt_device_describe(device), ceiling / 1e9, "", "",
           "MB", "us", "GB/s", "copy's");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double bytes, s = measure(&rows[i], embed, &bytes);
        printf("%-20s %-34s %9.1f %9.1f %9.0f %6.0f%%\n", mt_op_info[rows[i].kind].name, rows[i].in, bytes / 1e6,
               s * 1e6, bytes / s / 1e9, 100 * bytes / s / ceiling);
        fflush(stdout);
    }
    mt_stream_free(stream);
    mt_device_free(device, memory);
    mt_device_close(device);
    return 0;
}
