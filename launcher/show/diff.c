/* Comparing two lists of facts. Both have the same order, apart from facts that one lacks, so the search for a name
 * starts after the last one found. */
#include "launcher/show/diff.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "kernels/base/text/table.h"
#include "kernels/base/text/units.h"
#include "launcher/show/show.h"

static const struct {
    const char *format;
    enum mt_status (*facts)(const char *path, struct mt_facts *facts, struct mt_err *err);
} kinds[] = {
#define MT_DIFFERENCE(format, name) {format, mt_facts_of_##name},
#include "launcher/show/differences.def"
#undef MT_DIFFERENCE
};
enum { NKINDS = sizeof kinds / sizeof kinds[0] };

static struct mt_fact *add(struct mt_facts *f, const char *name) {
    mt_arena_grow(&f->arena, &f->items, f->count, &f->capacity, sizeof *f->items);
    struct mt_fact *fact = &f->items[f->count++];
    *fact = (struct mt_fact){.name = mt_arena_strdup(&f->arena, name)};
    return fact;
}

void mt_fact(struct mt_facts *facts, const char *name, const char *format, ...) {
    va_list args;
    va_start(args, format);
    add(facts, name)->text = mt_arena_vprintf(&facts->arena, format, args);
    va_end(args);
}

void mt_fact_real(struct mt_facts *facts, const char *name, double value, double error, mt_unit_text *unit) {
    char text[MT_UNITS_TEXT];
    struct mt_fact *fact = add(facts, name);
    fact->text = mt_arena_strdup(&facts->arena, unit(value, text));
    fact->number = true;
    fact->value = value;
    fact->error = error;
}

const char *mt_fact_name(struct mt_facts *facts, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *name = mt_arena_vprintf(&facts->arena, format, args);
    va_end(args);
    return name;
}

/* The fact of that name, or null; the search starts at *at and wraps around. */
static const struct mt_fact *find(const struct mt_facts *facts, const char *name, int *at) {
    for (int i = 0; i < facts->count; i++) {
        int k = (*at + i) % facts->count;
        if (strcmp(facts->items[k].name, name)) continue;
        *at = (k + 1) % facts->count;
        return &facts->items[k];
    }
    return NULL;
}

static bool same(const struct mt_fact *a, const struct mt_fact *b) {
    if (!a->number || !b->number) return !strcmp(a->text, b->text);
    return fabs(a->value - b->value) <= a->error * fabs(a->value) + b->error * fabs(b->value);
}

static void add_row(struct mt_table *table, const struct mt_fact *a, const struct mt_fact *b) {
    mt_table_row(table);
    mt_table_cell(table, "%s", a ? a->name : b->name);
    mt_table_cell(table, "%s", a ? a->text : "-");
    mt_table_cell(table, "%s", b ? b->text : "-");
    double ratio = a && b && a->number && b->number && a->value > 0 ? b->value / a->value : 0;
    if (ratio > 0 && ratio < 100) mt_table_cell(table, "%+.1f%%", 100 * (ratio - 1));
}

/* Facts that only the second document has are printed at their place in it. */
static int print_differences(const struct mt_facts *a, const struct mt_facts *b, FILE *file) {
    struct mt_table table = MT_TABLE_INIT;
    int differ = 0, at_a = 0, at_b = 0;
    mt_table_header(&table, "", ">first", ">second", ">", NULL);
    for (int i = 0, next = 0; i <= a->count; i++) {
        const struct mt_fact *left = i < a->count ? &a->items[i] : NULL, *right = NULL;
        if (left && !(right = find(b, left->name, &at_b))) {
            add_row(&table, left, NULL);
            differ++;
            continue;
        }
        int upto = right ? (int)(right - b->items) : b->count;
        for (; next < upto; next++) {
            if (find(a, b->items[next].name, &at_a)) continue;
            add_row(&table, NULL, &b->items[next]);
            differ++;
        }
        if (!left || same(left, right)) continue;
        add_row(&table, left, right);
        differ++;
    }
    if (differ)
        mt_table_print(&table, 0, file);
    else
        mt_arena_release(&table.arena);
    return differ;
}

enum mt_status mt_diff(const char *a, const char *b, FILE *file, int *count, struct mt_err *err) {
    char format[64], other[64], known[300] = "";
    enum mt_status st;
    if ((st = mt_document_format(a, format, err)) || (st = mt_document_format(b, other, err))) return st;
    if (strcmp(format, other))
        return mt_fail(err, MT_EINPUT, "%s is a \"%s\", but %s is a \"%s\"", a, format, b, other);
    for (int k = 0; k < NKINDS; k++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", k ? ", " : "", kinds[k].format);
        if (strcmp(kinds[k].format, format)) continue;
        struct mt_facts left = {0}, right = {0};
        if (!(st = kinds[k].facts(a, &left, err)) && !(st = kinds[k].facts(b, &right, err)))
            *count = print_differences(&left, &right, file);
        mt_arena_release(&left.arena);
        mt_arena_release(&right.arena);
        return st;
    }
    mt_fail(err, MT_EINPUT, "%s: is a \"%s\", which cannot be compared here", a, format);
    return mt_err_hint(err, "known: %s", known);
}
