/* The cluster as tables: nodes, devices, classes, links, pairs and groups. */
#include <math.h>
#include <string.h>

#include "kernels/base/text/table.h"
#include "kernels/base/text/units.h"
#include "profiler/cluster/cluster.h"

enum { MATRIX_MOST = 16, CLASSES_MOST = 32, GROUPS_SHOWN = 8 };

static const char *marked(bool nominal) {
    return nominal ? "nominal" : "measured";
}

/* "5.00 GB/s", "100 Gflop/s"; "-" for a missing figure. */
static void cell_rate(struct mt_table *table, double value, const char *unit) {
    char text[MT_UNITS_TEXT];
    if (value > 0)
        mt_table_cell(table, "%s%s%s", mt_units_count(value, text), value < 999.5 ? " " : "", unit);
    else
        mt_table_cell(table, "-");
}

static void cell_bytes(struct mt_table *table, int64_t bytes) {
    char text[MT_UNITS_TEXT];
    mt_table_cell(table, "%s", bytes ? mt_units_bytes((double)bytes, text) : "-");
}

static void cell_part(struct mt_table *table, double part) {
    if (part > 0)
        mt_table_cell(table, "%.1f%%", 100 * part);
    else
        mt_table_cell(table, "-");
}

static const char *link_name(const struct mt_cluster *c, int link) {
    return link < 0 ? "-" : c->links[link].name;
}

static void print_head(const struct mt_cluster *c, FILE *file) {
    fprintf(file, "cluster      %s, %s, by %s\n", c->hash, c->source, c->made_by);
    if (c->description[0]) fprintf(file, "description  %s\n", c->description);
    fprintf(file, "             %d device%s of %d class%s on %d node%s\n", c->ndevices, c->ndevices == 1 ? "" : "s",
            c->nclasses, c->nclasses == 1 ? "" : "es", c->nnodes, c->nnodes == 1 ? "" : "s");
}

static void print_nodes(const struct mt_cluster *c, FILE *file) {
    struct mt_table table = MT_TABLE_INIT;
    bool driver = false, nics = false, rates = false;
    for (int n = 0; n < c->nnodes; n++) {
        driver |= c->nodes[n].driver != NULL, nics |= c->nodes[n].nics != NULL;
        rates |= c->nodes[n].egress_Bps > 0 || c->nodes[n].ingress_Bps > 0;
    }
    mt_table_header(&table, "node", ">devices", ">cores", ">memory", "inside", NULL);
    if (rates) mt_table_header(&table, ">egress", ">ingress", NULL);
    if (driver) mt_table_column(&table, "driver");
    if (nics) mt_table_column(&table, "network devices");
    int *devices = mt_new(&table.arena, int, c->nnodes);
    for (int d = 0; d < c->ndevices; d++) devices[c->devices[d].node]++;
    for (int n = 0; n < c->nnodes; n++) {
        const struct mt_cluster_node *node = &c->nodes[n];
        mt_table_row(&table);
        mt_table_cell(&table, "%s", node->name);
        mt_table_cell(&table, "%d", devices[n]);
        mt_table_cell(&table, node->cores ? "%d" : "-", node->cores);
        cell_bytes(&table, node->memory_bytes);
        mt_table_cell(&table, "%s", link_name(c, node->inside));
        if (rates) cell_rate(&table, node->egress_Bps, "B/s"), cell_rate(&table, node->ingress_Bps, "B/s");
        if (driver) mt_table_cell(&table, "%s", node->driver ? node->driver : "-");
        if (nics) mt_table_cell(&table, "%s", node->nics ? node->nics : "-");
    }
    fprintf(file, "\nnodes (network: %s%s%s)\n", link_name(c, c->network), c->nccl ? "; NCCL " : "",
            c->nccl ? c->nccl : "");
    mt_table_print(&table, 2, file);
}

