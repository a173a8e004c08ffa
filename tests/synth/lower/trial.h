/* Whether a lowered program is right in itself: by the order that streams, waits and barriers give, every read finds
 * what its maker wrote, with nobody else's bytes in between. All pairs of instructions are tried, with two iterations
 * of the body written out, and without any of the lowering's own means. */
#ifndef MT_TESTS_SYNTH_LOWER_TRIAL_H
#define MT_TESTS_SYNTH_LOWER_TRIAL_H

#include "synth/lower/lower.h"
#include "tests/check.h"
#include "tests/synth/random_program.h"

/* One run of one instruction; the last event is the end of the step. */
struct event {
    int instr, copy; /* copy: the iteration of BODY that it copies, 0 or 1 */
    bool work;
};

struct trial {
    const struct mt_lowered *low;
    struct event *events;
    int nevents;
    uint64_t *before; /* [nevents][words]: the events that end before it starts */
    int words;
    int *sum_of, *base_of; /* [pvalues]: what BODY's ACCUMULATE makes of an accumulator, and the reverse; or -1 */
    bool *kept;            /* [pvalues]: there at the start, as the step before left it */
    char why[256];
};

static inline bool is_before(const struct trial *t, int a, int b) {
    return a < 0 || (t->before[(size_t)b * (size_t)t->words + (size_t)a / 64] >> (a % 64) & 1);
}

static inline void add_before(struct trial *t, int a, int b) {
    uint64_t *to = t->before + (size_t)b * (size_t)t->words, *from = t->before + (size_t)a * (size_t)t->words;
    for (int w = 0; w < t->words; w++) to[w] |= from[w];
    to[a / 64] |= (uint64_t)1 << (a % 64);
}

static inline enum mt_block_kind block_of(const struct mt_lowered *low, int instr) {
    int b = 0;
    while (instr >= low->block_begin[b + 1]) b++;
    return (enum mt_block_kind)b;
}

static inline void list_events(struct trial *t) {
    const struct mt_lowered *low = t->low;
    t->events = calloc((size_t)(2 * low->ninstrs + 1), sizeof *t->events);
    t->nevents = 0;
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int copy = 0; copy < (b == MT_BODY && low->body_count > 0 ? 2 : 1); copy++)
            for (int i = low->block_begin[b]; i < low->block_begin[b + 1]; i++)
                t->events[t->nevents++] =
                    (struct event){i, copy, (b != MT_BODY || low->body_count > 0) && !low->instrs[i].kept};
    t->events[t->nevents++] = (struct event){.instr = -1, .work = true};
    t->sum_of = malloc((size_t)low->program->nvalues * sizeof(int));
    t->base_of = malloc((size_t)low->program->nvalues * sizeof(int));
    for (int v = 0; v < low->program->nvalues; v++) t->sum_of[v] = t->base_of[v] = -1;
    for (int i = 0; i < low->program->blocks[MT_BODY].ninstrs; i++) {
        const struct mt_instr *c = &low->program->blocks[MT_BODY].instrs[i];
        if (c->kind == MT_INSTR_ACCUMULATE) t->sum_of[c->in[0]] = c->out[0], t->base_of[c->out[0]] = c->in[0];
    }
    t->kept = calloc((size_t)low->program->nvalues, sizeof *t->kept);
    for (int i = 0; i < low->ninstrs; i++)
        if (low->instrs[i].kept) t->kept[low->instrs[i].out[0]] = true;
    t->words = (t->nevents + 63) / 64;
    t->before = calloc((size_t)t->nevents * (size_t)t->words, sizeof *t->before);
}

/* Whether the barrier of BODY stands between two events. */
static inline bool fenced(const struct trial *t, int a, int e) {
    const struct mt_lowered *low = t->low;
    int last = low->block_begin[MT_LAST], first = t->events[a].instr, second = t->events[e].instr;
    bool next =
        second < last && second >= low->block_begin[MT_BODY] && t->events[e].copy == 1 && t->events[a].copy == 0;
    return low->body_barrier && first < last && (second >= last || next);
}

