/* Making plans: by speeds; for a cluster, by the search; from a person's edit; from what a run has seen (replan). */
#ifndef MT_PLANNER_MAKE_MAKE_H
#define MT_PLANNER_MAKE_MAKE_H

#include "planner/plan/plan.h"
#include "planner/search/search.h"

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
    /* For a cluster alone: */
    bool even;                           /* equal shares instead of searched ones */
    double limit_s;                      /* of all searches for the plan together */
    const struct mt_plan *last;          /* where the search begins: on other ranks as mt_plan_carry says; or null */
    bool last_is_replaced;               /* only if it has the same model, job and cluster, and nothing is fixed */
    const struct mt_search_watch *watch; /* of the searches; or null */
    const struct mt_strategy *strategy;  /* of planner/divide: only its programs; or null */
    bool compare;                        /* also the fastest plan of each strategy: mt_plan_found.strategies */
    bool hypothetical;                   /* predict also what cannot run here, and mark the plan */
};

/* Shares in proportion to speeds unless they are given; storage is divided label by label, so that parameters with
 * storage axes of one label have the same shares. Nothing is predicted. */
enum mt_status mt_plan_make(const struct mt_plan_request *request, struct mt_plan **plan, struct mt_err *err);

/* Why this program cannot run the job on the cluster's devices, or on those that take part ([ndevices]; null: all):
 * architectures without kernels, precisions that a device lacks, CPUs among GPUs. In the arena; "" if it can. */
const char *mt_job_cannot_run(const struct mt_cluster *cluster, const struct mt_job *job, const bool *takes_part,
                              struct mt_arena *arena);
/* MT_EINPUT with that reason. */
enum mt_status mt_job_refuse(const char *why, struct mt_err *err);
/* Set plan->hypothetical, by the ranks that take part. */
void mt_plan_mark_hypothetical(const struct mt_cluster *cluster, struct mt_plan *plan);

/* Fill in all that follows from the rest, on the training graph of the plan's model and job: hashes of model and
 * program, parameters, flops, memory, and one algorithm row for each kind of collective that the program has. Then
 * check, and refuse by name ranks that have too little memory, algorithms for collectives that there are none of, and
 * rows of overlapped GEMMs that there are none of. */
enum mt_status mt_plan_derive(struct mt_plan *plan, const struct mt_graph *graph, struct mt_err *err);
/* The same for a plan whose shares or ranks have become others: its program may lack collectives and
 * overlapped GEMMs that it had, whose algorithms and rows go with them. */
enum mt_status mt_plan_derive_another(struct mt_plan *plan, struct mt_err *err);

/* What a plan says of the ranks of another cluster, `ranks`: those of the same host and class (in order) keep their
 * shares, those of ranks that are gone are divided among them in proportion, and new ranks are idle. *carried: a plan
 * to begin a search at, which the caller frees; null where no rank is there. */
enum mt_status mt_plan_carry(const struct mt_plan *plan, const struct mt_plan *ranks, struct mt_plan **carried,
                             struct mt_err *err);

/* The fastest plan that the search finds: of the request it reads model, job, fixed and what follows. Recomputation
 * that is unset is tried where a plan without it does not fit (MT_EINPUT), or fits only by micro-batches that nobody
 * asked for. Where no search finds a plan, the smallest program (mt_plan_least) is one or is the reason of the refusal.
 */
struct mt_plan_found {
    struct mt_plan *plan;
    struct mt_search_report report;
    bool began_at_last;
    /* With `compare`, in the plan's arena: each strategy's name, its step as a search of it alone finds it, and where
     * that is 0, why there is none. The fastest first. Those slower than the plan are among its rejected, too. */
    struct mt_plan_rejected *strategies;
    int nstrategies;
    bool limited; /* limit_s was over before the search was: with more time it may find a faster plan */
};
enum mt_status mt_plan_fastest(const struct mt_cluster *cluster, const struct mt_plan_request *request,
                               struct mt_plan_found *found, struct mt_err *err);
void mt_plan_found_release(struct mt_plan_found *found);

/* Whether the job's parameters, in its precision, are more than any device of the cluster holds, and with the
 * optimizer's state more than half of what all hold. */
bool mt_plan_may_not_fit(const struct mt_cluster *cluster, const struct mt_plan_request *request);
/* The smallest program of the request (least.c), where the search found nothing that fits. MT_OK: it fits, with its
 * prediction in `found`. MT_EINPUT and *counted: it does not, with what it needs, and what would make it fit. Else it
 * could not be counted, for another reason. */
enum mt_status mt_plan_least(const struct mt_cluster *cluster, const struct mt_plan_request *request,
                             struct mt_plan_found *found, bool *counted, struct mt_err *err);

/* A plan that a person has edited: what follows from its decisions (mt_plan_derive). On a cluster also its prediction
 * as it is, and the step of the best plan that the search finds; a plan that was made by speeds becomes one for the
 * cluster. */
enum mt_status mt_plan_edited(struct mt_plan *plan, struct mt_err *err);
enum mt_status mt_plan_edited_on(const struct mt_cluster *cluster, double limit_s, struct mt_plan *plan, double *best_s,
                                 struct mt_err *err);

/* Replanning: new shares by the times that a run of the plan took. */
struct mt_plan_seen {
    const double *compute_s; /* [nranks] of a step; above 0 for ranks that have samples */
    double step_s;
    enum mt_use use; /* with a cluster: who may take part in the new plan, as in mt_plan_fixed */
    const bool *used;
};
struct mt_replanned {
    struct mt_plan_found found;
    double *speeds; /* [nranks], the caller's: relative to the fastest; with a cluster, seen over profiled */
    struct mt_cluster *cluster; /* with the speeds that were seen; the caller frees it. Null without a cluster */
    double before_s, after_s;   /* a step of the old plan and of the new, by the same model */
};
/* Without a cluster, a rank's speed is the samples that it computed a second, and the batch is divided by that; all
 * else of the plan stays. With one, rank r is device r; its devices' speeds are multiplied by predicted over measured
 * time of computing, and the search decides anew. The caller releases re->found, also after a failure. */
enum mt_status mt_replan_shares(const struct mt_plan *old, const struct mt_plan_seen *seen, struct mt_replanned *re,
                                struct mt_err *err);
enum mt_status mt_replan_cluster(const struct mt_plan *old, const struct mt_plan_seen *seen,
                                 const struct mt_cluster *cluster, double limit_s, struct mt_replanned *re,
                                 struct mt_err *err);

#endif
