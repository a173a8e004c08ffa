/* Tables as JSON: {"format": "motley-tables", ...}, a row a line. */
#include <math.h>

#include "kernels/base/table/internal.h"
#include "kernels/base/text/json.h"

static void put_cell(struct mt_json_out *out, const char *key, const struct mt_cell *cell) {
    char date[MT_DATE_TEXT];
    switch (cell->kind) {
    case MT_CELL_TEXT: mt_json_put_string(out, key, cell->text); return;
    case MT_CELL_LIST: mt_json_put_ints(out, key, cell->list, cell->count); return;
    case MT_CELL_NUMBER: break;
    default: mt_json_put_real_or_null(out, key, NAN); return;
    }
    if (cell->unit == MT_UNIT_DATE)
        mt_json_put_string(out, key, mt_date_text(cell->number, date));
    else if (fabs(cell->number) < 0x1p53 && cell->number == floor(cell->number))
        mt_json_put_int(out, key, (int64_t)cell->number);
    else
        mt_json_put_real(out, key, cell->number);
}

static void put_rows(struct mt_json_out *out, const char *key, const struct mt_table *t, bool totals) {
    static const struct mt_cell none = {.kind = MT_CELL_NONE};
    mt_json_open(out, key, '[');
    for (int r = 0; r < t->nrows; r++) {
        if (t->rows[r].total != totals) continue;
        mt_json_open_inline(out, NULL, '{');
        for (int c = 0; c < t->ncolumns; c++)
            put_cell(out, t->columns[c].key, c < t->rows[r].ncells ? &t->rows[r].cells[c] : &none);
        mt_json_close(out);
    }
    mt_json_close(out);
}

static void put_table(struct mt_json_out *out, const struct mt_table *t) {
    bool totals = false;
    for (int r = 0; r < t->nrows; r++) totals |= t->rows[r].total;
    mt_json_open(out, NULL, '{');
    mt_json_put_string(out, "name", t->name);
    mt_json_put_string(out, "title", t->title);
    mt_json_put_string(out, "note", t->note);
    mt_json_open(out, "columns", '[');
    for (int c = 0; c < t->ncolumns; c++) {
        mt_json_open_inline(out, NULL, '{');
        mt_json_put_string(out, "key", t->columns[c].key);
        mt_json_put_string(out, "title", t->columns[c].title);
        mt_json_put_string(out, "unit", mt_unit_name(t->columns[c].unit));
        mt_json_close(out);
    }
    mt_json_close(out);
    put_rows(out, "rows", t, false);
    if (totals) put_rows(out, "totals", t, true);
    mt_json_close(out);
}

void mt_tables_write_json(const struct mt_tables *doc, FILE *file) {
    struct mt_json_out out;
    mt_json_out_init(&out);
    mt_json_open(&out, NULL, '{');
    mt_json_put_string(&out, "format", MT_TABLES_FORMAT);
    mt_json_put_int(&out, "version", 1);
    mt_json_put_string(&out, "made_by", "motley " MOTLEY_VERSION);
    mt_json_open(&out, "said", '[');
    for (int i = 0; i < doc->count; i++)
        if (doc->items[i].said && *doc->items[i].said) mt_json_put_string(&out, NULL, doc->items[i].said);
    mt_json_close(&out);
    mt_json_open(&out, "tables", '[');
    for (int i = 0; i < doc->count; i++)
        if (doc->items[i].table && !doc->items[i].table->people_only) put_table(&out, doc->items[i].table);
    mt_json_close(&out);
    mt_json_close(&out);
    fwrite(out.text, 1, out.length, file);
    mt_json_out_release(&out);
}
