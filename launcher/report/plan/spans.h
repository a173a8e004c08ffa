/* A simulated step as lanes: two for each class of ranks. Spans that are too short to be seen are drawn as one, so that
 * a step of any length has some hundreds. */
#ifndef MT_LAUNCHER_REPORT_PLAN_SPANS_H
#define MT_LAUNCHER_REPORT_PLAN_SPANS_H

#include "kernels/base/table/table.h"
#include "launcher/report/svg/lanes.h"
#include "planner/predict/timeline.h"

enum { MT_SPANS_CLASSES = 6 };

struct mt_drawn_span {
    double start_s, end_s;
    const char *class, *what; /* "computing", "waiting for other ranks" */
    const char *name;         /* of the instruction; of what it waits for; of several the first and the last */
    int count;                /* spans that it stands for */
};
struct mt_drawn_lane {
    const char *who, *stream;
    int n;
    struct mt_drawn_span *spans;
};

/* `first` and `n` spans of a lane, in order of time, merged to at most about 2 `most`, over a whole of `whole_s`. */
void mt_spans_merge(const struct mt_drawn_span *spans, int n, double whole_s, int most, struct mt_arena *arena,
                    struct mt_drawn_lane *lane);
/* Of the timeline's first classes, named by names[nclasses]; *nlanes: out. */
struct mt_drawn_lane *mt_spans_of_timeline(const struct mt_timeline *timeline, const char *const *names,
                                           struct mt_arena *arena, int *nlanes);

/* All spans of a stream of one class. names[nclasses] as above, or null. */
struct mt_drawn_lane mt_spans_whole_lane(const struct mt_timeline *timeline, const struct mt_timeline_class *class,
                                         int stream, const char *const *names, struct mt_arena *arena);
/* Merge the spans of lanes as much as a page needs. */
void mt_spans_thin(struct mt_drawn_lane *lanes, int nlanes, double whole_s, struct mt_arena *arena);

/* The lanes as a picture, and as rows of a table. */
struct mt_lanes mt_spans_lanes(const struct mt_drawn_lane *lanes, int nlanes, struct mt_arena *arena);
void mt_spans_columns(struct mt_table *table);
void mt_spans_rows(const struct mt_drawn_lane *lanes, int nlanes, struct mt_table *table);

#endif
