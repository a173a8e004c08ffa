/* Finding pairs: a GEMM whose result one collective takes, or that takes a collective's result, on boxes that the forms
 * of kernels/overlap serve: rows of a matrix, in the order of their ranks. */
#include "synth/program/pair.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const struct mt_instr *instr_of(const struct mt_program *p, const struct mt_pair *pair, int index) {
    return &p->blocks[pair->block].instrs[index];
}

/* ---- readers ---- */

struct reader {
    int count;                /* of the program's instructions */
    enum mt_block_kind block; /* of the first */
    int first;
};

static struct reader readers_of(const struct mt_program *p, int value) {
    struct reader r = {0};
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < p->blocks[b].ninstrs; i++) {
            const struct mt_instr *instr = &p->blocks[b].instrs[i];
            bool reads = false;
            for (int k = 0; k < instr->nin; k++) reads |= instr->in[k] == value;
            if (!reads) continue;
            if (!r.count++) r.block = (enum mt_block_kind)b, r.first = i;
        }
    for (int v = 0; v < p->nvalues; v++) r.count += p->values[v].next == value;
    return r;
}

static const struct mt_op *matmul_of(const struct mt_program *p, const struct mt_instr *instr) {
    const struct mt_op *op = instr->kind == MT_INSTR_OP ? &p->graph->ops[instr->gop] : NULL;
    return op && op->kind == MT_OP_matmul ? op : NULL;
}

/* The matmul of the block that makes the value, or -1. */
static int producer_of(const struct mt_program *p, enum mt_block_kind block, int before, int value) {
    for (int i = before - 1; i >= 0; i--) {
        const struct mt_instr *instr = &p->blocks[block].instrs[i];
        for (int o = 0; o < instr->nout; o++)
            if (instr->out[o] == value) return matmul_of(p, instr) ? i : -1;
    }
    return -1;
}

/* ---- boxes ---- */

static int64_t extent_of(const struct mt_box *box, int first, int end) {
    int64_t n = 1;
    for (int a = first; a < end; a++) n *= box->hi[a] - box->lo[a];
    return n;
}

/* The axes [first, end) of a matrix that are its rows, or its columns. */
struct side {
    int first, end;
};

/* The one axis along which boxes of the group's ranks divide `whole`, contiguous on one side of the matrix: it is the
 * side's first that is not 1. -1: they do not. */
static int divided_axis(const struct mt_program *p, int value, const int *group, int n, const struct mt_box *whole,
                        struct side side) {
    int naxes = mt_pvalue_layout(p, value)->naxes, axis = -1;
    for (int i = 0; i < n; i++) {
        const struct mt_box *box = mt_pvalue_box(p, value, group[i]);
        if (!mt_box_count(box, naxes)) continue;
        for (int a = 0; a < naxes; a++) {
            if (box->lo[a] == whole->lo[a] && box->hi[a] == whole->hi[a]) continue;
            if (axis >= 0 && axis != a) return -1;
            axis = a;
        }
    }
    if (axis < side.first || axis >= side.end || extent_of(whole, side.first, axis) != 1) return -1;
    return axis;
}

/* Sort the group by where the boxes begin on the axis, those without elements last; whether they divide it, without
 * gaps and nothing twice. */
static bool sort_by_axis(const struct mt_program *p, int value, int axis, const struct mt_box *whole, int *group,
                         int n) {
    int naxes = mt_pvalue_layout(p, value)->naxes;
    int64_t at = whole->lo[axis];
    for (int i = 0; i < n; i++) {
        int next = -1, empty = -1;
        for (int k = n - 1; k >= i; k--) {
            const struct mt_box *box = mt_pvalue_box(p, value, group[k]);
            if (!mt_box_count(box, naxes))
                empty = k;
            else if (box->lo[axis] == at)
                next = k;
        }
        if (next < 0) next = empty;
        if (next < 0) return false;
        int rank = group[next];
        memmove(group + i + 1, group + i, (size_t)(next - i) * sizeof *group);
        group[i] = rank;
        const struct mt_box *box = mt_pvalue_box(p, value, rank);
        if (mt_box_count(box, naxes)) at = box->hi[axis];
    }
    return at == whole->hi[axis];
}

