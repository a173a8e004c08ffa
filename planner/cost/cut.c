/* Lower bounds from cuts. For a set S of hosts, every algorithm sends at least so many bytes from S to the others:
 *
 *   AllReduce      the message: of each element, the sum of S's summands
 *   ReduceScatter  the blocks of the others
 *   AllGather      the blocks of S
 *   Broadcast      the message, if the root is in S
 *   AllToAll       the entries from S to the others
 *
 * and at most at the rate of the largest flow from S to the others, with egress and ingress of hosts and the rates from
 * host to host (sums over pairs of devices) as capacities. By the theorem of Ford and Fulkerson that is the least, over
 * sets A of hosts in S, of
 *
 *   sum over S \ A of egress + sum over others j of min(ingress j, sum over h in A of rate h to j).
 *
 * All S are looked at for COST_CUT_UNITS hosts or fewer, and all A for EXACT_UNITS or fewer; else two sums that are no
 * less than that flow: each host of S sends at most at its egress, and each other receives at most at its ingress. Of
 * more hosts, S is each alone, all but each, and, where pairs have rows of their own, those of least rates together.
 * Within a host the same is done with devices, whose rates are not wires but copies, at times in a cache: they are
 * taken to be higher by the error of their link. Of ranks on several hosts each device alone is looked at, too. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/cost/internal.h"

enum { EXACT_UNITS = 8, COST_CUT_UNITS = 12, MOST_RATES = 512 };

/* What a set sends to (and receives from) the rest at most. */
struct rates {
    double out_Bps, in_Bps;
};

struct cost_cuts {
    bool by_host;                                /* units are hosts; else places */
    int n;                                       /* units */
    double *egress_Bps, *ingress_Bps, *rate_Bps; /* [n], [n], [n n] or null; while the cuts are made */
    struct rates *alone;                         /* [n]: of each unit */
    double *capacity_Bps;                        /* [2^n]: from each set of units to the rest; or null */
    int *order[2];                               /* [n]: units by rising rates out (in); or null */
    double *prefix_Bps[2]; /* [n]: from the first k + 1 units of order[0] to the rest; to order[1]'s from the rest */
    struct rates *place;   /* [places], or null: units are places */
};

void mt_cost_cuts_free(struct cost_cuts *cuts) {
    if (!cuts) return;
    for (int side = 0; side < 2; side++) {
        free(cuts->order[side]);
        free(cuts->prefix_Bps[side]);
    }
    free(cuts->egress_Bps);
    free(cuts->ingress_Bps);
    free(cuts->rate_Bps);
    free(cuts->alone);
    free(cuts->capacity_Bps);
    free(cuts->place);
    free(cuts);
}

/* ---- rates of units ---- */

static void add_rate(struct cost_cuts *c, int from, int to, double Bps) {
    c->alone[from].out_Bps += Bps;
    c->alone[to].in_Bps += Bps;
    if (c->rate_Bps) c->rate_Bps[from * c->n + to] += Bps;
}

/* A pair of hosts without rows: every pair of their devices. */
static double without_rows(const struct cost_group *g, int from, int to) {
    const struct mt_cluster *cluster = g->cluster;
    const struct cost_host *a = &g->hosts[from], *b = &g->hosts[to];
    double Bps = cluster->links[cluster->network].bandwidth_Bps, egress_Bps = cluster->nodes[a->node].egress_Bps;
    double ingress_Bps = cluster->nodes[b->node].ingress_Bps;
    if (egress_Bps > 0) Bps = fmin(Bps, egress_Bps);
    if (ingress_Bps > 0) Bps = fmin(Bps, ingress_Bps);
    return Bps * a->nplaces * b->nplaces;
}

/* Rows replace what their pairs have without. */
static bool add_rows(struct cost_cuts *c, const struct cost_group *g) {
    const struct mt_cluster *cluster = g->cluster;
    bool any = false;
    int *place = mt_malloc((size_t)cluster->ndevices * sizeof *place);
    for (int d = 0; d < cluster->ndevices; d++) place[d] = -1;
    for (int i = 0; i < g->n; i++) place[g->device[i]] = i;
    for (int p = 0; p < cluster->npairs; p++) {
        const struct mt_cluster_pair *pair = &cluster->pairs[p];
        if (place[pair->a] < 0 || place[pair->b] < 0) continue;
        int a = g->host[place[pair->a]], b = g->host[place[pair->b]];
        if (a == b) continue;
        int each = g->hosts[a].nplaces * g->hosts[b].nplaces;
        double reverse_Bps = pair->reverse_Bps > 0 ? pair->reverse_Bps : pair->bandwidth_Bps;
        add_rate(c, a, b, pair->bandwidth_Bps - without_rows(g, a, b) / each);
        add_rate(c, b, a, reverse_Bps - without_rows(g, b, a) / each);
        any = true;
    }
    free(place);
    return any;
}

