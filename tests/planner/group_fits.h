/* Measured groups for random clusters: fits of collectives that are up to half as slow again, or up to a third faster,
 * than the paths of the group suggest, and bend with the size. */
#ifndef MT_TESTS_PLANNER_GROUP_FITS_H
#define MT_TESTS_PLANNER_GROUP_FITS_H

#include <math.h>

#include "kernels/base/number/rng.h"
#include "kernels/coll/coll.h"
#include "profiler/cluster/cluster.h"
#include "tests/check.h"

struct group_draws {
    uint64_t seed;
    uint32_t next;
};

static inline int group_draw(struct group_draws *d, int below) {
    return (int)(mt_random_u32(d->seed, 13, d->next++) % (uint32_t)below);
}

/* 2/3 to 3/2. */
static inline double group_factor(struct group_draws *d) {
    return exp((group_draw(d, 201) - 100) / 100.0 * log(1.5));
}

static inline void group_fit(struct mt_cluster *c, const struct mt_coll_algorithm *algorithm, struct mt_path path,
                             struct group_draws *d, struct mt_coll_fit *fit) {
    enum { POINTS = 4 };
    *fit = (struct mt_coll_fit){.kind = algorithm->kind,
                                .algorithm = algorithm->name,
                                .wire = MT_F32,
                                .acc = MT_F32,
                                .latency_s = path.latency_s * group_factor(d),
                                .bandwidth_Bps = path.bandwidth_Bps * group_factor(d),
                                .error = 0.01 * (1 + group_draw(d, 10))};
    if (!group_draw(d, 3)) return; /* without points */
    fit->npoints = POINTS;
    fit->size_bytes = mt_new(&c->arena, int64_t, POINTS);
    fit->ratio = mt_new(&c->arena, double, POINTS);
    for (int i = 0; i < POINTS; i++)
        fit->size_bytes[i] = (int64_t)1024 << 4 * i, fit->ratio[i] = 0.8 + 0.05 * group_draw(d, 11);
}

/* A group of n devices, which rise, with fits of some algorithms of each kind. */
static inline void add_fitted_group(struct mt_cluster *c, const int *devices, int n, struct group_draws *d) {
    struct mt_cluster_group *g = &c->groups[c->ngroups++];
    struct mt_path worst = {-1, 0, INFINITY};
    int *node = mt_new(&c->arena, int, n);
    int64_t *counts = mt_new(&c->arena, int64_t, n * n);
    bool nodes = false;
    for (int i = 0; i < n; i++) {
        node[i] = c->devices[devices[i]].node;
        nodes |= node[i] != node[0];
        for (int j = 0; j < n; j++) {
            struct mt_path path = mt_cluster_path(c, devices[i], devices[j]);
            counts[i * n + j] = 64;
            worst.latency_s = fmax(worst.latency_s, path.latency_s);
            if (i != j && path.bandwidth_Bps < worst.bandwidth_Bps)
                worst.bandwidth_Bps = path.bandwidth_Bps, worst.link = path.link;
        }
    }
    for (int i = 0, next = 0, was = -1; i < n; i++) { /* numbered by first place; devices of a node follow each other */
        next += node[i] != was && was >= 0;
        was = node[i], node[i] = next;
    }
    *g = (struct mt_cluster_group){.name = mt_arena_printf(&c->arena, "group%d", c->ngroups),
                                   .ndevices = n,
                                   .devices = mt_arena_memdup(&c->arena, devices, (size_t)n * sizeof *devices),
                                   .link = worst.link,
                                   .fits = mt_new(&c->arena, struct mt_coll_fit, mt_coll_nalgorithms)};
    for (int a = 0; a < mt_coll_nalgorithms; a++) {
        const struct mt_coll_algorithm *algorithm = mt_coll_algorithms[a];
        struct mt_coll problem = {.kind = algorithm->kind,
                                  .reduce = mt_coll_reduces(algorithm->kind) ? MT_SUM : MT_REDUCE_NONE,
                                  .wire = MT_F32,
                                  .acc = MT_F32,
                                  .n = n,
                                  .counts = counts,
                                  .node = nodes ? node : NULL};
        if (algorithm->applies(&problem) && group_draw(d, 3)) group_fit(c, algorithm, worst, d, &g->fits[g->nfits++]);
    }
}

/* All devices, and at times some of them. */
static inline void add_fitted_groups(struct mt_cluster *c, uint64_t seed) {
    struct group_draws d = {.seed = seed};
    int *devices = mt_new(&c->arena, int, c->ndevices), n = 0;
    c->groups = mt_new(&c->arena, struct mt_cluster_group, 2);
    c->ngroups = 0;
    for (int i = 0; i < c->ndevices; i++) devices[i] = i;
    if (group_draw(&d, 4)) add_fitted_group(c, devices, c->ndevices, &d);
    for (int i = 0; i < c->ndevices; i++)
        if (group_draw(&d, 2)) devices[n++] = i;
    if (n > 1 && n < c->ndevices) add_fitted_group(c, devices, n, &d);
}

#endif