/* The box that all ranks of the group hold, but for those without elements; false: there is none. */
static bool common_box(const struct mt_program *p, int value, const int *group, int n, struct mt_box *common) {
    int naxes = mt_pvalue_layout(p, value)->naxes;
    bool any = false;
    for (int i = 0; i < n; i++) {
        const struct mt_box *box = mt_pvalue_box(p, value, group[i]);
        if (!mt_box_count(box, naxes)) continue;
        for (int a = 0; a < naxes && any; a++)
            if (box->lo[a] != common->lo[a] || box->hi[a] != common->hi[a]) return false;
        *common = *box;
        any = true;
    }
    return any;
}

static bool all_hold(const struct mt_program *p, int value, const int *group, int n, const struct mt_box *whole) {
    int naxes = mt_pvalue_layout(p, value)->naxes;
    for (int i = 0; i < n; i++)
        for (int a = 0; a < naxes; a++) {
            const struct mt_box *box = mt_pvalue_box(p, value, group[i]);
            if (box->lo[a] != whole->lo[a] || box->hi[a] != whole->hi[a]) return false;
        }
    return true;
}

/* ---- problems ---- */

struct drawing { /* a problem that is being made */
    const struct mt_program *program;
    const struct mt_pair *pair;
    const struct mt_instr *product, *collective;
    const struct mt_attr *attr;
    struct mt_overlap *problem;
    int *group;
    int64_t *rows, *shares;
};

/* Rows, columns and contracted extent of the product on a rank, and whether its result there is not empty. */
static bool sizes_of(const struct drawing *d, int rank, int64_t size[3]) {
    struct mt_tensor in[MT_MAX_IN], out[MT_MAX_OUT];
    struct mt_err err = MT_ERR_INIT;
    const struct mt_attr *t = d->attr;
    if (mt_program_tensors(d->program, d->pair->block, d->product, rank, 0, in, out, &err)) return false;
    size[0] = size[1] = size[2] = 1;
    for (int a = 0; a < t->nm; a++) size[0] *= out[0].extent[a];
    for (int a = 0; a < t->nn; a++) size[1] *= out[0].extent[t->nm + a];
    for (int a = 0; a < t->nk; a++) size[2] *= in[0].extent[a + (t->trans_a ? 0 : t->nm)];
    return true;
}

/* Partial sums: all ranks hold the whole result, or nothing; it is scattered along rows, or along columns. */
static bool draw_sum(struct drawing *d) {
    const struct mt_program *p = d->program;
    struct mt_overlap *o = d->problem;
    int v = d->product->out[0], w = d->collective->out[0], naxes = mt_pvalue_layout(p, v)->naxes;
    int nm = d->attr->nm, axis = -1;
    struct side side = d->pair->transposed ? (struct side){nm, naxes} : (struct side){0, nm};
    struct mt_box whole;
    if (!common_box(p, v, d->group, o->n, &whole)) return false;
    if (o->form == MT_OVERLAP_REDUCE && !all_hold(p, w, d->group, o->n, &whole)) return false;
    if (o->form == MT_OVERLAP_SCATTER) {
        axis = divided_axis(p, w, d->group, o->n, &whole, side);
        if (axis < 0 || !sort_by_axis(p, w, axis, &whole, d->group, o->n)) return false;
    }
    o->m = extent_of(&whole, side.first, side.end);
    o->cols = extent_of(&whole, 0, naxes) / o->m;
    for (int i = 0; i < o->n; i++) {
        int64_t size[3];
        if (!sizes_of(d, d->group[i], size)) return false;
        bool holds = mt_box_count(mt_pvalue_box(p, v, d->group[i]), naxes) > 0;
        o->k += d->shares[i] = holds ? size[2] : 0;
        const struct mt_box *box = mt_pvalue_box(p, w, d->group[i]);
        d->rows[i] = o->m / o->n + (i < o->m % o->n);
        if (axis >= 0) d->rows[i] = mt_box_count(box, naxes) ? extent_of(box, side.first, side.end) : 0;
    }
    return true;
}

