/* What to buy: configurations of a catalogue's nodes and of what is owned, searched for the jobs' least time (or cost)
 * within a budget and other limits.
 *
 *     struct mt_buy buy = {.items = catalogue.items, .nitems = catalogue.count, .jobs = jobs.items, .njobs =
 * jobs.count, .limits = {.budget = 2e6}, .threads = 2}; struct mt_purchase *purchase; if ((st = mt_buy_search(&buy,
 * &purchase, err))) return st;
 *
 * A configuration is judged by plans (mt_buy_judge): of the programs that divide samples and state alone, and where
 * none fits, of those that gather weights for each layer as well. Which configurations are judged (search.c):
 *
 * The rows that are printed have plans of the whole space in the end, which leave out devices that slow the step, as
 * `motley plan` and `motley whatif` do.
 *
 * - The first `exact` ones in the order of money are judged all, but for those that can be at most MT_BUY_SLACK better
 *   than one that costs no more: by a lower bound on every program (planner/divide/bound.h), or because nodes together
 *   are no faster than the sum of what they are in parts that were judged.
 * - Then sums of money grow by a fixed ratio. At each, an integer programme of GLPK (relax.c) proposes what to buy: the
 *   jobs' rates are at most the sum of the nodes' (priced throughput), and at most what cuts of judged configurations
 *   leave: those that have all their kinds of nodes, and more, scale no better. Proposals are judged, and moves of a
 *   node or two from the best so far, the most promising first.
 *
 * What is judged depends on what costs less alone, never on the budget, which only ends the sequence: so with more
 * money nothing is worse. Nor does it depend on the clock, or on `threads`. */
#ifndef MT_PLANNER_BUY_BUY_H
#define MT_PLANNER_BUY_BUY_H

#include "planner/buy/catalogue/catalogue.h"
#include "planner/plan/plan.h"
#include "planner/review/tie.h"
#include "planner/work/memo.h"

#define MT_BUY_SLACK 0.005
enum { MT_BUY_MOST_NEXT = 8, MT_BUY_EXACT = 300, MT_BUY_EXACT_PLANS = 360, MT_BUY_MOST_JUDGED = 400 };

struct mt_buy {
    const struct mt_catalogue_item *items;
    int nitems;
    const struct mt_cluster *owned; /* or null */
    const char *owned_what;         /* the line or file that says so */
    const struct mt_purchase_job *jobs;
    int njobs;
    const bool *recompute;            /* [njobs]: the job's recomputation is given; null: of none */
    struct mt_purchase_limits limits; /* devices 0: at most MT_PURCHASE_MOST_DEVICES */
    bool by_cost;                     /* rows in the order of cost instead of time */
    double net_bps;                   /* the network of nodes that do not say; 0: that of hardware.def */
    int nnext;
    double next[MT_BUY_MOST_NEXT];     /* sums of money beyond the budget */
    int rows;                          /* at most so many, beside the frontier's */
    int exact;                         /* 0: MT_BUY_EXACT, and at most MT_BUY_EXACT_PLANS / njobs */
    int most_judged;                   /* 0: MT_BUY_MOST_JUDGED */
    int threads;                       /* at least 1 */
    struct mt_work_memo *const *works; /* [njobs]: of judging, or null; the search has its own */
    bool plan_again;                   /* plan rows by the whole search: mt_buy_plan_again */
    bool bottlenecks;                  /* fill in what binds each row's jobs */
    void (*judged)(void *context, int judged, double money); /* or null: told of progress */
    void *context;
};

/* A configuration that is judged. */
struct mt_buy_config {
    struct mt_arena arena;
    int64_t *counts; /* [nitems] */
    struct mt_cluster *cluster;
    struct mt_plan **plans;           /* [njobs] */
    struct mt_purchase_job_row *jobs; /* [njobs]; binds is "" */
    double time_s, error, error_below;
    struct mt_errors errors;
    bool nominal;
    bool planned;        /* by mt_buy_plan_again */
    const char *refused; /* why some job cannot be planned; null: there are times */
};
/* Plan all jobs on it. MT_OK also where it is refused; other failures are errors. counts: [nitems]. */
enum mt_status mt_buy_judge(const struct mt_buy *buy, const int64_t *counts, struct mt_buy_config *config,
                            struct mt_err *err);
/* Plan its jobs by the search of `motley plan`: all programs, and who takes part. For one that is not refused. */
enum mt_status mt_buy_plan_again(const struct mt_buy *buy, struct mt_buy_config *config, struct mt_err *err);
void mt_buy_config_release(struct mt_buy_config *config, int njobs);

/* The cluster of a configuration; MT_EINPUT where it has no device. */
enum mt_status mt_buy_cluster(const struct mt_buy *buy, const int64_t *counts, struct mt_cluster **cluster,
                              struct mt_err *err);

/* Items without a price, those that cannot run a job, those of another kind than the others, and those without a power
 * figure where power is limited, or without rack units where they are, are excluded by name. MT_EINPUT where nothing is
 * left and nothing is owned, for wrong limits, and where no configuration can be planned. The caller frees the
 * purchase.
 */
enum mt_status mt_buy_search(const struct mt_buy *buy, struct mt_purchase **purchase, struct mt_err *err);

#endif
