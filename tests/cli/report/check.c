/* Comparing numbers, and saying what differs. */
#include "tests/cli/report/check.h"

#include <stdarg.h>

const char *page;
int differences;
bool quiet;

void differ(const char *format, ...) {
    va_list args;
    if (differences++ > 20 || quiet) return;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

void same(const char *what, double got, double want, double part, double slack) {
    if (!(fabs(got - want) <= part * fmax(fabs(got), fabs(want)) + slack))
        differ("%s: the report has %.6g, the document %.6g", what, got, want);
}

double real_at(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return value ? json_number_value(value) : NAN;
}
const char *text_at(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

struct picture picture_of(const char *id) {
    struct picture p;
    if (!find_picture(page, id, &p)) differ("no picture %s", id);
    return p;
}

double pixel_of(const struct scale *s) {
    return fabs(s->b);
}

int first_rank(const char *label, int *count) {
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

const json_t *named(const json_t *list, const char *name) {
    const json_t *item;
    size_t i;
    json_array_foreach(list, i, item) if (!strcmp(text_at(item, "name"), name)) return item;
    return NULL;
}

int read_path(const char *d, double *xs, double *ys, int most) {
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

void check_line(const struct element *e, const struct scale *x, const struct scale *y, const struct line_of *line) {
    double xs[MOST_POINTS], ys[MOST_POINTS];
    int points = read_path(e->path, xs, ys, MOST_POINTS), wanted = (line->n + line->per - 1) / line->per;
    for (int k = 0; k < points; k++) {
        int from = k * line->per, to = from + line->per < line->n ? from + line->per : line->n;
        double sum = 0;
        for (int i = from; i < to; i++) sum += line->values[i];
        double want = sum / (to - from), end = isfinite(line->top) ? at_pixel(y, line->top) : INFINITY;
        same(line->name, at_pixel(y, ys[k]), fmin(want, end), 0, 0.02 * pixel_of(y));
        same("a line's step", at_pixel(x, xs[k]), line->first + to - 1, 0, 0.02 * pixel_of(x));
    }
    if (points != wanted) differ("%s: %d points of %d values", line->name, points, line->n);
}
