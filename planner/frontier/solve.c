/* The dynamic programme over groups. A narrow search first finds a good choice; partial choices that cost more than it,
 * even if every group to come took its cheapest alternative for nothing more, are left out of the wide one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/frontier/internal.h"

enum { NARROW = 200 };            /* states of the first search */
enum { MOST_LOOKED_AT = 400000 }; /* of the second one, roughly: with many groups it is narrower, too */
enum { PERIODS = 4 };             /* layers after which frontiers may repeat */

struct origin { /* how a state came about */
    int parent, alternative;
};

/* States of one frontier: key[i width .. ) holds a word for each of its values, hash[i] the sum of hash_word over them,
 * so that it is quickly found again where few words change. */
struct states {
    int count, capacity, width;
    uint64_t *key, *hash;
    double *cost;
    struct origin *origin;
    int *slots; /* open addressing, state + 1 */
    int nslots;
};

/* One group's place in the order: what becomes of the values that it meets. */
struct step {
    const struct mt_frontier_kind *kind;
    int nvalues; /* of the frontier before, then those that begin here */
    int nbefore, nafter;
    int *value;            /* [nvalues] */
    int *of;               /* [nvalues]: its place in the group, or -1 */
    int *to;               /* [nvalues]: its place in the frontier after, or -1: the group is its last */
    int nmet, *met;        /* the values that the group meets */
    struct origin *origin; /* of the states after; equal layers share them */
};

struct served { /* mt_frontier_serve, remembered */
    const struct mt_frontier_table *table;
    uint64_t word;
    double cost;
};

struct solver {
    const struct mt_frontier *problem;
    struct mt_arena arena;
    struct step *steps;      /* [ngroups] */
    double *rest;            /* [ngroups + 1]: the least that the groups from here on cost */
    int *like;               /* [nvalues]: the first value with the same table */
    uint64_t *makes, *wants; /* [nvalues]: layouts that some alternative makes, or wants, of values like this */
    double **regret; /* [nvalues][extra (nlayouts + 1) + made + 1]: of values like this (regret_of); NAN: not known */
    double limit;    /* of the cost of a whole choice */
    int most;        /* states; 0: any number */
    int64_t give_up; /* states looked at, from which on a search ends without a choice; 0: never */
    bool cut;
    int64_t nstates;
    struct served *served;
    int nserved, served_capacity;
};

/* ---- the order of values ---- */

/* Values of one table are one: equal layers are to be solved alike, whatever reads the last of them. */
static void find_wants(struct solver *s) {
    const struct mt_frontier *p = s->problem;
    int *first = mt_new(&s->arena, int, p->nvalues + 1), ntables = 0;
    s->like = mt_new(&s->arena, int, p->nvalues + 1);
    s->makes = mt_new(&s->arena, uint64_t, p->nvalues + 1);
    s->wants = mt_new(&s->arena, uint64_t, p->nvalues + 1);
    s->regret = mt_new(&s->arena, double *, p->nvalues + 1);
    for (int v = 0; v < p->nvalues; v++) {
        int t = 0;
        while (t < ntables && p->tables[first[t]] != p->tables[v]) t++;
        if (t == ntables) first[ntables++] = v;
        s->like[v] = first[t];
    }
    for (int g = 0; g < p->ngroups; g++)
        for (int i = 0; i < p->groups[g].kind->nvalues; i++) {
            const struct mt_frontier_kind *kind = p->groups[g].kind;
            int v = s->like[p->groups[g].values[i]];
            for (int a = 0; a < kind->nalternatives; a++) {
                int made = kind->alternatives[a].made[i];
                if (made >= 0) s->makes[v] |= (uint64_t)1 << made;
                s->wants[v] |= kind->alternatives[a].wanted[i];
            }
        }
}

