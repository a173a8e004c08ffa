/* The measured step of a trace, and below each of its ranks the plan's step as it is simulated. */
#include <math.h>
#include <string.h>

#include "launcher/report/plan/internal.h"
#include "launcher/report/run/internal.h"
#include "planner/make/planning.h"

struct beside {
    struct mt_report_run *run;
    struct mt_plan *plan;
    struct mt_timeline timeline;
    bool simulated;
};

/* The folder's plan on the request's cluster, if both are there. */
static enum mt_status simulate(struct beside *b, struct mt_err *err) {
    struct mt_reporting *r = b->run->reporting;
    const char *path = mt_arena_printf(&r->arena, "%s/plan.json", b->run->folder);
    FILE *there = fopen(path, "r");
    if (!there) return MT_OK;
    fclose(there);
    enum mt_status st = mt_plan_read(path, &b->plan, err);
    const struct mt_cluster *cluster = st ? NULL : mt_report_cluster_of(r, b->plan->cluster_hash);
    if (st || !cluster) return st;
    struct mt_planned planned;
    if ((st = mt_planned_open(b->plan, &planned, err))) return mt_err_context(err, "%s", path);
    st = mt_planning_timeline(b->plan, &planned.program, cluster, &b->timeline, err);
    b->simulated = !st;
    mt_planned_release(&planned);
    return st;
}

/* The lanes of a rank in the simulation; the number of streams. */
static int simulated_lanes(const struct beside *b, int rank, struct mt_drawn_lane *lanes) {
    struct mt_arena *arena = &b->run->page->arena;
    const struct mt_timeline *t = &b->timeline;
    int place = mt_plan_place(b->plan, rank);
    if (place < 0) return 0;
    for (int s = 0; s < t->nstreams; s++) {
        lanes[s] = mt_spans_whole_lane(t, &t->classes[t->class_of[place]], s, NULL, arena);
        lanes[s].who = mt_arena_printf(arena, "rank %d, predicted", rank);
    }
    return t->nstreams;
}

static int list_lanes(const struct beside *b, const struct mt_traced *traced, struct mt_drawn_lane *lanes) {
    int n = 0, drawn = traced->nranks < MT_SPANS_CLASSES ? traced->nranks : MT_SPANS_CLASSES;
    for (int r = 0; r < drawn; r++) {
        if (b->simulated) n += simulated_lanes(b, r, lanes + n);
        for (int s = 0; s < traced->nstreams; s++) lanes[n++] = traced->lanes[r * traced->nstreams + s];
    }
    return n;
}

static void report(struct beside *b, const struct mt_traced *traced) {
    struct mt_page *page = b->run->page;
    double first_s = 0, last_s = traced->step_s;
    if (b->simulated) first_s = fmin(first_s, b->timeline.first_s), last_s = fmax(last_s, b->timeline.step_s);
    struct mt_drawn_lane *all =
        mt_new(&page->arena, struct mt_drawn_lane, MT_SPANS_CLASSES * (traced->nstreams + MT_MOST_STREAMS) + 1);
    int n = list_lanes(b, traced, all);
    mt_spans_thin(all, n, last_s - first_s, &page->arena);
    struct mt_lanes lanes = mt_spans_lanes(all, n, &page->arena);
    lanes.axis = (struct mt_scale){.title = "time of a step", .unit = MT_UNIT_SECONDS, .from = first_s, .to = last_s};
    mt_page_heading(page, b->simulated ? "A step as predicted and as measured" : "A step as measured");
    mt_page_say(page,
                "Step %lld, of median length among those traced: %s from the first rank's start to the last one's end.",
                (long long)traced->step, mt_page_quantity(page, MT_UNIT_SECONDS, traced->step_s));
    if (!b->simulated)
        mt_page_warn(
            page, "The predicted step needs the cluster that the plan was made for: name it, too, or with --cluster.");
    struct mt_table *table = mt_page_table(
        page, "measured-timeline",
        b->simulated ? "Predicted and measured step, by rank and stream" : "Measured step, by rank and stream", "");
    mt_spans_columns(table);
    mt_spans_rows(all, n, table);
    mt_page_picture(page, "Timeline of a measured step, beside the prediction",
                    "For each rank lanes of its streams: as the plan predicts them, and as they "
                    "were traced. The table lists start, end and name of each span.",
                    mt_lanes_draw, &lanes);
}

enum mt_status mt_report_traced(struct mt_report_run *run, const char *trace, struct mt_err *err) {
    struct beside b = {.run = run};
    struct mt_traced traced;
    enum mt_status st = simulate(&b, err);
    if (!st) st = mt_traced_read(trace, &run->page->arena, &traced, err);
    if (!st) report(&b, &traced);
    mt_timeline_release(&b.timeline);
    mt_plan_free(b.plan);
    return st;
}
