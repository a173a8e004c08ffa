/* Whole files: read with a limit, replaced so that a crash leaves the old one or the new one. */
#ifndef MT_KERNELS_BASE_FILE_H
#define MT_KERNELS_BASE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/err.h"

/* Read a file of at most `most_bytes`; `*data` has a NUL after its end and is the caller's to free. Pipes are
 * read to their end. MT_EINPUT when it is longer, missing or not ours to read, MT_ESYSTEM when the system fails; on
 * failure nothing is kept. */
enum mt_status mt_file_read(const char *path, size_t most_bytes, char **data, size_t *length, struct mt_err *err);

/* Write `data` to `path` so that the old file or the new one is there after a crash: a temporary file in the
 * same folder, fsync, rename, fsync of the folder. On failure the old file is untouched and the temporary one
 * removed. What is no regular file (a device, a pipe) is written to directly. MT_EINPUT when the folder is missing or
 * not ours to write to, MT_ESYSTEM when the system fails. */
enum mt_status mt_file_replace(const char *path, const void *data, size_t length, struct mt_err *err);

/* Whether mt_file_replace could write there now, for asking before long work; leaves nothing behind. Errors as its. */
enum mt_status mt_file_writable(const char *path, struct mt_err *err);

#endif
