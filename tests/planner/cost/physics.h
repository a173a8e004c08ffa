/* Random collectives on random directed networks: no price below what any cut of hosts allows, and no price that rises
 * when something becomes faster. The bound is computed here: for each set of hosts the bytes that must leave it, and
 * the largest flow from it to the others (Ford and Fulkerson, by augmenting paths), pair by pair. */
#ifndef MT_TESTS_PLANNER_COST_PHYSICS_H
#define MT_TESTS_PLANNER_COST_PHYSICS_H

#include "kernels/base/number/rng.h"
#include "profiler/describe/edit.h"
#include "tests/planner/small_cluster.h"

enum { PHYSICS_SEED = 20261122, HOSTS = 6, MANY_HOSTS = 14, RANKS = 4 * MANY_HOSTS, FLOW_NODES = HOSTS + 2 };

static uint64_t physics_draws;
static inline int64_t below(int64_t bound) {
    return (int64_t)mt_random_below(PHYSICS_SEED, 1, physics_draws++, (uint64_t)bound);
}
static inline bool one_in(int n) {
    return below(n) == 0;
}
/* From low to high, evenly in the logarithm. */
static inline double between(double low, double high) {
    return low * pow(high / low, (double)below(1000001) / 1e6);
}

struct network {
    struct small_cluster *s;
    struct mt_cluster_pair pairs[RANKS * RANKS];
    struct mt_coll_fit fits[64];
    int64_t size_bytes[2][3];
    double ratio[3];
    int all[RANKS], some[RANKS];
    int group[RANKS], n; /* ranks in a random order */
};

/* ---- random networks ---- */

static inline void add_pair(struct network *w, int a, int b) {
    const struct mt_cluster *c = &w->s->cluster;
    bool inside = c->devices[a].node == c->devices[b].node;
    struct mt_cluster_pair *pair = &w->pairs[w->s->cluster.npairs++];
    *pair = (struct mt_cluster_pair){.a = a, .b = b, .link = inside ? MEMORY : NETWORK};
    pair->latency_s = inside ? between(5e-7, 1e-5) : between(1e-5, 1e-3);
    pair->bandwidth_Bps = inside ? between(1e9, 2e10) : between(1e6, 1e10);
    if (one_in(2)) pair->reverse_Bps = pair->bandwidth_Bps * between(0.01, 100);
}

static inline void random_network(struct network *w, int least_hosts, int most_hosts) {
    int nhosts = least_hosts + (int)below(most_hosts - least_hosts + 1), per_host = 1 + (int)below(4),
        total = nhosts * per_host;
    struct small_cluster *s = w->s = small_cluster(nhosts, per_host);
    s->links[NETWORK].bandwidth_Bps = between(1e7, 1e10);
    s->links[NETWORK].latency_s = between(1e-6, 1e-3);
    s->links[MEMORY].bandwidth_Bps = between(1e8, 1e11);
    if (one_in(2)) s->links[NETWORK].shared_Bps = s->links[NETWORK].bandwidth_Bps * between(0.1, 4);
    if (one_in(3)) s->links[MEMORY].shared_Bps = s->links[MEMORY].bandwidth_Bps * between(0.5, 4);
    for (int h = 0; h < nhosts; h++) {
        if (one_in(2)) s->nodes[h].egress_Bps = between(1e6, 1e10);
        if (one_in(2)) s->nodes[h].ingress_Bps = between(1e6, 1e10);
    }
    int rows = (int)below(3); /* no pairs, some, all */
    s->cluster.pairs = w->pairs;
    for (int a = 0; a < total; a++)
        for (int b = a + 1; b < total; b++)
            if (rows == 2 || (rows == 1 && one_in(3))) add_pair(w, a, b);
    w->n = one_in(2) ? total : 2 + (int)below(total - 1);
    for (int i = 0; i < total; i++) w->group[i] = i;
    for (int i = 0; i < total; i++) {
        int j = i + (int)below(total - i), kept = w->group[i];
        w->group[i] = w->group[j], w->group[j] = kept;
    }
}

