/* Answers of motley whatif, as tables and as JSON. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/json.h"
#include "kernels/base/text/plain_table.h"
#include "kernels/base/text/units.h"
#include "launcher/show/show.h"
#include "planner/review/whatif.h"

static const char *figures(const struct mt_whatif_row *row) {
    return row->nominal ? "nominal" : row->edited ? "thought of" : "measured";
}

/* Time and cost of training on the tokens of --tokens. */
static double hours_of(const struct mt_whatif *w, const struct mt_whatif_row *row) {
    return w->tokens / row->tokens_per_s / 3600;
}
static double cost_of_million(const struct mt_whatif_alternative *a, const struct mt_whatif_row *row) {
    return a->per_hour / 3600 / row->tokens_per_s * 1e6;
}

static void add_header(const struct mt_whatif *w, struct mt_plain_table *table) {
    char text[MT_UNITS_TEXT];
    mt_plain_table_header(table, "", ">devices", ">step", ">tokens/s", ">band", "", ">least memory left", "figures", NULL);
    if (w->tokens > 0)
        mt_plain_table_column(table, mt_arena_printf(&table->arena, ">%s tokens", mt_units_count(w->tokens, text)));
    if (w->prices) mt_plain_table_header(table, ">cost/h", ">per M tokens", NULL);
    if (w->prices && w->tokens > 0) mt_plain_table_column(table, ">cost");
    mt_plain_table_column(table, "waits for");
}

static void add_figures(const struct mt_whatif *w, const struct mt_whatif_row *row, const struct mt_whatif_row *first,
                        const struct mt_whatif_alternative *alternative, int note, struct mt_plain_table *table) {
    char text[MT_UNITS_TEXT];
    mt_plain_table_cell(table, "%s", mt_units_seconds(row->step_s, text));
    mt_plain_table_cell(table, "%s", mt_units_count(row->tokens_per_s, text));
    mt_plain_table_cell(table, "-%.0f%% +%.0f%%", 100 * row->error_below, 100 * row->error);
    if (first->refused)
        mt_plain_table_cell(table, "-");
    else
        mt_plain_table_cell(table, row->tie >= 0 ? "x %.2f, tie with row %d" : "x %.2f",
                      row->tokens_per_s / first->tokens_per_s, row->tie + 1);
    if (row->headroom_rank < 0)
        mt_plain_table_cell(table, "-");
    else
        mt_plain_table_cell(table, "%s (rank %d)", mt_units_bytes((double)row->headroom_bytes, text), row->headroom_rank);
    if (row->cannot_run)
        mt_plain_table_cell(table, "%s, cannot run here: see [%d]", figures(row), note);
    else
        mt_plain_table_cell(table, "%s", figures(row));
    if (w->tokens > 0) mt_plain_table_cell(table, "%s", mt_units_seconds(3600 * hours_of(w, row), text));
    if (w->prices) {
        mt_plain_table_cell(table, "%.2f", alternative->per_hour);
        mt_plain_table_cell(table, "%.3g", cost_of_million(alternative, row));
    }
    if (w->prices && w->tokens > 0) mt_plain_table_cell(table, "%.2f", alternative->per_hour * hours_of(w, row));
    mt_plain_table_cell(table, "%s", row->binds);
}

/* Why there is no plan, or why it cannot run; or null. */
static const char *note_of(const struct mt_whatif_row *row) {
    return row->refused ? row->refused : row->cannot_run;
}

/* The number of a row's note, from 1, and whether no row before it has the same. Equal notes have one number. */
static int note_number(const struct mt_whatif_answer *answer, int row, bool *first) {
    int number = 0;
    for (int i = 0; i <= row; i++) {
        const char *note = note_of(&answer->rows[i]);
        bool fresh = note != NULL;
        for (int k = 0; k < i && fresh; k++)
            fresh = !note_of(&answer->rows[k]) || strcmp(note_of(&answer->rows[k]), note);
        number += fresh;
        *first = i == row && fresh;
        if (note && !strcmp(note, note_of(&answer->rows[row]))) break;
    }
    return number;
}

