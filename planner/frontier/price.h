/* Prices of operators under rules, and of conversions between layouts. */
#ifndef MT_PLANNER_FRONTIER_PRICE_H
#define MT_PLANNER_FRONTIER_PRICE_H

#include "planner/cost/cost.h"
#include "synth/layout/rule.h"

struct mt_pricing {
    const struct mt_costs *costs;
    const struct mt_graph *graph;
    struct mt_layouts *layouts; /* those between two others are added (convert/route.h) */
    const struct mt_mesh *mesh; /* or null: all ranks are on one node */
};

/* Seconds of an operator on its slowest rank, with inputs and outputs in these layouts. rank_s[nranks]: out, of each
 * rank; or null. */
double mt_price_op(const struct mt_pricing *pricing, int op, const int *in, const int *out, double *rank_s);

/* Seconds of the conversion of a value as the builder does it, over a mesh by its route, with the copies that it needs;
 * 0 for slices. `bulk`: as a part of a large
 * message. */
double mt_price_convert(const struct mt_pricing *pricing, int gvalue, int from, int to, bool bulk);

/* Seconds of giving all ranks the first one's replica. */
double mt_price_broadcast(const struct mt_pricing *pricing, int gvalue, int layout, bool bulk);

#endif
