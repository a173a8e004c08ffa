/* Writing safetensors. The header is written twice: at the start, with zeros for the checksums, and at the end, when
 * they are known. Its size is the same, since checksums have a fixed width. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/number/hash.h"
#include "kernels/base/text/json.h"
#include "launcher/checkpoint/safetensors.h"
#include "launcher/checkpoint/internal.h"

struct mt_safetensors_writer {
    struct mt_arena arena;
    const char *path, *temp;
    int fd;
    bool unnamed; /* the file gets its name on commit; else it has the temporary one */
    int ntensors, nnotes;
    struct mt_saved *tensors;
    struct mt_saved_note *notes;
    char (*checksums)[MT_CHECKSUM_DIGITS + 1];
    size_t header_bytes; /* with the length before it */
    int current;         /* the tensor being written */
    int64_t current_done;
    struct mt_hasher *hasher;
};

static const char *dtype_of(enum mt_type type) {
    static const char *const names[MT_NTYPES] = {
        [MT_F64] = "F64", [MT_F32] = "F32", [MT_BF16] = "BF16", [MT_F16] = "F16", [MT_I32] = "I32"};
    return names[type];
}

static void put_notes(struct mt_safetensors_writer *w, struct mt_json_out *out) {
    mt_json_open(out, "__metadata__", '{');
    mt_json_put_string(out, MT_CHECKSUM_HEADER, "0000000000000000");
    for (int i = 0; i < w->nnotes; i++) mt_json_put_string(out, w->notes[i].key, w->notes[i].value);
    for (int i = 0; i < w->ntensors; i++)
        mt_json_put_string(out, mt_arena_printf(&w->arena, MT_CHECKSUM_PREFIX "%s", w->tensors[i].name),
                           w->checksums[i]);
    mt_json_close(out);
}

/* Length, JSON text, and blanks up to a multiple of 64 bytes; freed by the caller. */
static char *make_header(struct mt_safetensors_writer *w, size_t *size_bytes) {
    struct mt_json_out out;
    mt_json_out_init(&out);
    mt_json_open_inline(&out, NULL, '{');
    put_notes(w, &out);
    int64_t at = 0;
    for (int i = 0; i < w->ntensors; i++) {
        const struct mt_saved *t = &w->tensors[i];
        mt_json_open(&out, t->name, '{');
        mt_json_put_string(&out, "dtype", dtype_of(t->type));
        mt_json_put_ints(&out, "shape", t->dims, t->ndims);
        mt_json_put_ints(&out, "data_offsets", (int64_t[]){at, at + t->size_bytes}, 2);
        mt_json_close(&out);
        at += t->size_bytes;
    }
    mt_json_close(&out);
    size_t total = (8 + out.length + 63) / 64 * 64;
    char *head = mt_malloc(total);
    memset(head, ' ', total);
    uint64_t length = total - 8;
    memcpy(head, &length, 8);
    memcpy(head + 8, out.text, out.length);
    mt_json_out_release(&out);
    char digits[MT_CHECKSUM_DIGITS + 1];
    mt_header_checksum_of(head, total, digits);
    memcpy(mt_header_checksum_find(head, total), digits, MT_CHECKSUM_DIGITS);
    *size_bytes = total;
    return head;
}