/* Fits of everything, at random: right, slow, or faster than light. */
static inline void random_fits(struct network *w) {
    struct small_cluster *s = w->s;
    int nfits = 0, total = s->costs.nranks;
    int64_t first = 1 << below(20);
    for (int k = 0; k < 3; k++) w->size_bytes[0][k] = first << (4 * k), w->ratio[k] = between(0.3, 3);
    for (int a = 0; a < mt_coll_nalgorithms; a++) {
        const struct mt_coll_algorithm *algorithm = mt_coll_algorithms[a];
        if (one_in(3)) continue;
        w->fits[nfits++] = (struct mt_coll_fit){algorithm->kind,
                                                algorithm->name,
                                                MT_F32,
                                                MT_F32,
                                                between(1e-8, 1e-3),
                                                between(1e6, 1e13),
                                                0.05,
                                                one_in(4) ? 0 : 3,
                                                w->size_bytes[0],
                                                w->ratio,
                                                one_in(2) ? 0 : 1.5,
                                                w->ratio};
    }
    for (int i = 0; i < total; i++) w->all[i] = i;
    int nsome = 0;
    for (int i = 0; i < w->n; i++) w->some[i] = w->group[i];
    for (int d = 0; d < total; d++) /* in order */
        for (int i = 0; i < w->n; i++)
            if (w->group[i] == d) w->some[nsome++] = d;
    struct mt_cluster_group *g = add_group(s, one_in(2) ? w->some : w->all, 0, NETWORK);
    g->ndevices = g->devices == w->all ? total : w->n;
    g->fits = w->fits, g->nfits = nfits;
}

static inline struct mt_coll random_problem(const struct network *w, enum mt_coll_kind kind, int64_t *counts) {
    bool matrix = kind == MT_ALL_TO_ALL, even = one_in(3);
    int64_t block = 1 << below(22);
    for (int i = 0; i < (matrix ? w->n * w->n : w->n); i++) {
        counts[i] = even ? block : below(2 * block);
        if (!even && one_in(4)) counts[i] = 0;
        if (matrix && i / w->n == i % w->n) counts[i] = 0;
    }
    struct mt_coll problem = {.kind = kind, .wire = MT_F32, .acc = MT_F32, .n = w->n, .counts = counts};
    problem.reduce = mt_coll_reduces(kind) ? MT_SUM : MT_REDUCE_NONE;
    if (one_in(4)) problem.wire = MT_BF16;
    problem.root = kind == MT_BROADCAST ? (int)below(w->n) : 0;
    return problem;
}

/* ---- the bound ---- */

/* Elements that must be sent from the set of hosts in[] to the others. */
static inline double must_leave(const struct network *w, const struct mt_coll *problem, const bool *in) {
    const struct mt_cluster_device *devices = w->s->devices;
    double sum = 0;
    bool here = false, there = false;
    for (int i = 0; i < w->n; i++) {
        bool inside = in[devices[w->group[i]].node];
        here |= inside, there |= !inside;
        double own = problem->kind == MT_ALL_TO_ALL ? 0 : (double)problem->counts[i];
        if (problem->kind == MT_ALL_REDUCE || problem->kind == MT_BROADCAST) sum += own;
        if (problem->kind == MT_REDUCE_SCATTER && !inside) sum += own;
        if (problem->kind == MT_ALL_GATHER && inside) sum += own;
        for (int j = 0; j < w->n && problem->kind == MT_ALL_TO_ALL; j++)
            if (inside && !in[devices[w->group[j]].node]) sum += (double)problem->counts[i * w->n + j];
    }
    if (problem->kind == MT_BROADCAST && !in[devices[w->group[problem->root]].node]) return 0;
    return here && there ? sum : 0;
}

/* Rates are at least 1e6 bytes a second: what is less is left by rounding. */
#define LEAST_BPS 1e-3

static inline double augment(double left[FLOW_NODES][FLOW_NODES], bool *seen, int at, int end, double most) {
    if (at == end) return most;
    seen[at] = true;
    for (int to = 0; to < FLOW_NODES; to++) {
        if (seen[to] || left[at][to] <= LEAST_BPS) continue;
        double got = augment(left, seen, to, end, fmin(most, left[at][to]));
        if (got <= 0) continue;
        left[at][to] -= got;
        left[to][at] += got;
        return got;
    }
    return 0;
}

