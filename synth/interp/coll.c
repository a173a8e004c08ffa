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

/* AllToAll: part by part. */
static enum mt_status receive_parts(struct receipt *c, struct mt_err *err) {
    int nranks = c->interp->program->nranks;
    int64_t count = mt_box_count(&c->to->box[c->rank], c->to->naxes);
    int *to_part = mt_malloc((size_t)c->from->nparts * sizeof *to_part);
    bool clash = false;
    mt_layout_part_map(c->from, c->to, nranks, to_part);
    err->status = MT_OK;
    for (int p = 0; p < c->from->nparts && !err->status && !clash; p++) {
        if (to_part[p] != c->to->part[c->rank]) continue;
        memset(c->got, 0, (size_t)count);
        if (c->from->part[c->rank] == p) clash = !receive(c, c->rank, false);
        for (int q = 0; q < nranks; q++)
            if (in_group(c, q) && c->from->part[q] == p) clash = !receive(c, q, false) || clash;
        if (!clash) all_received(c, c->got, err);
    }
    free(to_part);
    if (clash)
        return mt_fail(err, MT_EBUG, "AllToAll of %%%d to %%%d: rank %d gets several parts, but there is no reduction",
                       c->in, c->out, c->rank);
    for (int64_t i = 0; i < count && !err->status; i++)
        if (!c->any[i]) c->result[i] = c->to->reduce == MT_MAX ? -INFINITY : 0; /* no old part goes to this new one */
    return err->status;
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
