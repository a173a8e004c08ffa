/* The candidates that were evaluated or estimated. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/units.h"
#include "planner/search/internal.h"

void mt_search_report_release(struct mt_search_report *report) {
    mt_arena_release(&report->arena);
    *report = (struct mt_search_report){.ncandidates = 0};
}

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

static double step_of(const struct search_candidate *c) {
    double t = mt_search_time(c);
    return isinf(t) ? 0 : t;
}

/* 0 for an estimate below the best's evaluated step: estimates compare with estimates, and by those it was slower. */
static double listed_s(const struct mt_searching *s, const struct search_candidate *c) {
    double t = step_of(c);
    return c->evaluated || t >= s->best->step_s ? t : 0;
}

/* Candidates are evaluated in the order of their estimates, as far as they can be afforded. */
static const char *why_of(const struct mt_searching *s, const struct search_candidate *c, struct mt_arena *arena) {
    char text[MT_UNITS_TEXT];
    if (c == s->best) return "";
    if (c->evaluated) return mt_arena_strdup(arena, c->why);
    if (isinf(c->estimate_s)) return "does not fit by estimate";
    if (listed_s(s, c) > 0) return "slower by estimate";
    return mt_arena_printf(arena, "not simulated: its estimate, %s, is above the estimates of those that were",
                           mt_units_seconds(c->estimate_s, text));
}

void mt_search_fill_rejected(struct mt_searching *s, struct mt_plan *p) {
    struct search_candidate **list = mt_calloc((size_t)s->ncandidates + 1, sizeof(struct search_candidate *));
    int n = ordered(s, list);
    struct mt_plan_prediction *to = p->prediction;
    to->rejected = mt_new(&p->arena, struct mt_plan_rejected, n);
    for (int timed = 1; timed >= 0; timed--)
        for (int i = 1; i < n; i++)
            if ((listed_s(s, list[i]) > 0) == timed)
                to->rejected[to->nrejected++] = (struct mt_plan_rejected){
                    mt_arena_strdup(&p->arena, list[i]->what), why_of(s, list[i], &p->arena), listed_s(s, list[i])};
    free(list);
}

void mt_search_fill_report(struct mt_searching *s, struct mt_search_report *report) {
    struct search_candidate **list = mt_calloc((size_t)s->ncandidates + 1, sizeof(struct search_candidate *));
    int n = ordered(s, list);
    *report = (struct mt_search_report){.ncandidates = 0};
    report->candidates = mt_new(&report->arena, struct mt_search_alternative, n);
    for (int i = 0; i < n; i++)
        report->candidates[report->ncandidates++] = (struct mt_search_alternative){
            mt_arena_strdup(&report->arena, list[i]->what), why_of(s, list[i], &report->arena),
            isfinite(list[i]->estimate_s) ? list[i]->estimate_s : 0,
            list[i]->evaluated && list[i]->fits ? list[i]->step_s : 0};
    free(list);
}
