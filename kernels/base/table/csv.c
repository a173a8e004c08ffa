/* Tables as CSV, RFC 4180: fields with commas, quotes or line ends are quoted, lines end with CR LF. Numbers are in
 * base units with all digits; what is not known is an empty field; lists have spaces between their numbers. A text that
 * a spreadsheet would run as a formula (a file or a host may be named "=...") begins with an apostrophe, as OWASP
 * advises; bytes that are no UTF-8 become U+FFFD, as in JSON. */
#include <string.h>

#include "kernels/base/table/internal.h"
#include "kernels/base/text/units.h"
#include "kernels/base/text/utf8.h"

static bool is_formula(const char *text) {
    text += strspn(text, " \t\r\n");
    return *text && strchr("=+-@", *text) && text[1];
}

static void put_text(const char *text, FILE *file) {
    bool quoted = text[strcspn(text, ",\"\r\n")] || *text == ' ';
    if (quoted) fputc('"', file);
    if (is_formula(text)) fputc('\'', file);
    for (int n; *text; text += n ? n : 1) {
        n = mt_utf8_length(text, SIZE_MAX);
        if (*text == '"') fputc('"', file);
        fprintf(file, "%.*s", n ? n : 3, n ? text : "\xef\xbf\xbd");
    }
    if (quoted) fputc('"', file);
}

static void put_cell(const struct mt_cell *cell, FILE *file) {
    char number[MT_UNITS_EXACT], date[MT_DATE_TEXT];
    switch (cell->kind) {
    case MT_CELL_TEXT: put_text(cell->text, file); return;
    case MT_CELL_LIST:
        for (int i = 0; i < cell->count; i++) fprintf(file, i ? " %lld" : "%lld", (long long)cell->list[i]);
        return;
    case MT_CELL_NUMBER:
        fputs(cell->unit == MT_UNIT_DATE ? mt_date_text(cell->number, date) : mt_units_exact(cell->number, number),
              file);
        return;
    default: return;
    }
}

static void put_table(const struct mt_table *t, FILE *file) {
    fputs("table", file);
    for (int c = 0; c < t->ncolumns; c++) {
        fputc(',', file);
        put_text(t->columns[c].key, file);
    }
    fputs("\r\n", file);
    for (int r = 0; r < t->nrows; r++) {
        put_text(t->name, file);
        for (int c = 0; c < t->ncolumns; c++) {
            fputc(',', file);
            if (c < t->rows[r].ncells) put_cell(&t->rows[r].cells[c], file);
        }
        fputs("\r\n", file);
    }
}

void mt_tables_write_csv(const struct mt_tables *doc, FILE *file) {
    bool begun = false;
    for (int i = 0; i < doc->count; i++) {
        if (!doc->items[i].table || doc->items[i].table->people_only) continue;
        if (begun) fputs("\r\n", file);
        put_table(doc->items[i].table, file);
        begun = true;
    }
}
