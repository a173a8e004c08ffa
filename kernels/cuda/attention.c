/* Attention and its gradient: which kernel of attention.cu, with which tiles.
 *
 * bf16 on sm_80 and later goes to tensor cores, where heads have whole 16-byte parts; the rest to the kernels without.
 * Heads are padded with zeros to 32, 64, 96 or 128 elements. $MOTLEY_CUDA_ATTENTION is for tuning: the number of the
 * row of attention_tiles.def that its kernel shall use for heads of its size. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/variant.h"

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
    return (x->type == MT_F32 || x->type == MT_BF16) && x->extent[4] <= HEAD_MOST && x->extent[1] < INT32_MAX / 4 &&
           3 * x->extent[3] * x->extent[4] < INT32_MAX / 4;
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

static int padded_head(const struct mt_call *call) {
    return (int)(qkv_of(call)->extent[4] + 31) / 32 * 32;
}

static const struct tiles *default_tiles(const struct cuda *cuda, enum kernel kernel, int head) {
    unsigned kind = cuda->shared_bytes > 160 * 1024 ? LARGE : SMALL;
    int i = 0;
    while (tiles[i].kernel != kernel || tiles[i].head != head || !(tiles[i].default_for & kind)) i++;
    return &tiles[i];
}

/* Variants are rows of the table. */
static int tile_variants(const struct cuda *cuda, const struct mt_call *call, enum kernel kernel,
                         struct cuda_variant *list) {
    const struct tiles *first = default_tiles(cuda, kernel, padded_head(call));
    int count = 0;
    for (int pass = 0; pass < 2; pass++)
        for (const struct tiles *t = tiles; t < tiles + NTILES; t++) {
            if (t->kernel != kernel || t->head != first->head || (t == first) != !pass) continue;
            if (pass && tile_bytes(t) > cuda->shared_bytes) continue;
            list[count++] =
                (struct cuda_variant){{t->queries, t->keys, t->warps, t->stages, t->blocks, t->keep}};
        }
    return count;
}
static int forward_variants(const struct cuda *cuda, const struct mt_call *call, struct cuda_variant *list) {
    return tile_variants(cuda, call, FORWARD, list);
}
static int dq_variants(const struct cuda *cuda, const struct mt_call *call, struct cuda_variant *list) {
    return tile_variants(cuda, call, DQ, list);
}
static int dkdv_variants(const struct cuda *cuda, const struct mt_call *call, struct cuda_variant *list) {
    return tile_variants(cuda, call, DKDV, list);
}
#define PARAMS {"queries", "keys", "warps", "stages", "blocks", "keep"}
static const struct cuda_family families[] = {[FORWARD] = {"forward tiles", "attention", PARAMS, forward_variants},
                                              [DQ] = {"dq tiles", "attention", PARAMS, dq_variants},
                                              [DKDV] = {"dkdv tiles", "attention", PARAMS, dkdv_variants}};

static enum mt_status chosen_tiles(const struct cuda_queue *queue, enum kernel kernel, const struct mt_call *call,
                                   const struct tiles **chosen, struct mt_err *err) {
    int head = padded_head(call);
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
    struct cuda_variant v;
    enum mt_status st = cuda_choose(queue, &families[kernel], call, &v, err);
    *chosen = default_tiles(queue->cuda, kernel, head);
    for (const struct tiles *t = tiles; t < tiles + NTILES && !st; t++)
        if (t->kernel == kernel && t->head == head && t->queries == v.p[0] && t->keys == v.p[1] &&
            t->warps == v.p[2] && t->stages == v.p[3] && t->blocks == v.p[4] && t->keep == v.p[5])
            *chosen = t;
    return st;
}

static enum mt_status with_tensor_cores(const struct cuda_queue *queue, enum kernel kernel, const struct mt_call *call,
                                        struct launch *l, struct mt_err *err) {
    int64_t s = qkv_of(call)->extent[1], d = qkv_of(call)->extent[4];
    const struct tiles *t = NULL;
    enum mt_status status = chosen_tiles(queue, kernel, call, &t, err);
    if (status) return status;
    l->own = kernel == DKDV ? t->keys : t->queries;
    l->threads = 32 * t->warps;
    l->shared_bytes = tile_bytes(t);
    if (l->shared_bytes > queue->cuda->shared_bytes)
        return mt_fail(err, MT_EINPUT, "attention: these tiles want %d bytes of shared memory, a block has at most %d",
                       l->shared_bytes, queue->cuda->shared_bytes);
    snprintf(l->definitions, sizeof l->definitions,
             "%s -DTENSOR=1 -DD=%d -DHEAD=%d -DCAUSAL=%d -DDROP=%d -DBLOCK_M=%d -DBLOCK_N=%d -DWARPS=%d -DSTAGES=%d "
             "-DBLOCKS=%d -DKEEP=%d",
             kernels[kernel].definition, (int)d, t->head, call->attr->causal,
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
    if (x->type == MT_BF16 && queue->cuda->sm >= 80 && d && d % 8 == 0 && aligned(call, 16))
        status = with_tensor_cores(queue, kernel, call, &l, err);
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
