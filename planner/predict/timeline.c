/* Recording a simulated step: spans as they end, and the live bytes of the arena. A value is live from the start of the
 * first instruction that uses it to the end of the last; one that only the body uses, in each iteration. Values share
 * bytes, so live bytes are those of the union: each address range between two ends of values counts how many live
 * values it has. O(uses * ranges) at worst; values of a layer are near each other. */
#include "planner/predict/record.h"

#include <math.h>
#include <stdlib.h>

const char *const mt_span_names[MT_NSPANS] = {
    [MT_SPAN_COMPUTE] = "computing",
    [MT_SPAN_PACK] = "packing",
    [MT_SPAN_TRANSFER] = "transfer",
    [MT_SPAN_UNPACK] = "unpacking",
    [MT_SPAN_WAIT] = "waiting for another stream",
    [MT_SPAN_RENDEZVOUS] = "waiting for other ranks",
    [MT_SPAN_YIELD] = "waiting for multiprocessors",
};

struct lifetime {
    int64_t from_bytes, to_bytes;
    int64_t uses, begun, ended; /* uses: in the scope, after which counting begins again */
    int from, to;               /* ranges */
};
struct recorded_actor {
    int ninstrs, nvalues;
    int *first_use, *value_of; /* uses of instr i: value_of[first_use[i] .. first_use[i + 1]) */
    struct lifetime *values;
    int nranges;
    int64_t *range_bytes; /* [nranges] */
    int *live;            /* [nranges] */
    int64_t live_bytes;
};
struct mt_recording {
    struct recorded_actor *actors;
    int nactors;
};

void mt_recording_begin(struct mt_timeline *t, int nranks) {
    *t = (struct mt_timeline){.nranks = nranks};
    t->classes = mt_new(&t->arena, struct mt_timeline_class, nranks);
    t->class_of = mt_new(&t->arena, int, nranks);
    t->recording = mt_new(&t->arena, struct mt_recording, 1);
    t->recording->actors = mt_new(&t->arena, struct recorded_actor, nranks);
}

/* As lowering names it, which in a sketch does without. */
static const char *message_name(struct mt_timeline *t, const struct mt_linstr *c, const char *name) {
    name = mt_arena_printf(&t->arena, c->nin > 1 ? "%s %s + %d" : "%s %s", mt_coll_name(c->problem.kind), name,
                           c->nin - 1);
    if (c->chunk.parts <= 1) return name;
    return mt_arena_printf(&t->arena, "%s, part %d of %d", name, c->chunk.part + 1, c->chunk.parts);
}

/* Gradients are summed in the backward pass. */
static int role_of(const struct mt_lowered *low, const struct mt_linstr *c, enum mt_block_kind block) {
    if (c->what != MT_LOWERED_OP) return -1;
    const struct mt_instr *source = c->nsources ? &low->program->blocks[block].instrs[c->sources[0]] : NULL;
    if (!source || source->kind != MT_INSTR_OP) return MT_ROLE_BACKWARD;
    return (int)low->program->graph->ops[source->gop].role;
}

static void copy_names(struct mt_timeline *t, struct mt_timeline_class *class, const struct mt_lowered *low) {
    enum mt_block_kind block = MT_PROLOGUE;
    class->names = mt_new(&t->arena, const char *, low->ninstrs + 1);
    class->roles = mt_new(&t->arena, int, low->ninstrs + 1);
    for (int i = 0; i < low->ninstrs; i++) {
        const struct mt_linstr *c = &low->instrs[i];
        const char *name = c->name ? c->name : "";
        while (i >= low->block_begin[block + 1]) block++;
        class->roles[i] = role_of(low, c, block);
        if (c->what == MT_LOWERED_COLLECTIVE) name = message_name(t, c, name);
        class->names[i] = mt_arena_strdup(&t->arena, name);
    }
}

/* The lifetime that a value counts to: that of the whole that it is a part of. */
static void find_wholes(const struct mt_lowered *low, int *whole) {
    for (int v = 0; v < low->nvalues; v++) whole[v] = v;
    for (int i = 0; i < low->ninstrs; i++)
        if (low->instrs[i].what == MT_LOWERED_ALIAS) whole[low->instrs[i].out[0]] = whole[low->instrs[i].in[0]];
}

