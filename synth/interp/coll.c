/* Collectives computed from boxes and parts, by the meaning of each kind in program.h: a wrong layout gives wrong
 * numbers, as it would in training. Numbers are kept in double, and each sum is rounded to the instruction's `acc`.
 * That gives the type's own sum, because a double has more than twice the digits of a float: rounding twice is rounding
 * once. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "synth/interp/internal.h"

/* One value of a collective, as one rank receives it. */
struct receipt {
    const struct mt_interp *interp;
    const struct mt_instr *instr;
    const struct mt_layout *from, *to;
    int in, out, rank;
    double *result; /* the new box */
    bool *got;      /* its elements that this part has given */
    bool *any;      /* its elements that any part has given */
};

static double rounded(enum mt_type type, double x) {
    switch (type) {
    case MT_F32: return (double)(float)x;
    case MT_BF16: return (double)mt_bf16_to_f32(mt_bf16_from_f32((float)x));
    case MT_F16: return (double)mt_f16_to_f32(mt_f16_from_f32((float)x));
    default: return x;
    }
}

static double reduced(const struct mt_instr *instr, double a, double b) {
    if (instr->reduce != MT_MAX) return rounded(instr->acc, a + b);
    return isnan(a) || a > b ? a : b;
}

/* Receive what `sender` holds of the new box; with `all` also elements that this part has already, to be reduced. False
 * if an element would be reduced and there is no reduction. */
static bool receive(struct receipt *c, int sender, bool all) {
    const struct mt_box *old = &c->from->box[sender], *new = &c->to->box[c->rank];
    const void *data = *mt_interp_buffer(c->interp, c->in, sender);
    enum mt_type type = c->interp->program->values[c->in].type;
    int naxes = c->to->naxes;
    struct mt_box common;
    struct rows w;
    if (!mt_box_intersect(old, new, naxes, &common)) return true;
    for (rows_begin(&w, &common, naxes); w.more; rows_next(&w)) {
        int64_t source = mt_place_in(old, naxes, w.at), target = mt_place_in(new, naxes, w.at);
        for (int64_t i = 0; i < w.length; i++) {
            int64_t t = target + i;
            if (c->got[t] && !all) continue;
            double x = rounded(c->instr->wire, mt_type_load(type, data, source + i));
            if (c->any[t] && c->instr->reduce == MT_REDUCE_NONE) return false;
            c->result[t] = c->any[t] ? reduced(c->instr, c->result[t], x) : x;
            c->got[t] = c->any[t] = true;
        }
    }
    return true;
}

static enum mt_status all_received(const struct receipt *c, const bool *flags, struct mt_err *err) {
    int64_t count = mt_box_count(&c->to->box[c->rank], c->to->naxes);
    for (int64_t i = 0; i < count; i++)
        if (!flags[i])
            return mt_fail(err, MT_EBUG, "%s of %%%d to %%%d: rank %d's element %lld is held by no rank of its group",
                           mt_coll_name(c->instr->coll), c->in, c->out, c->rank, (long long)i);
    return MT_OK;
}

static bool in_group(const struct receipt *c, int rank) {
    return c->instr->group[rank] == c->instr->group[c->rank];
}

/* AllReduce, ReduceScatter: every member that holds an element contributes. */
static enum mt_status receive_reduced(struct receipt *c, struct mt_err *err) {
    for (int q = 0; q < c->interp->program->nranks; q++)
        if (in_group(c, q)) receive(c, q, true);
    return all_received(c, c->any, err);
}

/* AllGather: the first member that holds an element gives it. Broadcast: the group's first member gives all. */
static enum mt_status receive_first(struct receipt *c, bool root_only, struct mt_err *err) {
    for (int q = 0; q < c->interp->program->nranks; q++) {
        if (!in_group(c, q)) continue;
        receive(c, q, false);
        if (root_only) break;
    }
    return all_received(c, c->any, err);
}

/* ---- AllToAll, by cells of the new box in which every sender holds all elements or none ---- */

struct cells {
    int naxes;
    int64_t *cut[MT_MAX_AXES]; /* sorted, without repetition */
    int count[MT_MAX_AXES], at[MT_MAX_AXES];
    struct mt_box box; /* the current cell */
    bool more;
};

static void add_cut(struct cells *cells, int axis, int64_t cut) {
    int64_t *cuts = cells->cut[axis];
    int i = cells->count[axis];
    for (int k = 0; k < i; k++)
        if (cuts[k] == cut) return;
    for (; i > 0 && cuts[i - 1] > cut; i--) cuts[i] = cuts[i - 1];
    cuts[i] = cut;
    cells->count[axis]++;
}

