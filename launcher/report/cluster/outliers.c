/* Devices by speed, and what is out of line. Equal devices are one row. */
#include <math.h>

#include "kernels/base/text/ranks.h"
#include "launcher/report/cluster/internal.h"
#include "launcher/report/svg/bars.h"
#include "profiler/cluster/outlier.h"

enum { MOST_ROWS = 32 };

static bool equal(const struct mt_cluster_device *a, const struct mt_cluster_device *b) {
    return a->class == b->class && a->speed == b->speed && a->speed_error == b->speed_error &&
           a->emulated == b->emulated && a->stolen == b->stolen;
}

static int list_speeds(struct mt_page *page, const struct mt_cluster *c, const bool *odd, struct mt_bar *rows,
                       struct mt_table *t) {
    struct mt_arena *arena = &page->arena;
    int *ranks = mt_new(arena, int, c->ndevices), n = 0;
    bool *done = mt_new(arena, bool, c->ndevices);
    for (int d = 0; d < c->ndevices; d++) {
        const struct mt_cluster_device *one = &c->devices[d];
        int count = 0;
        if (done[d]) continue;
        for (int x = d; x < c->ndevices; x++)
            if (!done[x] && equal(one, &c->devices[x]) && odd[x] == odd[d]) done[x] = true, ranks[count++] = x;
        mt_table_row(t);
        const char *who = mt_ranks_text(ranks, count, MT_RANKS_NAME, arena);
        mt_cell_text(t, "%s", who);
        mt_cell_ranks(t, ranks, count);
        mt_cell_text(t, "%s", c->classes[one->class].name);
        mt_cell_real(t, one->speed);
        mt_cell_real(t, one->speed_error);
        mt_cell_real(t, one->emulated == 1 ? NAN : one->emulated);
        mt_cell_real(t, one->stolen);
        if (odd[d]) mt_cell_style(t, MT_STYLE_WARNING);
        if (n == MOST_ROWS) continue;
        rows[n++] = (struct mt_bar){.label = mt_arena_printf(arena, "%s %s, %s", count > 1 ? "ranks" : "rank", who,
                                                             c->classes[one->class].name),
                                    .text = mt_arena_printf(arena, "%.3f%s", one->speed, odd[d] ? ", an outlier" : ""),
                                    .nparts = 1,
                                    .parts = {one->speed},
                                    .low = one->speed * (1 - one->speed_error),
                                    .high = one->speed * (1 + one->speed_error),
                                    .chosen = odd[d]};
    }
    return n;
}

void mt_report_outliers(struct mt_page *page, const struct mt_cluster *c) {
    struct mt_outlier *list;
    int n = mt_cluster_outliers(c, &page->arena, &list);
    bool *odd = mt_new(&page->arena, bool, c->ndevices);
    struct mt_bar *rows = mt_new(&page->arena, struct mt_bar, MOST_ROWS);
    for (int i = 0; i < n; i++)
        if (list[i].device >= 0 && (list[i].kind == MT_SLOW_DEVICE || list[i].kind == MT_STOLEN_TIME))
            odd[list[i].device] = true;
    mt_page_heading(page, "Outliers");
    for (int i = 0; i < n; i++) mt_page_warn(page, "%s", list[i].text);
    if (!n) mt_page_say(page, "None: no device is slower than its class, no link worse than others of its kind.");
    struct mt_table *t = mt_page_table(page, "devices", "Speed of each device, relative to its class", "");
    mt_table_column(t, "who", "ranks", MT_UNIT_TEXT);
    mt_table_column(t, "ranks", "ranks", MT_UNIT_RANKS)->machines_only = true;
    mt_table_columns(t, {"class", "class", MT_UNIT_TEXT}, {"speed", "speed", MT_UNIT_NUMBER},
                     {"speed_error", "error", MT_UNIT_FRACTION}, {"emulated", "emulated", MT_UNIT_NUMBER},
                     {"stolen", "time taken by others", MT_UNIT_FRACTION});
    struct mt_bars bars = {
        .axis = {.title = "speed", .unit = MT_UNIT_NUMBER}, .dots = true, .zero = true, .rows = rows, .mark = NAN};
    bars.nrows = list_speeds(page, c, odd, rows, t);
    mt_page_picture(page, "Speed of devices",
                    "A dot for each group of equal devices, with its error; 1 is "
                    "the speed of the class.",
                    mt_bars_draw, &bars);
}
