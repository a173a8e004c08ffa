/* Inside reports: what the reports of all kinds of documents share. */
#ifndef MT_LAUNCHER_REPORT_INTERNAL_H
#define MT_LAUNCHER_REPORT_INTERNAL_H

#include "launcher/report/page/page.h"
#include "launcher/report/report.h"
#include "profiler/cluster/cluster.h"

struct mt_reporting {
    struct mt_arena arena;
    const struct mt_report_request *request;
    struct mt_page page;
    const char **paths; /* [npaths]: of files; a run's folder is that of its run.json */
    const char **formats;
    int nclusters;
    struct mt_cluster **clusters; /* those of the request, by which plans are simulated */
    const char **cluster_names;
    const char **traces; /* paths of traces, null after the last */
};

/* The cluster of this hash that the request has, or null. */
const struct mt_cluster *mt_report_cluster_of(const struct mt_reporting *reporting, const char *hash);

#define MT_REPORT(format, name)                                                                                        \
    enum mt_status mt_report_##name(struct mt_reporting *reporting, const char *path, struct mt_err *err);
#include "launcher/report/reports.def"
#undef MT_REPORT

#endif
