/* Text: UTF-8, or any bytes where that is said. */
#include <string.h>

#include "kernels/base/text/utf8.h"
#include "launcher/data/internal.h"

enum mt_status mt_data_open_bytes(const struct data_opening *opening, struct mt_data_file *file, struct mt_err *err) {
    (void)opening, (void)err;
    file->bytes = file->content;
    file->count = (int64_t)file->size_bytes;
    return MT_OK;
}

static enum mt_status refuse(const char *name, const char *text, size_t at, struct mt_err *err) {
    size_t line = 1;
    for (const char *c = text; (c = memchr(c, '\n', (size_t)(text + at - c))); c++) line++;
    if (!text[at]) {
        mt_fail(err, MT_EINPUT, "%s: is binary, not text: byte %zu is 0", name, at);
        return mt_err_hint(err, "tokens are named .bin, or uint16:FILE; bytes:FILE takes any bytes as tokens");
    }
    mt_fail(err, MT_EINPUT, "%s: line %zu: byte %zu of the file, 0x%02x, is not UTF-8", name, line, at,
            (unsigned char)text[at]);
    return mt_err_hint(err, "convert it (iconv -f latin1 -t utf-8), or say bytes:%.200s to take any bytes as tokens",
                       name);
}

static enum mt_status check(const char *name, const char *text, size_t length, struct mt_err *err) {
    size_t valid = mt_utf8_valid(text, length);
    const char *zero = memchr(text, 0, valid);
    if (zero) return refuse(name, text, (size_t)(zero - text), err);
    return valid < length ? refuse(name, text, valid, err) : MT_OK;
}

struct text {
    const struct data_opening *opening;
    const struct mt_data_file *file;
};

static enum mt_status make(void *context, struct mt_tokens *tokens, struct mt_err *err) {
    const struct text *t = context;
    enum mt_status st =
        mt_documents_add(t->opening->documents, t->file->content, t->file->size_bytes, t->opening->ends, tokens, err);
    return st ? mt_err_context(err, "%s", t->opening->name) : MT_OK;
}

enum mt_status mt_data_open_text(const struct data_opening *opening, struct mt_data_file *file, struct mt_err *err) {
    enum mt_status st = check(opening->name, file->content, file->size_bytes, err);
    if (st) return st;
    if (!opening->documents->reading->tokenizer) return mt_data_open_bytes(opening, file, err);
    struct text text = {opening, file};
    return mt_data_make(opening, opening->ends ? "text, ends" : "text", make, &text, file, err);
}
