/* Overlapped GEMMs of a plan that was found (planner/divide/forms.h), and of the parts that may win by them. */
#include <math.h>

#include "kernels/base/log.h"
#include "kernels/base/wait.h"
#include "planner/divide/forms.h"
#include "planner/search/internal.h"

bool mt_search_may_overlap(const struct mt_search *search, const struct mt_costs *costs) {
    return costs->nranks > 1 && search->fixed.decisions.overlapped < 0 && mt_forms_are_known(costs);
}

/* What follows from the plan's new decisions; what it knows of other plans stays. */
static void complete(const struct mt_prediction *found, struct mt_plan *plan) {
    struct mt_plan_prediction before = *plan->prediction;
    mt_search_fill_prediction(found, fmin(before.bound_s, found->step_s), plan);
    plan->prediction->nrejected = before.nrejected, plan->prediction->rejected = before.rejected;
    plan->prediction->nidle = before.nidle, plan->prediction->idle = before.idle;
}

/* Choose for a part's plan which forms of overlapped instructions it takes, unless a person has decided, and how each
 * shape runs. */
static enum mt_status choose(struct search_part *part, struct mt_err *err) {
    const struct mt_search *search = &part->search;
    struct mt_forms forms = {.graph = search->graph,
                             .costs = &part->costs,
                             .options = search->options,
                             .worth = MT_FORMS_WORTH,
                             .settled = part->settled};
    struct mt_prediction found = {.step_s = 0};
    double step_s = part->plan->prediction->step_s;
    enum mt_status st = MT_OK;
    if (search->fixed.decisions.overlapped > 0)
        st = mt_forms_choose_given(&forms, part->plan, step_s, &found, err);
    else if (mt_search_may_overlap(search, &part->costs))
        st = mt_forms_choose(&forms, part->plan, step_s, &found, err);
    if (!st && found.nranks) complete(&found, part->plan);
    mt_arena_release(&found.arena);
    return st;
}

static double least_s(const struct search_part *part) {
    double compute_s = 0;
    for (int r = 0; r < part->n; r++) compute_s = fmax(compute_s, part->plan->prediction->times[r].compute_s);
    return mt_forms_least_s(&part->costs, compute_s);
}

enum mt_status mt_search_overlap(struct search_part *part, double other_s, double *step_s, struct mt_err *err) {
    if (!part->plan->prediction || part->overlapped || least_s(part) >= other_s) return MT_OK;
    double before_s = part->plan->prediction->step_s;
    part->overlapped = true;
    enum mt_status st = choose(part, err);
    if (!st) *step_s = part->plan->prediction->step_s;
    mt_log(MT_LOG_DEBUG, "overlap among %d ranks, with %s: %.4g s, not %.4g s", part->n,
           mt_overlapped_names[part->plan->decisions.overlapped], part->plan->prediction->step_s, before_s);
    return st;
}

enum mt_status mt_search_overlap_subsets(struct participation *p) {
    struct search_subset *first = mt_search_winner(p);
    enum mt_status st = first ? mt_search_overlap(&first->part, INFINITY, &first->step_s, p->err) : MT_OK;
    for (int i = 0; i < p->subsets.count && !st; i++) {
        struct search_subset *x = &p->subsets.items[i];
        if (x->searched && isfinite(x->step_s) && mt_now_s() < p->whole.end_s)
            st = mt_search_overlap(&x->part, mt_search_best_step(p), &x->step_s, p->err);
    }
    return st;
}
