/* Overlapped instructions: the problem that one carries is the matmul and the collective that are its sources, on all
 * ranks of the group; and the schedules of these ranks solve it (synth/check/overlap).
 *
 * A matrix's rows are numbered by the axes of its boxes, the last fastest. What a rank has of the rows must be a
 * contiguous run of those numbers, with all columns; places of the problem are in the order of these runs. */
#include <string.h>

#include "kernels/overlap/chunk.h"
#include "synth/check/lowered/internal.h"
#include "synth/check/overlap/overlap.h"

struct mt_loverlapped { /* of a rank */
    struct mt_overlap problem;
    struct mt_overlap_schedule schedule;
    int *group;
    int region;
    int64_t window_at;
    int bias; /* of sums: a program value, or -1 */
    bool transposed[3];
};

struct sources {
    const struct mt_instr *product, *collective;
    const struct mt_attr *attr;
};

/* ---- this rank ---- */

static enum mt_status read_sources(struct mt_lchecker *c, struct sources *s) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    const struct mt_op_epilogue *epilogue = mt_op_epilogue(l->attr.epilogue);
    int nin = epilogue ? epilogue->nin : 2, nout = epilogue ? epilogue->nout : 1;
    if (l->nsources < 2 || (l->nsources > 2 && !epilogue) || !l->overlap || l->nin != nin ||
        l->nout != nout + l->overlap->problem.keep)
        return mt_lchecker_refuse(c, "is no matmul with its collective");
    s->product = mt_lchecker_source(c, 0), s->collective = mt_lchecker_source(c, 1);
    if (s->product->kind != MT_INSTR_OP || c->program->graph->ops[s->product->gop].kind != MT_OP_matmul ||
        s->collective->kind != MT_INSTR_COLLECTIVE || s->collective->nin != 1)
        return mt_lchecker_refuse(c, "its sources are no matmul and no collective of one value");
    s->attr = &c->program->graph->ops[s->product->gop].attr;
    return MT_OK;
}

/* What goes in and comes out is what the sources take and make; between them is one value. */
static enum mt_status check_flow(struct mt_lchecker *c, const struct sources *s) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    const struct mt_loverlap *o = l->overlap;
    const struct mt_instr *p = s->product, *x = s->collective;
    bool gather = o->problem.form == MT_OVERLAP_GATHER, swapped = o->trans_out;
    int a = p->in[swapped], b = p->in[!swapped];
    static const enum mt_coll_kind kinds[MT_OVERLAP_NFORMS] = {MT_ALL_GATHER, MT_REDUCE_SCATTER, MT_ALL_REDUCE};
    if ((unsigned)o->problem.form >= MT_OVERLAP_NFORMS || x->coll != kinds[o->problem.form])
        return mt_lchecker_refuse(c, "its form is not that of its collective");
    if (!gather && (x->in[0] != p->out[0] || x->reduce != MT_SUM || l->in[0] != a))
        return mt_lchecker_refuse(c, "its collective does not add up what its matmul makes");
    if (gather && (a != x->out[0] || b == x->out[0] || l->in[0] != x->in[0]))
        return mt_lchecker_refuse(c, "its matmul does not take what its collective gathers");
    if (l->in[1] != b || (!l->attr.epilogue && l->out[0] != (gather ? p->out[0] : x->out[0])))
        return mt_lchecker_refuse(c, "has other operands than its sources");
    if (o->problem.keep && (!gather || l->out[l->nout - 1] != x->out[0]))
        return mt_lchecker_refuse(c, "keeps another value than what its collective gathers");
    if (o->trans_a != (swapped ? !s->attr->trans_b : s->attr->trans_a) ||
        o->trans_b != (swapped ? !s->attr->trans_a : s->attr->trans_b) || (gather && o->trans_a))
        return mt_lchecker_refuse(c, "takes an operand transposed that is not, or the other way round");
    return MT_OK;
}

/* The epilogue is the operators that are the other sources, on what the matmul makes of the gathered operand, or on
 * what the collective makes of partial sums. */
static enum mt_status check_epilogue(struct mt_lchecker *c, const struct sources *s) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    if (!l->attr.epilogue) return MT_OK;
    if (!mt_overlap_takes_epilogue(&l->overlap->problem, l->overlap->trans_out, l->attr.epilogue))
        return mt_lchecker_refuse(c, "cannot have an epilogue %s", mt_op_info[l->attr.epilogue].name);
    if (mt_linstr_sums(l)) return mt_lchecker_biased_sum(c, s->collective->out[0]);
    return mt_lchecker_gemm(c, s->collective->out[0], 1);
}