static bool add_hosts(struct cost_cuts *c, const struct cost_group *g) {
    for (int a = 0; a < c->n; a++) {
        c->egress_Bps[a] = g->hosts[a].egress_Bps, c->ingress_Bps[a] = g->hosts[a].ingress_Bps;
        for (int b = 0; b < c->n; b++)
            if (a != b) add_rate(c, a, b, without_rows(g, a, b));
    }
    return add_rows(c, g);
}

/* The rate between two places of one host. */
static double inside_Bps(const struct cost_group *g, int from, int to) {
    struct mt_path path = mt_cost_group_path(g, from, to);
    return path.bandwidth_Bps * (1 + g->cluster->links[path.link].bandwidth_error);
}

static void add_places(struct cost_cuts *c, const struct cost_group *g) {
    for (int i = 0; i < c->n; i++) {
        c->egress_Bps[i] = c->ingress_Bps[i] = INFINITY;
        for (int j = 0; j < c->n; j++)
            if (i != j) add_rate(c, i, j, inside_Bps(g, i, j));
    }
}

/* Each device of several hosts: within its host, and over the network at most at its host's rates. */
static void add_devices(struct cost_cuts *c, const struct cost_group *g) {
    if (g->n > COST_MOST_PATHS) return;
    c->place = mt_calloc((size_t)g->n, sizeof *c->place);
    for (int i = 0; i < g->n; i++) {
        struct rates inside = {0, 0}, outside = {0, 0};
        const struct cost_host *host = &g->hosts[g->host[i]];
        for (int j = 0; j < g->n; j++) {
            if (i == j) continue;
            bool near = g->host[i] == g->host[j];
            struct rates *to = near ? &inside : &outside;
            to->out_Bps += near ? inside_Bps(g, i, j) : mt_cost_group_path(g, i, j).bandwidth_Bps;
            to->in_Bps += near ? inside_Bps(g, j, i) : mt_cost_group_path(g, j, i).bandwidth_Bps;
        }
        c->place[i].out_Bps = inside.out_Bps + fmin(outside.out_Bps, host->egress_Bps);
        c->place[i].in_Bps = inside.in_Bps + fmin(outside.in_Bps, host->ingress_Bps);
    }
}

/* ---- capacities of sets ---- */

/* From the units of a set to the others; `near`: A above. */
static double capacity_with(const struct cost_cuts *c, unsigned set, unsigned near) {
    double Bps = 0;
    for (int u = 0; u < c->n; u++) {
        if (set >> u & 1) {
            if (!(near >> u & 1)) Bps += c->egress_Bps[u];
            continue;
        }
        double to_Bps = 0;
        for (unsigned from = near; from; from &= from - 1)
            to_Bps += c->rate_Bps[(unsigned)__builtin_ctz(from) * (unsigned)c->n + (unsigned)u];
        Bps += fmin(c->ingress_Bps[u], to_Bps);
    }
    return Bps;
}

/* From the units with in[] set to the others, at most. */
static double capacity_about(const struct cost_cuts *c, const bool *in) {
    double by_egress = 0, by_ingress = 0;
    for (int u = 0; u < c->n; u++) {
        double Bps = 0; /* to the other side, or from it */
        for (int v = 0; v < c->n; v++)
            if (in[u] != in[v]) Bps += in[u] ? c->rate_Bps[u * c->n + v] : c->rate_Bps[v * c->n + u];
        if (in[u])
            by_egress += fmin(c->egress_Bps[u], Bps);
        else
            by_ingress += fmin(c->ingress_Bps[u], Bps);
    }
    return fmin(by_egress, by_ingress);
}

static void list_all_sets(struct cost_cuts *c) {
    unsigned nsets = 1u << c->n, limited = 0;
    for (int u = 0; u < c->n; u++) limited |= (unsigned)(c->egress_Bps[u] < INFINITY) << u;
    c->capacity_Bps = mt_calloc(nsets, sizeof *c->capacity_Bps);
    for (unsigned set = 1; set + 1 < nsets; set++) {
        bool in[COST_CUT_UNITS];
        for (int u = 0; u < c->n; u++) in[u] = set >> u & 1;
        c->capacity_Bps[set] = capacity_about(c, in);
        for (unsigned cut = set & limited; c->n <= EXACT_UNITS; cut = (cut - 1) & set & limited) { /* S without A */
            c->capacity_Bps[set] = fmin(c->capacity_Bps[set], capacity_with(c, set, set & ~cut));
            if (!cut) break;
        }
    }
}

