/* What the search tries: which structures, in which order, and when it stops.
 *
 * The effort of evaluations is counted in operators that are lowered, not timed, so that equal input gives an equal
 * plan. Small jobs have some dozens of evaluations, the largest one or two. */
#include "planner/search/search.h"

#include <math.h>
#include <string.h>

#include "kernels/base/text/units.h"
#include "kernels/base/wait.h"
#include "planner/balance/split.h"
#include "planner/search/internal.h"

static const double hopeless = 1.15;     /* times the best: not evaluated when its estimate says so */
static const double worth_solving = 1.3; /* times the best: not balanced when it is slower in proportional shares */
enum { MOST_REPAIRS = 5, MOST_POLISH = 24, MOST_BUCKETS = 9, FEW_OPS = 1000 };

static int64_t evaluation_work(const struct mt_searching *s) {
    int64_t different = s->nranks < 3 * s->nclasses ? s->nranks : 3 * s->nclasses;
    return s->search->graph->nops * (different + s->nranks / 50 + 1);
}

int64_t mt_search_work_done(const struct mt_searching *s) {
    return s->nevaluated * evaluation_work(s);
}

static bool affordable(const struct mt_searching *s, int64_t part) {
    return (s->nevaluated + 1) * evaluation_work(s) <= s->most_work / part && mt_now_s() < s->end_s;
}

/* ---- candidates ---- */

/* Buckets that make a difference: none; from a small part of all gradients, at most 1 MiB; up to the first that takes
 * all. */
static int bucket_sizes(const struct mt_searching *s, int64_t *sizes) {
    int64_t all = mt_graph_parameters(s->search->graph) * mt_type_size(s->search->graph->acc), size = 1 << 14;
    int n = 0;
    int64_t fixed = s->search->fixed.decisions.bucket_bytes;
    if (fixed >= 0) return sizes[0] = fixed, 1;
    if (s->nranks > 1 && s->search->graph->nops <= FEW_OPS) sizes[n++] = 0;
    while (size < 1 << 20 && size < all / 16) size *= 4;
    for (; n < MOST_BUCKETS; size *= 4) {
        sizes[n++] = size;
        if (size >= all || s->nranks == 1) break;
        if (size < 256 << 20) continue;
        while (size < all) size *= 2;
        sizes[n++] = size;
        break;
    }
    return n;
}

static const char *describe(struct mt_searching *s, const struct search_work *w, int64_t bucket_bytes) {
    char text[MT_UNITS_TEXT];
    mt_units_bytes((double)bucket_bytes, text);
    if (s->nranks == 1) return mt_arena_printf(&s->arena, "one rank%s", w->body ? ", micro-batches" : "");
    return mt_arena_printf(&s->arena, "%s, %s%s%s", w->structure->what, bucket_bytes ? "buckets of " : "no buckets",
                           bucket_bytes ? text : "", w->body ? ", micro-batches" : "");
}

/* Whether a share in one piece exceeds some rank's memory, or would be faster in micro-batches. */
static enum mt_status wants_body(struct mt_searching *s, const struct search_candidate *c, bool *wants) {
    *wants = false;
    if (s->search->job->batch < 2 || !c || !c->work->structure->by_batch) return MT_OK;
    struct search_work *w = c->work;
    if (s->search->fixed.micro) {
        for (int r = 0; r < s->nranks; r++) *wants |= s->search->fixed.micro[r] < s->search->job->batch;
        return MT_OK;
    }
    for (int k = 0; k < s->nclasses; k++) {
        int64_t share = c->batch[s->classes[k].rank];
        const struct mt_share_curve *samples = &w->curves[k].samples;
        if (share >= 4)
            *wants |= mt_share_curve_at(samples, share) > 1.03 * 2 * mt_share_curve_at(samples, share / 2 + share % 2);
        if (w->arena.npoints) *wants |= mt_search_most_micro(s, w, k, s->unit / s->nranks, 0) < share + share / 4;
    }
    return MT_OK;
}

static enum mt_status add_candidates(struct mt_searching *s, struct search_work *w) {
    int64_t sizes[MOST_BUCKETS + 1];
    int n = bucket_sizes(s, sizes);
    for (int i = 0; i < n; i++) {
        struct search_candidate *c = mt_search_new_candidate(s, w, sizes[i], describe(s, w, sizes[i]));
        enum mt_status st = mt_search_simple_shares(s, c, false, true);
        if (st || (st = mt_search_estimate(s, c))) return st;
    }
    return MT_OK;
}

