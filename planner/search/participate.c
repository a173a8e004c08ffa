/* mt_search: who takes part, and in which order.
 *
 * All ranks that may take part are put in the canonical order. Subsets of them are screened (subsets.c); those that may
 * win are searched, each as if there were no other ranks; so are all ranks together, where they are not hopeless, and
 * the ranks of the last plan. The shortest step wins, with overlapped GEMMs where those may be chosen; of steps within
 * TIE of it, that with the most ranks: an idle rank must be worth it. Unless a person says who takes part, a rank that
 * neither computes nor stores anything of its own is left out in the end. */
#include "planner/search/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/ranks.h"
#include "kernels/base/text/units.h"
#include "kernels/base/wait.h"
#include "planner/plan/choice.h"
#include "planner/divide/bound.h"
#include "planner/divide/divide.h"
#include "planner/search/internal.h"

enum {
    FEW_RANKS = 4,
    MOST_SEARCHES = 4,
    SCREENED_RANKS = 6000,
    LEAST_SCREENED = 24,
    MOST_SCREENED = 400,
    MOST_REORDERED = 512
};
#define TIE 0.999 /* of a step with more ranks, what leaving some out must make of it */
/* Times the least estimate: */
static const double equal = 1.03; /* what estimates cannot tell apart */
static const double doubt = 1.5;  /* the same, of few ranks */

/* ---- one search ---- */

double mt_search_best_step(const struct participation *p) {
    double best_s = INFINITY;
    for (int i = 0; i < p->subsets.count; i++)
        if (p->subsets.items[i].searched) best_s = fmin(best_s, p->subsets.items[i].step_s);
    return best_s;
}

static enum mt_status search_part(struct participation *p, struct search_part *part, struct mt_search_report *report,
                                  struct mt_err *err) {
    struct mt_searching s;
    p->nsearched++;
    part->search.limit_s = fmax(0, p->whole.end_s - mt_now_s());
    p->whole.err = err;
    enum mt_status st = mt_search_begin(&s, &part->search, part->plan, part->rank, &p->whole, err);
    s.known_s = fmin(s.known_s, mt_search_best_step(p));
    s.most_work = p->least_effort                            ? 0
                  : s.most_work - p->spent < s.most_work / 4 ? s.most_work / 4
                                                             : s.most_work - p->spent;
    if (!st) st = mt_search_explore(&s, false, report);
    p->spent += mt_search_work_done(&s);
    mt_search_end(&s);
    p->whole.err = p->err;
    return st;
}

void mt_search_open_subset(struct participation *p, struct search_subset *subset) {
    const struct mt_plan *last = p->search->last;
    int *rank = mt_calloc((size_t)subset->n, sizeof *rank);
    subset->searched = true;
    mt_search_subset_places(&p->places, subset->of_cell, rank);
    for (int i = 0; i < subset->n; i++) rank[i] = p->places.rank[rank[i]];
    if (subset->is_last) memcpy(rank, last->order, (size_t)subset->n * sizeof *rank);
    mt_search_part_open(p->search, p->plan, subset->n, rank, &subset->part);
    free(rank);
    if (subset->is_last) mt_search_part_begin_at(&subset->part, last);
}

/* Search a subset. That it has no plan is no failure. */
static enum mt_status search_subset(struct participation *p, struct search_subset *subset) {
    struct mt_err why = MT_ERR_INIT;
    mt_search_open_subset(p, subset);
    enum mt_status st = search_part(p, &subset->part, &subset->report, &why);
    subset->step_s = st ? INFINITY : subset->part.plan->prediction->step_s;
    if (st == MT_EINPUT && !p->why.status) p->why = why;
    if (st && st != MT_EINPUT) return *p->err = why, st;
    return MT_OK;
}

/* ---- which are searched ---- */

/* The last plan's ranks, if all of them may take part. */
static enum mt_status add_last(struct participation *p) {
    const struct mt_plan *last = p->search->last;
    enum mt_status st = MT_OK;
    if (!last || last->nranks != p->search->costs->nranks) return MT_OK;
    int *of_cell = mt_new(&p->arena, int, p->places.ncells), found = 0;
    for (int c = 0; c < p->places.ncells; c++)
        for (int i = 0; i < p->places.cells[c].count; i++)
            of_cell[c] += mt_plan_place(last, p->places.rank[p->places.cells[c].first + i]) >= 0;
    for (int c = 0; c < p->places.ncells; c++) found += of_cell[c];
    bool all = p->pinned || p->use != MT_USE_AUTO;
    if (found != last->nplaces || (all && found != p->places.n)) return MT_OK;
    int at = mt_search_subset_add(&p->subsets, of_cell, &st);
    if (at >= 0) p->subsets.items[at].is_last = true;
    return st;
}

