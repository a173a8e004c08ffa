/* The frontier programme against all choices, on random problems; chains of equal layers with and without saying so. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/rng.h"
#include "planner/frontier/frontier.h"
#include "tests/check.h"

enum { SEED = 20261123, MOST_VALUES = 40, LAYOUTS = 4, PROBLEMS = 400 };

static uint64_t draws;
static int64_t below(int64_t bound) {
    return (int64_t)mt_random_below(SEED, 7, draws++, (uint64_t)bound);
}
static double real(void) {
    return (double)below(1000) / 1000;
}

static struct mt_frontier_table *random_table(struct mt_arena *arena, int n) {
    struct mt_frontier_table *t = mt_new(arena, struct mt_frontier_table, 1);
    double *convert = mt_new(arena, double, n *n);
    for (int i = 0; i < n * n; i++) convert[i] = i % (n + 1) == 0 ? 0 : below(9) == 0 ? INFINITY : real();
    *t = (struct mt_frontier_table){.nlayouts = n, .convert_s = convert};
    return t;
}

/* A group that makes the values of `makes` and reads those of `reads`. */
static struct mt_frontier_kind *random_kind(struct mt_arena *arena, const struct mt_frontier_table *const *tables,
                                            int nmakes, int nreads) {
    struct mt_frontier_kind *k = mt_new(arena, struct mt_frontier_kind, 1);
    int n = nmakes + nreads;
    k->nvalues = n;
    k->nalternatives = 2 + (int)below(3);
    struct mt_frontier_alternative *alternatives = mt_new(arena, struct mt_frontier_alternative, k->nalternatives);
    bool more = below(2); /* each makes what the one before makes, and wants the same layouts and others */
    for (int a = 0; a < k->nalternatives; a++) {
        int *made = mt_new(arena, int, n + 1);
        uint64_t *wanted = mt_new(arena, uint64_t, n + 1);
        for (int i = 0; i < n; i++) {
            int layouts = tables[i]->nlayouts;
            made[i] = i < nmakes ? (int)below(layouts) : -1;
            /* a bundle may read a value in two layouts, and what it makes itself */
            int wants = i < nmakes ? (int)below(2) : 1 + (int)below(2);
            if (a && more) made[i] = alternatives[a - 1].made[i], wanted[i] = alternatives[a - 1].wanted[i];
            while (wants--) wanted[i] |= (uint64_t)1 << below(layouts);
        }
        alternatives[a] = (struct mt_frontier_alternative){real(), made, wanted};
    }
    k->alternatives = alternatives;
    return k;
}

/* ---- the reference: every choice, and every order of conversions ---- */

static double cheapest_order(const struct mt_frontier_table *t, uint64_t held, uint64_t wanted) {
    double least = wanted & ~held ? INFINITY : 0;
    for (int to = 0; to < t->nlayouts; to++) {
        if (!(wanted & ~held) || !((wanted & ~held) >> to & 1)) continue;
        double from = INFINITY;
        for (int f = 0; f < t->nlayouts; f++)
            if (held >> f & 1) from = fmin(from, t->convert_s[f * t->nlayouts + to]);
        least = fmin(least, from + cheapest_order(t, held | (uint64_t)1 << to, wanted));
    }
    return least;
}

static double cost_of(const struct mt_frontier *p, const int *choice) {
    double sum = 0;
    int made[MOST_VALUES];
    uint64_t wanted[MOST_VALUES] = {0};
    for (int v = 0; v < p->nvalues; v++) made[v] = -1;
    for (int g = 0; g < p->ngroups; g++) {
        const struct mt_frontier_alternative *a = &p->groups[g].kind->alternatives[choice[g]];
        sum += a->cost_s;
        for (int i = 0; i < p->groups[g].kind->nvalues; i++) {
            if (a->made[i] >= 0) made[p->groups[g].values[i]] = a->made[i];
            wanted[p->groups[g].values[i]] |= a->wanted[i];
        }
    }
    for (int v = 0; v < p->nvalues; v++)
        if (made[v] >= 0) sum += cheapest_order(p->tables[v], (uint64_t)1 << made[v], wanted[v]);
    return sum;
}

