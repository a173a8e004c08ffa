/* Balance: from a problem to shares, by the methods of the other files. */
#include "planner/balance/balance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/units.h"
#include "planner/balance/internal.h"
#include "planner/balance/split.h"

#define GOOD 1e-4    /* gap to the bound at which the search stops */
#define PROVEN 1e-11 /* gap that is rounding */
#define EXACT_TRIES 100000
#define EXACT_TRIES_RANK 2000
#define DESCENT_WORK 4000
#define DESCENT_WORK_RANK 600

double mt_balance_time(const struct mt_balance *p, const int64_t *sizes, double *stage_s) {
    bool fits = true;
    double step_s = 0;
    for (int k = 0; k < p->nstages; k++) {
        double most = 0;
        for (int r = 0; r < p->nranks; r++) {
            int c = p->class[r];
            double compute = p->compute_fixed[k * p->nclasses + c], comm = p->comm_fixed[k * p->nclasses + c];
            for (int s = 0; s < p->nsplits; s++) {
                int64_t share = sizes[(int64_t)s * p->nranks + r];
                int at = (k * p->nsplits + s) * p->nclasses + c;
                compute += mt_share_curve_at(&p->compute[at], share);
                comm += mt_share_curve_at(&p->comm[at], share);
            }
            most = fmax(most, fmax(compute, comm));
        }
        if (stage_s) stage_s[k] = most;
        step_s += most;
    }
    for (int r = 0; r < p->nranks; r++) {
        int c = p->class[r];
        double bytes = (double)p->memory_fixed[c];
        for (int s = 0; s < p->nsplits; s++)
            bytes += mt_share_curve_at(&p->memory[s * p->nclasses + c], sizes[(int64_t)s * p->nranks + r]);
        if (p->memory_limit[c] > 0 && bytes > (double)p->memory_limit[c] + 0.5) fits = false;
    }
    return fits ? step_s : INFINITY;
}

static enum mt_status check_start(const struct mt_balance *p, int start, struct mt_err *err) {
    for (int s = 0; s < p->nsplits; s++) {
        const int64_t *sizes = p->starts[start] + (int64_t)s * p->nranks;
        const struct mt_balance_split *split = &p->splits[s];
        int64_t sum = 0;
        int ragged = 0;
        for (int r = 0; r < p->nranks; r++) {
            if (sizes[r] < 0 || sizes[r] > split->extent)
                return mt_fail(err, MT_EINPUT, "start %d: rank %d has a share of %lld of split \"%s\", of %lld", start,
                               r, (long long)sizes[r], split->name, (long long)split->extent);
            sum += sizes[r];
            ragged += sizes[r] % split->align != 0;
        }
        if (sum != split->extent)
            return mt_fail(err, MT_EINPUT, "start %d: shares of split \"%s\" sum to %lld, not %lld", start, split->name,
                           (long long)sum, (long long)split->extent);
        if (ragged > 1)
            return mt_fail(err, MT_EINPUT, "start %d: %d shares of split \"%s\" are no multiples of %lld", start,
                           ragged, split->name, (long long)split->align);
    }
    return MT_OK;
}

/* Each split in proportion to the classes' speeds at an even share; even if `even`, or where a speed is not known. */
static void proportional(struct balance *b, bool even, int64_t *sizes) {
    const struct mt_balance *p = b->problem;
    double *speed = mt_calloc((size_t)p->nranks, sizeof *speed);
    for (int s = 0; s < b->nsplits; s++) {
        double share = fmax((double)b->extent[s] / p->nranks, (double)b->align[s]);
        bool known = !even;
        for (int r = 0; r < p->nranks; r++) {
            double time_s = 0;
            for (int k = 0; k < b->nstages; k++)
                time_s += mt_balance_curve_at(&b->compute[(k * b->nsplits + s) * b->nclasses + p->class[r]], share);
            speed[r] = time_s > 0 ? 1 / time_s : 0;
            known = known && isfinite(speed[r]) && speed[r] > 0;
        }
        for (int r = 0; !known && r < p->nranks; r++) speed[r] = 1;
        struct mt_err ignored = MT_ERR_INIT; /* extents and speeds have been checked */
        mt_split_proportional(b->extent[s], b->align[s], speed, p->nranks, sizes + (int64_t)s * p->nranks, &ignored);
    }
    free(speed);
}

