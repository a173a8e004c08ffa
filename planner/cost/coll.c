/* Collectives: by a fit of the same group; else by simulating their schedule, scaled by the ratio of fits to simulated
 * schedules in other groups. */
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
static const double schedule_error = 0.3; /* by the schedule alone */
static const double nominal_error = 0.2;  /* in addition, where links were never measured */
static const double most_error = 0.9;

static int64_t bytes_of(const struct mt_coll *problem) {
    int64_t count = 0;
    for (int64_t i = 0; i < cost_ncounts(problem); i++) count += problem->counts[i];
    return count * mt_type_size(problem->wire);
}

/* ---- fits ---- */

/* Linear in the logarithm of bytes between points, constant beyond; *octaves: how far beyond. */
static double ratio_at(const struct mt_coll_fit *fit, int64_t bytes, double *octaves) {
    *octaves = 0;
    if (!fit->npoints) return 1;
    int last = fit->npoints - 1, i = 0;
    double at = log2((double)bytes), first = log2((double)fit->size_bytes[0]);
    double end = log2((double)fit->size_bytes[last]);
    if (at <= first) return *octaves = first - at, fit->ratio[0];
    if (at >= end) return *octaves = at - end, fit->ratio[last];
    while (bytes > fit->size_bytes[i + 1]) i++;
    double below = log2((double)fit->size_bytes[i]), above = log2((double)fit->size_bytes[i + 1]);
    return fit->ratio[i] + (fit->ratio[i + 1] - fit->ratio[i]) * (at - below) / (above - below);
}

