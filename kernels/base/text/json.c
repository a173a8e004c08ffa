/* Reading JSON: jansson parses; this file checks types and ranges, and gives every message its path. */
#include "kernels/base/text/json.h"
#include "kernels/base/text/nearest.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#define MOST_BYTES ((size_t)1 << 30)
#define MOST_DEPTH 64

static void printable(char *text) {
    for (unsigned char *c = (unsigned char *)text; *c; c++)
        if (*c < 0x20 || *c == 0x7f) *c = '?';
}

enum mt_status mt_json_fail(struct mt_json place, struct mt_err *err, const char *format, ...) {
    char why[sizeof err->text];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    mt_fail(err, MT_EINPUT, "%.300s: %.300s%s%.400s", place.doc->name, place.path, place.path[0] ? ": " : "", why);
    printable(err->text);
    return err->status;
}

/* jansson recurses, so the depth is bounded before it starts. */
static bool too_deep(const char *text, size_t length) {
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (quoted) {
            if (c == '\\')
                i++;
            else if (c == '"')
                quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '[' || c == '{') {
            if (++depth > MOST_DEPTH) return true;
        } else if (c == ']' || c == '}') {
            depth--;
        }
    }
    return false;
}

/* line: of a file, of which the text is that line alone; 0: it is the whole file. */
static enum mt_status parse(const char *name, int64_t line, const char *text, size_t length, size_t flags,
                            struct mt_json_doc *doc, struct mt_err *err) {
    char where[512];
    snprintf(where, sizeof where, line ? "%.480s: line %lld" : "%.480s", name, (long long)line);
    if (length > MOST_BYTES) return mt_fail(err, MT_EINPUT, "%s: is longer than 1 GiB", where);
    if (too_deep(text, length)) return mt_fail(err, MT_EINPUT, "%s: is nested deeper than %d", where, MOST_DEPTH);
    json_error_t why;
    json_set_alloc_funcs(mt_malloc, free); /* jansson's own failures to allocate have no text */
    json_t *tree = json_loadb(text, length, JSON_REJECT_DUPLICATES | flags, &why);
    if (!tree) {
        if (line)
            mt_fail(err, MT_EINPUT, "%s, column %d: %s", where, why.column, why.text);
        else
            mt_fail(err, MT_EINPUT, "%s:%d:%d: %s", name, why.line, why.column, why.text);
        printable(err->text);
        return err->status;
    }
    memset(doc, 0, sizeof *doc);
    doc->name = mt_arena_strdup(&doc->arena, line ? where : name);
    doc->tree = tree;
    doc->root = (struct mt_json){tree, "", doc};
    return MT_OK;
}

enum mt_status mt_json_parse(const char *name, const char *text, size_t length, struct mt_json_doc *doc,
                             struct mt_err *err) {
    return parse(name, 0, text, length, 0, doc, err);
}

enum mt_status mt_json_parse_line(const char *name, int64_t line, const char *text, size_t length,
                                  struct mt_json_doc *doc, struct mt_err *err) {
    return parse(name, line, text, length, JSON_DECODE_INT_AS_REAL, doc, err);
}

static enum mt_status load(const char *path, size_t flags, struct mt_json_doc *doc, struct mt_err *err) {
    char *text;
    size_t length;
    enum mt_status st = mt_file_read(path, MOST_BYTES, &text, &length, err);
    if (st) return st;
    st = parse(path, 0, text, length, flags, doc, err);
    free(text);
    return st;
}

enum mt_status mt_json_load(const char *path, struct mt_json_doc *doc, struct mt_err *err) {
    return load(path, 0, doc, err);
}

enum mt_status mt_json_load_texts(const char *path, struct mt_json_doc *doc, struct mt_err *err) {
    return load(path, JSON_DECODE_INT_AS_REAL, doc, err);
}

void mt_json_release(struct mt_json_doc *doc) {
    json_decref(doc->tree);
    mt_arena_release(&doc->arena);
    memset(doc, 0, sizeof *doc);
}

