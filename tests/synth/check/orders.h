/* An interpreter of overlapped schedules (kernels/overlap/overlap.h) that knows all orders which flags allow.
 *
 * Events are: a rank's run begins, a tile, a put with its flag, a rank's run ends; over EPOCHS epochs. A tile that
 * waits at positions in K is several events, one for each range of columns between them, which add up to what the last
 * one writes. Elements are 64-bit integers; a sum is a polynomial in the order of adding, so that order and number of
 * its terms count; results and partial products are poisoned as a run begins; results are compared as it ends.
 *
 * Beside its value each element has `bits`: how it was computed and rounded, of which ranks' copies of a reduce's
 * result must have the same. An element of a product has those of its tile, since another tile may add in another
 * order.
 *
 * An event that can run can always run later as well, since counters only grow. So b may come before a exactly if b is
 * among what runs when everything but a is run as far as it goes. Where no two events that touch an element, one of
 * them writing it, may come in either order, all orders give the same result as any: one is run. Else each such pair is
 * run in either order, and some orders at random, until one is seen to be wrong. `brute` goes through all orders of
 * small cases instead, to test this reasoning. A rank with one worker takes tiles in order; what then never ends is
 * wrong as well.
 *
 * It shares nothing with the checker. Longer than other files: the interpreter and its proof by brute force are read
 * together. */
#ifndef MT_TESTS_SYNTH_CHECK_ORDERS_H
#define MT_TESTS_SYNTH_CHECK_ORDERS_H

#include "kernels/base/number/hash.h"
#include "kernels/base/number/rng.h"
#include "kernels/overlap/overlap.h"
#include "tests/check.h"

enum { EPOCHS = 3, MOST_RANKS = 8, RANDOM_ORDERS = 30, MOST_PAIRS = 400, MOST_TILES = 1 << 20 };
enum verdict { RIGHT, WRONG, UNDECIDED };

enum event_kind { BEGIN, TILE, PUT, END };
struct event {
    enum event_kind kind;
    int rank, epoch, index; /* epoch from 1 */
    int64_t from, to;       /* of a tile: columns of A in its order that it multiplies; the last part has no end */
    int npreds, chain_next; /* chain_next: what one worker takes next, or -1 */
    bool chained;           /* something comes before it in the chain */
};

struct touch { /* of an event: a box of a rank's buffer */
    int event, rank, copy;
    enum mt_overlap_buffer buffer;
    int64_t row, rows, col, cols;
    bool writes;
};

struct element {
    uint64_t value, bits, type; /* type: the narrowest that it was rounded to */
};

struct orders {
    const struct mt_overlap *problem;
    const struct mt_overlap_schedule *schedules;
    int n, nflags, nevents, copies;
    struct event *events;
    int *first;                /* [n][EPOCHS]: a rank's BEGIN; then its tiles, part by part, puts, END */
    int *part[MOST_RANKS];     /* [ntiles + 1]: after how many parts a tile's begin */
    int *succ_first, *succ;    /* successors but for flags */
    int *wait_first, *waiting; /* of flag [n * nflags]: events, and what they wait for */
    uint64_t *target;
    struct touch *touches;
    int ntouches, touches_capacity;
    struct mt_arena arena;
    /* A run. */
    int *left, *chain_left;
    uint64_t *count;
    bool *done;
    int *ready, nready, ndone;
    struct element *memory[MOST_RANKS][MT_OVERLAP_NBUFFERS][MT_OVERLAP_COPIES];
    uint64_t *sums[MOST_RANKS]; /* of parts of tiles that have not ended: [tiles' elements], from sum_at[tile] on */
    int64_t *sum_at[MOST_RANKS];
    uint64_t *b[MOST_RANKS];
    uint64_t replica[MOST_RANKS][EPOCHS + 1]; /* of what each rank's run ended with: a hash of its bits; 0: not yet */
    int64_t extent[MOST_RANKS][MT_OVERLAP_NBUFFERS][2];
    bool wrong;
};

/* ---- numbers ---- */

static inline uint64_t order_number(uint64_t kind, int64_t a, int64_t b, int64_t c) {
    uint64_t key[4] = {kind, (uint64_t)a, (uint64_t)b, (uint64_t)c};
    return mt_hash64(key, sizeof key, 20261123);
}
enum { FOLD = 0x10001 };

static inline int64_t order_start(const int64_t *shares, int rank) {
    int64_t at = 0;
    for (int r = 0; r < rank; r++) at += shares[r];
    return at;
}

/* Element of rank r's operand A in an epoch: of the gathered one, or its own. */
static inline uint64_t order_a(const struct mt_overlap *p, int r, int epoch, int64_t row, int64_t k) {
    if (p->form == MT_OVERLAP_GATHER) return order_number(1, epoch, order_start(p->rows, r) + row, k);
    return order_number(2, epoch, row, order_start(p->shares, r) + k);
}

