/* Data flow through memory: every read sees exactly the bytes that its definition wrote, whatever the timing.
 *
 * One step of one rank is run symbolically in the order of the instructions, with BODY unrolled to at most two
 * iterations. The arena is cut into cells at all offsets where an lvalue begins or ends. A cell records the definition
 * whose bytes it holds, the stream that wrote them, and the last read on each stream. A read must find its definition
 * in every cell. Any two accesses of which one writes must be ordered by the rules of lower.h (a vector clock with one
 * entry a stream): then every timing gives the same result as this order.
 *
 * Two iterations suffice for all: BODY runs on one stream or with barriers, so that the third finds what the second
 * left just as the second finds what the first left. Steps follow each other on both streams; only states pass from one
 * step to the next, and they must be in their places at the end. O(accesses x cells per access).
 *
 * Whatever is read here of a lowered program must be listed by like.c. */
#include <stdlib.h>
#include <string.h>

#include "synth/check/lowered/internal.h"

enum { NEVER_WRITTEN, SCRATCH }; /* contents of cells; larger ids are definitions */

struct cell {
    int content;
    int writer; /* stream */
    int64_t written, read[MT_MOST_STREAMS];
};

struct flow {
    struct mt_lchecker *c;
    struct mt_arena arena;
    int64_t *cuts;
    int ncuts;
    struct cell *cells; /* [ncuts - 1] */
    int64_t now;        /* the number of the current run of an instruction, from 1 */
    /* Of each stream: the last run that waits for peers, and its instruction. */
    int64_t peers[MT_MOST_STREAMS];
    int peers_instr[MT_MOST_STREAMS];
    /* Of each stream: the last run on each stream that has ended. */
    int64_t known[MT_MOST_STREAMS][MT_MOST_STREAMS];
    int64_t (*ended)[MT_MOST_STREAMS]; /* [instrs]: what is known when its last run has ended */
    int *content;                      /* [pvalues]: its current definition */
    int *kept;                         /* [pvalues]: of a state, the definition that was copied to its place; of a kept
                                          instruction's output, that at the beginning of the step */
    int *defined;                      /* [definitions]: the program value */
    int ndefined, defined_capacity;
};

struct span {
    int64_t begin, end;
};

static struct span span_of(const struct mt_lchecker *c, int lvalue) {
    const struct mt_lvalue *v = &c->low->values[lvalue];
    if (v->offset_bytes < 0) return (struct span){0, 0};
    return (struct span){v->offset_bytes, v->offset_bytes + v->size_bytes};
}

static bool overlap(struct span a, struct span b) {
    int64_t begin = a.begin > b.begin ? a.begin : b.begin, end = a.end < b.end ? a.end : b.end;
    return begin < end;
}

/* ---- cells ---- */

