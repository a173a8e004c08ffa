/* Order: waits between streams, the order that they make known, and from it lifetimes and offsets.
 *
 * An instruction waits for the last instruction of each other stream that it depends on: for each buffer that it reads,
 * the last writer; for each that it writes, the last user. Collectives and overlapped instructions wait for each other.
 * Waits that earlier waits imply are left out. With program->overlap_yielding a collective before an operator that
 * yields starts together with it: it waits for the operator before. So do gathers of weights in BODY and LAST, which
 * stand one layer before their use. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "synth/lower/internal.h"
#include "synth/ops/ops.h"

struct ordering {
    struct mt_lowering *l;
    int (*seen)[MT_MOST_STREAMS];    /* [instrs]: see memory.h */
    int (*written)[MT_MOST_STREAMS]; /* [buffers]: the last writer on each stream, or -1 */
    int (*used)[MT_MOST_STREAMS];    /* [buffers]: the last user on each stream, or -1 */
    int collective, overlapped;      /* the last ones, or -1 */
};

/* The buffers that an instruction uses, written ones first. Of the input of a fill only the shape is read. Returns how
 * many. */
static int buffers_of(const struct mt_lowering *l, const struct mt_linstr *c, int *buffers, int *nwrites) {
    int n = 0;
    for (int o = 0; o < c->nout; o++) buffers[n++] = l->buffer[c->out[o]];
    for (int b = 0; b < 2; b++)
        if (c->message[b] >= 0) buffers[n++] = l->buffer[c->message[b]];
    if (c->scratch >= 0) buffers[n++] = l->buffer[c->scratch];
    *nwrites = n;
    bool shape = c->what == MT_LOWERED_OP && c->kind == MT_OP_fill;
    for (int i = 0; i < c->nin && !shape; i++) buffers[n++] = l->buffer[c->in[i]];
    return n;
}

static bool reads_of(const struct mt_lowering *l, const struct mt_linstr *reader, const struct mt_linstr *writer) {
    for (int i = 0; i < reader->nin; i++)
        for (int o = 0; o < writer->nout; o++)
            if (l->buffer[reader->in[i]] == l->buffer[writer->out[o]]) return true;
    return false;
}

/* Whether it moves weights for the operators that follow: values of the prologue, ready long before. */
static bool moves_weights(const struct mt_lowering *l, const struct mt_linstr *c, enum mt_block_kind block) {
    bool ready = block == MT_BODY || block == MT_LAST;
    for (int i = 0; i < c->nin; i++) ready &= l->program->values[c->in[i]].block == MT_PROLOGUE;
    return ready;
}

/* The instruction of another stream after which a collective starts; or -1: as soon as it can. One that moves weights
 * starts where it stands, so that they take memory no earlier. With overlap_yielding, one overlaps the next operator if
 * that yields; but if the next operator reads its result, it is not delayed. */
static int starts_after(const struct mt_lowering *l, int instr) {
    const struct mt_lowered *low = l->low;
    const struct mt_linstr *c = &low->instrs[instr];
    if (c->what != MT_LOWERED_COLLECTIVE) return -1;
    enum mt_block_kind block = mt_lowered_block(low, instr);
    int next = instr + 1, last = instr - 1, end = low->block_begin[block + 1];
    if (!moves_weights(l, c, block)) {
        if (!l->program->overlap_yielding) return -1;
        while (next < end && (low->instrs[next].what == MT_LOWERED_ALIAS || low->instrs[next].stream == c->stream))
            next++;
        if (next >= end || low->instrs[next].what != MT_LOWERED_OP || !mt_op_yields(low->instrs[next].kind)) return -1;
        if (reads_of(l, &low->instrs[next], c)) return -1;
    }
    while (last >= low->block_begin[block] &&
           (low->instrs[last].what == MT_LOWERED_ALIAS || low->instrs[last].stream == c->stream))
        last--;
    return last >= low->block_begin[block] ? last : -1;
}

static int most(int a, int b) {
    return a > b ? a : b;
}

/* The latest of the instructions needed, one of each stream, that is not known to have ended; or -1. */
static int latest_needed(const int *need, const int *known, int nstreams) {
    int latest = -1;
    for (int t = 0; t < nstreams; t++)
        if (need[t] > known[t]) latest = most(latest, need[t]);
    return latest;
}

/* The latest first, since it may imply others. */
static void wait_for(struct ordering *o, struct mt_linstr *c, const int *need, int known[MT_MOST_STREAMS]) {
    struct mt_lowered *low = o->l->low;
    int waits[MT_MOST_STREAMS], n = 0;
    for (int latest; (latest = latest_needed(need, known, low->nstreams)) >= 0;) {
        waits[n++] = latest;
        known[low->instrs[latest].stream] = latest;
        for (int t = 0; t < low->nstreams; t++) known[t] = most(known[t], o->seen[latest][t]);
    }
    c->nwaits = n;
    c->waits = n ? mt_new(&low->arena, int, n) : NULL;
    for (int i = 0; i < n; i++) c->waits[i] = waits[n - 1 - i];
}