void mt_whatif_print(const struct mt_whatif *w, const struct mt_whatif_answer *answer, FILE *file) {
    struct mt_plain_table table = MT_PLAIN_TABLE_INIT;
    bool first;
    add_header(w, &table);
    for (int i = 0; i < answer->count; i++) {
        const struct mt_whatif_row *row = &answer->rows[i];
        mt_plain_table_row(&table);
        mt_plain_table_cell(&table, "%s", w->alternatives[i].what);
        mt_plain_table_cell(&table, row->nidle ? "%d (%d idle)" : "%d", w->alternatives[i].cluster->ndevices, row->nidle);
        int note = note_of(row) ? note_number(answer, i, &first) : 0;
        if (row->refused)
            mt_plain_table_cell(&table, "none: see [%d]", note);
        else
            add_figures(w, row, &answer->rows[0], &w->alternatives[i], note, &table);
    }
    fprintf(file, "%s, %lld samples of %lld a step, %s\n", answer->model, (long long)answer->job.batch,
            (long long)answer->job.seq, mt_job_precision(&answer->job));
    mt_plain_table_print(&table, 2, file);
    for (int i = 0; i < answer->count; i++) {
        int note = note_of(&answer->rows[i]) ? note_number(answer, i, &first) : 0;
        if (note && first) fprintf(file, "  [%d] %s\n", note, note_of(&answer->rows[i]));
    }
}

static void write_row(const struct mt_whatif *w, int i, const struct mt_whatif_row *row, struct mt_json_out *out) {
    const struct mt_whatif_alternative *alternative = &w->alternatives[i];
    mt_json_open_inline(out, NULL, '{');
    mt_json_put_string(out, "what", alternative->what);
    mt_json_put_int(out, "devices", alternative->cluster->ndevices);
    if (row->refused) {
        mt_json_put_string(out, "refused", row->refused);
        mt_json_close(out);
        return;
    }
    if (row->nidle) mt_json_put_int(out, "idle", row->nidle);
    mt_json_put_real(out, "step_s", row->step_s);
    mt_json_put_real(out, "error", row->error);
    if (row->error_below != row->error) mt_json_put_real(out, "error_below", row->error_below);
    if (row->tie >= 0) mt_json_put_int(out, "tie", row->tie + 1);
    mt_json_put_real(out, "tokens_per_s", row->tokens_per_s);
    mt_json_put_string(out, "figures", figures(row));
    if (row->cannot_run) mt_json_put_string(out, "cannot_run", row->cannot_run);
    if (row->headroom_rank >= 0) {
        mt_json_put_int(out, "headroom_bytes", row->headroom_bytes);
        mt_json_put_int(out, "headroom_rank", row->headroom_rank);
    }
    if (w->tokens > 0) mt_json_put_real(out, "time_s", 3600 * hours_of(w, row));
    if (w->prices) {
        mt_json_put_real(out, "cost_per_hour", alternative->per_hour);
        mt_json_put_real(out, "cost_per_million_tokens", cost_of_million(alternative, row));
        if (w->tokens > 0) mt_json_put_real(out, "cost", alternative->per_hour * hours_of(w, row));
    }
    mt_json_put_string(out, "waits_for", row->binds);
    mt_json_close(out);
}

enum mt_status mt_whatif_write(const struct mt_whatif *w, const struct mt_whatif_answer *answers, int count,
                               const char *path, struct mt_err *err) {
    struct mt_json_out out;
    mt_json_out_init(&out);
    mt_json_open(&out, NULL, '{');
    mt_json_put_string(&out, "format", "motley-whatif");
    mt_json_put_int(&out, "version", 1);
    mt_json_put_string(&out, "made_by", "motley " MOTLEY_VERSION);
    mt_json_put_string(&out, "cluster_hash", w->cluster->hash);
    if (w->tokens > 0) mt_json_put_real(&out, "tokens", w->tokens);
    mt_json_open(&out, "models", '[');
    for (int a = 0; a < count; a++) {
        mt_json_open(&out, NULL, '{');
        mt_json_put_string(&out, "model", answers[a].model);
        mt_job_write(&answers[a].job, "job", &out);
        mt_json_open(&out, "rows", '[');
        for (int i = 0; i < answers[a].count; i++) write_row(w, i, &answers[a].rows[i], &out);
        mt_json_close(&out);
        mt_json_close(&out);
    }
    mt_json_close(&out);
    mt_json_close(&out);
    enum mt_status st = mt_file_replace(path, out.text, out.length, err);
    mt_json_out_release(&out);
    return st;
}
