/* Buffer assignment: which values share memory.
 *
 * In the order of the instructions every output gets a new buffer, unless it continues an input's: an accumulator, a
 * contiguous slice, a state's next value, an operator that may work in place on an input whose last use it is, a
 * collective whose message is the tensor itself. */
#include <assert.h>
#include <string.h>

#include "synth/lower/internal.h"
#include "synth/program/message.h"

static int new_buffer(struct mt_lowering *l, int64_t size_bytes) {
    mt_arena_grow(&l->scratch, &l->buffers, l->nbuffers, &l->buffers_capacity, sizeof *l->buffers);
    l->buffers[l->nbuffers] = (struct mt_buffer){.size_bytes = size_bytes, .last_use = -1};
    return l->nbuffers++;
}

int mt_lowering_value(struct mt_lowering *l, int pvalue, int64_t size_bytes) {
    struct mt_lowered *low = l->low;
    mt_arena_grow(&low->arena, &low->values, low->nvalues, &low->values_capacity, sizeof *low->values);
    mt_arena_grow(&l->scratch, &l->buffer, low->nvalues, &l->buffer_capacity, sizeof *l->buffer);
    mt_arena_grow(&l->scratch, &l->at, low->nvalues, &l->at_capacity, sizeof *l->at);
    l->buffer[low->nvalues] = -1;
    l->at[low->nvalues] = 0;
    low->values[low->nvalues] = (struct mt_lvalue){.pvalue = pvalue, .offset_bytes = -1, .size_bytes = size_bytes};
    return low->nvalues++;
}

struct mt_linstr *mt_lowering_instr(struct mt_lowering *l) {
    struct mt_lowered *low = l->low;
    mt_arena_grow(&low->arena, &low->instrs, low->ninstrs, &low->instrs_capacity, sizeof *low->instrs);
    low->block_begin[MT_NBLOCKS] = low->ninstrs + 1;
    return &low->instrs[low->ninstrs++];
}

static struct mt_buffer *buffer_of(const struct mt_lowering *l, int value) {
    assert(l->buffer[value] >= 0);
    return &l->buffers[l->buffer[value]];
}

/* Put a program value at offset `at` of a buffer. */
static void join(struct mt_lowering *l, int value, int buffer, int64_t at, int instr) {
    struct mt_buffer *s = &l->buffers[buffer];
    l->buffer[value] = buffer;
    l->at[value] = at;
    int last = l->last_use[value] > instr ? l->last_use[value] : instr;
    if (last > s->last_use) s->last_use = last;
    bool body = l->program->values[value].block == MT_BODY && (l->adds_to[value] < 0 || !s->outside);
    s->body |= body;
    s->outside |= !body;
}

static void own(struct mt_lowering *l, int value, int instr) {
    join(l, value, new_buffer(l, l->low->values[value].size_bytes), 0, instr);
}

static int new_value(struct mt_lowering *l, int64_t size_bytes) {
    int value = mt_lowering_value(l, -1, size_bytes);
    l->buffer[value] = new_buffer(l, size_bytes);
    return value;
}

/* The last instruction that moves a part of the collective's values. */
static int last_part(int instr, const struct mt_linstr *c) {
    return instr + (c->chunk.parts > 1 ? c->chunk.parts - 1 - c->chunk.part : 0);
}

/* Whether instruction `instr` may overwrite input `value`: nothing reads its buffer afterwards, in this iteration or
 * the next, and no other input of the instruction is in it. */
static bool may_take(const struct mt_lowering *l, int instr, int value, const struct mt_linstr *c) {
    const struct mt_buffer *s = buffer_of(l, value);
    int same = 0;
    for (int i = 0; i < c->nin; i++) same += l->buffer[c->in[i]] == l->buffer[value];
    bool loop = mt_lowered_block(l->low, instr) == MT_BODY && s->outside;
    return !s->fixed && !loop && same == 1 && s->last_use <= instr;
}

static bool same_size(const struct mt_lowering *l, int a, int b) {
    return l->low->values[a].size_bytes == l->low->values[b].size_bytes &&
           l->program->values[a].type == l->program->values[b].type;
}

