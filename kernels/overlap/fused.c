/* What one kernel per GPU (kernels/cuda/overlap/fused.c) multiplies and puts: asked by planners too, where no GPU is.
 */
#include "kernels/overlap/overlap.h"

enum { MOST_RANKS = 8, UNIT = 8 /* elements, of columns and K */, ALIGN = 16 /* bytes, for TMA */ };

static bool aligned(int64_t extent, enum mt_type type) {
    return extent * mt_type_size(type) % ALIGN == 0;
}

/* Extents of 32 bits, with room for what tiles reach beyond edges; a matrix begins where TMA can. */
static bool fits(const struct mt_overlap *p) {
    const int64_t most = INT32_MAX / 4;
    return p->m < most && p->cols < most && p->k < most && p->n * p->m < most && mt_overlap_epoch_place(p) < most;
}

/* TMA wants the places of boxes at multiples of 16 bytes, also within rows: those of a transposed A are where rows of
 * owners begin. */
static bool begins_well(const struct mt_overlap *p) {
    for (int r = 0; r < p->n; r++)
        if (!p->direct && !aligned(p->rows[r], p->type)) return false;
    return true;
}

bool mt_overlap_fused_serves(const struct mt_overlap *p, int me, bool trans_a, bool trans_b, bool trans_out) {
    bool gather = p->form == MT_OVERLAP_GATHER, half_out = mt_type_is_half(p->out);
    int64_t k = gather ? p->k : p->shares[me], columns = gather ? p->shares[me] : p->cols;
    if (mt_overlap_nslabs(p) > 1) return false;
    if (p->n > MOST_RANKS || trans_out || !fits(p)) return false;
    if (!mt_type_is_half(p->type) || !(half_out || p->out == MT_F32) || (p->wire != p->type && p->wire != MT_F32))
        return false;
    if (gather && (trans_a || (half_out && p->out != p->type) || k == 0)) return false;
    if (trans_a && !begins_well(p)) return false;
    return aligned(trans_a ? p->m : k, p->type) && aligned(trans_b ? k : columns, p->type) && columns % UNIT == 0 &&
           (!gather || k % UNIT == 0);
}
