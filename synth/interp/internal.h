/* Inside the interpreter: its state, and walks over boxes. */
#ifndef MT_SYNTH_INTERP_INTERNAL_H
#define MT_SYNTH_INTERP_INTERNAL_H

#include "synth/program/program.h"

struct mt_interp {
    const struct mt_program *program;
    struct mt_err broken; /* why the program is malformed; MT_OK if it is not */
    /* [nvalues * nranks]: each rank's dense box of each program value; null: not made yet, or freed. */
    void **buffers;
    int *home;     /* [nvalues]: the value whose buffers it uses: an accumulator's values of BODY share buffers */
    int *last_use; /* [nvalues]: the number of the instruction after which its buffers are freed; -1: never */
    void **inputs; /* [graph->nvalues]: whole inputs that were set, or null */
};

/* The rows (contiguous along the last axis) of a box: for (rows_begin(&w, &box, naxes); w.more; rows_next(&w)) use
 * w.at, w.length */
struct rows {
    const struct mt_box *box;
    int naxes;
    int64_t at[MT_MAX_AXES]; /* the row's first element, in the whole value */
    int64_t length;
    bool more;
};

static inline void rows_begin(struct rows *w, const struct mt_box *box, int naxes) {
    *w = (struct rows){.box = box, .naxes = naxes, .length = 1, .more = mt_box_count(box, naxes) > 0};
    for (int a = 0; a < naxes; a++) w->at[a] = box->lo[a];
    if (naxes) w->length = box->hi[naxes - 1] - box->lo[naxes - 1];
}

static inline void rows_next(struct rows *w) {
    int a = w->naxes - 2;
    for (; a >= 0; a--) {
        if (++w->at[a] < w->box->hi[a]) break;
        w->at[a] = w->box->lo[a];
    }
    w->more = a >= 0;
}

/* The place of an element in a dense box. */
static inline int64_t mt_place_in(const struct mt_box *box, int naxes, const int64_t *at) {
    int64_t place = 0;
    for (int a = 0; a < naxes; a++) place = place * (box->hi[a] - box->lo[a]) + at[a] - box->lo[a];
    return place;
}

static inline void **mt_interp_buffer(const struct mt_interp *interp, int value, int rank) {
    return &interp->buffers[(int64_t)interp->home[value] * interp->program->nranks + rank];
}

/* A new buffer for the rank's box of the value; never null, even if the box is empty. All bits are set, so that
 * elements that are not written are NaN. */
void *mt_interp_alloc(const struct mt_program *program, int value, int rank);
void mt_interp_install(struct mt_interp *interp, int value, int rank, void *buffer);

/* MT_EBUG if `rank` has not made `value` (yet). */
enum mt_status mt_interp_made(const struct mt_interp *interp, int value, int rank, struct mt_err *err);

/* Copy the elements that two dense boxes share, converting the type. */
struct mt_boxed {
    const void *data; /* not used of the target, whose data are the first argument */
    const struct mt_box *box;
    enum mt_type type;
};
void mt_boxed_copy(void *data, const struct mt_boxed *to, const struct mt_boxed *from, int naxes);

/* check.c: MT_EBUG if the program is malformed, so that running it could read or write out of bounds. */
enum mt_status mt_interp_sound(const struct mt_program *program, struct mt_err *err);

/* coll.c */
enum mt_status mt_interp_collective(struct mt_interp *interp, const struct mt_instr *instr, struct mt_err *err);

#endif
