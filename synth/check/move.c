/* Collectives and slices: the old parts that each rank's new box gets by the meaning of the collective (program.h) must
 * be terms as the new layout declares them.
 *
 * What a rank gets is a list of pieces of its new box, each with the set of old parts that were reduced into it. Ranks
 * that get the same share a list. A complete box must get a whole old cover everywhere. In a cover of several parts, in
 * every region, ranks of one part must have got equal sets, and those of its parts be disjoint and together one whole
 * old cover. */
#include <stdlib.h>
#include <string.h>

#include "synth/check/internal.h"

struct set {   /* of old parts of one cover */
    int cover; /* -1: of several, or none */
    int n;
    const int *parts; /* ascending */
};

struct piece {
    struct mt_box box;
    struct set set;
};

struct pieces {
    struct piece *items;
    int count, capacity;
};

struct move {
    struct mt_arena arena;
    const struct mt_layout *from, *to;
    const int *group; /* null: a slice */
    int nranks;
    struct pieces **got; /* [nranks] */
    struct pieces *
        *alike;         /* [nranks]: by group, what all of its ranks get whose new boxes are within the one old box */
    int *stamp, stamps; /* [from->nparts] */
};

static bool holds(const struct mt_layout *l, int rank, const struct mt_box *box, bool *partly) {
    struct mt_box both;
    *partly = mt_box_intersect(&l->box[rank], box, l->naxes, &both);
    return *partly && mt_box_count(&both, l->naxes) == mt_box_count(box, l->naxes);
}

static bool empty(const struct mt_layout *l, int rank) {
    return mt_box_count(&l->box[rank], l->naxes) == 0;
}

static int compare_ints(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* A set of `n` different parts; the vector is sorted and kept. */
static struct set set_of(const struct move *m, int *parts, int n) {
    struct set set = {.cover = n ? m->from->cover[parts[0]] : -1, .n = n, .parts = parts};
    qsort(parts, (size_t)n, sizeof *parts, compare_ints);
    for (int i = 1; i < n; i++)
        if (m->from->cover[parts[i]] != set.cover) set.cover = -1;
    return set;
}

static bool same_set(const struct set *a, const struct set *b) {
    return a->n == b->n && (a->parts == b->parts || !memcmp(a->parts, b->parts, (size_t)a->n * sizeof *a->parts));
}

static bool is_whole(const struct move *m, const struct set *set) {
    return set->cover >= 0 && set->n == m->from->cover_parts[set->cover];
}

static void add_piece(struct move *m, struct pieces *pieces, struct mt_box box, struct set set) {
    mt_arena_grow(&m->arena, &pieces->items, pieces->count, &pieces->capacity, sizeof *pieces->items);
    pieces->items[pieces->count++] = (struct piece){box, set};
}

/* Where all pieces have one set, they are one. */
static void join_pieces(struct pieces *pieces, struct mt_box whole) {
    for (int i = 1; i < pieces->count; i++)
        if (!same_set(&pieces->items[i].set, &pieces->items[0].set)) return;
    if (pieces->count) pieces->count = 1, pieces->items[0].box = whole;
}

/* Whether all of the group's old boxes are equal. */
static bool one_old_box(const struct move *m, int group, int first) {
    for (int s = first; s < m->nranks; s++)
        if (m->group[s] == group && !mt_box_equal(&m->from->box[s], &m->from->box[first], m->from->naxes)) return false;
    return true;
}

/* AllReduce, ReduceScatter: the parts of all members of the group that hold the rank's new box. */
static enum mt_status parts_of_reduction(struct mt_checker *c, struct move *m, int rank, struct pieces *pieces) {
    int *parts = mt_new(&m->arena, int, m->nranks), n = 0;
    m->stamps++;
    for (int s = 0; s < m->nranks; s++) {
        bool partly;
        if (m->group[s] != m->group[rank]) continue;
        bool all = holds(m->from, s, &m->to->box[rank], &partly);
        if (!partly) continue;
        if (!all) return mt_checker_refuse(c, "rank %d holds only some of the elements that rank %d reduces", s, rank);
        int part = m->from->part[s];
        if (m->stamp[part] == m->stamps)
            return mt_checker_refuse(c, "replicas are added up: rank %d's part is counted twice", s);
        m->stamp[part] = m->stamps;
        parts[n++] = part;
    }
    if (!n) return mt_checker_refuse(c, "rank %d gets nothing", rank);
    add_piece(m, pieces, m->to->box[rank], set_of(m, parts, n));
    return MT_OK;
}

/* AllGather, Broadcast, slice: the new box is assembled from boxes. `only`: the one source rank, or -1 for the group.
 */
static enum mt_status parts_of_copy(struct mt_checker *c, struct move *m, int rank, int only, struct pieces *pieces) {
    int64_t covered = 0, wanted = mt_box_count(&m->to->box[rank], m->to->naxes);
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
        add_piece(m, pieces, both, set_of(m, &m->from->part[s], 1));
        covered += mt_box_count(&both, m->to->naxes);
    }
    if (covered != wanted)
        return mt_checker_refuse(c, "rank %d gets %lld of %lld elements", rank, (long long)covered, (long long)wanted);
    join_pieces(pieces, m->to->box[rank]);
    return MT_OK;
}

