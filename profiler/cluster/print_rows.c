/* Nodes and devices as tables, and the cells that all tables share. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/units.h"
#include "profiler/cluster/print.h"

void mt_cluster_cell_rate(struct mt_plain_table *table, double value, const char *unit) {
    char text[MT_UNITS_TEXT];
    if (value > 0)
        mt_plain_table_cell(table, "%s%s%s", mt_units_count(value, text), value < 999.5 ? " " : "", unit);
    else
        mt_plain_table_cell(table, "-");
}

void mt_cluster_cell_bytes(struct mt_plain_table *table, int64_t bytes) {
    char text[MT_UNITS_TEXT];
    mt_plain_table_cell(table, "%s", bytes ? mt_units_bytes((double)bytes, text) : "-");
}

void mt_cluster_cell_part(struct mt_plain_table *table, double part) {
    if (part > 0)
        mt_plain_table_cell(table, "%.1f%%", 100 * part);
    else
        mt_plain_table_cell(table, "-");
}

const char *mt_cluster_link_name(const struct mt_cluster *c, int link) {
    return link < 0 ? "-" : c->links[link].name;
}

/* ---- folding ---- */

/* Equal rows: their number, and the first and the last. */
struct fold {
    int first, last, count;
};

struct folding {
    const struct mt_cluster *cluster;
    const int *devices;                                          /* of each node */
    int (*compare)(const struct folding *folding, int a, int b); /* 0: equal in all that is printed */
};

static int by_row(const void *left, const void *right, void *context) {
    const struct folding *folding = context;
    int a = *(const int *)left, b = *(const int *)right;
    int order = folding->compare(folding, a, b);
    return order ? order : (a > b) - (a < b);
}

static int by_first(const void *left, const void *right) {
    const struct fold *a = left, *b = right;
    return (a->first > b->first) - (a->first < b->first);
}

/* In order of first rows; up to MT_CLUSTER_SHOWN rows are not folded. In the arena. */
static int fold_rows(struct folding folding, int n, struct mt_arena *arena, struct fold **folds) {
    int *rows = mt_new(arena, int, n), count = 0;
    *folds = mt_new(arena, struct fold, n);
    for (int i = 0; i < n; i++) rows[i] = i;
    bool folded = n > MT_CLUSTER_SHOWN;
    if (folded) qsort_r(rows, (size_t)n, sizeof *rows, by_row, &folding);
    for (int i = 0; i < n; i++) {
        if (!folded || !i || folding.compare(&folding, rows[i - 1], rows[i]))
            (*folds)[count++] = (struct fold){.first = rows[i]};
        (*folds)[count - 1].last = rows[i];
        (*folds)[count - 1].count++;
    }
    if (count) qsort(*folds, (size_t)count, sizeof **folds, by_first);
    return count;
}

static int real_order(double a, double b) {
    return (a > b) - (a < b);
}

/* Of texts that may be null. */
static int text_order(const char *a, const char *b) {
    return strcmp(a ? a : "", b ? b : "");
}

/* "a", "a to d" of consecutive rows, "a .. d" of others. */
static void cell_names(struct mt_plain_table *table, struct fold fold, const char *first, const char *last) {
    bool consecutive = fold.last - fold.first + 1 == fold.count;
    if (fold.count == 1)
        mt_plain_table_cell(table, "%s", first);
    else
        mt_plain_table_cell(table, "%s %s %s", first, consecutive ? "to" : "..", last);
}

/* ---- nodes ---- */

static int *devices_of_nodes(const struct mt_cluster *c, struct mt_arena *arena) {
    int *devices = mt_new(arena, int, c->nnodes);
    for (int d = 0; d < c->ndevices; d++) devices[c->devices[d].node]++;
    return devices;
}

static int node_order(const struct folding *f, int a, int b) {
    const struct mt_cluster_node *l = &f->cluster->nodes[a], *r = &f->cluster->nodes[b];
    int order = l->inside - r->inside;
    if (!order) order = f->devices[a] - f->devices[b];
    if (!order) order = l->cores - r->cores;
    if (!order) order = (l->memory_bytes > r->memory_bytes) - (l->memory_bytes < r->memory_bytes);
    if (!order) order = real_order(l->egress_Bps, r->egress_Bps);
    if (!order) order = real_order(l->ingress_Bps, r->ingress_Bps);
    if (!order) order = text_order(l->driver, r->driver);
    return order ? order : text_order(l->nics, r->nics);
}