/* Every rank holds all of the replicated state. */
static bool state_fits(struct mt_searching *s, const struct search_work *w) {
    char needs[MT_UNITS_TEXT], has[MT_UNITS_TEXT];
    for (int k = 0; k < s->nclasses; k++) {
        int64_t limit = s->classes[k].memory_limit, held = w->curves[k].state_fixed;
        if (!limit || held <= limit) continue;
        if (s->why.status) return false; /* the solver's message about another structure says more */
        mt_fail(&s->why, MT_EINPUT,
                "the state alone does not fit into memory: a rank of %s would hold %s of it, and has %s (%s)",
                s->classes[k].name, mt_units_bytes((double)held, needs), mt_units_bytes((double)limit, has),
                w->structure->what);
        return false;
    }
    return true;
}

/* The best estimate that has not been evaluated; of `work` alone if not null. */
static struct search_candidate *next_candidate(const struct mt_searching *s, const struct search_work *work) {
    struct search_candidate *best = NULL;
    for (int i = 0; i < s->ncandidates; i++) {
        struct search_candidate *c = s->candidates[i];
        if (c->evaluated || c->tried || (work && c->work != work) || !(c->estimate_s > 0)) continue;
        if (!best || c->estimate_s < best->estimate_s) best = c;
    }
    return best;
}

static void set_aside(struct mt_searching *s, const struct search_work *w) {
    for (int i = 0; i < s->ncandidates; i++)
        if (s->candidates[i]->work == w) s->candidates[i]->estimate_s = INFINITY;
}

/* Solve for the shares of a work's best estimate, and take them over for its other buckets. */
static enum mt_status balance_work(struct mt_searching *s, struct search_work *w) {
    struct search_candidate *lead = next_candidate(s, w);
    struct mt_balanced balanced;
    struct mt_err why = MT_ERR_INIT, *err = s->err;
    if (!lead) return MT_OK;
    s->err = &why; /* that nothing fits is no failure as long as another structure does */
    enum mt_status st = mt_search_balance(s, lead, &balanced);
    s->err = err;
    mt_arena_release(&balanced.arena);
    if (st == MT_EINPUT) {
        s->why = why;
        set_aside(s, w);
        return MT_OK;
    }
    if (st) return *err = why, st;
    for (int i = 0; i < s->ncandidates; i++) {
        struct search_candidate *c = s->candidates[i];
        if (c == lead || c->work != w) continue;
        memcpy(c->batch, lead->batch, (size_t)s->nranks * sizeof *c->batch);
        memcpy(c->micro, lead->micro, (size_t)s->nranks * sizeof *c->micro);
        memcpy(c->storage, lead->storage, (size_t)(s->nranks * s->nlabels) * sizeof *c->storage);
        if ((st = mt_search_estimate(s, c))) return st;
    }
    return MT_OK;
}

/* Balance what a structure's works are, in one piece and, where that is wanted, in micro-batches. */
static enum mt_status balance_structure(struct mt_searching *s, int structure) {
    struct search_work *w = s->works[2 * structure];
    struct search_candidate *first = next_candidate(s, w);
    bool body = false, memory = mt_search_memory_matters(s);
    enum mt_status st;
    if (!state_fits(s, w)) return set_aside(s, w), MT_OK;
    if ((memory && (st = mt_search_open_memory(s, w, mt_search_memory_buckets(s)))) ||
        (st = wants_body(s, first, &body)) || (st = balance_work(s, w)) || !body)
        return st;
    if ((st = mt_search_open_work(s, structure, true, &w))) return st;
    if (memory && (st = mt_search_open_memory(s, w, mt_search_memory_buckets(s)))) return st;
    return (st = add_candidates(s, w)) ? st : balance_work(s, w);
}

static double least_estimate(const struct mt_searching *s, const struct search_work *w) {
    const struct search_candidate *c = next_candidate(s, w);
    return c ? c->estimate_s : INFINITY;
}

/* All structures by estimates of proportional shares; then, the most promising first, those are balanced that may
 * still win. */
