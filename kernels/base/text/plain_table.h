/* Tables for terminals: column widths follow from the cells.
 *
 *     struct mt_plain_table table = MT_PLAIN_TABLE_INIT;
 *     mt_plain_table_header(&table, "rank", "host", ">batch", NULL);     // '>': flush right
 *     mt_plain_table_row(&table);
 *     mt_plain_table_cell(&table, "%d", rank); mt_plain_table_cell(&table, "%s", host); ...
 *     mt_plain_table_print(&table, 2, stdout);                           // indented by 2; also releases the table */
#ifndef MT_KERNELS_BASE_TEXT_PLAIN_TABLE_H
#define MT_KERNELS_BASE_TEXT_PLAIN_TABLE_H

#include <stdio.h>

#include "kernels/base/arena.h"

#define MT_PLAIN_TABLE_COLUMNS 24

struct mt_plain_table_line {
    char *cells[MT_PLAIN_TABLE_COLUMNS];
    int count;
};
struct mt_plain_table {
    struct mt_arena arena;
    struct mt_plain_table_line *lines;
    int nlines, capacity;
    int right; /* bits: columns that are flush right */
};

#define MT_PLAIN_TABLE_INIT                                                                                                  \
    { {0}, 0, 0, 0, 0 }

/* The first line: names that end with a null pointer; more columns may be added with mt_plain_table_column. */
void mt_plain_table_header(struct mt_plain_table *table, const char *name, ...) __attribute__((sentinel));
void mt_plain_table_column(struct mt_plain_table *table, const char *name);

/* Start a line, and add a cell to it. A line may be shorter than the header. Unprintable characters become '?'. */
void mt_plain_table_row(struct mt_plain_table *table);
void mt_plain_table_cell(struct mt_plain_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Of more than MT_PLAIN_TABLE_SHOWN lines after the header, fold those that differ in the first `names` cells only into one:
 * these cells become "a to d" of lines that followed one another (of numbers without a gap), "a .. d" of others, and a
 * last cell, below `title`, counts them. In the order of their first lines. Lines that are not folded, as sums, are
 * added afterwards. */
#define MT_PLAIN_TABLE_SHOWN 16
void mt_plain_table_fold(struct mt_plain_table *table, int names, const char *title);

void mt_plain_table_print(struct mt_plain_table *table, int indent, FILE *file);

#endif
