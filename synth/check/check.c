/* The checker's walk over a program: blocks, single assignment, accumulators, and what must hold at the end.
 *
 * No file of the checker uses code of the builder: facts follow from the graph, the boxes and the meaning of
 * instructions (program.h). */
#include "synth/check/check.h"

#include <stdlib.h>

#include "synth/check/internal.h"
#include "synth/ops/ops.h"

/* ---- declared values ---- */

static const struct mt_layout *layout_of(const struct mt_checker *c, int value) {
    return &c->program->layouts.items[c->program->values[value].layout];
}

/* In BODY a rank that holds samples of another rank's micro-batches must run as many iterations as that rank. */
static enum mt_status check_iterations(struct mt_checker *c, int value) {
    const struct mt_program *p = c->program;
    const struct mt_layout *l = layout_of(c, value);
    const struct mt_value *g = &c->graph->values[p->values[value].gvalue];
    enum mt_status st = MT_OK;
    int *first = mt_calloc((size_t)p->nranks, sizeof *first), groups = mt_program_sample_groups(p, first);
    for (int a = 0; a < g->naxes && c->block == MT_BODY; a++) {
        if (g->label[a] != c->graph->batch) continue;
        int64_t begin = 0;
        for (int i = 0; i < groups; i++) {
            int64_t end = begin + p->body_size[first[i]];
            for (int r = 0; r < p->nranks && begin < end && !st; r++) {
                bool holds = mt_box_count(&l->box[r], l->naxes) && l->box[r].lo[a] < end && begin < l->box[r].hi[a];
                if (holds && p->body_count[r] != p->body_count[first[i]])
                    st = mt_checker_refuse(
                        c, "rank %d has samples of rank %d's micro-batches, but runs another number of them", r,
                        first[i]);
            }
            begin = end;
        }
    }
    free(first);
    return st;
}

/* The declared value: its layout is valid, and its extents and type are those of the graph value in this block. */
static enum mt_status check_declared(struct mt_checker *c, int value) {
    const struct mt_program *p = c->program;
    if (value < 0 || value >= p->nvalues) return mt_checker_refuse(c, "operand %d does not exist", value);
    const struct mt_pvalue *v = &p->values[value];
    const struct mt_value *g = &c->graph->values[v->gvalue];
    const struct mt_layout *l = layout_of(c, value);
    if (v->type != g->type)
        return mt_checker_refuse(c, "%s is %s, not %s", g->name, mt_type_name(g->type), mt_type_name(v->type));
    if (l->naxes != g->naxes) return mt_checker_refuse(c, "the layout of %s has %d axes", g->name, l->naxes);
    for (int a = 0; a < g->naxes; a++) {
        bool batch = g->label[a] == c->graph->batch;
        int64_t extent = batch ? mt_program_batch(p, c->block) : mt_value_extent(c->graph, v->gvalue, a);
        if (l->extent[a] != extent)
            return mt_checker_refuse(c, "axis %d of %s is %lld long, not %lld", a, g->name, (long long)extent,
                                     (long long)l->extent[a]);
    }
    int batch_axes = 0;
    for (int a = 0; a < g->naxes; a++) batch_axes |= (g->label[a] == c->graph->batch) << a;
    const int key[] = {MT_ASK_DECLARED, v->layout, (int)c->block, batch_axes};
    if (*mt_checker_answer(c, key, 4)) return MT_OK;
    struct mt_err why = MT_ERR_INIT;
    if (mt_layout_check(&p->layouts, v->layout, &why))
        return mt_checker_refuse(c, "%s has no valid layout: %s", g->name, why.text);
    enum mt_status st = check_iterations(c, value);
    if (!st) *mt_checker_answer(c, key, 4) = 1;
    return st;
}

/* ---- operands ---- */

/* Values with the batch label are used in their own block only; others in later blocks too, but never outside of BODY
 * if they are made there, because BODY may have no iteration. */