static void add_waits_of(struct ordering *o, int instr, const int *buffers, int nbuffers, int nwrites,
                         int known[MT_MOST_STREAMS]) {
    struct mt_lowered *low = o->l->low;
    struct mt_linstr *c = &low->instrs[instr];
    int need[MT_MOST_STREAMS], after = starts_after(o->l, instr);
    for (int t = 0; t < low->nstreams; t++) {
        need[t] = after >= 0 && low->instrs[after].stream == t ? after : -1;
        for (int s = 0; s < nbuffers && t != c->stream; s++)
            need[t] = most(need[t], s < nwrites ? o->used[buffers[s]][t] : o->written[buffers[s]][t]);
    }
    /* What waits for peers does so one after another, in one order on all ranks. */
    if (c->what == MT_LOWERED_OVERLAP && o->collective >= 0)
        need[MT_STREAM_COMM] = most(need[MT_STREAM_COMM], o->collective);
    if (c->what == MT_LOWERED_COLLECTIVE && o->overlapped >= 0)
        need[MT_STREAM_COMPUTE] = most(need[MT_STREAM_COMPUTE], o->overlapped);
    if (c->what == MT_LOWERED_OVERLAP) o->overlapped = instr;
    if (c->what == MT_LOWERED_COLLECTIVE) o->collective = instr;
    wait_for(o, c, need, known);
    memcpy(o->seen[instr], known, sizeof o->seen[instr]);
    known[c->stream] = instr;
    for (int s = 0; s < nbuffers; s++) {
        o->used[buffers[s]][c->stream] = instr;
        if (s < nwrites) o->written[buffers[s]][c->stream] = instr;
    }
}

static bool body_has_streams(const struct mt_lowered *low) {
    for (int i = low->block_begin[MT_BODY]; i < low->block_begin[MT_BODY + 1]; i++)
        if (low->instrs[i].what != MT_LOWERED_ALIAS && low->instrs[i].stream != MT_STREAM_COMPUTE) return true;
    return false;
}

static int most_operands(const struct mt_lowered *low) {
    int most = 0;
    for (int i = 0; i < low->ninstrs; i++)
        if (low->instrs[i].nin + low->instrs[i].nout > most) most = low->instrs[i].nin + low->instrs[i].nout;
    return most + 3;
}

static void add_waits(struct ordering *o) {
    struct mt_lowered *low = o->l->low;
    int known[MT_MOST_STREAMS][MT_MOST_STREAMS]; /* of each stream, at its next instruction */
    int *buffers = mt_calloc((size_t)most_operands(low), sizeof *buffers);
    memset(known, -1, sizeof known);
    low->body_barrier = body_has_streams(low);
    for (int i = 0; i < low->ninstrs; i++) {
        struct mt_linstr *c = &low->instrs[i];
        if (i == low->block_begin[MT_LAST] && low->body_barrier)
            for (int s = 0; s < low->nstreams; s++)
                for (int t = 0; t < low->nstreams; t++) known[s][t] = i - 1;
        if (c->what == MT_LOWERED_ALIAS) continue;
        int nwrites, n = buffers_of(o->l, c, buffers, &nwrites);
        add_waits_of(o, i, buffers, n, nwrites, known[c->stream]);
        c->ahead = c->what == MT_LOWERED_COLLECTIVE && c->chunk.pipelined && c->chunk.part && !c->nwaits;
    }
    free(buffers);
}

static void never_used(struct mt_memory_item *item) {
    *item = (struct mt_memory_item){0};
    for (int s = 0; s < MT_MOST_STREAMS; s++) item->first[s] = item->last[s] = -1;
}

static void use(struct mt_memory_item *item, int stream, int instr) {
    if (item->first[stream] < 0 || instr < item->first[stream]) item->first[stream] = instr;
    if (instr > item->last[stream]) item->last[stream] = instr;
}

/* The first and the last instruction of BODY on each stream, or -1. */
static struct mt_memory_item whole_body(const struct mt_lowered *low) {
    struct mt_memory_item body;
    never_used(&body);
    for (int i = low->block_begin[MT_BODY]; i < low->block_begin[MT_BODY + 1]; i++)
        if (low->instrs[i].what != MT_LOWERED_ALIAS) use(&body, low->instrs[i].stream, i);
    return body;
}