static void print_devices(const struct mt_cluster *c, FILE *file) {
    struct mt_table table = MT_TABLE_INIT;
    bool emulated = false, masks = false, gpus = !strcmp(mt_cluster_kind(c), "cuda");
    for (int d = 0; d < c->ndevices; d++) emulated |= c->devices[d].emulated != 1, masks |= c->devices[d].mask[0] != 0;
    mt_table_header(&table, ">rank", "node", "class", ">speed", ">+-", NULL);
    if (emulated) mt_table_column(&table, ">emulated");
    if (!gpus) mt_table_column(&table, ">stolen");
    mt_table_column(&table, ">memory");
    if (masks) mt_table_column(&table, "cores");
    for (int d = 0; d < c->ndevices; d++) {
        const struct mt_cluster_device *device = &c->devices[d];
        mt_table_row(&table);
        mt_table_cell(&table, "%d", d);
        mt_table_cell(&table, "%s", c->nodes[device->node].name);
        mt_table_cell(&table, "%s", c->classes[device->class].name);
        mt_table_cell(&table, "%.3f", device->speed);
        cell_part(&table, device->speed_error);
        if (emulated) mt_table_cell(&table, device->emulated == 1 ? "-" : "%g", device->emulated);
        if (!gpus) cell_part(&table, device->stolen);
        cell_bytes(&table, device->memory_bytes);
        if (masks) mt_table_cell(&table, "%s", device->mask);
    }
    fprintf(file, "\ndevices (speed is relative to the class)\n");
    mt_table_print(&table, 2, file);
}

static void print_classes(const struct mt_cluster *c, FILE *file) {
    struct mt_table table = MT_TABLE_INIT;
    char text[MT_UNITS_TEXT];
    bool calibrated = false;
    for (int i = 0; i < c->nclasses; i++) calibrated |= c->classes[i].calibration != 1;
    mt_table_header(&table, "class", "kind", "model",
                    strcmp(mt_cluster_kind(c), "cuda") ? ">threads" : ">multiprocessors", NULL);
    for (int t = 0; t < MT_I32; t++)
        mt_table_column(&table, mt_arena_printf(&table.arena, ">%s", mt_type_name((enum mt_type)t)));
    mt_table_header(&table, ">memory", ">streaming", ">+-", ">overhead", ">curves", "figures", NULL);
    if (calibrated) mt_table_column(&table, ">calibrated");
    for (int i = 0; i < c->nclasses; i++) {
        const struct mt_cluster_class *class = &c->classes[i];
        mt_table_row(&table);
        mt_table_cell(&table, "%s", class->name);
        mt_table_cell(&table, "%s", class->kind);
        mt_table_cell(&table, "%s", class->model);
        mt_table_cell(&table, class->threads ? "%d" : "-", class->threads);
        for (int t = 0; t < MT_I32; t++) cell_rate(&table, class->flops[t], "flop/s");
        cell_bytes(&table, class->memory_bytes);
        cell_rate(&table, class->memory_Bps, "B/s");
        cell_part(&table, class->memory_error);
        mt_table_cell(&table, "%s", mt_units_seconds(class->overhead_s, text));
        mt_table_cell(&table, "%d", class->ncurves);
        mt_table_cell(&table, "%s", marked(class->nominal));
        if (calibrated) mt_table_cell(&table, class->calibration == 1 ? "-" : "x %.3f", class->calibration);
    }
    fprintf(file, "\nclasses (GEMM rates by precision; of a device of speed 1)\n");
    mt_table_print(&table, 2, file);
}

static void print_links(const struct mt_cluster *c, FILE *file) {
    struct mt_table table = MT_TABLE_INIT;
    char text[MT_UNITS_TEXT];
    if (!c->nlinks) return;
    bool copies = false;
    for (int l = 0; l < c->nlinks; l++) copies |= c->links[l].copy_Bps > 0;
    mt_table_header(&table, "link", ">latency", ">+-", ">bandwidth", ">+-", ">shared", ">slows compute", ">slowed",
                    NULL);
    if (copies) mt_table_column(&table, ">copy engine");
    mt_table_column(&table, "figures");
    for (int l = 0; l < c->nlinks; l++) {
        const struct mt_cluster_link *link = &c->links[l];
        mt_table_row(&table);
        mt_table_cell(&table, "%s", link->name);
        mt_table_cell(&table, "%s", mt_units_seconds(link->latency_s, text));
        cell_part(&table, link->latency_error);
        cell_rate(&table, link->bandwidth_Bps, "B/s");
        cell_part(&table, link->bandwidth_error);
        cell_rate(&table, link->shared_Bps, "B/s");
        cell_part(&table, link->compute_slowdown);
        cell_part(&table, link->comm_slowdown);
        if (copies) cell_rate(&table, link->copy_Bps, "B/s");
        mt_table_cell(&table, "%s", marked(link->nominal));
    }
    fprintf(file, "\nlinks (of one pair, one way; shared: of a node, all its pairs together; slows computing, and is "
                  "slowed by it, while both run)\n");
    mt_table_print(&table, 2, file);
}

