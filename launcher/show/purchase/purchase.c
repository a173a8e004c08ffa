/* A purchase document as tables. */
#include "launcher/show/purchase/purchase.h"

#include <string.h>

#include "kernels/base/text/units.h"
#include "launcher/show/show.h"

static void add_catalogue(const struct mt_purchase *p, struct mt_tables *out) {
    struct mt_table *t = mt_tables_add(out, "catalogue", "catalogue", "of a node, with all its devices");
    mt_table_columns(t, {"name", "name", MT_UNIT_TEXT}, {"devices", "devices", MT_UNIT_COUNT},
                     {"device", "device", MT_UNIT_TEXT}, {"memory_bytes", "memory of one", MT_UNIT_BYTES},
                     {"price", "price", MT_UNIT_MONEY}, {"per_hour", "an hour", MT_UNIT_MONEY},
                     {"power_W", "power", MT_UNIT_WATTS}, {"rack_units", "rack units", MT_UNIT_NUMBER},
                     {"link", "link", MT_UNIT_TEXT}, {"link_Bps", "one way", MT_UNIT_BPS},
                     {"net_bps", "net", MT_UNIT_BITPS}, {"power_source", "power by", MT_UNIT_TEXT});
    for (int i = 0; i < p->nitems; i++) {
        const struct mt_purchase_item *item = &p->items[i];
        mt_table_row(t);
        mt_cell_text(t, "%s", item->name);
        mt_cell_int(t, item->devices);
        mt_cell_text(t, "%s", item->device);
        mt_cell_real(t, (double)item->memory_bytes);
        mt_cell_real(t, item->price);
        mt_cell_real(t, item->per_hour);
        mt_cell_positive(t, item->power_W);
        mt_cell_positive(t, item->rack_units);
        mt_cell_text(t, "%s", item->link);
        mt_cell_positive(t, item->link_Bps);
        mt_cell_positive(t, item->net_bps);
        mt_cell_text(t, "%s", item->power_source);
    }
}

/* One line for each reason. */
static void say_excluded(const struct mt_purchase *p, struct mt_tables *out) {
    struct mt_arena arena = MT_ARENA_INIT;
    for (int i = 0; i < p->nexcluded; i++) {
        const char *names = p->excluded[i].name;
        bool said = false;
        for (int k = 0; k < i; k++) said |= !strcmp(p->excluded[k].why, p->excluded[i].why);
        for (int k = i + 1; k < p->nexcluded && !said; k++)
            if (!strcmp(p->excluded[k].why, p->excluded[i].why))
                names = mt_arena_printf(&arena, "%s, %s", names, p->excluded[k].name);
        if (!said) mt_tables_say(out, "left out   %s: %s", names, p->excluded[i].why);
    }
    mt_arena_release(&arena);
}

static void add_jobs(const struct mt_purchase *p, struct mt_tables *out) {
    struct mt_table *t = mt_tables_add(out, "jobs", "jobs", "one after another");
    mt_table_columns(t, {"job", "", MT_UNIT_COUNT}, {"model", "model", MT_UNIT_TEXT}, {"batch", "batch", MT_UNIT_COUNT},
                     {"seq", "seq", MT_UNIT_COUNT}, {"precision", "precision", MT_UNIT_TEXT},
                     {"steps", "steps", MT_UNIT_QUANTITY}, {"tokens", "tokens", MT_UNIT_QUANTITY},
                     {"deadline_s", "deadline", MT_UNIT_SECONDS});
    for (int j = 0; j < p->njobs; j++) {
        const struct mt_purchase_job *job = &p->jobs[j];
        mt_table_row(t);
        mt_cell_int(t, j + 1);
        mt_cell_text(t, "%s", job->model);
        mt_cell_int(t, job->job.batch);
        mt_cell_int(t, job->job.seq);
        mt_cell_text(t, "%s", mt_job_precision(&job->job));
        mt_cell_real(t, job->steps);
        mt_cell_real(t, job->tokens);
        mt_cell_positive(t, job->deadline_s);
    }
}

static void add_row_columns(struct mt_table *t) {
    mt_table_columns(t, {"what", "", MT_UNIT_TEXT}, {"devices", "devices", MT_UNIT_COUNT},
                     {"time_s", "time", MT_UNIT_SECONDS}, {"error_below", "- band", MT_UNIT_FRACTION},
                     {"error", "+ band", MT_UNIT_FRACTION}, {"price", "price", MT_UNIT_MONEY},
                     {"per_hour", "an hour", MT_UNIT_MONEY}, {"cost", "cost", MT_UNIT_MONEY},
                     {"power_W", "power", MT_UNIT_WATTS}, {"rack_units", "rack units", MT_UNIT_NUMBER});
}

