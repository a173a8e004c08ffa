/* The graphs are those that cuDNN's engines recognise: GEMMs, pointwise operations and reductions in this order.
 *
 * Forward: s = scale q k', hidden keys -inf, lse and probabilities by row maxima and sums, o = p v. Backward as in
 * attention_tiles.cu. The gradient of q is a GEMM of its own, and not summed in memory, which makes it reproducible; so
 * the gradients of the scores pass through memory, and the workspace holds them.
 *
 * Query heads that share keys and values: GEMMs take k and v of fewer heads as they are; the gradients of k and v are
 * those of each query head, summed over the heads that share.
 *
 * In any order: blocks add to f32 sums of q's gradient in memory, zeroed first, in the order in which they run; the
 * sums are then converted. Nothing of the size of the scores is in memory. */
#include "kernels/cuda/attention/cudnn/attention_graph.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/base/arena.h"

enum { ALIGN = 256 };

static int64_t whole(int64_t n, int64_t unit) {
    return (n + unit - 1) / unit * unit;
}

static int64_t deltas_bytes(const struct cudnn_attention_shape *s) {
    return s->backward ? whole(s->b * s->h * s->s * (int64_t)sizeof(float), ALIGN) : 0;
}

/* Of q's gradient. */
static int64_t sums_bytes(const struct cudnn_attention_shape *s) {
    bool wanted = s->backward && s->any_order;
    return wanted ? whole(s->b * s->h * s->s * s->d * (int64_t)sizeof(float), ALIGN) : 0;
}

/* In any order, engines for some architectures need sums of their own in addition to those of the graph. */
int64_t cudnn_attention_bytes(const struct cudnn_attention_shape *s) {
    int64_t heads = s->b * s->h, scores = heads * whole(s->s, 128) * whole(s->s, 128) * 2;
    int64_t sums = heads * whole(s->s, 64) * s->d * (int64_t)sizeof(float);
    int64_t workspace = !s->backward ? 0 : s->any_order ? sums : scores;
    if (s->backward && s->g < s->h) workspace += 2 * sums;
    return deltas_bytes(s) + sums_bytes(s) + workspace + (1 << 20) + ALIGN;
}

#ifdef MOTLEY_HAS_CUDNN

enum {
    NONE,
    /* memory */
    Q,
    K,
    V,
    O,
    LSE,
    DOUT,
    DQ,
    DK,
    DV,
    DELTA,
    DQ_SUMS,
    /* numbers */
    SCALE,
    HIDDEN,
    WINDOW,
    ONE,
    /* only in between */
    SCORES,
    SCALED,
    ROW,
    COLUMN,
    SEEN,
    MASKED,
    QUERY,
    KEY,
    LAST,
    NEAR,
    WITHIN,
    MOST,
    LESS,
    EXP,
    SUM,
    LOG,
    P,
    PRODUCTS,
    SUMS,
    SHIFTED,
    P_TURNED,
    DP,
    DP_LESS,
    DP_TIMES,
    DS,
    DS_TURNED,
    K_TURNED,
    DK_HEADS,
    DV_HEADS,
    NIDS
};
_Static_assert((int)NIDS <= (int)CUDNN_TENSORS, "too many tensors");

struct cudnn_attention {
    struct cudnn_attention_shape shape;
    struct cudnn_graph *graph;
    cudnnHandle_t handle;
    float scale, hidden, window, one;
};

