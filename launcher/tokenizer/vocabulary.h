/* Texts to numbers: a hash table with open addressing, of texts that live elsewhere. */
#ifndef MT_LAUNCHER_TOKENIZER_VOCABULARY_H
#define MT_LAUNCHER_TOKENIZER_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

struct mt_vocabulary {
    struct mt_vocabulary_entry {
        const char *text; /* null: free */
        uint32_t length, hash;
        int32_t value;
    } * entries;
    size_t count, capacity; /* capacity: a power of two, or 0 */
};

/* The value of a text, or -1. */
int32_t mt_vocabulary_find(const struct mt_vocabulary *vocabulary, const char *text, size_t length);
/* Add a text, or give it another value. */
void mt_vocabulary_set(struct mt_vocabulary *vocabulary, const char *text, size_t length, int32_t value);
void mt_vocabulary_free(struct mt_vocabulary *vocabulary);

#endif
