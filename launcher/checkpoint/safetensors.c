/* Reading safetensors: everything in the file is checked before it is used. */
#include "launcher/checkpoint/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/number/hash.h"
#include "kernels/base/text/json.h"
#include "launcher/checkpoint/internal.h"

enum { MAX_HEADER_BYTES = 100 << 20, MAX_TENSORS = 1 << 20, PREFIX_BYTES = 8, PIECE_BYTES = 4 << 20 };

static const struct {
    const char *name;
    int size_bytes;
    bool readable;
    enum mt_type type;
} dtypes[] = {
    {"F64", 8, true, MT_F64}, {"F32", 4, true, MT_F32}, {"BF16", 2, true, MT_BF16}, {"I64", 8, false, 0},
    {"I32", 4, true, MT_I32}, {"F16", 2, true, MT_F16}, {"I16", 2, false, 0},       {"I8", 1, false, 0},
    {"U64", 8, false, 0},     {"U32", 4, false, 0},     {"U16", 2, false, 0},       {"U8", 1, false, 0},
    {"BOOL", 1, false, 0},    {"F8_E5M2", 1, false, 0}, {"F8_E4M3", 1, false, 0},
};
enum { NDTYPES = sizeof dtypes / sizeof *dtypes };

static enum mt_status parse_shape(struct mt_json entry, struct mt_saved *t, int element_bytes, struct mt_err *err) {
    struct mt_json shape;
    enum mt_status st;
    if ((st = mt_json_get(entry, "shape", &shape, err)) ||
        (st = mt_json_length(shape, MT_SAVED_MAX_DIMS, &t->ndims, err)) ||
        (st = mt_json_ints(entry, "shape", 0, INT64_MAX, t->ndims, t->dims, err)))
        return st;
    t->count = 1;
    for (int d = 0; d < t->ndims; d++)
        if (__builtin_mul_overflow(t->count, t->dims[d], &t->count))
            return mt_json_fail(shape, err, "more elements than a file can hold");
    if (__builtin_mul_overflow(t->count, element_bytes, &t->size_bytes))
        return mt_json_fail(shape, err, "more bytes than a file can hold");
    return MT_OK;
}

static enum mt_status parse_tensor(struct mt_json entry, int64_t data_at, int64_t data_bytes, struct mt_saved *t,
                                   struct mt_err *err) {
    static const char *const keys[] = {"dtype", "shape", "data_offsets", NULL};
    const char *dtype;
    int64_t offsets[2];
    enum mt_status st;
    if ((st = mt_json_only(entry, keys, err)) || (st = mt_json_string(entry, "dtype", &dtype, err))) return st;
    int d = 0;
    while (d < NDTYPES && strcmp(dtype, dtypes[d].name)) d++;
    if (d == NDTYPES) return mt_json_fail(entry, err, "dtype \"%.40s\" is not known", dtype);
    t->dtype = dtypes[d].name, t->readable = dtypes[d].readable, t->type = dtypes[d].type;
    if ((st = parse_shape(entry, t, dtypes[d].size_bytes, err)) ||
        (st = mt_json_ints(entry, "data_offsets", 0, INT64_MAX, 2, offsets, err)))
        return st;
    if (offsets[1] > data_bytes) {
        mt_json_fail(entry, err, "ends at byte %lld of the tensors, but the file has %lld: it is truncated or damaged",
                     (long long)offsets[1], (long long)data_bytes);
        return mt_err_hint(err, "download or copy it again");
    }
    if (offsets[1] - offsets[0] != t->size_bytes)
        return mt_json_fail(entry, err, "data_offsets [%lld, %lld] do not fit its %lld bytes", (long long)offsets[0],
                            (long long)offsets[1], (long long)t->size_bytes);
    t->begin = data_at + offsets[0];
    return MT_OK;
}

static int by_begin(const void *left, const void *right) {
    const struct mt_saved *a = left, *b = right;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    return (a->size_bytes > b->size_bytes) - (a->size_bytes < b->size_bytes);
}