/* Rank r's product at a row of the whole and a column of its B. */
static inline uint64_t order_product(const struct orders *o, int r, int epoch, int64_t row, int64_t col) {
    const struct mt_overlap *p = o->problem;
    bool gather = p->form == MT_OVERLAP_GATHER;
    int64_t k = gather ? p->k : p->shares[r], cols = gather ? p->shares[r] : p->cols;
    uint64_t sum = 0;
    for (int64_t i = 0; i < k; i++)
        sum += (gather ? order_number(1, epoch, row, i) : order_a(p, r, epoch, row, i)) * o->b[r][i * cols + col];
    return sum;
}

static inline uint64_t order_want(const struct orders *o, int r, int epoch, int64_t row, int64_t col) {
    const struct mt_overlap *p = o->problem;
    if (p->form == MT_OVERLAP_GATHER) return order_product(o, r, epoch, row, col);
    if (p->form == MT_OVERLAP_SCATTER) row += order_start(p->rows, r);
    uint64_t sum = 0;
    for (int s = 0; s < p->n; s++)
        if (p->shares[s]) sum = sum * FOLD + order_product(o, s, epoch, row, col);
    return sum;
}

/* ---- events ---- */

static inline int order_event(const struct orders *o, int rank, int epoch) {
    return o->first[rank * EPOCHS + epoch - 1];
}

static inline int order_nparts(const struct orders *o, int rank) {
    return o->part[rank][o->schedules[rank].ntiles];
}

static inline int order_last(const struct orders *o, int rank, int epoch) {
    return order_event(o, rank, epoch) + 1 + order_nparts(o, rank) + o->schedules[rank].nputs;
}

/* The `at`-th column of A that a tile reads; and which one column k is. Beyond A, where some mutants wait, both are the
 * same. */
static inline int64_t order_column(const struct orders *o, int rank, const struct mt_overlap_tile *t, int64_t at) {
    int64_t depth = o->extent[rank][t->from][1];
    return at < 0 || at >= depth ? at : (at + t->k % depth + depth) % depth;
}

static inline int64_t order_position(const struct orders *o, int rank, const struct mt_overlap_tile *t, int64_t k) {
    int64_t depth = o->extent[rank][t->from][1];
    return k < 0 || k >= depth ? k : (k - t->k % depth + depth) % depth;
}

/* The least position of a tile's waits beyond `from`, where its next part begins; INT64_MAX: there is none. */
static inline int64_t order_next_part(const struct orders *o, int rank, const struct mt_overlap_tile *t, int64_t from) {
    int64_t next = INT64_MAX;
    for (int w = t->first_wait; w < t->first_wait + t->nwaits && t->kind == MT_TILE_MATMUL; w++) {
        int64_t at = order_position(o, rank, t, o->schedules[rank].waits[w].k);
        if (at > from && at < next) next = at;
    }
    return next;
}

static inline void order_touch(struct orders *o, int event, int rank, enum mt_overlap_buffer buffer, int64_t row,
                               int64_t rows, int64_t col, int64_t cols, bool writes) {
    int copy = mt_overlap_in_window(buffer) ? o->events[event].epoch % o->copies : 0;
    mt_arena_grow(&o->arena, &o->touches, o->ntouches, &o->touches_capacity, sizeof *o->touches);
    o->touches[o->ntouches++] = (struct touch){event, rank, copy, buffer, row, rows, col, cols, writes};
}

static inline void order_touches(struct orders *o, int e) {
    const struct event *event = &o->events[e];
    const struct mt_overlap *p = o->problem;
    int r = event->rank;
    if (event->kind == BEGIN || event->kind == END) {
        for (enum mt_overlap_buffer b = MT_OVERLAP_A; b < MT_OVERLAP_STAGED; b++)
            if (event->kind == BEGIN || b >= MT_OVERLAP_OUT)
                order_touch(o, e, r, b, 0, o->extent[r][b][0], 0, o->extent[r][b][1], event->kind == BEGIN);
    } else if (event->kind == TILE) {
        const struct mt_overlap_tile *t = &o->schedules[r].tiles[event->index];
        int64_t depth = o->extent[r][t->from][1], to = event->to < depth ? event->to : depth;
        if (event->to == INT64_MAX) order_touch(o, e, r, t->to, t->row, t->rows, t->col, t->cols, true);
        for (int64_t at = event->from, from, end; at < to && t->kind == MT_TILE_MATMUL; at += end - from) {
            from = order_column(o, r, t, at);
            end = from + (to - at) < depth ? from + (to - at) : depth; /* it goes on at 0 */
            order_touch(o, e, r, t->from, t->from_row, t->rows, from, end - from, false);
        }
        if (t->kind == MT_TILE_COPY) order_touch(o, e, r, t->from, t->from_row, t->rows, t->col, t->cols, false);
        for (int s = 0; s < p->n && t->kind == MT_TILE_ADD; s++)
            if (p->shares[s])
                order_touch(o, e, r, t->from, s * (o->extent[r][t->from][0] / p->n) + t->from_row, t->rows, t->col,
                            t->cols, false);
    } else {
        const struct mt_overlap_put *put = &o->schedules[r].puts[event->index];
        if (!put->rows) return;
        order_touch(o, e, r, put->from, put->from_row, put->rows, put->col, put->cols, false);
        order_touch(o, e, put->peer, put->to, put->to_row, put->rows, put->col, put->cols, true);
    }
}

