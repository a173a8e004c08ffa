/* Rows from rules. Names are classed by their pattern, in which each run of digits is "*": layers differ by numbers. A
 * class whose operators (or parameters) have one rule is a row; where they differ, their full names are. Longer
 * patterns come first, so that the more specific one applies. */
#include "planner/divide/rows.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/hash.h"
#include "planner/plan/choice.h"
#include "planner/plan/patterns.h"
#include "synth/ops/ops.h"

/* What a row says of an operator or a parameter. */
struct spec {
    enum mt_operators operators;
    const char *split, *inner; /* inner null: one level */
    int occurrence, inner_occurrence;
};

struct row {
    const char *pattern;
    struct spec spec;
    int count; /* of names that it stands for */
};

struct rows {
    struct mt_arena *arena;
    int count, capacity;
    struct row *items;
    int *slots, nslots; /* by pattern: row + 1; open addressing */
};

struct named {
    const char *name;
    struct spec spec;
};

static bool same_text(const char *a, const char *b) {
    return a && b ? !strcmp(a, b) : a == b;
}

static bool same_spec(const struct spec *a, const struct spec *b) {
    return a->operators == b->operators && same_text(a->split, b->split) && same_text(a->inner, b->inner) &&
           a->occurrence == b->occurrence && a->inner_occurrence == b->inner_occurrence;
}

/* ---- patterns ---- */

/* The name with "*" for digits; `end`: where to stop, with "*" for the rest, or null. */
static const char *pattern_of(struct mt_arena *arena, const char *name, const char *end) {
    char *pattern = mt_arena_alloc(arena, strlen(name) + 2);
    int n = 0;
    for (const char *at = name; *at && at != end; at++) {
        if (!isdigit((unsigned char)*at))
            pattern[n++] = *at;
        else if (!n || pattern[n - 1] != '*')
            pattern[n++] = '*';
    }
    if (end && (!n || pattern[n - 1] != '*')) pattern[n++] = '*';
    pattern[n] = 0;
    return pattern;
}

/* The slot of the row with a pattern, or the free one where it belongs. */
static int *slot_of(struct rows *rows, const char *pattern) {
    uint64_t mask = (uint64_t)rows->nslots - 1, at = mt_hash64(pattern, strlen(pattern), 0) & mask;
    while (rows->slots[at] && strcmp(rows->items[rows->slots[at] - 1].pattern, pattern)) at = (at + 1) & mask;
    return &rows->slots[at];
}

static int find_row(struct rows *rows, const char *pattern) {
    return rows->nslots ? *slot_of(rows, pattern) - 1 : -1;
}

static void index_rows(struct rows *rows) {
    rows->nslots = 64;
    while (rows->nslots < 4 * (rows->count + 1)) rows->nslots *= 2;
    rows->slots = mt_new(rows->arena, int, rows->nslots);
    for (int i = 0; i < rows->count; i++) *slot_of(rows, rows->items[i].pattern) = i + 1;
}

enum { MIXED = -1 };

/* Count a name in its class; of different rules the class is mixed. */
static void class_name(struct rows *rows, const char *pattern, const struct spec *spec) {
    int i = find_row(rows, pattern);
    if (i < 0) {
        mt_arena_grow(rows->arena, &rows->items, rows->count, &rows->capacity, sizeof *rows->items);
        rows->items[rows->count++] = (struct row){pattern, *spec, 1};
        if (2 * (rows->count + 1) > rows->nslots)
            index_rows(rows);
        else
            *slot_of(rows, pattern) = rows->count;
        return;
    }
    struct row *row = &rows->items[i];
    if (row->count != MIXED) row->count = same_spec(&row->spec, spec) ? row->count + 1 : MIXED;
}

static const char *stem_end(const char *name) {
    const char *slash = strchr(name, '/');
    return slash ? slash : name + strlen(name);
}

static int by_length(const void *a, const void *b) {
    const struct row *x = a, *y = b;
    size_t nx = strlen(x->pattern), ny = strlen(y->pattern);
    return nx != ny ? (nx < ny) - (nx > ny) : strcmp(x->pattern, y->pattern);
}

