/* Schedules on a CPU: tiles in order, each by the device's own GEMM, and puts after their tiles.
 *
 * A tile is multiplied into memory of the accumulation type, then rounded to where it goes. Columns of an untransposed
 * B are packed before the first tile, block by block, since the GEMM wants its operands contiguous. Puts between hosts
 * make progress while the rank awaits flags. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "kernels/coll/reduce.h"
#include "kernels/op/op.h"
#include "kernels/overlap/internal.h"
#include "kernels/window/window.h"

struct run {
    const struct mt_overlap *problem;
    const struct mt_overlap_schedule *schedule;
    const struct mt_overlap_operands *operands;
    struct mt_window *window;
    int me;
    int64_t base, epoch;
    char *buffer[MT_OVERLAP_NBUFFERS];
    int64_t extent[MT_OVERLAP_NBUFFERS][2];
    char *packed, *tile, *matmul_scratch; /* packed: B by blocks of columns; null: as it is */
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

/* The GEMM of a tile; tensors[3]: A's rows, B's columns, the product. */
static struct mt_call tile_call(const struct mt_overlap *p, const struct mt_attr *attr, struct mt_tensor *tensors,
                                int64_t rows, int64_t cols, int64_t k) {
    int64_t extents[3][2] = {{rows, k}, {k, cols}, {rows, cols}};
    if (attr->trans_b) extents[1][0] = cols, extents[1][1] = k;
    for (int i = 0; i < 3; i++) {
        tensors[i] = (struct mt_tensor){.type = i < 2 ? p->type : mt_type_acc(p->type), .naxes = 2};
        for (int a = 0; a < 2; a++) tensors[i].extent[a] = tensors[i].global[a] = extents[i][a];
    }
    return (struct mt_call){.kind = MT_OP_matmul, .attr = attr, .nin = 2, .nout = 1, .in = tensors, .out = tensors + 2};
}

static int64_t matmul_bytes(const struct mt_overlap *p, int64_t k, int64_t cols, const struct mt_backend *matmul) {
    int64_t most = 0;
    for (int trans = 0; trans < 2; trans++) {
        struct mt_tensor tensors[3];
        struct mt_attr attr = {.nm = 1, .nn = 1, .nk = 1, .trans_b = trans, .out_acc = true};
        struct mt_call call = tile_call(p, &attr, tensors, least(p->tile[0], p->m), least(p->tile[1], cols), k);
        int64_t bytes = matmul->scratch_bytes(&call);
        if (bytes > most) most = bytes;
    }
    return round_up(most);
}

/* Lay out the scratch from `memory` on; its bytes. */
static int64_t lay_out(struct run *run, char *memory, const struct mt_backend *matmul) {
    const struct mt_overlap *p = run->problem;
    int64_t partial[2], b[2], at = 0;
    mt_overlap_extent(p, run->me, MT_OVERLAP_PARTIAL, partial);
    extent_b(p, run->me, b);
    run->buffer[MT_OVERLAP_PARTIAL] = memory + at;
    at += round_up(partial[0] * partial[1] * mt_type_size(p->wire));
    run->packed = memory + at;
    at += round_up(b[0] * b[1] * mt_type_size(p->type));
    run->tile = memory + at;
    at += round_up(least(p->tile[0], p->m) * least(p->tile[1], p->cols) * mt_type_size(mt_type_acc(p->type)));
    run->matmul_scratch = memory + at;
    return at + matmul_bytes(p, b[0], b[1], matmul);
}

int64_t mt_overlap_scratch_bytes(const struct mt_overlap *problem, int me, const struct mt_backend *matmul) {
    static char nowhere[1];
    struct run run = {.problem = problem, .me = me};
    return lay_out(&run, nowhere, matmul);
}

static void pack(struct run *run) {
    const struct mt_overlap *p = run->problem;
    int64_t b[2], size = mt_type_size(p->type), cols;
    extent_b(p, run->me, b);
    if (run->operands->trans_b || b[1] <= p->tile[1]) {
        run->packed = NULL;
        return;
    }
    for (int64_t block = 0; block < mt_overlap_pieces(b[1], p->tile[1]); block++) {
        int64_t col = mt_overlap_piece(b[1], p->tile[1], block, &cols);
        char *to = run->packed + col * b[0] * size;
        const char *from = (const char *)run->operands->b + col * size;
        for (int64_t k = 0; k < b[0]; k++) memcpy(to + k * cols * size, from + k * b[1] * size, (size_t)(cols * size));
    }
}

static char *place(const struct run *run, enum mt_overlap_buffer buffer, int64_t row, int64_t col) {
    int64_t size = mt_type_size(mt_overlap_type(run->problem, buffer));
    return run->buffer[buffer] + (row * run->extent[buffer][1] + col) * size;
}

