/* Captured work of a GPU: launches in order with what is queued, each with its own clock; times, what runs, deadlines;
 * and captures that fail. With all multiprocessors, then with an eighth for the compute stream. */
#include "tests/kernels/cuda/device/work.h"

enum { SKIPPED = 77, COUNT = 1 << 16 };

/* w -= lr * g, with lr from the clock */
static void make_sgd(struct work *work, void *w, void *m, void *g, void *scale, const struct mt_clock *clock) {
    *work = (struct work){.attr = {.lr_scale = 1}};
    make(work, MT_OP_sgd, 4, 2, (void *[]){w, m, g, scale, w, m}, COUNT);
    work->tensors[3] = tensor_of(scale, 1);
    work->call.clock = clock;
}

static void queue(int s, const struct work *work) {
    mt_stream_op(stream[s], mt_device_backend(device, &work->call), &work->call, NULL);
}

static void check_all(const void *memory, float want, const char *what) {
    static float host[COUNT];
    CHECK_OK(mt_device_copy_out(device, host, memory, sizeof host, &err), err);
    for (int i = 0; i < COUNT; i++)
        CHECK(host[i] == want, "%s: element %d is %g, not %g", what, i, (double)host[i], (double)want);
}

static struct mt_capture *begin(void) {
    struct mt_capture *capture;
    CHECK_OK(mt_capture_begin(stream, 2, &capture, &err), err);
    return capture;
}

/* Two streams take turns on one array within a launch: x = (x + y) * 2, y from the host before each launch. The call is
 * changed while it is captured, and after. What is queued before and after launches comes before and after, on both
 * streams. */
static void test_order(void) {
    enum { LAUNCHES = 20 };
    float *x = memory_of(4 * COUNT), *y = memory_of(4 * COUNT), want = 0, *host[2];
    static struct work zero, add, other, wipe;
    for (int i = 0; i < 2; i++) {
        void *memory;
        CHECK_OK(mt_device_host_alloc(device, 4 * COUNT, &memory, &err), err);
        host[i] = memory;
    }
    make_fill(&zero, x, COUNT, 0);
    make_fill(&wipe, y, COUNT, 1e9);
    make_add(&add, x, y, x, COUNT);
    make_add(&other, x, x, x, COUNT);
    queue(0, &zero), queue(0, &add), queue(1, &other); /* compiled */
    finish(0), finish(1);
    struct mt_capture *capture = begin();
    queue(0, &add);
    mt_event_record(event[0], stream[0]);
    mt_stream_wait(stream[1], event[0]);
    make_add(&add, x, x, x, COUNT); /* the capture has read what it was */
    queue(1, &add);
    mt_event_record(event[1], stream[1]);
    mt_stream_wait(stream[0], event[1]);
    CHECK_OK(mt_capture_end(capture, &err), err);
    make_fill(&add, x, COUNT, 1e9);
    queue(1, &zero); /* before the launches, on the other stream */
    for (int i = 0; i < LAUNCHES; i++) {
        uint64_t launch;
        if (i >= 2) CHECK_OK(mt_event_sync(event[i % 2], 60, &err), err);
        for (int k = 0; k < COUNT; k++) host[i % 2][k] = (float)i;
        mt_stream_copy(stream[0], MT_COPY_IN, y, host[i % 2], 4 * COUNT);
        CHECK_OK(mt_capture_launch(capture, &(struct mt_clock){0}, &launch, &err), err);
        CHECK_EQ((int64_t)launch, i + 1);
        mt_event_record(event[i % 2], stream[0]);
        want = (want + (float)i) * 2;
        if (i == LAUNCHES / 2) queue(1, &other), want *= 2; /* between launches */
    }
    mt_stream_copy(stream[1], MT_COPY_OUT, host[0], x, 4 * COUNT);
    mt_event_record(event[1], stream[1]);
    queue(1, &wipe);
    CHECK_OK(mt_event_sync(event[1], 60, &err), err);
    for (int i = 0; i < COUNT; i++) CHECK_EQ(host[0][i], want);
    finish(1), finish(0);
    check_all(x, want, "x");
    CHECK(!mt_stream_query(stream[0]).what && !mt_stream_query(stream[1]).what);
    mt_capture_free(capture);
    for (int i = 0; i < 2; i++) mt_device_host_free(device, host[i]);
    mt_device_free(device, x), mt_device_free(device, y);
}