static enum mt_status balance_structures(struct mt_searching *s) {
    bool done[SEARCH_MOST_STRUCTURES] = {false};
    double best_s = INFINITY;
    enum mt_status st = MT_OK;
    for (int i = 0; i < s->nstructures && !st; i++) {
        struct search_work *w;
        if (!(st = mt_search_open_work(s, i, false, &w))) st = add_candidates(s, w);
    }
    for (int round = 0; round < s->nstructures && !st; round++) {
        int next = -1;
        for (int i = 0; i < s->nstructures; i++)
            if (!done[i] && (next < 0 || least_estimate(s, s->works[2 * i]) < least_estimate(s, s->works[2 * next])))
                next = i;
        done[next] = true;
        if (least_estimate(s, s->works[2 * next]) > worth_solving * best_s) continue;
        if ((st = balance_structure(s, next))) break;
        best_s = fmin(best_s, least_estimate(s, s->works[2 * next]));
        if (s->works[2 * next + 1]) best_s = fmin(best_s, least_estimate(s, s->works[2 * next + 1]));
    }
    return st;
}

/* ---- evaluating ---- */

/* Solve with the corrections of the evaluation, and evaluate: once, or until the memory limits are kept. */
static enum mt_status improve(struct mt_searching *s, struct search_candidate *c) {
    if (c->step_s > hopeless * s->known_s) return MT_OK;
    for (int i = 0; i < MOST_REPAIRS; i++) {
        if (c->fits && (i > 1 || !affordable(s, 1))) break;
        struct search_candidate *again = mt_search_like(s, c, c->what);
        struct mt_balanced balanced;
        struct mt_err why = MT_ERR_INIT, *err = s->err;
        enum mt_status st = mt_search_estimate(s, again);
        if (st) return st;
        if (c->fits && isfinite(again->estimate_s)) again->later_s += c->step_s - again->estimate_s;
        s->err = &why;
        st = mt_search_balance(s, again, &balanced);
        s->err = err;
        mt_arena_release(&balanced.arena);
        if (st == MT_EINPUT) { /* nothing fits, now that it is known better */
            again->estimate_s = 0;
            s->why = why;
            return MT_OK;
        }
        if (st) return *err = why, st;
        if ((st = mt_search_evaluate(s, again))) return st;
        if (again->same || (c->fits && again->step_s >= c->step_s)) break;
        c = again;
    }
    return MT_OK;
}

static enum mt_status evaluate(struct mt_searching *s, struct search_candidate *c) {
    enum mt_status st = mt_search_evaluate(s, c);
    return st ? st : improve(s, c);
}

static enum mt_status evaluate_simple_like(struct mt_searching *s, const struct search_candidate *like) {
    static const char *const names[] = {"proportional shares", "even shares"};
    for (int even = 0; even < 2; even++) {
        struct search_candidate *c = mt_search_like(s, like, names[even]);
        enum mt_status st = mt_search_simple_shares(s, c, even, even);
        if (st || (st = mt_search_estimate(s, c))) return st;
        bool near = like == s->best && c->estimate_s < hopeless * s->best->step_s;
        if ((near || affordable(s, 1)) && (st = mt_search_evaluate(s, c))) return st;
    }
    return MT_OK;
}

/* Even and proportional shares: in the best's structure; in the others as far as they can be afforded. */
static enum mt_status evaluate_simple(struct mt_searching *s) {
    const struct search_candidate *best = s->best;
    if (s->search->fixed.shares || s->nranks == 1 || !best || !s->most_work) return MT_OK;
    if (best->step_s > hopeless * s->known_s) return MT_OK;
    enum mt_status st = evaluate_simple_like(s, best);
    int n = s->ncandidates;
    for (int i = 0; i < 2 * s->nstructures && !st; i++) {
        const struct search_candidate *like = NULL;
        for (int k = 0; k < n && s->works[i] != best->work; k++) {
            const struct search_candidate *c = s->candidates[k];
            if (c->work == s->works[i] && isfinite(mt_search_time(c)) &&
                (!like || mt_search_time(c) < mt_search_time(like)))
                like = c;
        }
        if (like && affordable(s, 1)) st = evaluate_simple_like(s, like);
    }
    return st;
}

static enum mt_status evaluate_candidates(struct mt_searching *s) {
    struct search_candidate *c = next_candidate(s, NULL);
    while (c) {
        bool first = !s->best;
        double best_s = first ? INFINITY : fmax(s->best->estimate_s, s->best->step_s);
        if (!first && (!affordable(s, 2) || c->estimate_s > hopeless * best_s)) break;
        if (isinf(c->estimate_s)) break;
        enum mt_status st =
            first || c->estimate_s < 1.05 * s->best->estimate_s ? evaluate(s, c) : mt_search_evaluate(s, c);
        if (st) return st;
        c->tried = true;
        c = next_candidate(s, NULL);
    }
    return MT_OK;
}