/* The largest flow from the set to the others, in bytes a second. */
static inline double largest_flow(const struct network *w, const bool *in) {
    enum { SOURCE = HOSTS, SINK };
    const struct mt_cluster *c = &w->s->cluster;
    double left[FLOW_NODES][FLOW_NODES] = {{0}}, flow = 0, got;
    double shared_Bps = c->links[NETWORK].shared_Bps > 0 ? c->links[NETWORK].shared_Bps : 1e30;
    for (int h = 0; h < c->nnodes; h++) {
        double egress_Bps = c->nodes[h].egress_Bps, ingress_Bps = c->nodes[h].ingress_Bps;
        if (in[h]) left[SOURCE][h] = egress_Bps > 0 ? egress_Bps : shared_Bps;
        if (!in[h]) left[h][SINK] = ingress_Bps > 0 ? ingress_Bps : shared_Bps;
    }
    for (int i = 0; i < w->n; i++)
        for (int j = 0; j < w->n; j++) {
            int a = c->devices[w->group[i]].node, b = c->devices[w->group[j]].node;
            if (in[a] && !in[b]) left[a][b] += mt_cluster_path(c, w->group[i], w->group[j]).bandwidth_Bps;
        }
    do {
        bool seen[FLOW_NODES] = {false};
        flow += got = augment(left, seen, SOURCE, SINK, 1e30);
    } while (got > 0);
    return flow;
}

static inline double bound_s(const struct network *w, const struct mt_coll *problem) {
    double most_s = 0;
    for (unsigned set = 1; set + 1 < 1u << w->s->cluster.nnodes; set++) {
        bool in[HOSTS];
        for (int h = 0; h < w->s->cluster.nnodes; h++) in[h] = set >> h & 1;
        double elements = must_leave(w, problem, in);
        if (elements > 0) most_s = fmax(most_s, elements * (double)mt_type_size(problem->wire) / largest_flow(w, in));
    }
    return most_s;
}

/* ---- checks ---- */

/* Whether the group has a fit of the algorithm that says less than the bound, whatever its ratio. */
static inline bool too_fast(const struct network *w, const struct mt_coll *problem,
                            const struct mt_coll_algorithm *algorithm, double own_s) {
    const struct mt_cluster *c = &w->s->cluster;
    for (int f = 0; c->ngroups && c->groups[0].ndevices == w->n && f < c->groups[0].nfits; f++) {
        const struct mt_coll_fit *fit = &w->fits[f];
        if (fit->kind == algorithm->kind && !strcmp(fit->algorithm, algorithm->name))
            return 3 * algorithm->cost_s(problem, fit->latency_s, fit->bandwidth_Bps) < own_s;
    }
    return false;
}

/* Some fits say of this problem what is near its bound, above or below. */
static inline void aim_fits(struct network *w, const struct mt_coll *problem, double own_s) {
    for (int f = 0; f < w->s->groups[0].nfits; f++) {
        struct mt_coll_fit *fit = &w->fits[f];
        const struct mt_coll_algorithm *algorithm = mt_coll_find(fit->kind, fit->algorithm);
        if (fit->kind != problem->kind || own_s <= 0 || !one_in(2) || !algorithm->applies(problem)) continue;
        fit->npoints = 0;
        fit->latency_s = 0;
        fit->bandwidth_Bps = algorithm->cost_s(problem, 0, 1) / (own_s * between(0.8, 1.3));
    }
}

