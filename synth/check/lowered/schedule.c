/* Symbolic simulation of schedules: all members of a group run theirs to the end, on buffers of expressions instead of
 * numbers.
 *
 * An expression is a member's own contribution, an expression rounded to the wire type, or the sum of two. Expressions
 * are interned, so that equal ids are equal bits (a + b is b + a), and each has its set of contributions. Adding a
 * contribution twice is refused. Sends are rendezvous: a round ends when all its peers have reached the matching steps.
 * A group in which no member can proceed is refused as a deadlock. */
#include <stdlib.h>
#include <string.h>

#include "synth/check/lowered/internal.h"

struct mt_expr {
    enum { LEAF, ROUND, SUM } kind;
    int a, b;
    uint64_t *set; /* of members */
};

/* ---- expressions ---- */

static uint64_t expr_hash(int kind, int a, int b) {
    return ((uint64_t)(unsigned)a * 0x9e3779b97f4a7c15u ^ (uint64_t)(unsigned)b * 0xc2b2ae3d27d4eb4fu) + (uint64_t)kind;
}

static int *expr_slot(const struct mt_lrun *run, int kind, int a, int b) {
    uint64_t mask = (uint64_t)run->nslots - 1, at = expr_hash(kind, a, b);
    for (at = (at ^ at >> 29) & mask; run->slots[at]; at = (at + 1) & mask) {
        const struct mt_expr *e = &run->exprs[run->slots[at]];
        if ((int)e->kind == kind && e->a == a && e->b == b) break;
    }
    return &run->slots[at];
}

static void grow_slots(struct mt_lrun *run) {
    if (2 * (run->nexprs + 1) <= run->nslots) return;
    run->nslots = run->nslots ? 2 * run->nslots : 64;
    run->slots = mt_new(&run->arena, int, run->nslots);
    for (int e = MT_EXPR_FIRST; e < run->nexprs; e++)
        *expr_slot(run, (int)run->exprs[e].kind, run->exprs[e].a, run->exprs[e].b) = e;
}

static int intern(struct mt_lrun *run, int kind, int a, int b) {
    grow_slots(run);
    int *slot = expr_slot(run, kind, a, b);
    if (*slot) return *slot;
    *slot = run->nexprs;
    mt_arena_grow(&run->arena, &run->exprs, run->nexprs, &run->exprs_capacity, sizeof *run->exprs);
    struct mt_expr *e = &run->exprs[run->nexprs];
    *e = (struct mt_expr){.a = a, .b = b, .set = mt_new(&run->arena, uint64_t, run->words)};
    e->kind = kind;
    for (int w = 0; w < run->words && kind != LEAF; w++)
        e->set[w] = run->exprs[a].set[w] | (kind == SUM ? run->exprs[b].set[w] : 0);
    if (kind == LEAF && a >= 0) e->set[a / 64] |= (uint64_t)1 << a % 64;
    return run->nexprs++;
}

bool mt_lrun_has(const struct mt_lrun *run, int expr, int place) {
    return run->exprs[expr].set[place / 64] >> place % 64 & 1;
}

int mt_lrun_contributors(const struct mt_lrun *run, int expr) {
    int count = 0;
    for (int w = 0; w < run->words; w++) count += __builtin_popcountll(run->exprs[expr].set[w]);
    return count;
}

static int rounded(struct mt_lrun *run, int expr) {
    if (!run->rounds || expr < MT_EXPR_FIRST || run->exprs[expr].kind == ROUND) return expr;
    return intern(run, ROUND, expr, 0);
}

static bool share_members(const struct mt_lrun *run, int a, int b) {
    for (int w = 0; w < run->words; w++)
        if (run->exprs[a].set[w] & run->exprs[b].set[w]) return true;
    return false;
}

void mt_lrun_init(struct mt_lrun *run, int n, const struct mt_coll *problem) {
    *run = (struct mt_lrun){
        .n = n, .words = (n + 63) / 64, .rounds = problem->wire != problem->acc, .reduce = problem->reduce};
    run->schedule = mt_calloc((size_t)n, sizeof *run->schedule);
    run->buffer = mt_calloc((size_t)n, sizeof *run->buffer);
    for (int e = 0; e < MT_EXPR_FIRST + n; e++) intern(run, LEAF, e - MT_EXPR_FIRST, 0);
}

void mt_lrun_release(struct mt_lrun *run) {
    for (int p = 0; p < run->n; p++)
        for (int b = 0; b < 3; b++) free(run->buffer[p][b].items);
    free(run->schedule);
    free(run->buffer);
    mt_arena_release(&run->arena);
}

/* ---- buffers ---- */

