/* A cluster as tables, and its outliers. */
#include "launcher/show/show.h"
#include "profiler/cluster/outlier.h"
#include "profiler/cluster/tables.h"

enum mt_status mt_show_cluster(const char *path, struct mt_tables *out, bool *outliers, struct mt_err *err) {
    struct mt_cluster *cluster;
    enum mt_status st = mt_cluster_read(path, &cluster, err);
    if (st) return st;
    mt_cluster_tables(cluster, out);
    struct mt_outlier *list;
    int n = mt_cluster_outliers(cluster, &out->arena, &list);
    *outliers = n > 0;
    struct mt_table *t = mt_tables_add(out, "outliers", n ? "outliers" : "no outliers", "");
    t->bare = true;
    mt_table_column(t, "what", "what", MT_UNIT_TEXT);
    for (int i = 0; i < n; i++) {
        mt_table_row(t);
        mt_cell_text(t, "%s", list[i].text);
        mt_cell_style(t, MT_STYLE_WARNING);
    }
    mt_cluster_free(cluster);
    return MT_OK;
}
