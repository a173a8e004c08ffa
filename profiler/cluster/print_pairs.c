/* Pairs as tables: of few ranks a matrix, of many the ranges by class. */
#include <math.h>
#include <stdlib.h>

#include "profiler/cluster/print.h"

enum { CLASSES_MOST = 32 };

/* Do all pairs have the same bandwidth in both directions? */
static bool is_symmetric(const struct mt_cluster *c) {
    for (int a = 0; a < c->ndevices; a++)
        for (int b = a + 1; b < c->ndevices; b++)
            if (mt_cluster_path(c, a, b).bandwidth_Bps != mt_cluster_path(c, b, a).bandwidth_Bps) return false;
    return true;
}

enum matrix { BANDWIDTH = 1, LATENCY = 2 };

static void cell_of_pair(struct mt_table *t, enum matrix what, int a, int b, struct mt_path path) {
    if (a == b)
        mt_cell_word(t, ".");
    else if (what == BANDWIDTH || (what != LATENCY && a < b))
        mt_cell_measure(t, path.bandwidth_Bps > 0 ? path.bandwidth_Bps : NAN, MT_UNIT_BPS);
    else
        mt_cell_measure(t, path.latency_s, MT_UNIT_SECONDS);
}

/* The bandwidth from each rank to each, their latency, or both: bandwidth above the diagonal, latency below. */
static void add_matrix(const struct mt_cluster *c, enum matrix what, struct mt_tables *out) {
    static const char *const titles[] = {[BANDWIDTH] = "bandwidth from the rank of the row to that of the column",
                                         [LATENCY] = "latency, half a round trip",
                                         [BANDWIDTH | LATENCY] = "bandwidth above the diagonal, latency below"};
    struct mt_table *t = mt_tables_add(out, "matrix", "pairs",
                                       mt_arena_printf(&out->arena, "%s; %d of %d measured", titles[what], c->npairs,
                                                       c->ndevices * (c->ndevices - 1) / 2));
    t->people_only = true;
    mt_table_column(t, "rank", what == BANDWIDTH ? "from" : "rank", MT_UNIT_COUNT);
    for (int d = 0; d < c->ndevices; d++)
        mt_table_column(t, mt_arena_printf(&out->arena, "to_%d", d),
                        mt_arena_printf(&out->arena, what == BANDWIDTH ? "to %d" : "%d", d), MT_UNIT_ANY)
            ->one_prefix = true;
    for (int a = 0; a < c->ndevices; a++) {
        mt_table_row(t);
        mt_cell_int(t, a);
        for (int b = 0; b < c->ndevices; b++) cell_of_pair(t, what, a, b, mt_cluster_path(c, a, b));
    }
}

/* What the matrices show. */
static void add_list(const struct mt_cluster *c, struct mt_tables *out) {
    struct mt_table *t = mt_tables_add(out, "pairs", "pairs", "");
    t->machines_only = true;
    mt_table_columns(t, {"from", "from", MT_UNIT_COUNT}, {"to", "to", MT_UNIT_COUNT}, {"link", "link", MT_UNIT_TEXT},
                     {"bandwidth_Bps", "bandwidth", MT_UNIT_BPS}, {"latency_s", "latency", MT_UNIT_SECONDS});
    for (int a = 0; a < c->ndevices; a++)
        for (int b = 0; b < c->ndevices; b++) {
            if (a == b) continue;
            struct mt_path path = mt_cluster_path(c, a, b);
            mt_table_row(t);
            mt_cell_int(t, a);
            mt_cell_int(t, b);
            mt_cell_text(t, "%s", mt_cluster_link_name(c, path.link));
            mt_cell_positive(t, path.bandwidth_Bps);
            mt_cell_real(t, path.latency_s);
        }
}

/* Pairs of two classes over one link; with many classes, of all classes together. */
struct pair_class {
    int class[2], link;
    int64_t npairs;
    double least_Bps, most_Bps, least_s, most_s;
};

/* Sums over pairs. Those without a row of their own are counted by nodes and classes, not one by one: large clusters
 * have tens of millions. */
struct pair_classes {
    const struct mt_cluster *cluster;
    struct mt_arena *arena;
    int nclasses; /* 1: all together */
    struct pair_class *rows;
    int nrows, capacity;
    int64_t *plain; /* [(nlinks + 1) * nclasses * nclasses]: pairs without a row, by the link within their node, and
                       last between nodes; low class first */
};

