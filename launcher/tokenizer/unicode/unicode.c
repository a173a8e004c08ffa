/* Properties and normal forms of Unicode, over utf8proc. */
#include "launcher/tokenizer/unicode/unicode.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "launcher/tokenizer/unicode/text.h"

static uint16_t properties[MT_UNICODE_CODES];

static bool is_space(uint32_t code) {
    return (code >= 9 && code <= 13) || code == 0x20 || code == 0x85 || code == 0xa0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f ||
           code == 0x3000;
}

/* Alphabetic, a mark, a decimal digit, connecting punctuation, or Join_Control. All follow from the category, but for
 * letters in circles and squares, which are alphabetic too. */
static bool is_word(uint32_t code, int category) {
    static const uint32_t shapes[][2] = {{0x24b6, 0x24e9}, {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189}};
    bool shaped = false;
    for (int i = 0; i < 4; i++) shaped |= code >= shapes[i][0] && code <= shapes[i][1];
    return (category >= MT_UNICODE_LU && category <= MT_UNICODE_NL) || category == MT_UNICODE_PC || shaped ||
           code == 0x200c || code == 0x200d;
}

/* By code and category. */
static int derive(uint32_t code, int category) {
    int bits = category;
    bool punctuation = category >= MT_UNICODE_PC && category <= MT_UNICODE_PO;
    bool symbol = category >= MT_UNICODE_SM && category <= MT_UNICODE_SO;
    if (is_space(code)) bits |= MT_UNICODE_SPACE;
    if (punctuation || (symbol && code < 0x80)) bits |= MT_UNICODE_PUNCTUATION;
    if ((category >= MT_UNICODE_CC && code != '\t' && code != '\n' && code != '\r') || code == 0xfffd)
        bits |= MT_UNICODE_CONTROL;
    if (category >= MT_UNICODE_MN && category <= MT_UNICODE_ME) bits |= MT_UNICODE_MARK;
    if (category == MT_UNICODE_MN) bits |= MT_UNICODE_NONSPACING;
    if (category >= MT_UNICODE_ND && category <= MT_UNICODE_NO) bits |= MT_UNICODE_DIGIT;
    if (is_word(code, category)) bits |= MT_UNICODE_WORD;
    return bits;
}

struct range {
    uint32_t first, last;
    int value;
};

static const struct range moved[] = {
#define CATEGORY(first, last, category) {first, last, MT_UNICODE_##category},
#define FLIP(first, last, property)
#define LOWER(first, last, distance)
#include "launcher/tokenizer/unicode/unicode.def"
#undef CATEGORY
#undef FLIP
};
static const struct range flipped[] = {
#define CATEGORY(first, last, category)
#define FLIP(first, last, property) {first, last, MT_UNICODE_##property},
#include "launcher/tokenizer/unicode/unicode.def"
#undef FLIP
#undef LOWER
};
static const struct range lowered[] = {
#define FLIP(first, last, property)
#define LOWER(first, last, distance) {first, last, distance},
#include "launcher/tokenizer/unicode/unicode.def"
#undef CATEGORY
#undef FLIP
#undef LOWER
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static void fill(void) {
    for (uint32_t c = 0; c < MT_UNICODE_CODES; c++)
        properties[c] = (uint16_t)derive(c, (int)utf8proc_category((utf8proc_int32_t)c));
    for (size_t r = 0; r < COUNT(moved); r++)
        for (uint32_t c = moved[r].first; c <= moved[r].last; c++) properties[c] = (uint16_t)derive(c, moved[r].value);
    for (size_t r = 0; r < COUNT(flipped); r++)
        for (uint32_t c = flipped[r].first; c <= flipped[r].last; c++)
            properties[c] = (uint16_t)(properties[c] ^ flipped[r].value);
}

const uint16_t *mt_unicode_table(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill);
    return properties;
}

int mt_unicode_category_named(const char *name, size_t length) {
    static const char names[] = "CnLuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCo";
    for (int k = 0; k < MT_UNICODE_NCATEGORIES && length == 2; k++)
        if (!memcmp(names + (size_t)k * 2, name, 2)) return k;
    return -1;
}

uint32_t mt_unicode_lower(uint32_t code) {
    if (code < 0x80) return code >= 'A' && code <= 'Z' ? code + 'a' - 'A' : code;
    for (size_t r = 0; r < COUNT(lowered); r++)
        if (code >= lowered[r].first && code <= lowered[r].last) return code + (uint32_t)lowered[r].value;
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)code);
}

uint32_t mt_unicode_fold(uint32_t code) {
    return mt_unicode_lower((uint32_t)utf8proc_toupper((utf8proc_int32_t)code));
}

enum { MOST_FOLDED = 4096 }; /* Unicode 17 has some 1500 */
static struct mt_unicode_folded folded[MOST_FOLDED];
static size_t nfolded;

static int by_fold(const void *left, const void *right) {
    const struct mt_unicode_folded *a = left, *b = right;
    return a->fold != b->fold ? (a->fold > b->fold) - (a->fold < b->fold) : (a->code > b->code) - (a->code < b->code);
}

