/* A file, mapped and opened by its format. */
#include "launcher/data/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/data/internal.h"

static void drop(struct mt_data_file *file) {
    if (file->mapped)
        munmap(file->content, file->size_bytes);
    else
        free(file->content);
}

void mt_data_file_close(struct mt_data_file *file) {
    drop(file);
    *file = (struct mt_data_file){0};
}

static enum mt_status map(const char *path, struct mt_data_file *file, struct mt_err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* refuse a pipe instead of waiting for it */
    if (fd < 0) {
        mt_fail_errno(err, "%s", path);
        return err->status = errno == ENOENT || errno == EACCES ? MT_EINPUT : MT_ESYSTEM;
    }
    enum mt_status st = MT_OK;
    struct stat about;
    if (fstat(fd, &about)) {
        st = mt_fail_errno(err, "%s", path);
    } else if (S_ISDIR(about.st_mode)) {
        mt_fail(err, MT_EINPUT, "%s: is a folder, not a regular file", path);
        st = mt_err_hint(err, "name its files by a pattern in quotes: \"%.200s/*\"", path);
    } else if (!S_ISREG(about.st_mode)) {
        st = mt_fail(err, MT_EINPUT, "%s: not a regular file", path);
    } else if (!about.st_size) {
        st = mt_fail(err, MT_EINPUT, "%s: empty", path);
    } else {
        file->size_bytes = (size_t)about.st_size;
        void *content = mmap(NULL, file->size_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (content == MAP_FAILED)
            st = mt_fail_errno(err, "%s: mapping %zu bytes", path, file->size_bytes);
        else
            file->content = content, file->mapped = true;
    }
    close(fd);
    return st;
}

static bool ends_in(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end);
}

static enum mt_status format_by_name(const char *name, const struct mt_data_file *file, enum mt_data_format *format,
                                     struct mt_err *err) {
    int32_t magic = 0;
    memcpy(&magic, file->content, file->size_bytes < sizeof magic ? file->size_bytes : sizeof magic);
    *format = MT_DATA_text;
    if (magic == MT_DATA_LLMC_MAGIC || magic == MT_DATA_LLMC_WIDE_MAGIC)
        *format = MT_DATA_llmc;
    else if (ends_in(name, ".bin"))
        *format = MT_DATA_uint16;
    else if (ends_in(name, ".jsonl") || ends_in(name, ".ndjson"))
        *format = MT_DATA_jsonl;
    else if (ends_in(name, ".json")) {
        mt_fail(err, MT_EINPUT, "%s: may be one JSON document, or one a line", name);
        return mt_err_hint(err,
                           "say which: jsonl:%.200s if each line is an object with a text, text:%.200s to learn it "
                           "as it is",
                           name, name);
    }
    return MT_OK;
}

enum mt_status mt_data_file_read(const char *name, enum mt_data_format format, struct mt_documents *documents,
                                 bool ends, struct mt_data_file *file, struct mt_err *err) {
    static enum mt_status (*const open_as[])(const struct data_opening *, struct mt_data_file *, struct mt_err *) = {
#define FORMAT(format_name, what) mt_data_open_##format_name,
#include "launcher/data/formats.def"
#undef FORMAT
    };
    file->bytes = NULL, file->words = NULL, file->longs = NULL, file->count = file->skipped = 0;
    enum mt_status st = format == MT_DATA_BY_NAME ? format_by_name(name, file, &format, err) : MT_OK;
    const struct data_opening opening = {name, documents, ends};
    if (st || (st = open_as[format](&opening, file, err))) return st;
    file->format = format;
    return MT_OK;
}

enum mt_status mt_data_file_open(const char *path, enum mt_data_format format, struct mt_documents *documents,
                                 bool ends, struct mt_data_file *file, struct mt_err *err) {
    *file = (struct mt_data_file){0};
    enum mt_status st = map(path, file, err);
    if (!st) st = mt_data_file_read(path, format, documents, ends, file, err);
    if (st) mt_data_file_close(file);
    return st;
}

/* In place, since tokens only get shorter. */
static void narrow(struct mt_data_file *file, int32_t *tokens, int64_t count) {
    int32_t most = 0;
    for (int64_t i = 0; i < count; i++) most = tokens[i] > most ? tokens[i] : most;
    size_t width = most <= UINT8_MAX ? 1 : most <= UINT16_MAX ? sizeof(uint16_t) : sizeof(uint32_t);
    uint8_t *to = (uint8_t *)tokens;
    for (int64_t i = 0; i < count && width < sizeof(uint32_t); i++, to += width)
        memcpy(to, &(uint16_t){(uint16_t)tokens[i]}, width); /* little-endian, as token files are */
    void *content = mt_realloc(tokens, (size_t)count * width);
    int64_t skipped = file->skipped;
    *file = (struct mt_data_file){
        .content = content, .size_bytes = (size_t)count * width, .count = count, .skipped = skipped};
    if (width == 1)
        file->bytes = content;
    else if (width == sizeof(uint16_t))
        file->words = content;
    else
        file->longs = content;
}

void mt_data_replace(struct mt_data_file *file, struct mt_tokens *tokens) {
    drop(file);
    narrow(file, tokens->ids, tokens->count);
}

/* The first token that is not below `vocab`, or -1. */
static int64_t find_invalid(const struct mt_data_file *file, int64_t vocab) {
    enum { BLOCK = 1 << 16 };
    for (int64_t from = 0; from < file->count; from += BLOCK) {
        int64_t to = from + BLOCK < file->count ? from + BLOCK : file->count, most = 0;
        for (int64_t i = from; i < to; i++) {
            int64_t t = mt_data_token(file, i);
            most = t > most ? t : most;
        }
        if (most < vocab) continue;
        while (mt_data_token(file, from) < vocab) from++;
        return from;
    }
    return -1;
}

enum mt_status mt_data_file_check(const char *path, const struct mt_data_file *file, int64_t vocab,
                                  struct mt_err *err) {
    if (vocab > (file->bytes ? UINT8_MAX : file->words ? UINT16_MAX : (int64_t)UINT32_MAX)) return MT_OK;
    int64_t at = find_invalid(file, vocab);
    if (at < 0) return MT_OK;
    mt_fail(err, MT_EINPUT, "%s: token %lld is %lld, but the model's vocabulary has %lld", path, (long long)at,
            (long long)mt_data_token(file, at), (long long)vocab);
    return mt_err_hint(err, file->bytes ? "text is read as bytes: use a model with vocab=256"
                                        : "the file was made with another tokenizer, or has another format");
}
