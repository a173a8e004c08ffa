/* Operators: the ranks' work together must be the operator of the training graph.
 *
 * A rank's boxes give the range of each index that it iterates over. All operands must agree on the range, and an index
 * that cannot be split must be whole. A rank computes of an output the sum over its ranges of the indices that the
 * output lacks, of the parts that it has of the inputs that are partial sums. Those ranges and parts are the terms that
 * the output's box has: in each declared cover, wherever boxes overlap, they must be disjoint and together all.
 *
 * A little longer than other files: the steps share one iteration (struct work), which nothing else reads. */
#include <stdlib.h>
#include <string.h>

#include "synth/check/internal.h"
#include "synth/ops/ops.h"

struct range {
    int64_t lo, hi;
    enum { UNKNOWN, KNOWN } state;
};

/* One operator's iteration: range[rank * MT_MAX_INDICES + index]. */
struct work {
    const struct mt_op *op;
    struct range *range;
    bool *idle; /* [nranks]: an input is empty on this rank, so that there is nothing to iterate over */
    int64_t extent[MT_MAX_INDICES];
};

static bool empty_box(const struct mt_checker *c, int value, int rank) {
    const struct mt_layout *l = &c->program->layouts.items[c->program->values[value].layout];
    return l->naxes > 0 && mt_box_count(&l->box[rank], l->naxes) == 0;
}

static enum mt_status agree(struct mt_checker *c, struct work *w, int rank, int index, int64_t lo, int64_t hi) {
    struct range *r = &w->range[rank * MT_MAX_INDICES + index];
    if (r->state == UNKNOWN) {
        *r = (struct range){lo, hi, KNOWN};
    } else if (r->lo != lo || r->hi != hi) {
        return mt_checker_refuse(c, "on rank %d operands disagree about %s: [%lld, %lld) and [%lld, %lld)", rank,
                                 c->graph->labels[w->op->index_label[index]].name, (long long)r->lo, (long long)r->hi,
                                 (long long)lo, (long long)hi);
    }
    return MT_OK;
}

/* Take the ranges of one operand's boxes on all ranks; of an empty input only that its rank is idle. */
static enum mt_status take_ranges(struct mt_checker *c, struct work *w, int value, const int *index, bool input) {
    enum mt_status st = MT_OK;
    const struct mt_layout *l = &c->program->layouts.items[c->program->values[value].layout];
    for (int r = 0; r < c->program->nranks && !st; r++) {
        if (empty_box(c, value, r)) {
            w->idle[r] |= input;
            continue;
        }
        for (int a = 0; a < l->naxes && !st; a++) st = agree(c, w, r, index[a], l->box[r].lo[a], l->box[r].hi[a]);
    }
    return st;
}

/* *partial: the inputs that are partial sums on some rank, by bits. Those of one rank that works are a linear set. */
static enum mt_status partial_inputs(struct mt_checker *c, const struct work *w, unsigned *partial) {
    unsigned sets[MT_MAX_IN], last = 0;
    int n = mt_op_linear_sets(w->op, sets);
    *partial = 0;
    for (int i = 0; i < w->op->nin; i++) {
        const struct mt_layout *l = &c->program->layouts.items[c->program->values[c->instr->in[i]].layout];
        if (!mt_layout_is_partial(l)) continue;
        *partial |= 1u << i;
        if (l->reduce != MT_SUM) return mt_checker_refuse(c, "input %d is a partial maximum", i);
    }
    for (int r = 0; r < c->program->nranks && *partial; r++) {
        unsigned here = 0;
        bool linear = false;
        for (int i = 0; i < w->op->nin; i++) {
            const struct mt_layout *l = &c->program->layouts.items[c->program->values[c->instr->in[i]].layout];
            if (*partial >> i & 1 && !mt_layout_is_complete(l, r)) here |= 1u << i;
        }
        if (w->idle[r] || !here || here == last) continue;
        for (int s = 0; s < n; s++) linear |= sets[s] == here;
        if (!linear) return mt_checker_refuse(c, "it is not linear in the inputs that are partial sums on rank %d", r);
        last = here;
    }
    return MT_OK;
}

static bool in_output(const struct mt_op *op, int output, int index, int naxes) {
    for (int a = 0; a < naxes; a++)
        if (op->out_index[output][a] == index) return true;
    return false;
}

