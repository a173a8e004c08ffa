/* From curves and a timeline to a balance problem, and from its solution to shares.
 *
 * Stages: forward and backward, with the collectives that overlap them; the collectives that can start only when the
 * backward pass has ended; the update. Where state is replicated, no rank waits for another between the update and the
 * next forward pass, and both are one stage. The timeline is simulated at given shares. The chain of collectives that
 * ends last begins after a part of the backward pass, which grows with the rank's samples. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/wait.h"
#include "planner/balance/split.h"
#include "planner/search/internal.h"

enum { PASSES, TAIL, UPDATE };
const char *const search_stage_names[SEARCH_NSTAGES] = {"forward and backward", "last messages", "update"};

struct problem {
    struct mt_arena arena;
    struct mt_balance balance;
    int batch, storage; /* their places among the splits, or -1: given */
    int update;         /* the stage of updates */
    /* What the balance points to: [stage][split][class], [stage][class], [split][class], [class]. */
    struct mt_share_curve *compute, *comm, *memory;
    double *compute_fixed, *comm_fixed;
    int64_t *memory_fixed, *memory_limit;
    struct search_timeline *timeline;
};

/* ---- shares ---- */

enum mt_status mt_search_divide_storage(struct mt_searching *s, const int64_t *units, int64_t *storage) {
    double *weight = mt_calloc((size_t)s->nranks, sizeof *weight);
    enum mt_status st = MT_OK;
    for (int r = 0; r < s->nranks; r++) weight[r] = (double)units[r];
    for (int l = 0; l < s->nlabels && !st; l++) {
        const struct mt_label *label = &s->search->graph->labels[s->labels[l]];
        int64_t *sizes = storage + (int64_t)l * s->nranks;
        if (s->given_storage[l])
            memcpy(sizes, s->given_storage[l], (size_t)s->nranks * sizeof *sizes);
        else if (label->extent == s->unit && label->align == s->unit_align)
            memcpy(sizes, units, (size_t)s->nranks * sizeof *sizes);
        else
            st = mt_split_proportional(label->extent, label->align, weight, s->nranks, sizes, s->err);
        if (!st && !s->given_storage[l]) mt_search_spread(s, sizes);
    }
    free(weight);
    return st;
}

/* A rank's storage in units, as nearly as its labels' shares say. */
int64_t mt_search_units(const struct mt_searching *s, const struct search_candidate *c, int rank) {
    double sum = 0, whole = 0;
    for (int l = 0; l < s->nlabels; l++) {
        const struct mt_label *label = &s->search->graph->labels[s->labels[l]];
        if (!s->given_storage[l] && label->extent == s->unit) return c->storage[(int64_t)l * s->nranks + rank];
        sum += (double)c->storage[(int64_t)l * s->nranks + rank];
        whole += (double)label->extent;
    }
    return whole > 0 ? (int64_t)llround((double)s->unit * sum / whole) : 0;
}

void mt_search_set_micro(struct mt_searching *s, struct search_candidate *c) {
    for (int r = 0; r < s->nranks; r++) {
        int k = s->class[r];
        int64_t most =
            c->work->body ? mt_search_most_micro(s, c->work, k, mt_search_units(s, c, r), c->heavier[k]) : c->batch[r];
        c->micro[r] = c->batch[r] ? mt_search_micro(s, c->work, k, c->batch[r], most, NULL) : 0;
    }
}

struct search_candidate *mt_search_new_candidate(struct mt_searching *s, struct search_work *work, int64_t bucket_bytes,
                                                 const char *what) {
    struct search_candidate *c = mt_new(&s->arena, struct search_candidate, 1);
    *c = (struct search_candidate){.work = work,
                                   .what = what,
                                   .why = "",
                                   .batch = mt_new(&s->arena, int64_t, s->nranks),
                                   .micro = mt_new(&s->arena, int64_t, s->nranks),
                                   .storage = mt_new(&s->arena, int64_t, s->nranks * s->nlabels + 1),
                                   .slower = mt_new(&s->arena, double, s->nclasses),
                                   .heavier = mt_new(&s->arena, int64_t, s->nclasses)};
    if (work) c->decisions = work->structure->decisions;
    c->decisions.bucket_bytes = bucket_bytes;
    for (int k = 0; k < s->nclasses; k++) c->slower[k] = 1;
    mt_arena_grow(&s->arena, &s->candidates, s->ncandidates, &s->capacity, sizeof *s->candidates);
    return s->candidates[s->ncandidates++] = c;
}