static enum mt_status check_use(struct mt_checker *c, int value) {
    if (value < 0 || value >= c->program->nvalues || !c->facts[value].known)
        return mt_checker_refuse(c, "operand %%%d is used before it is made", value);
    const struct mt_fact *f = &c->facts[value];
    const char *name = c->graph->values[c->program->values[value].gvalue].name;
    bool accumulates = c->instr->kind == MT_INSTR_ACCUMULATE;
    if (mt_checker_samples(c, c->program->values[value].gvalue) && f->block != c->block)
        return mt_checker_refuse(c, "%s belongs to the samples of another block", name);
    if (f->block == MT_BODY && c->block != MT_BODY && !accumulates)
        return mt_checker_refuse(c, "%s is made in the body, and used outside", name);
    if (f->accumulator != MT_NOT_ACCUMULATOR && !accumulates)
        return mt_checker_refuse(c, "%s is summed over some of the samples only: it is a running sum", name);
    return MT_OK;
}

static enum mt_status check_single(struct mt_checker *c, int value) {
    enum mt_status st = check_declared(c, value);
    if (st) return st;
    if (c->facts[value].known) return mt_checker_refuse(c, "value %%%d is made twice", value);
    return MT_OK;
}

/* ---- accumulators ---- */

/* By its operator, or because that is linear in such sums. */
static bool summed_over_samples(const struct mt_checker *c, int gvalue) {
    const struct mt_value *v = &c->graph->values[gvalue];
    if (v->producer < 0 || mt_checker_samples(c, gvalue)) return false;
    const struct mt_op *op = &c->graph->ops[v->producer];
    for (int i = 0; i < op->nindices; i++)
        if (op->index_label[i] == c->graph->batch && mt_op_index_role(op, i) == MT_INDEX_SUM) return true;
    unsigned sets[MT_MAX_IN], sums = 0;
    int nsets = mt_op_linear_sets(op, sets);
    for (int i = 0; i < op->nin; i++) sums |= (unsigned)summed_over_samples(c, op->in[i]) << i;
    for (int s = 0; s < nsets && sums; s++)
        if (sets[s] == sums) return true;
    return false;
}

static enum mt_status check_zero(struct mt_checker *c) {
    int out = c->instr->out[0], gvalue = c->program->values[out].gvalue;
    if (c->block != MT_PROLOGUE) return mt_checker_refuse(c, "accumulators are zeroed in the prologue");
    if (!summed_over_samples(c, gvalue) || layout_of(c, out)->reduce == MT_MAX)
        return mt_checker_refuse(c, "%s is no sum over samples", c->graph->values[gvalue].name);
    mt_checker_learn(c, out, MT_COVERS_BODY, true);
    c->facts[out].accumulator = MT_ACCUMULATOR_ZERO;
    return MT_OK;
}

static enum mt_status check_accumulate(struct mt_checker *c) {
    const struct mt_instr *i = c->instr;
    const struct mt_pvalue *v = c->program->values;
    struct mt_fact *sum = &c->facts[i->in[0]];
    const struct mt_fact *fresh = &c->facts[i->in[1]];
    const char *name = c->graph->values[v[i->out[0]].gvalue].name;
    if (v[i->in[0]].gvalue != v[i->out[0]].gvalue || v[i->in[1]].gvalue != v[i->out[0]].gvalue)
        return mt_checker_refuse(c, "the accumulator of %s is mixed with another value", name);
    if (v[i->in[0]].layout != v[i->out[0]].layout || v[i->in[1]].layout != v[i->out[0]].layout)
        return mt_checker_refuse(c, "the accumulator of %s changes its layout", name);
    bool body = c->block == MT_BODY;
    if (!body && c->block != MT_LAST) return mt_checker_refuse(c, "accumulators are used in the body and in last");
    if (sum->accumulator != (body ? MT_ACCUMULATOR_ZERO : MT_ACCUMULATOR_FULL))
        return mt_checker_refuse(c, "%s: the first operand is not this accumulator's running sum", name);
    if (fresh->accumulator != MT_NOT_ACCUMULATOR || fresh->block != c->block ||
        fresh->covers != (body ? MT_COVERS_BODY : MT_COVERS_LAST))
        return mt_checker_refuse(c, "%s: what is added is not the sum of this block's samples", name);
    sum->accumulator = MT_ACCUMULATOR_TAKEN;
    bool uniform = sum->uniform && fresh->uniform; /* element by element, in the order of the iterations */
    mt_checker_learn(c, i->out[0], body ? MT_COVERS_BODY : MT_COVERS_ALL, uniform);
    if (body) c->facts[i->out[0]].accumulator = MT_ACCUMULATOR_FULL;
    return MT_OK;
}