static cudnnDataType_t type_of(enum mt_type type) {
    return type == MT_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

/* Elements from one position to the next, of queries and of keys and values. */
static int64_t q_row(const struct cudnn_attention_shape *s) {
    return (s->packed ? 3 : 1) * s->h * s->d;
}
static int64_t kv_row(const struct cudnn_attention_shape *s) {
    return (s->packed ? 3 : 2) * s->g * s->d;
}

/* A tensor of n heads, rows `row` elements apart; turned: [b, n, d, s]. */
static void heads_of(struct cudnn_graph *g, const struct cudnn_attention_shape *s, int id, enum cudnn_tensor_kind kind,
                     int64_t n, int64_t row, bool turned) {
    struct cudnn_tensor t = {id, kind, type_of(s->type), {s->b, n, s->s, s->d}, {s->s * row, s->d, row, 1}};
    if (turned) t.extent[2] = s->d, t.extent[3] = s->s, t.stride[2] = 1, t.stride[3] = row;
    cudnn_tensor(g, &t);
}

/* In memory: of queries, and of keys or values. */
static void queries(struct cudnn_graph *g, const struct cudnn_attention_shape *s, int id, int64_t row) {
    heads_of(g, s, id, CUDNN_MEMORY, s->h, row, false);
}
static void keys(struct cudnn_graph *g, const struct cudnn_attention_shape *s, int id, bool turned) {
    heads_of(g, s, id, CUDNN_MEMORY, s->g, kv_row(s), turned);
}

static void rows(struct cudnn_graph *g, const struct cudnn_attention_shape *s, int id, enum cudnn_tensor_kind kind) {
    cudnn_tensor(g,
                 &(struct cudnn_tensor){id, kind, CUDNN_DATA_FLOAT, {s->b, s->h, s->s, 1}, {s->h * s->s, s->s, 1, 1}});
}

static void scores(struct cudnn_graph *g, const struct cudnn_attention_shape *s, int id, cudnnDataType_t type,
                   bool turned) {
    struct cudnn_tensor t = {
        id, CUDNN_VIRTUAL, type, {s->b, s->h, s->s, s->s}, {s->h * s->s * s->s, s->s * s->s, s->s, 1}};
    if (turned) t.stride[2] = 1, t.stride[3] = s->s;
    cudnn_tensor(g, &t);
}

static void number(struct cudnn_graph *g, int id) {
    cudnn_tensor(g, &(struct cudnn_tensor){id, CUDNN_NUMBER, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}});
}

/* x where the key is within the window of the query, else -inf; the id of what is to be used from here on. */
static int mask_window(struct cudnn_graph *g, const struct cudnn_attention_shape *s, int x) {
    static const int whole_scores[] = {QUERY, KEY, LAST, WITHIN};
    if (!s->window) return x;
    number(g, WINDOW);
    for (int i = 0; i < 4; i++) scores(g, s, whole_scores[i], CUDNN_DATA_FLOAT, false);
    scores(g, s, NEAR, CUDNN_DATA_BOOLEAN, false);
    cudnn_index(g, 2, x, QUERY);
    cudnn_index(g, 3, x, KEY);
    cudnn_pointwise(g, CUDNN_POINTWISE_ADD, KEY, WINDOW, NONE, LAST);
    cudnn_pointwise(g, CUDNN_POINTWISE_CMP_GT, LAST, QUERY, NONE, NEAR);
    cudnn_pointwise(g, CUDNN_POINTWISE_BINARY_SELECT, x, HIDDEN, NEAR, WITHIN);
    return WITHIN;
}

/* The same where the key is not behind the query. */
static int mask(struct cudnn_graph *g, const struct cudnn_attention_shape *s, int x) {
    if (!s->causal) return x;
    number(g, HIDDEN);
    scores(g, s, ROW, CUDNN_DATA_INT32, false), scores(g, s, COLUMN, CUDNN_DATA_INT32, false);
    scores(g, s, SEEN, CUDNN_DATA_BOOLEAN, false), scores(g, s, MASKED, CUDNN_DATA_FLOAT, false);
    cudnn_index(g, 2, x, ROW);
    cudnn_index(g, 3, x, COLUMN);
    cudnn_pointwise(g, CUDNN_POINTWISE_CMP_GE, ROW, COLUMN, NONE, SEEN);
    cudnn_pointwise(g, CUDNN_POINTWISE_BINARY_SELECT, x, HIDDEN, SEEN, MASKED);
    return mask_window(g, s, MASKED);
}

static void forward(struct cudnn_graph *g, const struct cudnn_attention_shape *s) {
    static const int whole_scores[] = {SCORES, SCALED, LESS, EXP};
    queries(g, s, Q, q_row(s)), keys(g, s, K, true), keys(g, s, V, false);
    queries(g, s, O, s->h * s->d);
    rows(g, s, LSE, CUDNN_MEMORY);
    rows(g, s, MOST, CUDNN_VIRTUAL), rows(g, s, SUM, CUDNN_VIRTUAL), rows(g, s, LOG, CUDNN_VIRTUAL);
    for (int i = 0; i < 4; i++) scores(g, s, whole_scores[i], CUDNN_DATA_FLOAT, false);
    scores(g, s, P, type_of(s->type), false);
    number(g, SCALE);
    cudnn_matmul(g, Q, K, SCORES);
    cudnn_pointwise(g, CUDNN_POINTWISE_MUL, SCORES, SCALE, NONE, SCALED);
    int x = mask(g, s, SCALED);
    cudnn_reduce(g, CUDNN_REDUCE_TENSOR_MAX, x, MOST);
    cudnn_pointwise(g, CUDNN_POINTWISE_SUB, x, MOST, NONE, LESS);
    cudnn_pointwise(g, CUDNN_POINTWISE_EXP, LESS, NONE, NONE, EXP);
    cudnn_reduce(g, CUDNN_REDUCE_TENSOR_ADD, EXP, SUM);
    cudnn_pointwise(g, CUDNN_POINTWISE_LOG, SUM, NONE, NONE, LOG);
    cudnn_pointwise(g, CUDNN_POINTWISE_ADD, MOST, LOG, NONE, LSE);
    cudnn_pointwise(g, CUDNN_POINTWISE_DIV, EXP, SUM, NONE, P);
    cudnn_matmul(g, P, V, O);
}