static int compare_cuts(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void cut_arena(struct flow *f) {
    const struct mt_lowered *low = f->c->low;
    f->cuts = mt_new(&f->arena, int64_t, 2 * low->nvalues + 1);
    int n = 0;
    for (int v = 0; v < low->nvalues; v++) {
        if (low->values[v].offset_bytes < 0 || low->values[v].size_bytes == 0) continue;
        f->cuts[n++] = low->values[v].offset_bytes;
        f->cuts[n++] = low->values[v].offset_bytes + low->values[v].size_bytes;
    }
    qsort(f->cuts, (size_t)n, sizeof *f->cuts, compare_cuts);
    for (int i = 0; i < n; i++)
        if (!f->ncuts || f->cuts[f->ncuts - 1] != f->cuts[i]) f->cuts[f->ncuts++] = f->cuts[i];
    f->cells = mt_new(&f->arena, struct cell, f->ncuts + 1);
}

static int cell_at(const struct flow *f, int64_t address) {
    int lo = 0, hi = f->ncuts - 1;
    while (lo < hi) {
        int middle = (lo + hi) / 2;
        if (f->cuts[middle] < address)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

static const char *content_name(const struct flow *f, int content) {
    if (content == NEVER_WRITTEN) return "nothing";
    return content == SCRATCH ? "scratch or a message" : mt_lchecker_name(f->c, f->defined[content]);
}

static int new_definition(struct flow *f, int pvalue) {
    mt_arena_grow(&f->arena, &f->defined, f->ndefined, &f->defined_capacity, sizeof *f->defined);
    f->defined[f->ndefined] = pvalue;
    return f->ndefined++;
}

/* ---- accesses ---- */

static enum mt_status has_memory(const struct flow *f, int lvalue) {
    if (f->c->low->values[lvalue].offset_bytes >= 0) return MT_OK;
    return mt_lchecker_refuse(f->c, "%s has no memory", mt_lchecker_name(f->c, lvalue));
}

static bool empty(const struct flow *f, int lvalue) {
    return f->c->low->values[lvalue].size_bytes == 0;
}

/* A read on `stream`: the lvalue's memory must hold `content`. `stream` -1: after everything has ended. */
static enum mt_status expect(struct flow *f, int lvalue, int content, int stream) {
    if (empty(f, lvalue)) return MT_OK;
    enum mt_status st = has_memory(f, lvalue);
    if (st) return st;
    const char *name = mt_lchecker_name(f->c, lvalue);
    if (content == NEVER_WRITTEN) return mt_lchecker_refuse(f->c, "%s is read before it is made", name);
    struct span span = span_of(f->c, lvalue);
    for (int i = cell_at(f, span.begin); f->cuts[i] < span.end; i++) {
        struct cell *cell = &f->cells[i];
        if (cell->content != content)
            return mt_lchecker_refuse(f->c, "%s is read, but its memory holds %s from address %lld on", name,
                                      content_name(f, cell->content), (long long)f->cuts[i]);
        if (stream < 0) continue;
        if (f->known[stream][cell->writer] < cell->written)
            return mt_lchecker_refuse(f->c, "%s is read, but its write is not ordered before the read", name);
        cell->read[stream] = f->now;
    }
    return MT_OK;
}

static enum mt_status overwrite(struct flow *f, int lvalue, int content, int stream) {
    if (empty(f, lvalue)) return MT_OK;
    enum mt_status st = has_memory(f, lvalue);
    if (st) return st;
    struct span span = span_of(f->c, lvalue);
    for (int i = cell_at(f, span.begin); f->cuts[i] < span.end; i++) {
        struct cell *cell = &f->cells[i];
        bool ordered = f->known[stream][cell->writer] >= cell->written;
        for (int s = 0; s < f->c->low->nstreams; s++) ordered = ordered && f->known[stream][s] >= cell->read[s];
        if (!ordered)
            return mt_lchecker_refuse(f->c, "%s is written, but the uses of %s are not ordered before the write",
                                      mt_lchecker_name(f->c, lvalue), content_name(f, cell->content));
        cell->content = content;
        cell->writer = stream;
        cell->written = f->now;
    }
    return MT_OK;
}

static enum mt_status define(struct flow *f, int pvalue, int stream) {
    f->content[pvalue] = new_definition(f, pvalue);
    if (mt_lchecker_block(f->c) == MT_BODY && f->c->continues[pvalue] >= 0)
        f->content[f->c->continues[pvalue]] = f->content[pvalue];
    return overwrite(f, pvalue, f->content[pvalue], stream);
}

/* ---- within one instruction ---- */

static enum mt_status check_disjoint(const struct mt_lchecker *c, int a, int b) {
    if (!overlap(span_of(c, a), span_of(c, b))) return MT_OK;
    return mt_lchecker_refuse(c, "%s and %s share memory while both are used", mt_lchecker_name(c, a),
                              mt_lchecker_name(c, b));
}

static bool same_memory(const struct mt_lchecker *c, int a, int b) {
    return c->low->values[a].offset_bytes == c->low->values[b].offset_bytes &&
           c->low->values[a].size_bytes == c->low->values[b].size_bytes;
}

/* An output may share memory only with the one input that its kind may overwrite. */
static enum mt_status check_in_place(const struct mt_lchecker *c) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    enum mt_status st = MT_OK;
    for (int o = 0; o < l->nout && !st; o++) {
        int out = l->out[o], old = c->old[c->instr][o], taken = mt_op_info[l->kind].in_place[o];
        for (int p = 0; p < o && !st; p++) st = check_disjoint(c, out, l->out[p]);
        for (int k = 0; k < l->nin && !st && l->kind != MT_OP_fill; k++) {
            bool may = taken == k && same_memory(c, l->in[k], out) &&
                       c->low->values[l->in[k]].tensor.type == c->low->values[out].tensor.type;
            if (!may) st = check_disjoint(c, out, l->in[k]);
        }
        if (!st && l->scratch >= 0) st = check_disjoint(c, out, l->scratch);
        if (!st && old >= 0 && !same_memory(c, old, out))
            st = mt_lchecker_refuse(c, "%s is not added to in place", mt_lchecker_name(c, old));
        if (!st && c->continues[out] >= 0 && !same_memory(c, c->continues[out], out))
            st = mt_lchecker_refuse(c, "the running sum of %s does not stay in its place", mt_lchecker_name(c, out));
    }
    for (int k = 0; k < l->nin && !st && l->scratch >= 0; k++) st = check_disjoint(c, l->in[k], l->scratch);
    return st;
}

/* The message shares no memory with the values that are packed or unpacked; a tensor that is neither may serve as the
 * message. Where a collective may run on the tensors, or blocks are in place, all are read while all are written: an
 * output may share memory with its own input only. */
static enum mt_status check_message_memory(const struct mt_lchecker *c) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    const bool arrays =
        (l->npack && l->nunpack && mt_coll_takes_arrays(&l->problem)) || l->nin_place[0] || l->nin_place[1];
    enum mt_status st = MT_OK;
    for (int b = 0; b < 2 && !st; b++) {
        int m = l->message[b];
        if (m < 0) continue;
        if (b == 1 && l->message[0] >= 0) st = check_disjoint(c, m, l->message[0]);
        for (int k = 0; k < l->nin && !st; k++)
            if (!(l->npack == 0 && same_memory(c, m, l->in[k]))) st = check_disjoint(c, m, l->in[k]);
        for (int k = 0; k < l->nout && !st; k++)
            if (!(l->nunpack == 0 && m == l->out[k])) st = check_disjoint(c, m, l->out[k]);
    }
    for (int k = 0; k < l->nout && !st; k++)
        for (int j = 0; j < k && !st; j++) st = check_disjoint(c, l->out[k], l->out[j]);
    for (int k = 0; k < l->nout && !st && arrays; k++)
        for (int j = 0; j < l->nin && !st; j++)
            if (!(j == k && same_memory(c, l->in[j], l->out[k]))) st = check_disjoint(c, l->in[j], l->out[k]);
    return st;
}

/* ---- running ---- */

static enum mt_status run_operator(struct flow *f) {
    const struct mt_linstr *l = mt_lchecker_instr(f->c);
    enum mt_status st = check_in_place(f->c);
    for (int k = 0; k < l->nin && !st && l->kind != MT_OP_fill; k++)
        st = expect(f, l->in[k], f->content[l->in[k]], l->stream);
    for (int o = 0; o < l->nout && !st; o++) {
        int old = f->c->old[f->c->instr][o];
        if (old >= 0) st = expect(f, old, f->content[old], l->stream);
    }
    if (!st && l->scratch >= 0) st = overwrite(f, l->scratch, SCRATCH, l->stream);
    for (int o = 0; o < l->nout && !st; o++) st = define(f, l->out[o], l->stream);
    return st;
}

/* A value that is moved in parts, in place: a part overwrites only what it has sent itself, so that the others find the
 * old elements. That each part has its own elements is proven with the other ranks. */
static enum mt_status check_parts_in_place(const struct mt_lchecker *c) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    for (int i = 0; i < l->npack; i++) {
        bool back = false;
        for (int j = 0; j < l->nunpack && !back; j++)
            back = l->pack[i].data == l->unpack[j].data && l->pack_of[i] == l->unpack_of[j] &&
                   l->pack[i].naxes == l->unpack[j].naxes &&
                   !memcmp(l->pack[i].extent, l->unpack[j].extent, sizeof l->pack[i].extent);
        if (!back)
            return mt_lchecker_refuse(c, "a part of %s is overwritten by another", mt_lchecker_name(c, l->in[0]));
    }
    return MT_OK;
}

