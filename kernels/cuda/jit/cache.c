/* Compiled kernels on disk: a header with length and checksum, then the code. */
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/arena.h"
#include "kernels/base/cache.h"
#include "kernels/base/file.h"
#include "kernels/base/number/hash.h"
#include "kernels/base/log.h"
#include "kernels/cuda/jit/jit.h"

enum { MOST_BYTES = 256 << 20 };

struct entry {
    char magic[8];
    uint64_t size_bytes, hash;
};
static const char magic[8] = "mtcubin";

static bool entry_path(const char *source, const char *hash, char out[PATH_MAX]) {
    char place[PATH_MAX];
    return mt_cache_folder(place) && snprintf(out, PATH_MAX, "%s/%s-%s.cubin", place, source, hash) < PATH_MAX;
}

bool cuda_cache_read(const char *source, const char *hash, char **image, size_t *size_bytes) {
    char path[PATH_MAX], *data;
    size_t length;
    struct mt_err err = MT_ERR_INIT;
    if (!entry_path(source, hash, path) || access(path, F_OK)) return false;
    if (mt_file_read(path, MOST_BYTES, &data, &length, &err)) {
        mt_log(MT_LOG_WARN, "the compiled kernel in the cache is ignored: %s", err.text);
        return false;
    }
    struct entry head;
    if (length >= sizeof head) memcpy(&head, data, sizeof head);
    if (length < sizeof head || memcmp(head.magic, magic, sizeof magic) || head.size_bytes != length - sizeof head ||
        head.hash != mt_hash64(data + sizeof head, length - sizeof head, 0)) {
        mt_log(MT_LOG_WARN, "%s: is damaged; the kernel is compiled again", path);
        free(data);
        return false;
    }
    *size_bytes = (size_t)head.size_bytes;
    *image = data;
    memmove(data, data + sizeof head, *size_bytes);
    return true;
}

void cuda_cache_write(const char *source, const char *hash, const char *image, size_t size_bytes) {
    static bool warned;
    char path[PATH_MAX];
    struct mt_err err = MT_ERR_INIT;
    if (size_bytes > MOST_BYTES - sizeof(struct entry)) return;
    if (!entry_path(source, hash, path)) {
        if (!warned)
            mt_log(MT_LOG_WARN, "compiled kernels are not kept: there is no cache folder ($MOTLEY_CACHE names one)");
        warned = true;
        return;
    }
    struct entry head = {.size_bytes = size_bytes, .hash = mt_hash64(image, size_bytes, 0)};
    memcpy(head.magic, magic, sizeof magic);
    char *data = mt_malloc(sizeof head + size_bytes);
    memcpy(data, &head, sizeof head);
    memcpy(data + sizeof head, image, size_bytes);
    if (mt_file_replace(path, data, sizeof head + size_bytes, &err) && !warned) {
        mt_log(MT_LOG_WARN, "compiled kernels are not kept: %s", err.text);
        warned = true;
    }
    free(data);
}
