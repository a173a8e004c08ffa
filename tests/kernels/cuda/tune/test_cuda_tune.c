/* The tuning file: what one process keeps the next one finds; damaged and foreign files; writers at the same time. A
 * process reads the file once, so each step is a process of its own. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/text/json.h"
#include "kernels/base/log.h"
#include "kernels/base/wait.h"
#include "kernels/cuda/tune/tune.h"
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
    if (mt_json_format(doc.root, "motley-tuning", 2, &err) || mt_json_get(doc.root, "entries", &entries, &err) ||
        mt_json_members(entries, 1 << 20, &count, &err))
        count = -1;
    mt_json_release(&doc);
    return count;
}

static const char *keep(const char *key, const char *value, double time_s, const char *wrong) {
    const struct tune_facts facts = {.time_s = time_s, .default_s = 2 * time_s, .error = 0.25};
    return tune_keep(key, value, &facts, wrong);
}

static const char odd_key[] = "GPU \"A\\B\" | m=1\tn=2 | \xc3\xa9";

static void keep_two(int unused) {
    (void)unused;
    CHECK(!tune_find("one", NULL) && !tune_find(odd_key, NULL));
    CHECK_TEXT(keep("one", "rows=4", 1.25e-5, NULL), "rows=4");
    CHECK_TEXT(keep(odd_key, "", 0, NULL), "");
    CHECK_TEXT(tune_find("one", NULL), "rows=4");
}

static void find_two(int unused) {
    struct tune_facts facts;
    (void)unused;
    CHECK(tune_find("one", &facts));
    CHECK_NEAR(facts.time_s, 1.25e-5, 0);
    CHECK_NEAR(facts.default_s, 2.5e-5, 0);
    CHECK_NEAR(facts.error, 0.25, 0);
    CHECK(tune_find("one", NULL) && tune_find(odd_key, NULL));
    CHECK_TEXT(tune_find("one", NULL), "rows=4");
    CHECK_TEXT(tune_find(odd_key, NULL), "");
    CHECK(!tune_find("on", NULL) && !tune_find("one ", NULL));
}

/* The first to keep is right, unless what it kept is known to be invalid. */
static void keep_again(int unused) {
    (void)unused;
    CHECK_TEXT(keep("one", "rows=8", 1e-5, NULL), "rows=4");
    CHECK_TEXT(keep("one", "rows=8", 1e-5, "rows=2"), "rows=4");
    CHECK_TEXT(keep("one", "rows=8", 1e-5, "rows=4"), "rows=8");
    CHECK_TEXT(keep("one", "rows=16", 1e-5, "rows=4"), "rows=8");
}

static void find_eight(int unused) {
    (void)unused;
    CHECK(tune_find("one", NULL));
    CHECK_TEXT(tune_find("one", NULL), "rows=8");
    CHECK_TEXT(tune_find(odd_key, NULL), "");
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
    double time_s, default_s, error;
    CHECK_OK(mt_json_load(path, &doc, &err), err);
    CHECK_OK(mt_json_get(doc.root, "entries", &entries, &err), err);
    CHECK_OK(mt_json_get(entries, "one", &entry, &err), err);
    CHECK_OK(mt_json_real(entry, "time_s", 0, 1, &time_s, &err), err);
    CHECK_OK(mt_json_real(entry, "default_s", 0, 1, &default_s, &err), err);
    CHECK_OK(mt_json_real(entry, "error", 0, 1, &error, &err), err);
    CHECK_NEAR(time_s, 1e-5, 0);
    CHECK_NEAR(default_s, 2e-5, 0);
    CHECK_NEAR(error, 0.25, 0);
    mt_json_release(&doc);
}

/* Nothing of such a file is believed, not even the entries before the damage; and it is replaced. */
static void find_none(int unused) {
    (void)unused;
    CHECK(!tune_find("one", NULL));
    CHECK_TEXT(keep("two", "x", 1, NULL), "x");
    CHECK(!tune_find("one", NULL));
}