struct ranked {
    double Bps;
    int unit;
};
static int by_rate(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    return x->Bps != y->Bps ? (x->Bps > y->Bps) - (x->Bps < y->Bps) : x->unit - y->unit;
}

/* The units of least rates together, for each number of them. */
static void list_prefixes(struct cost_cuts *c, int side) {
    size_t n = (size_t)c->n;
    struct ranked *ranked = mt_calloc(n, sizeof *ranked);
    bool *in = mt_calloc(n, sizeof *in);
    c->order[side] = mt_calloc(n, sizeof(int));
    c->prefix_Bps[side] = mt_calloc(n, sizeof(double));
    for (int u = 0; u < c->n; u++)
        ranked[u] = (struct ranked){side ? c->alone[u].in_Bps : c->alone[u].out_Bps, u}, in[u] = side;
    qsort(ranked, n, sizeof *ranked, by_rate);
    for (int k = 0; k < c->n; k++) {
        c->order[side][k] = ranked[k].unit;
        in[ranked[k].unit] = !side;
        if (k + 1 < c->n) c->prefix_Bps[side][k] = capacity_about(c, in);
    }
    free(ranked);
    free(in);
}

static struct cost_cuts *cuts_new(struct cost_group *g) {
    struct cost_cuts *c = mt_calloc(1, sizeof *c);
    mt_cost_group_list_paths(g);
    c->by_host = g->nhosts > 1;
    c->n = c->by_host ? g->nhosts : g->n;
    size_t n = (size_t)c->n;
    c->egress_Bps = mt_calloc(n, sizeof(double));
    c->ingress_Bps = mt_calloc(n, sizeof(double));
    c->alone = mt_calloc(n, sizeof *c->alone);
    if (c->n <= MOST_RATES) c->rate_Bps = mt_calloc(n * n, sizeof(double));
    bool rows = false;
    if (c->by_host)
        rows = add_hosts(c, g);
    else
        add_places(c, g);
    if (c->n <= COST_CUT_UNITS)
        list_all_sets(c);
    else if (rows && c->rate_Bps)
        for (int side = 0; side < 2; side++) list_prefixes(c, side);
    for (int u = 0; u < c->n; u++) {
        c->alone[u].out_Bps = fmin(c->alone[u].out_Bps, c->egress_Bps[u]);
        c->alone[u].in_Bps = fmin(c->alone[u].in_Bps, c->ingress_Bps[u]);
    }
    if (c->by_host) add_devices(c, g);
    free(c->egress_Bps);
    free(c->ingress_Bps);
    free(c->rate_Bps);
    c->egress_Bps = c->ingress_Bps = c->rate_Bps = NULL;
    return c;
}

/* ---- bounds ---- */

/* A problem's blocks by unit, in elements. */
struct demand {
    const struct mt_coll *problem;
    int n, root;        /* units; the root's */
    double total;       /* the message */
    double *block;      /* [n]: the blocks of a unit's ranks */
    double *matrix;     /* all_to_all: [n n]; [from, to] */
    struct rates *sums; /* all_to_all: [n]: to all others, from all others */
};

/* Elements that a set of units sends to the others at least. own: its blocks; sent: its entries to the others. */
static double sends(const struct demand *d, double own, bool root, double sent) {
    switch (d->problem->kind) {
    case MT_ALL_REDUCE: return d->total;
    case MT_REDUCE_SCATTER: return d->total - own;
    case MT_ALL_GATHER: return own;
    case MT_BROADCAST: return root ? d->total : 0;
    case MT_ALL_TO_ALL: return sent;
    case MT_NCOLLS: break;
    }
    return 0;
}

