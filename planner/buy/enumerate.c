/* Configurations in the order of money, by a heap: each is the successor of one other, that with one node less of its
 * last item, which costs no more and has fewer devices. */
#include <string.h>

#include "planner/buy/internal.h"

struct queue {
    const struct searching *s;
    int count, capacity;
    struct candidate *items;
};

static bool before(const struct searching *s, const struct candidate *a, const struct candidate *b) {
    if (a->money != b->money) return a->money < b->money;
    if (a->per_hour != b->per_hour) return a->per_hour < b->per_hour;
    if (a->devices != b->devices) return a->devices < b->devices;
    for (int i = 0; i < s->buy->nitems; i++)
        if (a->counts[i] != b->counts[i]) return a->counts[i] < b->counts[i];
    return false;
}

static void push(struct queue *q, struct candidate c, struct mt_arena *arena) {
    mt_arena_grow(arena, &q->items, q->count, &q->capacity, sizeof *q->items);
    int at = q->count++;
    for (; at && before(q->s, &c, &q->items[(at - 1) / 2]); at = (at - 1) / 2) q->items[at] = q->items[(at - 1) / 2];
    q->items[at] = c;
}

static struct candidate pop(struct queue *q) {
    struct candidate first = q->items[0], last = q->items[--q->count];
    int at = 0;
    for (int child; (child = 2 * at + 1) < q->count; at = child) {
        if (child + 1 < q->count && before(q->s, &q->items[child + 1], &q->items[child])) child++;
        if (!before(q->s, &q->items[child], &last)) break;
        q->items[at] = q->items[child];
    }
    q->items[at] = last;
    return first;
}

/* With a node more, of the last item that it has or of a later one. */
static void push_successors(struct searching *s, struct queue *q, const struct candidate *c) {
    int n = s->buy->nitems, last = 0;
    for (int i = 0; i < n; i++)
        if (c->counts[i]) last = i;
    for (int i = last; i < n; i++) {
        struct candidate next;
        if (c->counts[i] >= s->most[i]) continue;
        int64_t *counts = mt_arena_memdup(&s->arena, c->counts, (size_t)n * sizeof *counts);
        counts[i]++;
        mt_buy_price(s, counts, &next);
        bool owns = s->buy->owned != NULL;
        if (next.money <= s->top && (mt_buy_within(s, &next) || (!owns && !next.devices))) push(q, next, &s->arena);
    }
}

int mt_buy_enumerate(struct searching *s, int most, struct candidate **candidates, bool *all) {
    struct queue q = {.s = s};
    struct candidate c;
    int count = 0;
    mt_buy_price(s, mt_new(&s->arena, int64_t, s->buy->nitems), &c);
    *candidates = mt_new(&s->arena, struct candidate, most);
    for (push(&q, c, &s->arena); q.count && count < most;) {
        c = pop(&q);
        push_successors(s, &q, &c);
        if (c.devices) (*candidates)[count++] = c;
    }
    *all = !q.count;
    return count;
}

/* ---- how many there are ---- */

struct counting {
    const struct searching *s;
    double money, most, count;
    int64_t *counts;
};

static void count_from(struct counting *c, int item) {
    struct candidate at;
    if (c->count >= c->most) return;
    mt_buy_price(c->s, c->counts, &at);
    if (at.money > c->money || (at.devices && !mt_buy_within(c->s, &at))) return;
    if (item == c->s->buy->nitems) {
        c->count += at.devices > 0;
        return;
    }
    for (int64_t n = 0; n <= c->s->most[item] && c->count < c->most; n++) {
        c->counts[item] = n;
        mt_buy_price(c->s, c->counts, &at);
        if (at.money > c->money || (at.devices && !mt_buy_within(c->s, &at))) break;
        count_from(c, item + 1);
    }
    c->counts[item] = 0;
}

double mt_buy_configurations(const struct searching *s, double money, double most) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct counting c = {s, money, most, 0, mt_new(&arena, int64_t, s->buy->nitems)};
    count_from(&c, 0);
    mt_arena_release(&arena);
    return c.count;
}
