/* What words became: text repeats its words, so most need no model. */
#include "launcher/tokenizer/internal.h"

enum { LONGEST = 64, MOST_WORDS = 1 << 18 };

struct mt_words {
    struct mt_vocabulary known; /* word to its place in `begin` */
    struct mt_arena arena;      /* words */
    int64_t *begin;             /* [count + 1]: of each word in `tokens` */
    int64_t count, capacity;
    struct mt_tokens tokens;
};

void mt_words_free(struct mt_words *w) {
    if (!w) return;
    mt_vocabulary_free(&w->known);
    mt_arena_release(&w->arena);
    free(w->begin);
    free(w->tokens.ids);
    free(w);
}

static void make(struct mt_tokenizer *t, const char *word, size_t length, struct mt_tokens *tokens) {
    static void (*const word_of[])(struct mt_tokenizer *, const char *, size_t, struct mt_tokens *) = {
#define MODEL(type, prefix) mt_##prefix##_word,
#include "launcher/tokenizer/models.def"
#undef MODEL
    };
    if (t->maps_bytes) {
        t->scratch[2].length = 0;
        mt_bytes_map(word, length, &t->scratch[2]);
        word = t->scratch[2].bytes, length = t->scratch[2].length;
    }
    word_of[t->model.row](t, word, length, tokens);
}

static void keep(struct mt_words *w, const char *word, size_t length, const int32_t *ids, int64_t count) {
    if (w->count + 2 > w->capacity) {
        w->capacity = 2 * w->capacity + 1024;
        w->begin = mt_realloc(w->begin, (size_t)w->capacity * sizeof *w->begin);
    }
    for (int64_t i = 0; i < count; i++) mt_tokens_add(&w->tokens, ids[i]);
    w->begin[w->count] = w->tokens.count - count;
    mt_vocabulary_set(&w->known, mt_arena_memdup(&w->arena, word, length), length, (int32_t)w->count++);
    w->begin[w->count] = w->tokens.count;
}

void mt_words_add(struct mt_tokenizer *t, const char *word, size_t length, struct mt_tokens *tokens) {
    if (!t->words) t->words = mt_calloc(1, sizeof *t->words);
    struct mt_words *w = t->words;
    int32_t known = length <= LONGEST ? mt_vocabulary_find(&w->known, word, length) : -1;
    if (known >= 0) {
        for (int64_t i = w->begin[known]; i < w->begin[known + 1]; i++) mt_tokens_add(tokens, w->tokens.ids[i]);
        return;
    }
    int64_t before = tokens->count;
    make(t, word, length, tokens);
    if (length <= LONGEST && w->count < MOST_WORDS) keep(w, word, length, tokens->ids + before, tokens->count - before);
}
