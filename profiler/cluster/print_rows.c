/* Nodes and devices as tables. */
#include <math.h>
#include <string.h>

#include "profiler/cluster/print.h"

const char *mt_cluster_link_name(const struct mt_cluster *c, int link) {
    return link < 0 ? "-" : c->links[link].name;
}

static int *devices_of_nodes(const struct mt_cluster *c, struct mt_arena *arena) {
    int *devices = mt_new(arena, int, c->nnodes);
    for (int d = 0; d < c->ndevices; d++) devices[c->devices[d].node]++;
    return devices;
}

void mt_cluster_add_nodes(const struct mt_cluster *c, struct mt_tables *out) {
    bool driver = false, nics = false, rates = false;
    for (int n = 0; n < c->nnodes; n++) {
        driver |= c->nodes[n].driver != NULL, nics |= c->nodes[n].nics != NULL;
        rates |= c->nodes[n].egress_Bps > 0 || c->nodes[n].ingress_Bps > 0;
    }
    int *devices = devices_of_nodes(c, &out->arena);
    struct mt_table *t =
        mt_tables_add(out, "nodes", "nodes",
                      mt_arena_printf(&out->arena, "network: %s%s%s", mt_cluster_link_name(c, c->network),
                                      c->nccl ? "; NCCL " : "", c->nccl ? c->nccl : ""));
    mt_table_columns(t, {"node", "node", MT_UNIT_TEXT}, {"devices", "devices", MT_UNIT_COUNT},
                     {"cores", "cores", MT_UNIT_COUNT}, {"memory_bytes", "memory", MT_UNIT_BYTES},
                     {"inside", "inside", MT_UNIT_TEXT});
    mt_table_column(t, "egress_Bps", "egress", MT_UNIT_BPS)->machines_only = !rates;
    mt_table_column(t, "ingress_Bps", "ingress", MT_UNIT_BPS)->machines_only = !rates;
    mt_table_column(t, "driver", "driver", MT_UNIT_TEXT)->machines_only = !driver;
    mt_table_column(t, "network_devices", "network devices", MT_UNIT_TEXT)->machines_only = !nics;
    for (int n = 0; n < c->nnodes; n++) {
        const struct mt_cluster_node *node = &c->nodes[n];
        mt_table_row(t);
        mt_cell_text(t, "%s", node->name);
        mt_cell_int(t, devices[n]);
        mt_cell_positive(t, node->cores);
        mt_cell_positive(t, (double)node->memory_bytes);
        mt_cell_text(t, "%s", mt_cluster_link_name(c, node->inside));
        mt_cell_positive(t, node->egress_Bps);
        mt_cell_positive(t, node->ingress_Bps);
        mt_cell_text(t, "%s", node->driver ? node->driver : "-");
        mt_cell_text(t, "%s", node->nics ? node->nics : "-");
    }
    mt_table_fold(t, 1, "nodes");
}

void mt_cluster_add_devices(const struct mt_cluster *c, struct mt_tables *out) {
    bool emulated = false, masks = false, gpus = !strcmp(mt_cluster_kind(c), "cuda");
    for (int d = 0; d < c->ndevices; d++) emulated |= c->devices[d].emulated != 1, masks |= c->devices[d].mask[0] != 0;
    struct mt_table *t = mt_tables_add(out, "devices", "devices", "speed is relative to the class");
    mt_table_columns(t, {"rank", "rank", MT_UNIT_COUNT}, {"node", "node", MT_UNIT_TEXT},
                     {"class", "class", MT_UNIT_TEXT});
    mt_table_column(t, "speed", "speed", MT_UNIT_NUMBER)->decimals = 3;
    mt_table_column(t, "speed_error", "+-", MT_UNIT_FRACTION);
    mt_table_column(t, "emulated", "emulated", MT_UNIT_NUMBER)->machines_only = !emulated;
    mt_table_column(t, "stolen", "stolen", MT_UNIT_FRACTION)->machines_only = gpus;
    mt_table_column(t, "memory_bytes", "memory", MT_UNIT_BYTES);
    struct mt_column *cores = mt_table_column(t, "cores", "cores", MT_UNIT_TEXT);
    cores->machines_only = !masks;
    cores->alone = true;
    for (int d = 0; d < c->ndevices; d++) {
        const struct mt_cluster_device *device = &c->devices[d];
        mt_table_row(t);
        mt_cell_int(t, d);
        mt_cell_text(t, "%s", c->nodes[device->node].name);
        mt_cell_text(t, "%s", c->classes[device->class].name);
        mt_cell_real(t, device->speed);
        mt_cell_positive(t, device->speed_error);
        mt_cell_real(t, device->emulated == 1 ? NAN : device->emulated);
        mt_cell_positive(t, device->stolen);
        mt_cell_positive(t, (double)device->memory_bytes);
        mt_cell_text(t, "%s", device->mask);
    }
    mt_table_fold(t, 2, "devices");
}
