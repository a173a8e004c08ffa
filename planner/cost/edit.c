/* Fits after an edit of rates. A fit's ratio to its group's simulated schedule, by which other groups are scaled too
 * (coll.c), is the same after the edit as before. So what an edit makes faster makes no collective slower, and a fit
 * gains just what its schedule gains. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/cost/internal.h"

enum { MOST_RANKS = 32 }; /* larger groups keep what the edit itself made of their fits */

/* Both clusters' groups of the same devices. */
struct edited {
    struct mt_cost_memo *memo[2]; /* before, after */
    struct cost_group *g[2];
};

/* The sizes of the fit's points, and between them every doubling, as schedules change otherwise there. A fit without
 * points has them from 1 KiB to 16 MiB. */
static void add_points(const struct mt_coll_fit *was, struct mt_coll_fit *fit, struct mt_arena *arena) {
    static const int64_t without[] = {1 << 10, 1 << 24};
    const int64_t *sizes = was->npoints ? was->size_bytes : without;
    int n = was->npoints ? was->npoints : 2, most = 1;
    for (int i = 1; i < n; i++) most += 2 + (int)log2((double)sizes[i] / (double)sizes[i - 1]);
    fit->size_bytes = mt_new(arena, int64_t, most);
    fit->ratio = mt_new(arena, double, most);
    if (fit->skew > 0) fit->skewed_ratio = mt_new(arena, double, most);
    fit->npoints = 0;
    for (int i = 0; i < n; i++) {
        int64_t next = i + 1 < n ? sizes[i + 1] : sizes[i] + 1;
        for (int64_t size = sizes[i]; size < next; size *= 2) {
            double octaves;
            int p = fit->npoints++;
            fit->size_bytes[p] = size;
            fit->ratio[p] = mt_cost_fit_ratio(was, was->ratio, (double)size, &octaves);
            if (fit->skew > 0) fit->skewed_ratio[p] = mt_cost_fit_ratio(was, was->skewed_ratio, (double)size, &octaves);
        }
    }
}

static void carry_fit(const struct edited *e, const struct mt_coll_fit *was, struct mt_coll_fit *fit,
                      struct mt_arena *arena) {
    const struct mt_coll_algorithm *algorithm = mt_coll_find(fit->kind, fit->algorithm);
    int64_t *counts = mt_calloc((size_t)e->g[0]->n * (size_t)e->g[0]->n, sizeof *counts);
    struct mt_coll problem = mt_cost_even_problem(fit, e->g[0], 1 << 20, counts);
    if (algorithm && e->g[0]->n <= MOST_RANKS && algorithm->applies(&problem)) {
        fit->latency_s = was->latency_s, fit->bandwidth_Bps = was->bandwidth_Bps;
        add_points(was, fit, arena);
        for (int i = 0; i < fit->npoints; i++) {
            problem = mt_cost_even_problem(fit, e->g[0], (double)fit->size_bytes[i], counts);
            double before_s = mt_cost_simulate(e->g[0], &problem, algorithm, false).all_s;
            double after_s = mt_cost_simulate(e->g[1], &problem, algorithm, false).all_s;
            if (!(before_s > 0 && after_s > 0)) continue;
            fit->ratio[i] *= after_s / before_s;
            if (fit->skew > 0) fit->skewed_ratio[i] *= after_s / before_s;
        }
    }
    free(counts);
}

static bool same_group(const struct mt_cluster_group *a, const struct mt_cluster_group *b) {
    return a->ndevices == b->ndevices && a->nfits == b->nfits &&
           !memcmp(a->devices, b->devices, (size_t)a->ndevices * sizeof *a->devices);
}

void mt_cost_carry_fits(const struct mt_cluster *before, struct mt_cluster *after) {
    struct edited e = {.memo = {mt_cost_memo_new(), mt_cost_memo_new()}};
    for (int i = 0; i < after->ngroups && i < before->ngroups; i++) {
        struct mt_cluster_group *group = &after->groups[i];
        if (!same_group(&before->groups[i], group)) continue;
        e.g[0] = mt_cost_group_find(e.memo[0], before, group->devices, group->ndevices, 1);
        e.g[1] = mt_cost_group_find(e.memo[1], after, group->devices, group->ndevices, 1);
        for (int f = 0; f < group->nfits; f++)
            carry_fit(&e, &before->groups[i].fits[f], &group->fits[f], &after->arena);
    }
    for (int k = 0; k < 2; k++) mt_cost_memo_free(e.memo[k]);
    mt_cluster_hash(after, after->hash);
}
