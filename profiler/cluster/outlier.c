/* Outliers by robust statistics. */
#include "profiler/cluster/outlier.h"

#include <math.h>
#include <stdlib.h>

struct found {
    const struct mt_cluster *cluster;
    struct mt_arena *arena;
    struct mt_outlier *rows;
    int n, capacity;
};

static struct mt_outlier *add(struct found *found, enum mt_outlier_kind kind, int device, int other, double ratio) {
    mt_arena_grow(found->arena, &found->rows, found->n, &found->capacity, sizeof *found->rows);
    struct mt_outlier *row = &found->rows[found->n++];
    *row = (struct mt_outlier){kind, device, other, ratio, ""};
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

/* Medians and spreads over the pairs of a link. */
struct link_typical {
    int npairs;
    double bandwidth_Bps, bandwidth_spread, rate, rate_spread; /* rate: messages a second, 1 / latency */
};

static double rate_of(const struct mt_cluster_pair *pair) {
    return 1 / fmax(pair->latency_s, 1e-9);
}

static struct link_typical link_typical(const struct mt_cluster *c, int link) {
    struct link_typical t = {0};
    double *bandwidths = mt_malloc(((size_t)c->npairs + 1) * sizeof *bandwidths);
    double *rates = mt_malloc(((size_t)c->npairs + 1) * sizeof *rates);
    for (int p = 0; p < c->npairs; p++) {
        if (c->pairs[p].link != link) continue;
        bandwidths[t.npairs] = c->pairs[p].bandwidth_Bps;
        rates[t.npairs++] = rate_of(&c->pairs[p]);
    }
    if (t.npairs) {
        t.bandwidth_Bps = typical(bandwidths, t.npairs, &t.bandwidth_spread);
        t.rate = typical(rates, t.npairs, &t.rate_spread);
    }
    free(bandwidths);
    free(rates);
    return t;
}

/* The pair's ratio to the median of its link: of bandwidth, else of message rate if that is low; 1: neither is low. */
static double badness(const struct mt_cluster_pair *pair, const struct link_typical *t, bool *slow) {
    double ratio = pair->bandwidth_Bps / t->bandwidth_Bps;
    *slow = ratio * (1 + pair->bandwidth_error) < MT_OUTLIER_BANDWIDTH && ratio < 1 - t->bandwidth_spread;
    if (*slow) return ratio;
    ratio = rate_of(pair) / t->rate;
    bool late = ratio * (1 + pair->latency_error) < 1.0 / MT_OUTLIER_LATENCY && ratio < 1 - t->rate_spread;
    return late ? ratio : 1;
}

static void add_pair(struct found *found, const struct mt_cluster_pair *pair, double ratio, bool slow, bool all) {
    const struct mt_cluster *c = found->cluster;
    struct mt_outlier *row = add(found, MT_BAD_LINK, pair->a, all ? -1 : pair->b, ratio);
    const char *link = c->links[pair->link].name, *than = all ? "others" : "other pairs";
    const char *who = mt_arena_printf(found->arena, all ? "rank %d (%s): all its pairs over %s" : "rank %d (%s)",
                                      pair->a, host_of(c, pair->a), link);
    if (!all)
        who = mt_arena_printf(found->arena, "%s to rank %d (%s), over %s", who, pair->b, host_of(c, pair->b), link);
    if (slow)
        row->text = mt_arena_printf(found->arena, "%s: %.2f of the bandwidth of %s", who, ratio, than);
    else
        row->text = mt_arena_printf(found->arena, "%s: %.1f times the latency of %s", who, 1 / ratio, than);
}

/* A device all of whose pairs on a link are bad is reported once, in place of its pairs. */
static void find_bad(struct found *found, int link) {
    const struct mt_cluster *c = found->cluster;
    struct link_typical t = link_typical(c, link);
    if (t.npairs < 2) return;
    int *pairs = mt_calloc((size_t)c->ndevices, sizeof *pairs), *bad = mt_calloc((size_t)c->ndevices, sizeof *bad);
    bool *named = mt_calloc((size_t)c->ndevices, sizeof *named), slow;
    for (int p = 0; p < c->npairs; p++) {
        const struct mt_cluster_pair *pair = &c->pairs[p];
        if (pair->link != link) continue;
        int is_bad = badness(pair, &t, &slow) < 1;
        pairs[pair->a]++, pairs[pair->b]++;
        bad[pair->a] += is_bad, bad[pair->b] += is_bad;
    }
    for (int p = 0; p < c->npairs; p++) {
        const struct mt_cluster_pair *pair = &c->pairs[p];
        if (pair->link != link) continue;
        double ratio = badness(pair, &t, &slow);
        if (ratio >= 1) continue;
        bool a_all = pairs[pair->a] > 1 && bad[pair->a] == pairs[pair->a];
        bool b_all = pairs[pair->b] > 1 && bad[pair->b] == pairs[pair->b];
        struct mt_cluster_pair of_device = *pair;
        if (a_all && !named[pair->a]) add_pair(found, &of_device, ratio, slow, true), named[pair->a] = true;
        of_device.a = pair->b;
        if (b_all && !named[pair->b]) add_pair(found, &of_device, ratio, slow, true), named[pair->b] = true;
        if (!a_all && !b_all) add_pair(found, pair, ratio, slow, false);
    }
    free(pairs), free(bad), free(named);
}

static int by_kind_and_rank(const void *left, const void *right) {
    const struct mt_outlier *l = left, *r = right;
    if (l->kind != r->kind) return (l->kind > r->kind) - (l->kind < r->kind);
    if (l->device != r->device) return (l->device > r->device) - (l->device < r->device);
    return (l->other > r->other) - (l->other < r->other);
}

int mt_cluster_outliers(const struct mt_cluster *cluster, struct mt_arena *arena, struct mt_outlier **outliers) {
    struct found found = {.cluster = cluster, .arena = arena};
    for (int c = 0; c < cluster->nclasses; c++) find_slow(&found, c);
    find_stolen(&found);
    for (int l = 0; l < cluster->nlinks; l++) find_bad(&found, l);
    if (found.n) qsort(found.rows, (size_t)found.n, sizeof *found.rows, by_kind_and_rank);
    *outliers = found.rows;
    return found.n;
}
