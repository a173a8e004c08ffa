/* Comparing two lists of facts, and telling the differences on one screen.
 *
 * Both lists have the same order, apart from facts that one lacks, so the search for a name starts after the last one
 * found. Differences are folded in steps, until they are few lines: first the same difference of many ranks or nodes;
 * then different ones of one kind, of which the line shows the middle one; then kinds are made wider: all pairs of
 * ranks, all points of a class's curves, all classes, all groups. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/units.h"
#include "launcher/show/diff/diff.h"

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

static bool is_number(const struct mt_fact *fact) {
    return fact && !fact->text;
}

static bool is_printed_alike(const struct mt_fact *a, const struct mt_fact *b) {
    char left[MT_UNITS_TEXT], right[MT_UNITS_TEXT];
    return !strcmp(mt_units_seconds(a->value, left), mt_units_seconds(b->value, right));
}

static bool same(const struct mt_fact *a, const struct mt_fact *b) {
    if (is_number(a) && is_number(b))
        return fabs(a->value - b->value) <= a->band + b->band || (a->unit == MT_UNIT_SECONDS && is_printed_alike(a, b));
    return !is_number(a) && !is_number(b) && !strcmp(a->text, b->text);
}

/* ---- differences ---- */

struct difference {
    const struct mt_fact *a, *b; /* null: that document lacks it */
    const char *pattern;         /* the name with "#" for what is folded */
    int at;                      /* place in the list */
    int count;                   /* that this one stands for; 0: another stands for it */
    int rank, last;              /* the first number in the name, and of the last difference; -1: none */
};
struct differences {
    struct mt_arena arena;
    int count, capacity;
    struct difference *items;
};

