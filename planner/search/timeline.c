/* A structure's messages in buckets, their costs, and their timeline overlapped with one class's computation, as if all
 * ranks were of that class. Two streams, in the order and with the waits of the program. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/search/internal.h"

/* ---- costs of messages ---- */

/* Add the elements of a message to counts[nranks]. */
static void add_counts(const struct mt_searching *s, const struct search_work *w, const struct mt_work_message *m,
                       const int64_t *storage, int64_t *counts) {
    if (m->label < 0) {
        for (int r = 0; r < s->nranks; r++) counts[r] += m->count / s->nranks + (r < m->count % s->nranks);
        return;
    }
    double unit = (double)m->count / (double)w->work.labels[m->label].extent;
    for (int r = 0; r < s->nranks; r++)
        counts[r] += (int64_t)llround(unit * (double)storage[(int64_t)m->label * s->nranks + r]);
}

static struct mt_coll problem_of(const struct mt_bucket_key *like, const int64_t *counts, const int *node, int n) {
    return (struct mt_coll){.kind = like->kind,
                            .reduce = like->reduce,
                            .wire = like->wire,
                            .acc = like->acc,
                            .n = n,
                            .counts = counts,
                            .same_pieces = true,
                            .node = node};
}

double mt_search_message_s(struct mt_searching *s, const struct mt_bucket_key *like, const int64_t *counts,
                           const int *places, const int *node, int n) {
    struct mt_coll problem = problem_of(like, counts, node, n);
    const struct mt_coll_algorithm *algorithm =
        mt_coll_find(like->kind, mt_decisions_algorithm(&s->search->fixed.decisions, like->kind, 0));
    struct mt_cost cost;
    if (algorithm && algorithm->applies(&problem))
        cost = mt_cost_coll(&s->costs, &problem, places, algorithm);
    else
        mt_cost_choose(&s->costs, &problem, places, &cost);
    return cost.s;
}

double mt_search_message_least_s(const struct mt_searching *s, const struct mt_bucket_key *like, const int64_t *counts,
                                 const int *places, int n) {
    struct mt_coll problem = problem_of(like, counts, NULL, n);
    return mt_cost_cut_s(&s->costs, &problem, places);
}

/* Of one bucket. */
static double one_message(struct mt_searching *s, const struct mt_bucket_key *like, const int64_t *counts,
                          int nvalues) {
    double cost_s = mt_search_message_s(s, like, counts, s->everybody, s->node, s->nranks);
    struct mt_coll problem = problem_of(like, counts, NULL, s->nranks);
    if (nvalues < 2 || mt_cost_takes_arrays(&s->costs, s->everybody[0], &problem)) return cost_s;
    int64_t bytes = 0; /* to pack and to unpack */
    for (int r = 0; r < s->nranks; r++) bytes += counts[r] * mt_type_size(like->acc);
    return cost_s + 2 * mt_cost_copy_s(&s->costs, s->everybody[0], bytes, nvalues);
}

enum mt_status mt_search_messages(struct mt_searching *s, const struct search_candidate *c, int *bucket, double *cost) {
    const struct search_work *w = c->work;
    int nbuckets =
        mt_work_buckets(&w->work, c->decisions.bucket_bytes, c->decisions.start == MT_START_ATTENTION, bucket);
    int64_t *counts = mt_calloc((size_t)s->nranks, sizeof *counts);
    for (int b = 0, m = 0; b < nbuckets; b++) {
        int nvalues = 0;
        memset(counts, 0, (size_t)s->nranks * sizeof *counts);
        const struct mt_work_message *first = &w->work.messages[m];
        for (; m < w->work.nmessages && bucket[m] == b; m++, nvalues++)
            add_counts(s, w, &w->work.messages[m], c->storage, counts);
        cost[b] = one_message(s, &first->key, counts, nvalues);
    }
    free(counts);
    return MT_OK;
}

/* ---- the timeline ---- */

