/* The tuning file: what one process keeps the next one finds; damaged and foreign files; writers at the same time. A
 * process reads the file once, so each step is a process of its own. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/json.h"
#include "kernels/base/log.h"
#include "kernels/cuda/tune.h"
#include "tests/check.h"

static char folder[] = "/tmp/motley-tune-XXXXXX";
static char path[100];

static pid_t start(void (*step)(int), int argument) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child) return child;
    step(argument);
    _exit(0);
}

static void finish(pid_t child) {
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a step failed");
}

static void in_a_process(void (*step)(int), int argument) {
    finish(start(step, argument));
}

static void write_file(const char *text) {
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(text, file) >= 0 && !fclose(file));
}

/* By the reader that checks everything; -1 where the file does not hold together. */
static int entries_in_file(void) {
    struct mt_json_doc doc;
    struct mt_json entries;
    struct mt_err err = MT_ERR_INIT;
    int count = -1;
    if (mt_json_load(path, &doc, &err)) return -1;
    if (mt_json_format(doc.root, "motley-tuning", 1, &err) || mt_json_get(doc.root, "entries", &entries, &err) ||
        mt_json_members(entries, 1 << 20, &count, &err))
        count = -1;
    mt_json_release(&doc);
    return count;
}

static const char odd_key[] = "GPU \"A\\B\" | m=1\tn=2 | \xc3\xa9";

static void keep_two(int unused) {
    (void)unused;
    CHECK(!tune_find("one") && !tune_find(odd_key));
    CHECK_TEXT(tune_keep("one", "rows=4", 1.25e-5, NULL), "rows=4");
    CHECK_TEXT(tune_keep(odd_key, "", 0, NULL), "");
    CHECK_TEXT(tune_find("one"), "rows=4");
}

static void find_two(int unused) {
    (void)unused;
    CHECK(tune_find("one") && tune_find(odd_key));
    CHECK_TEXT(tune_find("one"), "rows=4");
    CHECK_TEXT(tune_find(odd_key), "");
    CHECK(!tune_find("on") && !tune_find("one "));
}

/* The first to keep is right, unless what it kept is known to be of no use. */
static void keep_again(int unused) {
    (void)unused;
    CHECK_TEXT(tune_keep("one", "rows=8", 1e-5, NULL), "rows=4");
    CHECK_TEXT(tune_keep("one", "rows=8", 1e-5, "rows=2"), "rows=4");
    CHECK_TEXT(tune_keep("one", "rows=8", 1e-5, "rows=4"), "rows=8");
    CHECK_TEXT(tune_keep("one", "rows=16", 1e-5, "rows=4"), "rows=8");
}

static void find_eight(int unused) {
    (void)unused;
    CHECK(tune_find("one"));
    CHECK_TEXT(tune_find("one"), "rows=8");
    CHECK_TEXT(tune_find(odd_key), "");
}

static void test_round_trip(void) {
    unlink(path);
    in_a_process(keep_two, 0);
    CHECK_EQ(entries_in_file(), 2);
    in_a_process(find_two, 0);
    in_a_process(keep_again, 0);
    in_a_process(find_eight, 0);
    CHECK_EQ(entries_in_file(), 2);
    struct mt_json_doc doc;
    struct mt_json entries, entry;
    struct mt_err err = MT_ERR_INIT;
    double time_s;
    CHECK_OK(mt_json_load(path, &doc, &err), err);
    CHECK_OK(mt_json_get(doc.root, "entries", &entries, &err), err);
    CHECK_OK(mt_json_get(entries, "one", &entry, &err), err);
    CHECK_OK(mt_json_real(entry, "time_s", 0, 1, &time_s, &err), err);
    CHECK_NEAR(time_s, 1e-5, 0);
    mt_json_release(&doc);
}

/* Nothing of such a file is believed, not even the entries before the damage; and it is replaced. */
static void find_none(int unused) {
    (void)unused;
    CHECK(!tune_find("one"));
    CHECK_TEXT(tune_keep("two", "x", 1, NULL), "x");
    CHECK(!tune_find("one"));
}

