/* The placed items in blocks by address, with a summary of each block for a few lifetimes, the cursors: which of its
 * items conflict, and the smallest gap between those. Blocks are summarized in groups.
 *
 * A question moves the cursor that is nearest to the item's lifetime: only items that begin or end between the two
 * lifetimes are compared again, and only their blocks and groups are summarized again. Items of one size are asked for
 * in the order of instructions, so that a cursor goes through the step once for each size: O(log n) blocks a question
 * where few items begin or end between neighbours, as in a sequence of layers; at worst all n are compared. */
#include "synth/lower/gaps.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/clones.h"

enum { BLOCK = 64, GROUP = 16, NCURSORS = 6, FEW = 128 };

/* The conflicting items of a block or group. */
struct summary {
    int64_t begin, end; /* the lowest begin, the highest end; INT64_MAX and INT64_MIN if there are none */
    int64_t last;       /* the highest begin */
    int64_t gap, at;    /* the smallest gap between them that is large enough, and its begin; INT64_MAX: none */
};

struct block {
    int position; /* among the blocks */
    int n, item[BLOCK];
    int64_t begin[BLOCK], end[BLOCK]; /* begins do not decrease */
    uint64_t conflicts[NCURSORS];     /* bit i: item i conflicts with the cursor's lifetime */
    struct summary summary[NCURSORS];
    unsigned stale;    /* bit c: summary[c] is to be made again */
    int ends[][BLOCK]; /* [2 nstreams]: of each item's lifetime `last` of all streams, then `known` */
};

struct group {
    struct summary summary[NCURSORS];
    unsigned stale;
};

struct mt_gaps {
    struct mt_arena arena;
    int *lifetimes; /* [items][2 nstreams]: as a block's ends; many are read, here and there */
    int nitems, nplaced, nkeys, nstreams;
    /* Items by what a lifetime is compared with: with key k from begin_of[.][t][k] on in by[.][t]. */
    int *by_last[MT_MOST_STREAMS], *by_known[MT_MOST_STREAMS];
    int *begin_of_last[MT_MOST_STREAMS], *begin_of_known[MT_MOST_STREAMS];
    struct block **blocks; /* by address */
    struct block **where;  /* [items]: the block of a placed item, or null */
    struct group *groups;  /* of GROUP blocks each */
    int nblocks;
    struct mt_lifetime cursors[NCURSORS];
    int64_t moved[NCURSORS]; /* when */
    int ncursors;
    int64_t size, now, steps;
};

static const int *lifetime_of(const struct mt_gaps *g, int item) {
    return g->lifetimes + (size_t)item * 2 * (size_t)g->nstreams;
}

/* Whether each of the last uses is known to have ended. */
static bool before(const int *last, const int *known, int nstreams) {
    for (int t = 0; t < nstreams; t++)
        if (last[t] > known[t]) return false;
    return true;
}

static bool conflict(const struct mt_gaps *g, const struct mt_lifetime *life, int item) {
    const int *last = lifetime_of(g, item), *known = last + g->nstreams;
    return !before(life->last, known, g->nstreams) && !before(last, life->known, g->nstreams);
}

/* ---- summaries ---- */

/* A scan over items by address. */
struct scan {
    int64_t size, end; /* what is asked for; the highest end so far */
    int64_t gap, at;   /* the smallest gap so far */
};

static void add_item(struct scan *s, int64_t begin, int64_t end) {
    int64_t gap = begin - s->end;
    if (gap >= s->size && gap < s->gap) s->gap = gap, s->at = s->end;
    if (end > s->end) s->end = end;
}

static void add_items(struct scan *s, const struct block *b, uint64_t conflicts) {
    for (; conflicts; conflicts &= conflicts - 1) {
        int i = __builtin_ctzll(conflicts);
        add_item(s, b->begin[i], b->end[i]);
    }
}

/* Add a summary; false if its items are to be added one by one, because the end so far is above the begins of some, and
 * may be within one of the gaps. */
