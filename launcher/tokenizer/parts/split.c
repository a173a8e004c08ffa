/* Splitters (pre-tokenizers): text to words. Each part splits what the one before it leaves, depth first, so that no
 * list of words is kept. */
#include "launcher/tokenizer/parts/part.h"
#include "launcher/tokenizer/unicode/unicode.h"

/* ---- ByteLevel and Split ---- */

static const char *const type_only[] = {"type", NULL};
static const char *const byte_keys[] = {"type", "add_prefix_space", "trim_offsets", "use_regex", NULL};
static const char *const split_keys[] = {"type", "pattern", "behavior", "invert", NULL};
static const char *const metaspace_keys[] = {"type",  "replacement", "prepend_scheme", "add_prefix_space", "str_rep",
                                             "split", NULL};
static const char *const behavior_keys[] = {"type", "behavior", NULL};
static const char *const digits_keys[] = {"type", "individual_digits", NULL};

static enum mt_status read_ByteLevel(struct mt_json object, struct mt_part *part, struct mt_arena *arena,
                                     struct mt_err *err) {
    static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    (void)arena;
    part->behavior = MT_SPLIT_ISOLATED;
    enum mt_status st;
    if ((st = mt_part_bool(object, "add_prefix_space", true, &part->prefix, err)) ||
        (st = mt_part_bool(object, "use_regex", true, &part->split, err)))
        return st;
    return part->split ? mt_pattern_new(gpt2, &part->pattern, err) : MT_OK;
}

static const char *prepare_ByteLevel(struct mt_part *part, const char *text, size_t *length, bool first) {
    (void)first;
    if (!part->prefix || (*length && *text == ' ')) return text;
    struct mt_text *scratch = &part->scratch[0];
    scratch->length = 0;
    mt_text_add(scratch, " ", 1);
    mt_text_add(scratch, text, *length);
    *length = scratch->length;
    return scratch->bytes;
}

static enum mt_status read_behavior(struct mt_json object, struct mt_part *part, struct mt_err *err) {
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    int which;
    enum mt_status st = mt_json_enum(object, "behavior", names, 5, &which, err);
    if (!st) part->behavior = (enum mt_split_behavior)which;
    return st;
}

static enum mt_status read_Split(struct mt_json object, struct mt_part *part, struct mt_arena *arena,
                                 struct mt_err *err) {
    enum mt_status st;
    if ((st = read_behavior(object, part, err)) || (st = mt_part_bool(object, "invert", false, &part->invert, err)))
        return st;
    return mt_part_pattern(object, part, arena, err);
}

static enum mt_found find_pattern(struct mt_part *part, const char *text, size_t length, size_t at, size_t *from,
                                  size_t *to) {
    if (!part->pattern && !part->text) return MT_FOUND_NONE;
    return mt_part_find(part, text, length, at, from, to);
}

/* ---- Metaspace ---- */

static enum mt_status read_scheme(struct mt_json object, struct mt_part *part, struct mt_err *err) {
    static const char *const schemes[] = {"always", "first", "never"};
    bool prefix = true;
    int which = 0;
    enum mt_status st = mt_part_bool(object, "add_prefix_space", true, &prefix, err);
    if (!st && mt_json_has_value(object, "prepend_scheme"))
        st = mt_json_enum(object, "prepend_scheme", schemes, 3, &which, err);
    else if (!prefix)
        which = 2;
    part->prefix = which != 2, part->prefix_once = which == 1;
    return st;
}

static enum mt_status read_Metaspace(struct mt_json object, struct mt_part *part, struct mt_arena *arena,
                                     struct mt_err *err) {
    enum mt_status st;
    part->behavior = MT_SPLIT_MERGED_WITH_NEXT;
    if ((st = mt_part_text(object, "replacement", arena, &part->content, err)) ||
        (st = mt_part_bool(object, "split", true, &part->split, err)) || (st = read_scheme(object, part, err)))
        return st;
    if (!part->content || !*part->content) return mt_json_fail(object, err, "has no replacement");
    if (part->split) part->text = part->content;
    return MT_OK;
}

static const char *prepare_Metaspace(struct mt_part *part, const char *text, size_t *length, bool first) {
    struct mt_text *scratch = &part->scratch[0];
    size_t n = strlen(part->content), at = 0;
    bool there = *length && (*text == ' ' || (*length >= n && !memcmp(text, part->content, n)));
    scratch->length = 0;
    if (part->prefix && !there && (first || !part->prefix_once)) mt_text_add(scratch, part->content, n);
    while (at < *length) {
        const char *blank = memchr(text + at, ' ', *length - at);
        size_t to = blank ? (size_t)(blank - text) : *length;
        mt_text_add(scratch, text + at, to - at);
        if (blank) mt_text_add(scratch, part->content, n);
        at = to + 1;
    }
    *length = scratch->length;
    return scratch->bytes;
}