/* The gradient of k or v: a GEMM, and with fewer heads a sum over those that share. */
static void kv_grad(struct cudnn_graph *g, const struct cudnn_attention_shape *s, int a, int b, int of_heads, int out) {
    bool shared = s->g < s->h;
    keys(g, s, out, false);
    if (shared)
        cudnn_tensor(g, &(struct cudnn_tensor){of_heads,
                                               CUDNN_VIRTUAL,
                                               type_of(s->type),
                                               {s->b, s->h, s->s, s->d},
                                               {s->h * s->s * s->d, s->s * s->d, s->d, 1}});
    cudnn_matmul(g, a, b, shared ? of_heads : out);
    if (shared) cudnn_reduce(g, CUDNN_REDUCE_TENSOR_ADD, of_heads, out);
}

static void backward_tensors(struct cudnn_graph *g, const struct cudnn_attention_shape *s) {
    static const int whole_scores[] = {SCORES, SCALED, SHIFTED, EXP, DP, DP_LESS, DP_TIMES, DS};
    queries(g, s, Q, q_row(s)), keys(g, s, K, true), keys(g, s, V, true);
    queries(g, s, DQ, q_row(s));
    queries(g, s, O, s->h * s->d), queries(g, s, DOUT, s->h * s->d);
    rows(g, s, LSE, CUDNN_MEMORY), rows(g, s, DELTA, CUDNN_MEMORY), rows(g, s, SUMS, CUDNN_VIRTUAL);
    cudnn_tensor(g, &(struct cudnn_tensor){PRODUCTS,
                                           CUDNN_VIRTUAL,
                                           CUDNN_DATA_FLOAT,
                                           {s->b, s->h, s->s, s->d},
                                           {s->h * s->s * s->d, s->s * s->d, s->h * s->d, 1}});
    heads_of(g, s, K_TURNED, CUDNN_VIRTUAL, s->g, kv_row(s), false);
    for (int i = 0; i < 8; i++) scores(g, s, whole_scores[i], CUDNN_DATA_FLOAT, false);
    scores(g, s, P_TURNED, type_of(s->type), true), scores(g, s, DS_TURNED, type_of(s->type), true);
    number(g, SCALE), number(g, ONE);
    if (s->any_order)
        cudnn_tensor(g, &(struct cudnn_tensor){DQ_SUMS,
                                               CUDNN_TILED,
                                               CUDNN_DATA_FLOAT,
                                               {s->b, s->h, s->s, s->d},
                                               {s->h * s->s * s->d, s->s * s->d, s->d, 1}});
}

