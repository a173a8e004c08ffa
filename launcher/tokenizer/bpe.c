/* Byte pair encoding: a word's characters become tokens, and neighbours are merged, the pair of the lowest rank first,
 * the left one of equals. Pairs wait in a heap, tokens are a linked list: O(n log n) for a word of n characters. */
#include <assert.h>
#include <stdio.h>

#include "launcher/tokenizer/internal.h"

static const char blank[] = "\xe2\x96\x81"; /* U+2581, which stands for a blank */

/* ---- merges ---- */

static struct mt_merge *find_merge(const struct mt_merges *m, int32_t left, int32_t right) {
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t at = (size_t)((pair * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & (m->capacity - 1);
    for (;; at = (at + 1) & (m->capacity - 1)) {
        struct mt_merge *e = &m->entries[at];
        if (e->left < 0 || (e->left == left && e->right == right)) return e;
    }
}

static const struct mt_merge *merge_of(const struct mt_merges *m, int32_t left, int32_t right) {
    const struct mt_merge *e = m->capacity ? find_merge(m, left, right) : NULL;
    return e && e->left >= 0 ? e : NULL;
}

static void set_capacity(struct mt_merges *m, size_t merges) {
    for (m->capacity = 64; m->capacity < 2 * merges;) m->capacity *= 2;
    m->entries = mt_malloc(m->capacity * sizeof *m->entries);
    for (size_t i = 0; i < m->capacity; i++) m->entries[i].left = -1;
}

/* "a b", or ["a", "b"]. */
static enum mt_status split_merge(struct mt_json item, const char **left, size_t *left_length, const char **right,
                                  struct mt_err *err) {
    struct mt_json part;
    struct mt_err ignored = MT_ERR_INIT;
    int n;
    enum mt_status st;
    if (!mt_json_length(item, 2, &n, &ignored)) {
        if ((st = mt_json_item(item, 0, &part, err)) || (st = mt_json_as_string(part, left, err)) ||
            (st = mt_json_item(item, 1, &part, err)))
            return st;
        *left_length = strlen(*left);
        return mt_json_as_string(part, right, err);
    }
    if ((st = mt_json_as_string(item, left, err))) return st;
    const char *middle = strchr(*left, ' ');
    if (!middle || strchr(middle + 1, ' ')) return mt_json_fail(item, err, "must be two tokens with a blank between");
    *left_length = (size_t)(middle - *left);
    *right = middle + 1;
    return MT_OK;
}

static enum mt_status read_merge(struct mt_json item, int rank, struct mt_tokenizer *t, struct mt_err *err) {
    struct mt_model *m = &t->model;
    const char *left, *right;
    size_t left_length;
    enum mt_status st = split_merge(item, &left, &left_length, &right, err);
    if (st) return st;
    size_t right_length = strlen(right);
    int32_t left_id = mt_vocabulary_find(&m->ids, left, left_length);
    int32_t right_id = mt_vocabulary_find(&m->ids, right, right_length);
    if (left_id < 0 || right_id < 0)
        return mt_json_fail(item, err, "\"%.60s\" is not in the vocabulary", left_id < 0 ? left : right);
    size_t cut = right_length > m->prefix_length ? m->prefix_length : 0;
    t->symbol.length = 0;
    mt_text_add(&t->symbol, left, left_length);
    mt_text_add(&t->symbol, right + cut, right_length - cut);
    int32_t merged = mt_vocabulary_find(&m->ids, t->symbol.bytes, t->symbol.length);
    if (merged < 0)
        return mt_json_fail(item, err, "\"%.*s\" is not in the vocabulary", (int)(t->symbol.length % 200),
                            t->symbol.bytes);
    *find_merge(&m->merges, left_id, right_id) = (struct mt_merge){left_id, right_id, rank, merged};
    return MT_OK;
}

static enum mt_status read_merges(struct mt_json object, struct mt_tokenizer *t, struct mt_err *err) {
    struct mt_json list, item;
    int n;
    enum mt_status st;
    if ((st = mt_json_get(object, "merges", &list, err)) || (st = mt_json_length(list, MT_TOKEN_MOST, &n, err)))
        return st;
    set_capacity(&t->model.merges, (size_t)n);
    for (int i = 0; i < n && !st; i++)
        if (!(st = mt_json_item(list, i, &item, err))) st = read_merge(item, i, t, err);
    return st;
}

enum mt_status mt_bpe_read(struct mt_json object, struct mt_tokenizer *t, struct mt_err *err) {
    static const char *const keys[] = {"type",
                                       "dropout",
                                       "unk_token",
                                       "continuing_subword_prefix",
                                       "end_of_word_suffix",
                                       "fuse_unk",
                                       "byte_fallback",
                                       "ignore_merges",
                                       "vocab",
                                       "merges",
                                       NULL};
    struct mt_model *m = &t->model;
    double dropout = 0;
    enum mt_status st;
    if ((st = mt_json_only(object, keys, err)) ||
        (st = mt_part_bool(object, "fuse_unk", false, &m->fuse_unknown, err)) ||
        (st = mt_part_bool(object, "byte_fallback", false, &m->byte_fallback, err)) ||
        (st = mt_part_bool(object, "ignore_merges", false, &m->whole_words, err)) ||
        (st = mt_part_text(object, "end_of_word_suffix", &t->arena, &m->suffix, err)))
        return st;
    if (mt_json_has_value(object, "dropout") && (st = mt_json_real(object, "dropout", 0, 1, &dropout, err))) return st;
    if (dropout > 0) return mt_json_fail(object, err, "dropout of merges (%g) is not supported", dropout);
    if (m->suffix) m->suffix_length = strlen(m->suffix);
    for (int b = 0; b < 256; b++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", b);
        m->byte_ids[b] = mt_vocabulary_find(&m->ids, text, strlen(text));
    }
    return read_merges(object, t, err);
}

bool mt_bpe_cuts_blanks(const struct mt_model *m) {
    if (m->whole_words || m->prefix_length || m->suffix_length || mt_vocabulary_find(&m->ids, blank, 3) < 0)
        return false;
    for (size_t i = 0; i < m->ids.capacity; i++) {
        const struct mt_vocabulary_entry *e = &m->ids.entries[i];
        bool other = false;
        for (size_t at = 0; e->text && at + 3 <= e->length; at++) {
            bool here = !memcmp(e->text + at, blank, 3);
            if (here && other) return false;
            other = !here;
            at += here ? 2 : 0;
        }
    }
    return true;
}

/* ---- a word ---- */

struct mt_word_pieces {
    struct piece {
        int32_t id;
        int32_t previous, next; /* -1: none */
        bool gone;              /* merged into the one before it */
    } * piece;
    int32_t n, capacity;
    struct pair {
        int32_t rank, at, merged;
    } * heap;
    int32_t waiting, room;
};

static void add_piece(struct mt_word_pieces *w, int32_t id) {
    if (w->n == w->capacity) {
        w->capacity = 2 * w->capacity + 64;
        w->piece = mt_realloc(w->piece, (size_t)w->capacity * sizeof *w->piece);
    }
    w->piece[w->n] = (struct piece){id, w->n - 1, w->n + 1, false};
    w->n++;
}

static bool comes_first(const struct pair *a, const struct pair *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push(struct mt_word_pieces *w, struct pair pair) {
    if (w->waiting == w->room) {
        w->room = 2 * w->room + 64;
        w->heap = mt_realloc(w->heap, (size_t)w->room * sizeof *w->heap);
    }
    int32_t at = w->waiting++;
    for (; at && comes_first(&pair, &w->heap[(at - 1) / 2]); at = (at - 1) / 2) w->heap[at] = w->heap[(at - 1) / 2];
    w->heap[at] = pair;
}

static struct pair pop(struct mt_word_pieces *w) {
    struct pair top = w->heap[0], last = w->heap[--w->waiting];
    int32_t at = 0;
    for (int32_t child; (child = 2 * at + 1) < w->waiting; at = child) {
        if (child + 1 < w->waiting && comes_first(&w->heap[child + 1], &w->heap[child])) child++;
        if (!comes_first(&w->heap[child], &last)) break;
        w->heap[at] = w->heap[child];
    }
    w->heap[at] = last;
    return top;
}

static void propose(struct mt_word_pieces *w, const struct mt_merges *m, int32_t left, int32_t right) {
    if (left < 0 || right < 0) return;
    const struct mt_merge *merge = merge_of(m, w->piece[left].id, w->piece[right].id);
    if (merge) push(w, (struct pair){merge->rank, left, merge->merged});
}

static void merge_all(struct mt_word_pieces *w, const struct mt_merges *m) {
    w->waiting = 0;
    if (w->n) w->piece[w->n - 1].next = -1;
    for (int32_t i = 0; i + 1 < w->n; i++) propose(w, m, i, i + 1);
    while (w->waiting) {
        struct pair pair = pop(w);
        struct piece *left = &w->piece[pair.at];
        if (left->gone || left->next < 0) continue;
        struct piece *right = &w->piece[left->next];
        const struct mt_merge *now = merge_of(m, left->id, right->id);
        if (!now || now->merged != pair.merged) continue; /* merged otherwise meanwhile */
        left->id = pair.merged;
        left->next = right->next;
        right->gone = true;
        if (left->next >= 0) w->piece[left->next].previous = pair.at;
        propose(w, m, left->previous, pair.at);
        propose(w, m, pair.at, left->next);
    }
}

/* The bytes of a character that is no token; false if one of them is none either. */
static bool add_bytes(struct mt_word_pieces *w, const struct mt_model *m, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (m->byte_ids[(unsigned char)text[i]] < 0) return false;
    for (size_t i = 0; i < length; i++) add_piece(w, m->byte_ids[(unsigned char)text[i]]);
    return true;
}

/* Characters to pieces. An unknown one waits until the next known one, to be one with those that follow it. */
static void add_characters(struct mt_tokenizer *t, const char *word, size_t length) {
    const struct mt_model *m = &t->model;
    struct mt_text *symbol = &t->symbol;
    bool unknown = false;
    int n;
    t->pieces->n = 0;
    for (size_t at = 0; at < length; at += (size_t)n) {
        mt_utf8_decode(word + at, &n);
        symbol->length = 0;
        if (at) mt_text_add(symbol, m->prefix, m->prefix_length);
        mt_text_add(symbol, word + at, (size_t)n);
        if (at + (size_t)n == length) mt_text_add(symbol, m->suffix, m->suffix_length);
        int32_t id = mt_vocabulary_find(&m->ids, symbol->bytes, symbol->length);
        if (id >= 0) {
            if (unknown) add_piece(t->pieces, m->unknown_id);
            unknown = false;
            add_piece(t->pieces, id);
        } else if (!(m->byte_fallback && add_bytes(t->pieces, m, symbol->bytes, symbol->length)) && m->unknown) {
            if (unknown && !m->fuse_unknown) add_piece(t->pieces, m->unknown_id);
            unknown = true;
        }
    }
    if (unknown) add_piece(t->pieces, m->unknown_id);
}

void mt_bpe_word(struct mt_tokenizer *t, const char *word, size_t length, struct mt_tokens *tokens) {
    if (!t->pieces) t->pieces = mt_calloc(1, sizeof *t->pieces);
    if (t->model.whole_words) {
        int32_t id = mt_vocabulary_find(&t->model.ids, word, length);
        if (id >= 0) {
            mt_tokens_add(tokens, id);
            return;
        }
    }
    add_characters(t, word, length);
    merge_all(t->pieces, &t->model.merges);
    for (int32_t i = 0; i >= 0 && i < t->pieces->n; i = t->pieces->piece[i].next)
        mt_tokens_add(tokens, t->pieces->piece[i].id);
}

void mt_bpe_release(struct mt_tokenizer *t) {
    free(t->model.merges.entries);
    if (t->pieces) {
        free(t->pieces->piece);
        free(t->pieces->heap);
    }
    free(t->pieces);
}
