/* The implementations of attention that are kernels of ours: on tensor cores, with tiles from attention_tiles.def, by
 * warpgroups (sm_90) or by warps (sm_80 and later); and without tensor cores.
 *
 * Tensor cores multiply halves (bf16, f16), and rows of heads must be multiples of 16 bytes. Heads are padded with
 * zeros to 32, 64, 96 or 128 elements, to 64 or 128 for warpgroups. */
#include <math.h>
#include <stdio.h>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/tune/variant.h"

/* As struct shape in attention.cuh. */
struct shape {
    int64_t first, heads;
    uint64_t tag;
    int s, h;
    uint32_t threshold;
    float scale, scale2, grow;
};

enum kernel { FORWARD, DQ, DKDV };
enum engine { WARPS, WARPGROUPS, PLAIN };
enum { LARGE = 1, SMALL = 2, GROUPS = 4, GROUPS_DEFAULT = 12 };
static const struct tiles {
    enum kernel kernel;
    int head, queries, keys, warps, stages, blocks, keep;
    unsigned use;
} tiles[] = {
#define TILES(...) {__VA_ARGS__},
#include "kernels/cuda/attention/attention_tiles.def"
#undef TILES
};
enum { NTILES = sizeof tiles / sizeof *tiles };

static const struct {
    const char *definition, *name;
} kernels[] = {[FORWARD] = {"-DFORWARD=1", "attention_forward"},
               [DQ] = {"-DDQ=1", "attention_dq"},
               [DKDV] = {"-DDKDV=1", "attention_dkdv"}};

static struct shape shape_of(const struct mt_call *call) {
    const struct mt_tensor *x = attention_qkv(call);
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

struct launch {
    char definitions[256];
    int own, threads, shared_bytes; /* own: rows that a block keeps */
};

static int tile_bytes(const struct tiles *t) {
    int own = t->kernel == DKDV ? t->keys : t->queries, pass = t->kernel == DKDV ? t->queries : t->keys;
    int pair = 2 * pass * t->head * 2 + (t->kernel == DKDV ? 8 * pass : 0);
    return (t->kernel == FORWARD ? 1 : 2) * own * t->head * 2 + t->stages * pair;
}

static enum engine engine_of(const struct tiles *t) {
    return t->use & GROUPS ? WARPGROUPS : WARPS;
}

const struct attention_impl *attention_impl_of_row(int row) {
    if (row < 0 || row >= NTILES) return NULL;
    return engine_of(&tiles[row]) == WARPGROUPS ? &attention_impl_warpgroups : &attention_impl_tiles;
}

static bool is_of(const struct tiles *t, enum engine engine, enum kernel kernel, int head) {
    return t->kernel == kernel && t->head == head && engine_of(t) == engine;
}

static int padded_head(enum engine engine, const struct mt_call *call) {
    int d = (int)attention_qkv(call)->extent[4], unit = engine == WARPS ? 32 : 64;
    return (d + unit - 1) / unit * unit;
}

static const struct tiles *default_tiles(const struct cuda *cuda, enum engine engine, enum kernel kernel, int head) {
    unsigned want = engine == WARPGROUPS ? GROUPS_DEFAULT : cuda->shared_bytes > 160 * 1024 ? LARGE : SMALL;
    for (const struct tiles *t = tiles; t < tiles + NTILES; t++)
        if (t->kernel == kernel && t->head == head && (t->use & want) == want) return t;
    return NULL;
}

/* Variants are rows of the table: all of a kernel, the default first. */
static int tile_variants(const struct cuda *cuda, const struct mt_call *call, enum engine engine, enum kernel kernel,
                         struct cuda_variant *list) {
    int count = 0, head = padded_head(engine, call);
    const struct tiles *first = default_tiles(cuda, engine, kernel, head);
    for (int pass = 0; pass < 2; pass++)
        for (const struct tiles *t = tiles; t < tiles + NTILES && count < CUDA_MOST_VARIANTS; t++) {
            if (!is_of(t, engine, kernel, head) || (t == first) != !pass) continue;
            if (pass && tile_bytes(t) > cuda->shared_bytes) continue;
            list[count++] = (struct cuda_variant){{t->queries, t->keys, t->warps, t->stages, t->blocks, t->keep}};
        }
    return count;
}

static enum mt_status queue_warpgroups(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err);
static enum mt_status queue_tiles(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err);

#define FAMILY(engine, kernel, impl)                                                                                   \
    static int engine##_##kernel(const struct cuda *cuda, const struct mt_call *call, struct cuda_variant *list) {     \
        return tile_variants(cuda, call, engine, kernel, list);                                                        \
    }                                                                                                                  \
    static const struct cuda_family family_##engine##_##kernel = {                                                     \
        #impl " " #kernel,                                                                                             \
        "attention_tiles",                                                                                             \
        {"queries", "keys", "warps", "stages", "blocks", "keep"},                                                      \
        engine##_##kernel,                                                                                             \
        queue_##impl};
