/* One-sided operations queued on streams of a CPU, each rank a thread that queues and a stream. Built a second time
 * under ThreadSanitizer (tests/CMakeLists.txt), with streams alone: operators are not compiled for it. */
#include <pthread.h>

#include "tests/kernels/device/stream_trials.h"

#ifdef MOTLEY_TSAN
#include "kernels/base/arena.h"
#include "kernels/cpu/internal.h"

enum { EPOCHS = 6 };

static enum mt_status give(struct mt_device *device, int64_t size_bytes, void **memory, struct mt_err *err) {
    (void)device, (void)err;
    *memory = mt_malloc((size_t)size_bytes);
    return MT_OK;
}

static void take_back(struct mt_device *device, void *memory) {
    (void)device;
    free(memory);
}

static void leave(struct mt_device *device) {
    (void)device;
}

static enum mt_status copy_out(struct mt_device *device, void *to, const void *from, int64_t size_bytes,
                               struct mt_err *err) {
    (void)device, (void)err;
    memcpy(to, from, (size_t)size_bytes);
    return MT_OK;
}

enum mt_status mt_cpu_device_open(int index, struct mt_device **device, struct mt_err *err) {
    static const struct mt_device_class class = {.kind = "cpu",
                                                 .close = leave,
                                                 .alloc = give,
                                                 .free = take_back,
                                                 .copy_out = copy_out,
                                                 .host_alloc = give,
                                                 .host_free = take_back,
                                                 .stream_new = mt_cpu_stream_new,
                                                 .stream_free = mt_cpu_stream_free,
                                                 .stream_copy = mt_cpu_stream_copy,
                                                 .stream_window = mt_cpu_stream_window,
                                                 .stream_sync = mt_cpu_stream_sync};
    static struct mt_cpu_device cpu = {.base = {.class = &class, .threads = 1}, .clock = &mt_cpu_clock, .speed = 1};
    (void)index, (void)err;
    *device = &cpu.base;
    return MT_OK;
}

void *mt_device_window_ptr(const struct mt_window *window, int64_t at, int rank) {
    return mt_window_ptr(window, at, rank);
}

enum mt_status mt_cuda_device_open(int index, struct mt_device **device, struct mt_err *err) {
    (void)index, (void)device;
    return mt_fail(err, MT_EMISSING, "not under ThreadSanitizer");
}
#else
enum { EPOCHS = 20 };
#endif
static const uint64_t seed = 20261129;

enum trial { EXCHANGE, SILENCE, ABORT };
struct part {
    struct stream_rank rank;
    enum trial trial;
};

static void *run(void *of) {
    const struct part *part = of;
    if (part->trial == EXCHANGE) {
        stream_exchange(&part->rank, EPOCHS, seed);
        stream_compare(&part->rank);
    }
    if (part->trial == SILENCE) stream_silence(&part->rank);
    if (part->trial == ABORT) stream_abort(&part->rank);
    return NULL;
}

static void threads(struct mt_device *device, int n, enum trial trial, double deadline_s) {
    struct mt_window *windows[TRIAL_RANKS];
    struct part parts[TRIAL_RANKS];
    pthread_t thread[TRIAL_RANKS];
    struct mt_err err = MT_ERR_INIT;
    mt_window_local_new(n, TRIAL_BYTES, deadline_s, windows);
    for (int r = 0; r < n; r++) {
        parts[r] = (struct part){{device, NULL, windows[r]}, trial};
        CHECK_OK(mt_stream_new(device, "comm", &parts[r].rank.stream, &err), err);
        CHECK(!pthread_create(&thread[r], NULL, run, &parts[r]), "a thread");
    }
    for (int r = 0; r < n; r++) pthread_join(thread[r], NULL);
    if (trial == SILENCE) stream_check_silence(&parts[0].rank);
    for (int r = 0; r < n; r++) {
        mt_stream_free(parts[r].rank.stream);
        mt_window_free(windows[r]);
    }
}

/* What a stream that waits is doing, for messages. */
#ifndef MOTLEY_TSAN
static void test_query(struct mt_device *device) {
    struct mt_window *windows[2];
    struct stream_rank s = {.device = device};
    struct mt_err err = MT_ERR_INIT;
    mt_window_local_new(2, TRIAL_BYTES, 60, windows);
    s.window = windows[1];
    CHECK_OK(mt_stream_new(device, "comm", &s.stream, &err), err);
    mt_window_wait_on_stream(windows[1], 0, MT_CMP_EQ, 1, 0, "the rows of x", s.stream);
    struct mt_stream_progress progress = {0};
    while (!progress.what) progress = mt_stream_query(s.stream);
    CHECK_TEXT(progress.what, "the rows of x");
    CHECK(progress.collective, "others are waited for");
    CHECK_EQ(mt_stream_sync(s.stream, 0.2, &err), MT_ESTALL);
    CHECK(strstr(err.text, "in the rows of x"), "%s", err.text);
    CHECK_OK(mt_window_signal(windows[0], 0, 1, MT_SIGNAL_SET, 1, &err), err);
    stream_sync(&s);
    mt_stream_free(s.stream);
    for (int r = 0; r < 2; r++) mt_window_free(windows[r]);
}
#endif

int main(void) {
    struct mt_device *device;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_device_open("cpu", &device, &err), err);
    for (int n = 1; n <= 4; n++) threads(device, n, EXCHANGE, 60);
    threads(device, 3, SILENCE, 0.3);
    threads(device, 3, ABORT, 60);
#ifndef MOTLEY_TSAN
    test_query(device);
#endif
    mt_device_close(device);
    return 0;
}
