/* Attention and its gradient: which kernel of attention.cu, with which tiles.
 *
 * Halves on sm_80 and later go to tensor cores, where heads have whole 16-byte parts; the rest to the kernels
 * without. Heads are padded with zeros to 32, 64, 96 or 128 elements. $MOTLEY_CUDA_ATTENTION is for tuning: the number
 * of the row of attention_tiles.def that its kernel shall use for heads of its size. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/cuda.h"

enum { HEAD_MOST = 128 };

/* As struct shape in attention.cu. */
struct shape {
    int64_t first, heads;
    uint64_t tag;
    int s, h;
    uint32_t threshold;
    float scale, scale2, grow;
};

enum kernel { FORWARD, DQ, DKDV };
enum { LARGE = 1, SMALL = 2 };
static const struct tiles {
    enum kernel kernel;
    int head, queries, keys, warps, stages, blocks, keep;
    unsigned default_for;
} tiles[] = {
#define TILES(...) {__VA_ARGS__},
#include "kernels/cuda/attention_tiles.def"
#undef TILES
};
enum { NTILES = sizeof tiles / sizeof *tiles };

static const struct {
    const char *definition, *name;
} kernels[] = {[FORWARD] = {"-DFORWARD=1", "attention_forward"},
               [DQ] = {"-DDQ=1", "attention_dq"},
               [DKDV] = {"-DDKDV=1", "attention_dkdv"}};

static const struct mt_tensor *qkv_of(const struct mt_call *call) {
    return &call->in[call->kind == MT_OP_attention ? 0 : 1];
}

static bool supports(const struct mt_call *call) {
    const struct mt_tensor *x = qkv_of(call);
    return (x->type == MT_F32 || mt_type_is_half(x->type)) && x->extent[4] <= HEAD_MOST &&
           x->extent[1] < INT32_MAX / 4 && 3 * x->extent[3] * x->extent[4] < INT32_MAX / 4;
}

static struct shape shape_of(const struct mt_call *call) {
    const struct mt_tensor *x = qkv_of(call);
    const struct mt_attr *t = call->attr;
    bool drop = t->p > 0;
    return (struct shape){.first = x->offset[0] * x->global[3] + x->offset[3],
                          .heads = x->global[3],
                          .tag = t->tag,
                          .s = (int)x->extent[1],
                          .h = (int)x->extent[3],
                          .threshold = drop ? mt_drop_threshold(t->p) : 0,
                          .scale = (float)t->scale,
                          .scale2 = (float)fmax(t->scale * M_LOG2E, 0x1p-100), /* hides keys even where it is 0 */
                          .grow = drop ? (float)(1 / (1 - t->p)) : 1};
}

/* Whether all memory of a call begins on whole parts of so many bytes. */
static bool aligned(const struct mt_call *call, uintptr_t size_bytes) {
    uintptr_t all = 0;
    for (int i = 0; i < call->nin; i++) all |= (uintptr_t)call->in[i].data;
    for (int i = 0; i < call->nout; i++) all |= (uintptr_t)call->out[i].data;
    return all % size_bytes == 0;
}

/* A kernel as it is launched for a call. */
struct launch {
    char definitions[256];
    int own, threads, shared_bytes; /* own: rows that a block keeps */
};

static int tile_bytes(const struct tiles *t) {
    int own = t->kernel == DKDV ? t->keys : t->queries, pass = t->kernel == DKDV ? t->queries : t->keys;
    int pair = 2 * pass * t->head * 2 + (t->kernel == DKDV ? 8 * pass : 0);
    return (t->kernel == FORWARD ? 1 : 2) * own * t->head * 2 + t->stages * pair;
}

static enum mt_status chosen_tiles(const struct cuda *cuda, enum kernel kernel, int head, const struct tiles **chosen,
                                   struct mt_err *err) {
    const char *given = getenv("MOTLEY_CUDA_ATTENTION");
    if (given) {
        char *end;
        long row = strtol(given, &end, 10);
        if (end == given || *end || row < 0 || row >= NTILES)
            return mt_fail(err, MT_EINPUT, "MOTLEY_CUDA_ATTENTION: \"%s\" is no row of attention_tiles.def (0 to %d)",
                           given, NTILES - 1);
        *chosen = &tiles[row];
        if (tiles[row].kernel == kernel && tiles[row].head == head) return MT_OK;
    }
    unsigned kind = cuda->shared_bytes > 160 * 1024 ? LARGE : SMALL;
    for (*chosen = tiles; *chosen < tiles + NTILES; ++*chosen)
        if ((*chosen)->kernel == kernel && (*chosen)->head == head && (*chosen)->default_for & kind) return MT_OK;
    return mt_fail(err, MT_EBUG, "attention: no tiles for heads of %d", head);
}