static double least_estimate(const struct participation *p) {
    double least_s = INFINITY;
    for (int i = 0; i < p->subsets.count; i++) least_s = fmin(least_s, p->subsets.items[i].screen_s);
    return least_s;
}

/* Of nearly equal estimates, that of the most ranks: what is searched first. */
static struct search_subset *favourite(struct participation *p, double least_s) {
    struct search_subset *best = NULL;
    for (int i = 0; i < p->subsets.count; i++) {
        struct search_subset *x = &p->subsets.items[i];
        if (x->screen_s <= equal * least_s && (!best || x->n > best->n)) best = x;
    }
    return best;
}

/* Few ranks: all subsets, also what fits by no estimate; of a large job those that are not hopeless. Of more, those
 * near the least estimate, as far as they can be afforded: a large job gets those that are better by estimate than what
 * has been searched, and at first those near the least whose estimates are less than the steps that were found. */
static bool worth_it(const struct participation *p, const struct search_subset *x, double searched_s) {
    double least_s = least_estimate(p);
    if (x->searched || mt_search_is_part_of_failed(p, x) || (p->nsearched && mt_now_s() > p->whole.end_s)) return false;
    bool cheap = p->spent < SEARCH_MOST_WORK / 8;
    bool hopeless = x->screen_s > 3 * mt_search_best_step(p);
    if (p->places.n <= FEW_RANKS && p->spent < SEARCH_MOST_WORK / 2) return cheap || !hopeless;
    if (p->places.n <= FEW_RANKS) return x->screen_s <= doubt * least_s && x->screen_s < doubt * searched_s;
    if (p->nsearched >= MOST_SEARCHES) return false;
    if (p->spent < SEARCH_MOST_WORK / 2) return x->screen_s <= SEARCH_NEAR * least_s;
    bool near = x->screen_s <= equal * least_s && x->screen_s < mt_search_best_step(p);
    return x->screen_s < searched_s || (near && p->spent < SEARCH_MOST_WORK);
}

static enum mt_status search_listed(struct participation *p) {
    struct search_subset *first = favourite(p, least_estimate(p));
    enum mt_status st = first && !first->searched ? search_subset(p, first) : MT_OK;
    double searched_s = first ? first->screen_s : INFINITY; /* the least estimate of one that has a plan */
    if (!st && first && !isfinite(first->step_s)) {         /* any may be searched next */
        searched_s = INFINITY;
        st = mt_search_complete_subsets(&p->subsets, INFINITY);
    }
    for (int i = 0; i < p->subsets.count && !st; i++) {
        struct search_subset *x = &p->subsets.items[i];
        if (!worth_it(p, x, searched_s)) continue;
        st = search_subset(p, x);
        if (isfinite(x->step_s)) searched_s = fmin(searched_s, x->screen_s);
    }
    return st;
}

/* What fits by no estimate may fit. */
static enum mt_status search_any(struct participation *p) {
    enum mt_status st = MT_OK;
    for (int i = 0; i < p->subsets.count && !st && !isfinite(mt_search_best_step(p)); i++)
        if (!p->subsets.items[i].searched && p->nsearched < 2 * MOST_SEARCHES &&
            !mt_search_is_part_of_failed(p, &p->subsets.items[i]))
            st = search_subset(p, &p->subsets.items[i]);
    return st;
}

/* Pinned subsets, the last plan's ranks and the favourite are always searched. All ranks are, so that it is known what
 * leaving some out saves; once a plan is found, with the least effort, and not if it is slower than the known one. */
static enum mt_status search_subsets(struct participation *p) {
    enum mt_status st = MT_OK;
    for (int i = 0; i < p->subsets.count && !st; i++)
        if (p->subsets.items[i].is_last || p->pinned || p->subsets.count == 1)
            st = search_subset(p, &p->subsets.items[i]);
    if (!st) st = search_listed(p);
    if (!st) st = search_any(p);
    p->least_effort = isfinite(mt_search_best_step(p));
    if (p->least_effort && p->search->known_s > 0 && mt_search_best_step(p) >= p->search->known_s) return st;
    for (int i = 0; i < p->subsets.count && !st; i++)
        if (p->subsets.items[i].n == p->places.n && !p->subsets.items[i].searched)
            st = search_subset(p, &p->subsets.items[i]);
    return st;
}