/* ---- characters ---- */

static enum mt_found find_property(int property, bool several, const char *text, size_t length, size_t at, size_t *from,
                                   size_t *to) {
    const uint16_t *table = mt_unicode_table();
    int n;
    for (*from = at; *from < length; *from += (size_t)n)
        if (table[mt_utf8_decode(text + *from, &n)] & property) break;
    if (*from >= length) return MT_FOUND_NONE;
    *to = *from + (size_t)n;
    while (several && *to < length && table[mt_utf8_decode(text + *to, &n)] & property) *to += (size_t)n;
    return MT_FOUND;
}

static enum mt_status read_WhitespaceSplit(struct mt_json object, struct mt_part *part, struct mt_arena *arena,
                                           struct mt_err *err) {
    (void)object, (void)arena, (void)err;
    part->behavior = MT_SPLIT_REMOVED;
    return MT_OK;
}

/* Words and runs of other characters are what is left; white space between them is removed. */
static enum mt_status read_Whitespace(struct mt_json object, struct mt_part *part, struct mt_arena *arena,
                                      struct mt_err *err) {
    (void)object, (void)arena, (void)err;
    part->behavior = MT_SPLIT_REMOVED;
    part->invert = true;
    return MT_OK;
}

/* \w+|[^\w\s]+ */
static enum mt_found find_word(struct mt_part *part, const char *text, size_t length, size_t at, size_t *from,
                               size_t *to) {
    const uint16_t *table = mt_unicode_table();
    const int kinds = MT_UNICODE_WORD | MT_UNICODE_SPACE;
    int n, kind = MT_UNICODE_SPACE;
    (void)part;
    for (*from = at; *from < length; *from += (size_t)n)
        if (!((kind = table[mt_utf8_decode(text + *from, &n)] & kinds) & MT_UNICODE_SPACE)) break;
    if (*from >= length) return MT_FOUND_NONE;
    for (*to = *from + (size_t)n; *to < length; *to += (size_t)n)
        if ((table[mt_utf8_decode(text + *to, &n)] & kinds) != kind) break;
    return MT_FOUND;
}

/* White space is removed; then, in mt_parts of its own, punctuation stands alone: see mt_split. */
static enum mt_status read_BertPreTokenizer(struct mt_json object, struct mt_part *part, struct mt_arena *arena,
                                            struct mt_err *err) {
    return read_WhitespaceSplit(object, part, arena, err);
}

static enum mt_found find_space(struct mt_part *part, const char *text, size_t length, size_t at, size_t *from,
                                size_t *to) {
    (void)part;
    return find_property(MT_UNICODE_SPACE, true, text, length, at, from, to);
}

static enum mt_status read_Punctuation(struct mt_json object, struct mt_part *part, struct mt_arena *arena,
                                       struct mt_err *err) {
    (void)arena;
    part->behavior = MT_SPLIT_ISOLATED;
    return mt_json_has_value(object, "behavior") ? read_behavior(object, part, err) : MT_OK;
}

static enum mt_found find_punctuation(struct mt_part *part, const char *text, size_t length, size_t at, size_t *from,
                                      size_t *to) {
    (void)part;
    return find_property(MT_UNICODE_PUNCTUATION, false, text, length, at, from, to);
}

static enum mt_status read_Digits(struct mt_json object, struct mt_part *part, struct mt_arena *arena,
                                  struct mt_err *err) {
    bool individual;
    (void)arena;
    enum mt_status st = mt_part_bool(object, "individual_digits", false, &individual, err);
    part->behavior = individual ? MT_SPLIT_ISOLATED : MT_SPLIT_CONTIGUOUS;
    return st;
}

static enum mt_found find_digit(struct mt_part *part, const char *text, size_t length, size_t at, size_t *from,
                                size_t *to) {
    (void)part;
    return find_property(MT_UNICODE_DIGIT, false, text, length, at, from, to);
}

/* ---- the table ---- */

static const struct mt_part_row rows[] = {
#define PART(type, keys, read, prepare, find) {#type, keys, read},
#include "launcher/tokenizer/parts/splitters.def"
#undef PART
};
enum {
#define PART(type, keys, read, prepare, find) ROW_##type,
#include "launcher/tokenizer/parts/splitters.def"
#undef PART
};
const struct mt_part_kind mt_splitters = {"pre-tokenizer", rows, sizeof rows / sizeof *rows, "pretokenizers"};

