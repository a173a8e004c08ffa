/* One step: blocks in order, instructions in lock-step over the ranks. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "synth/interp/internal.h"
#include "synth/interp/interp.h"

struct place {
    struct mt_interp *interp;
    const struct mt_clock *clock;
    enum mt_block_kind block;
    int64_t iteration;
};

static bool runs(const struct place *at, int rank) {
    return at->block != MT_BODY || at->iteration < at->interp->program->body_count[rank];
}

/* ---- feeding inputs ---- */

/* Copy one rank's box of an input; element `at` of the block's batch axis is sample sample_of[at]. */
static void feed_box(const struct mt_program *p, int value, const struct mt_box *box, const int64_t *sample_of,
                     const void *whole, void *buffer) {
    const struct mt_layout *l = mt_pvalue_layout(p, value);
    const struct mt_value *gv = &p->graph->values[p->values[value].gvalue];
    int64_t done = 0;
    struct rows w;
    for (rows_begin(&w, box, l->naxes); w.more; rows_next(&w))
        for (int64_t i = 0; i < w.length; i++) {
            int64_t source = 0;
            for (int a = 0; a < l->naxes; a++) {
                int64_t at = w.at[a] + (a == l->naxes - 1 ? i : 0);
                bool batch = gv->label[a] == p->graph->batch;
                source = source * p->graph->labels[gv->label[a]].extent + (batch ? sample_of[at] : at);
            }
            mt_type_store(p->values[value].type, buffer, done++, mt_type_load(gv->type, whole, source));
        }
}

static enum mt_status feed(const struct place *at, int value, const int64_t *sample_of, struct mt_err *err) {
    const struct mt_program *p = at->interp->program;
    int gvalue = p->values[value].gvalue;
    if (!at->interp->inputs[gvalue])
        return mt_fail(err, MT_EBUG, "the input %s was not set", p->graph->values[gvalue].name);
    for (int r = 0; r < p->nranks; r++) {
        if (!runs(at, r)) continue;
        void *buffer = mt_interp_alloc(p, value, r);
        feed_box(p, value, mt_pvalue_box(p, value, r), sample_of, at->interp->inputs[gvalue], buffer);
        mt_interp_install(at->interp, value, r, buffer);
    }
    return MT_OK;
}

static enum mt_status feed_block(const struct place *at, struct mt_err *err) {
    const struct mt_program *p = at->interp->program;
    int64_t batch = mt_program_batch(p, at->block);
    int64_t *sample_of = mt_malloc((size_t)batch * sizeof *sample_of);
    enum mt_status st = MT_OK;
    for (int64_t i = 0; i < batch; i++) {
        sample_of[i] = mt_program_sample(p, at->block, at->iteration, i);
        /* After a rank's last iteration its places have no samples; only boxes at other ranks' places read them. */
        if (sample_of[i] >= p->graph->labels[p->graph->batch].extent) sample_of[i] = 0;
    }
    for (int v = 0; v < p->nvalues && !st; v++) {
        const struct mt_pvalue *value = &p->values[v];
        if (value->input && value->block == at->block && p->graph->values[value->gvalue].kind == MT_VALUE_INPUT)
            st = feed(at, v, sample_of, err);
    }
    free(sample_of);
    return st;
}

/* ---- instructions ---- */

/* Elements below which starting threads takes longer than the work, above all where ranks share the cores. */
enum { WORTH_A_TEAM = 1 << 16 };

static bool is_small(const struct mt_call *call) {
    int64_t count = 0;
    for (int i = 0; i < call->nin; i++) count += mt_tensor_count(&call->in[i]);
    for (int o = 0; o < call->nout; o++) count += mt_tensor_count(&call->out[o]);
    return count < WORTH_A_TEAM;
}

/* Run the operator in plain C, with the scratch that it needs. */
static enum mt_status run_call(struct mt_call *call, struct mt_err *err) {
    enum mt_status st = mt_call_check(call, err);
    if (st) return st;
    if (!mt_backend_c.supports(call)) return mt_fail(err, MT_EBUG, "plain C does not support these operands");
    int64_t scratch_bytes = mt_backend_c.scratch_bytes(call);
    if (scratch_bytes > 0) {
        call->scratch = aligned_alloc(64, (size_t)((scratch_bytes + 63) / 64 * 64));
        if (!call->scratch) return mt_fail(err, MT_ESYSTEM, "no memory for scratch");
    }
    int threads = omp_get_max_threads();
    if (is_small(call)) omp_set_num_threads(1);
    st = mt_backend_c.run(call, err);
    omp_set_num_threads(threads);
    free(call->scratch);
    return st;
}

