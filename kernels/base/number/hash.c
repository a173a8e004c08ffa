/* XXH3 from the xxhash library, inlined: hosts need no xxhash. */
#include "kernels/base/number/hash.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#define XXH_INLINE_ALL
#include <xxhash.h>
#pragma GCC diagnostic pop

#include <stdio.h>

#include "kernels/base/arena.h"

struct mt_hasher {
    XXH3_state_t *state;
};

uint64_t mt_hash64(const void *data, size_t size_bytes, uint64_t seed) {
    return XXH3_64bits_withSeed(data, size_bytes, seed);
}

void mt_hash_text(const void *data, size_t size_bytes, char out[33]) {
    XXH128_hash_t h = XXH3_128bits(data, size_bytes);
    snprintf(out, 33, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
}

struct mt_hasher *mt_hasher_new(void) {
    struct mt_hasher *h = mt_malloc(sizeof *h);
    h->state = XXH3_createState();
    XXH3_64bits_reset(h->state);
    return h;
}

void mt_hasher_add(struct mt_hasher *hasher, const void *data, size_t size_bytes) {
    XXH3_64bits_update(hasher->state, data, size_bytes);
}

uint64_t mt_hasher_end(struct mt_hasher *hasher) {
    uint64_t h = XXH3_64bits_digest(hasher->state);
    XXH3_freeState(hasher->state);
    free(hasher);
    return h;
}
