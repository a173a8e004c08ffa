/* Chains of a step: from the gather of the parameters that are used up to an operator, through computing, to the sum of
 * the gradients that are ready from another on. A few operators for either are enough. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/search/bound/internal.h"

/* A parameter that is exchanged. */
struct item {
    int ready, use; /* steps: the operator that completes its gradient; the first that reads it (-1: not sharded) */
    double sum_bytes, result_bytes;
};

/* The first operator of LAST that waits for a message, or for a later one: messages arrive in order. */
static void find_uses(const struct mt_work *w, int *use) {
    int next = 0;
    for (int m = 0; m < w->nmessages; m++) use[m] = -1;
    for (int i = w->block_begin[MT_LAST]; i < w->block_begin[MT_LAST + 1]; i++) {
        const struct mt_work_step *step = &w->steps[i];
        if (step->op < 0 || step->wait < 0) continue;
        for (int last = w->steps[step->wait].message; next <= last; next++) use[next] = i;
    }
}

/* [values of the graph]: the message that gathers the parameter, or -1. */
static int *find_gathers(const struct bounding *b) {
    const struct mt_work *w = &b->work;
    int n = b->search->graph->nvalues, *gather = mt_calloc((size_t)n, sizeof *gather);
    memset(gather, -1, (size_t)n * sizeof *gather);
    for (int m = w->nmessages - 1; m >= 0; m--)
        if (w->messages[m].key.kind == MT_ALL_GATHER && w->messages[m].param >= 0) gather[w->messages[m].param] = m;
    return gather;
}

static double wire_bytes(const struct mt_work_message *m) {
    return (double)(m->count * mt_type_size(m->key.wire));
}

static int by_ready(const void *a, const void *b) {
    return ((const struct item *)a)->ready - ((const struct item *)b)->ready;
}

/* Parameters in the order in which their gradients are ready. Returns how many. */
static int list_items(struct bounding *b, struct item *items) {
    const struct mt_work *w = &b->work;
    int *use = mt_calloc((size_t)w->nmessages + 1, sizeof *use), *gather = find_gathers(b), n = 0;
    double largest_bytes = 0;
    find_uses(w, use);
    for (int i = w->block_begin[MT_LAST]; i < w->block_begin[MT_LAST + 1]; i++) {
        const struct mt_work_message *m = w->steps[i].message >= 0 ? &w->messages[w->steps[i].message] : NULL;
        int ready = w->steps[i].from;
        if (!m || m->param < 0 || ready < w->block_begin[MT_LAST] || !mt_coll_reduces(m->key.kind)) continue;
        struct item *item = &items[n++];
        *item = (struct item){.ready = ready, .use = -1, .sum_bytes = wire_bytes(m)};
        int from = gather[m->param];
        if (from < 0 || b->replicated) continue;
        item->use = use[from];
        item->result_bytes = wire_bytes(&w->messages[from]);
        largest_bytes = fmax(largest_bytes, item->result_bytes);
    }
    b->held_bytes = w->state_bytes + (int64_t)largest_bytes;
    for (int l = 0; l < w->nlabels && b->replicated; l++) b->held_bytes += w->labels[l].state_bytes;
    if (n) qsort(items, (size_t)n, sizeof *items, by_ready);
    free(gather);
    free(use);
    return n;
}

static void count_ops(const struct mt_work *w, int begin, int end, int64_t *counts) {
    for (int i = begin; i < end; i++)
        if (w->steps[i].op >= 0) counts[w->steps[i].op]++;
}

static struct cut cut_at(struct bounding *b, int step, bool before) {
    const struct mt_work *w = &b->work;
    struct cut cut = {step, mt_new(&b->arena, int64_t, w->nops + 1)};
    int begin = w->block_begin[MT_LAST], end = w->block_begin[MT_LAST + 1];
    if (before && step >= 0) count_ops(w, begin, step, cut.counts);
    if (!before && step >= 0) count_ops(w, step + 1, end, cut.counts);
    return cut;
}

static int by_use(const void *a, const void *b) {
    return ((const struct item *)a)->use - ((const struct item *)b)->use;
}

/* Where ever more of the parameters are used: in the order of use, cuts after about equal parts of all bytes. The first
 * cut has none of them. */
