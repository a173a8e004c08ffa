/* The prediction of a plan as it is, and the bound of all plans with its rules; and, of a plan that was found, which
 * forms of overlapped instructions make it faster. */
#include <math.h>
#include <string.h>

#include "planner/search/internal.h"
#include "planner/plan/choice.h"
#include "synth/program/pair.h"

/* Price the plan's program; the costs are those of its ranks in their order. */
static enum mt_status predict(const struct mt_search *search, const struct mt_plan *plan, struct mt_program *program,
                              struct mt_prediction *prediction, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    enum mt_status st = mt_program_from_plan(search->graph, plan, false, program, err);
    if (st) return st;
    struct mt_costs costs = mt_search_costs_of(search->costs, plan, &arena);
    st = mt_predict(program, &costs, search->options, prediction, err);
    mt_arena_release(&arena);
    if (st) mt_program_release(program);
    return st;
}

enum mt_status mt_search_price(const struct mt_search *search, struct mt_plan *plan, struct mt_err *err) {
    struct mt_program program;
    struct mt_prediction prediction = {.step_s = 0};
    double bound_s = 0;
    if (plan->nranks != search->costs->nranks)
        return mt_fail(err, MT_EINPUT, "the plan is for %d ranks, but the cluster's costs are for %d", plan->nranks,
                       search->costs->nranks);
    enum mt_status st = predict(search, plan, &program, &prediction, err);
    if (st) return st;
    mt_search_fill_prediction(&prediction, 0, plan);
    st = mt_search_bound_of(search, plan, &bound_s, err);
    plan->prediction->bound_s = fmin(bound_s, plan->prediction->step_s);
    mt_program_release(&program);
    mt_arena_release(&prediction.arena);
    return st;
}

/* ---- overlapped instructions ---- */

static const double worth_overlapping = 0.98; /* of the step's time, what it may take at most to be chosen */

/* On CPUs: what GPUs gain was not measured over links between them, so there the job must ask. */
static bool may_overlap(const struct mt_search *search, const struct mt_plan *plan) {
    const struct mt_cluster *cluster = search->costs->cluster;
    bool all = plan->nplaces > 1 && search->fixed.decisions.overlapped < 0;
    for (int i = 0; i < plan->nplaces; i++)
        all &= !strcmp(cluster->classes[cluster->devices[search->costs->device[plan->order[i]]].class].kind, "cpu");
    return all;
}

static bool fits(const struct mt_prediction *prediction, const struct mt_plan *plan) {
    for (int i = 0; i < plan->nplaces; i++) {
        int64_t limit = plan->ranks[plan->order[i]].memory_bytes;
        if (limit && mt_rank_needs_bytes(&prediction->ranks[i]) > limit) return false;
    }
    return true;
}

/* Take the form as well, if the step is faster with it. Its program has other messages: one for which the plan's
 * algorithms are not made (by hosts, within a host) is not taken. */
static enum mt_status try_form(const struct mt_search *search, struct mt_plan *plan, enum mt_overlap_form form,
                               struct mt_err *err) {
    struct mt_program program;
    struct mt_prediction prediction = {.step_s = 0};
    enum mt_overlapped before = plan->decisions.overlapped > 0 ? plan->decisions.overlapped : MT_OVERLAPPED_NONE;
    plan->decisions.overlapped = (enum mt_overlapped)((unsigned)before | 1u << form);
    struct mt_err refusal = MT_ERR_INIT;
    enum mt_status st = predict(search, plan, &program, &prediction, &refusal);
    bool taken = !st && mt_pairs_any(&program, form) && fits(&prediction, plan) &&
                 prediction.step_s < worth_overlapping * plan->prediction->step_s;
    if (taken) {
        struct mt_plan_prediction found = *plan->prediction;
        mt_search_fill_prediction(&prediction, found.bound_s, plan);
        plan->prediction->nrejected = found.nrejected, plan->prediction->rejected = found.rejected;
        plan->prediction->nidle = found.nidle, plan->prediction->idle = found.idle;
        mt_program_hash(&program, plan->program_hash);
    } else {
        plan->decisions.overlapped = before;
    }
    if (!st) mt_program_release(&program);
    mt_arena_release(&prediction.arena);
    if (st == MT_EINPUT) return MT_OK;
    if (st) *err = refusal;
    return st;
}

enum mt_status mt_search_overlap(const struct mt_search *search, struct mt_plan *plan, struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int form = 0; form < MT_OVERLAP_NFORMS && !st && may_overlap(search, plan); form++)
        st = try_form(search, plan, (enum mt_overlap_form)form, err);
    return st;
}