/* An item that is used both in BODY and outside lives through all iterations. */
static void stretch_over_body(const struct mt_lowered *low, const struct mt_memory_item *body,
                              struct mt_memory_item *item) {
    int begin = low->block_begin[MT_BODY], end = low->block_begin[MT_BODY + 1];
    bool inside = false, outside = false;
    for (int s = 0; s < low->nstreams; s++) {
        if (item->first[s] < 0) continue;
        inside |= item->first[s] < end && item->last[s] >= begin;
        outside |= item->first[s] < begin || item->last[s] >= end;
    }
    for (int s = 0; s < low->nstreams && inside && outside; s++) {
        if (body->first[s] < 0) continue;
        use(item, s, body->first[s]);
        use(item, s, body->last[s]);
    }
}

static struct mt_memory_item *lifetimes(const struct mt_lowering *l) {
    const struct mt_lowered *low = l->low;
    struct mt_memory_item *items = mt_calloc((size_t)l->nbuffers + 1, sizeof *items);
    int *buffers = mt_calloc((size_t)most_operands(low), sizeof *buffers);
    for (int s = 0; s < l->nbuffers; s++) {
        never_used(&items[s]);
        items[s].size_bytes = l->buffers[s].fixed ? 0 : l->buffers[s].size_bytes;
    }
    for (int i = 0; i < low->ninstrs; i++) {
        const struct mt_linstr *c = &low->instrs[i];
        if (c->what == MT_LOWERED_ALIAS) continue;
        int nwrites, n = buffers_of(l, c, buffers, &nwrites);
        for (int k = 0; k < n; k++) use(&items[buffers[k]], c->stream, i);
    }
    const struct mt_memory_item body = whole_body(low);
    for (int s = 0; s < l->nbuffers; s++) {
        stretch_over_body(low, &body, &items[s]);
        if (l->buffers[s].last_use == INT_MAX) items[s].last[MT_STREAM_COMPUTE] = INT_MAX;
    }
    free(buffers);
    return items;
}

/* Place the states in the order of the graph, or where options->states has them; then the inputs, and what is kept.
 * Returns the end. */
static int64_t place_fixed(struct mt_lowering *l) {
    struct mt_lowered *low = l->low;
    const struct mt_lowered *like = l->options->states;
    int64_t top = 0;
    for (int g = 0; g < l->program->graph->nvalues; g++) {
        int v = low->state_at[g];
        if (v < 0) continue;
        struct mt_buffer *s = &l->buffers[l->buffer[v]];
        s->offset_bytes = like ? like->values[like->state_at[g]].offset_bytes : top;
        top += mt_memory_round(s->size_bytes);
    }
    low->state_bytes = top = like ? like->state_bytes : top;
    for (int i = 0; i < low->ninputs; i++) {
        struct mt_buffer *s = &l->buffers[l->buffer[low->inputs[i].value]];
        s->offset_bytes = top;
        top += mt_memory_round(s->size_bytes);
    }
    for (int i = low->block_begin[MT_PROLOGUE]; i < low->block_begin[MT_PROLOGUE + 1]; i++) {
        if (!low->instrs[i].kept) continue;
        struct mt_buffer *s = &l->buffers[l->buffer[low->instrs[i].out[0]]];
        s->offset_bytes = top;
        top += mt_memory_round(s->size_bytes);
    }
    return top;
}

static void place(struct mt_lowering *l, const int (*seen)[MT_MOST_STREAMS]) {
    struct mt_lowered *low = l->low;
    struct mt_memory_item *items = lifetimes(l);
    low->arena_bytes = mt_memory_place(items, l->nbuffers, seen, low->nstreams, place_fixed(l), NULL);
    for (int s = 0; s < l->nbuffers; s++) {
        if (l->buffers[s].fixed) continue;
        l->buffers[s].offset_bytes = items[s].offset_bytes;
        low->value_bytes += mt_memory_round(items[s].size_bytes);
    }
    for (int v = 0; v < low->nvalues; v++)
        if (l->buffer[v] >= 0) low->values[v].offset_bytes = l->buffers[l->buffer[v]].offset_bytes + l->at[v];
    free(items);
}

void mt_order_and_place(struct mt_lowering *l) {
    struct mt_lowered *low = l->low;
    size_t n = (size_t)low->ninstrs + 1, nbuffers = (size_t)l->nbuffers + 1;
    struct ordering o = {.l = l,
                         .collective = -1,
                         .overlapped = -1,
                         .seen = mt_calloc(n, sizeof *o.seen),
                         .written = mt_calloc(nbuffers, sizeof *o.written),
                         .used = mt_calloc(nbuffers, sizeof *o.used)};
    memset(o.seen, -1, n * sizeof *o.seen);
    memset(o.written, -1, nbuffers * sizeof *o.written);
    memset(o.used, -1, nbuffers * sizeof *o.used);
    add_waits(&o);
    if (!l->options->unplaced) place(l, (const int(*)[MT_MOST_STREAMS])o.seen);
    free(o.seen), free(o.written), free(o.used);
}
