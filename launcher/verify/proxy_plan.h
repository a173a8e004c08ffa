/* Variants of a plan that are run to prove it: the same decisions in fp64, on one rank, or on a small model.
 *
 * A variant has no hashes and no memory figures, and must not be written. It borrows from the plan, which must outlive
 * it; free it with mt_plan_free. */
#ifndef MT_LAUNCHER_VERIFY_PROXY_PLAN_H
#define MT_LAUNCHER_VERIFY_PROXY_PLAN_H

#include "planner/plan/plan.h"

/* In fp64, sums too. */
struct mt_plan *mt_variant_wide(const struct mt_plan *plan);

/* Everything on one rank, at once: what the others must equal. */
struct mt_plan *mt_variant_alone(const struct mt_plan *plan);

/* The same ranks, rows and shares of the batch, but the model cut to 2 layers, 32 wide, 32 tokens of 256; other splits
 * in the same proportion. What rows say of parts that the small model lacks is not exercised. */
enum mt_status mt_variant_small(const struct mt_plan *plan, struct mt_plan **small, struct mt_err *err);

#endif