FAMILY(WARPS, FORWARD, tiles)
FAMILY(WARPS, DQ, tiles)
FAMILY(WARPS, DKDV, tiles)
FAMILY(WARPGROUPS, FORWARD, warpgroups)
FAMILY(WARPGROUPS, DQ, warpgroups)
FAMILY(WARPGROUPS, DKDV, warpgroups)
#undef FAMILY
static const struct cuda_family *const families[][3] = {
    [WARPS] = {&family_WARPS_FORWARD, &family_WARPS_DQ, &family_WARPS_DKDV},
    [WARPGROUPS] = {&family_WARPGROUPS_FORWARD, &family_WARPGROUPS_DQ, &family_WARPGROUPS_DKDV}};

static enum mt_status chosen_tiles(const struct cuda_queue *queue, enum engine engine, enum kernel kernel,
                                   const struct mt_call *call, const struct tiles **chosen, struct mt_err *err) {
    struct cuda_variant v;
    int row = attention_forced_row(), head = padded_head(engine, call);
    if (row >= 0 && row < NTILES && is_of(&tiles[row], engine, kernel, head)) {
        *chosen = &tiles[row];
        return MT_OK;
    }
    if (!(*chosen = default_tiles(queue->cuda, engine, kernel, head)))
        return mt_fail(err, MT_EBUG, "attention: no tiles for heads of %d", head);
    enum mt_status st = cuda_choose_variant(queue, families[engine][kernel], call, &v, err);
    for (const struct tiles *t = tiles; t < tiles + NTILES && !st; t++)
        if (is_of(t, engine, kernel, head) && t->queries == v.p[0] && t->keys == v.p[1] && t->warps == v.p[2] &&
            t->stages == v.p[3] && t->blocks == v.p[4] && t->keep == v.p[5])
            *chosen = t;
    return st;
}

static enum mt_status with_tensor_cores(const struct cuda_queue *queue, enum engine engine, enum kernel kernel,
                                        const struct mt_call *call, struct launch *l, struct mt_err *err) {
    const struct cuda *cuda = queue->cuda;
    int64_t s = attention_qkv(call)->extent[1], d = attention_qkv(call)->extent[4];
    const struct tiles *t = NULL;
    enum mt_status status = chosen_tiles(queue, engine, kernel, call, &t, err);
    if (status) return status;
    l->own = kernel == DKDV ? t->keys : t->queries;
    l->threads = 32 * t->warps;
    l->shared_bytes = tile_bytes(t);
    if (l->shared_bytes > cuda->shared_bytes)
        return mt_fail(err, MT_EINPUT, "attention: these tiles want %d bytes of shared memory, a block has at most %d",
                       l->shared_bytes, cuda->shared_bytes);
    snprintf(l->definitions, sizeof l->definitions,
             "%s -DWGMMA=%d -DHALF=%s -DD=%d -DHEAD=%d -DCAUSAL=%d -DDROP=%d -DBLOCK_M=%d -DBLOCK_N=%d -DWARPS=%d "
             "-DSTAGES=%d "
             "-DBLOCKS=%d -DKEEP=%d",
             kernels[kernel].definition, engine == WARPGROUPS, cuda_type(attention_qkv(call)->type), (int)d, t->head,
             call->attr->causal,
             call->attr->p <= 0 ? 0
             : s % 4            ? 1
                                : 4,
             t->queries, t->keys, t->warps, t->stages, t->blocks, t->keep);
    return MT_OK;
}

