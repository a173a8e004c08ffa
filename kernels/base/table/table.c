/* Building typed tables. */
#include "kernels/base/table/table.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void mt_tables_release(struct mt_tables *doc) {
    mt_arena_release(&doc->arena);
    *doc = (struct mt_tables)MT_TABLES_INIT;
}

static struct mt_tables_item *add_item(struct mt_tables *doc) {
    mt_arena_grow(&doc->arena, &doc->items, doc->count, &doc->capacity, sizeof *doc->items);
    struct mt_tables_item *item = &doc->items[doc->count++];
    *item = (struct mt_tables_item){.style = MT_STYLE_PLAIN};
    return item;
}

static void say_lines(struct mt_tables *doc, enum mt_style style, char *text) {
    for (char *line = text, *end; line; line = end) {
        end = strchr(line, '\n');
        if (end) *end++ = 0;
        struct mt_tables_item *item = add_item(doc);
        item->said = line;
        item->style = style;
    }
}

void mt_tables_say(struct mt_tables *doc, const char *format, ...) {
    va_list args;
    va_start(args, format);
    say_lines(doc, MT_STYLE_PLAIN, mt_arena_vprintf(&doc->arena, format, args));
    va_end(args);
}

void mt_tables_say_styled(struct mt_tables *doc, enum mt_style style, const char *format, ...) {
    va_list args;
    va_start(args, format);
    say_lines(doc, style, mt_arena_vprintf(&doc->arena, format, args));
    va_end(args);
}

FILE *mt_tables_say_begin(struct mt_tables *doc) {
    return mt_printed_begin(&doc->printed);
}

void mt_tables_say_end(struct mt_tables *doc) {
    char *text = mt_printed_end(&doc->printed);
    size_t length = doc->printed.length;
    if (length && text[length - 1] == '\n') text[length - 1] = 0; /* the last line's own end */
    if (length) say_lines(doc, MT_STYLE_PLAIN, mt_arena_strdup(&doc->arena, text));
    free(text);
}

struct mt_table *mt_tables_add(struct mt_tables *doc, const char *name, const char *title, const char *note) {
    struct mt_table *table = add_item(doc)->table = mt_new(&doc->arena, struct mt_table, 1);
    *table = (struct mt_table){.arena = &doc->arena,
                               .name = mt_arena_strdup(&doc->arena, name),
                               .title = mt_arena_strdup(&doc->arena, title),
                               .note = mt_arena_strdup(&doc->arena, note),
                               .indent = 2};
    return table;
}

struct mt_table *mt_tables_find(const struct mt_tables *doc, const char *name) {
    for (int i = 0; i < doc->count; i++)
        if (doc->items[i].table && !strcmp(doc->items[i].table->name, name)) return doc->items[i].table;
    return NULL;
}

static struct mt_column *add_column(struct mt_table *t, const char *key, const char *title, enum mt_unit unit) {
    mt_arena_grow(t->arena, &t->columns, t->ncolumns, &t->columns_capacity, sizeof *t->columns);
    struct mt_column *column = &t->columns[t->ncolumns++];
    *column = (struct mt_column){
        .key = mt_arena_strdup(t->arena, key), .title = mt_arena_strdup(t->arena, title), .unit = unit, .decimals = -1};
    return column;
}

struct mt_column *mt_table_column(struct mt_table *t, const char *key, const char *title, enum mt_unit unit) {
    assert(!t->nrows);
    return add_column(t, key, title, unit);
}

void mt_table_add_columns(struct mt_table *t, size_t count, const struct mt_heading *headings) {
    for (size_t i = 0; i < count; i++) mt_table_column(t, headings[i].key, headings[i].title, headings[i].unit);
}

void mt_table_row(struct mt_table *t) {
    mt_arena_grow(t->arena, &t->rows, t->nrows, &t->rows_capacity, sizeof *t->rows);
    t->rows[t->nrows++] = (struct mt_row){.cells = mt_new(t->arena, struct mt_cell, t->ncolumns)};
}

void mt_table_total(struct mt_table *t) {
    mt_table_row(t);
    t->rows[t->nrows - 1].total = true;
}

void mt_table_fold(struct mt_table *t, int names, const char *title) {
    assert(names > 0 && names <= t->ncolumns);
    t->fold_names = names;
    t->fold_title = mt_arena_strdup(t->arena, title);
}

/* ---- cells ---- */