static int class_of(const struct pair_classes *p, int device) {
    return p->nclasses == 1 ? 0 : p->cluster->devices[device].class;
}

static int64_t *plain(struct pair_classes *p, int inside, int x, int y) {
    int low = x < y ? x : y, high = x < y ? y : x;
    return &p->plain[((int64_t)inside * p->nclasses + low) * p->nclasses + high];
}

static void count_pairs(struct pair_classes *p, int x, int y, int64_t npairs, struct mt_path path) {
    int row = 0, low = x < y ? x : y, high = x < y ? y : x;
    while (row < p->nrows &&
           (p->rows[row].class[0] != low || p->rows[row].class[1] != high || p->rows[row].link != path.link))
        row++;
    if (row == p->nrows) {
        mt_arena_grow(p->arena, &p->rows, p->nrows, &p->capacity, sizeof *p->rows);
        p->rows[p->nrows++] = (struct pair_class){{low, high}, path.link, 0, INFINITY, 0, INFINITY, 0};
    }
    struct pair_class *sum = &p->rows[row];
    sum->npairs += npairs;
    sum->least_Bps = fmin(sum->least_Bps, path.bandwidth_Bps);
    sum->most_Bps = fmax(sum->most_Bps, path.bandwidth_Bps);
    sum->least_s = fmin(sum->least_s, path.latency_s);
    sum->most_s = fmax(sum->most_s, path.latency_s);
}

static int64_t pairs_of(int64_t x, int64_t y, bool same) {
    return same ? x * (x - 1) / 2 : x * y;
}

/* The numbers of all pairs, as if none had a row. */
static void count_plain(struct pair_classes *p) {
    const struct mt_cluster *c = p->cluster;
    int k = p->nclasses;
    int64_t *on = mt_new(p->arena, int64_t, (int64_t)c->nnodes * k), *all = mt_new(p->arena, int64_t, k);
    for (int d = 0; d < c->ndevices; d++) {
        on[(int64_t)c->devices[d].node * k + class_of(p, d)]++;
        all[class_of(p, d)]++;
    }
    for (int x = 0; x < k; x++)
        for (int y = x; y < k; y++) *plain(p, c->nlinks, x, y) = pairs_of(all[x], all[y], x == y);
    for (int n = 0; n < c->nnodes; n++)
        for (int x = 0; x < k; x++)
            for (int y = x; y < k && on[(int64_t)n * k + x]; y++) {
                int64_t pairs = pairs_of(on[(int64_t)n * k + x], on[(int64_t)n * k + y], x == y);
                *plain(p, c->nlinks, x, y) -= pairs;
                if (pairs) *plain(p, c->nodes[n].inside, x, y) += pairs;
            }
}

static void count_rows(struct pair_classes *p) {
    const struct mt_cluster *c = p->cluster;
    for (int i = 0; i < c->npairs; i++) {
        int a = c->pairs[i].a, b = c->pairs[i].b, x = class_of(p, a), y = class_of(p, b);
        bool within = c->devices[a].node == c->devices[b].node;
        --*plain(p, within ? c->nodes[c->devices[a].node].inside : c->nlinks, x, y);
        count_pairs(p, x, y, 1, mt_cluster_path(c, a, b));
        count_pairs(p, x, y, 0, mt_cluster_path(c, b, a));
    }
}

/* The two nodes with the least, or most, egress or ingress of those that have a device of the class. */
struct extremes {
    int node[2];
    double Bps[2];
};

static struct extremes extremes_of(const struct pair_classes *p, int class, bool egress, bool most) {
    const struct mt_cluster *c = p->cluster;
    struct extremes e = {{-1, -1}, {0, 0}};
    for (int d = 0; d < c->ndevices; d++) {
        int node = c->devices[d].node;
        if (class_of(p, d) != class || node == e.node[0] || node == e.node[1]) continue;
        double Bps = egress ? c->nodes[node].egress_Bps : c->nodes[node].ingress_Bps;
        if (!(Bps > 0)) Bps = INFINITY;
        for (int k = 0; k < 2; k++) {
            if (e.node[k] >= 0 && (most ? Bps <= e.Bps[k] : Bps >= e.Bps[k])) continue;
            if (!k) e.node[1] = e.node[0], e.Bps[1] = e.Bps[0];
            e.node[k] = node, e.Bps[k] = Bps;
            break;
        }
    }
    return e;
}

