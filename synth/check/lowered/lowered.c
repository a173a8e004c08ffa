/* The walk over lowered programs: every rank's values and boxes, inputs, states and reports, which instruction
 * implements which, and the order of collectives on all ranks.
 *
 * No file of this folder uses code of the lowering: what must hold follows from the program and from the meaning of
 * lowered instructions (lower.h, device.h, coll.h). */
#include "synth/check/check.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/printed.h"
#include "kernels/base/text/ranks.h"
#include "synth/check/lowered/internal.h"

/* ---- values ---- */

static bool is_state(const struct mt_lchecker *c, int pvalue) {
    const struct mt_pvalue *v = &c->program->values[pvalue];
    return v->input && c->program->graph->values[v->gvalue].kind == MT_VALUE_STATE;
}

/* Offsets are inside the arena and aligned. */
static enum mt_status check_address(struct mt_lchecker *c, int lvalue, int64_t align) {
    const struct mt_lvalue *v = &c->low->values[lvalue];
    if (v->offset_bytes < 0 || v->size_bytes == 0) return MT_OK;
    if (v->size_bytes < 0 || v->offset_bytes > c->low->arena_bytes - v->size_bytes)
        return mt_lchecker_refuse(c, "%s is outside of the arena", mt_lchecker_name(c, lvalue));
    if (v->offset_bytes % align)
        return mt_lchecker_refuse(c, "%s is at offset %lld, which is not aligned", mt_lchecker_name(c, lvalue),
                                  (long long)v->offset_bytes);
    return MT_OK;
}

/* An lvalue is this rank's box of its program value; the offset on the batch axis is the sample's global number. */
static enum mt_status check_value(struct mt_lchecker *c, int v) {
    const struct mt_program *p = c->program;
    const struct mt_graph *g = p->graph;
    const struct mt_pvalue *pvalue = &p->values[v];
    const struct mt_value *gvalue = &g->values[pvalue->gvalue];
    const struct mt_lvalue *value = &c->low->values[v];
    const struct mt_tensor *t = &value->tensor;
    const struct mt_box *box = mt_pvalue_box(p, v, c->rank);
    bool body = pvalue->input && pvalue->block == MT_BODY;
    int64_t bytes = mt_type_size(pvalue->type);
    if (value->pvalue != v) return mt_lchecker_refuse(c, "value %d is not the program's", v);
    if (t->type != pvalue->type || t->naxes != gvalue->naxes)
        return mt_lchecker_refuse(c, "%s has another type or shape", gvalue->name);
    bool empty = mt_box_count(box, gvalue->naxes) == 0;
    for (int a = 0; a < gvalue->naxes; a++) {
        bool batch = gvalue->label[a] == g->batch;
        int64_t extent = box->hi[a] - box->lo[a];
        int64_t offset = batch && !empty ? mt_program_sample(p, pvalue->block, 0, box->lo[a]) : box->lo[a];
        if (t->extent[a] != extent || (!empty && t->offset[a] != offset) ||
            t->global[a] != g->labels[gvalue->label[a]].extent)
            return mt_lchecker_refuse(c, "axis %d of %s is not this rank's box", a, gvalue->name);
        bytes *= extent;
    }
    if (value->iteration_bytes != (body ? bytes : 0) ||
        value->size_bytes != (body ? bytes * c->low->body_count : bytes))
        return mt_lchecker_refuse(c, "%s has %lld bytes, %lld of them in an iteration", gvalue->name,
                                  (long long)value->size_bytes, (long long)value->iteration_bytes);
    return check_address(c, v, mt_type_size(pvalue->type));
}

static enum mt_status check_values(struct mt_lchecker *c) {
    enum mt_status st = MT_OK;
    if (c->low->nvalues < c->program->nvalues) return mt_lchecker_refuse(c, "values are missing");
    for (int v = 0; v < c->low->nvalues && !st; v++) {
        if (v < c->program->nvalues)
            st = check_value(c, v);
        else if (c->low->values[v].pvalue != -1)
            st = mt_lchecker_refuse(c, "buffer %d claims to be %s", v, mt_lchecker_name(c, c->low->values[v].pvalue));
        else
            st = check_address(c, v, MT_MEMORY_ALIGN);
    }
    return st;
}

