/* The search: decisions for a job on a cluster, by estimates first and then by the real program.
 *
 *     struct mt_search search = {.model = &model, .graph = graph, .job = &job, .costs = &costs, .options = &options,
 *                                .fixed = {.decisions = mt_decisions_unset}, .limit_s = 5};
 *     struct mt_plan *plan = mt_plan_new(costs.nranks);     // made_by, model, job and ranks filled in by the caller
 *     struct mt_search_report report;
 *     if ((st = mt_search(&search, plan, &report, err))) goto out;
 *     ... plan->splits, plan->prediction->step_s, report.candidates[0].what ...
 *     mt_search_report_release(&report);
 *
 * Who takes part is decided first: all ranks are put in a canonical order, subsets of them are compared by a quick
 * estimate, and those that may win are searched, each as if there were no other ranks. An idle rank saves at least 0.1%
 * of the step; among equal steps that with the most ranks is taken. Of at most four ranks all subsets are looked at.
 *
 * For each structure, the work of a step as curves over shares (work.h, cost.h) makes a balance problem (balance.h),
 * whose solution gives shares and an estimate. The best few candidates, and even and proportional shares, are evaluated
 * by the program that they stand for (build.h, predict.h); where the prediction differs from the estimate, the balance
 * is solved again with the difference. What is returned is the best evaluated, so it is never slower than even shares,
 * shares proportional to the measured speeds, and the last plan. Equal input gives an equal plan, unless limit_s cuts
 * the search short.
 *
 *   structure         rule rows, storage rows and sync: what decides the operators of the program
 *   candidate         a structure with buckets, a start, micro-batches and shares
 *   class of ranks    equal ranks: one device class, speed and memory limit
 *   estimate          a candidate's step by the curves
 *   evaluate          predict a candidate's step by building and simulating its program
 *   lower bound       no plan is faster, whoever takes part, however samples and state are divided; its space is
 *                     mt_plan_bound_space
 *   gap               the best step over the lower bound, less one (optimality gap) */
#ifndef MT_PLANNER_SEARCH_SEARCH_H
#define MT_PLANNER_SEARCH_SEARCH_H

#include "planner/balance/balance.h"
#include "planner/cost/cost.h"
#include "planner/divide/strategy.h"
#include "planner/plan/plan.h"
#include "planner/work/memo.h"
#include "synth/graph/graph.h"
#include "synth/lower/lower.h"
#include "synth/models/model.h"

/* Who is told of each plan that a search has predicted: its step, 0 where it does not fit. */
struct mt_search_watch {
    void (*predicted)(void *context, double step_s);
    void *context;
};

struct mt_search {
    const struct mt_model *model;
    const struct mt_graph *graph; /* of the whole batch, differentiated, with updates */
    const struct mt_job *job;
    const struct mt_costs *costs; /* ranks of the plan and their devices */
    const struct mt_lower_options *options;
    struct mt_plan_fixed fixed; /* what is not set is searched; but the wire type, which rounds, and rule rows */
    const struct mt_plan *last; /* of as many ranks: who takes part in it, its decisions and its shares are candidates;
                                   or null */
    double known_s;             /* 0; or the step of another plan of the job: what is much slower is not improved, and
                                   the search fails (MT_EINPUT) where it finds nothing that is faster, or the lower
                                   bound says that there is nothing */
    double limit_s;             /* when to stop trying candidates */
    const struct mt_search_watch *watch; /* or null */
    bool no_bound;                       /* plans are compared only: leave the lower bound 0 */
    int64_t most_work;                   /* of evaluations, in operators that are lowered; 0: the usual */
    struct mt_work_memo *works;          /* or null; see planner/work/memo.h */
    bool by_samples;                     /* only programs that divide samples (and state) alone */
    const struct mt_strategy *strategy;  /* of planner/divide: only its programs; or null */
};

struct mt_search_alternative {
    const char *what;  /* "all_reduce, buckets of 4.00 MiB", "even shares" */
    const char *why;   /* "" of the one that was taken; "slower", "does not fit: rank 2 lacks 1.20 GiB", "slower by
                          estimate", "not simulated: ..." */
    double estimate_s; /* by the curves; 0: none was made */
    double step_s;     /* by its program; 0: it was not evaluated */
};
struct mt_search_report {
    struct mt_arena arena;
    int ncandidates; /* in order of time: evaluated, estimated, those that do not fit */
    struct mt_search_alternative *candidates;
};
void mt_search_report_release(struct mt_search_report *report);

/* Fill in all of the plan that is decided or follows: who takes part and in which order, ranks' speeds, splits, micro,
 * rules, storage, sync, bucket_bytes, collectives, memory, prediction, and what mt_plan_derive would (model_hash,
 * program_hash, parameters, flops_per_step). What the caller has filled in: made_by, model, cluster_hash, job and
 * ranks' host, class and memory_bytes, which is the limit that shares must fit (0: none). MT_EINPUT when nothing fits:
 * who lacks how much. MT_EMISSING without GLPK. `report` may be null. */
enum mt_status mt_search(const struct mt_search *search, struct mt_plan *plan, struct mt_search_report *report,
                         struct mt_err *err);

/* Other shares and micro-batches in a plan's structure, with its buckets and start: what a step would take with other
 * costs (an edited cluster) or other limits (plan->ranks[].memory_bytes). Changes the plan as mt_search does; no
 * rejected rows. Where rules split operators by other splits than "batch", shares stay: mt_search_price. */
enum mt_status mt_search_rebalance(const struct mt_search *search, struct mt_plan *plan,
                                   struct mt_search_report *report, struct mt_err *err);

/* The prediction of a complete plan as it is: fills in prediction (times too, no rejected rows) and memory, and changes
 * no decision. search->fixed, last and limit_s are not read, nor memory limits. */
enum mt_status mt_search_price(const struct mt_search *search, struct mt_plan *plan, struct mt_err *err);

#endif
