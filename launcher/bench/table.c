/* Each cell is added to the printed table and to the JSON. */
#include "launcher/bench/suite.h"

#include "kernels/base/text/units.h"

void mt_bench_table_begin(struct mt_bench_table *t, struct mt_json_out *json, const char *name,
                          const struct mt_bench_column *columns, int ncolumns) {
    *t = (struct mt_bench_table){.columns = columns, .ncolumns = ncolumns, .table = MT_PLAIN_TABLE_INIT, .json = json};
    mt_plain_table_row(&t->table); /* the header */
    for (int c = 0; c < ncolumns; c++) {
        if (columns[c].unit != MT_BENCH_TEXT) t->table.right |= 1 << c;
        mt_plain_table_cell(&t->table, "%s", columns[c].title);
    }
    if (json) mt_json_open(json, name, '[');
}

static const struct mt_bench_column *next_cell(struct mt_bench_table *t) {
    if (!t->at) mt_plain_table_row(&t->table);
    if (!t->at && t->json) mt_json_open_inline(t->json, NULL, '{');
    return &t->columns[t->at++];
}

static void end_cell(struct mt_bench_table *t) {
    if (t->at < t->ncolumns) return;
    t->at = 0;
    if (t->json) mt_json_close(t->json);
}

void mt_bench_text(struct mt_bench_table *t, const char *text) {
    const struct mt_bench_column *column = next_cell(t);
    mt_plain_table_cell(&t->table, "%s", text);
    if (t->json) mt_json_put_string(t->json, column->key, text);
    end_cell(t);
}

void mt_bench_number(struct mt_bench_table *t, double value) {
    const struct mt_bench_column *column = next_cell(t);
    char text[MT_UNITS_TEXT];
    if (!(value > 0)) {
        mt_plain_table_cell(&t->table, "-");
        end_cell(t);
        return;
    }
    switch (column->unit) {
    case MT_BENCH_SECONDS: mt_plain_table_cell(&t->table, "%s", mt_units_seconds(value, text)); break;
    case MT_BENCH_FLOPS: mt_plain_table_cell(&t->table, "%sflop/s", mt_units_count(value, text)); break;
    case MT_BENCH_BPS: mt_plain_table_cell(&t->table, "%sB/s", mt_units_count(value, text)); break;
    case MT_BENCH_PART: mt_plain_table_cell(&t->table, "%.1f%%", 100 * value); break;
    case MT_BENCH_BYTES: mt_plain_table_cell(&t->table, "%s", mt_units_bytes(value, text)); break;
    default: mt_plain_table_cell(&t->table, "%.0f", value);
    }
    if (t->json) mt_json_put_real(t->json, column->key, value);
    end_cell(t);
}

void mt_bench_table_end(struct mt_bench_table *t, bool print, const char *title) {
    if (t->json) mt_json_close(t->json);
    if (!print) {
        mt_arena_release(&t->table.arena);
        return;
    }
    printf("\n%s\n", title);
    mt_plain_table_print(&t->table, 2, stdout);
    fflush(stdout);
}
