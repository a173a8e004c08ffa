/* The cluster in sentences and tables: its head, classes, links, groups, warnings. */
#include <math.h>
#include <string.h>

#include "profiler/cluster/print.h"

enum { GROUPS_SHOWN = 8, NODES_SHOWN = 6 };

static const char *marked(bool nominal) {
    return nominal ? "nominal" : "measured";
}

/* "8 h100": a node's devices, by runs of a class, from `device` on; returns the next node's first device. */
static int node_devices(const struct mt_cluster *c, int device, struct mt_arena *arena, const char **text) {
    int node = c->devices[device].node;
    for (*text = ""; device < c->ndevices && c->devices[device].node == node;) {
        int first = device, class = c->devices[first].class;
        while (device < c->ndevices && c->devices[device].node == node && c->devices[device].class == class) device++;
        *text =
            mt_arena_printf(arena, "%s%s%d %s", *text, **text ? " and " : "", device - first, c->classes[class].name);
    }
    return device;
}

/* ": 2 nodes of 8 h100, 1 node of 4 a10": how a line was understood. */
static void say_nodes(const struct mt_cluster *c, FILE *file) {
    struct mt_arena arena = MT_ARENA_INIT;
    const char *of, *next;
    int shown = 0;
    for (int d = 0; d < c->ndevices && shown < NODES_SHOWN; shown++) {
        int nodes = 1;
        d = node_devices(c, d, &arena, &of);
        for (int end; d < c->ndevices; d = end, nodes++) {
            end = node_devices(c, d, &arena, &next);
            if (strcmp(next, of)) break;
        }
        bool more = shown + 1 == NODES_SHOWN && d < c->ndevices;
        fprintf(file, "%s%d node%s of %s%s", shown ? ", " : ": ", nodes, nodes == 1 ? "" : "s", of,
                more ? ", ..." : "");
    }
    mt_arena_release(&arena);
}

static void say_head(const struct mt_cluster *c, FILE *file) {
    fprintf(file, "cluster      %s, %s, by %s\n", c->hash, c->source, c->made_by);
    if (c->description[0]) fprintf(file, "description  %s\n", c->description);
    fprintf(file, "             %d device%s of %d class%s on %d node%s", c->ndevices, c->ndevices == 1 ? "" : "s",
            c->nclasses, c->nclasses == 1 ? "" : "es", c->nnodes, c->nnodes == 1 ? "" : "s");
    if (strcmp(c->source, "measured") != 0) say_nodes(c, file);
    fprintf(file, "\n");
}

static void put_head(const struct mt_cluster *c, struct mt_tables *out) {
    struct mt_table *t = mt_tables_add_values(out, "cluster");
    mt_table_put_text(t, "hash", "%s", c->hash);
    mt_table_put_text(t, "source", "%s", c->source);
    mt_table_put_text(t, "made_by", "%s", c->made_by);
    mt_table_put_text(t, "description", "%s", c->description);
    mt_table_put_text(t, "kind", "%s", mt_cluster_kind(c));
    mt_table_put_text(t, "network", "%s", mt_cluster_link_name(c, c->network));
    mt_table_put_real(t, "devices", MT_UNIT_COUNT, c->ndevices);
    mt_table_put_real(t, "classes", MT_UNIT_COUNT, c->nclasses);
    mt_table_put_real(t, "nodes", MT_UNIT_COUNT, c->nnodes);
}

