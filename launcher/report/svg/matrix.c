/* Matrices. */
#include "launcher/report/svg/matrix.h"

#include <math.h>
#include <string.h>

enum { MOST_CELL = 54, LEAST_CELL = 9, TEXT_CELL = 40, MOST_CUT = 120 };

int mt_matrix_step(double value, double least, double most) {
    if (!(most > least * 1.0001)) return MT_SVG_STEPS - 1;
    int step = (int)(MT_SVG_STEPS * log(value / least) / log(most / least));
    return step < 0 ? 0 : step >= MT_SVG_STEPS ? MT_SVG_STEPS - 1 : step;
}

static void find_range(const struct mt_matrix *m, double *least, double *most) {
    *least = INFINITY, *most = 0;
    for (int i = 0; i < m->n * m->n; i++)
        if (isfinite(m->values[i]) && m->values[i] > 0)
            *least = fmin(*least, m->values[i]), *most = fmax(*most, m->values[i]);
    if (!(*most > 0)) *least = *most = 1;
}

static void text_of(const struct mt_matrix *m, double value, char out[MT_UNIT_TEXT_BYTES]) {
    mt_unit_text(m->unit, mt_unit_prefix(m->unit, value, value), -1, value, out);
}

static void draw_cell(const struct mt_matrix *m, const struct mt_svg *svg, int row, int column, struct mt_box2 box,
                      double least, double most) {
    double value = m->values[row * m->n + column];
    char number[MT_UNIT_TEXT_BYTES], tip[MOST_CUT + 2 * MOST_CUT], class[16], cut[MT_UNIT_TEXT_BYTES + 8];
    if (!isfinite(value)) {
        mt_svg_rect(svg, box, "track", NULL);
        return;
    }
    int step = mt_matrix_step(value, least, most);
    text_of(m, value, number);
    snprintf(class, sizeof class, "q%d", step);
    snprintf(tip, sizeof tip, "%.100s %s %.100s: %s", m->names[row], "\xe2\x86\x92", m->names[column], number);
    mt_svg_rect(svg, box, class, tip);
    if (box.width < TEXT_CELL) return;
    snprintf(class, sizeof class, "in qt%d", step);
    mt_unit_text(m->unit, mt_unit_prefix(m->unit, least, most), -1, value, number);
    number[strcspn(number, " ")] = 0;
    if (mt_svg_text_width(mt_svg_cut(number, box.width, cut, sizeof cut)) < box.width)
        mt_svg_text(svg, box.x + box.width / 2, box.y + box.height / 2 + 4, MT_ANCHOR_MIDDLE, class, "%s", cut);
}

/* "from 11.7 to 31.4 GB/s" for each step. */
static double put_legend(const struct mt_matrix *m, const struct mt_svg *svg, double least, double most) {
    static const char *const classes[MT_SVG_STEPS] = {"q0", "q1", "q2", "q3", "q4"};
    struct mt_legend items[MT_SVG_STEPS];
    char texts[MT_SVG_STEPS][2 * MT_UNIT_TEXT_BYTES + 16], low[MT_UNIT_TEXT_BYTES];
    bool seen[MT_SVG_STEPS] = {0};
    double lows[MT_SVG_STEPS], highs[MT_SVG_STEPS];
    int n = 0;
    for (int i = 0; i < m->n * m->n; i++) {
        double v = m->values[i];
        if (!isfinite(v) || !(v > 0)) continue;
        int s = mt_matrix_step(v, least, most);
        lows[s] = seen[s] ? fmin(lows[s], v) : v, highs[s] = seen[s] ? fmax(highs[s], v) : v;
        seen[s] = true;
    }
    for (int s = 0; s < MT_SVG_STEPS; s++) {
        char high[MT_UNIT_TEXT_BYTES];
        if (!seen[s]) continue;
        text_of(m, lows[s], low), text_of(m, highs[s], high);
        if (strcmp(low, high))
            snprintf(texts[n], sizeof texts[n], "%s to %s", low, high);
        else
            snprintf(texts[n], sizeof texts[n], "%s", low);
        items[n] = (struct mt_legend){classes[s], texts[n]};
        n++;
    }
    return mt_svg_legend(svg, 0, items, n);
}

void mt_matrix_draw(const void *data, struct mt_svg *svg) {
    const struct mt_matrix *m = data;
    double least, most, label = 0, indexes = mt_svg_text_width("888") + 6;
    char text[MOST_CUT];
    struct mt_svg measure = *svg;
    measure.file = NULL;
    find_range(m, &least, &most);
    for (int i = 0; i < m->n; i++) label = fmax(label, mt_svg_text_width(m->names[i]));
    label = fmin(label + indexes, 0.4 * svg->width);
    double cell = fmax(LEAST_CELL, fmin(MOST_CELL, (svg->width - label) / m->n)), height = fmin(cell, 30);
    double head = put_legend(m, &measure, least, most) + MT_SVG_LINE, top = head + MT_SVG_LINE + 2;
    svg->height = top + m->n * height + 4;
    mt_svg_open(svg);
    put_legend(m, svg, least, most);
    mt_svg_text(svg, 0, head - 5, MT_ANCHOR_START, "soft", "%s, %s", m->from, m->to);
    for (int i = 0; i < m->n; i++) {
        if (height >= 12)
            mt_svg_text(svg, label - 8, top + i * height + height / 2 + 4, MT_ANCHOR_END, "", "%s",
                        mt_svg_cut(m->names[i], label - 8, text, sizeof text));
        snprintf(text, sizeof text, "%.*s", (int)strcspn(m->names[i], " "), m->names[i]);
        if (mt_svg_text_width(text) <= cell)
            mt_svg_text(svg, label + i * cell + cell / 2, top - 5, MT_ANCHOR_MIDDLE, "tick", "%s", text);
        for (int j = 0; j < m->n; j++)
            draw_cell(m, svg, i, j, (struct mt_box2){label + j * cell, top + i * height, cell - 1.5, height - 1.5},
                      least, most);
    }
    mt_svg_close(svg);
}