/* One unit from the busiest to those that idle, as long as it helps. */
static enum mt_status polish(struct mt_searching *s) {
    int64_t align = s->search->graph->labels[s->search->graph->batch].align;
    if (s->search->fixed.shares || s->nranks == 1) return MT_OK;
    for (int moves = 0, failed = 0; moves < MOST_POLISH && failed < 3 && affordable(s, 1); moves++) {
        const struct search_candidate *best = s->best;
        const struct mt_rank_prediction *ranks = best->prediction.ranks;
        int from = -1, to = -1;
        for (int r = 0; r < s->nranks; r++)
            if (best->batch[r] >= align && (from < 0 || ranks[r].idle_s < ranks[from].idle_s)) from = r;
        for (int skip = 0, last = -1; skip <= failed; skip++, last = to) {
            to = -1;
            for (int r = 0; r < s->nranks; r++) {
                bool later = last < 0 || ranks[r].idle_s < ranks[last].idle_s ||
                             (ranks[r].idle_s == ranks[last].idle_s && r > last);
                if (r != from && later && (to < 0 || ranks[r].idle_s > ranks[to].idle_s)) to = r;
            }
            if (to < 0) break;
        }
        if (from < 0 || to < 0) break;
        struct search_candidate *c = mt_search_like(s, best, best->what);
        c->batch[from] -= align;
        c->batch[to] += align;
        mt_search_set_micro(s, c);
        enum mt_status st = mt_search_evaluate(s, c);
        if (st) return st;
        failed = s->best == best ? failed + 1 : 0;
    }
    return MT_OK;
}

/* Sizes of buckets that are tried rise fourfold: half and twice the best's. */
static enum mt_status evaluate_near_buckets(struct mt_searching *s) {
    int64_t middle = s->best->decisions.bucket_bytes, sizes[] = {middle / 2, middle * 2};
    if (s->search->fixed.decisions.bucket_bytes >= 0 || s->nranks == 1 || !middle) return MT_OK;
    for (int i = 0; i < 2 && affordable(s, 1); i++) {
        struct search_candidate *c = mt_search_like(s, s->best, describe(s, s->best->work, sizes[i]));
        c->decisions.bucket_bytes = sizes[i];
        enum mt_status st = mt_search_evaluate(s, c);
        if (st) return st;
    }
    return MT_OK;
}

/* Where collectives are the bottleneck, one that waits for attention delays all after it. What attention saves by
 * yielding multiprocessors is not in the prediction, so the full start must be faster by a margin. */
static enum mt_status evaluate_full_start(struct mt_searching *s) {
    bool fixed = s->search->fixed.decisions.start >= 0, full = s->best->decisions.start == MT_START_FULL;
    if (fixed || full || s->nranks == 1 || !affordable(s, 1)) return MT_OK;
    struct search_candidate *c = mt_search_like(s, s->best, "buckets that start when they are full");
    c->decisions.start = MT_START_FULL;
    c->needs_margin = true;
    enum mt_status st = mt_search_evaluate(s, c);
    if (!st && c->fits && c != s->best && c->step_s < s->best->step_s) c->why = "faster by less than 1%";
    return st;
}

/* ---- the last plan ---- */

/* The last plan's shares: in its own structure where that is looked at, else in the best's. */
static enum mt_status evaluate_last(struct mt_searching *s) {
    const struct mt_plan *last = s->search->last;
    const struct mt_plan_fixed *fixed = &s->search->fixed;
    struct mt_decisions rows;
    if (!last || last->nranks != s->nranks || fixed->shares || fixed->micro || fixed->nstorage_shares) return MT_OK;
    struct search_candidate *c = s->best
                                     ? mt_search_like(s, s->best, "the last plan")
                                     : mt_search_new_candidate(s, NULL, last->decisions.bucket_bytes, "the last plan");
    if (!mt_search_take_shares(s, last, c)) return s->ncandidates--, MT_OK;
    bool known = mt_search_rows_of(last, &rows);
    bool body = false;
    for (int r = 0; r < s->nranks; r++) body |= c->micro[r] < c->batch[r];
    for (int i = 0; i < s->nstructures; i++) {
        if (!known || !mt_decisions_same_rows(&s->structures[i].decisions, &rows)) continue;
        enum mt_status st = mt_search_open_work(s, i, body, &c->work);
        if (st) return st;
        int64_t bucket_bytes = c->decisions.bucket_bytes;
        c->decisions = s->structures[i].decisions;
        c->decisions.bucket_bytes = fixed->decisions.bucket_bytes < 0 ? last->decisions.bucket_bytes : bucket_bytes;
        mt_decisions_take(&c->decisions, &last->decisions, &fixed->decisions);
    }
    if (!c->work) return s->ncandidates--, MT_OK;
    enum mt_status st = mt_search_evaluate(s, c);
    return st ? st : improve(s, c);
}