/* A part that may be packed while the part before is sent: it has the same values, of which each part has its own
 * elements; no wait in between, so that what is ordered before one is before the other; and other memory for messages.
 */
static enum mt_status check_ahead(const struct mt_lchecker *c) {
    const struct mt_linstr *l = mt_lchecker_instr(c), *before = l - 1;
    enum mt_status st = MT_OK;
    if (!l->ahead) return MT_OK;
    if (!l->chunk.part || l->nwaits) return mt_lchecker_refuse(c, "cannot overlap the instruction before it");
    for (int b = 0; b < 2; b++)
        for (int m = 0; m < 2 && !st; m++)
            if (l->message[b] >= 0 && before->message[m] >= 0)
                st = check_disjoint(c, l->message[b], before->message[m]);
    return st;
}

static enum mt_status run_collective(struct flow *f) {
    const struct mt_linstr *l = mt_lchecker_instr(f->c);
    enum mt_status st = check_message_memory(f->c);
    if (!st) st = check_ahead(f->c);
    bool in_place = l->chunk.parts > 1 && !empty(f, l->in[0]) && same_memory(f->c, l->in[0], l->out[0]);
    bool later = l->chunk.part > 0; /* the earlier parts have defined the output */
    if (!st && in_place) st = check_parts_in_place(f->c);
    for (int k = 0; k < l->nin && !st; k++)
        st = expect(f, l->in[k], f->content[in_place && later ? l->out[k] : l->in[k]], l->stream);
    for (int b = 0; b < 2 && !st; b++)
        if (l->message[b] >= 0) st = overwrite(f, l->message[b], SCRATCH, l->stream);
    for (int k = 0; k < l->nout && !st; k++)
        st = later ? overwrite(f, l->out[k], f->content[l->out[k]], l->stream) : define(f, l->out[k], l->stream);
    return st;
}

