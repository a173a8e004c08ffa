/* Collectives: by a fit of the same group, within the sizes that it was made from; else by their schedule over the
 * directed rates, scaled by the ratio of fits to simulated schedules in other groups. Never faster than a cut allows.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/cost/internal.h"

/* Relative half-widths of error bands; of extrapolations they are rough on purpose. */
static const double least_error = 0.02;   /* of any fit */
static const double wire_error = 0.1;     /* fitted with another type on the wire */
static const double octave_error = 0.03;  /* each doubling of the size beyond what was fitted */
static const double most_beyond = 0.3;    /* all doublings together */
static const double scaled_error = 0.15;  /* scaled by fits of another group; */
static const double ranks_error = 0.05;   /* and for each doubling of the number of ranks between; */
static const double distance_error = 0.1; /* by fits of another algorithm; of another kind of collective: twice */
static const double schedule_error = 0.3; /* by the schedule alone, and where it or a cut contradicts a fit */
static const double nominal_error = 0.2;  /* in addition, where links were never measured */
static const double most_error = 0.9;

/* A fit counts where it was made: the simulated schedule counts in full this many doublings beyond the largest size.
 * Between, it counts in part, so that costs have no steps over sizes, and never rise when a path becomes faster. */
static const double fading_octaves = 2;

double mt_cost_bytes(const struct mt_coll *problem) {
    int64_t count = 0;
    for (int64_t i = 0; i < cost_ncounts(problem); i++) count += problem->counts[i];
    return (double)count * (double)mt_type_size(problem->wire);
}

/* ---- fits ---- */

double mt_cost_fit_ratio(const struct mt_coll_fit *fit, const double *ratio, double bytes, double *octaves) {
    *octaves = 0;
    if (!fit->npoints) return 1;
    int last = fit->npoints - 1, i = 0;
    double at = log2(bytes), first = log2((double)fit->size_bytes[0]);
    double end = log2((double)fit->size_bytes[last]);
    if (at <= first) return *octaves = at - first, ratio[0];
    if (at >= end) return *octaves = at - end, ratio[last];
    while (bytes > (double)fit->size_bytes[i + 1]) i++;
    double below = log2((double)fit->size_bytes[i]), above = log2((double)fit->size_bytes[i + 1]);
    return ratio[i] + (ratio[i + 1] - ratio[i]) * (at - below) / (above - below);
}

struct mt_coll mt_cost_even_problem(const struct mt_coll_fit *fit, const struct cost_group *g, double bytes,
                                    int64_t *counts) {
    int n = g->n;
    bool matrix = fit->kind == MT_ALL_TO_ALL;
    int64_t nblocks = matrix ? (int64_t)n * (n - 1) : n, count = (int64_t)(bytes / (double)mt_type_size(fit->wire));
    for (int64_t i = 0, b = 0; i < (matrix ? (int64_t)n * n : n); i++) {
        bool own = matrix && i / n == i % n;
        counts[i] = own ? 0 : count / nblocks + (b < count % nblocks);
        b += !own;
    }
    return (struct mt_coll){.kind = fit->kind,
                            .reduce = mt_coll_reduces(fit->kind) ? MT_SUM : MT_REDUCE_NONE,
                            .wire = fit->wire,
                            .acc = fit->acc,
                            .n = n,
                            .counts = counts,
                            .node = mt_cost_group_nodes(g)};
}

/* From 0, even blocks, to 1, blocks of the skew that was measured, or more. */
static double skew_of(struct cost_group *g, const struct mt_coll_fit *fit, const struct mt_coll *problem,
                      const struct mt_coll_algorithm *algorithm) {
    if (!(fit->skew > 0)) return 0;
    int64_t *counts = mt_malloc((size_t)g->n * (size_t)g->n * sizeof *counts);
    struct mt_coll even = mt_cost_even_problem(fit, g, mt_cost_bytes(problem), counts);
    double even_bytes = algorithm->applies(&even) ? algorithm->cost_s(&even, 0, 1) : 0;
    free(counts);
    if (!(even_bytes > 0)) return 0;
    return fmin(fmax((algorithm->cost_s(problem, 0, 1) / even_bytes - 1) / (fit->skew - 1), 0), 1);
}