/* ---- AllToAll ---- */

struct exchange {
    struct mt_checker *c;
    struct move *m;
    int rank;
    const int *to_part; /* [from->nparts]: where old parts go in the rank's new cover; null: it is complete */
    struct pieces *pieces;
};

/* The old part goes to the part of the first rank that has it and is in the new cover, or to the cover's first part. */
static const int *where_parts_go(struct move *m, int cover) {
    int *to_part = mt_new(&m->arena, int, m->from->nparts), first = 0;
    bool reduced_alike = m->from->nparts == 1 || m->from->reduce == m->to->reduce;
    while (m->to->cover[first] != cover) first++;
    for (int p = 0; p < m->from->nparts; p++) to_part[p] = -1;
    for (int r = 0; r < m->nranks && reduced_alike; r++)
        if (!empty(m->from, r) && !empty(m->to, r) && m->to->cover[m->to->part[r]] == cover &&
            to_part[m->from->part[r]] < 0)
            to_part[m->from->part[r]] = m->to->part[r];
    for (int p = 0; p < m->from->nparts; p++)
        if (to_part[p] < 0) to_part[p] = first;
    return to_part;
}

static bool with(const struct exchange *x, int rank) {
    return x->m->group[rank] == x->m->group[x->rank];
}

/* One region of the new box, and the ranks that hold it: the parts of one cover that go to the new part; each must be
 * in the group. */
static enum mt_status exchange_region(void *context, const struct mt_box *region, const struct mt_tagged_box *there,
                                      int count) {
    struct exchange *x = context;
    struct mt_checker *c = x->c;
    struct move *m = x->m;
    const struct mt_layout *from = m->from;
    int cover = -1, own = empty(from, x->rank) || x->to_part ? -1 : from->cover[from->part[x->rank]], n = 0;
    for (int i = 0; i < count; i++) {
        int its = from->cover[from->part[there[i].id]];
        if (!x->to_part && !with(x, there[i].id)) continue;
        if (cover < 0 || its == own || (its < cover && cover != own)) cover = its;
    }
    if (cover < 0) return mt_checker_refuse(c, "rank %d's group does not hold all that it gets", x->rank);
    int *parts = mt_new(&m->arena, int, from->cover_parts[cover]), missing = 0;
    m->stamps++;
    for (int i = 0; i < count; i++)
        if (with(x, there[i].id)) m->stamp[from->part[there[i].id]] = m->stamps;
    for (int p = 0; p < from->nparts; p++) {
        if (from->cover[p] != cover || (x->to_part && x->to_part[p] != m->to->part[x->rank])) continue;
        missing += m->stamp[p] != m->stamps;
        parts[n++] = p;
    }
    if (missing) return mt_checker_refuse(c, "rank %d gets %d of %d parts of an element", x->rank, n - missing, n);
    add_piece(m, x->pieces, *region, set_of(m, parts, n));
    return MT_OK;
}

static enum mt_status parts_of_exchange(struct mt_checker *c, struct move *m, int rank, struct pieces *pieces) {
    int cover = m->to->cover[m->to->part[rank]], count = 0;
    struct exchange x = {.c = c, .m = m, .rank = rank, .pieces = pieces};
    if (m->to->cover_parts[cover] > 1) x.to_part = where_parts_go(m, cover);
    struct mt_tagged_box *boxes = mt_calloc((size_t)m->nranks, sizeof *boxes);
    struct mt_box *clipped = mt_calloc((size_t)m->nranks, sizeof *clipped);
    for (int s = 0; s < m->nranks; s++) {
        if (!x.to_part && !with(&x, s)) continue;
        if (mt_box_intersect(&m->from->box[s], &m->to->box[rank], m->to->naxes, &clipped[s]))
            boxes[count++] = (struct mt_tagged_box){&clipped[s], s};
    }
    enum mt_status st = mt_check_regions(m->to->naxes, boxes, count, exchange_region, &x);
    int64_t got = 0, wanted = mt_box_count(&m->to->box[rank], m->to->naxes);
    for (int i = 0; i < pieces->count; i++) got += mt_box_count(&pieces->items[i].box, m->to->naxes);
    if (!st && got != wanted)
        st = mt_checker_refuse(c, "rank %d gets %lld of %lld elements", rank, (long long)got, (long long)wanted);
    join_pieces(pieces, m->to->box[rank]);
    free(clipped);
    free(boxes);
    return st;
}