static struct mt_json below(struct mt_json object, const char *key, json_t *node) {
    struct mt_json member = {node, NULL, object.doc};
    member.path = mt_arena_printf(&object.doc->arena, object.path[0] ? "%s.%.100s" : "%s%.100s", object.path, key);
    return member;
}

static const char *type_text(const json_t *node) {
    static const char *const names[] = {
        [JSON_OBJECT] = "an object",    [JSON_ARRAY] = "a list",  [JSON_STRING] = "a string",
        [JSON_INTEGER] = "a number",    [JSON_REAL] = "a number", [JSON_TRUE] = "a truth value",
        [JSON_FALSE] = "a truth value", [JSON_NULL] = "null"};
    return names[json_typeof(node)];
}

static enum mt_status wants(struct mt_json place, const char *what, struct mt_err *err) {
    return mt_json_fail(place, err, "must be %s, not %s", what, type_text(place.node));
}

bool mt_json_has(struct mt_json object, const char *key) {
    return json_object_get(object.node, key) != NULL;
}

bool mt_json_has_value(struct mt_json object, const char *key) {
    json_t *node = json_object_get(object.node, key);
    return node && !json_is_null(node);
}

enum mt_status mt_json_get(struct mt_json object, const char *key, struct mt_json *member, struct mt_err *err) {
    if (!json_is_object(object.node)) return wants(object, "an object", err);
    json_t *node = json_object_get(object.node, key);
    if (!node) return mt_json_fail(object, err, "has no \"%s\"", key);
    *member = below(object, key, node);
    return MT_OK;
}

enum mt_status mt_json_as_int(struct mt_json place, int64_t least, int64_t most, int64_t *value, struct mt_err *err) {
    if (json_is_real(place.node))
        return mt_json_fail(place, err, "must be a whole number, not %.17g", json_real_value(place.node));
    if (!json_is_integer(place.node)) return wants(place, "a whole number", err);
    int64_t v = json_integer_value(place.node);
    if (v < least || v > most)
        return mt_json_fail(place, err, "is %lld, but must be from %lld to %lld", (long long)v, (long long)least,
                            (long long)most);
    *value = v;
    return MT_OK;
}

enum mt_status mt_json_as_real(struct mt_json place, double least, double most, double *value, struct mt_err *err) {
    if (!json_is_number(place.node)) return wants(place, "a number", err);
    double v = json_number_value(place.node);
    if (!(v >= least && v <= most)) return mt_json_fail(place, err, "is %g, but must be from %g to %g", v, least, most);
    *value = v;
    return MT_OK;
}

enum mt_status mt_json_as_real_or_null(struct mt_json place, double *value, struct mt_err *err) {
    if (!json_is_null(place.node)) return mt_json_as_real(place, -DBL_MAX, DBL_MAX, value, err);
    *value = NAN;
    return MT_OK;
}

enum mt_status mt_json_as_string(struct mt_json place, const char **value, struct mt_err *err) {
    if (!json_is_string(place.node)) return wants(place, "a string", err);
    *value = json_string_value(place.node);
    return MT_OK;
}

enum mt_status mt_json_int(struct mt_json object, const char *key, int64_t least, int64_t most, int64_t *value,
                           struct mt_err *err) {
    struct mt_json member;
    enum mt_status st = mt_json_get(object, key, &member, err);
    return st ? st : mt_json_as_int(member, least, most, value, err);
}

enum mt_status mt_json_real(struct mt_json object, const char *key, double least, double most, double *value,
                            struct mt_err *err) {
    struct mt_json member;
    enum mt_status st = mt_json_get(object, key, &member, err);
    return st ? st : mt_json_as_real(member, least, most, value, err);
}

enum mt_status mt_json_bool(struct mt_json object, const char *key, bool *value, struct mt_err *err) {
    struct mt_json member;
    enum mt_status st = mt_json_get(object, key, &member, err);
    if (st) return st;
    if (!json_is_boolean(member.node)) return wants(member, "true or false", err);
    *value = json_is_true(member.node);
    return MT_OK;
}

