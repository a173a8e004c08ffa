/* The chooser, without a GPU: a class of synthetic candidates, and a stream that says whether it is captured. */
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/check.h"

#ifndef MOTLEY_CUDA
int main(void) {
    printf("skipped: built without CUDA\n");
    return 77;
}
#else
#include "kernels/cuda/tune/choose.h"

/* ---- what stands in for the device ---- */

static bool captured;

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
    (void)stream;
    *status = captured ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult result, const char **name) {
    (void)result, (void)name;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult result, const char **text) {
    return cuGetErrorName(result, text);
}

CUresult cuCtxSetCurrent(CUcontext context) {
    (void)context;
    return CUDA_SUCCESS;
}

/* ---- candidates: the numbers 0 to 3, and the default is 0 ---- */

struct job {
    const char *key;         /* null: only one candidate */
    int winner;              /* -1: it cannot be measured */
    const struct job *inner; /* is chosen for within the measurement */
    bool other;              /* of the second class */
};

static int measured, listed;
static const struct cuda_queue queue;
static int choose(const struct job *job);

static bool job_key(void *job, char key[CUDA_KEY_TEXT]) {
    const struct job *j = job;
    if (j->key) snprintf(key, CUDA_KEY_TEXT, "no GPU | %s", j->key);
    return j->key;
}

static enum mt_status job_first(void *job, void *choice, struct mt_err *err) {
    (void)job, (void)err;
    listed++;
    *(int *)choice = 0;
    return MT_OK;
}

static void job_text(void *job, const char *key, const void *choice, char text[CUDA_CHOICE_TEXT]) {
    (void)job, (void)key;
    snprintf(text, CUDA_CHOICE_TEXT, "number=%d", *(const int *)choice);
}

static bool job_parse(void *job, const char *key, const char *text, void *choice) {
    int number;
    (void)job, (void)key;
    if (sscanf(text, "number=%d", &number) != 1 || number < 0 || number > 3) return false;
    *(int *)choice = number;
    return true;
}

static enum mt_status job_measure(void *job, const char *key, void *choice, struct tune_facts *facts,
                                  struct mt_err *err) {
    const struct job *j = job;
    (void)key;
    measured++;
    CHECK_EQ(*(int *)choice, 0);
    if (j->inner) CHECK_EQ(choose(j->inner), j->inner->other ? j->inner->winner : 0);
    if (j->winner < 0) return mt_fail(err, MT_ESYSTEM, "the GPU is on fire");
    *(int *)choice = j->winner;
    facts->time_s = 1e-6;
    return MT_OK;
}

static const struct cuda_choices classes[2] = {
    {sizeof(int), sizeof(int), job_key, job_first, job_text, job_parse, job_measure},
    {sizeof(int), sizeof(int), job_key, job_first, job_text, job_parse, job_measure}};

/* Jobs of one key have one id. */
static int choose(const struct job *job) {
    struct job copy = *job;
    struct mt_err err = MT_ERR_INIT;
    unsigned id = 0;
    int choice = -1;
    for (const char *c = job->key; c && *c; c++) id = 31 * id + (unsigned char)*c;
    CHECK_OK(cuda_choose(&classes[job->other], &queue, &id, &copy, &choice, &err), err);
    return choice;
}

static int number(const char *key, int winner) {
    return choose(&(struct job){key, winner, NULL, false});
}

static const char *kept(const char *key) {
    char text[CUDA_KEY_TEXT];
    snprintf(text, sizeof text, "no GPU | %s", key);
    const char *value = tune_find(text, NULL);
    return value ? value : "nothing";
}

static void keep(const char *key, const char *value) {
    char text[CUDA_KEY_TEXT];
    snprintf(text, sizeof text, "no GPU | %s", key);
    tune_keep(text, value, &(struct tune_facts){.time_s = 1}, NULL);
}

/* ---- tests ---- */

static void test_remembers(void) {
    measured = 0;
    CHECK_EQ(number("a", 2), 2);
    CHECK_EQ(number("a", 3), 2);
    CHECK_EQ(measured, 1);
    CHECK_TEXT(kept("a"), "number=2");
    CHECK_EQ(number("b", 1), 1);
    CHECK_EQ(number("a", 3), 2);
    CHECK_EQ(measured, 2);
}

static void test_finds_in_file(void) {
    measured = 0;
    keep("found", "number=3");
    CHECK_EQ(number("found", 1), 3);
    CHECK_EQ(measured, 0);
}

static void test_one_candidate(void) {
    measured = 0;
    CHECK_EQ(number(NULL, 2), 0);
    CHECK_EQ(measured, 0);
}

