/* AllToAll: what a member unpacks of one value is, element by element, the old parts that its new part is made of. */
#include "synth/check/lowered/internal.h"
#include "synth/check/regions.h"

/* What a member gets of one operand. */
struct parcel {
    const struct mt_lchecker *c;
    struct mt_arena arena;
    const struct mt_layout *from, *to;
    int rank;
    bool complete;                     /* its new box is */
    const struct mt_larrival *arrival; /* [count] */
    int count;
    const int *goes_to; /* [from->nparts]: the new part that each old part goes to, if the new box is not complete */
    int64_t arrived;    /* elements */
};

/* That of the first rank that has the old part and is in the new cover; or the cover's first, or where reductions
 * differ. */
static const int *new_parts(struct parcel *p) {
    const struct mt_layout *from = p->from, *to = p->to;
    int *goes_to = mt_new(&p->arena, int, from->nparts), cover = to->cover[to->part[p->rank]], first = -1;
    bool *known = mt_new(&p->arena, bool, from->nparts);
    for (int k = to->nparts - 1; k >= 0; k--)
        if (to->cover[k] == cover) first = k;
    for (int k = 0; k < from->nparts; k++) goes_to[k] = first;
    for (int r = 0; r < p->c->program->nranks && (from->nparts == 1 || from->reduce == to->reduce); r++) {
        int k = from->part[r];
        if (known[k] || to->cover[to->part[r]] != cover) continue;
        if (!mt_box_count(&from->box[r], from->naxes) || !mt_box_count(&to->box[r], to->naxes)) continue;
        known[k] = true;
        goes_to[k] = to->part[r];
    }
    return goes_to;
}

/* The old cover that a region comes from; holders are the boxes after those of the arrivals, by rank. */
static int region_cover(const struct parcel *p, const struct mt_tagged_box *there, int count) {
    bool has_own = p->complete && mt_box_count(&p->from->box[p->rank], p->from->naxes);
    int own = has_own ? p->from->cover[p->from->part[p->rank]] : -1, least = -1;
    for (int i = 0; i < count; i++) {
        if (there[i].id < p->count) continue;
        int cover = p->from->cover[p->from->part[there[i].id - p->count]];
        if (cover == own) return own;
        if (least < 0 || cover < least) least = cover;
    }
    return least;
}

/* The pieces of a region are the parts of its cover that go to the new part, in order; the first overwrites and the
 * others reduce. */
static enum mt_status check_region(void *context, const struct mt_box *region, const struct mt_tagged_box *there,
                                   int count) {
    struct parcel *p = context;
    const struct mt_lchecker *c = p->c;
    int cover = region_cover(p, there, count), at = 0, npieces = 0, found = 0;
    while (npieces < count && there[npieces].id < p->count) npieces++;
    if (npieces) p->arrived += mt_box_count(region, p->to->naxes);
    for (int k = 0; k < p->from->nparts && cover >= 0; k++) {
        if (p->from->cover[k] != cover || (!p->complete && p->goes_to[k] != p->to->part[p->rank])) continue;
        if (at == npieces || p->arrival[there[at].id].part != k)
            return mt_lchecker_refuse(c, "part %d does not arrive, or not in order", k);
        if (p->arrival[there[at].id].reduce != (found++ ? p->from->reduce : MT_REDUCE_NONE))
            return mt_lchecker_refuse(c, "part %d is reduced differently", k);
        at++;
    }
    const struct mt_larrival *first = npieces == 1 ? &p->arrival[there[0].id] : NULL;
    if (!found && first && first->part < 0 && first->reduce == p->to->reduce) return MT_OK;
    return at == npieces && found ? MT_OK : mt_lchecker_refuse(c, "a part does not belong here");
}

enum mt_status mt_lchecker_parts(const struct mt_lchecker *c, const struct mt_instr *source, int operand, int rank,
                                 const struct mt_larrival *arrivals, int count) {
    int nranks = c->program->nranks, nboxes = 0;
    const struct mt_layout *to = mt_lchecker_layout(c, source->out[operand]);
    struct parcel p = {.c = c,
                       .from = mt_lchecker_layout(c, source->in[operand]),
                       .to = to,
                       .rank = rank,
                       .complete = to->cover_parts[to->cover[to->part[rank]]] == 1,
                       .arrival = arrivals,
                       .count = count};
    if (!p.complete) p.goes_to = new_parts(&p);
    struct mt_tagged_box *boxes = mt_new(&p.arena, struct mt_tagged_box, count + nranks);
    struct mt_box *clipped = mt_new(&p.arena, struct mt_box, nranks);
    enum mt_status st = MT_OK;
    for (; nboxes < count && !st; nboxes++) {
        boxes[nboxes] = (struct mt_tagged_box){&arrivals[nboxes].box, nboxes};
        if (!mt_box_within(&arrivals[nboxes].box, &to->box[rank], to->naxes))
            st = mt_lchecker_refuse(c, "a piece lies outside of the new box");
    }
    for (int r = 0; r < nranks; r++) {
        if (p.complete && source->group[r] != source->group[rank]) continue;
        if (mt_box_intersect(&p.from->box[r], &to->box[rank], to->naxes, &clipped[r]))
            boxes[nboxes++] = (struct mt_tagged_box){&clipped[r], count + r};
    }
    if (!st) st = mt_check_regions(to->naxes, boxes, nboxes, check_region, &p);
    if (!st && p.arrived != mt_box_count(&to->box[rank], to->naxes))
        st = mt_lchecker_refuse(c, "%s does not arrive whole", mt_lchecker_name(c, source->out[operand]));
    mt_arena_release(&p.arena);
    return st;
}