static inline void order_link(struct orders *o, int from, int to, bool fill, int *at) {
    if (fill) {
        o->succ[at[from]++] = to;
        o->events[to].npreds++;
    } else {
        o->succ_first[from + 1]++;
    }
}

static inline void order_links(struct orders *o, bool fill, int *at) {
    for (int e = 0; e < o->nevents; e++) {
        const struct event *event = &o->events[e];
        const struct mt_overlap_schedule *s = &o->schedules[event->rank];
        int begin = order_event(o, event->rank, event->epoch), end = order_last(o, event->rank, event->epoch);
        if (event->kind == TILE || event->kind == PUT) {
            int tile = event->kind == PUT ? s->puts[event->index].tile : -1, before = begin;
            if (tile >= 0) before = begin + o->part[event->rank][tile + 1];
            if (event->kind == TILE && event->from > 0) before = e - 1;
            order_link(o, before, e, fill, at);
            order_link(o, e, end, fill, at);
        } else if (event->kind == END) {
            order_link(o, begin, e, fill, at);
            if (event->epoch < EPOCHS) order_link(o, e, order_event(o, event->rank, event->epoch + 1), fill, at);
        }
    }
}

/* Whether a part of a tile comes to column k. */
static inline bool order_waits_here(const struct orders *o, const struct event *event, int64_t k) {
    const struct mt_overlap_tile *t = &o->schedules[event->rank].tiles[event->index];
    int64_t at = order_position(o, event->rank, t, k);
    return t->kind != MT_TILE_MATMUL || (at >= event->from && at < event->to) || (at < 0 && !event->from);
}

static inline void order_waits(struct orders *o, bool fill, int *at) {
    for (int e = 0; e < o->nevents; e++) {
        const struct event *event = &o->events[e];
        const struct mt_overlap_schedule *s = &o->schedules[event->rank];
        if (event->kind != TILE && event->kind != PUT) continue;
        int first = event->kind == TILE ? s->tiles[event->index].first_wait : s->puts[event->index].first_wait;
        int count = event->kind == TILE ? s->tiles[event->index].nwaits : s->puts[event->index].nwaits;
        for (int w = first; w < first + count; w++) {
            int flag = event->rank * o->nflags + s->waits[w].flag;
            int64_t target = (int64_t)(event->epoch - s->waits[w].lag) * s->waits[w].count;
            bool here = event->kind != TILE || order_waits_here(o, event, s->waits[w].k);
            if (target <= 0 || !here) continue;
            if (!fill) {
                o->wait_first[flag + 1]++;
                continue;
            }
            o->waiting[at[flag]] = e;
            o->target[at[flag]++] = (uint64_t)target;
            o->events[e].npreds++;
        }
    }
}

static inline int *order_sums(struct orders *o, int *first, int count) {
    int *at = mt_new(&o->arena, int, count + 1);
    for (int i = 0; i < count; i++) first[i + 1] += first[i];
    for (int i = 0; i < count; i++) at[i] = first[i];
    return at;
}

/* What one worker takes: puts without a tile, then tiles, each followed by its puts. */
static inline void order_chain(struct orders *o, int rank, int epoch) {
    const struct mt_overlap_schedule *s = &o->schedules[rank];
    int begin = order_event(o, rank, epoch), last = -1, j = 0;
    for (int t = -1; t < s->ntiles; t++) {
        int part = t >= 0 ? o->part[rank][t] : 0, parts = t >= 0 ? o->part[rank][t + 1] - part : 0;
        for (int i = 0; i < parts || (j < s->nputs && s->puts[j].tile == t); i++) {
            int e = i < parts ? begin + 1 + part + i : begin + 1 + order_nparts(o, rank) + j++;
            if (last >= 0) o->events[last].chain_next = e, o->events[e].chained = true;
            last = e;
        }
    }
}

