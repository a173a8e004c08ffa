/* JSONL: each line an object, of which one member is a document's text. A document ends with a token of its own: for
 * bytes, the new line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/working.h"
#include "kernels/base/text/json.h"
#include "launcher/data/internal.h"

/* The names of an object's first members, for a hint. */
static const char *list_members(struct mt_json object, struct mt_arena *arena) {
    enum { SHOWN = 6 };
    struct mt_err ignored = MT_ERR_INIT;
    struct mt_json member;
    const char *text = "", *key;
    int n = 0;
    if (mt_json_members(object, 1 << 20, &n, &ignored)) return "";
    for (int i = 0; i < n && i < SHOWN; i++)
        if (!mt_json_member(object, i, &key, &member, &ignored))
            text = mt_arena_printf(arena, "%s%s%.40s", text, i ? ", " : "", key);
    return n > SHOWN ? mt_arena_printf(arena, "%s, ...", text) : text;
}

static enum mt_status find_text(struct mt_json object, const char *field, const char **text, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    int n;
    enum mt_status st = mt_json_members(object, 1 << 20, &n, err);
    if (st) {
        mt_err_hint(err, "a line must be an object, as {\"%.40s\": \"...\"}", field);
    } else if (!mt_json_has(object, field)) {
        st = mt_json_fail(object, err, "has no member \"%.60s\"", field);
        mt_err_hint(err, "its members are: %.200s; --data-field names the one with the text",
                    list_members(object, &arena));
    } else {
        st = mt_json_string(object, field, text, err);
    }
    mt_arena_release(&arena);
    return st;
}

static bool is_blank(const char *line, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (!strchr(" \t\r", line[i]) || !line[i]) return false;
    return true;
}

struct lines {
    const struct data_opening *opening;
    struct mt_data_file *file;
    struct mt_err first; /* of the lines that were skipped */
};

static enum mt_status add_line(const struct data_opening *opening, int64_t number, const char *line, size_t length,
                               struct mt_tokens *tokens, struct mt_err *err) {
    struct mt_json_doc doc;
    struct mt_documents *documents = opening->documents;
    const char *text = NULL, *field = documents->reading->field;
    enum mt_status st = mt_json_parse_line(opening->name, number, line, length, &doc, err);
    if (st) return mt_err_hint(err, "each line must be one JSON object");
    if (!(st = find_text(doc.root, field ? field : "text", &text, err)) && *text) {
        st = mt_documents_add(documents, text, strlen(text), true, tokens, err);
        if (st) mt_err_context(err, "%s", doc.name);
    }
    mt_json_release(&doc);
    return st;
}

/* A bad line: it is skipped, or ends the reading. */
static enum mt_status judge_line(struct lines *l, struct mt_err *err) {
    if (!l->opening->documents->reading->skips_bad_lines) {
        char hint[sizeof err->hint];
        memcpy(hint, err->hint, sizeof hint);
        return mt_err_hint(err, "%.380s%s--bad-lines skip leaves out such lines, and counts them", hint,
                           *hint ? "; " : "");
    }
    if (!l->file->skipped++) l->first = *err;
    return MT_OK;
}

static enum mt_status make(void *context, struct mt_tokens *tokens, struct mt_err *err) {
    struct lines *l = context;
    const char *at = l->file->content, *end = at + l->file->size_bytes;
    enum mt_status st = mt_data_refuse_wide(l->opening->name, l->file, err);
    at += mt_data_mark_bytes(l->file);
    mt_working_begin("tokenizing");
    for (int64_t line = 1; at < end && !st; line++) {
        mt_working((double)(at - (const char *)l->file->content), (double)l->file->size_bytes, "line %lld",
                   (long long)line);
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        int64_t before = tokens->count;
        if (!is_blank(at, (size_t)(stop - at))) st = add_line(l->opening, line, at, (size_t)(stop - at), tokens, err);
        if (st && !(st = judge_line(l, err))) tokens->count = before;
        at = stop + 1;
    }
    mt_working_end();
    if (st || tokens->count) return st;
    if (!l->file->skipped) return mt_fail(err, MT_EINPUT, "%s: there is no text in its lines", l->opening->name);
    *err = l->first;
    return mt_err_context(err, "all %lld lines with text are bad", (long long)l->file->skipped);
}

enum mt_status mt_data_open_jsonl(const struct data_opening *opening, struct mt_data_file *file, struct mt_err *err) {
    struct lines lines = {.opening = opening, .file = file};
    const struct mt_data_reading *reading = opening->documents->reading;
    char how[256];
    snprintf(how, sizeof how, "jsonl%s %.200s", reading->skips_bad_lines ? ", good lines" : "",
             reading->field ? reading->field : "text");
    return mt_data_make(opening, how, make, &lines, file, err);
}
