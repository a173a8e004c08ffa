/* Outliers by robust statistics. */
#include "profiler/cluster/outlier.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/base/text/units.h"

struct found {
    const struct mt_cluster *cluster;
    struct mt_arena *arena;
    bool *slow[2]; /* [nnodes]: nodes that receive (0) or send (1) slowly, which explains their pairs */
    struct mt_outlier *rows;
    int n, capacity;
};

static struct mt_outlier *add(struct found *found, enum mt_outlier_kind kind, int device, int other, double ratio) {
    mt_arena_grow(found->arena, &found->rows, found->n, &found->capacity, sizeof *found->rows);
    struct mt_outlier *row = &found->rows[found->n++];
    *row = (struct mt_outlier){.kind = kind, .device = device, .other = other, .ratio = ratio, .text = ""};
    return row;
}

static int ascending(const void *left, const void *right) {
    double l = *(const double *)left, r = *(const double *)right;
    return (l > r) - (l < r);
}

/* The upper median of values where more is better; *spread: three standard deviations, by the median absolute
 * deviation, relative to it. Overwrites the values. */
static double typical(double *values, int n, double *spread) {
    qsort(values, (size_t)n, sizeof *values, ascending);
    double median = values[n / 2];
    for (int i = 0; i < n; i++) values[i] = fabs(values[i] - median);
    qsort(values, (size_t)n, sizeof *values, ascending);
    *spread = 3 * 1.4826 * values[(n - 1) / 2] / median;
    return median;
}

static const char *host_of(const struct mt_cluster *c, int device) {
    return c->nodes[c->devices[device].node].name;
}

static double own_speed(const struct mt_cluster_device *device) {
    return device->speed / device->emulated;
}

static void find_slow(struct found *found, int class) {
    const struct mt_cluster *c = found->cluster;
    double *speeds = mt_malloc((size_t)c->ndevices * sizeof *speeds), spread;
    int n = 0;
    for (int d = 0; d < c->ndevices; d++)
        if (c->devices[d].class == class) speeds[n++] = own_speed(&c->devices[d]);
    if (n < 2) goto out;
    double median = typical(speeds, n, &spread);
    for (int d = 0; d < c->ndevices; d++) {
        if (c->devices[d].class != class) continue;
        double ratio = own_speed(&c->devices[d]) / median;
        if (ratio * (1 + c->devices[d].speed_error) >= MT_OUTLIER_SPEED || ratio >= 1 - spread) continue;
        struct mt_outlier *row = add(found, MT_SLOW_DEVICE, d, -1, ratio);
        row->text = mt_arena_printf(found->arena, "rank %d (%s): at %.2f of the speed of its class, %s", d,
                                    host_of(c, d), ratio, c->classes[class].name);
    }
out:
    free(speeds);
}

static void find_stolen(struct found *found) {
    const struct mt_cluster *c = found->cluster;
    for (int d = 0; d < c->ndevices; d++) {
        if (c->devices[d].stolen <= MT_OUTLIER_STOLEN) continue;
        struct mt_outlier *row = add(found, MT_STOLEN_TIME, d, -1, c->devices[d].stolen);
        row->text = mt_arena_printf(found->arena, "rank %d (%s): other processes had %.0f%% of its time", d,
                                    host_of(c, d), 100 * c->devices[d].stolen);
    }
}

/* ---- nodes ---- */

static double own_rate(const struct mt_cluster_node *node, bool egress) {
    return egress ? node->egress_Bps : node->ingress_Bps;
}

static double reverse_of(const struct mt_cluster_pair *pair) {
    return pair->reverse_Bps > 0 ? pair->reverse_Bps : pair->bandwidth_Bps;
}

static int first_of(const struct mt_cluster *c, int node) {
    int d = 0;
    while (c->devices[d].node != node) d++;
    return d;
}

/* "11.7 MB/s" */
static const char *rate_text(struct found *found, double Bps) {
    char text[MT_UNITS_TEXT];
    return mt_arena_strdup(found->arena, mt_units_Bps(Bps, text));
}

/* The best rate of a measured pair from (egress) or to a node, and its error; without one 0, and the network's error.
 */
struct best {
    double Bps, error;
};

static struct best best_pair(const struct mt_cluster *c, int node, bool egress) {
    struct best best = {0, c->links[c->network].bandwidth_error};
    for (int p = 0; p < c->npairs; p++) {
        const struct mt_cluster_pair *pair = &c->pairs[p];
        int a = c->devices[pair->a].node, b = c->devices[pair->b].node;
        if (a == b || (a != node && b != node)) continue;
        bool reversed = (a == node) != egress && pair->reverse_Bps > 0;
        struct best is = {reversed ? pair->reverse_Bps : pair->bandwidth_Bps,
                          reversed ? pair->reverse_error : pair->bandwidth_error};
        if (is.Bps > best.Bps) best = is;
    }
    return best;
}

