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
    int window;
    int t, before, groups, share, all_share, first_group, first_in_group;
    int64_t all_s;
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
    const struct mt_attention a = mt_attention_of(call);
    const struct mt_attr *t = call->attr;
    bool drop = t->p > 0;
    return (struct shape){.first = a.first_sample * a.all_heads + (a.packed ? a.first_group : 0),
                          .heads = a.all_heads,
                          .tag = t->tag,
                          .s = (int)a.s,
                          .h = (int)a.heads,
                          .window = (int)a.window,
                          .t = (int)a.t,
                          .before = (int)a.first,
                          .groups = (int)a.groups,
                          .share = (int)a.share,
                          .all_share = (int)a.all_share,
                          .first_group = (int)a.first_group,
                          .first_in_group = (int)a.first_in_group,
                          .all_s = a.all_s,
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
    int d = (int)mt_attention_of(call).d, unit = engine == WARPS ? 32 : 64;
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

static const char *form_of(const struct mt_attention *a) {
    static const char *const forms[2][2] = {{" -DPACKED=0", " -DPACKED=0 -DWINDOW=1"}, {"", " -DWINDOW=1"}};
    return forms[a->packed][a->window > 0];
}

static enum mt_status with_tensor_cores(const struct cuda_queue *queue, enum engine engine, enum kernel kernel,
                                        const struct mt_call *call, struct launch *l, struct mt_err *err) {
    const struct cuda *cuda = queue->cuda;
    const struct mt_attention a = mt_attention_of(call);
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
             "-DBLOCKS=%d -DKEEP=%d%s",
             kernels[kernel].definition, engine == WARPGROUPS, cuda_type(a.q->type), (int)a.d, t->head,
             call->attr->causal,
             call->attr->p <= 0 ? 0
             : a.t % 4          ? 1
                                : 4,
             t->queries, t->keys, t->warps, t->stages, t->blocks, t->keep, form_of(&a));
    return MT_OK;
}

static void without_tensor_cores(const struct cuda *cuda, enum kernel kernel, const struct mt_call *call,
                                 struct launch *l) {
    const struct mt_attention a = mt_attention_of(call);
    int d = (int)a.d, head = 0;
    for (l->own = 64; l->own >= 32; l->own /= 2) {
        head = d ? (d + l->own - 1) / l->own * l->own : l->own;
        int rows = (kernel == FORWARD ? 2 : 3) * (head + 4) + l->own + 4;
        l->shared_bytes = l->own * rows * (int)sizeof(float);
        if (l->shared_bytes <= cuda->shared_bytes || l->own == 32) break;
    }
    l->threads = l->own / 4 * (l->own / 4);
    int whole = d % 4 == 0 && attention_aligned(call, 4 * (uintptr_t)mt_type_size(a.q->type)) ? 4 : 1;
    snprintf(l->definitions, sizeof l->definitions,
             "%s -DTYPE=%s -DD=%d -DHEAD=%d -DCAUSAL=%d -DDROP=%d -DBLOCK=%d -DVECTOR=%d%s", kernels[kernel].definition,
             cuda_type(a.q->type), d, head, call->attr->causal, call->attr->p > 0, l->own, whole, form_of(&a));
}

static enum mt_status launch(const struct cuda_queue *queue, enum engine engine, enum kernel kernel,
                             const struct mt_call *call, void **arguments, struct mt_err *err) {
    const struct mt_attention a = mt_attention_of(call);
    int64_t heads = a.b * (kernel == DKDV ? a.groups : a.heads), rows = kernel == DKDV ? a.t : a.s;
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
    return cuda_launch(queue, function, heads * ((rows + l.own - 1) / l.own), l.threads, l.shared_bytes, arguments,
                       err);
}

/* The arguments of a kernel: addresses, with queries apart from keys and values where they are, and shape and clock. */
struct arguments {
    void *addresses[12], *of[12];
    int count;
};
static void add_address(struct arguments *a, const void *address) {
    a->addresses[a->count] = (void *)(uintptr_t)address;
    a->of[a->count] = &a->addresses[a->count];
    a->count++;
}
static void add_inputs(struct arguments *a, const struct mt_attention *x) {
    add_address(a, x->q->data);
    if (!x->packed) add_address(a, x->kv->data);
}
static enum mt_status launch_with(const struct cuda_queue *queue, enum engine engine, enum kernel kernel,
                                  const struct mt_call *call, struct arguments *a, struct mt_err *err) {
    struct shape shape = shape_of(call);
    CUdeviceptr clock = queue->clock;
    a->of[a->count++] = &shape, a->of[a->count++] = &clock;
    return launch(queue, engine, kernel, call, a->of, err);
}

static enum mt_status queue_forward(const struct cuda_queue *queue, const struct mt_call *call, enum engine engine,
                                    struct mt_err *err) {
    const struct mt_attention x = mt_attention_of(call);
    struct arguments a = {.count = 0};
    add_inputs(&a, &x);
    for (int o = 0; o < 2; o++) add_address(&a, call->out[o].data);
    return launch_with(queue, engine, FORWARD, call, &a, err);
}

/* What DQ leaves in scratch is DKDV's. */
static enum mt_status queue_either(const struct cuda_queue *queue, const struct mt_call *call, enum engine engine,
                                   struct mt_err *err) {
    const struct mt_attention x = mt_attention_of(call);
    struct arguments dq = {.count = 0}, dkdv = {.count = 0};
    if (!x.gradient) return queue_forward(queue, call, engine, err);
    add_address(&dq, call->in[0].data), add_address(&dkdv, call->in[0].data);
    add_inputs(&dq, &x), add_inputs(&dkdv, &x);
    for (int i = call->nin - 2; i < call->nin; i++) add_address(&dq, call->in[i].data); /* o, lse */
    add_address(&dq, x.dq->data), add_address(&dkdv, x.dkv->data);
    add_address(&dq, call->scratch), add_address(&dkdv, call->scratch);
    enum mt_status status = launch_with(queue, engine, DQ, call, &dq, err);
    return status ? status : launch_with(queue, engine, DKDV, call, &dkdv, err);
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
    const struct mt_attention a = mt_attention_of(call);
    return mt_type_is_half(a.q->type) && cuda->sm >= 80 && a.d && a.d % 8 == 0 && attention_aligned(call, 16);
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
