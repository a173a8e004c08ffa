/* Files of tokens, and the order in which training reads them. */
#include "launcher/data/data.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/number/hash.h"
#include "kernels/base/number/rng.h"

enum { BIN_MAGIC = 20240520, BIN_VERSION = 1, BIN_HEADER_INTS = 256 };

/* Random streams of an epoch; they do not collide with those of dropout and initialisation. */
#define STREAM_OFFSET UINT64_C(0x6461746100000000)
#define STREAM_ORDER UINT64_C(0x6f72646500000000)

static bool ends_in_bin(const char *name) {
    size_t n = strlen(name);
    return n >= 4 && !strcmp(name + n - 4, ".bin");
}

enum mt_status mt_data_parse(const char *name, const void *content, size_t size_bytes, struct mt_data_file *file,
                             struct mt_err *err) {
    const size_t header_bytes = BIN_HEADER_INTS * sizeof(int32_t);
    int32_t head[3] = {0, 0, 0};
    memcpy(head, content, size_bytes < sizeof head ? size_bytes : sizeof head);
    file->bytes = NULL, file->words = NULL, file->count = 0;
    if (size_bytes < sizeof head || head[0] != BIN_MAGIC) {
        if (ends_in_bin(name)) {
            mt_fail(err, MT_EINPUT, "%s: is not a token file: it starts with %d, not %d", name, head[0], BIN_MAGIC);
            return mt_err_hint(err, "llm.c's data scripts write token files; raw text must not be named .bin");
        }
        file->bytes = content, file->count = (int64_t)size_bytes;
        return MT_OK;
    }
    if (size_bytes < header_bytes)
        return mt_fail(err, MT_EINPUT, "%s: has %zu bytes, fewer than a token file's header of %zu", name, size_bytes,
                       header_bytes);
    if (head[1] != BIN_VERSION)
        return mt_fail(err, MT_EINPUT,
                       "%s: is a token file of version %d; only version %d (16-bit tokens) is supported", name, head[1],
                       BIN_VERSION);
    int64_t held = (int64_t)((size_bytes - header_bytes) / sizeof(uint16_t));
    if (head[2] < 0 || (size_bytes - header_bytes) % sizeof(uint16_t) || held != head[2])
        return mt_fail(err, MT_EINPUT, "%s: its header says %d tokens, but %zu bytes follow it", name, head[2],
                       size_bytes - header_bytes);
    file->words = (const uint16_t *)(const void *)((const uint8_t *)content + header_bytes);
    file->count = held;
    return MT_OK;
}

static void unmap(struct mt_data_file *file) {
    if (file->map) munmap(file->map, file->size_bytes);
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
    } else if (!S_ISREG(about.st_mode)) {
        st = mt_fail(err, MT_EINPUT, "%s: not a regular file", path);
    } else if (!about.st_size) {
        st = mt_fail(err, MT_EINPUT, "%s: empty", path);
    } else {
        file->size_bytes = (size_t)about.st_size;
        file->map = mmap(NULL, file->size_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (file->map == MAP_FAILED) {
            file->map = NULL;
            st = mt_fail_errno(err, "%s: mapping %zu bytes", path, file->size_bytes);
        }
    }
    close(fd);
    if (!st) st = mt_data_parse(path, file->map, file->size_bytes, file, err);
    if (st) unmap(file);
    return st;
}

static int32_t token(const struct mt_data_file *file, int64_t at) {
    return file->bytes ? file->bytes[at] : file->words[at];
}

/* The first token that is not below `vocab`, or -1. */
static int64_t find_invalid(const struct mt_data_file *file, int64_t vocab) {
    enum { BLOCK = 1 << 16 };
    for (int64_t from = 0; from < file->count; from += BLOCK) {
        int64_t to = from + BLOCK < file->count ? from + BLOCK : file->count;
        int32_t most = 0;
        for (int64_t i = from; i < to; i++) {
            int32_t t = token(file, i);
            most = t > most ? t : most;
        }
        if (most < vocab) continue;
        while (token(file, from) < vocab) from++;
        return from;
    }
    return -1;
}

static enum mt_status check_tokens(const char *path, const struct mt_data_file *file, int64_t vocab,
                                   struct mt_err *err) {
    if (vocab > (file->bytes ? UINT8_MAX : UINT16_MAX)) return MT_OK;
    int64_t at = find_invalid(file, vocab);
    if (at < 0) return MT_OK;
    mt_fail(err, MT_EINPUT, "%s: token %lld is %d, but the model's vocabulary has %lld", path, (long long)at,
            token(file, at), (long long)vocab);
    return mt_err_hint(err, file->bytes ? "text is read as bytes: use a model with vocab=256"
                                        : "the file was made with another tokenizer");
}

