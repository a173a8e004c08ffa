/* The passes of the lowering in order (internal.h), and the first of them: a rank's values and instructions from its
 * program; inputs, states and reports. */
#include <assert.h>
#include <limits.h>
#include <string.h>

#include "synth/lower/internal.h"

static const char *value_name(const struct mt_lowering *l, int pvalue) {
    return l->program->graph->values[l->program->values[pvalue].gvalue].name;
}

/* ---- values ---- */

/* Set the lvalue's tensor to this rank's box; the offset on the batch axis is the sample's global number. */
static enum mt_status describe_value(struct mt_lowering *l, int pvalue) {
    const struct mt_program *p = l->program;
    const struct mt_pvalue *v = &p->values[pvalue];
    const struct mt_value *g = &p->graph->values[v->gvalue];
    const struct mt_box *box = mt_pvalue_box(p, pvalue, l->rank);
    struct mt_lvalue *value = &l->low->values[pvalue];
    struct mt_tensor *t = &value->tensor;
    *t = (struct mt_tensor){.type = v->type, .naxes = g->naxes};
    double bytes = (double)mt_type_size(v->type);
    for (int a = 0; a < g->naxes; a++) {
        bool batch = g->label[a] == p->graph->batch;
        t->extent[a] = box->hi[a] - box->lo[a];
        t->global[a] = p->graph->labels[g->label[a]].extent;
        t->offset[a] = batch && t->extent[a] > 0 ? mt_program_sample(p, v->block, 0, box->lo[a]) : box->lo[a];
        bytes *= (double)t->extent[a];
    }
    int64_t iterations = v->input && v->block == MT_BODY ? p->body_count[l->rank] : 1;
    if (bytes * (double)iterations > 0x1p46)
        return mt_fail(l->err, MT_EINPUT, "rank %d holds %.3g bytes of %s, which no device can address", l->rank,
                       bytes * (double)iterations, g->name);
    int64_t one = mt_tensor_count(t) * mt_type_size(v->type);
    value->size_bytes = one * iterations;
    value->iteration_bytes = v->input && v->block == MT_BODY ? one : 0;
    return MT_OK;
}

static enum mt_status add_values(struct mt_lowering *l) {
    for (int v = 0; v < l->program->nvalues; v++) {
        mt_lowering_value(l, v, 0);
        enum mt_status st = describe_value(l, v);
        if (st) return st;
    }
    return MT_OK;
}

/* Add a fed value with the samples of its rows. */
static enum mt_status add_input(struct mt_lowering *l, int pvalue) {
    const struct mt_program *p = l->program;
    const struct mt_pvalue *v = &p->values[pvalue];
    const struct mt_value *g = &p->graph->values[v->gvalue];
    struct mt_lowered *low = l->low;
    struct mt_linput *input = &low->inputs[low->ninputs++];
    *input = (struct mt_linput){.gvalue = v->gvalue, .block = v->block, .value = pvalue};
    for (int a = 1; a < g->naxes; a++)
        if (g->label[a] == p->graph->batch)
            return mt_fail(l->err, MT_EINPUT, "input %s: the batch must be the leading axis", g->name);
    if (g->naxes == 0 || g->label[0] != p->graph->batch) return MT_OK;
    int64_t rows = low->values[pvalue].tensor.extent[0], lo = mt_pvalue_box(p, pvalue, l->rank)->lo[0];
    int64_t iterations = v->block == MT_BODY ? p->body_count[l->rank] : 1;
    input->rows = mt_new(&low->arena, int64_t, rows * iterations);
    for (int64_t i = 0; i < iterations; i++)
        for (int64_t r = 0; r < rows; r++) input->rows[input->nrows++] = mt_program_sample(p, v->block, i, lo + r);
    return MT_OK;
}