static bool add_summary(struct scan *s, const struct summary *sum) {
    if (sum->end <= s->end) return true;
    if (sum->begin < s->end && sum->last > s->end && sum->gap < INT64_MAX) return false;
    if (sum->begin < s->end) return s->end = sum->end, true;
    add_item(s, sum->begin, sum->end);
    if (sum->gap < s->gap) s->gap = sum->gap, s->at = sum->at;
    return true;
}

/* Of a summary's items some have been added one by one, the last of which began after all ends before it. So the scan
 * is where the summary's own was after that item: add the rest, if the summary tells all of it. */
static bool add_rest(struct scan *s, const struct summary *sum) {
    if (sum->gap < s->gap && sum->at < s->end) return false; /* it tells of a gap before */
    if (sum->gap < s->gap) s->gap = sum->gap, s->at = sum->at;
    s->end = sum->end;
    return true;
}

static const struct summary no_conflicts = {INT64_MAX, INT64_MIN, INT64_MIN, INT64_MAX, 0};

static const struct summary *block_summary(struct mt_gaps *g, struct block *b, int cursor) {
    struct summary *sum = &b->summary[cursor];
    g->steps++;
    if (!(b->stale >> cursor & 1)) return sum;
    b->stale &= ~(1u << cursor);
    *sum = no_conflicts;
    uint64_t conflicts = b->conflicts[cursor];
    if (!conflicts) return sum;
    sum->begin = b->begin[__builtin_ctzll(conflicts)];
    sum->last = b->begin[63 - __builtin_clzll(conflicts)];
    struct scan s = {.size = g->size, .end = sum->begin, .gap = INT64_MAX};
    add_items(&s, b, conflicts);
    sum->end = s.end, sum->gap = s.gap, sum->at = s.at;
    return sum;
}

/* Returns whether one of its items began after all ends before it, and was the last to be added. */
static bool add_block(struct mt_gaps *g, struct scan *s, struct block *b, int cursor) {
    const struct summary *sum = block_summary(g, b, cursor);
    bool apart = sum->begin >= s->end && sum->end > s->end;
    if (add_summary(s, sum)) return apart;
    for (uint64_t conflicts = b->conflicts[cursor]; conflicts; conflicts &= conflicts - 1) {
        int i = __builtin_ctzll(conflicts);
        apart |= b->begin[i] >= s->end;
        add_item(s, b->begin[i], b->end[i]);
        if (apart && add_rest(s, sum)) break;
    }
    return apart;
}

static int group_end(const struct mt_gaps *g, int group) {
    return (group + 1) * GROUP < g->nblocks ? (group + 1) * GROUP : g->nblocks;
}

static const struct summary *group_summary(struct mt_gaps *g, int group, int cursor) {
    struct summary *sum = &g->groups[group].summary[cursor];
    g->steps++;
    if (!(g->groups[group].stale >> cursor & 1)) return sum;
    g->groups[group].stale &= ~(1u << cursor);
    *sum = no_conflicts;
    int i = group * GROUP, end = group_end(g, group);
    while (i < end && !g->blocks[i]->conflicts[cursor]) i++;
    if (i == end) return sum;
    sum->begin = block_summary(g, g->blocks[i], cursor)->begin;
    struct scan s = {.size = g->size, .end = sum->begin, .gap = INT64_MAX};
    for (; i < end; i++) {
        add_block(g, &s, g->blocks[i], cursor);
        if (g->blocks[i]->conflicts[cursor]) sum->last = g->blocks[i]->summary[cursor].last;
    }
    sum->end = s.end, sum->gap = s.gap, sum->at = s.at;
    return sum;
}

static void all_stale(struct mt_gaps *g, int from_block, unsigned cursors) {
    for (int i = from_block; i < g->nblocks; i++) g->blocks[i]->stale |= cursors;
    for (int i = from_block / GROUP; i * GROUP < g->nblocks; i++) g->groups[i].stale |= cursors;
}

/* ---- cursors ---- */

static int key_of(const struct mt_gaps *g, int value) {
    return value < g->nkeys - 2 ? value + 1 : g->nkeys - 1;
}

/* Items whose key is at least x and below y are list[begin[x] .. begin[y]). */
struct range {
    const int *items;
    int count;
};