static int first_of_group(const struct move *m, int rank) {
    int s = 0;
    while (m->group[s] != m->group[rank]) s++;
    return s;
}

static enum mt_status parts_on(struct mt_checker *c, struct move *m, int rank, struct pieces *pieces) {
    if (c->instr->kind == MT_INSTR_SLICE) return parts_of_copy(c, m, rank, rank, pieces);
    switch (c->instr->coll) {
    case MT_ALL_REDUCE:
    case MT_REDUCE_SCATTER: return parts_of_reduction(c, m, rank, pieces);
    case MT_ALL_GATHER: return parts_of_copy(c, m, rank, -1, pieces);
    case MT_BROADCAST: return parts_of_copy(c, m, rank, first_of_group(m, rank), pieces);
    case MT_ALL_TO_ALL: return parts_of_exchange(c, m, rank, pieces);
    case MT_NCOLLS: break;
    }
    return mt_checker_refuse(c, "no such collective");
}

/* ---- what was got is what is declared ---- */

static enum mt_status check_complete(struct mt_checker *c, const struct move *m, int rank) {
    const struct pieces *pieces = m->got[rank];
    for (int i = 0; i < pieces->count; i++)
        if (!is_whole(m, &pieces->items[i].set))
            return mt_checker_refuse(c, "rank %d is declared to have all terms, but gets %d parts, which are not", rank,
                                     pieces->items[i].set.n);
    return MT_OK;
}

/* Whose sets are compared: ids are places in it. */
struct comparison {
    struct mt_checker *c;
    struct move *m;
    const struct set **set;
    int *rank;
    int *first; /* [to->nparts]: the place of the part's first set in the region */
};

/* One region of one new cover: sets of one part are equal, those of its parts are disjoint and one whole old cover. */
static enum mt_status check_region(void *context, const struct mt_box *region, const struct mt_tagged_box *there,
                                   int count) {
    struct comparison *x = context;
    struct mt_checker *c = x->c;
    struct move *m = x->m;
    int cover = -1, seen = 0;
    (void)region;
    for (int i = 0; i < count; i++) x->first[m->to->part[x->rank[there[i].id]]] = -1;
    m->stamps++;
    for (int i = 0; i < count; i++) {
        int id = there[i].id, *first = &x->first[m->to->part[x->rank[id]]];
        const struct set *set = x->set[id];
        if (*first >= 0) {
            if (!same_set(x->set[*first], set))
                return mt_checker_refuse(c, "ranks %d and %d are declared replicas, but have different parts",
                                         x->rank[*first], x->rank[id]);
            continue;
        }
        *first = id;
        if (set->n && set->cover < 0)
            return mt_checker_refuse(c, "rank %d gathers pieces of different partial sums", x->rank[id]);
        if (set->n && cover >= 0 && set->cover != cover)
            return mt_checker_refuse(c, "rank %d has parts of another division of the sum", x->rank[id]);
        if (set->n) cover = set->cover;
        for (int k = 0; k < set->n; k++) {
            if (m->stamp[set->parts[k]] == m->stamps)
                return mt_checker_refuse(c, "part %d of the result is counted 2 times", set->parts[k]);
            m->stamp[set->parts[k]] = m->stamps;
        }
        seen += set->n;
    }
    if (cover < 0 || seen != m->from->cover_parts[cover])
        return mt_checker_refuse(c, "%d of %d parts of the result are counted", seen,
                                 cover < 0 ? 1 : m->from->cover_parts[cover]);
    return MT_OK;
}

/* All pieces of a new cover's ranks; where each rank has one, the regions are those of whole boxes. */
static enum mt_status check_cover(struct mt_checker *c, struct move *m, const int *ranks, int nranks, int *first) {
    int count = 0, at = 0;
    for (int i = 0; i < nranks; i++) count += m->got[ranks[i]]->count;
    struct mt_tagged_box *boxes = mt_calloc((size_t)count, sizeof *boxes);
    struct comparison x = {.c = c, .m = m, .first = first, .set = mt_calloc((size_t)count, sizeof *x.set)};
    struct mt_box *clipped = mt_calloc((size_t)count, sizeof *clipped);
    x.rank = mt_calloc((size_t)count, sizeof *x.rank);
    for (int i = 0; i < nranks; i++)
        for (int k = 0; k < m->got[ranks[i]]->count; k++) {
            const struct piece *piece = &m->got[ranks[i]]->items[k];
            mt_box_intersect(&piece->box, &m->to->box[ranks[i]], m->to->naxes, &clipped[at]);
            if (!mt_box_count(&clipped[at], m->to->naxes)) continue;
            boxes[at] = (struct mt_tagged_box){&clipped[at], at};
            x.set[at] = &piece->set;
            x.rank[at++] = ranks[i];
        }
    enum mt_status st = mt_check_regions(m->to->naxes, boxes, at, check_region, &x);
    free(x.rank), free(clipped), free(x.set), free(boxes);
    return st;
}