static bool in_some_input(const struct mt_checker *c, const struct mt_op *op, int index) {
    for (int i = 0; i < op->nin; i++)
        for (int a = 0; a < c->graph->values[op->in[i]].naxes; a++)
            if (op->in_index[i][a] == index) return true;
    return false;
}

/* An index that cannot be split is whole on every rank that is not idle. */
static enum mt_status check_roles(struct mt_checker *c, const struct work *w) {
    for (int r = 0; r < c->program->nranks; r++)
        for (int i = 0; i < w->op->nindices && !w->idle[r]; i++) {
            const struct range *range = &w->range[r * MT_MAX_INDICES + i];
            if (range->state == UNKNOWN || mt_op_index_role(w->op, i) != MT_INDEX_WHOLE) continue;
            if (range->lo != 0 || range->hi != w->extent[i])
                return mt_checker_refuse(c, "%s cannot be split, but rank %d has only a part of it",
                                         c->graph->labels[w->op->index_label[i]].name, r);
        }
    return MT_OK;
}

/* The kind of reduction over the indices that are split and that the output lacks. */
static enum mt_status reduction_of(struct mt_checker *c, const struct work *w, int output, enum mt_reduce *reduce) {
    int naxes = c->graph->values[w->op->out[output]].naxes;
    *reduce = MT_REDUCE_NONE;
    for (int i = 0; i < w->op->nindices; i++) {
        if (in_output(w->op, output, i, naxes) || !in_some_input(c, w->op, i)) continue;
        bool split = false;
        for (int r = 0; r < c->program->nranks; r++) {
            const struct range *x = &w->range[r * MT_MAX_INDICES + i];
            split |= w->idle[r] || (x->state == KNOWN && (x->lo != 0 || x->hi != w->extent[i]));
        }
        enum mt_index_role role = mt_op_index_role(w->op, i);
        if (!split || role == MT_INDEX_WHOLE) continue;
        if (role == MT_INDEX_MAP)
            return mt_checker_refuse(c, "output %d needs %s whole", output,
                                     c->graph->labels[w->op->index_label[i]].name);
        enum mt_reduce kind = role == MT_INDEX_MAX ? MT_MAX : MT_SUM;
        if (*reduce != MT_REDUCE_NONE && *reduce != kind)
            return mt_checker_refuse(c, "output %d mixes sums and maxima", output);
        *reduce = kind;
    }
    return MT_OK;
}

/* ---- the terms of an output ---- */

/* What a rank's box of the output has: the ranges of the indices that the output lacks, and the volume of those. */
struct share {
    int rank, part;            /* part: declared */
    int64_t volume, begin;     /* begin: by which shares are sorted */
    const struct range *range; /* [MT_MAX_INDICES] */
};

struct sum {
    struct mt_checker *c;
    const struct work *work;
    int output;
    int nsummed, summed[MT_MAX_INDICES]; /* indices */
    int64_t whole;                       /* volume of the whole ranges */
    const struct mt_layout *declared;
    int nsources;
    const struct mt_layout *source[MT_MAX_IN]; /* layouts of the partial inputs */
    struct share *shares;                      /* [nranks]: of a region's different parts */
    int *first;   /* [declared->nparts]: the place of a part's share in the region; or -1 */
    int64_t *sum; /* [nranks]: of volumes, by old cover */
};

static void list_summed(const struct mt_checker *c, struct sum *s) {
    const struct mt_op *op = s->work->op;
    int naxes = c->graph->values[op->out[s->output]].naxes;
    s->whole = 1;
    for (int i = 0; i < op->nindices; i++) {
        if (in_output(op, s->output, i, naxes) || !in_some_input(c, op, i)) continue;
        s->summed[s->nsummed++] = i;
        s->whole *= s->work->extent[i];
    }
}

static struct share share_of(const struct sum *s, int rank) {
    struct share share = {.rank = rank,
                          .part = s->declared->part[rank],
                          .volume = s->work->idle[rank] ? 0 : 1,
                          .range = s->work->range + rank * MT_MAX_INDICES};
    for (int i = 0; i < s->nsummed; i++) share.volume *= share.range[s->summed[i]].hi - share.range[s->summed[i]].lo;
    return share;
}

