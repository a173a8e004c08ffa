/* Normalizers: text to text. */
#include "launcher/tokenizer/parts/part.h"
#include "launcher/tokenizer/unicode/unicode.h"

static enum mt_status read_nothing(struct mt_json object, struct mt_part *part, struct mt_arena *arena,
                                   struct mt_err *err) {
    (void)object, (void)part, (void)arena, (void)err;
    return MT_OK;
}

/* ---- normal forms ---- */

static enum mt_found normal_form(const char *text, size_t length, bool compatible, bool compose, struct mt_text *out) {
    mt_unicode_normalize(text, length, compatible, compose, out);
    return MT_FOUND_NONE;
}

static enum mt_found apply_NFC(struct mt_part *part, const char *text, size_t length, struct mt_text *out) {
    (void)part;
    return normal_form(text, length, false, true, out);
}

static enum mt_found apply_NFD(struct mt_part *part, const char *text, size_t length, struct mt_text *out) {
    (void)part;
    return normal_form(text, length, false, false, out);
}

static enum mt_found apply_NFKC(struct mt_part *part, const char *text, size_t length, struct mt_text *out) {
    (void)part;
    return normal_form(text, length, true, true, out);
}

static enum mt_found apply_NFKD(struct mt_part *part, const char *text, size_t length, struct mt_text *out) {
    (void)part;
    return normal_form(text, length, true, false, out);
}

/* ---- characters ---- */

/* Append the text without characters of a property. */
static enum mt_found drop(const char *text, size_t length, int property, struct mt_text *out) {
    const uint16_t *table = mt_unicode_table();
    size_t kept = 0;
    int n;
    for (size_t at = 0; at < length; at += (size_t)n) {
        if (!(table[mt_utf8_decode(text + at, &n)] & property)) continue;
        mt_text_add(out, text + kept, at - kept);
        kept = at + (size_t)n;
    }
    mt_text_add(out, text + kept, length - kept);
    return MT_FOUND_NONE;
}

static enum mt_found apply_StripAccents(struct mt_part *part, const char *text, size_t length, struct mt_text *out) {
    (void)part;
    return drop(text, length, MT_UNICODE_MARK, out);
}

static enum mt_found apply_Lowercase(struct mt_part *part, const char *text, size_t length, struct mt_text *out) {
    enum { CAPITAL_I_DOT = 0x130, DOT_ABOVE = 0x307 }; /* the one whose lower case is two */
    (void)part;
    int n;
    for (size_t at = 0; at < length; at += (size_t)n) {
        uint32_t code = mt_utf8_decode(text + at, &n);
        mt_text_add_code(out, mt_unicode_lower(code));
        if (code == CAPITAL_I_DOT) mt_text_add_code(out, DOT_ABOVE);
    }
    return MT_FOUND_NONE;
}

static enum mt_status read_Strip(struct mt_json object, struct mt_part *part, struct mt_arena *arena,
                                 struct mt_err *err) {
    (void)arena;
    enum mt_status st = mt_part_bool(object, "strip_left", false, &part->left, err);
    return st ? st : mt_part_bool(object, "strip_right", false, &part->right, err);
}

static enum mt_found apply_Strip(struct mt_part *part, const char *text, size_t length, struct mt_text *out) {
    const uint16_t *table = mt_unicode_table();
    size_t from = length, to = 0;
    int n;
    for (size_t at = 0; at < length; at += (size_t)n) {
        if (table[mt_utf8_decode(text + at, &n)] & MT_UNICODE_SPACE) continue;
        if (from > at) from = at;
        to = at + (size_t)n;
    }
    if (!part->left) from = 0;
    if (!part->right) to = length;
    mt_text_add(out, text + from, to > from ? to - from : 0);
    return MT_FOUND_NONE;
}

/* ---- strings ---- */

static enum mt_status read_Prepend(struct mt_json object, struct mt_part *part, struct mt_arena *arena,
                                   struct mt_err *err) {
    enum mt_status st = mt_json_string(object, "prepend", &part->text, err);
    if (!st) part->text = mt_arena_strdup(arena, part->text);
    return st;
}