/* ---- inputs, states and reports ---- */

static enum mt_status check_input(struct mt_lchecker *c, const struct mt_linput *input, bool *fed) {
    const struct mt_program *p = c->program;
    if (input->value < 0 || input->value >= p->nvalues || !p->values[input->value].input || is_state(c, input->value) ||
        fed[input->value])
        return mt_lchecker_refuse(c, "an input is fed to what is none, or twice");
    fed[input->value] = true;
    const struct mt_pvalue *v = &p->values[input->value];
    const struct mt_value *g = &p->graph->values[v->gvalue];
    if (input->gvalue != v->gvalue || input->block != v->block)
        return mt_lchecker_refuse(c, "input %s is fed with another value", g->name);
    for (int a = 1; a < g->naxes; a++)
        if (g->label[a] == p->graph->batch)
            return mt_lchecker_refuse(c, "input %s: samples are not the leading axis", g->name);
    const struct mt_box *box = mt_pvalue_box(p, input->value, c->rank);
    bool samples = g->naxes > 0 && g->label[0] == p->graph->batch;
    int64_t rows = samples && mt_box_count(box, g->naxes) ? box->hi[0] - box->lo[0] : 0;
    int64_t iterations = v->block == MT_BODY ? c->low->body_count : 1;
    if (input->nrows != rows * iterations || (rows && !input->rows) || (!samples && input->rows))
        return mt_lchecker_refuse(c, "input %s is fed %lld rows", g->name, (long long)input->nrows);
    for (int64_t r = 0; r < input->nrows; r++)
        if (input->rows[r] != mt_program_sample(p, v->block, r / rows, box->lo[0] + r % rows))
            return mt_lchecker_refuse(c, "row %lld of input %s is fed another sample", (long long)r, g->name);
    return MT_OK;
}

static enum mt_status check_interface(struct mt_lchecker *c) {
    const struct mt_program *p = c->program;
    const struct mt_lowered *low = c->low;
    enum mt_status st = MT_OK;
    bool *fed = mt_calloc((size_t)p->nvalues + 1, sizeof *fed);
    int *state = mt_malloc(((size_t)p->graph->nvalues + 1) * sizeof *state);
    for (int g = 0; g < p->graph->nvalues; g++) state[g] = -1;
    for (int i = 0; i < low->ninputs && !st; i++) st = check_input(c, &low->inputs[i], fed);
    for (int v = 0; v < p->nvalues && !st; v++) {
        if (is_state(c, v))
            state[p->values[v].gvalue] = v;
        else if (p->values[v].input && !fed[v])
            st = mt_lchecker_refuse(c, "%s is not fed", mt_lchecker_name(c, v));
    }
    for (int g = 0; g < p->graph->nvalues && !st; g++) {
        int out = low->output_at[g];
        if (low->state_at[g] != state[g])
            st = mt_lchecker_refuse(c, "state %s has another value's memory", p->graph->values[g].name);
        else if (out < -1 || out >= p->nvalues || (out >= 0 && p->values[out].gvalue != g))
            st = mt_lchecker_refuse(c, "%s is reported from another value", p->graph->values[g].name);
        else if (out >= 0 && (p->values[out].covers != MT_COVERS_ALL || mt_lchecker_layout(c, out)->nparts != 1))
            st = mt_lchecker_refuse(c, "%s is reported from a value that is not whole", p->graph->values[g].name);
        else if (out < 0 && (g == p->graph->loss_sum || g == p->graph->token_count))
            st = mt_lchecker_refuse(c, "%s is not reported", p->graph->values[g].name);
    }
    free(fed);
    free(state);
    return st;
}

/* ---- instructions ---- */

