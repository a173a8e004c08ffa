/* Bottlenecks, and the candidates that were evaluated or estimated. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/search/internal.h"

void mt_search_report_release(struct mt_search_report *report) {
    mt_arena_release(&report->arena);
    *report = (struct mt_search_report){.nbindings = 0};
}

/* ---- candidates ---- */

double mt_search_time(const struct search_candidate *c) {
    if (c->evaluated) return c->fits ? c->step_s : INFINITY;
    return c->estimate_s > 0 ? c->estimate_s : INFINITY;
}

/* At equal times evaluated candidates first, so that equal ones are listed once. */
static int by_time(const void *a, const void *b) {
    const struct search_candidate *x = *(struct search_candidate *const *)a, *y = *(struct search_candidate *const *)b;
    double s = mt_search_time(x), t = mt_search_time(y);
    if (s != t) return s < t ? -1 : 1;
    if (x->evaluated != y->evaluated) return x->evaluated ? -1 : 1;
    return strcmp(x->what, y->what);
}

/* In order of time, each name once, by its best; the one that was taken first. Returns how many. */
static int ordered(struct mt_searching *s, struct search_candidate **list) {
    int n = 0;
    struct search_candidate **all = mt_calloc((size_t)s->ncandidates + 1, sizeof(struct search_candidate *));
    memcpy(all, s->candidates, (size_t)s->ncandidates * sizeof(struct search_candidate *));
    qsort(all, (size_t)s->ncandidates, sizeof(struct search_candidate *), by_time);
    if (s->best) list[n++] = s->best;
    for (int i = 0; i < s->ncandidates; i++) {
        bool listed = all[i] == s->best || (all[i]->same && all[i]->same == s->best);
        for (int k = 0; k < n && !listed; k++) listed = !strcmp(list[k]->what, all[i]->what);
        if (!listed && (all[i]->evaluated || all[i]->estimate_s > 0)) list[n++] = all[i];
    }
    free(all);
    return n;
}

static const char *why_of(const struct mt_searching *s, const struct search_candidate *c) {
    if (c == s->best) return "";
    if (!c->evaluated) return isinf(c->estimate_s) ? "does not fit by estimate" : "slower by estimate";
    return c->why;
}

static double step_of(const struct search_candidate *c) {
    double t = mt_search_time(c);
    return isinf(t) ? 0 : t;
}

/* 0 for an estimate below the best's evaluated step: estimates compare with estimates, and by those it was slower. */
static double listed_s(const struct mt_searching *s, const struct search_candidate *c) {
    double t = step_of(c);
    return c->evaluated || t >= s->best->step_s ? t : 0;
}

void mt_search_fill_rejected(struct mt_searching *s, struct mt_plan *p) {
    struct search_candidate **list = mt_calloc((size_t)s->ncandidates + 1, sizeof(struct search_candidate *));
    int n = ordered(s, list);
    struct mt_plan_prediction *to = p->prediction;
    to->rejected = mt_new(&p->arena, struct mt_plan_rejected, n);
    for (int timed = 1; timed >= 0; timed--)
        for (int i = 1; i < n; i++)
            if ((listed_s(s, list[i]) > 0) == timed)
                to->rejected[to->nrejected++] =
                    (struct mt_plan_rejected){mt_arena_strdup(&p->arena, list[i]->what),
                                              mt_arena_strdup(&p->arena, why_of(s, list[i])), listed_s(s, list[i])};
    free(list);
}

static void list_candidates(struct mt_searching *s, struct mt_search_report *report) {
    struct search_candidate **list = mt_calloc((size_t)s->ncandidates + 1, sizeof(struct search_candidate *));
    int n = ordered(s, list);
    report->candidates = mt_new(&report->arena, struct mt_search_alternative, n);
    for (int i = 0; i < n; i++)
        report->candidates[report->ncandidates++] = (struct mt_search_alternative){
            mt_arena_strdup(&report->arena, list[i]->what), mt_arena_strdup(&report->arena, why_of(s, list[i])),
            isfinite(list[i]->estimate_s) ? list[i]->estimate_s : 0,
            list[i]->evaluated && list[i]->fits ? list[i]->step_s : 0};
    free(list);
}

/* ---- bottlenecks ---- */

static const char *text_of(const struct mt_searching *s, const struct mt_search_binding *b, struct mt_arena *arena) {
    if (b->kind == MT_BINDS_COMM)
        return b->link >= 0 ? mt_arena_printf(arena, "link %s", s->costs.cluster->links[b->link].name)
                            : mt_arena_strdup(arena, "communication");
    return mt_arena_printf(arena, "%s of %s", b->kind == MT_BINDS_MEMORY ? "memory" : "compute",
                           s->classes[s->class[b->rank]].name);
}

static int by_saving(const void *a, const void *b) {
    double x = ((const struct mt_search_binding *)a)->saves_s, y = ((const struct mt_search_binding *)b)->saves_s;
    return (x < y) - (x > y);
}

