/* Tokenizers: text to the numbers of tokens and back, as a tokenizer.json of Hugging Face's `tokenizers` says.
 *
 *     struct mt_tokenizer *tokenizer;
 *     if ((st = mt_tokenizer_open("gpt2/tokenizer.json", &tokenizer, err))) return st;
 *     struct mt_tokens tokens = {0};
 *     st = mt_tokenizer_encode(tokenizer, text, length, &tokens, err);
 *     free(tokens.ids);
 *     mt_tokenizer_free(tokenizer);
 *
 * A file is a row of parts, each by its type, of which Motley knows those in normalizers.def, splitters.def (its
 * pre-tokenizers), models.def, frames.def (its post-processors) and decoders.def; others are refused by name, as is
 * every member of a part that is not known. Encoding: added tokens are found in the text; what lies between is
 * normalized, split into words, and each word becomes tokens by the model; the frame puts tokens around all. Decoding:
 * decoders turn tokens' texts into text. Token numbers are those of `tokenizers`.
 *
 * tokenizer.c is this interface, read.c reads the file, part.h says what a part is, pattern.h regular expressions,
 * unicode.h what is known of characters. One tokenizer serves one thread. */
#ifndef MT_LAUNCHER_TOKENIZER_TOKENIZER_H
#define MT_LAUNCHER_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/err.h"

struct mt_tokenizer;

/* Tokens as they are made; zeroed before the first. */
struct mt_tokens {
    int32_t *ids;
    int64_t count, capacity;
};
void mt_tokens_add(struct mt_tokens *tokens, int32_t id);

/* `path`: a tokenizer.json, or a folder with one. MT_EINPUT for what is not supported, by its name. */
enum mt_status mt_tokenizer_open(const char *path, struct mt_tokenizer **tokenizer, struct mt_err *err);
enum mt_status mt_tokenizer_parse(const char *name, const char *text, size_t length, struct mt_tokenizer **tokenizer,
                                  struct mt_err *err);
void mt_tokenizer_free(struct mt_tokenizer *tokenizer);

/* One more than the largest token. */
int64_t mt_tokenizer_vocab(const struct mt_tokenizer *tokenizer);
/* Whether it puts tokens after every text. */
bool mt_tokenizer_ends(const struct mt_tokenizer *tokenizer);
/* The token whose text is `text`, special ones included; -1: none. */
int32_t mt_tokenizer_find(const struct mt_tokenizer *tokenizer, const char *text);

/* Add a text's tokens, with those that the file's post-processor puts around it. MT_EINPUT for text that is not UTF-8,
 * and for text on which a regular expression of the file does not end. */
enum mt_status mt_tokenizer_encode(struct mt_tokenizer *tokenizer, const char *text, size_t length,
                                   struct mt_tokens *tokens, struct mt_err *err);

/* The text of tokens, to be freed; bytes that are no UTF-8 are U+FFFD. Unknown numbers have no text, and special tokens
 * have none unless they are wanted. A NUL follows; *length (or null) counts those that are in the text. */
char *mt_tokenizer_decode(struct mt_tokenizer *tokenizer, const int32_t *ids, int64_t count, bool special,
                          size_t *length);

/* Text as tokens come, one after another: what a token adds once it is whole characters.
 *
 *     struct mt_token_stream stream = {.tokenizer = tokenizer};
 *     for (...) {
 *         const char *text = mt_token_stream_add(&stream, token);
 *         fwrite(text, 1, stream.length, stdout);
 *     }
 *     ... mt_token_stream_end(&stream) ...
 *     mt_token_stream_free(&stream);
 *
 * Texts are valid until the next call. All together are the text of all tokens. */
struct mt_token_stream {
    struct mt_tokenizer *tokenizer;
    bool special;            /* special tokens have text */
    struct mt_tokens recent; /* tokens whose text the next one's may depend on */
    int64_t printed;         /* the first of `recent`, whose text was returned */
    size_t length;           /* of what was returned last */
    char *text;              /* it is in this */
};
const char *mt_token_stream_add(struct mt_token_stream *stream, int32_t id);
const char *mt_token_stream_end(struct mt_token_stream *stream);
void mt_token_stream_free(struct mt_token_stream *stream);

#endif
