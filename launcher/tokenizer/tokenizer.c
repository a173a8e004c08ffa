/* Encoding and decoding. */
#include "launcher/tokenizer/tokenizer.h"

#include <stdio.h>

#include "kernels/base/working.h"
#include "kernels/base/file.h"
#include "launcher/tokenizer/internal.h"

void mt_tokens_add(struct mt_tokens *tokens, int32_t id) {
    if (tokens->count == tokens->capacity) {
        tokens->capacity = 2 * tokens->capacity + 256;
        tokens->ids = mt_realloc(tokens->ids, (size_t)tokens->capacity * sizeof *tokens->ids);
    }
    tokens->ids[tokens->count++] = id;
}

/* ---- opening ---- */

enum mt_status mt_tokenizer_parse(const char *name, const char *text, size_t length, struct mt_tokenizer **tokenizer,
                                  struct mt_err *err) {
    struct mt_json_doc doc;
    enum mt_status st = mt_json_parse(name, text, length, &doc, err);
    if (st) return st;
    struct mt_tokenizer *t = mt_calloc(1, sizeof *t);
    st = mt_tokenizer_read(doc.root, t, err);
    mt_json_release(&doc);
    if (st)
        mt_tokenizer_free(t);
    else
        *tokenizer = t;
    return st;
}

enum mt_status mt_tokenizer_open(const char *path, struct mt_tokenizer **tokenizer, struct mt_err *err) {
    enum { MOST_BYTES = 1 << 30 };
    struct mt_arena arena = MT_ARENA_INIT;
    char *text;
    size_t length;
    if (mt_is_folder(path)) path = mt_arena_printf(&arena, "%s/tokenizer.json", path);
    enum mt_status st = mt_file_read(path, MOST_BYTES, &text, &length, err);
    if (!st) {
        st = mt_tokenizer_parse(path, text, length, tokenizer, err);
        free(text);
    }
    mt_arena_release(&arena);
    return st;
}

void mt_tokenizer_free(struct mt_tokenizer *t) {
    if (!t) return;
    mt_parts_release(&t->normalizers);
    mt_parts_release(&t->splitters);
    mt_parts_release(&t->decoders);
    mt_vocabulary_free(&t->model.ids);
    mt_vocabulary_free(&t->added_ids);
    mt_bpe_release(t);
    mt_words_free(t->words);
    for (int i = 0; i < 3; i++) mt_text_free(&t->scratch[i]);
    mt_text_free(&t->symbol);
    mt_arena_release(&t->arena);
    free(t);
}

int64_t mt_tokenizer_vocab(const struct mt_tokenizer *t) {
    return t->vocab;
}

bool mt_tokenizer_ends(const struct mt_tokenizer *t) {
    return t->nafter > 0;
}

int32_t mt_tokenizer_find(const struct mt_tokenizer *t, const char *text) {
    int32_t id = mt_vocabulary_find(&t->added_ids, text, strlen(text));
    return id >= 0 ? id : mt_vocabulary_find(&t->model.ids, text, strlen(text));
}

/* ---- encoding ---- */

enum mt_found mt_tokenizer_normalize(struct mt_tokenizer *t, const char *text, size_t length,
                                     const struct mt_text **out) {
    struct mt_text *from = &t->scratch[0], *to = &t->scratch[1];
    from->length = 0;
    mt_text_add(from, text, length);
    for (int i = 0; i < t->normalizers.n; i++) {
        struct mt_text *swap = from;
        to->length = 0;
        mt_text_add(to, "", 0); /* what is empty is a text too */
        if (mt_normalize(&t->normalizers.part[i], from->bytes, from->length, to) == MT_FOUND_TOO_LONG ||
            to->length > mt_parts_most(length))
            return MT_FOUND_TOO_LONG;
        from = to, to = swap;
    }
    *out = from;
    return MT_FOUND_NONE;
}

struct encoding {
    struct mt_tokenizer *tokenizer;
    struct mt_tokens *tokens;
    size_t done, whole, told; /* bytes; told: of mt_working */
};

enum { TOLD = 1 << 20 }; /* bytes from one telling to the next */

/* A word, or, where nothing splits, all of a text, which is cut in front of runs of U+2581. */
static void add_word(void *context, const char *word, size_t length) {
    struct encoding *e = context;
    size_t from = 0, at = 1;
    e->done += length;
    if (e->done >= e->told + TOLD && e->done < e->whole)
        mt_working((double)(e->told = e->done), (double)e->whole, "%zu of %zu MiB", e->done >> 20, e->whole >> 20);
    while (e->tokenizer->cuts_blanks && at + 3 <= length) {
        const char *lead = memchr(word + at, '\xe2', length - at);
        if (!lead) break;
        size_t here = (size_t)(lead - word);
        bool blank = here + 3 <= length && !memcmp(lead, "\xe2\x96\x81", 3);
        if (!blank) {
            at = here + 1;
            continue;
        }
        bool follows = here >= 3 && !memcmp(lead - 3, "\xe2\x96\x81", 3);
        if (here > from && !follows) {
            mt_words_add(e->tokenizer, word + from, here - from, e->tokens);
            from = here;
        }
        at = here + 3;
    }
    mt_words_add(e->tokenizer, word + from, length - from, e->tokens);
}

