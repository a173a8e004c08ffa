/* Balance: local search on the exact curves.
 *
 * A move transfers an amount of a split from ranks of one group to ranks of another; a swap also transfers an amount of
 * another split back; a class move changes all ranks of a group by a unit or two, and single units of other ranks make
 * up for it. The step is a sum of maxima, so while several ranks are equally slow most moves do not change it: among
 * equal steps, the smaller sum of (time / longest)^16 is better. */
#include <math.h>
#include <string.h>

#include "kernels/base/number/rng.h"
#include "planner/balance/internal.h"

#define MOST_AMOUNTS 64

struct score {
    double over, step_s, level;
};

struct stage_top { /* the three slowest groups of a stage */
    int group[3];
    double t[3];
};

struct search {
    struct balance *b;
    struct balance_state *state;
    struct balance_state scratch;
    struct stage_top top[MT_BALANCE_MOST_STAGES];
    double inverse[MT_BALANCE_MOST_STAGES]; /* of the longest time, at the beginning */
    struct score now;
    int64_t end_work;
    int64_t draws; /* of random numbers */
};

/* `count` ranks leave group `from` (-1: none do) and become like `to`. */
struct change {
    int from;
    int64_t count;
    struct balance_group to;
};

static double level_of(const struct search *w, const struct balance_group *group) {
    double sum = 0;
    for (int k = 0; k < w->b->nstages; k++) {
        double x = group->t[k] * w->inverse[k];
        x *= x, x *= x, x *= x, x *= x;
        sum += x;
    }
    return sum;
}

static void measure(struct search *w) {
    struct balance_state *state = w->state;
    mt_balance_state_measure(w->b, state);
    w->now = (struct score){state->over, state->step_s, 0};
    for (int k = 0; k < w->b->nstages; k++) w->top[k] = (struct stage_top){{-1, -1, -1}, {0, 0, 0}};
    for (int g = 0; g < state->ngroups; g++) {
        w->now.level += (double)state->groups[g].count * level_of(w, &state->groups[g]);
        for (int k = 0; k < w->b->nstages; k++) {
            struct stage_top *top = &w->top[k];
            double t = state->groups[g].t[k];
            int at = 3;
            while (at > 0 && (top->group[at - 1] < 0 || top->t[at - 1] < t)) at--;
            for (int i = 2; i > at; i--) top->group[i] = top->group[i - 1], top->t[i] = top->t[i - 1];
            if (at < 3) top->group[at] = g, top->t[at] = t;
        }
    }
}

static bool better(struct score a, struct score b) {
    if (fabs(a.over - b.over) > 1e-12) return a.over < b.over;
    if (a.step_s < b.step_s * (1 - 1e-12)) return true;
    return a.step_s <= b.step_s * (1 + 1e-12) && a.level < b.level * (1 - 1e-9);
}

static struct score after(const struct search *w, const struct change *change, int n) {
    const struct balance_group *groups = w->state->groups;
    int gone[2] = {-1, -1}; /* groups that become empty */
    struct score s = {w->now.over, 0, w->now.level};
    for (int i = 0; i < n; i++) {
        const struct balance_group *from = &groups[change[i].from];
        int64_t leave = change[i].count;
        if (n == 2 && change[0].from == change[1].from) leave = change[0].count + change[1].count;
        if (leave == from->count) gone[i] = change[i].from;
        double count = (double)change[i].count;
        if (w->now.over > 0 || change[i].to.over > 0) s.over += count * (change[i].to.over - from->over);
        s.level += count * (level_of(w, &change[i].to) - level_of(w, from));
    }
    for (int k = 0; k < w->b->nstages; k++) {
        const struct stage_top *top = &w->top[k];
        int i = 0;
        while (i < 3 && top->group[i] >= 0 && (top->group[i] == gone[0] || top->group[i] == gone[1])) i++;
        double most = i < 3 && top->group[i] >= 0 ? top->t[i] : 0;
        for (int j = 0; j < n; j++) most = balance_larger(most, change[j].to.t[k]);
        s.step_s += most;
    }
    if (s.over < 1e-12) s.over = 0;
    return s;
}

static void apply(struct search *w, const struct change *change, int n) {
    struct balance_group from[2];
    for (int i = 0; i < n; i++) from[i] = w->state->groups[change[i].from];
    for (int i = 0; i < n; i++) {
        mt_balance_state_add(w->state, &from[i], -change[i].count);
        mt_balance_state_add(w->state, &change[i].to, change[i].count);
    }
    measure(w);
}

/* What may go from a share to another so that at most one stays ragged; ascending is not needed. */
static int amounts(const struct balance *b, int split, int64_t from, int64_t to, int64_t *out) {
    int64_t align = b->align[split], ragged = b->extent[split] % align;
    int64_t offset[3] = {0};
    int n = 0, noffsets = 1;
    if (from % align) offset[noffsets++] = ragged;
    if (to % align) offset[noffsets++] = -ragged;
    for (int o = 0; o < noffsets; o++) {
        int64_t most = (from - offset[o]) / align;
        if (from < offset[o]) continue;
        for (int64_t units = offset[o] > 0 ? 0 : 1; units <= most && n < MOST_AMOUNTS - 2;
             units = units < 4 ? units + 1 : 2 * units)
            out[n++] = units * align + offset[o];
    }
    if (n && from % align == 0 && from > 4 * align) out[n++] = from;
    return n;
}