static enum mt_status run_op_on(const struct place *at, const struct mt_instr *instr, int rank, struct mt_err *err) {
    const struct mt_program *p = at->interp->program;
    const struct mt_op *op = &p->graph->ops[instr->gop];
    struct mt_tensor in[MT_MAX_IN], out[MT_MAX_OUT];
    struct mt_call call = {.kind = op->kind,
                           .attr = &op->attr,
                           .nin = op->nin,
                           .nout = op->nout,
                           .in = in,
                           .out = out,
                           .clock = at->clock};
    if (mt_program_tensors(p, at->block, instr, rank, at->iteration, in, out, err)) return err->status;
    for (int i = 0; i < op->nin; i++) {
        if (mt_interp_made(at->interp, instr->in[i], rank, err)) return err->status;
        in[i].data = *mt_interp_buffer(at->interp, instr->in[i], rank);
    }
    for (int o = 0; o < op->nout; o++) out[o].data = mt_interp_alloc(p, instr->out[o], rank);
    enum mt_status st = run_call(&call, err);
    for (int o = 0; o < op->nout; o++) {
        if (st)
            free(out[o].data);
        else
            mt_interp_install(at->interp, instr->out[o], rank, out[o].data);
    }
    return st ? mt_err_context(err, "%s on rank %d", op->name, rank) : MT_OK;
}

static enum mt_status run_slice(struct mt_interp *interp, const struct mt_instr *instr, int rank, struct mt_err *err) {
    const struct mt_program *p = interp->program;
    int in = instr->in[0], out = instr->out[0];
    if (mt_interp_made(interp, in, rank, err)) return err->status;
    struct mt_boxed from = {*mt_interp_buffer(interp, in, rank), mt_pvalue_box(p, in, rank), p->values[in].type};
    struct mt_boxed to = {.box = mt_pvalue_box(p, out, rank), .type = p->values[out].type};
    void *buffer = mt_interp_alloc(p, out, rank);
    mt_boxed_copy(buffer, &to, &from, mt_pvalue_layout(p, in)->naxes);
    mt_interp_install(interp, out, rank, buffer);
    return MT_OK;
}

static enum mt_status run_zero(struct mt_interp *interp, const struct mt_instr *instr, int rank) {
    const struct mt_program *p = interp->program;
    int out = instr->out[0];
    int64_t count = mt_box_count(mt_pvalue_box(p, out, rank), mt_pvalue_layout(p, out)->naxes);
    void *buffer = mt_interp_alloc(p, out, rank);
    memset(buffer, 0, (size_t)(count * mt_type_size(p->values[out].type)));
    mt_interp_install(interp, out, rank, buffer);
    return MT_OK;
}

static enum mt_status run_accumulate(struct mt_interp *interp, const struct mt_instr *instr, int rank,
                                     struct mt_err *err) {
    const struct mt_program *p = interp->program;
    int out = instr->out[0];
    for (int i = 0; i < 2; i++)
        if (mt_interp_made(interp, instr->in[i], rank, err)) return err->status;
    const void *a = *mt_interp_buffer(interp, instr->in[0], rank), *b = *mt_interp_buffer(interp, instr->in[1], rank);
    void *sum = mt_interp_alloc(p, out, rank);
    enum mt_type type = p->values[out].type;
    int64_t count = mt_box_count(mt_pvalue_box(p, out, rank), mt_pvalue_layout(p, out)->naxes);
    for (int64_t i = 0; i < count; i++)
        mt_type_store(type, sum, i, mt_type_load(type, a, i) + mt_type_load(type, b, i));
    mt_interp_install(interp, out, rank, sum);
    return MT_OK;
}

