/* Which configurations are judged: buy.h says how. The sequence depends on the catalogue, what is owned, the jobs and
 * the limits other than of money; s->top alone ends it. */
#include <math.h>
#include <string.h>

#include "planner/buy/internal.h"

static const double rung = 1.05;  /* the next sum of money over the last */
static const double worth = 0.97; /* of the best time with no more money: what a proposal must promise */
enum { MOVES = 1, MOST_MOVES = 4096 };

static int64_t most_nodes(const struct searching *s, int i) {
    const struct mt_purchase_limits *l = &s->buy->limits;
    const struct mt_purchase_item *item = &s->buy->items[i].shown;
    double left = l->devices - (s->buy->owned ? s->buy->owned->ndevices : 0), most = floor(left / item->devices);
    if (item->most) most = fmin(most, item->most);
    if (l->nodes > 0) most = fmin(most, l->nodes);
    if (l->power_W > 0 && item->power_W > 0) most = fmin(most, floor(l->power_W / item->power_W * ROUNDING));
    if (l->rack_units > 0 && item->rack_units > 0)
        most = fmin(most, floor(l->rack_units / item->rack_units * ROUNDING));
    return (int64_t)fmax(0, most);
}

static bool is_full(const struct searching *s) {
    return s->njudged >= s->buy->most_judged;
}

/* ---- the first ones ---- */

/* All of the first ones that nothing beats, in batches; *money: up to which all are looked at. */
static enum mt_status judge_first(struct searching *s, double *money, bool *all) {
    struct candidate *candidates, batch[BATCH];
    int count = mt_buy_enumerate(s, s->buy->exact, &candidates, all), n = 0;
    *money = count ? candidates[count - 1].money : 0;
    for (int i = 0; i < count; i++) {
        enum mt_status st = mt_buy_bound(s, &candidates[i]);
        if (st) return st;
        if (!mt_buy_is_beaten(s, &candidates[i])) batch[n++] = candidates[i];
        if (n < BATCH && i < count - 1) continue;
        if (is_full(s)) return MT_OK;
        if ((st = mt_buy_judge_batch(s, batch, n))) return st;
        n = 0;
    }
    return MT_OK;
}

/* ---- further sums of money ---- */

/* A move: a judged configuration with other counts, and what it promises. */
struct move {
    struct candidate candidate;
    double estimate_s;
};
struct moving {
    struct searching *s;
    const struct mt_buy_config *from;
    double least, most; /* money */
    int count, capacity;
    struct move *moves;
    struct mt_arena arena;
};

/* If it scales from there on as linearly as rates allow. */
static double promise_s(const struct moving *m, const int64_t *counts) {
    double sum = 0;
    for (int j = 0; j < m->s->buy->njobs; j++)
        sum += m->from->jobs[j].time_s * mt_buy_rate(m->s, m->from->counts, j) / mt_buy_rate(m->s, counts, j);
    return sum;
}

static void try_move(struct moving *m, const int64_t *counts) {
    struct searching *s = m->s;
    int64_t *own = mt_arena_memdup(&s->arena, counts, (size_t)s->buy->nitems * sizeof *own);
    struct move move;
    mt_buy_price(s, own, &move.candidate);
    if (move.candidate.money <= m->least || move.candidate.money > m->most || !mt_buy_within(s, &move.candidate))
        return;
    if (m->count >= MOST_MOVES || mt_buy_is_judged(s, own)) return;
    for (int i = 0; i < m->count; i++)
        if (!memcmp(m->moves[i].candidate.counts, own, (size_t)s->buy->nitems * sizeof *own)) return;
    move.estimate_s = promise_s(m, own);
    mt_arena_grow(&m->arena, &m->moves, m->count, &m->capacity, sizeof *m->moves);
    m->moves[m->count++] = move;
}

/* Some nodes of item i more, after `less` of item k (or -1: of none) are taken away: as many as money allows, and one
 * fewer. */
static void add_of(struct moving *m, int64_t *counts, int i) {
    const struct searching *s = m->s;
    struct candidate at;
    mt_buy_price(s, counts, &at);
    const struct mt_purchase_item *item = &s->buy->items[i].shown;
    double each = s->rent ? item->per_hour : item->price, room = (m->most - at.money) / each * ROUNDING;
    int64_t was = counts[i], most = s->most[i] - was;
    if (each > 0 && room < (double)most) most = (int64_t)floor(room);
    for (int64_t more = most; more >= 1 && more >= most - 1; more--) {
        counts[i] = was + more;
        try_move(m, counts);
    }
    counts[i] = was;
}

static void find_moves(struct moving *m) {
    const struct searching *s = m->s;
    int n = s->buy->nitems;
    int64_t *counts = mt_arena_memdup(&m->arena, m->from->counts, (size_t)n * sizeof *counts);
    for (int k = -1; k < n; k++) {
        for (int64_t less = 1; less <= 2 && (k < 0 ? less == 1 : m->from->counts[k] >= less); less++) {
            if (k >= 0) counts[k] = m->from->counts[k] - less;
            for (int i = 0; i < n; i++)
                if (i != k) add_of(m, counts, i);
            if (k >= 0) counts[k] = m->from->counts[k];
        }
    }
}

