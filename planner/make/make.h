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
    const double *speeds;  /* null: even */
    const int64_t *shares; /* of the batch, exactly; null: by the speeds */
    char **hosts;
    const int64_t *memory_bytes;
    const int64_t *micro;         /* at most so many; null: a rank's whole share */
    const double *storage_speeds; /* null: the speeds */
    int nstorage_shares;
    const struct mt_storage_shares *storage_shares;
    int nstorage; /* rows; names that no row matches are replicated */
    const struct mt_plan_storage *storage;
    const char *sync;  /* null: reduce_scatter if any storage is split, else all_reduce */
    const char *start; /* of a full bucket; null: among GPUs with attention, else at once */
    int64_t bucket_bytes;
    enum mt_type gradient_wire;        /* MT_NTYPES: the job's accumulation type */
    const char *algorithms[MT_NCOLLS]; /* null: "auto" */
};

enum mt_status mt_plan_make(const struct mt_plan_request *request, struct mt_plan **plan, struct mt_err *err);

/* Fill in all that follows from the rest: hashes of model and program, parameters, flops, memory, and one row for each
 * kind of collective that the program has. Then check, and refuse by name ranks that have too little memory, and
 * algorithms for collectives that there are none of. */
enum mt_status mt_plan_derive(struct mt_plan *plan, struct mt_err *err);

#endif
