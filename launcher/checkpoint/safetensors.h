/* Safetensors files, read with strict checks and written with checksums over every byte.
 *
 * The format: 8 bytes, the header's length; a JSON header (name -> dtype, shape, data_offsets; and __metadata__, a map
 * of strings); then the tensors, dense, little-endian, back to back.
 *
 *     if ((st = mt_safetensors_open(path, &file, err))) return st;
 *     const struct mt_saved *w = mt_safetensors_find(file, "wte.weight");
 *     ... mt_safetensors_read(file, w, 0, w->size_bytes, buffer, err) ...
 *     mt_safetensors_close(file);
 *
 * Files written here carry XXH3 checksums in __metadata__: "xxh3.header" of the length and the header (computed with
 * its own digits as zeros), and "xxh3.NAME" of each tensor. Together they cover every byte. */
#ifndef MT_LAUNCHER_CHECKPOINT_SAFETENSORS_H
#define MT_LAUNCHER_CHECKPOINT_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/arena.h"
#include "kernels/base/err.h"
#include "kernels/base/number/type.h"

#define MT_SAVED_MAX_DIMS 8

struct mt_saved {
    const char *name;
    const char *dtype; /* "F32" */
    bool readable;     /* as `type`; tensors of other dtypes are only checked */
    enum mt_type type;
    int ndims;
    int64_t dims[MT_SAVED_MAX_DIMS];
    int64_t count, size_bytes;
    int64_t begin;        /* in the file */
    const char *checksum; /* 16 hex digits, or null */
    int shard;            /* of a file in shards: the one that it is in */
};

struct mt_saved_note { /* of __metadata__ */
    const char *key, *value;
};

struct mt_safetensors {
    struct mt_arena arena;
    const char *path;
    int fd;
    int ntensors, nnotes;
    struct mt_saved *tensors; /* in the file's order */
    struct mt_saved_note *notes;
    bool checked; /* the header has a checksum, and it is right */
    /* weights.h: of several files together; the tensors' texts live in them */
    int nshards; /* 0: this is one file */
    struct mt_safetensors **shards;
};

/* The path of the file that a tensor is in. */
const char *mt_safetensors_path_of(const struct mt_safetensors *file, const struct mt_saved *tensor);

/* Open and check the header: MT_EINPUT if it is no such file or inconsistent. Tensors are not read. */
enum mt_status mt_safetensors_open(const char *path, struct mt_safetensors **file, struct mt_err *err);
void mt_safetensors_close(struct mt_safetensors *file);

const struct mt_saved *mt_safetensors_find(const struct mt_safetensors *file, const char *name); /* or null */
const char *mt_safetensors_note(const struct mt_safetensors *file, const char *key);             /* or null */

/* Bytes [at, +size_bytes) of a tensor. */
enum mt_status mt_safetensors_read(const struct mt_safetensors *file, const struct mt_saved *tensor, int64_t at,
                                   int64_t size_bytes, void *to, struct mt_err *err);
/* The whole tensor, converted to `type`; to[tensor->count]. MT_EINPUT if its dtype is not readable, or
 * an element is not finite as `type`. */
enum mt_status mt_safetensors_read_as(const struct mt_safetensors *file, const struct mt_saved *tensor,
                                      enum mt_type type, void *to, struct mt_err *err);

/* Whether the file carries any checksum, and so must carry them all. */
bool mt_safetensors_carries_checksums(const struct mt_safetensors *file);
/* Compare every checksum; MT_EINPUT where one is missing or wrong, naming the tensor. */
enum mt_status mt_safetensors_verify(const struct mt_safetensors *file, struct mt_err *err);

/* Parse a header: `head` is the first bytes (length and header) of a file of file_bytes. For mt_safetensors_open and
 * the fuzzer. Fills everything but path and fd. The caller releases file->arena in any case. */
enum mt_status mt_safetensors_parse(const char *name, const void *head, size_t head_bytes, int64_t file_bytes,
                                    struct mt_safetensors *file, struct mt_err *err);

/* Writing: tensors are declared first, so that the header has its final size; their bytes follow in that order, in
 * pieces of any size. The file appears at `path` only on commit: it is written without a name (mt_file_unnamed), so
 * that nothing is left of it when the process is killed, else under a temporary one; fsynced, named, and the folder is
 * fsynced. Names and notes are copied. */
struct mt_safetensors_writer;
enum mt_status mt_safetensors_create(const char *path, const struct mt_saved *tensors, int ntensors,
                                     const struct mt_saved_note *notes, int nnotes,
                                     struct mt_safetensors_writer **writer, struct mt_err *err);
enum mt_status mt_safetensors_append(struct mt_safetensors_writer *writer, const void *data, size_t size_bytes,
                                     struct mt_err *err);
/* Change the value of a note, which has the same length. */
void mt_safetensors_renote(struct mt_safetensors_writer *writer, const char *key, const char *value);
/* Both free the writer. A failed commit leaves no file behind. `digits` may be null: the header's checksum, 16 hex
 * digits, which covers all checksums. */
enum mt_status mt_safetensors_commit(struct mt_safetensors_writer *writer, char digits[17], struct mt_err *err);
void mt_safetensors_abort(struct mt_safetensors_writer *writer);

#define MT_SAFETENSORS_TEMP ".part" /* suffix of the temporary name */

#endif