/* Totals of classes from their average shares: whole and aligned, by largest remainder. */
static void round_totals(const struct balance *b, const double *share, int64_t *total) {
    double *weight = mt_calloc((size_t)b->nclasses, sizeof *weight);
    for (int s = 0; s < b->nsplits; s++) {
        double sum = 0;
        for (int c = 0; c < b->nclasses; c++)
            sum += weight[c] = fmax(0, share[s * b->nclasses + c]) * (double)b->nranks[c];
        for (int c = 0; sum <= 0 && c < b->nclasses; c++) weight[c] = (double)b->nranks[c];
        struct mt_err ignored = MT_ERR_INIT;
        mt_split_proportional(b->extent[s], b->align[s], weight, b->nclasses, total + s * b->nclasses, &ignored);
    }
    free(weight);
}

/* The best so far, and what may be spent. */
struct pursuit {
    struct balance *b;
    struct balance_state best, at;
    int64_t *sizes, *total; /* of one division */
    int64_t most_work;      /* of one descent */
};

static void keep(struct pursuit *w) {
    if (!w->best.ngroups || mt_balance_better(&w->at, &w->best)) mt_balance_state_copy(&w->at, &w->best);
}

/* The step of a division that is given, which is kept if it is the best. */
static double consider(struct pursuit *w, const int64_t *sizes) {
    mt_balance_state_from(w->b, sizes, &w->at);
    keep(w);
    return w->at.over > 0 ? INFINITY : w->at.step_s;
}

static void from_sizes(struct pursuit *w, const int64_t *sizes) {
    mt_balance_state_from(w->b, sizes, &w->at);
    mt_balance_descend(w->b, &w->at, w->most_work / 2); /* rarely the best start */
    keep(w);
}

static void from_totals(struct pursuit *w) {
    mt_balance_state_of_totals(w->b, w->total, &w->at);
    keep(w);
    mt_balance_descend(w->b, &w->at, w->most_work);
    keep(w);
}

/* Names the class whose rank exceeds its memory most, in the division that exceeds it least. */
static enum mt_status does_not_fit(const struct balance *b, const struct balance_state *best, struct mt_err *err) {
    const struct balance_group *worst = &best->groups[0];
    for (int g = 1; g < best->ngroups; g++)
        if (best->groups[g].over > worst->over) worst = &best->groups[g];
    const char *class = b->problem->class_names[worst->class];
    int64_t limit = b->problem->memory_limit[worst->class];
    if (!(worst->over > 0)) return mt_fail(err, MT_EINPUT, "no shares were found that fit into memory");
    double bytes = mt_balance_memory(b, worst->class, worst->x);
    char need[MT_UNITS_TEXT], have[MT_UNITS_TEXT], lack[MT_UNITS_TEXT];
    mt_fail(err, MT_EINPUT, "no shares fit into memory: at best, a rank of class \"%s\" needs %s, has %s and lacks %s",
            class, mt_units_bytes(bytes, need), mt_units_bytes((double)limit, have),
            mt_units_bytes(bytes - (double)limit, lack));
    return mt_err_hint(
        err, "more ranks, less memory a rank (smaller micro-batches, sharded optimizer state), or more memory");
}

static bool reached(const struct pursuit *w, double step_s) {
    return w->best.over <= 0 && w->best.step_s <= step_s;
}

