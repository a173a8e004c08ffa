/* Decisions: their words, their copies, and the rows that are there by default. */
#include "synth/job/decisions.h"

#include <string.h>

#define VALUE(NAME, value, text) [MT_##NAME##_##value] = text,
#define WORDS(NAME, name, values) const char *const mt_##name##_names[MT_N##NAME] = {values};
#include "synth/job/decisions.def"

#define DECISION(NAME, name, omitted, flag, what, help)                                                                \
    {#name, "--" flag, what, mt_##name##_names, MT_N##NAME, MT_##NAME##_##omitted},
const struct mt_decision mt_decision_table[MT_NDECISIONS] = {
#include "synth/job/decisions.def"
};

#define DECISION(NAME, name, omitted, flag, what, help)                                                                \
    case MT_DECISION_##NAME: return (int)d->name;
int mt_decision_get(const struct mt_decisions *d, enum mt_decision_id which) {
    switch (which) {
#include "synth/job/decisions.def"
    case MT_NDECISIONS: break;
    }
    return -1;
}

#define DECISION(NAME, name, omitted, flag, what, help)                                                                \
    case MT_DECISION_##NAME: d->name = (enum mt_##name)value; break;
void mt_decision_set(struct mt_decisions *d, enum mt_decision_id which, int value) {
    switch (which) {
#include "synth/job/decisions.def"
    case MT_NDECISIONS: break;
    }
}

static int word_of(const char *const *words, int count, const char *text, size_t length) {
    for (int i = 0; i < count; i++)
        if (strlen(words[i]) == length && !memcmp(words[i], text, length)) return i;
    return -1;
}

int mt_overlapped_parse(const char *text) {
    int forms = 0, whole = word_of(mt_overlapped_names, MT_NOVERLAPPED, text, strlen(text));
    if (whole >= 0) return whole;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, "+");
        int form = word_of(mt_overlap_form_names, MT_OVERLAP_NFORMS, at, length);
        if (form < 0) return -1;
        forms |= 1 << form;
        at += length;
        if (!*at) return forms;
    }
}

bool mt_decisions_are_unset(const struct mt_decisions *d) {
    bool unset =
        !d->nrules && !d->nstorage && d->bucket_bytes < 0 && !d->staging_bytes && d->gradient_wire == MT_NTYPES;
    unset &= !d->noverlaps;
    for (int i = 0; i < d->nalgorithms; i++) unset &= mt_algorithm_is_auto(d->algorithms[i].algorithm);
    for (int i = 0; i < MT_NDECISIONS; i++) unset &= mt_decision_get(d, (enum mt_decision_id)i) < 0;
    return unset;
}

/* Sizes rise within a kind, up to the row for any size. */
static enum mt_status check_sizes(const struct mt_decisions *d, int i, struct mt_err *err) {
    const struct mt_algorithm_row *rows = d->algorithms, *row = &rows[i];
    const char *name = mt_coll_name(row->kind);
    bool any = !row->up_to_bytes;
    if (row->up_to_bytes < 0) return mt_fail(err, MT_EINPUT, "collectives[%d].up_to_bytes: is negative", i);
    for (int j = 0; j < d->nalgorithms; j++) {
        int64_t other = rows[j].up_to_bytes;
        if (rows[j].kind != row->kind || j == i) continue;
        if (j < i && !other)
            return mt_fail(err, MT_EINPUT, "collectives[%d].kind: %s of any size is there already", i, name);
        if (j < i && !any && other >= row->up_to_bytes)
            return mt_fail(err, MT_EINPUT, "collectives[%d].up_to_bytes: must be more than in the row of %s before", i,
                           name);
        any |= !other;
    }
    if (any) return MT_OK;
    return mt_fail(err, MT_EINPUT, "collectives[%d]: there is no row of %s for any size (without up_to_bytes)", i,
                   name);
}