static enum mt_status multiply(const struct run *run, const struct mt_overlap_tile *tile, struct mt_err *err) {
    const struct mt_overlap *p = run->problem;
    enum mt_type acc = mt_type_acc(p->type);
    int64_t b[2], size = mt_type_size(p->type);
    extent_b(p, run->me, b);
    struct mt_attr attr = {.nm = 1, .nn = 1, .nk = 1, .trans_b = run->operands->trans_b, .out_acc = true};
    struct mt_tensor tensors[3];
    struct mt_call call = tile_call(p, &attr, tensors, tile->rows, tile->cols, b[0]);
    assert(tile->col % p->tile[1] == 0 && (tile->cols == p->tile[1] || tile->col + tile->cols == b[1]));
    tensors[0].data = place(run, tile->from, tile->from_row, 0);
    tensors[1].data = (run->packed ? run->packed : (char *)(uintptr_t)run->operands->b) + tile->col * b[0] * size;
    tensors[2].data = run->tile;
    call.scratch = run->matmul_scratch;
    call.what = run->operands->what;
    enum mt_status st = run->operands->matmul->run(&call, err);
    for (int64_t i = 0; i < tile->rows && !st; i++)
        mt_type_convert(mt_overlap_type(p, tile->to), place(run, tile->to, tile->row + i, tile->col), acc,
                        run->tile + i * tile->cols * mt_type_size(acc), tile->cols);
    return st;
}

/* In the order of ranks. */
static void add(const struct run *run, const struct mt_overlap_tile *tile) {
    const struct mt_overlap *p = run->problem;
    enum mt_type acc = mt_type_acc(p->type);
    int64_t first, owned = mt_overlap_owned(p, run->me, &first);
    for (int64_t i = 0; i < tile->rows; i++) {
        memset(run->tile, 0, (size_t)(tile->cols * mt_type_size(acc)));
        for (int s = 0; s < p->n; s++)
            if (mt_overlap_contributes(p, s))
                mt_coll_reduce(MT_SUM, acc, run->tile, p->wire,
                               place(run, tile->from, s * owned + tile->from_row + i, tile->col), tile->cols);
        mt_type_convert(mt_overlap_type(p, tile->to), place(run, tile->to, tile->row + i, tile->col), acc, run->tile,
                        tile->cols);
    }
}

static void copy(const struct run *run, const struct mt_overlap_tile *tile) {
    for (int64_t i = 0; i < tile->rows; i++)
        mt_type_convert(mt_overlap_type(run->problem, tile->to), place(run, tile->to, tile->row + i, tile->col),
                        mt_overlap_type(run->problem, tile->from),
                        place(run, tile->from, tile->from_row + i, tile->col), tile->cols);
}

static enum mt_status await(const struct run *run, int first, int count, const char *entry, int number,
                            struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int w = first; w < first + count && !st; w++) {
        const struct mt_overlap_wait *wait = &run->schedule->waits[w];
        int64_t target = (run->epoch - wait->lag) * wait->count;
        char what[200];
        if (target <= 0) continue;
        snprintf(what, sizeof what, "rank %d, for %s %d of %s in epoch %lld", wait->from, entry, number,
                 run->operands->what, (long long)run->epoch);
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
        st = await(run, put->first_wait, put->nwaits, "put", *j, err);
        if (!st && put->rows) {
            mt_overlap_extent(p, put->peer, put->to, to);
            mt_overlap_extent(p, run->me, put->from, from);
            st =
                mt_window_put_rows(run->window,
                                   run->base + mt_overlap_place(p, put->to, (int)(run->epoch % run->schedule->copies)) +
                                       (put->to_row * to[1] + put->col) * size,
                                   to[1] * size, place(run, put->from, put->from_row, put->col), from[1] * size,
                                   put->cols * size, put->rows, put->peer, err);
        }
        if (!st)
            st = mt_window_signal(run->window, run->base + mt_overlap_flag_place(p, put->flag), 1, MT_SIGNAL_ADD,
                                  put->peer, err);
    }
    return st;
}

enum mt_status mt_overlap_run(const struct mt_overlap *problem, const struct mt_overlap_schedule *schedule,
                              struct mt_window *window, int64_t base, int64_t epoch,
                              const struct mt_overlap_operands *operands, struct mt_err *err) {
    struct run run = {.problem = problem,
                      .schedule = schedule,
                      .operands = operands,
                      .window = window,
                      .me = mt_window_rank(window),
                      .base = base,
                      .epoch = epoch};
    lay_out(&run, operands->scratch, operands->matmul);
    run.buffer[MT_OVERLAP_A] = (char *)(uintptr_t)operands->a;
    run.buffer[MT_OVERLAP_OUT] = operands->out;
    for (enum mt_overlap_buffer b = 0; b < MT_OVERLAP_NBUFFERS; b++) {
        mt_overlap_extent(problem, run.me, b, run.extent[b]);
        if (mt_overlap_in_window(b))
            run.buffer[b] =
                mt_window_ptr(window, base + mt_overlap_place(problem, b, (int)(epoch % schedule->copies)), run.me);
    }
    pack(&run);
    int put = 0;
    enum mt_status st = put_all(&run, -1, &put, err);
    for (int t = 0; t < schedule->ntiles && !st; t++) {
        const struct mt_overlap_tile *tile = &schedule->tiles[t];
        st = await(&run, tile->first_wait, tile->nwaits, "tile", t, err);
        if (st) break;
        if (tile->kind == MT_TILE_MATMUL) st = multiply(&run, tile, err);
        if (tile->kind == MT_TILE_ADD) add(&run, tile);
        if (tile->kind == MT_TILE_COPY) copy(&run, tile);
        if (!st) st = put_all(&run, t, &put, err);
    }
    return st ? st : mt_window_quiet(window, err);
}
