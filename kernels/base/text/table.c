/* Tables for terminals. */
#include "kernels/base/text/table.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

void mt_table_row(struct mt_table *table) {
    mt_arena_grow(&table->arena, &table->lines, table->nlines, &table->capacity, sizeof *table->lines);
    memset(&table->lines[table->nlines++], 0, sizeof *table->lines);
}

void mt_table_cell(struct mt_table *table, const char *format, ...) {
    assert(table->nlines > 0);
    struct mt_table_line *line = &table->lines[table->nlines - 1];
    assert(line->count < MT_TABLE_COLUMNS);
    va_list args;
    va_start(args, format);
    char *text = line->cells[line->count++] = mt_arena_vprintf(&table->arena, format, args);
    va_end(args);
    for (unsigned char *c = (unsigned char *)text; *c; c++)
        if (*c < 0x20 || *c == 0x7f) *c = '?';
}

void mt_table_column(struct mt_table *table, const char *name) {
    if (!table->nlines) mt_table_row(table);
    assert(table->nlines == 1);
    if (*name == '>') table->right |= 1 << table->lines[0].count, name++;
    mt_table_cell(table, "%s", name);
}

void mt_table_header(struct mt_table *table, const char *name, ...) {
    va_list args;
    va_start(args, name);
    for (; name; name = va_arg(args, const char *)) mt_table_column(table, name);
    va_end(args);
}

/* Characters, not bytes. */
static int width_of(const char *text) {
    int n = 0;
    for (; *text; text++) n += (*text & 0xc0) != 0x80;
    return n;
}

void mt_table_print(struct mt_table *table, int indent, FILE *file) {
    int width[MT_TABLE_COLUMNS] = {0};
    for (int l = 0; l < table->nlines; l++)
        for (int c = 0; c < table->lines[l].count; c++) {
            int w = width_of(table->lines[l].cells[c]);
            if (w > width[c]) width[c] = w;
        }
    for (int l = 0; l < table->nlines; l++) {
        const struct mt_table_line *line = &table->lines[l];
        int last = line->count - 1;
        while (last >= 0 && !line->cells[last][0]) last--;
        for (int c = 0; c <= last; c++) {
            int fill = width[c] - width_of(line->cells[c]), before = c ? 2 : indent;
            if (table->right >> c & 1)
                fprintf(file, "%*s%s", before + fill, "", line->cells[c]);
            else
                fprintf(file, "%*s%s%*s", before, "", line->cells[c], c == last ? 0 : fill, "");
        }
        fputc('\n', file);
    }
    mt_arena_release(&table->arena);
    *table = (struct mt_table)MT_TABLE_INIT;
}
