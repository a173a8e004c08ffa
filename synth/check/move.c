/* Collectives and slices: the parts that each rank's new box has by the meaning of the collective (program.h) must be
 * those that the new layout declares. */
#include <stdlib.h>
#include <string.h>

#include "synth/check/internal.h"

struct move {
    const struct mt_layout *from, *to;
    const int *group; /* null: a slice */
    int nranks, nparts;
    bool *has; /* [nranks * nparts] */
};

static bool holds(const struct mt_layout *l, int rank, const struct mt_box *box, bool *partly) {
    struct mt_box both;
    *partly = mt_box_intersect(&l->box[rank], box, l->naxes, &both);
    return *partly && mt_box_count(&both, l->naxes) == mt_box_count(box, l->naxes);
}

static bool empty(const struct mt_layout *l, int rank) {
    return mt_box_count(&l->box[rank], l->naxes) == 0;
}

/* AllReduce, ReduceScatter: the parts of all members of the group that hold the rank's new box. */
static enum mt_status parts_of_reduction(struct mt_checker *c, struct move *m, int rank) {
    for (int s = 0; s < m->nranks; s++) {
        bool partly;
        if (m->group[s] != m->group[rank]) continue;
        bool all = holds(m->from, s, &m->to->box[rank], &partly);
        if (!partly) continue;
        if (!all) return mt_checker_refuse(c, "rank %d holds only some of the elements that rank %d reduces", s, rank);
        bool *has = &m->has[rank * m->nparts + m->from->part[s]];
        if (*has) return mt_checker_refuse(c, "replicas are added up: rank %d's part is counted twice", s);
        *has = true;
    }
    return MT_OK;
}

/* AllGather, Broadcast, slice: the new box is assembled from boxes of one part. `only`: the one source rank, or -1 for
 * the group. */
static enum mt_status parts_of_copy(struct mt_checker *c, struct move *m, int rank, int only) {
    int64_t covered = 0, wanted = mt_box_count(&m->to->box[rank], m->to->naxes);
    int part = -1;
    for (int s = 0; s < m->nranks; s++) {
        struct mt_box both, shared;
        if (only >= 0 ? s != only : m->group[s] != m->group[rank]) continue;
        if (!mt_box_intersect(&m->from->box[s], &m->to->box[rank], m->to->naxes, &both)) continue;
        bool fresh = true; /* false if an earlier member gives the same elements */
        for (int e = 0; e < s && only < 0; e++) {
            if (m->group[e] != m->group[rank]) continue;
            if (!mt_box_intersect(&m->from->box[e], &both, m->to->naxes, &shared)) continue;
            if (mt_box_count(&shared, m->to->naxes) != mt_box_count(&both, m->to->naxes))
                return mt_checker_refuse(c, "ranks %d and %d hold overlapping pieces of what is gathered", e, s);
            fresh = false;
        }
        if (!fresh) continue;
        if (part >= 0 && m->from->part[s] != part)
            return mt_checker_refuse(c, "rank %d gathers pieces of different partial sums", rank);
        part = m->from->part[s];
        covered += mt_box_count(&both, m->to->naxes);
    }
    if (covered != wanted)
        return mt_checker_refuse(c, "rank %d gets %lld of %lld elements", rank, (long long)covered, (long long)wanted);
    if (part >= 0) m->has[rank * m->nparts + part] = true;
    return MT_OK;
}

/* AllToAll: the old parts that go to the rank's new part; the group must hold each of them whole. */
static enum mt_status parts_of_exchange(struct mt_checker *c, struct move *m, int rank) {
    for (int p = 0; p < m->nparts; p++) {
        int first = 0;
        while (first < m->nranks && (m->from->part[first] != p || empty(m->from, first))) first++;
        if (first == m->nranks || m->to->part[first] != m->to->part[rank]) continue;
        struct move one = *m;
        int64_t covered = 0, wanted = mt_box_count(&m->to->box[rank], m->to->naxes);
        for (int s = 0; s < m->nranks; s++) {
            struct mt_box both, shared;
            if (one.group[s] != one.group[rank] || one.from->part[s] != p) continue;
            if (!mt_box_intersect(&one.from->box[s], &one.to->box[rank], one.to->naxes, &both)) continue;
            int64_t gives = mt_box_count(&both, one.to->naxes);
            for (int e = 0; e < s && gives; e++) {
                if (one.group[e] != one.group[rank] || one.from->part[e] != p) continue;
                if (!mt_box_intersect(&one.from->box[e], &both, one.to->naxes, &shared)) continue;
                if (mt_box_count(&shared, one.to->naxes) != gives)
                    return mt_checker_refuse(c, "ranks %d and %d hold overlapping pieces of what is exchanged", e, s);
                gives = 0;
            }
            covered += gives;
        }
        if (covered != wanted)
            return mt_checker_refuse(c, "rank %d gets %lld of %lld elements", rank, (long long)covered,
                                     (long long)wanted);
        m->has[rank * m->nparts + p] = true;
    }
    return MT_OK;
}