/* ---- the walk ---- */

static const int arity[][2] = {[MT_INSTR_SLICE] = {1, 1}, [MT_INSTR_ZERO] = {0, 1}, [MT_INSTR_ACCUMULATE] = {2, 1}};

static enum mt_status check_arity(struct mt_checker *c) {
    const struct mt_instr *i = c->instr;
    if ((unsigned)i->kind > MT_INSTR_ACCUMULATE) return mt_checker_refuse(c, "no such kind of instruction");
    if (i->kind == MT_INSTR_OP) {
        if (i->gop < 0 || i->gop >= c->graph->nops) return mt_checker_refuse(c, "no such operator");
        const struct mt_op *op = &c->graph->ops[i->gop];
        if (i->nin == op->nin && i->nout == op->nout) return MT_OK;
    } else if (i->kind == MT_INSTR_COLLECTIVE) {
        if ((unsigned)i->reduce > MT_MAX || !i->algorithm)
            return mt_checker_refuse(c, "has no such reduction, or no algorithm");
        if (i->nin == i->nout && i->nin > 0) return MT_OK;
    } else if (i->nin == arity[i->kind][0] && i->nout == arity[i->kind][1]) {
        return MT_OK;
    }
    return mt_checker_refuse(c, "takes %d operands and makes %d", i->nin, i->nout);
}

static void print_proof(struct mt_checker *c) {
    if (!c->proof) return;
    struct mt_arena arena = MT_ARENA_INIT;
    const struct mt_instr *i = c->instr;
    fprintf(c->proof, "%-8s %-12s %s:", mt_block_name(c->block), i->kind == MT_INSTR_OP ? "operator" : "",
            mt_checker_instr_name(c));
    for (int side = 0; side < 2; side++) {
        int n = side ? i->nout : i->nin;
        const int *values = side ? i->out : i->in;
        if (side) fputs(" =>", c->proof);
        for (int k = 0; k < n; k++) {
            const struct mt_pvalue *v = &c->program->values[values[k]];
            fprintf(c->proof, " %s %s", c->graph->values[v->gvalue].name,
                    mt_layout_text(&c->program->layouts, v->layout, &arena));
            if (side && c->facts[values[k]].uniform && mt_checker_replicated(c, v->layout))
                fputs(" bit-equal", c->proof);
        }
    }
    fputc('\n', c->proof);
    mt_arena_release(&arena);
}

static enum mt_status check_instr(struct mt_checker *c) {
    const struct mt_instr *i = c->instr;
    enum mt_status st = check_arity(c);
    for (int k = 0; k < i->nin && !st; k++) st = check_use(c, i->in[k]);
    for (int k = 0; k < i->nout && !st; k++) st = check_single(c, i->out[k]);
    for (int k = 0; k < i->nout && !st; k++)
        for (int j = 0; j < k && !st; j++)
            if (i->out[k] == i->out[j]) st = mt_checker_refuse(c, "makes value %%%d twice", i->out[k]);
    if (st) return st;
    switch (i->kind) {
    case MT_INSTR_OP: st = mt_checker_op(c); break;
    case MT_INSTR_COLLECTIVE:
    case MT_INSTR_SLICE: st = mt_checker_move(c); break;
    case MT_INSTR_ZERO: st = check_zero(c); break;
    case MT_INSTR_ACCUMULATE: st = check_accumulate(c); break;
    }
    for (int k = 0; k < i->nout && !st; k++) {
        const struct mt_pvalue *v = &c->program->values[i->out[k]];
        if (v->block != c->block || v->covers != c->facts[i->out[k]].covers)
            st = mt_checker_refuse(c, "%s is declared in another block or over other samples than it is",
                                   c->graph->values[v->gvalue].name);
    }
    if (!st) print_proof(c);
    return st;
}

/* ---- the beginning and the end ---- */

static enum mt_status check_micro_batches(struct mt_checker *c, int r) {
    const struct mt_program *p = c->program;
    if (p->body_count[r] < 0 || p->body_size[r] < 0 || p->last_size[r] < 0 ||
        p->body_count[r] * p->body_size[r] + p->last_size[r] != p->batch_size[r])
        return mt_checker_refuse(c, "rank %d: %lld micro-batches of %lld and one of %lld are not its share, %lld", r,
                                 (long long)p->body_count[r], (long long)p->body_size[r], (long long)p->last_size[r],
                                 (long long)p->batch_size[r]);
    c->has_body |= p->body_count[r] > 0;
    return MT_OK;
}