static enum mt_status check_overlaps(const struct mt_decisions *d, struct mt_err *err) {
    for (int i = 0; i < d->noverlaps; i++) {
        const struct mt_overlap_choice *row = &d->overlaps[i];
        struct mt_err why = MT_ERR_INIT;
        if (mt_overlap_choice_check(row, &why)) return mt_fail(err, MT_EINPUT, "overlapped[%d].%s", i, why.text);
        for (int j = 0; j < i; j++)
            if (d->overlaps[j].form == row->form && d->overlaps[j].m == row->m && d->overlaps[j].cols == row->cols &&
                d->overlaps[j].k == row->k)
                return mt_fail(err, MT_EINPUT, "overlapped[%d]: is of the same shape as overlapped[%d]", i, j);
    }
    return MT_OK;
}

enum mt_status mt_decisions_check(const struct mt_decisions *d, struct mt_err *err) {
    for (int i = 0; i < MT_NDECISIONS; i++)
        if (mt_decision_get(d, (enum mt_decision_id)i) < 0)
            return mt_fail(err, MT_EINPUT, "gradients.%s: is not decided", mt_decision_table[i].name);
    if (d->bucket_bytes < 0) return mt_fail(err, MT_EINPUT, "gradients.bucket_bytes: is negative");
    if (d->staging_bytes && d->staging_bytes < MT_LEAST_STAGING_BYTES)
        return mt_fail(err, MT_EINPUT, "gradients.staging_bytes: is %lld, but must be at least %lld",
                       (long long)d->staging_bytes, (long long)MT_LEAST_STAGING_BYTES);
    for (int i = 0; i < d->nalgorithms; i++) {
        const struct mt_algorithm_row *row = &d->algorithms[i];
        enum mt_status st = check_sizes(d, i, err);
        if (st) return st;
        if (!mt_algorithm_is_auto(row->algorithm) && !mt_coll_find(row->kind, row->algorithm))
            return mt_fail(err, MT_EINPUT, "collectives[%d].algorithm: %s has no algorithm \"%s\"", i,
                           mt_coll_name(row->kind), row->algorithm);
    }
    return check_overlaps(d, err);
}

static struct mt_row_levels copy_levels(const struct mt_row_levels *from, struct mt_arena *arena) {
    struct mt_row_levels to = *from;
    const char **inner = mt_new(arena, const char *, from->ninner);
    for (int i = 0; i < from->ninner; i++) inner[i] = mt_arena_strdup(arena, from->inner[i]);
    to.inner = inner;
    return to;
}

static bool same_levels(const struct mt_row_levels *a, const struct mt_row_levels *b) {
    bool same = a->ninner == b->ninner && a->occurrence == b->occurrence && a->inner_occurrence == b->inner_occurrence;
    for (int i = 0; i < a->ninner && same; i++) same = !strcmp(a->inner[i], b->inner[i]);
    return same;
}

bool mt_storage_row_names_split(const struct mt_storage_row *row) {
    return row->state == MT_STATE_SPLIT && ((row->split && row->split[0]) || row->levels.ninner);
}

struct mt_decisions mt_decisions_copy(const struct mt_decisions *from, struct mt_arena *arena) {
    struct mt_decisions to = *from;
    to.rules = mt_new(arena, struct mt_rule_row, from->nrules);
    to.storage = mt_new(arena, struct mt_storage_row, from->nstorage);
    to.algorithms = mt_new(arena, struct mt_algorithm_row, from->nalgorithms);
    for (int i = 0; i < from->nrules; i++) {
        const struct mt_rule_row *row = &from->rules[i];
        to.rules[i] = (struct mt_rule_row){mt_arena_strdup(arena, row->pattern), row->operators,
                                           mt_arena_strdup(arena, row->split), copy_levels(&row->levels, arena)};
    }
    for (int i = 0; i < from->nstorage; i++) {
        const struct mt_storage_row *row = &from->storage[i];
        to.storage[i] = (struct mt_storage_row){mt_arena_strdup(arena, row->pattern), row->state,
                                                mt_arena_strdup(arena, row->split ? row->split : ""),
                                                copy_levels(&row->levels, arena)};
    }
    for (int i = 0; i < from->nalgorithms; i++) {
        to.algorithms[i] = from->algorithms[i];
        to.algorithms[i].algorithm = mt_arena_strdup(arena, from->algorithms[i].algorithm);
    }
    to.overlaps = mt_overlap_choices_copy(from->overlaps, from->noverlaps, arena);
    return to;
}

