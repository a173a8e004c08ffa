/* Shared by the files of the tokenizer: what a tokenizer.json becomes. */
#ifndef MT_LAUNCHER_TOKENIZER_INTERNAL_H
#define MT_LAUNCHER_TOKENIZER_INTERNAL_H

#include "launcher/tokenizer/parts/part.h"
#include "launcher/tokenizer/tokenizer.h"
#include "launcher/tokenizer/vocabulary.h"

enum { MT_TOKEN_MOST = 1 << 24 }; /* tokens of a vocabulary */

/* A token that is found in text, whatever the model. */
struct mt_added_token {
    const char *text; /* that is looked for: normalized, if `normalized` */
    size_t length;
    int32_t id;
    bool single_word, left, right, normalized, special; /* left, right: takes the white space on that side too */
};
struct mt_added {
    struct mt_added_token *tokens; /* those of one first byte together, the longest first */
    int n;
    int begin[257]; /* of each first byte: [begin[b], begin[b + 1]) */
};

/* A merge of byte pair encoding: two tokens to one, the lowest rank first. */
struct mt_merges {
    struct mt_merge {
        int32_t left, right; /* left -1: free */
        int32_t rank, merged;
    } * entries;
    size_t count, capacity;
};

struct mt_model {
    int row; /* in models.def */
    struct mt_vocabulary ids;
    const char *unknown; /* token, or null */
    int32_t unknown_id;
    const char *prefix, *suffix; /* of a word's later pieces, of its end; or "" */
    size_t prefix_length, suffix_length;
    /* BPE */
    struct mt_merges merges;
    bool byte_fallback, fuse_unknown, whole_words; /* whole_words: a word that is a token is not merged anew */
    int32_t byte_ids[256];                         /* of <0x00> ...; -1: none */
    /* WordPiece */
    int64_t most_characters; /* of a word; longer ones are unknown */
};

struct mt_tokenizer {
    struct mt_arena arena;
    struct mt_model model;
    struct mt_parts normalizers, splitters, decoders;
    bool decodes;                   /* there is a decoder; without, texts are joined by blanks */
    struct mt_added added[2];       /* found before and after normalizing */
    struct mt_vocabulary added_ids; /* of all added tokens */
    int32_t *before, *after;        /* the frame: [nbefore], [nafter] */
    int nbefore, nafter;
    int32_t vocab; /* one more than the largest token */
    struct mt_token_text {
        const char *text; /* null: no such token */
        bool special;
    } * texts;                     /* [vocab] */
    bool maps_bytes;               /* words become characters for bytes before the model has them */
    bool cuts_blanks;              /* a text that no splitter splits may be cut in front of runs of U+2581 */
    struct mt_words *words;        /* what words became (words.c) */
    struct mt_text scratch[3];     /* normalized text, twice; a word's characters for bytes */
    struct mt_text symbol;         /* of a model: a piece that is looked up */
    struct mt_word_pieces *pieces; /* of BPE: scratch (bpe.c) */
};

/* read.c */
enum mt_status mt_tokenizer_read(struct mt_json root, struct mt_tokenizer *tokenizer, struct mt_err *err);

/* bpe.c, wordpiece.c: read the model's object; add a word's tokens */
#define MODEL(type, prefix)                                                                                            \
    enum mt_status mt_##prefix##_read(struct mt_json object, struct mt_tokenizer *tokenizer, struct mt_err *err);      \
    void mt_##prefix##_word(struct mt_tokenizer *tokenizer, const char *word, size_t length, struct mt_tokens *tokens);
#include "launcher/tokenizer/models.def"
#undef MODEL
void mt_bpe_release(struct mt_tokenizer *tokenizer);
/* Whether no token has a character in front of a U+2581 that is none, so that no merge crosses such a place. */
bool mt_bpe_cuts_blanks(const struct mt_model *model);

/* words.c: add a word's tokens, from what it became before if it is known */
void mt_words_add(struct mt_tokenizer *tokenizer, const char *word, size_t length, struct mt_tokens *tokens);
void mt_words_free(struct mt_words *words);

/* added.c */
enum mt_status mt_added_read(struct mt_json root, struct mt_tokenizer *tokenizer, struct mt_err *err);
/* The first added token in text[length] from `at` on, as [*from, *to); null: none. */
const struct mt_added_token *mt_added_find(const struct mt_added *added, const char *text, size_t length, size_t at,
                                           size_t *from, size_t *to);

/* frame.c: the tokens around a text */
enum mt_status mt_frame_read(struct mt_json object, struct mt_tokenizer *tokenizer, struct mt_err *err);

/* tokenizer.c: append the normal form; MT_FOUND_TOO_LONG if an expression does not end */
enum mt_found mt_tokenizer_normalize(struct mt_tokenizer *tokenizer, const char *text, size_t length,
                                     const struct mt_text **out);

#endif
