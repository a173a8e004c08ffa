/* Elements of SVG. Numbers have two decimals at most: a hundredth of a pixel. */
#include "launcher/report/svg/svg.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/text/utf8.h"

enum { SWATCH = 12, LEGEND_GAP = 18 };

void mt_html_text(FILE *file, const char *text) {
    size_t left = strlen(text);
    for (int n; left; text += n, left -= (size_t)n) {
        n = mt_utf8_length(text, left);
        unsigned char c = (unsigned char)*text;
        if (!n || (c < 0x20 && c != '\t' && c != '\n') || c == 0x7f ||
            (c == 0xc2 && (unsigned char)text[1] < 0xa0)) { /* and the control characters of Latin 1 */
            n = n ? n : 1;
            fputs("\xef\xbf\xbd", file);
            continue;
        }
        switch (c) {
        case '&': fputs("&amp;", file); break;
        case '<': fputs("&lt;", file); break;
        case '>': fputs("&gt;", file); break;
        case '"': fputs("&quot;", file); break;
        case '\'': fputs("&#39;", file); break;
        default: fwrite(text, 1, (size_t)n, file);
        }
    }
}

/* "12.5", "12": at most two decimals, without zeros at the end. */
static const char *number(double value, char out[32]) {
    snprintf(out, 32, "%.2f", value);
    size_t n = strlen(out);
    while (out[n - 1] == '0') out[--n] = 0;
    if (out[n - 1] == '.') out[--n] = 0;
    return strcmp(out, "-0") ? out : "0";
}

static void put(const struct mt_svg *svg, const char *name, double value) {
    char text[32];
    fprintf(svg->file, " %s=\"%s\"", name, number(value, text));
}

static void put_class(const struct mt_svg *svg, const char *class) {
    if (class && class[0]) fprintf(svg->file, " class=\"%s\"", class);
}

static void end(const struct mt_svg *svg, const char *element, const char *tip) {
    if (!tip) {
        fputs("/>\n", svg->file);
        return;
    }
    fputs("><title>", svg->file);
    mt_html_text(svg->file, tip);
    fprintf(svg->file, "</title></%s>\n", element);
}

void mt_svg_open(const struct mt_svg *svg) {
    FILE *f = svg->file;
    fprintf(f, "<svg id=\"%s\" role=\"img\" aria-labelledby=\"%s-t %s-d\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" ",
            svg->id, svg->id, svg->id, ceil(svg->width), ceil(svg->height), ceil(svg->width));
    fprintf(f, "height=\"%.0f\">\n<title id=\"%s-t\">", ceil(svg->height), svg->id);
    mt_html_text(f, svg->title);
    fprintf(f, "</title>\n<desc id=\"%s-d\">", svg->id);
    mt_html_text(f, svg->description);
    fputs("</desc>\n", f);
}

void mt_svg_close(const struct mt_svg *svg) {
    fputs("</svg>\n", svg->file);
}

void mt_svg_rect(const struct mt_svg *svg, struct mt_box2 box, const char *class, const char *tip) {
    fputs("<rect", svg->file);
    put_class(svg, class);
    put(svg, "x", box.x), put(svg, "y", box.y), put(svg, "width", fmax(box.width, 0));
    put(svg, "height", fmax(box.height, 0));
    end(svg, "rect", tip);
}

void mt_svg_line(const struct mt_svg *svg, double x1, double y1, double x2, double y2, const char *class) {
    fputs("<line", svg->file);
    put_class(svg, class);
    put(svg, "x1", x1), put(svg, "y1", y1), put(svg, "x2", x2), put(svg, "y2", y2);
    end(svg, "line", NULL);
}

void mt_svg_dot(const struct mt_svg *svg, double x, double y, double radius, const char *class, const char *tip) {
    fputs("<circle", svg->file);
    put_class(svg, class);
    put(svg, "cx", x), put(svg, "cy", y), put(svg, "r", radius);
    end(svg, "circle", tip);
}

static void point(const struct mt_svg *svg, char command, double x, double y) {
    char a[32], b[32];
    fprintf(svg->file, "%c%s %s", command, number(x, a), number(y, b));
}

