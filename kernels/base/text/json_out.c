/* Writing JSON: one document has one text, and texts diff well. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/json.h"
#include "kernels/base/text/units.h"
#include "kernels/base/text/utf8.h"

static void append(struct mt_json_out *out, const char *text, size_t length) {
    if (out->length + length + 1 > out->capacity) {
        while (out->length + length + 1 > out->capacity) out->capacity = out->capacity ? out->capacity * 2 : 1024;
        out->text = mt_realloc(out->text, out->capacity);
    }
    memcpy(out->text + out->length, text, length);
    out->length += length;
    out->text[out->length] = 0;
}

static void append_text(struct mt_json_out *out, const char *text) {
    append(out, text, strlen(text));
}

void mt_json_out_init(struct mt_json_out *out) {
    memset(out, 0, sizeof *out);
    append(out, "", 0);
}

void mt_json_out_release(struct mt_json_out *out) {
    free(out->text);
    memset(out, 0, sizeof *out);
}

static void append_string(struct mt_json_out *out, const char *value) {
    static const char short_form[256] = {
        ['"'] = '"', ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
    append(out, "\"", 1);
    for (const unsigned char *c = (const unsigned char *)value; *c;) {
        size_t n = (size_t)mt_utf8_length((const char *)c, SIZE_MAX);
        if (!n) {
            append_text(out, "\\ufffd");
            n = 1;
        } else if (short_form[*c]) {
            append(out, (char[]){'\\', short_form[*c]}, 2);
        } else if (*c < 0x20 || *c == 0x7f) {
            char escape[8];
            snprintf(escape, sizeof escape, "\\u%04x", *c);
            append_text(out, escape);
        } else {
            append(out, (const char *)c, n);
        }
        c += n;
    }
    append(out, "\"", 1);
}

/* Comma, new line and key: the text before a value. */
static void begin(struct mt_json_out *out, const char *key) {
    int d = out->depth;
    assert(d > 0 || out->length == 0);
    if (d == 0) return;
    assert((key != NULL) == (out->closer[d - 1] == '}'));
    if (!out->first[d - 1]) append(out, ",", 1);
    if (out->inline_level[d - 1]) {
        if (!out->first[d - 1]) append(out, " ", 1);
    } else {
        append(out, "\n", 1);
        for (int i = 0; i < d; i++) append(out, "  ", 2);
    }
    out->first[d - 1] = false;
    if (!key) return;
    append_string(out, key);
    append(out, ": ", 2);
}

static void open_level(struct mt_json_out *out, const char *key, char bracket, bool one_line) {
    assert(bracket == '{' || bracket == '[');
    begin(out, key);
    int d = out->depth++;
    assert(d < (int)(sizeof out->closer / sizeof out->closer[0]));
    out->closer[d] = bracket == '{' ? '}' : ']';
    out->first[d] = true;
    out->inline_level[d] = one_line || (d > 0 && out->inline_level[d - 1]);
    append(out, &bracket, 1);
}

void mt_json_open(struct mt_json_out *out, const char *key, char bracket) {
    open_level(out, key, bracket, false);
}

void mt_json_open_inline(struct mt_json_out *out, const char *key, char bracket) {
    open_level(out, key, bracket, true);
}

void mt_json_close(struct mt_json_out *out) {
    assert(out->depth > 0);
    int d = --out->depth;
    if (!out->first[d] && !out->inline_level[d]) {
        append(out, "\n", 1);
        for (int i = 0; i < d; i++) append(out, "  ", 2);
    }
    append(out, &out->closer[d], 1);
    if (d == 0) append(out, "\n", 1);
}

void mt_json_put_int(struct mt_json_out *out, const char *key, int64_t value) {
    char text[32];
    begin(out, key);
    snprintf(text, sizeof text, "%lld", (long long)value);
    append_text(out, text);
}

void mt_json_put_real(struct mt_json_out *out, const char *key, double value) {
    char text[MT_UNITS_EXACT];
    assert(isfinite(value));
    begin(out, key);
    append_text(out,
                value == 0 && signbit(value) ? "-0.0" : mt_units_exact(value, text)); /* "-0" would be an integer */
}

void mt_json_put_real_or_null(struct mt_json_out *out, const char *key, double value) {
    if (isfinite(value)) {
        mt_json_put_real(out, key, value);
        return;
    }
    begin(out, key);
    append_text(out, "null");
}

void mt_json_put_bool(struct mt_json_out *out, const char *key, bool value) {
    begin(out, key);
    append_text(out, value ? "true" : "false");
}

void mt_json_put_string(struct mt_json_out *out, const char *key, const char *value) {
    begin(out, key);
    append_string(out, value);
}

void mt_json_put_ints(struct mt_json_out *out, const char *key, const int64_t *values, int count) {
    mt_json_open_inline(out, key, '[');
    for (int i = 0; i < count; i++) mt_json_put_int(out, NULL, values[i]);
    mt_json_close(out);
}

void mt_json_put_reals(struct mt_json_out *out, const char *key, const double *values, int count) {
    mt_json_open_inline(out, key, '[');
    for (int i = 0; i < count; i++) mt_json_put_real(out, NULL, values[i]);
    mt_json_close(out);
}