/* Two measurements must agree on it: all pairs of the node at once (a ratio to what is typical, with the spread of the
 * others), and each alone, of which none is fast. Below MT_OUTLIER_NODE it is slow, however much the others scatter and
 * whatever the errors are: of three nodes, two that differ scatter without limit. */
static bool is_slow(double ratio, double spread, struct best pair, double typical_Bps) {
    if (!(ratio > 0) || ratio >= MT_OUTLIER_BANDWIDTH || pair.Bps >= MT_OUTLIER_BANDWIDTH * typical_Bps) return false;
    return ratio < MT_OUTLIER_NODE || (ratio * (1 + pair.error) < MT_OUTLIER_BANDWIDTH && ratio < 1 - spread);
}

static void find_slow_nodes(struct found *found, bool egress) {
    const struct mt_cluster *c = found->cluster;
    double *rates = mt_malloc(((size_t)c->nnodes + 1) * sizeof *rates), spread;
    int n = 0;
    for (int i = 0; i < c->nnodes; i++)
        if (own_rate(&c->nodes[i], egress) > 0) rates[n++] = own_rate(&c->nodes[i], egress);
    double median = n > 2 ? typical(rates, n, &spread) : 0;
    free(rates);
    for (int i = 0; i < c->nnodes && n > 2; i++) {
        double ratio = own_rate(&c->nodes[i], egress) / median;
        if (!is_slow(ratio, spread, best_pair(c, i, egress), median)) continue;
        struct mt_outlier *row = add(found, MT_SLOW_NODE, first_of(c, i), -1, ratio);
        row->egress = egress;
        row->text =
            mt_arena_printf(found->arena, "node %s %s at %s, others at %s", c->nodes[i].name,
                            egress ? "sends" : "receives", rate_text(found, ratio * median), rate_text(found, median));
        found->slow[egress][i] = true;
    }
}

/* Of two nodes either may be the cause: the direction is named. */
static void find_slow_direction(struct found *found) {
    const struct mt_cluster *c = found->cluster;
    double forth = c->nodes[0].egress_Bps, back = c->nodes[1].egress_Bps;
    if (!(forth > 0) || !(back > 0)) return;
    int from = back < forth, to = !from;
    if (!is_slow(fmin(forth, back) / fmax(forth, back), 0, best_pair(c, from, true), fmax(forth, back))) return;
    struct mt_outlier *row =
        add(found, MT_SLOW_NODE, first_of(c, from), first_of(c, to), fmin(forth, back) / fmax(forth, back));
    row->egress = true;
    row->text =
        mt_arena_printf(found->arena, "node %s to node %s: %s, and %s in the other direction", c->nodes[from].name,
                        c->nodes[to].name, rate_text(found, fmin(forth, back)), rate_text(found, fmax(forth, back)));
    found->slow[1][from] = found->slow[0][to] = true;
}

/* What was described or set is as it was meant to be; it explains pairs, but is not reported. */
static void find_nodes(struct found *found) {
    const struct mt_cluster *c = found->cluster;
    int before = found->n;
    if (c->network < 0) return;
    if (c->nnodes == 2) find_slow_direction(found);
    for (int egress = 0; egress < 2 && c->nnodes > 2; egress++) find_slow_nodes(found, egress);
    if (c->links[c->network].nominal) found->n = before;
}

/* ---- pairs ---- */

/* Medians and spreads over the pairs of a link, bandwidths in both directions. */
struct link_typical {
    int npairs;
    double bandwidth_Bps, bandwidth_spread, rate, rate_spread; /* rate: messages a second, 1 / latency */
};

static double rate_of(const struct mt_cluster_pair *pair) {
    return 1 / fmax(pair->latency_s, 1e-9);
}

static struct link_typical link_typical(const struct mt_cluster *c, int link) {
    struct link_typical t = {0};
    double *bandwidths = mt_malloc((2 * (size_t)c->npairs + 1) * sizeof *bandwidths);
    double *rates = mt_malloc(((size_t)c->npairs + 1) * sizeof *rates);
    for (int p = 0; p < c->npairs; p++) {
        if (c->pairs[p].link != link) continue;
        bandwidths[2 * t.npairs] = c->pairs[p].bandwidth_Bps;
        bandwidths[2 * t.npairs + 1] = reverse_of(&c->pairs[p]);
        rates[t.npairs++] = rate_of(&c->pairs[p]);
    }
    if (t.npairs) {
        t.bandwidth_Bps = typical(bandwidths, 2 * t.npairs, &t.bandwidth_spread);
        t.rate = typical(rates, t.npairs, &t.rate_spread);
    }
    free(bandwidths);
    free(rates);
    return t;
}

/* What is bad of a pair: the ratio to the median of its link of bandwidth in the worse direction, else of message rate;
 * 1: neither is low. */
struct badness {
    double ratio;
    bool slow, reversed; /* bandwidth, not latency; from b to a */
};