/* Whether a state's next value may overwrite the state: all readers of the old value come before, or the instruction
 * works in place on it (`input`, or -1). */
static bool may_replace_state(const struct mt_lowering *l, int instr, int output, int input) {
    int state = l->state_of[output];
    if (state < 0 || mt_lowered_block(l->low, instr) <= MT_BODY) return false;
    const struct mt_buffer *s = buffer_of(l, state);
    if (input < 0) return s->last_use < instr;
    return l->buffer[input] == l->buffer[state] && l->at[input] == 0 && same_size(l, input, output) &&
           s->last_use <= instr;
}

/* ---- operators ---- */

/* An addition is symmetric: the operand whose last use this is comes first, so that it can be overwritten. */
static void prefer_ending(struct mt_lowering *l, int instr, struct mt_linstr *c) {
    bool symmetric = c->kind == MT_OP_residual_norm || c->kind == MT_OP_residual_rms ||
                     (c->kind == MT_OP_add && c->attr.axes == (1u << c->tensor[0].naxes) - 1);
    if (!symmetric || may_take(l, instr, c->in[0], c) || !may_take(l, instr, c->in[1], c)) return;
    int in = c->in[0];
    struct mt_tensor tensor = c->tensor[0];
    c->in[0] = c->in[1], c->tensor[0] = c->tensor[1];
    c->in[1] = in, c->tensor[1] = tensor;
}

static void place_output(struct mt_lowering *l, int instr, const struct mt_linstr *c, int o) {
    int out = c->out[o], input = mt_op_info[c->kind].in_place[o];
    if (l->buffer[out] >= 0) return; /* assigned: a fill over itself, or an output named twice */
    if (input >= c->nin) input = -1;
    if (l->adds_to[out] >= 0) {
        int base = l->adds_to[out];
        join(l, out, l->buffer[base], l->at[base], instr);
    } else if (may_replace_state(l, instr, out, input >= 0 ? c->in[input] : -1) ||
               may_replace_state(l, instr, out, -1)) {
        join(l, out, l->buffer[l->state_of[out]], 0, instr);
    } else if (input >= 0 && same_size(l, c->in[input], out) && may_take(l, instr, c->in[input], c)) {
        join(l, out, l->buffer[c->in[input]], l->at[c->in[input]], instr);
    } else {
        own(l, out, instr);
    }
}

static void place_operator(struct mt_lowering *l, int instr, struct mt_linstr *c) {
    if (l->adds_to[c->out[0]] < 0) prefer_ending(l, instr, c);
    for (int o = 0; o < c->nout; o++) place_output(l, instr, c, o);
    if (c->kept) buffer_of(l, c->out[0])->fixed = true;
    if (!l->options->scratch_bytes) return;
    struct mt_call call = mt_linstr_call(c, c->tensor);
    int64_t bytes = l->options->scratch_bytes(l->options->context, &call);
    if (bytes > 0) c->scratch = new_value(l, bytes);
}

static void place_overlap(struct mt_lowering *l, int instr, struct mt_linstr *c) {
    for (int o = 0; o < c->nout; o++) own(l, c->out[o], instr);
    int64_t bytes = mt_overlapped_scratch_bytes(l, c);
    if (bytes > 0) c->scratch = new_value(l, bytes);
}

/* ---- pieces ---- */

static const struct mt_box *box_of(const struct mt_lowering *l, int value) {
    return mt_pvalue_box(l->program, value, l->rank);
}

static int naxes_of(const struct mt_lowering *l, int value) {
    return l->program->layouts.items[l->program->values[value].layout].naxes;
}

