/* What a search begins with and leaves behind. mt_search itself is in participate.c. */
#include "planner/search/search.h"

#include <math.h>

#include "kernels/base/wait.h"
#include "planner/search/internal.h"

enum mt_status mt_search_begin(struct mt_searching *s, const struct mt_search *search, struct mt_plan *plan,
                               const int *rank_of, struct mt_searching *parent, struct mt_err *err) {
    *s = (struct mt_searching){.search = search,
                               .rank_of = rank_of,
                               .parent = parent,
                               .most_work = search->most_work > 0 ? search->most_work : SEARCH_MOST_WORK,
                               .known_s = search->known_s > 0 ? search->known_s : INFINITY,
                               .costs = *search->costs,
                               .err = err,
                               .plan = plan};
    s->nranks = search->costs->nranks;
    s->end_s = mt_now_s() + search->limit_s;
    if (!s->costs.memo) s->costs.memo = mt_cost_memo_new();
    if (search->graph->batch < 0) return mt_fail(err, MT_EINPUT, "the model has no batch to divide");
    if (plan->nranks != s->nranks)
        return mt_fail(err, MT_EINPUT, "the plan is for %d ranks, but the cluster's costs are for %d", plan->nranks,
                       s->nranks);
    enum mt_status st = mt_search_classes(s);
    return st ? st : mt_search_structures(s);
}

void mt_search_end(struct mt_searching *s) {
    for (int i = 0; i < s->ncandidates; i++) mt_arena_release(&s->candidates[i]->prediction.arena);
    for (int i = 0; s->works && i < 2 * s->nstructures; i++)
        if (s->works[i]) {
            if (!s->works[i]->borrowed) mt_work_release(&s->works[i]->work);
            mt_plan_free(s->works[i]->plan);
        }
    if (s->best) mt_program_release(&s->program);
    mt_plan_free(s->best_plan);
    if (!s->search->costs->memo) mt_cost_memo_free(s->costs.memo);
    mt_arena_release(&s->arena);
}