/* Every launch has the clock that it was launched with, also while others are under way; more than may be are refused,
 * and nothing of them is done. */
static void test_clock(void) {
    enum { LAUNCHES = 50, PARTS = 3 };
    void *w = memory_of(4 * COUNT), *m = memory_of(4 * COUNT), *g = memory_of(4 * COUNT), *scale = memory_of(4);
    static struct work fills[4], step;
    struct mt_clock clock = {.seed = 7};
    float want = 0;
    make_fill(&fills[0], w, COUNT, 0);
    make_fill(&fills[1], m, COUNT, 0);
    make_fill(&fills[2], g, COUNT, -1);
    make_fill(&fills[3], scale, 1, 1);
    make_sgd(&step, w, m, g, scale, &clock);
    queue(0, &step);
    for (int i = 0; i < 4; i++) queue(0, &fills[i]);
    finish(0);
    struct mt_capture *capture = begin();
    for (int i = 0; i < PARTS; i++) queue(0, &step);
    CHECK_OK(mt_capture_end(capture, &err), err);
    clock.lr = 1e9; /* is not read again */
    for (int i = 1; i <= LAUNCHES; i++) {
        uint64_t launch;
        struct mt_clock now = {.step = i, .seed = 7, .lr = i};
        enum mt_status st = mt_capture_launch(capture, &now, &launch, &err);
        if (st == MT_EBUG) { /* the host is too fast */
            CHECK(strstr(err.text, "in flight"), "%s", err.text);
            err = (struct mt_err)MT_ERR_INIT;
            finish(0);
            st = mt_capture_launch(capture, &now, &launch, &err);
        }
        CHECK_OK(st, err);
        want += PARTS * (float)i;
    }
    finish(0);
    check_all(w, want, "w");
    mt_capture_free(capture);
    void *all[] = {w, m, g, scale};
    for (int i = 0; i < 4; i++) mt_device_free(device, all[i]);
}

/* A long launch: what runs is named, by stream; a deadline that is too short ends the wait, one that is long enough
 * does not; and its times are its times. Work of stream 1 waits for the middle of that of stream 0. */
static void test_look(void) {
    enum { FILLS = 200 };
    int64_t count = (int64_t)1 << 28;
    if (mt_device_memory_bytes(device) < 6 * count) {
        printf("no room to be slow in: looking is not tested\n");
        return;
    }
    float *x = memory_of(4 * count);
    static struct work slow, late;
    make_fill(&slow, x, count, 5);
    make_fill(&late, x, COUNT, 6);
    slow.call.what = "fill.slow";
    late.call.what = "fill.late";
    queue(0, &slow), queue(1, &late);
    finish(0), finish(1);
    struct mt_capture *capture = begin();
    for (int i = 0; i < FILLS; i++) queue(0, &slow);
    mt_event_record(event[0], stream[0]);
    mt_stream_wait(stream[1], event[0]);
    queue(1, &late);
    CHECK_OK(mt_capture_end(capture, &err), err);
    uint64_t launch;
    double start_s = mt_now_s(), stream_s[2];
    CHECK_OK(mt_capture_launch(capture, &(struct mt_clock){0}, &launch, &err), err);
    mt_event_record(event[1], stream[0]);
    CHECK_EQ(mt_event_sync(event[1], 0.3e-3, &err), MT_ESTALL);
    CHECK(strstr(err.text, "\"compute\" in fill.slow or one of the 31 after it") &&
              strstr(err.text, "\"communication\" in the wait"),
          "%s", err.text);
    err = (struct mt_err)MT_ERR_INIT;
    struct mt_stream_progress sight = mt_stream_query(stream[0]), end;
    CHECK(sight.what && !strcmp(sight.what, "fill.slow") && !sight.collective, "%s", sight.what ? sight.what : "none");
    CHECK(!mt_stream_query(stream[1]).what, "it waits");
    while ((end = mt_stream_query(stream[0])).completed == sight.completed && mt_now_s() < start_s + 20)
        mt_sleep_s(1e-4);
    CHECK(end.completed > sight.completed, "it gets on");
    CHECK_OK(mt_event_sync(event[1], 60, &err), err);
    double wall_s = mt_now_s() - start_s;
    mt_capture_times(capture, launch, stream_s);
    printf("%d fills in a launch: %.6f s of %.6f s, and %.6f s on the other stream\n", FILLS, stream_s[0], wall_s,
           stream_s[1]);
    CHECK(stream_s[0] < wall_s + 1e-4 && stream_s[0] > 0.7 * wall_s, "%g s of %g s", stream_s[0], wall_s);
    CHECK(stream_s[1] > 0 && stream_s[1] < 0.1 * stream_s[0], "%g s of %g s", stream_s[1], stream_s[0]);
    finish(0), finish(1);
    CHECK(!mt_stream_query(stream[0]).what && !mt_stream_query(stream[1]).what);
    check_all(x, 6, "x");
    mt_capture_free(capture);
    mt_device_free(device, x);
}