/* The gathered operand, of which all ranks get the whole, along its rows; each rank has columns of its own. */
static bool draw_gather(struct drawing *d) {
    const struct mt_program *p = d->program;
    struct mt_overlap *o = d->problem;
    bool second = d->pair->transposed;
    int v = d->collective->in[0], w = d->collective->out[0], naxes = mt_pvalue_layout(p, w)->naxes;
    struct side side = {0, second ? d->attr->nn : d->attr->nm};
    struct mt_box whole;
    if (second ? !d->attr->trans_b : d->attr->trans_a) return false; /* its rows are the contracted ones */
    if (!common_box(p, w, d->group, o->n, &whole) || !all_hold(p, w, d->group, o->n, &whole)) return false;
    int axis = divided_axis(p, v, d->group, o->n, &whole, side);
    if (axis < 0 || !sort_by_axis(p, v, axis, &whole, d->group, o->n)) return false;
    o->m = extent_of(&whole, side.first, side.end);
    o->k = extent_of(&whole, side.end, naxes);
    for (int i = 0; i < o->n; i++) {
        int64_t size[3];
        const struct mt_box *box = mt_pvalue_box(p, v, d->group[i]);
        if (!sizes_of(d, d->group[i], size)) return false;
        d->rows[i] = mt_box_count(box, naxes) ? extent_of(box, side.first, side.end) : 0;
        o->cols += d->shares[i] = size[second ? 0 : 1];
    }
    return true;
}

static bool draw(const struct mt_program *p, const struct mt_pair *pair, int rank, struct mt_arena *arena,
                 struct mt_overlap *problem, int **group) {
    const struct mt_instr *product = instr_of(p, pair, pair->product),
                          *collective = instr_of(p, pair, pair->collective);
    *problem = (struct mt_overlap){.form = pair->form, .keep = pair->keep};
    *group = mt_new(arena, int, p->nranks);
    for (int r = 0; r < p->nranks; r++)
        if (collective->group[r] == collective->group[rank]) (*group)[problem->n++] = r;
    int64_t *rows = mt_new(arena, int64_t, problem->n), *shares = mt_new(arena, int64_t, problem->n);
    problem->rows = rows, problem->shares = shares;
    bool gather = pair->form == MT_OVERLAP_GATHER;
    problem->type = p->values[product->in[0]].type;
    problem->out = p->values[gather ? product->out[0] : collective->out[0]].type;
    problem->wire = collective->wire;
    problem->tf32 = p->graph->ops[product->gop].attr.tf32;
    struct drawing d = {p, pair, product, collective, &p->graph->ops[product->gop].attr, problem, *group, rows, shares};
    if (!(gather ? draw_gather(&d) : draw_sum(&d))) return false;
    mt_overlap_choose_tiles(problem);
    if (mt_overlap_choose(problem, p->overlaps, p->noverlaps) && problem->how == MT_OVERLAP_APART) return false;
    struct mt_err err = MT_ERR_INIT;
    return problem->m && problem->cols && problem->k && !mt_overlap_check(problem, &err);
}

void mt_pair_problem(const struct mt_program *program, const struct mt_pair *pair, int rank, struct mt_arena *arena,
                     struct mt_overlap *problem, int **group) {
    bool drawn = draw(program, pair, rank, arena, problem, group);
    assert(drawn);
    (void)drawn;
}

