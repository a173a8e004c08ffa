/* Whole files; every system call is checked. */
#include "kernels/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/arena.h"

/* By errno: MT_EINPUT where another path would help. */
static enum mt_status fail_at(const char *path, const char *doing, struct mt_err *err) {
    bool misnamed = errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG || errno == EACCES ||
                    errno == EISDIR || errno == ELOOP;
    mt_fail_errno(err, "%s%s", path, doing);
    return err->status = misnamed ? MT_EINPUT : MT_ESYSTEM;
}

enum mt_status mt_file_read(const char *path, size_t most_bytes, char **data, size_t *length, struct mt_err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return fail_at(path, "", err);
    struct stat info = {0};
    size_t capacity = 1 << 16, used = 0;
    bool waited = false;
    if (!fstat(fd, &info) && S_ISREG(info.st_mode) && info.st_size >= 0 && (size_t)info.st_size <= most_bytes)
        capacity = (size_t)info.st_size + 1;
    char *text = mt_malloc(capacity + 1);
    for (;;) {
        if (used == capacity) text = mt_realloc(text, (capacity *= 2) + 1);
        ssize_t n = read(fd, text + used, capacity - used);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN && !waited) { /* a pipe with a writer: wait for what it writes */
            waited = true;
            if (!fcntl(fd, F_SETFL, 0)) continue;
        }
        if (n < 0) {
            fail_at(path, "", err);
            goto fail;
        }
        if (!n && !used && !waited && S_ISFIFO(info.st_mode)) {
            mt_fail(err, MT_EINPUT, "%s: is a pipe that no process writes to", path);
            mt_err_hint(err, "start its writer first, or write to a file and name that");
            goto fail;
        }
        if (!n) break;
        used += (size_t)n;
        if (used > most_bytes) {
            mt_fail(err, MT_EINPUT, "%s: is longer than the %zu bytes that such a file may have", path, most_bytes);
            goto fail;
        }
    }
    close(fd);
    text[used] = 0;
    *data = text;
    *length = used;
    return MT_OK;
fail:
    free(text);
    close(fd);
    return err->status;
}

static int write_all(int fd, const char *data, size_t length) {
    while (length) {
        ssize_t n = write(fd, data, length);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        data += n;
        length -= (size_t)n;
    }
    return 0;
}

static enum mt_status write_directly(const char *path, const void *data, size_t length, struct mt_err *err) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return fail_at(path, "", err);
    enum mt_status st = write_all(fd, data, length) ? mt_fail_errno(err, "writing %s", path) : MT_OK;
    if (close(fd) && !st) st = mt_fail_errno(err, "closing %s", path);
    return st;
}

/* Make the rename durable. File systems that cannot sync a folder return EINVAL. */
static enum mt_status sync_folder(const char *path, struct mt_err *err) {
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path + 1)) : strdup(".");
    enum mt_status st = MT_OK;
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0 || (fsync(fd) && errno != EINVAL)) st = mt_fail_errno(err, "%s: syncing its folder", path);
    if (fd >= 0) close(fd);
    free(folder);
    return st;
}

/* The file that `path` names through symbolic links, the last of which may lead to a file that does not exist yet; the
 * caller's to free. Null with *err filled for a circle of links. */
static char *follow_links(const char *path, struct mt_err *err) {
    enum { MOST_LINKS = 40 };
    char *at = strcpy(mt_malloc(strlen(path) + 1), path);
    for (int i = 0; i < MOST_LINKS; i++) {
        char to[PATH_MAX];
        ssize_t n = readlink(at, to, sizeof to - 1);
        if (n < 0) return at; /* no link, or nothing */
        to[n] = 0;
        const char *slash = to[0] == '/' ? NULL : strrchr(at, '/');
        size_t folder = slash ? (size_t)(slash - at) + 1 : 0;
        char *next = mt_malloc(folder + (size_t)n + 1);
        memcpy(next, at, folder);
        strcpy(next + folder, to);
        free(at);
        at = next;
    }
    free(at);
    errno = ELOOP;
    fail_at(path, "", err);
    return NULL;
}

/* A new file in `path`'s folder, and its name (the caller's to free); -1 with *err filled. */
static int make_temporary(const char *path, char **name, struct mt_err *err) {
    size_t room = strlen(path) + 32;
    char *temporary = mt_malloc(room);
    int fd = -1;
    for (int i = 0; i < 100; i++) {
        snprintf(temporary, room, "%s.%ld-%d.tmp", path, (long)getpid(), i);
        fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) break;
    }
    if (fd < 0) {
        fail_at(path, ": making a temporary file next to it", err);
        free(temporary);
        return -1;
    }
    *name = temporary;
    return fd;
}

static bool is_special(const char *path) {
    struct stat info;
    return !stat(path, &info) && !S_ISREG(info.st_mode);
}