static void add_row_cells(const struct mt_purchase_row *row, struct mt_table *t) {
    mt_cell_text(t, "%s", row->what);
    mt_cell_int(t, row->devices);
    mt_cell_real(t, row->time_s);
    mt_cell_real(t, row->error_below);
    mt_cell_real(t, row->error);
    mt_cell_real(t, row->price);
    mt_cell_real(t, row->per_hour);
    mt_cell_real(t, row->cost);
    mt_cell_positive(t, row->power_W);
    mt_cell_positive(t, row->rack_units);
}

/* The job that takes the longest. */
static int longest_job(const struct mt_purchase *p, const struct mt_purchase_row *row) {
    int longest = 0;
    for (int j = 1; j < p->njobs; j++)
        if (row->jobs[j].time_s > row->jobs[longest].time_s) longest = j;
    return longest;
}

/* idle: devices that the longest job leaves out. */
static const char *remark(const struct mt_purchase *p, const struct mt_purchase_row *row, char text[64]) {
    snprintf(text, 64, "%s%s",
             row->late       ? "late"
             : row->frontier ? "frontier"
                             : "",
             row->tie >= 0 && (row->late || row->frontier) ? ", " : "");
    size_t used = strlen(text);
    if (row->tie >= 0) used += (size_t)snprintf(text + used, 64 - used, "tie with %d", row->tie + 1);
    int idle = row->jobs[longest_job(p, row)].idle;
    if (idle) snprintf(text + used, 64 - used, "%s%d idle", used ? ", " : "", idle);
    return text;
}

static void add_configurations(const struct mt_purchase *p, struct mt_tables *out) {
    struct mt_table *t = mt_tables_add(out, "configurations", "configurations",
                                       p->objective[0] == 'c' ? "the least cost first" : "the least time first");
    char text[64];
    mt_table_column(t, "row", "", MT_UNIT_COUNT);
    add_row_columns(t);
    mt_table_columns(t, {"headroom_bytes", "least memory left", MT_UNIT_BYTES}, {"remark", "", MT_UNIT_TEXT},
                     {"binds", "waits for", MT_UNIT_TEXT});
    mt_table_column(t, "tie", "tie", MT_UNIT_COUNT)->machines_only = true;
    mt_table_column(t, "frontier", "frontier", MT_UNIT_COUNT)->machines_only = true;
    mt_table_column(t, "late", "late", MT_UNIT_COUNT)->machines_only = true;
    mt_table_column(t, "cluster", "cluster", MT_UNIT_TEXT)->machines_only = true;
    for (int i = 0; i < p->nrows; i++) {
        const struct mt_purchase_row *row = &p->rows[i];
        const struct mt_purchase_job_row *least = &row->jobs[0];
        for (int j = 1; j < p->njobs; j++)
            if (!least->headroom_of[0] ||
                (row->jobs[j].headroom_of[0] && row->jobs[j].headroom_bytes < least->headroom_bytes))
                least = &row->jobs[j];
        mt_table_row(t);
        mt_cell_int(t, i + 1);
        add_row_cells(row, t);
        if (least->headroom_of[0])
            mt_cell_real(t, (double)least->headroom_bytes);
        else
            mt_cell_none(t);
        mt_cell_text(t, "%s", remark(p, row, text));
        mt_cell_text(t, "%s", row->jobs[longest_job(p, row)].binds);
        if (row->tie >= 0)
            mt_cell_int(t, row->tie + 1);
        else
            mt_cell_none(t);
        mt_cell_int(t, row->frontier);
        mt_cell_int(t, row->late);
        mt_cell_text(t, "%s", row->cluster);
    }
}

