/* Schedules on a CPU: tiles in order, each by the device's own GEMM, and puts after their tiles.
 *
 * A tile is multiplied, or its slots are added, in memory of the accumulation type, where an epilogue is operators on
 * complete sums; then it is rounded to where it goes. The GEMM wants contiguous operands: columns of an untransposed B,
 * and rows of a transposed A, are packed before the first tile, block by block; of slabs, those of a transposed B too,
 * and the tile's columns of A when they are there. Puts between hosts make progress while the rank awaits flags. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/wait.h"
#include "kernels/coll/reduce.h"
#include "kernels/op/op.h"
#include "kernels/overlap/internal.h"
#include "kernels/window/window.h"

struct run {
    const struct mt_overlap *problem;
    const struct mt_overlap_schedule *schedule;
    struct mt_overlap_operands *operands;
    struct mt_window *window;
    int me;
    int64_t base, epoch;
    char *buffer[MT_OVERLAP_NBUFFERS];
    int64_t extent[MT_OVERLAP_NBUFFERS][2];
    /* packed_a: transposed A by blocks of rows; packed_b: B by blocks of columns, each by slabs; null: as it is. */
    char *packed_a, *packed_b, *tile, *line, *matmul_scratch;
    char *slab_a, *slab_sum; /* where there are several slabs: A's columns, and the product */
    char *bias, *beside;     /* of an epilogue, of the accumulation type: a tile's bias; its x, or its result */
};

static int64_t round_up(int64_t bytes) {
    return (bytes + 63) / 64 * 64;
}

