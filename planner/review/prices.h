/* What devices cost: a CSV file with the columns class,price_per_hour, in that order, one line a class.
 *
 *     class,price_per_hour
 *     a100-40,3.67
 *     v100,1.85 */
#ifndef MT_PLANNER_REVIEW_PRICES_H
#define MT_PLANNER_REVIEW_PRICES_H

#include "profiler/cluster/cluster.h"

struct mt_prices {
    struct mt_arena arena;
    const char *path;
    int count;
    struct mt_price {
        const char *class;
        double per_hour; /* of one device, in any currency */
    } * items;
};

/* MT_EINPUT with the line that is wrong. Release with mt_prices_release, also after a failure. */
enum mt_status mt_prices_read(const char *path, struct mt_prices *prices, struct mt_err *err);
enum mt_status mt_prices_parse(const char *name, const char *text, size_t length, struct mt_prices *prices,
                               struct mt_err *err);
void mt_prices_release(struct mt_prices *prices);

/* Of all devices of the cluster; a class without a price is refused by name. */
enum mt_status mt_prices_of(const struct mt_prices *prices, const struct mt_cluster *cluster, double *per_hour,
                            struct mt_err *err);

#endif
