/* Generations of checkpoints under damage: truncated at every 4 KiB, a random bit flipped 1000 times, the disk full at
 * every write. Each time the generation before must be found, with its numbers, and the bad one named. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/number/rng.h"
#include "launcher/checkpoint/checkpoint.h"
#include "tests/check.h"

enum { COUNT = 3, ELEMENTS = 12345, FLIPS = 1000, SEED = 20261120 };

static char folder[] = "motley-checkpoint-XXXXXX";
static const char *samples = "77";
static int screen; /* where stderr goes outside captures */

static float element(int64_t step, int tensor, int i) {
    return (float)step + (float)tensor * 10 + (float)(i % 977) / 1024;
}

static enum mt_status save(int64_t step, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_saved tensors[COUNT];
    for (int t = 0; t < COUNT; t++)
        tensors[t] = (struct mt_saved){
            .name = mt_arena_printf(&arena, "h.%d.weight", t), .type = MT_F32, .ndims = 2, .dims = {ELEMENTS / 5, 5}};
    struct mt_saved_note notes[] = {
        {"motley.version", "1"},           {"motley.step", mt_arena_printf(&arena, "%lld", (long long)step)},
        {"motley.samples", samples},       {"motley.seed", "42"},
        {"motley.model", "gpt2:layers=3"}, {"motley.job", "{}"},
        {"motley.plan_hash", "0"},         {"motley.data_hash", "1"}};
    struct mt_safetensors_writer *w = NULL;
    float *data = mt_malloc(ELEMENTS * sizeof *data);
    enum mt_status st =
        mt_safetensors_create(mt_checkpoint_path(folder, step, &arena), tensors, COUNT, notes, 8, &w, err);
    for (int t = 0; t < COUNT && !st; t++) {
        for (int i = 0; i < ELEMENTS; i++) data[i] = element(step, t, i);
        for (size_t at = 0; at < ELEMENTS * sizeof *data && !st; at += 4000) {
            size_t left = ELEMENTS * sizeof *data - at;
            st = mt_safetensors_append(w, (char *)data + at, left < 4000 ? left : 4000, err);
        }
    }
    if (!st)
        st = mt_safetensors_commit(w, NULL, err);
    else
        mt_safetensors_abort(w);
    free(data);
    mt_arena_release(&arena);
    return st;
}

/* The newest good generation is `step`, with its numbers; if another is bad, the warning names it and says why. */
static void expect(int64_t step, const char *bad) {
    char log[128];
    snprintf(log, sizeof log, "%s/log", folder);
    int fd = open(log, O_RDWR | O_CREAT | O_TRUNC, 0666);
    dup2(fd, STDERR_FILENO);
    struct mt_safetensors *f = NULL;
    struct mt_err err = MT_ERR_INIT;
    enum mt_status st = mt_checkpoint_open(folder, &f, &err);
    dup2(screen, STDERR_FILENO);
    char said[4096] = "";
    CHECK(pread(fd, said, sizeof said - 1, 0) >= 0);
    close(fd);
    CHECK_OK(st, err);
    if (bad)
        CHECK(strstr(said, bad), "the log says: %s", said);
    else
        CHECK(!said[0], "the log says: %s", said);
    struct mt_checkpoint_about about;
    CHECK_OK(mt_checkpoint_about(f, &about, &err), err);
    CHECK_EQ(about.step, step);
    CHECK_EQ(about.samples, 77);
    CHECK_TEXT(about.model, "gpt2:layers=3");
    float *data = mt_malloc(ELEMENTS * sizeof *data);
    for (int t = 0; t < COUNT; t++) {
        char name[32];
        snprintf(name, sizeof name, "h.%d.weight", t);
        CHECK_OK(mt_safetensors_read_as(f, mt_safetensors_find(f, name), MT_F32, data, &err), err);
        for (int i = 0; i < ELEMENTS; i += 101) CHECK_NEAR(data[i], element(step, t, i), 0);
    }
    free(data);
    mt_safetensors_close(f);
}

static char *path_of(int64_t step) {
    static char path[128];
    snprintf(path, sizeof path, "%s/step-%08lld.safetensors", folder, (long long)step);
    return path;
}

