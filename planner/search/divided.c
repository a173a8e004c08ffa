/* Programs of the whole space (planner/divide), after the search among those that divide samples alone: among the ranks
 * of the best subset, and among all. */
#include <math.h>
#include <string.h>

#include "kernels/base/wait.h"
#include "planner/divide/divide.h"
#include "planner/plan/choice.h"
#include "synth/ops/ops.h"
#include "planner/search/internal.h"

bool mt_search_is_open(const struct mt_search *search) {
    const struct mt_plan_fixed *f = &search->fixed;
    const struct mt_decisions *d = &f->decisions;
    return !f->shares && !f->micro && !f->nstorage_shares && !d->nrules && !d->nstorage && !d->nalgorithms &&
           !search->by_samples;
}

/* Buckets and start as in the best plan by samples, else as plans begin. */
static void begin_decisions(const struct search_part *part, struct mt_decisions *d) {
    const struct mt_plan *best = part->plan;
    *d = part->search.fixed.decisions;
    if (d->bucket_bytes < 0) d->bucket_bytes = best->prediction ? best->decisions.bucket_bytes : 25 << 20;
    if (d->start < 0) d->start = mt_plan_default_start(best->device);
}

/* One row for each strategy that was judged, the best of it, unless that is the plan, or the strategy has the plan,
 * which is faster, among its programs; the plan has `rejected` of its search by samples before. taken: or null. */
static void add_rejected(const struct mt_divide_found *found, const struct mt_divided *taken, struct mt_plan *plan) {
    struct mt_plan_prediction *p = plan->prediction;
    struct mt_plan_rejected *rows = mt_new(&plan->arena, struct mt_plan_rejected, p->nrejected + MT_NSTRATEGIES + 1);
    int n = 0, at = 0;
    struct mt_plan_rejected mine[MT_NSTRATEGIES];
    for (int i = 0; i < MT_NSTRATEGIES; i++) {
        const struct mt_divided *best = NULL;
        for (int c = 0; c < found->ncandidates; c++) {
            const struct mt_divided *x = found->candidates[c];
            if (x->strategy != &mt_strategies[i] || !x->judged) continue;
            if (!best || x->fits > best->fits ||
                (x->fits == best->fits && x->prediction.step_s < best->prediction.step_s))
                best = x;
        }
        bool whole = p->step_s > 0 && mt_strategy_has_samples_alone(&mt_strategies[i]);
        if (!best || best == taken || (whole && !(best->fits && best->prediction.step_s < p->step_s))) continue;
        mine[n++] = (struct mt_plan_rejected){mt_arena_printf(&plan->arena, "strategy %s", best->strategy->name),
                                              best->fits ? "slower" : mt_arena_strdup(&plan->arena, best->why),
                                              best->fits ? best->prediction.step_s : 0};
    }
    for (int i = 0; i < p->nrejected || n; at++) { /* in order of time; what does not fit comes last */
        int next = -1;
        for (int k = 0; k < n; k++)
            if (next < 0 || (mine[k].step_s > 0 && (mine[next].step_s == 0 || mine[k].step_s < mine[next].step_s)))
                next = k;
        bool old = i < p->nrejected && (next < 0 || mine[next].step_s == 0 ||
                                        (p->rejected[i].step_s > 0 && p->rejected[i].step_s <= mine[next].step_s));
        if (old) {
            rows[at] = p->rejected[i++];
        } else {
            rows[at] = mine[next];
            mine[next] = mine[--n];
        }
    }
    p->rejected = rows;
    p->nrejected = at;
}

/* What a plan for the same ranks decides. */
static void copy_decisions(const struct mt_plan *from, struct mt_plan *to) {
    size_t bytes = (size_t)to->nranks * sizeof(int64_t);
    to->nsplits = from->nsplits;
    to->splits = mt_arena_memdup(&to->arena, from->splits, (size_t)from->nsplits * sizeof *from->splits);
    for (int s = 0; s < to->nsplits; s++) {
        to->splits[s].name = mt_arena_strdup(&to->arena, from->splits[s].name);
        to->splits[s].label = mt_arena_strdup(&to->arena, from->splits[s].label);
        to->splits[s].sizes = mt_arena_memdup(&to->arena, from->splits[s].sizes, bytes);
    }
    memcpy(to->micro, from->micro, bytes);
    to->decisions = mt_decisions_copy(&from->decisions, &to->arena);
}

/* All of the part's plan that follows from its decisions. */
static void complete(struct search_part *part, const struct mt_prediction *found, const struct mt_program *program) {
    const struct mt_graph *g = part->search.graph;
    struct mt_plan *p = part->plan;
    const struct mt_plan_prediction *before = p->prediction;
    p->job = *part->search.job;
    mt_search_fill_prediction(found, 0, p);
    mt_graph_hash(g, p->model_hash);
    mt_program_hash(program, p->program_hash);
    p->parameters = mt_graph_parameters(g);
    p->flops_per_step = mt_graph_flops(g);
    if (!before) return;
    int n = before->nrejected; /* the best by samples is a further one */
    p->prediction->rejected = mt_new(&p->arena, struct mt_plan_rejected, n + 1);
    p->prediction->rejected[0] = (struct mt_plan_rejected){"samples divided alone", "slower", before->step_s};
    memcpy(p->prediction->rejected + 1, before->rejected, (size_t)n * sizeof *before->rejected);
    p->prediction->nrejected = n + 1;
}