static enum mt_status check_types(struct mt_lchecker *c, const struct sources *s) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    const struct mt_overlap *p = &l->overlap->problem;
    const struct mt_pvalue *values = c->program->values;
    bool gather = p->form == MT_OVERLAP_GATHER;
    bool right = s->attr->tf32 == p->tf32 && values[l->in[0]].type == p->type && values[l->in[1]].type == p->type &&
                 values[l->out[0]].type == p->out && s->collective->wire == p->wire;
    if (gather) right = right && values[s->collective->out[0]].type == p->type;
    if (!gather) right = right && s->collective->acc == mt_type_acc(p->type);
    return right ? MT_OK : mt_lchecker_refuse(c, "its types are not those of its operands, or of its collective");
}

/* ---- the problem ---- */

struct axes { /* of a matrix: which are its rows; the others are its columns */
    int first, end, naxes;
};

static int64_t count_of(const struct mt_box *box, int first, int end) {
    int64_t n = 1;
    for (int a = first; a < end; a++) n *= box->hi[a] - box->lo[a];
    return n;
}

static int64_t rows_of(const struct mt_box *box, struct axes axes) {
    return count_of(box, axes.first, axes.end);
}

static int64_t columns_of(const struct mt_box *box, struct axes axes) {
    return count_of(box, 0, axes.naxes) / (rows_of(box, axes) ? rows_of(box, axes) : 1);
}

static bool same_box(const struct mt_box *a, const struct mt_box *b, int naxes) {
    for (int i = 0; i < naxes; i++)
        if (a->lo[i] != b->lo[i] || a->hi[i] != b->hi[i]) return false;
    return true;
}

/* The first row of a part of `whole`, which has all columns and consecutive rows; -1: it has not. */
static int64_t first_row(const struct mt_box *part, const struct mt_box *whole, struct axes axes) {
    int64_t first = 0;
    bool cut = false; /* an axis before is longer than 1: later ones must be whole */
    for (int a = 0; a < axes.naxes; a++) {
        bool row = a >= axes.first && a < axes.end, all = part->lo[a] == whole->lo[a] && part->hi[a] == whole->hi[a];
        if (part->lo[a] < whole->lo[a] || part->hi[a] > whole->hi[a]) return -1;
        if (!row && !all) return -1;
        if (!row) continue;
        if (cut && !all) return -1;
        first = first * (whole->hi[a] - whole->lo[a]) + part->lo[a] - whole->lo[a];
        cut |= part->hi[a] - part->lo[a] > 1;
    }
    return first;
}

/* What the problem's vectors must be, place by place. */
struct expected {
    struct mt_lchecker *c;
    const struct mt_overlap *p;
    const int *group;
    int64_t row; /* where the next part begins */
};

static const struct mt_box *box_of(const struct expected *e, int value, int place) {
    return mt_pvalue_box(e->c->program, value, e->group[place]);
}

/* The part of `value`, cut along rows from `whole`, that place i has. */
static enum mt_status check_part(struct expected *e, int value, const struct mt_box *whole, struct axes axes, int i) {
    const struct mt_box *part = box_of(e, value, i);
    bool empty = mt_box_count(part, axes.naxes) == 0;
    int64_t rows = empty ? 0 : rows_of(part, axes);
    if (e->p->rows[i] != rows || (!empty && first_row(part, whole, axes) != e->row))
        return mt_lchecker_refuse(e->c, "rank %d has other rows of %s than the problem says", e->group[i],
                                  mt_lchecker_name(e->c, value));
    e->row += rows;
    return MT_OK;
}