static inline bool waits_for(const struct mt_linstr *c, int instr) {
    bool waits = false;
    for (int w = 0; w < c->nwaits; w++) waits |= c->waits[w] == instr;
    return waits;
}

/* The three rules of lower.h, and the end of the step after everything. */
static inline void order_events(struct trial *t) {
    const struct mt_lowered *low = t->low;
    int end = t->nevents - 1;
    for (int e = 0; e < t->nevents; e++)
        for (int a = 0; a < e; a++) {
            const struct mt_linstr *first = &low->instrs[t->events[a].instr];
            if (e < end && first->what == MT_LOWERED_ALIAS) continue;
            if (e < end && low->instrs[t->events[e].instr].what == MT_LOWERED_ALIAS) continue;
            if (e == end || fenced(t, a, e) || waits_for(&low->instrs[t->events[e].instr], t->events[a].instr) ||
                low->instrs[t->events[e].instr].stream == first->stream)
                add_before(t, a, e);
        }
}

/* Where a program value comes from at event `e`: the event that made it, -1 for what was there at the start, -2 if it
 * was not made. Accumulators hold their sums so far. */
static inline int maker(const struct trial *t, int value, int e) {
    const struct mt_lowered *low = t->low;
    for (int a = e - 1; a >= 0; a--) {
        if (!t->events[a].work) continue;
        const struct mt_linstr *c = &low->instrs[t->events[a].instr];
        for (int o = 0; o < c->nout; o++)
            if (c->out[o] == value || c->out[o] == t->sum_of[value])
                return c->what == MT_LOWERED_ALIAS ? maker(t, c->in[0], a) : a;
    }
    if (t->base_of[value] >= 0) return maker(t, t->base_of[value], e);
    return low->program->values[value].input || t->kept[value] ? -1 : -2;
}

static inline bool overlap(const struct mt_lowered *low, int a, int b) {
    const struct mt_lvalue *x = &low->values[a], *y = &low->values[b];
    return x->size_bytes > 0 && y->size_bytes > 0 && x->offset_bytes < y->offset_bytes + y->size_bytes &&
           y->offset_bytes < x->offset_bytes + x->size_bytes;
}

/* What an instruction writes. */
static inline int written(const struct mt_linstr *c, int *values) {
    int n = 0;
    for (int o = 0; o < c->nout; o++) values[n++] = c->out[o];
    for (int b = 0; b < 2; b++)
        if (c->message[b] >= 0) values[n++] = c->message[b];
    if (c->scratch >= 0) values[n++] = c->scratch;
    return n;
}

/* Whether instruction c, reading its own input `in`, may write over it as `value`. */
static inline bool in_place(const struct mt_lowered *low, const struct mt_linstr *c, int in, int value) {
    if (low->values[in].offset_bytes != low->values[value].offset_bytes) return false;
    if (c->what == MT_LOWERED_COLLECTIVE) return true;
    for (int o = 0; o < c->nout; o++) {
        int place = c->what == MT_LOWERED_OP ? mt_op_info[c->kind].in_place[o] : -1;
        if (c->out[o] == value && (c->kind == MT_OP_fill || (place >= 0 && place < c->nin && c->in[place] == in)))
            return true;
    }
    return false;
}

static inline bool wrong(struct trial *t, int e, int value, const char *why) {
    const struct mt_program *p = t->low->program;
    int i = t->events[e].instr;
    snprintf(t->why, sizeof t->why, "rank %d, instruction %d (%s), %s: %s", t->low->rank, i,
             i < 0 ? "end" : t->low->instrs[i].name, p->graph->values[p->values[value].gvalue].name, why);
    return false;
}

