/* Answers of motley whatif, as tables and as JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/json.h"
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

static struct mt_table *begin(const struct mt_whatif *w, const struct mt_whatif_answer *answer, struct mt_tables *out) {
    char text[MT_UNITS_TEXT];
    bool idle = false;
    for (int i = 0; i < answer->count; i++) idle |= answer->rows[i].nidle > 0;
    struct mt_table *t = mt_tables_add(out, "whatif", "", "");
    mt_table_column(t, "model", "", MT_UNIT_TEXT)->machines_only = true;
    mt_table_column(t, "what", "", MT_UNIT_TEXT);
    mt_table_column(t, "devices", "devices", MT_UNIT_COUNT);
    mt_table_column(t, "idle", "idle", MT_UNIT_COUNT)->machines_only = !idle;
    mt_table_column(t, "step_s", "step", MT_UNIT_SECONDS);
    mt_table_column(t, "tokens_per_s", "tokens/s", MT_UNIT_QUANTITY);
    mt_table_column(t, "band_below", "band", MT_UNIT_CHANGE)->decimals = 0;
    mt_table_column(t, "band_above", "", MT_UNIT_CHANGE)->decimals = 0;
    mt_table_column(t, "gain", "", MT_UNIT_RATIO);
    mt_table_column(t, "tie", "", MT_UNIT_TEXT);
    mt_table_column(t, "tie_row", "", MT_UNIT_COUNT)->machines_only = true;
    mt_table_columns(t, {"headroom_bytes", "least memory left", MT_UNIT_BYTES},
                     {"headroom_rank", "on rank", MT_UNIT_COUNT}, {"figures", "figures", MT_UNIT_TEXT});
    const char *time = mt_arena_printf(&out->arena, "%s tokens", mt_units_count(w->tokens, text));
    mt_table_column(t, "time_s", time, MT_UNIT_SECONDS)->machines_only = !(w->tokens > 0);
    mt_table_column(t, "cost_per_hour", "cost/h", MT_UNIT_MONEY)->machines_only = !w->prices;
    mt_table_column(t, "cost_per_million_tokens", "per M tokens", MT_UNIT_MONEY)->machines_only = !w->prices;
    mt_table_column(t, "cost", "cost", MT_UNIT_MONEY)->machines_only = !w->prices || !(w->tokens > 0);
    mt_table_column(t, "waits_for", "waits for", MT_UNIT_TEXT);
    mt_table_column(t, "refused", "", MT_UNIT_TEXT)->machines_only = true;
    mt_table_column(t, "cannot_run", "", MT_UNIT_TEXT)->machines_only = true;
    return t;
}

/* Against the first row. */
static void add_gain(const struct mt_whatif_row *row, const struct mt_whatif_row *first, struct mt_table *t) {
    double gain = first->refused ? NAN : row->tokens_per_s / first->tokens_per_s;
    mt_cell_real(t, gain);
    if (gain > 1 && row->tie < 0 && row != first) mt_cell_style(t, MT_STYLE_BETTER);
    if (row->tie >= 0 && !first->refused)
        mt_cell_text(t, "tie with row %d", row->tie + 1);
    else
        mt_cell_text(t, "%s", "");
    mt_cell_real(t, row->tie >= 0 ? (double)row->tie + 1 : NAN);
}

static void add_figures(const struct mt_whatif *w, const struct mt_whatif_row *row, const struct mt_whatif_row *first,
                        const struct mt_whatif_alternative *alternative, int note, struct mt_table *t) {
    bool limited = row->headroom_rank >= 0;
    mt_cell_real(t, row->step_s);
    mt_cell_real(t, row->tokens_per_s);
    mt_cell_real(t, -row->error_below);
    mt_cell_real(t, row->error);
    add_gain(row, first, t);
    mt_cell_real(t, limited ? (double)row->headroom_bytes : NAN);
    mt_cell_real(t, limited ? (double)row->headroom_rank : NAN);
    if (row->cannot_run)
        mt_cell_text(t, "%s, cannot run here: see [%d]", figures(row), note);
    else
        mt_cell_text(t, "%s", figures(row));
    mt_cell_style(t, row->cannot_run ? MT_STYLE_WARNING : MT_STYLE_PLAIN);
    mt_cell_real(t, w->tokens > 0 ? 3600 * hours_of(w, row) : NAN);
    mt_cell_real(t, w->prices ? alternative->per_hour : NAN);
    mt_cell_real(t, w->prices ? cost_of_million(alternative, row) : NAN);
    mt_cell_real(t, w->prices && w->tokens > 0 ? alternative->per_hour * hours_of(w, row) : NAN);
    mt_cell_text(t, "%s", row->binds);
    mt_cell_blank(t);
    if (row->cannot_run) mt_cell_text(t, "%s", row->cannot_run);
}

/* No plan: a word in the place of the step, the reason in the last column but one. */
static void add_refused(const struct mt_whatif_row *row, int note, struct mt_table *t) {
    mt_cell_word(t, "none: see [%d]", note);
    mt_cell_style(t, MT_STYLE_ERROR);
    while (t->rows[t->nrows - 1].ncells < t->ncolumns - 2) mt_cell_blank(t);
    mt_cell_text(t, "%s", row->refused);
}

void mt_whatif_tables(const struct mt_whatif *w, const struct mt_whatif_answer *answer, struct mt_tables *out) {
    bool first;
    mt_tables_say(out, "%s, %lld samples of %lld a step, %s", answer->model, (long long)answer->job.batch,
                  (long long)answer->job.seq, mt_job_precision(&answer->job));
    struct mt_table *t = begin(w, answer, out);
    for (int i = 0; i < answer->count; i++) {
        const struct mt_whatif_row *row = &answer->rows[i];
        int note = note_of(row) ? note_number(answer, i, &first) : 0;
        mt_table_row(t);
        mt_cell_text(t, "%s", answer->model);
        mt_cell_text(t, "%s", w->alternatives[i].what);
        mt_cell_int(t, w->alternatives[i].cluster->ndevices);
        mt_cell_int(t, row->nidle);
        if (row->refused)
            add_refused(row, note, t);
        else
            add_figures(w, row, &answer->rows[0], &w->alternatives[i], note, t);
    }
    for (int i = 0; i < answer->count; i++) {
        int note = note_of(&answer->rows[i]) ? note_number(answer, i, &first) : 0;
        if (note && first) mt_tables_say(out, "  [%d] %s", note, note_of(&answer->rows[i]));
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
    mt_json_put_string(&out, "format", MT_WHATIF_FORMAT);
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