/* Waits for peers are in one order on all ranks: that of the instructions. Two kernels of a GPU that wait for peers at
 * the same time may each keep the other's from multiprocessors. */
static enum mt_status check_turns(struct flow *f) {
    const struct mt_linstr *l = mt_lchecker_instr(f->c);
    for (int s = 0; s < f->c->low->nstreams; s++) {
        if (f->known[l->stream][s] >= f->peers[s]) continue;
        const struct mt_linstr *other = &f->c->low->instrs[f->peers_instr[s]];
        return mt_lchecker_refuse(f->c, "may wait for peers while %s before it does, %s on stream %s",
                                  other->what == MT_LOWERED_OVERLAP ? "an overlapped instruction" : "a collective",
                                  other->name ? other->name : "?", mt_lowered_stream_name(s));
    }
    f->peers[l->stream] = f->now;
    f->peers_instr[l->stream] = f->c->instr;
    return MT_OK;
}

/* Its operands are read, and all of its output is written, at any time of its run. */
static enum mt_status run_overlap(struct flow *f) {
    const struct mt_linstr *l = mt_lchecker_instr(f->c);
    enum mt_status st = MT_OK;
    for (int o = 0; o < l->nout && !st; o++) {
        for (int k = 0; k < l->nin && !st; k++) st = check_disjoint(f->c, l->out[o], l->in[k]);
        for (int p = 0; p < o && !st; p++) st = check_disjoint(f->c, l->out[o], l->out[p]);
        if (!st && l->scratch >= 0) st = check_disjoint(f->c, l->out[o], l->scratch);
    }
    for (int k = 0; k < l->nin && !st && l->scratch >= 0; k++) st = check_disjoint(f->c, l->scratch, l->in[k]);
    for (int k = 0; k < l->nin && !st; k++) st = expect(f, l->in[k], f->content[l->in[k]], l->stream);
    if (!st && l->scratch >= 0) st = overwrite(f, l->scratch, SCRATCH, l->stream);
    for (int o = 0; o < l->nout && !st; o++) st = define(f, l->out[o], l->stream);
    return st;
}

static enum mt_status run_copy(struct flow *f) {
    const struct mt_linstr *l = mt_lchecker_instr(f->c);
    enum mt_status st = check_disjoint(f->c, l->in[0], l->out[0]);
    if (!st) st = expect(f, l->in[0], f->content[l->in[0]], l->stream);
    if (st || l->nsources) return st ? st : define(f, l->out[0], l->stream);
    f->kept[l->out[0]] = new_definition(f, l->in[0]);
    return overwrite(f, l->out[0], f->kept[l->out[0]], l->stream);
}

