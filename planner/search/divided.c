/* Programs of the whole space (planner/divide), after the search among those that divide samples alone: among the ranks
 * of the best subset, and among all. */
#include <math.h>
#include <string.h>

#include "kernels/base/wait.h"
#include "planner/divide/bound.h"
#include "planner/divide/divide.h"
#include "planner/plan/choice.h"
#include "planner/plan/planned.h"
#include "synth/ops/ops.h"
#include "planner/search/internal.h"

bool mt_search_is_open(const struct mt_search *search) {
    const struct mt_plan_fixed *f = &search->fixed;
    const struct mt_decisions *d = &f->decisions;
    return !f->shares && !f->micro && !f->nstorage_shares && !d->nrules && !d->nstorage && !d->nalgorithms &&
           !search->by_samples;
}

bool mt_search_takes_samples_alone(const struct mt_search *search) {
    return !search->strategy || mt_strategy_has_samples_alone(search->strategy);
}

/* Buckets and start as in the best plan by samples, else as plans begin. */
static void begin_decisions(const struct search_part *part, struct mt_decisions *d) {
    const struct mt_plan *best = part->plan;
    *d = part->search.fixed.decisions;
    int64_t usual = part->bucket_bytes ? part->bucket_bytes : 25 << 20;
    if (d->bucket_bytes < 0) d->bucket_bytes = best->prediction ? best->decisions.bucket_bytes : usual;
    if (d->start < 0) d->start = mt_plan_default_start(best->device);
}

/* What a program of many splits must take at most of one that is simpler. */
static const double worth = 0.995;

/* Whether a plan by samples alone is one of the strategy's. */
static bool has_plan(const struct mt_strategy *s, const struct mt_plan *plan) {
    bool alone =
        s->samples && !s->widths && !s->positions && s->gather == MT_GATHER_STEP && s->factors == MT_FACTORS_NEVER;
    return alone && s->state == (mt_decisions_shard_state(&plan->decisions) ? MT_STORE_ALL : MT_STORE_REPLICATED);
}

