/* A plan's page: who holds what, memory, the simulated step, memory over time, alternatives. */
#include "tests/cli/report/check.h"

static const json_t *batch_of(const json_t *plan) {
    const json_t *split;
    size_t i;
    json_array_foreach(json_object_get(plan, "splits"), i,
                       split) if (!strcmp(text_at(split, "name"), "batch")) return split;
    return NULL;
}

/* Bars are as long as their numbers; samples are those of the document; all ranks together hold the whole. */
static void check_holders(const json_t *plan) {
    struct picture p = picture_of("holders-wide");
    const json_t *sizes = json_object_get(batch_of(plan), "sizes");
    double samples = 0, whole = 1, track = NAN, bar = 0, held = 1;
    char label[TEXT] = "", title[TEXT] = "";
    int rows = 0;
    for (size_t i = 0; i < json_array_size(sizes); i++) samples += json_number_value(json_array_get(sizes, i));
    for (int i = 0; i < p.n; i++) {
        const struct element *e = &p.elements[i];
        if (!strcmp(e->name, "rect")) {
            if (has_class(e, "track"))
                track = e->width, bar = 0;
            else
                bar = e->width;
            continue;
        }
        if (has_class(e, "strong")) {
            if (held < 0.999) differ("%s: ranks hold %g of it together", title, held);
            strcpy(title, e->text), held = 0;
        } else if (has_class(e, "soft")) {
            whole = strncmp(e->text, "outlines are ", 13) ? 1 : quantity(e->text + 13);
        } else if (!strncmp(e->text, "rank", 4)) {
            strcpy(label, e->text);
        } else {
            int count, rank = first_rank(label, &count);
            double part = bar / track * whole, told = strcmp(e->text, "all") ? quantity(e->text) : 1;
            same(label, part, told, 1e-3, 0.0006 + 0.05 * whole / track);
            held += part * count * (1 + 1e-3) + count * whole / track / 2;
            if (!strncmp(title, "samples", 7))
                same("samples", part, json_number_value(json_array_get(sizes, (size_t)rank)) / samples, 1e-3,
                     whole / track * 0.02);
            rows++;
        }
    }
    if (rows < 2) differ("holders: %d bars", rows);
    free(p.elements);
}

static void check_memory(const json_t *plan) {
    struct picture p = picture_of("memory-wide");
    struct scale x = {0};
    int rank = -1, count, part = 0, checked = 0;
    if (!find_scale(&p, true, &x)) differ("memory: no scale");
    for (int i = 0; i < p.n; i++) {
        const struct element *e = &p.elements[i];
        if (!strcmp(e->name, "text") && has_class(e, "e") && !strncmp(e->text, "rank", 4))
            rank = first_rank(e->text, &count), part = 0;
        if (strcmp(e->name, "rect") != 0 || e->height != 14 || rank < 0 || has_class(e, "ground")) continue;
        const json_t *r = json_array_get(json_object_get(plan, "ranks"), (size_t)rank);
        double state = real_at(r, "state_bytes"), arena = real_at(r, "arena_bytes"), limit = real_at(r, "memory_bytes");
        double comm = json_object_get(r, "communicator_bytes") ? real_at(r, "communicator_bytes") : 0;
        double want[] = {state, arena - state, comm, fmax(limit - arena - comm, 0)};
        same("memory", e->width * pixel_of(&x), want[part], 2e-3, 0.02 * pixel_of(&x));
        part++, checked++;
    }
    if (checked < 4) differ("memory: %d bars", checked);
    free(p.elements);
}

struct event {
    int rank, stream;
    double start_s, end_s;
};
static struct event *events;
static int nevents;

void read_trace(const json_t *trace) {
    const json_t *e;
    size_t i;
    events = calloc(json_array_size(trace) + 1, sizeof *events);
    json_array_foreach(trace, i, e) {
        if (strcmp(text_at(e, "ph"), "X") != 0 || real_at(e, "pid") < 1e6) continue;
        double start_s = 1e-6 * real_at(e, "ts");
        events[nevents++] = (struct event){(int)(real_at(e, "pid") - 1e6), (int)real_at(e, "tid"), start_s,
                                           start_s + 1e-6 * real_at(e, "dur")};
    }
}

/* Each rectangle begins and ends where spans of the simulation do, and each long span has one of its own; the table has
 * the same times. */