void mt_cluster_print_nodes(const struct mt_cluster *c, FILE *file) {
    struct mt_plain_table table = MT_PLAIN_TABLE_INIT;
    bool driver = false, nics = false, rates = false;
    for (int n = 0; n < c->nnodes; n++) {
        driver |= c->nodes[n].driver != NULL, nics |= c->nodes[n].nics != NULL;
        rates |= c->nodes[n].egress_Bps > 0 || c->nodes[n].ingress_Bps > 0;
    }
    struct fold *folds;
    int *devices = devices_of_nodes(c, &table.arena);
    int nfolds = fold_rows((struct folding){c, devices, node_order}, c->nnodes, &table.arena, &folds);
    bool folded = nfolds < c->nnodes;
    mt_plain_table_header(&table, "node", ">devices", ">cores", ">memory", "inside", NULL);
    if (rates) mt_plain_table_header(&table, ">egress", ">ingress", NULL);
    if (driver) mt_plain_table_column(&table, "driver");
    if (nics) mt_plain_table_column(&table, "network devices");
    if (folded) mt_plain_table_column(&table, ">nodes");
    for (int i = 0; i < nfolds; i++) {
        const struct mt_cluster_node *node = &c->nodes[folds[i].first];
        mt_plain_table_row(&table);
        cell_names(&table, folds[i], node->name, c->nodes[folds[i].last].name);
        mt_plain_table_cell(&table, "%d", devices[folds[i].first]);
        mt_plain_table_cell(&table, node->cores ? "%d" : "-", node->cores);
        mt_cluster_cell_bytes(&table, node->memory_bytes);
        mt_plain_table_cell(&table, "%s", mt_cluster_link_name(c, node->inside));
        if (rates) mt_cluster_cell_rate(&table, node->egress_Bps, "B/s");
        if (rates) mt_cluster_cell_rate(&table, node->ingress_Bps, "B/s");
        if (driver) mt_plain_table_cell(&table, "%s", node->driver ? node->driver : "-");
        if (nics) mt_plain_table_cell(&table, "%s", node->nics ? node->nics : "-");
        if (folded) mt_plain_table_cell(&table, "%d", folds[i].count);
    }
    fprintf(file, "\nnodes (network: %s%s%s)\n", mt_cluster_link_name(c, c->network), c->nccl ? "; NCCL " : "",
            c->nccl ? c->nccl : "");
    mt_plain_table_print(&table, 2, file);
}

/* ---- devices ---- */

static int device_order(const struct folding *f, int a, int b) {
    const struct mt_cluster_device *l = &f->cluster->devices[a], *r = &f->cluster->devices[b];
    int order = l->class - r->class;
    if (!order) order = real_order(l->speed, r->speed);
    if (!order) order = real_order(l->speed_error, r->speed_error);
    if (!order) order = real_order(l->emulated, r->emulated);
    if (!order) order = real_order(l->stolen, r->stolen);
    return order ? order : (l->memory_bytes > r->memory_bytes) - (l->memory_bytes < r->memory_bytes);
}

void mt_cluster_print_devices(const struct mt_cluster *c, FILE *file) {
    struct mt_plain_table table = MT_PLAIN_TABLE_INIT;
    bool emulated = false, masks = false, gpus = !strcmp(mt_cluster_kind(c), "cuda");
    for (int d = 0; d < c->ndevices; d++) emulated |= c->devices[d].emulated != 1, masks |= c->devices[d].mask[0] != 0;
    struct fold *folds;
    int nfolds = fold_rows((struct folding){c, NULL, device_order}, c->ndevices, &table.arena, &folds);
    const struct fold alone = {0, 0, 1};
    bool folded = nfolds < c->ndevices;
    mt_plain_table_header(&table, folded ? "rank" : ">rank", "node", "class", ">speed", ">+-", NULL);
    if (emulated) mt_plain_table_column(&table, ">emulated");
    if (!gpus) mt_plain_table_column(&table, ">stolen");
    mt_plain_table_column(&table, ">memory");
    if (folded) mt_plain_table_column(&table, ">devices");
    if (masks) mt_plain_table_column(&table, "cores");
    for (int i = 0; i < nfolds; i++) {
        const struct mt_cluster_device *device = &c->devices[folds[i].first], *last = &c->devices[folds[i].last];
        mt_plain_table_row(&table);
        cell_names(&table, folds[i], mt_arena_printf(&table.arena, "%d", folds[i].first),
                   mt_arena_printf(&table.arena, "%d", folds[i].last));
        cell_names(&table, device->node == last->node ? alone : folds[i], c->nodes[device->node].name,
                   c->nodes[last->node].name);
        mt_plain_table_cell(&table, "%s", c->classes[device->class].name);
        mt_plain_table_cell(&table, "%.3f", device->speed);
        mt_cluster_cell_part(&table, device->speed_error);
        if (emulated) mt_plain_table_cell(&table, device->emulated == 1 ? "-" : "%g", device->emulated);
        if (!gpus) mt_cluster_cell_part(&table, device->stolen);
        mt_cluster_cell_bytes(&table, device->memory_bytes);
        if (folded) mt_plain_table_cell(&table, "%d", folds[i].count);
        if (masks) mt_plain_table_cell(&table, "%s", folds[i].count > 1 ? "" : device->mask);
    }
    fprintf(file, "\ndevices (speed is relative to the class)\n");
    mt_plain_table_print(&table, 2, file);
}
