/* What one kernel per GPU (kernels/cuda/overlap/fused.c) multiplies and puts: asked by planners too, where no GPU is.
 */
#include "kernels/overlap/internal.h"

enum {
    MOST_RANKS = 8,
    UNIT = 8,             /* elements, of columns and K */
    MOST_FEW = 256,       /* rows */
    FEW_COLS = 64,        /* of a tile of few rows, or twice as many */
    ALIGN = 16,           /* bytes, for TMA */
    TOGETHER = 128 * 192, /* elements of the tiles that are stored while the next is multiplied (tiles.def) */
};

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

/* Movers put whole units of K. */
static bool slabs_begin_well(const struct mt_overlap *p) {
    int64_t cols;
    mt_overlap_slab(p, 0, &cols);
    return mt_overlap_nslabs(p) == 1 || p->engines || cols % UNIT == 0;
}

/* Of no two ranks only one sends, which would await that the other is ready. */
static bool puts_await_nothing(const struct mt_overlap *p) {
    for (int r = 0; r < p->n; r++)
        for (int peer = 0; peer < r; peer++)
            if (mt_overlap_sends(p, r, peer) != mt_overlap_sends(p, peer, r)) return false;
    return true;
}

bool mt_overlap_fused_few(const struct mt_overlap *p) {
    bool form = p->form == MT_OVERLAP_GATHER ? p->joint : p->form == MT_OVERLAP_REDUCE && p->direct;
    bool types = mt_type_is_half(p->type) && p->out == p->type && p->wire == p->type;
    for (int r = 0; r < p->n; r++) form &= p->shares[r] > 0 && (p->form != MT_OVERLAP_GATHER || p->rows[r] > 0);
    return form && types && p->m >= 1 && p->m <= MOST_FEW && p->tile[0] >= p->m &&
           (p->tile[1] == FEW_COLS || p->tile[1] == 2 * FEW_COLS) && !p->ngroups;
}

/* Of few rows A is multiplied as it lies, from the begin of each rank's K. All ranks say the same: joint tiles have no
 * other implementation. */
static bool serves_few(const struct mt_overlap *p, bool trans_a, bool trans_b, bool trans_out) {
    bool gather = p->form == MT_OVERLAP_GATHER, all = true;
    if (p->n > MOST_RANKS || trans_a || trans_out || p->keep || !fits(p) || !p->k || !p->cols) return false;
    for (int r = 0; r < p->n; r++) {
        int64_t k = gather ? p->k : p->shares[r], columns = gather ? p->shares[r] : p->cols;
        all &= aligned(k, p->type) && aligned(trans_b ? k : columns, p->type) && columns % UNIT == 0;
        all &= p->m * k < INT32_MAX;
    }
    return all;
}

bool mt_overlap_fused_serves(const struct mt_overlap *p, int me, bool trans_a, bool trans_b, bool trans_out) {
    bool gather = p->form == MT_OVERLAP_GATHER, half_out = mt_type_is_half(p->out);
    int64_t k = gather ? p->k : p->shares[me], columns = gather ? p->shares[me] : p->cols;
    if (mt_overlap_fused_few(p)) return serves_few(p, trans_a, trans_b, trans_out);
    if (p->joint || p->ngroups || p->n > MOST_RANKS || trans_out || !fits(p)) return false;
    if (!mt_type_is_half(p->type) || !(half_out || p->out == MT_F32) || (p->wire != p->type && p->wire != MT_F32))
        return false;
    if (gather && !slabs_begin_well(p)) return false;
    if (p->engines && !(gather && puts_await_nothing(p))) return false;
    if (gather && (trans_a || (half_out && p->out != p->type) || k == 0)) return false;
    if (trans_a && !begins_well(p)) return false;
    return aligned(trans_a ? p->m : k, p->type) && aligned(trans_b ? k : columns, p->type) && columns % UNIT == 0 &&
           (!gather || k % UNIT == 0);
}

bool mt_overlap_fused_adds(const struct mt_overlap *p) {
    bool adds = p->form != MT_OVERLAP_GATHER && !p->direct && p->n == 2 && p->out == p->type && p->wire == p->type;
    for (int r = 0; r < p->n; r++) adds &= mt_overlap_contributes(p, r);
    return adds && mt_type_is_half(p->type) && p->tile[0] * p->tile[1] >= TOGETHER;
}

/* ---- tiles ---- */

static const struct {
    int64_t rows, cols;
    double slower;
} tiles[] = {
#define MT_WGMMA_TILE(rows, columns, together, slower) {rows, columns, slower},
#include "kernels/overlap/tiles.def"
#undef MT_WGMMA_TILE
};
enum { NTILES = sizeof tiles / sizeof *tiles, LARGEST_ROWS = 128, LARGEST_COLS = 256 };

double mt_overlap_fused_time(const int64_t tile[2]) {
    const double load = 0.82; /* of the operands of 128 by 256, beside its multiplication; measured on an H200 */
    for (int i = 0; i < NTILES; i++) {
        if (tiles[i].rows != tile[0] || tiles[i].cols != tile[1]) continue;
        double size = (double)(tile[0] * tile[1]) / (LARGEST_ROWS * LARGEST_COLS) * tiles[i].slower;
        double loads = load * (double)(tile[0] + tile[1]) / (LARGEST_ROWS + LARGEST_COLS);
        return size > loads ? size : loads;
    }
    return 0;
}

/* Tiles of that extent of the rank that has most; of rows of owners each by itself. */
static int64_t tiles_of(const struct mt_overlap *p, int64_t rows, int64_t cols) {
    bool gather = p->form == MT_OVERLAP_GATHER;
    int64_t down = 0, width = gather ? 0 : p->cols;
    for (int r = 0; r < p->n; r++) {
        down += (p->rows[r] + rows - 1) / rows;
        if (gather && p->shares[r] > width) width = p->shares[r];
    }
    return down * ((width + cols - 1) / cols);
}

bool mt_overlap_fused_tile(const struct mt_overlap *p, int i, int multiprocessors, int64_t tile[2]) {
    static const int64_t smaller[][2] = {{128, 64}, {64, 256}, {64, 128}, {64, 64}};
    enum { NLARGE = 2, NSMALLER = sizeof smaller / sizeof *smaller };
    if (i < NLARGE) return tile[0] = 128, tile[1] = i ? 128 : 256, true;
    if (i >= NLARGE + NSMALLER || tiles_of(p, 128, 128) >= multiprocessors) return false;
    tile[0] = smaller[i - NLARGE][0], tile[1] = smaller[i - NLARGE][1];
    return true;
}

bool mt_overlap_few_tile(const struct mt_overlap *p, int i, int64_t tile[2]) {
    enum { NTILES_OF_FEW = 2 };
    if (p->form == MT_OVERLAP_SCATTER || p->m < 1 || p->m > MOST_FEW || i >= NTILES_OF_FEW) return false;
    return tile[0] = p->m, tile[1] = FEW_COLS << i, true;
}
