/* Texts to numbers: linear probing, at most half full. */
#include "launcher/tokenizer/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/number/hash.h"

static struct mt_vocabulary_entry *find(const struct mt_vocabulary *v, const char *text, size_t length, uint32_t hash) {
    size_t at = hash & (v->capacity - 1);
    for (;; at = (at + 1) & (v->capacity - 1)) {
        struct mt_vocabulary_entry *e = &v->entries[at];
        if (!e->text || (e->hash == hash && e->length == length && !memcmp(e->text, text, length))) return e;
    }
}

static uint32_t hash_of(const char *text, size_t length) {
    return (uint32_t)mt_hash64(text, length, 0);
}

int32_t mt_vocabulary_find(const struct mt_vocabulary *v, const char *text, size_t length) {
    if (!v->capacity) return -1;
    const struct mt_vocabulary_entry *e = find(v, text, length, hash_of(text, length));
    return e->text ? e->value : -1;
}

static void grow(struct mt_vocabulary *v) {
    struct mt_vocabulary old = *v;
    v->capacity = old.capacity ? 2 * old.capacity : 256;
    v->entries = mt_calloc(v->capacity, sizeof *v->entries);
    for (size_t i = 0; i < old.capacity; i++) {
        const struct mt_vocabulary_entry *e = &old.entries[i];
        if (e->text) *find(v, e->text, e->length, e->hash) = *e;
    }
    free(old.entries);
}

void mt_vocabulary_set(struct mt_vocabulary *v, const char *text, size_t length, int32_t value) {
    if (2 * (v->count + 1) > v->capacity) grow(v);
    uint32_t hash = hash_of(text, length);
    struct mt_vocabulary_entry *e = find(v, text, length, hash);
    if (!e->text) *e = (struct mt_vocabulary_entry){text, (uint32_t)length, hash, 0}, v->count++;
    e->value = value;
}

void mt_vocabulary_free(struct mt_vocabulary *v) {
    free(v->entries);
    *v = (struct mt_vocabulary){0};
}