static enum mt_status check_operands(struct mt_lchecker *c) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    int nvalues = c->program->nvalues;
    if (l->stream < 0 || l->stream >= c->low->nstreams) return mt_lchecker_refuse(c, "runs on no stream");
    for (int w = 0; w < l->nwaits; w++)
        if (l->waits[w] < 0 || l->waits[w] >= c->instr)
            return mt_lchecker_refuse(c, "waits for instruction %d, which is not before it", l->waits[w]);
    for (int k = 0; k < l->nin + l->nout; k++) {
        int v = k < l->nin ? l->in[k] : l->out[k - l->nin];
        if (v < 0 || v >= nvalues) return mt_lchecker_refuse(c, "operand %d is no value of the program", k);
    }
    for (int b = 0; b < 2; b++)
        if (l->message[b] < -1 || l->message[b] >= c->low->nvalues) return mt_lchecker_refuse(c, "has no such message");
    if (l->scratch < -1 || l->scratch >= c->low->nvalues || (l->scratch >= 0 && l->scratch < nvalues))
        return mt_lchecker_refuse(c, "its scratch is no buffer");
    return MT_OK;
}

/* Whether several instructions may compute this source, each for itself: the parts of a value are copies. */
static bool may_repeat(const struct mt_lchecker *c, const struct mt_instr *source) {
    return source->kind == MT_INSTR_OP && c->program->graph->ops[source->gop].kind == MT_OP_separate;
}

/* Every source is of this block and is implemented once. */
static enum mt_status check_sources(struct mt_lchecker *c) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    enum mt_block_kind block = mt_lchecker_block(c);
    for (int s = 0; s < l->nsources; s++) {
        if (l->sources[s] < 0 || l->sources[s] >= c->program->blocks[block].ninstrs)
            return mt_lchecker_refuse(c, "has a source that the program does not have");
        int *lowered_as = &c->lowered_as[c->first[block] + l->sources[s]];
        if (*lowered_as >= 0 && l->what == MT_LOWERED_COLLECTIVE && l->chunk_index) continue; /* check_chunk */
        if (*lowered_as >= 0 && !may_repeat(c, mt_lchecker_source(c, s)))
            return mt_lchecker_refuse(c, "%s's instruction %d is implemented by instruction %d already",
                                      mt_block_name(block), l->sources[s], *lowered_as);
        *lowered_as = c->instr;
    }
    return MT_OK;
}

/* Whether chunk b follows chunk a of one collective: the next part of the same value, or the next values. */
static bool follows(const struct mt_message_chunk *a, const struct mt_message_chunk *b) {
    if (a->part + 1 < a->parts)
        return b->first == a->first && b->count == 1 && b->part == a->part + 1 && b->parts == a->parts;
    return b->first == a->first + a->count && b->part == 0;
}

static bool same_collective(const struct mt_linstr *a, const struct mt_linstr *b) {
    return a->what == MT_LOWERED_COLLECTIVE && b->what == MT_LOWERED_COLLECTIVE && a->nsources == 1 &&
           b->nsources == 1 && a->sources[0] == b->sources[0] && a->nchunks == b->nchunks &&
           a->chunk_index + 1 == b->chunk_index;
}

/* The chunks of a collective follow each other, from its first value to its last. */
static enum mt_status check_chunk(struct mt_lchecker *c, const struct mt_instr *source) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    const struct mt_message_chunk *chunk = &l->chunk;
    if (chunk->first < 0 || chunk->count < 1 || chunk->first > source->nin - chunk->count || chunk->parts < 1 ||
        (chunk->parts > 1 && chunk->count != 1) || chunk->part < 0 || chunk->part >= chunk->parts ||
        l->chunk_index < 0 || l->chunk_index >= l->nchunks)
        return mt_lchecker_refuse(c, "is no chunk of the program's collective");
    bool begins = l->chunk_index == 0, ends = l->chunk_index + 1 == l->nchunks;
    if (begins && (chunk->first || chunk->part)) return mt_lchecker_refuse(c, "does not begin with the first value");
    if (!begins && (c->instr == c->low->block_begin[mt_lchecker_block(c)] || !same_collective(l - 1, l)))
        return mt_lchecker_refuse(c, "does not follow the chunk before");
    if (ends)
        return chunk->first + chunk->count == source->nin && chunk->part + 1 == chunk->parts
                   ? MT_OK
                   : mt_lchecker_refuse(c, "does not end with the last value");
    if (c->instr + 1 == c->low->block_begin[mt_lchecker_block(c) + 1] || !same_collective(l, l + 1) ||
        !follows(chunk, &l[1].chunk))
        return mt_lchecker_refuse(c, "is not followed by the next chunk");
    return MT_OK;
}