static enum mt_status list_interface(struct mt_lowering *l) {
    const struct mt_program *p = l->program;
    struct mt_lowered *low = l->low;
    low->state_at = mt_new(&low->arena, int, p->graph->nvalues);
    low->output_at = mt_new(&low->arena, int, p->graph->nvalues);
    for (int g = 0; g < p->graph->nvalues; g++) low->state_at[g] = low->output_at[g] = -1;
    int ninputs = 0;
    for (int v = 0; v < p->nvalues; v++) ninputs += p->values[v].input;
    low->inputs = mt_new(&low->arena, struct mt_linput, ninputs);
    for (int v = 0; v < p->nvalues; v++) {
        if (!p->values[v].input) continue;
        if (p->graph->values[p->values[v].gvalue].kind == MT_VALUE_STATE) {
            low->state_at[p->values[v].gvalue] = v;
            continue;
        }
        enum mt_status st = add_input(l, v);
        if (st) return st;
    }
    const struct mt_graph *g = p->graph;
    int reports[] = {g->loss_sum,
                     g->token_count,
                     g->sq_norm,
                     g->scale,
                     p->train ? -1 : g->logits,
                     g->loss_scale < 0 ? -1 : g->values[g->loss_scale].next,
                     g->loss_scale < 0 ? -1 : g->values[g->skipped_steps].next};
    for (size_t r = 0; r < sizeof reports / sizeof *reports; r++)
        for (int v = 0; v < p->nvalues && reports[r] >= 0; v++)
            if (p->values[v].gvalue == reports[r] && p->values[v].covers == MT_COVERS_ALL && !p->values[v].input &&
                !mt_layout_is_partial(&p->layouts.items[p->values[v].layout]))
                low->output_at[reports[r]] = v;
    return MT_OK;
}

static enum mt_status check_states(const struct mt_lowering *l) {
    const struct mt_lowered *like = l->options->states;
    for (int g = 0; like && g < l->program->graph->nvalues; g++) {
        if (l->low->state_at[g] < 0) continue;
        const struct mt_tensor *mine = &l->low->values[l->low->state_at[g]].tensor;
        const struct mt_tensor *theirs = like->state_at[g] >= 0 ? &like->values[like->state_at[g]].tensor : NULL;
        if (!theirs || memcmp(mine->extent, theirs->extent, sizeof mine->extent) ||
            memcmp(mine->offset, theirs->offset, sizeof mine->offset))
            return mt_fail(l->err, MT_EINPUT, "%s has another box in the program whose states are to be used",
                           l->program->graph->values[g].name);
    }
    return MT_OK;
}

/* ---- instructions ---- */

static int *copy_ints(struct mt_lowering *l, const int *from, int count) {
    return mt_arena_memdup(&l->low->arena, from, (size_t)count * sizeof(int));
}

/* "what name"; the value's name alone in a sketch. */
static const char *named(struct mt_lowering *l, const char *what, int pvalue) {
    const char *name = value_name(l, pvalue);
    return l->options->sketch ? name : mt_arena_printf(&l->low->arena, "%s %s", what, name);
}

static void draft_fill(struct mt_lowering *l, struct mt_linstr *c, const struct mt_instr *source) {
    int out = source->out[0];
    c->kind = MT_OP_fill; /* its input gives only the shape: the output itself */
    c->attr.to = l->program->values[out].type;
    c->nin = 1;
    c->in = copy_ints(l, &out, 1);
    c->name = named(l, "zero", out);
}

static void draft_accumulate(struct mt_lowering *l, struct mt_linstr *c, const struct mt_instr *source) {
    c->kind = MT_OP_add;
    c->attr.axes = (1u << l->low->values[source->out[0]].tensor.naxes) - 1;
    c->name = named(l, "accumulate", source->out[0]);
    l->adds_to[source->out[0]] = source->in[0];
}

static const char *collective_name(struct mt_lowering *l, const struct mt_instr *source) {
    const char *name = named(l, mt_coll_name(source->coll), source->in[0]);
    return source->nin == 1 || l->options->sketch ? name
                                                  : mt_arena_printf(&l->low->arena, "%s + %d", name, source->nin - 1);
}

/* Chunk `k` of a collective. */
static void draft_collective(struct mt_lowering *l, struct mt_linstr *c, const struct mt_instr *source,
                             const struct mt_chunks *chunks, int k) {
    const struct mt_message_chunk *chunk = &chunks->items[k];
    const struct mt_instr one = mt_message_chunk_instr(source, chunk);
    c->what = MT_LOWERED_COLLECTIVE;
    c->stream = MT_STREAM_COMM;
    c->name = collective_name(l, &one);
    if (chunk->parts > 1 && !l->options->sketch)
        c->name = mt_arena_printf(&l->low->arena, "%s, part %d of %d", c->name, chunk->part + 1, chunk->parts);
    c->chunk = *chunk;
    c->chunk_index = k;
    c->nchunks = chunks->count;
    c->in += chunk->first, c->out += chunk->first;
    c->nin = c->nout = chunk->count;
}