static enum mt_status write_exactly(const struct mt_safetensors_writer *w, const void *data, size_t size_bytes,
                                    struct mt_err *err) {
    for (size_t done = 0; done < size_bytes;) {
        ssize_t n = write(w->fd, (const char *)data + done, size_bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return mt_fail_errno(err, "%s: writing", w->path);
        done += (size_t)n;
    }
    return MT_OK;
}

/* digits: out, its checksum; may be null. */
static enum mt_status write_header(struct mt_safetensors_writer *w, char digits[MT_CHECKSUM_DIGITS + 1],
                                   struct mt_err *err) {
    char *head = make_header(w, &w->header_bytes);
    if (digits) mt_header_checksum_of(head, w->header_bytes, digits);
    enum mt_status st = MT_OK;
    if (lseek(w->fd, 0, SEEK_SET) < 0) st = mt_fail_errno(err, "%s", w->path);
    if (!st) st = write_exactly(w, head, w->header_bytes, err);
    free(head);
    return st;
}

static void start_hash(struct mt_safetensors_writer *w) {
    w->current_done = 0;
    w->hasher = w->current < w->ntensors ? mt_hasher_new() : NULL;
}

/* Compute the checksums of tensors that are complete, empty ones included. */
static void end_tensors(struct mt_safetensors_writer *w) {
    while (w->current < w->ntensors && w->current_done == w->tensors[w->current].size_bytes) {
        mt_checksum_text(mt_hasher_end(w->hasher), w->checksums[w->current]);
        w->current++;
        start_hash(w);
    }
}

enum mt_status mt_safetensors_create(const char *path, const struct mt_saved *tensors, int ntensors,
                                     const struct mt_saved_note *notes, int nnotes,
                                     struct mt_safetensors_writer **writer, struct mt_err *err) {
    struct mt_safetensors_writer *w = mt_calloc(1, sizeof *w);
    w->path = mt_arena_strdup(&w->arena, path);
    w->temp = mt_arena_printf(&w->arena, "%s" MT_SAFETENSORS_TEMP, path);
    w->ntensors = ntensors, w->nnotes = nnotes;
    w->tensors = mt_arena_memdup(&w->arena, tensors, (size_t)ntensors * sizeof *tensors);
    w->notes = mt_new(&w->arena, struct mt_saved_note, nnotes);
    for (int i = 0; i < nnotes; i++)
        w->notes[i] = (struct mt_saved_note){mt_arena_strdup(&w->arena, notes[i].key),
                                             mt_arena_strdup(&w->arena, notes[i].value)};
    w->checksums = mt_arena_alloc(&w->arena, (size_t)ntensors * sizeof *w->checksums);
    for (int i = 0; i < ntensors; i++) {
        struct mt_saved *t = &w->tensors[i];
        memset(w->checksums[i], '0', MT_CHECKSUM_DIGITS);
        t->name = mt_arena_strdup(&w->arena, t->name);
        t->count = 1;
        for (int d = 0; d < t->ndims; d++) t->count *= t->dims[d];
        t->size_bytes = t->count * mt_type_size(t->type);
    }
    start_hash(w);
    w->fd = mt_file_unnamed(path);
    w->unnamed = w->fd >= 0;
    if (!w->unnamed) w->fd = open(w->temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    enum mt_status st = w->fd < 0 ? mt_fail_errno(err, "%s", w->temp) : write_header(w, NULL, err);
    if (st) {
        mt_safetensors_abort(w);
        return st;
    }
    end_tensors(w);
    *writer = w;
    return MT_OK;
}

enum mt_status mt_safetensors_append(struct mt_safetensors_writer *w, const void *data, size_t size_bytes,
                                     struct mt_err *err) {
    const char *from = data;
    while (size_bytes) {
        if (w->current == w->ntensors) return mt_fail(err, MT_EBUG, "%s: more bytes than tensors", w->path);
        int64_t left = w->tensors[w->current].size_bytes - w->current_done;
        size_t n = (int64_t)size_bytes < left ? size_bytes : (size_t)left;
        enum mt_status st = write_exactly(w, from, n, err);
        if (st) return st;
        mt_hasher_add(w->hasher, from, n);
        w->current_done += (int64_t)n;
        from += n, size_bytes -= n;
        end_tensors(w);
    }
    return MT_OK;
}

void mt_safetensors_renote(struct mt_safetensors_writer *w, const char *key, const char *value) {
    for (int i = 0; i < w->nnotes; i++) {
        if (strcmp(w->notes[i].key, key) != 0) continue;
        assert(strlen(value) == strlen(w->notes[i].value));
        w->notes[i].value = mt_arena_strdup(&w->arena, value);
    }
}

static enum mt_status sync_folder(const char *path, struct mt_err *err) {
    char *copy = mt_malloc(strlen(path) + 1);
    const char *folder = dirname(strcpy(copy, path));
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum mt_status st = MT_OK;
    if (fd < 0 || fsync(fd)) st = mt_fail_errno(err, "%s", folder);
    if (fd >= 0) close(fd);
    free(copy);
    return st;
}

static void release(struct mt_safetensors_writer *w) {
    if (w->fd >= 0) close(w->fd);
    if (w->hasher) mt_hasher_end(w->hasher);
    mt_arena_release(&w->arena);
    free(w);
}

enum mt_status mt_safetensors_commit(struct mt_safetensors_writer *w, char digits[MT_CHECKSUM_DIGITS + 1],
                                     struct mt_err *err) {
    enum mt_status st = MT_OK;
    if (w->current != w->ntensors) st = mt_fail(err, MT_EBUG, "%s: fewer bytes than tensors", w->path);
    if (!st) st = write_header(w, digits, err);
    if (!st && fsync(w->fd)) st = mt_fail_errno(err, "%s: fsync", w->path);
    if (!st && w->unnamed && mt_file_give_name(w->fd, w->temp, w->path)) st = mt_fail_errno(err, "%s", w->path);
    if (!st) {
        int fd = w->fd;
        w->fd = -1;
        if (close(fd)) st = mt_fail_errno(err, "%s", w->path);
    }
    if (!st && !w->unnamed && rename(w->temp, w->path)) st = mt_fail_errno(err, "%s", w->path);
    if (!st) st = sync_folder(w->path, err);
    if (st && !w->unnamed) unlink(w->temp);
    release(w);
    return st;
}

void mt_safetensors_abort(struct mt_safetensors_writer *w) {
    if (!w) return;
    if (w->fd >= 0 && !w->unnamed) unlink(w->temp);
    release(w);
}
