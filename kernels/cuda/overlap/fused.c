/* Overlapped GEMMs in one kernel (fused.cu; few.cu of few rows), on sm_90: the tables that it reads (tables.c), made
 * once from a problem's schedule and kept on the device, and launches. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/cuda/gemm/tile.h"
#include "kernels/cuda/jit/shape.h"
#include "kernels/cuda/overlap/compute.h"
#include "kernels/cuda/overlap/few.h"
#include "kernels/cuda/overlap/fused.h"
#include "kernels/cuda/overlap/fused/tables.h"

enum { STORE_ROWS = 64 };
enum { SEND_ROWS = 16, PUT_ROOM_BYTES = 8 * 4096 }; /* as in sender.cuh; as in putter.cuh, PUT_SLOTS of PUT_BYTES */

/* ---- as in call.cuh ---- */

enum { WORK_HEAD = 5 };

struct maps {
    CUtensorMap a, b, staged[2], to[2][CUDA_FUSED_RANKS], slot[2], out, peer_sums[2];
};

/* ---- tables on the device ---- */

/* Tables on a device, by problem, rank and part, which determine the schedule; and by stream, since the counters among
 * them are of one run at a time. */
struct kept {
    struct kept *next;
    unsigned opening;
    CUstream stream;
    int me, part;              /* part: of the schedule */
    struct mt_overlap problem; /* with shares of its own */
    CUdeviceptr memory;
    int64_t at[5];
    int32_t ntiles, nboxes, nputs, npieces;
    bool pairs; /* of tiles, for clusters of two blocks */
};
static struct kept *all_kept;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int64_t start_of(const int64_t *shares, int rank) {
    int64_t start = 0;
    for (int r = 0; r < rank; r++) start += shares[r];
    return start;
}

/* Counters, which begin as zeros, then the tables. */
static enum mt_status upload(const struct cuda_fused_tables *t, struct kept *kept, struct mt_err *err) {
    const struct {
        const void *rows;
        int64_t bytes;
    } part[5] = {{t->tiles, t->ntiles * (int64_t)sizeof *t->tiles},
                 {t->boxes, t->nboxes * (int64_t)sizeof *t->boxes},
                 {t->pieces, t->npieces * (int64_t)sizeof *t->pieces},
                 {t->waits, t->nwaits * (int64_t)sizeof *t->waits},
                 {t->signals, t->nsignals * (int64_t)sizeof *t->signals}};
    int64_t end = divide_up((WORK_HEAD + t->nboxes) * (int64_t)sizeof(uint32_t), 128) * 128;
    for (int i = 0; i < 5; i++) {
        kept->at[i] = end;
        end += divide_up(part[i].bytes, 128) * 128;
    }
    char *image = mt_calloc((size_t)end, 1);
    for (int i = 0; i < 5; i++)
        if (part[i].bytes) memcpy(image + kept->at[i], part[i].rows, (size_t)part[i].bytes);
    CUresult result = cuMemAlloc(&kept->memory, (size_t)end);
    bool made = !result;
    if (!result) result = cuMemcpyHtoD(kept->memory, image, (size_t)end);
    /* From pageable memory it may return before all is there, and no stream of ours awaits the default one. */
    if (!result) result = cuStreamSynchronize(CU_STREAM_LEGACY);
    if (result && made) cuMemFree(kept->memory);
    free(image);
    kept->ntiles = t->ntiles, kept->nboxes = t->nboxes;
    kept->nputs = t->nputs, kept->npieces = t->npieces;
    return result ? cuda_fail(err, result, "tables of an overlapped GEMM") : MT_OK;
}

static struct kept *new_kept(const struct cuda_queue *queue, const struct cuda_overlap *o) {
    const struct mt_overlap *p = o->problem;
    size_t bytes = (size_t)p->n * sizeof *p->rows;
    struct kept *kept = mt_calloc(1, sizeof *kept + 2 * bytes);
    int64_t *shares = (int64_t *)(kept + 1);
    memcpy(shares, p->rows, bytes);
    memcpy(shares + p->n, p->shares, bytes);
    kept->opening = queue->cuda->opening, kept->stream = queue->stream;
    kept->me = o->me, kept->part = o->schedule->part, kept->problem = *p;
    kept->problem.rows = shares, kept->problem.shares = shares + p->n;
    return kept;
}