/* The row that a name gets when those with out[] are taken out and `without` (or -1) as well; -1: none. */
static int first_match(const struct mt_patterns *patterns, const bool *out, const char *name, int without) {
    int i = mt_patterns_next(patterns, name, -1);
    while (i >= 0 && (out[i] || i == without)) i = mt_patterns_next(patterns, name, i);
    return i;
}

/* Take out, from the last row but one to the first, those of which each name gets the same from the rows after it. */
static void drop_needless(struct rows *rows, const struct named *names, int nnames) {
    struct mt_patterns patterns;
    int *at = mt_new(rows->arena, int, nnames + 1), kept = 0; /* at: each name's row */
    bool *out = mt_new(rows->arena, bool, rows->count), *needed = mt_new(rows->arena, bool, rows->count);
    mt_patterns_open(&patterns, rows->arena, rows->count);
    for (int i = 0; i < rows->count; i++) mt_patterns_add(&patterns, rows->items[i].pattern);
    for (int k = 0; k < nnames; k++) at[k] = first_match(&patterns, out, names[k].name, -1);
    for (int i = rows->count - 2; i >= 0; i--) {
        for (int k = 0; k < nnames && !needed[i]; k++) {
            if (at[k] != i) continue;
            int other = first_match(&patterns, out, names[k].name, i);
            needed[i] = other < 0 || !same_spec(&rows->items[other].spec, &names[k].spec);
        }
        out[i] = !needed[i];
        for (int k = 0; k < nnames && out[i]; k++)
            if (at[k] == i) at[k] = first_match(&patterns, out, names[k].name, -1);
    }
    for (int i = 0; i < rows->count; i++)
        if (!out[i]) rows->items[kept++] = rows->items[i];
    rows->count = kept;
}

/* Names of layers behave alike: the first of each pattern stands for the others, unless they differ. */
static int representatives(struct rows *patterns, const struct named *names, int n, struct named *first) {
    struct rows seen = {.arena = patterns->arena};
    int count = 0;
    for (int i = 0; i < n; i++) {
        int before = seen.count;
        const char *pattern = pattern_of(patterns->arena, names[i].name, NULL);
        class_name(&seen, pattern, &names[i].spec);
        bool mixed = patterns->items[find_row(patterns, pattern)].count == MIXED;
        if (seen.count > before || mixed) first[count++] = names[i];
    }
    return count;
}

/* The first of those that most names have. */
static struct spec most_usual(const struct rows *rows) {
    int *first = mt_new(rows->arena, int, rows->count), *names = mt_new(rows->arena, int, rows->count), n = 0, most = 0;
    for (int i = 0, k; i < rows->count; i++) {
        for (k = 0; k < n && !same_spec(&rows->items[first[k]].spec, &rows->items[i].spec);) k++;
        if (k == n) first[n++] = i;
        names[k] += rows->items[i].count;
    }
    for (int k = 1; k < n; k++)
        if (names[k] > names[most]) most = k;
    return rows->items[first[most]].spec;
}

/* Rows for names: of stems (what stands before a slash), else of patterns, else of names. */
static void make_rows(const struct named *names, int n, struct rows *rows) {
    struct mt_arena *arena = rows->arena;
    struct rows stems = {.arena = arena}, patterns = {.arena = arena};
    for (int i = 0; i < n; i++) {
        class_name(&stems, pattern_of(arena, names[i].name, stem_end(names[i].name)), &names[i].spec);
        class_name(&patterns, pattern_of(arena, names[i].name, NULL), &names[i].spec);
    }
    for (int i = 0; i < n; i++) {
        const char *stem = pattern_of(arena, names[i].name, stem_end(names[i].name));
        const char *pattern = pattern_of(arena, names[i].name, NULL);
        if (stems.items[find_row(&stems, stem)].count != MIXED)
            class_name(rows, stem, &names[i].spec);
        else if (patterns.items[find_row(&patterns, pattern)].count != MIXED)
            class_name(rows, pattern, &names[i].spec);
        else
            class_name(rows, names[i].name, &names[i].spec);
    }
    if (!rows->count) return;
    qsort(rows->items, (size_t)rows->count, sizeof *rows->items, by_length);
    index_rows(rows);
    struct spec usual = most_usual(rows);
    class_name(rows, "*", &usual);
    struct named *first = mt_new(arena, struct named, n);
    int nfirst = representatives(&patterns, names, n, first);
    drop_needless(rows, first, nfirst);
}

