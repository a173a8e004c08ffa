/* The cluster as tables. */
#include <math.h>
#include <string.h>

#include "kernels/base/text/plain_table.h"
#include "kernels/base/text/units.h"
#include "profiler/cluster/print.h"

enum { GROUPS_SHOWN = 8 };

static const char *marked(bool nominal) {
    return nominal ? "nominal" : "measured";
}

static void print_head(const struct mt_cluster *c, FILE *file) {
    fprintf(file, "cluster      %s, %s, by %s\n", c->hash, c->source, c->made_by);
    if (c->description[0]) fprintf(file, "description  %s\n", c->description);
    fprintf(file, "             %d device%s of %d class%s on %d node%s\n", c->ndevices, c->ndevices == 1 ? "" : "s",
            c->nclasses, c->nclasses == 1 ? "" : "es", c->nnodes, c->nnodes == 1 ? "" : "s");
}

static void print_classes(const struct mt_cluster *c, FILE *file) {
    struct mt_plain_table table = MT_PLAIN_TABLE_INIT;
    char text[MT_UNITS_TEXT];
    bool calibrated = false;
    for (int i = 0; i < c->nclasses; i++) calibrated |= c->classes[i].calibration != 1;
    mt_plain_table_header(&table, "class", "kind", "model",
                    strcmp(mt_cluster_kind(c), "cuda") ? ">threads" : ">multiprocessors", NULL);
    for (int t = 0; t < MT_I32; t++)
        mt_plain_table_column(&table, mt_arena_printf(&table.arena, ">%s", mt_type_name((enum mt_type)t)));
    mt_plain_table_header(&table, ">memory", ">streaming", ">+-", ">overhead", ">curves", "figures", NULL);
    if (calibrated) mt_plain_table_column(&table, ">calibrated");
    for (int i = 0; i < c->nclasses; i++) {
        const struct mt_cluster_class *class = &c->classes[i];
        mt_plain_table_row(&table);
        mt_plain_table_cell(&table, "%s", class->name);
        mt_plain_table_cell(&table, "%s", class->kind);
        mt_plain_table_cell(&table, "%s", class->model);
        mt_plain_table_cell(&table, class->threads ? "%d" : "-", class->threads);
        for (int t = 0; t < MT_I32; t++) mt_cluster_cell_rate(&table, class->flops[t], "flop/s");
        mt_cluster_cell_bytes(&table, class->memory_bytes);
        mt_cluster_cell_rate(&table, class->memory_Bps, "B/s");
        mt_cluster_cell_part(&table, class->memory_error);
        mt_plain_table_cell(&table, "%s", mt_units_seconds(class->overhead_s, text));
        mt_plain_table_cell(&table, "%d", class->ncurves);
        mt_plain_table_cell(&table, "%s", marked(class->nominal));
        if (calibrated) mt_plain_table_cell(&table, class->calibration == 1 ? "-" : "x %.3f", class->calibration);
    }
    fprintf(file, "\nclasses (GEMM rates by precision; of a device of speed 1)\n");
    mt_plain_table_print(&table, 2, file);
}

static void print_links(const struct mt_cluster *c, FILE *file) {
    struct mt_plain_table table = MT_PLAIN_TABLE_INIT;
    char text[MT_UNITS_TEXT];
    if (!c->nlinks) return;
    bool copies = false;
    for (int l = 0; l < c->nlinks; l++) copies |= c->links[l].copy_Bps > 0;
    mt_plain_table_header(&table, "link", ">latency", ">+-", ">bandwidth", ">+-", ">shared", ">slows compute", ">slowed",
                    NULL);
    if (copies) mt_plain_table_column(&table, ">copy engine");
    mt_plain_table_column(&table, "figures");
    for (int l = 0; l < c->nlinks; l++) {
        const struct mt_cluster_link *link = &c->links[l];
        mt_plain_table_row(&table);
        mt_plain_table_cell(&table, "%s", link->name);
        mt_plain_table_cell(&table, "%s", mt_units_seconds(link->latency_s, text));
        mt_cluster_cell_part(&table, link->latency_error);
        mt_cluster_cell_rate(&table, link->bandwidth_Bps, "B/s");
        mt_cluster_cell_part(&table, link->bandwidth_error);
        mt_cluster_cell_rate(&table, link->shared_Bps, "B/s");
        mt_cluster_cell_part(&table, link->compute_slowdown);
        mt_cluster_cell_part(&table, link->comm_slowdown);
        if (copies) mt_cluster_cell_rate(&table, link->copy_Bps, "B/s");
        mt_plain_table_cell(&table, "%s", marked(link->nominal));
    }
    fprintf(file, "\nlinks (of one pair, one way; shared: of a node, all its pairs together; slows computing, and is "
                  "slowed by it, while both run)\n");
    mt_plain_table_print(&table, 2, file);
}