static void add_classes(const struct mt_cluster *c, struct mt_tables *out) {
    bool calibrated = false;
    for (int i = 0; i < c->nclasses; i++) calibrated |= c->classes[i].calibration != 1;
    struct mt_table *t = mt_tables_add(out, "classes", "classes", "GEMM rates by precision; of a device of speed 1");
    mt_table_columns(t, {"class", "class", MT_UNIT_TEXT}, {"kind", "kind", MT_UNIT_TEXT},
                     {"model", "model", MT_UNIT_TEXT},
                     {"threads", strcmp(mt_cluster_kind(c), "cuda") ? "threads" : "multiprocessors", MT_UNIT_COUNT});
    for (int type = 0; type < MT_I32; type++) {
        const char *name = mt_type_name((enum mt_type)type);
        mt_table_column(t, mt_arena_printf(&out->arena, "%s_flops", name), name, MT_UNIT_FLOPS);
    }
    mt_table_columns(t, {"memory_bytes", "memory", MT_UNIT_BYTES}, {"memory_Bps", "streaming", MT_UNIT_BPS},
                     {"memory_error", "+-", MT_UNIT_FRACTION}, {"overhead_s", "overhead", MT_UNIT_SECONDS},
                     {"curves", "curves", MT_UNIT_COUNT}, {"figures", "figures", MT_UNIT_TEXT});
    struct mt_column *calibration = mt_table_column(t, "calibration", "calibrated", MT_UNIT_RATIO);
    calibration->decimals = 3;
    calibration->machines_only = !calibrated;
    for (int i = 0; i < c->nclasses; i++) {
        const struct mt_cluster_class *class = &c->classes[i];
        mt_table_row(t);
        mt_cell_text(t, "%s", class->name);
        mt_cell_text(t, "%s", class->kind);
        mt_cell_text(t, "%s", class->model);
        mt_cell_positive(t, class->threads);
        for (int type = 0; type < MT_I32; type++) mt_cell_positive(t, class->flops[type]);
        mt_cell_positive(t, (double)class->memory_bytes);
        mt_cell_positive(t, class->memory_Bps);
        mt_cell_positive(t, class->memory_error);
        mt_cell_real(t, class->overhead_s);
        mt_cell_int(t, class->ncurves);
        mt_cell_text(t, "%s", marked(class->nominal));
        mt_cell_real(t, class->calibration == 1 ? NAN : class->calibration);
    }
}

void mt_cluster_tabulate_links(const struct mt_cluster *c, struct mt_table *t) {
    bool copies = false;
    for (int l = 0; l < c->nlinks; l++) copies |= c->links[l].copy_Bps > 0;
    mt_table_columns(t, {"link", "link", MT_UNIT_TEXT}, {"latency_s", "latency", MT_UNIT_SECONDS},
                     {"latency_error", "+-", MT_UNIT_FRACTION}, {"bandwidth_Bps", "bandwidth", MT_UNIT_BPS},
                     {"bandwidth_error", "+-", MT_UNIT_FRACTION}, {"shared_Bps", "shared", MT_UNIT_BPS},
                     {"compute_slowdown", "slows compute", MT_UNIT_FRACTION},
                     {"comm_slowdown", "slowed", MT_UNIT_FRACTION});
    mt_table_column(t, "copy_Bps", "copy engine", MT_UNIT_BPS)->machines_only = !copies;
    mt_table_column(t, "figures", "figures", MT_UNIT_TEXT);
    for (int l = 0; l < c->nlinks; l++) {
        const struct mt_cluster_link *link = &c->links[l];
        mt_table_row(t);
        mt_cell_text(t, "%s", link->name);
        mt_cell_real(t, link->latency_s);
        mt_cell_positive(t, link->latency_error);
        mt_cell_positive(t, link->bandwidth_Bps);
        mt_cell_positive(t, link->bandwidth_error);
        mt_cell_positive(t, link->shared_Bps);
        mt_cell_positive(t, link->compute_slowdown);
        mt_cell_positive(t, link->comm_slowdown);
        mt_cell_positive(t, link->copy_Bps);
        mt_cell_text(t, "%s", marked(link->nominal));
    }
}

bool mt_cluster_any_puts(const struct mt_cluster *c) {
    bool any = false;
    for (int l = 0; l < c->nlinks; l++) any |= mt_cluster_has_puts(&c->links[l]);
    return any;
}

void mt_cluster_tabulate_puts(const struct mt_cluster *c, struct mt_table *t) {
    mt_table_columns(t, {"link", "link", MT_UNIT_TEXT}, {"copy_Bps", "copy engine", MT_UNIT_BPS},
                     {"copy_s", "each copy", MT_UNIT_SECONDS}, {"blocks_Bps", "kernel", MT_UNIT_BPS},
                     {"signal_s", "signal", MT_UNIT_SECONDS}, {"compute_slowdown", "slows a GEMM", MT_UNIT_FRACTION},
                     {"put_slowdown", "slowed", MT_UNIT_FRACTION}, {"figures", "figures", MT_UNIT_TEXT});
    for (int l = 0; l < c->nlinks; l++) {
        const struct mt_cluster_link *link = &c->links[l];
        if (!mt_cluster_has_puts(link)) continue;
        mt_table_row(t);
        mt_cell_text(t, "%s", link->name);
        mt_cell_positive(t, link->copy_Bps);
        mt_cell_real(t, link->puts.copy_s);
        mt_cell_positive(t, link->puts.blocks_Bps);
        mt_cell_real(t, link->puts.signal_s);
        mt_cell_real(t, link->puts.compute_slowdown);
        mt_cell_real(t, link->puts.put_slowdown);
        mt_cell_text(t, "%s", marked(link->nominal));
    }
}