/* Another process's value for a key that is remembered here. */
static void test_new_epoch(void) {
    static const char text[] = "{\"format\": \"motley-tuning\", \"version\": 2, \"entries\": {"
                               "\"no GPU | a\": {\"value\": \"number=1\", \"time_s\": 1e-6}}}";
    const char *texts[] = {text};
    const size_t lengths[] = {sizeof text - 1};
    struct mt_err err = MT_ERR_INIT;
    measured = 0;
    CHECK_EQ(number("a", 3), 2);
    unsigned before = tune_epoch();
    CHECK_OK(tune_import(1, texts, lengths, "no GPU", &err), err);
    CHECK(tune_epoch() != before);
    CHECK_EQ(number("a", 3), 1);
    CHECK_EQ(measured, 0);
}

static void test_capture(void) {
    measured = listed = 0;
    captured = true;
    CHECK_EQ(number("captured", 2), 0);
    CHECK_EQ(number("captured", 2), 0);
    CHECK_EQ(measured, 0);
    CHECK_EQ(listed, 1);
    CHECK_TEXT(kept("captured"), "nothing");
    CHECK_EQ(number("b", 3), 1); /* known from before */
    captured = false;
    CHECK_EQ(number("captured", 2), 2);
    captured = true;
    CHECK_EQ(number("captured", 3), 2);
    captured = false;
    CHECK_EQ(measured, 1);
}

/* Another process's value for what could not be measured here yet, or never could. */
static void test_new_key(void) {
    static const char text[] = "{\"format\": \"motley-tuning\", \"version\": 2, \"entries\": {"
                               "\"no GPU | later\": {\"value\": \"number=3\", \"time_s\": 1e-6},"
                               "\"no GPU | fails\": {\"value\": \"number=1\", \"time_s\": 1e-6}}}";
    const char *texts[] = {text};
    const size_t lengths[] = {sizeof text - 1};
    struct mt_err err = MT_ERR_INIT;
    captured = true;
    CHECK_EQ(number("later", 2), 0);
    CHECK_OK(tune_import(1, texts, lengths, "no GPU", &err), err);
    CHECK_EQ(number("later", 2), 3);
    captured = false;
    measured = 0;
    CHECK_EQ(number("fails", -1), 1);
    CHECK_EQ(measured, 0);
}

static void test_wrong_value(void) {
    measured = 0;
    keep("wrong", "number=77");
    CHECK_EQ(number("wrong", 2), 2);
    CHECK_EQ(number("wrong", 3), 2);
    CHECK_EQ(measured, 1);
    CHECK_TEXT(kept("wrong"), "number=2");
    CHECK_EQ(number("a", 3), 1); /* the replaced value has changed the epoch, and nothing else */
    CHECK_EQ(measured, 1);
}

static void test_failure(void) {
    measured = 0;
    CHECK_EQ(number("fails", -1), 0);
    CHECK_EQ(number("fails", 2), 0);
    CHECK_EQ(measured, 1);
    CHECK_TEXT(kept("fails"), "nothing");
}

static void test_nested(void) {
    const struct job inner = {"inner", 3, NULL, false}, outer = {"outer", 2, &inner, false};
    measured = 0;
    CHECK_EQ(choose(&outer), 2);
    CHECK_EQ(measured, 1);
    CHECK_EQ(choose(&inner), 3);
    CHECK_EQ(measured, 2);
    /* a measurement within one of another class within one of its own */
    const struct job last = {"last", 3, NULL, false}, middle = {"middle", 2, &last, true},
                     first = {"first", 1, &middle, false};
    CHECK_EQ(choose(&first), 1);
    CHECK_EQ(measured, 4);
    CHECK_EQ(choose(&last), 3);
}

static void test_defaults(void) {
    struct mt_err err = MT_ERR_INIT;
    struct job job = {"a", 3, NULL, false};
    int id = 0, choice;
    measured = 0;
    CHECK(!cuda_defaults_only(true));
    CHECK_EQ(number("a", 3), 0);
    CHECK(cuda_defaults_only(false));
    CHECK_EQ(number("a", 3), 1);
    setenv("MOTLEY_TUNE", "off", 1);
    CHECK_EQ(number("new", 3), 0);
    setenv("MOTLEY_TUNE", "perhaps", 1);
    CHECK_EQ(cuda_choose(&classes[0], &queue, &id, &job, &choice, &err), MT_EINPUT);
    unsetenv("MOTLEY_TUNE");
    CHECK_EQ(measured, 0);
    CHECK_EQ(number("new", 3), 3);
}

int main(void) {
    char folder[] = "/tmp/motley-choose-XXXXXX", path[100];
    CHECK(mkdtemp(folder));
    setenv("MOTLEY_CACHE", folder, 1);
    unsetenv("MOTLEY_TUNE");
    test_remembers();
    test_finds_in_file();
    test_one_candidate();
    test_new_epoch();
    test_capture();
    test_wrong_value();
    test_failure();
    test_nested();
    test_new_key();
    test_defaults();
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/tuning.json%s", folder, i ? ".lock" : "");
        unlink(path);
    }
    CHECK(!rmdir(folder));
    return 0;
}
#endif
