/* embedding and its gradient: the algorithm is in embedding.cu. */
#include <stdio.h>

#include "kernels/cuda/driver/driver.h"
#include "kernels/cuda/tune/variant.h"

enum { THREADS = 256, WARPS = THREADS / 32, ITEMS = 4, BLOCK_ROWS = WARPS * ITEMS * 32, MOST_BITS = 10, CHUNK = 32 };

static int64_t blocks_for(int64_t count, int64_t of_block) {
    return (count + of_block - 1) / of_block;
}

/* Keys and rows are ints, with one more key for tokens outside of the table. */
static bool supports(const struct mt_call *call) {
    const struct mt_tensor *table = call->kind == MT_OP_embedding ? &call->in[0] : &call->out[0];
    return mt_tensor_count(&call->in[1]) < INT32_MAX - BLOCK_ROWS && table->extent[0] < INT32_MAX;
}

/* ---- forward ---- */

static enum mt_status queue_embedding(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    static const char *const unit_names[] = {[2] = "u16", [4] = "u32", [8] = "uint2", [16] = "uint4"};
    const struct mt_tensor *table = &call->in[0], *ids = &call->in[1], *y = &call->out[0];
    int64_t n = mt_tensor_count(ids), V = table->extent[0], row_bytes = table->extent[1] * mt_type_size(table->type);
    if (!row_bytes) return MT_OK;
    int unit = 16;
    while (((uintptr_t)table->data | (uintptr_t)y->data | (uintptr_t)row_bytes) % (uintptr_t)unit) unit /= 2;
    char definitions[128];
    CUfunction kernel;
    snprintf(definitions, sizeof definitions,
             "-DTYPE=float -DUNIT=%s -DBITS=1 -DWARPS=1 -DITEMS=1 -DCOLUMNS=1 -DCHUNK=1 -DACCUMULATE=0",
             unit_names[unit]);
    enum mt_status st = cuda_kernel(queue->cuda, "embedding", definitions, "embedding", 0, &kernel, err);
    if (st) return st;
    int64_t units = row_bytes / unit;
    void *arguments[] = {(void *)&table->data,     (void *)&ids->data, (void *)&y->data, &n, &V, &units,
                         (void *)&table->offset[0]};
    return cuda_launch(queue, kernel, blocks_for(n, WARPS), THREADS, 0, arguments, err);
}

/* ---- gradient ---- */

struct sorting {
    int npasses, bits; /* digits, and the size of each */
    int64_t nblocks;
};

static struct sorting sorting_of(int64_t n, int64_t V) {
    struct sorting s = {.npasses = 1, .nblocks = blocks_for(n, BLOCK_ROWS)};
    int bits = 1; /* of the keys 0...V */
    while (V >> bits) bits++;
    s.npasses = (bits + MOST_BITS - 1) / MOST_BITS;
    s.bits = (bits + s.npasses - 1) / s.npasses;
    return s;
}

/* Offsets in the scratch, in bytes. */
struct scratch {
    int64_t key[2], row[2], counts, totals, parts, size;
};

static struct scratch scratch_of(int64_t n, int64_t V, int64_t C) {
    struct sorting sorting = sorting_of(n, V);
    struct scratch s = {0};
    int64_t bins = (int64_t)1 << sorting.bits;
    int64_t *const places[] = {&s.key[0], &s.key[1], &s.row[0], &s.row[1], &s.counts, &s.totals, &s.parts};
    const int64_t counts[] = {n, n, n, n, bins * sorting.nblocks, bins, 2 * blocks_for(n, CHUNK) * C};
    for (int i = 0; i < 7; i++) {
        *places[i] = s.size;
        s.size += (4 * counts[i] + 63) / 64 * 64;
    }
    return s;
}

static int64_t grad_scratch_bytes(const struct cuda *cuda, const struct mt_call *call) {
    (void)cuda;
    return scratch_of(mt_tensor_count(&call->in[1]), call->out[0].extent[0], call->out[0].extent[1]).size;
}

/* As in embedding.cu. */
struct keys {
    const void *ids;
    int64_t offset;
    int V;
    const void *key, *row;
    int n;
};

/* What a gradient's launches share. */
struct grad {
    const struct cuda_queue *queue;
    const char *definitions;
    int64_t n, V, C;
    struct scratch at;
    char *scratch;
};

static enum mt_status launch(const struct grad *g, const char *name, int64_t blocks, int64_t blocks_y, int threads,
                             void **arguments, struct mt_err *err) {
    CUfunction kernel;
    enum mt_status st = cuda_kernel(g->queue->cuda, "embedding", g->definitions, name, 0, &kernel, err);
    if (st) return st;
    return cuda_launch3(g->queue, kernel, (int64_t[3]){blocks, blocks_y, 1}, threads, 0, arguments, err);
}