static void test_damaged(void) {
    static const char *const files[] = {
        "",
        "not JSON",
        "[]",
        "{\"format\": \"motley-plan\", \"version\": 1, \"entries\": {\"one\": {\"value\": \"a\", \"time_s\": 1}}}",
        "{\"format\": \"motley-tuning\", \"version\": 9, \"entries\": {\"one\": {\"value\": \"a\", \"time_s\": 1}}}",
        "{\"format\": \"motley-tuning\", \"version\": 1, \"entries\": [1]}",
        "{\"format\": \"motley-tuning\", \"version\": 1, \"entries\": {\"one\": {\"value\": \"a\", \"time_s\": 1}",
        "{\"format\": \"motley-tuning\", \"version\": 1, \"entries\": {\"one\": {\"value\": \"a\", \"time_s\": 1}, "
        "\"other\": {\"value\": 7, \"time_s\": 1}}}",
        "{\"format\": \"motley-tuning\", \"version\": 1, \"entries\": {\"one\": {\"value\": \"a\", \"time_s\": 1}, "
        "\"other\": {\"value\": \"b\", \"time_s\": -1}}}",
        "{\"format\": \"motley-tuning\", \"version\": 1, \"entries\": {\"one\": {\"value\": \"a\", \"time_s\": 1}, "
        "\"other\": {\"value\": \"b\"}}}"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_file(files[i]);
        in_a_process(find_none, 0);
        CHECK(entries_in_file() == 1, "after file %d: %s", (int)i, files[i]);
    }
}

enum { WRITERS = 4, KEYS = 15 };

/* Keys of its own, and ones that all writers keep: they must be told the same. */
static void write_many(int writer) {
    char key[40], value[40];
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "writer %d key %d", writer, i);
        snprintf(value, sizeof value, "%d", writer * 1000 + i);
        CHECK_TEXT(tune_keep(key, value, 1, NULL), value);
        snprintf(key, sizeof key, "shared %d", i);
        const char *kept = tune_keep(key, value, 1, NULL);
        snprintf(key, sizeof key, "told %d shared %d", writer, i);
        CHECK_TEXT(tune_keep(key, kept, 1, NULL), kept);
    }
}

static void read_many(int unused) {
    (void)unused;
    char key[40], value[40];
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "shared %d", i);
        const char *shared = tune_find(key);
        CHECK(shared, "%s", key);
        for (int w = 0; w < WRITERS; w++) {
            snprintf(key, sizeof key, "writer %d key %d", w, i);
            snprintf(value, sizeof value, "%d", w * 1000 + i);
            CHECK(tune_find(key), "%s is lost", key);
            CHECK_TEXT(tune_find(key), value);
            snprintf(key, sizeof key, "told %d shared %d", w, i);
            CHECK(tune_find(key), "%s is lost", key);
            CHECK_TEXT(tune_find(key), shared);
        }
    }
}

static void test_writers(void) {
    pid_t child[WRITERS];
    unlink(path);
    for (int w = 0; w < WRITERS; w++) child[w] = start(write_many, w);
    for (int w = 0; w < WRITERS; w++) finish(child[w]);
    CHECK_EQ(entries_in_file(), KEYS + 2 * WRITERS * KEYS);
    in_a_process(read_many, 0);
}

/* Where nothing can be written, values last as long as the process. */
static void keep_without_folder(int unused) {
    (void)unused;
    CHECK(!tune_find("one"));
    CHECK_TEXT(tune_keep("one", "a", 1, NULL), "a");
    CHECK_TEXT(tune_keep("one", "b", 1, NULL), "a");
    CHECK(tune_find("one"));
    CHECK_TEXT(tune_find("one"), "a");
}

static void test_places(void) {
    char below[120], expected[160];
    unlink(path);
    unsetenv("MOTLEY_CACHE");
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    in_a_process(keep_without_folder, 0);
    write_file("a file where a folder should be");
    setenv("MOTLEY_CACHE", path, 1);
    in_a_process(keep_without_folder, 0);
    unlink(path);
    setenv("MOTLEY_CACHE", "", 1); /* as if it were not set */
    snprintf(below, sizeof below, "%s/home", folder);
    setenv("HOME", below, 1);
    in_a_process(keep_two, 0);
    snprintf(expected, sizeof expected, "%s/.cache/motley/tuning.json", below);
    CHECK(!access(expected, R_OK), "%s", expected);
    snprintf(below, sizeof below, "%s/xdg", folder);
    setenv("XDG_CACHE_HOME", below, 1);
    in_a_process(keep_two, 0);
    snprintf(expected, sizeof expected, "%s/motley/tuning.json", below);
    CHECK(!access(expected, R_OK), "%s", expected);
}

int main(void) {
    char command[120];
    mt_log_level(MT_LOG_WARN);
    CHECK(mkdtemp(folder), "%s", strerror(errno));
    snprintf(path, sizeof path, "%s/tuning.json", folder);
    setenv("MOTLEY_CACHE", folder, 1);
    test_round_trip();
    test_damaged();
    test_writers();
    test_places();
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK_EQ(system(command), 0);
    return 0;
}
