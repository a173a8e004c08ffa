/* The simulated step: what each class of ranks does on each stream. */
#include <math.h>
#include <string.h>

#include "kernels/base/text/ranks.h"
#include "launcher/report/plan/internal.h"

/* Classes of the timeline that look the same are one: of equal devices, with the same spans, to a thousandth of the
 * step. */
static bool look_alike(const struct mt_plan *p, const struct mt_timeline *t, const struct mt_timeline_class *a,
                       const struct mt_timeline_class *b) {
    const struct mt_plan_rank *x = &p->ranks[p->order[a->ranks[0]]], *y = &p->ranks[p->order[b->ranks[0]]];
    if (a->nspans != b->nspans || strcmp(x->class, y->class) != 0 || x->memory_bytes != y->memory_bytes) return false;
    if (fabs((double)(a->most_live_bytes - b->most_live_bytes)) > 1e-3 * (double)a->most_live_bytes) return false;
    for (int i = 0; i < a->nspans; i++)
        if (a->spans[i].kind != b->spans[i].kind || a->spans[i].instr != b->spans[i].instr ||
            fabs(a->spans[i].end_s - b->spans[i].end_s) > 1e-3 * t->step_s)
            return false;
    return true;
}

/* The timeline with those of its classes alone that stand for themselves; *to borrows all but the list of classes. */
static void fold(const struct mt_plan *p, const struct mt_timeline *t, struct mt_arena *arena, struct mt_timeline *to) {
    int *first = mt_new(arena, int, t->nclasses), *at = mt_new(arena, int, t->nclasses);
    *to = *t;
    to->nclasses = 0;
    to->classes = mt_new(arena, struct mt_timeline_class, t->nclasses + 1);
    for (int c = 0; c < t->nclasses; c++) {
        first[c] = 0;
        while (first[c] < c &&
               (first[first[c]] != first[c] || !look_alike(p, t, &t->classes[first[c]], &t->classes[c])))
            first[c]++;
        if (first[c] == c) {
            at[c] = to->nclasses;
            to->classes[to->nclasses] = t->classes[c];
            to->classes[to->nclasses].ranks = mt_new(arena, int, t->nranks);
            to->classes[to->nclasses++].nranks = 0;
        }
        at[c] = at[first[c]];
    }
    for (int r = 0; r < t->nranks; r++) {
        struct mt_timeline_class *class = &to->classes[at[t->class_of[r]]];
        class->ranks[class->nranks++] = r;
    }
    for (int c = 0; c < to->nclasses; c++) { /* waits for others name the class that they are in now */
        struct mt_timeline_class *class = &to->classes[c];
        struct mt_span *spans = mt_new(arena, struct mt_span, class->nspans + 1);
        for (int i = 0; i < class->nspans; i++) {
            spans[i] = class->spans[i];
            if (spans[i].kind == MT_SPAN_RENDEZVOUS && spans[i].other >= 0) spans[i].other = at[spans[i].other];
        }
        class->spans = spans;
    }
}

static const char **names_of(const struct mt_report_kinds *k, const struct mt_timeline *t, struct mt_arena *arena) {
    const struct mt_plan *p = k->plan;
    const char **names = mt_new(arena, const char *, t->nclasses + 1);
    for (int c = 0; c < t->nclasses; c++) {
        const struct mt_timeline_class *class = &t->classes[c];
        int *ranks = mt_new(arena, int, class->nranks);
        for (int i = 0; i < class->nranks; i++) ranks[i] = p->order[class->ranks[i]];
        mt_ranks_sort(ranks, class->nranks);
        const char *kind = p->ranks[ranks[0]].class, *rank = class->nranks == 1 ? "rank" : "ranks";
        const char *list = mt_ranks_text(ranks, class->nranks, MT_RANKS_NAME, arena);
        names[c] = mt_arena_printf(arena, kind[0] ? "%s %s, %s" : "%s %s%s", rank, list, kind);
    }
    return names;
}

static void report_step(struct mt_page *page, const struct mt_timeline *t, const char *const *names) {
    int nlanes;
    struct mt_drawn_lane *drawn = mt_spans_of_timeline(t, names, &page->arena, &nlanes);
    struct mt_lanes lanes = mt_spans_lanes(drawn, nlanes, &page->arena);
    lanes.axis =
        (struct mt_scale){.title = "time of a step", .unit = MT_UNIT_SECONDS, .from = t->first_s, .to = t->step_s};
    mt_page_heading(page, "A step as it is simulated");
    mt_page_say(page,
                "Each class of equal ranks has two streams, which run concurrently. Spans that are too short to be "
                "drawn stand together as one; the table has all that are drawn.");
    if (t->nclasses > MT_SPANS_CLASSES)
        mt_page_say(page, "Of %d classes of ranks the first %d are drawn.", t->nclasses, MT_SPANS_CLASSES);
    struct mt_table *table = mt_page_table(page, "timeline", "Simulated step, by stream, with what is waited for", "");
    mt_spans_columns(table);
    mt_spans_rows(drawn, nlanes, table);
    mt_page_picture(page, "Timeline of a simulated step",
                    "Two lanes for each class of ranks: what it computes, and its messages. "
                    "Dashed outlines are waits. The table lists start, end and name of each.",
                    mt_lanes_draw, &lanes);
}

void mt_report_timeline(struct mt_page *page, const struct mt_report_kinds *k, const struct mt_timeline *t) {
    struct mt_timeline folded;
    fold(k->plan, t, &page->arena, &folded);
    const char **names = names_of(k, &folded, &page->arena);
    report_step(page, &folded, names);
    mt_report_live(page, k, &folded, names);
}