/* Do all pairs have the same bandwidth in both directions? */
static bool is_symmetric(const struct mt_cluster *c) {
    for (int a = 0; a < c->ndevices; a++)
        for (int b = a + 1; b < c->ndevices; b++)
            if (mt_cluster_path(c, a, b).bandwidth_Bps != mt_cluster_path(c, b, a).bandwidth_Bps) return false;
    return true;
}

enum matrix { BANDWIDTH = 1, LATENCY = 2 };

/* The bandwidth from each rank to each, their latency, or both: bandwidth above the diagonal, latency below. */
static void print_matrix(const struct mt_cluster *c, enum matrix what, FILE *file) {
    struct mt_table table = MT_TABLE_INIT;
    char text[MT_UNITS_TEXT];
    mt_table_column(&table, what == BANDWIDTH ? ">from" : ">rank");
    for (int d = 0; d < c->ndevices; d++)
        mt_table_column(&table, mt_arena_printf(&table.arena, what == BANDWIDTH ? ">to %d" : ">%d", d));
    for (int a = 0; a < c->ndevices; a++) {
        mt_table_row(&table);
        mt_table_cell(&table, "%d", a);
        for (int b = 0; b < c->ndevices; b++) {
            struct mt_path path = mt_cluster_path(c, a, b);
            if (a == b)
                mt_table_cell(&table, ".");
            else if (what == BANDWIDTH || (what != LATENCY && a < b))
                cell_rate(&table, path.bandwidth_Bps, "B/s");
            else
                mt_table_cell(&table, "%s", mt_units_seconds(path.latency_s, text));
        }
    }
    static const char *const titles[] = {[BANDWIDTH] = "bandwidth from the rank of the row to that of the column",
                                         [LATENCY] = "latency, half a round trip",
                                         [BANDWIDTH | LATENCY] = "bandwidth above the diagonal, latency below"};
    fprintf(file, "\npairs (%s; %d of %d measured)\n", titles[what], c->npairs, c->ndevices * (c->ndevices - 1) / 2);
    mt_table_print(&table, 2, file);
}

static void print_matrices(const struct mt_cluster *c, FILE *file) {
    if (is_symmetric(c)) {
        print_matrix(c, BANDWIDTH | LATENCY, file);
    } else {
        print_matrix(c, BANDWIDTH, file);
        print_matrix(c, LATENCY, file);
    }
}

/* Pairs of two classes over one link; with many classes, of all classes together (class -1). */
struct pair_class {
    int class[2], link;
    int64_t npairs;
    double least_Bps, most_Bps, least_s, most_s;
};

static void count_pair(struct pair_class *row, struct mt_path path) {
    row->npairs++;
    row->least_Bps = fmin(row->least_Bps, path.bandwidth_Bps);
    row->most_Bps = fmax(row->most_Bps, path.bandwidth_Bps);
    row->least_s = fmin(row->least_s, path.latency_s);
    row->most_s = fmax(row->most_s, path.latency_s);
}

static struct pair_class *pair_classes(const struct mt_cluster *c, struct mt_arena *arena, int *count) {
    struct pair_class *rows = NULL;
    int n = 0, capacity = 0, last = 0;
    for (int a = 0; a < c->ndevices; a++)
        for (int b = a + 1; b < c->ndevices; b++) {
            struct mt_path path = mt_cluster_path(c, a, b);
            bool any = c->nclasses > CLASSES_MOST;
            int x = any ? -1 : c->devices[a].class, y = any ? -1 : c->devices[b].class;
            struct pair_class key = {{x < y ? x : y, x < y ? y : x}, path.link, 0, INFINITY, 0, INFINITY, 0};
            size_t same = sizeof key.class + sizeof key.link;
            int row = n && !memcmp(&rows[last], &key, same) ? last : 0;
            while (row < n && memcmp(&rows[row], &key, same)) row++;
            if (row == n) {
                mt_arena_grow(arena, &rows, n, &capacity, sizeof *rows);
                rows[n++] = key;
            }
            count_pair(&rows[last = row], path);
            double reverse_Bps = mt_cluster_path(c, b, a).bandwidth_Bps;
            rows[row].least_Bps = fmin(rows[row].least_Bps, reverse_Bps);
            rows[row].most_Bps = fmax(rows[row].most_Bps, reverse_Bps);
        }
    *count = n;
    return rows;
}

