/* A quick estimate of a step among some of the ranks, to compare hundreds of subsets of a large cluster. It reads the
 * works and curves of the search on all ranks: the curves of a class do not depend on who else takes part, and of
 * messages only their costs do. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/search/internal.h"

enum { MOST_SIZES = 2 }; /* of messages of one kind that are priced; the costs of the others are between */

struct screening {
    struct mt_searching *s;
    struct search_work *w;
    const int *places, *node; /* node: of each place, numbered from 0 by first place; or null */
    int n;
    int64_t *nranks; /* [classes] */
    int64_t *most;   /* [classes]: samples of a micro-batch that fit into memory; of all without a body */
};

/* ---- samples ---- */

static double seconds_of(const struct screening *x, int class, int64_t share) {
    double s;
    mt_search_micro(x->s, x->w, class, share, x->w->body ? x->most[class] : share, &s);
    return share ? s : 0;
}

/* The most samples of a rank in so many seconds: binary search, as if times never fell. */
static int64_t samples_in(const struct screening *x, int class, double time_s) {
    int64_t low = 0, high = x->w->body && x->most[class] ? x->s->search->job->batch : x->most[class];
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (seconds_of(x, class, middle) <= time_s)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static int64_t all_samples_in(const struct screening *x, double time_s) {
    int64_t sum = 0;
    for (int k = 0; k < x->s->nclasses; k++)
        if (x->nranks[k]) sum += x->nranks[k] * samples_in(x, k, time_s);
    return sum;
}

/* The least seconds in which the ranks compute the batch, and the class that takes longest then, with its share. False
 * where it does not fit. */
static bool fastest(const struct screening *x, int *class, int64_t *share) {
    int64_t batch = x->s->search->job->batch;
    double low = 0, high = INFINITY, last_s = 0;
    if (all_samples_in(x, high) < batch) return false;
    for (int k = 0; k < x->s->nclasses; k++)
        if (x->nranks[k] && samples_in(x, k, INFINITY) >= batch) high = fmin(high, seconds_of(x, k, batch));
    if (isinf(high))
        for (high = 1e-6; all_samples_in(x, high) < batch;) low = high, high *= 4;
    for (int i = 0; i < 60 && high > low * 1.002; i++) {
        double middle = low + (high - low) / 2;
        if (all_samples_in(x, middle) >= batch)
            high = middle;
        else
            low = middle;
    }
    for (int k = 0; k < x->s->nclasses; k++) {
        if (!x->nranks[k]) continue;
        int64_t mine = samples_in(x, k, high);
        double time_s = seconds_of(x, k, mine);
        if (mine && time_s > last_s) last_s = time_s, *class = k, *share = mine;
    }
    return last_s > 0;
}

static void find_most(struct screening *x) {
    for (int k = 0; k < x->s->nclasses; k++)
        x->most[k] = x->nranks[k] ? mt_search_most_micro(x->s, x->w, k, x->s->unit / x->n, 0) : 0;
}

/* Replicated state needs all of it in each rank; the curves of storage say nothing of that. */
static bool state_fits(const struct screening *x) {
    for (int k = 0; k < x->s->nclasses; k++) {
        int64_t limit = x->s->classes[k].memory_limit;
        if (x->nranks[k] && limit && x->w->curves[k].state_fixed > limit) return false;
    }
    return true;
}

/* Seconds of the update: of all of the state on the slowest rank, or of shares as fast as all ranks together. */
static double update_s(const struct screening *x) {
    double slowest_s = 0, rate = 0;
    bool sharded = mt_decisions_shard_state(&x->w->structure->decisions);
    for (int k = 0; k < x->s->nclasses; k++) {
        if (!x->nranks[k]) continue;
        double all_s = mt_share_curve_at(&x->w->curves[k].update, x->s->unit);
        slowest_s = fmax(slowest_s, all_s);
        if (all_s > 0) rate += (double)x->nranks[k] / all_s;
    }
    return sharded && rate > 0 ? 1 / rate : slowest_s;
}

/* ---- messages ---- */

/* Nodes follow each other in the order of places. */
static int *number_nodes(const struct mt_searching *s, const int *places, int n, struct mt_arena *arena) {
    if (!s->node) return NULL;
    int *node = mt_new(arena, int, n);
    for (int i = 1; i < n; i++) node[i] = node[i - 1] + (s->node[places[i]] != s->node[places[i - 1]]);
    return node;
}

static double cost_of(const struct screening *x, const struct mt_bucket_key *like, int64_t elements, bool least) {
    struct mt_searching *s = x->s;
    int64_t *counts = mt_calloc((size_t)x->n, sizeof *counts);
    for (int i = 0; i < x->n; i++) counts[i] = elements / x->n + (i < elements % x->n);
    double cost_s = least ? mt_search_message_least_s(s, like, counts, x->places, x->n)
                          : mt_search_message_s(s, like, counts, x->places, x->node, x->n);
    free(counts);
    return cost_s;
}

struct sizes { /* of one kind of message: the smallest and the largest */
    int64_t elements[MOST_SIZES];
    double cost_s[MOST_SIZES];
};

/* Costs of all buckets, linear between the smallest and the largest of their kind. bucket, cost: of the work. least:
 * lower bounds of these costs. */
static void price_buckets(const struct screening *x, const int *bucket, int nbuckets, bool least, double *cost) {
    const struct mt_work *work = &x->w->work;
    int64_t *elements = mt_calloc((size_t)nbuckets + 1, sizeof *elements);
    const struct mt_bucket_key **key = mt_calloc((size_t)nbuckets + 1, sizeof(struct mt_bucket_key *));
    struct sizes kinds[MT_NCOLLS] = {0};
    for (int m = 0; m < work->nmessages; m++) {
        elements[bucket[m]] += work->messages[m].count;
        key[bucket[m]] = &work->messages[m].key;
    }
    for (int kind = 0; kind < MT_NCOLLS; kind++) {
        struct sizes *z = &kinds[kind];
        const struct mt_bucket_key *like[MOST_SIZES] = {NULL};
        for (int b = 0; b < nbuckets; b++) {
            if ((int)key[b]->kind != kind) continue;
            if (!like[0] || elements[b] < z->elements[0]) like[0] = key[b], z->elements[0] = elements[b];
            if (!like[1] || elements[b] > z->elements[1]) like[1] = key[b], z->elements[1] = elements[b];
        }
        for (int i = 0; like[0] && i < MOST_SIZES; i++) z->cost_s[i] = cost_of(x, like[i], z->elements[i], least);
    }
    for (int b = 0; b < nbuckets; b++) {
        const struct sizes *z = &kinds[key[b]->kind];
        int64_t range = z->elements[1] - z->elements[0];
        double part = range > 0 ? (double)(elements[b] - z->elements[0]) / (double)range : 0;
        cost[b] = z->cost_s[0] + part * (z->cost_s[1] - z->cost_s[0]);
    }
    free(elements);
    free(key);
}

/* ---- the estimate ---- */

struct estimate { /* of one structure */
    struct screening *x;
    int class; /* that takes longest */
    int64_t share, micro, *storage;
    int *bucket, nbuckets;
    double *cost;
};

/* The step. least: of lower bounds of the messages, without slowdowns, so that it rises with their costs. */
static double simulated_s(struct estimate *e, bool least) {
    struct screening *x = e->x;
    struct search_timeline timeline;
    if (x->n > 1) price_buckets(x, e->bucket, e->nbuckets, least, e->cost);
    mt_search_simulate(x->s, x->w, e->class, e->share, e->micro, e->storage, e->bucket, e->cost, &timeline);
    double step_s = timeline.step_s - timeline.update_s + fmax(timeline.update_s, update_s(x));
    return least ? (step_s - timeline.slowed_s) * (1 - 1e-9) : step_s;
}

static void screen_work(struct screening *x, int64_t bucket_bytes, double give_up_s, double *step_s, bool *bounded) {
    struct mt_searching *s = x->s;
    const struct mt_work *work = &x->w->work;
    struct mt_arena arena = MT_ARENA_INIT;
    struct estimate e = {.x = x, .class = -1};
    *step_s = INFINITY;
    *bounded = false;
    find_most(x);
    if (!state_fits(x) || !fastest(x, &e.class, &e.share)) return;
    e.bucket = mt_new(&arena, int, work->nmessages + 1);
    e.cost = mt_new(&arena, double, work->nmessages + 1);
    e.storage = mt_new(&arena, int64_t, s->nranks * s->nlabels + 1);
    for (int l = 0; l < s->nlabels; l++)
        e.storage[(int64_t)l * s->nranks + s->classes[e.class].rank] =
            s->search->graph->labels[s->labels[l]].extent / x->n;
    bool attention = x->w->structure->decisions.start == MT_START_ATTENTION;
    e.nbuckets = mt_work_buckets(work, bucket_bytes, attention, e.bucket);
    e.micro = mt_search_micro(s, x->w, e.class, e.share, x->w->body ? x->most[e.class] : e.share, NULL);
    if (x->n > 1 && isfinite(give_up_s)) {
        *step_s = simulated_s(&e, true);
        *bounded = *step_s >= give_up_s;
    }
    if (!*bounded) *step_s = simulated_s(&e, false);
    mt_arena_release(&arena);
}

/* Buckets for a quick estimate: what is fixed, else an eighth of all gradients, at most 64 MiB. */
static int64_t usual_buckets(const struct mt_searching *s) {
    int64_t all = mt_graph_parameters(s->search->graph) * mt_type_size(s->search->graph->acc) / 8;
    int64_t fixed = s->search->fixed.decisions.bucket_bytes;
    return fixed >= 0 ? fixed : all < 64 << 20 ? all : 64 << 20;
}

enum mt_status mt_search_screen(struct mt_searching *s, const int *places, int n, double give_up_s, double *step_s,
                                bool *bounded) {
    struct screening x = {.s = s, .places = places, .n = n};
    struct mt_arena arena = MT_ARENA_INIT;
    enum mt_status st = MT_OK;
    x.nranks = mt_new(&arena, int64_t, s->nclasses);
    x.most = mt_new(&arena, int64_t, s->nclasses);
    x.node = number_nodes(s, places, n, &arena);
    for (int i = 0; i < n; i++) x.nranks[s->class[places[i]]]++;
    *step_s = INFINITY;
    *bounded = false;
    bool memory = mt_search_memory_matters(s);
    for (int i = 0; i < 2 * s->nstructures && !st; i++) {
        double work_s;
        bool body = i % 2, work_bounded;
        /* Alone a rank has no use for shares; micro-batches are for what does not fit without. */
        if ((n == 1 && mt_decisions_shard_state(&s->structures[i / 2].decisions)) || (body && isfinite(*step_s)))
            continue;
        if (body && (!s->structures[i / 2].by_batch || s->search->job->batch < 2)) continue;
        st = mt_search_open_work(s, i / 2, body, &x.w);
        if (!st && memory) st = mt_search_open_memory(s, x.w, mt_search_memory_buckets(s));
        if (st) break;
        screen_work(&x, usual_buckets(s), fmin(give_up_s, *step_s), &work_s, &work_bounded);
        if (work_s < *step_s) *step_s = work_s, *bounded = work_bounded;
    }
    mt_arena_release(&arena);
    return st;
}