static enum mt_status check_declared(struct mt_checker *c, struct move *m) {
    struct mt_cover_ranks by = mt_checker_covers(c->program, m->to, &m->arena);
    int *first = mt_new(&m->arena, int, m->to->nparts);
    enum mt_status st = MT_OK;
    for (int k = 0; k < m->to->ncovers && !st; k++) {
        const int *ranks = by.ranks + by.begin[k];
        int n = by.begin[k + 1] - by.begin[k];
        if (m->to->cover_parts[k] > 1 && n) st = check_cover(c, m, ranks, n, first);
        for (int i = 0; i < n && m->to->cover_parts[k] == 1 && !st; i++)
            if (!i || m->got[ranks[i]] != m->got[ranks[i - 1]]) st = check_complete(c, m, ranks[i]);
    }
    return st;
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
 * different orders; nor after an AllToAll from covers that share elements: members may sum other divisions. */
static bool stays_uniform(struct mt_checker *c, const struct move *m, int value, int layout) {
    bool was = c->facts[value].uniform, reduces = false;
    if (c->instr->kind == MT_INSTR_COLLECTIVE)
        reduces = c->instr->coll == MT_ALL_REDUCE || c->instr->coll == MT_REDUCE_SCATTER;
    bool exchanges = c->instr->kind == MT_INSTR_COLLECTIVE && c->instr->coll == MT_ALL_TO_ALL;
    if (was && !reduces && !exchanges) return true;
    if (reduces && c->instr->coll == MT_REDUCE_SCATTER) return false;
    if (c->instr->kind == MT_INSTR_SLICE) return was;
    if (c->instr->coll == MT_ALL_TO_ALL) return was && !mt_checker_shared(c, c->program->values[value].layout);
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

/* What another rank of the group gets, if this rank gets the same; or null. */
static struct pieces *got_alike(const struct mt_checker *c, struct move *m, int rank, const int *first) {
    if (!m->group || c->instr->coll == MT_ALL_TO_ALL) return NULL;
    int other = first[m->group[rank]];
    if (other < rank && m->got[other] && mt_box_equal(&m->to->box[other], &m->to->box[rank], m->to->naxes))
        return m->got[other];
    struct pieces *alike = m->alike[m->group[rank]];
    return alike && mt_box_within(&m->to->box[rank], &m->from->box[rank], m->to->naxes) ? alike : NULL;
}

/* What the ranks' new boxes get is what the layout declares. */
static enum mt_status prove_parts(struct mt_checker *c, struct move *m) {
    int *first = mt_new(&m->arena, int, m->nranks); /* of each group */
    m->got = mt_new(&m->arena, struct pieces *, m->nranks);
    m->alike = mt_new(&m->arena, struct pieces *, m->nranks);
    m->stamp = mt_new(&m->arena, int, m->from->nparts);
    for (int r = m->nranks - 1; r >= 0 && m->group; r--) first[m->group[r]] = r;
    enum mt_status st = MT_OK;
    for (int r = 0; r < m->nranks && !st; r++) {
        if (empty(m->to, r)) continue;
        m->got[r] = got_alike(c, m, r, first);
        if (m->got[r]) continue;
        m->got[r] = mt_new(&m->arena, struct pieces, 1);
        st = parts_on(c, m, r, m->got[r]);
        if (!st && m->group && c->instr->coll == MT_REDUCE_SCATTER && one_old_box(m, m->group[r], first[m->group[r]])) {
            m->got[r]->items[0].box = m->from->box[r];
            m->alike[m->group[r]] = m->got[r];
        }
    }
    if (!st) st = check_declared(c, m);
    mt_arena_release(&m->arena);
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
    if (m.group) {
        enum mt_status st = check_types(c, in);
        if (st) return st;
        bool reduces = c->instr->coll == MT_ALL_REDUCE || c->instr->coll == MT_REDUCE_SCATTER;
        if (reduces && c->instr->reduce == MT_REDUCE_NONE) return mt_checker_refuse(c, "it has no reduction");
        if (c->instr->reduce != m.from->reduce && mt_layout_is_partial(m.from))
            return mt_checker_refuse(c, "the value is reduced by another operation than the collective does");
    }
    if (mt_layout_is_partial(m.from) && mt_layout_is_partial(m.to) && m.to->reduce != m.from->reduce)
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
        enum mt_status st = prove_parts(c, &m);
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