/* From all starts, then by exact methods where they are cheap. Returns whether the best is proven optimal. */
static bool pursue(struct pursuit *w, const struct balance_relaxed *relaxed, double least_s) {
    struct balance *b = w->b;
    const struct mt_balance *p = b->problem;
    double proven_s = least_s * (1 + PROVEN), good_s = relaxed->bound_s * (1 + GOOD);
    if (mt_balance_bisect(b, &w->at)) {
        keep(w);
        if (reached(w, proven_s)) return true;
    }
    round_totals(b, relaxed->share, w->total);
    from_totals(w);
    if (reached(w, proven_s)) return true;
    for (int i = 0; i < p->nstarts; i++) from_sizes(w, p->starts[i]);
    for (int even = 0; even < 2; even++) {
        proportional(b, even, w->sizes);
        from_sizes(w, w->sizes);
    }
    if (reached(w, proven_s)) return true;
    if (reached(w, good_s)) return false;
    int64_t tries = EXACT_TRIES + EXACT_TRIES_RANK * p->nranks;
    if (mt_balance_exact(b, &w->best, tries)) return true;
    double before_s = w->best.step_s;
    struct mt_err ignored = MT_ERR_INIT; /* it is one start of several */
    if (!mt_balance_integers(b, w->best.step_s > 0 ? w->best.step_s : 1, w->total, &ignored)) from_totals(w);
    mt_balance_kick(b, &w->best, fmax(good_s, proven_s), w->most_work);
    if (reached(w, proven_s)) return true;
    return w->best.step_s < before_s && mt_balance_exact(b, &w->best, tries);
}

static void finish(struct pursuit *w, const struct balance_relaxed *relaxed, bool exact, struct mt_balanced *out) {
    const struct mt_balance *p = w->b->problem;
    out->sizes = mt_new(&out->arena, int64_t, (int64_t)p->nsplits * p->nranks);
    out->stage_s = mt_new(&out->arena, double, p->nstages);
    mt_balance_state_sizes(w->b, &w->best, out->sizes);
    out->step_s = mt_balance_time(p, out->sizes, out->stage_s);
    /* A start may be better by a rounding error. */
    for (int i = 0; i < p->nstarts; i++) {
        if (mt_balance_time(p, p->starts[i], NULL) >= out->step_s) continue;
        memcpy(out->sizes, p->starts[i], (size_t)p->nsplits * (size_t)p->nranks * sizeof *out->sizes);
        out->step_s = mt_balance_time(p, out->sizes, out->stage_s);
    }
    out->exact = exact;
    out->bound_s = exact ? out->step_s : fmin(relaxed->bound_s, out->step_s);
    out->nbindings = relaxed->nbindings;
    out->bindings =
        mt_arena_memdup(&out->arena, relaxed->bindings, (size_t)relaxed->nbindings * sizeof *relaxed->bindings);
    out->work = w->b->work;
}

enum mt_status mt_balance_solve(const struct mt_balance *problem, struct mt_balanced *out, struct mt_err *err) {
    struct balance b;
    struct balance_relaxed relaxed;
    *out = (struct mt_balanced){.arena = MT_ARENA_INIT};
    if (mt_balance_prepare(&b, problem, err)) return err->status;
    struct pursuit w = {.b = &b, .most_work = DESCENT_WORK + DESCENT_WORK_RANK * problem->nranks};
    w.sizes = mt_new(&b.arena, int64_t, (int64_t)problem->nsplits * problem->nranks);
    w.total = mt_new(&b.arena, int64_t, b.nsplits * b.nclasses);
    enum mt_status st = MT_OK;
    for (int i = 0; i < problem->nstarts && !st; i++)
        if (!(st = check_start(problem, i, err))) consider(&w, problem->starts[i]);
    if (st) goto out;
    proportional(&b, true, w.sizes);
    out->even_s = consider(&w, w.sizes);
    proportional(&b, false, w.sizes);
    out->proportional_s = consider(&w, w.sizes);
    st = mt_balance_relax(&b, w.best.step_s > 0 ? w.best.step_s : 1, &relaxed, err);
    if (st == MT_EINPUT) { /* infeasible: only memory rows can be */
        from_sizes(&w, w.sizes);
        st = does_not_fit(&b, &w.best, err);
    }
    if (st) goto out;
    double least_s = mt_balance_least_times(&b);
    bool exact = pursue(&w, &relaxed, least_s);
    relaxed.bound_s = fmax(relaxed.bound_s, least_s);
    if (w.best.over > 0)
        st = does_not_fit(&b, &w.best, err);
    else
        finish(&w, &relaxed, exact, out);
out:
    mt_balance_state_release(&w.best);
    mt_balance_state_release(&w.at);
    mt_arena_release(&b.arena);
    if (st) mt_arena_release(&out->arena);
    return st;
}