/* A collective's operands; its effect is proven together with the other ranks'. */
static enum mt_status check_collective(struct mt_lchecker *c) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    const struct mt_instr *source = l->nsources == 1 ? mt_lchecker_source(c, 0) : NULL;
    if (!source || source->kind != MT_INSTR_COLLECTIVE) return mt_lchecker_refuse(c, "has no collective as its source");
    if (l->stream != MT_STREAM_COMM)
        return mt_lchecker_refuse(c, "communicates on another stream than the one that owns the communicator");
    enum mt_status st = check_chunk(c, source);
    if (st) return st;
    int first = l->chunk.first;
    if (l->nin != l->chunk.count || l->nout != l->chunk.count ||
        memcmp(l->in, source->in + first, (size_t)l->nin * sizeof *l->in) ||
        memcmp(l->out, source->out + first, (size_t)l->nout * sizeof *l->out))
        return mt_lchecker_refuse(c, "moves other values than the program's");
    return MT_OK;
}

static enum mt_status check_instr(struct mt_lchecker *c) {
    enum mt_status st = check_operands(c);
    if (!st) st = check_sources(c);
    if (st) return st;
    switch (mt_lchecker_instr(c)->what) {
    case MT_LOWERED_OP: return mt_lchecker_op(c);
    case MT_LOWERED_COLLECTIVE: return check_collective(c);
    case MT_LOWERED_OVERLAP: return mt_lchecker_overlap(c);
    case MT_LOWERED_COPY:
    case MT_LOWERED_ALIAS: return mt_lchecker_copy(c);
    }
    return mt_lchecker_refuse(c, "is no instruction");
}

static const char *what_name(const struct mt_linstr *l) {
    switch (l->what) {
    case MT_LOWERED_OP: return mt_op_info[l->kind].name;
    case MT_LOWERED_COLLECTIVE: return mt_coll_name(l->problem.kind);
    case MT_LOWERED_OVERLAP: return l->overlap ? mt_overlap_name(l->overlap->problem.form) : "overlap";
    case MT_LOWERED_COPY: return "copy";
    case MT_LOWERED_ALIAS: return "alias";
    }
    return "";
}

static void print_instr(const struct mt_lchecker *c, FILE *out) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    fprintf(out, "%-8s %4d %-7s %s%s (%s)", mt_block_name(mt_lchecker_block(c)), c->instr,
            mt_lowered_stream_name(l->stream), what_name(l), l->attr.accumulate ? " accumulate" : "",
            l->name ? l->name : "");
    for (int w = 0; w < l->nwaits; w++) fprintf(out, w ? " and %d" : " after %d", l->waits[w]);
    for (int s = 0; s < l->nsources; s++) fprintf(out, "%s%d", s ? " + " : " is ", l->sources[s]);
    for (int k = 0; k < l->nin; k++)
        fprintf(out, " %s@%lld", mt_lchecker_name(c, l->in[k]), (long long)c->low->values[l->in[k]].offset_bytes);
    fputs(" =>", out);
    for (int k = 0; k < l->nout; k++)
        fprintf(out, " %s@%lld", mt_lchecker_name(c, l->out[k]), (long long)c->low->values[l->out[k]].offset_bytes);
    fputc('\n', out);
}

/* The ranks of which equal proofs are printed once. */
struct mt_lproof {
    char *text;
    int *ranks, nranks;
    struct mt_lproof *next;
};

/* Add the current rank to those of an equal proof, or to a new one at the end of the list. */
static void keep_proof(struct mt_lchecker *c) {
    struct mt_printed printed;
    FILE *out = mt_printed_begin(&printed);
    for (c->instr = 0; c->instr < c->low->ninstrs; c->instr++) print_instr(c, out);
    char *text = mt_printed_end(&printed);
    struct mt_lproof **at = &c->proofs;
    while (*at && strcmp((*at)->text, text)) at = &(*at)->next;
    if (!*at) {
        *at = mt_new(&c->arena, struct mt_lproof, 1);
        **at = (struct mt_lproof){.text = mt_arena_strdup(&c->arena, text)};
        (*at)->ranks = mt_new(&c->arena, int, c->program->nranks);
    }
    (*at)->ranks[(*at)->nranks++] = c->rank;
    free(text);
}