/* Tensors must fill the data without gaps or overlaps. */
static enum mt_status check_layout(const char *name, struct mt_safetensors *f, int64_t data_at, int64_t file_bytes,
                                   struct mt_err *err) {
    if (f->ntensors) qsort(f->tensors, (size_t)f->ntensors, sizeof *f->tensors, by_begin);
    int64_t at = data_at;
    for (int i = 0; i < f->ntensors; i++) {
        const struct mt_saved *t = &f->tensors[i];
        if (t->begin != at)
            return mt_fail(err, MT_EINPUT, "%s: tensor %s %s the tensor before it", name, t->name,
                           t->begin < at ? "overlaps" : "leaves a gap after");
        at += t->size_bytes;
    }
    if (at != file_bytes)
        return mt_fail(err, MT_EINPUT,
                       "%s: tensors end at byte %lld, but the file has %lld: it is truncated or damaged", name,
                       (long long)at, (long long)file_bytes);
    return MT_OK;
}

static enum mt_status parse_notes(struct mt_json map, struct mt_safetensors *f, struct mt_err *err) {
    int count;
    enum mt_status st = mt_json_members(map, MAX_TENSORS + 64, &count, err);
    if (st) return st;
    f->notes = mt_new(&f->arena, struct mt_saved_note, count);
    for (int i = 0; i < count; i++) {
        struct mt_json value;
        const char *key, *text;
        if ((st = mt_json_member(map, i, &key, &value, err)) || (st = mt_json_as_string(value, &text, err))) return st;
        f->notes[f->nnotes++] =
            (struct mt_saved_note){mt_arena_strdup(&f->arena, key), mt_arena_strdup(&f->arena, text)};
    }
    return MT_OK;
}

static int by_key(const void *left, const void *right) {
    const struct mt_saved_note *a = left, *b = right;
    return strcmp(a->key, b->key);
}

static enum mt_status parse_document(const char *name, struct mt_json root, int64_t data_at, int64_t file_bytes,
                                     struct mt_safetensors *f, struct mt_err *err) {
    int members;
    enum mt_status st = mt_json_members(root, MAX_TENSORS, &members, err);
    if (st) return st;
    f->tensors = mt_new(&f->arena, struct mt_saved, members);
    for (int i = 0; i < members; i++) {
        struct mt_json entry;
        const char *key;
        if ((st = mt_json_member(root, i, &key, &entry, err))) return st;
        if (!strcmp(key, "__metadata__")) {
            if ((st = parse_notes(entry, f, err))) return st;
            continue;
        }
        struct mt_saved *t = &f->tensors[f->ntensors];
        if ((st = parse_tensor(entry, data_at, file_bytes - data_at, t, err))) return st;
        t->name = mt_arena_strdup(&f->arena, key);
        f->ntensors++;
    }
    if ((st = check_layout(name, f, data_at, file_bytes, err))) return st;
    if (f->nnotes) qsort(f->notes, (size_t)f->nnotes, sizeof *f->notes, by_key);
    for (int i = 0; i < f->ntensors; i++) {
        char *key = mt_arena_printf(&f->arena, MT_CHECKSUM_PREFIX "%s", f->tensors[i].name);
        f->tensors[i].checksum = mt_safetensors_note(f, key);
    }
    return MT_OK;
}

enum mt_status mt_safetensors_parse(const char *name, const void *head, size_t head_bytes, int64_t file_bytes,
                                    struct mt_safetensors *f, struct mt_err *err) {
    *f = (struct mt_safetensors){.fd = -1};
    uint64_t length = 0;
    if (head_bytes < PREFIX_BYTES || file_bytes < PREFIX_BYTES)
        return mt_fail(err, MT_EINPUT, "%s: no safetensors file: it has %lld bytes", name, (long long)file_bytes);
    memcpy(&length, head, PREFIX_BYTES);
    if (length > MAX_HEADER_BYTES || (int64_t)length > file_bytes - PREFIX_BYTES ||
        length > head_bytes - PREFIX_BYTES) {
        mt_fail(err, MT_EINPUT, "%s: no safetensors file: a header of %llu bytes in a file of %lld", name,
                (unsigned long long)length, (long long)file_bytes);
        if (*(const char *)head != '{') return err->status;
        mt_fail(err, MT_EINPUT, "%s: no safetensors file, but JSON", name);
        return mt_err_hint(err,
                           "weights and checkpoints end in .safetensors; a run's folder stands for its newest one");
    }
    const char *text = (const char *)head + PREFIX_BYTES;
    enum mt_status st = mt_header_checksum_verify(name, head, PREFIX_BYTES + (size_t)length, &f->checked, err);
    if (st) return st;
    if (!length || *text != '{') return mt_fail(err, MT_EINPUT, "%s: the header is not a JSON object", name);
    struct mt_json_doc doc;
    if ((st = mt_json_parse(name, text, (size_t)length, &doc, err))) return st;
    st = parse_document(name, doc.root, PREFIX_BYTES + (int64_t)length, file_bytes, f, err);
    mt_json_release(&doc);
    return st;
}

