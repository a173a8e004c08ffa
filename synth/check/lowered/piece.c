/* Pieces: from addresses back to boxes, and comparisons of pieces without a loop over elements. */
#include <assert.h>

#include "synth/check/lowered/internal.h"

static void strides_of(const struct mt_box *box, int naxes, int64_t *stride) {
    int64_t step = 1;
    for (int a = naxes - 1; a >= 0; a--) {
        stride[a] = step;
        step *= box->hi[a] - box->lo[a];
    }
}

enum mt_status mt_lchecker_piece(const struct mt_lchecker *c, const struct mt_piece *piece, const int *values,
                                 int operand, struct mt_lpiece *out) {
    int lvalue = values[operand];
    const char *name = mt_lchecker_name(c, lvalue);
    const struct mt_box *whole = mt_pvalue_box(c->program, lvalue, c->rank);
    const struct mt_lvalue *value = &c->low->values[lvalue];
    int naxes = mt_lchecker_layout(c, lvalue)->naxes;
    int64_t size = mt_type_size(value->tensor.type), stride[MT_MAX_AXES];
    *out = (struct mt_lpiece){.operand = operand,
                              .buffer = piece->buffer,
                              .at = piece->at,
                              .reduce = piece->reduce,
                              .naxes = naxes,
                              .count = 1};
    if (piece->naxes != naxes || piece->type != value->tensor.type || piece->buffer < 0 || piece->buffer > 1)
        return mt_lchecker_refuse(c, "a piece of %s has another shape or type", name);
    for (int a = 0; a < naxes; a++) {
        if (piece->extent[a] < 0) return mt_lchecker_refuse(c, "a piece of %s has a negative extent", name);
        out->count *= piece->extent[a];
    }
    if (out->count == 0) return MT_OK;
    int64_t start = (int64_t)(uintptr_t)piece->data;
    if (value->offset_bytes < 0 || start < 0 || start >= value->size_bytes || start % size)
        return mt_lchecker_refuse(c, "a piece of %s begins outside of it", name);
    strides_of(whole, naxes, stride);
    start /= size;
    for (int a = 0; a < naxes; a++) {
        int64_t at = start / stride[a];
        start %= stride[a];
        out->box.lo[a] = whole->lo[a] + at;
        out->box.hi[a] = whole->lo[a] + at + piece->extent[a];
        if (out->box.hi[a] > whole->hi[a] || (piece->extent[a] > 1 && piece->stride[a] != stride[a]))
            return mt_lchecker_refuse(c, "a piece of %s is no box of it", name);
    }
    return MT_OK;
}

struct mt_lpiece mt_lchecker_whole(const struct mt_lchecker *c, const int *values, int operand, int buffer) {
    int lvalue = values[operand];
    struct mt_lpiece piece = {.operand = operand, .buffer = buffer, .naxes = mt_lchecker_layout(c, lvalue)->naxes};
    piece.box = *mt_pvalue_box(c->program, lvalue, c->rank);
    piece.count = mt_box_count(&piece.box, piece.naxes);
    return piece;
}

/* Whether row `x` of box a and row `y` of box b are equal on the axes before `axis`. */
static bool same_row(const struct mt_box *a, int64_t x, const struct mt_box *b, int64_t y, int axis) {
    for (int i = axis - 1; i >= 0; i--) {
        int64_t n = a->hi[i] - a->lo[i], m = b->hi[i] - b->lo[i];
        if (a->lo[i] + x % n != b->lo[i] + y % m) return false;
        x /= n, y /= m;
    }
    return true;
}

/* The trailing axes on which the boxes are equal are merged with the last axis on which they differ, so that few and
 * long rows are compared. */
bool mt_lpiece_same(const struct mt_lpiece *a, int64_t x, const struct mt_lpiece *b, int64_t y, int64_t count) {
    int64_t inner = 1, from = x - a->at, to = y - b->at;
    int axis = a->naxes - 1;
    assert(a->naxes == b->naxes && from >= 0 && to >= 0 && from + count <= a->count && to + count <= b->count);
    while (axis >= 0 && a->box.lo[axis] == b->box.lo[axis] && a->box.hi[axis] == b->box.hi[axis]) {
        inner *= a->box.hi[axis] - a->box.lo[axis];
        axis--;
    }
    if (axis < 0) return from == to;
    int64_t n = (a->box.hi[axis] - a->box.lo[axis]) * inner, m = (b->box.hi[axis] - b->box.lo[axis]) * inner;
    while (count > 0) {
        int64_t in_a = from % n, in_b = to % m, run = n - in_a < m - in_b ? n - in_a : m - in_b;
        if (a->box.lo[axis] * inner + in_a != b->box.lo[axis] * inner + in_b) return false;
        if (!same_row(&a->box, from / n, &b->box, to / m, axis)) return false;
        if (run > count) run = count;
        from += run, to += run, count -= run;
    }
    return true;
}