void mt_svg_path(const struct mt_svg *svg, const double *x, const double *y, int n, bool step, const char *class) {
    bool pen = false;
    char text[32];
    fputs("<path", svg->file);
    put_class(svg, class);
    fputs(" d=\"", svg->file);
    for (int i = 0; i < n; i++) {
        if (isnan(y[i])) {
            pen = false;
            continue;
        }
        if (pen && step) fprintf(svg->file, "H%s", number(x[i], text));
        if (pen && step)
            fprintf(svg->file, "V%s", number(y[i], text));
        else
            point(svg, pen ? 'L' : 'M', x[i], y[i]);
        pen = true;
    }
    fputs("\"/>\n", svg->file);
}

void mt_svg_area(const struct mt_svg *svg, const double *x, const double *low, const double *high, int n,
                 const char *class) {
    if (n < 1) return;
    fputs("<path", svg->file);
    put_class(svg, class);
    fputs(" d=\"", svg->file);
    for (int i = 0; i < n; i++) point(svg, i ? 'L' : 'M', x[i], high[i]);
    for (int i = n - 1; i >= 0; i--) point(svg, 'L', x[i], low[i]);
    fputs("Z\"/>\n", svg->file);
}

/* What is behind a text that crosses lines. */
static void put_ground(const struct mt_svg *svg, double x, double y, enum mt_anchor anchor, const char *text) {
    double width = mt_svg_text_width(text) + 4;
    x -= anchor == MT_ANCHOR_START ? 2 : anchor == MT_ANCHOR_MIDDLE ? width / 2 : width - 2;
    mt_svg_rect(svg, (struct mt_box2){x, y - 11, width, 14}, "ground", NULL);
}

void mt_svg_text(const struct mt_svg *svg, double x, double y, enum mt_anchor anchor, const char *class,
                 const char *format, ...) {
    static const char *const anchors[] = {"", "m", "e"};
    struct mt_arena arena = MT_ARENA_INIT;
    va_list args;
    va_start(args, format);
    const char *text = mt_arena_vprintf(&arena, format, args);
    va_end(args);
    if (class && strstr(class, "halo")) put_ground(svg, x, y, anchor, text);
    fputs("<text", svg->file);
    put(svg, "x", x), put(svg, "y", y);
    if (class && class[0] && anchor)
        fprintf(svg->file, " class=\"%s %s\"", anchors[anchor], class);
    else
        put_class(svg, anchor ? anchors[anchor] : class);
    fputc('>', svg->file);
    mt_html_text(svg->file, text);
    fputs("</text>\n", svg->file);
    mt_arena_release(&arena);
}

/* Of 12 pixels' sans-serif type, about; what is not ASCII counts as wide. */
static double char_width(char c) {
    if (strchr("iljtfrI.,:;'|!()[]- ", c)) return 4.2;
    return strchr("mwMW%@", c) ? 10.5 : 7;
}

double mt_svg_text_width(const char *text) {
    double width = 0;
    size_t left = strlen(text);
    for (int n; left; text += n, left -= (size_t)n) {
        n = mt_utf8_length(text, left);
        width += n > 1 ? 11 : char_width(*text);
        n = n ? n : 1;
    }
    return width;
}

char *mt_svg_cut(const char *text, double width, char *out, size_t size) {
    size_t length = strlen(text), used = 0;
    snprintf(out, size, "%s", text);
    if (length < size && mt_svg_text_width(text) <= width) return out;
    double at = 0;
    while (used < length && used + 8 < size) {
        int n = mt_utf8_length(text + used, length - used);
        n = n ? n : 1;
        char one[8] = {0};
        memcpy(one, text + used, (size_t)n);
        at += mt_svg_text_width(one);
        if (at > width - 11) break;
        used += (size_t)n;
    }
    while (used && out[used - 1] == ' ') used--;
    strcpy(out + used, "\xe2\x80\xa6");
    return out;
}

double mt_svg_legend(const struct mt_svg *svg, double y, const struct mt_legend *items, int count) {
    double x = 0, top = y;
    for (int i = 0; i < count; i++) {
        double needs = SWATCH + 5 + mt_svg_text_width(items[i].name);
        if (x > 0 && x + needs > svg->width) x = 0, y += MT_SVG_LINE + 4;
        if (svg->file) {
            mt_svg_rect(svg, (struct mt_box2){x, y, SWATCH, SWATCH}, items[i].class, NULL);
            mt_svg_text(svg, x + SWATCH + 5, y + SWATCH - 1.5, MT_ANCHOR_START, "", "%s", items[i].name);
        }
        x += needs + LEGEND_GAP;
    }
    return count ? y + MT_SVG_LINE + 6 - top : 0;
}