/* The most promising moves from the best two with at most `most` money that cost more than `least`. */
static int moves_between(struct searching *s, double least, double most, struct candidate *chosen) {
    struct moving m = {.s = s, .least = least, .most = most};
    int which, count = 0;
    double best_s = mt_buy_best(s, least, &which);
    if (which < 0) return 0;
    m.from = s->judged[which];
    find_moves(&m);
    int other = -1;
    for (int i = 0; i < s->njudged; i++) {
        if (i == which || s->judged[i]->refused || s->judged_as[i].money > least) continue;
        if (other < 0 || s->judged[i]->time_s < s->judged[other]->time_s) other = i;
    }
    if (other >= 0) m.from = s->judged[other], find_moves(&m);
    while (count < MOVES) {
        int next = -1;
        for (int i = 0; i < m.count; i++)
            if (isfinite(m.moves[i].estimate_s) && (next < 0 || m.moves[i].estimate_s < m.moves[next].estimate_s))
                next = i;
        if (next < 0 || m.moves[next].estimate_s > worth * best_s) break;
        m.moves[next].estimate_s = INFINITY;
        chosen[count++] = m.moves[next].candidate;
    }
    mt_arena_release(&m.arena);
    return count;
}

/* What the integer programme proposes, unless it was judged or promises too little. */
static enum mt_status propose(struct searching *s, double money, struct candidate *candidate, bool *proposed) {
    int64_t *counts = mt_new(&s->arena, int64_t, s->buy->nitems);
    struct relaxed relaxed;
    enum mt_status st = mt_buy_relax(s, money, NULL, counts, proposed, &relaxed);
    if (st || !*proposed) return st;
    mt_buy_price(s, counts, candidate);
    *proposed = candidate->devices > 0 && candidate->money <= money * (1 + 1e-9) && mt_buy_within(s, candidate) &&
                !mt_buy_is_judged(s, counts) && relaxed.time_s <= worth * mt_buy_best(s, money, NULL);
    return MT_OK;
}

static bool is_among(const struct searching *s, const struct candidate *list, int count, const int64_t *counts) {
    for (int i = 0; i < count; i++)
        if (!memcmp(list[i].counts, counts, (size_t)s->buy->nitems * sizeof *counts)) return true;
    return false;
}

/* One sum of money: *ends: some of what follows would depend on what costs more than s->top. */
static enum mt_status climb(struct searching *s, double before, double money, bool *ends) {
    struct candidate list[BATCH], moves[MOVES], proposal;
    bool proposed;
    int count = 0;
    enum mt_status st = propose(s, money, &proposal, &proposed);
    if (st) return st;
    if (proposed) list[count++] = proposal;
    int nmoves = moves_between(s, before, money, moves);
    for (int i = 0; i < nmoves; i++)
        if (!is_among(s, list, count, moves[i].counts)) list[count++] = moves[i];
    int kept = 0;
    for (int i = 0; i < count; i++) {
        if ((st = mt_buy_bound(s, &list[i]))) return st;
        *ends |= list[i].money > s->top;
        if (!mt_buy_is_beaten(s, &list[i])) list[kept++] = list[i];
    }
    return mt_buy_judge_batch(s, list, kept);
}

/* The first sum of a fixed ladder that is above so much. */
static double first_rung(const struct searching *s, double money) {
    double least = INFINITY;
    for (int i = 0; i < s->buy->nitems; i++) {
        const struct mt_purchase_item *item = &s->buy->items[i].shown;
        double each = s->rent ? item->per_hour : item->price;
        if (each > 0 && s->most[i] > 0) least = fmin(least, each);
    }
    while (least <= money) least *= rung;
    return least;
}

double mt_buy_most_money(const struct searching *s) {
    double sum = 0;
    for (int i = 0; i < s->buy->nitems; i++) {
        const struct mt_purchase_item *item = &s->buy->items[i].shown;
        sum += (double)s->most[i] * (s->rent ? item->per_hour : item->price);
    }
    return sum;
}

enum mt_status mt_buy_sequence(struct searching *s) {
    double before;
    bool all, ends = false;
    s->most = mt_new(&s->arena, int64_t, s->buy->nitems);
    for (int i = 0; i < s->buy->nitems; i++) s->most[i] = most_nodes(s, i);
    s->top = fmin(s->top, mt_buy_most_money(s));
    enum mt_status st = judge_first(s, &before, &all);
    if (st || all) return st;
    for (int again = 0; again < BATCH && !st && !ends && !is_full(s); again++) st = climb(s, -1, before, &ends);
    double money = first_rung(s, before);
    while (!st && !ends && before < s->top && isfinite(money) && !is_full(s)) {
        st = climb(s, before, money, &ends);
        before = money, money *= rung;
    }
    return st;
}