/* Sort by token; the sorted keys are then in key[*to]. */
static enum mt_status sort(const struct grad *g, const struct mt_call *call, int *to, struct mt_err *err) {
    struct sorting sorting = sorting_of(g->n, g->V);
    int nblocks = (int)sorting.nblocks;
    void *counts = g->scratch + g->at.counts, *totals = g->scratch + g->at.totals;
    for (int pass = 0; pass < sorting.npasses; pass++) {
        int from = (pass + 1) % 2, shift = pass * sorting.bits;
        *to = pass % 2;
        struct keys keys = {.ids = pass ? NULL : call->in[1].data,
                            .offset = call->out[0].offset[0],
                            .V = (int)g->V,
                            .key = g->scratch + g->at.key[from],
                            .row = g->scratch + g->at.row[from],
                            .n = (int)g->n};
        void *to_key = g->scratch + g->at.key[*to], *to_row = g->scratch + g->at.row[*to];
        enum mt_status st = launch(g, "digit_count", nblocks, 1, THREADS, (void *[]){&keys, &shift, &counts}, err);
        if (!st)
            st = launch(g, "digit_scan", (int64_t)1 << sorting.bits, 1, THREADS, (void *[]){&counts, &totals, &nblocks},
                        err);
        if (!st)
            st = launch(g, "digit_scatter", nblocks, 1, THREADS,
                        (void *[]){&keys, &shift, &counts, &totals, &to_key, &to_row}, err);
        if (st) return st;
    }
    return MT_OK;
}

/* Columns for a thread: 16 bytes of dout where all rows can be read and written so. */
static int columns_for(const struct mt_tensor *dout, const struct mt_tensor *table) {
    int columns = (int)(16 / mt_type_size(dout->type));
    if (((uintptr_t)dout->data | (uintptr_t)table->data) % 16) return 1;
    while (table->extent[1] % columns) columns /= 2;
    return columns;
}

/* Tuned: threads of a block, and the places of the sorted list that it sums; scratch fits the smallest chunks. */
static int variants(const struct cuda *cuda, const struct mt_call *call, struct cuda_variant *list) {
    static const int threads[] = {64, 96, 128, 192, 256, 0}, chunks[] = {CHUNK, 2 * CHUNK, 4 * CHUNK, 0};
    (void)cuda, (void)call;
    return cuda_variant_pairs((struct cuda_variant){{THREADS, CHUNK}}, threads, chunks, list);
}
static const struct cuda_family family = {"embedding sums", "embedding", {"threads", "chunk"}, variants, NULL};

static enum mt_status queue_embedding_grad(const struct cuda_queue *queue, const struct mt_call *call,
                                           struct mt_err *err) {
    const struct mt_tensor *dout = &call->in[0], *table = &call->out[0];
    int64_t n = mt_tensor_count(&call->in[1]), V = table->extent[0], C = table->extent[1];
    if (!V || !C) return MT_OK;
    if (!call->attr->accumulate)
        CUDA_TRY(cuMemsetD32Async((CUdeviceptr)table->data, 0, (size_t)(V * C), queue->stream), err,
                 "cuMemsetD32Async");
    if (!n) return MT_OK;
    struct cuda_variant variant;
    enum mt_status st = cuda_choose_variant(queue, &family, call, &variant, err);
    if (st) return st;
    int columns = columns_for(dout, table), to = 0, most_threads = variant.p[0], chunk = variant.p[1];
    char definitions[160];
    snprintf(definitions, sizeof definitions,
             "-DTYPE=%s -DUNIT=u16 -DBITS=%d -DWARPS=%d -DITEMS=%d -DCOLUMNS=%d -DCHUNK=%d -DACCUMULATE=%d",
             cuda_type(dout->type), sorting_of(n, V).bits, WARPS, ITEMS, columns, chunk, call->attr->accumulate);
    struct grad g = {queue, definitions, n, V, C, scratch_of(n, V, C), call->scratch};
    if ((st = sort(&g, call, &to, err))) return st;
    void *key = g.scratch + g.at.key[to], *row = g.scratch + g.at.row[to], *parts = g.scratch + g.at.parts;
    int64_t lanes = blocks_for(C, columns), chunks = blocks_for(n, chunk);
    int threads = (int)(lanes < most_threads ? (lanes + 31) / 32 * 32 : most_threads), rows = (int)n, tokens = (int)V;
    int64_t across = blocks_for(lanes, threads);
    void *dout_data = dout->data, *table_data = table->data;
    st = launch(&g, "sum_runs", chunks, across, threads,
                (void *[]){&dout_data, &key, &row, &table_data, &parts, &rows, &tokens, &C}, err);
    if (st) return st;
    return launch(&g, "join_runs", chunks, across, threads, (void *[]){&key, &table_data, &parts, &rows, &tokens, &C},
                  err);
}

const struct cuda_op cuda_embedding = {supports, NULL, queue_embedding};
const struct cuda_op cuda_embedding_grad = {supports, grad_scratch_bytes, queue_embedding_grad};