static void fill_folded(void) {
    static const uint32_t cased = 1u << MT_UNICODE_LU | 1u << MT_UNICODE_LL | 1u << MT_UNICODE_LT |
                                  1u << MT_UNICODE_LM | 1u << MT_UNICODE_MN | 1u << MT_UNICODE_NL | 1u << MT_UNICODE_SO;
    const uint16_t *table = mt_unicode_table();
    for (uint32_t code = 0; code < MT_UNICODE_CODES; code++) {
        if (!(cased >> (table[code] & MT_UNICODE_CATEGORY) & 1)) continue;
        uint32_t fold = mt_unicode_fold(code);
        if (fold != code && nfolded < MOST_FOLDED) folded[nfolded++] = (struct mt_unicode_folded){code, fold};
    }
    qsort(folded, nfolded, sizeof *folded, by_fold);
}

const struct mt_unicode_folded *mt_unicode_folded_to(uint32_t fold, size_t *count) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    size_t low = 0, high, end;
    pthread_once(&once, fill_folded);
    for (high = nfolded; low < high;) {
        size_t middle = (low + high) / 2;
        if (folded[middle].fold < fold)
            low = middle + 1;
        else
            high = middle;
    }
    for (end = low; end < nfolded && folded[end].fold == fold;) end++;
    *count = end - low;
    return folded + low;
}

/* ---- normal forms ---- */

struct codes {
    utf8proc_int32_t *code;
    size_t count, capacity;
};

static void decompose(uint32_t code, bool compatible, struct codes *to) {
    enum { MOST = 32 }; /* the longest decomposition has 18 */
    if (to->count + MOST > to->capacity) {
        to->capacity = 2 * to->capacity + MOST;
        to->code = mt_realloc(to->code, to->capacity * sizeof *to->code);
    }
    int class = 0;
    utf8proc_option_t how = UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : (utf8proc_option_t)0);
    utf8proc_ssize_t n = 0;
    if (!(mt_unicode_table()[code] & MT_UNICODE_WHOLE))
        n = utf8proc_decompose_char((utf8proc_int32_t)code, to->code + to->count, MOST, how, &class);
    if (n <= 0) to->code[to->count] = (utf8proc_int32_t)code, n = 1;
    to->count += (size_t)n;
}

/* That of marks which are none to `tokenizers` is 0. */
static int combining_class(utf8proc_int32_t code) {
    bool mark = mt_unicode_table()[code] & MT_UNICODE_MARK;
    return mark ? utf8proc_get_property(code)->combining_class : 0;
}

/* By combining class, equal ones as they were: by counting. */
static void sort_marks(utf8proc_int32_t *code, size_t n) {
    enum { CLASSES = 256 };
    size_t first[CLASSES + 1] = {0};
    utf8proc_int32_t *old = mt_malloc(n * sizeof *old);
    memcpy(old, code, n * sizeof *old);
    for (size_t i = 0; i < n; i++) first[combining_class(old[i]) + 1]++;
    for (int c = 0; c < CLASSES; c++) first[c + 1] += first[c];
    for (size_t i = 0; i < n; i++) code[first[combining_class(old[i])]++] = old[i];
    free(old);
}

/* Marks of one base in the order of their combining classes. */
static void order(struct codes *codes) {
    for (size_t begin = 0, end; begin < codes->count; begin = end + 1) {
        int last = 0;
        bool sorted = true;
        for (end = begin; end < codes->count; end++) {
            int class = combining_class(codes->code[end]);
            if (!class) break;
            sorted &= class >= last;
            last = class;
        }
        if (!sorted) sort_marks(codes->code + begin, end - begin);
    }
}

static void normalize_codes(struct codes *codes, bool compose, struct mt_text *out) {
    order(codes);
    utf8proc_ssize_t n = (utf8proc_ssize_t)codes->count;
    if (compose) n = utf8proc_normalize_utf32(codes->code, n, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    for (utf8proc_ssize_t i = 0; i < n; i++) mt_text_add_code(out, (uint32_t)codes->code[i]);
    codes->count = 0;
}

static bool is_plain(const char *text, size_t at, size_t length) {
    return at >= length || !((unsigned char)text[at] & 0x80);
}

/* ASCII stays as it is, except a last character that marks follow. */
void mt_unicode_normalize(const char *text, size_t length, bool compatible, bool compose, struct mt_text *out) {
    struct codes codes = {0};
    size_t at = 0;
    while (at < length) {
        size_t from = at;
        while (at < length && is_plain(text, at, length) && is_plain(text, at + 1, length)) at++;
        mt_text_add(out, text + from, at - from);
        while (at < length && !(is_plain(text, at, length) && is_plain(text, at + 1, length))) {
            int n;
            decompose(mt_utf8_decode(text + at, &n), compatible, &codes);
            at += (size_t)n;
        }
        normalize_codes(&codes, compose, out);
    }
    free(codes.code);
}