static double least_of_all(const struct mt_frontier *p, int *choice, int g) {
    if (g == p->ngroups) return cost_of(p, choice);
    double least = INFINITY;
    for (choice[g] = 0; choice[g] < p->groups[g].kind->nalternatives; choice[g]++)
        least = fmin(least, least_of_all(p, choice, g + 1));
    return least;
}

/* ---- random problems ---- */

static struct mt_frontier random_problem(struct mt_arena *arena, int ngroups) {
    struct mt_frontier p = {.ngroups = ngroups};
    const struct mt_frontier_table **tables = mt_new(arena, const struct mt_frontier_table *, MOST_VALUES);
    struct mt_frontier_group *groups = mt_new(arena, struct mt_frontier_group, ngroups);
    for (int g = 0; g < ngroups; g++) {
        int values[MOST_VALUES], nmakes = 1 + (int)below(2), n = 0;
        const struct mt_frontier_table *own[MOST_VALUES];
        int before = p.nvalues;
        for (; n < nmakes; n++) {
            tables[p.nvalues] = random_table(arena, 1 + (int)below(LAYOUTS));
            values[n] = p.nvalues++;
        }
        int reads = before ? (int)below(before < 3 ? before + 1 : 4) : 0;
        for (int i = 0; i < reads; i++) {
            int v = (int)below(before), seen = 0;
            for (int k = 0; k < n; k++) seen |= values[k] == v;
            if (!seen) values[n++] = v;
        }
        for (int i = 0; i < n; i++) own[i] = tables[values[i]];
        groups[g] = (struct mt_frontier_group){random_kind(arena, own, nmakes, n - nmakes),
                                               mt_arena_memdup(arena, values, (size_t)n * sizeof *values)};
    }
    for (int g = ngroups - 1; g > 0; g--) { /* values may be read before they are made, as gradients are */
        int other = (int)below(g + 1);
        struct mt_frontier_group swapped = groups[g];
        groups[g] = groups[other], groups[other] = swapped;
    }
    p.tables = tables;
    p.groups = groups;
    return p;
}

static void test_random(void) {
    int solved = 0;
    for (int round = 0; round < PROBLEMS; round++) {
        struct mt_arena arena = MT_ARENA_INIT;
        struct mt_frontier p = random_problem(&arena, 1 + (int)below(7));
        struct mt_frontier_solution solution;
        int choice[16];
        double least = least_of_all(&p, choice, 0);
        bool found = mt_frontier_solve(&p, &arena, &solution);
        CHECK_EQ(found, !isinf(least));
        if (found) {
            CHECK_NEAR(solution.cost_s, least, 1e-12);
            CHECK_NEAR(cost_of(&p, solution.choice), least, 1e-12);
            CHECK(solution.exact, "nothing was to be cut");
            solved++;
        }
        mt_arena_release(&arena);
    }
    CHECK(solved > PROBLEMS / 2, "only %d of %d problems have a solution", solved, PROBLEMS);
}