static void print_pair_classes(const struct mt_cluster *c, FILE *file) {
    struct mt_table table = MT_TABLE_INIT;
    char text[MT_UNITS_TEXT];
    int n;
    struct pair_class *rows = pair_classes(c, &table.arena, &n);
    mt_table_header(&table, "class", "class", "link", ">pairs", ">bandwidth from", ">to", ">latency from", ">to", NULL);
    for (int i = 0; i < n; i++) {
        mt_table_row(&table);
        for (int k = 0; k < 2; k++)
            mt_table_cell(&table, "%s", rows[i].class[k] < 0 ? "any" : c->classes[rows[i].class[k]].name);
        mt_table_cell(&table, "%s", link_name(c, rows[i].link));
        mt_table_cell(&table, "%lld", (long long)rows[i].npairs);
        cell_rate(&table, rows[i].least_Bps, "B/s");
        cell_rate(&table, rows[i].most_Bps, "B/s");
        mt_table_cell(&table, "%s", mt_units_seconds(rows[i].least_s, text));
        mt_table_cell(&table, "%s", mt_units_seconds(rows[i].most_s, text));
    }
    fprintf(file, "\npairs, by class (%d of %d measured)\n", c->npairs, c->ndevices * (c->ndevices - 1) / 2);
    mt_table_print(&table, 2, file);
}

/* The range of the fit's ratios. */
static void cell_ratios(struct mt_table *table, const struct mt_coll_fit *fit) {
    double least = INFINITY, most = 0;
    for (int p = 0; p < fit->npoints; p++) least = fmin(least, fit->ratio[p]), most = fmax(most, fit->ratio[p]);
    if (fit->npoints)
        mt_table_cell(table, "x %.2f to %.2f", least, most);
    else
        mt_table_cell(table, "-");
}

static void print_groups(const struct mt_cluster *c, FILE *file) {
    struct mt_table table = MT_TABLE_INIT;
    char text[MT_UNITS_TEXT];
    if (!c->ngroups) return;
    mt_table_header(&table, "group", ">devices", "link", "collective", "algorithm", "wire", ">latency", ">bandwidth",
                    ">+-", "by size", NULL);
    for (int g = 0; g < c->ngroups && g < GROUPS_SHOWN; g++) {
        const struct mt_cluster_group *group = &c->groups[g];
        for (int f = 0; f < group->nfits || f == 0; f++) {
            mt_table_row(&table);
            mt_table_cell(&table, "%s", f ? "" : group->name);
            mt_table_cell(&table, f ? "" : "%d", group->ndevices);
            mt_table_cell(&table, "%s", f ? "" : link_name(c, group->link));
            if (!group->nfits) break;
            const struct mt_coll_fit *fit = &group->fits[f];
            mt_table_cell(&table, "%s", mt_coll_name(fit->kind));
            mt_table_cell(&table, "%s", fit->algorithm);
            mt_table_cell(&table, "%s", mt_type_name(fit->wire));
            mt_table_cell(&table, "%s", mt_units_seconds(fit->latency_s, text));
            cell_rate(&table, fit->bandwidth_Bps, "B/s");
            cell_part(&table, fit->error);
            cell_ratios(&table, fit);
        }
    }
    fprintf(file, "\ngroups, and their collectives as fitted\n");
    mt_table_print(&table, 2, file);
    if (c->ngroups > GROUPS_SHOWN) fprintf(file, "  and %d more groups\n", c->ngroups - GROUPS_SHOWN);
}

static void print_warnings(const struct mt_cluster *c, FILE *file) {
    struct mt_table table = MT_TABLE_INIT;
    if (!c->nwarnings) return;
    for (int i = 0; i < c->nwarnings; i++) {
        mt_table_row(&table);
        mt_table_cell(&table, "%s", c->warnings[i]);
    }
    fprintf(file, "\nwarnings of the profiler\n");
    mt_table_print(&table, 2, file);
}

void mt_cluster_print(const struct mt_cluster *cluster, FILE *file) {
    print_head(cluster, file);
    print_nodes(cluster, file);
    print_devices(cluster, file);
    mt_cluster_print_gpus(cluster, file);
    print_classes(cluster, file);
    print_links(cluster, file);
    if (cluster->ndevices > MATRIX_MOST)
        print_pair_classes(cluster, file);
    else if (cluster->ndevices > 1)
        print_matrices(cluster, file);
    print_groups(cluster, file);
    print_warnings(cluster, file);
}