static void add_links(const struct mt_cluster *c, struct mt_tables *out) {
    if (c->nlinks) mt_cluster_tabulate_links(c, mt_tables_add(out, "links", "links", MT_CLUSTER_LINKS_NOTE));
    if (mt_cluster_any_puts(c)) mt_cluster_tabulate_puts(c, mt_tables_add(out, "puts", "puts", MT_CLUSTER_PUTS_NOTE));
}

static void add_fit(struct mt_table *t, const struct mt_coll_fit *fit) {
    double least = INFINITY, most = 0; /* of the fit's ratios */
    for (int p = 0; p < fit->npoints; p++) least = fmin(least, fit->ratio[p]), most = fmax(most, fit->ratio[p]);
    mt_cell_text(t, "%s", mt_coll_name(fit->kind));
    mt_cell_text(t, "%s", fit->algorithm);
    mt_cell_text(t, "%s", mt_type_name(fit->wire));
    mt_cell_real(t, fit->latency_s);
    mt_cell_positive(t, fit->bandwidth_Bps);
    mt_cell_positive(t, fit->error);
    mt_cell_real(t, least);
    mt_cell_positive(t, most);
}

static void add_groups(const struct mt_cluster *c, struct mt_tables *out) {
    if (!c->ngroups) return;
    struct mt_table *t = mt_tables_add(out, "groups", "groups, and their collectives as fitted", "");
    mt_table_column(t, "group", "group", MT_UNIT_TEXT)->once = true;
    mt_table_column(t, "devices", "devices", MT_UNIT_COUNT)->once = true;
    mt_table_column(t, "link", "link", MT_UNIT_TEXT)->once = true;
    mt_table_columns(t, {"collective", "collective", MT_UNIT_TEXT}, {"algorithm", "algorithm", MT_UNIT_TEXT},
                     {"wire", "wire", MT_UNIT_TEXT}, {"latency_s", "latency", MT_UNIT_SECONDS},
                     {"bandwidth_Bps", "bandwidth", MT_UNIT_BPS}, {"error", "+-", MT_UNIT_FRACTION},
                     {"least_ratio", "by size from", MT_UNIT_RATIO}, {"most_ratio", "to", MT_UNIT_RATIO});
    for (int g = 0; g < c->ngroups; g++) {
        const struct mt_cluster_group *group = &c->groups[g];
        if (g == GROUPS_SHOWN) t->shown = t->nrows;
        for (int f = 0; f < group->nfits || f == 0; f++) {
            mt_table_row(t);
            mt_cell_text(t, "%s", group->name);
            mt_cell_int(t, group->ndevices);
            mt_cell_text(t, "%s", mt_cluster_link_name(c, group->link));
            if (group->nfits) add_fit(t, &group->fits[f]);
        }
    }
    if (c->ngroups > GROUPS_SHOWN) mt_tables_say(out, "  and %d more groups", c->ngroups - GROUPS_SHOWN);
}

static void add_warnings(const struct mt_cluster *c, struct mt_tables *out) {
    if (!c->nwarnings) return;
    struct mt_table *t = mt_tables_add(out, "warnings", "warnings of the profiler", "");
    t->bare = true;
    mt_table_column(t, "warning", "warning", MT_UNIT_TEXT);
    for (int i = 0; i < c->nwarnings; i++) {
        mt_table_row(t);
        mt_cell_text(t, "%s", c->warnings[i]);
        mt_cell_style(t, MT_STYLE_WARNING);
    }
}

void mt_cluster_tables(const struct mt_cluster *cluster, struct mt_tables *out) {
    say_head(cluster, mt_tables_say_begin(out));
    mt_tables_say_end(out);
    put_head(cluster, out);
    mt_cluster_add_nodes(cluster, out);
    mt_cluster_add_devices(cluster, out);
    mt_cluster_add_gpus(cluster, out);
    add_classes(cluster, out);
    add_links(cluster, out);
    if (cluster->ndevices > 1) mt_cluster_add_pairs(cluster, out);
    add_groups(cluster, out);
    add_warnings(cluster, out);
}