/* (A B)' = B' A'. */
void mt_pair_transposes(const struct mt_program *program, const struct mt_pair *pair, bool transposed[3]) {
    const struct mt_attr *attr = &program->graph->ops[instr_of(program, pair, pair->product)->gop].attr;
    bool swapped = pair->transposed;
    transposed[0] = swapped ? !attr->trans_b : attr->trans_a;
    transposed[1] = swapped ? !attr->trans_a : attr->trans_b;
    transposed[2] = swapped;
}

/* ---- the search ---- */

struct finding {
    const struct mt_program *program;
    struct mt_arena *arena, scratch;
    struct mt_pairs *pairs;
    struct mt_overlap **problems; /* [pairs]: of the group of each rank */
    int capacity, problems_capacity;
};

/* Of one problem, and one implementation, which depends on how the operands lie too: others leave other flags. */
static bool same_region(const struct finding *f, int a, const struct mt_overlap *problems, const struct mt_pair *pair) {
    const struct mt_program *p = f->program;
    const struct mt_pair *other = &f->pairs->items[a];
    bool transposed[2][3];
    mt_pair_transposes(p, other, transposed[0]);
    mt_pair_transposes(p, pair, transposed[1]);
    if (memcmp(transposed[0], transposed[1], sizeof *transposed)) return false;
    if (memcmp(instr_of(p, other, other->collective)->group, instr_of(p, pair, pair->collective)->group,
               (size_t)p->nranks * sizeof(int)))
        return false;
    for (int r = 0; r < p->nranks; r++)
        if (!mt_overlap_equal(&f->problems[a][r], &problems[r])) return false;
    return true;
}

/* Take the pair, if the forms serve it in all groups. */
static bool take(struct finding *f, struct mt_pair pair) {
    const struct mt_program *p = f->program;
    struct mt_pairs *pairs = f->pairs;
    const int *group_of = instr_of(p, &pair, pair.collective)->group;
    struct mt_overlap *problems = mt_new(&f->scratch, struct mt_overlap, p->nranks);
    int *drawn = mt_new(&f->scratch, int, p->nranks); /* by group: one more than the rank that it was drawn for */
    int64_t bytes = 0;
    bool several = false;
    for (int r = 0; r < p->nranks; r++) {
        int *group, *of_group = &drawn[group_of[r]];
        if (*of_group) {
            problems[r] = problems[*of_group - 1];
            continue;
        }
        if (!draw(p, &pair, r, &f->scratch, &problems[r], &group)) return false;
        *of_group = r + 1;
        several |= problems[r].n > 1;
        int64_t needs = (mt_overlap_window_bytes(&problems[r]) + 127) / 128 * 128;
        if (needs > bytes) bytes = needs;
    }
    if (!several) return false;
    int like = 0;
    while (like < pairs->count && !same_region(f, like, problems, &pair)) like++;
    if (like < pairs->count) {
        pair.region = pairs->items[like].region, pair.window_at = pairs->items[like].window_at;
    } else {
        pair.region = pairs->nregions++, pair.window_at = pairs->window_bytes;
        pairs->window_bytes += bytes;
    }
    mt_arena_grow(f->arena, &pairs->items, pairs->count, &f->capacity, sizeof *pairs->items);
    mt_arena_grow(&f->scratch, &f->problems, pairs->count, &f->problems_capacity, sizeof *f->problems);
    f->problems[pairs->count] = problems;
    pairs->items[pairs->count++] = pair;
    return true;
}

static bool fits(const struct mt_program *p, enum mt_block_kind block, const struct mt_instr *product,
                 const struct mt_instr *collective) {
    enum mt_type type = p->values[product->in[0]].type;
    if (p->values[product->in[1]].type != type || type >= MT_I32 || collective->nin != 1) return false;
    for (int k = 0; k < product->nin; k++) /* whose place changes from one iteration to the next */
        if (p->values[product->in[k]].input && block == MT_BODY) return false;
    return true;
}

static bool wanted(const struct mt_program *p, enum mt_overlap_form form) {
    return p->overlap >> form & 1;
}

