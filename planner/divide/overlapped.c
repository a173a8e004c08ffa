/* Candidates with overlapped instructions. Of a model with many layers their rows are chosen for the program with some
 * of them, whose GEMMs have the same shapes. */
#include <math.h>

#include "kernels/base/log.h"
#include "planner/divide/forms.h"
#include "planner/divide/internal.h"
#include "planner/plan/choice.h"

/* The same with some of the layers: what layers gain is half of the step at least. */
static const double worth_with_some = 1 - (1 - MT_FORMS_WORTH) / 2;

bool mt_divide_may_overlap(const struct mt_dividing *d, const struct mt_divided *c, double other_s) {
    double compute_s = 0;
    for (int r = 0; r < d->nranks; r++) compute_s = fmax(compute_s, c->prediction.ranks[r].compute_s);
    return c->judged && c->choice.decisions.overlapped == MT_OVERLAPPED_NONE &&
           mt_forms_least_s(d->divide->costs, compute_s) < MT_FORMS_WORTH * other_s;
}

/* Its step by the program with some of the layers; without layers that is its step. */
static enum mt_status step_of(struct mt_dividing *d, const struct mt_divided *c, const struct mt_plan *plan,
                              double *step_s) {
    struct mt_program program;
    struct mt_prediction found;
    *step_s = c->prediction.step_s;
    if (!d->layers) return MT_OK;
    enum mt_status st = mt_program_from_plan(d->divide->graph, plan, false, &program, d->err);
    if (st) return st;
    st = mt_predict(&program, d->divide->costs, d->divide->options, &found, d->err);
    if (!st) *step_s = found.step_s;
    mt_arena_release(&found.arena);
    mt_program_release(&program);
    return st;
}

/* Choose forms for a copy that is not judged; its plan is the candidate's. */
static enum mt_status choose(struct mt_dividing *d, const struct mt_divided *c, struct mt_divided *copy) {
    struct mt_forms forms = {.graph = d->divide->graph,
                             .costs = d->divide->costs,
                             .options = d->divide->options,
                             .worth = d->layers ? worth_with_some : MT_FORMS_WORTH};
    struct mt_prediction found = {.step_s = 0};
    double step_s;
    enum mt_status st = mt_divide_write_plan(d, copy, d->err);
    if (st) return st;
    struct mt_decisions *rows = &copy->plan->decisions, *chosen = &copy->choice.decisions;
    rows->nalgorithms = c->plan->decisions.nalgorithms, rows->algorithms = c->plan->decisions.algorithms;
    if (!(st = step_of(d, c, copy->plan, &step_s))) st = mt_forms_choose(&forms, copy->plan, step_s, &found, d->err);
    chosen->overlapped = rows->overlapped;
    chosen->overlaps = mt_overlap_choices_copy(rows->overlaps, rows->noverlaps, d->arena);
    chosen->noverlaps = rows->noverlaps;
    mt_arena_release(&found.arena);
    return st;
}

enum mt_status mt_divide_overlap(struct mt_dividing *d, const struct mt_divided *c, struct mt_divided **overlapped) {
    struct mt_divided *copy = mt_divide_copy(d, c);
    *overlapped = NULL;
    copy->count = c->count;
    copy->settled = true;
    enum mt_status st = choose(d, c, copy);
    if (!st && copy->choice.decisions.overlapped != MT_OVERLAPPED_NONE) st = mt_divide_judge(d, copy);
    bool same = copy->count == c->count; /* with other micro-batches GEMMs have other shapes than were chosen for */
    if (!st && copy->fits && same && copy->prediction.step_s < MT_FORMS_WORTH * c->prediction.step_s) {
        mt_log(MT_LOG_DEBUG, "%s%s, overlapped %s: %.4g s, not %.4g s", c->strategy->name,
               d->layers ? " with few layers" : "", mt_overlapped_names[copy->choice.decisions.overlapped],
               copy->prediction.step_s, c->prediction.step_s);
        return *overlapped = copy, MT_OK;
    }
    if (copy->judged) mt_arena_release(&copy->prediction.arena);
    mt_plan_free(copy->plan);
    return st;
}