/* An alias runs nothing; its bytes are ready when those of in[0] are. */
static enum mt_status run_alias(struct flow *f) {
    const struct mt_linstr *l = mt_lchecker_instr(f->c);
    f->content[l->out[0]] = f->content[l->in[0]];
    if (empty(f, l->out[0]) || f->content[l->in[0]] != NEVER_WRITTEN) return MT_OK;
    return mt_lchecker_refuse(f->c, "%s is not made before", mt_lchecker_name(f->c, l->in[0]));
}

/* The current instruction; without `work` only its effect on the order. */
static enum mt_status run_instr(struct flow *f, bool work) {
    const struct mt_linstr *l = mt_lchecker_instr(f->c);
    if (l->kept && l->what != MT_LOWERED_OP) return mt_lchecker_refuse(f->c, "is kept, but is no operator");
    if (l->ahead && l->what != MT_LOWERED_COLLECTIVE)
        return mt_lchecker_refuse(f->c, "cannot overlap the instruction before it");
    if (l->what == MT_LOWERED_ALIAS) return work ? run_alias(f) : MT_OK;
    int64_t *known = f->known[l->stream];
    for (int w = 0; w < l->nwaits; w++)
        for (int s = 0; s < f->c->low->nstreams; s++)
            if (f->ended[l->waits[w]][s] > known[s]) known[s] = f->ended[l->waits[w]][s];
    f->now++;
    known[l->stream] = f->now; /* its own accesses are in order */
    enum mt_status st = MT_OK;
    if (work && (l->what == MT_LOWERED_COLLECTIVE || l->what == MT_LOWERED_OVERLAP)) st = check_turns(f);
    if (st) return st;
    if (work && l->what == MT_LOWERED_OP && !l->kept) st = run_operator(f);
    if (work && l->what == MT_LOWERED_COLLECTIVE) st = run_collective(f);
    if (work && l->what == MT_LOWERED_COPY) st = run_copy(f);
    if (work && l->what == MT_LOWERED_OVERLAP) st = run_overlap(f);
    memcpy(f->ended[f->c->instr], known, sizeof f->ended[0]);
    return st;
}

static enum mt_status run_block(struct flow *f, enum mt_block_kind block, bool work) {
    const int *begin = f->c->low->block_begin;
    enum mt_status st = MT_OK;
    for (int i = begin[block]; i < begin[block + 1] && !st; i++) {
        f->c->instr = i;
        st = run_instr(f, work);
    }
    return st;
}

static void barrier(struct flow *f) {
    for (int s = 0; s < f->c->low->nstreams; s++)
        for (int t = 0; t < f->c->low->nstreams; t++) f->known[s][t] = f->now;
}

static enum mt_status run_body(struct flow *f) {
    const struct mt_lowered *low = f->c->low;
    bool barriers = low->body_barrier && low->block_begin[MT_BODY] < low->block_begin[MT_LAST];
    enum mt_status st = MT_OK;
    for (int64_t i = 0; i < low->body_count && i < 2 && !st; i++) {
        if (i > 0 && barriers) barrier(f);
        st = run_block(f, MT_BODY, true);
    }
    if (low->body_count == 0) {
        st = run_block(f, MT_BODY, false);
        for (int v = 0; v < f->c->program->nvalues; v++) /* sums over no iterations */
            if (f->c->continues[v] >= 0) f->content[v] = f->content[f->c->continues[v]];
    }
    if (barriers) barrier(f);
    return st;
}

/* ---- the beginning and the end of a step ---- */

/* A value is defined when the step begins, in memory of its own. */
static enum mt_status begin_value(struct flow *f, int v) {
    f->content[v] = new_definition(f, v);
    if (empty(f, v)) return MT_OK;
    enum mt_status st = has_memory(f, v);
    if (st) return st;
    struct span span = span_of(f->c, v);
    for (int i = cell_at(f, span.begin); f->cuts[i] < span.end; i++) {
        if (f->cells[i].content != NEVER_WRITTEN)
            return mt_lchecker_refuse(f->c, "%s shares memory with %s", mt_lchecker_name(f->c, v),
                                      content_name(f, f->cells[i].content));
        f->cells[i].content = f->content[v];
    }
    return MT_OK;
}