static void test_damaged(void) {
    static const char *const files[] = {
        "",
        "not JSON",
        "[]",
        "{\"format\": \"motley-tuning\", \"version\": 1, \"entries\": {\"one\": {\"value\": \"a\", \"time_s\": 1}}}",
        "{\"format\": \"motley-plan\", \"version\": 2, \"entries\": {\"one\": {\"value\": \"a\", \"time_s\": 1}}}",
        "{\"format\": \"motley-tuning\", \"version\": 9, \"entries\": {\"one\": {\"value\": \"a\", \"time_s\": 1}}}",
        "{\"format\": \"motley-tuning\", \"version\": 2, \"entries\": [1]}",
        "{\"format\": \"motley-tuning\", \"version\": 2, \"entries\": {\"one\": {\"value\": \"a\", \"time_s\": 1}",
        "{\"format\": \"motley-tuning\", \"version\": 2, \"entries\": {\"one\": {\"value\": \"a\", \"time_s\": 1}, "
        "\"other\": {\"value\": 7, \"time_s\": 1}}}",
        "{\"format\": \"motley-tuning\", \"version\": 2, \"entries\": {\"one\": {\"value\": \"a\", \"time_s\": 1}, "
        "\"other\": {\"value\": \"b\", \"time_s\": -1}}}",
        "{\"format\": \"motley-tuning\", \"version\": 2, \"entries\": {\"one\": {\"value\": \"a\", \"time_s\": 1}, "
        "\"other\": {\"value\": \"b\"}}}",
        "{\"format\": \"motley-tuning\", \"version\": 2, \"entries\": {\"one\": {\"value\": \"a\", \"time_s\": 1}, "
        "\"other\": {\"value\": \"b\", \"time_s\": 1, \"default_s\": \"x\"}}}",
        "{\"format\": \"motley-tuning\", \"version\": 2, \"entries\": {\"one\": {\"value\": \"a\", \"time_s\": 1}, "
        "\"other\": {\"value\": \"b\", \"time_s\": 1, \"what\": 1}}}"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_file(files[i]);
        in_a_process(find_none, 0);
        CHECK(entries_in_file() == 1, "after file %d: %s", (int)i, files[i]);
    }
}

enum { WRITERS = 4, KEYS = 15 };

/* Keys of its own, and ones that all writers keep: they must find the same. */
static void write_many(int writer) {
    char key[40], value[40];
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "writer %d key %d", writer, i);
        snprintf(value, sizeof value, "%d", writer * 1000 + i);
        CHECK_TEXT(keep(key, value, 1, NULL), value);
        snprintf(key, sizeof key, "shared %d", i);
        const char *kept = keep(key, value, 1, NULL);
        snprintf(key, sizeof key, "own %d shared %d", writer, i);
        CHECK_TEXT(keep(key, kept, 1, NULL), kept);
    }
}