enum mt_status mt_file_writable(const char *path, struct mt_err *err) {
    if (is_special(path)) {
        int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 && errno != ENXIO) return fail_at(path, "", err); /* ENXIO: a pipe without a reader yet */
        if (fd >= 0) close(fd);
        return MT_OK;
    }
    char *temporary, *file = follow_links(path, err);
    int fd = file ? make_temporary(file, &temporary, err) : -1;
    free(file);
    if (fd < 0) return err->status;
    close(fd);
    unlink(temporary);
    free(temporary);
    return MT_OK;
}

int mt_file_unnamed(const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path + 1)) : strdup(".");
    bool nameable = folder && !access("/proc/self/fd", X_OK); /* by which mt_file_give_name finds it */
    int fd = nameable ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666) : -1;
    free(folder);
    return fd;
}

/* A link cannot replace, so where there is a file, the new one has the temporary name for a moment. */
int mt_file_give_name(int fd, const char *temporary, const char *path) {
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    if (!linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW)) return 0;
    if (errno != EEXIST) return -1;
    unlink(temporary); /* of a process that was killed in such a moment */
    if (linkat(AT_FDCWD, self, AT_FDCWD, temporary, AT_SYMLINK_FOLLOW)) return -1;
    if (!rename(temporary, path)) return 0;
    int why = errno;
    unlink(temporary);
    errno = why;
    return -1;
}

/* Replace the file, which is not a link. */
static enum mt_status replace(const char *path, const void *data, size_t length, struct mt_err *err) {
    char *temporary = NULL;
    enum mt_status st = MT_OK;
    struct stat old;
    int fd = mt_file_unnamed(path);
    bool unnamed = fd >= 0;
    if (!unnamed && (fd = make_temporary(path, &temporary, err)) < 0) return err->status;
    if (!stat(path, &old)) fchmod(fd, old.st_mode & 0777); /* as far as the file system has modes */
    if (write_all(fd, data, length) || fsync(fd)) st = mt_fail_errno(err, "writing %s", path);
    if (!st && unnamed) {
        size_t room = strlen(path) + 32;
        temporary = mt_malloc(room);
        snprintf(temporary, room, "%s.%ld.tmp", path, (long)getpid());
        if (mt_file_give_name(fd, temporary, path)) st = mt_fail_errno(err, "%s: naming it", path);
    }
    if (close(fd) && !st) st = mt_fail_errno(err, "closing %s", path);
    if (!st && !unnamed && rename(temporary, path)) st = mt_fail_errno(err, "renaming %s to %s", temporary, path);
    if (st && !unnamed) unlink(temporary);
    if (!st) st = sync_folder(path, err);
    free(temporary);
    return st;
}

enum mt_status mt_file_replace(const char *path, const void *data, size_t length, struct mt_err *err) {
    if (is_special(path)) return write_directly(path, data, length, err);
    char *file = follow_links(path, err);
    enum mt_status st = file ? replace(file, data, length, err) : err->status;
    free(file);
    return st;
}

bool mt_is_folder(const char *path) {
    struct stat about;
    return !stat(path, &about) && S_ISDIR(about.st_mode);
}

const char *mt_file_in(const char *path, const char *name, struct mt_arena *arena) {
    struct stat about;
    size_t length = strlen(path);
    if (!mt_is_folder(path)) return path;
    const char *file = mt_arena_printf(arena, "%s%s%s", path, path[length - 1] == '/' ? "" : "/", name);
    return stat(file, &about) ? path : file;
}

bool mt_file_same(const char *a, const char *b) {
    struct stat left, right;
    return !stat(a, &left) && !stat(b, &right) && left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

/* Whether two paths, neither a link, have one last name in one folder. */
static bool same_name(const char *a, const char *b) {
    struct mt_arena arena = MT_ARENA_INIT;
    const char *of_a = strrchr(a, '/'), *of_b = strrchr(b, '/');
    bool same = !strcmp(of_a ? of_a + 1 : a, of_b ? of_b + 1 : b) &&
                mt_file_same(mt_folder_of(a, &arena), mt_folder_of(b, &arena));
    mt_arena_release(&arena);
    return same;
}

bool mt_file_same_place(const char *a, const char *b) {
    struct stat about;
    bool a_is_there = !stat(a, &about), b_is_there = !stat(b, &about);
    if (a_is_there || b_is_there) return mt_file_same(a, b);
    struct mt_err ignored = MT_ERR_INIT;
    char *left = follow_links(a, &ignored), *right = follow_links(b, &ignored);
    bool same = left && right && same_name(left, right);
    free(left);
    free(right);
    return same;
}

const char *mt_folder_of(const char *path, struct mt_arena *arena) {
    const char *slash = strrchr(path, '/');
    if (mt_is_folder(path)) return path;
    if (!slash) return ".";
    return slash == path ? "/" : mt_arena_printf(arena, "%.*s", (int)(slash - path), path);
}
