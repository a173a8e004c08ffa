/* Any bytes as text to the golden tokenizers, of which the first byte chooses one, and which of the two comparisons
 * that take the longest are made: refused because they are no UTF-8, or tokens in range, the same again with all words
 * known, whose text is UTF-8 and comes the same token by token; byte-level ones give the text back. No execution knows
 * the words of another. build/fuzz/tests/fuzz_encode -runs=10000000 tests/fuzz/corpus/encode */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/utf8.h"
#include "launcher/tokenizer/internal.h"
#include "launcher/tokenizer/tokenizer.h"
#include "tests/launcher/tokenizer/golden.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct mt_tokenizer *tokenizer_of(int which) {
    static struct mt_tokenizer *opened[NGOLDEN];
    char path[512];
    struct mt_err err = MT_ERR_INIT;
    snprintf(path, sizeof path, GOLDEN "%s.json", golden[which]);
    if (!opened[which] && mt_tokenizer_open(path, &opened[which], &err)) abort();
    return opened[which];
}

static void compare_again(struct mt_tokenizer *tokenizer, const char *text, size_t length,
                          const struct mt_tokens *tokens) {
    struct mt_tokens again = {0};
    struct mt_err err = MT_ERR_INIT;
    if (mt_tokenizer_encode(tokenizer, text, length, &again, &err) || again.count != tokens->count) abort();
    if (again.count && memcmp(again.ids, tokens->ids, (size_t)again.count * sizeof *again.ids) != 0) abort();
    free(again.ids);
}

static void compare_stream(struct mt_tokenizer *tokenizer, const struct mt_tokens *tokens, const char *whole,
                           size_t length) {
    struct mt_token_stream stream = {.tokenizer = tokenizer, .special = true};
    size_t at = 0;
    for (int64_t i = 0; i <= tokens->count; i++) {
        const char *more =
            i < tokens->count ? mt_token_stream_add(&stream, tokens->ids[i]) : mt_token_stream_end(&stream);
        if (at + stream.length > length || memcmp(whole + at, more, stream.length) != 0) abort();
        at += stream.length;
    }
    if (at != length) abort();
    mt_token_stream_free(&stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    int which = (data[0] & 63) % NGOLDEN;
    const char *text = (const char *)data + 1;
    size_t length = size - 1;
    struct mt_tokenizer *tokenizer = tokenizer_of(which);
    struct mt_tokens tokens = {0};
    struct mt_err err = MT_ERR_INIT;
    if (mt_tokenizer_encode(tokenizer, text, length, &tokens, &err)) {
        if (!err.text[0] || mt_utf8_valid(text, length) == length) abort();
        free(tokens.ids);
        return 0;
    }
    for (int64_t i = 0; i < tokens.count; i++)
        if (tokens.ids[i] < 0 || tokens.ids[i] >= mt_tokenizer_vocab(tokenizer)) abort();
    if (data[0] & 64) compare_again(tokenizer, text, length, &tokens);
    mt_words_free(tokenizer->words);
    tokenizer->words = NULL;
    size_t n;
    char *back = mt_tokenizer_decode(tokenizer, tokens.ids, tokens.count, true, &n);
    if (mt_utf8_valid(back, n) != n) abort();
    if (!which && (n != length || memcmp(back, text, length) != 0)) abort();
    if (data[0] & 128) compare_stream(tokenizer, &tokens, back, n);
    free(back);
    free(tokens.ids);
    return 0;
}