/* What a group's schedule takes, one of several at the same time, over what it takes alone. */
static double slowed_by_others(struct mt_cost_memo *memo, struct cost_group *g, const struct mt_coll *problem,
                               const struct mt_coll_algorithm *algorithm) {
    if (g->concurrent < 2) return 1;
    struct cost_group *alone = mt_cost_group_find(memo, g->cluster, g->device, g->n, 1);
    double alone_s = mt_cost_sampled_s(memo, alone, problem, algorithm);
    return alone_s > 0 ? fmax(mt_cost_sampled_s(memo, g, problem, algorithm) / alone_s, 1) : 1;
}

/* The largest of: the fit's own formula; the cut bound; the schedule, as far as it counts. */
static struct mt_cost by_fit(struct mt_cost_memo *memo, struct cost_group *g, const struct mt_coll_fit *fit,
                             const struct mt_coll *problem, const struct mt_coll_algorithm *algorithm) {
    double octaves, ratio = mt_cost_fit_ratio(fit, fit->ratio, mt_cost_bytes(problem), &octaves);
    double skew = skew_of(g, fit, problem, algorithm);
    if (skew > 0) ratio += skew * (mt_cost_fit_ratio(fit, fit->skewed_ratio, mt_cost_bytes(problem), &octaves) - ratio);
    double fit_s = algorithm->cost_s(problem, fit->latency_s, fit->bandwidth_Bps) * ratio;
    fit_s *= slowed_by_others(memo, g, problem, algorithm);
    struct mt_cost cost = {.basis = MT_COST_MEASURED, .floor_s = mt_cost_cut_bound_s(g, problem)};
    double weight = fmin(octaves / fading_octaves, 1);
    cost.s = fmax(fit_s, cost.floor_s);
    if (weight > 0) cost.s = fmax(cost.s, weight * mt_cost_sampled_s(memo, g, problem, algorithm));
    cost.error = fmax(fit->error, least_error) + fmin(octave_error * fabs(octaves), most_beyond);
    if (fit->wire != problem->wire || fit->acc != problem->acc) cost.error += wire_error;
    if (cost.s > fit_s * (1 + cost.error)) {
        cost.error = fmax(cost.error, schedule_error);
        cost.basis = MT_COST_SCHEDULE;
    }
    return cost;
}

/* A group's fit of an algorithm, with the most equal types; or null. */
static const struct mt_coll_fit *fit_of(const struct mt_cluster_group *g, const struct mt_coll *problem,
                                        const struct mt_coll_algorithm *algorithm) {
    const struct mt_coll_fit *best = NULL;
    int most = -1;
    for (int i = 0; i < g->nfits; i++) {
        const struct mt_coll_fit *fit = &g->fits[i];
        if (fit->kind != algorithm->kind || strcmp(fit->algorithm, algorithm->name)) continue;
        int same = 2 * (fit->wire == problem->wire) + (fit->acc == problem->acc);
        if (same > most) best = fit, most = same;
    }
    return best;
}

/* ---- fits of other groups ---- */

/* Fits over simulated schedules: a weighted mean of the ratios' logarithms. */
struct evidence {
    double weight, sum, squares, nearest; /* nearest: log2 of the least factor between numbers of ranks */
};

/* A fit over the simulated schedule, for a problem like this one among the fit's own devices: blocks of the mean size
 * here, or of the nearest size that was fitted. */
static double fit_over_schedule(struct mt_cost_memo *memo, const struct cost_group *here, const struct mt_coll *problem,
                                const struct mt_cluster_group *fitted, const struct mt_coll_fit *fit,
                                const struct mt_coll_algorithm *algorithm) {
    int n = fitted->ndevices;
    struct cost_group *g = mt_cost_group_find(memo, here->cluster, fitted->devices, n, 1);
    int64_t nblocks = problem->kind == MT_ALL_TO_ALL ? (int64_t)problem->n * (problem->n - 1) : problem->n;
    int64_t here_blocks = fit->kind == MT_ALL_TO_ALL ? (int64_t)n * (n - 1) : n;
    double bytes = mt_cost_bytes(problem) / (double)nblocks * (double)here_blocks;
    if (fit->npoints) {
        bytes = fmax(bytes, (double)fit->size_bytes[0]);
        bytes = fmin(bytes, (double)fit->size_bytes[fit->npoints - 1]);
    }
    bytes = fmax(bytes, (double)here_blocks * (double)mt_type_size(fit->wire)); /* no block is empty */
    int64_t *counts = mt_malloc((size_t)n * (size_t)n * sizeof *counts);
    struct mt_coll like = mt_cost_even_problem(fit, g, bytes, counts);
    double ratio = 0;
    if (algorithm->applies(&like)) {
        double simulated_s = mt_cost_sampled_s(memo, g, &like, algorithm);
        struct mt_cost cost = by_fit(memo, g, fit, &like, algorithm);
        if (simulated_s > 0) ratio = cost.s / simulated_s;
        if (ratio > 0 && cost.basis != MT_COST_MEASURED) ratio = fmax(ratio, 1); /* a cut contradicts the fit */
    }
    free(counts);
    return ratio;
}