/* The shortest step; among nearly equal ones that with the most ranks. */
struct search_subset *mt_search_winner(struct participation *p) {
    struct search_subset *best = NULL;
    double least_s = mt_search_best_step(p);
    for (int i = 0; i < p->subsets.count; i++) {
        struct search_subset *x = &p->subsets.items[i];
        if (!x->searched || !(x->step_s * TIE <= least_s) || !isfinite(x->step_s)) continue;
        if (!best || x->n > best->n || (x->n == best->n && x->step_s < best->step_s)) best = x;
    }
    return best;
}

/* ---- ranks without work ---- */

static bool works(const struct mt_plan *plan, int place) {
    bool sharded = mt_decisions_shard_state(&plan->decisions);
    for (int s = 0; s < plan->nsplits; s++)
        if (plan->splits[s].sizes[place] && (sharded || !strcmp(plan->splits[s].name, "batch"))) return true;
    return false;
}

/* A part without those, whose search begins at the plan of the part with them. False: every rank has work. */
static bool without_idlers(struct participation *p, const struct search_part *from, struct search_part *to) {
    int *rank = mt_calloc((size_t)from->n, sizeof *rank), n = 0;
    for (int i = 0; i < from->n; i++)
        if (works(from->plan, i)) rank[n++] = from->rank[i];
    bool fewer = n && n < from->n;
    if (fewer) {
        struct mt_plan *whole = mt_plan_new(p->plan->nranks);
        mt_search_part_open(p->search, p->plan, n, rank, to);
        mt_search_part_write(from, whole);
        mt_search_part_begin_at(to, whole);
        mt_plan_free(whole);
    }
    free(rank);
    return fewer;
}

static enum mt_status leave_out_idlers(struct participation *p, struct search_subset *best) {
    struct search_part part;
    bool may = !p->pinned && p->use == MT_USE_AUTO && mt_search_takes_samples_alone(p->search);
    while (may && without_idlers(p, &best->part, &part)) {
        struct mt_err why = MT_ERR_INIT;
        struct mt_search_report report;
        enum mt_status st = search_part(p, &part, &report, &why);
        double step_s = st ? INFINITY : part.plan->prediction->step_s;
        if (!st) st = mt_search_overlap(&part, best->step_s, &step_s, &why);
        if (st || step_s * TIE > best->step_s) {
            mt_search_part_close(&part);
            mt_search_report_release(&report);
            if (st && st != MT_EINPUT) *p->err = why;
            return st == MT_EINPUT ? MT_OK : st;
        }
        mt_search_part_close(&best->part);
        mt_search_report_release(&best->report);
        best->part = part, best->report = report;
        best->n = part.n;
        best->step_s = step_s;
    }
    return MT_OK;
}

/* ---- the order of the document ---- */

/* Where it makes no difference, places are in the order of the document, which is the easiest to read. Where that is
 * faster by chance it is not taken: another document of the same devices would give another step. */
static enum mt_status take_document_order(struct participation *p, struct mt_plan *plan) {
    static const double same = 1.0005;
    const struct mt_search *search = p->search;
    size_t bytes = (size_t)plan->nplaces * sizeof *plan->order;
    struct mt_program program;
    struct mt_prediction found = {.step_s = 0};
    int *before = mt_arena_memdup(&p->arena, plan->order, bytes);
    mt_ranks_sort(plan->order, plan->nplaces);
    if (!memcmp(before, plan->order, bytes) || plan->nplaces > MOST_REORDERED) {
        memcpy(plan->order, before, bytes);
        return MT_OK;
    }
    enum mt_status st = mt_program_from_plan(search->graph, plan, false, &program, p->err);
    if (st) return st;
    struct mt_costs costs = mt_search_costs_of(&p->costs, plan, &p->arena);
    if (!(st = mt_predict(&program, &costs, search->options, &found, p->err))) {
        double before_s = plan->prediction->step_s;
        if (found.step_s <= same * before_s && before_s <= same * found.step_s) {
            struct mt_plan_prediction old = *plan->prediction;
            mt_search_fill_prediction(&found, old.bound_s, plan);
            plan->prediction->rejected = old.rejected;
            plan->prediction->nrejected = old.nrejected;
            mt_program_hash(&program, plan->program_hash);
        } else {
            memcpy(plan->order, before, bytes);
        }
    }
    mt_arena_release(&found.arena);
    mt_program_release(&program);
    return st;
}

