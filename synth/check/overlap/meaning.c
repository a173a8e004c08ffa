/* What elements of buffers mean, and that tiles and puts keep to it.
 *
 * An element of a buffer is an element of one matrix of the problem, which the buffer's place gives: of the gathered
 * operand; of the operand, or the product, of one rank; or of the sum. A box lies within one of these.
 *
 * Replicas of a reduce have equal bits: all ranks round a sum alike, and a product that all of them add is computed
 * once, since two tiles of unlike places may differ in its last bit. */
#include "synth/check/overlap/internal.h"

enum matrix { OPERAND, PRODUCT, SUM };
struct meaning {
    enum matrix matrix;
    int of;      /* whose operand or product; -1: all ranks' alike */
    int64_t row; /* of the box's first element; its columns are the matrix's, a gather's OUT has those of its rank */
    bool whole;  /* the box lies within this matrix */
};

static int64_t start_of(const struct mt_overlap *p, int rank) {
    int64_t start = 0;
    for (int r = 0; r < rank; r++) start += p->rows[r];
    return start;
}

static struct meaning meaning_of(const struct mt_overlap *p, int rank, struct mt_overlap_box box) {
    bool gather = p->form == MT_OVERLAP_GATHER;
    int64_t first, owned;
    switch (box.buffer) {
    case MT_OVERLAP_A:
        if (gather) return (struct meaning){OPERAND, -1, start_of(p, rank) + box.row, true};
        return (struct meaning){OPERAND, rank, box.row, true};
    case MT_OVERLAP_WHOLE:
    case MT_OVERLAP_STAGED: return (struct meaning){OPERAND, -1, box.row, true};
    case MT_OVERLAP_PARTIAL: return (struct meaning){PRODUCT, rank, box.row, true};
    case MT_OVERLAP_RESULT: return (struct meaning){SUM, -1, box.row, true};
    case MT_OVERLAP_OUT:
        if (gather) return (struct meaning){PRODUCT, rank, box.row, true};
        return (struct meaning){SUM, -1, box.row + (p->form == MT_OVERLAP_SCATTER ? start_of(p, rank) : 0), true};
    case MT_OVERLAP_SLOTS:
        owned = mt_overlap_owned(p, rank, &first);
        return (struct meaning){PRODUCT, (int)(box.row / owned), first + box.row % owned,
                                box.row % owned + box.rows <= owned};
    case MT_OVERLAP_NBUFFERS: break;
    }
    return (struct meaning){0};
}

static bool within(const struct mt_overlap *p, int rank, struct mt_overlap_box box) {
    int64_t extent[2];
    mt_overlap_extent(p, rank, box.buffer, extent);
    return box.row >= 0 && box.row <= extent[0] - box.rows;
}