static void print_proofs(struct mt_lchecker *c) {
    for (const struct mt_lproof *p = c->proofs; p; p = p->next)
        fprintf(c->proof, "rank%s %s\n%s", p->nranks == 1 ? "" : "s",
                mt_ranks_text(p->ranks, p->nranks, MT_RANKS_RANGES, &c->arena), p->text);
}

/* ---- a rank ---- */

static enum mt_status check_frame(struct mt_lchecker *c) {
    const struct mt_lowered *low = c->low;
    bool communicates = false;
    if (low->nstreams <= MT_STREAM_COMM || low->nstreams > MT_MOST_STREAMS)
        return mt_lchecker_refuse(c, "it has %d streams", low->nstreams);
    if (low->rank != c->rank) return mt_lchecker_refuse(c, "it is rank %d's", low->rank);
    if (low->body_count != c->program->body_count[c->rank])
        return mt_lchecker_refuse(c, "its body runs %lld times, not %lld", (long long)low->body_count,
                                  (long long)c->program->body_count[c->rank]);
    if (low->block_begin[0] != 0 || low->block_begin[MT_NBLOCKS] != low->ninstrs)
        return mt_lchecker_refuse(c, "its blocks are not its instructions");
    for (int b = 0; b < MT_NBLOCKS; b++)
        if (low->block_begin[b] > low->block_begin[b + 1]) return mt_lchecker_refuse(c, "its blocks overlap");
    for (int i = low->block_begin[MT_BODY]; i < low->block_begin[MT_BODY + 1]; i++)
        communicates |= low->instrs[i].what != MT_LOWERED_ALIAS && low->instrs[i].stream != MT_STREAM_COMPUTE;
    if (communicates && !low->body_barrier)
        return mt_lchecker_refuse(c, "its body uses several streams, but nothing separates the iterations");
    if (low->state_bytes < 0 || low->state_bytes > low->arena_bytes)
        return mt_lchecker_refuse(c, "its states do not fit the arena");
    return MT_OK;
}

/* The next collective, or overlapped instruction, from instruction `at` on, or -1. */
static int next_collective(const struct mt_lowered *low, int at) {
    for (; at < low->ninstrs; at++)
        if (low->instrs[at].what == MT_LOWERED_COLLECTIVE || low->instrs[at].what == MT_LOWERED_OVERLAP) return at;
    return -1;
}

/* List the collectives of rank 0. */
static void list_collectives(struct mt_lchecker *c) {
    int most = 0;
    for (int i = next_collective(c->low, 0); i >= 0; i = next_collective(c->low, i + 1)) most++;
    c->collectives = mt_new(&c->arena, struct mt_lcollective, most);
    c->kept = mt_new(&c->arena, const struct mt_linstr *, most);
    for (c->instr = next_collective(c->low, 0); c->instr >= 0; c->instr = next_collective(c->low, c->instr + 1)) {
        const struct mt_linstr *l = mt_lchecker_instr(c);
        struct mt_lcollective *of = &c->collectives[c->ncollectives++];
        *of = (struct mt_lcollective){
            .block = mt_lchecker_block(c), .source = l->sources[0], .instr = c->instr, .chunk = l->chunk};
        of->name = mt_arena_strdup(&c->arena, l->name ? l->name : "?");
        of->members = mt_new(&c->arena, struct mt_lmember, c->program->nranks);
    }
}