static struct change changed(struct search *w, int group, int split, int64_t amount, int64_t count) {
    struct change change = {group, count, w->state->groups[group]};
    change.to.x[split] += amount;
    return change;
}

static bool critical(const struct search *w, const struct balance_group *group) {
    if (group->over > 0) return true;
    for (int k = 0; k < w->b->nstages; k++)
        if (group->t[k] >= w->top[k].t[0] * (1 - 1e-9) && group->t[k] > 0) return true;
    return false;
}

struct best_change {
    struct change change[2];
    struct score score;
    bool found;
};

static void consider(struct search *w, struct change change[2], struct best_change *best) {
    struct balance_group *groups = w->state->groups;
    int64_t a = groups[change[0].from].count, c = groups[change[1].from].count;
    int64_t most = change[0].from == change[1].from ? a / 2 : a < c ? a : c;
    mt_balance_rank(w->b, &change[0].to);
    mt_balance_rank(w->b, &change[1].to);
    for (int all = 0; all < (most > 1 ? 2 : 1); all++) {
        change[0].count = change[1].count = all ? most : 1;
        struct score score = after(w, change, 2);
        if (!better(score, best->found ? best->score : w->now)) continue;
        memcpy(best->change, change, sizeof best->change);
        best->score = score, best->found = true;
    }
}

static bool spent(const struct search *w) {
    return w->b->work >= w->end_work;
}

/* The best move from a group to any other, if either is critical. */
static bool move_from(struct search *w, int from) {
    struct best_change best = {.found = false};
    int64_t amount[MOST_AMOUNTS];
    struct balance_group *groups = w->state->groups;
    bool critical_from = critical(w, &groups[from]);
    for (int to = 0; to < w->state->ngroups; to++) {
        if ((from == to && groups[from].count < 2) || (!critical_from && !critical(w, &groups[to]))) continue;
        for (int s = 0; s < w->b->nsplits; s++) {
            int n = amounts(w->b, s, groups[from].x[s], groups[to].x[s], amount);
            for (int i = 0; i < n; i++) {
                struct change change[2] = {changed(w, from, s, -amount[i], 1), changed(w, to, s, amount[i], 1)};
                consider(w, change, &best);
            }
        }
    }
    if (best.found) apply(w, best.change, 2);
    return best.found;
}

static bool move_between(struct search *w) {
    bool moved = false;
    for (int from = 0; from < w->state->ngroups && !spent(w); from++)
        if (move_from(w, from)) moved = true;
    return moved;
}

/* A critical group gives of one split and takes of another. */
static bool swap_splits(struct search *w) {
    struct best_change best = {.found = false};
    struct balance_group *groups = w->state->groups;
    const struct balance *b = w->b;
    for (int from = 0; from < w->state->ngroups && !spent(w); from++) {
        if (!critical(w, &groups[from])) continue;
        for (int pair = 0; pair < w->state->ngroups * b->nsplits * b->nsplits * 9; pair++) {
            int units = pair % 9, to = pair / 9 / b->nsplits / b->nsplits;
            int give = pair / 9 % b->nsplits, take = pair / 9 / b->nsplits % b->nsplits;
            int64_t given = b->align[give] << (units % 3), taken = b->align[take] << (units / 3);
            if (give == take || (from == to && groups[from].count < 2)) continue;
            if (groups[from].x[give] < given || groups[to].x[take] < taken) continue;
            struct change change[2] = {changed(w, from, give, -given, 1), changed(w, to, give, given, 1)};
            change[0].to.x[take] += taken, change[1].to.x[take] -= taken;
            consider(w, change, &best);
        }
    }
    if (best.found) apply(w, best.change, 2);
    return best.found;
}

/* Add `units` of `sign` where they cost least, one unit a rank at a time. False when there is no room. */
static bool spread(struct search *w, int split, int64_t units, int sign, const struct balance_group *but) {
    for (int rounds = 0; units > 0; rounds++) {
        struct best_change best = {.found = false};
        if (rounds > 64 || spent(w)) return false;
        for (int g = 0; g < w->state->ngroups; g++) {
            struct balance_group *group = &w->state->groups[g];
            if (sign < 0 && group->x[split] < w->b->align[split]) continue;
            if (group->class == but->class && !memcmp(group->x, but->x, sizeof but->x)) continue;
            struct change change = changed(w, g, split, sign * w->b->align[split], group->count);
            if (change.count > units) change.count = units;
            mt_balance_rank(w->b, &change.to);
            struct score score = after(w, &change, 1);
            if (best.found && !better(score, best.score)) continue;
            best.change[0] = change, best.score = score, best.found = true;
        }
        if (!best.found) return false;
        units -= best.change[0].count;
        apply(w, best.change, 1);
    }
    return true;
}

