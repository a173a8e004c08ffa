/* Shares that need no solving: even, in proportion to speeds, those of a plan; and which ranks get what is left over.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/balance/split.h"
#include "planner/search/internal.h"

static enum mt_status divide(struct mt_searching *s, struct search_candidate *c, const double *weight,
                             const double *of_storage) {
    const struct mt_graph *g = s->search->graph;
    int64_t *units = mt_calloc((size_t)s->nranks, sizeof *units);
    enum mt_status st;
    if (s->search->fixed.shares) {
        memcpy(c->batch, s->search->fixed.shares, (size_t)s->nranks * sizeof *c->batch);
        st = MT_OK;
    } else {
        st = mt_split_proportional(s->search->job->batch, g->labels[g->batch].align, weight, s->nranks, c->batch,
                                   s->err);
    }
    if (!st) st = mt_split_proportional(s->unit, s->unit_align, of_storage, s->nranks, units, s->err);
    if (!st) st = mt_search_divide_storage(s, units, c->storage);
    if (!st) mt_search_set_micro(s, c);
    free(units);
    return st;
}

static double speed_of(const struct mt_searching *s, const struct search_work *w, int class) {
    int64_t even = s->search->job->batch / s->nranks > 0 ? s->search->job->batch / s->nranks : 1;
    double time_s = mt_share_curve_at(&w->curves[class].samples, even);
    return time_s > 0 ? (double)even / time_s : 1;
}

/* By the first work that is open. */
double mt_search_class_speed(const struct mt_searching *s, int class) {
    for (int i = 0; i < 2 * s->nstructures; i++)
        if (s->works[i]) return speed_of(s, s->works[i], class);
    return s->classes[class].speed;
}

static void weights(const struct mt_searching *s, const struct search_work *w, bool even, double *weight) {
    for (int r = 0; r < s->nranks; r++) weight[r] = even ? 1 : speed_of(s, w, s->class[r]);
}

void mt_search_speeds(const struct mt_searching *s, const struct search_work *w, struct mt_plan *p) {
    double most = 0;
    for (int k = 0; k < s->nclasses; k++) most = fmax(most, speed_of(s, w, k));
    for (int r = 0; r < s->nranks; r++) p->ranks[r].speed = speed_of(s, w, s->class[r]) / most;
}

enum mt_status mt_search_simple_shares(struct mt_searching *s, struct search_candidate *c, bool even,
                                       bool even_storage) {
    double *weight = mt_calloc((size_t)s->nranks, sizeof *weight);
    double *of_storage = mt_calloc((size_t)s->nranks, sizeof *weight);
    weights(s, c->work, even, weight);
    weights(s, c->work, even_storage, of_storage);
    enum mt_status st = divide(s, c, weight, of_storage);
    free(weight);
    free(of_storage);
    return st;
}

bool mt_search_aligned(const int64_t *sizes, int nranks, int64_t align) {
    int ragged = 0;
    for (int r = 0; r < nranks; r++) ragged += sizes[r] % align != 0;
    return ragged <= 1;
}

bool mt_search_take_shares(const struct mt_searching *s, const struct mt_plan *plan, struct search_candidate *c) {
    const struct mt_plan_split *batch = mt_plan_split_named(plan, "batch");
    if (!batch || !mt_plan_is_flat(plan)) return false;
    int64_t sum = 0;
    for (int r = 0; r < s->nranks; r++) {
        c->batch[r] = batch->sizes[r];
        c->micro[r] = plan->micro[r] < batch->sizes[r] ? plan->micro[r] : batch->sizes[r];
        sum += batch->sizes[r];
    }
    const struct mt_graph *g = s->search->graph;
    if (sum != s->search->job->batch || !mt_search_aligned(c->batch, s->nranks, g->labels[g->batch].align))
        return false;
    for (int l = 0; l < s->nlabels; l++) {
        const struct mt_label *label = &s->search->graph->labels[s->labels[l]];
        char name[128];
        snprintf(name, sizeof name, "storage:%s", label->name);
        const struct mt_plan_split *split = mt_plan_split_named(plan, name);
        if (!split) return false;
        sum = 0;
        for (int r = 0; r < s->nranks; r++) sum += c->storage[(int64_t)l * s->nranks + r] = split->sizes[r];
        if (sum != label->extent || !mt_search_aligned(split->sizes, s->nranks, label->align)) return false;
    }
    return true;
}

/* ---- units that are left over ---- */

/* Shares of equal ranks differ by one unit. Ranks lie node by node, and the first would get all units that are left
 * over: then one node would send and receive more than another, and a collective between nodes takes as long as its
 * busiest node. So they go to the nodes in turn. */
struct turn { /* of a rank */
    int class, in_node, node, rank;
};

static int by_turn(const void *a, const void *b) {
    const struct turn *x = a, *y = b;
    if (x->class != y->class) return x->class - y->class;
    if (x->in_node != y->in_node) return x->in_node - y->in_node;
    return x->node != y->node ? x->node - y->node : x->rank - y->rank;
}

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

void mt_search_spread(const struct mt_searching *s, int64_t *sizes) {
    int n = s->nranks, nnodes = 0;
    for (int r = 0; r < n && s->node; r++)
        if (s->node[r] >= nnodes) nnodes = s->node[r] + 1;
    if (nnodes < 2) return;
    struct turn *turns = mt_calloc((size_t)n, sizeof *turns);
    int *seen = mt_calloc((size_t)nnodes * (size_t)s->nclasses, sizeof *seen);
    int64_t *sorted = mt_calloc((size_t)n, sizeof *sorted);
    for (int r = 0; r < n; r++)
        turns[r] = (struct turn){s->class[r], seen[s->class[r] * nnodes + s->node[r]]++, s->node[r], r};
    qsort(turns, (size_t)n, sizeof *turns, by_turn);
    for (int i = 0; i < n; i++) sorted[i] = sizes[turns[i].rank];
    for (int i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && turns[end].class == turns[i].class;) end++;
        qsort(sorted + i, (size_t)(end - i), sizeof *sorted, by_size);
    }
    for (int i = 0; i < n; i++) sizes[turns[i].rank] = sorted[i];
    free(turns);
    free(seen);
    free(sorted);
}