struct search_candidate *mt_search_like(struct mt_searching *s, const struct search_candidate *c, const char *what) {
    struct search_candidate *to = mt_search_new_candidate(s, c->work, c->decisions.bucket_bytes, what);
    to->decisions = c->decisions;
    size_t n = (size_t)s->nranks * sizeof(int64_t);
    memcpy(to->batch, c->batch, n);
    memcpy(to->micro, c->micro, n);
    memcpy(to->storage, c->storage, n * (size_t)s->nlabels);
    memcpy(to->slower, c->slower, (size_t)s->nclasses * sizeof *to->slower);
    memcpy(to->heavier, c->heavier, (size_t)s->nclasses * sizeof *to->heavier);
    to->later_s = c->later_s;
    return to;
}

/* ---- the problem ---- */

static struct mt_share_curve scaled(struct mt_arena *arena, const struct mt_share_curve *from, double by) {
    double *value = mt_new(arena, double, from->npoints + 1);
    for (int i = 0; i < from->npoints; i++) value[i] = by * from->value[i];
    return (struct mt_share_curve){from->npoints, from->at, value};
}

/* Seconds over samples in the best micro-batches, and bytes of what they hold. */
static void batch_curves(struct mt_searching *s, const struct search_candidate *c, int class, struct mt_arena *arena,
                         struct mt_share_curve *seconds, struct mt_share_curve *bytes) {
    const struct search_work *w = c->work;
    const struct mt_share_curve *samples = &w->curves[class].samples;
    int64_t most = samples->at[samples->npoints - 1];
    double *time_s = mt_new(arena, double, samples->npoints), *held = mt_new(arena, double, samples->npoints);
    if (w->body) most = mt_search_most_micro(s, w, class, s->unit / s->nranks, c->heavier[class]);
    bool memory = s->classes[class].memory_limit > 0 && w->arena.npoints;
    for (int i = 0; i < samples->npoints; i++) {
        int64_t share = samples->at[i], micro = share;
        time_s[i] = samples->value[i];
        if (w->body) micro = mt_search_micro(s, w, class, share, most, &time_s[i]);
        time_s[i] *= c->slower[class];
        if (memory) held[i] = mt_share_curve_at(&w->arena, micro) - mt_share_curve_at(&w->arena, 0);
    }
    *seconds = (struct mt_share_curve){samples->npoints, samples->at, time_s};
    *bytes = memory ? (struct mt_share_curve){samples->npoints, samples->at, held} : (struct mt_share_curve){0};
}

static void fill_class(struct mt_searching *s, const struct search_candidate *c, int k, struct problem *p) {
    const struct mt_balance *b = &p->balance;
    const struct search_curves *curves = &c->work->curves[k];
    const struct search_timeline *timeline = &p->timeline[k];
    int n = s->nclasses, rank = s->classes[k].rank;
    double *compute_fixed = p->compute_fixed, *comm_fixed = p->comm_fixed;
    struct mt_share_curve seconds, bytes, update = scaled(&p->arena, &curves->update, c->slower[k]);
    batch_curves(s, c, k, &p->arena, &seconds, &bytes);

    double part = timeline->compute_s > 0 ? fmin(timeline->ready_s / timeline->compute_s, 1) : 0;
    double later = fmin(c->later_s, 0); /* the timeline was too slow: shorten what it adds to computing */
    compute_fixed[PASSES * n + k] = c->slower[k] * curves->before_s + fmax(0, timeline->wait_s + later);
    later = fmin(0, timeline->wait_s + later);
    comm_fixed[TAIL * n + k] = fmax(0, timeline->tail_s + timeline->after_s + later + fmax(c->later_s, 0));
    comm_fixed[PASSES * n + k] = fmax(0, timeline->comm_end_s - timeline->tail_s - part * timeline->compute_s);
    double held = (double)curves->state_fixed + (double)c->heavier[k];
    if (s->classes[k].memory_limit > 0) held += mt_share_curve_at(&c->work->arena, 0);

    if (p->batch >= 0) {
        p->compute[(PASSES * b->nsplits + p->batch) * n + k] = seconds;
        p->comm[(PASSES * b->nsplits + p->batch) * n + k] = scaled(&p->arena, &seconds, part);
        p->memory[p->batch * n + k] = bytes;
    } else {
        double given_s = mt_share_curve_at(&seconds, c->batch[rank]);
        compute_fixed[PASSES * n + k] += given_s;
        comm_fixed[PASSES * n + k] += part * given_s;
        held += mt_share_curve_at(&bytes, c->batch[rank]);
    }
    if (p->storage >= 0) {
        p->compute[(p->update * b->nsplits + p->storage) * n + k] = update;
        p->memory[p->storage * n + k] = curves->state;
    } else {
        int64_t units = mt_search_units(s, c, rank);
        compute_fixed[p->update * n + k] += mt_share_curve_at(&update, units);
        held += mt_share_curve_at(&curves->state, units);
    }
    p->memory_fixed[k] = (int64_t)ceil(fmax(0, held));
    p->memory_limit[k] = s->classes[k].memory_limit;
}

