/* The GPUs of a cluster as a table. */
#include "profiler/cluster/print.h"

static void add_columns(struct mt_table *t) {
    mt_table_column(t, "rank", "rank", MT_UNIT_COUNT);
    mt_table_column(t, "bus", "bus", MT_UNIT_TEXT)->alone = true;
    mt_table_column(t, "capability", "capability", MT_UNIT_NUMBER)->decimals = 1;
    mt_table_columns(t, {"reserved_bytes", "reserved", MT_UNIT_BYTES}, {"from_host_Bps", "from host", MT_UNIT_BPS},
                     {"to_host_Bps", "to host", MT_UNIT_BPS}, {"clock_Hz", "clock", MT_UNIT_HERTZ},
                     {"clock_most_Hz", "of", MT_UNIT_HERTZ}, {"memory_clock_Hz", "memory clock", MT_UNIT_HERTZ},
                     {"memory_clock_most_Hz", "of", MT_UNIT_HERTZ}, {"power_W", "power", MT_UNIT_WATTS},
                     {"power_limit_W", "of", MT_UNIT_WATTS}, {"temperature_C", "temperature", MT_UNIT_CELSIUS});
}

void mt_cluster_add_gpus(const struct mt_cluster *c, struct mt_tables *out) {
    int ngpus = 0;
    for (int d = 0; d < c->ndevices; d++) ngpus += c->devices[d].gpu != NULL;
    if (!ngpus) return;
    struct mt_table *t = mt_tables_add(out, "gpus", "GPUs",
                                       "clocks and power at the end of the measuring, of what they may be at most; "
                                       "reserved: of the memory, for the process itself");
    add_columns(t);
    for (int d = 0; d < c->ndevices; d++) {
        const struct mt_cluster_gpu *gpu = c->devices[d].gpu;
        if (!gpu) continue;
        mt_table_row(t);
        mt_cell_int(t, d);
        mt_cell_text(t, "%s", gpu->bus);
        mt_cell_positive(t, c->classes[c->devices[d].class].capability / 10.0);
        mt_cell_int(t, gpu->reserved_bytes);
        const double figures[] = {gpu->from_host_Bps,    gpu->to_host_Bps,     gpu->sm_clock_Hz,
                                  gpu->sm_clock_most_Hz, gpu->memory_clock_Hz, gpu->memory_clock_most_Hz,
                                  gpu->power_W,          gpu->power_limit_W,   gpu->temperature_C};
        for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) mt_cell_positive(t, figures[i]);
    }
    mt_table_fold(t, 1, "GPUs");
}
