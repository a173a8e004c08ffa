/* The tokenizers of golden/: small ones, trained by `tokenizers` 0.23 with the parts of real ones, and what that
 * library makes of golden/text, whose documents, of 30 scripts and of what is hard, are divided by U+001E. */
#ifndef MT_TESTS_LAUNCHER_TOKENIZER_GOLDEN_H
#define MT_TESTS_LAUNCHER_TOKENIZER_GOLDEN_H

#include "kernels/base/file.h"
#include "tests/check.h"

#define GOLDEN MOTLEY_SOURCE "/tests/launcher/tokenizer/golden/"

static const char *const golden[] = {"gpt2",      "llama3", "qwen2",      "o200k", "falcon", "llama2", "mistral",
                                     "metaspace", "gemma",  "bert_cased", "bert",  "suffix", "words",  "deepseek"};
enum { NGOLDEN = sizeof golden / sizeof *golden };

struct document {
    const char *text;
    size_t length;
};

static char *read_golden(const char *name, const char *ending, size_t *length) {
    struct mt_err err = MT_ERR_INIT;
    char path[512], *text;
    snprintf(path, sizeof path, GOLDEN "%s%s", name, ending);
    CHECK_OK(mt_file_read(path, 1 << 26, &text, length, &err), err);
    return text;
}

/* Divide a text at `mark`; returns how many documents, at most `most`. */
static int divide(const char *text, size_t length, char mark, struct document *documents, int most) {
    int n = 0;
    for (size_t at = 0; at <= length && n < most; n++) {
        const char *end = memchr(text + at, mark, length - at);
        size_t to = end ? (size_t)(end - text) : length;
        documents[n] = (struct document){text + at, to - at};
        at = to + 1;
    }
    return n;
}

#endif