static bool all_storage_given(const struct mt_searching *s) {
    for (int l = 0; l < s->nlabels; l++)
        if (!s->given_storage[l]) return false;
    return true;
}

static enum mt_status simulate_classes(struct mt_searching *s, const struct search_candidate *c,
                                       struct search_timeline *timeline) {
    int nmessages = c->work->work.nmessages;
    int *bucket = mt_calloc((size_t)nmessages + 1, sizeof *bucket);
    double *cost = mt_calloc((size_t)nmessages + 1, sizeof *cost);
    enum mt_status st = mt_search_messages(s, c, bucket, cost);
    for (int k = 0; k < s->nclasses && !st; k++) {
        int64_t share = 0, micro = 0; /* of its busiest rank */
        for (int r = 0; r < s->nranks; r++)
            if (s->class[r] == k && c->batch[r] >= share) share = c->batch[r], micro = c->micro[r];
        mt_search_simulate(s, c->work, k, share, micro, c->storage, bucket, cost, &timeline[k]);
    }
    free(bucket);
    free(cost);
    return st;
}

static bool stored_in_shares(const struct mt_work *w) {
    for (int l = 0; l < w->nlabels; l++)
        if (w->labels[l].state_bytes) return true;
    return false;
}

static enum mt_status make_problem(struct mt_searching *s, const struct search_candidate *c, struct problem *p) {
    int n = s->nclasses, nsplits = 0;
    *p = (struct problem){.batch = -1, .storage = -1};
    p->update = stored_in_shares(&c->work->work) ? UPDATE : PASSES;
    p->timeline = mt_new(&p->arena, struct search_timeline, n);
    enum mt_status st = simulate_classes(s, c, p->timeline);
    if (st) return st;
    struct mt_balance_split *splits = mt_new(&p->arena, struct mt_balance_split, 2);
    const struct mt_graph *g = s->search->graph;
    if (!s->search->fixed.shares) {
        p->batch = nsplits;
        splits[nsplits++] = (struct mt_balance_split){"batch", s->search->job->batch, g->labels[g->batch].align};
    }
    if (!all_storage_given(s)) {
        p->storage = nsplits;
        splits[nsplits++] = (struct mt_balance_split){"storage", s->unit, s->unit_align};
    }
    const char **names = mt_new(&p->arena, const char *, n);
    for (int k = 0; k < n; k++) names[k] = s->classes[k].name;
    p->compute = mt_new(&p->arena, struct mt_share_curve, SEARCH_NSTAGES * (nsplits + 1) * n);
    p->comm = mt_new(&p->arena, struct mt_share_curve, SEARCH_NSTAGES * (nsplits + 1) * n);
    p->compute_fixed = mt_new(&p->arena, double, SEARCH_NSTAGES *n);
    p->comm_fixed = mt_new(&p->arena, double, SEARCH_NSTAGES *n);
    p->memory = mt_new(&p->arena, struct mt_share_curve, (nsplits + 1) * n);
    p->memory_fixed = mt_new(&p->arena, int64_t, n);
    p->memory_limit = mt_new(&p->arena, int64_t, n);
    p->balance = (struct mt_balance){.nranks = s->nranks,
                                     .nclasses = n,
                                     .nsplits = nsplits,
                                     .nstages = SEARCH_NSTAGES,
                                     .class = s->class,
                                     .splits = splits,
                                     .stage_names = search_stage_names,
                                     .class_names = names,
                                     .compute = p->compute,
                                     .comm = p->comm,
                                     .compute_fixed = p->compute_fixed,
                                     .comm_fixed = p->comm_fixed,
                                     .memory = p->memory,
                                     .memory_fixed = p->memory_fixed,
                                     .memory_limit = p->memory_limit,
                                     .limit_s = fmax(0.05, s->end_s - mt_now_s())};
    for (int k = 0; k < n; k++) fill_class(s, c, k, p);
    return MT_OK;
}

