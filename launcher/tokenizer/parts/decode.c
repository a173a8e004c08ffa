/* Decoders: tokens' texts to text. */
#include <stdio.h>

#include "launcher/tokenizer/parts/part.h"

void mt_pieces_add(struct mt_pieces *p, const char *text, size_t length) {
    if (p->n == p->capacity) {
        p->capacity = 2 * p->capacity + 64;
        p->ends = mt_realloc(p->ends, (size_t)p->capacity * sizeof *p->ends);
    }
    mt_text_add(&p->text, text, length);
    p->ends[p->n++] = p->text.length;
}

void mt_pieces_free(struct mt_pieces *p) {
    free(p->ends);
    mt_text_free(&p->text);
    *p = (struct mt_pieces){0};
}

/* Piece i, and its length. */
static const char *piece(const struct mt_pieces *p, int64_t i, size_t *length) {
    size_t from = i ? p->ends[i - 1] : 0;
    *length = p->ends[i] - from;
    return p->text.bytes + from;
}

/* How many bytes at the beginning of an ill-formed sequence could begin a well-formed one: 1 to 3. */
static size_t ill_formed(const unsigned char *b, size_t left) {
    unsigned char low = b[0] == 0xe0 ? 0xa0 : b[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = b[0] == 0xed ? 0x9f : b[0] == 0xf4 ? 0x8f : 0xbf;
    size_t whole = b[0] < 0xc2 || b[0] > 0xf4 ? 1 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : 4, n = 1;
    while (n < whole && n < left && b[n] >= (n == 1 ? low : 0x80) && b[n] <= (n == 1 ? high : 0xbf)) n++;
    return n;
}

void mt_decode_lossy(const char *bytes, size_t length, struct mt_text *out) {
    for (size_t at = 0; at < length;) {
        size_t valid = mt_utf8_valid(bytes + at, length - at);
        mt_text_add(out, bytes + at, valid);
        at += valid;
        if (at == length) break;
        mt_text_add(out, "\xef\xbf\xbd", 3);
        at += ill_formed((const unsigned char *)bytes + at, length - at);
    }
}

/* ---- bytes ---- */

static enum mt_status read_none(struct mt_json object, struct mt_part *part, struct mt_arena *arena,
                                struct mt_err *err) {
    (void)object, (void)part, (void)arena, (void)err;
    return MT_OK;
}

/* Characters to bytes; a token with one that stands for none is taken as it is. */
static void add_mapped(const char *text, size_t length, struct mt_text *out) {
    size_t before = out->length;
    int n;
    for (size_t at = 0; at < length; at += (size_t)n) {
        int byte = mt_bytes_of(mt_utf8_decode(text + at, &n));
        if (byte < 0) {
            out->length = before;
            mt_text_add(out, text, length);
            return;
        }
        char c = (char)byte;
        mt_text_add(out, &c, 1);
    }
}

static void decode_ByteLevel(struct mt_part *part, const struct mt_pieces *from, struct mt_pieces *to) {
    struct mt_text *bytes = &part->scratch[0], *text = &part->scratch[1];
    bytes->length = text->length = 0;
    mt_text_add(bytes, "", 0);
    for (int64_t i = 0; i < from->n; i++) {
        size_t length;
        const char *p = piece(from, i, &length);
        add_mapped(p, length, bytes);
    }
    mt_decode_lossy(bytes->bytes, bytes->length, text);
    mt_pieces_add(to, text->bytes, text->length);
}

/* The byte of "<0x41>", or -1. */
static int named_byte(const char *text, size_t length) {
    static const char digits[] = "0123456789ABCDEF", small[] = "0123456789abcdef";
    if (length != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    int value = 0;
    for (int i = 3; i < 5; i++) {
        const char *digit = text[i] ? strchr(digits, text[i]) : NULL, *other = text[i] ? strchr(small, text[i]) : NULL;
        if (!digit && !other) return -1;
        value = 16 * value + (int)(digit ? digit - digits : other - small);
    }
    return value;
}

/* A run of bytes: text, or U+FFFD for each. */
static void end_run(struct mt_text *run, struct mt_pieces *to) {
    bool valid = mt_utf8_valid(run->bytes, run->length) == run->length;
    for (size_t i = 0; i < run->length && !valid; i++) mt_pieces_add(to, "\xef\xbf\xbd", 3);
    if (run->length && valid) mt_pieces_add(to, run->bytes, run->length);
    run->length = 0;
}

static void decode_ByteFallback(struct mt_part *part, const struct mt_pieces *from, struct mt_pieces *to) {
    struct mt_text *run = &part->scratch[0];
    run->length = 0;
    for (int64_t i = 0; i < from->n; i++) {
        size_t length;
        const char *p = piece(from, i, &length);
        int byte = named_byte(p, length);
        char c = (char)byte;
        if (byte >= 0) {
            mt_text_add(run, &c, 1);
            continue;
        }
        end_run(run, to);
        mt_pieces_add(to, p, length);
    }
    end_run(run, to);
}

static void decode_Fuse(struct mt_part *part, const struct mt_pieces *from, struct mt_pieces *to) {
    (void)part;
    mt_pieces_add(to, from->text.bytes, from->text.length);
}

/* ---- blanks ---- */

static enum mt_status read_Metaspace(struct mt_json object, struct mt_part *part, struct mt_arena *arena,
                                     struct mt_err *err) {
    const char *scheme = NULL;
    bool prefix = true;
    enum mt_status st;
    if ((st = mt_part_text(object, "replacement", arena, &part->text, err)) ||
        (st = mt_part_bool(object, "add_prefix_space", true, &prefix, err)) ||
        (st = mt_part_text(object, "prepend_scheme", arena, &scheme, err)))
        return st;
    if (!part->text || !*part->text) return mt_json_fail(object, err, "has no replacement");
    part->prefix = scheme ? strcmp(scheme, "never") != 0 : prefix;
    return MT_OK;
}

static void decode_Metaspace(struct mt_part *part, const struct mt_pieces *from, struct mt_pieces *to) {
    struct mt_text *text = &part->scratch[0];
    size_t n = strlen(part->text);
    for (int64_t i = 0; i < from->n; i++) {
        size_t length, at = 0;
        const char *p = piece(from, i, &length), *found;
        text->length = 0;
        while (at < length && (found = memmem(p + at, length - at, part->text, n))) {
            mt_text_add(text, p + at, (size_t)(found - p) - at);
            if (i || !part->prefix) mt_text_add(text, " ", 1);
            at = (size_t)(found - p) + n;
        }
        mt_text_add(text, p + at, length - at);
        mt_pieces_add(to, text->bytes, text->length);
    }
}

static enum mt_status read_Strip(struct mt_json object, struct mt_part *part, struct mt_arena *arena,
                                 struct mt_err *err) {
    enum mt_status st;
    if ((st = mt_part_text(object, "content", arena, &part->text, err)) ||
        (st = mt_json_int(object, "start", 0, 1 << 20, &part->start, err)) ||
        (st = mt_json_int(object, "stop", 0, 1 << 20, &part->stop, err)))
        return st;
    return part->text && *part->text ? MT_OK : mt_json_fail(object, err, "has no content");
}

static void decode_Strip(struct mt_part *part, const struct mt_pieces *from, struct mt_pieces *to) {
    size_t n = strlen(part->text);
    for (int64_t i = 0; i < from->n; i++) {
        size_t length;
        const char *p = piece(from, i, &length);
        for (int64_t k = 0; k < part->start && length >= n && !memcmp(p, part->text, n); k++) p += n, length -= n;
        for (int64_t k = 0; k < part->stop && length >= n && !memcmp(p + length - n, part->text, n); k++) length -= n;
        mt_pieces_add(to, p, length);
    }
}

static void decode_Replace(struct mt_part *part, const struct mt_pieces *from, struct mt_pieces *to) {
    struct mt_text *text = &part->scratch[0];
    for (int64_t i = 0; i < from->n; i++) {
        size_t length;
        const char *p = piece(from, i, &length);
        text->length = 0;
        (void)mt_part_replace(part, p, length, text); /* a token's text is short */
        mt_pieces_add(to, text->bytes, text->length);
    }
}

double mt_decode_growth(const struct mt_parts *decoders) {
    double growth = 1;
    for (int i = 0; i < decoders->n; i++) {
        const struct mt_part *part = &decoders->part[i];
        if (!part->content) continue; /* is no Replace */
        double by = (double)strlen(part->content) / (part->text ? (double)strlen(part->text) : 1);
        if (by > 1) growth *= by;
    }
    return growth;
}

/* ---- words ---- */

static enum mt_status read_WordPiece(struct mt_json object, struct mt_part *part, struct mt_arena *arena,
                                     struct mt_err *err) {
    enum mt_status st = mt_part_text(object, "prefix", arena, &part->text, err);
    if (!part->text) part->text = "##";
    return st ? st : mt_part_bool(object, "cleanup", true, &part->clean, err);
}

/* Append the text with each `what` replaced; both may be the same buffer's, so it is copied. */
static void replace(struct mt_text *text, const char *what, const char *by) {
    size_t n = strlen(what), m = strlen(by), at = 0;
    if (!text->length || !memmem(text->bytes, text->length, what, n)) return;
    struct mt_text made = {0};
    for (const char *found; (found = memmem(text->bytes + at, text->length - at, what, n));
         at = (size_t)(found - text->bytes) + n) {
        mt_text_add(&made, text->bytes + at, (size_t)(found - text->bytes) - at);
        mt_text_add(&made, by, m);
    }
    mt_text_add(&made, text->bytes + at, text->length - at);
    mt_text_free(text);
    *text = made;
}

static void clean_up(struct mt_text *text) {
    static const char *const pairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                           {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                           {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) replace(text, pairs[i][0], pairs[i][1]);
}

static void decode_WordPiece(struct mt_part *part, const struct mt_pieces *from, struct mt_pieces *to) {
    struct mt_text *text = &part->scratch[0];
    size_t n = strlen(part->text);
    for (int64_t i = 0; i < from->n; i++) {
        size_t length;
        const char *p = piece(from, i, &length);
        bool goes_on = length >= n && !memcmp(p, part->text, n);
        text->length = 0;
        if (i && !goes_on) mt_text_add(text, " ", 1);
        if (i && goes_on) p += n, length -= n;
        mt_text_add(text, p, length);
        if (part->clean) clean_up(text);
        mt_pieces_add(to, text->bytes, text->length);
    }
}

static enum mt_status read_BPEDecoder(struct mt_json object, struct mt_part *part, struct mt_arena *arena,
                                      struct mt_err *err) {
    enum mt_status st = mt_part_text(object, "suffix", arena, &part->text, err);
    if (!part->text || !*part->text) part->text = "</w>";
    return st;
}

static void decode_BPEDecoder(struct mt_part *part, const struct mt_pieces *from, struct mt_pieces *to) {
    struct mt_text *text = &part->scratch[0];
    for (int64_t i = 0; i < from->n; i++) {
        size_t length;
        const char *p = piece(from, i, &length);
        text->length = 0;
        mt_text_add(text, p, length);
        replace(text, part->text, i + 1 < from->n ? " " : "");
        mt_pieces_add(to, text->bytes, text->length);
    }
}

/* ---- the table ---- */

static const char *const type_only[] = {"type", NULL};
static const char *const byte_keys[] = {"type", "add_prefix_space", "trim_offsets", "use_regex", NULL};
static const char *const metaspace_keys[] = {"type",  "replacement", "prepend_scheme", "add_prefix_space", "str_rep",
                                             "split", NULL};
static const char *const strip_keys[] = {"type", "content", "start", "stop", NULL};
static const char *const replace_keys[] = {"type", "pattern", "content", NULL};
static const char *const wordpiece_keys[] = {"type", "prefix", "cleanup", NULL};
static const char *const suffix_keys[] = {"type", "suffix", NULL};

static const struct mt_part_row rows[] = {
#define PART(type, keys, read) {#type, keys, read},
#include "launcher/tokenizer/parts/decoders.def"
#undef PART
};
const struct mt_part_kind mt_decoders = {"decoder", rows, sizeof rows / sizeof *rows, "decoders"};

void mt_decode(struct mt_part *part, const struct mt_pieces *from, struct mt_pieces *to) {
    static void (*const decode[])(struct mt_part *, const struct mt_pieces *, struct mt_pieces *) = {
#define PART(type, keys, read) decode_##type,
#include "launcher/tokenizer/parts/decoders.def"
#undef PART
    };
    decode[part->row](part, from, to);
}