/* Of a sum over k: all ranks that hold partial sums hold all of them. */
static enum mt_status check_sum(struct expected *e, const struct sources *s) {
    const struct mt_loverlap *o = mt_lchecker_instr(e->c)->overlap;
    const struct mt_overlap *p = e->p;
    int v = s->product->out[0], w = s->collective->out[0], naxes = mt_lchecker_layout(e->c, v)->naxes;
    int nm = s->attr->nm, a = s->product->in[0];
    struct axes axes = {o->trans_out ? nm : 0, o->trans_out ? naxes : nm, naxes};
    const struct mt_box *whole = NULL;
    for (int i = 0; i < p->n; i++) {
        const struct mt_box *box = box_of(e, v, i), *operand = box_of(e, a, i);
        bool empty = mt_box_count(box, naxes) == 0;
        int at = s->attr->trans_a ? 0 : nm;
        int64_t k = empty ? 0 : count_of(operand, at, at + s->attr->nk);
        if (!empty && whole && !same_box(box, whole, naxes))
            return mt_lchecker_refuse(e->c, "its ranks hold partial sums of different elements");
        if (!empty) whole = box;
        if (p->shares[i] != k)
            return mt_lchecker_refuse(e->c, "rank %d sums up %lld terms, not %lld", e->group[i], (long long)k,
                                      (long long)p->shares[i]);
    }
    if (!whole || p->m != rows_of(whole, axes) || p->cols != columns_of(whole, axes))
        return mt_lchecker_refuse(e->c, "its result has another size than the problem's");
    enum mt_status st = MT_OK;
    for (int i = 0; i < p->n && !st; i++) {
        if (p->form == MT_OVERLAP_SCATTER)
            st = check_part(e, w, whole, axes, i);
        else if (!same_box(box_of(e, w, i), whole, naxes))
            st = mt_lchecker_refuse(e->c, "rank %d gets another part of the sum than all", e->group[i]);
    }
    if (!st && p->form == MT_OVERLAP_SCATTER && e->row != p->m)
        st = mt_lchecker_refuse(e->c, "its ranks get %lld of %lld rows", (long long)e->row, (long long)p->m);
    return st;
}

/* Of a gather: all ranks get all rows, and have columns of their own. */
static enum mt_status check_gather(struct expected *e, const struct sources *s) {
    const struct mt_loverlap *o = mt_lchecker_instr(e->c)->overlap;
    const struct mt_overlap *p = e->p;
    int v = s->collective->in[0], w = s->collective->out[0], naxes = mt_lchecker_layout(e->c, w)->naxes;
    int out = s->product->out[0], nm = s->attr->nm, ncols = mt_lchecker_layout(e->c, out)->naxes;
    struct axes axes = {0, o->trans_out ? s->attr->nn : nm, naxes};
    const struct mt_box *whole = box_of(e, w, 0);
    enum mt_status st = MT_OK;
    if (p->m != rows_of(whole, axes) || p->k != columns_of(whole, axes))
        return mt_lchecker_refuse(e->c, "its operand has another size than the problem's");
    for (int i = 0; i < p->n && !st; i++) {
        const struct mt_box *mine = box_of(e, out, i);
        int64_t cols = o->trans_out ? count_of(mine, 0, nm) : count_of(mine, nm, ncols);
        if (!same_box(box_of(e, w, i), whole, naxes))
            return mt_lchecker_refuse(e->c, "rank %d gathers another box than all", e->group[i]);
        if (p->shares[i] != cols)
            return mt_lchecker_refuse(e->c, "rank %d has %lld columns, not %lld", e->group[i], (long long)cols,
                                      (long long)p->shares[i]);
        st = check_part(e, v, whole, axes, i);
    }
    if (!st && e->row != p->m)
        st = mt_lchecker_refuse(e->c, "its ranks have %lld of %lld rows", (long long)e->row, (long long)p->m);
    return st;
}

/* The group is the collective's of this rank, each member once. */
static enum mt_status check_group(struct mt_lchecker *c, const struct sources *s) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    const struct mt_overlap *p = &l->overlap->problem;
    const int *group = s->collective->group;
    int n = 0;
    for (int r = 0; r < c->program->nranks; r++) n += group[r] == group[c->rank];
    if (p->n != n || !l->group || !p->rows || !p->shares || l->overlap->me < 0 || l->overlap->me >= n ||
        l->group[l->overlap->me] != c->rank)
        return mt_lchecker_refuse(c, "its group is not its collective's, or it has another place there");
    for (int i = 0; i < n; i++) {
        if (l->group[i] < 0 || l->group[i] >= c->program->nranks || group[l->group[i]] != group[c->rank])
            return mt_lchecker_refuse(c, "rank %d is not in its group", l->group[i]);
        for (int k = 0; k < i; k++)
            if (l->group[k] == l->group[i]) return mt_lchecker_refuse(c, "rank %d is twice in its group", l->group[i]);
    }
    return MT_OK;
}

static int64_t no_scratch(void *context, const struct mt_call *call) {
    (void)context, (void)call;
    return 0;
}

