/* Tables for terminals: column widths follow from the cells. */
#include <string.h>

#include "kernels/base/table/internal.h"

static void put(const char *text, enum mt_style style, FILE *file) {
    fprintf(file, "%s%s%s", mt_color_begin(file, style), text, mt_color_end(file, style));
}

static void print_line(const struct mt_grid *grid, const char **cells, const enum mt_style *styles, const int *width,
                       int indent, FILE *file) {
    int last = grid->ncolumns - 1;
    while (last >= 0 && !cells[last][0]) last--;
    for (int c = 0; c <= last; c++) {
        int fill = width[c] - mt_text_width(cells[c]), before = c ? 2 : indent;
        fprintf(file, "%*s", before + (grid->right[c] ? fill : 0), "");
        put(cells[c], styles ? styles[c] : MT_STYLE_PLAIN, file);
        if (!grid->right[c] && c < last) fprintf(file, "%*s", fill, "");
    }
    fputc('\n', file);
}

static void print_table(const struct mt_table *table, FILE *file) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_grid grid;
    mt_table_grid(table, &arena, &grid);
    int *width = mt_new(&arena, int, grid.ncolumns + 1);
    for (int c = 0; c < grid.ncolumns; c++) {
        width[c] = mt_text_width(grid.titles[c]);
        for (int r = 0; r < grid.nrows; r++)
            if (mt_text_width(grid.rows[r].cells[c]) > width[c]) width[c] = mt_text_width(grid.rows[r].cells[c]);
    }
    if (grid.header) print_line(&grid, grid.titles, NULL, width, table->indent, file);
    for (int r = 0; r < grid.nrows; r++)
        print_line(&grid, grid.rows[r].cells, grid.rows[r].styles, width, table->indent, file);
    mt_arena_release(&arena);
}

void mt_tables_write_text(const struct mt_tables *doc, int first, FILE *file) {
    bool begun = first > 0;
    for (int i = first; i < doc->count; i++) {
        const struct mt_tables_item *item = &doc->items[i];
        const struct mt_table *table = item->table;
        if (table && table->machines_only) continue;
        if (table && *table->title) {
            if (begun) fputc('\n', file);
            put(table->title, MT_STYLE_HEADING, file);
            fprintf(file, *table->note ? " (%s)\n" : "%s\n", table->note);
        }
        if (table) {
            print_table(table, file);
        } else {
            put(item->said, item->style, file);
            fputc('\n', file);
        }
        begun = true;
    }
}
