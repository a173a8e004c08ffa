/* UTF-8: valid sequences, and the code points in them. */
#ifndef MT_KERNELS_BASE_TEXT_UTF8_H
#define MT_KERNELS_BASE_TEXT_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* The length of the UTF-8 sequence at text[left], or 0 when it is none (overlong, surrogate, too large, cut). A NUL
 * ends a text as its end does, so of a NUL-terminated text `left` may be too long. */
int mt_utf8_length(const char *text, size_t left);

/* How many bytes at the beginning of text[length] are whole, valid sequences. */
size_t mt_utf8_valid(const char *text, size_t length);

/* The code point at `text`, which is valid; *length: of its sequence. */
static inline uint32_t mt_utf8_decode(const char *text, int *length) {
    const uint8_t *b = (const uint8_t *)text;
    if (b[0] < 0x80) {
        *length = 1;
        return b[0];
    }
    if (b[0] < 0xe0) {
        *length = 2;
        return (uint32_t)(b[0] & 0x1f) << 6 | (b[1] & 0x3f);
    }
    if (b[0] < 0xf0) {
        *length = 3;
        return (uint32_t)(b[0] & 0x0f) << 12 | (uint32_t)(b[1] & 0x3f) << 6 | (b[2] & 0x3f);
    }
    *length = 4;
    return (uint32_t)(b[0] & 0x07) << 18 | (uint32_t)(b[1] & 0x3f) << 12 | (uint32_t)(b[2] & 0x3f) << 6 | (b[3] & 0x3f);
}

/* Write a code point; returns the length. */
static inline int mt_utf8_encode(uint32_t code, char out[4]) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    int length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (int i = length - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(lead[length] | code);
    return length;
}

#endif
