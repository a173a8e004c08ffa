/* Making a plan from what a person asks for: shares by speeds, storage by patterns, and what follows from the program.
 */
#ifndef MT_PLANNER_MAKE_MAKE_H
#define MT_PLANNER_MAKE_MAKE_H

#include "planner/plan/plan.h"

/* Vectors are null when not given, else [nranks]. */
struct mt_plan_request {
    const char *model;
    const char *device; /* the kind, "cuda"; null: "cpu" */
    struct mt_job job;
    int nranks;
    const double *speeds; /* null: even */
    char **hosts;
    const int64_t *memory_bytes;
    const double *storage_speeds; /* null: the speeds */
    /* Unset: shares by the speeds; micro-batches of a rank's whole share; parameters replicated; sync reduce_scatter
     * where some parameter is split, else all_reduce; on GPUs buckets of 64 MiB that start with attention, else of
     * 4 MiB that start when they are full; nothing recomputed. */
    struct mt_plan_fixed fixed;
};

enum mt_status mt_plan_make(const struct mt_plan_request *request, struct mt_plan **plan, struct mt_err *err);

/* Fill in all that follows from the rest: hashes of model and program, parameters, flops, memory, and one row for each
 * kind of collective that the program has. Then check, and refuse by name ranks that have too little memory, and
 * algorithms for collectives that there are none of. */
enum mt_status mt_plan_derive(struct mt_plan *plan, struct mt_err *err);

#endif
