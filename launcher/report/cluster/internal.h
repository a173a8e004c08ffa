/* The parts of a cluster's report, a picture with its table each. */
#ifndef MT_LAUNCHER_REPORT_CLUSTER_INTERNAL_H
#define MT_LAUNCHER_REPORT_CLUSTER_INTERNAL_H

#include "launcher/report/internal.h"

void mt_report_topology(struct mt_page *page, const struct mt_cluster *cluster);
void mt_report_pairs(struct mt_page *page, const struct mt_cluster *cluster);
void mt_report_rooflines(struct mt_page *page, const struct mt_cluster *cluster);
void mt_report_outliers(struct mt_page *page, const struct mt_cluster *cluster);

#endif