/* All ranks run the same collectives in one order, so that there is no deadlock. */
static enum mt_status keep_collectives(struct mt_lchecker *c) {
    const struct mt_lowered *low = c->low;
    int k = 0;
    enum mt_status st = MT_OK;
    if (c->rank == 0) list_collectives(c);
    for (int i = next_collective(low, 0); i >= 0 && !st; i = next_collective(low, i + 1), k++) {
        const struct mt_lcollective *of = &c->collectives[k];
        bool overlapped = low->instrs[i].what == MT_LOWERED_OVERLAP;
        c->instr = i;
        if (k < c->ncollectives &&
            (of->block != mt_lchecker_block(c) || of->source != mt_lchecker_instr(c)->sources[0] ||
             memcmp(&of->chunk, &mt_lchecker_instr(c)->chunk, sizeof of->chunk) != 0 ||
             (c->rank > 0 && (of->overlapped != NULL) != overlapped)))
            return mt_lchecker_refuse(c, "is run where rank 0 runs instruction %d (%s)", of->instr, of->name);
        if (k < c->ncollectives) c->kept[k] = mt_lchecker_instr(c);
        if (k < c->ncollectives) st = overlapped ? mt_lchecker_keep_overlap(c, k) : mt_lchecker_keep(c, k);
    }
    c->instr = -1;
    if (!st && k != c->ncollectives) return mt_lchecker_refuse(c, "it runs another number of collectives than rank 0");
    return st;
}

static enum mt_status check_rank(struct mt_lchecker *c) {
    enum mt_status st;
    c->instr = -1;
    for (int i = 0; i < c->first[MT_NBLOCKS]; i++) c->lowered_as[i] = -1;
    if ((st = check_frame(c)) || (st = check_values(c)) || (st = check_interface(c))) return st;
    c->old = mt_malloc(((size_t)c->low->ninstrs + 1) * sizeof *c->old);
    memset(c->old, -1, ((size_t)c->low->ninstrs + 1) * sizeof *c->old);
    for (c->instr = 0; c->instr < c->low->ninstrs && !st; c->instr++)
        if ((st = check_instr(c))) break;
    if (!st) st = mt_lchecker_flow(c);
    if (!st && c->proof) keep_proof(c);
    free(c->old);
    return st ? st : keep_collectives(c);
}

/* ---- all ranks ---- */

/* Which values of the body continue an accumulator. */
static void find_running_sums(struct mt_lchecker *c) {
    for (int v = 0; v < c->program->nvalues; v++) c->continues[v] = -1;
    for (int i = 0; i < c->program->blocks[MT_BODY].ninstrs; i++) {
        const struct mt_instr *instr = &c->program->blocks[MT_BODY].instrs[i];
        if (instr->kind == MT_INSTR_ACCUMULATE) c->continues[instr->out[0]] = instr->in[0];
    }
}

enum mt_status mt_check_each_lowered(const struct mt_program *program, mt_next_lowered *next, void *context,
                                     const struct mt_lower_options *options, FILE *proof, struct mt_err *err) {
    int first[MT_NBLOCKS + 1] = {0};
    struct mt_lchecker c = {.program = program, .options = options, .proof = proof, .err = err, .first = first};
    for (int b = 0; b < MT_NBLOCKS; b++) first[b + 1] = first[b] + program->blocks[b].ninstrs;
    c.continues = mt_new(&c.arena, int, program->nvalues + 1);
    c.lowered_as = mt_new(&c.arena, int, first[MT_NBLOCKS] + 1);
    find_running_sums(&c);
    enum mt_status st = MT_OK;
    for (c.rank = 0; c.rank < program->nranks && !st; c.rank++) {
        st = next(context, c.rank, &c.low, err);
        if (!st && (st = check_rank(&c))) break;
    }
    for (int k = 0; k < c.ncollectives && !st; k++)
        st = c.collectives[k].overlapped ? mt_lchecker_overlapped(&c, k) : mt_lchecker_message(&c, k);
    if (!st && proof) print_proofs(&c);
    mt_lchecker_forget_runs(&c);
    mt_lchecker_forget_flows(&c);
    free(c.pieces);
    mt_arena_release(&c.arena);
    return st;
}

static enum mt_status next_of_array(void *context, int rank, const struct mt_lowered **lowered, struct mt_err *err) {
    const struct mt_lowered *const *all = context;
    (void)err;
    *lowered = all[rank];
    return MT_OK;
}

enum mt_status mt_check_lowered(const struct mt_program *program, const struct mt_lowered *const *lowered,
                                const struct mt_lower_options *options, FILE *proof, struct mt_err *err) {
    return mt_check_each_lowered(program, next_of_array, (void *)(uintptr_t)lowered, options, proof, err);
}