static void find_steps(struct solver *s) {
    const struct mt_frontier *p = s->problem;
    int *last = mt_new(&s->arena, int, p->nvalues + 1), *seen = mt_new(&s->arena, int, p->nvalues + 1);
    int *frontier = mt_new(&s->arena, int, p->nvalues + 1), width = 0;
    s->steps = mt_new(&s->arena, struct step, p->ngroups + 1);
    s->rest = mt_new(&s->arena, double, p->ngroups + 1);
    for (int g = 0; g < p->ngroups; g++)
        for (int i = 0; i < p->groups[g].kind->nvalues; i++) last[p->groups[g].values[i]] = g;
    for (int g = 0; g < p->ngroups; g++) {
        const struct mt_frontier_group *group = &p->groups[g];
        struct step *step = &s->steps[g];
        int n = group->kind->nvalues;
        *step = (struct step){.kind = group->kind, .nbefore = width};
        step->value = mt_new(&s->arena, int, width + n);
        step->of = mt_new(&s->arena, int, width + n);
        step->to = mt_new(&s->arena, int, width + n);
        step->met = mt_new(&s->arena, int, n);
        for (int i = 0; i < width; i++) step->value[i] = frontier[i], step->of[i] = -1;
        step->nvalues = width;
        for (int i = 0; i < n; i++) {
            int v = group->values[i], at = step->nvalues;
            if (seen[v])
                for (at = 0; step->value[at] != v;) at++;
            else
                step->nvalues++;
            seen[v] = 1, step->value[at] = v, step->of[at] = i;
        }
        width = 0;
        for (int i = 0; i < step->nvalues; i++) {
            if (step->of[i] >= 0) step->met[step->nmet++] = i;
            step->to[i] = last[step->value[i]] == g ? -1 : width;
            if (step->to[i] >= 0) frontier[width++] = step->value[i];
        }
        step->nafter = width;
    }
    for (int g = p->ngroups - 1; g >= 0; g--) {
        double least = INFINITY;
        for (int a = 0; a < p->groups[g].kind->nalternatives; a++)
            least = fmin(least, p->groups[g].kind->alternatives[a].cost_s);
        s->rest[g] = s->rest[g + 1] + least;
    }
}

/* ---- conversions ---- */

static unsigned mix(uint64_t x) {
    x ^= x >> 31;
    x *= 0x9e3779b97f4a7c15u;
    return (unsigned)(x >> 32);
}

static struct served *served_at(struct solver *s, const struct mt_frontier_table *table, uint64_t word) {
    unsigned mask = (unsigned)s->served_capacity - 1, at = (mix(word) ^ mix((uint64_t)(uintptr_t)table)) & mask;
    while (s->served[at].table && (s->served[at].table != table || s->served[at].word != word)) at = (at + 1) & mask;
    return &s->served[at];
}

static double serve(struct solver *s, int value, uint64_t word) {
    const struct mt_frontier_table *table = s->problem->tables[value];
    if (mt_frontier_made(word) < 0) return 0;
    if (2 * (s->nserved + 1) > s->served_capacity) {
        struct served *old = s->served;
        int n = s->served_capacity;
        s->served_capacity = n ? 2 * n : 1024;
        s->served = mt_calloc((size_t)s->served_capacity, sizeof *s->served);
        for (int i = 0; i < n; i++)
            if (old[i].table) *served_at(s, old[i].table, old[i].word) = old[i];
        free(old);
    }
    struct served *known = served_at(s, table, word);
    if (!known->table) {
        s->nserved++;
        *known =
            (struct served){table, word, mt_frontier_serve(table, mt_frontier_made(word), mt_frontier_wanted(word))};
    }
    return known->cost;
}

/* ---- states ---- */

static void states_begin(struct states *t, int width) {
    t->count = 0;
    t->width = width;
    memset(t->slots, 0, (size_t)t->nslots * sizeof *t->slots);
}

