/* Overlapped GEMMs of few rows in one kernel (few.cu), on sm_90: how many multiprocessors divide K, and launches. */
#include "kernels/cuda/overlap/few.h"

#include <assert.h>
#include <stdio.h>

#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/gemm/tile.h"
#include "kernels/cuda/jit/shape.h"

enum { MOST_STAGES = 22, LEAST_STAGES = 3, MOST_PARTS = 8, BLOCKS_TOGETHER = 2, HELD = 8, COLUMNS = 64, PITCH = 4 };

/* As in few.cu. */
struct few_maps {
    CUtensorMap weights, rows[2];
};
struct few {
    int32_t m, slabs_each, pace_ns, row, rows, each, puts, sends, flag, flags, first_flag;
};

/* How a problem's GEMM of this rank is divided: `width` columns of the result, in tiles; `slabs` of K in parts. */
struct division {
    int64_t width, k;
    int tiles, slabs, parts, columns, held, stages, shared_bytes;
};

static int64_t rounded_up(int64_t x, int64_t unit) {
    return divide_up(x, unit) * unit;
}

/* Parts of K, none of them empty, for multiprocessors that would have no tile. Two neighbours are always free together;
 * larger clusters find room where the device is not divided. */
static int parts_of(const struct cuda *cuda, const struct division *d, int most) {
    int parts = 1;
    if (gemm_multiprocessors(cuda)) most = (int)least(most, BLOCKS_TOGETHER);
    while (2 * parts <= most && (int64_t)2 * parts * d->tiles <= cuda->nsm &&
           (2 * parts - 1) * divide_up(d->slabs, 2 * parts) < d->slabs)
        parts *= 2;
    return parts;
}

static struct division divide(const struct cuda *cuda, const struct mt_overlap *p, int me, int most_parts) {
    bool gather = p->form == MT_OVERLAP_GATHER;
    struct division d = {.width = gather ? p->shares[me] : p->cols, .k = gather ? p->k : p->shares[me]};
    int64_t tile = p->tile[1], columns = rounded_up(p->m, COLUMNS), held = rounded_up(p->m, HELD);
    int64_t beyond = (columns - held) * GEMM_ROW_BYTES, stage = (tile + held) * GEMM_ROW_BYTES;
    int64_t stages = least((cuda->shared_bytes - 2048 - beyond) / stage, MOST_STAGES);
    d.tiles = (int)divide_up(d.width, tile), d.slabs = (int)divide_up(d.k, GEMM_SLAB);
    d.parts = parts_of(cuda, &d, most_parts);
    d.columns = (int)columns, d.held = (int)held;
    bool fits = stages >= LEAST_STAGES && p->m * (tile + PITCH) * (int64_t)sizeof(float) <= stages * stage;
    d.stages = fits ? (int)stages : 0;
    d.shared_bytes = (int)(1024 + stages * stage + beyond);
    return d;
}

bool cuda_few_serves(const struct cuda *cuda, const struct mt_overlap *problem, int me) {
    return cuda->sm == 90 && mt_overlap_fused_few(problem) && divide(cuda, problem, me, MOST_PARTS).stages > 0;
}

/* Clusters that are resident at the same time. */
static enum mt_status count_clusters(const struct cuda_queue *queue, CUfunction kernel, const struct division *d,
                                     int *clusters, struct mt_err *err) {
    CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                 .value.clusterDim = {(unsigned)d->parts, 1, 1}};
    const CUlaunchConfig config = {.gridDimX = (unsigned)(d->parts * queue->cuda->nsm),
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = GEMM_TILE_THREADS,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .sharedMemBytes = (unsigned)d->shared_bytes,
                                   .attrs = &cluster,
                                   .numAttrs = 1};
    *clusters = queue->cuda->nsm / d->parts;
    if (d->parts <= BLOCKS_TOGETHER) return MT_OK;
    int resident;
    CUDA_TRY(cuOccupancyMaxActiveClusters(&resident, kernel, &config), err, "cuOccupancyMaxActiveClusters");
    if (resident < *clusters) *clusters = resident;
    return MT_OK;
}

static enum mt_status map(const struct cuda_overlap *o, const struct division *d, struct few_maps *maps,
                          struct mt_err *err) {
    const struct mt_overlap *p = o->problem;
    const struct mt_overlap_operands *x = o->operands;
    bool gather = p->form == MT_OVERLAP_GATHER;
    const struct gemm_matrix b = {p->type, x->b, x->trans_b ? d->width : d->k, x->trans_b ? d->k : d->width, 0};
    enum mt_status st = gemm_map(&maps->weights, &b, GEMM_SLAB, x->trans_b ? p->tile[1] : GEMM_SLAB, err);
    for (int copy = 0; copy < (gather ? o->schedule->copies : 1) && !st; copy++) {
        CUdeviceptr staged = o->parts[o->me] + (CUdeviceptr)mt_overlap_place(p, MT_OVERLAP_STAGED, copy);
        const struct gemm_matrix a = {p->type, gather ? (const void *)staged : x->a, p->m, d->k, 0};
        st = gemm_map(&maps->rows[copy], &a, GEMM_SLAB, p->m, err);
    }
    return st;
}

