/* JSON documents: reading with checks and positions, writing in one stable form.
 *
 *     struct mt_json_doc doc;
 *     if ((st = mt_json_load("plan.json", &doc, err))) return st;
 *     int64_t batch;
 *     struct mt_json job;
 *     if ((st = mt_json_get(doc.root, "job", &job, err)) || (st = mt_json_int(job, "batch", 1, 1 << 20, &batch, err)))
 *         goto out;
 *  out:
 *     mt_json_release(&doc);
 *
 * Every error names the file and the path, as "plan.json: splits[0].sizes[2]: ...". Duplicate keys, numbers
 * out of range, NaN and trailing text are refused; `mt_json_only` refuses unknown keys. */
#ifndef MT_KERNELS_BASE_TEXT_JSON_H
#define MT_KERNELS_BASE_TEXT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "kernels/base/arena.h"
#include "kernels/base/err.h"
#include "kernels/base/file.h"

struct json_t; /* jansson's */

struct mt_json_doc;

/* A place in a document; copied freely, valid until the document is released. */
struct mt_json {
    struct json_t *node;
    const char *path; /* "splits[0].sizes"; "" at the top */
    struct mt_json_doc *doc;
};

struct mt_json_doc {
    const char *name; /* for messages */
    struct mt_json root;
    struct mt_arena arena; /* paths */
    struct json_t *tree;
    const struct json_t *walked; /* the last mt_json_member, so that a walk in order is linear */
    int walked_index;
    void *walked_at;
};

/* Read a file (at most 1 GiB), or a text, nested at most 64 deep. On failure there is nothing to release. `doc` must
 * stay at its address until it is released. */
enum mt_status mt_json_load(const char *path, struct mt_json_doc *doc, struct mt_err *err);
enum mt_status mt_json_parse(const char *name, const char *text, size_t length, struct mt_json_doc *doc,
                             struct mt_err *err);
/* A document of which texts alone are read: its integers may be of any size, as those of tokenizer_config.json and of
 * JSONL are, and cannot be read as integers. A line is that of the file `name`, counted from 1, which messages say. */
enum mt_status mt_json_load_texts(const char *path, struct mt_json_doc *doc, struct mt_err *err);
enum mt_status mt_json_parse_line(const char *name, int64_t line, const char *text, size_t length,
                                  struct mt_json_doc *doc, struct mt_err *err);
void mt_json_release(struct mt_json_doc *doc);

/* Members of an object: MT_EINPUT when missing, of another type or out of [least, most]. Strings live as
 * long as the document. */
bool mt_json_has(struct mt_json object, const char *key);
bool mt_json_has_value(struct mt_json object, const char *key); /* which is not null */
enum mt_status mt_json_get(struct mt_json object, const char *key, struct mt_json *member, struct mt_err *err);
enum mt_status mt_json_int(struct mt_json object, const char *key, int64_t least, int64_t most, int64_t *value,
                           struct mt_err *err);
enum mt_status mt_json_real(struct mt_json object, const char *key, double least, double most, double *value,
                            struct mt_err *err);
enum mt_status mt_json_bool(struct mt_json object, const char *key, bool *value, struct mt_err *err);
enum mt_status mt_json_string(struct mt_json object, const char *key, const char **value, struct mt_err *err);
/* A string that must be one of names[count]; *value: its index. */
enum mt_status mt_json_enum(struct mt_json object, const char *key, const char *const *names, int count, int *value,
                            struct mt_err *err);
/* A vector of exactly `count` whole numbers in [least, most]. */
enum mt_status mt_json_ints(struct mt_json object, const char *key, int64_t least, int64_t most, int count,
                            int64_t *values, struct mt_err *err);
/* The same for numbers. */
enum mt_status mt_json_reals(struct mt_json object, const char *key, double least, double most, int count,
                             double *values, struct mt_err *err);
/* A string copied to `arena`, to outlive the document. Control characters, which could act on a terminal, are refused.
 */
enum mt_status mt_json_text(struct mt_json object, const char *key, struct mt_arena *arena, const char **value,
                            struct mt_err *err);

