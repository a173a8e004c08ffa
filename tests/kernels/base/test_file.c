/* Replacing a file: what is there after success, and after the system refused in the middle. */
#include "kernels/base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/check.h"

static char folder[] = "/tmp/motley-test-file-XXXXXX";

static int files_in_folder(void) {
    int n = 0;
    DIR *d = opendir(folder);
    CHECK(d, "%s", folder);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void check_content(const char *path, const char *want, size_t want_length) {
    struct mt_err err = MT_ERR_INIT;
    char *text;
    size_t length;
    CHECK_OK(mt_file_read(path, 1 << 20, &text, &length, &err), err);
    CHECK_EQ(length, want_length);
    CHECK(!memcmp(text, want, length) && !text[length], "content");
    free(text);
}

static const char *in_folder(const char *name) {
    static char paths[4][96];
    static int next;
    next = (next + 1) % 4;
    snprintf(paths[next], sizeof paths[next], "%s/%s", folder, name);
    return paths[next];
}

static mode_t mode_of(const char *path) {
    struct stat about;
    CHECK(!lstat(path, &about), "%s", path);
    return about.st_mode;
}

/* Writing to a link writes to what it names, whether that is there or not, and keeps its mode. */
static void test_links(void) {
    struct mt_err err = MT_ERR_INIT;
    CHECK(!mkdir(in_folder("far"), 0777) && !symlink("far/to", in_folder("a")) && !symlink("a", in_folder("b")));
    CHECK_OK(mt_file_writable(in_folder("b"), &err), err);
    CHECK_OK(mt_file_replace(in_folder("b"), "first", 5, &err), err);
    CHECK(S_ISLNK(mode_of(in_folder("a"))) && S_ISLNK(mode_of(in_folder("b"))));
    check_content(in_folder("far/to"), "first", 5);
    CHECK(!chmod(in_folder("far/to"), 0640));
    CHECK_OK(mt_file_replace(in_folder("b"), "second", 6, &err), err);
    check_content(in_folder("far/to"), "second", 6);
    CHECK_EQ(mode_of(in_folder("far/to")) & 0777, 0640);
    CHECK(S_ISLNK(mode_of(in_folder("b"))));
    CHECK(!unlink(in_folder("a")) && !symlink(in_folder("far/absolute"), in_folder("a")));
    CHECK_OK(mt_file_replace(in_folder("b"), "third", 5, &err), err);
    check_content(in_folder("far/absolute"), "third", 5);
    CHECK(!unlink(in_folder("a")) && !symlink("b", in_folder("a"))); /* a circle */
    CHECK_EQ(mt_file_writable(in_folder("a"), &err), MT_EINPUT);
    CHECK_EQ(mt_file_replace(in_folder("a"), "x", 1, &err), MT_EINPUT);
    CHECK(strstr(err.text, "symbolic links"), "%s", err.text);
    CHECK(!unlink(in_folder("a")) && !unlink(in_folder("b")) && !unlink(in_folder("far/to")));
    CHECK(!unlink(in_folder("far/absolute")) && !rmdir(in_folder("far")));
}

/* A pipe is read to its end if it has a writer, who may write late, or nothing; without one it is refused. */
static void test_pipes(void) {
    struct mt_err err = MT_ERR_INIT;
    char *text;
    size_t length;
    alarm(60); /* what waits for a writer fails */
    CHECK(!mkfifo(in_folder("pipe"), 0600));
    CHECK_EQ(mt_file_read(in_folder("pipe"), 100, &text, &length, &err), MT_EINPUT);
    CHECK(strstr(err.text, "a pipe that no process writes to"), "%s", err.text);
    int ends[2], out;
    CHECK(!pipe(ends));
    pid_t child = fork();
    if (!child) {
        out = open(in_folder("pipe"), O_RDWR);
        if (write(ends[1], "x", 1) != 1) _exit(1);
        struct timespec pause = {0, 100000000};
        nanosleep(&pause, NULL);
        if (write(out, "la", 2) != 2) _exit(1);
        nanosleep(&pause, NULL);
        _exit(write(out, "te", 2) != 2);
    }
    char byte;
    CHECK_EQ(read(ends[0], &byte, 1), 1); /* the pipe has its writer */
    CHECK_OK(mt_file_read(in_folder("pipe"), 100, &text, &length, &err), err);
    CHECK(length == 4 && !strcmp(text, "late"), "%s", text);
    free(text);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    close(ends[0]), close(ends[1]);
    unlink(in_folder("pipe"));
    alarm(0);
}

int main(void) {
    struct mt_err err = MT_ERR_INIT;
    CHECK(mkdtemp(folder), "%s", folder);
    char path[64], nowhere[64];
    snprintf(path, sizeof path, "%s/a.json", folder);
    snprintf(nowhere, sizeof nowhere, "%s/no/a.json", folder);

    char *data = malloc(300000);
    for (int i = 0; i < 300000; i++) data[i] = (char)(i * 7 % 251);
    CHECK_OK(mt_file_replace(path, data, 300000, &err), err);
    check_content(path, data, 300000);
    CHECK_OK(mt_file_replace(path, "old", 3, &err), err);
    check_content(path, "old", 3);
    CHECK_EQ(files_in_folder(), 1);

    /* A limit on file sizes acts as a full disk: the old content stays, nothing is left over. */
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit, small;
    getrlimit(RLIMIT_FSIZE, &limit);
    small = limit;
    small.rlim_cur = 100000;
    setrlimit(RLIMIT_FSIZE, &small);
    CHECK_EQ(mt_file_replace(path, data, 300000, &err), MT_ESYSTEM);
    CHECK(strstr(err.text, "File too large"), "%s", err.text);
    setrlimit(RLIMIT_FSIZE, &limit);
    check_content(path, "old", 3);
    CHECK_EQ(files_in_folder(), 1);

    CHECK_EQ(mt_file_replace(nowhere, "x", 1, &err), MT_EINPUT);
    CHECK(strstr(err.text, "No such file"), "%s", err.text);
    CHECK_EQ(mt_file_replace(folder, "x", 1, &err), MT_EINPUT);
    CHECK_EQ(mt_file_replace("/dev/full", "x", 1, &err), MT_ESYSTEM);
    CHECK(strstr(err.text, "No space left"), "%s", err.text);
    CHECK_OK(mt_file_replace("/dev/null", "x", 1, &err), err);
    CHECK(!access("/dev/null", W_OK), "the device is still there");

    char *text;
    size_t length;
    CHECK_EQ(mt_file_read(path, 2, &text, &length, &err), MT_EINPUT);
    CHECK_EQ(mt_file_read(nowhere, 2, &text, &length, &err), MT_EINPUT);
    CHECK_EQ(mt_file_read(folder, 2, &text, &length, &err), MT_EINPUT);
    CHECK_EQ(mt_file_read("/dev/zero", 100000, &text, &length, &err), MT_EINPUT);
    unlink(path);
    test_links();
    test_pipes();

    unlink(path);
    rmdir(folder);
    free(data);
    return 0;
}
