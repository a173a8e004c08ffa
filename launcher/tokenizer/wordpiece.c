/* WordPiece: the longest token at the word's beginning, then the longest that goes on, until the end. A word that does
 * not come out so, or is too long, is one unknown token. */
#include "launcher/tokenizer/internal.h"

enum mt_status mt_wordpiece_read(struct mt_json object, struct mt_tokenizer *t, struct mt_err *err) {
    static const char *const keys[] = {"type",  "unk_token", "continuing_subword_prefix", "max_input_chars_per_word",
                                       "vocab", NULL};
    struct mt_model *m = &t->model;
    enum mt_status st = mt_json_only(object, keys, err);
    m->most_characters = 100;
    if (!st && mt_json_has_value(object, "max_input_chars_per_word"))
        st = mt_json_int(object, "max_input_chars_per_word", 0, INT64_MAX, &m->most_characters, err);
    if (!st && !m->unknown) st = mt_json_fail(object, err, "has no unk_token");
    return st;
}

static int64_t count_characters(const char *text, size_t length) {
    int64_t n = 0;
    for (size_t i = 0; i < length; i++) n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

/* The longest token at `from`; *to: where it ends. */
static int32_t longest(struct mt_tokenizer *t, const char *word, size_t length, size_t from, size_t *to) {
    const struct mt_model *m = &t->model;
    struct mt_text *symbol = &t->symbol;
    symbol->length = 0;
    if (from) mt_text_add(symbol, m->prefix, m->prefix_length);
    size_t front = symbol->length;
    mt_text_add(symbol, word + from, length - from);
    for (*to = length; *to > from;) {
        int32_t id = mt_vocabulary_find(&m->ids, symbol->bytes, front + *to - from);
        if (id >= 0) return id;
        do --*to;
        while (((unsigned char)word[*to] & 0xc0) == 0x80);
    }
    return -1;
}

void mt_wordpiece_word(struct mt_tokenizer *t, const char *word, size_t length, struct mt_tokens *tokens) {
    const struct mt_model *m = &t->model;
    int64_t before = tokens->count;
    size_t from = 0, to;
    int32_t id = 0;
    if (count_characters(word, length) > m->most_characters) {
        mt_tokens_add(tokens, m->unknown_id);
        return;
    }
    for (; from < length && (id = longest(t, word, length, from, &to)) >= 0; from = to) mt_tokens_add(tokens, id);
    if (id >= 0) return;
    tokens->count = before;
    mt_tokens_add(tokens, m->unknown_id);
}