static enum mt_status read_exactly(const char *path, int fd, void *to, int64_t size_bytes, int64_t at,
                                   struct mt_err *err) {
    for (int64_t done = 0; done < size_bytes;) {
        ssize_t n = pread(fd, (char *)to + done, (size_t)(size_bytes - done), at + done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return mt_fail_errno(err, "%s: reading at byte %lld", path, (long long)(at + done));
        if (!n) return mt_fail(err, MT_EINPUT, "%s: ends at byte %lld, in mid-tensor", path, (long long)(at + done));
        done += n;
    }
    return MT_OK;
}

static enum mt_status open_header(const char *path, struct mt_safetensors *f, struct mt_err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is refused, not waited for */
    if (fd < 0) {
        mt_fail_errno(err, "%s", path);
        return err->status = errno == ENOENT || errno == EACCES ? MT_EINPUT : MT_ESYSTEM;
    }
    struct stat about;
    enum mt_status st = MT_OK;
    uint64_t length = 0;
    char *head = NULL;
    if (fstat(fd, &about))
        st = mt_fail_errno(err, "%s", path);
    else if (!S_ISREG(about.st_mode))
        st = mt_fail(err, MT_EINPUT, "%s: not a regular file", path);
    int64_t prefix = st || about.st_size < PREFIX_BYTES ? 0 : PREFIX_BYTES;
    if (!st) st = read_exactly(path, fd, &length, prefix, 0, err);
    /* The parser refuses an impossible length, of which nothing is read. */
    int64_t take = length <= MAX_HEADER_BYTES && (int64_t)length <= about.st_size - prefix ? (int64_t)length : 0;
    if (!st) {
        head = mt_malloc((size_t)(prefix + take));
        st = read_exactly(path, fd, head, prefix + take, 0, err);
    }
    if (!st) st = mt_safetensors_parse(path, head, (size_t)(prefix + take), about.st_size, f, err);
    free(head);
    f->fd = fd;
    return st;
}

enum mt_status mt_safetensors_open(const char *path, struct mt_safetensors **file, struct mt_err *err) {
    struct mt_safetensors *f = mt_calloc(1, sizeof *f);
    f->fd = -1;
    enum mt_status st = open_header(path, f, err);
    if (st) {
        mt_safetensors_close(f);
        return st;
    }
    f->path = mt_arena_strdup(&f->arena, path);
    *file = f;
    return MT_OK;
}

void mt_safetensors_close(struct mt_safetensors *file) {
    if (!file) return;
    for (int i = 0; i < file->nshards; i++) mt_safetensors_close(file->shards[i]);
    if (file->fd >= 0) close(file->fd);
    mt_arena_release(&file->arena);
    free(file);
}

const struct mt_saved *mt_safetensors_find(const struct mt_safetensors *file, const char *name) {
    for (int i = 0; i < file->ntensors; i++)
        if (!strcmp(file->tensors[i].name, name)) return &file->tensors[i];
    return NULL;
}

const char *mt_safetensors_note(const struct mt_safetensors *file, const char *key) {
    struct mt_saved_note wanted = {key, NULL}, *found = NULL;
    if (file->nnotes) found = bsearch(&wanted, file->notes, (size_t)file->nnotes, sizeof wanted, by_key);
    return found ? found->value : NULL;
}

static const struct mt_safetensors *shard_of(const struct mt_safetensors *file, const struct mt_saved *tensor) {
    return file->nshards ? file->shards[tensor->shard] : file;
}

const char *mt_safetensors_path_of(const struct mt_safetensors *file, const struct mt_saved *tensor) {
    return shard_of(file, tensor)->path;
}

enum mt_status mt_safetensors_read(const struct mt_safetensors *file, const struct mt_saved *tensor, int64_t at,
                                   int64_t size_bytes, void *to, struct mt_err *err) {
    const struct mt_safetensors *f = shard_of(file, tensor);
    return read_exactly(f->path, f->fd, to, size_bytes, tensor->begin + at, err);
}

/* The whole tensor, converted piece by piece. */
static enum mt_status read_converted(const struct mt_safetensors *file, const struct mt_saved *t, enum mt_type type,
                                     void *to, struct mt_err *err) {
    char *piece = mt_malloc(PIECE_BYTES);
    enum mt_status st = MT_OK;
    for (int64_t at = 0; !st && at < t->size_bytes; at += PIECE_BYTES) {
        int64_t n = t->size_bytes - at < PIECE_BYTES ? t->size_bytes - at : PIECE_BYTES, e = mt_type_size(t->type);
        st = mt_safetensors_read(file, t, at, n, piece, err);
        if (!st) mt_type_convert(type, (char *)to + at / e * mt_type_size(type), t->type, piece, n / e);
    }
    free(piece);
    return st;
}

enum mt_status mt_safetensors_read_as(const struct mt_safetensors *file, const struct mt_saved *t, enum mt_type type,
                                      void *to, struct mt_err *err) {
    const char *path = mt_safetensors_path_of(file, t);
    if (!t->readable || (t->type == MT_I32) != (type == MT_I32)) {
        mt_fail(err, MT_EINPUT, "%s: tensor %s has dtype %s, which cannot become %s", path, t->name, t->dtype,
                mt_type_name(type));
        return mt_err_hint(err, "weights may be F64, F32, F16 or BF16; of fewer bits, they have scales that their "
                                "own library applies: let it save them in one of these");
    }
    enum mt_status st = t->type == type ? mt_safetensors_read(file, t, 0, t->size_bytes, to, err)
                                        : read_converted(file, t, type, to, err);
    int64_t found = st ? -1 : mt_type_not_finite(type, to, t->count);
    if (found < 0) return st;
    mt_fail(err, MT_EINPUT, "%s: tensor %s: element %lld is %g as %s", path, t->name, (long long)found,
            mt_type_load(type, to, found), mt_type_name(type));
    return mt_err_hint(err, "a model with such a weight computes nothing else: use an earlier checkpoint");
}

static enum mt_status verify_tensor(const struct mt_safetensors *file, const struct mt_saved *t, void *piece,
                                    struct mt_err *err) {
    if (!t->checksum) return mt_fail(err, MT_EINPUT, "%s: tensor %s has no checksum", file->path, t->name);
    struct mt_hasher *hasher = mt_hasher_new();
    enum mt_status st = MT_OK;
    for (int64_t at = 0; !st && at < t->size_bytes; at += PIECE_BYTES) {
        int64_t n = t->size_bytes - at < PIECE_BYTES ? t->size_bytes - at : PIECE_BYTES;
        st = mt_safetensors_read(file, t, at, n, piece, err);
        if (!st) mt_hasher_add(hasher, piece, (size_t)n);
    }
    char digits[MT_CHECKSUM_DIGITS + 1];
    mt_checksum_text(mt_hasher_end(hasher), digits);
    if (!st && strcmp(digits, t->checksum))
        st = mt_fail(err, MT_EINPUT, "%s: tensor %s is damaged: its checksum is %s, not %.40s", file->path, t->name,
                     digits, t->checksum);
    return st;
}

/* Any key with the prefix: damage to one key does not make it a file without checksums. */
bool mt_safetensors_carries_checksums(const struct mt_safetensors *file) {
    for (int i = 0; i < file->nshards; i++)
        if (mt_safetensors_carries_checksums(file->shards[i])) return true;
    for (int i = 0; i < file->nnotes; i++)
        if (!strncmp(file->notes[i].key, MT_CHECKSUM_PREFIX, strlen(MT_CHECKSUM_PREFIX))) return true;
    return file->checked;
}

/* Of shards, those that carry checksums. */
static enum mt_status verify_shards(const struct mt_safetensors *file, struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int i = 0; i < file->nshards && !st; i++)
        if (mt_safetensors_carries_checksums(file->shards[i])) st = mt_safetensors_verify(file->shards[i], err);
    return st;
}

enum mt_status mt_safetensors_verify(const struct mt_safetensors *file, struct mt_err *err) {
    if (file->nshards) return verify_shards(file, err);
    if (!file->checked) return mt_fail(err, MT_EINPUT, "%s: the header has no checksum", file->path);
    char *piece = mt_malloc(PIECE_BYTES);
    enum mt_status st = MT_OK;
    for (int i = 0; i < file->ntensors && !st; i++) st = verify_tensor(file, &file->tensors[i], piece, err);
    free(piece);
    return st;
}