/* A list of at most `most` rows: `*rows` becomes a vector of `row_bytes` each in `arena`, zeroed, its length *count,
 * and then `read` fills in each. */
struct mt_json_rows {
    const char *key;
    int most;
    size_t row_bytes;
    enum mt_status (*read)(void *context, struct mt_json row, int index, struct mt_err *err);
};
enum mt_status mt_json_list(struct mt_json object, const struct mt_json_rows *what, void *context,
                            struct mt_arena *arena, void *rows, int *count, struct mt_err *err);

/* Check the members "format" and "version". */
enum mt_status mt_json_format(struct mt_json object, const char *format, int version, struct mt_err *err);

/* Refuse members that are not in the null-terminated list. */
enum mt_status mt_json_only(struct mt_json object, const char *const *keys, struct mt_err *err);

/* Arrays: the length (MT_EINPUT when it is no array or longer than `most`), and an item. */
enum mt_status mt_json_length(struct mt_json array, int most, int *length, struct mt_err *err);
enum mt_status mt_json_item(struct mt_json array, int index, struct mt_json *item, struct mt_err *err);

/* Objects as maps: the number of members and the i-th in the file's order. */
enum mt_status mt_json_members(struct mt_json object, int most, int *count, struct mt_err *err);
enum mt_status mt_json_member(struct mt_json object, int index, const char **key, struct mt_json *member,
                              struct mt_err *err);

/* A scalar at this place itself. */
enum mt_status mt_json_as_string(struct mt_json place, const char **value, struct mt_err *err);
enum mt_status mt_json_as_int(struct mt_json place, int64_t least, int64_t most, int64_t *value, struct mt_err *err);
enum mt_status mt_json_as_real(struct mt_json place, double least, double most, double *value, struct mt_err *err);
/* A finite number, or null, which becomes NaN. */
enum mt_status mt_json_as_real_or_null(struct mt_json place, double *value, struct mt_err *err);

/* Whether the value here is that of a JSON text: numbers by value, so 1 is 1.0. */
bool mt_json_is(struct mt_json place, const char *literal);
/* The value here as JSON on one line, cut to some 80 bytes, for messages; lives as long as the document. */
const char *mt_json_shown(struct mt_json place);

/* mt_fail with MT_EINPUT and "name: path: " in front; unprintable characters become '?'. */
enum mt_status mt_json_fail(struct mt_json place, struct mt_err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The writer: members in the order they are put, two spaces a level, vectors of scalars on one line, numbers
 * in the shortest form that reads back the same, strings escaped (bytes that are no UTF-8 become U+FFFD). `key` is
 * null inside arrays.
 *
 *     struct mt_json_out out;
 *     mt_json_out_init(&out);
 *     mt_json_open(&out, NULL, '{');
 *     mt_json_put_string(&out, "format", "motley-plan");
 *     mt_json_put_ints(&out, "sizes", sizes, n);
 *     mt_json_close(&out);
 *     write(out.text, out.length); mt_json_out_release(&out); */
struct mt_json_out {
    char *text; /* NUL-terminated */
    size_t length, capacity;
    int depth;
    bool inline_level[32], first[32];
    char closer[32];
};
void mt_json_out_init(struct mt_json_out *out);
void mt_json_out_release(struct mt_json_out *out);
void mt_json_open(struct mt_json_out *out, const char *key, char bracket);        /* '{' or '[' */
void mt_json_open_inline(struct mt_json_out *out, const char *key, char bracket); /* all on one line */
void mt_json_close(struct mt_json_out *out);                                      /* the top level adds a newline */
void mt_json_put_int(struct mt_json_out *out, const char *key, int64_t value);
void mt_json_put_real(struct mt_json_out *out, const char *key, double value);         /* finite */
void mt_json_put_real_or_null(struct mt_json_out *out, const char *key, double value); /* not finite: null */
void mt_json_put_bool(struct mt_json_out *out, const char *key, bool value);
void mt_json_put_string(struct mt_json_out *out, const char *key, const char *value);
void mt_json_put_ints(struct mt_json_out *out, const char *key, const int64_t *values, int count);
void mt_json_put_reals(struct mt_json_out *out, const char *key, const double *values, int count);

#endif