/* Whether two ranks sum over the same ranges of the same parts. */
static bool same_terms(const struct sum *s, const struct share *a, const struct share *b) {
    if (a->volume != b->volume) return false;
    for (int i = 0; i < s->nsummed && a->volume; i++) {
        const struct range *x = &a->range[s->summed[i]], *y = &b->range[s->summed[i]];
        if (x->lo != y->lo || x->hi != y->hi) return false;
    }
    for (int k = 0; k < s->nsources && a->volume; k++)
        if (s->source[k]->part[a->rank] != s->source[k]->part[b->rank]) return false;
    return true;
}

static bool ranges_meet(const struct sum *s, const struct share *a, const struct share *b) {
    for (int i = 0; i < s->nsummed; i++) {
        const struct range *x = &a->range[s->summed[i]], *y = &b->range[s->summed[i]];
        if (x->hi <= y->lo || y->hi <= x->lo) return false;
    }
    return true;
}

/* Two parts of one cover: where they sum over the same range, it is of different parts of one old cover. */
static enum mt_status check_pair(struct mt_checker *c, const struct sum *s, const struct share *a,
                                 const struct share *b) {
    bool some = false;
    if (!ranges_meet(s, a, b)) return MT_OK;
    for (int k = 0; k < s->nsources; k++) {
        const struct mt_layout *l = s->source[k];
        if (mt_layout_is_complete(l, a->rank) && mt_layout_is_complete(l, b->rank)) continue;
        some = true;
        int x = l->part[a->rank], y = l->part[b->rank];
        if (x == y) return mt_checker_refuse(c, "ranks %d and %d add up the same part", a->rank, b->rank);
        if (l->cover[x] != l->cover[y])
            return mt_checker_refuse(c, "the partial inputs are divided into parts differently on ranks %d and %d",
                                     a->rank, b->rank);
    }
    if (some) return MT_OK;
    return mt_checker_refuse(c, "rank %d sums over a range of output %d that another rank counts too", b->rank,
                             s->output);
}

/* The only index whose ranges differ between the shares; -1: none does, -2: several do. */
static int differing_index(const struct sum *s, const struct share *shares, int n) {
    int found = -1;
    for (int i = 0; i < s->nsummed; i++) {
        const struct range *x = &shares[0].range[s->summed[i]];
        bool differ = false;
        for (int k = 1; k < n && !differ; k++) {
            const struct range *y = &shares[k].range[s->summed[i]];
            differ = x->lo != y->lo || x->hi != y->hi;
        }
        if (differ && found >= 0) return -2;
        if (differ) found = s->summed[i];
    }
    return found;
}