static void add_difference(struct differences *d, const struct mt_fact *a, const struct mt_fact *b) {
    mt_arena_grow(&d->arena, &d->items, d->count, &d->capacity, sizeof *d->items);
    d->items[d->count] = (struct difference){.a = a, .b = b, .at = d->count};
    d->count++;
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

/* What differs is no fact. */
static void compare_contents(const struct mt_facts *a, const struct mt_facts *b, struct differences *d) {
    if (d->count || !a->content || !b->content || !strcmp(a->content, b->content)) return;
    struct mt_fact *facts = mt_new(&d->arena, struct mt_fact, 2);
    facts[0] = (struct mt_fact){.name = "all else, as a hash", .text = a->content};
    facts[1] = (struct mt_fact){.name = "all else, as a hash", .text = b->content};
    add_difference(d, &facts[0], &facts[1]);
}

/* Of the second to the first, less one; NAN where there is none to speak of. */
static double change_of(const struct difference *d) {
    double ratio = is_number(d->a) && is_number(d->b) && d->a->value > 0 ? d->b->value / d->a->value : 0;
    return ratio > 0 && ratio < 100 ? ratio - 1 : NAN;
}

static const char *name_of(const struct difference *d) {
    return d->a ? d->a->name : d->b->name;
}

/* ---- folding ---- */

enum level { SAME_OF_RANKS, OF_RANKS, OF_POINTS, OF_ALL };

/* "class a100: " and the like: the name of one of several, whose numbers are its own. */
static size_t owner_length(const char *name) {
    static const char *const owners[] = {"class ", "link ", "group "};
    const char *colon = strchr(name, ':');
    for (size_t i = 0; i < sizeof owners / sizeof *owners && colon; i++)
        if (!strncmp(name, owners[i], strlen(owners[i]))) return (size_t)(colon - name);
    return 0;
}

/* Digits become "#": those of ranks, and beyond an owner's name all others; so does a node's name. */
static const char *pattern_of(const char *name, enum level level, struct mt_arena *arena) {
    size_t owner = owner_length(name), n = 0;
    char *out = mt_new(arena, char, strlen(name) + 32);
    const char *at = name, *comma = strrchr(name, ','), *of = strstr(name, " of ");
    if (level >= OF_POINTS && owner && !strncmp(name, "class ", 6) && comma)
        return mt_arena_printf(arena, "%.*s: times of operators", level == OF_ALL ? 7 : (int)owner,
                               level == OF_ALL ? "class #" : name);
    if (level >= OF_POINTS && owner && !strncmp(name, "group ", 6) && of)
        return mt_arena_printf(arena, "%.*s: times of collectives", level == OF_ALL ? 7 : (int)owner,
                               level == OF_ALL ? "group #" : name);
    if (level == OF_ALL && !strncmp(name, "noticed", 7)) return "noticed #";
    if (owner && level == OF_ALL) {
        n = strcspn(name, " ") + 1;
        memcpy(out, name, n);
        out[n++] = '#';
    } else if (owner) {
        memcpy(out, name, n = owner);
    }
    at += owner;
    if (!strncmp(name, "node ", 5) && strstr(name, ": ")) {
        n = (size_t)sprintf(out, "node #");
        at = strstr(name, ": ");
    }
    bool ranks = strstr(at, "rank") != NULL, first = true;
    for (; *at; at++) {
        bool after = at > name && isalnum((unsigned char)at[-1]) && !(at[-1] == 'x' && n > 1 && out[n - 2] == '#');
        bool starts = isdigit((unsigned char)*at) && !after;
        bool folds = starts && (level == SAME_OF_RANKS ? ranks && first : ranks || owner);
        if (!folds) {
            out[n++] = *at;
            continue;
        }
        out[n++] = '#';
        first = false;
        while (isdigit((unsigned char)at[1])) at++;
    }
    return out;
}

static int compare_facts(const struct mt_fact *a, const struct mt_fact *b) {
    if (!a || !b || is_number(a) != is_number(b)) return (a ? 1 + is_number(a) : 0) - (b ? 1 + is_number(b) : 0);
    return is_number(a) ? (a->value > b->value) - (a->value < b->value) : strcmp(a->text, b->text);
}

static int same_pattern(const struct difference *a, const struct difference *b, enum level level) {
    int order = strcmp(a->pattern, b->pattern);
    if (level != SAME_OF_RANKS) return order;
    if (!order) order = compare_facts(a->a, b->a);
    return order ? order : compare_facts(a->b, b->b);
}

static int by_pattern(const void *left, const void *right, void *level) {
    const struct difference *a = *(struct difference *const *)left, *b = *(struct difference *const *)right;
    int order = same_pattern(a, b, *(enum level *)level);
    return order ? order : a->at - b->at;
}

static int by_change(const void *left, const void *right) {
    double a = change_of(*(struct difference *const *)left), b = change_of(*(struct difference *const *)right);
    if (isnan(a) || isnan(b)) return isnan(a) - isnan(b);
    return (a > b) - (a < b);
}

static int number_in(const char *name) {
    const char *digit = strpbrk(name, "0123456789");
    return digit ? (int)strtol(digit, NULL, 10) : -1;
}

/* One of them stands for all, at the place of the first: the one in the middle of their changes. */
static void fold_some(struct difference **some, int count) {
    struct difference first = *some[0];
    int last = number_in(name_of(some[count - 1])), changes = 0;
    for (int i = 0; i < count; i++) {
        double change = change_of(some[i]);
        changes += !isnan(change);
        some[i]->count = 0;
    }
    qsort(some, (size_t)count, sizeof *some, by_change);
    struct difference middle = *some[changes ? changes / 2 : 0];
    for (int i = 0; i < count; i++)
        if (some[i]->at == first.at) {
            *some[i] = middle;
            some[i]->at = first.at, some[i]->count = count;
            some[i]->rank = number_in(name_of(&first)), some[i]->last = last;
            return;
        }
}

/* Returns the number of lines. */
static int fold(struct differences *d, enum level level) {
    struct difference **order = mt_new(&d->arena, struct difference *, d->count);
    int lines = 0;
    for (int i = 0; i < d->count; i++) {
        order[i] = &d->items[i];
        order[i]->count = 1;
        order[i]->pattern = pattern_of(name_of(order[i]), level, &d->arena);
    }
    qsort_r(order, (size_t)d->count, sizeof *order, by_pattern, &level);
    for (int first = 0, next; first < d->count; first = next) {
        for (next = first + 1; next < d->count && !same_pattern(order[first], order[next], level);) next++;
        bool folds = next - first > (level == SAME_OF_RANKS ? MT_TABLE_SHOWN : 1) &&
                     (level || strchr(order[first]->pattern, '#'));
        lines += folds ? 1 : next - first;
        if (folds) fold_some(&order[first], next - first);
    }
    return lines;
}

/* ---- tables ---- */

/* The bytes of a text's first characters. */
static int bytes_of(const char *text, int chars) {
    int n = 0;
    while (text[n] && (chars > 0 || (text[n] & 0xc0) == 0x80)) chars -= (text[n++] & 0xc0) != 0x80;
    return n;
}

static void cell_fact(struct mt_table *t, const struct mt_fact *fact, int most) {
    if (!fact)
        mt_cell_none(t);
    else if (is_number(fact))
        mt_cell_measure(t, fact->value, fact->unit);
    else if (most && mt_text_width(fact->text) > most)
        mt_cell_text(t, "%.*s...", bytes_of(fact->text, most - 3), fact->text);
    else
        mt_cell_text(t, "%s", fact->text);
}

static void add_all(const struct differences *d, struct mt_tables *out) {
    struct mt_table *t = mt_tables_add(out, "differences", "", "");
    t->machines_only = true;
    mt_table_columns(t, {"what", "", MT_UNIT_TEXT}, {"unit", "", MT_UNIT_TEXT}, {"first", "first", MT_UNIT_ANY},
                     {"second", "second", MT_UNIT_ANY}, {"change", "", MT_UNIT_CHANGE});
    for (int i = 0; i < d->count; i++) {
        const struct mt_fact *fact = d->items[i].a ? d->items[i].a : d->items[i].b;
        mt_table_row(t);
        mt_cell_text(t, "%s", name_of(&d->items[i]));
        mt_cell_text(t, "%s", mt_unit_name(is_number(fact) ? fact->unit : MT_UNIT_TEXT));
        cell_fact(t, d->items[i].a, 0);
        cell_fact(t, d->items[i].b, 0);
        mt_cell_real(t, change_of(&d->items[i]));
    }
}

/* "ranks 0 to 511: speed (512)" of the same difference; "rank #: speed" of different ones. */
static const char *line_name(const struct difference *d, enum level level, struct mt_arena *arena) {
    const char *number = strchr(d->pattern, '#');
    if (d->count == 1) return name_of(d);
    if (level != SAME_OF_RANKS) return d->pattern;
    if (d->rank < 0) return mt_arena_printf(arena, "%s (%d)", d->pattern, d->count); /* nodes with names alone */
    return mt_arena_printf(arena, "%.*ss %d %s %d%s (%d)", (int)(number - d->pattern - 1), d->pattern, d->rank,
                           d->last - d->rank + 1 == d->count ? "to" : "..", d->last, number + 1, d->count);
}

enum { MOST = 14, OF_NUMBER = 12 }; /* characters of a fact, and of one that is a number, with its unit */

/* Characters that names have on a line of 80, which also has two facts, their change and, unless `wide`, a count. */
static int room_for_names(const struct differences *d, bool wide) {
    int most = OF_NUMBER;
    for (int i = 0; i < d->count; i++)
        if (!is_number(d->items[i].a) || !is_number(d->items[i].b)) most = MOST;
    return 80 - 2 * (2 + most) - 10 - (wide ? 0 : 7);
}

static void add_lines(const struct differences *d, enum level level, bool one_screen, struct mt_tables *out) {
    bool wide = level == SAME_OF_RANKS;
    int room = room_for_names(d, wide);
    struct mt_table *t = mt_tables_add(out, "lines", "", "");
    t->people_only = true;
    t->indent = 0;
    mt_table_column(t, "what", "", MT_UNIT_TEXT);
    mt_table_column(t, "count", "count", MT_UNIT_COUNT)->machines_only = wide;
    mt_table_columns(t, {"first", "first", MT_UNIT_ANY}, {"second", "second", MT_UNIT_ANY},
                     {"change", "", MT_UNIT_CHANGE});
    for (int i = 0; i < d->count; i++) {
        const struct difference *item = &d->items[i];
        if (!item->count) continue;
        const char *name = line_name(item, level, &out->arena);
        bool cut = one_screen && mt_text_width(name) > room;
        mt_table_row(t);
        mt_cell_text(t, cut ? "%.*s..." : "%.*s", cut ? bytes_of(name, room - 3) : (int)strlen(name), name);
        mt_cell_int(t, item->count);
        cell_fact(t, item->a, one_screen ? MOST : 0);
        cell_fact(t, item->b, one_screen ? MOST : 0);
        double change = change_of(item);
        if (isnan(change))
            mt_cell_blank(t);
        else
            mt_cell_real(t, change);
    }
    if (!wide)
        mt_tables_say(out, "%d differences; where a line stands for several, it is the one in the middle", d->count);
}

int mt_differences(const struct mt_facts *a, const struct mt_facts *b, struct mt_tables *out) {
    struct differences d = {.count = 0};
    enum level level = SAME_OF_RANKS;
    compare(a, b, &d);
    compare_contents(a, b, &d);
    int count = d.count;
    struct difference *all = mt_arena_memdup(&d.arena, d.items, (size_t)count * sizeof *all);
    if (count) add_all(&d, out);
    for (; count; level++) {
        memcpy(d.items, all, (size_t)count * sizeof *all);
        int most = a->one_screen ? MT_DIFF_LINES : MT_DIFF_MANY;
        if (fold(&d, level) <= most || level == (a->one_screen ? OF_ALL : OF_RANKS)) break;
    }
    if (count) add_lines(&d, level, a->one_screen, out);
    mt_arena_release(&d.arena);
    return count;
}