/* ---- the whole ---- */

/* Ranks to which a person has given shares take part, whatever they cost. */
static bool is_given(const struct mt_plan_fixed *fixed, int rank) {
    bool given = fixed->shares && fixed->shares[rank];
    for (int i = 0; i < fixed->nstorage_shares; i++) given |= fixed->storage_shares[i].sizes[rank] > 0;
    return given;
}

static enum mt_status resolve_use(struct participation *p) {
    const struct mt_plan_fixed *fixed = &p->search->fixed;
    bool given = fixed->shares || fixed->nstorage_shares;
    p->use = fixed->use != MT_USE_UNSET ? fixed->use : given ? MT_USE_ALL : MT_USE_AUTO;
    p->pinned = given;
    p->allowed = p->use == MT_USE_SOME ? fixed->used : NULL;
    for (int r = 0; r < p->plan->nranks && p->allowed; r++)
        if (!p->allowed[r] && is_given(fixed, r))
            return mt_fail(p->err, MT_EINPUT, "rank %d is given a share, but is not among the ranks that take part", r);
    return MT_OK;
}

/* All ranks, and those with shares that were given. */
static enum mt_status list_pinned(struct participation *p) {
    enum mt_status st = MT_OK;
    int *of_cell = mt_new(&p->arena, int, p->places.ncells), given = 0;
    for (int all = 1; all >= (p->pinned && p->use == MT_USE_AUTO ? 0 : 1) && !st; all--) {
        for (int c = 0; c < p->places.ncells; c++) {
            bool in = all || is_given(&p->search->fixed, p->places.rank[p->places.cells[c].first]);
            given += of_cell[c] = in ? p->places.cells[c].count : 0;
        }
        mt_search_subset_add(&p->subsets, of_cell, &st);
    }
    return st;
}

static enum mt_status begin(struct participation *p) {
    const struct mt_search *search = p->search;
    if (p->plan->nranks != search->costs->nranks)
        return mt_fail(p->err, MT_EINPUT, "the plan is for %d ranks, but the cluster's costs are for %d",
                       p->plan->nranks, search->costs->nranks);
    enum mt_status st = resolve_use(p);
    if (st) return st;
    mt_search_places(search, p->plan, p->allowed, &p->places, &p->arena);
    if (!p->places.n) return mt_fail(p->err, MT_EINPUT, "no rank may take part");
    mt_search_part_open(search, p->plan, p->places.n, p->places.rank, &p->part);
    p->part_open = true;
    if ((st = mt_search_begin(&p->whole, &p->part.search, p->part.plan, p->part.rank, NULL, p->err))) return st;
    int screened = SCREENED_RANKS / p->places.n;
    if (screened > MOST_SCREENED) screened = MOST_SCREENED;
    if (screened < LEAST_SCREENED) screened = LEAST_SCREENED;
    p->subsets =
        (struct search_subsets){.arena = &p->arena, .places = &p->places, .whole = &p->whole, .most = screened};
    return MT_OK;
}

/* The lower bound, once. */
static enum mt_status find_bound(struct participation *p) {
    if (p->search->no_bound || p->bound_s >= 0) return MT_OK;
    return mt_search_bound(&p->part.search, p->part.plan, &p->search->fixed.decisions, &p->bound_s, p->err);
}

/* Where a plan is known that is faster than `least_s`, none is wanted. */
static enum mt_status beats_known(struct participation *p, const char *what, double least_s) {
    char least[MT_UNITS_TEXT], known[MT_UNITS_TEXT];
    if (!(p->search->known_s > 0) || least_s < p->search->known_s) return MT_OK;
    return mt_fail(p->err, MT_EINPUT, "%s takes less than %s, and one that takes %s is known", what,
                   mt_units_seconds(least_s, least), mt_units_seconds(p->search->known_s, known));
}

/* The bound of the plan's space: of programs that divide samples alone and overlap no GEMM, or of all. */
static enum mt_status bound_of(struct participation *p, const struct mt_plan *plan, double *bound_s) {
    struct mt_decisions rows;
    *bound_s = p->bound_s;
    if (p->search->no_bound || mt_search_bounds_rows(plan, &rows)) return MT_OK;
    return mt_search_bound_all(p, &p->part, bound_s);
}

