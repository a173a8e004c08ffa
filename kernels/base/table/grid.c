/* Cells to strings: one prefix a column, then equal rows into one.
 *
 * Rows are equal when their strings are: what looks the same to a person is the same line. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/table/table.h"
#include "kernels/base/text/ranks.h"

/* ---- strings ---- */

/* "18 18 6 6"; of more than fits a line, runs: "18 x 64, 6 x 64". */
static const char *sizes_text(const struct mt_cell *cell, struct mt_arena *arena) {
    enum { PLAINLY = 16, RUNS = 12 };
    const char *text = "";
    int runs = 0;
    for (int i = 0, n = 1; i < cell->count; i += n, n = 1, runs++) {
        const char *gap = i ? cell->count > PLAINLY ? ", " : " " : "";
        if (runs == RUNS && cell->count > PLAINLY)
            return mt_arena_printf(arena, "%s, ... (%d numbers)", text, cell->count);
        while (cell->count > PLAINLY && i + n < cell->count && cell->list[i + n] == cell->list[i]) n++;
        text = mt_arena_printf(arena, n > 1 ? "%s%s%lld x %d" : "%s%s%lld", text, gap, (long long)cell->list[i], n);
    }
    return text;
}

static const char *list_text(const struct mt_cell *cell, struct mt_arena *arena) {
    if (cell->unit == MT_UNIT_SIZES) return sizes_text(cell, arena);
    int *ranks = mt_new(arena, int, cell->count);
    for (int i = 0; i < cell->count; i++) ranks[i] = (int)cell->list[i];
    return mt_ranks_text(ranks, cell->count, MT_RANKS_RANGES, arena);
}

static const char *printable(const char *text, struct mt_arena *arena) {
    char *copy = mt_arena_strdup(arena, text);
    for (unsigned char *c = (unsigned char *)copy; *c; c++)
        if (*c < 0x20 || *c == 0x7f) *c = '?';
    return copy;
}

/* Of the numbers of a column that have this unit. */
static struct mt_prefix prefix_of(const struct mt_table *t, int column, enum mt_unit unit) {
    double least = INFINITY, most = 0;
    for (int r = 0; r < t->nrows; r++) {
        if (column >= t->rows[r].ncells) continue;
        const struct mt_cell *cell = &t->rows[r].cells[column];
        double size = fabs(cell->number);
        if (cell->kind != MT_CELL_NUMBER || cell->unit != unit) continue;
        if (size > 0) least = fmin(least, size), most = fmax(most, size);
    }
    return mt_unit_prefix(unit, least, most);
}

static const char *cell_text(const struct mt_column *column, const struct mt_cell *cell, struct mt_prefix prefix,
                             struct mt_arena *arena) {
    char number[MT_UNIT_TEXT_BYTES];
    switch (cell->kind) {
    case MT_CELL_NONE: return "-";
    case MT_CELL_BLANK: return "";
    case MT_CELL_WORD:
    case MT_CELL_TEXT: return printable(cell->text, arena);
    case MT_CELL_LIST: return list_text(cell, arena);
    case MT_CELL_NUMBER: break;
    }
    return mt_arena_strdup(arena, mt_unit_text(cell->unit, prefix, column->decimals, cell->number, number));
}

/* The prefix of a cell where units differ by row: numbers of one row that have one unit also have one prefix. */
static struct mt_prefix own_prefix(const struct mt_table *t, int column, int row) {
    const struct mt_cell *cells = t->rows[row].cells;
    enum mt_unit unit = cells[column].unit;
    double least = INFINITY, most = 0;
    if (t->columns[column].one_prefix) return prefix_of(t, column, unit);
    for (int c = 0; c < t->rows[row].ncells; c++) {
        double size = fabs(cells[c].number);
        if (t->columns[c].unit != MT_UNIT_ANY || cells[c].unit != unit || cells[c].kind != MT_CELL_NUMBER) continue;
        if (size > 0) least = fmin(least, size), most = fmax(most, size);
    }
    return mt_unit_prefix(unit, least, most);
}

/* repeats[nrows]: whether the row is as the one above in all columns so far that are `once`. */
static void fill_column(const struct mt_table *t, int column, int at, struct mt_arena *arena, bool *repeats,
                        struct mt_grid *grid) {
    const struct mt_column *c = &t->columns[column];
    const struct mt_prefix prefix = prefix_of(t, column, c->unit);
    const char *above = NULL;
    for (int r = 0; r < grid->nrows; r++) {
        const struct mt_row *row = &t->rows[r];
        const struct mt_cell *cell = column < row->ncells ? &row->cells[column] : NULL;
        const char *text = "";
        if (cell) text = cell_text(c, cell, c->unit == MT_UNIT_ANY ? own_prefix(t, column, r) : prefix, arena);
        if (c->once) repeats[r] &= above && !strcmp(text, above);
        grid->rows[r].cells[at] = c->once && repeats[r] ? "" : text;
        if (cell) grid->rows[r].styles[at] = cell->style;
        above = text;
    }
    grid->titles[at] = printable(c->title, arena);
    grid->right[at] = mt_unit_is_number(c->unit) || c->unit == MT_UNIT_ANY;
    grid->header |= *c->title != 0 && !t->bare;
}

/* ---- folding ---- */

struct folding {
    const struct mt_table *table;
    const struct mt_grid *grid;
    int names;
};

static bool is_alone(const struct folding *f, int column) {
    int of = f->grid->columns[column];
    return of >= 0 && f->table->columns[of].alone;
}

