/* Edits of clusters: the first line describes one, each further line is "add WHAT", "remove WHAT" or "set WHAT".
 * Refused with a message and the cluster as it was, or a cluster that passes the check. build/fuzz/tests/fuzz_edit
 * -runs=10000000 tests/fuzz/corpus/edit */
#include <stdlib.h>
#include <string.h>

#include "profiler/describe/describe.h"
#include "profiler/describe/edit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void edit(struct mt_cluster *cluster, char *line) {
    typedef enum mt_status change(struct mt_cluster * cluster, const char *what, struct mt_err *err);
    static const struct {
        const char *verb;
        change *change;
    } verbs[] = {{"add ", mt_cluster_add}, {"remove ", mt_cluster_remove}, {"set ", mt_cluster_set}};
    struct mt_err err = MT_ERR_INIT, why = MT_ERR_INIT;
    char before[33], hash[33];
    for (int v = 0; v < 3; v++) {
        size_t length = strlen(verbs[v].verb);
        if (strncmp(line, verbs[v].verb, length)) continue;
        memcpy(before, cluster->hash, sizeof before);
        enum mt_status st = verbs[v].change(cluster, line + length, &err);
        mt_cluster_hash(cluster, hash);
        if (mt_cluster_check(cluster, &why) || strcmp(hash, cluster->hash)) abort();
        if (st && (st != MT_EINPUT || !err.text[0] || strcmp(before, hash))) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_cluster *cluster;
    char *text = strndup((const char *)data, size), *rest = text, *line = strsep(&rest, "\n");
    if (!mt_cluster_describe(line, NULL, &cluster, &err)) {
        while ((line = strsep(&rest, "\n"))) edit(cluster, line);
        mt_cluster_free(cluster);
    }
    free(text);
    return 0;
}