static struct range items_between(const struct mt_gaps *g, const int *list, const int *begin, int a, int b, int shift) {
    int x = key_of(g, a) + shift, y = key_of(g, b) + shift;
    if (x > y) return items_between(g, list, begin, b, a, shift);
    return (struct range){list + begin[x], begin[y] - begin[x]};
}

/* The items whose order to a lifetime may change when it becomes another: ends move over begins, begins over ends. */
static int changing(const struct mt_gaps *g, const struct mt_lifetime *from, const struct mt_lifetime *to,
                    struct range ranges[2 * MT_MOST_STREAMS]) {
    int count = 0;
    for (int t = 0; t < g->nstreams; t++) {
        ranges[2 * t] = items_between(g, g->by_known[t], g->begin_of_known[t], from->last[t], to->last[t], 0);
        ranges[2 * t + 1] = items_between(g, g->by_last[t], g->begin_of_last[t], from->known[t], to->known[t], 1);
        count += ranges[2 * t].count + ranges[2 * t + 1].count;
    }
    return count;
}

static void set_stale(struct mt_gaps *g, struct block *b, unsigned cursors) {
    b->stale |= cursors;
    g->groups[b->position / GROUP].stale |= cursors;
}

/* Compare one item with a cursor's lifetime again. */
static void compare_item(struct mt_gaps *g, int item, int cursor) {
    struct block *b = g->where[item];
    g->steps++;
    if (!b) return;
    int i = 0;
    while (b->item[i] != item) i++;
    uint64_t bit = (uint64_t)1 << i, now = conflict(g, &g->cursors[cursor], item) ? bit : 0;
    if ((b->conflicts[cursor] & bit) == now) return;
    b->conflicts[cursor] ^= bit;
    set_stale(g, b, 1u << cursor);
}

MT_CLONES static void compare_block(const struct block *b, const struct mt_lifetime *life, int nstreams,
                                    unsigned char *conflicts) {
    unsigned char first[BLOCK], second[BLOCK]; /* the lifetime is before the item; the item before the lifetime */
    memset(first, 1, sizeof first);
    memset(second, 1, sizeof second);
    for (int t = 0; t < nstreams; t++) {
        int last = life->last[t], known = life->known[t];
        for (int i = 0; i < BLOCK; i++) {
            first[i] &= last <= b->ends[nstreams + t][i];
            second[i] &= b->ends[t][i] <= known;
        }
    }
    for (int i = 0; i < BLOCK; i++) conflicts[i] = !(first[i] | second[i]);
}

static void compare_all(struct mt_gaps *g, int cursor) {
    unsigned char conflicts[BLOCK];
    for (int k = 0; k < g->nblocks; k++) {
        struct block *b = g->blocks[k];
        uint64_t now = 0;
        compare_block(b, &g->cursors[cursor], g->nstreams, conflicts);
        for (int i = 0; i < b->n; i++) now |= (uint64_t)conflicts[i] << i;
        if (now != b->conflicts[cursor]) set_stale(g, b, 1u << cursor);
        b->conflicts[cursor] = now;
    }
    g->steps += g->nplaced;
}

static void copy_summary(struct summary *summary, unsigned *stale, int cursor, int other) {
    summary[cursor] = summary[other];
    *stale = (*stale & ~(1u << cursor)) | (*stale >> other & 1) << cursor;
}

/* Make the cursor that was moved longest ago, or a new one, equal to another; returns it. */
static int copy_cursor(struct mt_gaps *g, int other) {
    int cursor = 0;
    for (int c = 1; c < g->ncursors; c++)
        if (g->moved[c] < g->moved[cursor]) cursor = c;
    if (g->ncursors < NCURSORS) cursor = g->ncursors++;
    if (cursor == other) return cursor;
    for (int k = 0; k < g->nblocks; k++) {
        struct block *b = g->blocks[k];
        b->conflicts[cursor] = b->conflicts[other];
        copy_summary(b->summary, &b->stale, cursor, other);
    }
    for (int i = 0; i * GROUP < g->nblocks; i++) copy_summary(g->groups[i].summary, &g->groups[i].stale, cursor, other);
    g->steps += g->nblocks;
    return cursor;
}

/* Move a cursor to the lifetime, and return it: the one that is nearest, or a copy of it where that is far. Lifetimes
 * of several kinds alternate, such as those of activations that are kept and of temporaries. */
