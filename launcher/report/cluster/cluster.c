/* The report of a cluster. */
#include "launcher/report/cluster/internal.h"

enum { MOST_WARNINGS = 20 };

enum mt_status mt_report_cluster(struct mt_reporting *reporting, const char *path, struct mt_err *err) {
    struct mt_cluster *cluster;
    struct mt_page *page = &reporting->page;
    enum mt_status st = mt_cluster_read(path, &cluster, err);
    if (st) return st;
    mt_page_section(page, "Cluster %s", path);
    mt_page_fact(page, "devices", "%d, %d class%s", cluster->ndevices, cluster->nclasses,
                 cluster->nclasses == 1 ? "" : "es");
    mt_page_fact(page, "nodes", "%d", cluster->nnodes);
    mt_page_fact(page, "figures", "%s", cluster->source);
    mt_page_say(page, "Cluster %s, by %s.", cluster->hash, cluster->made_by);
    if (cluster->description[0]) mt_page_say(page, "Described as: %s", cluster->description);
    for (int i = 0; i < cluster->nwarnings && i < MOST_WARNINGS; i++) mt_page_warn(page, "%s", cluster->warnings[i]);
    mt_report_topology(page, cluster);
    mt_report_pairs(page, cluster);
    mt_report_rooflines(page, cluster);
    mt_report_outliers(page, cluster);
    mt_cluster_free(cluster);
    return MT_OK;
}
