/* Catalogues (CSV and JSON), an item's line and a job's: refused with a message, or rows whose figures are in range and
 * of which a cluster can be made.
 *     build/fuzz/tests/fuzz_catalogue -runs=10000000 tests/fuzz/corpus/catalogue */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/buy/buy.h"
#include "planner/buy/catalogue/jobs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void refused(const struct mt_err *err) {
    if (!err->text[0] || err->status != MT_EINPUT) abort();
}

static void use(struct mt_catalogue *c) {
    int64_t counts[MT_PURCHASE_MOST_ITEMS] = {0};
    struct mt_buy buy = {.items = c->items, .nitems = c->count};
    struct mt_cluster *cluster;
    struct mt_err err = MT_ERR_INIT;
    for (int i = 0; i < c->count; i++) {
        const struct mt_purchase_item *item = &c->items[i].shown;
        if (!(item->price >= 0) || !(item->per_hour >= 0) || !isfinite(item->price + item->per_hour)) abort();
        if (!(item->power_W >= 0) || !(item->rack_units >= 0) || item->devices < 1 || item->memory_bytes < 1) abort();
        if (item->devices > 8) continue;
        counts[i] = 1;
        if (!mt_buy_cluster(&buy, counts, &cluster, &err)) {
            if (cluster->ndevices != item->devices) abort();
            mt_cluster_free(cluster);
        } else {
            refused(&err);
        }
        counts[i] = 0;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct mt_catalogue c = {.count = 0};
    struct mt_buy_jobs jobs = {.count = 0};
    struct mt_err err = MT_ERR_INIT;
    char *text = mt_malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    if (mt_catalogue_parse("fuzz", text, size, &c, &err))
        refused(&err);
    else
        use(&c);
    mt_catalogue_release(&c);
    if (!strchr(text, '\n')) {
        if (mt_catalogue_line(text, &c, &err))
            refused(&err);
        else
            use(&c);
        mt_catalogue_release(&c);
        if (!strchr(text, '/') && !strchr(text, '.') && mt_buy_jobs_line(text, &jobs, &err))
            refused(&err); /* no files */
        mt_buy_jobs_release(&jobs);
    }
    free(text);
    return 0;
}
