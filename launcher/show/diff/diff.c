/* Documents to facts. */
#include "launcher/show/diff/diff.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "launcher/flags/document.h"

static const struct {
    const char *format;
    enum mt_status (*facts)(const char *path, struct mt_facts *facts, struct mt_err *err);
} kinds[] = {
#define MT_DIFFERENCE(format, name) {format, mt_facts_of_##name},
#include "launcher/show/diff/differences.def"
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

void mt_fact_real(struct mt_facts *facts, const char *name, double value, double error, enum mt_unit unit) {
    struct mt_fact *fact = add(facts, name);
    fact->unit = unit;
    fact->value = value;
    fact->band = error * fabs(value);
}

void mt_fact_predicted(struct mt_facts *facts, const char *name, double seconds, double step_s) {
    static const double half_digit = 5e-4; /* at least, of three digits; of which each side has half */
    mt_fact_real(facts, name, seconds, 0, MT_UNIT_SECONDS);
    facts->items[facts->count - 1].band = half_digit / 2 * step_s;
}

const char *mt_fact_name(struct mt_facts *facts, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *name = mt_arena_vprintf(&facts->arena, format, args);
    va_end(args);
    return name;
}

enum mt_status mt_diff(const char *a, const char *b, struct mt_tables *out, int *count, struct mt_err *err) {
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
            *count = mt_differences(&left, &right, out);
        mt_arena_release(&left.arena);
        mt_arena_release(&right.arena);
        return st;
    }
    mt_fail(err, MT_EINPUT, "%s: is a \"%s\", which cannot be compared here", a, format);
    return mt_err_hint(err, "known: %s", known);
}