static void read_many(int unused) {
    (void)unused;
    char key[40], value[40];
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "shared %d", i);
        const char *shared = tune_find(key, NULL);
        CHECK(shared, "%s", key);
        for (int w = 0; w < WRITERS; w++) {
            snprintf(key, sizeof key, "writer %d key %d", w, i);
            snprintf(value, sizeof value, "%d", w * 1000 + i);
            CHECK(tune_find(key, NULL), "%s is lost", key);
            CHECK_TEXT(tune_find(key, NULL), value);
            snprintf(key, sizeof key, "own %d shared %d", w, i);
            CHECK(tune_find(key, NULL), "%s is lost", key);
            CHECK_TEXT(tune_find(key, NULL), shared);
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

/* ---- texts from other processes ---- */

/* What another rank would send: made by a process with a folder of its own, handed over in a file. */
static void export_some(int which) {
    static const char *const values[] = {"from a", "from b"};
    char name[120];
    size_t length;
    CHECK_TEXT(keep("GPU x | common", values[which], 1, NULL), values[which]);
    CHECK_TEXT(keep(which ? "GPU x | b" : "GPU x | a", values[which], 1, NULL), values[which]);
    CHECK_TEXT(keep("GPU y | other", "never sent", 1, NULL), "never sent");
    char *text = tune_export("GPU x", &length);
    snprintf(name, sizeof name, "%s/export-%d", folder, which);
    FILE *file = fopen(name, "w");
    CHECK(file && fwrite(text, 1, length, file) == length && !fclose(file));
    free(text);
}

static char *read_export(int which, size_t *length) {
    char name[120], *text;
    struct mt_err err = MT_ERR_INIT;
    snprintf(name, sizeof name, "%s/export-%d", folder, which);
    CHECK_OK(mt_file_read(name, 1 << 20, &text, length, &err), err);
    return text;
}

static void import_both(int unused) {
    struct mt_err err = MT_ERR_INIT;
    size_t lengths[2];
    const char *texts[2] = {read_export(0, &lengths[0]), read_export(1, &lengths[1])};
    (void)unused;
    CHECK_TEXT(keep("GPU x | common", "mine", 1, NULL), "mine");
    CHECK_TEXT(keep("GPU x | own", "mine", 1, NULL), "mine");
    unsigned epoch = tune_epoch();
    uint64_t hash = tune_hash("GPU x");
    CHECK_OK(tune_import(2, texts, lengths, "GPU x", &err), err);
    CHECK_TEXT(tune_find("GPU x | common", NULL), "from a");
    CHECK_TEXT(tune_find("GPU x | a", NULL), "from a");
    CHECK_TEXT(tune_find("GPU x | b", NULL), "from b");
    CHECK_TEXT(tune_find("GPU x | own", NULL), "mine");
    CHECK(!tune_find("GPU y | other", NULL));
    CHECK(tune_epoch() != epoch && tune_hash("GPU x") != hash);
    epoch = tune_epoch(), hash = tune_hash("GPU x");
    CHECK_OK(tune_import(2, texts, lengths, "GPU x", &err), err);
    CHECK(tune_epoch() == epoch && tune_hash("GPU x") == hash);
}

static void import_wrong(int unused) {
    struct mt_err err = MT_ERR_INIT;
    size_t lengths[2];
    const char *texts[2] = {read_export(0, &lengths[0]), read_export(1, &lengths[1])};
    (void)unused;
    CHECK_EQ(tune_import(2, texts, lengths, "GPU y", &err), MT_EINPUT);
    CHECK(strstr(err.text, "another device"), "%s", err.text);
    lengths[1]--;
    lengths[1]--;
    err = (struct mt_err)MT_ERR_INIT;
    CHECK_EQ(tune_import(2, texts, lengths, "GPU x", &err), MT_EINPUT);
    CHECK(!tune_find("GPU x | a", NULL) && !tune_find("GPU x | b", NULL));
}

static void find_imported(int unused) {
    (void)unused;
    CHECK(tune_find("GPU x | common", NULL));
    CHECK_TEXT(tune_find("GPU x | common", NULL), "from a");
    CHECK_TEXT(tune_find("GPU x | own", NULL), "mine");
}

static void test_import(void) {
    for (int which = 0; which < 2; which++) {
        unlink(path);
        in_a_process(export_some, which);
    }
    unlink(path);
    in_a_process(import_wrong, 0);
    in_a_process(import_both, 0);
    in_a_process(find_imported, 0);
    CHECK_EQ(entries_in_file(), 4);
}

/* A process that holds the lock and does not go on is not waited for for ever: CTest sees whether it is. */
static void hold_lock(int ready) {
    char name[120];
    snprintf(name, sizeof name, "%s.lock", path);
    int fd = open(name, O_RDWR | O_CREAT, 0666);
    CHECK(fd >= 0 && !flock(fd, LOCK_EX));
    CHECK_EQ(write(ready, "", 1), 1);
    for (;;) pause();
}

static void keep_one(int unused) {
    (void)unused;
    CHECK_TEXT(keep("one", "a", 1, NULL), "a");
}

static void test_lock(void) {
    unlink(path);
    int ends[2];
    char held;
    CHECK(!pipe(ends));
    pid_t holder = start(hold_lock, ends[1]);
    close(ends[1]);
    CHECK_EQ(read(ends[0], &held, 1), 1);
    close(ends[0]);
    double start_s = mt_now_s();
    in_a_process(keep_one, 0);
    CHECK(mt_now_s() - start_s > 5, "%g s", mt_now_s() - start_s);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    CHECK_EQ(entries_in_file(), 1);
}

/* Where nothing can be written, values last as long as the process. */
static void keep_without_folder(int unused) {
    (void)unused;
    CHECK(!tune_find("one", NULL));
    CHECK_TEXT(keep("one", "a", 1, NULL), "a");
    CHECK_TEXT(keep("one", "b", 1, NULL), "a");
    CHECK(tune_find("one", NULL));
    CHECK_TEXT(tune_find("one", NULL), "a");
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
    test_import();
    test_lock();
    test_places();
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK_EQ(system(command), 0);
    return 0;
}