static void find_sum(struct finding *f, enum mt_block_kind block, int index) {
    const struct mt_program *p = f->program;
    const struct mt_instr *c = &p->blocks[block].instrs[index];
    enum mt_overlap_form form = c->coll == MT_ALL_REDUCE ? MT_OVERLAP_REDUCE : MT_OVERLAP_SCATTER;
    if (c->nin != 1 || c->reduce != MT_SUM || !wanted(p, form)) return;
    int product = producer_of(p, block, index, c->in[0]);
    if (product < 0 || readers_of(p, c->in[0]).count != 1 || !fits(p, block, &p->blocks[block].instrs[product], c))
        return;
    if (c->acc != mt_type_acc(p->values[p->blocks[block].instrs[product].in[0]].type)) return;
    struct mt_pair pair = {.block = block, .product = product, .collective = index, .form = form};
    if (take(f, pair) || form != MT_OVERLAP_SCATTER) return;
    pair.transposed = true;
    take(f, pair);
}

static void find_gather(struct finding *f, enum mt_block_kind block, int index) {
    const struct mt_program *p = f->program;
    const struct mt_instr *c = &p->blocks[block].instrs[index];
    if (c->nin != 1 || !wanted(p, MT_OVERLAP_GATHER)) return;
    int v = c->in[0], w = c->out[0];
    struct reader reader = readers_of(p, w);
    if (reader.count < 1 || reader.block != block) return;
    const struct mt_instr *product = &p->blocks[block].instrs[reader.first];
    enum mt_type type = p->values[w].type;
    if (!matmul_of(p, product) || product->in[0] == product->in[1] || !fits(p, block, product, c)) return;
    if (p->values[v].type != type || c->wire != type || (p->values[v].input && block == MT_BODY)) return;
    take(f, (struct mt_pair){.block = block,
                             .product = reader.first,
                             .collective = index,
                             .form = MT_OVERLAP_GATHER,
                             .transposed = product->in[1] == w,
                             .keep = reader.count > 1});
}

static int in_order(const void *left, const void *right) {
    const struct mt_pair *a = left, *b = right;
    if (a->block != b->block) return a->block < b->block ? -1 : 1;
    return (a->product > b->product) - (a->product < b->product);
}

void mt_pairs_find(const struct mt_program *p, struct mt_arena *arena, struct mt_pairs *pairs) {
    struct finding f = {.program = p, .arena = arena, .pairs = pairs};
    *pairs = (struct mt_pairs){0};
    for (int b = 0; b < MT_NBLOCKS && p->overlap; b++)
        for (int i = 0; i < p->blocks[b].ninstrs; i++) {
            const struct mt_instr *instr = &p->blocks[b].instrs[i];
            if (instr->kind != MT_INSTR_COLLECTIVE) continue;
            if (instr->coll == MT_ALL_REDUCE || instr->coll == MT_REDUCE_SCATTER)
                find_sum(&f, (enum mt_block_kind)b, i);
            if (instr->coll == MT_ALL_GATHER) find_gather(&f, (enum mt_block_kind)b, i);
        }
    /* A matmul that both gathers and reduces is in two: the first keeps it. */
    int kept = 0;
    for (int i = 0; i < pairs->count; i++) {
        bool again = false;
        for (int k = 0; k < kept; k++)
            again |=
                pairs->items[k].block == pairs->items[i].block && pairs->items[k].product == pairs->items[i].product;
        if (!again) pairs->items[kept++] = pairs->items[i];
    }
    pairs->count = kept;
    if (kept) qsort(pairs->items, (size_t)kept, sizeof *pairs->items, in_order);
    mt_arena_release(&f.scratch);
}

bool mt_pairs_any(const struct mt_program *program, enum mt_overlap_form form) {
    struct mt_program one = *program;
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_pairs pairs;
    one.overlap = 1u << form;
    mt_pairs_find(&one, &arena, &pairs);
    mt_arena_release(&arena);
    return pairs.count > 0;
}
