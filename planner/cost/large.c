/* Schedules of many ranks and messages, from two samples of whole hosts, the smaller a part of the larger.
 * Both have the message of the whole group, in blocks that are larger for it. The hosts of least rates and of the
 * largest blocks are in both, in the group's order. From the smaller sample to the larger, latencies and transfers grow
 * with the algorithm's own count of latencies and of bytes (cost_s); beyond, they are taken to grow in proportion to
 * it:
 *
 *   s(n) = s(m) + (latency_s(m) - latency_s(m / 2)) (A(n) - A(m)) / (A(m) - A(m / 2)) + the same of transfers
 *
 * which is exact where each further host adds rounds of one kind, as in rings, trees and exchanges of all pairs. */
#include <math.h>
#include <stdlib.h>

#include "planner/cost/internal.h"

enum { LEAST_UNITS = 4, MOST_PLACES = 80, NCRITERIA = 5, MOST_MESSAGES = 24000 };

/* Hosts, or, where hosts are large, places. */
struct units {
    struct cost_group *g;
    bool places;
    int n, *order; /* [n]: those that every sample needs first */
    double *own;   /* [n]: elements of their blocks */
};

static int unit_of(const struct units *u, int place) {
    return u->places ? place : u->g->host[place];
}

/* By one criterion; less is worse. */
static double rank_unit(const struct units *u, int unit, int criterion) {
    const struct cost_host *host = &u->g->hosts[u->places ? u->g->host[unit] : unit];
    int inside = u->g->cluster->nodes[host->node].inside;
    switch (criterion) {
    case 0: return host->egress_Bps;
    case 1: return host->ingress_Bps;
    case 2: return -u->own[unit];
    case 3: return mt_cost_cut_alone_Bps(u->g, u->places ? u->g->host[unit] : unit);
    default: return inside < 0 ? INFINITY : u->g->cluster->links[inside].bandwidth_Bps;
    }
}

static void take(struct units *u, bool *taken, int *count, int unit) {
    if (!taken[unit]) u->order[(*count)++] = unit;
    taken[unit] = true;
}

/* The root's, the last (so that all others forward what they receive), the worst by each criterion, then others, evenly
 * spaced: 1/2; 1/4, 3/4; ... */
static void order_units(struct units *u, int root) {
    bool *taken = mt_calloc((size_t)u->n, sizeof *taken);
    int count = 0;
    take(u, taken, &count, root);
    take(u, taken, &count, u->n - 1);
    for (int k = 0; k < NCRITERIA; k++) {
        int worst = root;
        for (int i = 0; i < u->n; i++)
            if (rank_unit(u, i, k) < rank_unit(u, worst, k)) worst = i;
        take(u, taken, &count, worst);
    }
    for (int64_t parts = 2; count < u->n; parts *= 2)
        for (int64_t k = 1; k < parts; k += 2) take(u, taken, &count, (int)(k * u->n / parts));
    free(taken);
}

static void open_units(struct units *u, struct cost_group *g, const struct mt_coll *problem) {
    int most = 0;
    for (int h = 0; h < g->nhosts; h++)
        if (g->hosts[h].nplaces > most) most = g->hosts[h].nplaces;
    *u = (struct units){.g = g, .places = g->nhosts == 1 || most > MOST_PLACES};
    u->n = u->places ? g->n : g->nhosts;
    u->order = mt_calloc((size_t)u->n, sizeof *u->order);
    u->own = mt_calloc((size_t)u->n, sizeof *u->own);
    for (int i = 0; i < g->n && problem->kind != MT_ALL_TO_ALL; i++)
        u->own[unit_of(u, i)] += (double)problem->counts[i];
    order_units(u, problem->kind == MT_BROADCAST ? unit_of(u, problem->root) : 0);
}

/* ---- samples ---- */

struct sample {
    struct mt_coll problem;
    struct cost_group *g;
    int64_t *counts;
};

static double sum_counts(const struct mt_coll *problem) {
    double sum = 0;
    for (int64_t i = 0; i < cost_ncounts(problem); i++) sum += (double)problem->counts[i];
    return sum;
}

/* The blocks at places[0..part->n) of the whole, scaled to its message (all_to_all: to its mean row). */
static void scale_counts(const struct mt_coll *whole, const int *places, struct mt_coll *part, int64_t *counts) {
    int n = part->n;
    bool matrix = whole->kind == MT_ALL_TO_ALL;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < (matrix ? n : 1); j++)
            counts[matrix ? i * n + j : i] =
                whole->counts[matrix ? (int64_t)places[i] * whole->n + places[j] : places[i]];
    double want = sum_counts(whole) * (matrix ? (double)n / whole->n : 1), have = sum_counts(part);
    for (int64_t i = 0; i < cost_ncounts(part); i++) {
        bool own = matrix && i / n == i % n;
        if (have > 0)
            counts[i] = llround((double)counts[i] * want / have);
        else
            counts[i] = own ? 0 : llround(want / (double)cost_ncounts(part)); /* none of the sampled has a block */
    }
}