static enum mt_status draft(struct mt_lowering *l, enum mt_block_kind block, int index, int chunk) {
    const struct mt_program *p = l->program;
    const struct mt_instr *source = &p->blocks[block].instrs[index];
    struct mt_arena *arena = &l->low->arena;
    struct mt_linstr *c = mt_lowering_instr(l);
    *c = (struct mt_linstr){.nsources = 1,
                            .sources = copy_ints(l, &index, 1),
                            .nin = source->nin,
                            .nout = source->nout,
                            .in = copy_ints(l, source->in, source->nin),
                            .out = copy_ints(l, source->out, source->nout),
                            .scratch = -1,
                            .message = {-1, -1}};
    switch (source->kind) {
    case MT_INSTR_COLLECTIVE: draft_collective(l, c, source, &l->chunks[block][index], chunk); return MT_OK;
    case MT_INSTR_SLICE:
        c->what = MT_LOWERED_COPY;
        c->name = named(l, "slice", source->in[0]);
        return MT_OK;
    case MT_INSTR_ZERO: draft_fill(l, c, source); break;
    case MT_INSTR_ACCUMULATE: draft_accumulate(l, c, source); break;
    case MT_INSTR_OP:
        c->kind = p->graph->ops[source->gop].kind;
        c->attr = p->graph->ops[source->gop].attr;
        c->name = p->graph->ops[source->gop].name;
        break;
    }
    c->tensor = mt_new(arena, struct mt_tensor, c->nin + c->nout);
    if (source->kind == MT_INSTR_OP)
        return mt_program_tensors(p, block, source, l->rank, 0, c->tensor, c->tensor + c->nin, l->err);
    for (int i = 0; i < c->nin; i++) c->tensor[i] = l->low->values[c->in[i]].tensor;
    for (int o = 0; o < c->nout; o++) c->tensor[c->nin + o] = l->low->values[c->out[o]].tensor;
    return MT_OK;
}

static enum mt_status add_drafts(struct mt_lowering *l) {
    for (int b = 0; b < MT_NBLOCKS; b++) {
        l->low->block_begin[b] = l->low->ninstrs;
        for (int i = 0; i < l->program->blocks[b].ninstrs; i++) {
            int n = l->chunks[b][i].count, pair = l->pair_of[b][i];
            if (pair >= 0 && l->pairs.items[pair].product == i) mt_draft_overlap(l, &l->pairs.items[pair]);
            if (pair >= 0) continue;
            for (int k = 0; k < (n > 1 ? n : 1); k++) {
                enum mt_status st = draft(l, (enum mt_block_kind)b, i, k);
                if (st) return st;
            }
        }
    }
    l->low->block_begin[MT_NBLOCKS] = l->low->ninstrs;
    return MT_OK;
}

static void find_last_uses(struct mt_lowering *l) {
    const struct mt_program *p = l->program;
    const struct mt_lowered *low = l->low;
    for (int v = 0; v < p->nvalues; v++) l->last_use[v] = -1;
    for (int i = 0; i < low->ninstrs; i++) {
        for (int k = 0; k < low->instrs[i].nin; k++) l->last_use[low->instrs[i].in[k]] = i;
        for (int o = 0; o < low->instrs[i].nout; o++)
            if (l->adds_to[low->instrs[i].out[o]] >= 0) l->last_use[l->adds_to[low->instrs[i].out[o]]] = i;
    }
    for (int v = 0; v < p->nvalues; v++)
        if (p->values[v].next >= 0 && p->values[v].next != v) {
            l->last_use[p->values[v].next] = INT_MAX;
            l->state_of[p->values[v].next] = v;
        }
    for (int g = 0; g < p->graph->nvalues; g++)
        if (low->output_at[g] >= 0) l->last_use[low->output_at[g]] = INT_MAX;
}

