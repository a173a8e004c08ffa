/* Text that grows. */
#ifndef MT_LAUNCHER_TOKENIZER_UNICODE_TEXT_H
#define MT_LAUNCHER_TOKENIZER_UNICODE_TEXT_H

#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/text/utf8.h"

struct mt_text {
    char *bytes;
    size_t length, capacity;
};

static inline void mt_text_add(struct mt_text *text, const char *bytes, size_t length) {
    if (text->length + length > text->capacity || !text->bytes) {
        text->capacity = 2 * (text->length + length) + 64;
        text->bytes = mt_realloc(text->bytes, text->capacity);
    }
    if (length) memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
}

static inline void mt_text_add_code(struct mt_text *text, uint32_t code) {
    char bytes[4];
    mt_text_add(text, bytes, (size_t)mt_utf8_encode(code, bytes));
}

static inline void mt_text_free(struct mt_text *text) {
    free(text->bytes);
    *text = (struct mt_text){0};
}

#endif