/* Ranks that begin at the same sample have the same micro-batches; first[groups] are the first of them. */
static enum mt_status check_group(struct mt_checker *c, const int *first, int groups, int rank) {
    const struct mt_program *p = c->program;
    int lo = 0, hi = groups;
    if (p->batch_size[rank] == 0) return MT_OK;
    while (hi - lo > 1) {
        int middle = (lo + hi) / 2;
        if (p->batch_start[first[middle]] <= p->batch_start[rank])
            lo = middle;
        else
            hi = middle;
    }
    int of = first[lo];
    if (p->batch_start[rank] == p->batch_start[of] && p->batch_size[rank] == p->batch_size[of] &&
        p->body_size[rank] == p->body_size[of] && p->body_count[rank] == p->body_count[of])
        return MT_OK;
    return mt_checker_refuse(c, "ranks %d and %d have the same samples, but other micro-batches", of, rank);
}

/* Every rank's micro-batches sum to its share, and the shares of the sample groups follow each other and are the batch.
 */
static enum mt_status check_batch(struct mt_checker *c) {
    const struct mt_program *p = c->program;
    if (c->graph->batch < 0) return MT_OK;
    int64_t extent = c->graph->labels[c->graph->batch].extent, start = 0;
    int *first = mt_calloc((size_t)p->nranks, sizeof *first), groups = mt_program_sample_groups(p, first);
    enum mt_status st = MT_OK;
    for (int r = 0; r < p->nranks && !st; r++) st = check_micro_batches(c, r);
    for (int r = 0; r < p->nranks && !st; r++)
        if (p->batch_size[r] < 0 || p->batch_start[r] < 0 || p->batch_start[r] > extent)
            st = mt_checker_refuse(c, "rank %d has samples that do not exist", r);
    for (int i = 0; i < groups && !st; i++) {
        if (p->batch_start[first[i]] != start)
            st = mt_checker_refuse(c, "rank %d's samples do not follow those of the ranks before", first[i]);
        start += p->batch_size[first[i]];
    }
    for (int r = 0; r < p->nranks && !st; r++) st = check_group(c, first, groups, r);
    if (!st && start != extent)
        st = mt_checker_refuse(c, "the shares are %lld samples, the batch %lld", (long long)start, (long long)extent);
    free(first);
    return st;
}

/* Every value, also one that no instruction uses, names what exists; only a state that is fed has a next value. */
static enum mt_status check_names(struct mt_checker *c) {
    const struct mt_program *p = c->program;
    for (int v = 0; v < p->nvalues; v++) {
        const struct mt_pvalue *value = &p->values[v];
        if (value->gvalue < 0 || value->gvalue >= c->graph->nvalues || value->layout < 0 ||
            value->layout >= p->layouts.count || (unsigned)value->type >= MT_NTYPES ||
            (unsigned)value->block >= MT_NBLOCKS)
            return mt_checker_refuse(c, "value %d names a graph value, layout, type or block that does not exist", v);
        const struct mt_value *g = &c->graph->values[value->gvalue];
        if (value->next == -1) continue;
        if (!value->input || g->kind != MT_VALUE_STATE)
            return mt_checker_refuse(c, "%s is not a state at the start of a step, but has a next value", g->name);
        if (value->next < 0 || value->next >= p->nvalues)
            return mt_checker_refuse(c, "the next value of %s does not exist", g->name);
    }
    return MT_OK;
}

