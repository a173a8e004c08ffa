/* Typed tables: what commands tell, as values with units, for several writers.
 *
 * A document (struct mt_tables) is a list of tables and of lines of text between them. A table has typed columns; its
 * cells hold values, in base units, never strings of numbers. Writers choose digits, prefixes and alignment, so that
 * the table that a terminal shows, the JSON that a script reads and a report's picture come from the same numbers.
 *
 *     struct mt_tables doc = MT_TABLES_INIT;
 *     mt_tables_say(&doc, "plan  %s", plan->hash);                                // for people
 *     struct mt_table *t = mt_tables_add(&doc, "ranks", "ranks", "speed is relative");
 *     mt_table_columns(t, {"rank", "rank", MT_UNIT_COUNT},                        // JSON's key; the title; the unit
 *                      {"host", "host", MT_UNIT_TEXT}, {"step_s", "step", MT_UNIT_SECONDS});
 *     for (int r = 0; r < n; r++) {
 *         mt_table_row(t);
 *         mt_cell_int(t, r), mt_cell_text(t, "%s", host[r]), mt_cell_real(t, step_s[r]);
 *         if (step_s[r] > limit_s) mt_cell_style(t, MT_STYLE_WARNING);            // of the last cell
 *     }
 *     mt_table_fold(t, 2, "ranks");                       // of many rows: equal ones are one line for people
 *     mt_tables_write(&doc, MT_TABLES_TEXT, stdout);      // or MT_TABLES_MARKDOWN, MT_TABLES_CSV, MT_TABLES_JSON
 *     mt_tables_release(&doc);
 *
 * For people, numbers of a column have the same unit and prefix in all rows; for machines, base units and all digits.
 * Keys name their units (step_s, memory_bytes, bandwidth_Bps), as documents do. Names of tables and keys are stable.
 *
 *     table.c     building            text.c, markdown.c   for people (grid.c: cells to strings, folding of equal rows)
 *     unit.c      numbers to text     csv.c, json.c        for machines (write.c: all four) */
#ifndef MT_KERNELS_BASE_TABLE_TABLE_H
#define MT_KERNELS_BASE_TABLE_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "kernels/base/arena.h"
#include "kernels/base/table/unit.h"
#include "kernels/base/color.h"
#include "kernels/base/text/printed.h"

enum mt_cell_kind {
    MT_CELL_NONE,  /* not known, or does not apply: "-"; null for machines */
    MT_CELL_BLANK, /* as a sum of speeds: nothing is printed; null */
    MT_CELL_WORD,  /* in a column of numbers, a word for people ("idle"); null */
    MT_CELL_TEXT,
    MT_CELL_NUMBER,
    MT_CELL_LIST
};
struct mt_cell {
    enum mt_cell_kind kind;
    enum mt_unit unit; /* the column's, or where that is MT_UNIT_ANY, its own */
    enum mt_style style;
    double number;
    const char *text;
    const int64_t *list;
    int count; /* of the list */
};
struct mt_row {
    struct mt_cell *cells; /* [ncells]: a row may be shorter than the table, then the others are blank */
    int ncells;
    bool total; /* a sum of others: never folded, apart in JSON */
};

struct mt_column {
    const char *key, *title; /* the title may be empty */
    enum mt_unit unit;
    int decimals;       /* digits after the point for people; -1: as the unit has them */
    bool once;          /* for people: empty where it, and those before it that are `once`, are as in the row above */
    bool alone;         /* not compared when rows are folded; empty in a line of several rows */
    bool one_prefix;    /* of MT_UNIT_ANY: numbers of one unit have one prefix, as in other columns */
    bool machines_only; /* not for people, who read it elsewhere */
};

struct mt_table {
    struct mt_arena *arena; /* the document's */
    const char *name;       /* "ranks" */
    const char *title;      /* "ranks"; may be empty */
    const char *note;       /* for people, after the title in parentheses; may be empty */
    bool machines_only;     /* what sentences say, in numbers */
    bool people_only;       /* machines read it elsewhere, as a matrix in a list of pairs */
    bool bare;              /* as text: without the line of titles */
    int shown;              /* rows for people, who are told so; 0: all */
    int indent;             /* of its lines, as text: 2 */
    int fold_names;         /* mt_table_fold; 0: is not folded */
    const char *fold_title;
    struct mt_column *columns;
    int ncolumns, columns_capacity;
    struct mt_row *rows;
    int nrows, rows_capacity;
};

struct mt_tables_item { /* one of the two */
    struct mt_table *table;
    const char *said; /* a line, without its newline */
    enum mt_style style;
};
struct mt_tables {
    struct mt_arena arena;
    struct mt_tables_item *items;
    int count, capacity;
    int written; /* items that mt_tables_flush has written */
    struct mt_printed printed;
};
#define MT_TABLES_INIT                                                                                                 \
    {                                                                                                                  \
        {0}, NULL, 0, 0, 0, {                                                                                          \
            NULL, 0, NULL                                                                                              \
        }                                                                                                              \
    }