/* How long memory takes for a slab of all blocks; 1: it does not say, and all is asked for at once. */
static int pace_of(const struct cuda *cuda, const struct mt_overlap *p, int blocks) {
    static const double reached = 0.8; /* of the nominal rate, measured on H100s */
    double bytes = (double)(blocks * p->tile[1] * GEMM_ROW_BYTES);
    return cuda->memory_Bps > 0 ? (int)(1e9 * bytes / (reached * cuda->memory_Bps)) + 1 : 1;
}

/* What is put of A, and awaited; nothing in a part of a schedule without puts. */
static void describe_puts(const struct cuda_overlap *o, struct few *few) {
    const struct mt_overlap *p = o->problem;
    const struct mt_overlap_schedule *s = o->schedule;
    few->sends = s->nputs > 0;
    if (p->form != MT_OVERLAP_GATHER || !s->nputs) return;
    for (int r = 0; r < o->me; r++) few->row += (int32_t)p->rows[r];
    few->rows = (int32_t)p->rows[o->me], few->each = (int32_t)least(p->chunk, p->rows[o->me]);
    few->puts = s->nputs / p->n;
    few->flag = (int32_t)mt_overlap_flag_place(p, s->puts[0].flag);
    few->flags = s->tiles[0].nwaits;
    few->first_flag = (int32_t)mt_overlap_flag_place(p, 0);
    assert(few->puts == divide_up(few->rows, few->each));
}

/* The kernel for a division, and how many clusters of it are resident at the same time. */
static enum mt_status compile(const struct cuda_queue *queue, const struct cuda_overlap *o, const struct division *d,
                              CUfunction *kernel, int *clusters, struct mt_err *err) {
    const struct mt_overlap *p = o->problem;
    char definitions[360];
    snprintf(definitions, sizeof definitions,
             "-DTYPE=%s -DHALF=%s -DOUT=float -DTURN_A=%d -DTURN_B=0 -DROWS=%d -DCOLUMNS=%d -DHELD=%d -DTOGETHER=%d "
             "-DSTAGES=%d -DSHARE=0 -DSPREAD=0 -DSTREAMED=0 -DACCUMULATE=0 -DPARTS=%d -DGATHER=%d -DWIRE=%s "
             "-DRESULT=%s -DRANKS=%d",
             cuda_type(p->type), cuda_type(p->type), !o->operands->trans_b, (int)p->tile[1], d->columns, d->held,
             p->tile[1] == 128, d->stages, d->parts, p->form == MT_OVERLAP_GATHER, cuda_type(p->wire),
             cuda_type(p->out), p->n);
    enum mt_status st = cuda_kernel(queue->cuda, "few", definitions, "overlap_few", d->shared_bytes, kernel, err);
    return st ? st : count_clusters(queue, *kernel, d, clusters, err);
}

enum mt_status cuda_few_launch(const struct cuda_queue *queue, const struct cuda_overlap *o,
                               struct cuda_fused_call *call, struct mt_err *err) {
    const struct mt_overlap *p = o->problem;
    struct division d = divide(queue->cuda, p, o->me, MOST_PARTS);
    struct few_maps maps = {0};
    CUfunction kernel;
    int clusters = 0;
    enum mt_status st = map(o, &d, &maps, err);
    if (!st) st = compile(queue, o, &d, &kernel, &clusters, err);
    while (!st && clusters < d.tiles && d.parts > BLOCKS_TOGETHER) { /* two rounds would take longer than half parts */
        d = divide(queue->cuda, p, o->me, d.parts / 2);
        st = compile(queue, o, &d, &kernel, &clusters, err);
    }
    if (st) return st;
    if (call->ntiles != d.tiles)
        return mt_fail(err, MT_EBUG, "%d tiles of few rows, and the schedule has %d", d.tiles, call->ntiles);
    int blocks = (int)least(d.tiles, clusters) * d.parts;
    struct few few = {.m = (int32_t)p->m,
                      .slabs_each = (int32_t)divide_up(d.slabs, d.parts),
                      .pace_ns = pace_of(queue->cuda, p, blocks)};
    describe_puts(o, &few);
    return cuda_launch(queue, kernel, blocks, GEMM_TILE_THREADS, d.shared_bytes, (void *[]){&maps, call, &few}, err);
}