static enum mt_status may_beat_known(struct participation *p) {
    enum mt_status st = p->search->known_s > 0 ? find_bound(p) : MT_OK;
    if (st || !(p->search->known_s > 0)) return st;
    double bound_s = INFINITY;
    bool given = p->search->fixed.decisions.overlapped > 0;
    bool any = mt_search_is_open(p->search) || given || mt_search_may_overlap(p->search, p->search->costs);
    if (any && (st = mt_search_bound_all(p, &p->part, &bound_s))) return st;
    return beats_known(p, "no plan", fmin(p->bound_s, bound_s));
}

static enum mt_status finish(struct participation *p, struct mt_search_report *report) {
    struct search_subset *best = mt_search_winner(p);
    double bound_s;
    enum mt_status st;
    if (!best && !p->why.status) return mt_fail(p->err, MT_EBUG, "the search has searched nothing");
    if (!best) return *p->err = p->why, p->why.status;
    if ((st = leave_out_idlers(p, best))) return st;
    if ((st = beats_known(p, "no plan that was found", best->step_s * TIE)) || (st = find_bound(p))) return st;
    mt_search_part_write(&best->part, p->plan);
    if ((st = take_document_order(p, p->plan)) || (st = bound_of(p, p->plan, &bound_s))) return st;
    p->plan->prediction->bound_s = fmin(bound_s, p->plan->prediction->step_s);
    if (p->plan->nplaces < p->plan->nranks) mt_search_fill_idle(&p->subsets, p->allowed, p->plan);
    mt_search_fill_other_subsets(&p->subsets, best, p->plan);
    if (!report) return MT_OK;
    *report = best->report;
    best->report = (struct mt_search_report){.ncandidates = 0};
    return MT_OK;
}

static void end(struct participation *p) {
    for (int i = 0; i < p->subsets.count; i++) {
        if (!p->subsets.items[i].searched) continue;
        mt_search_part_close(&p->subsets.items[i].part);
        mt_search_report_release(&p->subsets.items[i].report);
    }
    if (p->part_open) {
        mt_search_end(&p->whole);
        mt_search_part_close(&p->part);
    }
    mt_divide_bound_close(p->all);
    mt_arena_release(&p->arena);
}

enum mt_status mt_search(const struct mt_search *search, struct mt_plan *plan, struct mt_search_report *report,
                         struct mt_err *err) {
    struct mt_search local = *search;
    struct participation p = {.search = &local,
                              .plan = plan,
                              .err = err,
                              .why = MT_ERR_INIT,
                              .costs = *search->costs,
                              .bound_s = search->no_bound ? 0 : -1};
    local.costs = &p.costs;
    if (!p.costs.memo) p.costs.memo = mt_cost_memo_new();
    if (report) *report = (struct mt_search_report){.ncandidates = 0};
    enum mt_status st = begin(&p);
    if (!st && !(st = may_beat_known(&p))) {
        bool choice = p.use == MT_USE_AUTO && !p.pinned && p.places.n > 1;
        st = mt_search_divide_large(&p);
        if (!st && !isfinite(mt_search_best_step(&p)) &&
            !(st = choice ? mt_search_list_subsets(&p.subsets) : list_pinned(&p)) && !(st = add_last(&p)) &&
            !(st = search_subsets(&p)))
            st = mt_search_divide_subsets(&p);
        if (!st) st = mt_search_overlap_subsets(&p);
        if (!st) st = finish(&p, report);
    }
    end(&p);
    if (!search->costs->memo) mt_cost_memo_free(p.costs.memo);
    return st;
}

enum mt_status mt_search_rebalance(const struct mt_search *search, struct mt_plan *plan,
                                   struct mt_search_report *report, struct mt_err *err) {
    struct mt_search local = *search;
    struct search_part part;
    struct mt_searching s;
    if (report) *report = (struct mt_search_report){.ncandidates = 0};
    if (!mt_search_rows_of(plan, &local.fixed.decisions)) return mt_search_price(search, plan, err);
    mt_search_part_open(&local, plan, plan->nplaces, plan->order, &part);
    enum mt_status st = mt_search_begin(&s, &part.search, part.plan, part.rank, NULL, err);
    if (!st) st = mt_search_explore(&s, true, report);
    mt_search_end(&s);
    if (!st) mt_search_part_write(&part, plan);
    double bound_s = 0;
    if (!st) st = mt_search_bound_of(search, plan, &bound_s, err);
    if (!st) plan->prediction->bound_s = fmin(bound_s, plan->prediction->step_s);
    mt_search_part_close(&part);
    return st;
}