/* Whether all ranks of a group can have `units` more (or fewer) of a split. */
static bool can_change(const struct search *w, const struct balance_group *group, int split, int64_t units) {
    int64_t share = group->x[split] + units * w->b->align[split];
    return share >= 0 && share <= w->b->extent[split] / group->count;
}

/* A class move; `sign`: whether the group's ranks get units or give them. */
static bool move_class(struct search *w, int sign) {
    struct balance_state *real = w->state;
    for (int g = 0; g < real->ngroups && !spent(w); g++) {
        if (sign < 0 && !critical(w, &real->groups[g])) continue;
        for (int s = 0; s < w->b->nsplits; s++)
            for (int units = 1; units <= 2; units++) {
                struct score before = w->now;
                if (!can_change(w, &real->groups[g], s, sign * units)) continue;
                struct change change = changed(w, g, s, sign * units * w->b->align[s], real->groups[g].count);
                mt_balance_rank(w->b, &change.to);
                mt_balance_state_copy(real, &w->scratch);
                w->state = &w->scratch;
                apply(w, &change, 1);
                bool done = spread(w, s, change.count * units, -sign, &change.to) && better(w->now, before);
                w->state = real;
                if (done) mt_balance_state_copy(&w->scratch, real);
                measure(w);
                if (done) return true;
            }
    }
    return false;
}

static void descend(struct search *w) {
    for (int k = 0; k < w->b->nstages; k++) {
        double longest = 0;
        for (int g = 0; g < w->state->ngroups; g++) longest = fmax(longest, w->state->groups[g].t[k]);
        w->inverse[k] = longest > 0 ? 1 / longest : 0;
    }
    measure(w);
    while (!spent(w) && !mt_balance_time_is_up(w->b))
        if (!move_between(w) && !swap_splits(w) && !move_class(w, -1) && !move_class(w, 1)) break;
}

void mt_balance_descend(struct balance *b, struct balance_state *state, int64_t most_work) {
    struct search w = {.b = b, .state = state, .end_work = b->work + most_work};
    descend(&w);
    mt_balance_state_release(&w.scratch);
}

static int64_t draw(struct search *w, int64_t below) {
    return (int64_t)mt_random_below(1, 0, (uint64_t)w->draws++, (uint64_t)below);
}

/* A random class move, at any cost; undone if the other ranks have no room. */
static void kick_class(struct search *w) {
    int g = (int)draw(w, w->state->ngroups), s = (int)draw(w, w->b->nsplits), sign = draw(w, 2) ? 1 : -1;
    int64_t units = 1 + draw(w, 4), align = w->b->align[s];
    if (sign < 0 && w->state->groups[g].x[s] < units * align) units = w->state->groups[g].x[s] / align;
    if (!units || !can_change(w, &w->state->groups[g], s, sign * units)) return;
    struct change change = changed(w, g, s, sign * units * align, w->state->groups[g].count);
    mt_balance_rank(w->b, &change.to);
    mt_balance_state_copy(w->state, &w->scratch);
    apply(w, &change, 1);
    if (spread(w, s, change.count * units, -sign, &change.to)) return;
    mt_balance_state_copy(&w->scratch, w->state);
    measure(w);
}

static void kick_ranks(struct search *w) {
    for (int64_t moves = 1 + draw(w, 3); moves > 0; moves--) {
        int from = (int)draw(w, w->state->ngroups), to = (int)draw(w, w->state->ngroups);
        int split = (int)draw(w, w->b->nsplits);
        int64_t amount[MOST_AMOUNTS];
        int n = amounts(w->b, split, w->state->groups[from].x[split], w->state->groups[to].x[split], amount);
        if (!n || (from == to && w->state->groups[from].count < 2)) continue;
        int64_t some = amount[draw(w, n < 4 ? n : 4)];
        struct change change[2] = {changed(w, from, split, -some, 1), changed(w, to, split, some, 1)};
        mt_balance_rank(w->b, &change[0].to);
        mt_balance_rank(w->b, &change[1].to);
        apply(w, change, 2);
    }
}

void mt_balance_kick(struct balance *b, struct balance_state *best, double good_s, int64_t most_work) {
    struct balance_state state = {0};
    struct search w = {.b = b, .state = &state, .end_work = b->work + most_work};
    while (!spent(&w) && !mt_balance_time_is_up(b) && (best->over > 0 || best->step_s > good_s)) {
        mt_balance_state_copy(best, &state);
        measure(&w);
        if (draw(&w, 2))
            kick_class(&w);
        else
            kick_ranks(&w);
        descend(&w);
        if (mt_balance_better(&state, best)) mt_balance_state_copy(&state, best);
    }
    mt_balance_state_release(&state);
    mt_balance_state_release(&w.scratch);
}