static int first_of_group(const struct move *m, int rank) {
    int s = 0;
    while (m->group[s] != m->group[rank]) s++;
    return s;
}

static enum mt_status parts_on(struct mt_checker *c, struct move *m, int rank) {
    if (c->instr->kind == MT_INSTR_SLICE) return parts_of_copy(c, m, rank, rank);
    switch (c->instr->coll) {
    case MT_ALL_REDUCE:
    case MT_REDUCE_SCATTER: return parts_of_reduction(c, m, rank);
    case MT_ALL_GATHER: return parts_of_copy(c, m, rank, -1);
    case MT_BROADCAST: return parts_of_copy(c, m, rank, first_of_group(m, rank));
    case MT_ALL_TO_ALL: return parts_of_exchange(c, m, rank);
    case MT_NCOLLS: break;
    }
    return mt_checker_refuse(c, "no such collective");
}

/* Whether ranks that hold the same element of one part are in one group. */
static bool replicas_together(const struct move *m) {
    struct mt_box both;
    for (int r = 0; r < m->nranks; r++)
        for (int s = 0; s < r; s++)
            if (m->to->part[r] == m->to->part[s] && m->group[r] != m->group[s] &&
                mt_box_intersect(&m->to->box[r], &m->to->box[s], m->to->naxes, &both))
                return false;
    return true;
}

/* Replicas are bit-equal after the move if they were before, or if each set of them is in one group, because its
 * members end with the same bits. Not after a ReduceScatter: two members that get the same element may sum it in
 * different orders. */
static bool stays_uniform(struct mt_checker *c, const struct move *m, int value, int layout) {
    bool was = c->facts[value].uniform, reduces = false;
    if (c->instr->kind == MT_INSTR_COLLECTIVE)
        reduces = c->instr->coll == MT_ALL_REDUCE || c->instr->coll == MT_REDUCE_SCATTER;
    if (was && !reduces) return true;
    if (reduces && c->instr->coll == MT_REDUCE_SCATTER) return false;
    if (c->instr->kind == MT_INSTR_SLICE || c->instr->coll == MT_ALL_TO_ALL) return was;
    int *answer = mt_checker_answer(c, (int[]){MT_ASK_UNIFORM, layout, mt_checker_group_id(c)}, 3);
    if (!*answer) *answer = 1 + replicas_together(m);
    return *answer == 2;
}

/* Wire and accumulation types: the value's own, or for sums of gradients those of the program. */
static enum mt_status check_types(struct mt_checker *c, int in) {
    const struct mt_instr *i = c->instr;
    const struct mt_pvalue *v = &c->program->values[in];
    const struct mt_value *g = &c->graph->values[v->gvalue];
    bool reduces = i->coll == MT_ALL_REDUCE || i->coll == MT_REDUCE_SCATTER;
    bool gradient = reduces && g->naxes > 0 && g->type == c->graph->acc && !mt_checker_samples(c, v->gvalue);
    if (i->wire != v->type && !(gradient && i->wire == c->program->gradient_wire))
        return mt_checker_refuse(c, "%s is %s, but its wire type is %s", g->name, mt_type_name(v->type),
                                 mt_type_name(i->wire));
    enum mt_type acc = i->reduce == MT_REDUCE_NONE ? i->wire : mt_type_acc(v->type);
    if (i->acc != acc)
        return mt_checker_refuse(c, "%s is summed in %s, not in %s", g->name, mt_type_name(i->acc), mt_type_name(acc));
    return MT_OK;
}

/* The first rank of the group, if it gets the same box from the same group: then the same parts. Else -1. */
static int gets_alike(const struct mt_checker *c, const struct move *m, int rank, const int *first) {
    if (!m->group || c->instr->coll == MT_ALL_TO_ALL) return -1;
    int other = first[m->group[rank]];
    return other < rank && mt_box_equal(&m->to->box[other], &m->to->box[rank], m->to->naxes) ? other : -1;
}

