/* Lines that describe clusters, alone and with the classes of a measured one: refused with a message, or a cluster that
 * passes its check, and whose rates are finite. With the classes of a measured one if the input's last byte is odd.
 *     build/fuzz/tests/fuzz_line -runs=10000000 tests/fuzz/corpus/line */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/describe/describe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const char *line, const struct mt_cluster *measured) {
    struct mt_cluster *c;
    struct mt_err err = MT_ERR_INIT, why = MT_ERR_INIT;
    if (mt_cluster_describe(line, measured, &c, &err)) {
        if (!err.text[0] || err.status != MT_EINPUT) abort();
        return;
    }
    if (mt_cluster_check(c, &why) || c->ndevices < 1 || c->ndevices > MT_CLUSTER_MOST_DEVICES) abort();
    for (int l = 0; l < c->nlinks; l++)
        if (!(c->links[l].bandwidth_Bps > 0) || !isfinite(c->links[l].bandwidth_Bps)) abort();
    mt_cluster_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct mt_cluster *measured;
    struct mt_err err = MT_ERR_INIT;
    if (!measured && mt_cluster_describe("a100-40:1x2 + t4:1", NULL, &measured, &err)) abort();
    if (size > 300) return -1;
    char *line = strndup((const char *)data, size);
    use(line, size && data[size - 1] % 2 ? measured : NULL);
    free(line);
    return 0;
}