enum mt_status mt_json_string(struct mt_json object, const char *key, const char **value, struct mt_err *err) {
    struct mt_json member;
    enum mt_status st = mt_json_get(object, key, &member, err);
    return st ? st : mt_json_as_string(member, value, err);
}

enum mt_status mt_json_enum(struct mt_json object, const char *key, const char *const *names, int count, int *value,
                            struct mt_err *err) {
    struct mt_json member;
    const char *text;
    enum mt_status st = mt_json_get(object, key, &member, err);
    if (st || (st = mt_json_as_string(member, &text, err))) return st;
    struct mt_nearest near = mt_nearest_to(text);
    int which = mt_nearest_find(&near, names, count);
    if (which >= 0) {
        *value = which;
        return MT_OK;
    }
    mt_json_fail(member, err, "\"%.60s\" is not known here", text);
    return mt_nearest_hint(&near, err, "it may be: %s", near.list);
}

enum mt_status mt_json_length(struct mt_json array, int most, int *length, struct mt_err *err) {
    if (!json_is_array(array.node)) return wants(array, "a list", err);
    size_t n = json_array_size(array.node);
    if (n > (size_t)most) return mt_json_fail(array, err, "has %zu items, but may have %d at most", n, most);
    *length = (int)n;
    return MT_OK;
}

enum mt_status mt_json_item(struct mt_json array, int index, struct mt_json *item, struct mt_err *err) {
    if (!json_is_array(array.node)) return wants(array, "a list", err);
    json_t *node = index < 0 ? NULL : json_array_get(array.node, (size_t)index);
    if (!node) return mt_json_fail(array, err, "has no item %d", index);
    *item = (struct mt_json){node, mt_arena_printf(&array.doc->arena, "%s[%d]", array.path, index), array.doc};
    return MT_OK;
}

/* The member `key`, a list of exactly `count` numbers. */
static enum mt_status get_vector(struct mt_json object, const char *key, const char *what, int count,
                                 struct mt_json *list, struct mt_err *err) {
    enum mt_status st = mt_json_get(object, key, list, err);
    if (st) return st;
    if (!json_is_array(list->node)) return wants(*list, what, err);
    if (json_array_size(list->node) == (size_t)count) return MT_OK;
    return mt_json_fail(*list, err, "has %zu numbers, but must have %d", json_array_size(list->node), count);
}

enum mt_status mt_json_ints(struct mt_json object, const char *key, int64_t least, int64_t most, int count,
                            int64_t *values, struct mt_err *err) {
    struct mt_json list, item;
    enum mt_status st = get_vector(object, key, "a list of whole numbers", count, &list, err);
    for (int i = 0; i < count && !st; i++)
        if (!(st = mt_json_item(list, i, &item, err))) st = mt_json_as_int(item, least, most, &values[i], err);
    return st;
}

enum mt_status mt_json_reals(struct mt_json object, const char *key, double least, double most, int count,
                             double *values, struct mt_err *err) {
    struct mt_json list, item;
    enum mt_status st = get_vector(object, key, "a list of numbers", count, &list, err);
    for (int i = 0; i < count && !st; i++)
        if (!(st = mt_json_item(list, i, &item, err))) st = mt_json_as_real(item, least, most, &values[i], err);
    return st;
}

