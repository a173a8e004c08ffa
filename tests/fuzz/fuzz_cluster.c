/* The cluster reader on any text: refused with a message, or a cluster that writes itself as what was read, prints, and
 * has outliers to look for; and the same text as a description.
 *     build/fuzz/tests/fuzz_cluster -runs=10000000 tests/fuzz/corpus/cluster */
#include <stdlib.h>
#include <string.h>

#include "profiler/describe/describe.h"
#include "profiler/cluster/outlier.h"
#include "profiler/cluster/tables.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(struct mt_cluster *cluster) {
    struct mt_cluster *again;
    struct mt_outlier *outliers;
    struct mt_err err = MT_ERR_INIT;
    char hash[33];
    size_t length;
    memcpy(hash, cluster->hash, sizeof hash);
    char *text = mt_cluster_text(cluster, &length);
    if (strcmp(hash, cluster->hash) || mt_cluster_parse("again", text, length, &again, &err)) abort();
    free(text);
    struct mt_arena arena = MT_ARENA_INIT;
    mt_cluster_outliers(again, &arena, &outliers);
    mt_arena_release(&arena);
    FILE *file = fopen("/dev/null", "w");
    struct mt_tables doc = MT_TABLES_INIT;
    mt_cluster_tables(again, &doc);
    mt_tables_write(&doc, MT_TABLES_TEXT, file);
    mt_tables_release(&doc);
    fclose(file);
    mt_cluster_free(again);
    mt_cluster_free(cluster);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct mt_cluster *cluster;
    struct mt_err err = MT_ERR_INIT;
    if (!mt_cluster_parse("fuzz", (const char *)data, size, &cluster, &err))
        use(cluster);
    else if (!err.text[0] || err.status != MT_EINPUT)
        abort();
    char *line = strndup((const char *)data, size);
    if (!mt_cluster_describe(line, NULL, &cluster, &err))
        use(cluster);
    else if (!err.text[0] || err.status != MT_EINPUT)
        abort();
    free(line);
    return 0;
}