/* The parts of a rank's tiles, and where their sums are. */
static inline void order_parts(struct orders *o, int rank) {
    const struct mt_overlap_schedule *s = &o->schedules[rank];
    int64_t elements = 0;
    o->part[rank] = mt_new(&o->arena, int, s->ntiles + 1);
    o->sum_at[rank] = mt_new(&o->arena, int64_t, s->ntiles + 1);
    for (int t = 0; t < s->ntiles; t++) {
        const struct mt_overlap_tile *tile = &s->tiles[t];
        o->part[rank][t + 1] = o->part[rank][t];
        for (int64_t from = 0; from < INT64_MAX; from = order_next_part(o, rank, tile, from)) o->part[rank][t + 1]++;
        elements += tile->rows > 0 && tile->cols > 0 ? tile->rows * tile->cols : 0;
        o->sum_at[rank][t + 1] = elements;
    }
    o->sums[rank] = mt_new(&o->arena, uint64_t, elements + 1);
}

/* The events of a rank's epoch. */
static inline void order_events(struct orders *o, int rank, int epoch) {
    const struct mt_overlap_schedule *s = &o->schedules[rank];
    struct event *at = &o->events[order_event(o, rank, epoch)];
    struct event event = {.rank = rank, .epoch = epoch, .chain_next = -1};
    event.kind = BEGIN, *at++ = event;
    event.kind = TILE;
    for (int t = 0; t < s->ntiles; t++)
        for (event.index = t, event.from = 0; event.from < INT64_MAX; event.from = event.to) {
            event.to = order_next_part(o, rank, &s->tiles[t], event.from);
            *at++ = event;
        }
    event.kind = PUT, event.from = 0;
    for (event.index = 0; event.index < s->nputs; event.index++) *at++ = event;
    event.kind = END, *at = event;
    order_chain(o, rank, epoch);
}

static inline void orders_init(struct orders *o, const struct mt_overlap *problem,
                               const struct mt_overlap_schedule *schedules) {
    *o = (struct orders){.problem = problem, .schedules = schedules, .n = problem->n};
    o->nflags = mt_overlap_nflags(problem);
    o->copies = schedules[0].copies;
    o->first = mt_new(&o->arena, int, o->n *EPOCHS);
    for (int r = 0; r < o->n; r++)
        for (enum mt_overlap_buffer b = 0; b < MT_OVERLAP_NBUFFERS; b++)
            mt_overlap_extent(problem, r, b, o->extent[r][b]);
    for (int r = 0; r < o->n; r++) {
        order_parts(o, r);
        for (int e = 0; e < EPOCHS; e++) {
            o->first[r * EPOCHS + e] = o->nevents;
            o->nevents += 2 + order_nparts(o, r) + schedules[r].nputs;
        }
    }
    o->events = mt_new(&o->arena, struct event, o->nevents);
    for (int r = 0; r < o->n; r++)
        for (int e = 1; e <= EPOCHS; e++) order_events(o, r, e);
    o->succ_first = mt_new(&o->arena, int, o->nevents + 1);
    order_links(o, false, NULL);
    int *at = order_sums(o, o->succ_first, o->nevents);
    o->succ = mt_new(&o->arena, int, o->succ_first[o->nevents] + 1);
    order_links(o, true, at);
    o->wait_first = mt_new(&o->arena, int, o->n * o->nflags + 1);
    order_waits(o, false, NULL);
    at = order_sums(o, o->wait_first, o->n * o->nflags);
    o->waiting = mt_new(&o->arena, int, o->wait_first[o->n * o->nflags] + 1);
    o->target = mt_new(&o->arena, uint64_t, o->wait_first[o->n * o->nflags] + 1);
    order_waits(o, true, at);
    o->left = mt_new(&o->arena, int, o->nevents);
    o->count = mt_new(&o->arena, uint64_t, o->n * o->nflags + 1);
    o->done = mt_new(&o->arena, bool, o->nevents);
    o->ready = mt_new(&o->arena, int, o->nevents + 1);
    for (int r = 0; r < o->n; r++) {
        for (enum mt_overlap_buffer b = 0; b < MT_OVERLAP_NBUFFERS; b++)
            for (int copy = 0; copy < MT_OVERLAP_COPIES; copy++)
                o->memory[r][b][copy] = mt_new(&o->arena, struct element, o->extent[r][b][0] * o->extent[r][b][1] + 1);
        bool gather = problem->form == MT_OVERLAP_GATHER;
        int64_t count = gather ? problem->k * problem->shares[r] : problem->shares[r] * problem->cols;
        o->b[r] = mt_new(&o->arena, uint64_t, count + 1);
        for (int64_t i = 0; i < count; i++) o->b[r][i] = order_number(3, r, i, 0);
    }
    for (int e = 0; e < o->nevents; e++) order_touches(o, e);
}