/* Jobs of the first row. */
static void add_job_times(const struct mt_purchase *p, struct mt_tables *out) {
    struct mt_table *t = mt_tables_add(out, "job_times", "jobs on configuration 1", "");
    mt_table_columns(t, {"job", "", MT_UNIT_COUNT}, {"step_s", "step", MT_UNIT_SECONDS},
                     {"tokens_per_s", "tokens/s", MT_UNIT_QUANTITY}, {"time_s", "time", MT_UNIT_SECONDS},
                     {"end_s", "ends after", MT_UNIT_SECONDS}, {"idle", "idle devices", MT_UNIT_COUNT},
                     {"headroom_bytes", "least memory left", MT_UNIT_BYTES}, {"headroom_of", "of", MT_UNIT_TEXT},
                     {"program", "divides", MT_UNIT_TEXT}, {"binds", "waits for", MT_UNIT_TEXT});
    for (int j = 0; j < p->njobs; j++) {
        const struct mt_purchase_job_row *job = &p->rows[0].jobs[j];
        mt_table_row(t);
        mt_cell_int(t, j + 1);
        mt_cell_real(t, job->step_s);
        mt_cell_real(t, p->jobs[j].tokens / job->time_s);
        mt_cell_real(t, job->time_s);
        mt_cell_real(t, job->end_s);
        mt_cell_int(t, job->idle);
        if (job->headroom_of[0])
            mt_cell_real(t, (double)job->headroom_bytes);
        else
            mt_cell_none(t);
        mt_cell_text(t, "%s", job->headroom_of);
        mt_cell_text(t, "%s", job->program);
        mt_cell_text(t, "%s", job->binds);
        if (job->late) mt_cell_style(t, MT_STYLE_WARNING);
    }
}

static void add_next(const struct mt_purchase *p, struct mt_tables *out) {
    struct mt_table *t =
        mt_tables_add(out, "next", "with more money", "estimate: by the relaxation's dual value of money");
    mt_table_column(t, "money", "more", MT_UNIT_MONEY);
    mt_table_column(t, "estimate_s", "estimate", MT_UNIT_SECONDS);
    add_row_columns(t);
    mt_table_column(t, "saves_s", "saves", MT_UNIT_SECONDS);
    mt_table_column(t, "remark", "", MT_UNIT_TEXT);
    for (int i = 0; i < p->nnext; i++) {
        const struct mt_purchase_next *next = &p->next[i];
        mt_table_row(t);
        mt_cell_real(t, next->money);
        mt_cell_positive(t, next->estimate_s);
        add_row_cells(&next->row, t);
        mt_cell_real(t, p->rows[0].time_s - next->row.time_s);
        mt_cell_text(t, "%s", !next->better ? "nothing better" : next->row.tie == 0 ? "tie with 1" : "");
    }
}

static void say_head(const struct mt_purchase *p, struct mt_tables *out) {
    char judged[MT_UNITS_TEXT], all[MT_UNITS_TEXT];
    mt_tables_say(out, "purchase   %s", p->hash[0] ? p->hash : "not written");
    mt_tables_say(out, "network    %s", p->network);
    if (p->owned.what[0])
        mt_tables_say(out, "owned      %s (%d devices on %d node%s)", p->owned.what, p->owned.devices, p->owned.nodes,
                      p->owned.nodes == 1 ? "" : "s");
    mt_tables_say(out, "planned    %s of %s%s configurations within the limits, those that promise most%s",
                  mt_units_count((double)p->judged, judged), p->configurations >= 1e6 ? "more than " : "",
                  mt_units_count(p->configurations, all),
                  p->nominal ? "; nominal: times rest on public figures that were not measured" : "");
}

static void say_best(const struct mt_purchase *p, struct mt_tables *out) {
    char text[MT_UNITS_TEXT];
    int cheapest = 0;
    for (int i = 1; i < p->nrows; i++)
        if (p->rows[i].tie == 0 && !p->rows[i].late && p->rows[i].cost < p->rows[cheapest].cost) cheapest = i;
    mt_tables_say(out, "%s", "");
    mt_tables_say(out, "best       %s: %s", p->rows[0].what, mt_units_seconds(p->rows[0].time_s, text));
    if (cheapest)
        mt_tables_say(out, "tie        %s may as well be as fast, and costs %s less", p->rows[cheapest].what,
                      mt_units_count(p->rows[0].cost - p->rows[cheapest].cost, text));
    if (p->binds[0]) mt_tables_say(out, "binds      %s", p->binds);
    if (p->rows[0].cluster[0]) mt_tables_say(out, "plan it    motley plan --cluster \"%s\"", p->rows[0].cluster);
}

void mt_purchase_tables(const struct mt_purchase *p, struct mt_tables *out) {
    say_head(p, out);
    say_excluded(p, out);
    if (p->nitems) add_catalogue(p, out);
    add_jobs(p, out);
    if (!p->nrows) return;
    add_configurations(p, out);
    add_job_times(p, out);
    if (p->nnext) add_next(p, out);
    say_best(p, out);
}

enum mt_status mt_show_purchase(const char *path, struct mt_tables *out, bool *outliers, struct mt_err *err) {
    struct mt_purchase *purchase;
    (void)outliers;
    enum mt_status st = mt_purchase_read(path, &purchase, err);
    if (st) return st;
    mt_purchase_tables(purchase, out);
    mt_purchase_free(purchase);
    return MT_OK;
}
