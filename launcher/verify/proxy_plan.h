/* Proxies of a plan, which are run in its place to verify it: the same decisions in fp64, on one rank, or on a small
 * model.
 *
 * A proxy has no hashes and no memory figures, and must not be written. It borrows from the plan, which must outlive
 * it; free it with mt_plan_free. */
#ifndef MT_LAUNCHER_VERIFY_PROXY_PLAN_H
#define MT_LAUNCHER_VERIFY_PROXY_PLAN_H

#include "planner/plan/plan.h"

/* In fp64, accumulation and wire types too. */
struct mt_plan *mt_proxy_plan_fp64(const struct mt_plan *plan);

/* Everything on one rank in one micro-batch: the reference. */
struct mt_plan *mt_proxy_plan_one_rank(const struct mt_plan *plan);

/* The same ranks, rules and batch split, but the model cut to 2 layers, width 32, 32 tokens and a vocabulary of 256;
 * other splits in the same proportion. Rules for parts that the small model lacks are not exercised. */
enum mt_status mt_proxy_plan_small(const struct mt_plan *plan, struct mt_plan **small, struct mt_err *err);

#endif