static inline void orders_release(struct orders *o) {
    mt_arena_release(&o->arena);
}

/* ---- running events on memory ---- */

/* Elements of a box's row; null, and wrong, outside the buffer. */
static inline struct element *order_row(struct orders *o, int rank, enum mt_overlap_buffer b, int epoch, int64_t row,
                                        int64_t col, int64_t cols) {
    const int64_t *extent = o->extent[rank][b];
    if (row < 0 || row >= extent[0] || col < 0 || col + cols > extent[1]) {
        o->wrong = true;
        return NULL;
    }
    return o->memory[rank][b][mt_overlap_in_window(b) ? epoch % o->copies : 0] + row * extent[1] + col;
}

/* An element as it is after rounding to a type; a wider one changes nothing. */
static inline struct element order_rounded(struct element e, enum mt_type type) {
    if (e.type == type || mt_type_size(type) > mt_type_size((enum mt_type)e.type)) return e;
    return (struct element){e.value, order_number(7, (int64_t)e.bits, type, 0), type};
}

/* A part of a GEMM's tile: added to the sums; the last part writes them. */
static inline void order_multiply(struct orders *o, const struct event *event) {
    int r = event->rank;
    const struct mt_overlap_tile *t = &o->schedules[r].tiles[event->index];
    int64_t depth = o->extent[r][t->from][1], end = event->to < depth ? event->to : depth;
    int64_t cols = o->problem->form == MT_OVERLAP_GATHER ? o->problem->shares[r] : o->problem->cols;
    enum mt_type acc = mt_type_acc(o->problem->type);
    for (int64_t i = 0; i < t->rows; i++) {
        struct element *to = order_row(o, r, t->to, event->epoch, t->row + i, t->col, t->cols);
        const struct element *a = order_row(o, r, t->from, event->epoch, t->from_row + i, 0, depth);
        uint64_t *sum = &o->sums[r][o->sum_at[r][event->index] + i * t->cols];
        if (!to || !a) return;
        if (!event->from) memset(sum, 0, (size_t)t->cols * sizeof *sum);
        for (int64_t at = event->from; at < end; at++) {
            int64_t k = order_column(o, r, t, at);
            for (int64_t j = 0; j < t->cols; j++) sum[j] += a[k].value * o->b[r][k * cols + t->col + j];
        }
        for (int64_t j = 0; j < t->cols && event->to == INT64_MAX; j++) {
            to[j] = (struct element){sum[j], order_number(6, r * MOST_TILES + event->index, i, j), acc};
            to[j] = order_rounded(to[j], mt_overlap_type(o->problem, t->to));
        }
    }
}

static inline void order_tile(struct orders *o, const struct event *event) {
    const struct mt_overlap_tile *t = &o->schedules[event->rank].tiles[event->index];
    int r = event->rank;
    if (t->kind == MT_TILE_MATMUL) {
        order_multiply(o, event);
        return;
    }
    enum mt_type acc = mt_type_acc(o->problem->type);
    for (int64_t i = 0; i < t->rows; i++) {
        struct element *to = order_row(o, r, t->to, event->epoch, t->row + i, t->col, t->cols);
        if (!to) return;
        if (t->kind == MT_TILE_COPY) {
            const struct element *from = order_row(o, r, t->from, event->epoch, t->from_row + i, t->col, t->cols);
            for (int64_t j = 0; from && j < t->cols; j++) to[j] = from[j];
        } else {
            for (int64_t j = 0; j < t->cols; j++) to[j] = (struct element){.type = acc};
            for (int s = 0; s < o->n; s++) {
                int64_t slot = s * (o->extent[r][t->from][0] / o->n) + t->from_row + i;
                const struct element *from =
                    o->problem->shares[s] ? order_row(o, r, t->from, event->epoch, slot, t->col, t->cols) : NULL;
                for (int64_t j = 0; from && j < t->cols; j++) {
                    to[j].value = to[j].value * FOLD + from[j].value;
                    to[j].bits = to[j].bits * FOLD + from[j].bits;
                }
            }
        }
        for (int64_t j = 0; j < t->cols; j++) to[j] = order_rounded(to[j], mt_overlap_type(o->problem, t->to));
    }
}

static inline void order_begin(struct orders *o, const struct event *event) {
    int r = event->rank;
    for (enum mt_overlap_buffer b = MT_OVERLAP_A; b < MT_OVERLAP_STAGED; b++)
        for (int64_t i = 0; i < o->extent[r][b][0] * o->extent[r][b][1]; i++) {
            int64_t cols = o->extent[r][b][1];
            uint64_t value = b == MT_OVERLAP_A ? order_a(o->problem, r, event->epoch, i / cols, i % cols)
                                               : order_number(9, event->epoch, i, (int64_t)b);
            o->memory[r][b][0][i] = (struct element){value, value, mt_overlap_type(o->problem, b)};
        }
}