/* A box of a value as a piece of its tensor. */
static struct mt_piece piece_of(const struct mt_lowering *l, int value, const struct mt_message_piece *from) {
    const struct mt_box *whole = box_of(l, value);
    enum mt_type type = l->program->values[value].type;
    struct mt_piece piece = {
        .buffer = from->buffer, .at = from->at, .reduce = from->reduce, .naxes = naxes_of(l, value), .type = type};
    int64_t stride = 1, start = 0;
    for (int a = piece.naxes - 1; a >= 0; a--) {
        piece.extent[a] = from->box.hi[a] - from->box.lo[a];
        piece.stride[a] = stride;
        start += (from->box.lo[a] - whole->lo[a]) * stride;
        stride *= whole->hi[a] - whole->lo[a];
    }
    piece.data = (void *)(uintptr_t)(start * mt_type_size(type));
    return piece;
}

/* The pieces that are packed (or unpacked), made once. */
static const struct mt_lpieces *pieces_of(const struct mt_lowering *l, const int *values,
                                          const struct mt_message_piece *from, int count, struct mt_lpieces *made) {
    static const struct mt_lpieces none = {NULL, NULL};
    if (!count) return &none;
    if (made->pieces) return made;
    made->pieces = mt_new(&l->low->arena, struct mt_piece, count);
    made->of = mt_new(&l->low->arena, int, count);
    for (int i = 0; i < count; i++) {
        made->of[i] = from[i].operand;
        made->pieces[i] = piece_of(l, values[from[i].operand], &from[i]);
    }
    return made;
}

/* ---- slices ---- */

/* A copy: out[0] is the message, and is packed from in[0]. */
static void fill_copy(struct mt_lowering *l, struct mt_linstr *c) {
    int out = c->out[0];
    struct mt_message_piece part = {.operand = 0, .box = *box_of(l, out)};
    c->npack = 1;
    struct mt_lpieces made = {NULL, NULL};
    pieces_of(l, c->in, &part, 1, &made);
    c->pack = made.pieces, c->pack_of = made.of;
    c->message[0] = out;
    c->message_count[0] = mt_box_count(&part.box, naxes_of(l, out));
    enum mt_type type = l->program->values[out].type;
    int64_t element_bytes = mt_type_size(l->program->values[c->in[0]].type) + mt_type_size(type);
    c->packed = (struct mt_lcopies){1, c->message_count[0] * element_bytes / 2};
    c->problem = (struct mt_coll){.kind = MT_ALL_GATHER, .wire = type, .acc = type, .n = 1};
}

/* The stream of the next copy: one of copies, if there are some, in turn. */
static int copy_stream(struct mt_lowering *l, int otherwise) {
    int n = l->options->copy_streams;
    return n ? MT_STREAM_COMM + 1 + l->ncopies++ % n : otherwise;
}

static void place_slice(struct mt_lowering *l, int instr, struct mt_linstr *c) {
    int in = c->in[0], out = c->out[0], naxes = naxes_of(l, out);
    int64_t start, element = mt_type_size(l->program->values[out].type);
    bool same_type = l->program->values[in].type == l->program->values[out].type;
    if (same_type && !may_replace_state(l, instr, out, -1) &&
        mt_box_run(box_of(l, out), box_of(l, in), naxes, &start)) {
        c->what = MT_LOWERED_ALIAS;
        join(l, out, l->buffer[in], l->at[in] + start * element, instr);
        return;
    }
    if (may_replace_state(l, instr, out, -1))
        join(l, out, l->buffer[l->state_of[out]], 0, instr);
    else
        own(l, out, instr);
    /* On the communication stream the copy of a collective's result does not delay computation. But in EPILOGUE it
     * would wait there behind later collectives, and computation would wait for the copy. */
    int writer = buffer_of(l, in)->writer,
        own_stream = mt_lowered_block(l->low, instr) == MT_EPILOGUE ? MT_STREAM_COMPUTE : writer;
    c->stream = copy_stream(l, own_stream);
    fill_copy(l, c);
}

/* ---- collectives ---- */