static enum mt_status check_fed(struct mt_checker *c) {
    const struct mt_program *p = c->program;
    bool *seen = mt_calloc((size_t)c->graph->nvalues, sizeof *seen);
    enum mt_status st = MT_OK;
    for (int v = 0; v < p->nvalues && !st; v++) {
        if (!p->values[v].input) continue;
        c->block = p->values[v].block;
        if ((st = check_single(c, v))) break;
        const struct mt_value *g = &c->graph->values[p->values[v].gvalue];
        bool state = g->kind == MT_VALUE_STATE;
        if (g->kind == MT_VALUE_TEMP)
            st = mt_checker_refuse(c, "%s is made by an operator and cannot be fed", g->name);
        else if (mt_layout_is_partial(layout_of(c, v)))
            st = mt_checker_refuse(c, "%s is fed as a partial value", g->name);
        else if (state && seen[p->values[v].gvalue])
            st = mt_checker_refuse(c, "state %s begins twice", g->name);
        else if (!mt_checker_samples(c, p->values[v].gvalue) && c->block != MT_PROLOGUE)
            st = mt_checker_refuse(c, "%s has no samples, and must be fed in the prologue", g->name);
        seen[p->values[v].gvalue] = true;
        if (!st) mt_checker_learn(c, v, MT_COVERS_ALL, true);
    }
    free(seen);
    return st;
}

/* A state's next value is the graph's, has the state's layout, covers all samples, and is uniform. */
static enum mt_status check_state(struct mt_checker *c, int v, bool *updated) {
    const struct mt_pvalue *p = c->program->values;
    int gvalue = p[v].gvalue, next = p[v].next;
    const struct mt_value *g = &c->graph->values[gvalue];
    if (next < 0) return MT_OK;
    if (!c->facts[next].known) return mt_checker_refuse(c, "the next value of %s is never made", g->name);
    if (p[next].gvalue != g->next || p[next].layout != p[v].layout)
        return mt_checker_refuse(c, "what follows %s is not its next value in its layout", g->name);
    if (c->facts[next].covers != MT_COVERS_ALL || c->facts[next].block == MT_BODY)
        return mt_checker_refuse(c, "the update of %s does not see all samples", g->name);
    if (!c->facts[next].uniform)
        return mt_checker_refuse(c, "replicas of %s may drift: its update is not computed from bit-equal values",
                                 g->name);
    updated[gvalue] = true;
    return MT_OK;
}

/* The reported sums are whole on every rank at the end of the step. */
static enum mt_status check_report(struct mt_checker *c, int gvalue) {
    if (gvalue < 0) return MT_OK;
    for (int v = 0; v < c->program->nvalues; v++) {
        const struct mt_fact *f = &c->facts[v];
        if (c->program->values[v].gvalue != gvalue || !f->known || f->covers != MT_COVERS_ALL) continue;
        if (!mt_layout_is_partial(layout_of(c, v)) && f->block != MT_BODY) return MT_OK;
    }
    return mt_checker_refuse(c, "%s is never whole", c->graph->values[gvalue].name);
}

static enum mt_status check_end(struct mt_checker *c) {
    c->instr = NULL;
    const struct mt_graph *g = c->graph;
    bool *updated = mt_calloc((size_t)g->nvalues, sizeof *updated);
    enum mt_status st = MT_OK;
    for (int v = 0; v < c->program->nvalues && !st; v++)
        if (c->program->values[v].input && g->values[c->program->values[v].gvalue].kind == MT_VALUE_STATE)
            st = check_state(c, v, updated);
    for (int v = 0; v < g->nvalues && !st; v++)
        if (c->program->train && g->values[v].kind == MT_VALUE_STATE && g->values[v].next >= 0 && !updated[v])
            st = mt_checker_refuse(c, "%s is not updated", g->values[v].name);
    if (!st) st = check_report(c, g->loss_sum);
    if (!st) st = check_report(c, g->token_count);
    free(updated);
    return st;
}

enum mt_status mt_check_program(const struct mt_program *program, FILE *proof, struct mt_err *err) {
    struct mt_checker c = {.program = program, .graph = program->graph, .proof = proof, .err = err};
    c.facts = mt_calloc((size_t)program->nvalues, sizeof *c.facts);
    enum mt_status st = check_batch(&c);
    if (!st) st = check_names(&c);
    if (!st) st = check_fed(&c);
    for (int b = 0; b < MT_NBLOCKS && !st; b++)
        for (int i = 0; i < program->blocks[b].ninstrs && !st; i++) {
            c.block = (enum mt_block_kind)b;
            c.instr = &program->blocks[b].instrs[i];
            st = check_instr(&c);
        }
    if (!st) st = check_end(&c);
    mt_checker_forget(&c);
    free(c.facts);
    return st;
}