/* What another rank has ended the epoch with as well. */
static inline void order_replica(struct orders *o, const struct event *event) {
    const int64_t *extent = o->extent[event->rank][MT_OVERLAP_OUT];
    uint64_t bits = 1;
    for (int64_t i = 0; i < extent[0] * extent[1]; i++)
        bits = order_number(4, (int64_t)bits, (int64_t)o->memory[event->rank][MT_OVERLAP_OUT][0][i].bits, i);
    o->replica[event->rank][event->epoch] = bits;
    for (int r = 0; r < o->n; r++) o->wrong |= o->replica[r][event->epoch] && o->replica[r][event->epoch] != bits;
}

static inline void order_end(struct orders *o, const struct event *event) {
    const int64_t *extent = o->extent[event->rank][MT_OVERLAP_OUT];
    const struct element *out = o->memory[event->rank][MT_OVERLAP_OUT][0];
    for (int64_t i = 0; i < extent[0] * extent[1] && !o->wrong; i++)
        o->wrong = out[i].value != order_want(o, event->rank, event->epoch, i / extent[1], i % extent[1]);
    if (o->problem->form == MT_OVERLAP_REDUCE) order_replica(o, event);
    extent = o->extent[event->rank][MT_OVERLAP_WHOLE], out = o->memory[event->rank][MT_OVERLAP_WHOLE][0];
    for (int64_t i = 0; i < extent[0] * extent[1] && !o->wrong; i++)
        o->wrong = out[i].value != order_number(1, event->epoch, i / extent[1], i % extent[1]);
}

static inline void order_numbers(struct orders *o, const struct event *event) {
    if (event->kind == BEGIN) order_begin(o, event);
    if (event->kind == TILE) order_tile(o, event);
    if (event->kind == END) order_end(o, event);
    if (event->kind != PUT) return;
    const struct mt_overlap_put *put = &o->schedules[event->rank].puts[event->index];
    for (int64_t i = 0; i < put->rows; i++) {
        struct element *to = order_row(o, put->peer, put->to, event->epoch, put->to_row + i, put->col, put->cols);
        const struct element *from =
            order_row(o, event->rank, put->from, event->epoch, put->from_row + i, put->col, put->cols);
        if (to && from) memmove(to, from, (size_t)put->cols * sizeof *to);
    }
}

/* ---- orders ---- */

static inline void order_start_run(struct orders *o, bool numbers, bool chain) {
    o->nready = o->ndone = 0;
    o->wrong = false;
    for (int e = 0; e < o->nevents; e++) {
        o->left[e] = o->events[e].npreds + (chain && o->events[e].chained);
        o->done[e] = false;
        if (!o->left[e]) o->ready[o->nready++] = e;
    }
    for (int f = 0; f < o->n * o->nflags; f++) o->count[f] = 0;
    for (int r = 0; r < o->n && numbers; r++)
        for (enum mt_overlap_buffer b = MT_OVERLAP_STAGED; b < MT_OVERLAP_NBUFFERS; b++)
            for (int copy = 0; copy < MT_OVERLAP_COPIES; copy++)
                for (int64_t i = 0; i < o->extent[r][b][0] * o->extent[r][b][1]; i++)
                    o->memory[r][b][copy][i] = (struct element){.value = order_number(8, r * 100 + (int)b, copy, i)};
    memset(o->replica, 0, sizeof o->replica);
}

static inline void order_release(struct orders *o, int e) {
    if (!--o->left[e]) o->ready[o->nready++] = e;
}

/* Run the event at ready[place]. */
static inline void order_take(struct orders *o, int place, bool numbers, bool chain) {
    int e = o->ready[place];
    const struct event *event = &o->events[e];
    o->ready[place] = o->ready[--o->nready];
    o->done[e] = true;
    o->ndone++;
    if (numbers) order_numbers(o, event);
    for (int s = o->succ_first[e]; s < o->succ_first[e + 1]; s++) order_release(o, o->succ[s]);
    if (chain && event->chain_next >= 0) order_release(o, event->chain_next);
    if (event->kind != PUT) return;
    const struct mt_overlap_put *put = &o->schedules[event->rank].puts[event->index];
    int flag = put->peer * o->nflags + put->flag;
    o->count[flag]++;
    for (int w = o->wait_first[flag]; w < o->wait_first[flag + 1]; w++)
        if (o->target[w] == o->count[flag]) order_release(o, o->waiting[w]);
}

