/* Replacing a file: what is there after success, and after the system refused in the middle. */
#include "kernels/base/file.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
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
    rmdir(folder);
    free(data);
    return 0;
}