static struct badness badness(const struct found *found, const struct mt_cluster_pair *pair,
                              const struct link_typical *t) {
    const struct mt_cluster *c = found->cluster;
    struct badness bad = {.ratio = 1};
    for (int reversed = 0; reversed < 2; reversed++) {
        int from = c->devices[reversed ? pair->b : pair->a].node, to = c->devices[reversed ? pair->a : pair->b].node;
        if (from != to && (found->slow[1][from] || found->slow[0][to])) continue;
        double error = reversed && pair->reverse_Bps > 0 ? pair->reverse_error : pair->bandwidth_error;
        double ratio = (reversed ? reverse_of(pair) : pair->bandwidth_Bps) / t->bandwidth_Bps;
        bool slow = ratio * (1 + error) < MT_OUTLIER_BANDWIDTH && ratio < 1 - t->bandwidth_spread;
        if (slow && ratio < bad.ratio) bad = (struct badness){ratio, true, reversed};
    }
    if (bad.slow) return bad;
    double ratio = rate_of(pair) / t->rate;
    bool late = ratio * (1 + pair->latency_error) < 1.0 / MT_OUTLIER_LATENCY && ratio < 1 - t->rate_spread;
    if (late) bad.ratio = ratio;
    return bad;
}

/* device: all of whose pairs are bad, or -1: this pair alone. */
static void add_pair(struct found *found, const struct mt_cluster_pair *pair, struct badness bad, int device) {
    const struct mt_cluster *c = found->cluster;
    bool all = device >= 0;
    int from = all ? device : bad.reversed ? pair->b : pair->a, to = bad.reversed ? pair->a : pair->b;
    struct mt_outlier *row = add(found, MT_BAD_LINK, from, all ? -1 : to, bad.ratio);
    const char *link = c->links[pair->link].name, *than = all ? "others" : "other pairs";
    const char *who = mt_arena_printf(found->arena, all ? "rank %d (%s): all its pairs over %s" : "rank %d (%s)", from,
                                      host_of(c, from), link);
    if (!all) who = mt_arena_printf(found->arena, "%s to rank %d (%s), over %s", who, to, host_of(c, to), link);
    if (bad.slow)
        row->text = mt_arena_printf(found->arena, "%s: %.2f of the bandwidth of %s", who, bad.ratio, than);
    else
        row->text = mt_arena_printf(found->arena, "%s: %.1f times the latency of %s", who, 1 / bad.ratio, than);
}

/* A device all of whose pairs on a link are bad is reported once, in place of its pairs. */
static void find_bad(struct found *found, int link) {
    const struct mt_cluster *c = found->cluster;
    struct link_typical t = link_typical(c, link);
    if (t.npairs < 2) return;
    int *pairs = mt_calloc((size_t)c->ndevices, sizeof *pairs), *bad = mt_calloc((size_t)c->ndevices, sizeof *bad);
    bool *named = mt_calloc((size_t)c->ndevices, sizeof *named);
    for (int p = 0; p < c->npairs; p++) {
        const struct mt_cluster_pair *pair = &c->pairs[p];
        if (pair->link != link) continue;
        int is_bad = badness(found, pair, &t).ratio < 1;
        pairs[pair->a]++, pairs[pair->b]++;
        bad[pair->a] += is_bad, bad[pair->b] += is_bad;
    }
    for (int p = 0; p < c->npairs; p++) {
        const struct mt_cluster_pair *pair = &c->pairs[p];
        if (pair->link != link) continue;
        struct badness is = badness(found, pair, &t);
        if (is.ratio >= 1) continue;
        bool alone = true;
        for (int k = 0; k < 2; k++) {
            int device = k ? pair->b : pair->a;
            if (pairs[device] < 2 || bad[device] < pairs[device]) continue;
            if (!named[device]) add_pair(found, pair, is, device);
            named[device] = true, alone = false;
        }
        if (alone) add_pair(found, pair, is, -1);
    }
    free(pairs), free(bad), free(named);
}

static int by_kind_and_rank(const void *left, const void *right) {
    const struct mt_outlier *l = left, *r = right;
    if (l->kind != r->kind) return (l->kind > r->kind) - (l->kind < r->kind);
    if (l->device != r->device) return (l->device > r->device) - (l->device < r->device);
    if (l->egress != r->egress) return l->egress < r->egress ? 1 : -1;
    return (l->other > r->other) - (l->other < r->other);
}

int mt_cluster_outliers(const struct mt_cluster *cluster, struct mt_arena *arena, struct mt_outlier **outliers) {
    struct found found = {.cluster = cluster, .arena = arena};
    for (int k = 0; k < 2; k++) found.slow[k] = mt_calloc((size_t)cluster->nnodes, sizeof *found.slow[k]);
    for (int c = 0; c < cluster->nclasses; c++) find_slow(&found, c);
    find_stolen(&found);
    find_nodes(&found);
    for (int l = 0; l < cluster->nlinks; l++) find_bad(&found, l);
    for (int k = 0; k < 2; k++) free(found.slow[k]);
    if (found.n) qsort(found.rows, (size_t)found.n, sizeof *found.rows, by_kind_and_rank);
    *outliers = found.rows;
    return found.n;
}