/* This rank's part of B. */
static void extent_b(const struct mt_overlap *p, int me, int64_t extent[2]) {
    bool gather = p->form == MT_OVERLAP_GATHER;
    extent[0] = gather ? p->k : p->shares[me];
    extent[1] = gather ? p->shares[me] : p->cols;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The terms [from, + k) that a slab of a GEMM's tile adds up. */
struct terms {
    int64_t from, k;
};

static struct terms terms_of(const struct mt_overlap *p, int slab, int64_t k) {
    struct terms t = {0, k};
    if (mt_overlap_nslabs(p) > 1) t.from = mt_overlap_slab(p, slab, &t.k);
    return t;
}

/* The GEMM of a tile; tensors[3]: A's rows, B's columns, the product. */
static struct mt_call tile_call(const struct mt_overlap *p, const struct mt_attr *attr, struct mt_tensor *tensors,
                                int64_t rows, int64_t cols, int64_t k) {
    int64_t extents[3][2] = {{rows, k}, {k, cols}, {rows, cols}};
    if (attr->trans_a) extents[0][0] = k, extents[0][1] = rows;
    if (attr->trans_b) extents[1][0] = cols, extents[1][1] = k;
    for (int i = 0; i < 3; i++) {
        tensors[i] = (struct mt_tensor){.type = i < 2 ? p->type : mt_type_acc(p->type), .naxes = 2};
        for (int a = 0; a < 2; a++) tensors[i].extent[a] = tensors[i].global[a] = extents[i][a];
    }
    return (struct mt_call){.kind = MT_OP_matmul, .attr = attr, .nin = 2, .nout = 1, .in = tensors, .out = tensors + 2};
}

static struct mt_attr tile_attr(const struct mt_overlap *p, bool trans_a, bool trans_b) {
    return (struct mt_attr){
        .nm = 1, .nn = 1, .nk = 1, .trans_a = trans_a, .trans_b = trans_b, .out_acc = true, .tf32 = p->tf32};
}

/* Lay out the scratch from `memory` on, but for the GEMM's own; its bytes. */
static int64_t lay_out(struct run *run, enum mt_op_kind epilogue, char *memory) {
    const struct mt_op_epilogue *info = mt_op_epilogue(epilogue);
    const struct mt_overlap *p = run->problem;
    int64_t partial[2], a[2], b[2], at = 0, acc = mt_type_size(mt_type_acc(p->type)), size = mt_type_size(p->type);
    mt_overlap_extent(p, run->me, MT_OVERLAP_PARTIAL, partial);
    mt_overlap_extent(p, run->me, MT_OVERLAP_A, a);
    extent_b(p, run->me, b);
    run->buffer[MT_OVERLAP_PARTIAL] = memory + at;
    at += round_up(partial[0] * partial[1] * mt_type_size(p->wire));
    run->packed_a = memory + at;
    at += p->form == MT_OVERLAP_GATHER ? 0 : round_up(a[0] * a[1] * size);
    run->packed_b = memory + at;
    at += round_up(b[0] * b[1] * size);
    run->tile = memory + at;
    int64_t widest = p->keep && p->k > p->cols ? p->k : p->cols;
    at += round_up(least(p->tile[0], p->m) * least(p->tile[1], widest) * acc);
    if (mt_overlap_nslabs(p) > 1) {
        int64_t width;
        mt_overlap_slab(p, 0, &width);
        run->slab_a = memory + at;
        at += round_up(least(p->tile[0], p->m) * width * size);
        run->slab_sum = memory + at;
        at += round_up(least(p->tile[0], p->m) * least(p->tile[1], b[1]) * acc);
    }
    run->bias = memory + at;
    at += info && info->bias ? round_up(least(p->tile[1], b[1]) * acc) : 0;
    run->beside = memory + at;
    at += info && epilogue != MT_OP_add ? round_up(least(p->tile[0], p->m) * least(p->tile[1], b[1]) * acc) : 0;
    run->line = memory + at;
    at += round_up(least(p->tile[0], p->m) * acc);
    run->matmul_scratch = memory + at;
    return at;
}

/* Rows of the tiles that a rank multiplies, each number once; how many. sizes: room for n (groups + 2). */
static int tile_rows(const struct mt_overlap *p, int me, int64_t *sizes) {
    bool whole = p->direct || p->joint; /* not each owner's by itself */
    int count = 0;
    for (int owner = whole ? me : 0; owner < (whole ? me + 1 : p->n); owner++) {
        int64_t first, owned = p->joint ? p->m : mt_overlap_owned(p, owner, &first);
        int64_t pieces = mt_overlap_row_pieces(p, owned, p->tile[0]), size;
        for (int64_t i = 0; i < pieces; i++) {
            if (i > p->ngroups && i < pieces - 1) i = pieces - 1; /* those between are alike */
            mt_overlap_row_piece(p, owned, p->tile[0], i, &size);
            int known = 0;
            while (known < count && sizes[known] != size) known++;
            sizes[known] = size;
            count += known == count;
        }
    }
    return count;
}

/* What a backend needs is not more for a larger GEMM: every shape of tiles is asked for, of the first and the last
 * slab, or of all where these differ. */
int64_t mt_overlap_scratch_bytes(const struct mt_overlap *p, int me, enum mt_op_kind epilogue,
                                 int64_t (*scratch_bytes)(void *context, const struct mt_call *call), void *context) {
    static char nowhere[1];
    struct run run = {.problem = p, .me = me};
    int64_t b[2], most = 0, *rows = mt_calloc((size_t)p->n * (size_t)(p->ngroups + 2), sizeof *rows);
    extent_b(p, me, b);
    int64_t across = mt_overlap_pieces(b[1], p->tile[1]), cols;
    int nrows = mt_overlap_contributes(p, me) ? tile_rows(p, me, rows) : 0, nslabs = mt_overlap_nslabs(p);
    int asked = mt_overlap_halves(p) ? nslabs : 2;
    for (int i = 0; i < nrows * asked * 2 * 4 && across; i++) {
        int trans = i % 4, slab = i / 8 % asked;
        mt_overlap_piece(b[1], p->tile[1], i / 4 % 2 ? across - 1 : 0, &cols);
        struct mt_tensor tensors[3];
        struct mt_attr attr = tile_attr(p, trans & 1, trans & 2);
        struct terms terms = terms_of(p, slab == asked - 1 ? nslabs - 1 : slab, b[0]);
        struct mt_call call = tile_call(p, &attr, tensors, rows[i / (8 * asked)], cols, terms.k);
        int64_t bytes = scratch_bytes(context, &call);
        if (bytes > most) most = bytes;
    }
    free(rows);
    return lay_out(&run, epilogue, nowhere) + round_up(most);
}

/* ---- packing ---- */

/* Columns [col, + cols) of a matrix of `rows` by `stride`, contiguous. */
static void pack_columns(char *to, const char *from, int64_t rows, int64_t stride, int64_t col, int64_t cols,
                         int64_t size) {
    for (int64_t i = 0; i < rows; i++)
        memcpy(to + i * cols * size, from + (i * stride + col) * size, (size_t)(cols * size));
}

/* B by blocks of columns; a block by slabs, one after the other. */
static void pack_b(struct run *run) {
    const struct mt_overlap *p = run->problem;
    const struct mt_overlap_operands *o = run->operands;
    int64_t b[2], size = mt_type_size(p->type), cols;
    int nslabs = mt_overlap_nslabs(p);
    extent_b(p, run->me, b);
    if (o->trans_b ? nslabs == 1 : b[1] <= p->tile[1]) run->packed_b = NULL;
    for (int64_t block = 0; run->packed_b && block < mt_overlap_pieces(b[1], p->tile[1]); block++) {
        int64_t col = mt_overlap_piece(b[1], p->tile[1], block, &cols);
        char *to = run->packed_b + col * b[0] * size;
        for (int s = 0; s < nslabs && o->trans_b; s++) {
            struct terms t = terms_of(p, s, b[0]);
            pack_columns(to + t.from * cols * size, (const char *)o->b + col * b[0] * size, cols, b[0], t.from, t.k,
                         size);
        }
        if (!o->trans_b) pack_columns(to, o->b, b[0], b[1], col, cols, size);
    }
}

static void pack(struct run *run) {
    const struct mt_overlap *p = run->problem;
    const struct mt_overlap_operands *o = run->operands;
    int64_t b[2], size = mt_type_size(p->type);
    extent_b(p, run->me, b);
    if (!o->trans_a) run->packed_a = NULL;
    for (int t = 0; t < run->schedule->ntiles && run->packed_a; t++) {
        const struct mt_overlap_tile *tile = &run->schedule->tiles[t];
        if (tile->kind == MT_TILE_MATMUL && tile->from == MT_OVERLAP_A && !tile->col)
            pack_columns(run->packed_a + tile->from_row * b[0] * size, o->a, b[0], run->extent[MT_OVERLAP_A][0],
                         tile->from_row, tile->rows, size);
    }
    pack_b(run);
}

/* ---- tiles ---- */

static char *place(const struct run *run, enum mt_overlap_buffer buffer, int64_t row, int64_t col) {
    int64_t size = mt_type_size(mt_overlap_type(run->problem, buffer));
    return run->buffer[buffer] + (row * run->extent[buffer][1] + col) * size;
}

/* Round a tile of the accumulation type to where it goes. */
static void store(const struct run *run, const struct mt_overlap_tile *tile, const char *sums) {
    enum mt_type acc = mt_type_acc(run->problem->type), type = mt_overlap_type(run->problem, tile->to);
    int64_t wide = mt_type_size(acc), size = mt_type_size(type);
    if (tile->to != MT_OVERLAP_OUT || !run->operands->trans_out) {
        for (int64_t i = 0; i < tile->rows; i++)
            mt_type_convert(type, place(run, tile->to, tile->row + i, tile->col), acc, sums + i * tile->cols * wide,
                            tile->cols);
        return;
    }
    for (int64_t j = 0; j < tile->cols; j++) {
        for (int64_t i = 0; i < tile->rows; i++)
            memcpy(run->line + i * wide, sums + (i * tile->cols + j) * wide, (size_t)wide);
        mt_type_convert(type, run->buffer[tile->to] + ((tile->col + j) * run->extent[tile->to][0] + tile->row) * size,
                        acc, run->line, tile->rows);
    }
}

/* ---- epilogues ---- */

/* The tile's box of a matrix that lies as the result does, from its type to the accumulation type, or back. */
static void convert_box(const struct run *run, const struct mt_overlap_tile *tile, char *matrix, char *box, bool back) {
    enum mt_type acc = mt_type_acc(run->problem->type), type = run->problem->out;
    for (int64_t i = 0; i < tile->rows; i++) {
        char *row = matrix + ((tile->row + i) * run->extent[tile->to][1] + tile->col) * mt_type_size(type);
        char *wide = box + i * tile->cols * mt_type_size(acc);
        mt_type_convert(back ? type : acc, back ? row : wide, back ? acc : type, back ? wide : row, tile->cols);
    }
}

/* An element-wise operator on tiles of the accumulation type; of `add`, b is a row. It needs no scratch. */
static enum mt_status apply(const struct run *run, const struct mt_overlap_tile *tile, enum mt_op_kind kind, char *a,
                            char *b, char *y, struct mt_err *err) {
    struct mt_attr attr = {.axes = kind == MT_OP_add ? 2 : 0};
    struct mt_tensor tensors[3] = {{.data = a}, {.data = b}, {.data = y}};
    for (int i = 0; i < 3; i++) {
        struct mt_tensor *t = &tensors[i];
        t->type = mt_type_acc(run->problem->type);
        if (i != 1 || kind != MT_OP_add) t->extent[t->naxes++] = tile->rows;
        t->extent[t->naxes++] = tile->cols;
        memcpy(t->global, t->extent, sizeof t->global);
    }
    struct mt_call call = {.kind = kind,
                           .attr = &attr,
                           .nin = b ? 2 : 1,
                           .nout = 1,
                           .in = tensors,
                           .out = tensors + 2,
                           .what = run->operands->what};
    return run->operands->ops->run(&call, err);
}

/* Complete sums become the result, at *result. The fused_matmul of plain C activates sums before they are rounded, that
 * of another backend what it has rounded: so does a tile, whoever multiplied it. */
static enum mt_status run_epilogue(const struct run *run, const struct mt_overlap_tile *tile, char **result,
                                   struct mt_err *err) {
    const struct mt_overlap_operands *o = run->operands;
    const struct mt_op_epilogue *info = mt_op_epilogue(o->epilogue);
    enum mt_type type = run->problem->type;
    char *extra = (char *)(uintptr_t)o->extra;
    *result = run->tile;
    if (!info) return MT_OK;
    if (!info->bias) {
        convert_box(run, tile, extra, run->beside, false);
        return apply(run, tile, o->epilogue, run->tile, run->beside, run->tile, err);
    }
    mt_type_convert(mt_type_acc(type), run->bias, type, extra + tile->col * mt_type_size(type), tile->cols);
    enum mt_status st = apply(run, tile, MT_OP_add, run->tile, run->bias, run->tile, err);
    if (st || info->nout == 1) return st;
    convert_box(run, tile, o->pre, run->tile, true);
    if (o->matmul != o->ops) convert_box(run, tile, o->pre, run->tile, false);
    *result = run->beside;
    return apply(run, tile, o->epilogue, run->tile, NULL, run->beside, err);
}

/* Complete sums, with the epilogue, go to where the tile goes. */
static enum mt_status complete(const struct run *run, const struct mt_overlap_tile *tile, struct mt_err *err) {
    char *result;
    enum mt_status st = run_epilogue(run, tile, &result, err);
    if (!st) store(run, tile, result);
    return st;
}

/* ---- GEMMs, sums and copies ---- */

/* The slab that a tile multiplies at a step. */
static int slab_of(const struct mt_overlap *p, const struct mt_overlap_tile *tile, int step) {
    int64_t cols;
    if (!tile->k) return step;
    mt_overlap_slab(p, 0, &cols);
    return (int)((tile->k / cols + step) % mt_overlap_nslabs(p));
}

/* One slab of the tile, added to those of the steps before. */
static enum mt_status multiply(const struct run *run, const struct mt_overlap_tile *tile, int step,
                               struct mt_err *err) {
    const struct mt_overlap *p = run->problem;
    int64_t b[2], size = mt_type_size(p->type);
    extent_b(p, run->me, b);
    struct terms terms = terms_of(p, slab_of(p, tile, step), b[0]);
    bool packed_a = run->packed_a && tile->from == MT_OVERLAP_A, last = step == mt_overlap_nslabs(p) - 1;
    struct mt_attr attr = tile_attr(p, packed_a, run->operands->trans_b);
    struct mt_tensor tensors[3];
    struct mt_call call = tile_call(p, &attr, tensors, tile->rows, tile->cols, terms.k);
    assert(tile->col % p->tile[1] == 0 && (tile->cols == p->tile[1] || tile->col + tile->cols == b[1]));
    tensors[0].data =
        packed_a ? run->packed_a + tile->from_row * b[0] * size : place(run, tile->from, tile->from_row, 0);
    if (terms.k < b[0]) {
        pack_columns(run->slab_a, tensors[0].data, tile->rows, b[0], terms.from, terms.k, size);
        tensors[0].data = run->slab_a;
    }
    tensors[1].data = (run->packed_b ? run->packed_b : (char *)(uintptr_t)run->operands->b) +
                      (tile->col * b[0] + terms.from * tile->cols) * size;
    tensors[2].data = step ? run->slab_sum : run->tile;
    call.scratch = run->matmul_scratch;
    call.what = run->operands->what;
    enum mt_status st = run->operands->matmul->run(&call, err);
    enum mt_type acc = mt_type_acc(p->type);
    if (!st && step) mt_coll_reduce(MT_SUM, acc, run->tile, acc, run->slab_sum, tile->rows * tile->cols);
    if (st || !last) return st;
    if (p->form == MT_OVERLAP_GATHER) return complete(run, tile, err);
    store(run, tile, run->tile); /* partial sums */
    return MT_OK;
}

/* In the order of ranks. */
static enum mt_status add(const struct run *run, const struct mt_overlap_tile *tile, struct mt_err *err) {
    const struct mt_overlap *p = run->problem;
    enum mt_type acc = mt_type_acc(p->type);
    int64_t first, owned = mt_overlap_owned(p, run->me, &first);
    memset(run->tile, 0, (size_t)(tile->rows * tile->cols * mt_type_size(acc)));
    for (int64_t i = 0; i < tile->rows; i++)
        for (int s = 0; s < p->n; s++)
            if (mt_overlap_contributes(p, s))
                mt_coll_reduce(MT_SUM, acc, run->tile + i * tile->cols * mt_type_size(acc), p->wire,
                               place(run, tile->from, s * owned + tile->from_row + i, tile->col), tile->cols);
    return complete(run, tile, err);
}

static void copy(const struct run *run, const struct mt_overlap_tile *tile) {
    enum mt_type acc = mt_type_acc(run->problem->type);
    for (int64_t i = 0; i < tile->rows; i++)
        mt_type_convert(acc, run->tile + i * tile->cols * mt_type_size(acc), mt_overlap_type(run->problem, tile->from),
                        place(run, tile->from, tile->from_row + i, tile->col), tile->cols);
    store(run, tile, run->tile);
}

/* A tile, or a step of one that is multiplied. */
static enum mt_status compute(const struct run *run, const struct mt_overlap_tile *tile, int step, struct mt_err *err) {
    double start_s = mt_now_s();
    enum mt_status st = MT_OK;
    switch (tile->kind) {
    case MT_TILE_MATMUL: st = multiply(run, tile, step, err); break;
    case MT_TILE_ADD: st = add(run, tile, err); break;
    case MT_TILE_COPY: copy(run, tile); break;
    }
    run->operands->computed_s += mt_now_s() - start_s;
    return st;
}

/* ---- flags and puts ---- */

static int rank_of(const struct run *run, int place_of) {
    return run->operands->ranks ? run->operands->ranks[place_of] : place_of;
}

/* Those of the waits whose position in K is in `of`. */
static enum mt_status await(const struct run *run, int first, int count, struct terms of, const char *entry, int number,
                            struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int w = first; w < first + count && !st; w++) {
        const struct mt_overlap_wait *wait = &run->schedule->waits[w];
        if (wait->k < of.from || wait->k >= of.from + of.k) continue;
        int64_t target = (run->epoch - wait->lag) * wait->count;
        int from = rank_of(run, wait->from);
        char what[200];
        if (target <= 0) continue;
        snprintf(what, sizeof what, "rank %d, for %s %d of %s in epoch %lld",
                 run->operands->names ? run->operands->names[from] : from, entry, number, run->operands->what,
                 (long long)run->epoch);
        st = mt_window_wait(run->window, run->base + mt_overlap_flag_place(run->problem, wait->flag), MT_CMP_GE,
                            (uint64_t)target, what, err);
    }
    return st;
}