/* Pairs between nodes: the least, and the most, that one of class x sends to one of class y. Two nodes of each suffice:
 * of the best pair of different nodes at least one is the best of its class. */
static void count_between(struct pair_classes *p, int x, int y, int64_t npairs) {
    const struct mt_cluster *c = p->cluster;
    const struct mt_cluster_link *net = &c->links[c->network];
    for (int most = 0; most < 2; most++) {
        struct extremes from = extremes_of(p, x, true, most), to = extremes_of(p, y, false, most);
        for (int i = 0; i < 4; i++) {
            int a = i / 2, b = i % 2;
            if (from.node[a] < 0 || to.node[b] < 0 || from.node[a] == to.node[b]) continue;
            double Bps = fmin(net->bandwidth_Bps, fmin(from.Bps[a], to.Bps[b]));
            count_pairs(p, x, y, npairs, (struct mt_path){c->network, net->latency_s, Bps});
            npairs = 0;
        }
    }
}

static int by_classes_and_link(const void *left, const void *right) {
    const struct pair_class *l = left, *r = right;
    int order = l->class[0] - r->class[0];
    if (!order) order = l->class[1] - r->class[1];
    return order ? order : l->link - r->link;
}

static void count_classes(struct pair_classes *p) {
    const struct mt_cluster *c = p->cluster;
    p->plain = mt_new(p->arena, int64_t, (int64_t)(c->nlinks + 1) * p->nclasses * p->nclasses);
    count_plain(p);
    count_rows(p);
    for (int x = 0; x < p->nclasses; x++)
        for (int y = x; y < p->nclasses; y++) {
            for (int l = 0; l < c->nlinks; l++)
                if (*plain(p, l, x, y))
                    count_pairs(p, x, y, *plain(p, l, x, y),
                                (struct mt_path){l, c->links[l].latency_s, c->links[l].bandwidth_Bps});
            int64_t npairs = *plain(p, c->nlinks, x, y);
            if (npairs) count_between(p, x, y, npairs);
            if (npairs && x != y) count_between(p, y, x, 0);
        }
    if (p->nrows) qsort(p->rows, (size_t)p->nrows, sizeof *p->rows, by_classes_and_link);
}

static void add_pair_classes(const struct mt_cluster *c, struct mt_tables *out) {
    bool any = c->nclasses > CLASSES_MOST;
    struct pair_classes p = {.cluster = c, .arena = &out->arena, .nclasses = any ? 1 : c->nclasses};
    count_classes(&p);
    struct mt_table *t = mt_tables_add(
        out, "pairs", "pairs, by class",
        mt_arena_printf(&out->arena, "%d of %d measured", c->npairs, c->ndevices * (c->ndevices - 1) / 2));
    mt_table_columns(t, {"from_class", "class", MT_UNIT_TEXT}, {"to_class", "class", MT_UNIT_TEXT},
                     {"link", "link", MT_UNIT_TEXT}, {"pairs", "pairs", MT_UNIT_COUNT},
                     {"least_bandwidth_Bps", "bandwidth from", MT_UNIT_BPS}, {"most_bandwidth_Bps", "to", MT_UNIT_BPS},
                     {"least_latency_s", "latency from", MT_UNIT_SECONDS}, {"most_latency_s", "to", MT_UNIT_SECONDS});
    for (int i = 0; i < p.nrows; i++) {
        const struct pair_class *row = &p.rows[i];
        mt_table_row(t);
        for (int k = 0; k < 2; k++) mt_cell_text(t, "%s", any ? "any" : c->classes[row->class[k]].name);
        mt_cell_text(t, "%s", mt_cluster_link_name(c, row->link));
        mt_cell_int(t, row->npairs);
        mt_cell_positive(t, row->least_Bps);
        mt_cell_positive(t, row->most_Bps);
        mt_cell_real(t, row->least_s);
        mt_cell_real(t, row->most_s);
    }
}

void mt_cluster_add_pairs(const struct mt_cluster *c, struct mt_tables *out) {
    if (c->ndevices > MT_CLUSTER_SHOWN) {
        add_pair_classes(c, out);
        return;
    }
    if (is_symmetric(c)) {
        add_matrix(c, BANDWIDTH | LATENCY, out);
    } else {
        add_matrix(c, BANDWIDTH, out);
        add_matrix(c, LATENCY, out);
    }
    add_list(c, out);
}
