/* Rooflines: what each class of devices computes at most, by the operations done for each byte of its memory,
 *
 *     min(peak, intensity * memory bandwidth),
 *
 * for each precision; and of measured classes the GEMMs that were measured. */
#include <math.h>
#include <string.h>

#include "launcher/report/cluster/internal.h"
#include "launcher/report/svg/chart.h"

enum { MOST_CLASSES = 8, MOST_SERIES = 2 * MT_NTYPES, ROOF = 3 };

struct roofs {
    const struct mt_cluster_class *class;
    int n;
    struct mt_series series[MOST_SERIES + 1];
    double x[MOST_SERIES][ROOF], y[MOST_SERIES][ROOF], ridge[MOST_SERIES], peak[MOST_SERIES];
    double from, to; /* of the intensities that are drawn */
    struct mt_series dots;
    int ncolors;
};

/* Decades around the highest ridge, and around all dots. */
static void find_range(struct roofs *roofs) {
    double peak = 0, least = INFINITY, most = 0;
    for (int type = 0; type < MT_NTYPES; type++) peak = fmax(peak, roofs->class->flops[type]);
    double ridge = peak / roofs->class->memory_Bps;
    for (int i = 0; i < roofs->dots.n; i++) least = fmin(least, roofs->dots.x[i]), most = fmax(most, roofs->dots.x[i]);
    roofs->from = pow(10, floor(log10(fmin(ridge / 10, least))));
    roofs->to = pow(10, ceil(log10(fmax(ridge * 10, most))));
}

static void add_roof(struct roofs *roofs, const char *name, double peak, bool reached) {
    static const char *const colors[MT_SVG_SERIES] = {"s0", "s1", "s2", "s3", "s4", "s5"};
    double from = roofs->from, memory = roofs->class->memory_Bps, ridge = peak / memory;
    int i = roofs->n++;
    roofs->ridge[i] = ridge, roofs->peak[i] = peak;
    roofs->x[i][0] = fmin(from, ridge), roofs->y[i][0] = roofs->x[i][0] * memory;
    roofs->x[i][1] = ridge, roofs->y[i][1] = peak;
    roofs->x[i][2] = roofs->to, roofs->y[i][2] = peak;
    roofs->series[i] = (struct mt_series){.name = name,
                                          .form = MT_SERIES_LINE,
                                          .class = colors[(roofs->ncolors += !reached) - 1],
                                          .dashed = reached,
                                          .n = ROOF,
                                          .x = roofs->x[i],
                                          .y = roofs->y[i]};
}

/* The points of GEMM curves: flops over bytes, flops a second. */
static void add_dots(struct roofs *roofs, struct mt_arena *arena) {
    const struct mt_cluster_class *class = roofs->class;
    int most = 0, n = 0;
    for (int k = 0; k < class->ncurves; k++) most += class->curves[k].npoints;
    double *x = mt_new(arena, double, most + 1), *y = mt_new(arena, double, most + 1);
    for (int k = 0; k < class->ncurves; k++) {
        const struct mt_curve *curve = &class->curves[k];
        if (strcmp(curve->op, "matmul") != 0) continue;
        for (int p = 0; p < curve->npoints; p++) {
            double a = (double)curve->rows[p], b = (double)curve->dim[0], c = (double)curve->dim[1];
            if (!(curve->time_s[p] > 0)) continue;
            x[n] = 2 * a * b * c / ((a * b + a * c + b * c) * (double)mt_type_size(curve->type));
            y[n++] = 2 * a * b * c / curve->time_s[p];
        }
    }
    roofs->dots =
        (struct mt_series){.name = "measured GEMMs", .form = MT_SERIES_DOTS, .class = "s5", .n = n, .x = x, .y = y};
}

static void draw_class(struct mt_page *page, struct roofs *roofs) {
    double most = 0, least = INFINITY;
    for (int i = 0; i < roofs->n; i++) most = fmax(most, roofs->peak[i]), least = fmin(least, roofs->y[i][0]);
    struct mt_chart chart = {.x = {.title = "flop for each byte of memory",
                                   .unit = MT_UNIT_NUMBER,
                                   .log = true,
                                   .from = roofs->from,
                                   .to = roofs->to},
                             .y = {.title = "flop/s", .unit = MT_UNIT_QUANTITY, .log = true, .from = 0, .to = 0},
                             .series = roofs->series,
                             .nseries = roofs->n + (roofs->dots.n > 0)};
    mt_chart_fit(&chart, false);
    const char *name = roofs->class->name;
    mt_page_picture(page, mt_arena_printf(&page->arena, "Roofline of %s", name),
                    "What a device computes at most, by the operations that it does for each "
                    "byte that it reads or writes: rising while memory binds, level where "
                    "computing does. Both axes are logarithmic.",
                    mt_chart_draw, &chart);
}

/* "bf16, f16": the types with this peak; null if an earlier type has it. */
static const char *types_of(struct mt_page *page, const struct mt_cluster_class *class, enum mt_type first) {
    const char *names = mt_type_name(first);
    for (int type = 0; type < MT_NTYPES; type++) {
        if (class->flops[type] != class->flops[first] || type == (int)first) continue;
        if (type < (int)first) return NULL;
        names = mt_arena_printf(&page->arena, "%s, %s", names, mt_type_name((enum mt_type)type));
    }
    return names;
}

static void report_class(struct mt_page *page, const struct mt_cluster_class *class, int number) {
    struct roofs roofs = {.class = class};
    add_dots(&roofs, &page->arena);
    find_range(&roofs);
    for (int type = 0; type < MT_NTYPES; type++) {
        double peak = class->flops[type];
        const char *name = peak > 0 ? types_of(page, class, (enum mt_type)type) : NULL;
        if (!name) continue;
        add_roof(&roofs, name, peak, false);
        if (class->nominal && class->calibration < 1)
            add_roof(&roofs, mt_arena_printf(&page->arena, "%s, reached", name), peak * class->calibration, true);
    }
    roofs.series[roofs.n] = roofs.dots;
    struct mt_table *t = mt_page_table(
        page, mt_arena_printf(&page->arena, "roofline-%d", number),
        mt_arena_printf(&page->arena, "Roofline of %s (%s)", class->name, class->model),
        mt_arena_printf(&page->arena, "memory: %s", mt_page_quantity(page, MT_UNIT_BPS, class->memory_Bps)));
    mt_table_columns(t, {"rate", "rate", MT_UNIT_TEXT}, {"peak_flops", "peak", MT_UNIT_FLOPS},
                     {"ridge", "level from, flop/B", MT_UNIT_NUMBER});
    for (int i = 0; i < roofs.n; i++) {
        mt_table_row(t);
        mt_cell_text(t, "%s", roofs.series[i].name);
        mt_cell_real(t, roofs.peak[i]);
        mt_cell_real(t, roofs.ridge[i]);
    }
    if (roofs.n) draw_class(page, &roofs);
}

void mt_report_rooflines(struct mt_page *page, const struct mt_cluster *c) {
    bool any = false;
    for (int k = 0; k < c->nclasses && k < MOST_CLASSES; k++) {
        if (!(c->classes[k].memory_Bps > 0)) continue;
        double peak = 0;
        for (int type = 0; type < MT_NTYPES; type++) peak = fmax(peak, c->classes[k].flops[type]);
        if (!(peak > 0)) continue;
        if (!any) mt_page_heading(page, "Rooflines");
        any = true;
        report_class(page, &c->classes[k], k);
    }
    if (c->nclasses > MOST_CLASSES)
        mt_page_say(page, "Of %d classes the first %d are drawn.", c->nclasses, MOST_CLASSES);
}