/* ---- rules ---- */

/* Which of the operator's indices with that label that can be divided it is, from 1. */
static int occurrence_of(const struct mt_op *op, int index) {
    int n = 0;
    for (int i = 0; i <= index; i++)
        n += op->index_label[i] == op->index_label[index] && mt_op_index_role(op, i) != MT_INDEX_WHOLE;
    return n;
}

static const char *level_of(const struct mt_op *op, const struct mt_rule *rule, int *occurrence) {
    *occurrence = 1;
    if (rule->kind == MT_RULE_REPLICATE) return "";
    *occurrence = rule->kind == MT_RULE_LINEAR ? rule->set + 1 : occurrence_of(op, rule->index);
    return rule->kind == MT_RULE_LINEAR ? MT_ROW_LINEAR : rule->split->name;
}

static struct spec spec_of(const struct mt_op *op, const struct mt_rule *rule) {
    struct spec spec = {.operators = MT_OPERATORS_SPLIT, .inner_occurrence = 1};
    spec.split = level_of(op, rule, &spec.occurrence);
    if (rule->inner) spec.inner = level_of(op, &rule->inner[0], &spec.inner_occurrence);
    if (!*spec.split && (!spec.inner || !*spec.inner))
        spec = (struct spec){.operators = MT_OPERATORS_REPLICATE, .split = "", .occurrence = 1, .inner_occurrence = 1};
    return spec;
}

static struct mt_row_levels levels_of(struct mt_arena *arena, const struct spec *spec) {
    struct mt_row_levels levels = {.occurrence = spec->occurrence};
    if (!spec->inner) return levels;
    levels.inner_occurrence = spec->inner_occurrence;
    const char **inner = mt_new(arena, const char *, 1);
    inner[0] = mt_arena_strdup(arena, spec->inner);
    levels.inner = inner;
    levels.ninner = 1;
    return levels;
}

static bool has_batch(const struct mt_graph *g, const struct mt_op *op) {
    for (int i = 0; i < op->nindices; i++)
        if (op->index_label[i] == g->batch) return true;
    return false;
}

static void write_rules(const struct mt_graph *g, const struct mt_choice *choice, struct mt_plan *plan) {
    struct mt_arena scratch = MT_ARENA_INIT;
    struct rows rows = {.arena = &scratch};
    struct named *names = mt_new(&scratch, struct named, g->nops + 1);
    int n = 0;
    for (int o = 0; o < g->nops; o++)
        if (has_batch(g, &g->ops[o]))
            names[n++] = (struct named){g->ops[o].name, spec_of(&g->ops[o], &choice->rules[o])};
    make_rows(names, n, &rows);
    struct mt_decisions *d = &plan->decisions;
    d->nrules = rows.count;
    d->rules = mt_new(&plan->arena, struct mt_rule_row, rows.count + 1);
    for (int i = 0; i < rows.count; i++)
        d->rules[i] = (struct mt_rule_row){.pattern = mt_arena_strdup(&plan->arena, rows.items[i].pattern),
                                           .operators = rows.items[i].spec.operators,
                                           .split = mt_arena_strdup(&plan->arena, rows.items[i].spec.split),
                                           .levels = levels_of(&plan->arena, &rows.items[i].spec)};
    mt_arena_release(&scratch);
}

