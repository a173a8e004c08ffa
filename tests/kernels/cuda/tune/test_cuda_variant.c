/* Tuning of calls on a GPU: keys, what is kept and found again, equal results whatever was chosen, values in the file
 * that nobody would have written, exchange between processes, MOTLEY_TUNE=off. */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/device/device.h"
#include "kernels/device/tuner.h"
#include "tests/check.h"

static char folder[] = "/tmp/motley-variant-XXXXXX";
static struct mt_device *device;
static const struct mt_tuner *tuner;

/* layer_norm of [rows, width] in bf16. */
struct norm {
    struct mt_attr attr;
    struct mt_tensor in[3], out[3];
    struct mt_call call;
};

static struct mt_tensor tensor(enum mt_type type, int naxes, int64_t a, int64_t b) {
    struct mt_tensor t = {.type = type, .naxes = naxes, .extent = {a, b}, .global = {a, b}};
    t.data = (void *)(uintptr_t)4096;
    return t;
}

static void make_norm(struct norm *n, int64_t rows, int64_t width) {
    *n = (struct norm){.attr = {.eps = 1e-5}};
    n->in[0] = tensor(MT_BF16, 2, rows, width);
    n->in[1] = n->in[2] = tensor(MT_BF16, 1, width, 0);
    n->out[0] = n->in[0];
    n->out[1] = n->out[2] = tensor(MT_F32, 1, rows, 0);
    n->call =
        (struct mt_call){.kind = MT_OP_layer_norm, .attr = &n->attr, .nin = 3, .nout = 3, .in = n->in, .out = n->out};
}

static void test_keys(void) {
    char a[MT_TUNING_KEY], b[MT_TUNING_KEY], class[MT_TUNING_KEY];
    struct norm n;
    tuner->class(device, class);
    make_norm(&n, 512, 768);
    tuner->key(device, &n.call, a);
    CHECK(!strncmp(a, class, strlen(class)), "%s\n%s", a, class);
    make_norm(&n, 512, 768);
    n.in[0].offset[0] = 512;
    tuner->key(device, &n.call, b);
    CHECK_TEXT(a, b);
    n.in[0].data = (void *)(uintptr_t)(4096 + 2);
    tuner->key(device, &n.call, b);
    CHECK(strcmp(a, b), "%s", a);
    make_norm(&n, 513, 768);
    tuner->key(device, &n.call, b);
    CHECK(strcmp(a, b), "%s", a);
    n.call.nin = 2;
    tuner->key(device, &n.call, a);
    CHECK(strcmp(a, b), "%s", a);
}

static void tune_norm(int64_t rows, int64_t width, struct mt_tuning *tuning, bool expected) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_stream *stream;
    struct norm n;
    char key[MT_TUNING_KEY];
    make_norm(&n, rows, width);
    tuner->key(device, &n.call, key);
    CHECK_OK(mt_stream_new(device, "compute", &stream, &err), err);
    CHECK_OK(tuner->tune(stream, &n.call, &err), err);
    CHECK_EQ(tuner->find(device, key, tuning), expected);
    mt_stream_free(stream);
}

static void test_tune(void) {
    struct mt_tuning tuning, again;
    tune_norm(4096, 768, &tuning, true);
    CHECK(tuning.tuned_s > 0 && tuning.tuned_s < 1e-3 && tuning.default_s > 0 && tuning.default_s < 1e-3, "%g %g",
          tuning.tuned_s, tuning.default_s);
    CHECK(tuning.tuned_s < 1.25 * tuning.default_s, "%g %g", tuning.tuned_s, tuning.default_s);
    CHECK(tuning.error <= 1e-2 && tuning.vendor_s == 0);
    CHECK(strstr(tuning.choice, "="), "%s", tuning.choice);
    tune_norm(4096, 768, &again, true);
    CHECK(again.tuned_s == tuning.tuned_s && !strcmp(again.choice, tuning.choice));
    tune_norm(3, 40, &tuning, true);
    tune_norm(0, 768, &tuning, false); /* nothing to do */
}

static char *file_text(size_t *length) {
    char path[120], *text;
    struct mt_err err = MT_ERR_INIT;
    snprintf(path, sizeof path, "%s/tuning.json", folder);
    CHECK_OK(mt_file_read(path, 1 << 24, &text, length, &err), err);
    return text;
}

/* A value that no variant has is measured again, and does not crash. */
static void spoil(void) {
    size_t length;
    char path[120], *text = file_text(&length);
    int spoilt = 0;
    struct mt_err err = MT_ERR_INIT;
    for (char *at = text; (at = strstr(at, "\"value\": \"row_threads=")); at += 10, spoilt++)
        memset(at + strlen("\"value\": \"row_threads="), '7', 2);
    CHECK(spoilt > 0, "%s", text);
    snprintf(path, sizeof path, "%s/tuning.json", folder);
    CHECK_OK(mt_file_replace(path, text, length, &err), err);
    free(text);
}

static void test_spoilt(void) {
    struct mt_tuning tuning;
    size_t length;
    tune_norm(4000, 768, &tuning, true); /* of the same classes: they ask for the variants that the file has */
    tune_norm(4, 40, &tuning, true);
    char *text = file_text(&length);
    CHECK(!strstr(text, "row_threads=77"), "%s", text);
    free(text);
}

static void test_exchange(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_tuning tuning;
    size_t length;
    uint64_t before = tuner->hash(device);
    char *text = tuner->export(device, &length);
    const char *texts[1] = {text};
    CHECK_OK(tuner->import(device, 1, texts, &length, &err), err);
    CHECK(tuner->hash(device) == before);
    tune_norm(128, 128, &tuning, true);
    CHECK(tuner->hash(device) != before);
    length -= 3;
    CHECK_EQ(tuner->import(device, 1, texts, &length, &err), MT_EINPUT);
    free(text);
}

/* Operands that are cut to be measured: what is kept is for the whole call, and so are its times. */
static void test_large(void) {
    struct mt_tuning small, tuning;
    size_t length;
    tune_norm(1 << 18, 768, &small, true);
    tune_norm(1 << 20, 768, &tuning, true);
    char *text = file_text(&length);
    CHECK(strstr(text, "rows=2^20") && !strstr(text, "rows=2^19"), "%s", text);
    CHECK(tuning.tuned_s > 2 * small.tuned_s && tuning.tuned_s < 8 * small.tuned_s, "%g %g", tuning.tuned_s,
          small.tuned_s);
    free(text);
}

static void test_off(void) {
    struct mt_tuning tuning;
    setenv("MOTLEY_TUNE", "off", 1);
    tune_norm(640, 768, &tuning, false);
    unsetenv("MOTLEY_TUNE");
}

static void open_device(void) {
    struct mt_err err = MT_ERR_INIT;
    if (mt_device_open("cuda", &device, &err)) {
        printf("skipped: %s\n", err.text);
        _exit(77);
    }
    tuner = mt_device_tuner(device);
    CHECK(tuner);
}

static void first_process(void) {
    open_device();
    test_keys();
    test_tune();
    mt_device_close(device);
}
static void second_process(void) {
    open_device();
    test_spoilt();
    test_exchange();
    test_large();
    test_off();
    mt_device_close(device);
}

/* The file is read once by a process, so each part is one. */
static int in_a_process(void (*part)(void)) {
    int status = -1;
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        part();
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(void) {
    char command[120];
    CHECK(mkdtemp(folder), "%s", strerror(errno));
    setenv("MOTLEY_CACHE", folder, 1);
    int code = in_a_process(first_process);
    if (!code) {
        spoil();
        code = in_a_process(second_process);
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK_EQ(system(command), 0);
    return code;
}