/* The ranks of the first `some` units in order. */
static void open_sample(struct mt_cost_memo *memo, const struct units *u, const struct mt_coll *problem, int some,
                        struct sample *sample) {
    const struct cost_group *g = u->g;
    bool *in = mt_calloc((size_t)u->n, sizeof *in);
    int *places = mt_calloc((size_t)g->n, sizeof *places), *devices = mt_calloc((size_t)g->n, sizeof *devices), n = 0;
    for (int k = 0; k < some; k++) in[u->order[k]] = true;
    sample->problem = *problem;
    sample->problem.root = 0;
    for (int i = 0; i < g->n; i++) {
        if (!in[unit_of(u, i)]) continue;
        if (i == problem->root) sample->problem.root = n;
        devices[n] = g->device[i];
        places[n++] = i;
    }
    sample->problem.n = n;
    sample->counts = mt_calloc((size_t)n * (size_t)n, sizeof *sample->counts);
    sample->problem.counts = sample->counts;
    scale_counts(problem, places, &sample->problem, sample->counts);
    sample->g = mt_cost_group_find(memo, g->cluster, devices, n, g->concurrent);
    sample->problem.node = mt_cost_group_nodes(sample->g);
    free(in);
    free(places);
    free(devices);
}

/* ---- growth ---- */

/* What a figure grows by from at[1] to x, as it did from at[0] to at[1], where it was s[]: at most `most` for each
 * unit, and at least zero. */
static double grown(const double s[2], const double at[2], double x, double most) {
    double step = at[1] - at[0], least = 1e-9 * at[1];
    if (fabs(step) <= least) return at[1] > 0 ? s[1] * (x / at[1] - 1) : 0;
    return fmin(fmax((s[1] - s[0]) / step, 0), most) * (x - at[1]);
}

static double by_samples(struct mt_cost_memo *memo, const struct units *u, const struct mt_coll *problem,
                         const struct mt_coll_algorithm *algorithm, const int some[2]) {
    double latency_s[2], transfer_s[2], latencies[2], bytes[2], all_s = 0;
    for (int k = 0; k < 2; k++) {
        struct sample sample;
        open_sample(memo, u, problem, some[k], &sample);
        bool applies = algorithm->applies(&sample.problem);
        if (applies) {
            struct cost_seconds s = mt_cost_simulate(sample.g, &sample.problem, algorithm, true);
            all_s = s.all_s, latency_s[k] = s.latency_s, transfer_s[k] = s.transfer_s;
            latencies[k] = algorithm->cost_s(&sample.problem, 1, INFINITY);
            bytes[k] = algorithm->cost_s(&sample.problem, 0, 1);
        }
        free(sample.counts);
        if (!applies) return -1;
    }
    double most = bytes[1] > 0 ? 2 * transfer_s[1] / bytes[1] : 0;
    return all_s + grown(latency_s, latencies, algorithm->cost_s(problem, 1, INFINITY), u->g->slowest.latency_s) +
           grown(transfer_s, bytes, algorithm->cost_s(problem, 0, 1), most);
}

/* Whether the whole is cheap to simulate; a rank sends as many messages as the formula has latencies, roughly. */
static bool is_small(const struct mt_coll *problem, const struct mt_coll_algorithm *algorithm) {
    if (problem->n <= MT_COST_SIMULATED) return true;
    return problem->n <= MOST_MESSAGES && algorithm->cost_s(problem, 1, INFINITY) * problem->n <= MOST_MESSAGES;
}

double mt_cost_sampled_s(struct mt_cost_memo *memo, struct cost_group *g, const struct mt_coll *problem,
                         const struct mt_coll_algorithm *algorithm) {
    if (is_small(problem, algorithm)) return mt_cost_simulate(g, problem, algorithm, false).all_s;
    struct units u;
    open_units(&u, g, problem);
    int some = LEAST_UNITS;
    while (some < u.n && (int64_t)some * g->n < (int64_t)MT_COST_SIMULATED * u.n) some *= 2;
    double s = -1;
    if (some >= u.n)
        s = mt_cost_simulate(g, problem, algorithm, false).all_s;
    else
        s = by_samples(memo, &u, problem, algorithm, (int[2]){some / 2, some});
    if (s < 0) s = algorithm->cost_s(problem, g->slowest.latency_s, g->slowest.bandwidth_Bps);
    free(u.order);
    free(u.own);
    return s;
}