static void write_storage(const struct mt_graph *g, const struct mt_choice *choice, struct mt_plan *plan) {
    struct mt_arena scratch = MT_ARENA_INIT;
    struct rows rows = {.arena = &scratch};
    struct named *names = mt_new(&scratch, struct named, g->nops + 1);
    int n = 0;
    for (int o = 0; o < g->nops; o++)
        if (g->ops[o].kind == MT_OP_adamw || g->ops[o].kind == MT_OP_sgd)
            names[n++] = (struct named){g->values[g->ops[o].in[0]].name, spec_of(&g->ops[o], &choice->rules[o])};
    make_rows(names, n, &rows);
    struct mt_decisions *d = &plan->decisions;
    d->nstorage = rows.count;
    d->storage = mt_new(&plan->arena, struct mt_storage_row, rows.count + 1);
    for (int i = 0; i < rows.count; i++) {
        const struct spec *spec = &rows.items[i].spec;
        bool split = spec->operators == MT_OPERATORS_SPLIT;
        d->storage[i] = (struct mt_storage_row){.pattern = mt_arena_strdup(&plan->arena, rows.items[i].pattern),
                                                .state = split ? MT_STATE_SPLIT : MT_STATE_REPLICATED,
                                                .split = split ? mt_arena_strdup(&plan->arena, spec->split) : NULL,
                                                .levels = levels_of(&plan->arena, spec)};
    }
    mt_arena_release(&scratch);
}

/* ---- splits ---- */

static bool uses(const struct mt_rule *rule, const struct mt_split *split) {
    return (rule->kind == MT_RULE_SPLIT && rule->split == split) || (rule->inner && uses(&rule->inner[0], split));
}

static bool is_used(const struct mt_graph *g, const struct mt_choice *choice, const struct mt_split *split) {
    for (int o = 0; o < g->nops; o++)
        if (uses(&choice->rules[o], split)) return true;
    return split == choice->batch;
}

static void write_splits(const struct mt_graph *g, const struct mt_choice *choice, const struct mt_mesh *mesh,
                         struct mt_plan *plan) {
    plan->splits = mt_new(&plan->arena, struct mt_plan_split, choice->nsplits);
    plan->nsplits = 0;
    for (int s = 0; s < choice->nsplits; s++) {
        const struct mt_split *from = &choice->splits[s];
        const struct mt_label *label = &g->labels[from->label];
        int64_t *sizes = mt_new(&plan->arena, int64_t, plan->nranks);
        if (!is_used(g, choice, from)) continue;
        for (int i = 0; i < plan->nplaces; i++)
            sizes[plan->order[i]] = from->sizes[from->axis == MT_AXIS_HOST ? mesh->node[i] : i];
        plan->splits[plan->nsplits++] = (struct mt_plan_split){.name = mt_arena_strdup(&plan->arena, from->name),
                                                               .label = mt_arena_strdup(&plan->arena, label->name),
                                                               .align = label->align,
                                                               .sizes = sizes,
                                                               .over = (enum mt_over)from->axis};
    }
    memset(plan->micro, 0, (size_t)plan->nranks * sizeof *plan->micro);
    for (int i = 0; i < plan->nplaces; i++) plan->micro[plan->order[i]] = choice->micro[i];
}

/* ---- the whole ---- */

bool mt_divide_same_rule(const struct mt_rule *a, const struct mt_rule *b) {
    if (a->kind != b->kind || !a->inner != !b->inner) return false;
    if (a->kind == MT_RULE_LINEAR && a->set != b->set) return false;
    if (a->kind == MT_RULE_SPLIT &&
        (a->index != b->index || a->split->axis != b->split->axis || strcmp(a->split->name, b->split->name)))
        return false;
    return !a->inner || mt_divide_same_rule(&a->inner[0], &b->inner[0]);
}

enum mt_status mt_choice_rows(const struct mt_graph *g, const struct mt_choice *choice, const struct mt_mesh *mesh,
                              struct mt_plan *plan, struct mt_err *err) {
    struct mt_arena scratch = MT_ARENA_INIT;
    struct mt_choice back;
    write_splits(g, choice, mesh, plan);
    write_rules(g, choice, plan);
    write_storage(g, choice, plan);
    enum mt_status st = mt_choice_from_plan(g, plan, false, &scratch, &back, err);
    for (int o = 0; o < g->nops && !st; o++)
        if (has_batch(g, &g->ops[o]) && !mt_divide_same_rule(&choice->rules[o], &back.rules[o]))
            st = mt_fail(err, MT_EBUG, "the plan's rows give %s another rule than it has", g->ops[o].name);
    mt_arena_release(&scratch);
    return st;
}