static enum mt_status with_tensor_cores(const struct cuda *cuda, enum kernel kernel, const struct mt_call *call,
                                        struct launch *l, struct mt_err *err) {
    int64_t s = qkv_of(call)->extent[1], d = qkv_of(call)->extent[4];
    const struct tiles *t;
    enum mt_status status = chosen_tiles(cuda, kernel, (int)(d + 31) / 32 * 32, &t, err);
    if (status) return status;
    l->own = kernel == DKDV ? t->keys : t->queries;
    l->threads = 32 * t->warps;
    l->shared_bytes = tile_bytes(t);
    if (l->shared_bytes > cuda->shared_bytes)
        return mt_fail(err, MT_EINPUT, "attention: these tiles want %d bytes of shared memory, a block has at most %d",
                       l->shared_bytes, cuda->shared_bytes);
    snprintf(l->definitions, sizeof l->definitions,
             "%s -DTENSOR=1 -DHALF=%s -DD=%d -DHEAD=%d -DCAUSAL=%d -DDROP=%d -DBLOCK_M=%d -DBLOCK_N=%d -DWARPS=%d "
             "-DSTAGES=%d "
             "-DBLOCKS=%d -DKEEP=%d",
             kernels[kernel].definition, cuda_type(qkv_of(call)->type), (int)d, t->head, call->attr->causal,
             call->attr->p <= 0 ? 0
             : s % 4            ? 1
                                : 4,
             t->queries, t->keys, t->warps, t->stages, t->blocks, t->keep);
    return MT_OK;
}

static void without_tensor_cores(const struct cuda *cuda, enum kernel kernel, const struct mt_call *call,
                                 struct launch *l) {
    const struct mt_tensor *x = qkv_of(call);
    int d = (int)x->extent[4], head = 0;
    for (l->own = 64; l->own >= 32; l->own /= 2) {
        head = d ? (d + l->own - 1) / l->own * l->own : l->own;
        int rows = (kernel == FORWARD ? 2 : 3) * (head + 4) + l->own + 4;
        l->shared_bytes = l->own * rows * (int)sizeof(float);
        if (l->shared_bytes <= cuda->shared_bytes || l->own == 32) break;
    }
    l->threads = l->own / 4 * (l->own / 4);
    int whole = d % 4 == 0 && aligned(call, 4 * (uintptr_t)mt_type_size(x->type)) ? 4 : 1;
    snprintf(l->definitions, sizeof l->definitions,
             "%s -DTYPE=%s -DD=%d -DHEAD=%d -DCAUSAL=%d -DDROP=%d -DBLOCK=%d -DVECTOR=%d", kernels[kernel].definition,
             cuda_type(x->type), d, head, call->attr->causal, call->attr->p > 0, l->own, whole);
}

static enum mt_status launch(const struct cuda_queue *queue, enum kernel kernel, const struct mt_call *call,
                             void **arguments, struct mt_err *err) {
    const struct mt_tensor *x = qkv_of(call);
    int64_t heads = x->extent[0] * x->extent[3], d = x->extent[4];
    struct launch l;
    enum mt_status status = MT_OK;
    if (mt_type_is_half(x->type) && queue->cuda->sm >= 80 && d && d % 8 == 0 && aligned(call, 16))
        status = with_tensor_cores(queue->cuda, kernel, call, &l, err);
    else
        without_tensor_cores(queue->cuda, kernel, call, &l);
    CUfunction function = NULL;
    if (!status)
        status =
            cuda_kernel(queue->cuda, "attention", l.definitions, kernels[kernel].name, l.shared_bytes, &function, err);
    if (status) return status;
    return cuda_launch(queue, function, heads * ((x->extent[1] + l.own - 1) / l.own), l.threads, l.shared_bytes,
                       arguments, err);
}

static enum mt_status forward(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    struct shape shape = shape_of(call);
    CUdeviceptr clock = queue->clock;
    const void *qkv = call->in[0].data;
    void *o = call->out[0].data, *lse = call->out[1].data;
    return launch(queue, FORWARD, call, (void *[]){&qkv, &o, &lse, &shape, &clock}, err);
}

static int64_t backward_bytes(const struct cuda *cuda, const struct mt_call *call) {
    (void)cuda;
    const struct mt_tensor *x = qkv_of(call);
    return x->extent[0] * x->extent[3] * x->extent[1] * 2 * (int64_t)sizeof(float); /* lse and delta of each query */
}

static enum mt_status backward(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    struct shape shape = shape_of(call);
    CUdeviceptr clock = queue->clock;
    const void *dout = call->in[0].data, *qkv = call->in[1].data, *o = call->in[2].data, *lse = call->in[3].data;
    void *dqkv = call->out[0].data, *rows = call->scratch;
    enum mt_status status =
        launch(queue, DQ, call, (void *[]){&dout, &qkv, &o, &lse, &dqkv, &rows, &shape, &clock}, err);
    if (status) return status;
    return launch(queue, DKDV, call, (void *[]){&dout, &qkv, &dqkv, &rows, &shape, &clock}, err);
}

const struct cuda_op cuda_attention = {supports, NULL, forward};
const struct cuda_op cuda_attention_grad = {supports, backward_bytes, backward};
