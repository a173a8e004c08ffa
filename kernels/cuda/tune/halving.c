#include "kernels/cuda/tune/halving.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/base/arena.h"
#include "kernels/base/number/stats.h"

struct runner {
    int which;
    double *samples, median_s; /* infinite: it cannot run */
    int count, capacity;
};

struct race {
    const struct halving *h;
    double spent_s;
};

static void run_once(struct race *race, struct runner *r) {
    double time_s;
    if (isinf(r->median_s)) return;
    if (!race->h->run(race->h->context, r->which, &time_s)) {
        r->median_s = INFINITY;
        return;
    }
    if (r->count == r->capacity)
        r->samples = mt_realloc(r->samples, (size_t)(r->capacity = 2 * r->capacity + 8) * sizeof *r->samples);
    r->samples[r->count++] = time_s;
    race->spent_s += time_s;
}

/* `rounds` runs of each, in turns. */
static void run_all(struct race *race, struct runner **runners, int count, int rounds) {
    for (int round = 0; round < rounds; round++) {
        if (round && race->spent_s > race->h->budget_s) break;
        for (int i = 0; i < count; i++) run_once(race, runners[i]);
    }
    for (int i = 0; i < count; i++)
        if (!isinf(runners[i]->median_s))
            runners[i]->median_s = mt_median(runners[i]->samples, (size_t)runners[i]->count);
}

static int by_time(const void *a, const void *b) {
    const struct runner *x = *(struct runner *const *)a, *y = *(struct runner *const *)b;
    if (x->median_s != y->median_s) return x->median_s < y->median_s ? -1 : 1;
    return x->which - y->which;
}

/* The winner against the default, by new runs only. */
static struct runner *confirm(struct race *race, struct runner *winner, struct runner *first, int rounds) {
    if (winner == first || isinf(first->median_s) || isinf(winner->median_s)) return winner;
    struct runner *pair[2] = {winner, first};
    winner->count = first->count = 0;
    race->spent_s = 0;
    run_all(race, pair, 2, rounds);
    return winner->median_s < (1 - race->h->margin) * first->median_s ? winner : first;
}

int halve(const struct halving *h, double *times_s) {
    struct runner *runners = mt_calloc((size_t)h->count, sizeof *runners);
    struct runner **order = mt_calloc((size_t)h->count, sizeof *order);
    struct race race = {.h = h};
    int rounds = h->rounds;
    for (int i = 0; i < h->count; i++) runners[i].which = i, order[i] = &runners[i];
    for (int left = h->count;; left = (left + 1) / 2, rounds *= 2) {
        run_all(&race, order, left, rounds);
        qsort(order, (size_t)left, sizeof *order, by_time);
        if (left <= 2 || race.spent_s > h->budget_s) break;
    }
    struct runner *winner = h->count ? confirm(&race, order[0], &runners[0], rounds) : NULL;
    int which = winner && !isinf(winner->median_s) ? winner->which : -1;
    for (int i = 0; i < h->count; i++) {
        times_s[i] = runners[i].median_s;
        free(runners[i].samples);
    }
    free(order);
    free(runners);
    return which;
}