static enum mt_status schedule(struct mt_lowering *l, struct mt_linstr *c, const char *algorithm,
                               struct mt_made_message *made) {
    const struct mt_coll_algorithm *row;
    if (!strcmp(algorithm, "auto")) {
        row = mt_coll_choose(&c->problem, l->options->latency_s, l->options->bandwidth_Bps);
    } else {
        row = mt_coll_find(c->problem.kind, algorithm);
        if (!row) return mt_fail(l->err, MT_EINPUT, "%s: there is no algorithm \"%s\"", c->name, algorithm);
        if (!row->applies(&c->problem) && row->by_node) {
            mt_fail(
                l->err, MT_EINPUT,
                "%s: algorithm \"%s\" is for ranks on several hosts, with several ranks on one of them, and these %d "
                "are not",
                c->name, algorithm, c->problem.n);
            return mt_err_hint(l->err, "choose another, or \"auto\"; a plan knows hosts from --cluster or --hosts");
        }
        if (!row->applies(&c->problem)) {
            mt_fail(l->err, MT_EINPUT, "%s: algorithm \"%s\" does not apply to %d ranks with these counts", c->name,
                    algorithm, c->problem.n);
            return mt_err_hint(l->err, "choose another, or \"auto\"");
        }
    }
    c->algorithm = row;
    if (row->by_node) c->problem.same_pieces = false; /* a hierarchical collective is in several calls, on a message */
    if (l->options->sketch) return MT_OK;
    if (made->algorithm != row) {
        made->algorithm = row;
        made->schedule = mt_new(&l->low->arena, struct mt_schedule, 1);
        row->schedule(&c->problem, made->schedule);
    }
    c->schedule = made->schedule;
    return MT_OK;
}

/* Whether the collective has one value, of the message's type, so that its tensor may serve as the message. */
static bool plain(const struct mt_lowering *l, const struct mt_linstr *c) {
    return c->nin == 1 && l->program->values[c->in[0]].type == c->problem.acc &&
           l->program->values[c->out[0]].type == c->problem.acc;
}

static void place_outputs(struct mt_lowering *l, int instr, struct mt_linstr *c, bool in_place) {
    for (int o = 0; o < c->nout; o++) {
        if (c->chunk.part > 0) continue; /* they have buffers since part 0 */
        if (may_replace_state(l, instr, c->out[o], -1))
            join(l, c->out[o], l->buffer[l->state_of[c->out[o]]], 0, instr);
        else if (in_place && same_size(l, c->in[o], c->out[o]) && may_take(l, last_part(instr, c), c->in[o], c))
            join(l, c->out[o], l->buffer[c->in[o]], l->at[c->in[o]], instr);
        else
            own(l, c->out[o], instr);
    }
}

/* Choose the tensors that serve as messages; they need no pieces. */
static void choose_messages(struct mt_lowering *l, int instr, struct mt_linstr *c, struct mt_message *m) {
    bool whole = c->problem.kind == MT_ALL_REDUCE || c->problem.kind == MT_BROADCAST;
    bool takes = may_take(l, instr, c->in[0], c);
    place_outputs(l, instr, c, whole);
    if (!plain(l, c) || c->chunk.parts > 1) return;
    int in = c->in[0], out = c->out[0];
    if (c->problem.kind == MT_REDUCE_SCATTER) {
        if (!takes || !m->pack.is_tensor) return;
        c->message[0] = in;
        m->pack = (struct mt_message_side){0};
        return;
    }
    if (c->problem.kind == MT_ALL_TO_ALL || !m->unpack.is_tensor) return;
    c->message[0] = out;
    m->unpack = (struct mt_message_side){0};
    if (whole && l->buffer[in] == l->buffer[out]) m->pack = (struct mt_message_side){0};
}

static enum mt_status message_of(struct mt_lowering *l, const struct mt_instr *source,
                                 const struct mt_message_chunk *chunk, struct mt_made_message **made) {
    for (int i = 0; i < l->nmessages; i++)
        if (l->messages[i].part == chunk->part && l->messages[i].parts == chunk->parts &&
            mt_message_same(l->program, source, &l->messages[i].source))
            return *made = &l->messages[i], MT_OK;
    mt_arena_grow(&l->scratch, &l->messages, l->nmessages, &l->messages_capacity, sizeof *l->messages);
    *made = &l->messages[l->nmessages++];
    **made = (struct mt_made_message){.source = *source, .part = chunk->part, .parts = chunk->parts};
    const struct mt_message_form form = {l->options->sketch, chunk->part, chunk->parts, l->options->wire_sums};
    return mt_message_make(l->program, source, l->rank, &form, &l->low->arena, &(*made)->message, l->err);
}

