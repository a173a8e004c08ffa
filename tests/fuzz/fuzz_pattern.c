/* Any regular expression, up to the first zero byte, on any text after it: refused with a reason, or matches that are
 * not empty, in order, and whole characters. build/fuzz/tests/fuzz_pattern -runs=10000000 tests/fuzz/corpus/pattern */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/utf8.h"
#include "launcher/tokenizer/pattern/pattern.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *zero = memchr(data, 0, size);
    struct mt_pattern *pattern;
    struct mt_search search = {0};
    struct mt_err err = MT_ERR_INIT;
    if (!zero) return 0;
    if (mt_pattern_new((const char *)data, &pattern, &err)) {
        if (!err.text[0]) abort();
        return 0;
    }
    const char *text = (const char *)zero + 1;
    size_t length = mt_utf8_valid(text, size - (size_t)(zero + 1 - data)), from, to, at = 0;
    while (mt_pattern_find(pattern, &search, text, length, at, &from, &to) == MT_FOUND) {
        if (from < at || to <= from || to > length) abort();
        if (mt_utf8_valid(text + from, to - from) != to - from) abort();
        at = to;
    }
    mt_search_free(&search);
    mt_pattern_free(pattern);
    return 0;
}
