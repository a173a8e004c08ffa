/* Bytes as characters, of byte-level tokenizers. */
#include "launcher/tokenizer/parts/part.h"

enum { BYTES = 256 };

static bool stands_for_itself(int byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/* code[byte]: the others follow 0xff, in their order. */
static void fill(uint32_t code[BYTES]) {
    uint32_t next = BYTES;
    for (int b = 0; b < BYTES; b++) code[b] = stands_for_itself(b) ? (uint32_t)b : next++;
}

void mt_bytes_map(const char *text, size_t length, struct mt_text *out) {
    uint32_t code[BYTES];
    fill(code);
    for (size_t i = 0; i < length; i++) mt_text_add_code(out, code[(unsigned char)text[i]]);
}

int mt_bytes_of(uint32_t wanted) {
    uint32_t code[BYTES];
    if (wanted < BYTES) return stands_for_itself((int)wanted) ? (int)wanted : -1;
    fill(code);
    for (int b = 0; b < BYTES; b++)
        if (code[b] == wanted) return b;
    return -1;
}