static void backward(struct cudnn_graph *g, const struct cudnn_attention_shape *s) {
    backward_tensors(g, s);
    cudnn_pointwise(g, CUDNN_POINTWISE_MUL, DOUT, O, NONE, PRODUCTS);
    cudnn_reduce(g, CUDNN_REDUCE_TENSOR_ADD, PRODUCTS, SUMS);
    cudnn_pointwise(g, CUDNN_POINTWISE_MUL, SUMS, ONE, NONE, DELTA);
    cudnn_matmul(g, Q, K, SCORES);
    cudnn_pointwise(g, CUDNN_POINTWISE_MUL, SCORES, SCALE, NONE, SCALED);
    cudnn_pointwise(g, CUDNN_POINTWISE_SUB, SCALED, LSE, NONE, SHIFTED);
    cudnn_pointwise(g, CUDNN_POINTWISE_EXP, mask(g, s, SHIFTED), NONE, NONE, EXP);
    cudnn_reshape(g, EXP, P_TURNED);
    kv_grad(g, s, P_TURNED, DOUT, DV_HEADS, DV);
    cudnn_matmul(g, DOUT, V, DP);
    cudnn_pointwise(g, CUDNN_POINTWISE_SUB, DP, DELTA, NONE, DP_LESS);
    cudnn_pointwise(g, CUDNN_POINTWISE_MUL, DP_LESS, EXP, NONE, DP_TIMES);
    cudnn_pointwise(g, CUDNN_POINTWISE_MUL, DP_TIMES, SCALE, NONE, DS);
    cudnn_reshape(g, DS, DS_TURNED);
    kv_grad(g, s, DS_TURNED, Q, DK_HEADS, DK);
    cudnn_reshape(g, K, K_TURNED);
    cudnn_matmul(g, DS, K_TURNED, s->any_order ? DQ_SUMS : DQ);
    if (s->any_order) cudnn_pointwise(g, CUDNN_POINTWISE_IDENTITY, DQ_SUMS, NONE, NONE, DQ);
}

enum mt_status cudnn_attention_new(const struct cudnn_attention_shape *shape, const struct cudnn_device *device,
                                   struct cudnn_attention **attention, struct mt_err *err) {
    struct cudnn_attention *a = mt_calloc(1, sizeof *a);
    *a = (struct cudnn_attention){.shape = *shape,
                                  .graph = cudnn_graph_new(),
                                  .handle = device->handle,
                                  .scale = shape->scale,
                                  .hidden = -INFINITY,
                                  .window = (float)shape->window,
                                  .one = 1};
    (shape->backward ? backward : forward)(a->graph, shape);
    enum mt_status st = cudnn_graph_plan(a->graph, device, shape->any_order, err);
    int64_t want = cudnn_graph_workspace(a->graph) + deltas_bytes(shape) + sums_bytes(shape);
    int64_t have = cudnn_attention_bytes(shape) - ALIGN;
    if (!st && want > have)
        st = mt_fail(err, MT_ESYSTEM, "cuDNN's plan wants %lld bytes of memory, and has %lld", (long long)want,
                     (long long)have);
    if (st) {
        cudnn_attention_free(a);
        return st;
    }
    *attention = a;
    return MT_OK;
}

void cudnn_attention_free(struct cudnn_attention *a) {
    if (!a) return;
    cudnn_graph_free(a->graph);
    free(a);
}

int64_t cudnn_attention_workspace(const struct cudnn_attention *a) {
    return cudnn_graph_workspace(a->graph);
}

enum mt_status cudnn_attention_run(const struct cudnn_attention *a, CUstream stream,
                                   const struct cudnn_attention_data *data, struct mt_err *err) {
    const struct cudnn_attention_shape *s = &a->shape;
    int64_t ids[16], part = s->g * s->d * mt_type_size(s->type), keys_at = s->packed ? part : 0;
    void *pointers[16];
    int n = 0;
    char *k = (char *)(uintptr_t)data->kv + keys_at, *dk = (char *)data->dkv + keys_at;
    char *scratch = (char *)(uintptr_t)whole((int64_t)(uintptr_t)data->scratch, ALIGN);
    char *sums = scratch + deltas_bytes(s), *workspace = sums + sums_bytes(s);
#define GIVE(id, pointer) (ids[n] = (id), pointers[n++] = (void *)(uintptr_t)(pointer))
    GIVE(Q, data->q), GIVE(K, k), GIVE(V, k + part);
    GIVE(LSE, data->lse), GIVE(SCALE, &a->scale);
    if (s->causal) GIVE(HIDDEN, &a->hidden);
    if (s->window) GIVE(WINDOW, &a->window);
    if (s->backward) {
        GIVE(O, data->o_in), GIVE(DOUT, data->dout), GIVE(DELTA, scratch), GIVE(ONE, &a->one);
        GIVE(DQ, data->dq), GIVE(DK, dk), GIVE(DV, dk + part);
    } else {
        GIVE(O, data->o);
    }
    if (workspace > sums) {
        GIVE(DQ_SUMS, sums);
        CUDA_TRY(cuMemsetD8Async((CUdeviceptr)sums, 0, (size_t)(workspace - sums), stream), err, "sums of dq");
    }
#undef GIVE
    return cudnn_graph_run(a->graph, a->handle, stream, n, ids, pointers, workspace, err);
}
#endif