struct simulation {
    const struct search_work *w;
    const double *op_s;          /* [nops] */
    const int *bucket, *last_of; /* last_of[bucket]: its last message */
    const double *cost;
    double *end_s;                /* [nsteps] */
    double compute, comm, waited; /* times that the streams have reached; how long compute was blocked on messages */
    double *begin_s, *done_s;     /* [nbuckets] */
    double *ready_s, *yield_s;    /* [nbuckets]; yield_s: how long its kernels wait for multiprocessors */
};

static void simulate_step(struct simulation *t, int step) {
    const struct mt_work_step *now = &t->w->work.steps[step];
    if (now->op >= 0) {
        double from = t->compute;
        if (now->wait >= 0) {
            int message = t->w->work.steps[now->wait].message;
            double until = message >= 0 ? t->done_s[t->bucket[message]] : 0;
            if (until > from) t->waited += until - from, from = until;
        }
        t->end_s[step] = t->compute = from + t->op_s[now->op];
        return;
    }
    int b = t->bucket[now->message];
    double ready = now->wait >= 0 ? t->end_s[now->wait] : 0;
    if (ready > t->ready_s[b]) t->ready_s[b] = ready;
    if (t->last_of[b] != now->message) return;
    t->begin_s[b] = fmax(t->comm, t->ready_s[b]) + t->yield_s[b];
    t->done_s[b] = t->comm = t->begin_s[b] + t->cost[b];
}

/* Seconds of communication before `end_s`, the end of computation without gaps: overlapped. */
static double overlap_of(const struct simulation *t, int nbuckets, double end_s) {
    double sum = 0;
    for (int b = 0; b < nbuckets; b++) sum += fmax(0, fmin(t->done_s[b], end_s) - fmin(t->begin_s[b], end_s));
    return sum;
}

/* Timelines that differ in their buckets alone follow each other. */
static const double *price_ops(struct mt_searching *s, struct search_work *w, int class, int64_t share, int64_t micro,
                               const int64_t *storage) {
    int rank = s->classes[class].rank, nlabels = w->work.nlabels;
    if (!w->prices) w->prices = mt_new(&s->arena, struct search_op_prices, s->nclasses);
    struct search_op_prices *prices = &w->prices[class];
    bool same = prices->op_s && prices->share == share && prices->micro == micro;
    for (int l = 0; l < nlabels && same; l++) same = prices->storage[l] == storage[(int64_t)l * s->nranks + rank];
    if (same) return prices->op_s;
    if (!prices->op_s) {
        prices->op_s = mt_new(&s->arena, double, w->work.nops + 1);
        prices->storage = mt_new(&s->arena, int64_t, nlabels + 1);
    }
    prices->share = share, prices->micro = micro;
    for (int l = 0; l < nlabels; l++) prices->storage[l] = storage[(int64_t)l * s->nranks + rank];
    int64_t runs = mt_search_body_runs(share, micro);
    for (int o = 0; o < w->work.nops; o++) {
        const struct mt_work_op *op = &w->work.ops[o];
        struct mt_work_share at = {op->block == MT_BODY ? (runs ? micro : 0) : share - runs * micro, prices->storage};
        prices->op_s[o] = mt_search_op_s(s, rank, op, &at);
    }
    return prices->op_s;
}

/* A message of several values is packed and unpacked by two more kernels, unless NCCL takes them in place. */
static void price_yields(const struct mt_searching *s, const struct search_work *w, int class, int nbuckets,
                         struct simulation *t) {
    double sum_s = 0, squares_s2 = 0;
    for (int o = 0; o < w->work.nops; o++) {
        double all_s = (double)w->work.ops[o].count * t->op_s[o];
        sum_s += all_s, squares_s2 += all_s * t->op_s[o];
    }
    double each_s = mt_cost_yield_s(&s->costs, s->classes[class].rank, sum_s, squares_s2);
    for (int b = 0; b < nbuckets; b++) {
        int last = t->last_of[b];
        const struct mt_bucket_key *m = &w->work.messages[last].key;
        const struct mt_coll like = {
            .kind = m->kind, .wire = m->wire, .acc = m->acc, .n = s->nranks, .same_pieces = true};
        bool packed = last > 0 && t->bucket[last - 1] == b && !mt_coll_takes_arrays(&like);
        t->yield_s[b] = (packed ? 3 : 1) * each_s;
    }
}

