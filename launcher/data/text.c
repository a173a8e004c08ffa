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

size_t mt_data_mark_bytes(const struct mt_data_file *file) {
    static const char mark[] = "\xef\xbb\xbf";
    return file->size_bytes >= 3 && !memcmp(file->content, mark, 3) ? 3 : 0;
}

enum mt_status mt_data_refuse_wide(const char *name, const struct mt_data_file *file, struct mt_err *err) {
    enum { SEEN = 256, LEAST = 8 };
    static const struct {
        const char *mark, *encoding;
        size_t length;
    } marks[] = {{"\xff\xfe\0\0", "utf-32", 4},
                 {"\0\0\xfe\xff", "utf-32", 4},
                 {"\xff\xfe", "utf-16", 2},
                 {"\xfe\xff", "utf-16", 2}};
    const char *text = file->content, *encoding = NULL;
    size_t n = file->size_bytes < SEEN ? file->size_bytes / 2 * 2 : SEEN, zeros[2] = {0, 0};
    for (int m = 3; m >= 0; m--)
        if (file->size_bytes >= marks[m].length && !memcmp(text, marks[m].mark, marks[m].length))
            encoding = marks[m].encoding;
    for (size_t i = 0; i < n; i++) zeros[i % 2] += !text[i];
    if (!encoding && n >= LEAST && zeros[1] > n / 4 && !zeros[0]) encoding = "utf-16le";
    if (!encoding && n >= LEAST && zeros[0] > n / 4 && !zeros[1]) encoding = "utf-16be";
    if (!encoding) return MT_OK;
    mt_fail(err, MT_EINPUT, "%s: is text in %s, not in UTF-8", name, encoding);
    return mt_err_hint(err, "convert it: iconv -f %s -t utf-8 \"%.150s\" >NEW", encoding, name);
}

/* The name of a format that a file's first bytes belong to, of those in which people have texts and tokens; or null. */
static const char *way_out_of(const char *text, size_t length) {
    static const struct {
        const char *mark, *hint;
    } kinds[] = {
        {"\x1f\x8b", "it is compressed: gunzip makes a text of it"},
        {"\x28\xb5\x2f\xfd", "it is compressed: unzstd makes a text of it"},
        {"BZh", "it is compressed: bunzip2 makes a text of it"},
        {"\xfd"
         "7zXZ",
         "it is compressed: unxz makes a text of it"},
        {"PK\x03\x04", "it is an archive: unzip takes its files out"},
        {"PAR1", "it is Parquet: write its column of texts as JSONL"},
        {"ARROW1", "it is Arrow: write its column of texts as JSONL"},
        {"\x93NUMPY", "it is NumPy's: numpy.load(NAME).astype(numpy.uint16).tofile(NAME.bin) makes tokens of it"},
        {"%PDF", "it is a PDF: pdftotext makes a text of it"},
    };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        size_t n = strlen(kinds[k].mark);
        if (length >= n && !memcmp(text, kinds[k].mark, n)) return kinds[k].hint;
    }
    return NULL;
}

static enum mt_status refuse(const char *name, const struct mt_data_file *file, size_t at, struct mt_err *err) {
    const char *text = file->content, *way_out = way_out_of(text, file->size_bytes);
    size_t line = 1;
    for (const char *c = text; (c = memchr(c, '\n', (size_t)(text + at - c))); c++) line++;
    if (!text[at] || way_out) {
        mt_fail(err, MT_EINPUT, "%s: is binary, not text: byte %zu is %d", name, at, (unsigned char)text[at]);
        if (way_out) return mt_err_hint(err, "%s", way_out);
        return mt_err_hint(err, "tokens are named .bin, or uint16:FILE; bytes:FILE takes any bytes as tokens");
    }
    mt_fail(err, MT_EINPUT, "%s: line %zu: byte %zu of the file, 0x%02x, is not UTF-8", name, line, at,
            (unsigned char)text[at]);
    return mt_err_hint(err, "convert it (iconv -f latin1 -t utf-8), or say bytes:%.200s to take any bytes as tokens",
                       name);
}

static enum mt_status check(const char *name, const struct mt_data_file *file, struct mt_err *err) {
    const char *text = file->content;
    size_t length = file->size_bytes, valid = mt_utf8_valid(text, length);
    const char *zero = memchr(text, 0, valid);
    enum mt_status st = zero || valid < length ? mt_data_refuse_wide(name, file, err) : MT_OK;
    if (st) return st;
    if (zero) return refuse(name, file, (size_t)(zero - text), err);
    return valid < length ? refuse(name, file, valid, err) : MT_OK;
}

struct text {
    const struct data_opening *opening;
    const struct mt_data_file *file;
};

static enum mt_status make(void *context, struct mt_tokens *tokens, struct mt_err *err) {
    const struct text *t = context;
    size_t mark = mt_data_mark_bytes(t->file);
    enum mt_status st = mt_documents_add(t->opening->documents, (const char *)t->file->content + mark,
                                         t->file->size_bytes - mark, t->opening->ends, tokens, err);
    return st ? mt_err_context(err, "%s", t->opening->name) : MT_OK;
}

enum mt_status mt_data_open_text(const struct data_opening *opening, struct mt_data_file *file, struct mt_err *err) {
    enum mt_status st = check(opening->name, file, err);
    if (st) return st;
    if (!opening->documents->reading->tokenizer) {
        file->bytes = (const uint8_t *)file->content + mt_data_mark_bytes(file);
        file->count = (int64_t)(file->size_bytes - mt_data_mark_bytes(file));
        return MT_OK;
    }
    struct text text = {opening, file};
    return mt_data_make(opening, opening->ends ? "text, ends" : "text", make, &text, file, err);
}