static enum mt_status check_tile(struct mt_overlap_checker *c, int rank, int t) {
    const struct mt_overlap *p = c->problem;
    const struct mt_overlap_tile *tile = &c->ranks[rank].schedule->tiles[t];
    struct mt_overlap_box from = {tile->from, tile->from_row, tile->rows, 0, 0};
    struct meaning to = meaning_of(p, rank, mt_overlap_tile_box(tile)), source;
    if (tile->from < 0 || tile->from >= MT_OVERLAP_NBUFFERS || !within(p, rank, from))
        return mt_overlap_refuse(c, rank, t, -1, "reads rows %lld to %lld of what has fewer", (long long)tile->from_row,
                                 (long long)(tile->from_row + tile->rows));
    if (!to.whole) return mt_overlap_refuse(c, rank, t, -1, "crosses the end of a slot");
    if (tile->from == MT_OVERLAP_OUT || tile->from == MT_OVERLAP_WHOLE) /* it may be transposed there */
        return mt_overlap_refuse(c, rank, t, -1, "reads a result");
    source = meaning_of(p, rank, from);
    switch (tile->kind) {
    case MT_TILE_MATMUL:
        if (source.matrix != OPERAND || to.matrix != PRODUCT || to.of != rank)
            return mt_overlap_refuse(c, rank, t, -1, "multiplies what is no operand, or into what is not its product");
        break;
    case MT_TILE_ADD: {
        int64_t first, owned = mt_overlap_owned(p, rank, &first);
        if (tile->from != MT_OVERLAP_SLOTS || to.matrix != SUM || tile->from_row > owned - tile->rows)
            return mt_overlap_refuse(c, rank, t, -1, "adds what are no slots, or into what is no sum");
        if (p->form == MT_OVERLAP_REDUCE && !p->direct && tile->to == MT_OVERLAP_OUT && p->wire != p->out)
            return mt_overlap_refuse(c, rank, t, -1, "rounds its sum to %s, while its peers get it rounded to %s",
                                     mt_type_name(p->out), mt_type_name(p->wire));
        break;
    }
    case MT_TILE_COPY:
        if (tile->from == tile->to || source.matrix != to.matrix ||
            (to.matrix == OPERAND ? tile->to != MT_OVERLAP_WHOLE : to.matrix != SUM))
            return mt_overlap_refuse(c, rank, t, -1, "copies what is no sum and no operand");
        break;
    default: return mt_overlap_refuse(c, rank, t, -1, "is of no kind");
    }
    if (source.row != to.row)
        return mt_overlap_refuse(c, rank, t, -1, "takes row %lld for row %lld", (long long)source.row,
                                 (long long)to.row);
    return MT_OK;
}

static enum mt_status check_put(struct mt_overlap_checker *c, int rank, int j) {
    const struct mt_overlap_put *put = &c->ranks[rank].schedule->puts[j];
    if (!put->rows) return MT_OK;
    struct mt_overlap_box from = {put->from, put->from_row, put->rows, put->col, put->cols},
                          to = {put->to, put->to_row, put->rows, put->col, put->cols};
    struct meaning is = meaning_of(c->problem, rank, from), becomes = meaning_of(c->problem, put->peer, to);
    bool same = is.whole && becomes.whole && is.matrix == becomes.matrix && is.of == becomes.of;
    /* An operand's columns are k, which only a gather's ranks share; nobody's result is another's place. */
    same &= put->from != MT_OVERLAP_OUT && put->from != MT_OVERLAP_WHOLE;
    if (!same) return mt_overlap_refuse(c, rank, -1, j, "puts into rank %d what does not belong there", put->peer);
    if (is.row != becomes.row)
        return mt_overlap_refuse(c, rank, -1, j, "puts row %lld where rank %d has row %lld", (long long)is.row,
                                 put->peer, (long long)becomes.row);
    return MT_OK;
}

/* That cover.c finds every slot filled makes `m * cols` elements the least. */
static enum mt_status check_once(struct mt_overlap_checker *c, int rank) {
    const struct mt_overlap *p = c->problem;
    const struct mt_overlap_schedule *s = c->ranks[rank].schedule;
    int64_t computed = 0;
    if (!p->direct || !mt_overlap_contributes(p, rank)) return MT_OK;
    for (int t = 0; t < s->ntiles; t++)
        if (s->tiles[t].kind == MT_TILE_MATMUL) computed += s->tiles[t].rows * s->tiles[t].cols;
    if (computed != p->m * p->cols)
        return mt_overlap_refuse(c, rank, -1, -1, "computes %lld elements of its product, which has %lld",
                                 (long long)computed, (long long)(p->m * p->cols));
    return MT_OK;
}

enum mt_status mt_overlap_check_meaning(struct mt_overlap_checker *c) {
    enum mt_status st = MT_OK;
    for (int r = 0; r < c->problem->n && !st; r++) {
        const struct mt_overlap_schedule *s = c->ranks[r].schedule;
        for (int t = 0; t < s->ntiles && !st; t++) st = check_tile(c, r, t);
        for (int j = 0; j < s->nputs && !st; j++) st = check_put(c, r, j);
        if (!st) st = check_once(c, r);
    }
    return st;
}
