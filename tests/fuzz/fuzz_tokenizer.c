/* The reader of tokenizer.json on any text: refused with a reason, or a tokenizer that encodes and decodes.
 *     build/fuzz/tests/fuzz_tokenizer -runs=10000000 tests/fuzz/corpus/tokenizer */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/utf8.h"
#include "launcher/tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char text[] = "a b\tab's 12\n<s> \xc3\xa9\xcc\x81 \xe4\xb8\xad \xe2\x96\x81 abab.";
    struct mt_tokenizer *tokenizer;
    struct mt_err err = MT_ERR_INIT;
    if (mt_tokenizer_parse("fuzz", (const char *)data, size, &tokenizer, &err)) {
        if (!err.text[0]) abort();
        return 0;
    }
    struct mt_tokens tokens = {0};
    if (!mt_tokenizer_encode(tokenizer, text, sizeof text - 1, &tokens, &err)) {
        for (int64_t i = 0; i < tokens.count; i++)
            if (tokens.ids[i] < 0 || tokens.ids[i] >= mt_tokenizer_vocab(tokenizer)) abort();
        size_t length;
        char *back = mt_tokenizer_decode(tokenizer, tokens.ids, tokens.count, true, &length);
        if (mt_utf8_valid(back, length) != length) abort();
        free(back);
    }
    free(tokens.ids);
    mt_tokenizer_free(tokenizer);
    return 0;
}