/* Layers of three groups on a chain: x -> a -> b -> x', with a gradient that goes the other way. */
static void test_layers(int nlayers) {
    int64_t all = 0, some = 0;
    for (int round = 0; round < 20; round++) {
        struct mt_arena arena = MT_ARENA_INIT;
        const struct mt_frontier_table *x = random_table(&arena, 4), *inner = random_table(&arena, 3);
        struct mt_frontier_kind *kinds[3];
        int nvalues = 2, ngroups = 0;
        /* made: a; read: x */
        kinds[0] = random_kind(&arena, (const struct mt_frontier_table *[]){inner, x}, 1, 1);
        /* made: gradient of x; read: a, gradient of x' */
        kinds[1] = random_kind(&arena, (const struct mt_frontier_table *[]){x, inner, x}, 1, 2);
        kinds[2] = random_kind(&arena, (const struct mt_frontier_table *[]){x, x, inner}, 1, 2); /* made: x' */
        struct mt_frontier_kind *first = random_kind(&arena, (const struct mt_frontier_table *[]){x, x}, 1, 1);
        struct mt_frontier_kind *end = random_kind(&arena, (const struct mt_frontier_table *[]){x, x}, 1, 1);
        struct mt_frontier_group *groups = mt_new(&arena, struct mt_frontier_group, 3 * nlayers + 2);
        const struct mt_frontier_table **tables = mt_new(&arena, const struct mt_frontier_table *, 3 * nlayers + 2);
        tables[0] = tables[1] = x;
        groups[ngroups++] = (struct mt_frontier_group){first, mt_arena_memdup(&arena, (int[]){0, 1}, 2 * sizeof(int))};
        int at = 0, gradient = 1;
        for (int l = 0; l < nlayers; l++) {
            int a = nvalues++, to = nvalues++, gradient_to = nvalues++;
            tables[a] = inner, tables[to] = tables[gradient_to] = x;
            groups[ngroups++] =
                (struct mt_frontier_group){kinds[0], mt_arena_memdup(&arena, (int[]){a, at}, 2 * sizeof(int))};
            groups[ngroups++] = (struct mt_frontier_group){
                kinds[1], mt_arena_memdup(&arena, (int[]){gradient, a, gradient_to}, 3 * sizeof(int))};
            groups[ngroups++] =
                (struct mt_frontier_group){kinds[2], mt_arena_memdup(&arena, (int[]){to, at, a}, 3 * sizeof(int))};
            at = to, gradient = gradient_to;
        }
        groups[ngroups++] =
            (struct mt_frontier_group){end, mt_arena_memdup(&arena, (int[]){gradient, at}, 2 * sizeof(int))};
        struct mt_frontier p = {.nvalues = nvalues, .ngroups = ngroups, .tables = tables, .groups = groups};
        struct mt_frontier_solution plain, layered;
        bool found = mt_frontier_solve(&p, &arena, &plain);
        p.first = 1, p.layer = 3, p.nlayers = nlayers;
        CHECK_EQ(mt_frontier_solve(&p, &arena, &layered), found);
        if (found) {
            CHECK_NEAR(layered.cost_s, plain.cost_s, 1e-9 * plain.cost_s);
            CHECK_NEAR(mt_frontier_cost(&p, layered.choice), plain.cost_s, 1e-9 * plain.cost_s);
            all += plain.nstates, some += layered.nstates;
        }
        mt_arena_release(&arena);
    }
    if (nlayers >= 50)
        CHECK(2 * some < all, "equal layers were solved again: %lld of %lld states", (long long)some, (long long)all);
}

/* A choice of few states that costs more than far_s stays as it is; one that does not is as without. */
static void test_far(void) {
    int looked_at = 0, improved = 0;
    for (int round = 0; round < 600; round++) {
        struct mt_arena arena = MT_ARENA_INIT;
        struct mt_frontier p = random_problem(&arena, 20);
        struct mt_frontier_solution all, few, same;
        p.most_states = 20000;
        bool found = mt_frontier_solve(&p, &arena, &all);
        p.far_s = 1e-9;
        CHECK(mt_frontier_solve(&p, &arena, &few) || !found, "round %d", round);
        if (found) {
            CHECK_NEAR(mt_frontier_cost(&p, few.choice), few.cost_s, 1e-12 * few.cost_s);
            CHECK(few.cost_s >= all.cost_s, "%g, with all states %g", few.cost_s, all.cost_s);
            CHECK(few.exact == (few.nstates == all.nstates), "what was cut is not exact");
            looked_at += few.nstates<all.nstates, improved += few.cost_s> all.cost_s;
            p.far_s = few.cost_s;
            CHECK(mt_frontier_solve(&p, &arena, &same), "round %d", round);
            CHECK_EQ(same.cost_s, all.cost_s);
            CHECK_EQ(same.nstates, all.nstates);
        }
        mt_arena_release(&arena);
    }
    CHECK(looked_at > 0 && improved > 0, "more states were of use in %d of %d problems", improved, looked_at);
}

int main(void) {
    printf("seed %d\n", SEED);
    test_random();
    test_far();
    test_layers(1);
    test_layers(2);
    test_layers(7);
    test_layers(50);
    return 0;
}