/* Add what each iteration of BODY adds to the operands of its operators. */
static void add_advances(struct mt_lowering *l) {
    const struct mt_program *p = l->program;
    struct mt_lowered *low = l->low;
    for (int i = low->block_begin[MT_BODY]; i < low->block_begin[MT_BODY + 1]; i++) {
        struct mt_linstr *c = &low->instrs[i];
        if (c->what != MT_LOWERED_OP) continue;
        struct mt_ladvance advances[(MT_MAX_IN + MT_MAX_OUT) * MT_MAX_AXES];
        for (int k = 0; k < c->nin + c->nout; k++) {
            int v = k < c->nin ? c->in[k] : c->out[k - c->nin];
            const struct mt_value *g = &p->graph->values[p->values[v].gvalue];
            const struct mt_box *box = mt_pvalue_box(p, v, l->rank);
            for (int a = 0; a < g->naxes; a++) {
                if (g->label[a] != p->graph->batch || box->lo[a] == box->hi[a]) continue;
                int64_t step =
                    mt_program_sample(p, MT_BODY, 1, box->lo[a]) - mt_program_sample(p, MT_BODY, 0, box->lo[a]);
                advances[c->nadvances++] =
                    (struct mt_ladvance){k, a, step, a == 0 ? low->values[v].iteration_bytes : 0};
            }
        }
        c->advances = mt_arena_memdup(&low->arena, advances, (size_t)c->nadvances * sizeof *advances);
    }
}

/* ---- all passes ---- */

/* Room for all values and instructions, since vectors that grow leave their old memory in the arena: of a long program
 * more than half of it. A collective may have two messages, an operator scratch, a state a copy. */
static void reserve(struct mt_lowering *l) {
    const struct mt_program *p = l->program;
    struct mt_lowered *low = l->low;
    int values = p->nvalues, instrs = 0;
    for (int b = 0; b < MT_NBLOCKS; b++) {
        for (int i = 0; i < p->blocks[b].ninstrs; i++) {
            instrs += l->chunks[b][i].count > 1 ? l->chunks[b][i].count : 1;
            values += 2 * l->chunks[b][i].count; /* of collectives */
            if (p->blocks[b].instrs[i].kind != MT_INSTR_COLLECTIVE && l->options->scratch_bytes) values++;
        }
    }
    for (int v = 0; v < p->nvalues; v++) instrs += p->values[v].next >= 0;
    low->values_capacity = l->buffer_capacity = l->at_capacity = values;
    low->values = mt_new(&low->arena, struct mt_lvalue, values);
    l->buffer = mt_new(&l->scratch, int, values);
    l->at = mt_new(&l->scratch, int64_t, values);
    low->instrs_capacity = instrs;
    low->instrs = mt_new(&low->arena, struct mt_linstr, instrs);
}

static enum mt_status run_passes(struct mt_lowering *l) {
    enum mt_status st = mt_lowering_cut(l);
    if (st) return st;
    mt_lowering_pair(l);
    reserve(l);
    if ((st = add_values(l)) || (st = list_interface(l)) || (st = check_states(l)) || (st = add_drafts(l))) return st;
    find_last_uses(l);
    if (l->options->fuse) {
        mt_fuse_packed(l);
        find_last_uses(l);
        mt_fuse(l);
        find_last_uses(l);
        mt_fuse_updates(l);
    }
    if ((st = mt_assign_buffers(l))) return st;
    add_advances(l);
    mt_order_and_place(l);
    return MT_OK;
}

enum mt_status mt_lower(const struct mt_program *program, int rank, const struct mt_lower_options *options,
                        struct mt_lowered **lowered, struct mt_err *err) {
    assert(rank >= 0 && rank < program->nranks && options->copy_streams <= MT_MOST_STREAMS - MT_STREAM_COMM - 1);
    struct mt_lowering l = {.program = program, .rank = rank, .options = options, .err = err};
    l.low = mt_calloc(1, sizeof *l.low);
    l.low->program = program;
    l.low->rank = rank;
    l.low->nstreams = MT_STREAM_COMM + 1 + options->copy_streams;
    l.low->body_count = program->body_count[rank];
    l.last_use = mt_new(&l.scratch, int, program->nvalues);
    l.adds_to = mt_new(&l.scratch, int, program->nvalues);
    l.state_of = mt_new(&l.scratch, int, program->nvalues);
    for (int v = 0; v < program->nvalues; v++) l.adds_to[v] = l.state_of[v] = -1;
    enum mt_status st = run_passes(&l);
    mt_arena_release(&l.scratch);
    if (st) {
        mt_lowered_free(l.low);
        l.low = NULL;
        mt_err_context(err, "lowering for rank %d", rank);
    }
    *lowered = l.low;
    return st;
}
