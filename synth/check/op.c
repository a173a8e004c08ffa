/* Operators: the ranks' work together must be the operator of the training graph.
 *
 * A rank's boxes give the range of each index that it iterates over. All operands must agree on the range, and an index
 * that cannot be split must be whole. A rank computes of an output the sum over its ranges of the indices that the
 * output lacks. Those ranges are the parts of the output; they must tile the whole range wherever boxes overlap. */
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

/* *set: the linear set whose inputs are partial; -1 if no input is. */
static enum mt_status partial_set(struct mt_checker *c, const struct work *w, int *set) {
    unsigned partial = 0, sets[MT_MAX_IN];
    for (int i = 0; i < w->op->nin; i++) {
        const struct mt_layout *l = &c->program->layouts.items[c->program->values[c->instr->in[i]].layout];
        if (l->nparts == 1) continue;
        partial |= 1u << i;
        if (l->reduce != MT_SUM) return mt_checker_refuse(c, "input %d is a partial maximum", i);
    }
    *set = -1;
    if (!partial) return MT_OK;
    int n = mt_op_linear_sets(w->op, sets);
    for (int s = 0; s < n; s++)
        if (sets[s] == partial) *set = s;
    if (*set < 0) return mt_checker_refuse(c, "it is not linear in the inputs that are partial sums");
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

/* box: the rank's ranges of the indices that the output lacks. Returns the box's volume. */
static int64_t reduced_box(const struct mt_checker *c, const struct work *w, int output, int rank,
                           struct range box[MT_MAX_INDICES]) {
    int naxes = c->graph->values[w->op->out[output]].naxes;
    int64_t volume = w->idle[rank] ? 0 : 1;
    for (int i = 0; i < w->op->nindices; i++) {
        box[i] = (struct range){0, 0, UNKNOWN};
        if (in_output(w->op, output, i, naxes) || !in_some_input(c, w->op, i)) continue;
        box[i] = w->range[rank * MT_MAX_INDICES + i];
        volume *= box[i].hi - box[i].lo;
    }
    return volume;
}

static bool same_boxes(const struct range *a, const struct range *b, int n) {
    for (int i = 0; i < n; i++)
        if (a[i].state != b[i].state || a[i].lo != b[i].lo || a[i].hi != b[i].hi) return false;
    return true;
}

static bool disjoint_boxes(const struct range *a, const struct range *b, int n) {
    for (int i = 0; i < n; i++)
        if (a[i].state == KNOWN && b[i].state == KNOWN && (a[i].hi <= b[i].lo || b[i].hi <= a[i].lo)) return true;
    return false;
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

/* Number the distinct boxes of reduced_box: part_of[rank], -1 if a rank adds nothing. Distinct boxes must be disjoint
 * and together whole. */
static enum mt_status number_parts(struct mt_checker *c, const struct work *w, int output, int *part_of, int *nparts) {
    int n = c->program->nranks, k = w->op->nindices;
    struct range *boxes = mt_calloc((size_t)(n * MT_MAX_INDICES), sizeof *boxes);
    int64_t whole = 1, covered = 0;
    for (int i = 0; i < k; i++)
        if (!in_output(w->op, output, i, c->graph->values[w->op->out[output]].naxes) && in_some_input(c, w->op, i))
            whole *= w->extent[i];
    enum mt_status st = MT_OK;
    *nparts = 0;
    for (int r = 0; r < n && !st; r++) {
        struct range *mine = boxes + *nparts * MT_MAX_INDICES;
        int64_t volume = reduced_box(c, w, output, r, mine);
        part_of[r] = -1;
        if (volume == 0 && whole > 0) continue;
        for (int p = 0; p < *nparts && !st; p++) {
            const struct range *other = boxes + p * MT_MAX_INDICES;
            if (same_boxes(mine, other, k))
                part_of[r] = p;
            else if (!disjoint_boxes(mine, other, k))
                st = mt_checker_refuse(c, "rank %d sums over a range of output %d that another rank counts too", r,
                                       output);
        }
        if (part_of[r] >= 0) continue;
        part_of[r] = (*nparts)++;
        covered += volume;
    }
    if (!st && covered != whole)
        st = mt_checker_refuse(c, "the ranks sum over %lld of %lld terms of output %d", (long long)covered,
                               (long long)whole, output);
    free(boxes);
    return st;
}

static enum mt_status check_output(struct mt_checker *c, const struct work *w, int output, int set) {
    int n = c->program->nranks, nparts = 1;
    int layout = c->program->values[c->instr->out[output]].layout;
    const struct mt_layout *l = &c->program->layouts.items[layout];
    const struct mt_layout *source = NULL;
    if (set >= 0) {
        unsigned sets[MT_MAX_IN];
        mt_op_linear_sets(w->op, sets);
        for (int i = 0; i < w->op->nin; i++) {
            if (!(sets[set] >> i & 1)) continue;
            const struct mt_layout *in = &c->program->layouts.items[c->program->values[c->instr->in[i]].layout];
            if (source && (in->nparts != source->nparts || memcmp(in->part, source->part, (size_t)n * sizeof(int))))
                return mt_checker_refuse(c, "the partial inputs are divided into parts differently");
            source = in;
        }
    }
    int *part_of = mt_calloc((size_t)n, sizeof *part_of);
    enum mt_reduce reduce = MT_REDUCE_NONE;
    enum mt_status st = reduction_of(c, w, output, &reduce);
    if (!st && source && reduce != MT_REDUCE_NONE)
        st = mt_checker_refuse(c, "partial inputs together with a split sum are not supported");
    if (!st && source) {
        nparts = source->nparts;
        for (int r = 0; r < n; r++) part_of[r] = w->idle[r] ? -1 : source->part[r];
        reduce = MT_SUM;
    } else if (!st) {
        st = number_parts(c, w, output, part_of, &nparts);
    }
    if (!st && nparts > 1 && l->nparts > 1 && l->reduce != reduce)
        st = mt_checker_refuse(c, "output %d is declared with another reduction than it has", output);
    if (!st && nparts > 0) {
        bool *has = mt_calloc((size_t)(n * nparts), sizeof *has);
        for (int r = 0; r < n; r++)
            if (part_of[r] >= 0) has[r * nparts + part_of[r]] = true;
        st = mt_checker_parts(c, layout, nparts, has);
        free(has);
    }
    /* An idle rank holds the neutral element: 0 for a sum, -inf for a maximum. */
    free(part_of);
    return st;
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
    int set = -1;
    if (!st) st = partial_set(c, &w, &set);
    if (!st) st = check_randomness(c, &w);
    for (int i = 0; i < op->nout && !st; i++) st = check_output(c, &w, i, set);
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
    bool uniform = mt_op_info[op->kind].exact;
    for (int i = 0; i < op->nin; i++) uniform &= c->facts[c->instr->in[i]].uniform;
    for (int i = 0; i < op->nout; i++) {
        bool of_samples = mt_checker_samples(c, op->out[i]);
        mt_checker_learn(c, c->instr->out[i], of_samples ? MT_COVERS_ALL : covers, uniform);
    }
    return MT_OK;
}