/* What cannot be queued ends a capture, and is reported; the streams work as before. */
static void test_failure(void) {
    float *x = memory_of(4 * COUNT);
    static struct work good, bad;
    make_fill(&good, x, COUNT, 3);
    make_fill(&bad, x, COUNT, 4);
    bad.tensors[0].type = bad.tensors[1].type = bad.attr.to = MT_F64;
    bad.call.what = "fill.bad";
    struct mt_capture *capture = begin();
    queue(0, &bad);
    CHECK_EQ(mt_capture_end(capture, &err), MT_EINPUT);
    CHECK(!strncmp(err.text, "fill.bad: ", 10), "%s", err.text);
    err = (struct mt_err)MT_ERR_INIT;
    capture = begin();
    mt_event_record(event[0], stream[1]);
    mt_stream_copy(stream[1], MT_COPY_IN, x, x, 4);
    CHECK_EQ(mt_capture_end(capture, &err), MT_EBUG);
    err = (struct mt_err)MT_ERR_INIT;
    queue(0, &good);
    queue(1, &good);
    finish(0), finish(1);
    check_all(x, 3, "x");
    capture = begin();
    for (int i = 0; i < 140000; i++) queue(0, &good);
    CHECK_EQ(mt_capture_end(capture, &err), MT_EINPUT);
    CHECK(strstr(err.text, "more work than one graph"), "%s", err.text);
    err = (struct mt_err)MT_ERR_INIT;
    mt_device_free(device, x);
}

int main(void) {
    static const char *const names[2] = {"compute", "communication"};
    setenv("MOTLEY_TUNE", "off", 0); /* what tuning finds has tests of its own; here it would take minutes */
    if (mt_device_open("cuda", &device, &err)) {
        CHECK_EQ(err.status, MT_EMISSING);
        printf("%s\n", err.text);
        return SKIPPED;
    }
    CHECK(mt_device_captures(device) && mt_device_depth(device) == 2);
    for (int part = 0; part < 2; part++) {
        if (part) CHECK_OK(mt_device_open("cuda", &device, &err), err);
        if (part) CHECK_OK(mt_device_emulate_sms(device, 16, &err), err);
        printf("%s\n", mt_device_describe(device));
        for (int s = 0; s < 2; s++) {
            CHECK_OK(mt_stream_new(device, names[s], &stream[s], &err), err);
            CHECK_OK(mt_event_new(device, &event[s], &err), err);
        }
        test_order();
        test_clock();
        test_look();
        test_failure();
        for (int s = 0; s < 2; s++) mt_stream_free(stream[s]), mt_event_free(event[s]);
        mt_device_close(device);
    }
    return 0;
}
