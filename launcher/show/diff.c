/* Comparing two lists of facts. Both have the same order, apart from facts that one lacks, so the search for a name
 * starts after the last one found. Equal differences of many ranks are one row with a count. */
#include "launcher/show/diff.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/plain_table.h"
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

/* A document's facts, and its names in order, so that one that it lacks is soon known. */
struct side {
    const struct mt_facts *facts;
    const char **names;
    int at; /* where the next search begins */
};

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static struct side side_of(const struct mt_facts *facts, struct mt_arena *arena) {
    struct side side = {.facts = facts, .names = mt_new(arena, const char *, facts->count)};
    for (int i = 0; i < facts->count; i++) side.names[i] = facts->items[i].name;
    qsort(side.names, (size_t)facts->count, sizeof *side.names, by_name);
    return side;
}

/* The next fact of that name, or null; the search wraps around. */
static const struct mt_fact *find(struct side *side, const char *name) {
    const struct mt_facts *facts = side->facts;
    if (!bsearch(&name, side->names, (size_t)facts->count, sizeof *side->names, by_name)) return NULL;
    for (int i = 0; i < facts->count; i++) {
        int k = (side->at + i) % facts->count;
        if (strcmp(facts->items[k].name, name)) continue;
        side->at = (k + 1) % facts->count;
        return &facts->items[k];
    }
    return NULL;
}

static bool same(const struct mt_fact *a, const struct mt_fact *b) {
    if (!a->number || !b->number) return !strcmp(a->text, b->text);
    return fabs(a->value - b->value) <= a->error * fabs(a->value) + b->error * fabs(b->value);
}

/* ---- differences ---- */

struct difference {
    const struct mt_fact *a, *b; /* null: that document lacks it */
    const char *pattern;         /* the name with "#" for the number of a rank */
    int rank, at;                /* -1: of no rank; place in the list */
    int last, count;             /* of ranks with the same difference; 0: another difference stands for it */
};
struct differences {
    struct mt_arena arena;
    int count, capacity;
    struct difference *items;
};

static void add_difference(struct differences *d, const struct mt_fact *a, const struct mt_fact *b) {
    mt_arena_grow(&d->arena, &d->items, d->count, &d->capacity, sizeof *d->items);
    const char *name = a ? a->name : b->name, *number = strstr(name, "rank ");
    struct difference *item = &d->items[d->count];
    *item = (struct difference){.a = a, .b = b, .pattern = name, .rank = -1, .at = d->count++, .count = 1};
    if (!number || !isdigit((unsigned char)number[5])) return;
    char *end;
    item->rank = item->last = (int)strtol(number + 5, &end, 10);
    item->pattern = mt_arena_printf(&d->arena, "%.*s#%s", (int)(number + 5 - name), name, end);
}

static const char *text_of(const struct mt_fact *fact) {
    return fact ? fact->text : "-";
}

static int by_difference(const void *left, const void *right) {
    const struct difference *a = *(struct difference *const *)left, *b = *(struct difference *const *)right;
    int order = strcmp(a->pattern, b->pattern);
    if (!order) order = strcmp(text_of(a->a), text_of(b->a));
    if (!order) order = strcmp(text_of(a->b), text_of(b->b));
    return order ? order : a->at - b->at;
}

/* The same difference of more ranks than a table shows becomes one, at the place of the first. */
static void fold(struct differences *d) {
    struct difference **order = mt_new(&d->arena, struct difference *, d->count);
    for (int i = 0; i < d->count; i++) order[i] = &d->items[i];
    qsort(order, (size_t)d->count, sizeof *order, by_difference);
    for (int first = 0, next; first < d->count; first = next) {
        for (next = first + 1; next < d->count; next++) {
            struct difference here = *order[next];
            here.at = order[first]->at;
            if (by_difference(&order[first], &(struct difference *){&here})) break;
        }
        if (order[first]->rank < 0 || next - first <= MT_PLAIN_TABLE_SHOWN) continue;
        order[first]->count = next - first;
        order[first]->last = order[next - 1]->rank;
        for (int i = first + 1; i < next; i++) order[i]->count = 0;
    }
}

static void add_row(struct mt_plain_table *table, const struct difference *d) {
    const struct mt_fact *a = d->a, *b = d->b;
    const char *number = strchr(d->pattern, '#');
    mt_plain_table_row(table);
    if (d->count > 1)
        mt_plain_table_cell(table, "%.*ss %d %s %d%s (%d)", (int)(number - d->pattern - 1), d->pattern, d->rank,
                      d->last - d->rank + 1 == d->count ? "to" : "..", d->last, number + 1, d->count);
    else
        mt_plain_table_cell(table, "%s", a ? a->name : b->name);
    mt_plain_table_cell(table, "%s", text_of(a));
    mt_plain_table_cell(table, "%s", text_of(b));
    double ratio = a && b && a->number && b->number && a->value > 0 ? b->value / a->value : 0;
    if (ratio > 0 && ratio < 100) mt_plain_table_cell(table, "%+.1f%%", 100 * (ratio - 1));
}

/* Facts that only the second document has are listed at their place in it. */
static void compare(const struct mt_facts *a, const struct mt_facts *b, struct differences *d) {
    struct side in_a = side_of(a, &d->arena), in_b = side_of(b, &d->arena);
    for (int i = 0, next = 0; i <= a->count; i++) {
        const struct mt_fact *left = i < a->count ? &a->items[i] : NULL, *right = NULL;
        if (left && !(right = find(&in_b, left->name))) {
            add_difference(d, left, NULL);
            continue;
        }
        int upto = right ? (int)(right - b->items) : b->count;
        for (; next < upto; next++)
            if (!find(&in_a, b->items[next].name)) add_difference(d, NULL, &b->items[next]);
        if (left && !same(left, right)) add_difference(d, left, right);
    }
}

static int print_differences(const struct mt_facts *a, const struct mt_facts *b, FILE *file) {
    struct mt_plain_table table = MT_PLAIN_TABLE_INIT;
    struct differences d = {.count = 0};
    compare(a, b, &d);
    fold(&d);
    mt_plain_table_header(&table, "", ">first", ">second", ">", NULL);
    for (int i = 0; i < d.count; i++)
        if (d.items[i].count) add_row(&table, &d.items[i]);
    if (d.count)
        mt_plain_table_print(&table, 0, file);
    else
        mt_arena_release(&table.arena);
    mt_arena_release(&d.arena);
    return d.count;
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