void mt_decisions_complete(struct mt_decisions *d, struct mt_arena *arena) {
    static const struct mt_rule_row by_batch = {.pattern = "*", .operators = MT_OPERATORS_SPLIT, .split = "batch"};
    for (int i = 0; i < MT_NDECISIONS; i++)
        if (mt_decision_get(d, (enum mt_decision_id)i) < 0)
            mt_decision_set(d, (enum mt_decision_id)i, mt_decision_table[i].omitted);
    if (!d->nrules) d->rules = mt_arena_memdup(arena, &by_batch, sizeof by_batch), d->nrules = 1;
    for (int i = 0; i < d->nstorage; i++)
        if (!strcmp(d->storage[i].pattern, "*")) return;
    struct mt_storage_row *rows = mt_new(arena, struct mt_storage_row, d->nstorage + 1);
    if (d->nstorage) memcpy(rows, d->storage, (size_t)d->nstorage * sizeof *rows);
    rows[d->nstorage++] = (struct mt_storage_row){.pattern = "*", .state = MT_STATE_REPLICATED};
    d->storage = rows;
}

void mt_decisions_take(struct mt_decisions *d, const struct mt_decisions *from, const struct mt_decisions *fixed) {
    for (int i = 0; i < MT_NDECISIONS; i++)
        if (mt_decision_get(fixed, (enum mt_decision_id)i) < 0)
            mt_decision_set(d, (enum mt_decision_id)i, mt_decision_get(from, (enum mt_decision_id)i));
}

bool mt_decisions_same_values(const struct mt_decisions *a, const struct mt_decisions *b) {
    bool same = true;
    for (int i = 0; i < MT_NDECISIONS; i++)
        same &= mt_decision_get(a, (enum mt_decision_id)i) == mt_decision_get(b, (enum mt_decision_id)i);
    return same;
}

bool mt_decisions_shard_state(const struct mt_decisions *d) {
    bool split = false;
    for (int i = 0; i < d->nstorage; i++) split |= d->storage[i].state == MT_STATE_SPLIT;
    return split;
}

bool mt_decisions_in_step(const struct mt_decisions *d) {
    return d->gather == MT_GATHER_LAYER || (d->reduced >= 0 && d->reduced != MT_REDUCED_STEP);
}

bool mt_decisions_same_rows(const struct mt_decisions *a, const struct mt_decisions *b) {
    bool same = a->nrules == b->nrules && a->nstorage == b->nstorage && a->sync == b->sync;
    for (int i = 0; i < a->nrules && same; i++)
        same = a->rules[i].operators == b->rules[i].operators && !strcmp(a->rules[i].pattern, b->rules[i].pattern) &&
               !strcmp(a->rules[i].split, b->rules[i].split) && same_levels(&a->rules[i].levels, &b->rules[i].levels);
    for (int i = 0; i < a->nstorage && same; i++) {
        const struct mt_storage_row *x = &a->storage[i], *y = &b->storage[i];
        same = x->state == y->state && !strcmp(x->pattern, y->pattern) && same_levels(&x->levels, &y->levels) &&
               !strcmp(x->split ? x->split : "", y->split ? y->split : "");
    }
    return same;
}

bool mt_algorithm_is_auto(const char *name) {
    return !strcmp(name, "auto");
}

const char *mt_decisions_algorithm(const struct mt_decisions *d, enum mt_coll_kind kind, int64_t bytes) {
    for (int i = 0; i < d->nalgorithms; i++) {
        const struct mt_algorithm_row *row = &d->algorithms[i];
        if (row->kind == kind && (!row->up_to_bytes || bytes <= row->up_to_bytes)) return row->algorithm;
    }
    return "auto";
}
