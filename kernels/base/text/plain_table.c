/* Tables for terminals. */
#include "kernels/base/text/plain_table.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void mt_plain_table_row(struct mt_plain_table *table) {
    mt_arena_grow(&table->arena, &table->lines, table->nlines, &table->capacity, sizeof *table->lines);
    memset(&table->lines[table->nlines++], 0, sizeof *table->lines);
}

void mt_plain_table_cell(struct mt_plain_table *table, const char *format, ...) {
    assert(table->nlines > 0);
    struct mt_plain_table_line *line = &table->lines[table->nlines - 1];
    assert(line->count < MT_PLAIN_TABLE_COLUMNS);
    va_list args;
    va_start(args, format);
    char *text = line->cells[line->count++] = mt_arena_vprintf(&table->arena, format, args);
    va_end(args);
    for (unsigned char *c = (unsigned char *)text; *c; c++)
        if (*c < 0x20 || *c == 0x7f) *c = '?';
}

void mt_plain_table_column(struct mt_plain_table *table, const char *name) {
    if (!table->nlines) mt_plain_table_row(table);
    assert(table->nlines == 1);
    if (*name == '>') table->right |= 1 << table->lines[0].count, name++;
    mt_plain_table_cell(table, "%s", name);
}

void mt_plain_table_header(struct mt_plain_table *table, const char *name, ...) {
    va_list args;
    va_start(args, name);
    for (; name; name = va_arg(args, const char *)) mt_plain_table_column(table, name);
    va_end(args);
}

/* ---- folding ---- */

struct fold { /* equal lines */
    int first, last, count;
};

struct folding {
    const struct mt_plain_table *table;
    int names;
};

static int compare_lines(const struct folding *f, int a, int b) {
    const struct mt_plain_table_line *left = &f->table->lines[a], *right = &f->table->lines[b];
    int order = left->count - right->count;
    for (int c = f->names; c < left->count && !order; c++) order = strcmp(left->cells[c], right->cells[c]);
    return order;
}

static int by_line(const void *left, const void *right, void *context) {
    int a = *(const int *)left, b = *(const int *)right, order = compare_lines(context, a, b);
    return order ? order : (a > b) - (a < b);
}

static int by_first(const void *left, const void *right) {
    const struct fold *a = left, *b = right;
    return (a->first > b->first) - (a->first < b->first);
}

static char *name_of(struct mt_plain_table *table, const struct fold *fold, int column) {
    char *first = table->lines[fold->first].cells[column], *last = table->lines[fold->last].cells[column];
    char *end[2];
    long from = strtol(first, &end[0], 10), to = strtol(last, &end[1], 10);
    bool numbers = !*end[0] && !*end[1];
    bool consecutive = (numbers ? to - from : fold->last - fold->first) + 1 == fold->count;
    if (!strcmp(first, last)) return first;
    return mt_arena_printf(&table->arena, "%s %s %s", first, consecutive ? "to" : "..", last);
}

void mt_plain_table_fold(struct mt_plain_table *table, int names, const char *title) {
    int n = table->nlines - 1, nfolds = 0;
    if (n <= MT_PLAIN_TABLE_SHOWN) return;
    struct folding folding = {table, names};
    int *order = mt_new(&table->arena, int, n);
    struct fold *folds = mt_new(&table->arena, struct fold, n);
    for (int i = 0; i < n; i++) order[i] = i + 1;
    qsort_r(order, (size_t)n, sizeof *order, by_line, &folding);
    for (int i = 0; i < n; i++) {
        if (!i || compare_lines(&folding, order[i - 1], order[i])) folds[nfolds++] = (struct fold){.first = order[i]};
        folds[nfolds - 1].last = order[i];
        folds[nfolds - 1].count++;
    }
    if (nfolds == n) return;
    qsort(folds, (size_t)nfolds, sizeof *folds, by_first);
    struct mt_plain_table_line *lines = mt_new(&table->arena, struct mt_plain_table_line, nfolds);
    for (int i = 0; i < nfolds; i++) {
        lines[i] = table->lines[folds[i].first];
        for (int c = 0; c < names; c++) lines[i].cells[c] = name_of(table, &folds[i], c);
    }
    table->nlines = 1;
    mt_plain_table_column(table, title);
    for (int i = 0; i < nfolds; i++) {
        table->lines[table->nlines++] = lines[i];
        while (table->lines[i + 1].count < table->lines[0].count - 1) mt_plain_table_cell(table, "%s", "");
        mt_plain_table_cell(table, "%d", folds[i].count);
    }
    table->right &= ~((1 << names) - 1); /* names are texts now */
}

/* ---- printing ---- */

/* Characters, not bytes. */
static int width_of(const char *text) {
    int n = 0;
    for (; *text; text++) n += (*text & 0xc0) != 0x80;
    return n;
}

void mt_plain_table_print(struct mt_plain_table *table, int indent, FILE *file) {
    int width[MT_PLAIN_TABLE_COLUMNS] = {0};
    for (int l = 0; l < table->nlines; l++)
        for (int c = 0; c < table->lines[l].count; c++) {
            int w = width_of(table->lines[l].cells[c]);
            if (w > width[c]) width[c] = w;
        }
    for (int l = 0; l < table->nlines; l++) {
        const struct mt_plain_table_line *line = &table->lines[l];
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
    *table = (struct mt_plain_table)MT_PLAIN_TABLE_INIT;
}