/* Normalized text between added tokens. */
static enum mt_found add_normal(struct encoding *e, const char *text, size_t length, bool first) {
    struct mt_tokenizer *t = e->tokenizer;
    const struct mt_word_sink sink = {add_word, e};
    const struct mt_added_token *token;
    size_t at = 0, from, to;
    while ((token = mt_added_find(&t->added[1], text, length, at, &from, &to))) {
        if (mt_split(&t->splitters, text + at, from - at, first && !at, &sink) == MT_FOUND_TOO_LONG)
            return MT_FOUND_TOO_LONG;
        mt_tokens_add(e->tokens, token->id);
        at = to;
    }
    return mt_split(&t->splitters, text + at, length - at, first && !at, &sink);
}

static enum mt_found add_between(struct encoding *e, const char *text, size_t length, bool first) {
    const struct mt_text *normal;
    if (!length) return MT_FOUND_NONE;
    if (!e->tokenizer->normalizers.n) return add_normal(e, text, length, first);
    if (mt_tokenizer_normalize(e->tokenizer, text, length, &normal) == MT_FOUND_TOO_LONG) return MT_FOUND_TOO_LONG;
    return add_normal(e, normal->bytes, normal->length, first);
}

enum mt_status mt_tokenizer_encode(struct mt_tokenizer *t, const char *text, size_t length, struct mt_tokens *tokens,
                                   struct mt_err *err) {
    struct encoding e = {.tokenizer = t, .tokens = tokens, .whole = length};
    const struct mt_added_token *token;
    size_t at = 0, from, to, valid = mt_utf8_valid(text, length);
    enum mt_found end = MT_FOUND_NONE;
    if (valid < length)
        return mt_fail(err, MT_EINPUT, "byte %zu of the text, 0x%02x, is not UTF-8", valid, (unsigned char)text[valid]);
    if (length > TOLD) mt_working_begin("tokenizing");
    for (int i = 0; i < t->nbefore; i++) mt_tokens_add(tokens, t->before[i]);
    while (end != MT_FOUND_TOO_LONG && (token = mt_added_find(&t->added[0], text, length, at, &from, &to))) {
        end = add_between(&e, text + at, from - at, !at);
        mt_tokens_add(tokens, token->id);
        at = to;
    }
    if (end != MT_FOUND_TOO_LONG) end = add_between(&e, text + at, length - at, !at);
    for (int i = 0; i < t->nafter; i++) mt_tokens_add(tokens, t->after[i]);
    if (length > TOLD) mt_working_end();
    if (end != MT_FOUND_TOO_LONG) return MT_OK;
    return mt_fail(err, MT_EINPUT,
                   "a part of the tokenizer does not come to an end on this text, or makes it endlessly long");
}

/* ---- decoding ---- */

char *mt_tokenizer_decode(struct mt_tokenizer *t, const int32_t *ids, int64_t count, bool special, size_t *length) {
    struct mt_pieces pieces = {0}, next = {0};
    for (int64_t i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= t->vocab || !t->texts[ids[i]].text) continue;
        if (t->texts[ids[i]].special && !special) continue;
        if (pieces.n && !t->decodes) mt_text_add(&pieces.text, " ", 1);
        mt_pieces_add(&pieces, t->texts[ids[i]].text, strlen(t->texts[ids[i]].text));
    }
    for (int i = 0; i < t->decoders.n; i++) {
        struct mt_pieces old = pieces;
        next.n = 0, next.text.length = 0;
        mt_decode(&t->decoders.part[i], &pieces, &next);
        pieces = next, next = old;
    }
    if (length) *length = pieces.text.length;
    mt_text_add(&pieces.text, "", 1);
    char *text = pieces.text.bytes;
    free(pieces.ends);
    mt_pieces_free(&next);
    return text;
}

/* The text of `recent` beyond that of the printed ones; the stream's length is set. */
static const char *new_text(struct mt_token_stream *s) {
    size_t known, length;
    free(mt_tokenizer_decode(s->tokenizer, s->recent.ids, s->printed, s->special, &known));
    free(s->text);
    s->text = mt_tokenizer_decode(s->tokenizer, s->recent.ids, s->recent.count, s->special, &length);
    s->length = length > known ? length - known : 0;
    return s->text + (length > known ? known : length);
}

const char *mt_token_stream_add(struct mt_token_stream *s, int32_t id) {
    static const char unfinished[] = "\xef\xbf\xbd";
    mt_tokens_add(&s->recent, id);
    const char *text = new_text(s);
    if (s->length >= 3 && !memcmp(text + s->length - 3, unfinished, 3)) s->length = 0;
    if (!s->length) return "";
    s->recent.count -= s->printed; /* what was new is what the next token's text may depend on */
    memmove(s->recent.ids, s->recent.ids + s->printed, (size_t)s->recent.count * sizeof *s->recent.ids);
    s->printed = s->recent.count;
    return text;
}

const char *mt_token_stream_end(struct mt_token_stream *s) {
    const char *text = new_text(s);
    s->recent.count = s->printed = 0;
    return text;
}

void mt_token_stream_free(struct mt_token_stream *s) {
    free(s->recent.ids);
    free(s->text);
    *s = (struct mt_token_stream){0};
}