static char *read_whole(const char *path, size_t *size) {
    struct stat about;
    CHECK(!stat(path, &about));
    *size = (size_t)about.st_size;
    char *data = mt_malloc(*size);
    int fd = open(path, O_RDONLY);
    CHECK(read(fd, data, *size) == about.st_size);
    close(fd);
    return data;
}

static void write_whole(const char *path, const char *data, size_t size) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    CHECK(write(fd, data, size) == (ssize_t)size);
    close(fd);
}

static void test_truncation(void) {
    size_t size;
    char *good = read_whole(path_of(20), &size);
    for (size_t cut = 0; cut < size; cut += 4096) {
        CHECK(!truncate(path_of(20), (off_t)cut));
        expect(10, "step-00000020");
        write_whole(path_of(20), good, size);
    }
    CHECK(!truncate(path_of(20), (off_t)size - 1));
    expect(10, "step-00000020");
    CHECK(!truncate(path_of(20), (off_t)size + 1));
    expect(10, "step-00000020");
    write_whole(path_of(20), good, size);
    expect(20, NULL);
    free(good);
}

/* As --init takes a file: one without any checksum as it is, else only if all are right. */
static bool is_taken(const char *path) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_safetensors *f = NULL;
    if (mt_safetensors_open(path, &f, &err)) return false;
    bool taken = !mt_safetensors_carries_checksums(f) || !mt_safetensors_verify(f, &err);
    mt_safetensors_close(f);
    return taken;
}

/* Every second flip is in the header, which is small. */
static void test_flips(void) {
    size_t size;
    char *data = read_whole(path_of(20), &size);
    uint64_t header;
    memcpy(&header, data, 8);
    for (uint64_t i = 0; i < FLIPS; i++) {
        uint64_t bit = mt_random_below(SEED, 1, i, (i % 2 ? header + 8 : size) * 8);
        int fd = open(path_of(20), O_WRONLY);
        char flipped = (char)(data[bit / 8] ^ (1 << bit % 8));
        CHECK(pwrite(fd, &flipped, 1, (off_t)(bit / 8)) == 1);
        expect(10, "step-00000020");
        CHECK(!is_taken(path_of(20)), "bit %lld", (long long)bit);
        CHECK(pwrite(fd, &data[bit / 8], 1, (off_t)(bit / 8)) == 1);
        close(fd);
    }
    expect(20, NULL);
    CHECK(is_taken(path_of(20)));
    free(data);
}

/* A file size limit makes writes fail as a full disk does, at a place of our choice. */
static void test_disk_full(void) {
    struct stat about;
    CHECK(!stat(path_of(20), &about));
    struct rlimit old, small;
    CHECK(!getrlimit(RLIMIT_FSIZE, &old));
    signal(SIGXFSZ, SIG_IGN);
    for (off_t limit = 0; limit < about.st_size; limit += 4000) {
        small = old;
        small.rlim_cur = (rlim_t)limit;
        struct mt_err err = MT_ERR_INIT;
        CHECK(!setrlimit(RLIMIT_FSIZE, &small));
        enum mt_status st = save(30, &err);
        CHECK(!setrlimit(RLIMIT_FSIZE, &old));
        CHECK_EQ(st, MT_ESYSTEM);
        CHECK(strstr(err.text, "step-00000030") && strstr(err.text, strerror(EFBIG)), "%s", err.text);
        char temp[160];
        snprintf(temp, sizeof temp, "%s" MT_SAFETENSORS_TEMP, path_of(30));
        CHECK(access(path_of(30), F_OK) && access(temp, F_OK), "a failed write left a file");
        if (limit % 16000 == 0) expect(20, NULL);
    }
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(save(30, &err), err);
    expect(30, NULL);
}