static bool is_of(const struct kept *k, const struct cuda_queue *queue, const struct cuda_overlap *o) {
    return k->opening == queue->cuda->opening && k->stream == queue->stream && k->me == o->me &&
           k->part == o->schedule->part && mt_overlap_equal(&k->problem, o->problem);
}

static enum mt_status find(const struct cuda_queue *queue, const struct cuda_overlap *o, const struct kept **found,
                           struct mt_err *err) {
    enum mt_status st = MT_OK;
    pthread_mutex_lock(&lock);
    struct kept *k = all_kept;
    while (k && !is_of(k, queue, o)) k = k->next;
    if (!k) {
        struct cuda_fused_tables tables = {0};
        k = new_kept(queue, o);
        k->pairs = cuda_fused_has_pairs(o->problem, o->schedule, queue->cuda->nsm);
        cuda_fused_tables_make(o->problem, o->me, o->schedule, queue->cuda->nsm, k->pairs, &tables);
        st = upload(&tables, k, err);
        mt_arena_release(&tables.arena);
        if (st) {
            free(k);
            k = NULL;
        } else {
            k->next = all_kept, all_kept = k;
        }
    }
    pthread_mutex_unlock(&lock);
    *found = k;
    return st;
}

void cuda_fused_forget(const struct cuda *cuda, CUstream stream) {
    pthread_mutex_lock(&lock);
    for (struct kept **at = &all_kept, *k; (k = *at);) {
        if (k->opening != cuda->opening || (stream && k->stream != stream)) {
            at = &k->next;
            continue;
        }
        *at = k->next;
        cuMemFree(k->memory);
        free(k);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- whether it can ---- */

static bool lies_well(const void *address) {
    return (uintptr_t)address % 16 == 0;
}

/* Bytes in shared memory beside what tiles alone have: of rows on their way to peers. */
static int64_t beside_bytes_of(const struct mt_overlap *p) {
    return cuda_fused_has_putter(p) ? PUT_ROOM_BYTES : 0;
}

static bool has_tile(const struct cuda *cuda, const struct mt_overlap *p, int me) {
    if (mt_overlap_fused_few(p)) return cuda_few_serves(cuda, p, me);
    const struct gemm_tile *tile = gemm_tile_of(p->tile[0], p->tile[1]);
    return cuda->sm == 90 && tile && gemm_tile_stages(cuda, tile, beside_bytes_of(p));
}

bool cuda_fused_serves(const struct cuda *cuda, const struct mt_overlap *problem, int me) {
    return has_tile(cuda, problem, me) && mt_overlap_fused_serves(problem, me, false, false, false);
}

static bool can(const struct cuda *cuda, const struct cuda_overlap *o) {
    const struct mt_overlap_operands *x = o->operands;
    return has_tile(cuda, o->problem, o->me) &&
           mt_overlap_fused_serves(o->problem, o->me, x->trans_a, x->trans_b, x->trans_out) && lies_well(x->a) &&
           lies_well(x->b) && lies_well(x->out) && lies_well(x->whole) && lies_well(x->extra) && lies_well(x->pre);
}

/* As in fused.cu: EPILOGUE, of those that mt_overlap_takes_epilogue. */
static int epilogue_of(const struct cuda_overlap *o) {
    switch (o->operands->epilogue) {
    case MT_OP_add: return 1;
    case MT_OP_gelu: return 2;
    case MT_OP_relu: return 3;
    case MT_OP_gelu_grad: return 4;
    case MT_OP_relu_grad: return 5;
    default: return 0;
    }
}

static bool activates(const struct cuda_overlap *o) {
    return epilogue_of(o) == 2 || epilogue_of(o) == 3;
}

/* Bytes of a gather's results. */
static int64_t result_bytes(const struct cuda_overlap *o) {
    const struct mt_overlap *p = o->problem;
    int64_t matrices = activates(o) ? 2 : 1;
    return matrices * p->m * p->shares[o->me] * mt_type_size(p->out);
}

/* ---- puts by copy engines ---- */

/* Queue them all, after what the stream has by now: they await nothing. The kernel that begins runs beside the first
 * one's data. */
static enum mt_status put_all(const struct cuda_overlap_run *run, struct mt_err *err) {
    const struct mt_overlap_schedule *s = run->o->schedule;
    enum mt_status st = cuda_overlap_fork(run, err);
    if (!st && s->nputs) st = cuda_overlap_put_data(run, &s->puts[0], err);
    if (!st) st = cuda_overlap_begin(run->queue, run->o, run->scratch.words, 1, err);
    if (!st) st = cuda_overlap_fork(run, err);
    for (int j = 0; j < s->nputs && !st; j++) {
        if (j) st = cuda_overlap_put_data(run, &s->puts[j], err);
        if (!st) st = cuda_overlap_raise(run, &s->puts[j], &s->puts[j].flag, 1, err);
    }
    return st;
}

/* ---- running ---- */

/* Maps of matrices that are empty are left as they are: nothing uses them. */
static enum mt_status map(CUtensorMap *to, struct gemm_matrix x, int64_t box_columns, int64_t box_rows,
                          struct mt_err *err) {
    return x.rows && x.columns ? gemm_map(to, &x, box_columns, box_rows, err) : MT_OK;
}

static const void *place(const struct cuda_overlap *o, int rank, enum mt_overlap_buffer buffer, int copy,
                         int64_t element) {
    int64_t at =
        mt_overlap_place(o->problem, buffer, copy) + element * mt_type_size(mt_overlap_type(o->problem, buffer));
    return (const void *)(o->parts[rank] + (CUdeviceptr)at);
}

/* Of tiles that add: the slot of the peer here, this rank's rows of its result, and of where the peer gets sums. */
static enum mt_status map_sums(const struct cuda_overlap *o, struct maps *maps, struct mt_err *err) {
    const struct mt_overlap *p = o->problem;
    int64_t first, owned = mt_overlap_owned(p, o->me, &first), columns = GEMM_ROW_BYTES / mt_type_size(p->wire);
    int64_t before = p->form == MT_OVERLAP_REDUCE ? first * p->cols : 0;
    const void *out = (const char *)o->operands->out + before * mt_type_size(p->out);
    enum mt_status st = map(&maps->out, (struct gemm_matrix){p->out, out, owned, p->cols, 1}, columns, STORE_ROWS, err);
    for (int copy = 0; copy < o->schedule->copies && !st; copy++) {
        const void *slot = place(o, o->me, MT_OVERLAP_SLOTS, copy, (1 - o->me) * owned * p->cols);
        st = map(&maps->slot[copy], (struct gemm_matrix){p->wire, slot, owned, p->cols, 0}, columns, STORE_ROWS, err);
        if (st || p->form != MT_OVERLAP_REDUCE) continue;
        const void *result = place(o, 1 - o->me, MT_OVERLAP_RESULT, copy, before);
        st = map(&maps->peer_sums[copy], (struct gemm_matrix){p->wire, result, owned, p->cols, 1}, columns, SEND_ROWS,
                 err);
    }
    return st;
}

static enum mt_status map_operands(const struct cuda_overlap *o, bool pairs, struct maps *maps, struct mt_err *err) {
    const struct mt_overlap *p = o->problem;
    const struct mt_overlap_operands *x = o->operands;
    bool gather = p->form == MT_OVERLAP_GATHER;
    int64_t a[2], rows = p->tile[0], columns = p->tile[1], k = gather ? p->k : p->shares[o->me],
                  width = gather ? p->shares[o->me] : p->cols, loaders = pairs ? 2 : 1; /* of a slab of B */
    mt_overlap_extent(p, o->me, MT_OVERLAP_A, a);
    if (!width) a[0] = 0;
    enum mt_status st = map(&maps->a, (struct gemm_matrix){p->type, x->a, a[x->trans_a], a[!x->trans_a], 0}, GEMM_SLAB,
                            x->trans_a ? GEMM_SLAB : rows, err);
    if (!st)
        st = map(&maps->b, (struct gemm_matrix){p->type, x->b, x->trans_b ? width : k, x->trans_b ? k : width, 0},
                 GEMM_SLAB, (x->trans_b ? columns : GEMM_SLAB) / loaders, err);
    for (int copy = 0; copy < o->schedule->copies && gather && width && !st; copy++)
        st = map(&maps->staged[copy],
                 (struct gemm_matrix){p->type, place(o, o->me, MT_OVERLAP_STAGED, copy, 0), p->m, k, 0}, GEMM_SLAB,
                 rows, err);
    enum mt_type type = gather ? p->out : p->wire;
    for (int i = 0; i < o->schedule->copies * p->n && !st; i++) {
        int copy = i / p->n, r = i % p->n;
        int64_t first, owned = gather ? p->rows[r] : mt_overlap_owned(p, r, &first);
        struct gemm_matrix to = {type, NULL, owned, width, 1};
        to.data = gather ? (const char *)x->out + start_of(p->rows, r) * width * mt_type_size(type)
                         : place(o, r, MT_OVERLAP_SLOTS, copy, o->me * owned * width);
        st = map(&maps->to[copy][r], to, GEMM_ROW_BYTES / mt_type_size(type), gather ? STORE_ROWS : SEND_ROWS, err);
    }
    /* Instead of the other copy, which is the same in a gather: `pre`, which is stored; x, which is loaded. */
    for (int r = 0; r < p->n && epilogue_of(o) > 1 && !st; r++) {
        struct gemm_matrix beside = {type, activates(o) ? x->pre : x->extra, p->rows[r], width, activates(o)};
        beside.data = (const char *)beside.data + start_of(p->rows, r) * width * mt_type_size(type);
        st = map(&maps->to[1][r], beside, GEMM_ROW_BYTES / mt_type_size(type), STORE_ROWS, err);
    }
    return st || !mt_overlap_fused_adds(p) ? st : map_sums(o, maps, err);
}

static struct cuda_fused_call make_call(const struct cuda_overlap *o, const struct kept *kept) {
    const struct mt_overlap *p = o->problem;
    bool gather = p->form == MT_OVERLAP_GATHER;
    int64_t first, k = gather ? p->k : p->shares[o->me];
    struct cuda_fused_call call = {.a = (CUdeviceptr)o->operands->a,
                                   .out = (CUdeviceptr)o->operands->out,
                                   .whole = (CUdeviceptr)o->operands->whole,
                                   .epoch = o->epoch,
                                   .work = kept->memory,
                                   .tiles = kept->memory + (CUdeviceptr)kept->at[0],
                                   .boxes = kept->memory + (CUdeviceptr)kept->at[1],
                                   .pieces = kept->memory + (CUdeviceptr)kept->at[2],
                                   .waits = kept->memory + (CUdeviceptr)kept->at[3],
                                   .signals = kept->memory + (CUdeviceptr)kept->at[4],
                                   .ntiles = kept->ntiles,
                                   .nboxes = kept->nboxes,
                                   .nputs = kept->nputs,
                                   .npieces = kept->npieces,
                                   .copies = o->schedule->copies,
                                   .me = o->me,
                                   .begun = p->engines,
                                   .slabs = (int32_t)divide_up(k, GEMM_SLAB),
                                   .k = (int32_t)k,
                                   .columns = (int32_t)(gather ? p->shares[o->me] : p->cols),
                                   .owned = (int32_t)mt_overlap_owned(p, o->me, &first),
                                   .watch = o->watch,
                                   .bias = (CUdeviceptr)o->operands->extra};
    for (int r = 0; r < p->n; r++) {
        call.part[r] = o->parts[r];
        if (!gather && mt_overlap_contributes(p, r)) call.adds |= 1u << r;
    }
    for (int copy = 0; copy < o->schedule->copies; copy++) {
        call.staged[copy] = mt_overlap_place(p, MT_OVERLAP_STAGED, copy);
        call.slots[copy] = mt_overlap_place(p, MT_OVERLAP_SLOTS, copy);
        call.sums[copy] = mt_overlap_place(p, MT_OVERLAP_RESULT, copy);
    }
    return call;
}

static enum mt_status launch(const struct cuda_queue *queue, const struct cuda_overlap *o, bool pairs,
                             struct cuda_fused_call *call, struct mt_err *err) {
    const struct mt_overlap *p = o->problem;
    const struct gemm_tile *tile = gemm_tile_of(p->tile[0], p->tile[1]);
    struct cuda *cuda = queue->cuda;
    struct maps maps = {0};
    char definitions[440], epilogue[24] = "";
    CUfunction kernel;
    int shared_bytes = gemm_tile_shared_bytes(cuda, tile, beside_bytes_of(p));
    /* Partial sums are read again soon, and leave as early as they can; where tiles add, what they add needs time to
     * come. */
    bool gather = p->form == MT_OVERLAP_GATHER, spread = gather || mt_overlap_fused_adds(p);
    bool streamed = gather && gemm_streams(cuda, result_bytes(o));
    enum mt_status st = map_operands(o, pairs, &maps, err);
    if (st) return st;
    if (epilogue_of(o)) snprintf(epilogue, sizeof epilogue, " -DEPILOGUE=%d", epilogue_of(o));
    snprintf(definitions, sizeof definitions,
             "-DTYPE=%s -DHALF=%s -DOUT=%s -DTURN_A=%d -DTURN_B=%d -DROWS=%d -DCOLUMNS=%d -DTOGETHER=%d -DSTAGES=%d "
             "-DSHARE=%d -DSPREAD=%d -DSTREAMED=%d -DACCUMULATE=0 -DWIRE=%s -DRESULT=%s -DRANKS=%d -DSIGNALS=%d "
             "-DADDS=%d -DPUTTER=%d%s",
             cuda_type(p->type), cuda_type(p->type), cuda_type(gather ? p->out : p->wire), o->operands->trans_a,
             !o->operands->trans_b, tile->rows, tile->columns, tile->together,
             gemm_tile_stages(cuda, tile, beside_bytes_of(p)), pairs, spread, streamed, cuda_type(p->wire),
             cuda_type(p->out), p->n, !gather, mt_overlap_fused_adds(p), cuda_fused_has_putter(p), epilogue);
    if ((st = cuda_kernel(cuda, "fused", definitions, "overlap_fused", shared_bytes, &kernel, err))) return st;
    struct cuda_overlap_run run;
    if (p->engines) {
        cuda_overlap_run_init(&run, queue, o);
        if ((st = put_all(&run, err))) return st;
    }
    /* A block with a tile, with a piece that is put, or with pieces for all of its movers and consumers; of pairs
     * whole clusters. Two neighbours are free together, or come to be. */
    int64_t moved = divide_up(call->npieces - call->nputs, 8);
    int64_t wanted = largest(largest(call->ntiles, call->nputs), largest(moved, 1));
    int64_t each = pairs ? 2 : 1, blocks = least(divide_up(wanted, each), cuda->nsm / each) * each;
    st = cuda_launch(queue, kernel, blocks, GEMM_TILE_THREADS, shared_bytes, (void *[]){&maps, call}, err);
    return st || !p->engines ? st : cuda_overlap_join(&run, err);
}

static enum mt_status queue(const struct cuda_queue *queue, const struct cuda_overlap *o, struct mt_err *err) {
    const struct kept *kept;
    enum mt_status st = find(queue, o, &kept, err);
    if (st) return st;
    struct cuda_fused_call call = make_call(o, kept);
    return mt_overlap_fused_few(o->problem) ? cuda_few_launch(queue, o, &call, err)
                                            : launch(queue, o, kept->pairs, &call, err);
}

const struct cuda_overlap_impl cuda_overlap_fused = {MT_OVERLAP_FUSED, can, queue};
