/* The header's own checksum covers the raw text, so it is found there and not in the parsed document. The key occurs
 * once, since quotes inside JSON strings are escaped. */
#include "launcher/checkpoint/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/number/hash.h"

void mt_checksum_text(uint64_t hash, char digits[MT_CHECKSUM_DIGITS + 1]) {
    snprintf(digits, MT_CHECKSUM_DIGITS + 1, "%016llx", (unsigned long long)hash);
}

static size_t find(const char *head, size_t size_bytes) {
    static const char key[] = "\"" MT_CHECKSUM_HEADER "\": \"";
    const char *at = memmem(head, size_bytes, key, sizeof key - 1);
    if (!at) return 0;
    size_t digits = (size_t)(at - head) + sizeof key - 1;
    return digits + MT_CHECKSUM_DIGITS <= size_bytes ? digits : 0;
}

char *mt_header_checksum_find(void *head, size_t size_bytes) {
    size_t at = find(head, size_bytes);
    return at ? (char *)head + at : NULL;
}

void mt_header_checksum_of(const void *head, size_t size_bytes, char digits[MT_CHECKSUM_DIGITS + 1]) {
    char *copy = mt_malloc(size_bytes);
    memcpy(copy, head, size_bytes);
    size_t at = find(copy, size_bytes);
    if (at) memset(copy + at, '0', MT_CHECKSUM_DIGITS);
    mt_checksum_text(mt_hash64(copy, size_bytes, 0), digits);
    free(copy);
}

enum mt_status mt_header_checksum_verify(const char *name, const void *head, size_t size_bytes, bool *carries,
                                         struct mt_err *err) {
    size_t at = find(head, size_bytes);
    *carries = at != 0;
    if (!at) return MT_OK;
    char digits[MT_CHECKSUM_DIGITS + 1];
    mt_header_checksum_of(head, size_bytes, digits);
    if (memcmp((const char *)head + at, digits, MT_CHECKSUM_DIGITS))
        return mt_fail(err, MT_EINPUT, "%s: the header is damaged: its checksum is %s, not %.16s", name, digits,
                       (const char *)head + at);
    return MT_OK;
}