static void test_generations(void) {
    struct mt_err err = MT_ERR_INIT;
    write_whole(path_of(40), "", 0);
    char stale[160];
    snprintf(stale, sizeof stale, "%s" MT_SAFETENSORS_TEMP, path_of(7));
    write_whole(stale, "x", 1);
    expect(30, "step-00000040");
    unlink(path_of(40));
    CHECK_OK(save(100000000, &err), err); /* one digit more than the names have */
    expect(100000000, NULL);
    CHECK_OK(mt_checkpoint_prune(folder, 2, &err), err);
    CHECK(access(stale, F_OK) && access(path_of(10), F_OK) && access(path_of(20), F_OK));
    CHECK(!access(path_of(30), F_OK) && !access(path_of(100000000), F_OK));
    /* No generation is whole; no folder; a file by its own name. */
    struct mt_safetensors *f;
    CHECK(!truncate(path_of(30), 100) && !truncate(path_of(100000000), 100));
    CHECK_EQ(mt_checkpoint_open(folder, &f, &err), MT_EINPUT);
    CHECK(strstr(err.text, "all of its 2 checkpoints are damaged"), "%s", err.text);
    CHECK_EQ(mt_checkpoint_open(path_of(30), &f, &err), MT_EINPUT);
    CHECK_OK(mt_checkpoint_prune(folder, 0, &err), err);
    CHECK_EQ(mt_checkpoint_open(folder, &f, &err), MT_EINPUT);
    CHECK(strstr(err.text, "no checkpoint"), "%s", err.text);
    CHECK_EQ(mt_checkpoint_open("/nonexistent", &f, &err), MT_EINPUT);
}

static const char *in_folder(const char *name) {
    static char path[4][300];
    static int turn;
    char *text = path[turn++ % 4];
    snprintf(text, sizeof path[0], "%s/%s", folder, name);
    return text;
}

static void touch(const char *name) {
    FILE *file = fopen(in_folder(name), "w");
    CHECK(file != NULL, "%s", name);
    fclose(file);
}

static bool is_there(const char *name) {
    return !access(in_folder(name), F_OK);
}

/* Of later generations, whole ones keep their content under another name; of a write that was killed between its two
 * files nothing is left, so that runs that are killed often do not fill the disk. */
static void test_set_aside(void) {
    struct mt_err err = MT_ERR_INIT;
    touch("step-00000060.safetensors"), touch("optimizer-00000060.safetensors");
    touch("optimizer-00000070.safetensors"), touch("optimizer-00000040.safetensors");
    CHECK_OK(mt_checkpoint_set_aside(folder, 50, &err), err);
    CHECK(is_there("step-00000060.safetensors.damaged") && is_there("optimizer-00000060.safetensors.damaged"));
    CHECK(!is_there("step-00000060.safetensors") && !is_there("optimizer-00000060.safetensors"));
    CHECK(!is_there("optimizer-00000070.safetensors") && !is_there("optimizer-00000070.safetensors.damaged"));
    CHECK(is_there("optimizer-00000040.safetensors"));
    CHECK_OK(mt_checkpoint_prune(folder, 2, &err), err);
    CHECK(!is_there("optimizer-00000040.safetensors"));
    unlink(in_folder("step-00000060.safetensors.damaged")), unlink(in_folder("optimizer-00000060.safetensors.damaged"));
}

/* Counters from which no run can go on are refused by name, however sound the file is. */
static void test_counters(void) {
    static const struct {
        int64_t step;
        const char *samples, *refused;
    } cases[] = {
        {(int64_t)1 << 40, "9007199254740992", NULL},
        {((int64_t)1 << 40) + 1, "77", "motley.step is \"1099511627777\", not a count from 0 to 1099511627776"},
        {INT64_MAX, "77", "motley.step is \"9223372036854775807\""},
        {10, "9007199254740993", "motley.samples is \"9007199254740993\""},
        {10, "9223372036854775807", "motley.samples is \"9223372036854775807\""},
        {10, "9223372036854775808", "motley.samples is \"9223372036854775808\""},
        {10, "-1", "motley.samples is \"-1\""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mt_err err = MT_ERR_INIT;
        struct mt_safetensors *f = NULL;
        samples = cases[i].samples;
        CHECK_OK(save(cases[i].step, &err), err);
        enum mt_status st = mt_checkpoint_open(path_of(cases[i].step), &f, &err);
        CHECK_EQ(st, cases[i].refused ? MT_EINPUT : MT_OK);
        if (st) CHECK(strstr(err.text, cases[i].refused), "%s", err.text);
        mt_safetensors_close(f);
        unlink(path_of(cases[i].step));
    }
    samples = "77";
}

int main(void) {
    CHECK(mkdtemp(folder));
    screen = dup(STDERR_FILENO);
    printf("seed %d\n", SEED);
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(save(10, &err), err);
    CHECK_OK(save(20, &err), err);
    expect(20, NULL);
    test_truncation();
    test_flips();
    test_disk_full();
    test_generations();
    test_set_aside();
    test_counters();
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}
