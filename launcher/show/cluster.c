/* A cluster as tables, and its outliers. */
#include "launcher/show/show.h"
#include "profiler/cluster/outlier.h"

enum mt_status mt_show_cluster(const char *path, FILE *file, bool *outliers, struct mt_err *err) {
    struct mt_cluster *cluster;
    enum mt_status st = mt_cluster_read(path, &cluster, err);
    if (st) return st;
    mt_cluster_print(cluster, file);
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_outlier *list;
    int n = mt_cluster_outliers(cluster, &arena, &list);
    *outliers = n > 0;
    fprintf(file, n ? "\noutliers\n" : "\nno outliers\n");
    for (int i = 0; i < n; i++) fprintf(file, "  %s\n", list[i].text);
    mt_arena_release(&arena);
    mt_cluster_free(cluster);
    return MT_OK;
}