/* ---- the whole ---- */

static enum mt_status finish(struct mt_searching *s, bool rejected, struct mt_search_report *report) {
    if (mt_search_check_algorithms(s)) return s->err->status;
    mt_search_fill_plan(s, 0);
    if (rejected) mt_search_fill_rejected(s, s->plan);
    if (report) mt_search_fill_report(s, report);
    return MT_OK;
}

/* ---- little memory ---- */

/* What a class's rank has for state, if a micro-batch of one needs somewhat less than the curve says. */
static double room_for_state(const struct mt_searching *s, const struct search_work *w, int class) {
    static const double estimate_may_be_above = 0.75; /* the program's memory over the curve's */
    int64_t limit = s->classes[class].memory_limit;
    double held = (double)w->curves[class].state_fixed + estimate_may_be_above * mt_share_curve_at(&w->arena, 1);
    return limit ? fmax(0, (double)limit - held) : INFINITY;
}

/* State in proportion to the room for it, samples to speeds, in the smallest micro-batches. False where all rooms are
 * too small. */
static bool least_memory(struct mt_searching *s, struct search_candidate *c) {
    const struct search_work *w = c->work;
    double *room = mt_new(&s->arena, double, s->nranks), sum = 0, state = 0;
    int64_t *units = mt_new(&s->arena, int64_t, s->nranks);
    for (int l = 0; l < w->work.nlabels; l++) state += (double)w->work.labels[l].state_bytes;
    for (int r = 0; r < s->nranks; r++) {
        room[r] = fmin(room_for_state(s, w, s->class[r]), state + 1);
        sum += room[r];
        if (!state && room[r] <= 0) return false;
    }
    if (sum < state || mt_search_simple_shares(s, c, false, true)) return false;
    if (sum > 0 && (mt_split_proportional(s->unit, s->unit_align, room, s->nranks, units, s->err) ||
                    mt_search_divide_storage(s, units, c->storage)))
        return false;
    for (int r = 0; r < s->nranks; r++)
        if (w->body) c->micro[r] = c->batch[r] ? 1 : 0;
    return true;
}

/* Nothing fits by estimates of memory, which may be too high: programs that need the least say how much they need, and
 * shares are balanced by that. */
static enum mt_status evaluate_least_memory(struct mt_searching *s) {
    int64_t sizes[MOST_BUCKETS + 1];
    if (s->best || !mt_search_memory_matters(s)) return MT_OK;
    bucket_sizes(s, sizes);
    for (int i = 2 * s->nstructures - 1; i >= 0 && !s->best && mt_now_s() < s->end_s; i--) {
        struct search_work *w;
        bool body = i % 2;
        if (body && s->search->job->batch < 2) continue;
        enum mt_status st = mt_search_open_work(s, i / 2, body, &w);
        if (st || (st = mt_search_open_memory(s, w, mt_search_memory_buckets(s)))) return st;
        struct search_candidate *c = mt_search_new_candidate(s, w, sizes[0], describe(s, w, sizes[0]));
        if (!least_memory(s, c)) continue;
        if ((st = evaluate(s, c))) return st;
    }
    return MT_OK;
}

static enum mt_status nothing_fits(struct mt_searching *s) {
    if (s->why.status) return *s->err = s->why, s->why.status;
    for (int i = 0; i < s->ncandidates; i++)
        if (s->candidates[i]->evaluated)
            return mt_fail(s->err, MT_EINPUT, "no plan was found that fits into memory: %s %s", s->candidates[i]->what,
                           s->candidates[i]->why);
    return mt_fail(s->err, MT_EBUG, "the search has no candidate");
}

enum mt_status mt_search_explore(struct mt_searching *s, bool again, struct mt_search_report *report) {
    enum mt_status st;
    if (report) *report = (struct mt_search_report){.ncandidates = 0};
    if ((st = balance_structures(s)) || (st = evaluate_candidates(s)) || (st = evaluate_least_memory(s))) return st;
    if (!again && ((st = evaluate_simple(s)) || (st = evaluate_last(s)))) return st;
    if (!s->best) return nothing_fits(s);
    bool may_win = s->best->step_s <= hopeless * s->known_s;
    if (may_win && ((st = evaluate_near_buckets(s)) || (st = polish(s)) || (st = evaluate_full_start(s)))) return st;
    return finish(s, !again, report);
}
