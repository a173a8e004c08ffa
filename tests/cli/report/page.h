/* A report as its reader sees it: elements of pictures with their geometry, scales from the numbers at the axes, cells
 * of tables. Nothing here is shared with what writes reports. */
#ifndef MT_TESTS_CLI_REPORT_PAGE_H
#define MT_TESTS_CLI_REPORT_PAGE_H

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 512, MOST_TICKS = 64, MOST_CELLS = 32 };

struct element {
    char name[12], class[48], text[TEXT]; /* the text, or that of the title within */
    double x, y, width, height, x1, y1, x2, y2, cx, cy;
    const char *path;                                    /* of its attribute d */
    size_t at_width, at_height, at_cx, at_path, at_text; /* where the page has these; 0: it has none */
};
struct picture {
    int n;
    struct element *elements;
};

/* "&lt;" and the like, of one text. */
static inline void unescape(const char *from, size_t length, char out[TEXT]) {
    static const char *const names[][2] = {
        {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}};
    size_t n = 0;
    for (size_t i = 0; i < length && n + 1 < TEXT;) {
        size_t skip = 1;
        out[n] = from[i];
        for (size_t k = 0; k < 5; k++)
            if (!strncmp(from + i, names[k][0], strlen(names[k][0])))
                out[n] = names[k][1][0], skip = strlen(names[k][0]);
        i += skip, n++;
    }
    out[n] = 0;
}

/* The attribute's value in a tag that ends at `end`; null: it has none. */
static inline const char *attribute(const char *tag, const char *end, const char *name) {
    char key[24];
    snprintf(key, sizeof key, " %s=\"", name);
    const char *at = strstr(tag, key);
    return at && at < end ? at + strlen(key) : NULL;
}

static inline double number_of(const char *tag, const char *end, const char *name) {
    const char *at = attribute(tag, end, name);
    return at ? strtod(at, NULL) : NAN;
}

static inline bool read_element(const char *page, const char *tag, struct element *e) {
    const char *end = strchr(tag, '>');
    static const char *const kinds[] = {"rect", "text", "line", "circle", "path"};
    *e = (struct element){.path = attribute(tag, end, "d")};
    size_t length = strcspn(tag + 1, " />");
    for (size_t k = 0; k < 5; k++)
        if (length == strlen(kinds[k]) && !strncmp(tag + 1, kinds[k], length)) strcpy(e->name, kinds[k]);
    if (!e->name[0]) return false;
    const char *class = attribute(tag, end, "class");
    if (class) snprintf(e->class, sizeof e->class, "%.*s", (int)strcspn(class, "\""), class);
    e->x = number_of(tag, end, "x"), e->y = number_of(tag, end, "y");
    e->width = number_of(tag, end, "width"), e->height = number_of(tag, end, "height");
    e->x1 = number_of(tag, end, "x1"), e->x2 = number_of(tag, end, "x2");
    e->y1 = number_of(tag, end, "y1"), e->y2 = number_of(tag, end, "y2");
    e->cx = number_of(tag, end, "cx"), e->cy = number_of(tag, end, "cy");
    const char *width = attribute(tag, end, "width"), *height = attribute(tag, end, "height");
    const char *cx = attribute(tag, end, "cx");
    e->at_width = width ? (size_t)(width - page) : 0, e->at_height = height ? (size_t)(height - page) : 0;
    e->at_cx = cx ? (size_t)(cx - page) : 0, e->at_path = e->path ? (size_t)(e->path - page) : 0;
    if (end[-1] != '/') {
        const char *text = end + 1;
        if (!strncmp(text, "<title>", 7)) text += 7;
        unescape(text, strcspn(text, "<"), e->text);
        e->at_text = (size_t)(text - page);
    }
    return true;
}

/* The picture of that id; false: there is none. */
static inline bool find_picture(const char *page, const char *id, struct picture *p) {
    char key[80];
    snprintf(key, sizeof key, "<svg id=\"%s\"", id);
    const char *at = strstr(page, key), *end = at ? strstr(at, "</svg>") : NULL;
    *p = (struct picture){0};
    if (!end) return false;
    int capacity = 0;
    for (at = strchr(at + 1, '<'); at && at < end; at = strchr(at + 1, '<')) {
        if (p->n == capacity) {
            capacity = capacity ? 2 * capacity : 256;
            p->elements = realloc(p->elements, (size_t)capacity * sizeof *p->elements);
            if (!p->elements) abort();
        }
        p->n += read_element(page, at, &p->elements[p->n]);
    }
    return true;
}

static inline bool has_class(const struct element *e, const char *class) {
    size_t length = strlen(class);
    for (const char *at = strstr(e->class, class); at; at = strstr(at + 1, class))
        if ((at == e->class || at[-1] == ' ') && (!at[length] || at[length] == ' ')) return true;
    return false;
}

/* ---- quantities ---- */