/* Run all but `without` (-1: nothing) as far as it goes. */
static inline void order_rest(struct orders *o, int without, bool numbers, bool chain, uint64_t seed) {
    for (uint64_t draw = 0;; draw++) {
        int place = o->nready - 1;
        if (seed && place >= 0) place = (int)mt_random_below(seed, 5, draw, (uint64_t)o->nready);
        if (place >= 0 && o->ready[place] == without) place = place ? place - 1 : o->nready > 1 ? 1 : -1;
        if (place < 0) return;
        order_take(o, place, numbers, chain);
    }
}

/* A whole run in which `last` comes as late as it can. */
static inline bool order_wrong_with(struct orders *o, int last, uint64_t seed) {
    order_start_run(o, true, false);
    order_rest(o, last, true, false, seed);
    order_rest(o, -1, true, false, seed);
    return o->wrong;
}

static inline bool order_meet(const struct touch *a, const struct touch *b) {
    return a->event != b->event && (a->writes || b->writes) && a->rank == b->rank && a->buffer == b->buffer &&
           a->copy == b->copy && a->row < b->row + b->rows && b->row < a->row + a->rows && a->col < b->col + b->cols &&
           b->col < a->col + a->cols;
}

static inline int order_by_place(const void *left, const void *right) {
    const struct touch *a = left, *b = right;
    int x = (a->rank * MT_OVERLAP_NBUFFERS + (int)a->buffer) * MT_OVERLAP_COPIES + a->copy;
    int y = (b->rank * MT_OVERLAP_NBUFFERS + (int)b->buffer) * MT_OVERLAP_COPIES + b->copy;
    return x != y ? (x > y) - (x < y) : (a->event > b->event) - (a->event < b->event);
}

/* Whether b may come before a: before[a][b], whose row of a is found once it is asked for. */
static inline bool order_may_follow(struct orders *o, int a, int b, uint8_t *before, bool *known) {
    uint8_t *row = before + (size_t)a * (size_t)o->nevents;
    if (!known[a]) {
        order_start_run(o, false, false);
        order_rest(o, a, false, false, 0);
        for (int e = 0; e < o->nevents; e++) row[e] = o->done[e];
        known[a] = true;
    }
    return row[b];
}

/* The verdict over all orders. */
static inline enum verdict orders_judge(struct orders *o) {
    for (int chain = 0; chain < 2; chain++) {
        order_start_run(o, !chain, chain);
        order_rest(o, -1, !chain, chain, 0);
        if (o->ndone < o->nevents || o->wrong) return WRONG;
    }
    uint8_t *before = calloc((size_t)o->nevents * (size_t)o->nevents, 1);
    bool *known = calloc((size_t)o->nevents, sizeof *known);
    qsort(o->touches, (size_t)o->ntouches, sizeof *o->touches, order_by_place);
    enum verdict verdict = RIGHT;
    int pairs = 0;
    for (int i = 0; i < o->ntouches && verdict != WRONG; i++)
        for (int j = i + 1; j < o->ntouches && verdict != WRONG && pairs < MOST_PAIRS; j++) {
            const struct touch *a = &o->touches[i], *b = &o->touches[j];
            if (a->rank != b->rank || a->buffer != b->buffer || a->copy != b->copy) break;
            if (!order_meet(a, b) || !order_may_follow(o, a->event, b->event, before, known) ||
                !order_may_follow(o, b->event, a->event, before, known))
                continue;
            pairs++;
            verdict = order_wrong_with(o, a->event, 0) || order_wrong_with(o, b->event, 0) ? WRONG : UNDECIDED;
        }
    free(before), free(known);
    for (uint64_t s = 1; s <= RANDOM_ORDERS && verdict == UNDECIDED; s++)
        if (order_wrong_with(o, -1, s)) verdict = WRONG;
    return verdict;
}

/* ---- all orders of small cases ---- */

struct brute {
    struct orders *o;
    uint64_t *seen; /* hashes of states */
    size_t nseen, capacity;
    size_t most;
    bool wrong, gave_up;
};

static inline bool brute_new(struct brute *b, uint64_t hash) {
    for (size_t i = hash & (b->capacity - 1);; i = (i + 1) & (b->capacity - 1)) {
        if (b->seen[i] == hash) return false;
        if (b->seen[i]) continue;
        b->seen[i] = hash;
        b->nseen++;
        return true;
    }
}

static inline size_t brute_sums(const struct orders *o, int rank) { /* bytes */
    return (size_t)o->sum_at[rank][o->schedules[rank].ntiles] * sizeof *o->sums[rank] + 8;
}