static enum mt_found apply_Prepend(struct mt_part *part, const char *text, size_t length, struct mt_text *out) {
    if (length) mt_text_add(out, part->text, strlen(part->text));
    mt_text_add(out, text, length);
    return MT_FOUND_NONE;
}

static enum mt_found apply_Replace(struct mt_part *part, const char *text, size_t length, struct mt_text *out) {
    return mt_part_replace(part, text, length, out);
}

/* ---- BERT ---- */

static enum mt_status read_BertNormalizer(struct mt_json object, struct mt_part *part, struct mt_arena *arena,
                                          struct mt_err *err) {
    (void)arena;
    enum mt_status st;
    if ((st = mt_part_bool(object, "clean_text", true, &part->clean, err)) ||
        (st = mt_part_bool(object, "handle_chinese_chars", true, &part->chinese, err)) ||
        (st = mt_part_bool(object, "lowercase", true, &part->lower, err)))
        return st;
    return mt_part_bool(object, "strip_accents", part->lower, &part->accents, err);
}

static bool is_chinese(uint32_t code) {
    static const uint32_t ranges[][2] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},
                                         {0x20000, 0x2a6df}, {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f},
                                         {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}};
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++)
        if (code >= ranges[r][0] && code <= ranges[r][1]) return true;
    return false;
}

/* Without control characters, every white space a blank, and blanks around Chinese characters. */
static void clean(const struct mt_part *part, const char *text, size_t length, struct mt_text *out) {
    const uint16_t *table = mt_unicode_table();
    int n;
    for (size_t at = 0; at < length; at += (size_t)n) {
        uint32_t code = mt_utf8_decode(text + at, &n);
        bool apart = part->chinese && code >= 0x3400 && is_chinese(code);
        if (part->clean && table[code] & MT_UNICODE_CONTROL) continue;
        if (apart || (part->clean && table[code] & MT_UNICODE_SPACE)) mt_text_add(out, " ", 1);
        if (!(part->clean && table[code] & MT_UNICODE_SPACE)) mt_text_add(out, text + at, (size_t)n);
        if (apart) mt_text_add(out, " ", 1);
    }
}

static enum mt_found apply_BertNormalizer(struct mt_part *part, const char *text, size_t length, struct mt_text *out) {
    struct mt_text *a = &part->scratch[0], *b = &part->scratch[1];
    a->length = b->length = 0;
    mt_text_add(a, "", 0); /* what is empty is a text too */
    mt_text_add(b, "", 0);
    clean(part, text, length, a);
    if (part->accents) {
        mt_unicode_normalize(a->bytes, a->length, false, false, b);
        a->length = 0;
        drop(b->bytes, b->length, MT_UNICODE_NONSPACING, a);
    }
    if (part->lower) return apply_Lowercase(part, a->bytes, a->length, out);
    mt_text_add(out, a->bytes, a->length);
    return MT_FOUND_NONE;
}

/* ---- the table ---- */

static const char *const type_only[] = {"type", NULL};
static const char *const strip_keys[] = {"type", "strip_left", "strip_right", NULL};
static const char *const prepend_keys[] = {"type", "prepend", NULL};
static const char *const replace_keys[] = {"type", "pattern", "content", NULL};
static const char *const bert_keys[] = {"type",          "clean_text", "handle_chinese_chars",
                                        "strip_accents", "lowercase",  NULL};

static const struct mt_part_row rows[] = {
#define PART(type, keys, read) {#type, keys, read},
#include "launcher/tokenizer/parts/normalizers.def"
#undef PART
};
const struct mt_part_kind mt_normalizers = {"normalizer", rows, sizeof rows / sizeof *rows, "normalizers"};

enum mt_found mt_normalize(struct mt_part *part, const char *text, size_t length, struct mt_text *out) {
    static enum mt_found (*const apply[])(struct mt_part *, const char *, size_t, struct mt_text *) = {
#define PART(type, keys, read) apply_##type,
#include "launcher/tokenizer/parts/normalizers.def"
#undef PART
    };
    return apply[part->row](part, text, length, out);
}