/* Memory of its own: scratch, and its part of the window. */
static enum mt_status check_memory(struct mt_lchecker *c) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    const struct mt_loverlap *o = l->overlap;
    const struct mt_lower_options *options = c->options;
    int64_t (*of_gemm)(void *, const struct mt_call *) = options->scratch_bytes ? options->scratch_bytes : no_scratch;
    int64_t needs = (options->chunks ? mt_overlap_chunks_scratch_bytes : mt_overlap_scratch_bytes)(
        &o->problem, o->me, l->attr.epilogue, of_gemm, options->context);
    const struct mt_lvalue *scratch = l->scratch >= 0 ? &c->low->values[l->scratch] : NULL;
    int64_t has = scratch && scratch->offset_bytes >= 0 ? scratch->size_bytes : 0;
    if (has < needs)
        return mt_lchecker_refuse(c, "needs %lld bytes of scratch, but has %lld", (long long)needs, (long long)has);
    if (o->region < 0 || o->region >= c->low->nregions || o->window_at < 0 || o->window_at % 128 ||
        o->window_at > c->low->window_bytes - mt_overlap_window_bytes(&o->problem))
        return mt_lchecker_refuse(c, "its memory is not in the window");
    return MT_OK;
}

enum mt_status mt_lchecker_overlap(struct mt_lchecker *c) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    struct sources s = {0};
    struct mt_err why = MT_ERR_INIT;
    enum mt_status st = read_sources(c, &s);
    if (st) return st;
    if (l->stream != MT_STREAM_COMPUTE)
        return mt_lchecker_refuse(c, "computes on another stream than the one that owns the threads");
    if (!l->overlap->schedule) return mt_lchecker_refuse(c, "has no schedule");
    if ((st = check_flow(c, &s)) || (st = check_types(c, &s)) || (st = check_epilogue(c, &s)) ||
        (st = check_group(c, &s)))
        return st;
    if (mt_overlap_check(&l->overlap->problem, &why)) return mt_lchecker_refuse(c, "is no problem: %.300s", why.text);
    struct expected e = {c, &l->overlap->problem, l->group, 0};
    st = l->overlap->problem.form == MT_OVERLAP_GATHER ? check_gather(&e, &s) : check_sum(&e, &s);
    return st ? st : check_memory(c);
}

/* ---- all ranks ---- */

#define COPY(arena, items, count) mt_arena_memdup(arena, items, (size_t)(count) * sizeof *(items))

enum mt_status mt_lchecker_keep_overlap(struct mt_lchecker *c, int k) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    const struct mt_overlap_schedule *s = l->overlap->schedule;
    struct mt_lcollective *of = &c->collectives[k];
    int n = l->overlap->problem.n;
    if (!of->overlapped) of->overlapped = mt_new(&c->arena, struct mt_loverlapped, c->program->nranks);
    of->members[c->rank].name = mt_arena_strdup(&c->arena, l->name ? l->name : "?");
    struct mt_loverlapped *kept = &of->overlapped[c->rank];
    *kept = (struct mt_loverlapped){.problem = l->overlap->problem,
                                    .schedule = *s,
                                    .group = COPY(&c->arena, l->group, n),
                                    .region = l->overlap->region,
                                    .window_at = l->overlap->window_at,
                                    .bias = mt_linstr_sums(l) ? mt_linstr_extra(l) : -1,
                                    .transposed = {l->overlap->trans_a, l->overlap->trans_b, l->overlap->trans_out}};
    kept->problem.rows = COPY(&c->arena, kept->problem.rows, n);
    kept->problem.shares = COPY(&c->arena, kept->problem.shares, n);
    kept->schedule.tiles = COPY(&c->arena, s->tiles, s->ntiles);
    kept->schedule.puts = COPY(&c->arena, s->puts, s->nputs);
    kept->schedule.waits = COPY(&c->arena, s->waits, s->nwaits);
    return MT_OK;
}

static bool same_tile(const struct mt_overlap_tile *a, const struct mt_overlap_tile *b) {
    return a->kind == b->kind && a->from == b->from && a->to == b->to && a->from_row == b->from_row &&
           a->row == b->row && a->rows == b->rows && a->col == b->col && a->cols == b->cols &&
           a->first_wait == b->first_wait && a->nwaits == b->nwaits;
}

static bool same_put(const struct mt_overlap_put *a, const struct mt_overlap_put *b) {
    return a->tile == b->tile && a->peer == b->peer && a->flag == b->flag && a->from == b->from && a->to == b->to &&
           a->from_row == b->from_row && a->to_row == b->to_row && a->rows == b->rows && a->col == b->col &&
           a->cols == b->cols && a->first_wait == b->first_wait && a->nwaits == b->nwaits;
}

static bool same_wait(const struct mt_overlap_wait *a, const struct mt_overlap_wait *b) {
    return a->flag == b->flag && a->from == b->from && a->count == b->count && a->lag == b->lag && a->k == b->k;
}

