/* Added tokens: found in the text before the model sees it, the leftmost first, and of those the longest. */
#include "launcher/tokenizer/internal.h"
#include "launcher/tokenizer/unicode/unicode.h"

enum { MOST_ADDED = 1 << 17 };

static enum mt_status read_token(struct mt_json item, struct mt_tokenizer *t, struct mt_added_token *token,
                                 struct mt_err *err) {
    static const char *const keys[] = {"id",     "content",    "single_word", "lstrip",
                                       "rstrip", "normalized", "special",     NULL};
    int64_t id;
    enum mt_status st;
    if ((st = mt_json_only(item, keys, err)) || (st = mt_json_int(item, "id", 0, MT_TOKEN_MOST, &id, err)) ||
        (st = mt_json_string(item, "content", &token->text, err)) ||
        (st = mt_part_bool(item, "single_word", false, &token->single_word, err)) ||
        (st = mt_part_bool(item, "lstrip", false, &token->left, err)) ||
        (st = mt_part_bool(item, "rstrip", false, &token->right, err)) ||
        (st = mt_part_bool(item, "special", false, &token->special, err)) ||
        (st = mt_part_bool(item, "normalized", !token->special, &token->normalized, err)))
        return st;
    token->id = (int32_t)id;
    token->text = mt_arena_strdup(&t->arena, token->text);
    token->length = strlen(token->text);
    int32_t known = mt_vocabulary_find(&t->model.ids, token->text, token->length);
    if (known >= 0 && known != id)
        return mt_json_fail(item, err, "\"%.60s\" has number %lld, but is %d in the model's vocabulary", token->text,
                            (long long)id, known);
    if (token->length) mt_vocabulary_set(&t->added_ids, token->text, token->length, token->id);
    return MT_OK;
}

static int in_order(const void *left, const void *right) {
    const struct mt_added_token *a = left, *b = right;
    unsigned char x = (unsigned char)a->text[0], y = (unsigned char)b->text[0];
    if (x != y) return x < y ? -1 : 1;
    if (a->length != b->length) return a->length > b->length ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static void arrange(struct mt_added *added) {
    if (added->n) qsort(added->tokens, (size_t)added->n, sizeof *added->tokens, in_order);
    for (int i = 0, b = 0; b <= 256; b++) {
        while (i < added->n && (unsigned char)added->tokens[i].text[0] < b) i++;
        added->begin[b] = i;
    }
}

enum mt_status mt_added_read(struct mt_json root, struct mt_tokenizer *t, struct mt_err *err) {
    struct mt_json list, item;
    int n = 0;
    enum mt_status st = MT_OK;
    if (mt_json_has_value(root, "added_tokens") &&
        ((st = mt_json_get(root, "added_tokens", &list, err)) || (st = mt_json_length(list, MOST_ADDED, &n, err))))
        return st;
    for (int k = 0; k < 2; k++) t->added[k].tokens = mt_new(&t->arena, struct mt_added_token, n);
    for (int i = 0; i < n; i++) {
        struct mt_added_token token = {0};
        if ((st = mt_json_item(list, i, &item, err)) || (st = read_token(item, t, &token, err))) return st;
        if (token.id >= t->vocab) t->vocab = token.id + 1;
        if (token.normalized && token.length) { /* it is looked for in normalized text */
            const struct mt_text *normal;
            if (mt_tokenizer_normalize(t, token.text, token.length, &normal) == MT_FOUND_TOO_LONG)
                return mt_json_fail(item, err, "cannot be normalized");
            token.length = normal->length;
            token.text = mt_arena_printf(&t->arena, "%.*s", (int)normal->length, normal->bytes);
        }
        struct mt_added *added = &t->added[token.normalized];
        if (token.length) added->tokens[added->n++] = token;
    }
    arrange(&t->added[0]);
    arrange(&t->added[1]);
    return MT_OK;
}

/* ---- finding ---- */

static bool is_word(const char *text) {
    int n;
    return mt_unicode_table()[mt_utf8_decode(text, &n)] & MT_UNICODE_WORD;
}

static size_t before(const char *text, size_t at) {
    do at--;
    while (at && ((unsigned char)text[at] & 0xc0) == 0x80);
    return at;
}

static bool stands_alone(const char *text, size_t length, size_t from, size_t to) {
    return (!from || !is_word(text + before(text, from))) && (to == length || !is_word(text + to));
}

/* The longest of a first byte's tokens that the text goes on with; null: none. */
static const struct mt_added_token *at_place(const struct mt_added *added, const char *text, size_t left) {
    unsigned char first = (unsigned char)*text;
    for (int i = added->begin[first]; i < added->begin[first + 1]; i++)
        if (added->tokens[i].length <= left && !memcmp(added->tokens[i].text, text, added->tokens[i].length))
            return &added->tokens[i];
    return NULL;
}

const struct mt_added_token *mt_added_find(const struct mt_added *added, const char *text, size_t length, size_t at,
                                           size_t *from, size_t *to) {
    const uint16_t *table = mt_unicode_table();
    int n;
    for (size_t i = at; i < length && added->n; i++) {
        const struct mt_added_token *token = at_place(added, text + i, length - i);
        if (!token) continue;
        *from = i, *to = i + token->length;
        if (token->single_word && !stands_alone(text, length, *from, *to)) {
            i = *to - 1;
            continue;
        }
        while (token->left && *from > at && table[mt_utf8_decode(text + before(text, *from), &n)] & MT_UNICODE_SPACE)
            *from = before(text, *from);
        while (token->right && *to < length && table[mt_utf8_decode(text + *to, &n)] & MT_UNICODE_SPACE)
            *to += (size_t)n;
        return token;
    }
    return NULL;
}
