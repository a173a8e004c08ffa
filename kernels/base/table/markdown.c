/* Tables for Markdown: pipe tables, as GitHub and pandoc read them. */
#include <string.h>

#include "kernels/base/table/internal.h"

/* Characters that mean something inside a cell or a line are escaped. */
static void put(const char *text, FILE *file) {
    for (; *text; text++) {
        if (strchr("|\\`*_<>[]#", *text)) fputc('\\', file);
        fputc(*text, file);
    }
}

static void put_line(const struct mt_grid *grid, const char **cells, FILE *file) {
    for (int c = 0; c < grid->ncolumns; c++) {
        fputs("| ", file);
        put(cells[c], file);
        fputc(' ', file);
    }
    fputs("|\n", file);
}

static void put_table(const struct mt_table *table, FILE *file) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_grid grid;
    mt_table_grid(table, &arena, &grid);
    put_line(&grid, grid.titles, file); /* pipe tables have a header, if an empty one */
    for (int c = 0; c < grid.ncolumns; c++) fputs(grid.right[c] ? "| ---: " : "| --- ", file);
    fputs("|\n", file);
    for (int r = 0; r < grid.nrows; r++) put_line(&grid, grid.rows[r].cells, file);
    mt_arena_release(&arena);
}

void mt_tables_write_markdown(const struct mt_tables *doc, FILE *file) {
    bool begun = false;
    for (int i = 0; i < doc->count; i++) {
        const struct mt_table *table = doc->items[i].table;
        const struct mt_tables_item *after = i + 1 < doc->count ? &doc->items[i + 1] : NULL;
        if (table && table->machines_only) continue;
        if (table) {
            if (begun) fputc('\n', file);
            if (*table->title) {
                fputs("### ", file);
                put(table->title, file);
                fputs("\n\n", file);
            }
            if (*table->note) {
                put(table->note, file);
                fputs("\n\n", file);
            }
            if (table->ncolumns) put_table(table, file);
            if (after && after->said) fputc('\n', file);
        } else {
            put(doc->items[i].said, file);
            fputs(after && after->said ? "  \n" : "\n", file); /* two spaces: the line ends here */
        }
        begun = true;
    }
}