static void cut_uses(struct bounding *b, const struct item *items, int n) {
    struct item *sorted = mt_arena_memdup(&b->arena, items, (size_t)n * sizeof *items);
    double all = 0, taken = 0;
    if (n) qsort(sorted, (size_t)n, sizeof *sorted, by_use);
    for (int i = 0; i < n; i++) all += sorted[i].result_bytes;
    b->uses[b->nuses++] = cut_at(b, -1, true);
    for (int i = 0; i < n && b->nuses < BOUND_MOST_CUTS; i++) {
        if (sorted[i].use < 0) continue;
        taken += sorted[i].result_bytes;
        bool last_of_step = i + 1 == n || sorted[i + 1].use != sorted[i].use;
        if (!last_of_step || (taken < all * (b->nuses - 1) / (BOUND_MOST_CUTS - 2) && i + 1 < n)) continue;
        b->uses[b->nuses++] = cut_at(b, sorted[i].use, true);
    }
}

/* The same from the last gradient backwards. */
static void cut_readies(struct bounding *b, const struct item *items, int n) {
    double all = 0, taken = 0;
    for (int i = 0; i < n; i++) all += items[i].sum_bytes;
    b->readies[b->nreadies++] = cut_at(b, -1, false);
    for (int i = n - 1; i >= 0 && b->nreadies < BOUND_MOST_CUTS; i--) {
        taken += items[i].sum_bytes;
        bool first_of_step = !i || items[i - 1].ready != items[i].ready;
        if (!first_of_step || (taken < all * (b->nreadies - 1) / (BOUND_MOST_CUTS - 2) && i)) continue;
        b->readies[b->nreadies++] = cut_at(b, items[i].ready, false);
    }
}

/* Gathers, sums and, with clipping, the sum of squares follow each other. */
static struct mt_subset_chain chain_bytes(const struct bounding *b, const struct item *items, int n, int use,
                                          int ready) {
    struct mt_subset_chain c = {0};
    for (int i = 0; i < n; i++) {
        bool gathered = use >= 0 && items[i].use >= 0 && items[i].use <= use;
        bool summed = ready >= 0 && items[i].ready >= ready, sharded = items[i].use >= 0;
        if (summed && gathered) c.sum_bytes += items[i].sum_bytes, c.result_bytes += items[i].result_bytes;
        if (summed && sharded && !gathered) c.other_sum_bytes += items[i].sum_bytes;
        if (summed && !sharded) c.all_bytes += items[i].sum_bytes;
        if (gathered && !summed) c.other_result_bytes += items[i].result_bytes;
    }
    bool gathers = c.result_bytes + c.other_result_bytes > 0, sums = c.sum_bytes + c.other_sum_bytes + c.all_bytes > 0;
    bool norm = sums && b->search->job->optimizer.clip > 0 && c.sum_bytes + c.other_sum_bytes > 0;
    c.rounds = gathers + sums + norm;
    return c;
}

/* Of the parameters whose gradients are ready from a step on, the last that is used first. */
static int last_use(const struct item *items, int n, int ready) {
    int use = -1;
    for (int i = 0; i < n; i++)
        if (items[i].ready >= ready && items[i].use > use) use = items[i].use;
    return use;
}

void mt_search_bound_chains(struct bounding *b) {
    const struct mt_work *w = &b->work;
    struct item *items = mt_new(&b->arena, struct item, w->nmessages + 1);
    int n = b->search->costs->nranks > 1 ? list_items(b, items) : 0;
    b->chains = mt_new(&b->arena, struct chain, BOUND_MOST_CHAINS + 1);
    cut_readies(b, items, n);
    if (b->mixed) {
        b->uses[b->nuses++] = cut_at(b, -1, true);
        for (int k = 1; k < b->nreadies; k++)
            b->uses[b->nuses++] = cut_at(b, last_use(items, n, b->readies[k].step), true);
    } else {
        cut_uses(b, items, n);
    }
    for (int u = 0; u < b->nuses; u++)
        for (int r = 0; r < b->nreadies; r++) {
            if (b->mixed && u != r) continue;
            struct chain *c = &b->chains[b->nchains++];
            *c = (struct chain){u, r, chain_bytes(b, items, n, b->uses[u].step, b->readies[r].step)};
        }
}