/* States and inputs are defined when the step begins, and so is what is kept. */
static enum mt_status begin_step(struct flow *f) {
    const struct mt_lchecker *c = f->c;
    enum mt_status st = MT_OK;
    for (int i = 0; i < c->low->ninstrs && !st; i++) {
        if (!c->low->instrs[i].kept) continue;
        int v = c->low->instrs[i].out[0];
        st = begin_value(f, v);
        f->kept[v] = f->content[v];
    }
    for (int v = 0; v < c->program->nvalues && !st; v++) {
        const struct mt_pvalue *p = &c->program->values[v];
        if (!p->input) continue;
        if ((st = begin_value(f, v)) || empty(f, v)) continue;
        struct span span = span_of(c, v);
        bool state = c->program->graph->values[p->gvalue].kind == MT_VALUE_STATE;
        if (state != (span.begin < c->low->state_bytes) || (state && span.end > c->low->state_bytes))
            return mt_lchecker_refuse(c, "%s is %s the memory of states", mt_lchecker_name(c, v),
                                      state ? "outside of" : "in");
    }
    return st;
}

static enum mt_status end_step(struct flow *f) {
    const struct mt_lchecker *c = f->c;
    enum mt_status st = MT_OK;
    for (int v = 0; v < c->program->nvalues && !st; v++) {
        const struct mt_pvalue *p = &c->program->values[v];
        if (!p->input || c->program->graph->values[p->gvalue].kind != MT_VALUE_STATE) continue;
        int next = p->next >= 0 ? p->next : v;
        bool moved = c->low->values[next].offset_bytes != c->low->values[v].offset_bytes;
        if (moved && !f->kept[v] && !empty(f, v))
            return mt_lchecker_refuse(c, "the next value of %s is not copied to its memory", mt_lchecker_name(c, v));
        st = expect(f, v, moved ? f->kept[v] : f->content[next], -1);
    }
    for (int i = 0; i < c->low->ninstrs && !st; i++) {
        if (!c->low->instrs[i].kept) continue;
        int v = c->low->instrs[i].out[0];
        if (f->content[v] == f->kept[v])
            return mt_lchecker_refuse(c, "%s is kept, but no update writes it", mt_lchecker_name(c, v));
        st = expect(f, v, f->content[v], -1);
    }
    for (int g = 0; g < c->program->graph->nvalues && !st; g++)
        if (c->low->output_at[g] >= 0) st = expect(f, c->low->output_at[g], f->content[c->low->output_at[g]], -1);
    return st;
}

/* Only states use the memory of states, which another program may share. */
static enum mt_status check_state_memory(const struct flow *f) {
    const struct mt_lchecker *c = f->c;
    for (int v = 0; v < c->low->nvalues; v++) {
        struct span mine = span_of(c, v);
        bool home = mine.begin >= mine.end || mine.begin >= c->low->state_bytes;
        for (int s = 0; s < c->program->nvalues && !home; s++) {
            const struct mt_pvalue *p = &c->program->values[s];
            struct span state = span_of(c, s);
            home = p->input && c->program->graph->values[p->gvalue].kind == MT_VALUE_STATE &&
                   mine.begin >= state.begin && mine.end <= state.end;
        }
        if (!home)
            return mt_lchecker_refuse(c, "%s is in the memory of states, but within none of this program's",
                                      mt_lchecker_name(c, v));
    }
    return MT_OK;
}

enum mt_status mt_lchecker_run_flow(struct mt_lchecker *c) {
    struct flow f = {.c = c};
    c->instr = -1;
    f.ended = (int64_t(*)[MT_MOST_STREAMS])mt_new(&f.arena, int64_t, MT_MOST_STREAMS * (c->low->ninstrs + 1));
    f.content = mt_new(&f.arena, int, c->program->nvalues + 1);
    f.kept = mt_new(&f.arena, int, c->program->nvalues + 1);
    new_definition(&f, -1); /* NEVER_WRITTEN, SCRATCH */
    new_definition(&f, -1);
    cut_arena(&f);
    enum mt_status st = check_state_memory(&f);
    if (!st) st = begin_step(&f);
    if (!st) st = run_block(&f, MT_PROLOGUE, true);
    if (!st) st = run_body(&f);
    if (!st) st = run_block(&f, MT_LAST, true);
    if (!st) st = run_block(&f, MT_EPILOGUE, true);
    if (!st) {
        c->instr = -1;
        st = end_step(&f);
    }
    mt_arena_release(&f.arena);
    return st;
}
