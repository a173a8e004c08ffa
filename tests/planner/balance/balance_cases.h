/* Random balance problems with curves as one measures them: waves, fixed costs of the first unit, noise. */
#ifndef MT_TESTS_PLANNER_BALANCE_BALANCE_CASES_H
#define MT_TESTS_PLANNER_BALANCE_BALANCE_CASES_H

#include <stdlib.h>

#include "kernels/base/number/rng.h"
#include "planner/balance/balance.h"

struct draws {
    uint64_t seed, next;
};
static inline int64_t below(struct draws *d, int64_t bound) {
    return (int64_t)mt_random_below(d->seed, 0, d->next++, (uint64_t)bound);
}
static inline double real(struct draws *d) {
    return mt_random_uniform(d->seed, 1, d->next++);
}

/* About `per_unit` a share; 0 at 0, or as much as at 1. */
static inline struct mt_share_curve measured_curve(struct mt_arena *arena, struct draws *d, int64_t extent, int points,
                                                   double per_unit) {
    int64_t *at = mt_new(arena, int64_t, points + 2);
    double *value = mt_new(arena, double, points + 2);
    int64_t wave = 1 + below(d, 1 + extent / 6);
    double fixed = below(d, 2) ? per_unit * (double)extent * 0.1 * real(d) : 0;
    double waves = real(d), noise = below(d, 2) ? 0.1 : 0.01;
    int n = 0;
    for (int i = 0; i < points; i++) {
        int64_t x = i ? 1 + (int64_t)((double)(extent - 1) * (i - 1) / (points > 2 ? points - 2 : 1)) : 0;
        if (n && x <= at[n - 1]) continue;
        double whole = (double)((x + wave - 1) / wave * wave);
        at[n] = x;
        value[n] = x || !below(d, 3) ? fixed + per_unit * (waves * whole + (1 - waves) * (double)x) : 0;
        value[n++] *= 1 + noise * (real(d) - 0.5);
    }
    return (struct mt_share_curve){n, at, value};
}

struct case_shape {
    int nranks, nclasses, nsplits, nstages, points;
    int64_t extent, align; /* at most */
    double memory;         /* how likely memory may bind */
};

static inline void random_case(struct mt_arena *arena, struct draws *d, const struct case_shape *shape,
                               struct mt_balance *p) {
    static const char *const stages[] = {"forward", "backward", "update", "gather"};
    static const char *const classes[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    static const char *const splits[] = {"batch", "storage"};
    int nc = shape->nclasses, ns = shape->nsplits, nk = shape->nstages;
    int *class = mt_new(arena, int, shape->nranks);
    for (int r = 0; r < shape->nranks; r++) class[r] = r < nc ? r : (int)below(d, nc);
    struct mt_balance_split *split = mt_new(arena, struct mt_balance_split, ns);
    for (int s = 0; s < ns; s++) {
        int64_t least = shape->extent / 2 > 1 ? shape->extent / 2 : 1;
        split[s] = (struct mt_balance_split){splits[s], least + below(d, shape->extent - least + 1),
                                             1 + below(d, shape->align)};
    }
    struct mt_share_curve *compute = mt_new(arena, struct mt_share_curve, nk * ns * nc);
    struct mt_share_curve *comm = mt_new(arena, struct mt_share_curve, nk * ns * nc);
    struct mt_share_curve *memory = mt_new(arena, struct mt_share_curve, ns * nc);
    double *compute_fixed = mt_new(arena, double, nk *nc), *comm_fixed = mt_new(arena, double, nk *nc);
    int64_t *memory_fixed = mt_new(arena, int64_t, nc), *memory_limit = mt_new(arena, int64_t, nc);
    for (int k = 0; k < nk; k++) {
        double comm_s = 0.3 * real(d) * (double)below(d, 2);
        for (int c = 0; c < nc; c++) {
            compute_fixed[k * nc + c] = below(d, 2) ? 0.1 * real(d) : 0;
            comm_fixed[k * nc + c] = comm_s;
            for (int s = 0; s < ns; s++) {
                int at = (k * ns + s) * nc + c;
                double per_unit = (0.3 + 2 * real(d)) / (double)split[s].extent;
                if (below(d, 4)) compute[at] = measured_curve(arena, d, split[s].extent, shape->points, per_unit);
                if (!below(d, 3)) comm[at] = measured_curve(arena, d, split[s].extent, shape->points, per_unit);
            }
        }
    }
    for (int c = 0; c < nc; c++) {
        memory_fixed[c] = 1000;
        memory_limit[c] = real(d) < shape->memory ? 1000 + (int64_t)(real(d) * 3e4 * ns * 2 / shape->nranks) : 0;
        for (int s = 0; s < ns; s++)
            memory[s * nc + c] =
                measured_curve(arena, d, split[s].extent, shape->points, 1e4 / (double)split[s].extent);
    }
    *p = (struct mt_balance){.nranks = shape->nranks,
                             .nclasses = nc,
                             .nsplits = ns,
                             .nstages = nk,
                             .class = class,
                             .splits = split,
                             .stage_names = stages,
                             .class_names = classes,
                             .compute = compute,
                             .comm = comm,
                             .compute_fixed = compute_fixed,
                             .comm_fixed = comm_fixed,
                             .memory = memory,
                             .memory_fixed = memory_fixed,
                             .memory_limit = memory_limit,
                             .limit_s = 60};
}

#endif
