/* Content hashes (XXH3): 64 bits for parameters and data, 128 bits as text for documents. */
#ifndef MT_KERNELS_BASE_NUMBER_HASH_H
#define MT_KERNELS_BASE_NUMBER_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t mt_hash64(const void *data, size_t size_bytes, uint64_t seed);

/* 32 lower-case hex digits and a NUL. */
void mt_hash_text(const void *data, size_t size_bytes, char out[33]);

/* A hash of data that comes in pieces. */
struct mt_hasher;
struct mt_hasher *mt_hasher_new(void);
void mt_hasher_add(struct mt_hasher *hasher, const void *data, size_t size_bytes);
uint64_t mt_hasher_end(struct mt_hasher *hasher); /* the 64-bit hash; frees the hasher */

#endif