static struct mt_cell *add_cell(struct mt_table *t, enum mt_cell_kind kind) {
    assert(t->nrows > 0);
    struct mt_row *row = &t->rows[t->nrows - 1];
    assert(row->ncells < t->ncolumns);
    struct mt_cell *cell = &row->cells[row->ncells];
    *cell = (struct mt_cell){.kind = kind, .unit = t->columns[row->ncells].unit};
    row->ncells++;
    return cell;
}

void mt_cell_text(struct mt_table *t, const char *format, ...) {
    struct mt_cell *cell = add_cell(t, MT_CELL_TEXT);
    assert(cell->unit == MT_UNIT_TEXT || cell->unit == MT_UNIT_ANY);
    cell->unit = MT_UNIT_TEXT;
    va_list args;
    va_start(args, format);
    cell->text = mt_arena_vprintf(t->arena, format, args);
    va_end(args);
}

void mt_cell_word(struct mt_table *t, const char *format, ...) {
    struct mt_cell *cell = add_cell(t, MT_CELL_WORD);
    va_list args;
    va_start(args, format);
    cell->text = mt_arena_vprintf(t->arena, format, args);
    va_end(args);
}

void mt_cell_real(struct mt_table *t, double value) {
    struct mt_cell *cell = add_cell(t, isfinite(value) ? MT_CELL_NUMBER : MT_CELL_NONE);
    assert(mt_unit_is_number(cell->unit));
    cell->number = value;
}

void mt_cell_int(struct mt_table *t, int64_t value) {
    mt_cell_real(t, (double)value);
}

void mt_cell_positive(struct mt_table *t, double value) {
    mt_cell_real(t, value > 0 ? value : NAN);
}

void mt_cell_measure(struct mt_table *t, double value, enum mt_unit unit) {
    struct mt_cell *cell = add_cell(t, isfinite(value) ? MT_CELL_NUMBER : MT_CELL_NONE);
    assert(cell->unit == MT_UNIT_ANY && mt_unit_is_number(unit));
    cell->number = value;
    cell->unit = unit;
}

void mt_cell_ints(struct mt_table *t, const int64_t *values, int count) {
    struct mt_cell *cell = add_cell(t, MT_CELL_LIST);
    assert(cell->unit == MT_UNIT_SIZES || cell->unit == MT_UNIT_RANKS);
    cell->list = mt_arena_memdup(t->arena, values, (size_t)count * sizeof *values);
    cell->count = count;
}

void mt_cell_ranks(struct mt_table *t, const int *ranks, int count) {
    int64_t *list = mt_new(t->arena, int64_t, count);
    for (int i = 0; i < count; i++) list[i] = ranks[i];
    struct mt_cell *cell = add_cell(t, MT_CELL_LIST);
    assert(cell->unit == MT_UNIT_RANKS);
    cell->list = list;
    cell->count = count;
}

void mt_cell_none(struct mt_table *t) {
    add_cell(t, MT_CELL_NONE);
}

void mt_cell_blank(struct mt_table *t) {
    add_cell(t, MT_CELL_BLANK);
}

struct mt_table *mt_tables_add_values(struct mt_tables *doc, const char *name) {
    struct mt_table *table = mt_tables_add(doc, name, "", "");
    table->machines_only = true;
    mt_table_row(table);
    return table;
}

/* Another column; the only row gets room for its cell. */
static void widen(struct mt_table *t, const char *key, enum mt_unit unit) {
    assert(t->nrows == 1 && t->rows[0].ncells == t->ncolumns);
    struct mt_cell *cells = mt_new(t->arena, struct mt_cell, t->ncolumns + 1);
    if (t->ncolumns) memcpy(cells, t->rows[0].cells, (size_t)t->ncolumns * sizeof *cells);
    t->rows[0].cells = cells;
    add_column(t, key, key, unit);
}

void mt_table_put_text(struct mt_table *t, const char *key, const char *format, ...) {
    widen(t, key, MT_UNIT_TEXT);
    struct mt_cell *cell = add_cell(t, MT_CELL_TEXT);
    va_list args;
    va_start(args, format);
    cell->text = mt_arena_vprintf(t->arena, format, args);
    va_end(args);
}

void mt_table_put_real(struct mt_table *t, const char *key, enum mt_unit unit, double value) {
    widen(t, key, unit);
    mt_cell_real(t, value);
}

void mt_cell_style(struct mt_table *t, enum mt_style style) {
    struct mt_row *row = &t->rows[t->nrows - 1];
    assert(row->ncells > 0);
    row->cells[row->ncells - 1].style = style;
}