/* The puts of a tile, from put *j on. */
static enum mt_status put_all(const struct run *run, int tile, int *j, struct mt_err *err) {
    const struct mt_overlap *p = run->problem;
    enum mt_status st = MT_OK;
    for (; *j < run->schedule->nputs && run->schedule->puts[*j].tile == tile && !st; ++*j) {
        const struct mt_overlap_put *put = &run->schedule->puts[*j];
        int64_t size = mt_type_size(mt_overlap_type(p, put->to)), from[2], to[2];
        int peer = rank_of(run, put->peer);
        st = await(run, put->first_wait, put->nwaits, (struct terms){0, 1}, "put", *j, err);
        if (!st && put->rows) {
            mt_overlap_extent(p, put->peer, put->to, to);
            mt_overlap_extent(p, run->me, put->from, from);
            st =
                mt_window_put_rows(run->window,
                                   run->base + mt_overlap_place(p, put->to, (int)(run->epoch % run->schedule->copies)) +
                                       (put->to_row * to[1] + put->col) * size,
                                   to[1] * size, place(run, put->from, put->from_row, put->col), from[1] * size,
                                   put->cols * size, put->rows, peer, err);
        }
        if (!st)
            st = mt_window_signal(run->window, run->base + mt_overlap_flag_place(p, put->flag), 1, MT_SIGNAL_ADD, peer,
                                  err);
    }
    return st;
}