void mt_tables_release(struct mt_tables *doc);

/* ---- building: all texts are copied ---- */

/* A text for people, in place: a line, or several with newlines between them; "" is an empty line. */
void mt_tables_say(struct mt_tables *doc, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mt_tables_say_styled(struct mt_tables *doc, enum mt_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for lines that are printed piece by piece, to the file, until the end. */
FILE *mt_tables_say_begin(struct mt_tables *doc);
void mt_tables_say_end(struct mt_tables *doc);

/* A new table at the end. It lives as long as the document. */
struct mt_table *mt_tables_add(struct mt_tables *doc, const char *name, const char *title, const char *note);

/* The first table of this name, or null. */
struct mt_table *mt_tables_find(const struct mt_tables *doc, const char *name);

/* Columns are added before rows; the one returned, to be changed, is valid until the next is added. */
struct mt_column *mt_table_column(struct mt_table *table, const char *key, const char *title, enum mt_unit unit);

/* Several: mt_table_columns(table, {"rank", "rank", MT_UNIT_COUNT}, {"host", "host", MT_UNIT_TEXT}); */
struct mt_heading {
    const char *key, *title;
    enum mt_unit unit;
};
void mt_table_add_columns(struct mt_table *table, size_t count, const struct mt_heading *headings);
#define mt_table_columns(table, ...)                                                                                   \
    mt_table_add_columns((table), sizeof(struct mt_heading[]){__VA_ARGS__} / sizeof(struct mt_heading),                \
                         (const struct mt_heading[]){__VA_ARGS__})

void mt_table_row(struct mt_table *table);
void mt_table_total(struct mt_table *table); /* a row of sums */

/* A table of one row, for what sentences say, built value by value: another column with its cell. */
struct mt_table *mt_tables_add_values(struct mt_tables *doc, const char *name); /* for machines only */
void mt_table_put_text(struct mt_table *table, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void mt_table_put_real(struct mt_table *table, const char *key, enum mt_unit unit, double value); /* not finite: none */

/* The next cell of the last row. */
void mt_cell_text(struct mt_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mt_cell_word(struct mt_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mt_cell_int(struct mt_table *table, int64_t value);
void mt_cell_real(struct mt_table *table, double value);                       /* not finite: none */
void mt_cell_positive(struct mt_table *table, double value);                   /* not above 0: none */
void mt_cell_measure(struct mt_table *table, double value, enum mt_unit unit); /* in a column of MT_UNIT_ANY */
void mt_cell_ints(struct mt_table *table, const int64_t *values, int count);
void mt_cell_ranks(struct mt_table *table, const int *ranks, int count);
void mt_cell_none(struct mt_table *table);
void mt_cell_blank(struct mt_table *table);
void mt_cell_style(struct mt_table *table, enum mt_style style); /* of the last cell */

/* For people, of more than MT_TABLE_SHOWN rows that are no totals, those that differ in the first `names` columns only
 * become one line: these cells "a to d" of rows that followed one another (of numbers without a gap), "a .. d" of
 * others; a last column, below `title`, counts them. In the order of their first rows. */
#define MT_TABLE_SHOWN 16
void mt_table_fold(struct mt_table *table, int names, const char *title);

/* ---- writing ---- */

#define MT_TABLES_FORMAT "motley-tables" /* of the JSON */
enum mt_tables_format { MT_TABLES_TEXT, MT_TABLES_MARKDOWN, MT_TABLES_CSV, MT_TABLES_JSON };

/* TEXT: lines and tables in order, an empty line before each titled table but the first item. MARKDOWN: the same, as
 * pipe tables. CSV (RFC 4180): a header and the rows of each table, whose first column is the table's name; an empty
 * line between tables. JSON: {"format": "motley-tables", "version": 1, "made_by", "said": [lines], "tables": [{"name",
 * "title", "note", "columns": [{"key", "title", "unit"}], "rows": [{key: value}], "totals": [the same]}]}: every row
 * has every key, null where nothing is known; "totals" only if there are any. */
void mt_tables_write(const struct mt_tables *doc, enum mt_tables_format format, FILE *file);

/* As text, what was added since the last time, for commands that tell as they go. */
void mt_tables_flush(struct mt_tables *doc, FILE *file);

/* ---- cells as strings, for writers ---- */

struct mt_grid_row {
    const char **cells; /* [ncolumns]; never null */
    enum mt_style *styles;
    bool total;
    int first, rows; /* the row of the table that it is, and how many it stands for */
};
struct mt_grid {
    int ncolumns, nrows;
    const char **titles;
    const int *columns; /* [ncolumns]: which of the table's; -1: the count of folded rows */
    bool *right;        /* flush right */
    bool header;        /* some title is not empty */
    struct mt_grid_row *rows;
};
/* Columns for people only; folded as the table says. Unprintable characters become '?'. In the arena. */
void mt_table_grid(const struct mt_table *table, struct mt_arena *arena, struct mt_grid *grid);

/* Columns that a text occupies, of UTF-8: characters, not bytes. */
int mt_text_width(const char *text);

#endif
