/* Programs of the whole space among subsets of the ranks, once those that divide samples alone have been searched. */
#include <math.h>
#include <string.h>

#include "kernels/base/wait.h"
#include "planner/divide/bound.h"
#include "planner/divide/divide.h"
#include "planner/search/participate.h"
#include "synth/ops/ops.h"

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
    if (p->search->strategy || p->search->compare) return MT_OK;
    enum mt_status st = mt_search_bound_all(p, &x->part, &bound_s);
    *hopeless = bound_s >= step_s;
    return st;
}

/* Where not all ranks are best by samples: whole nodes, one of each type, and the first two, four, ... Tensors are
 * divided within nodes, where fewer ranks may be better by samples alone. They are not searched for programs by
 * samples: those that may win have been, by their estimates. */
static enum mt_status add_nodes(struct participation *p) {
    const struct search_places *places = &p->places;
    int *of_cell = mt_new(&p->arena, int, places->ncells);
    enum mt_status st = MT_OK;
    const struct search_subset *best = mt_search_winner(p);
    if (p->use != MT_USE_AUTO || p->pinned || !mt_search_is_open(p->search) || !best || best->n == places->n)
        return MT_OK;
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
    if (st == MT_EINPUT && !p->search->strategy) st = MT_OK; /* this subset has none */
    if (st == MT_EINPUT && !p->why.status) p->why = why;
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

/* Among the ranks of the best subset, all, those of the last plan, and whole nodes; where no subset has a plan, among
 * those of each that was searched until there is one. */
enum mt_status mt_search_divide_subsets(struct participation *p) {
    enum mt_status st = add_nodes(p);
    struct search_subset *best = mt_search_winner(p);
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