static enum mt_status take(struct search_part *part, const struct mt_divide_found *found, struct mt_err *err) {
    struct mt_program program;
    double fastest = 0;
    copy_decisions(found->best->plan, part->plan);
    enum mt_status st = mt_program_from_plan(part->search.graph, part->plan, false, &program, err);
    if (st) return st;
    complete(part, &found->best->prediction, &program);
    for (int r = 0; r < part->n; r++) fastest = fmax(fastest, found->speed[r]);
    for (int r = 0; r < part->n; r++) part->plan->ranks[r].speed = found->speed[r] / fastest;
    mt_program_release(&program);
    return MT_OK;
}

/* The plan that the search begins at, as it is: what is found is not slower. */
static enum mt_status try_last(struct search_part *part, double *step_s, struct mt_err *err) {
    const struct mt_plan *last = part->search.last;
    if (!last || last->nranks != part->n) return MT_OK;
    struct mt_plan *p = mt_plan_new(part->n);
    struct mt_program program;
    struct mt_prediction found = {.step_s = 0};
    struct mt_err ignored = MT_ERR_INIT;
    memcpy(p->ranks, part->plan->ranks, (size_t)part->n * sizeof *p->ranks);
    p->job = *part->search.job;
    p->device = part->plan->device;
    copy_decisions(last, p);
    const struct mt_decisions *fixed = &part->search.fixed.decisions;
    for (int i = 0; i < MT_NDECISIONS; i++) {
        enum mt_decision_id id = (enum mt_decision_id)i;
        if (mt_decision_get(fixed, id) >= 0) mt_decision_set(&p->decisions, id, mt_decision_get(fixed, id));
    }
    if (fixed->bucket_bytes >= 0) p->decisions.bucket_bytes = fixed->bucket_bytes;
    p->decisions.gradient_wire = fixed->gradient_wire; /* it rounds, and is never taken over */
    p->decisions.gradient_wire = mt_plan_wire(p);
    enum mt_status st = mt_program_from_plan(part->search.graph, p, false, &program, &ignored);
    if (!st) {
        st = mt_predict(&program, &part->costs, part->search.options, &found, err);
        bool fits = !st;
        for (int r = 0; r < part->n && fits; r++)
            fits = !p->ranks[r].memory_bytes || mt_rank_needs_bytes(&found.ranks[r]) <= p->ranks[r].memory_bytes;
        const struct mt_plan_prediction *before = part->plan->prediction;
        if (fits && (!before || found.step_s < before->step_s)) {
            copy_decisions(p, part->plan);
            complete(part, &found, &program);
            *step_s = found.step_s;
        }
        mt_arena_release(&found.arena);
        mt_program_release(&program);
    }
    mt_plan_free(p);
    return st == MT_EINPUT ? MT_OK : st;
}

static enum mt_status refuse_strategy(const struct mt_strategy *strategy, const struct mt_divide_found *found,
                                      struct mt_err *err) {
    const char *why = "its programs divide nothing of this model among these ranks";
    for (int i = 0; i < found->ncandidates; i++)
        if (found->candidates[i]->why) why = found->candidates[i]->why;
    mt_fail(err, MT_EINPUT, "no plan of strategy %s was found: %s", strategy->name, why);
    return mt_err_hint(err, "leave --strategy out, which searches all of them; --compare shows what each takes");
}

enum mt_status mt_search_divide(struct search_part *part, double end_s, double *step_s, struct mt_err *err) {
    static const double worth = 0.995; /* what a program of many splits must take at most of one that is simpler */
    const struct mt_strategy *only = part->search.strategy;
    const struct mt_plan_prediction *before = NULL;
    const struct mt_divided *taken = NULL;
    struct mt_divide divide = {.graph = part->search.graph,
                               .costs = &part->costs,
                               .options = part->search.options,
                               .plan = part->plan,
                               .only = only,
                               .compare = part->search.compare,
                               .end_s = end_s};
    struct mt_divide_found found;
    struct mt_arena arena = MT_ARENA_INIT;
    if (part->n < 2 || !mt_search_is_open(&part->search)) return MT_OK;
    int64_t *memory = mt_new(&arena, int64_t, part->n);
    for (int r = 0; r < part->n; r++) memory[r] = part->plan->ranks[r].memory_bytes;
    divide.memory_bytes = memory;
    divide.node = mt_plan_nodes(part->plan, &arena);
    begin_decisions(part, &divide.decisions);
    enum mt_status st = only ? MT_OK : try_last(part, step_s, err);
    if (st) goto out;
    if (!only || mt_strategy_has_samples_alone(only)) before = part->plan->prediction;
    divide.known_s = before && !only ? before->step_s : 0;
    st = mt_divide_search(&divide, &found, err);
    if (!st && !found.best && !before && only) st = refuse_strategy(only, &found, err);
    if (!st && found.best && (!before || found.best->prediction.step_s < worth * before->step_s)) {
        taken = found.best;
        st = take(part, &found, err);
        *step_s = part->plan->prediction->step_s;
    }
    if (!st && part->plan->prediction) add_rejected(&found, taken, part->plan);
    mt_divide_release(&found);
out:
    mt_arena_release(&arena);
    return st;
}
