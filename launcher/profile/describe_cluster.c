/* A cluster document from a description. */
#include "launcher/profile/describe_cluster.h"

#include "profiler/cluster/tables.h"
#include "profiler/describe/describe.h"

enum mt_status mt_describe_cluster(const char *text, const char *measured, const char *path, struct mt_tables *out,
                                   struct mt_err *err) {
    struct mt_cluster *known = NULL, *cluster = NULL;
    enum mt_status st = measured ? mt_cluster_read(measured, &known, err) : MT_OK;
    if (!st && (st = mt_cluster_describe(text, known, &cluster, err))) mt_err_context(err, "--describe");
    if (!st) st = mt_cluster_write(cluster, path, err);
    if (!st) mt_cluster_tables(cluster, out);
    mt_cluster_free(known);
    mt_cluster_free(cluster);
    return st;
}