static int compare_shares(const void *a, const void *b) {
    const struct share *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* The parts of a cover have different terms. Many that divide one index only are compared in its order. */
static enum mt_status check_disjoint(struct mt_checker *c, const struct sum *s, struct share *shares, int n) {
    int index = s->nsources || n < 8 ? -2 : differing_index(s, shares, n);
    enum mt_status st = MT_OK;
    if (index >= 0) {
        for (int i = 0; i < n; i++) shares[i].begin = shares[i].range[index].lo;
        qsort(shares, (size_t)n, sizeof *shares, compare_shares);
        for (int i = 1; i < n && !st; i++) st = check_pair(c, s, &shares[i - 1], &shares[i]);
        return st;
    }
    for (int i = 0; i < n && !st; i++)
        for (int j = 0; j < i && !st; j++) st = check_pair(c, s, &shares[j], &shares[i]);
    return st;
}

static bool all_complete(const struct mt_layout *l, const struct share *shares, int n) {
    for (int i = 0; i < n; i++)
        if (!mt_layout_is_complete(l, shares[i].rank)) return false;
    return true;
}

/* They are all terms. As they are disjoint, it is enough to count: of a range that is summed of one old cover, each of
 * its parts has the volume. Inputs that are complete on all ranks are not divided. */
static enum mt_status check_all(struct mt_checker *c, const struct sum *s, const struct share *shares, int n) {
    bool counted = false;
    for (int k = 0; k <= s->nsources; k++) {
        const struct mt_layout *l = k < s->nsources ? s->source[k] : NULL;
        int64_t sum = 0;
        bool even = true;
        if (l ? all_complete(l, shares, n) : counted) continue;
        counted = true;
        for (int i = 0; i < n; i++) s->sum[l ? l->cover[l->part[shares[i].rank]] : 0] = 0;
        for (int i = 0; i < n; i++) s->sum[l ? l->cover[l->part[shares[i].rank]] : 0] += shares[i].volume;
        for (int i = 0; i < n; i++) {
            int cover = l ? l->cover[l->part[shares[i].rank]] : 0, parts = l ? l->cover_parts[cover] : 1;
            even &= s->sum[cover] % parts == 0;
            sum += s->sum[cover] / parts;
            s->sum[cover] = 0;
        }
        if (!even || sum != s->whole)
            return mt_checker_refuse(c, "the ranks sum over %lld of %lld terms of output %d", (long long)sum,
                                     (long long)s->whole, s->output);
    }
    return MT_OK;
}

/* One region of one declared cover. */
static enum mt_status check_region(void *context, const struct mt_box *region, const struct mt_tagged_box *there,
                                   int count) {
    struct sum *s = context;
    struct mt_checker *c = s->c;
    int n = 0;
    enum mt_status st = MT_OK;
    (void)region;
    if (s->whole == 0) return MT_OK;
    for (int i = 0; i < count; i++) s->first[s->declared->part[there[i].id]] = -1;
    for (int i = 0; i < count; i++) {
        struct share share = share_of(s, there[i].id);
        int *first = &s->first[share.part];
        if (*first >= 0) {
            struct share other = share_of(s, *first);
            if (same_terms(s, &other, &share)) continue;
            return mt_checker_refuse(c, "ranks %d and %d are declared replicas, but have different parts", *first,
                                     share.rank);
        }
        *first = share.rank;
        if (share.volume) s->shares[n++] = share;
    }
    if (n > 1) st = check_disjoint(c, s, s->shares, n);
    return st ? st : check_all(c, s, s->shares, n);
}

static enum mt_status check_declared(struct mt_checker *c, struct sum *s) {
    struct mt_arena arena = MT_ARENA_INIT;
    const struct mt_layout *l = s->declared;
    int n = c->program->nranks;
    struct mt_cover_ranks by = mt_checker_covers(c->program, l, &arena);
    struct mt_tagged_box *boxes = mt_new(&arena, struct mt_tagged_box, n);
    s->shares = mt_new(&arena, struct share, n);
    s->first = mt_new(&arena, int, l->nparts);
    s->sum = mt_new(&arena, int64_t, n);
    enum mt_status st = MT_OK;
    for (int k = 0; k < l->ncovers && !st; k++) {
        int count = by.begin[k + 1] - by.begin[k];
        const int *ranks = by.ranks + by.begin[k];
        for (int i = 0; i < count; i++) boxes[i] = (struct mt_tagged_box){&l->box[ranks[i]], ranks[i]};
        if (l->cover_parts[k] > 1) st = mt_check_regions(l->naxes, boxes, count, check_region, s);
        for (int i = 0; i < count && l->cover_parts[k] == 1 && !st; i++)
            st = check_region(s, boxes[i].box, &boxes[i], 1);
    }
    mt_arena_release(&arena);
    return st;
}

/* An idle rank holds the neutral element: 0 for a sum, -inf for a maximum. */
static enum mt_status check_output(struct mt_checker *c, const struct work *w, int output, unsigned partial) {
    const struct mt_program *p = c->program;
    struct sum s = {
        .c = c, .work = w, .output = output, .declared = &p->layouts.items[p->values[c->instr->out[output]].layout]};
    for (int i = 0; i < w->op->nin; i++)
        if (partial >> i & 1) s.source[s.nsources++] = &p->layouts.items[p->values[c->instr->in[i]].layout];
    enum mt_reduce reduce = MT_REDUCE_NONE;
    enum mt_status st = reduction_of(c, w, output, &reduce);
    if (st) return st;
    if (partial && reduce == MT_MAX) return mt_checker_refuse(c, "output %d is a maximum of partial sums", output);
    if (partial) reduce = MT_SUM;
    if (reduce != MT_REDUCE_NONE && mt_layout_is_partial(s.declared) && s.declared->reduce != reduce)
        return mt_checker_refuse(c, "output %d is declared with another reduction than it has", output);
    list_summed(c, &s);
    return check_declared(c, &s);
}

/* An output's box is empty where a range of it is; indices that only outputs carry are free. */
static enum mt_status check_output_boxes(struct mt_checker *c, struct work *w) {
    for (int o = 0; o < w->op->nout; o++) {
        int value = c->instr->out[o];
        const struct mt_layout *l = &c->program->layouts.items[c->program->values[value].layout];
        for (int r = 0; r < c->program->nranks; r++) {
            bool must_be_empty = false;
            for (int a = 0; a < l->naxes; a++) {
                int index = w->op->out_index[o][a];
                const struct range *x = &w->range[r * MT_MAX_INDICES + index];
                must_be_empty |= x->state == KNOWN && x->lo >= x->hi;
                must_be_empty |= x->state == UNKNOWN && w->idle[r] && in_some_input(c, w->op, index);
            }
            if (must_be_empty && !empty_box(c, value, r))
                return mt_checker_refuse(c, "rank %d has no samples or share of output %d, but a box", r, o);
        }
    }
    return MT_OK;
}

/* A box may be empty only if this rank has nothing of one of its indices, and that index can be split. */
static enum mt_status check_empty_boxes(struct mt_checker *c, const struct work *w) {
    for (int k = 0; k < w->op->nin + w->op->nout; k++) {
        bool input = k < w->op->nin;
        int value = input ? c->instr->in[k] : c->instr->out[k - w->op->nin];
        const int *index = input ? w->op->in_index[k] : w->op->out_index[k - w->op->nin];
        int naxes = c->graph->values[c->program->values[value].gvalue].naxes;
        for (int r = 0; r < c->program->nranks; r++) {
            bool elsewhere = empty_box(c, value, r);
            for (int a = 0; a < naxes && elsewhere; a++)
                elsewhere = w->range[r * MT_MAX_INDICES + index[a]].state == KNOWN ||
                            mt_op_index_role(w->op, index[a]) == MT_INDEX_WHOLE;
            if (elsewhere)
                return mt_checker_refuse(c, "rank %d has an empty box of %s, but every index of it", r,
                                         c->graph->values[c->program->values[value].gvalue].name);
        }
    }
    return MT_OK;
}

/* Dropout draws by the sample's global number: a rank's samples must be consecutive in every iteration. */
static enum mt_status check_randomness(struct mt_checker *c, const struct work *w) {
    if (w->op->attr.p <= 0) return MT_OK;
    for (int i = 0; i < w->op->nindices; i++) {
        if (w->op->index_label[i] != c->graph->batch) continue;
        for (int r = 0; r < c->program->nranks; r++) {
            const struct range *x = &w->range[r * MT_MAX_INDICES + i];
            if (w->idle[r] || x->state == UNKNOWN) continue;
            int64_t first = mt_program_sample(c->program, c->block, 0, x->lo);
            for (int64_t at = x->lo + 1; at < x->hi; at++)
                if (mt_program_sample(c->program, c->block, 0, at) != first + at - x->lo)
                    return mt_checker_refuse(c, "rank %d drops elements of samples that are not consecutive", r);
        }
    }
    return MT_OK;
}

/* What the proof of the current operator depends on: its indices and their roles, the operands' indices and layouts.
 * Returns the length. */
static int key_of(const struct mt_checker *c, const struct mt_op *op, int *key) {
    unsigned sets[MT_MAX_IN];
    int n = 0, nsets = mt_op_linear_sets(op, sets);
    int head[] = {MT_ASK_OPERATOR, (int)op->kind, (int)c->block,  op->nin,
                  op->nout,        op->nindices,  op->attr.p > 0, nsets};
    for (size_t i = 0; i < sizeof head / sizeof *head; i++) key[n++] = head[i];
    for (int s = 0; s < nsets; s++) key[n++] = (int)sets[s];
    for (int i = 0; i < op->nindices; i++) {
        key[n++] = op->index_label[i];
        key[n++] = (int)mt_op_index_role(op, i);
    }
    for (int k = 0; k < op->nin + op->nout; k++) {
        int value = k < op->nin ? c->instr->in[k] : c->instr->out[k - op->nin];
        int naxes = c->graph->values[c->program->values[value].gvalue].naxes;
        const int *index = k < op->nin ? op->in_index[k] : op->out_index[k - op->nin];
        key[n++] = c->program->values[value].layout;
        key[n++] = naxes;
        for (int a = 0; a < naxes; a++) key[n++] = index[a];
    }
    return n;
}

/* The ranks' boxes of the operands are right, and the outputs' declared parts. */
static enum mt_status prove(struct mt_checker *c, const struct mt_op *op) {
    int n = c->program->nranks;
    struct work w = {.op = op};
    w.range = mt_calloc((size_t)(n * MT_MAX_INDICES), sizeof *w.range);
    w.idle = mt_calloc((size_t)n, sizeof *w.idle);
    for (int i = 0; i < op->nindices; i++)
        w.extent[i] = op->index_label[i] == c->graph->batch ? mt_program_batch(c->program, c->block)
                                                            : c->graph->labels[op->index_label[i]].extent;
    enum mt_status st = MT_OK;
    for (int i = 0; i < op->nin && !st; i++) st = take_ranges(c, &w, c->instr->in[i], op->in_index[i], true);
    for (int i = 0; i < op->nout && !st; i++) st = take_ranges(c, &w, c->instr->out[i], op->out_index[i], false);
    if (!st) st = check_roles(c, &w);
    if (!st) st = check_output_boxes(c, &w);
    if (!st) st = check_empty_boxes(c, &w);
    unsigned partial = 0;
    if (!st) st = partial_inputs(c, &w, &partial);
    if (!st) st = check_randomness(c, &w);
    for (int i = 0; i < op->nout && !st; i++) st = check_output(c, &w, i, partial);
    free(w.range);
    free(w.idle);
    return st;
}

/* The samples that sums over samples in the outputs cover. Inputs that cover some of the samples must be all of one
 * linear set, over the same samples: then so are the outputs. */
static enum mt_status covers_of(struct mt_checker *c, const struct mt_op *op, bool sample, enum mt_covers *covers) {
    unsigned some = 0, sets[MT_MAX_IN];
    *covers = !sample || !c->has_body ? MT_COVERS_ALL : c->block == MT_BODY ? MT_COVERS_BODY : MT_COVERS_LAST;
    for (int i = 0; i < op->nin; i++) {
        enum mt_covers input = c->facts[c->instr->in[i]].covers;
        if (input == MT_COVERS_ALL) continue;
        if (sample || (some && input != *covers))
            return mt_checker_refuse(c, "%s is summed over some of the samples only", c->graph->values[op->in[i]].name);
        some |= 1u << i;
        *covers = input;
    }
    int nsets = some ? mt_op_linear_sets(op, sets) : 0;
    for (int s = 0; s < nsets; s++)
        if (sets[s] == some) return MT_OK;
    if (!some) return MT_OK;
    return mt_checker_refuse(c, "its inputs are summed over some of the samples only, and it is not linear in these");
}

enum mt_status mt_checker_op(struct mt_checker *c) {
    const struct mt_op *op = &c->graph->ops[c->instr->gop];
    bool sample = mt_checker_sample_op(c, op);
    enum mt_covers covers;
    if (sample && c->block != MT_BODY && c->block != MT_LAST)
        return mt_checker_refuse(c, "works on samples outside the blocks of micro-batches");
    for (int i = 0; i < op->nin; i++)
        if (c->program->values[c->instr->in[i]].gvalue != op->in[i])
            return mt_checker_refuse(c, "input %d is %s, not %s", i,
                                     c->graph->values[c->program->values[c->instr->in[i]].gvalue].name,
                                     c->graph->values[op->in[i]].name);
    for (int i = 0; i < op->nout; i++)
        if (c->program->values[c->instr->out[i]].gvalue != op->out[i])
            return mt_checker_refuse(c, "output %d is not %s", i, c->graph->values[op->out[i]].name);
    enum mt_status st = covers_of(c, op, sample, &covers);
    if (st) return st;
    int key[8 + MT_MAX_IN + 2 * MT_MAX_INDICES + (MT_MAX_IN + MT_MAX_OUT) * (2 + MT_MAX_AXES)];
    int nkey = key_of(c, op, key);
    if (!*mt_checker_answer(c, key, nkey)) {
        if ((st = prove(c, op))) return st;
        *mt_checker_answer(c, key, nkey) = 1;
    }
    bool exact = mt_op_info[op->kind].exact, operands = exact || mt_op_repeats(op->kind);
    for (int i = 0; i < op->nin; i++) operands &= c->facts[c->instr->in[i]].uniform;
    for (int i = 0; i < op->nout; i++) {
        bool of_samples = mt_checker_samples(c, op->out[i]), uniform = operands && (exact || mt_checker_repeats(c, i));
        mt_checker_learn(c, c->instr->out[i], of_samples ? MT_COVERS_ALL : covers, uniform);
    }
    return MT_OK;
}