enum mt_status mt_json_text(struct mt_json object, const char *key, struct mt_arena *arena, const char **value,
                            struct mt_err *err) {
    enum mt_status st = mt_json_string(object, key, value, err);
    if (st) return st;
    for (const char *c = *value; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return mt_json_fail(object, err, "%s: has a control character", key);
    *value = mt_arena_strdup(arena, *value);
    return MT_OK;
}

enum mt_status mt_json_list(struct mt_json object, const struct mt_json_rows *what, void *context,
                            struct mt_arena *arena, void *rows, int *count, struct mt_err *err) {
    struct mt_json list, item;
    enum mt_status st;
    if ((st = mt_json_get(object, what->key, &list, err)) || (st = mt_json_length(list, what->most, count, err)))
        return st;
    void *memory = mt_arena_alloc(arena, (size_t)*count * what->row_bytes);
    memcpy(rows, &memory, sizeof memory);
    for (int i = 0; i < *count && !st; i++)
        if (!(st = mt_json_item(list, i, &item, err))) st = what->read(context, item, i, err);
    return st;
}

enum mt_status mt_json_format(struct mt_json object, const char *format, int version, struct mt_err *err) {
    const char *text;
    int64_t number;
    if (json_is_object(object.node) && !mt_json_has(object, "format"))
        return mt_json_fail(object, err, "has no \"format\": it is no \"%s\"", format);
    enum mt_status st = mt_json_string(object, "format", &text, err);
    if (st) return st;
    if (strcmp(text, format)) return mt_json_fail(object, err, "is a \"%.60s\", not a \"%s\"", text, format);
    if ((st = mt_json_int(object, "version", 1, INT64_MAX, &number, err)) || number == version) return st;
    return mt_json_fail(object, err, "version: is %lld, but this motley knows version %d only", (long long)number,
                        version);
}

enum mt_status mt_json_only(struct mt_json object, const char *const *keys, struct mt_err *err) {
    if (!json_is_object(object.node)) return wants(object, "an object", err);
    int count = 0;
    while (keys[count]) count++;
    for (void *at = json_object_iter(object.node); at; at = json_object_iter_next(object.node, at)) {
        const char *key = json_object_iter_key(at);
        struct mt_nearest near = mt_nearest_to(key);
        if (mt_nearest_find(&near, keys, count) >= 0) continue;
        mt_json_fail(object, err, "unknown key \"%.60s\"", key);
        return mt_nearest_hint(&near, err, "known keys: %s", near.list);
    }
    return MT_OK;
}

enum mt_status mt_json_members(struct mt_json object, int most, int *count, struct mt_err *err) {
    if (!json_is_object(object.node)) return wants(object, "an object", err);
    size_t n = json_object_size(object.node);
    if (n > (size_t)most) return mt_json_fail(object, err, "has %zu members, but may have %d at most", n, most);
    *count = (int)n;
    return MT_OK;
}

enum mt_status mt_json_member(struct mt_json object, int index, const char **key, struct mt_json *member,
                              struct mt_err *err) {
    if (!json_is_object(object.node)) return wants(object, "an object", err);
    if (index < 0 || (size_t)index >= json_object_size(object.node))
        return mt_json_fail(object, err, "has no member %d", index);
    struct mt_json_doc *doc = object.doc;
    if (doc->walked != object.node || doc->walked_index > index) {
        doc->walked = object.node;
        doc->walked_index = 0;
        doc->walked_at = json_object_iter(object.node);
    }
    for (; doc->walked_index < index; doc->walked_index++)
        doc->walked_at = json_object_iter_next(object.node, doc->walked_at);
    *key = json_object_iter_key(doc->walked_at);
    *member = below(object, *key, json_object_iter_value(doc->walked_at));
    return MT_OK;
}

bool mt_json_is(struct mt_json place, const char *literal) {
    json_t *wanted = json_loads(literal, JSON_DECODE_ANY, NULL);
    bool numbers = json_is_number(wanted) && json_is_number(place.node);
    bool same = numbers ? json_number_value(wanted) == json_number_value(place.node) : json_equal(wanted, place.node);
    json_decref(wanted);
    return same;
}

const char *mt_json_shown(struct mt_json place) {
    enum { MOST_SHOWN = 80 };
    char *text = json_dumps(place.node, JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(10));
    if (!text) return type_text(place.node); /* a string that is no UTF-8 */
    bool cut = strlen(text) > MOST_SHOWN;
    const char *shown = mt_arena_printf(&place.doc->arena, "%.*s%s", MOST_SHOWN, text, cut ? "..." : "");
    free(text);
    return shown;
}