/* The lifetimes that an instruction uses, each once, to list; returns how many. */
static int uses_of(const struct mt_linstr *c, const struct recorded_actor *a, const int *whole, int *list, int *seen,
                   int mark) {
    bool op = c->what == MT_LOWERED_OP || c->what == MT_LOWERED_OVERLAP;
    int n = 0, more[] = {op ? c->scratch : -1, op ? -1 : c->message[0], op ? -1 : c->message[1]};
    if (c->what == MT_LOWERED_ALIAS) return 0;
    for (int k = 0; k < c->nin + c->nout + 3; k++) {
        int v = k < c->nin ? c->in[k] : k < c->nin + c->nout ? c->out[k - c->nin] : more[k - c->nin - c->nout];
        if (v < 0 || seen[whole[v]] == mark || a->values[whole[v]].to_bytes <= a->values[whole[v]].from_bytes) continue;
        seen[whole[v]] = mark;
        list[n++] = whole[v];
    }
    return n;
}

/* Whose scope is the step, not an iteration: used outside of the body, or fed for all iterations together. */
static void find_outside(const struct mt_lowered *low, const struct recorded_actor *a, const int *whole,
                         bool *outside) {
    for (int i = 0; i < low->ninstrs; i++)
        for (int k = a->first_use[i]; k < a->first_use[i + 1]; k++)
            outside[a->value_of[k]] |= i < low->block_begin[MT_BODY] || i >= low->block_begin[MT_BODY + 1];
    for (int i = 0; i < low->ninputs; i++) outside[whole[low->inputs[i].value]] = true;
}

static void list_uses(struct mt_timeline *t, struct recorded_actor *a, const struct mt_lowered *low, const int *whole) {
    int *seen = mt_malloc(((size_t)low->nvalues + 1) * sizeof *seen), total = 0;
    bool *outside = mt_calloc((size_t)low->nvalues + 1, sizeof *outside);
    for (int i = 0; i < low->ninstrs; i++) total += low->instrs[i].nin + low->instrs[i].nout + 3;
    for (int v = 0; v < low->nvalues; v++) seen[v] = -1;
    a->first_use = mt_new(&t->arena, int, low->ninstrs + 1);
    a->value_of = mt_new(&t->arena, int, total + 1);
    for (int i = 0; i < low->ninstrs; i++)
        a->first_use[i + 1] =
            a->first_use[i] + uses_of(&low->instrs[i], a, whole, a->value_of + a->first_use[i], seen, i);
    find_outside(low, a, whole, outside);
    for (int i = 0; i < low->ninstrs; i++)
        for (int k = a->first_use[i]; k < a->first_use[i + 1]; k++) {
            bool body = i >= low->block_begin[MT_BODY] && i < low->block_begin[MT_BODY + 1];
            a->values[a->value_of[k]].uses += body && outside[a->value_of[k]] ? low->body_count : 1;
        }
    free(seen), free(outside);
}