static struct mt_cost by_fit(const struct mt_coll_fit *fit, const struct mt_coll *problem,
                             const struct mt_coll_algorithm *algorithm) {
    double octaves, ratio = ratio_at(fit, bytes_of(problem), &octaves);
    struct mt_cost cost = {.basis = MT_COST_MEASURED};
    cost.s = algorithm->cost_s(problem, fit->latency_s, fit->bandwidth_Bps) * ratio;
    cost.error = fmax(fit->error, least_error) + fmin(octave_error * octaves, most_beyond);
    if (fit->wire != problem->wire || fit->acc != problem->acc) cost.error += wire_error;
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

static int by_number(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

/* The cluster's group of exactly these devices, or null. */
static const struct mt_cluster_group *group_of(const struct mt_costs *costs, const int *group, int n) {
    const struct mt_cluster *cluster = costs->cluster;
    const struct mt_cluster_group *found = NULL;
    int *devices = mt_calloc((size_t)n, sizeof *devices);
    for (int i = 0; i < n; i++) devices[i] = costs->device[group[i]];
    qsort(devices, (size_t)n, sizeof *devices, by_number);
    for (int g = 0; g < cluster->ngroups && !found; g++)
        if (cluster->groups[g].ndevices == n &&
            !memcmp(devices, cluster->groups[g].devices, (size_t)n * sizeof *devices))
            found = &cluster->groups[g];
    free(devices);
    return found;
}

/* ---- schedules ---- */

/* Number nodes anew, from 0 by first place. of[n], below nnodes: in and out. */
static void number_nodes(int *of, int n, int nnodes) {
    int *number = mt_calloc((size_t)nnodes, sizeof *number), known = 0; /* + 1; 0: not met */
    for (int i = 0; i < n; i++) {
        if (!number[of[i]]) number[of[i]] = ++known;
        of[i] = number[of[i]] - 1;
    }
    free(number);
}

/* The same problem among the ranks at places[0..n) of it. counts, node: out. */
static struct mt_coll part_of(const struct mt_coll *problem, const int *places, int n, int64_t *counts, int *node) {
    struct mt_coll part = *problem;
    part.n = n;
    part.counts = counts;
    part.root = part.me = 0;
    for (int i = 0; i < n && problem->node; i++) node[i] = problem->node[places[i]];
    if (problem->node) {
        number_nodes(node, n, problem->n);
        part.node = node;
    }
    for (int i = 0; i < n; i++) {
        if (places[i] == problem->root) part.root = i;
        if (problem->kind != MT_ALL_TO_ALL) counts[i] = problem->counts[places[i]];
        for (int j = 0; j < n && problem->kind == MT_ALL_TO_ALL; j++)
            counts[i * n + j] = problem->counts[(int64_t)places[i] * problem->n + places[j]];
    }
    return part;
}

/* Choose `some` ranks of a large group: the first, or, if the group's slowest link is not among them, evenly spaced. */
static void sample(const struct mt_costs *costs, const int *group, int n, int some, int *places, int *ranks) {
    for (int i = 0; i < some; i++) ranks[i] = group[places[i] = i];
    if (mt_cost_link(costs, ranks, some) == mt_cost_link(costs, group, n)) return;
    for (int i = 0; i < some; i++) ranks[i] = group[places[i] = (int)((int64_t)i * n / some)];
}

static double schedule_s(const struct mt_costs *costs, const struct mt_coll *problem, const int *group,
                         const struct mt_coll_algorithm *algorithm) {
    int some = MT_COST_SIMULATED;
    if (problem->n <= some) return mt_cost_schedule_s(costs, problem, group, algorithm);
    struct mt_path slowest = mt_cost_slowest(costs, group, problem->n);
    double whole_s = algorithm->cost_s(problem, slowest.latency_s, slowest.bandwidth_Bps);
    int64_t *counts = mt_calloc((size_t)some * (size_t)some, sizeof *counts);
    int *places = mt_calloc((size_t)some, sizeof *places), *ranks = mt_calloc((size_t)some, sizeof *ranks);
    int *node = mt_calloc((size_t)some, sizeof *node);
    sample(costs, group, problem->n, some, places, ranks);
    struct mt_coll part = part_of(problem, places, some, counts, node);
    if (problem->kind == MT_BROADCAST) /* every rank receives the whole message, however many there are */
        for (int i = 0; i < some; i++) counts[i] = bytes_of(problem) / mt_type_size(problem->wire) / some;
    if (algorithm->applies(&part)) {
        double part_s = algorithm->cost_s(&part, slowest.latency_s, slowest.bandwidth_Bps);
        if (part_s > 0) whole_s *= mt_cost_schedule_s(costs, &part, ranks, algorithm) / part_s;
    }
    free(counts);
    free(places);
    free(ranks);
    free(node);
    return whole_s;
}

/* ---- fits of other groups ---- */

/* Fits over simulated schedules: a weighted mean of the ratios' logarithms. */
struct evidence {
    double weight, sum, squares, nearest; /* nearest: log2 of the least factor between numbers of ranks */
};

/* A fit over the simulated schedule, for a problem like this one among the fit's own devices: blocks of the mean size
 * here. */
static double fit_over_schedule(const struct mt_costs *costs, const struct mt_coll *problem,
                                const struct mt_cluster_group *g, const struct mt_coll_fit *fit,
                                const struct mt_coll_algorithm *algorithm) {
    int n = g->ndevices;
    int64_t *counts = mt_calloc((size_t)n * (size_t)n, sizeof *counts), bytes = bytes_of(problem);
    int *ranks = mt_calloc((size_t)n, sizeof *ranks), *node = mt_calloc((size_t)n, sizeof *node);
    for (int i = 0; i < n; i++) node[i] = costs->cluster->devices[g->devices[i]].node;
    number_nodes(node, n, costs->cluster->nnodes);
    struct mt_costs own = {.cluster = costs->cluster, .nranks = n, .device = g->devices};
    struct mt_coll like = {algorithm->kind, problem->reduce, fit->wire, fit->acc, n, 0, 0, counts, false, node};
    int64_t nblocks = problem->kind == MT_ALL_TO_ALL ? (int64_t)problem->n * (problem->n - 1) : problem->n;
    int64_t block = bytes / nblocks / mt_type_size(fit->wire), column = like.kind == MT_ALL_TO_ALL ? n : 1;
    for (int64_t i = 0; i < n * column; i++) counts[i] = i / column == i % column && column > 1 ? 0 : block ? block : 1;
    for (int i = 0; i < n; i++) ranks[i] = i;
    double simulated_s = algorithm->applies(&like) ? schedule_s(&own, &like, ranks, algorithm) : 0;
    double ratio = simulated_s > 0 ? by_fit(fit, &like, algorithm).s / simulated_s : 0;
    free(counts);
    free(ranks);
    free(node);
    return ratio;
}

/* From a fit's algorithm to the one that is asked for: 0 the same, 1 of the same kind, 2 of another kind. */
static int distance_of(const struct mt_coll_fit *fit, const struct mt_coll_algorithm *algorithm) {
    if (fit->kind != algorithm->kind) return 2;
    return strcmp(fit->algorithm, algorithm->name) ? 1 : 0;
}

static void collect_evidence(const struct mt_costs *costs, const struct mt_coll *problem,
                             const struct mt_coll_algorithm *algorithm, int link, struct evidence evidence[3]) {
    const struct mt_cluster *cluster = costs->cluster;
    for (int i = 0; i < cluster->ngroups; i++) {
        const struct mt_cluster_group *g = &cluster->groups[i];
        if (g->link != link) continue;
        double octaves = fabs(log2((double)g->ndevices / problem->n));
        for (int f = 0; f < g->nfits; f++) {
            int distance = distance_of(&g->fits[f], algorithm);
            if (distance == 0 && &g->fits[f] != fit_of(g, problem, algorithm)) continue;
            bool have_own = distance > 0 && evidence[0].weight > 0;
            const struct mt_coll_algorithm *own = mt_coll_find(g->fits[f].kind, g->fits[f].algorithm);
            if (!own || have_own) continue;
            double ratio = fit_over_schedule(costs, problem, g, &g->fits[f], own);
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

/* Whether a link between neighbours of the group, or between its first rank and another, was never measured. */
static bool any_nominal(const struct mt_costs *costs, const int *group, int n) {
    const struct mt_cluster *cluster = costs->cluster;
    for (int i = 1; i < n; i++) {
        int before = mt_cluster_path(cluster, costs->device[group[i - 1]], costs->device[group[i]]).link;
        int first = mt_cluster_path(cluster, costs->device[group[0]], costs->device[group[i]]).link;
        if (cluster->links[before].nominal || cluster->links[first].nominal) return true;
    }
    return false;
}

static struct mt_cost by_schedule(const struct mt_costs *costs, const struct mt_coll *problem, const int *group,
                                  const struct mt_coll_algorithm *algorithm) {
    int link = mt_cost_link(costs, group, problem->n);
    bool nominal = any_nominal(costs, group, problem->n);
    struct mt_cost cost = {.s = schedule_s(costs, problem, group, algorithm), .error = schedule_error};
    cost.basis = MT_COST_SCHEDULE;
    struct evidence evidence[3] = {0};
    collect_evidence(costs, problem, algorithm, link, evidence);
    int distance = 0;
    while (distance < 3 && !evidence[distance].weight) distance++;
    if (distance < 3) {
        const struct evidence *e = &evidence[distance];
        double mean = e->sum / e->weight, spread = sqrt(fmax(e->squares / e->weight - mean * mean, 0));
        cost.s *= exp(mean);
        cost.error = scaled_error + ranks_error * e->nearest + distance_error * distance + spread;
        cost.basis = MT_COST_SCALED;
    }
    if (nominal) {
        cost.error += nominal_error;
        cost.basis = MT_COST_NOMINAL;
    }
    return cost;
}

struct mt_cost mt_cost_coll_uncached(const struct mt_costs *costs, const struct mt_coll *problem, const int *group,
                                     const struct mt_coll_algorithm *algorithm) {
    if (problem->n < 2 || bytes_of(problem) == 0) return (struct mt_cost){.basis = MT_COST_MEASURED};
    const struct mt_cluster_group *g = group_of(costs, group, problem->n);
    const struct mt_coll_fit *fit = g ? fit_of(g, problem, algorithm) : NULL;
    struct mt_cost cost = fit ? by_fit(fit, problem, algorithm) : by_schedule(costs, problem, group, algorithm);
    cost.error = fmin(cost.error, most_error);
    return cost;
}