static inline double factor_of(const char *unit) {
    static const struct {
        const char *name;
        double factor;
    } units[] = {{"ns", 1e-9},     {"us", 1e-6},      {"ms", 1e-3},      {"s", 1},        {"h", 3600},
                 {"d", 86400},     {"B", 1},          {"KiB", 0x1p10},   {"MiB", 0x1p20}, {"GiB", 0x1p30},
                 {"TiB", 0x1p40},  {"%", 0.01},       {"k", 1e3},        {"M", 1e6},      {"G", 1e9},
                 {"T", 1e12},      {"P", 1e15},       {"B/s", 1},        {"kB/s", 1e3},   {"MB/s", 1e6},
                 {"GB/s", 1e9},    {"TB/s", 1e12},    {"flop/s", 1},     {"W", 1},        {"Mflop/s", 1e6},
                 {"Gflop/s", 1e9}, {"Tflop/s", 1e12}, {"Pflop/s", 1e15}, {"kW", 1e3}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(units[i].name, unit)) return units[i].factor;
    return NAN;
}

/* "12.3 ms", "37.5%", "48", "+8.5%": in base units; NaN: it is no quantity. */
static inline double quantity(const char *text) {
    char *end, unit[TEXT];
    double value = strtod(text, &end);
    if (end == text) return NAN;
    end += *end == ' ';
    snprintf(unit, sizeof unit, "%.*s", (int)strcspn(end, " ,;("), end);
    return unit[0] ? value * factor_of(unit) : value;
}

/* ---- scales ---- */

struct scale {
    bool log;
    double a, b; /* value, or its logarithm, = a + b pixel */
};

static inline double at_pixel(const struct scale *s, double pixel) {
    return s->log ? exp(s->a + s->b * pixel) : s->a + s->b * pixel;
}

/* From grid lines and the ticks at them: numbers of the axis' unit, which its title has in parentheses. An axis is
 * taken for linear where it can be; two ticks do not tell, so say in s->log that it is logarithmic where that is known.
 */
static inline bool find_scale(const struct picture *p, bool horizontal, struct scale *s) {
    double pixels[MOST_TICKS], values[MOST_TICKS], factor = 1;
    int n = 0;
    for (int i = 0; i < p->n; i++) {
        const struct element *e = &p->elements[i];
        bool below = has_class(e, "m");
        if (strcmp(e->name, "text") != 0) continue;
        if (has_class(e, "soft") && has_class(e, "e") == horizontal && strchr(e->text, '(')) {
            char unit[TEXT];
            const char *open = strrchr(e->text, '(') + 1;
            snprintf(unit, sizeof unit, "%.*s", (int)strcspn(open, ")"), open);
            if (isfinite(factor_of(unit))) factor = factor_of(unit);
        }
        if (!has_class(e, "tick") || below != horizontal || n == MOST_TICKS) continue;
        for (int k = 0; k < p->n; k++) { /* the line that it stands at */
            const struct element *l = &p->elements[k];
            if (strcmp(l->name, "line") != 0 || (!has_class(l, "grid") && !has_class(l, "axis"))) continue;
            double at = horizontal ? l->x1 : l->y1, text = horizontal ? e->x : e->y - 4;
            if ((horizontal ? l->x1 == l->x2 : l->y1 == l->y2) && fabs(at - text) < 0.02) {
                pixels[n] = at, values[n++] = quantity(e->text);
                break;
            }
        }
    }
    if (n < 2) return false;
    *s = (struct scale){.log = s->log, .b = (values[n - 1] - values[0]) / (pixels[n - 1] - pixels[0])};
    s->a = values[0] - s->b * pixels[0];
    for (int i = 0; i < n; i++)
        s->log |= fabs(at_pixel(&(struct scale){false, s->a, s->b}, pixels[i]) - values[i]) >
                  1e-3 * fabs(values[n - 1] - values[0]);
    for (int i = 0; i < n; i++)
        if (s->log && !(values[i] > 0)) return false;
    if (s->log) {
        s->b = (log(values[n - 1]) - log(values[0])) / (pixels[n - 1] - pixels[0]);
        s->a = log(values[0]) - s->b * pixels[0] + log(factor);
    } else {
        s->a *= factor, s->b *= factor;
    }
    return true;
}

/* ---- tables ---- */

struct cells {
    int n;
    char (*text)[TEXT];
    size_t at[MOST_CELLS]; /* in the page */
};

/* The next row of a table's body; false at its end. *at: begins as the table's place. */
static inline bool next_row(const char *page, const char **at, struct cells *row) {
    const char *end = strstr(*at, "</table>"), *tr = strstr(*at, "<tr"), *close = tr ? strstr(tr, "</tr>") : NULL;
    if (!close || close > end) return false;
    row->n = 0;
    for (const char *td = strstr(tr, "<t"); td && td < close && row->n < MOST_CELLS; td = strstr(td + 1, "<t")) {
        if (td[2] != 'd' && td[2] != 'h') continue;
        const char *text = strchr(td, '>') + 1;
        if (td[2] == 'h' && td[3] == 'e') continue; /* thead */
        row->at[row->n] = (size_t)(text - page);
        unescape(text, strcspn(text, "<"), row->text[row->n++]);
    }
    *at = close + 5;
    return true;
}

static inline const char *find_table(const char *page, const char *id) {
    char key[80];
    snprintf(key, sizeof key, "<table id=\"%s\">", id);
    return strstr(page, key);
}

#endif
