/* Reading parts, and what several kinds of them share: optional members, patterns. */
#include "launcher/tokenizer/parts/part.h"

enum { MOST_PARTS = 64 };

static const char elsewhere[] = "the data can be made into tokens elsewhere, and given as .bin";

enum mt_status mt_part_bool(struct mt_json object, const char *key, bool otherwise, bool *value, struct mt_err *err) {
    *value = otherwise;
    return mt_json_has_value(object, key) ? mt_json_bool(object, key, value, err) : MT_OK;
}

enum mt_status mt_part_text(struct mt_json object, const char *key, struct mt_arena *arena, const char **value,
                            struct mt_err *err) {
    *value = NULL;
    if (!mt_json_has_value(object, key)) return MT_OK;
    enum mt_status st = mt_json_string(object, key, value, err);
    if (!st) *value = mt_arena_strdup(arena, *value);
    return st;
}

enum mt_status mt_part_pattern(struct mt_json object, struct mt_part *part, struct mt_arena *arena,
                               struct mt_err *err) {
    static const char *const keys[] = {"String", "Regex", NULL};
    struct mt_json pattern;
    const char *expression;
    enum mt_status st;
    if ((st = mt_json_get(object, "pattern", &pattern, err)) || (st = mt_json_only(pattern, keys, err))) return st;
    if (mt_json_has(pattern, "String")) {
        st = mt_part_text(pattern, "String", arena, &part->text, err);
        return !st && (!part->text || !*part->text) ? mt_json_fail(pattern, err, "is empty") : st;
    }
    if ((st = mt_json_string(pattern, "Regex", &expression, err))) return st;
    if (!(st = mt_pattern_new(expression, &part->pattern, err))) return st;
    char why[sizeof err->text], hint[sizeof err->hint];
    memcpy(why, err->text, sizeof why);
    memcpy(hint, err->hint, sizeof hint);
    mt_json_fail(pattern, err, "%.900s", why);
    return mt_err_hint(err, "%s", *hint ? hint : elsewhere);
}

enum mt_status mt_part_replacement(struct mt_json object, struct mt_part *part, struct mt_arena *arena,
                                   struct mt_err *err) {
    enum mt_status st = mt_part_pattern(object, part, arena, err);
    if (!st && !(st = mt_json_string(object, "content", &part->content, err)))
        part->content = mt_arena_strdup(arena, part->content);
    return st;
}

enum mt_found mt_part_find(struct mt_part *part, const char *text, size_t length, size_t at, size_t *from, size_t *to) {
    if (part->pattern) return mt_pattern_find(part->pattern, &part->search, text, length, at, from, to);
    size_t n = strlen(part->text);
    const char *found = at < length ? memmem(text + at, length - at, part->text, n) : NULL;
    if (!found) return MT_FOUND_NONE;
    *from = (size_t)(found - text), *to = *from + n;
    return MT_FOUND;
}

enum mt_found mt_part_replace(struct mt_part *part, const char *text, size_t length, struct mt_text *out) {
    size_t at = 0, from, to;
    enum mt_found found;
    while ((found = mt_part_find(part, text, length, at, &from, &to)) == MT_FOUND) {
        mt_text_add(out, text + at, from - at);
        mt_text_add(out, part->content, strlen(part->content));
        at = to;
    }
    mt_text_add(out, text + at, length - at);
    return found;
}

static enum mt_status read_one(const struct mt_part_kind *kind, const char *type, struct mt_json object,
                               struct mt_arena *arena, struct mt_parts *parts, struct mt_err *err) {
    int row = 0;
    while (row < kind->nrows && strcmp(kind->rows[row].type, type) != 0) row++;
    if (row == kind->nrows) {
        mt_json_fail(object, err, "a %s of type \"%.60s\" is not supported", kind->word, type);
        return mt_err_hint(err, "%s", elsewhere);
    }
    if (parts->n == MOST_PARTS) return mt_json_fail(object, err, "has more than %d parts", MOST_PARTS);
    enum mt_status st = mt_json_only(object, kind->rows[row].keys, err);
    if (st) return st;
    mt_arena_grow(arena, &parts->part, parts->n, &parts->capacity, sizeof *parts->part);
    struct mt_part *part = &parts->part[parts->n++];
    *part = (struct mt_part){.row = row};
    return kind->rows[row].read(object, part, arena, err);
}

enum mt_status mt_parts_read(const struct mt_part_kind *kind, struct mt_json object, struct mt_arena *arena,
                             struct mt_parts *parts, struct mt_err *err) {
    const char *const keys[] = {"type", kind->members, NULL};
    const char *type;
    struct mt_json list, item;
    int n;
    enum mt_status st = mt_json_string(object, "type", &type, err);
    if (st) return st;
    if (strcmp(type, "Sequence") != 0) return read_one(kind, type, object, arena, parts, err);
    if ((st = mt_json_only(object, keys, err)) || (st = mt_json_get(object, kind->members, &list, err)) ||
        (st = mt_json_length(list, MOST_PARTS, &n, err)))
        return st;
    for (int i = 0; i < n && !st; i++)
        if (!(st = mt_json_item(list, i, &item, err))) st = mt_parts_read(kind, item, arena, parts, err);
    return st;
}

void mt_parts_release(struct mt_parts *parts) {
    for (int i = 0; i < parts->n; i++) {
        struct mt_part *part = &parts->part[i];
        mt_pattern_free(part->pattern);
        mt_search_free(&part->search);
        mt_text_free(&part->scratch[0]);
        mt_text_free(&part->scratch[1]);
    }
    *parts = (struct mt_parts){0};
}