static int64_t *sizes_of(const struct mt_searching *s, const struct search_candidate *c, struct problem *p) {
    int64_t *sizes = mt_new(&p->arena, int64_t, 2 * s->nranks);
    for (int r = 0; r < s->nranks; r++) {
        if (p->batch >= 0) sizes[(int64_t)p->batch * s->nranks + r] = c->batch[r];
        if (p->storage >= 0) sizes[(int64_t)p->storage * s->nranks + r] = mt_search_units(s, c, r);
    }
    return sizes;
}

enum mt_status mt_search_estimate(struct mt_searching *s, struct search_candidate *c) {
    struct problem p;
    enum mt_status st = make_problem(s, c, &p);
    if (!st) c->estimate_s = mt_balance_time(&p.balance, sizes_of(s, c, &p), NULL);
    mt_arena_release(&p.arena);
    return st;
}

/* The balance problem has the cost of storage in updates and memory, not that collectives with uneven blocks may take
 * longer: so mixtures of its shares and of even ones are estimated too. */
static enum mt_status mix_storage(struct mt_searching *s, struct search_candidate *c, const int64_t *units) {
    static const double evenness[] = {0, 0.5, 1};
    size_t n = (size_t)s->nranks * (size_t)s->nlabels;
    struct mt_arena arena = MT_ARENA_INIT;
    int64_t *mixed = mt_new(&arena, int64_t, s->nranks), *best = mt_new(&arena, int64_t, n + 1);
    double *weight = mt_new(&arena, double, s->nranks), best_s = INFINITY;
    int tries = stored_in_shares(&c->work->work) ? 3 : 1;
    enum mt_status st = MT_OK;
    for (int i = 0; i < tries && !st; i++) {
        for (int r = 0; r < s->nranks; r++)
            weight[r] = (1 - evenness[i]) * (double)units[r] + evenness[i] * (double)s->unit / s->nranks;
        if (i) st = mt_split_proportional(s->unit, s->unit_align, weight, s->nranks, mixed, s->err);
        if (st || (st = mt_search_divide_storage(s, i ? mixed : units, c->storage))) break;
        mt_search_set_micro(s, c);
        st = mt_search_estimate(s, c);
        if (i && !(c->estimate_s < best_s * (1 - 1e-6))) continue;
        best_s = c->estimate_s;
        memcpy(best, c->storage, n * sizeof *best);
    }
    memcpy(c->storage, best, n * sizeof *best);
    mt_search_set_micro(s, c);
    c->estimate_s = best_s;
    mt_arena_release(&arena);
    return st;
}

enum mt_status mt_search_balance(struct mt_searching *s, struct search_candidate *c, struct mt_balanced *balanced) {
    struct problem p;
    enum mt_status st = make_problem(s, c, &p);
    *balanced = (struct mt_balanced){.step_s = 0};
    if (!st && !p.balance.nsplits) c->estimate_s = mt_balance_time(&p.balance, sizes_of(s, c, &p), NULL);
    if (st || !p.balance.nsplits) goto out;
    const int64_t *start = sizes_of(s, c, &p);
    p.balance.nstarts = 1;
    p.balance.starts = &start;
    if ((st = mt_balance_solve(&p.balance, balanced, s->err))) goto out;
    if (p.batch >= 0)
        memcpy(c->batch, balanced->sizes + (int64_t)p.batch * s->nranks, (size_t)s->nranks * sizeof *c->batch);
    if (p.storage >= 0) {
        st = mix_storage(s, c, balanced->sizes + (int64_t)p.storage * s->nranks);
    } else {
        mt_search_set_micro(s, c);
        c->estimate_s = balanced->step_s;
    }
out:
    mt_arena_release(&p.arena);
    return st;
}
