/* Which bytes are UTF-8. */
#include "kernels/base/text/utf8.h"

#include <stdbool.h>
#include <string.h>

int mt_utf8_length(const char *text, size_t left) {
    static const struct {
        uint8_t mask, lead;
        int length;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 1, 0}, {0xe0, 0xc0, 2, 0x80}, {0xf0, 0xe0, 3, 0x800}, {0xf8, 0xf0, 4, 0x10000}};
    const uint8_t *b = (const uint8_t *)text;
    if (!left) return 0;
    for (int f = 0; f < 4; f++) {
        if ((b[0] & forms[f].mask) != forms[f].lead) continue;
        uint32_t code = b[0] & (uint8_t)~forms[f].mask;
        for (int i = 1; i < forms[f].length; i++) {
            if ((size_t)i >= left || (b[i] & 0xc0) != 0x80) return 0;
            code = code << 6 | (b[i] & 0x3f);
        }
        bool wrong = code < forms[f].least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000);
        return wrong ? 0 : forms[f].length;
    }
    return 0;
}

size_t mt_utf8_valid(const char *text, size_t length) {
    size_t at = 0;
    while (at < length) {
        uint64_t eight;
        if (at + sizeof eight <= length) { /* mostly ASCII */
            memcpy(&eight, text + at, sizeof eight);
            if (!(eight & UINT64_C(0x8080808080808080))) {
                at += sizeof eight;
                continue;
            }
        }
        int n = mt_utf8_length(text + at, length - at);
        if (!n) break;
        at += (size_t)n;
    }
    return at;
}