static int move_cursor(struct mt_gaps *g, const struct mt_lifetime *life) {
    struct range ranges[NCURSORS][2 * MT_MOST_STREAMS];
    int best = 0, least = INT_MAX;
    for (int c = 0; c < g->ncursors; c++) {
        int count = changing(g, &g->cursors[c], life, ranges[c]);
        if (count < least) best = c, least = count;
    }
    int cursor = least > FEW ? copy_cursor(g, best) : best;
    g->cursors[cursor] = *life;
    g->moved[cursor] = ++g->now;
    if (least > g->nplaced / 8 + FEW) { /* comparing in order is faster */
        compare_all(g, cursor);
        return cursor;
    }
    for (int k = 0; k < 2 * g->nstreams; k++)
        for (int i = 0; i < ranges[best][k].count; i++) compare_item(g, ranges[best][k].items[i], cursor);
    return cursor;
}

int64_t mt_gaps_smallest(struct mt_gaps *g, int item, int64_t size_bytes, int64_t base_bytes) {
    if (g->size != size_bytes) all_stale(g, 0, ~0u);
    g->size = size_bytes;
    struct mt_lifetime life;
    memcpy(life.last, lifetime_of(g, item), (size_t)g->nstreams * sizeof *life.last);
    memcpy(life.known, lifetime_of(g, item) + g->nstreams, (size_t)g->nstreams * sizeof *life.known);
    int cursor = move_cursor(g, &life);
    struct scan s = {.size = size_bytes, .end = base_bytes, .gap = INT64_MAX};
    for (int i = 0; i * GROUP < g->nblocks && s.gap > size_bytes; i++) {
        if (add_summary(&s, group_summary(g, i, cursor))) continue;
        const struct summary *sum = &g->groups[i].summary[cursor];
        for (int k = i * GROUP; k < group_end(g, i); k++)
            if (add_block(g, &s, g->blocks[k], cursor) && add_rest(&s, sum)) break;
    }
    return s.gap < INT64_MAX ? s.at : s.end;
}

/* ---- placing ---- */

static void copy_item(const struct mt_gaps *g, struct block *to, int at, const struct block *from, int i) {
    to->item[at] = from->item[i];
    to->begin[at] = from->begin[i];
    to->end[at] = from->end[i];
    for (int t = 0; t < 2 * g->nstreams; t++) to->ends[t][at] = from->ends[t][i];
}

static struct block *add_new_block(struct mt_gaps *g, int position) {
    struct block *b = mt_arena_alloc(&g->arena, sizeof *b + 2 * (size_t)g->nstreams * sizeof *b->ends);
    for (int k = g->nblocks++; k > position; k--) {
        g->blocks[k] = g->blocks[k - 1];
        g->blocks[k]->position = k;
    }
    g->blocks[position] = b;
    b->position = position;
    return b;
}

/* Move the upper half of a full block to a new one. */
static void split(struct mt_gaps *g, struct block *b) {
    struct block *upper = add_new_block(g, b->position + 1);
    for (int i = BLOCK / 2; i < BLOCK; i++) {
        copy_item(g, upper, i - BLOCK / 2, b, i);
        g->where[b->item[i]] = upper;
    }
    b->n = upper->n = BLOCK / 2;
    for (int c = 0; c < g->ncursors; c++) {
        upper->conflicts[c] = b->conflicts[c] >> BLOCK / 2;
        b->conflicts[c] &= ((uint64_t)1 << BLOCK / 2) - 1;
    }
    b->stale = upper->stale = ~0u;
    for (int i = b->position / GROUP; i * GROUP < g->nblocks; i++) g->groups[i].stale = ~0u; /* all later ones move */
}

/* The block for an item that begins at `begin`: after all that begin there or below. */
static struct block *block_for(struct mt_gaps *g, int64_t begin) {
    int at = 0, high = g->nblocks; /* the first block that begins above */
    while (at < high) {
        int middle = at + (high - at) / 2;
        if (g->blocks[middle]->begin[0] > begin)
            high = middle;
        else
            at = middle + 1;
    }
    if (!g->nblocks) return add_new_block(g, 0);
    struct block *b = g->blocks[at ? at - 1 : 0];
    if (b->n < BLOCK) return b;
    split(g, b);
    struct block *upper = g->blocks[b->position + 1];
    return upper->begin[0] > begin ? b : upper;
}

