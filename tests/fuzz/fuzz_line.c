/* Lines that describe clusters, alone and with the classes of a measured one: refused with a message, or a cluster that
 * passes its check, and whose rates are finite. Counts of two to five digits are left out: they make clusters of
 * thousands of devices, which are slow and no different; longer ones are refused before anything is allocated.
 *     build/fuzz/tests/fuzz_line -runs=10000000 tests/fuzz/corpus/line */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/describe/describe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_large(const char *line) {
    for (const char *at = line; *at; at++) {
        if (*at != ':' && *at != 'x') continue;
        size_t digits = strspn(at + 1, "0123456789");
        if (digits > 1 && digits < 6) return true;
    }
    return false;
}

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
    if (!is_large(line)) {
        use(line, NULL);
        use(line, measured);
    }
    free(line);
    return 0;
}