static void check_timeline(void) {
    struct picture p = picture_of("timeline-wide");
    struct scale x = {0};
    char text[MOST_CELLS][TEXT];
    struct cells row = {.text = text};
    const char *at = find_table(page, "timeline");
    double first_s = INFINITY, trace_s = INFINITY, step_s = 0;
    int rank = -1, count, stream = -1, rects = 0, drawn = 0;
    if (!find_scale(&p, true, &x) || !at || !next_row(page, &at, &row)) {
        differ("timeline: no scale or no table");
        return;
    }
    double slack_s = 0.03 * pixel_of(&x);
    for (int i = 0; i < p.n; i++)
        if (!strcmp(p.elements[i].name, "rect") && p.elements[i].height == 22)
            first_s = fmin(first_s, at_pixel(&x, p.elements[i].x));
    for (int i = 0; i < nevents; i++)
        trace_s = fmin(trace_s, events[i].start_s), step_s = fmax(step_s, events[i].end_s);
    double shift_s = first_s - trace_s;
    for (int i = 0; i < p.n; i++) {
        const struct element *e = &p.elements[i];
        if (!strcmp(e->name, "text") && has_class(e, "strong")) rank = first_rank(e->text, &count), stream = -1;
        if (!strcmp(e->name, "text") && !e->class[0] && rank >= 0) stream++;
        if (strcmp(e->name, "rect") != 0 || e->height != 22) continue;
        double from_s = at_pixel(&x, e->x), to_s = at_pixel(&x, e->x + e->width);
        bool begins = false, ends = false;
        for (int k = 0; k < nevents; k++) {
            if (events[k].rank != rank || events[k].stream != stream) continue;
            begins |= fabs(events[k].start_s + shift_s - from_s) <= 2 * slack_s;
            ends |= fabs(events[k].end_s + shift_s - to_s) <= 2 * slack_s;
        }
        if (!begins || !ends)
            differ("timeline: no span of rank %d, stream %d, is from %g to %g s", rank, stream, from_s, to_s);
        if (!next_row(page, &at, &row)) differ("timeline: the table ends at row %d", rects);
        same("start in the table", quantity(row.text[2]), from_s, 0, 2e-3 * step_s + slack_s);
        same("end in the table", quantity(row.text[3]), to_s, 0, 2e-3 * step_s + slack_s);
        rects++;
        for (int k = 0; k < nevents; k++)
            drawn += events[k].rank == rank && events[k].stream == stream &&
                     events[k].end_s - events[k].start_s > 0.026 * step_s &&
                     fabs(events[k].start_s + shift_s - from_s) <= 2 * slack_s &&
                     fabs(events[k].end_s + shift_s - to_s) <= 2 * slack_s;
    }
    int wanted = 0;
    for (int k = 0; k < nevents; k++) { /* of ranks that are drawn for themselves */
        bool shown = false;
        for (int i = 0; i < p.n; i++)
            shown |= has_class(&p.elements[i], "strong") && first_rank(p.elements[i].text, &count) == events[k].rank;
        wanted += shown && events[k].end_s - events[k].start_s > 0.026 * step_s;
    }
    if (drawn != wanted) differ("timeline: %d of %d long spans are drawn", drawn, wanted);
    if (rects < 4) differ("timeline: %d rectangles", rects);
    if (next_row(page, &at, &row)) differ("timeline: the table has more rows than the picture has spans");
    free(p.elements);
}