/* Whether the pieces follow each other along the axis, and are the box on all others. */
static bool follow_along(const struct mt_lpiece *const *pieces, int count, const struct mt_box *box, int naxes,
                         int axis) {
    int64_t at = box->lo[axis];
    for (int i = 0; i < count; i++) {
        const struct mt_box *piece = &pieces[i]->box;
        for (int a = 0; a < naxes; a++)
            if (a != axis && (piece->lo[a] != box->lo[a] || piece->hi[a] != box->hi[a])) return false;
        if (piece->lo[axis] != at || piece->hi[axis] <= at) return false;
        at = piece->hi[axis];
    }
    return at == box->hi[axis];
}

bool mt_lpieces_tile(const struct mt_lpiece *const *pieces, int count, const struct mt_box *box, int naxes) {
    int64_t covered = 0;
    struct mt_box both;
    for (int a = 0; a < naxes; a++)
        if (follow_along(pieces, count, box, naxes, a)) return true;
    for (int i = 0; i < count; i++) {
        if (!mt_box_within(&pieces[i]->box, box, naxes)) return false;
        covered += pieces[i]->count;
        for (int j = 0; j < i; j++)
            if (mt_box_intersect(&pieces[i]->box, &pieces[j]->box, naxes, &both)) return false;
    }
    return covered == mt_box_count(box, naxes);
}

/* ---- copies ---- */

/* out[0] is contiguous in in[0]'s memory, and at its place. */
static enum mt_status check_alias(struct mt_lchecker *c) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    const struct mt_lvalue *in = &c->low->values[l->in[0]], *out = &c->low->values[l->out[0]];
    struct mt_lpiece whole = mt_lchecker_whole(c, l->in, 0, 0), part = mt_lchecker_whole(c, l->out, 0, 0);
    if (part.count == 0) return MT_OK;
    int64_t size = mt_type_size(out->tensor.type), at = out->offset_bytes - in->offset_bytes;
    if (in->tensor.type != out->tensor.type || in->offset_bytes < 0 || out->offset_bytes < 0 || at < 0 || at % size ||
        at / size + part.count > whole.count || !mt_lpiece_same(&whole, at / size, &part, 0, part.count))
        return mt_lchecker_refuse(c, "%s is not at the place of its elements in the memory that it shares",
                                  mt_lchecker_name(c, l->out[0]));
    return MT_OK;
}

/* out[0] is the message, and its only piece is the same box of in[0]. */
static enum mt_status check_copy(struct mt_lchecker *c) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    struct mt_lpiece whole = mt_lchecker_whole(c, l->out, 0, 0), piece;
    enum mt_type type = c->low->values[l->out[0]].tensor.type;
    if (l->schedule || l->nunpack || l->npack > 1 || l->zero) return mt_lchecker_refuse(c, "does more than copy");
    if (whole.count == 0 && l->npack == 0) return MT_OK;
    if (l->npack != 1 || l->pack_of[0] != 0 || l->message[0] != l->out[0] || l->problem.acc != type)
        return mt_lchecker_refuse(c, "does not copy from its input to its output");
    enum mt_status st = mt_lchecker_piece(c, &l->pack[0], l->in, 0, &piece);
    if (st) return st;
    if (piece.count != whole.count ||
        (whole.count && (piece.at != 0 || piece.buffer != 0 || !mt_box_equal(&piece.box, &whole.box, whole.naxes))))
        return mt_lchecker_refuse(c, "what it copies is not the box of %s", mt_lchecker_name(c, l->out[0]));
    return MT_OK;
}

enum mt_status mt_lchecker_copy(struct mt_lchecker *c) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    if (l->nin != 1 || l->nout != 1) return mt_lchecker_refuse(c, "copies other than one value");
    if (l->nsources == 0) { /* a state's new value to the state's place */
        if (l->what != MT_LOWERED_COPY || c->program->values[l->out[0]].next != l->in[0])
            return mt_lchecker_refuse(c, "has no source in the program");
    } else {
        const struct mt_instr *source = mt_lchecker_source(c, 0);
        if (l->nsources != 1 || source->kind != MT_INSTR_SLICE || source->in[0] != l->in[0] ||
            source->out[0] != l->out[0])
            return mt_lchecker_refuse(c, "is not the slice that is its source");
    }
    if (c->low->values[l->in[0]].iteration_bytes && c->low->body_count > 1)
        return mt_lchecker_refuse(c, "copies the same samples in every iteration");
    return l->what == MT_LOWERED_ALIAS ? check_alias(c) : check_copy(c);
}