/* Of the word at a place of a key. */
static uint64_t hash_word(int place, uint64_t word) {
    uint64_t x = (word + (uint64_t)(place + 1) * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    return (x ^ x >> 32) * 0x94d049bb133111ebu;
}

static int *slot_of(const struct states *t, const uint64_t *key, uint64_t hash) {
    uint64_t mask = (uint64_t)t->nslots - 1, at = hash >> 32 & mask;
    size_t width = (size_t)t->width;
    for (; t->slots[at]; at = (at + 1) & mask) {
        size_t state = (size_t)t->slots[at] - 1;
        if (t->hash[state] == hash && !memcmp(t->key + state * width, key, width * sizeof *key)) break;
    }
    return &t->slots[at];
}

static void states_grow(struct states *t) {
    if (t->count == t->capacity || !t->key) {
        t->capacity = t->capacity ? 2 * t->capacity : 256;
        t->cost = mt_realloc(t->cost, (size_t)t->capacity * sizeof *t->cost);
        t->origin = mt_realloc(t->origin, (size_t)t->capacity * sizeof *t->origin);
        t->hash = mt_realloc(t->hash, (size_t)t->capacity * sizeof *t->hash);
    }
    t->key = mt_realloc(t->key, (size_t)t->capacity * (size_t)(t->width + 1) * sizeof *t->key);
}

static void states_rehash(struct states *t) {
    if (2 * (t->count + 1) <= t->nslots) return;
    t->nslots = t->nslots ? 2 * t->nslots : 1024;
    t->slots = mt_realloc(t->slots, (size_t)t->nslots * sizeof *t->slots);
    memset(t->slots, 0, (size_t)t->nslots * sizeof *t->slots);
    for (int i = 0; i < t->count; i++) *slot_of(t, t->key + (size_t)i * (size_t)t->width, t->hash[i]) = i + 1;
}

static void keep(struct states *t, const uint64_t *key, uint64_t hash, double cost, struct origin origin) {
    states_rehash(t);
    int *slot = slot_of(t, key, hash);
    if (!*slot) {
        if (t->count == t->capacity) states_grow(t);
        t->hash[t->count] = hash;
        memcpy(t->key + (size_t)t->count * (size_t)t->width, key, (size_t)t->width * sizeof *key);
        t->cost[t->count] = INFINITY;
        *slot = ++t->count;
    }
    if (cost >= t->cost[*slot - 1]) return;
    t->cost[*slot - 1] = cost;
    t->origin[*slot - 1] = origin;
}

static void states_release(struct states *t) {
    free(t->key);
    free(t->hash);
    free(t->cost);
    free(t->origin);
    free(t->slots);
}

static int by_cost(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Take out the states marked. */
static void compact(struct states *t, const bool *out) {
    size_t width = (size_t)t->width;
    int kept = 0;
    for (int i = 0; i < t->count; i++) {
        if (out[i]) continue;
        memmove(t->key + (size_t)kept * width, t->key + (size_t)i * width, width * sizeof *t->key);
        t->hash[kept] = t->hash[i];
        t->cost[kept] = t->cost[i];
        t->origin[kept++] = t->origin[i];
    }
    t->count = kept;
}

/* What it may cost more at most, by all conversions to come, that the layout `extra` of a value is not wanted: others
 * that would be converted from it are converted from `made` then, and the conversion to it is saved. */
static double regret_of_made(const struct solver *s, int value, int made, int extra) {
    const struct mt_frontier_table *table = s->problem->tables[value];
    double gained = 0, least = INFINITY;
    for (int to = 0; to < table->nlayouts && made != extra; to++) {
        if (to == made || to == extra || !(s->wants[value] >> to & 1)) continue;
        double from_made = mt_frontier_convert(table, made, to), from_extra = mt_frontier_convert(table, extra, to);
        if (from_extra < from_made) gained += from_made - from_extra;
    }
    if (gained == 0) return 0;
    for (int from = 0; from < table->nlayouts; from++)
        if (from != extra && (from == made || s->wants[value] >> from & 1))
            least = fmin(least, mt_frontier_convert(table, from, extra));
    return gained > least ? gained - least : 0;
}

/* made -1: any that it may be made in. */
static double regret_of(struct solver *s, int value, int made, int extra) {
    int n = s->problem->tables[value]->nlayouts;
    value = s->like[value];
    if (!s->regret[value]) {
        s->regret[value] = mt_new(&s->arena, double, n *(n + 1));
        for (int i = 0; i < n * (n + 1); i++) s->regret[value][i] = NAN;
    }
    double *known = &s->regret[value][extra * (n + 1) + made + 1];
    if (!isnan(*known)) return *known;
    double most = made < 0 ? 0 : regret_of_made(s, value, made, extra);
    for (int m = 0; m < n && made < 0; m++)
        if (s->makes[value] >> m & 1) most = fmax(most, regret_of_made(s, value, m, extra));
    return *known = most;
}

/* A state that wants a layout more than another is of no use if it does not cost less by what the layout may be good
 * for. */
static void drop_dominated(struct solver *s, const struct step *step, struct states *t) {
    int *value = mt_malloc(((size_t)t->width + 1) * sizeof *value);
    for (int i = 0; i < step->nvalues; i++)
        if (step->to[i] >= 0) value[step->to[i]] = step->value[i];
    bool *out = mt_calloc((size_t)t->count + 1, sizeof *out);
    uint64_t *key = mt_malloc(((size_t)t->width + 1) * sizeof *key);
    for (int i = 0; i < t->count; i++) {
        memcpy(key, t->key + (size_t)i * (size_t)t->width, (size_t)t->width * sizeof *key);
        for (int k = 0; k < t->width && !out[i]; k++) {
            uint64_t all = key[k];
            for (uint64_t left = mt_frontier_wanted(all); left && !out[i]; left &= left - 1) {
                key[k] = all & ~(left & -left);
                uint64_t hash = t->hash[i] - hash_word(k, all) + hash_word(k, key[k]);
                int other = *slot_of(t, key, hash) - 1, extra = __builtin_ctzll(left);
                out[i] = other >= 0 && t->cost[other] <= t->cost[i] &&
                         t->cost[other] + regret_of(s, value[k], mt_frontier_made(all), extra) <= t->cost[i];
            }
            key[k] = all;
        }
    }
    compact(t, out);
    free(value);
    free(key);
    free(out);
}

/* Leave only the `most` cheapest. */
static void cut(struct solver *s, struct states *t) {
    if (!s->most || t->count <= s->most) return;
    double *sorted = mt_malloc((size_t)t->count * sizeof *sorted);
    memcpy(sorted, t->cost, (size_t)t->count * sizeof *sorted);
    qsort(sorted, (size_t)t->count, sizeof *sorted, by_cost);
    double least_cut = sorted[s->most];
    free(sorted);
    bool *out = mt_calloc((size_t)t->count + 1, sizeof *out);
    for (int i = 0, kept = 0; i < t->count; i++) {
        out[i] = t->cost[i] > least_cut || kept == s->most;
        kept += !out[i];
    }
    compact(t, out);
    free(out);
    s->cut = true;
}

/* ---- the programme ---- */

/* All alternatives of a group from one state. Words of values that the group does not meet stay as they are. */
static void expand(struct solver *s, const struct step *step, int g, const struct states *before, int state,
                   struct states *after, uint64_t *key) {
    const uint64_t *old = before->key + (size_t)state * (size_t)before->width;
    uint64_t others = 0;
    for (int i = 0; i < step->nbefore; i++)
        if (step->of[i] < 0) key[step->to[i]] = old[i], others += hash_word(step->to[i], old[i]);
    for (int a = 0; a < step->kind->nalternatives; a++) {
        const struct mt_frontier_alternative *alternative = &step->kind->alternatives[a];
        double cost = before->cost[state] + alternative->cost_s;
        uint64_t hash = others;
        for (int m = 0; m < step->nmet && cost + s->rest[g + 1] <= s->limit; m++) {
            int i = step->met[m], to = step->to[i];
            uint64_t word = (i < step->nbefore ? old[i] : 0) | mt_frontier_word(alternative, step->of[i]);
            if (to >= 0)
                key[to] = word, hash += hash_word(to, word);
            else
                cost += serve(s, step->value[i], word);
        }
        if (cost + s->rest[g + 1] <= s->limit && !isinf(cost)) keep(after, key, hash, cost, (struct origin){state, a});
    }
}

/* The frontier after a layer, to compare with that after the next. */
struct boundary {
    int count, width;
    uint64_t *key;
    double *cost;
    const struct mt_frontier_table **tables;
};

static struct boundary boundary_of(struct solver *s, const struct states *t, int g) {
    size_t n = (size_t)t->count, width = (size_t)t->width;
    struct boundary b = {.count = t->count, .width = t->width};
    b.key = mt_arena_memdup(&s->arena, t->key, n * width * sizeof *t->key);
    b.cost = mt_arena_memdup(&s->arena, t->cost, n * sizeof *t->cost);
    b.tables = mt_new(&s->arena, const struct mt_frontier_table *, width + 1);
    for (int i = 0; i < s->steps[g].nvalues; i++)
        if (s->steps[g].to[i] >= 0) b.tables[s->steps[g].to[i]] = s->problem->tables[s->steps[g].value[i]];
    return b;
}

/* Whether the frontiers are equal but for a constant, *more, in all costs. */
static bool repeats(const struct boundary *a, const struct boundary *b, double *more) {
    if (a->count != b->count || a->width != b->width || !a->count) return false;
    if (memcmp(a->key, b->key, (size_t)a->count * (size_t)a->width * sizeof *a->key)) return false;
    for (int i = 0; i < a->width; i++)
        if (a->tables[i] != b->tables[i]) return false;
    *more = b->cost[0] - a->cost[0];
    for (int i = 0; i < a->count; i++)
        if (fabs(b->cost[i] - a->cost[i] - *more) > 1e-12 * b->cost[i]) return false;
    return true;
}

/* After layer `done` the frontier is that of `period` layers before, but for a constant: so it is again after as many
 * more. The steps of the layers that are left out have the origins of these. Returns the next group. */
static int skip_layers(struct solver *s, int done, int period, double more, struct states *t) {
    const struct mt_frontier *p = s->problem;
    int times = (p->nlayers - 1 - done) / period, next = p->first + (done + 1 + times * period) * p->layer;
    for (int g = p->first + (done + 1) * p->layer; g < next; g++)
        s->steps[g].origin = s->steps[g - period * p->layer].origin;
    for (int i = 0; i < t->count; i++) t->cost[i] += times * more;
    return next;
}

/* Whether groups from `g` on meet the frontier as those `back` before did. */
static bool alike(const struct solver *s, int g, int end, int back) {
    for (; g < end; g++) {
        const struct step *a = &s->steps[g - back], *b = &s->steps[g];
        size_t bytes = (size_t)b->nvalues * sizeof(int);
        if (a->kind != b->kind || a->nvalues != b->nvalues || memcmp(a->of, b->of, bytes) ||
            memcmp(a->to, b->to, bytes))
            return false;
    }
    return true;
}

/* After a layer: leave out the layers to come that only repeat. `last` has the frontiers of the layers before. */
static int after_layer(struct solver *s, int g, struct states *t, struct boundary last[PERIODS]) {
    const struct mt_frontier *p = s->problem;
    int done = (g - p->first) / p->layer - 1;
    struct boundary here = boundary_of(s, t, g - 1);
    double more;
    for (int period = 1; period <= PERIODS; period++)
        if (repeats(&last[(done + PERIODS - period) % PERIODS], &here, &more) &&
            alike(s, g, p->first + p->nlayers * p->layer, period * p->layer)) {
            memset(last, 0, PERIODS * sizeof *last);
            return skip_layers(s, done, period, more, t);
        }
    last[done % PERIODS] = here;
    return g;
}

/* The choice that ends in the only state of the last frontier; false if there is none. */
static bool search(struct solver *s, int *choice) {
    const struct mt_frontier *p = s->problem;
    struct states now = {0}, next = {0};
    struct boundary last[PERIODS] = {{0}};
    int end = p->first + p->nlayers * p->layer;
    uint64_t *key = mt_malloc(((size_t)p->nvalues + 1) * sizeof *key);
    s->cut = false;
    states_rehash(&now), states_rehash(&next);
    states_begin(&now, 0);
    states_grow(&now);
    keep(&now, key, 0, 0, (struct origin){-1, -1});
    for (int g = 0; g < p->ngroups && now.count && !(s->give_up && s->nstates > s->give_up);) {
        struct step *step = &s->steps[g];
        states_begin(&next, step->nafter);
        states_grow(&next);
        for (int i = 0; i < now.count; i++) expand(s, step, g, &now, i, &next, key);
        drop_dominated(s, step, &next);
        cut(s, &next);
        s->nstates += next.count;
        step->origin = mt_arena_memdup(&s->arena, next.origin, (size_t)next.count * sizeof *next.origin);
        struct states swapped = now;
        now = next, next = swapped;
        g++;
        if (g > p->first && g < end && (g - p->first) % p->layer == 0) g = after_layer(s, g, &now, last);
    }
    bool found = now.count > 0 && !(s->give_up && s->nstates > s->give_up);
    for (int g = p->ngroups - 1, state = 0; g >= 0 && found; g--) {
        choice[g] = s->steps[g].origin[state].alternative;
        state = s->steps[g].origin[state].parent;
    }
    states_release(&now), states_release(&next);
    free(key);
    return found;
}

bool mt_frontier_solve(const struct mt_frontier *problem, struct mt_arena *arena,
                       struct mt_frontier_solution *solution) {
    struct solver s = {.problem = problem, .limit = INFINITY, .most = NARROW};
    int *choice = mt_new(arena, int, problem->ngroups + 1), *wide = mt_new(arena, int, problem->ngroups + 1);
    *solution = (struct mt_frontier_solution){.choice = choice, .cost_s = INFINITY};
    find_wants(&s);
    find_steps(&s);
    if (search(&s, choice)) solution->cost_s = mt_frontier_cost(problem, choice);
    if (!s.cut) {
        solution->exact = true;
    } else if (!(problem->far_s > 0) || solution->cost_s <= problem->far_s || isinf(solution->cost_s)) {
        s.limit = solution->cost_s * (1 + 1e-12);
        double wider = (double)MOST_LOOKED_AT / (double)s.nstates;
        s.most = problem->most_states;
        if (s.most && s.most > wider * NARROW) s.most = wider > 1 ? (int)(wider * NARROW) : NARROW;
        if (s.most) s.give_up = s.nstates + 2 * MOST_LOOKED_AT;
        bool found = s.most != NARROW && search(&s, wide);
        solution->exact = !s.cut;
        double cost = found ? mt_frontier_cost(problem, wide) : INFINITY;
        if (cost < solution->cost_s) solution->choice = wide, solution->cost_s = cost;
    }
    solution->nstates = s.nstates;
    mt_arena_release(&s.arena);
    free(s.served);
    return !isinf(solution->cost_s);
}
