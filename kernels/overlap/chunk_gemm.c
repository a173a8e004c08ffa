/* GEMMs of chunks as calls of matmul, by which devices tune them before they run. */
#include <string.h>

#include "kernels/op/op.h"
#include "kernels/overlap/chunk.h"

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

static void *address(struct side a, struct side b, struct side y) {
    int64_t bits = ALIGN | a.at | a.row | b.at | b.row | y.at | y.row;
    return (void *)(uintptr_t)(SOMEWHERE + (bits & -bits));
}

bool mt_overlap_chunk_gemm(const struct mt_overlap *p, int me, const bool transposed[3], const int64_t at[3],
                           const struct mt_overlap_chunk *chunk, struct mt_overlap_gemm *g) {
    const struct mt_overlap_tile *box = &chunk->box;
    bool gather = p->form == MT_OVERLAP_GATHER, trans_a = box->from == MT_OVERLAP_A && transposed[0];
    bool trans_b = transposed[1];
    int64_t k = gather ? p->k : p->shares[me], size = mt_type_size(p->type), m = box->rows, n = box->cols;
    enum mt_type target = mt_overlap_type(p, box->to);
    bool direct = target == p->type || target == MT_F32, turned = direct && box->to == MT_OVERLAP_OUT && transposed[2];
    if (box->kind != MT_TILE_MATMUL || !m || !n || !k) return false;
    struct side a = side_of(p, me, box->from, box->from_row, 0), b = {at[1], (trans_b ? k : n) * size};
    struct side y = direct ? result_side(p, me, box, transposed[2]) : (struct side){0, n * mt_type_size(MT_F32)};
    if (trans_a) a = (struct side){box->from_row * size, p->m * size};
    if (box->from == MT_OVERLAP_A) a.at += at[0];
    if (direct && box->to == MT_OVERLAP_OUT) y.at += at[2];
    if (turned) { /* (A B)' = B' A' */
        bool was = trans_a;
        m = box->cols, n = box->rows;
        trans_a = !trans_b, trans_b = !was;
    }
    int64_t extents[3][2] = {{trans_a ? k : m, trans_a ? m : k}, {trans_b ? n : k, trans_b ? k : n}, {m, n}};
    g->attr = (struct mt_attr){.nm = 1,
                               .nn = 1,
                               .nk = 1,
                               .trans_a = trans_a,
                               .trans_b = trans_b,
                               .tf32 = p->tf32,
                               .accumulate = chunk->adds,
                               .out_acc = target != p->type};
    for (int i = 0; i < 3; i++) {
        struct mt_tensor *t = &g->tensors[i];
        *t = (struct mt_tensor){.type = i < 2    ? p->type
                                        : direct ? target
                                                 : MT_F32,
                                .naxes = 2,
                                .data = address(a, b, y)};
        for (int x = 0; x < 2; x++) t->extent[x] = t->global[x] = extents[i][x];
    }
    g->call = (struct mt_call){
        .kind = MT_OP_matmul, .attr = &g->attr, .nin = 2, .nout = 1, .in = g->tensors, .out = g->tensors + 2};
    return true;
}