static enum mt_status divide(const struct mt_data_options *o, struct mt_data *d, struct mt_err *err) {
    if (o->val_path) {
        d->val = &d->val_file;
        d->val_start = 0, d->val_count = d->val_file.count;
        d->train_count = d->file.count;
    } else {
        d->val = &d->file;
        d->train_count = (int64_t)((double)d->file.count * (1 - o->val_fraction));
        d->val_start = d->train_count, d->val_count = d->file.count - d->train_count;
    }
    const char *val_path = o->val_path ? o->val_path : o->path;
    if (d->train_count < d->seq + 1) {
        mt_fail(err, MT_EINPUT, "%s: has %lld tokens for training, too few for one window of %lld", o->path,
                (long long)d->train_count, (long long)d->seq + 1);
        return mt_err_hint(err, "use a longer file, or plan with a shorter --seq");
    }
    if ((o->val_path || o->val_fraction > 0) && d->val_count < 2) {
        mt_fail(err, MT_EINPUT, "%s: has %lld tokens for validation, fewer than 2", val_path, (long long)d->val_count);
        return mt_err_hint(err, "raise --val-fraction, or set it to 0 for none");
    }
    d->windows = d->train_count / d->seq - 1;
    if (d->windows < 1) d->windows = 1;
    d->offsets = d->train_count - d->windows * d->seq;
    if (d->offsets > d->seq) d->offsets = d->seq;
    d->val_windows = d->val_count ? (d->val_count - 1 + d->seq - 1) / d->seq : 0;
    return MT_OK;
}

enum mt_status mt_data_open(const struct mt_data_options *o, struct mt_data *d, struct mt_err *err) {
    *d = (struct mt_data){.seq = o->seq, .seed = o->seed};
    if (!(o->val_fraction >= 0 && o->val_fraction < 1))
        return mt_fail(err, MT_EINPUT, "--val-fraction %g: not in [0, 1)", o->val_fraction);
    enum mt_status st = map(o->path, &d->file, err);
    if (!st && o->val_path) st = map(o->val_path, &d->val_file, err);
    if (!st) st = divide(o, d, err);
    if (!st) st = check_tokens(o->path, &d->file, o->vocab, err);
    if (!st && o->val_path) st = check_tokens(o->val_path, &d->val_file, o->vocab, err);
    if (st) {
        mt_data_close(d);
        return st;
    }
    d->hash = mt_hash64(d->file.map, d->file.size_bytes, (uint64_t)d->train_count);
    if (o->val_path) d->hash = mt_hash64(d->val_file.map, d->val_file.size_bytes, d->hash);
    return MT_OK;
}

void mt_data_close(struct mt_data *data) {
    unmap(&data->file);
    unmap(&data->val_file);
}

int64_t mt_data_position(const struct mt_data *d, int64_t sample) {
    uint64_t epoch = (uint64_t)(sample / d->windows), index = (uint64_t)(sample % d->windows);
    uint64_t offset = mt_random_below(d->seed, STREAM_OFFSET, epoch, (uint64_t)d->offsets);
    uint64_t window = mt_random_permute(d->seed, STREAM_ORDER + epoch, index, (uint64_t)d->windows);
    return (int64_t)offset + (int64_t)window * d->seq;
}

static void expand(const struct mt_data_file *file, int64_t at, int64_t count, int32_t *to) {
    for (int64_t i = 0; i < count; i++) to[i] = token(file, at + i);
}

void mt_data_train(const struct mt_data *d, int64_t sample, int32_t *tokens, int32_t *targets) {
    int64_t at = mt_data_position(d, sample);
    expand(&d->file, at, d->seq, tokens);
    expand(&d->file, at + 1, d->seq, targets);
}

void mt_data_val(const struct mt_data *d, int64_t window, int32_t *tokens, int32_t *targets) {
    int64_t first = window * d->seq, count = d->val_count - 1 - first;
    if (count > d->seq) count = d->seq;
    if (count < 0 || window >= d->val_windows) count = 0;
    expand(d->val, d->val_start + first, count, tokens);
    expand(d->val, d->val_start + first + 1, count, targets);
    for (int64_t i = count; i < d->seq; i++) tokens[i] = 0, targets[i] = -1;
}