/* The range of the fit's ratios. */
static void cell_ratios(struct mt_plain_table *table, const struct mt_coll_fit *fit) {
    double least = INFINITY, most = 0;
    for (int p = 0; p < fit->npoints; p++) least = fmin(least, fit->ratio[p]), most = fmax(most, fit->ratio[p]);
    if (fit->npoints)
        mt_plain_table_cell(table, "x %.2f to %.2f", least, most);
    else
        mt_plain_table_cell(table, "-");
}

static void print_groups(const struct mt_cluster *c, FILE *file) {
    struct mt_plain_table table = MT_PLAIN_TABLE_INIT;
    char text[MT_UNITS_TEXT];
    if (!c->ngroups) return;
    mt_plain_table_header(&table, "group", ">devices", "link", "collective", "algorithm", "wire", ">latency", ">bandwidth",
                    ">+-", "by size", NULL);
    for (int g = 0; g < c->ngroups && g < GROUPS_SHOWN; g++) {
        const struct mt_cluster_group *group = &c->groups[g];
        for (int f = 0; f < group->nfits || f == 0; f++) {
            mt_plain_table_row(&table);
            mt_plain_table_cell(&table, "%s", f ? "" : group->name);
            mt_plain_table_cell(&table, f ? "" : "%d", group->ndevices);
            mt_plain_table_cell(&table, "%s", f ? "" : mt_cluster_link_name(c, group->link));
            if (!group->nfits) break;
            const struct mt_coll_fit *fit = &group->fits[f];
            mt_plain_table_cell(&table, "%s", mt_coll_name(fit->kind));
            mt_plain_table_cell(&table, "%s", fit->algorithm);
            mt_plain_table_cell(&table, "%s", mt_type_name(fit->wire));
            mt_plain_table_cell(&table, "%s", mt_units_seconds(fit->latency_s, text));
            mt_cluster_cell_rate(&table, fit->bandwidth_Bps, "B/s");
            mt_cluster_cell_part(&table, fit->error);
            cell_ratios(&table, fit);
        }
    }
    fprintf(file, "\ngroups, and their collectives as fitted\n");
    mt_plain_table_print(&table, 2, file);
    if (c->ngroups > GROUPS_SHOWN) fprintf(file, "  and %d more groups\n", c->ngroups - GROUPS_SHOWN);
}

static void print_warnings(const struct mt_cluster *c, FILE *file) {
    struct mt_plain_table table = MT_PLAIN_TABLE_INIT;
    if (!c->nwarnings) return;
    for (int i = 0; i < c->nwarnings; i++) {
        mt_plain_table_row(&table);
        mt_plain_table_cell(&table, "%s", c->warnings[i]);
    }
    fprintf(file, "\nwarnings of the profiler\n");
    mt_plain_table_print(&table, 2, file);
}

void mt_cluster_print(const struct mt_cluster *cluster, FILE *file) {
    print_head(cluster, file);
    mt_cluster_print_nodes(cluster, file);
    mt_cluster_print_devices(cluster, file);
    mt_cluster_print_gpus(cluster, file);
    print_classes(cluster, file);
    print_links(cluster, file);
    if (cluster->ndevices > 1) mt_cluster_print_pairs(cluster, file);
    print_groups(cluster, file);
    print_warnings(cluster, file);
}
