/* Bytes as characters, of byte-level tokenizers: those of Latin-1 that print stand for themselves, the others, in three
 * rows, for the code points from 0x100 on. */
#include "launcher/tokenizer/parts/part.h"

static const struct row {
    uint32_t first, last, code; /* bytes, and the code point of the first */
} rows[] = {{0, 0x20, 0x100}, {0x7f, 0xa0, 0x121}, {0xad, 0xad, 0x143}};
enum { NROWS = sizeof rows / sizeof *rows };

static uint32_t code_of(uint32_t byte) {
    for (int r = 0; r < NROWS; r++)
        if (byte >= rows[r].first && byte <= rows[r].last) return rows[r].code + byte - rows[r].first;
    return byte;
}

void mt_bytes_map(const char *text, size_t length, struct mt_text *out) {
    for (size_t i = 0; i < length; i++) mt_text_add_code(out, code_of((unsigned char)text[i]));
}

int mt_bytes_of(uint32_t code) {
    if (code < 0x100) return code_of(code) == code ? (int)code : -1;
    for (int r = 0; r < NROWS; r++)
        if (code - rows[r].code <= rows[r].last - rows[r].first) return (int)(rows[r].first + code - rows[r].code);
    return -1;
}