static void append(struct mt_segments *s, struct mt_segment segment) {
    if (segment.lo >= segment.hi) return;
    struct mt_segment *last = s->count ? &s->items[s->count - 1] : NULL;
    if (segment.expr < MT_EXPR_FIRST) segment.shift = 0;
    if (last && last->hi == segment.lo && last->expr == segment.expr && last->shift == segment.shift) {
        last->hi = segment.hi;
        return;
    }
    if (s->count == s->capacity) {
        s->capacity = s->capacity ? 2 * s->capacity : 8;
        s->items = mt_realloc(s->items, (size_t)s->capacity * sizeof *s->items);
    }
    s->items[s->count++] = segment;
}

void mt_lrun_buffer(struct mt_lrun *run, int place, int buffer, int64_t count, int expr) {
    append(&run->buffer[place][buffer], (struct mt_segment){0, count, 0, expr});
}

/* The first segment that ends after `place`. */
static int segment_at(const struct mt_segments *s, int64_t place) {
    int lo = 0, hi = s->count;
    while (lo < hi) {
        int middle = (lo + hi) / 2;
        if (s->items[middle].hi <= place)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

/* Append places [lo, hi) of `from`, moved by `by`, to `to`. */
static void extract(const struct mt_segments *from, int64_t lo, int64_t hi, int64_t by, struct mt_segments *to) {
    for (int i = segment_at(from, lo); i < from->count && from->items[i].lo < hi; i++) {
        struct mt_segment s = from->items[i];
        s.lo = (s.lo > lo ? s.lo : lo) + by;
        s.hi = (s.hi < hi ? s.hi : hi) + by;
        s.shift -= by;
        append(to, s);
    }
}

/* Replace [lo, hi) by `piece`, which covers it without gaps. The neighbours may merge with it. */
static void replace(struct mt_segments *in, int64_t lo, int64_t hi, const struct mt_segments *piece) {
    int first = segment_at(in, lo), last = segment_at(in, hi - 1) + 1; /* segments [first, last) change */
    if (first > 0) first--;
    if (last < in->count) last++;
    if (last > in->count) last = in->count;
    struct mt_segments middle = {0};
    int64_t begin = first < in->count ? in->items[first].lo : lo, end = last > 0 ? in->items[last - 1].hi : hi;
    extract(in, begin, lo, 0, &middle);
    for (int i = 0; i < piece->count; i++) append(&middle, piece->items[i]);
    extract(in, hi, end, 0, &middle);
    int after = in->count - last, count = first + middle.count + after;
    if (count > in->capacity) {
        in->capacity = 2 * count;
        in->items = mt_realloc(in->items, (size_t)in->capacity * sizeof *in->items);
    }
    memmove(in->items + first + middle.count, in->items + last, (size_t)after * sizeof *in->items);
    memcpy(in->items + first, middle.items, (size_t)middle.count * sizeof *in->items);
    in->count = count;
    free(middle.items);
}

void mt_lrun_set(struct mt_lrun *run, int place, int buffer, int64_t lo, int64_t hi, int expr) {
    struct mt_segments one = {0};
    append(&one, (struct mt_segment){lo, hi, 0, expr});
    replace(&run->buffer[place][buffer], lo, hi, &one);
    free(one.items);
}

static int64_t size_of(const struct mt_segments *s) {
    return s->count ? s->items[s->count - 1].hi : 0;
}

/* ---- simulation ---- */

struct transfer {
    struct transfer *next;
    int64_t count;
    struct mt_segments content; /* from place 0 */
};
struct lane {          /* from one member to another */
    int sent, awaited; /* sends and receives that have begun */
    struct transfer *first, *last;
};

struct simulation {
    struct mt_lrun *run;
    const struct mt_lchecker *c;
    struct lane *lanes; /* [from * n + to] */
    int *round;         /* [n]: the round that a member is in */
    int place;          /* the current member */
};

static struct lane *lane(const struct simulation *p, int from, int to) {
    return &p->lanes[(int64_t)from * p->run->n + to];
}

static int steps_begin(const struct simulation *p, int place) {
    return p->round[place] ? p->run->schedule[place]->round_end[p->round[place] - 1] : 0;
}

static int steps_end(const struct simulation *p, int place) {
    return p->run->schedule[place]->round_end[p->round[place]];
}

static bool done(const struct simulation *p, int place) {
    return !p->run->schedule[place] || p->round[place] >= p->run->schedule[place]->nrounds;
}

static bool communicates(const struct mt_step *step) {
    return step->kind == MT_STEP_SEND || step->kind == MT_STEP_RECV || step->kind == MT_STEP_REDUCE;
}

static enum mt_status refuse(const struct simulation *p, const char *why, int peer) {
    return mt_lchecker_refuse(p->c, "member %d of the group, round %d: %s %d", p->place, p->round[p->place], why, peer);
}

static bool inside(const struct simulation *p, int buffer, int64_t offset, int64_t count) {
    return buffer >= 0 && buffer < 3 && offset >= 0 && count > 0 &&
           offset <= size_of(&p->run->buffer[p->place][buffer]) - count;
}

static enum mt_status check_step(const struct simulation *p, const struct mt_step *step) {
    if (!inside(p, step->buffer, step->offset, step->count)) return refuse(p, "a step leaves buffer", step->buffer);
    if (communicates(step) && (step->peer < 0 || step->peer >= p->run->n || step->peer == p->place))
        return refuse(p, "there is no peer", step->peer);
    if ((step->kind == MT_STEP_COPY || step->kind == MT_STEP_ADD) && !inside(p, step->to_buffer, step->to, step->count))
        return refuse(p, "a step leaves buffer", step->to_buffer);
    if ((step->kind == MT_STEP_REDUCE || step->kind == MT_STEP_ADD) && p->run->reduce == MT_REDUCE_NONE)
        return refuse(p, "it reduces, but has no reduction; buffer", step->buffer);
    return MT_OK;
}

/* A round begins: it sends the present contents of buffers. */
static enum mt_status begin_round(struct simulation *p, int place) {
    p->place = place;
    if (done(p, place)) return MT_OK;
    for (int i = steps_begin(p, place); i < steps_end(p, place); i++) {
        const struct mt_step *step = &p->run->schedule[place]->steps[i];
        enum mt_status st = check_step(p, step);
        if (st) return st;
        if (step->kind == MT_STEP_RECV || step->kind == MT_STEP_REDUCE) lane(p, step->peer, place)->awaited++;
        if (step->kind != MT_STEP_SEND) continue;
        struct lane *out = lane(p, place, step->peer);
        struct transfer *transfer = mt_calloc(1, sizeof *transfer);
        transfer->count = step->count;
        extract(&p->run->buffer[place][step->buffer], step->offset, step->offset + step->count, -step->offset,
                &transfer->content);
        for (int s = 0; s < transfer->content.count; s++)
            transfer->content.items[s].expr = rounded(p->run, transfer->content.items[s].expr);
        if (out->last)
            out->last->next = transfer;
        else
            out->first = transfer;
        out->last = transfer;
        out->sent++;
    }
    return MT_OK;
}

/* Whether all peers of the member's round have reached the matching steps. */
static bool may_end(const struct simulation *p, int place) {
    for (int i = steps_begin(p, place); i < steps_end(p, place); i++) {
        const struct mt_step *step = &p->run->schedule[place]->steps[i];
        if (!communicates(step)) continue;
        const struct lane *l = step->kind == MT_STEP_SEND ? lane(p, place, step->peer) : lane(p, step->peer, place);
        if (step->kind == MT_STEP_SEND ? l->sent > l->awaited : l->awaited > l->sent) return false;
    }
    return true;
}

/* The sum of `a` and `b` at one range of places. */
static enum mt_status sum(struct simulation *p, struct mt_segment a, struct mt_segment b, struct mt_segment *out) {
    *out = a;
    if (a.expr == MT_EXPR_GARBAGE || b.expr == MT_EXPR_GARBAGE) {
        out->expr = MT_EXPR_GARBAGE;
        return MT_OK;
    }
    if (a.expr != MT_EXPR_NEUTRAL && b.expr != MT_EXPR_NEUTRAL && a.shift != b.shift)
        return refuse(p, "different elements are added up in buffer", 0);
    if (share_members(p->run, a.expr, b.expr)) return refuse(p, "a contribution is counted twice in buffer", 0);
    if (a.expr == MT_EXPR_NEUTRAL) out->shift = b.shift;
    out->expr = a.expr < b.expr ? intern(p->run, SUM, a.expr, b.expr) : intern(p->run, SUM, b.expr, a.expr);
    return MT_OK;
}

/* Overwrite `count` places of a buffer from `to` on with `content`, or add it. */
static enum mt_status put(struct simulation *p, int buffer, int64_t to, int64_t count,
                          const struct mt_segments *content, bool add) {
    struct mt_segments *target = &p->run->buffer[p->place][buffer], mine = {0}, result = {0};
    enum mt_status st = MT_OK;
    extract(target, to, to + count, 0, &mine);
    for (int i = 0, j = 0; i < mine.count && j < content->count && !st;) {
        struct mt_segment a = mine.items[i], b = content->items[j], both;
        int64_t lo = a.lo > b.lo ? a.lo : b.lo, hi = a.hi < b.hi ? a.hi : b.hi;
        both = b;
        if (add) st = sum(p, a, b, &both);
        both.lo = lo, both.hi = hi;
        append(&result, both);
        i += a.hi == hi;
        j += b.hi == hi;
    }
    if (!st) replace(target, to, to + count, &result);
    free(mine.items);
    free(result.items);
    return st;
}

static enum mt_status receive(struct simulation *p, const struct mt_step *step) {
    struct lane *in = lane(p, step->peer, p->place);
    struct transfer *transfer = in->first;
    struct mt_segments content = {0};
    if (transfer->count != step->count) return refuse(p, "it expects another count than is sent by", step->peer);
    in->first = transfer->next;
    if (!in->first) in->last = NULL;
    extract(&transfer->content, 0, transfer->count, step->offset, &content);
    enum mt_status st = put(p, step->buffer, step->offset, step->count, &content, step->kind == MT_STEP_REDUCE);
    free(content.items);
    free(transfer->content.items);
    free(transfer);
    return st;
}

static enum mt_status do_step(struct simulation *p, const struct mt_step *step) {
    struct mt_segments content = {0};
    const struct mt_segments *from = &p->run->buffer[p->place][step->buffer];
    enum mt_status st = MT_OK;
    switch (step->kind) {
    case MT_STEP_SEND: break;
    case MT_STEP_RECV:
    case MT_STEP_REDUCE: return receive(p, step);
    case MT_STEP_COPY:
    case MT_STEP_ADD:
        extract(from, step->offset, step->offset + step->count, step->to - step->offset, &content);
        st = put(p, step->to_buffer, step->to, step->count, &content, step->kind == MT_STEP_ADD);
        break;
    case MT_STEP_ROUND:
        extract(from, step->offset, step->offset + step->count, 0, &content);
        for (int i = 0; i < content.count; i++) content.items[i].expr = rounded(p->run, content.items[i].expr);
        st = put(p, step->buffer, step->offset, step->count, &content, false);
        break;
    default: st = refuse(p, "there is no such step:", (int)step->kind);
    }
    free(content.items);
    return st;
}

static enum mt_status end_round(struct simulation *p, int place) {
    p->place = place;
    enum mt_status st = MT_OK;
    for (int i = steps_begin(p, place); i < steps_end(p, place) && !st; i++)
        st = do_step(p, &p->run->schedule[place]->steps[i]);
    if (st) return st;
    p->round[place]++;
    return begin_round(p, place);
}

static enum mt_status simulate(struct simulation *p) {
    enum mt_status st = MT_OK;
    for (int m = 0; m < p->run->n && !st; m++) st = begin_round(p, m);
    for (bool moved = true; moved && !st;) {
        moved = false;
        for (int m = 0; m < p->run->n && !st; m++) {
            if (done(p, m) || !may_end(p, m)) continue;
            moved = true;
            st = end_round(p, m);
        }
    }
    for (p->place = 0; p->place < p->run->n && !st; p->place++)
        if (!done(p, p->place)) return refuse(p, "it waits for ever: a deadlock in a group of", p->run->n);
    for (int i = 0; i < p->run->n * p->run->n && !st; i++)
        if (p->lanes[i].first) return mt_lchecker_refuse(p->c, "something is sent that no member receives");
    return st;
}

/* Rounds are in order and within the steps. */
static enum mt_status check_rounds(struct mt_lrun *run, const struct mt_lchecker *c) {
    for (int m = 0; m < run->n; m++) {
        const struct mt_schedule *s = run->schedule[m];
        if (!s) continue;
        int at = 0;
        for (int r = 0; r < s->nrounds; r++) {
            if (s->round_end[r] < at || s->round_end[r] > s->nsteps) return mt_lchecker_refuse(c, "its rounds overlap");
            at = s->round_end[r];
        }
        if (s->scratch_count < 0) return mt_lchecker_refuse(c, "its scratch is negative");
        mt_lrun_buffer(run, m, 2, s->scratch_count, MT_EXPR_GARBAGE);
    }
    return MT_OK;
}

enum mt_status mt_lrun_schedules(struct mt_lrun *run, const struct mt_lchecker *c) {
    enum mt_status st = check_rounds(run, c);
    if (st) return st;
    struct simulation p = {.run = run, .c = c};
    p.lanes = mt_calloc((size_t)run->n * (size_t)run->n, sizeof *p.lanes);
    p.round = mt_calloc((size_t)run->n, sizeof *p.round);
    st = simulate(&p);
    for (int i = 0; i < run->n * run->n; i++)
        for (struct transfer *next, *transfer = p.lanes[i].first; transfer; transfer = next) {
            next = transfer->next;
            free(transfer->content.items);
            free(transfer);
        }
    free(p.lanes);
    free(p.round);
    return st;
}