/* The parts that the ranks' new boxes have are those that the layout declares. */
static enum mt_status prove_parts(struct mt_checker *c, struct move *m, int layout) {
    size_t nparts = (size_t)m->nparts;
    int *first = mt_calloc((size_t)m->nranks, sizeof *first); /* of each group */
    m->has = mt_calloc((size_t)m->nranks * nparts, sizeof *m->has);
    for (int r = m->nranks - 1; r >= 0 && m->group; r--) first[m->group[r]] = r;
    enum mt_status st = MT_OK;
    for (int r = 0; r < m->nranks && !st; r++) {
        if (empty(m->to, r)) continue;
        int other = gets_alike(c, m, r, first);
        if (other >= 0)
            memcpy(m->has + (size_t)r * nparts, m->has + (size_t)other * nparts, nparts * sizeof *m->has);
        else
            st = parts_on(c, m, r);
    }
    if (!st) st = mt_checker_parts(c, layout, m->nparts, m->has);
    free(m->has);
    free(first);
    return st;
}

static enum mt_status check_one(struct mt_checker *c, int in, int out) {
    const struct mt_program *p = c->program;
    if (p->values[in].gvalue != p->values[out].gvalue)
        return mt_checker_refuse(c, "%s goes in, %s comes out", c->graph->values[p->values[in].gvalue].name,
                                 c->graph->values[p->values[out].gvalue].name);
    struct move m = {.from = &p->layouts.items[p->values[in].layout],
                     .to = &p->layouts.items[p->values[out].layout],
                     .group = c->instr->kind == MT_INSTR_COLLECTIVE ? c->instr->group : NULL,
                     .nranks = p->nranks};
    m.nparts = m.from->nparts;
    if (m.group) {
        enum mt_status st = check_types(c, in);
        if (st) return st;
        bool reduces = c->instr->coll == MT_ALL_REDUCE || c->instr->coll == MT_REDUCE_SCATTER;
        if (reduces && c->instr->reduce == MT_REDUCE_NONE) return mt_checker_refuse(c, "it has no reduction");
        if (c->instr->reduce != m.from->reduce && m.nparts > 1)
            return mt_checker_refuse(c, "the value is reduced by another operation than the collective does");
    }
    if (m.to->nparts > 1 && m.to->reduce != m.from->reduce)
        return mt_checker_refuse(c, "a partial %s becomes a partial %s", m.from->reduce == MT_MAX ? "maximum" : "sum",
                                 m.to->reduce == MT_MAX ? "maximum" : "sum");
    int layout = p->values[out].layout, nkey = 0, key[8];
    key[nkey++] = MT_ASK_MOVE;
    key[nkey++] = (int)c->instr->kind;
    key[nkey++] = m.group ? (int)c->instr->coll : -1;
    key[nkey++] = p->values[in].layout;
    key[nkey++] = layout;
    key[nkey++] = mt_checker_group_id(c);
    if (!*mt_checker_answer(c, key, nkey)) {
        enum mt_status st = prove_parts(c, &m, layout);
        if (st) return st;
        *mt_checker_answer(c, key, nkey) = 1;
    }
    mt_checker_learn(c, out, c->facts[in].covers, stays_uniform(c, &m, in, layout));
    return MT_OK;
}

/* Groups are numbered from 0 in order of their first ranks. */
static enum mt_status check_groups(struct mt_checker *c) {
    int next = 0;
    for (int r = 0; r < c->program->nranks; r++) {
        int g = c->instr->group ? c->instr->group[r] : -1;
        if (g < 0 || g > next) return mt_checker_refuse(c, "rank %d is in no group", r);
        if (g == next) next++;
    }
    return MT_OK;
}

enum mt_status mt_checker_move(struct mt_checker *c) {
    enum mt_status st = MT_OK;
    if (c->instr->kind == MT_INSTR_COLLECTIVE) {
        for (int r = 1; r < c->program->nranks && c->block == MT_BODY; r++)
            if (c->program->body_count[r] != c->program->body_count[0])
                return mt_checker_refuse(c, "ranks 0 and %d take part a different number of times", r);
        st = check_groups(c);
    }
    for (int i = 0; i < c->instr->nin && !st; i++) st = check_one(c, c->instr->in[i], c->instr->out[i]);
    return st;
}