static void set_cell(struct cells *cells) {
    for (int a = 0; a < cells->naxes; a++) {
        cells->box.lo[a] = cells->cut[a][cells->at[a]];
        cells->box.hi[a] = cells->cut[a][cells->at[a] + 1];
    }
}

static void cells_begin(struct cells *cells, const struct receipt *c) {
    const struct mt_box *new = &c->to->box[c->rank];
    int nranks = c->interp->program->nranks;
    *cells = (struct cells){.naxes = c->to->naxes, .more = true};
    for (int a = 0; a < cells->naxes; a++) {
        cells->cut[a] = mt_malloc((size_t)(2 * nranks + 2) * sizeof(int64_t));
        add_cut(cells, a, new->lo[a]);
        add_cut(cells, a, new->hi[a]);
        for (int q = 0; q < nranks; q++) {
            struct mt_box both;
            if (!mt_box_intersect(&c->from->box[q], new, cells->naxes, &both)) continue;
            add_cut(cells, a, both.lo[a]);
            add_cut(cells, a, both.hi[a]);
        }
        cells->more = cells->more && cells->count[a] > 1;
    }
    if (cells->more) set_cell(cells);
}

static void cells_next(struct cells *cells) {
    int a = 0;
    for (; a < cells->naxes; a++) {
        if (++cells->at[a] < cells->count[a] - 1) break;
        cells->at[a] = 0;
    }
    cells->more = a < cells->naxes;
    if (cells->more) set_cell(cells);
}

static void cells_end(struct cells *cells) {
    for (int a = 0; a < cells->naxes; a++) free(cells->cut[a]);
}

static bool holds(const struct receipt *c, int rank, const struct mt_box *cell) {
    const struct mt_box *box = &c->from->box[rank];
    for (int a = 0; a < c->from->naxes; a++)
        if (box->lo[a] > cell->lo[a] || box->hi[a] < cell->hi[a]) return false;
    return true;
}

static bool new_is_complete(const struct receipt *c) {
    int cover = c->to->cover[c->to->part[c->rank]], parts = 0;
    for (int p = 0; p < c->to->nparts; p++) parts += c->to->cover[p] == cover;
    return parts == 1;
}

/* The old cover from which a cell comes, or -1. */
static int source_cover(const struct receipt *c, const struct mt_box *cell, bool complete) {
    int found = -1, own = c->from->cover[c->from->part[c->rank]];
    bool has_own = mt_box_count(&c->from->box[c->rank], c->from->naxes) > 0;
    for (int q = 0; q < c->interp->program->nranks; q++) {
        if (!holds(c, q, cell) || (complete && !in_group(c, q))) continue;
        int cover = c->from->cover[c->from->part[q]];
        if (complete && has_own && cover == own) return own;
        if (found < 0 || cover < found) found = cover;
    }
    return found;
}

/* The rank that gives a part of a cell, or -1. */
static int sender_of(const struct receipt *c, int part, const struct mt_box *cell) {
    if (c->from->part[c->rank] == part && holds(c, c->rank, cell)) return c->rank;
    for (int q = 0; q < c->interp->program->nranks; q++)
        if (c->from->part[q] == part && in_group(c, q) && holds(c, q, cell)) return q;
    return -1;
}

static void receive_cell(const struct receipt *c, int sender, const struct mt_box *cell, bool adds) {
    const struct mt_box *old = &c->from->box[sender], *new = &c->to->box[c->rank];
    const void *data = *mt_interp_buffer(c->interp, c->in, sender);
    enum mt_type type = c->interp->program->values[c->in].type;
    struct rows w;
    for (rows_begin(&w, cell, c->to->naxes); w.more; rows_next(&w)) {
        int64_t source = mt_place_in(old, c->to->naxes, w.at), target = mt_place_in(new, c->to->naxes, w.at);
        for (int64_t i = 0; i < w.length; i++) {
            double x = rounded(c->instr->wire, mt_type_load(type, data, source + i));
            c->result[target + i] = adds ? reduced(c->instr, c->result[target + i], x) : x;
        }
    }
}