/* Of the messages of LAST: the chain that ends last, and the tail that waits for the end of the backward pass. */
static void read_chain(const struct simulation *t, int nbuckets, double backward_end_s, struct search_timeline *p) {
    double suffix = 0;
    bool tail = true;
    p->comm_end_s = p->ready_s = 0;
    for (int b = nbuckets - 1; b >= 0; b--) {
        if (t->w->work.messages[t->last_of[b]].key.block != MT_LAST) continue;
        tail = tail && t->ready_s[b] >= backward_end_s * (1 - 1e-9);
        suffix += t->cost[b];
        if (tail) p->tail_s += t->cost[b];
        if (t->ready_s[b] + suffix > p->comm_end_s) p->comm_end_s = t->ready_s[b] + suffix, p->ready_s = t->ready_s[b];
    }
    if (p->tail_s > p->comm_end_s) p->tail_s = p->comm_end_s;
}

void mt_search_simulate(struct mt_searching *s, struct search_work *w, int class, int64_t share, int64_t micro,
                        const int64_t *storage, const int *bucket, const double *cost, struct search_timeline *p) {
    struct mt_arena arena = MT_ARENA_INIT;
    const struct mt_work *work = &w->work;
    int nbuckets = work->nmessages ? bucket[work->nmessages - 1] + 1 : 0;
    int *last_of = mt_new(&arena, int, nbuckets + 1);
    const double *op_s = price_ops(s, w, class, share, micro, storage);
    struct simulation t = {.w = w, .op_s = op_s, .bucket = bucket, .last_of = last_of, .cost = cost};
    t.end_s = mt_new(&arena, double, work->nsteps + 1);
    t.begin_s = mt_new(&arena, double, nbuckets + 1);
    t.done_s = mt_new(&arena, double, nbuckets + 1);
    t.ready_s = mt_new(&arena, double, nbuckets + 1);
    t.yield_s = mt_new(&arena, double, nbuckets + 1);
    for (int m = 0; m < work->nmessages; m++) last_of[bucket[m]] = m;
    price_yields(s, w, class, nbuckets, &t);
    *p = (struct search_timeline){0};
    for (int b = 0; b < nbuckets; b++) p->comm_s += cost[b];
    double backward_end_s = 0;
    for (int block = 0; block < MT_NBLOCKS; block++) {
        int64_t runs = 1;
        if (block == MT_BODY) runs = mt_search_body_runs(share, micro);
        double before = t.compute, waited = t.waited;
        for (int i = work->block_begin[block]; i < work->block_begin[block + 1] && runs > 0; i++) simulate_step(&t, i);
        if (runs > 1) t.compute += (double)(runs - 1) * (t.compute - before - (t.waited - waited));
        if (block == MT_LAST) {
            backward_end_s = t.compute;
            p->compute_s = t.compute - t.waited;
            p->wait_s = t.waited;
        }
    }
    p->update_s = t.compute - backward_end_s - (t.waited - p->wait_s);
    p->step_s = fmax(t.compute, t.comm);
    read_chain(&t, nbuckets, backward_end_s, p);
    p->after_s = fmax(0, p->step_s - fmax(backward_end_s, p->comm_end_s) - p->update_s);
    int link = mt_cost_link(&s->costs, s->everybody, s->nranks);
    p->overlap_s = overlap_of(&t, nbuckets, backward_end_s);
    if (link >= 0) {
        const struct mt_cluster_link *l = &s->costs.cluster->links[link];
        p->slowed_s = p->overlap_s * l->compute_slowdown / (1 + l->compute_slowdown);
        p->wait_s += p->slowed_s;
        p->step_s += p->slowed_s;
        p->comm_end_s += p->overlap_s * l->comm_slowdown / (1 + l->comm_slowdown);
    }
    mt_arena_release(&arena);
}