static const char *(*const prepare_as[])(struct mt_part *, const char *, size_t *, bool) = {
#define PART(type, keys, read, prepare, find) prepare,
#include "launcher/tokenizer/parts/splitters.def"
#undef PART
};
static enum mt_found (*const find_as[])(struct mt_part *, const char *, size_t, size_t, size_t *, size_t *) = {
#define PART(type, keys, read, prepare, find) find,
#include "launcher/tokenizer/parts/splitters.def"
#undef PART
};

/* ---- splitting ---- */

struct split {
    struct mt_parts *parts;
    const struct mt_word_sink *sink;
    enum mt_found end; /* MT_FOUND_TOO_LONG once a search was, or the pieces are */
    size_t left;       /* bytes that parts may still be given, all together */
};

/* A piece on its way to the next part, held back as long as it may be merged with its neighbour. */
struct held {
    const char *text;
    size_t from, to;
    bool match, any, first;
};

static void apply(struct split *s, int p, const char *text, size_t length, bool first);

bool mt_split_maps_bytes(const struct mt_parts *parts) {
    return parts->n && parts->part[parts->n - 1].row == ROW_ByteLevel;
}

/* A finished piece of part p. */
static void pass(struct split *s, int p, const struct held *h) {
    struct mt_part *part = &s->parts->part[p];
    const char *text = h->text + h->from;
    size_t length = h->to - h->from;
    bool first = h->first && !h->from;
    if (!length) return;
    if (part->row == ROW_ByteLevel && p + 1 < s->parts->n) { /* later parts see the characters that stand for bytes */
        struct mt_text *mapped = &part->scratch[1];
        mapped->length = 0;
        mt_bytes_map(text, length, mapped);
        apply(s, p + 1, mapped->bytes, mapped->length, first);
    } else if (part->row == ROW_BertPreTokenizer) {
        size_t at = 0, from, to;
        while (find_property(MT_UNICODE_PUNCTUATION, false, text, length, at, &from, &to) == MT_FOUND) {
            if (from > at) apply(s, p + 1, text + at, from - at, first && !at);
            apply(s, p + 1, text + from, to - from, first && !from);
            at = to;
        }
        if (length > at) apply(s, p + 1, text + at, length - at, first && !at);
    } else {
        apply(s, p + 1, text, length, first);
    }
}

/* Whether a match, or what lies between, is one piece with the piece before it. */
static bool merges(enum mt_split_behavior behavior, bool before, bool match) {
    switch (behavior) {
    case MT_SPLIT_REMOVED:
    case MT_SPLIT_ISOLATED: return false;
    case MT_SPLIT_MERGED_WITH_PREVIOUS: return match && !before;
    case MT_SPLIT_MERGED_WITH_NEXT: return before && !match;
    case MT_SPLIT_CONTIGUOUS: return before == match;
    }
    return false;
}

static void add(struct split *s, int p, struct held *h, size_t from, size_t to, bool match) {
    struct mt_part *part = &s->parts->part[p];
    match = match != part->invert;
    if (from == to) return;
    if (h->any && merges(part->behavior, h->match, match)) {
        h->to = to, h->match = match;
        return;
    }
    if (h->any) pass(s, p, h);
    h->from = from, h->to = to, h->match = match;
    h->any = !(match && part->behavior == MT_SPLIT_REMOVED);
}

static void apply(struct split *s, int p, const char *text, size_t length, bool first) {
    if (length > s->left) s->end = MT_FOUND_TOO_LONG;
    if (s->end == MT_FOUND_TOO_LONG) return;
    s->left -= length;
    if (p == s->parts->n) {
        s->sink->word(s->sink->context, text, length);
        return;
    }
    struct mt_part *part = &s->parts->part[p];
    if (prepare_as[part->row]) text = prepare_as[part->row](part, text, &length, first);
    struct held h = {.text = text, .first = first};
    size_t at = 0, from, to;
    enum mt_found found;
    while ((found = find_as[part->row](part, text, length, at, &from, &to)) == MT_FOUND) {
        add(s, p, &h, at, from, false);
        add(s, p, &h, from, to, true);
        at = to;
    }
    add(s, p, &h, at, length, false);
    if (h.any) pass(s, p, &h);
    if (found == MT_FOUND_TOO_LONG) s->end = found;
}

enum mt_found mt_split(struct mt_parts *parts, const char *text, size_t length, bool first,
                       const struct mt_word_sink *sink) {
    struct split s = {.parts = parts, .sink = sink, .end = MT_FOUND_NONE};
    s.left = ((size_t)parts->n + 1) * mt_parts_most(length);
    if (length) apply(&s, 0, text, length, first);
    return s.end;
}