/* `to_part`: null if the new box is complete. */
static enum mt_status receive_parts_of_cell(const struct receipt *c, const struct mt_box *cell, const int *to_part,
                                            struct mt_err *err) {
    int cover = source_cover(c, cell, !to_part), found = 0;
    for (int p = 0; p < c->from->nparts && cover >= 0; p++) {
        if (c->from->cover[p] != cover || (to_part && to_part[p] != c->to->part[c->rank])) continue;
        int sender = sender_of(c, p, cell);
        if (sender < 0)
            return mt_fail(err, MT_EBUG, "AllToAll of %%%d to %%%d: no rank of rank %d's group has part %d", c->in,
                           c->out, c->rank, p);
        if (found && c->instr->reduce == MT_REDUCE_NONE)
            return mt_fail(err, MT_EBUG,
                           "AllToAll of %%%d to %%%d: rank %d gets several parts, but there is no reduction", c->in,
                           c->out, c->rank);
        receive_cell(c, sender, cell, found++ > 0);
    }
    if (cover < 0)
        return mt_fail(err, MT_EBUG, "AllToAll of %%%d to %%%d: no rank of rank %d's group holds all of its box", c->in,
                       c->out, c->rank);
    struct rows w;
    for (rows_begin(&w, cell, c->to->naxes); w.more && !found; rows_next(&w)) /* no old part goes to this new one */
        for (int64_t i = 0; i < w.length; i++)
            c->result[mt_place_in(&c->to->box[c->rank], c->to->naxes, w.at) + i] =
                c->to->reduce == MT_MAX ? -INFINITY : 0;
    return MT_OK;
}

static enum mt_status receive_parts(struct receipt *c, struct mt_err *err) {
    struct cells cells;
    int *to_part = NULL;
    enum mt_status st = MT_OK;
    if (!mt_box_count(&c->to->box[c->rank], c->to->naxes)) return MT_OK;
    if (!new_is_complete(c)) {
        to_part = mt_malloc((size_t)c->from->nparts * sizeof *to_part);
        mt_layout_part_map(c->from, c->to, c->interp->program->nranks, c->to->cover[c->to->part[c->rank]], to_part);
    }
    for (cells_begin(&cells, c); cells.more && !st; cells_next(&cells))
        st = receive_parts_of_cell(c, &cells.box, to_part, err);
    cells_end(&cells);
    free(to_part);
    return st;
}

static enum mt_status receive_all(struct receipt *c, struct mt_err *err) {
    switch (c->instr->coll) {
    case MT_ALL_REDUCE:
    case MT_REDUCE_SCATTER: return receive_reduced(c, err);
    case MT_ALL_GATHER: return receive_first(c, false, err);
    case MT_BROADCAST: return receive_first(c, true, err);
    default: return receive_parts(c, err);
    }
}

static enum mt_status collect(struct receipt *c, void **buffer, struct mt_err *err) {
    const struct mt_program *p = c->interp->program;
    int64_t count = mt_box_count(&c->to->box[c->rank], c->to->naxes);
    c->result = mt_calloc((size_t)count, sizeof *c->result);
    c->got = mt_calloc((size_t)count, sizeof *c->got);
    c->any = mt_calloc((size_t)count, sizeof *c->any);
    enum mt_status st = receive_all(c, err);
    if (!st) {
        *buffer = mt_interp_alloc(p, c->out, c->rank);
        bool round = c->instr->coll == MT_ALL_REDUCE;
        for (int64_t i = 0; i < count; i++)
            mt_type_store(p->values[c->out].type, *buffer, i,
                          round ? rounded(c->instr->wire, c->result[i]) : c->result[i]);
    }
    free(c->result);
    free(c->got);
    free(c->any);
    return st;
}

enum mt_status mt_interp_collective(struct mt_interp *interp, const struct mt_instr *instr, struct mt_err *err) {
    const struct mt_program *p = interp->program;
    enum mt_status st = MT_OK;
    void **fresh = mt_calloc((size_t)p->nranks, sizeof *fresh);
    for (int i = 0; i < instr->nin && !st; i++) {
        for (int r = 0; r < p->nranks && !st; r++) st = mt_interp_made(interp, instr->in[i], r, err);
        for (int r = 0; r < p->nranks && !st; r++) {
            struct receipt c = {.interp = interp,
                                .instr = instr,
                                .in = instr->in[i],
                                .out = instr->out[i],
                                .rank = r,
                                .from = mt_pvalue_layout(p, instr->in[i]),
                                .to = mt_pvalue_layout(p, instr->out[i])};
            st = collect(&c, &fresh[r], err);
        }
        for (int r = 0; r < p->nranks; r++) {
            if (!st)
                mt_interp_install(interp, instr->out[i], r, fresh[r]);
            else
                free(fresh[r]);
            fresh[r] = NULL;
        }
    }
    free(fresh);
    return st;
}