/* Stages of one resource are added up. */
static void list_bindings(const struct mt_searching *s, const struct mt_balanced *balanced,
                          struct mt_search_report *report) {
    int link = mt_cost_link(&s->costs, s->everybody, s->nranks);
    report->bindings = mt_new(&report->arena, struct mt_search_binding, balanced->nbindings + s->nclasses + 1);
    for (int i = 0; i < balanced->nbindings; i++) {
        const struct mt_binding *from = &balanced->bindings[i];
        bool comm = from->kind == MT_BINDS_COMM;
        struct mt_search_binding to = {.kind = from->kind,
                                       .rank = from->class >= 0 && !comm ? s->classes[from->class].rank : 0,
                                       .link = comm ? link : -1,
                                       .saves_s = from->dual};
        int k = 0;
        while (k < report->nbindings && !(report->bindings[k].kind == to.kind && report->bindings[k].rank == to.rank))
            k++;
        if (k < report->nbindings) {
            report->bindings[k].saves_s += to.saves_s;
            continue;
        }
        to.what = text_of(s, &to, &report->arena);
        report->bindings[report->nbindings++] = to;
    }
    qsort(report->bindings, (size_t)report->nbindings, sizeof *report->bindings, by_saving);
}

static void add_saving(const struct mt_searching *s, int class, double saves_s, struct mt_search_report *report) {
    struct mt_search_binding to = {.kind = MT_BINDS_COMPUTE, .rank = s->classes[class].rank, .link = -1};
    int k = 0;
    while (k < report->nbindings &&
           !(report->bindings[k].kind == MT_BINDS_COMPUTE && report->bindings[k].rank == to.rank))
        k++;
    if (k == report->nbindings) {
        to.what = text_of(s, &to, &report->arena);
        report->bindings[report->nbindings++] = to;
    }
    report->bindings[k].saves_s += saves_s;
}

/* In the balance a chain of messages begins when a part of the samples is computed, and that part is in its row; so the
 * row's dual is of both. A link cannot save more than of what is seen of it; the rest is of computing, by who does it.
 */
static void cap_link_savings(const struct mt_searching *s, struct mt_search_report *report) {
    const int64_t *batch = mt_plan_split_named(s->plan, "batch")->sizes;
    double seen_s = 0, rest_s = 0, all = (double)s->search->job->batch;
    for (int r = 0; r < s->nranks; r++) seen_s = fmax(seen_s, s->plan->prediction->times[r].exposed_s);
    for (int i = 0; i < report->nbindings; i++) {
        struct mt_search_binding *b = &report->bindings[i];
        if (b->kind != MT_BINDS_COMM || b->saves_s <= 0.01 * seen_s) continue;
        rest_s += b->saves_s - 0.01 * seen_s;
        b->saves_s = 0.01 * seen_s;
    }
    if (s->search->fixed.shares && rest_s > 0) { /* nobody can take samples from the longest rank */
        const struct mt_plan_time *times = s->plan->prediction->times;
        int longest = 0;
        for (int r = 1; r < s->nranks; r++)
            if (times[r].idle_s < times[longest].idle_s) longest = r;
        add_saving(s, s->class[longest], rest_s, report);
        rest_s = 0;
    }
    for (int r = 0; r < s->nranks && rest_s > 0; r++)
        if (batch[r]) add_saving(s, s->class[r], rest_s * (double)batch[r] / all, report);
    qsort(report->bindings, (size_t)report->nbindings, sizeof *report->bindings, by_saving);
    while (report->nbindings && report->bindings[report->nbindings - 1].saves_s <= 0) report->nbindings--;
}

static void list_stages(const struct mt_balanced *balanced, int nstages, const char *const *names,
                        struct mt_search_report *report) {
    report->stages = mt_new(&report->arena, struct mt_search_stage, nstages);
    for (int k = 0; k < nstages; k++)
        if (balanced->stage_s[k] > 0)
            report->stages[report->nstages++] =
                (struct mt_search_stage){mt_arena_strdup(&report->arena, names[k]), balanced->stage_s[k]};
}

enum mt_status mt_search_fill_report(struct mt_searching *s, const struct search_candidate *c,
                                     struct mt_search_report *report) {
    *report = (struct mt_search_report){.nbindings = 0};
    list_candidates(s, report);
    struct mt_balanced balanced;
    struct search_candidate *again = mt_search_like(s, c, c->what);
    s->ncandidates--; /* it is none: only its bindings are wanted */
    struct mt_err why = MT_ERR_INIT, *err = s->err;
    s->err = &why;
    enum mt_status st = mt_search_balance(s, again, &balanced);
    if (st ==
        MT_EINPUT) { /* the estimate of memory is above the program's, which fits: the bottlenecks without limits */
        for (int k = 0; k < s->nclasses; k++) s->classes[k].memory_limit = 0;
        st = mt_search_balance(s, again, &balanced);
    }
    s->err = err;
    if (st) *err = why;
    if (!st && balanced.stage_s) {
        list_bindings(s, &balanced, report);
        cap_link_savings(s, report);
        list_stages(&balanced, SEARCH_NSTAGES, search_stage_names, report);
    }
    mt_arena_release(&balanced.arena);
    return st;
}