static int compare_rows(const struct folding *f, int a, int b) {
    const struct mt_grid_row *left = &f->grid->rows[a], *right = &f->grid->rows[b];
    int order = left->total - right->total;
    if (!order && left->total) order = a - b;
    for (int c = f->names; c < f->grid->ncolumns - 1 && !order; c++)
        if (!is_alone(f, c)) order = strcmp(left->cells[c], right->cells[c]);
    return order;
}

static int by_row(const void *left, const void *right, void *context) {
    int a = *(const int *)left, b = *(const int *)right, order = compare_rows(context, a, b);
    return order ? order : (a > b) - (a < b);
}

struct fold { /* equal rows */
    int first, last, count;
    const int *rows; /* [count], ascending */
};

static int by_first(const void *left, const void *right) {
    const struct fold *a = left, *b = right;
    return (a->first > b->first) - (a->first < b->first);
}

/* "a to d", "a .. d"; of rows that end with the first's name, the last other one, as round robin over hosts gives. */
static const char *name_of(const struct mt_grid *grid, const struct fold *fold, int column, struct mt_arena *arena) {
    int other = fold->count - 1;
    const char *first = grid->rows[fold->first].cells[column];
    while (other > 0 && !strcmp(first, grid->rows[fold->rows[other]].cells[column])) other--;
    if (!other) return first;
    const char *last = grid->rows[fold->rows[other]].cells[column];
    char *end[2];
    long from = strtol(first, &end[0], 10), to = strtol(last, &end[1], 10);
    bool numbers = !*end[0] && !*end[1];
    bool consecutive = (numbers ? to - from : fold->last - fold->first) + 1 == fold->count;
    return mt_arena_printf(arena, "%s %s %s", first, consecutive && other == fold->count - 1 ? "to" : "..", last);
}

/* The grid's last column is for the counts; dropped if nothing folds. */
static void fold(const struct mt_table *t, struct mt_arena *arena, struct mt_grid *grid) {
    struct folding folding = {t, grid, 0};
    for (int c = 0; c < t->fold_names; c++) folding.names += !t->columns[c].machines_only;
    int n = grid->nrows, nfolds = 0, last = grid->ncolumns - 1;
    int *order = mt_new(arena, int, n);
    struct fold *folds = mt_new(arena, struct fold, n);
    for (int i = 0; i < n; i++) order[i] = i;
    qsort_r(order, (size_t)n, sizeof *order, by_row, &folding);
    for (int i = 0; i < n; i++) {
        if (!i || compare_rows(&folding, order[i - 1], order[i]))
            folds[nfolds++] = (struct fold){.first = order[i], .rows = &order[i]};
        folds[nfolds - 1].last = order[i];
        folds[nfolds - 1].count++;
    }
    if (nfolds == n) {
        grid->ncolumns--;
        return;
    }
    qsort(folds, (size_t)nfolds, sizeof *folds, by_first);
    struct mt_grid_row *rows = mt_new(arena, struct mt_grid_row, nfolds);
    for (int i = 0; i < nfolds; i++) {
        rows[i] = grid->rows[folds[i].first];
        rows[i].cells = mt_arena_memdup(arena, rows[i].cells, (size_t)grid->ncolumns * sizeof *rows[i].cells);
        for (int c = 0; c < folding.names; c++) rows[i].cells[c] = name_of(grid, &folds[i], c, arena);
        for (int c = 0; c < last && folds[i].count > 1; c++)
            if (is_alone(&folding, c)) rows[i].cells[c] = "";
        if (!rows[i].total) rows[i].cells[last] = mt_arena_printf(arena, "%d", folds[i].count);
        rows[i].rows = folds[i].count;
    }
    grid->rows = rows;
    grid->nrows = nfolds;
    for (int c = 0; c < folding.names; c++) grid->right[c] = false; /* names are texts now */
}

void mt_table_grid(const struct mt_table *t, struct mt_arena *arena, struct mt_grid *grid) {
    int plain = 0, room = t->ncolumns + 1;
    for (int r = 0; r < t->nrows; r++) plain += !t->rows[r].total;
    bool folded = t->fold_names && plain > MT_TABLE_SHOWN;
    int *columns = mt_new(arena, int, room);
    bool *repeats = mt_new(arena, bool, t->nrows);
    memset(repeats, true, (size_t)t->nrows);
    *grid = (struct mt_grid){.nrows = t->shown && t->shown < t->nrows ? t->shown : t->nrows, .columns = columns};
    grid->titles = mt_new(arena, const char *, room);
    grid->right = mt_new(arena, bool, room);
    grid->rows = mt_new(arena, struct mt_grid_row, t->nrows);
    for (int r = 0; r < t->nrows; r++) {
        struct mt_grid_row *row = &grid->rows[r];
        *row = (struct mt_grid_row){.first = r, .rows = 1, .total = t->rows[r].total};
        row->cells = mt_new(arena, const char *, room);
        row->styles = mt_new(arena, enum mt_style, room);
        for (int c = 0; c < room; c++) row->cells[c] = "";
    }
    for (int c = 0; c < t->ncolumns; c++) {
        if (t->columns[c].machines_only) continue;
        fill_column(t, c, grid->ncolumns, arena, repeats, grid);
        columns[grid->ncolumns++] = c;
    }
    if (!folded) return;
    columns[grid->ncolumns] = -1;
    grid->titles[grid->ncolumns] = t->fold_title;
    grid->right[grid->ncolumns++] = true;
    fold(t, arena, grid);
}

int mt_text_width(const char *text) {
    int n = 0;
    for (; *text; text++) n += (*text & 0xc0) != 0x80;
    return n;
}