/* Every algorithm, with and without fits; returns the least price over bound. */
static inline double check_bounds(int rounds) {
    double least = INFINITY;
    int seen = 0, bound = 0;
    int64_t counts[RANKS * RANKS];
    for (int round = 0; round < rounds; round++) {
        struct network w = {.s = NULL};
        random_network(&w, 2, HOSTS);
        if (round % 2) random_fits(&w);
        struct mt_coll problem = random_problem(&w, (enum mt_coll_kind)(round / 2 % MT_NCOLLS), counts);
        struct mt_costs costs = w.s->costs;
        costs.memo = mt_cost_memo_new();
        double own_s = bound_s(&w, &problem);
        if (w.s->cluster.ngroups) aim_fits(&w, &problem, own_s);
        double floor_s = mt_cost_cut_s(&costs, &problem, w.group);
        CHECK(floor_s >= own_s * (1 - 1e-9), "round %d: the cut bound is %g, not %g", round, floor_s, own_s);
        for (int a = 0; a < mt_coll_nalgorithms; a++) {
            const struct mt_coll_algorithm *algorithm = mt_coll_algorithms[a];
            if (algorithm->kind != problem.kind || !algorithm->applies(&problem)) continue;
            struct mt_cost cost = mt_cost_coll(&costs, &problem, w.group, algorithm);
            double schedule_s = mt_cost_schedule_s(&costs, &problem, w.group, algorithm);
            const char *name = algorithm->name, *kind = mt_coll_name(problem.kind);
            CHECK(cost.s >= own_s * (1 - 1e-9), "round %d, %s %s: %g, but the bound is %g", round, kind, name, cost.s,
                  own_s);
            CHECK(schedule_s >= floor_s * (1 - 1e-9), "round %d, %s %s: a bound of %g, but its schedule takes %g",
                  round, kind, name, floor_s, schedule_s);
            CHECK(cost.s >= cost.floor_s && cost.floor_s >= own_s * (1 - 1e-9), "round %d: %g", round, cost.floor_s);
            if (own_s > 0) least = fmin(least, cost.s / own_s);
            seen++, bound += too_fast(&w, &problem, algorithm, own_s);
        }
        mt_cost_memo_free(costs.memo);
        free(w.s);
    }
    printf("physics: %d prices of %d collectives, %d of them with a fit below the bound; the least is %.6f of it\n",
           seen, rounds, bound, least);
    CHECK(bound > 0 || rounds < 20, "no fit was ever too fast");
    return least;
}

/* Of more hosts only some sets are looked at: still a bound, which no schedule is below. */
static inline void check_many_hosts(int rounds) {
    double most = 0;
    static int64_t counts[RANKS * RANKS];
    for (int round = 0; round < rounds; round++) {
        static struct network w;
        w = (struct network){.s = NULL};
        random_network(&w, HOSTS + 1, MANY_HOSTS);
        struct mt_coll problem = random_problem(&w, (enum mt_coll_kind)(round % MT_NCOLLS), counts);
        double floor_s = mt_cost_cut_s(&w.s->costs, &problem, w.group);
        for (int a = 0; a < mt_coll_nalgorithms; a++) {
            const struct mt_coll_algorithm *algorithm = mt_coll_algorithms[a];
            if (algorithm->kind != problem.kind || !algorithm->applies(&problem)) continue;
            double schedule_s = mt_cost_schedule_s(&w.s->costs, &problem, w.group, algorithm);
            CHECK(schedule_s >= floor_s * (1 - 1e-9), "round %d, %s: a bound of %g, but its schedule takes %g", round,
                  algorithm->name, floor_s, schedule_s);
            if (schedule_s > 0) most = fmax(most, floor_s / schedule_s);
        }
        free(w.s);
    }
    printf("%d to %d hosts: the bound is at most %.6f of a schedule\n", HOSTS + 1, MANY_HOSTS, most);
    CHECK(most > 0.5, "%g", most);
}

/* One thing becomes faster. Links change with their pairs, and fits with their links, as edits of a cluster do. */
static inline const char *speed_up(struct network *w) {
    struct small_cluster *s = w->s;
    double by = between(1.01, 10);
    int host = (int)below(s->cluster.nnodes), row = s->cluster.npairs ? (int)below(s->cluster.npairs) : -1;
    switch (below(6)) {
    case 0:
        if (s->nodes[host].egress_Bps > 0) s->nodes[host].egress_Bps *= by;
        return "egress";
    case 1:
        if (s->nodes[host].ingress_Bps > 0) s->nodes[host].ingress_Bps *= by;
        return "ingress";
    case 2:
        if (row >= 0) w->pairs[row].bandwidth_Bps *= by;
        if (row >= 0 && one_in(2) && w->pairs[row].reverse_Bps > 0) w->pairs[row].reverse_Bps *= by;
        return "pair";
    case 3:
        if (row >= 0) w->pairs[row].latency_s /= by;
        return "pair's latency";
    case 4:
        s->links[NETWORK].bandwidth_Bps *= by;
        if (s->links[NETWORK].shared_Bps > 0) s->links[NETWORK].shared_Bps *= by;
        return "link";
    default: s->links[NETWORK].latency_s /= by; return "link's latency";
    }
}

