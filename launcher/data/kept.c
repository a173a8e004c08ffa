/* Kept tokens: a header with width, count and checksum, then the tokens. */
#include "launcher/data/kept.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/cache.h"
#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/number/hash.h"
#include "launcher/data/internal.h"

struct head {
    char magic[8];
    int64_t width_bytes, count;
    uint64_t hash;
    int64_t skipped; /* lines */
    char unused[24];
};
static const char magic[8] = "mttokens";

static bool fits(const struct head *head, size_t size_bytes) {
    size_t tokens_bytes = size_bytes - sizeof *head, width = (size_t)head->width_bytes;
    return !memcmp(head->magic, magic, sizeof magic) && (width == 1 || width == 2 || width == 4) &&
           tokens_bytes % width == 0 && head->count > 0 && (size_t)head->count == tokens_bytes / width &&
           mt_hash64(head + 1, tokens_bytes, 0) == head->hash;
}

static void set_tokens(struct mt_data_file *file, const void *tokens, int64_t width, int64_t count) {
    file->bytes = width == 1 ? tokens : NULL;
    file->words = width == 2 ? tokens : NULL;
    file->longs = width == 4 ? tokens : NULL;
    file->count = count;
}

/* False if they are not there, or damaged, which is said. */
static bool load(const char *path, struct mt_data_file *file) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    if (fd < 0) return false;
    size_t size = !fstat(fd, &about) && about.st_size > (off_t)sizeof(struct head) ? (size_t)about.st_size : 0;
    void *map = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (map == MAP_FAILED || !fits(map, size)) {
        if (map != MAP_FAILED) munmap(map, size);
        mt_log(MT_LOG_WARN, "%s: is damaged; the tokens are made again", path);
        return false;
    }
    const struct head *head = map;
    mt_data_file_close(file);
    *file = (struct mt_data_file){.content = map, .size_bytes = size, .mapped = true, .skipped = head->skipped};
    set_tokens(file, head + 1, head->width_bytes, head->count);
    return true;
}

static void store(const char *path, const struct mt_data_file *file) {
    struct mt_err err = MT_ERR_INIT;
    int64_t width = file->bytes ? 1 : file->words ? 2 : 4;
    struct head head = {.width_bytes = width,
                        .count = file->count,
                        .hash = mt_hash64(file->content, file->size_bytes, 0),
                        .skipped = file->skipped};
    memcpy(head.magic, magic, sizeof magic);
    char *all = mt_malloc(sizeof head + file->size_bytes);
    memcpy(all, &head, sizeof head);
    memcpy(all + sizeof head, file->content, file->size_bytes);
    if (mt_file_replace(path, all, sizeof head + file->size_bytes, &err))
        mt_log(MT_LOG_WARN, "the tokens are not kept: %s", err.text);
    free(all);
}

static enum mt_status make_now(mt_make_tokens *make, void *context, struct mt_data_file *file, struct mt_err *err) {
    struct mt_tokens tokens = {0};
    enum mt_status st = make(context, &tokens, err);
    if (st)
        free(tokens.ids);
    else
        mt_data_replace(file, &tokens);
    return st;
}

enum mt_status mt_kept_tokens(const char *key, mt_make_tokens *make, void *context, struct mt_data_file *file,
                              struct mt_err *err) {
    char folder[PATH_MAX];
    struct mt_arena arena = MT_ARENA_INIT;
    enum mt_status st = MT_OK;
    if (!mt_cache_folder(folder)) return make_now(make, context, file, err);
    const char *path = mt_arena_printf(&arena, "%s/tokens-%s.bin", folder, key);
    if (!access(path, F_OK) && load(path, file)) goto out;
    int lock = open(mt_arena_printf(&arena, "%s/tokens-%s.lock", folder, key), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    bool alone = lock >= 0 && !flock(lock, LOCK_EX); /* the others wait here */
    if (!(alone && !access(path, F_OK) && load(path, file)) && !(st = make_now(make, context, file, err)))
        store(path, file);
    if (lock >= 0) close(lock);
out:
    mt_arena_release(&arena);
    return st;
}

enum mt_status mt_data_make(const struct data_opening *opening, const char *how, mt_make_tokens *make, void *context,
                            struct mt_data_file *file, struct mt_err *err) {
    enum { HOW_TOKENS_ARE_MADE = 2 }; /* changes with every change of what texts become */
    struct mt_documents *d = opening->documents;
    if (!d->reading->tokenizer) return make_now(make, context, file, err); /* bytes are as soon made as read */
    struct mt_arena arena = MT_ARENA_INIT;
    char content[33], key[33];
    mt_hash_text(file->content, file->size_bytes, content);
    const char *all = mt_arena_printf(&arena, "%d %s %s %s", HOW_TOKENS_ARE_MADE, content, d->hash, how);
    mt_hash_text(all, strlen(all), key);
    mt_arena_release(&arena);
    return mt_kept_tokens(key, make, context, file, err);
}
