/* The GPUs of a cluster as a table. */
#include "kernels/base/text/units.h"
#include "profiler/cluster/print.h"

/* "1.98/1.98 GHz": now, and at most. */
static void cell_of_most(struct mt_plain_table *table, double now, double most, double unit, const char *name) {
    if (now > 0 && most > 0)
        mt_plain_table_cell(table, "%.4g/%.4g %s", now / unit, most / unit, name);
    else
        mt_plain_table_cell(table, "-");
}

void mt_cluster_print_gpus(const struct mt_cluster *c, FILE *file) {
    struct mt_plain_table table = MT_PLAIN_TABLE_INIT;
    char text[MT_UNITS_TEXT];
    int ngpus = 0;
    for (int d = 0; d < c->ndevices; d++) ngpus += c->devices[d].gpu != NULL;
    if (!ngpus) return;
    mt_plain_table_header(&table, ">rank", "bus", ">capability", ">reserved", ">from host", ">to host", ">clock",
                    ">memory clock", ">power", ">temperature", NULL);
    for (int d = 0; d < c->ndevices; d++) {
        const struct mt_cluster_gpu *gpu = c->devices[d].gpu;
        int capability = c->classes[c->devices[d].class].capability;
        if (!gpu) continue;
        mt_plain_table_row(&table);
        mt_plain_table_cell(&table, "%d", d);
        mt_plain_table_cell(&table, "%s", gpu->bus);
        mt_plain_table_cell(&table, capability ? "%d.%d" : "-", capability / 10, capability % 10);
        mt_plain_table_cell(&table, "%s", mt_units_bytes((double)gpu->reserved_bytes, text));
        mt_cluster_cell_rate(&table, gpu->from_host_Bps, "B/s");
        mt_cluster_cell_rate(&table, gpu->to_host_Bps, "B/s");
        cell_of_most(&table, gpu->sm_clock_Hz, gpu->sm_clock_most_Hz, 1e9, "GHz");
        cell_of_most(&table, gpu->memory_clock_Hz, gpu->memory_clock_most_Hz, 1e9, "GHz");
        cell_of_most(&table, gpu->power_W, gpu->power_limit_W, 1, "W");
        mt_plain_table_cell(&table, gpu->temperature_C > 0 ? "%.0f C" : "-", gpu->temperature_C);
    }
    fprintf(file, "\nGPUs (clocks and power at the end of the measuring, of what they may be at most; reserved: of the "
                  "memory, for the process itself)\n");
    mt_plain_table_print(&table, 2, file);
}