/* A price after a speed-up over the price before: at most. Of groups without fits, or with fits of their own. */
static inline double check_monotone(int rounds) {
    double most = 0;
    int seen = 0;
    int64_t counts[RANKS * RANKS];
    for (int round = 0; round < rounds; round++) {
        struct network w = {.s = NULL};
        random_network(&w, 2, HOSTS);
        if (round % 2) {
            random_fits(&w);
            w.n = w.s->groups[0].ndevices;
        }
        struct mt_coll problem = random_problem(&w, (enum mt_coll_kind)(round / 2 % MT_NCOLLS), counts);
        double before_s[64];
        for (int a = 0; a < mt_coll_nalgorithms; a++)
            if (mt_coll_algorithms[a]->kind == problem.kind && mt_coll_algorithms[a]->applies(&problem))
                before_s[a] = mt_cost_coll(&w.s->costs, &problem, w.group, mt_coll_algorithms[a]).s;
        const char *what = speed_up(&w);
        for (int a = 0; a < mt_coll_nalgorithms; a++) {
            const struct mt_coll_algorithm *algorithm = mt_coll_algorithms[a];
            if (algorithm->kind != problem.kind || !algorithm->applies(&problem)) continue;
            if (w.s->cluster.ngroups) { /* others are scaled by what the fitted schedules take */
                bool fitted = false;
                for (int f = 0; f < w.s->groups[0].nfits; f++)
                    fitted |= w.fits[f].kind == algorithm->kind && !strcmp(w.fits[f].algorithm, algorithm->name);
                if (!fitted) continue;
            }
            double after_s = mt_cost_coll(&w.s->costs, &problem, w.group, algorithm).s;
            CHECK(after_s <= before_s[a] * 1.01, "round %d, %s %s of %d: a faster %s, from %g to %g", round,
                  mt_coll_name(algorithm->kind), algorithm->name, w.n, what, before_s[a], after_s);
            if (before_s[a] > 0) most = fmax(most, after_s / before_s[a]);
            seen++;
        }
        free(w.s);
    }
    printf("monotone: %d prices after a speed-up, at most %.6f of those before\n", seen, most);
    return most;
}

/* ---- measured clusters, edited ---- */

/* The time of 1 MiB in even blocks by its schedule, over that by the algorithm's formula for 10 us and 1 GB/s;
 * 1: it does not apply. */
static inline double slowness(const struct network *w, const struct mt_coll_algorithm *algorithm) {
    int n = w->s->costs.nranks, cells = algorithm->kind == MT_ALL_TO_ALL ? n * n : n, node[RANKS];
    int64_t counts[RANKS * RANKS];
    for (int i = 0; i < cells; i++) counts[i] = cells > n && i / n == i % n ? 0 : (1 << 18) / cells + 1;
    for (int i = 0; i < n; i++) node[i] = w->s->devices[i].node;
    struct mt_coll problem = {.kind = algorithm->kind, .wire = MT_F32, .acc = MT_F32, .n = n, .counts = counts};
    problem.reduce = mt_coll_reduces(algorithm->kind) ? MT_SUM : MT_REDUCE_NONE;
    problem.node = node;
    if (!algorithm->applies(&problem)) return 1;
    return mt_cost_schedule_s(&w->s->costs, &problem, w->all, algorithm) / algorithm->cost_s(&problem, 1e-5, 1e9);
}