/* One row for each strategy that was judged, the best of it, unless that is the plan, or the strategy has the plan
 * among its programs, and none that was worth taking; the plan has `rejected` of its search by samples before. taken:
 * or null.
 */
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
        if (!taken && has_plan(&mt_strategies[i], plan)) continue;
        bool whole = p->step_s > 0 && mt_strategy_has_samples_alone(&mt_strategies[i]);
        if (!best || best == taken || (whole && !(best->fits && best->prediction.step_s < worth * p->step_s))) continue;
        mine[n++] = (struct mt_plan_rejected){mt_arena_printf(&plan->arena, "strategy %s", best->strategy->name),
                                              !best->fits ? mt_arena_strdup(&plan->arena, best->why)
                                              : best->prediction.step_s < p->step_s ? "faster by less than 0.5%"
                                                                                    : "slower",
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
    part->overlapped = false;
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
    part->settled = found->best->settled ? (unsigned)part->plan->decisions.overlapped : 0;
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

/* ---- few layers ---- */

enum { FEW_LAYERS = 3, SOME_LAYERS = 4, MANY_LAYERS = 12 }; /* of two layers each is the first or the last */

/* The job with fewer layers, if the model has many. `layers` is filled in; its graphs are the caller's. */
static enum mt_status make_layers(const struct mt_search *search, struct mt_divide_layers *layers,
                                  struct mt_graph *graphs[2], struct mt_err *err) {
    static const int64_t number[] = {FEW_LAYERS, SOME_LAYERS};
    enum mt_status st = MT_OK;
    bool has = false;
    for (int i = 0; i < search->model->noptions; i++) has |= !strcmp(search->model->options[i].name, "layers");
    if (!has || mt_model_get(search->model, "layers") < MANY_LAYERS) return MT_OK;
    for (int i = 0; i < 2 && !st; i++) {
        struct mt_model model = *search->model;
        mt_model_set(&model, "layers", number[i]);
        st = mt_training_graph(&model, search->job, &graphs[i], err);
    }
    *layers = (struct mt_divide_layers){.all = mt_model_get(search->model, "layers"),
                                        .few = FEW_LAYERS,
                                        .some = SOME_LAYERS,
                                        .few_graph = graphs[0],
                                        .some_graph = graphs[1]};
    return st;
}

enum mt_status mt_search_divide(struct search_part *part, double end_s, double *step_s, struct mt_err *err) {
    const struct mt_strategy *only = part->search.strategy;
    const struct mt_plan_prediction *before = NULL;
    const struct mt_divided *taken = NULL;
    struct mt_divide divide = {.graph = part->search.graph,
                               .costs = &part->costs,
                               .options = part->search.options,
                               .plan = part->plan,
                               .only = only,
                               .overlap = mt_search_may_overlap(&part->search, &part->costs),
                               .end_s = end_s};
    struct mt_divide_found found;
    struct mt_divide_layers layers;
    struct mt_graph *graphs[2] = {NULL, NULL};
    struct mt_arena arena = MT_ARENA_INIT;
    if (part->n < 2 || !mt_search_is_open(&part->search)) return MT_OK;
    int64_t *memory = mt_new(&arena, int64_t, part->n);
    for (int r = 0; r < part->n; r++) memory[r] = part->plan->ranks[r].memory_bytes;
    divide.memory_bytes = memory;
    divide.node = mt_plan_nodes(part->plan, &arena);
    begin_decisions(part, &divide.decisions);
    if (!mt_search_takes_samples_alone(&part->search))
        part->plan->prediction = NULL; /* it was of a plan that is not wanted */
    enum mt_status st = only ? MT_OK : try_last(part, step_s, err);
    if (st) goto out;
    before = part->plan->prediction;
    if (!only) {
        divide.known_s = before ? before->step_s : 0;
        double others_s[] = {part->known_s, part->search.known_s};
        for (int i = 0; i < 2; i++)
            if (others_s[i] > 0 && isfinite(others_s[i]) && (!divide.known_s || others_s[i] < divide.known_s))
                divide.known_s = others_s[i];
    }
    if ((st = make_layers(&part->search, &layers, graphs, err))) goto out;
    if (graphs[1]) divide.layers = &layers;
    st = mt_divide_search(&divide, &found, err);
    if (!st && !found.best && !before && only) st = refuse_strategy(only, &found, err);
    /* Forms that a person wants all candidates have; how they run is chosen in the end. */
    bool given = part->search.fixed.decisions.overlapped > 0;
    if (!st && found.best && before && !given && mt_now_s() < end_s)
        st = mt_search_overlap(part, found.best->prediction.step_s, step_s, err);
    before = part->plan->prediction;
    if (!st && found.best && (!before || found.best->prediction.step_s < worth * before->step_s)) {
        taken = found.best;
        st = take(part, &found, err);
        *step_s = part->plan->prediction->step_s;
    }
    if (!st && part->plan->prediction) add_rejected(&found, taken, part->plan);
    mt_divide_release(&found);
out:
    for (int i = 0; i < 2; i++) mt_graph_free(graphs[i]);
    mt_arena_release(&arena);
    return st;
}

/* ---- subsets of the ranks ---- */

enum mt_status mt_search_bound_all(struct participation *p, const struct search_part *part, double *bound_s) {
    const struct mt_search *s = p->search;
    enum mt_status st = MT_OK;
    *bound_s = 0;
    if (!p->all) st = mt_divide_bound_open(s->graph, s->job, p->plan->device, s->options, &p->all, p->err);
    if (!st) *bound_s = mt_divide_bound_s(p->all, &part->costs);
    return st;
}

/* Whether no program among these ranks is as fast as what was found. */
static enum mt_status find_hopeless(struct participation *p, const struct search_subset *x, double step_s,
                                    bool *hopeless) {
    double bound_s;
    *hopeless = false;
    if (p->search->strategy) return MT_OK;
    enum mt_status st = mt_search_bound_all(p, &x->part, &bound_s);
    *hopeless = bound_s >= step_s;
    return st;
}

/* Whole nodes, one of each type, and the first two, four, ...: also where all ranks are best by samples, by estimates.
 * Tensors are divided within nodes, where fewer ranks may be better by samples alone. They are not searched for
 * programs by samples: those that may win have been, by their estimates. */
static enum mt_status add_nodes(struct participation *p) {
    const struct search_places *places = &p->places;
    int *of_cell = mt_new(&p->arena, int, places->ncells);
    enum mt_status st = MT_OK;
    const struct search_subset *best = mt_search_winner(p);
    if (p->use != MT_USE_AUTO || p->pinned || !mt_search_is_open(p->search) || !best) return MT_OK;
    for (int first = 0, n = 1; first + n <= places->nnodes && places->nnodes > 1 && !st;) {
        bool seen = false;
        for (int i = 0; i < first && n == 1; i++) seen |= places->type[i] == places->type[first];
        int begin = places->node_cell[first], end = places->node_cell[first + n], nranks = 0;
        for (int c = 0; c < places->ncells; c++)
            nranks += of_cell[c] = c >= begin && c < end ? places->cells[c].count : 0;
        int at = seen || nranks < 2 || nranks == places->n ? -1 : mt_search_subset_add(&p->subsets, of_cell, &st);
        if (at >= 0) {
            p->subsets.items[at].is_whole = true;
            if (!p->subsets.items[at].searched) mt_search_open_subset(p, &p->subsets.items[at]);
        }
        if (n == 1 && ++first < places->nnodes) continue; /* each alone, then the first few */
        n *= 2;
        first = 0;
    }
    return st;
}

static bool has_kind(const struct participation *p, const struct search_subset *x, int kind) {
    bool some = false;
    for (int c = 0; c < p->places.ncells; c++) some |= x->of_cell[c] && p->places.cells[c].kind == kind;
    return some;
}

bool mt_search_is_part_of_failed(const struct participation *p, const struct search_subset *subset) {
    for (int i = 0; i < p->subsets.count; i++) {
        const struct search_subset *x = &p->subsets.items[i];
        bool part = x->searched && !isfinite(x->step_s) && !x->is_whole && x != subset;
        for (int c = 0; c < p->places.ncells && part; c++) part = subset->of_cell[c] <= x->of_cell[c];
        for (int k = 0; k < p->places.nkinds && part; k++) part = has_kind(p, subset, k) == has_kind(p, x, k);
        if (part) return true;
    }
    return false;
}

static enum mt_status divide_subset(struct participation *p, struct search_subset *x) {
    struct mt_err why = MT_ERR_INIT;
    const struct search_subset *best = mt_search_winner(p);
    bool hopeless = false;
    enum mt_status st = MT_OK;
    if (best && x != best) st = find_hopeless(p, x, best->step_s, &hopeless);
    if (st || hopeless) return st;
    if (best && !x->part.plan->prediction) x->part.bucket_bytes = best->part.plan->decisions.bucket_bytes;
    x->part.known_s = mt_search_best_step(p);
    x->divided = true;
    st = mt_search_divide(&x->part, p->whole.end_s, &x->step_s, &why);
    if (st == MT_EINPUT) { /* this subset has none */
        if (p->search->strategy && (!p->why.status || !mt_search_takes_samples_alone(p->search))) p->why = why;
        return MT_OK;
    }
    if (st) *p->err = why;
    return st;
}

/* Whether no rank holds the weights alone, which programs that divide samples alone gather whole. */
static bool exceed_ranks(const struct participation *p) {
    const struct mt_search *search = p->search;
    int64_t most = 0;
    if (!mt_search_is_open(search) || search->fixed.decisions.gather == MT_GATHER_LAYER) return false;
    for (int i = 0; i < p->places.n; i++) {
        int64_t has = p->plan->ranks[p->places.rank[i]].memory_bytes;
        if (!has) return false;
        most = has > most ? has : most;
    }
    return mt_graph_parameters(search->graph) * mt_type_size(search->job->precision) > most;
}

enum mt_status mt_search_divide_large(struct participation *p) {
    enum mt_status st = MT_OK;
    if (p->places.n < 2 || p->pinned || p->search->last || p->search->strategy || !exceed_ranks(p)) return MT_OK;
    int *of_cell = mt_new(&p->arena, int, p->places.ncells);
    for (int c = 0; c < p->places.ncells; c++) of_cell[c] = p->places.cells[c].count;
    int at = mt_search_subset_add(&p->subsets, of_cell, &st);
    if (at < 0) return st;
    struct search_subset *all = &p->subsets.items[at];
    all->screen_s = INFINITY;
    mt_search_open_subset(p, all);
    if ((st = divide_subset(p, all)) || isfinite(all->step_s) || p->why.status) return st;
    mt_fail(&p->why, MT_EINPUT, "the weights are more than the memory of any rank, and no plan that divides them fits");
    return MT_OK;
}

/* Forget what subsets take by samples alone, where no such plan is wanted. */
static void forget_samples(struct participation *p) {
    if (mt_search_takes_samples_alone(p->search) || p->places.n < 2) return;
    mt_fail(&p->why, MT_EINPUT, "no plan of strategy %s was found", p->search->strategy->name);
    for (int i = 0; i < p->subsets.count; i++) p->subsets.items[i].step_s = INFINITY;
}

/* Among the ranks of the best subset, all, those of the last plan, and whole nodes; where no subset has a plan, among
 * those of each that was searched until there is one. */
enum mt_status mt_search_divide_subsets(struct participation *p) {
    enum mt_status st = add_nodes(p);
    struct search_subset *best = mt_search_winner(p);
    forget_samples(p);
    if (!st && best) st = divide_subset(p, best);
    for (int most = 1; most >= 0; most--) /* all ranks, then fewer */
        for (int i = 0; i < p->subsets.count && !st; i++) {
            struct search_subset *x = &p->subsets.items[i];
            bool all = x->n == p->places.n;
            if (!x->searched || x->divided || all != (most == 1)) continue;
            if (mt_search_winner(p) && !x->is_last && !x->is_whole && !all) continue;
            st = divide_subset(p, x);
        }
    return st;
}
