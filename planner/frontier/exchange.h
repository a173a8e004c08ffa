/* The price of an AllToAll among many ranks. */
#ifndef MT_PLANNER_FRONTIER_EXCHANGE_H
#define MT_PLANNER_FRONTIER_EXCHANGE_H

#include "planner/frontier/price.h"

/* Seconds of the AllToAll that converts a value, with its copies; `times` of them are one message. All ranks of up to
 * 64 are looked at, else those of some hosts. Fits of measured groups are not read. INFINITY where a rank has more than
 * 2048 peers: such messages are not made. */
double mt_price_exchange(const struct mt_pricing *pricing, int gvalue, int from, int to, int64_t times);

#endif