static inline uint64_t brute_hash(const struct orders *o) {
    uint64_t hash = mt_hash64(o->done, (size_t)o->nevents * sizeof *o->done, 1);
    hash = mt_hash64(o->replica, sizeof o->replica, hash);
    for (int r = 0; r < o->n; r++)
        hash = mt_hash64(o->sums[r], (size_t)o->sum_at[r][o->schedules[r].ntiles] * sizeof *o->sums[r], hash);
    for (int r = 0; r < o->n; r++)
        for (enum mt_overlap_buffer b = 0; b < MT_OVERLAP_NBUFFERS; b++)
            for (int copy = 0; copy < MT_OVERLAP_COPIES; copy++)
                hash = mt_hash64(o->memory[r][b][copy],
                                 (size_t)(o->extent[r][b][0] * o->extent[r][b][1]) * sizeof(struct element), hash);
    return hash | 1;
}

/* From the state that o is in. Taking events in one order of the ready list suffices where they meet nothing. */
static inline void brute_go(struct brute *b) {
    struct orders *o = b->o;
    if (b->wrong || b->gave_up || !brute_new(b, brute_hash(o))) return;
    if (b->nseen > b->most) b->gave_up = true;
    if (o->wrong || (!o->nready && o->ndone < o->nevents)) b->wrong = true;
    if (b->wrong || b->gave_up) return;
    int nready = o->nready, ndone = o->ndone, *ready = malloc(sizeof(int) * (size_t)(o->nevents + 1)),
        *left = malloc(sizeof(int) * (size_t)o->nevents);
    bool *done = malloc((size_t)o->nevents);
    size_t flags = (size_t)(o->n * o->nflags) * 8;
    uint64_t *count = malloc(flags + 8), replica[MOST_RANKS][EPOCHS + 1], *sums[MOST_RANKS];
    struct element *memory[MOST_RANKS][MT_OVERLAP_NBUFFERS][MT_OVERLAP_COPIES];
#define EACH_BUFFER(action)                                                                                            \
    for (int r = 0; r < o->n; r++)                                                                                     \
        for (enum mt_overlap_buffer m = 0; m < MT_OVERLAP_NBUFFERS; m++)                                               \
            for (int copy = 0; copy < MT_OVERLAP_COPIES; copy++) {                                                     \
                size_t bytes = (size_t)(o->extent[r][m][0] * o->extent[r][m][1]) * sizeof(struct element);             \
                action;                                                                                                \
            }
    memcpy(ready, o->ready, sizeof(int) * (size_t)nready);
    memcpy(left, o->left, sizeof(int) * (size_t)o->nevents);
    memcpy(done, o->done, (size_t)o->nevents);
    memcpy(count, o->count, flags);
    memcpy(replica, o->replica, sizeof replica);
    EACH_BUFFER(memory[r][m][copy] = malloc(bytes + 8); memcpy(memory[r][m][copy], o->memory[r][m][copy], bytes))
    for (int r = 0; r < o->n; r++) sums[r] = memcpy(malloc(brute_sums(o, r)), o->sums[r], brute_sums(o, r));
    for (int i = 0; i < nready && !b->wrong && !b->gave_up; i++) {
        memcpy(o->ready, ready, sizeof(int) * (size_t)nready);
        memcpy(o->left, left, sizeof(int) * (size_t)o->nevents);
        memcpy(o->done, done, (size_t)o->nevents);
        memcpy(o->count, count, flags);
        memcpy(o->replica, replica, sizeof replica);
        EACH_BUFFER(memcpy(o->memory[r][m][copy], memory[r][m][copy], bytes))
        for (int r = 0; r < o->n; r++) memcpy(o->sums[r], sums[r], brute_sums(o, r));
        o->nready = nready, o->ndone = ndone;
        order_take(o, i, true, false);
        brute_go(b);
    }
    EACH_BUFFER((void)bytes; free(memory[r][m][copy]))
#undef EACH_BUFFER
    for (int r = 0; r < o->n; r++) free(sums[r]);
    free(ready);
    free(left);
    free(done);
    free(count);
}

/* RIGHT or WRONG by going through every order; UNDECIDED: there are more than `most` states. */
static inline enum verdict orders_brute(struct orders *o, size_t most) {
    struct brute b = {.o = o, .capacity = 1, .most = most};
    while (b.capacity < 2 * most + 2) b.capacity *= 2;
    b.seen = calloc(b.capacity, sizeof *b.seen);
    order_start_run(o, false, true);
    order_rest(o, -1, false, true, 0);
    b.wrong = o->ndone < o->nevents;
    order_start_run(o, true, false);
    brute_go(&b);
    free(b.seen);
    return b.wrong ? WRONG : b.gave_up ? UNDECIDED : RIGHT;
}

#endif
