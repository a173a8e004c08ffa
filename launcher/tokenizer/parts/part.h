/* A part of a tokenizer: a normalizer, a splitter (pre-tokenizer) or a decoder, with what its object in the file says.
 * A sequence of parts is a row of them. Each kind has a table, *.def, with rows PART(name): the type in the file, and
 * functions read_name and what the kind does. */
#ifndef MT_LAUNCHER_TOKENIZER_PARTS_PART_H
#define MT_LAUNCHER_TOKENIZER_PARTS_PART_H

#include "kernels/base/text/json.h"
#include "launcher/tokenizer/pattern/pattern.h"
#include "launcher/tokenizer/unicode/text.h"

/* What stands between pieces of a split, or goes with them. */
enum mt_split_behavior {
    MT_SPLIT_REMOVED,
    MT_SPLIT_ISOLATED,
    MT_SPLIT_MERGED_WITH_PREVIOUS,
    MT_SPLIT_MERGED_WITH_NEXT,
    MT_SPLIT_CONTIGUOUS,
};

struct mt_part {
    int row;                    /* in the kind's table */
    const char *text, *content; /* what is looked for or put in front; what replaces it; or null */
    struct mt_pattern *pattern; /* instead of `text`; or null */
    struct mt_search search;
    enum mt_split_behavior behavior;
    bool invert;
    bool prefix;                         /* put something in front: of the ByteLevel splitter, of Metaspace */
    bool prefix_once;                    /* of Metaspace: at the text's beginning only */
    bool split;                          /* of Metaspace; of ByteLevel: by GPT-2's expression */
    bool clean, chinese, accents, lower; /* of BertNormalizer */
    bool left, right;                    /* of the Strip normalizer; `left`: cleanup of the WordPiece decoder */
    int64_t start, stop;                 /* of the Strip decoder: how many to remove */
    struct mt_text scratch[2];
};

struct mt_parts {
    struct mt_part *part;
    int n, capacity;
};

/* A kind of part: its table, and the word for messages. */
struct mt_part_row {
    const char *type;
    const char *const *keys; /* that its object may have, null-terminated */
    enum mt_status (*read)(struct mt_json object, struct mt_part *part, struct mt_arena *arena, struct mt_err *err);
};
struct mt_part_kind {
    const char *word; /* "normalizer" */
    const struct mt_part_row *rows;
    int nrows;
    const char *members; /* the member of a Sequence with its parts */
};

/* part.c: read an object and its sequences, flat, into `parts`. */
enum mt_status mt_parts_read(const struct mt_part_kind *kind, struct mt_json object, struct mt_arena *arena,
                             struct mt_parts *parts, struct mt_err *err);
void mt_parts_release(struct mt_parts *parts);

/* Members that may be absent or null. Texts are copied to the arena. */
enum mt_status mt_part_bool(struct mt_json object, const char *key, bool otherwise, bool *value, struct mt_err *err);
enum mt_status mt_part_text(struct mt_json object, const char *key, struct mt_arena *arena, const char **value,
                            struct mt_err *err);
/* "pattern": {"String": ...} or {"Regex": ...}. */
enum mt_status mt_part_pattern(struct mt_json object, struct mt_part *part, struct mt_arena *arena, struct mt_err *err);
/* The same and "content", which replaces each match. */
enum mt_status mt_part_replacement(struct mt_json object, struct mt_part *part, struct mt_arena *arena,
                                   struct mt_err *err);
/* The next match of the part's text or pattern from `at` on. */
enum mt_found mt_part_find(struct mt_part *part, const char *text, size_t length, size_t at, size_t *from, size_t *to);
/* Replace every match by `content`; MT_FOUND_TOO_LONG if that does not end. */
enum mt_found mt_part_replace(struct mt_part *part, const char *text, size_t length, struct mt_text *out);

/* How long a text of `length` bytes may become: parts in a row may each make it longer, and so, in a file that means
 * harm, without end. Real ones make it three times as long, and NFKC a single character eleven times. */
static inline size_t mt_parts_most(size_t length) {
    return 64 * length + 1024;
}

extern const struct mt_part_kind mt_normalizers, mt_splitters, mt_decoders;

/* normalize.c: append the part's normal form of the text. */
enum mt_found mt_normalize(struct mt_part *part, const char *text, size_t length, struct mt_text *out);

/* split.c: call `word` for each word of a text; `first`: the text is at the beginning of all. The last part may be
 * ByteLevel, whose mapping is then left to the callee (see mt_split_maps_bytes). MT_FOUND_TOO_LONG also where the words
 * are (mt_parts_most). */
struct mt_word_sink {
    void (*word)(void *context, const char *word, size_t length);
    void *context;
};
enum mt_found mt_split(struct mt_parts *parts, const char *text, size_t length, bool first,
                       const struct mt_word_sink *sink);
bool mt_split_maps_bytes(const struct mt_parts *parts);

/* bytes.c: the characters that stand for bytes in byte-level tokenizers: printable ones for themselves, others from
 * U+0100 on. */
void mt_bytes_map(const char *text, size_t length, struct mt_text *out);
int mt_bytes_of(uint32_t code); /* the byte, or -1 */

/* decode.c: pieces of text, one a token at first. */
struct mt_pieces {
    struct mt_text text;
    size_t *ends; /* [n]: where each ends in `text` */
    int64_t n, capacity;
};
void mt_pieces_add(struct mt_pieces *pieces, const char *text, size_t length);
void mt_pieces_free(struct mt_pieces *pieces);
void mt_decode(struct mt_part *part, const struct mt_pieces *from, struct mt_pieces *to);
/* How many times as long these, one after the other, could make a text by what they replace. */
double mt_decode_growth(const struct mt_parts *decoders);
/* Append bytes as UTF-8: each ill-formed sequence becomes one U+FFFD, as Rust and the Unicode standard do. */
void mt_decode_lossy(const char *bytes, size_t length, struct mt_text *out);

#endif