/* Fits of all ranks: what schedules take, more or less. */
static inline void plausible_fits(struct network *w) {
    struct small_cluster *s = w->s;
    int total = s->costs.nranks;
    for (int i = 0; i < total; i++) w->all[i] = i;
    for (int k = 0; k < 3; k++) w->size_bytes[0][k] = 1 << (14 + 6 * k), w->ratio[k] = between(0.8, 1.3);
    for (int a = 0; a < mt_coll_nalgorithms; a++) {
        const struct mt_coll_algorithm *algorithm = mt_coll_algorithms[a];
        double slow = slowness(w, algorithm);
        w->fits[a] = (struct mt_coll_fit){algorithm->kind,
                                          algorithm->name,
                                          MT_F32,
                                          MT_F32,
                                          slow * 1e-5 * between(0.7, 1.5),
                                          1e9 / slow * between(0.6, 1.1),
                                          0.05,
                                          3,
                                          w->size_bytes[0],
                                          w->ratio,
                                          one_in(2) ? 0 : 1.5,
                                          w->ratio};
    }
    struct mt_cluster_group *g = add_group(s, w->all, total, NETWORK);
    g->fits = w->fits, g->nfits = mt_coll_nalgorithms;
}

/* "link.net=...", something faster by the factor. */
static inline void faster_edit(const struct network *w, double by, char *edit, size_t size) {
    static const double bits = 8 / 0.94; /* of a rate as it is given (hardware.def) to what messages reach */
    const struct mt_cluster *c = &w->s->cluster;
    const struct mt_cluster_link *net = &c->links[NETWORK];
    int host = (int)below(c->nnodes);
    double egress_Bps = fmin(mt_cluster_node_egress(c, host), 1e11);
    double ingress_Bps = fmin(mt_cluster_node_ingress(c, host), 1e11);
    switch (below(4)) {
    case 0: snprintf(edit, size, "link.net=%.0f", net->bandwidth_Bps * by * bits); break;
    case 1: snprintf(edit, size, "link.net.latency=%.9fs", net->latency_s / by); break;
    case 2: snprintf(edit, size, "node.h%d.egress=%.0f", host, egress_Bps * by * bits); break;
    default: snprintf(edit, size, "node.h%d.ingress=%.0f", host, ingress_Bps * by * bits); break;
    }
}

/* Prices of random subsets, whose collectives are scaled by fits of all ranks, after an edit that makes something
 * faster: at most one in a thousand rises by more than 1%, none by more than a quarter. (A fit gains what its schedule
 * gains; where it then contradicts a cut that the edit left alone, other groups are priced by the schedule.) */
static inline void check_edits(int rounds) {
    double most = 0;
    int seen = 0, risen = 0;
    int64_t counts[RANKS * RANKS];
    struct mt_err err = MT_ERR_INIT;
    for (int round = 0; round < rounds; round++) {
        struct network w = {.s = NULL};
        char names[HOSTS][16], edit[64];
        double before_s[64] = {0};
        random_network(&w, 2, HOSTS);
        plausible_fits(&w);
        for (int h = 0; h < w.s->cluster.nnodes; h++) {
            snprintf(names[h], sizeof names[h], "h%d", h);
            w.s->nodes[h].name = names[h];
        }
        struct mt_coll problem = random_problem(&w, (enum mt_coll_kind)(round % MT_NCOLLS), counts);
        for (int a = 0; a < mt_coll_nalgorithms; a++)
            if (mt_coll_algorithms[a]->kind == problem.kind && mt_coll_algorithms[a]->applies(&problem))
                before_s[a] = mt_cost_coll(&w.s->costs, &problem, w.group, mt_coll_algorithms[a]).s;
        faster_edit(&w, between(1.01, 10), edit, sizeof edit);
        struct mt_cluster *edited = mt_cluster_copy(&w.s->cluster);
        CHECK_OK(mt_cluster_set(edited, edit, &err), err);
        mt_cost_carry_fits(&w.s->cluster, edited);
        struct mt_costs costs = {.cluster = edited, .nranks = w.s->costs.nranks, .device = w.s->device};
        for (int a = 0; a < mt_coll_nalgorithms; a++) {
            if (!(before_s[a] > 0)) continue;
            double after_s = mt_cost_coll(&costs, &problem, w.group, mt_coll_algorithms[a]).s;
            most = fmax(most, after_s / before_s[a]);
            seen++, risen += after_s > before_s[a] * 1.01;
        }
        mt_cluster_free(edited);
        free(w.s);
    }
    printf("edits: %d prices after an edit of a measured cluster, at most %.6f of those before, %d above 1.01\n", seen,
           most, risen);
    CHECK(most <= 1.25 && risen * 1000 <= seen, "at most %g, %d of %d above 1.01", most, risen, seen);
}

#endif