static int by_bytes(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int range_at(const int64_t *ends, int n, int64_t bytes) {
    const int64_t *at = bsearch(&bytes, ends, (size_t)n, sizeof *ends, by_bytes);
    return (int)(at - ends);
}

static void make_ranges(struct mt_timeline *t, struct recorded_actor *a) {
    int64_t *ends = mt_malloc((2 * (size_t)a->nvalues + 1) * sizeof *ends);
    int n = 0, kept = 0;
    for (int v = 0; v < a->nvalues; v++)
        if (a->values[v].to_bytes > a->values[v].from_bytes)
            ends[n++] = a->values[v].from_bytes, ends[n++] = a->values[v].to_bytes;
    qsort(ends, (size_t)n, sizeof *ends, by_bytes);
    for (int i = 0; i < n; i++)
        if (!i || ends[i] != ends[kept - 1]) ends[kept++] = ends[i];
    a->nranges = kept > 1 ? kept - 1 : 0;
    a->range_bytes = mt_new(&t->arena, int64_t, kept + 1);
    a->live = mt_new(&t->arena, int, kept + 1);
    for (int i = 0; i + 1 < kept; i++) a->range_bytes[i] = ends[i + 1] - ends[i];
    for (int v = 0; v < a->nvalues; v++) {
        struct lifetime *l = &a->values[v];
        if (l->to_bytes <= l->from_bytes) continue;
        l->from = range_at(ends, kept, l->from_bytes), l->to = range_at(ends, kept, l->to_bytes);
    }
    free(ends);
}

static void add_live(struct recorded_actor *a, const struct lifetime *l, int add) {
    for (int i = l->from; i < l->to; i++) {
        bool before = a->live[i] > 0;
        a->live[i] += add;
        if (before != (a->live[i] > 0)) a->live_bytes += add > 0 ? a->range_bytes[i] : -a->range_bytes[i];
    }
}

static void note_live(struct mt_timeline *t, int actor, double now_s) {
    struct mt_timeline_class *class = &t->classes[actor];
    int64_t bytes = t->recording->actors[actor].live_bytes;
    if (bytes > class->most_live_bytes) class->most_live_bytes = bytes;
    if (class->nmemory && class->memory[class->nmemory - 1].bytes == bytes) return;
    mt_arena_grow(&t->arena, &class->memory, class->nmemory, &class->memory_capacity, sizeof *class->memory);
    class->memory[class->nmemory++] = (struct mt_live){now_s, bytes};
}

void mt_recording_actor(struct mt_timeline *t, const struct mt_lowered *low) {
    int actor = t->recording->nactors++;
    struct recorded_actor *a = &t->recording->actors[actor];
    struct mt_timeline_class *class = &t->classes[actor];
    *class = (struct mt_timeline_class){
        .state_bytes = low->state_bytes, .arena_bytes = low->arena_bytes, .ninstrs = low->ninstrs};
    t->nclasses = t->recording->nactors;
    t->nstreams = low->nstreams;
    copy_names(t, class, low);
    *a = (struct recorded_actor){.ninstrs = low->ninstrs, .nvalues = low->nvalues + 1};
    a->values = mt_new(&t->arena, struct lifetime, low->nvalues + 1);
    for (int v = 0; v < low->nvalues; v++)
        if (low->values[v].offset_bytes >= low->state_bytes)
            a->values[v] = (struct lifetime){.from_bytes = low->values[v].offset_bytes,
                                             .to_bytes = low->values[v].offset_bytes + low->values[v].size_bytes};
    a->values[low->nvalues] = (struct lifetime){.to_bytes = low->state_bytes};
    int *whole = mt_malloc(((size_t)low->nvalues + 1) * sizeof *whole);
    find_wholes(low, whole);
    list_uses(t, a, low, whole);
    make_ranges(t, a);
    for (int i = 0; i < low->ninputs; i++) { /* fed before the step; the last use ends it */
        struct lifetime *l = &a->values[whole[low->inputs[i].value]];
        if (l->uses && !l->begun) l->begun = 1, add_live(a, l, 1);
    }
    add_live(a, &a->values[low->nvalues], 1);
    free(whole);
}

void mt_recording_ranks(struct mt_timeline *t, const int *actor_of) {
    for (int r = 0; r < t->nranks; r++) t->classes[t->class_of[r] = actor_of[r]].nranks++;
    for (int c = 0; c < t->nclasses; c++) {
        t->classes[c].ranks = mt_new(&t->arena, int, t->classes[c].nranks);
        t->classes[c].nranks = 0;
    }
    for (int r = 0; r < t->nranks; r++) {
        struct mt_timeline_class *class = &t->classes[t->class_of[r]];
        class->ranks[class->nranks++] = r;
    }
}

void mt_recording_span(struct mt_timeline *t, int actor, struct mt_span span) {
    struct mt_timeline_class *class = &t->classes[actor];
    mt_arena_grow(&t->arena, &class->spans, class->nspans, &class->spans_capacity, sizeof *class->spans);
    class->spans[class->nspans++] = span;
}

void mt_recording_touch(struct mt_timeline *t, int actor, int instr, bool ends, double now_s) {
    struct recorded_actor *a = &t->recording->actors[actor];
    if (!t->classes[actor].nmemory) note_live(t, actor, now_s);
    for (int k = a->first_use[instr]; k < a->first_use[instr + 1]; k++) {
        struct lifetime *l = &a->values[a->value_of[k]];
        if (l->to_bytes <= l->from_bytes) continue;
        if (!ends && !l->begun++) add_live(a, l, 1);
        if (ends && ++l->ended == l->uses) {
            add_live(a, l, -1);
            l->begun = l->ended = 0;
        }
    }
    note_live(t, actor, now_s);
}

void mt_recording_end(struct mt_timeline *t, double begin_s, double end_s) {
    t->step_s = end_s - begin_s;
    for (int c = 0; c < t->nclasses; c++) {
        struct mt_timeline_class *class = &t->classes[c];
        for (int i = 0; i < class->nspans; i++) {
            class->spans[i].start_s -= begin_s, class->spans[i].end_s -= begin_s;
            t->first_s = fmin(t->first_s, class->spans[i].start_s);
        }
        for (int i = 0; i < class->nmemory; i++) class->memory[i].at_s -= begin_s;
    }
}

void mt_timeline_release(struct mt_timeline *timeline) {
    mt_arena_release(&timeline->arena);
    *timeline = (struct mt_timeline){0};
}