/* From a fit's algorithm to the one that is asked for: 0 the same, 1 of the same kind, 2 of another kind. */
static int distance_of(const struct mt_coll_fit *fit, const struct mt_coll_algorithm *algorithm) {
    if (fit->kind != algorithm->kind) return 2;
    return strcmp(fit->algorithm, algorithm->name) ? 1 : 0;
}

static void collect_evidence(struct mt_cost_memo *memo, const struct cost_group *here, const struct mt_coll *problem,
                             const struct mt_coll_algorithm *algorithm, struct evidence evidence[3]) {
    const struct mt_cluster *cluster = here->cluster;
    for (int i = 0; i < cluster->ngroups; i++) {
        const struct mt_cluster_group *g = &cluster->groups[i];
        const struct cost_group *fitted = mt_cost_group_find(memo, cluster, g->devices, g->ndevices, 1);
        if (mt_cost_group_link(fitted) != mt_cost_group_link(here)) continue;
        double octaves = fabs(log2((double)g->ndevices / problem->n));
        for (int f = 0; f < g->nfits; f++) {
            int distance = distance_of(&g->fits[f], algorithm);
            if (distance == 0 && &g->fits[f] != fit_of(g, problem, algorithm)) continue;
            bool have_own = distance > 0 && evidence[0].weight > 0;
            const struct mt_coll_algorithm *own = mt_coll_find(g->fits[f].kind, g->fits[f].algorithm);
            if (!own || have_own) continue;
            double ratio = fit_over_schedule(memo, here, problem, g, &g->fits[f], own);
            if (!(ratio > 0)) continue;
            double weight = 1 / (0.25 + octaves);
            struct evidence *e = &evidence[distance];
            if (!e->weight || octaves < e->nearest) e->nearest = octaves;
            e->weight += weight;
            e->sum += weight * log(ratio);
            e->squares += weight * log(ratio) * log(ratio);
        }
    }
}

static struct mt_cost by_schedule(struct mt_cost_memo *memo, struct cost_group *g, const struct mt_coll *problem,
                                  const struct mt_coll_algorithm *algorithm) {
    struct mt_cost cost = {.s = mt_cost_sampled_s(memo, g, problem, algorithm), .error = schedule_error};
    cost.basis = MT_COST_SCHEDULE;
    cost.floor_s = mt_cost_cut_bound_s(g, problem);
    struct evidence evidence[3] = {0};
    collect_evidence(memo, g, problem, algorithm, evidence);
    int distance = 0;
    while (distance < 3 && !evidence[distance].weight) distance++;
    if (distance < 3) {
        const struct evidence *e = &evidence[distance];
        double mean = e->sum / e->weight, spread = sqrt(fmax(e->squares / e->weight - mean * mean, 0));
        cost.s *= exp(mean);
        cost.error = scaled_error + ranks_error * e->nearest + distance_error * distance + spread;
        cost.basis = MT_COST_SCALED;
    }
    cost.s = fmax(cost.s, cost.floor_s);
    if (g->nominal) {
        cost.error += nominal_error;
        cost.basis = MT_COST_NOMINAL;
    }
    return cost;
}

struct mt_cost mt_cost_coll_uncached(struct mt_cost_memo *memo, struct cost_group *g, const struct mt_coll *problem,
                                     const struct mt_coll_algorithm *algorithm) {
    if (problem->n < 2 || mt_cost_bytes(problem) == 0) return (struct mt_cost){.basis = MT_COST_MEASURED};
    const struct mt_coll_fit *fit = g->fitted ? fit_of(g->fitted, problem, algorithm) : NULL;
    struct mt_cost cost = fit ? by_fit(memo, g, fit, problem, algorithm) : by_schedule(memo, g, problem, algorithm);
    cost.error = fmin(cost.error, most_error);
    return cost;
}