static double over_all_sets(const struct demand *d, const struct cost_cuts *c) {
    size_t nsets = (size_t)1 << c->n;
    double most_s = 0, *own = mt_calloc(2 * nsets, sizeof *own), *sent = own + nsets;
    for (size_t set = 1; set + 1 < nsets; set++) {
        int last = __builtin_ctzll(set);
        size_t rest = set & (set - 1);
        own[set] = own[rest] + d->block[last];
        if (d->matrix) {
            sent[set] = sent[rest];
            for (int u = 0; u < c->n; u++) {
                if (rest >> u & 1) sent[set] -= d->matrix[u * c->n + last];
                if (!(set >> u & 1)) sent[set] += d->matrix[last * c->n + u];
            }
        }
        double elements = sends(d, own[set], set >> d->root & 1, sent[set]);
        if (elements > 0) most_s = fmax(most_s, elements / c->capacity_Bps[set]);
    }
    free(own);
    return most_s;
}

/* Each unit alone, and all but it. */
static double over_single(const struct demand *d, const struct rates *alone) {
    double most_s = 0;
    for (int u = 0; u < d->n; u++) {
        struct rates sum = d->sums ? d->sums[u] : (struct rates){0, 0};
        double out = sends(d, d->block[u], u == d->root, sum.out_Bps);
        double in = sends(d, d->total - d->block[u], u != d->root, sum.in_Bps);
        if (out > 0) most_s = fmax(most_s, out / alone[u].out_Bps);
        if (in > 0) most_s = fmax(most_s, in / alone[u].in_Bps);
    }
    return most_s;
}

static double over_prefixes(const struct demand *d, const struct cost_cuts *c) {
    double most_s = 0;
    if (!c->order[0] || d->matrix) return 0;
    for (int side = 0; side < 2; side++) {
        double own = side ? d->total : 0;
        bool root = side;
        for (int k = 0; k + 1 < c->n; k++) {
            int unit = c->order[side][k];
            own += side ? -d->block[unit] : d->block[unit];
            if (unit == d->root) root = !side;
            double elements = sends(d, own, root, 0);
            if (elements > 0) most_s = fmax(most_s, elements / c->prefix_Bps[side][k]);
        }
    }
    return most_s;
}

/* unit: of each place; null: the place itself. */
static struct demand demand_of(const struct mt_coll *problem, const int *unit, int n) {
    struct demand d = {.problem = problem, .n = n, .root = unit ? unit[problem->root] : problem->root};
    d.block = mt_calloc((size_t)n, sizeof(double));
    if (problem->kind != MT_ALL_TO_ALL) {
        for (int i = 0; i < problem->n; i++) {
            d.block[unit ? unit[i] : i] += (double)problem->counts[i];
            d.total += (double)problem->counts[i];
        }
        return d;
    }
    d.matrix = mt_calloc((size_t)n * (size_t)n, sizeof(double));
    d.sums = mt_calloc((size_t)n, sizeof *d.sums);
    for (int i = 0; i < problem->n; i++)
        for (int j = 0; j < problem->n; j++) {
            int from = unit ? unit[i] : i, to = unit ? unit[j] : j;
            double count = (double)problem->counts[(int64_t)i * problem->n + j];
            if (from == to) continue;
            d.matrix[from * n + to] += count;
            d.sums[from].out_Bps += count, d.sums[to].in_Bps += count;
        }
    return d;
}

static void release(struct demand *d) {
    free(d->block);
    free(d->matrix);
    free(d->sums);
}

double mt_cost_cut_bound_s(struct cost_group *g, const struct mt_coll *problem) {
    if (problem->n < 2) return 0;
    if (!g->cuts) g->cuts = cuts_new(g);
    const struct cost_cuts *c = g->cuts;
    struct demand d = demand_of(problem, c->by_host ? g->host : NULL, c->n);
    double most_s = c->capacity_Bps ? over_all_sets(&d, c) : fmax(over_single(&d, c->alone), over_prefixes(&d, c));
    release(&d);
    if (c->place) {
        d = demand_of(problem, NULL, g->n);
        most_s = fmax(most_s, over_single(&d, c->place));
        release(&d);
    }
    return most_s * (double)mt_type_size(problem->wire);
}

double mt_cost_cut_alone_Bps(struct cost_group *g, int host) {
    if (!g->cuts) g->cuts = cuts_new(g);
    return g->cuts->by_host ? fmin(g->cuts->alone[host].out_Bps, g->cuts->alone[host].in_Bps) : INFINITY;
}

double mt_cost_cut_s(const struct mt_costs *costs, const struct mt_coll *problem, const int *group) {
    struct mt_costs own = mt_cost_memo_borrow(costs);
    double bound_s = mt_cost_cut_bound_s(mt_cost_group_of(&own, group, problem->n), problem);
    mt_cost_memo_return(costs, &own);
    return bound_s;
}