static bool same_schedule(const struct mt_overlap_schedule *a, const struct mt_overlap_schedule *b) {
    bool same = a->ntiles == b->ntiles && a->nputs == b->nputs && a->nwaits == b->nwaits && a->copies == b->copies;
    for (int t = 0; t < a->ntiles && same; t++) same = same_tile(&a->tiles[t], &b->tiles[t]);
    for (int j = 0; j < a->nputs && same; j++) same = same_put(&a->puts[j], &b->puts[j]);
    for (int w = 0; w < a->nwaits && same; w++) same = same_wait(&a->waits[w], &b->waits[w]);
    return same;
}

/* Whether all of a group is as it was in an earlier instruction, which was proven. */
static bool known(const struct mt_lchecker *c, int k, const struct mt_loverlapped *mine) {
    for (int i = 0; i < k; i++) {
        const struct mt_loverlapped *other = c->collectives[i].overlapped;
        bool same = other != NULL;
        for (int p = 0; p < mine->problem.n && same; p++) {
            const struct mt_loverlapped *a = &other[mine->group[p]], *b = &c->collectives[k].overlapped[mine->group[p]];
            same = mt_overlap_equal(&a->problem, &b->problem) && same_schedule(&a->schedule, &b->schedule) &&
                   !memcmp(a->group, b->group, (size_t)b->problem.n * sizeof *b->group);
        }
        if (same) return true;
    }
    return false;
}

/* Instructions of one region have one problem and one schedule, so that each run is its next epoch: what is proven of a
 * schedule's epochs says nothing of two schedules in turns, nor of two implementations, which leave other flags. Of two
 * regions, no memory in common. */
static enum mt_status check_regions(struct mt_lchecker *c, int k) {
    int n = c->program->nranks;
    for (int i = 0; i < k; i++) {
        const struct mt_loverlapped *other = c->collectives[i].overlapped, *mine = c->collectives[k].overlapped;
        for (int x = 0; x < n && other; x++) {
            c->rank = x;
            const struct mt_loverlapped *a = &other[x], *b = &mine[x];
            bool one = a->region == b->region && a->window_at == b->window_at &&
                       mt_overlap_equal(&a->problem, &b->problem) &&
                       !memcmp(a->group, b->group, (size_t)a->problem.n * sizeof *a->group);
            if (a->region == b->region && !one)
                return mt_lchecker_refuse(c, "another problem has the same part of the window");
            if (one && memcmp(a->transposed, b->transposed, sizeof a->transposed))
                return mt_lchecker_refuse(c, "another one whose operands lie otherwise, for which devices may have "
                                             "another implementation, has the same part of the window");
            if (one && !same_schedule(&a->schedule, &b->schedule))
                return mt_lchecker_refuse(c, "another schedule of the problem has the same part of the window");
            for (int y = 0; y < n && a->region != b->region; y++)
                if (other[y].window_at < b->window_at + mt_overlap_window_bytes(&b->problem) &&
                    b->window_at < other[y].window_at + mt_overlap_window_bytes(&other[y].problem))
                    return mt_lchecker_refuse(c, "its part of the window is also another one's");
        }
    }
    return MT_OK;
}

enum mt_status mt_lchecker_overlapped(struct mt_lchecker *c, int k) {
    const struct mt_lcollective *of = c->collective = &c->collectives[k];
    struct mt_overlap_schedule *schedules = mt_new(&c->arena, struct mt_overlap_schedule, c->program->nranks);
    enum mt_status st = MT_OK;
    c->low = NULL;
    c->instr = of->instr;
    for (c->rank = 0; c->rank < c->program->nranks && !st; c->rank++) {
        const struct mt_loverlapped *mine = &of->overlapped[c->rank];
        const struct mt_overlap *p = &mine->problem;
        for (int i = 0; i < p->n; i++) {
            const struct mt_loverlapped *member = &of->overlapped[mine->group[i]];
            if (member->window_at != mine->window_at || member->region != mine->region ||
                !mt_overlap_equal(&member->problem, p) ||
                memcmp(member->group, mine->group, (size_t)p->n * sizeof(int)))
                return mt_lchecker_refuse(c, "rank %d has another problem, or another place in the window",
                                          mine->group[i]);
            /* Those who own rows add for all. */
            if (p->form == MT_OVERLAP_REDUCE && member->bias != mine->bias)
                return mt_lchecker_refuse(c, "rank %d adds another bias to the sum, or none", mine->group[i]);
            schedules[i] = member->schedule;
        }
        bool first = true;
        for (int i = 0; i < p->n; i++) first = first && c->rank <= mine->group[i];
        if (first && !known(c, k, mine)) st = mt_check_overlap(p, schedules, of->name, c->err);
    }
    return st ? st : check_regions(c, k);
}