/* ---- the whole ---- */

static enum mt_status run_tile(const struct run *run, int t, struct mt_err *err) {
    const struct mt_overlap_tile *tile = &run->schedule->tiles[t];
    int nslabs = tile->kind == MT_TILE_MATMUL ? mt_overlap_nslabs(run->problem) : 1;
    enum mt_status st = MT_OK;
    for (int step = 0; step < nslabs && !st; step++) {
        struct terms of = {0, INT64_MAX};
        if (nslabs > 1) of = terms_of(run->problem, slab_of(run->problem, tile, step), 0);
        st = await(run, tile->first_wait, tile->nwaits, of, "tile", t, err);
        if (!st) st = compute(run, tile, step, err);
    }
    return st;
}

static int my_place(const struct mt_overlap *p, const struct mt_overlap_operands *o, int rank) {
    int me = 0;
    while (o->ranks && me < p->n && o->ranks[me] != rank) me++;
    assert(me < p->n);
    return o->ranks ? me : rank;
}

enum mt_status mt_overlap_run(const struct mt_overlap *problem, const struct mt_overlap_schedule *schedule,
                              struct mt_window *window, int64_t base, int64_t epoch,
                              struct mt_overlap_operands *operands, struct mt_err *err) {
    int rank = mt_window_rank(window);
    struct run run = {.problem = problem,
                      .schedule = schedule,
                      .operands = operands,
                      .window = window,
                      .me = my_place(problem, operands, rank),
                      .base = base,
                      .epoch = epoch};
    lay_out(&run, operands->epilogue, operands->scratch);
    assert(!operands->epilogue || mt_overlap_takes_epilogue(problem, operands->trans_out, operands->epilogue));
    operands->computed_s = 0;
    run.buffer[MT_OVERLAP_A] = (char *)(uintptr_t)operands->a;
    run.buffer[MT_OVERLAP_OUT] = operands->out;
    run.buffer[MT_OVERLAP_WHOLE] = operands->whole;
    for (enum mt_overlap_buffer b = 0; b < MT_OVERLAP_NBUFFERS; b++) {
        mt_overlap_extent(problem, run.me, b, run.extent[b]);
        if (mt_overlap_in_window(b))
            run.buffer[b] =
                mt_window_ptr(window, base + mt_overlap_place(problem, b, (int)(epoch % schedule->copies)), rank);
    }
    pack(&run);
    int put = 0;
    enum mt_status st = put_all(&run, -1, &put, err);
    for (int t = 0; t < schedule->ntiles && !st; t++) {
        st = run_tile(&run, t, err);
        if (!st) st = put_all(&run, t, &put, err);
    }
    return st ? st : mt_window_quiet(window, err);
}

enum mt_status mt_overlap_call_run(struct mt_overlap_call *c, struct mt_err *err) {
    return mt_overlap_run(c->problem, c->schedule, c->window, c->base, ++*c->epoch, &c->operands, err);
}