static void without_tensor_cores(const struct cuda *cuda, enum kernel kernel, const struct mt_call *call,
                                 struct launch *l) {
    const struct mt_tensor *x = attention_qkv(call);
    int d = (int)x->extent[4], head = 0;
    for (l->own = 64; l->own >= 32; l->own /= 2) {
        head = d ? (d + l->own - 1) / l->own * l->own : l->own;
        int rows = (kernel == FORWARD ? 2 : 3) * (head + 4) + l->own + 4;
        l->shared_bytes = l->own * rows * (int)sizeof(float);
        if (l->shared_bytes <= cuda->shared_bytes || l->own == 32) break;
    }
    l->threads = l->own / 4 * (l->own / 4);
    int whole = d % 4 == 0 && attention_aligned(call, 4 * (uintptr_t)mt_type_size(x->type)) ? 4 : 1;
    snprintf(l->definitions, sizeof l->definitions,
             "%s -DTYPE=%s -DD=%d -DHEAD=%d -DCAUSAL=%d -DDROP=%d -DBLOCK=%d -DVECTOR=%d", kernels[kernel].definition,
             cuda_type(x->type), d, head, call->attr->causal, call->attr->p > 0, l->own, whole);
}

static enum mt_status launch(const struct cuda_queue *queue, enum engine engine, enum kernel kernel,
                             const struct mt_call *call, void **arguments, struct mt_err *err) {
    const struct mt_tensor *x = attention_qkv(call);
    int64_t heads = x->extent[0] * x->extent[3];
    struct launch l;
    CUfunction function = NULL;
    enum mt_status status = MT_OK;
    if (engine == PLAIN)
        without_tensor_cores(queue->cuda, kernel, call, &l);
    else
        status = with_tensor_cores(queue, engine, kernel, call, &l, err);
    if (!status)
        status = cuda_kernel(queue->cuda, engine == PLAIN ? "attention_row" : "attention_tiles", l.definitions,
                             kernels[kernel].name, l.shared_bytes, &function, err);
    if (status) return status;
    return cuda_launch(queue, function, heads * ((x->extent[1] + l.own - 1) / l.own), l.threads, l.shared_bytes,
                       arguments, err);
}

static enum mt_status queue_forward(const struct cuda_queue *queue, const struct mt_call *call, enum engine engine,
                                    struct mt_err *err) {
    struct shape shape = shape_of(call);
    CUdeviceptr clock = queue->clock;
    const void *qkv = call->in[0].data;
    void *o = call->out[0].data, *lse = call->out[1].data;
    return launch(queue, engine, FORWARD, call, (void *[]){&qkv, &o, &lse, &shape, &clock}, err);
}

static enum mt_status queue_either(const struct cuda_queue *queue, const struct mt_call *call, enum engine engine,
                                   struct mt_err *err) {
    struct shape shape = shape_of(call);
    CUdeviceptr clock = queue->clock;
    if (call->kind == MT_OP_attention) return queue_forward(queue, call, engine, err);
    const void *dout = call->in[0].data, *qkv = call->in[1].data, *o = call->in[2].data, *lse = call->in[3].data;
    void *dqkv = call->out[0].data, *rows = call->scratch;
    enum mt_status status =
        launch(queue, engine, DQ, call, (void *[]){&dout, &qkv, &o, &lse, &dqkv, &rows, &shape, &clock}, err);
    if (status) return status;
    return launch(queue, engine, DKDV, call, (void *[]){&dout, &qkv, &dqkv, &rows, &shape, &clock}, err);
}

static enum mt_status queue_warpgroups(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    return queue_either(queue, call, WARPGROUPS, err);
}
static enum mt_status queue_tiles(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    return queue_either(queue, call, WARPS, err);
}
static enum mt_status queue_row(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    return queue_either(queue, call, PLAIN, err);
}

static bool tiles_possible(const struct cuda *cuda, const struct mt_call *call) {
    const struct mt_tensor *x = attention_qkv(call);
    return mt_type_is_half(x->type) && cuda->sm >= 80 && x->extent[4] && x->extent[4] % 8 == 0 &&
           attention_aligned(call, 16);
}
/* Other architectures have other instructions for this. */
static bool warpgroups_possible(const struct cuda *cuda, const struct mt_call *call) {
    return cuda->sm == 90 && tiles_possible(cuda, call);
}
static bool row_possible(const struct cuda *cuda, const struct mt_call *call) {
    (void)cuda, (void)call;
    return true;
}

const struct attention_impl attention_impl_warpgroups = {"warpgroups", warpgroups_possible, NULL,
                                                         NULL,         queue_warpgroups,    false};
const struct attention_impl attention_impl_tiles = {"tiles", tiles_possible, NULL, NULL, queue_tiles, false};
const struct attention_impl attention_impl_row = {"row", row_possible, NULL, NULL, queue_row, false};