void mt_gaps_place(struct mt_gaps *g, int item, int64_t begin, int64_t end) {
    struct block *b = block_for(g, begin);
    const int *life = lifetime_of(g, item);
    int at = b->n++;
    for (; at > 0 && b->begin[at - 1] > begin; at--) copy_item(g, b, at, b, at - 1);
    b->item[at] = item;
    b->begin[at] = begin;
    b->end[at] = end;
    for (int t = 0; t < 2 * g->nstreams; t++) b->ends[t][at] = life[t];
    uint64_t below = ((uint64_t)1 << at) - 1;
    for (int c = 0; c < g->ncursors; c++) {
        uint64_t mine = (uint64_t)conflict(g, &g->cursors[c], item) << at;
        b->conflicts[c] = (b->conflicts[c] & below) | mine | (b->conflicts[c] & ~below) << 1;
    }
    g->where[item] = b;
    g->nplaced++;
    set_stale(g, b, ~0u);
}

/* ---- the whole ---- */

/* Sort the items by `last`, or `known`, of a stream, by counting. */
static void sort_items(struct mt_gaps *g, bool known, int stream, int **items, int **begin) {
    *items = mt_new(&g->arena, int, g->nitems);
    *begin = mt_new(&g->arena, int, g->nkeys + 1);
    int *key = mt_malloc(((size_t)g->nitems + 1) * sizeof *key), *next = mt_malloc((size_t)g->nkeys * sizeof *next);
    for (int i = 0; i < g->nitems; i++) {
        key[i] = key_of(g, lifetime_of(g, i)[known ? g->nstreams + stream : stream]);
        (*begin)[key[i] + 1]++;
    }
    for (int k = 0; k < g->nkeys; k++) {
        next[k] = (*begin)[k];
        (*begin)[k + 1] += (*begin)[k];
    }
    for (int i = 0; i < g->nitems; i++) (*items)[next[key[i]]++] = i;
    free(key);
    free(next);
}

struct mt_gaps *mt_gaps_new(const struct mt_lifetime *lifetimes, int nitems, int nstreams) {
    struct mt_gaps *g = mt_calloc(1, sizeof *g);
    int most = -1, most_blocks = nitems / (BLOCK / 2) + 2;
    g->nstreams = nstreams;
    g->lifetimes = mt_new(&g->arena, int, (size_t)nitems * 2 * (size_t)nstreams + 1);
    for (int i = 0; i < nitems; i++)
        for (int t = 0; t < nstreams; t++) {
            g->lifetimes[(size_t)(2 * i * nstreams + t)] = lifetimes[i].last[t];
            g->lifetimes[(size_t)(2 * i * nstreams + nstreams + t)] = lifetimes[i].known[t];
            if (lifetimes[i].last[t] != INT_MAX && lifetimes[i].last[t] > most) most = lifetimes[i].last[t];
            if (lifetimes[i].known[t] != INT_MAX && lifetimes[i].known[t] > most) most = lifetimes[i].known[t];
        }
    g->nitems = nitems;
    g->nkeys = most + 3;
    g->ncursors = 1;
    for (int t = 0; t < nstreams; t++) {
        sort_items(g, false, t, &g->by_last[t], &g->begin_of_last[t]);
        sort_items(g, true, t, &g->by_known[t], &g->begin_of_known[t]);
        g->cursors[0].last[t] = g->cursors[0].known[t] = -1;
    }
    g->blocks = mt_new(&g->arena, struct block *, most_blocks);
    g->where = mt_new(&g->arena, struct block *, nitems);
    g->groups = mt_new(&g->arena, struct group, most_blocks / GROUP + 1);
    return g;
}

void mt_gaps_free(struct mt_gaps *gaps) {
    mt_arena_release(&gaps->arena);
    free(gaps);
}

int64_t mt_gaps_steps(const struct mt_gaps *gaps) {
    return gaps->steps;
}