/* The odd ones of a value's pipelined parts, of which `instr` is the last, come after the even ones. */
static void part_halves(struct mt_lowering *l, int instr) {
    struct mt_buffer *staging = &l->buffers[l->staging];
    for (int part = 1, first = instr - l->low->instrs[instr].chunk.part; first + part <= instr; part += 2)
        for (int b = 0; b < 2; b++) {
            int message = l->low->instrs[first + part].message[b];
            if (message < 0 || l->buffer[message] != l->staging) continue;
            l->at[message] += l->half_bytes;
            int64_t end = l->at[message] + mt_message_round(l->low->values[message].size_bytes);
            if (end > staging->size_bytes) staging->size_bytes = end;
        }
}

/* The memory of messages that are no tensors. Chunks of one collective share a buffer, as large as the largest of them
 * needs, or the largest two parts in turn. */
static void place_messages(struct mt_lowering *l, int instr, struct mt_linstr *c, const struct mt_message *m) {
    int64_t at = 0;
    if (!c->chunk_index) l->staging = -1;
    if (!c->chunk.part) l->half_bytes = 0;
    for (int b = 0; b < 2; b++) {
        int64_t elements = m->staged[b] ? m->staged[b][c->problem.me] : c->message_count[b];
        int64_t bytes = elements * mt_type_size(c->problem.acc);
        if (c->message[b] >= 0 || !bytes) continue;
        if (c->nchunks == 1) {
            c->message[b] = new_value(l, bytes);
            continue;
        }
        if (l->staging < 0) l->staging = new_buffer(l, 0);
        struct mt_buffer *staging = &l->buffers[l->staging];
        int message = c->message[b] = mt_lowering_value(l, -1, bytes);
        l->buffer[message] = l->staging;
        l->at[message] = at;
        at += mt_message_round(bytes);
        if (staging->size_bytes < at) staging->size_bytes = at;
        if (c->chunk.part % 2 == 0 && l->half_bytes < at) l->half_bytes = at;
    }
    if (c->chunk.pipelined && c->chunk.part + 1 == c->chunk.parts && l->staging >= 0) part_halves(l, instr);
}

static void add_pieces(const struct mt_lowering *l, struct mt_linstr *c, const struct mt_message *m,
                       struct mt_made_message *made) {
    const struct mt_lpieces *pack = pieces_of(l, c->in, m->pack.pieces, m->pack.count, &made->packed);
    const struct mt_lpieces *unpack = pieces_of(l, c->out, m->unpack.pieces, m->unpack.count, &made->unpacked);
    c->pack = pack->pieces, c->pack_of = pack->of;
    c->unpack = unpack->pieces, c->unpack_of = unpack->of;
    for (int b = 0; b < 2; b++) {
        const struct mt_message_side *side = b ? &m->unpack : &m->pack;
        const struct mt_lpieces *own =
            pieces_of(l, b ? c->out : c->in, side->in_place, side->nin_place, &made->in_place[b]);
        c->nin_place[b] = side->nin_place;
        c->in_place[b] = own->pieces, c->in_place_of[b] = own->of;
    }
}

static enum mt_status place_collective(struct mt_lowering *l, int instr, struct mt_linstr *c,
                                       const struct mt_instr *source) {
    struct mt_made_message *made;
    const struct mt_instr one = mt_message_chunk_instr(source, &c->chunk);
    enum mt_status st = message_of(l, &one, &c->chunk, &made);
    if (st) return st;
    struct mt_message m = made->message;
    c->problem = m.problem;
    c->group = m.group;
    c->zero = m.zero;
    choose_messages(l, instr, c, &m);
    for (int b = 0; b < 2; b++) c->message_count[b] = m.count[b];
    place_messages(l, instr, c, &m);
    c->npack = m.pack.count, c->nunpack = m.unpack.count;
    c->packed = (struct mt_lcopies){m.pack.count, m.pack.bytes};
    c->unpacked = (struct mt_lcopies){m.unpack.count, m.unpack.bytes};
    c->packed_rest = (struct mt_lcopies){m.pack.nrest, m.pack.rest_bytes};
    c->unpacked_rest = (struct mt_lcopies){m.unpack.nrest, m.unpack.rest_bytes};
    if (!l->options->sketch) add_pieces(l, c, &m, made);
    return schedule(l, c, source->algorithm, made);
}

