/* Read a report's pictures and tables back, and compare them with the documents that it was made from:
 *
 *     read_report REPORT.html [cluster=FILE] [plan=FILE] [trace=FILE] [run=FILE] [whatif=FILE] [purchase=FILE]
 *
 * It ends with 0 if all agree, else with 1 and what does not. With "mutants" as the last word it also alters numbers of
 * the page, one at a time, and ends with 1 if one of them is not noticed. */
#include <jansson.h>
#include <stdarg.h>

#include "tests/cli/report_page.h"

static const char *page;
static int differences;
static bool quiet;

static void differ(const char *format, ...) {
    va_list args;
    if (differences++ > 20 || quiet) return;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

/* Equal within a part of the larger, or within `slack`. */
static void same(const char *what, double got, double want, double part, double slack) {
    if (!(fabs(got - want) <= part * fmax(fabs(got), fabs(want)) + slack))
        differ("%s: the report has %.6g, the document %.6g", what, got, want);
}

static double real_at(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return value ? json_number_value(value) : NAN;
}
static const char *text_at(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static struct picture picture_of(const char *id) {
    struct picture p;
    if (!find_picture(page, id, &p)) differ("no picture %s", id);
    return p;
}

static double pixel_of(const struct scale *s) { /* what a pixel stands for */
    return fabs(s->b);
}

/* "ranks 0-1 8, h100": the first rank, and how many. */
static int first_rank(const char *label, int *count) {
    const char *at = label + strcspn(label, "0123456789"), *many = strstr(label, " ranks)");
    int first = atoi(at);
    *count = 0;
    for (const char *end = at + strcspn(at, ","); at < end && isdigit((unsigned char)*at);) {
        char *next;
        long from = strtol(at, &next, 10), to = from;
        if (*next == '-') to = strtol(next + 1, &next, 10);
        *count += (int)(to - from + 1);
        at = next + (*next == ' ');
    }
    if (many) {
        while (isdigit((unsigned char)many[-1])) many--;
        *count = atoi(many);
    }
    return first;
}

/* ---- plans ---- */

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
    struct scale x;
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

static void read_trace(const json_t *trace) {
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
    struct scale x;
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

/* "M10 20H30V40": the corners of a stair. */
static int read_stair(const char *d, double *xs, double *ys, int most) {
    int n = 0;
    double px = 0, py = 0;
    for (; *d && *d != '"' && n < most;) {
        char command = *d++, *end;
        double a = strtod(d, &end);
        d = end;
        if (command == 'M' || command == 'L') py = strtod(d, &end), d = end, px = a;
        if (command == 'H') px = a;
        if (command == 'V') py = a;
        if (command != 'H') xs[n] = px, ys[n++] = py;
        d += *d == ' ';
    }
    return n;
}

/* Lines of the picture against the rows of its table; the most against the document, and the limit. */
static void check_live(const json_t *plan) {
    enum { MOST = 512 };
    struct picture p = picture_of("memory-over-time-wide");
    struct scale x, y;
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
        double xs[MOST], ys[MOST], most = 0;
        if (!strcmp(e->name, "line") && has_class(e, "limit")) {
            double limit = at_pixel(&y, e->y1), nearest = INFINITY;
            const json_t *r;
            size_t k;
            json_array_foreach(json_object_get(plan, "ranks"), k, r) nearest =
                fmin(nearest, fabs(real_at(r, "memory_bytes") - limit));
            if (nearest > 0.02 * pixel_of(&y)) differ("memory over time: no rank has the limit %g", limit);
        }
        if (strcmp(e->name, "path") != 0) continue;
        int n = read_stair(e->path, xs, ys, MOST);
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
    struct scale x;
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

static void check_plan(const json_t *plan) {
    check_holders(plan);
    check_memory(plan);
    check_alternatives(plan);
    if (nevents) check_timeline(), check_live(plan);
}

/* ---- clusters ---- */

static const json_t *named(const json_t *list, const char *name) {
    const json_t *item;
    size_t i;
    json_array_foreach(list, i, item) if (!strcmp(text_at(item, "name"), name)) return item;
    return NULL;
}

/* The bandwidth from a to b, by the rows of the document. */
static double bandwidth(const json_t *c, int a, int b) {
    const json_t *pair, *devices = json_object_get(c, "devices");
    size_t i;
    json_array_foreach(json_object_get(c, "pairs"), i, pair) {
        int x = (int)real_at(pair, "a"), y = (int)real_at(pair, "b");
        double back = real_at(pair, "reverse_Bps");
        if (x == a && y == b) return real_at(pair, "bandwidth_Bps");
        if (x == b && y == a) return back > 0 ? back : real_at(pair, "bandwidth_Bps");
    }
    const char *first = text_at(json_array_get(devices, (size_t)a), "node"),
               *second = text_at(json_array_get(devices, (size_t)b), "node");
    const json_t *nodes = json_object_get(c, "nodes"), *links = json_object_get(c, "links");
    if (!strcmp(first, second)) return real_at(named(links, text_at(named(nodes, first), "inside")), "bandwidth_Bps");
    double Bps = real_at(named(links, text_at(c, "network")), "bandwidth_Bps");
    double out = real_at(named(nodes, first), "egress_Bps"), in = real_at(named(nodes, second), "ingress_Bps");
    if (out > 0) Bps = fmin(Bps, out);
    return in > 0 ? fmin(Bps, in) : Bps;
}

static void check_cluster(const json_t *c) {
    struct picture p = picture_of("pairs-wide");
    char text[MOST_CELLS][TEXT];
    struct cells row = {.text = text};
    const char *at = find_table(page, "pairs");
    int checked = 0, rows = 0;
    for (int i = 0; i < p.n; i++) {
        const struct element *e = &p.elements[i];
        const char *arrow = strstr(e->text, "\xe2\x86\x92"), *colon = strrchr(e->text, ':');
        if (strcmp(e->name, "rect") != 0 || !arrow || !colon) continue;
        same(e->text, quantity(colon + 2), bandwidth(c, atoi(e->text), atoi(arrow + 4)), 6e-3, 0);
        checked++;
    }
    for (bool head = true; at && next_row(page, &at, &row); head = false) {
        if (head) continue;
        same("bandwidth in the table", quantity(row.text[4]), bandwidth(c, atoi(row.text[0]), atoi(row.text[1])), 6e-3,
             0);
        rows++;
    }
    if (!checked || rows != checked) differ("pairs: %d cells, %d rows of the table", checked, rows);
    free(p.elements);
}

/* ---- runs, what-ifs, purchases ---- */

static void check_run(const json_t *run) {
    enum { MOST = 512, PARTS = 200 };
    struct picture p = picture_of("loss-wide");
    const json_t *losses = json_object_get(run, "losses");
    struct scale x, y;
    double xs[MOST], ys[MOST], first = real_at(run, "first_step");
    int n = (int)json_array_size(losses), per = n > PARTS ? (n + PARTS - 1) / PARTS : 1, lines = 0;
    if (!find_scale(&p, true, &x) || !find_scale(&p, false, &y)) differ("loss: no scale");
    for (int i = 0; i < p.n; i++) {
        const struct element *e = &p.elements[i];
        if (strcmp(e->name, "path") != 0 || !has_class(e, "line")) continue;
        int points = read_stair(e->path, xs, ys, MOST);
        for (int k = 0; k < points; k++) {
            int from = k * per, to = from + per < n ? from + per : n;
            double sum = 0;
            for (int s = from; s < to; s++) sum += json_number_value(json_array_get(losses, (size_t)s));
            same("loss", at_pixel(&y, ys[k]), sum / (to - from), 0, 0.02 * pixel_of(&y));
            same("step of a loss", at_pixel(&x, xs[k]), first + to - 1, 0, 0.02 * pixel_of(&x));
        }
        if (points != (n + per - 1) / per) differ("loss: %d points of %d losses", points, n);
        lines++;
    }
    if (!lines) differ("loss: no line");
    free(p.elements);
    p = picture_of("run-ranks-wide");
    int rank = -1;
    bool measured = false, first_part = true;
    if (!find_scale(&p, true, &x)) differ("ranks: no scale");
    for (int i = 0; i < p.n; i++) {
        const struct element *e = &p.elements[i];
        if (!strcmp(e->name, "text") && !strncmp(e->text, "rank ", 5))
            rank = atoi(e->text + 5), measured = strstr(e->text, "measured") != NULL, first_part = true;
        if (strcmp(e->name, "rect") != 0 || e->height != 14 || rank < 0 || has_class(e, "ground")) continue;
        static const char *const keys[2][2] = {{"predicted_wait_s", "predicted_compute_s"},
                                               {"step_wait_s", "step_compute_s"}};
        same(keys[measured][first_part], e->width * pixel_of(&x),
             real_at(json_array_get(json_object_get(run, "ranks"), (size_t)rank), keys[measured][first_part]), 0,
             0.02 * pixel_of(&x));
        first_part = false;
    }
    free(p.elements);
}

static void check_whatif(const json_t *whatif) {
    const json_t *rows = json_object_get(json_array_get(json_object_get(whatif, "models"), 0), "rows"), *row;
    struct picture p = picture_of("alternatives-rates-wide");
    struct scale x;
    size_t k;
    int dots = 0;
    if (!find_scale(&p, true, &x)) differ("rates: no scale");
    json_array_foreach(rows, k, row) {
        if (json_object_get(row, "refused")) continue;
        int found = 0;
        for (int i = 0; i < p.n; i++)
            if (!strcmp(p.elements[i].name, "circle") && !strcmp(p.elements[i].text, text_at(row, "what")))
                found++, same(p.elements[i].text, at_pixel(&x, p.elements[i].cx), real_at(row, "tokens_per_s"), 0,
                              0.02 * pixel_of(&x));
        if (!found) differ("rates: no dot of \"%s\"", text_at(row, "what"));
        dots++;
    }
    if (dots < 2) differ("rates: %d dots", dots);
    free(p.elements);
}

static void check_purchase(const json_t *purchase) {
    const json_t *rows = json_object_get(purchase, "rows"), *row;
    struct picture p = picture_of("purchases-wide");
    struct scale x, y;
    size_t k;
    int dots = 0;
    if (!find_scale(&p, true, &x) || !find_scale(&p, false, &y)) differ("purchases: no scale");
    for (int i = 0; i < p.n; i++) dots += !strcmp(p.elements[i].name, "circle");
    if (dots != (int)json_array_size(rows)) differ("purchases: %d dots, %zu rows", dots, json_array_size(rows));
    json_array_foreach(rows, k, row) {
        double cost = real_at(row, "cost"), time_s = real_at(row, "time_s");
        bool found = false;
        for (int i = 0; i < p.n; i++) {
            const struct element *e = &p.elements[i];
            double slack = y.log ? 0.02 * pixel_of(&y) * time_s : 0.02 * pixel_of(&y);
            found |= !strcmp(e->name, "circle") && fabs(at_pixel(&x, e->cx) - cost) <= 0.02 * pixel_of(&x) &&
                     fabs(at_pixel(&y, e->cy) - time_s) <= slack;
        }
        if (!found) differ("purchases: no dot for a cost of %g and %g s", cost, time_s);
    }
    free(p.elements);
}

/* ---- all ---- */

static const struct {
    const char *name;
    void (*check)(const json_t *document);
    const char *pictures[6];
} kinds[] = {{"cluster", check_cluster, {0}},
             {"plan", check_plan, {"holders-wide", "memory-wide", "alternatives-wide", "timeline-wide"}},
             {"run", check_run, {"run-ranks-wide"}},
             {"whatif", check_whatif, {"alternatives-rates-wide"}},
             {"purchase", check_purchase, {"purchases-wide"}}};
enum { NKINDS = sizeof kinds / sizeof *kinds };
static json_t *documents[NKINDS];

static int check_all(void) {
    differences = 0;
    for (int k = 0; k < NKINDS; k++)
        if (documents[k]) kinds[k].check(documents[k]);
    return differences;
}

/* The page with the number at `at` changed by `by`; the caller frees it. */
static char *altered(const char *whole, size_t at, double by) {
    char *end, *copy = malloc(strlen(whole) + 64);
    double value = strtod(whole + at, &end);
    if (!copy) abort();
    int n = sprintf(copy, "%.*s%.2f", (int)at, whole, value + by);
    strcpy(copy + n, end);
    return copy;
}

/* Alter widths of bars and places of dots, every few of them. */
static int try_mutants(const char *whole, int *missed) {
    int tried = 0, seen = 0;
    for (int k = 0; k < NKINDS; k++)
        for (int i = 0; documents[k] && kinds[k].pictures[i]; i++) {
            struct picture p;
            if (!find_picture(whole, kinds[k].pictures[i], &p)) continue;
            for (int e = 0; e < p.n; e++) {
                const struct element *x = &p.elements[e];
                bool legend = x->height == 12 && x->width == 12;
                size_t at = x->at_cx ? x->at_cx : x->at_width;
                if (!at || legend || has_class(x, "ground") ||
                    (!strncmp(kinds[k].pictures[i], "timeline", 8) && seen++ % 7))
                    continue;
                char *copy = altered(whole, at, 4);
                page = copy;
                tried++;
                if (!check_all()) {
                    (*missed)++;
                    fprintf(stderr, "not noticed: %s of %s, %s \"%s\"\n", x->at_cx ? "cx" : "width",
                            kinds[k].pictures[i], x->class, x->text);
                }
                page = whole;
                free(copy);
            }
            free(p.elements);
        }
    return tried;
}

int main(int argc, char **argv) {
    json_error_t error;
    FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;
    static char whole[8 << 20];
    if (!file || fread(whole, 1, sizeof whole - 1, file) < 100) return fprintf(stderr, "no report\n"), 2;
    fclose(file);
    page = whole;
    bool mutants = argc > 2 && !strcmp(argv[argc - 1], "mutants");
    for (int i = 2; i < argc - mutants; i++) {
        char *is = strchr(argv[i], '=');
        json_t *document = is ? json_load_file(is + 1, 0, &error) : NULL;
        if (!document) return fprintf(stderr, "%s: %s\n", argv[i], is ? error.text : "what is it?"), 2;
        if (!strncmp(argv[i], "trace=", 6)) {
            read_trace(document);
            json_decref(document);
            continue;
        }
        for (int k = 0; k < NKINDS; k++)
            if (!strncmp(argv[i], kinds[k].name, (size_t)(is - argv[i]))) documents[k] = document;
    }
    int missed = 0, tried = 0, wrong = check_all();
    if (wrong) return fprintf(stderr, "%d differences\n", wrong), 1;
    quiet = true;
    if (mutants) tried = try_mutants(whole, &missed);
    printf("all agrees; %d of %d altered numbers were noticed\n", tried - missed, tried);
    return missed > 0 || (mutants && !tried);
}
