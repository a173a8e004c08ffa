/* Measured against predicted times, rank by rank: how far each is from what the plan expects of it. */
#include <math.h>
#include <string.h>

#include "kernels/base/text/ranks.h"
#include "launcher/report/run/internal.h"
#include "launcher/report/svg/bars.h"

enum { MOST_ROWS = 24 };

static void add_columns(struct mt_table *t, bool predicted) {
    mt_table_columns(t, {"rank", "rank", MT_UNIT_COUNT}, {"host", "host", MT_UNIT_TEXT},
                     {"device", "device", MT_UNIT_TEXT}, {"samples", "samples", MT_UNIT_COUNT},
                     {"compute_s", "computing", MT_UNIT_SECONDS});
    if (predicted) mt_table_column(t, "predicted_compute_s", "predicted", MT_UNIT_SECONDS);
    mt_table_column(t, "wait_s", "waiting", MT_UNIT_SECONDS);
    if (predicted) mt_table_column(t, "predicted_wait_s", "predicted", MT_UNIT_SECONDS);
    mt_table_columns(t, {"comm_s", "in collectives", MT_UNIT_SECONDS}, {"memory_bytes", "memory", MT_UNIT_BYTES},
                     {"planned_bytes", "planned", MT_UNIT_BYTES});
    mt_table_fold(t, 2, "ranks");
}

static void add_row(struct mt_table *t, int r, const struct mt_run_rank *rank, bool predicted) {
    mt_table_row(t);
    mt_cell_int(t, r);
    mt_cell_text(t, "%s", rank->host);
    mt_cell_text(t, "%s", rank->device);
    if (rank->idle) return;
    mt_cell_int(t, rank->samples);
    mt_cell_real(t, rank->step_compute_s);
    if (predicted) mt_cell_real(t, rank->predicted_compute_s);
    mt_cell_real(t, rank->step_wait_s);
    if (predicted) mt_cell_real(t, rank->predicted_wait_s);
    mt_cell_real(t, rank->step_comm_s);
    mt_cell_real(t, fmax((double)(rank->peak_rss_bytes - rank->start_rss_bytes), 0));
    mt_cell_real(t, (double)rank->arena_bytes);
}

/* Two bars a rank: measured, and as predicted. */
static int list_bars(struct mt_report_run *run, struct mt_bar *bars) {
    const struct mt_run_doc *d = &run->doc;
    struct mt_arena *arena = &run->page->arena;
    int n = 0;
    for (int r = 0; r < d->nranks && n + 1 < MOST_ROWS; r++) {
        const struct mt_run_rank *rank = &d->ranks[r];
        if (rank->idle) continue;
        const char *compute = mt_page_quantity(run->page, MT_UNIT_SECONDS, rank->step_compute_s);
        const char *wait = mt_page_quantity(run->page, MT_UNIT_SECONDS, rank->step_wait_s);
        bars[n++] = (struct mt_bar){.label = mt_arena_printf(arena, "rank %d, measured", r),
                                    .text = mt_arena_printf(arena, "%s + %s", compute, wait),
                                    .nparts = 2,
                                    .parts = {rank->step_compute_s, rank->step_wait_s}};
        if (!(d->predicted_step_s > 0)) continue;
        compute = mt_page_quantity(run->page, MT_UNIT_SECONDS, rank->predicted_compute_s);
        wait = mt_page_quantity(run->page, MT_UNIT_SECONDS, rank->predicted_wait_s);
        bars[n++] = (struct mt_bar){.label = mt_arena_printf(arena, "rank %d, predicted", r),
                                    .text = mt_arena_printf(arena, "%s + %s", compute, wait),
                                    .nparts = 2,
                                    .parts = {rank->predicted_compute_s, rank->predicted_wait_s}};
    }
    return n;
}

void mt_report_run_ranks(struct mt_report_run *run) {
    const struct mt_run_doc *d = &run->doc;
    bool predicted = d->predicted_step_s > 0;
    mt_page_heading(run->page, "Ranks");
    struct mt_table *t =
        mt_page_table(run->page, "run-ranks",
                      predicted ? "Median times of a step, measured and predicted" : "Median times of a step", "");
    add_columns(t, predicted);
    for (int r = 0; r < d->nranks; r++) add_row(t, r, &d->ranks[r], predicted);
    struct mt_bar *rows = mt_new(&run->page->arena, struct mt_bar, MOST_ROWS + 2);
    struct mt_bars bars = {.axis = {.title = "time of a step", .unit = MT_UNIT_SECONDS},
                           .rows = rows,
                           .names = {"computing", "waiting"},
                           .classes = {"s0", "track"},
                           .mark = NAN};
    bars.nrows = list_bars(run, rows);
    if (bars.nrows)
        mt_page_picture(run->page, "Measured and predicted times of ranks",
                        "For each rank the median time that it computes "
                        "and waits in a step, and what the plan expects.",
                        mt_bars_draw, &bars);
}