/* Event e reads `value`: its maker is before, and all other writers of its bytes are before that or after this. */
static inline bool check_read(struct trial *t, int e, int value) {
    const struct mt_lowered *low = t->low;
    int by = maker(t, value, e), values[32];
    if (by == -2) return wrong(t, e, value, "is read but was not made");
    if (!is_before(t, by, e)) return wrong(t, e, value, "may be read before it is made");
    for (int w = 0; w < t->nevents - 1; w++) {
        const struct mt_linstr *c = &low->instrs[t->events[w].instr];
        if (w == by || !t->events[w].work || c->what == MT_LOWERED_ALIAS) continue;
        int n = written(c, values);
        for (int k = 0; k < n; k++) {
            if (!overlap(low, value, values[k])) continue;
            if (w == e ? in_place(low, c, value, values[k]) : is_before(t, e, w) || (by >= 0 && is_before(t, w, by)))
                continue;
            return wrong(t, e, value, "may be written over before it is read");
        }
    }
    return true;
}

static inline bool check_end(struct trial *t) {
    const struct mt_lowered *low = t->low;
    const struct mt_program *p = low->program;
    int end = t->nevents - 1;
    for (int v = 0; v < p->nvalues; v++) {
        if (!p->values[v].input || p->graph->values[p->values[v].gvalue].kind != MT_VALUE_STATE) continue;
        int next = p->values[v].next >= 0 ? p->values[v].next : v;
        bool there = low->values[next].offset_bytes == low->values[v].offset_bytes;
        bool copied = maker(t, v, end) >= 0; /* a copy of the next value into the state's place */
        if (!there && !copied) return wrong(t, end, v, "its next value is elsewhere");
        if (!check_read(t, end, copied ? v : next)) return false;
    }
    for (int v = 0; v < p->nvalues; v++) { /* the cast of the state's next value, by what makes that */
        if (!t->kept[v]) continue;
        int by = maker(t, v, end);
        const struct mt_linstr *update = by >= 0 ? &low->instrs[t->events[by].instr] : NULL;
        const struct mt_op *cast = &p->graph->ops[p->graph->values[p->values[v].gvalue].producer];
        if (!update || update->kind != MT_OP_adamw || update->out[0] != p->values[low->state_at[cast->in[0]]].next)
            return wrong(t, end, v, "is not the cast of the next value");
        if (!check_read(t, end, v)) return false;
    }
    for (int g = 0; g < p->graph->nvalues; g++)
        if (low->output_at[g] >= 0 && !check_read(t, end, low->output_at[g])) return false;
    return true;
}

static inline bool lowered_is_right(const struct mt_lowered *low, struct trial *t) {
    *t = (struct trial){.low = low};
    list_events(t);
    order_events(t);
    bool right = true;
    for (int e = 0; e < t->nevents - 1 && right; e++) {
        const struct mt_linstr *c = &low->instrs[t->events[e].instr];
        bool fill = c->what == MT_LOWERED_OP && c->kind == MT_OP_fill;
        if (!t->events[e].work || c->what == MT_LOWERED_ALIAS || fill) continue;
        for (int i = 0; i < c->nin && right; i++) right = check_read(t, e, c->in[i]);
        for (int o = 0; o < c->nout && right; o++)
            if (low->values[c->out[o]].offset_bytes + low->values[c->out[o]].size_bytes > low->arena_bytes)
                right = wrong(t, e, c->out[o], "lies outside of the arena");
    }
    right = right && check_end(t);
    free(t->events);
    free(t->before);
    free(t->sum_of);
    free(t->base_of);
    free(t->kept);
    return right;
}

static inline int64_t some_scratch(void *context, const struct mt_call *call) {
    (void)context;
    return 100 + 10 * (int64_t)call->kind;
}

/* copy_streams: 0, 1 or 3 */
static inline struct mt_lowered *lower(const struct mt_program *p, int rank, bool fuse, int copy_streams) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_lowered *low;
    struct mt_lower_options options = {.fuse = fuse,
                                       .copy_streams = copy_streams,
                                       .latency_s = 1e-5,
                                       .bandwidth_Bps = 1e9,
                                       .scratch_bytes = some_scratch};
    CHECK_OK(mt_lower(p, rank, &options, &low, &err), err);
    CHECK_EQ(low->nstreams, 2 + copy_streams);
    return low;
}

#endif