/* ---- all instructions ---- */

static const char *name_of(const struct mt_lowering *l, int pvalue) {
    return l->program->graph->values[l->program->values[pvalue].gvalue].name;
}

static enum mt_status place(struct mt_lowering *l, int instr) {
    struct mt_linstr *c = &l->low->instrs[instr];
    enum mt_block_kind block = mt_lowered_block(l->low, instr);
    bool fill = c->what == MT_LOWERED_OP && c->kind == MT_OP_fill;
    for (int i = 0; i < c->nin; i++)
        if (l->buffer[c->in[i]] < 0 && !fill)
            return mt_fail(l->err, MT_EBUG, "%s in the %s block reads %s, which is not made before", c->name,
                           mt_block_name(block), name_of(l, c->in[i]));
    for (int o = 0; o < c->nout; o++) {
        int base = l->adds_to[c->out[o]];
        if (base >= 0 && (l->buffer[base] < 0 || l->last_use[base] > instr))
            return mt_fail(l->err, MT_EBUG, "%s in the %s block adds to %s, which is not made before or is read later",
                           c->name, mt_block_name(block), name_of(l, base));
    }
    enum mt_status st = MT_OK;
    if (c->what == MT_LOWERED_OP)
        place_operator(l, instr, c);
    else if (c->what == MT_LOWERED_COLLECTIVE)
        st = place_collective(l, instr, c, &l->program->blocks[block].instrs[c->sources[0]]);
    else if (c->what == MT_LOWERED_OVERLAP)
        place_overlap(l, instr, c);
    else
        place_slice(l, instr, c);
    for (int o = 0; o < c->nout && c->what != MT_LOWERED_ALIAS; o++) buffer_of(l, c->out[o])->writer = c->stream;
    return st;
}

/* States whose next value has another buffer are copied back at the end of the step. */
static enum mt_status copy_states(struct mt_lowering *l) {
    const struct mt_program *p = l->program;
    for (int s = 0; s < p->nvalues; s++) {
        int next = p->values[s].next;
        if (next < 0 || next == s || l->buffer[s] == l->buffer[next]) continue;
        if (l->buffer[next] < 0 || buffer_of(l, next)->fixed || p->values[next].layout != p->values[s].layout)
            return mt_fail(l->err, MT_EBUG,
                           "the next value of %s is never made, is another state's, or has another layout",
                           name_of(l, s));
        struct mt_linstr *c = mt_lowering_instr(l);
        int *operands = mt_new(&l->low->arena, int, 2);
        operands[0] = next, operands[1] = s;
        *c = (struct mt_linstr){.what = MT_LOWERED_COPY,
                                .nin = 1,
                                .nout = 1,
                                .in = operands,
                                .out = operands + 1,
                                .scratch = -1,
                                .message = {-1, -1}};
        c->stream = copy_stream(l, MT_STREAM_COMPUTE);
        c->name = mt_arena_printf(&l->low->arena, "keep %s", name_of(l, s));
        fill_copy(l, c);
    }
    return MT_OK;
}

enum mt_status mt_assign_buffers(struct mt_lowering *l) {
    const struct mt_program *p = l->program;
    for (int v = 0; v < p->nvalues; v++) {
        if (!p->values[v].input) continue;
        own(l, v, -1);
        buffer_of(l, v)->fixed = true;
    }
    for (int i = 0; i < l->low->ninstrs; i++) {
        enum mt_status st = place(l, i);
        if (st) return st;
    }
    return copy_states(l);
}