static enum mt_status run_on(const struct place *at, const struct mt_instr *instr, int rank, struct mt_err *err) {
    switch (instr->kind) {
    case MT_INSTR_OP: return run_op_on(at, instr, rank, err);
    case MT_INSTR_SLICE: return run_slice(at->interp, instr, rank, err);
    case MT_INSTR_ZERO: return run_zero(at->interp, instr, rank);
    case MT_INSTR_ACCUMULATE: return run_accumulate(at->interp, instr, rank, err);
    case MT_INSTR_COLLECTIVE: break; /* run for all ranks together */
    }
    return MT_EBUG;
}

static enum mt_status run_instr(const struct place *at, const struct mt_instr *instr, struct mt_err *err) {
    if (instr->kind == MT_INSTR_COLLECTIVE) return mt_interp_collective(at->interp, instr, err);
    enum mt_status st = MT_OK;
    for (int r = 0; r < at->interp->program->nranks && !st; r++)
        if (runs(at, r)) st = run_on(at, instr, r, err);
    return st;
}

static void drop(struct mt_interp *interp, int value) {
    for (int r = 0; r < interp->program->nranks; r++) mt_interp_install(interp, value, r, NULL);
}

/* `number`: that of the block's first instruction, as in last_use. */
static enum mt_status run_block(const struct place *at, int number, struct mt_err *err) {
    struct mt_interp *interp = at->interp;
    const struct mt_block *block = &interp->program->blocks[at->block];
    enum mt_status st = feed_block(at, err);
    for (int i = 0; i < block->ninstrs && !st; i++) {
        st = run_instr(at, &block->instrs[i], err);
        if (st) return mt_err_context(err, "%s block, instruction %d", mt_block_name(at->block), i);
        for (int k = 0; k < block->instrs[i].nin; k++)
            if (interp->last_use[block->instrs[i].in[k]] == number + i) drop(interp, block->instrs[i].in[k]);
    }
    return st;
}

static bool is_state(const struct mt_program *p, int value) {
    return p->values[value].input && p->graph->values[p->values[value].gvalue].kind == MT_VALUE_STATE;
}

/* All states take their next values at once. */
static enum mt_status update_states(struct mt_interp *interp, struct mt_err *err) {
    const struct mt_program *p = interp->program;
    enum mt_status st = MT_OK;
    void **fresh = mt_calloc((size_t)(p->nvalues * p->nranks), sizeof *fresh);
    for (int v = 0; v < p->nvalues && !st; v++)
        for (int r = 0; r < p->nranks && !st && p->values[v].next >= 0; r++) {
            int next = p->values[v].next, naxes = mt_pvalue_layout(p, v)->naxes;
            if ((st = mt_interp_made(interp, next, r, err))) break;
            struct mt_boxed from = {*mt_interp_buffer(interp, next, r), mt_pvalue_box(p, next, r),
                                    p->values[next].type};
            struct mt_boxed to = {.box = mt_pvalue_box(p, v, r), .type = p->values[v].type};
            mt_boxed_copy(fresh[v * p->nranks + r] = mt_interp_alloc(p, v, r), &to, &from, naxes);
        }
    for (int v = 0; v < p->nvalues; v++)
        for (int r = 0; r < p->nranks; r++) {
            void *buffer = fresh[v * p->nranks + r];
            if (buffer && !st)
                mt_interp_install(interp, v, r, buffer);
            else
                free(buffer);
        }
    free(fresh);
    return st ? mt_err_context(err, "the end of the step") : MT_OK;
}

enum mt_status mt_interp_step(struct mt_interp *interp, const struct mt_clock *clock, struct mt_err *err) {
    const struct mt_program *p = interp->program;
    if (interp->broken.status) {
        *err = interp->broken;
        return err->status;
    }
    for (int v = 0; v < p->nvalues; v++)
        if (!is_state(p, v)) drop(interp, v);
    int number = 0;
    for (int b = 0; b < MT_NBLOCKS; b++) {
        struct place at = {.interp = interp, .clock = clock, .block = (enum mt_block_kind)b};
        int64_t times = 1;
        if (b == MT_BODY) {
            times = 0;
            for (int r = 0; r < p->nranks; r++)
                if (p->body_count[r] > times) times = p->body_count[r];
        }
        for (; at.iteration < times; at.iteration++)
            if (run_block(&at, number, err)) return err->status;
        number += p->blocks[b].ninstrs;
    }
    return update_states(interp, err);
}