/* Lines of the picture against the rows of its table; the most against the document, and the limit. */
static void check_live(const json_t *plan) {
    struct picture p = picture_of("memory-over-time-wide");
    struct scale x = {0}, y = {0};
    char text[MOST_CELLS][TEXT], who[TEXT] = "";
    struct cells row = {.text = text};
    const char *at = find_table(page, "memory-over-time");
    int lines = 0, count;
    if (!find_scale(&p, true, &x) || !find_scale(&p, false, &y) || !at || !next_row(page, &at, &row)) {
        differ("memory over time: no scale or no table");
        return;
    }
    for (int i = 0; i < p.n; i++) {
        const struct element *e = &p.elements[i];
        double xs[MOST_POINTS], ys[MOST_POINTS], most = 0;
        if (!strcmp(e->name, "line") && has_class(e, "limit")) {
            double limit = at_pixel(&y, e->y1), nearest = INFINITY;
            const json_t *r;
            size_t k;
            json_array_foreach(json_object_get(plan, "ranks"), k, r) nearest =
                fmin(nearest, fabs(real_at(r, "memory_bytes") - limit));
            if (nearest > 0.02 * pixel_of(&y)) differ("memory over time: no rank has the limit %g", limit);
        }
        if (strcmp(e->name, "path") != 0) continue;
        int n = read_path(e->path, xs, ys, MOST_POINTS);
        for (int k = 0; k + 1 < n; k++) {
            if (!next_row(page, &at, &row)) {
                differ("memory over time: the table ends early");
                break;
            }
            if (row.text[0][0]) strcpy(who, row.text[0]);
            same("time in the table", quantity(row.text[1]), at_pixel(&x, xs[k]), 6e-3, 0.02 * pixel_of(&x));
            same("live bytes in the table", quantity(row.text[2]), at_pixel(&y, ys[k]), 6e-3, 0.02 * pixel_of(&y));
            most = fmax(most, at_pixel(&y, ys[k]));
        }
        const json_t *r = json_array_get(json_object_get(plan, "ranks"), (size_t)first_rank(who, &count));
        double arena = real_at(r, "arena_bytes");
        if (most > 1.0001 * arena + pixel_of(&y) || most < 0.7 * arena)
            differ("%s: at most %g bytes are live, of an arena of %g", who, most, arena);
        lines++;
    }
    if (!lines || next_row(page, &at, &row)) differ("memory over time: %d lines, or rows left in the table", lines);
    free(p.elements);
}

static double step_named(const json_t *plan, const char *label) {
    const json_t *prediction = json_object_get(plan, "prediction"), *r;
    size_t i;
    if (!strcmp(label, "this plan")) return real_at(prediction, "step_s");
    json_array_foreach(json_object_get(prediction, "rejected"), i,
                       r) if (!strcmp(text_at(r, "what"), label)) return real_at(r, "step_s");
    return NAN;
}

static void check_alternatives(const json_t *plan) {
    const json_t *f = json_object_get(plan, "prediction");
    struct picture p = picture_of("alternatives-wide");
    struct scale x = {0};
    double low = NAN, high = NAN, above = real_at(f, "error"),
           below = json_object_get(f, "error_below") ? real_at(f, "error_below") : above;
    int checked = 0;
    if (!find_scale(&p, true, &x)) differ("alternatives: no scale");
    double slack_s = 0.02 * pixel_of(&x);
    for (int i = 0; i < p.n; i++) {
        const struct element *e = &p.elements[i];
        if (!strcmp(e->name, "line") && has_class(e, "limit"))
            same("lower bound", at_pixel(&x, e->x1), real_at(f, "bound_s"), 0, slack_s);
        if (!strcmp(e->name, "line") && has_class(e, "whisker") && e->y1 == e->y2)
            low = at_pixel(&x, e->x1), high = at_pixel(&x, e->x2);
        if (strcmp(e->name, "circle") != 0) continue;
        double step_s = step_named(plan, e->text), drawn_s = at_pixel(&x, e->cx);
        if (isfinite(step_s)) same(e->text, drawn_s, step_s, 0, slack_s);
        if (!isfinite(step_s) && strncmp(e->text, "classic: ", 9) != 0)
            differ("alternatives: the plan has no \"%s\"", e->text);
        same("band from", low, drawn_s * (1 - below), 0, 2 * slack_s);
        if (high < at_pixel(&x, 1e9))
            same("band to", fmin(high, drawn_s * (1 + above)), drawn_s * (1 + above), 1, 2 * slack_s);
        checked++;
    }
    if (checked < 3) differ("alternatives: %d dots", checked);
    char text[MOST_CELLS][TEXT];
    struct cells row = {.text = text};
    const char *at = find_table(page, "alternatives");
    for (int r = 0; at && next_row(page, &at, &row); r++) {
        double step_s = step_named(plan, row.text[0]), told = quantity(row.text[2]);
        if (r && isfinite(step_s) && step_s > 0 && isfinite(told)) same(row.text[0], told, step_s, 6e-3, 0);
    }
    free(p.elements);
}

void check_plan(const json_t *plan) {
    check_holders(plan);
    check_memory(plan);
    check_alternatives(plan);
    if (nevents) check_timeline(), check_live(plan);
}
