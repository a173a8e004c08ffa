/* Whole files: read up to a limit, and replaced atomically.
 *
 *     if ((st = mt_file_read(path, 1 << 20, &text, &length, err))) return st;
 *     st = mt_file_replace(path, text, length, err);
 *     free(text); */
#ifndef MT_KERNELS_BASE_FILE_H
#define MT_KERNELS_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/base/arena.h"
#include "kernels/base/err.h"

/* Read a file of at most `most_bytes`. `*data` has a NUL after its end and is the caller's to free. Pipes are read to
 * their end, but a pipe without a writer is refused, since none may come. MT_EINPUT when the file is longer, missing or
 * not readable, MT_ESYSTEM when the system fails; then there is nothing to free. */
enum mt_status mt_file_read(const char *path, size_t most_bytes, char **data, size_t *length, struct mt_err *err);

/* Write `data` to `path`. After a crash either the old file or the new one is there: a file without a name, else a
 * temporary one in the same folder, fsync, rename, fsync of the folder. Symbolic links are followed, and a file's mode
 * is kept. On failure the old file is untouched and the temporary one removed. A `path` that is not a regular file (a
 * device, a pipe) is written directly. MT_EINPUT when the folder is missing or not writable, MT_ESYSTEM when the system
 * fails. */
enum mt_status mt_file_replace(const char *path, const void *data, size_t length, struct mt_err *err);

/* A new file without a name in the folder of `path`, open for writing, which is gone when the process ends in whatever
 * way; -1: the file system has no such files. Giving it the name `path` replaces a file of that name; `temporary` is a
 * free name in the same folder. 0, or -1 with errno. */
int mt_file_unnamed(const char *path);
int mt_file_give_name(int fd, const char *temporary, const char *path);

/* Whether mt_file_replace could write to `path` now: ask before long work. Leaves nothing behind. Its errors. */
enum mt_status mt_file_writable(const char *path, struct mt_err *err);

bool mt_is_folder(const char *path);

/* The file of that name in the folder, if the path is that of a folder which has it; else the path itself. */
const char *mt_file_in(const char *path, const char *name, struct mt_arena *arena);

/* Whether two names are of one file or folder that is there. */
bool mt_file_same(const char *a, const char *b);

/* Whether two names are of one file that is there, or would be once it was written through both. */
bool mt_file_same_place(const char *a, const char *b);

/* The path itself if it is a folder's, else the folder that the file is in ("." without a slash). */
const char *mt_folder_of(const char *path, struct mt_arena *arena);

#endif
