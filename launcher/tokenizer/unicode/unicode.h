/* Properties of code points, as `tokenizers` has them: utf8proc's, and unicode.def. */
#ifndef MT_LAUNCHER_TOKENIZER_UNICODE_UNICODE_H
#define MT_LAUNCHER_TOKENIZER_UNICODE_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MT_UNICODE_CODES = 0x110000 };

/* General categories: the bits below MT_UNICODE_CATEGORY of a code point's properties, in utf8proc's order. */
enum mt_unicode_category {
    MT_UNICODE_CN,
    MT_UNICODE_LU,
    MT_UNICODE_LL,
    MT_UNICODE_LT,
    MT_UNICODE_LM,
    MT_UNICODE_LO,
    MT_UNICODE_MN,
    MT_UNICODE_MC,
    MT_UNICODE_ME,
    MT_UNICODE_ND,
    MT_UNICODE_NL,
    MT_UNICODE_NO,
    MT_UNICODE_PC,
    MT_UNICODE_PD,
    MT_UNICODE_PS,
    MT_UNICODE_PE,
    MT_UNICODE_PI,
    MT_UNICODE_PF,
    MT_UNICODE_PO,
    MT_UNICODE_SM,
    MT_UNICODE_SC,
    MT_UNICODE_SK,
    MT_UNICODE_SO,
    MT_UNICODE_ZS,
    MT_UNICODE_ZL,
    MT_UNICODE_ZP,
    MT_UNICODE_CC,
    MT_UNICODE_CF,
    MT_UNICODE_CS,
    MT_UNICODE_CO,
    MT_UNICODE_NCATEGORIES,
};

enum {
    MT_UNICODE_CATEGORY = 0x1f,    /* mask of the category */
    MT_UNICODE_SPACE = 0x20,       /* White_Space */
    MT_UNICODE_PUNCTUATION = 0x40, /* of BERT: ASCII's punctuation and symbols too */
    MT_UNICODE_CONTROL = 0x80,     /* what BERT's normalizer removes */
    MT_UNICODE_MARK = 0x100,       /* what StripAccents removes */
    MT_UNICODE_NONSPACING = 0x200, /* what BERT's normalizer removes as accents */
    MT_UNICODE_DIGIT = 0x400,      /* numeric */
    MT_UNICODE_WHOLE = 0x800,      /* is not decomposed */
    MT_UNICODE_WORD = 0x1000,      /* \w of regular expressions in Rust */
};

/* Properties of all code points, [MT_UNICODE_CODES]; made by the first call, of any thread. */
const uint16_t *mt_unicode_table(void);

/* The category of "Lu", or -1. */
int mt_unicode_category_named(const char *name, size_t length);

/* Lower case of one code point, as one; U+0130 has two, of which this is the first. */
uint32_t mt_unicode_lower(uint32_t code);
/* Equal for code points that differ in case only. */
uint32_t mt_unicode_fold(uint32_t code);
/* The code points other than `fold` whose fold it is; *count: how many. */
struct mt_unicode_folded {
    uint32_t code, fold;
};
const struct mt_unicode_folded *mt_unicode_folded_to(uint32_t fold, size_t *count);

/* Decompose, order marks, and compose if that is said; text[length] is UTF-8. Appends to *out, see text.h. */
struct mt_text;
void mt_unicode_normalize(const char *text, size_t length, bool compatible, bool compose, struct mt_text *out);

#endif
