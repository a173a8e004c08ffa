/* GEMMs of chunks as calls of matmul, or of fused_matmul, by which devices tune them before they run. */
#include <string.h>

#include "kernels/op/op.h"
#include "kernels/overlap/chunk.h"
#include "kernels/overlap/internal.h"

enum { ALIGN = 16, SOMEWHERE = 4096 };

struct side { /* of a matrix: bytes of its first element's place, and of a row */
    int64_t at, row;
};

static struct side side_of(const struct mt_overlap *p, int me, enum mt_overlap_buffer buffer, int64_t row,
                           int64_t col) {
    int64_t extent[2], size = mt_type_size(mt_overlap_type(p, buffer));
    mt_overlap_extent(p, me, buffer, extent);
    return (struct side){(row * extent[1] + col) * size, extent[1] * size};
}

/* Where the result goes: in place, if the device's GEMMs have the type. */
static struct side result_side(const struct mt_overlap *p, int me, const struct mt_overlap_tile *box, bool transposed) {
    if (!transposed || box->to != MT_OVERLAP_OUT) return side_of(p, me, box->to, box->row, box->col);
    int64_t extent[2], size = mt_type_size(p->out);
    mt_overlap_extent(p, me, box->to, extent);
    return (struct side){(box->col * extent[0] + box->row) * size, extent[0] * size};
}

static void *address(const struct side *sides, int count) {
    int64_t bits = ALIGN;
    for (int i = 0; i < count; i++) bits |= sides[i].at | sides[i].row;
    return (void *)(uintptr_t)(SOMEWHERE + (bits & -bits));
}

static struct mt_tensor matrix(enum mt_type type, int64_t rows, int64_t cols, void *data) {
    struct mt_tensor t = {.type = type, .naxes = 2, .extent = {rows, cols}, .global = {rows, cols}, .data = data};
    return t;
}

void mt_overlap_gemm_call(struct mt_overlap_gemm *g, const int64_t mnk[3], enum mt_type in, enum mt_type out,
                          void *data) {
    const struct mt_op_epilogue *info = mt_op_epilogue(g->attr.epilogue);
    int64_t m = mnk[0], n = mnk[1], k = mnk[2];
    g->attr.nm = g->attr.nn = g->attr.nk = 1;
    g->in[0] = g->attr.trans_a ? matrix(in, k, m, data) : matrix(in, m, k, data);
    g->in[1] = g->attr.trans_b ? matrix(in, n, k, data) : matrix(in, k, n, data);
    g->in[2] = g->out[0] = g->out[1] = matrix(out, m, n, data);
    if (info && info->bias)
        g->in[2] = (struct mt_tensor){.type = in, .naxes = 1, .extent = {n}, .global = {n}, .data = data};
    g->call = (struct mt_call){.kind = info ? MT_OP_fused_matmul : MT_OP_matmul,
                               .attr = &g->attr,
                               .nin = info ? info->nin : 2,
                               .nout = info ? info->nout : 1,
                               .in = g->in,
                               .out = g->out};
}

bool mt_overlap_chunk_gemm(const struct mt_overlap *p, int me, const bool transposed[3], enum mt_op_kind epilogue,
                           const int64_t at[5], const struct mt_overlap_chunk *chunk, struct mt_overlap_gemm *g) {
    const struct mt_overlap_tile *box = &chunk->box;
    bool gather = p->form == MT_OVERLAP_GATHER, trans_a = box->from == MT_OVERLAP_A && transposed[0];
    bool trans_b = transposed[1];
    int64_t k = gather ? p->k : p->shares[me], size = mt_type_size(p->type), m = box->rows, n = box->cols;
    enum mt_type target = mt_overlap_type(p, box->to);
    bool direct = target == p->type || target == MT_F32, turned = direct && box->to == MT_OVERLAP_OUT && transposed[2];
    if (box->kind != MT_TILE_MATMUL || !m || !n || !k) return false;
    struct side a = side_of(p, me, box->from, box->from_row, 0), b = {at[1], (trans_b ? k : n) * size};
    struct side y = direct ? result_side(p, me, box, transposed[2]) : (struct side){0, n * mt_type_size(MT_F32)};
    if (!gather) epilogue = (enum mt_op_kind)0; /* the bias is added to the complete sum */
    /* Rows of x and of `pre` are as far apart as those of the result. */
    struct side extra = {epilogue ? at[3] : 0, 0}, pre = {epilogue ? at[4] : 0, 0};
    if (trans_a) a = (struct side){box->from_row * size, p->m * size};
    if (box->from == MT_OVERLAP_A) a.at += at[0];
    if (direct && box->to == MT_OVERLAP_OUT) y.at += at[2];
    if (turned) { /* (A B)' = B' A' */
        bool was = trans_a;
        m = box->cols, n = box->rows;
        trans_a = !trans_b, trans_b = !was;
    }
    g->attr = (struct mt_attr){.trans_a = trans_a,
                               .trans_b = trans_b,
                               .tf32 = p->tf32,
                               .accumulate = chunk->adds,
                               .out_acc = target != p->type,
                               .epilogue = epilogue};
    mt_overlap_gemm_call(g, (int64_t[3]){m, n, k}, p->type, direct ? target : MT_F32,
                         address((struct side[]){a, b, y, extra, pre}, 5));
    return true;
}
