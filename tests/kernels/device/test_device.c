/* Streams, events, errors and memory of the CPU device. The work here is a backend of the test's own. */
#include <omp.h>
#include <pthread.h>

#include "kernels/comm/comm.h"
#include "kernels/device/class.h"
#include "kernels/device/device.h"
#include "tests/check.h"

/* What one call does: it must find the counter at `before`, and adds one. */
struct work {
    int *counter;
    int before;
    double sleep_s;
    bool fails;
    pthread_mutex_t *gate; /* waits for this, if not null */
    int threads;           /* out */
    pthread_t thread;
};

static enum mt_status run(const struct mt_call *call, struct mt_err *err) {
    struct work *work = call->scratch;
    work->threads = omp_get_max_threads();
    work->thread = pthread_self();
    if (work->sleep_s > 0) mt_sleep_s(work->sleep_s);
    if (work->gate) pthread_mutex_lock(work->gate), pthread_mutex_unlock(work->gate);
    if (work->fails) return mt_fail(err, MT_ESYSTEM, "failed on purpose");
    CHECK_EQ(*work->counter, work->before);
    CHECK(mt_comm_computes());
    ++*work->counter;
    return MT_OK;
}

/* Half of the smallest normal number, in all threads of a team. */
static enum mt_status run_tiny(const struct mt_call *call, struct mt_err *err) {
    (void)err;
    int *zeros = call->scratch;
#pragma omp parallel num_threads(2)
    {
        volatile float smallest = 0x1p-126f, half = smallest * 0.5f;
#pragma omp atomic
        *zeros += half == 0;
    }
    return MT_OK;
}

static const struct mt_backend backend = {.name = "test", .run = run};
static struct mt_device *device;
static struct mt_stream *stream[2];
static struct mt_event *event[2];
static struct mt_err err = MT_ERR_INIT;

static struct mt_call call_of(struct work *work) {
    return (struct mt_call){.kind = MT_OP_fill, .scratch = work};
}

/* Two streams hand a counter to each other through events that are recorded again and again. */
static void test_order(void) {
    enum { TURNS = 300 };
    int counter = 0;
    static struct work work[2 * TURNS];
    static struct mt_call call[2 * TURNS];
    static double seconds[2 * TURNS][2];
    mt_stream_wait(stream[0], event[1]); /* never recorded: passes */
    for (int i = 0; i < 2 * TURNS; i++) {
        int s = i % 2;
        work[i] = (struct work){.counter = &counter, .before = i, .sleep_s = i < 2 ? 0.02 : 0};
        call[i] = call_of(&work[i]);
        if (i) mt_stream_wait(stream[s], event[!s]);
        mt_stream_op(stream[s], &backend, &call[i], seconds[i]);
        mt_event_record(event[s], stream[s]);
    }
    CHECK_OK(mt_stream_sync(stream[0], 30, &err), err);
    CHECK_OK(mt_stream_sync(stream[1], 30, &err), err);
    CHECK_EQ(counter, 2 * TURNS);
    CHECK(!mt_comm_computes());
    for (int i = 0; i < 2 * TURNS; i++) {
        CHECK(seconds[i][0] <= seconds[i][1] && (!i || seconds[i][0] >= seconds[i - 1][1]), "call %d", i);
        CHECK(pthread_equal(work[i].thread, work[i % 2].thread) && !pthread_equal(work[i].thread, pthread_self()));
        CHECK_EQ(work[i].threads, omp_get_max_threads());
    }
    CHECK(seconds[0][1] - seconds[0][0] >= 0.019 && seconds[1][1] <= mt_now_s());
}

/* Denormal numbers are zero on streams, and stay what they are elsewhere. */
static void test_denormals(void) {
    static const struct mt_backend tiny = {.name = "test", .run = run_tiny};
    int zeros = 0;
    struct mt_call call = {.kind = MT_OP_fill, .scratch = &zeros};
    mt_stream_op(stream[0], &tiny, &call, NULL);
    CHECK_OK(mt_stream_sync(stream[0], 30, &err), err);
    CHECK_EQ(zeros, 2);
    volatile float smallest = 0x1p-126f, half = smallest * 0.5f;
    CHECK(half > 0);
}

/* A wait is for the record before it, not for later ones. */
static void test_tickets(void) {
    int counter = 0;
    struct work late = {.counter = &counter, .before = 1}, first = {.counter = &counter, .sleep_s = 0.01},
                second = {.counter = &counter, .before = 2};
    struct mt_call calls[3] = {call_of(&first), call_of(&late), call_of(&second)};
    mt_stream_op(stream[0], &backend, &calls[0], NULL);
    mt_event_record(event[0], stream[0]);
    mt_stream_wait(stream[1], event[0]);
    mt_stream_op(stream[1], &backend, &calls[1], NULL);
    mt_event_record(event[1], stream[1]);
    mt_stream_wait(stream[0], event[1]); /* the second record comes after what waits for the first */
    mt_stream_op(stream[0], &backend, &calls[2], NULL);
    mt_event_record(event[0], stream[0]);
    CHECK_OK(mt_stream_sync(stream[0], 30, &err), err);
    CHECK_EQ(counter, 3);
}

/* After an error nothing runs on this stream and on one that waits for it, until both have reported it. */
static void test_error(void) {
    int counter = 0;
    struct work bad = {.counter = &counter, .sleep_s = 0.01, .fails = true}, skipped = {.counter = &counter},
                good = {.counter = &counter};
    struct mt_call calls[3] = {call_of(&bad), call_of(&skipped), call_of(&good)};
    mt_stream_op(stream[0], &backend, &calls[0], NULL);
    mt_stream_op(stream[0], &backend, &calls[1], NULL);
    mt_event_record(event[0], stream[0]);
    mt_stream_wait(stream[1], event[0]);
    mt_stream_op(stream[1], &backend, &calls[1], NULL);
    for (int s = 1; s >= 0; s--) {
        err = (struct mt_err)MT_ERR_INIT;
        CHECK_EQ(mt_stream_sync(stream[s], 30, &err), MT_ESYSTEM);
        CHECK_TEXT(err.text, "fill: failed on purpose");
        CHECK_EQ(counter, 0);
    }
    err = (struct mt_err)MT_ERR_INIT;
    mt_stream_op(stream[0], &backend, &calls[2], NULL);
    mt_event_record(event[0], stream[0]);
    mt_stream_wait(stream[1], event[0]);
    CHECK_OK(mt_stream_sync(stream[1], 30, &err), err);
    CHECK_OK(mt_stream_sync(stream[0], 30, &err), err);
    CHECK_EQ(counter, 1);
}

/* What is held does not end before the gate opens: who returns earlier has not waited for it. */
static void test_deadline(void) {
    int counter = 0;
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    struct work held = {.counter = &counter, .gate = &gate};
    struct mt_call call = call_of(&held);
    pthread_mutex_lock(&gate);
    double start_s = mt_now_s();
    mt_stream_op(stream[0], &backend, &call, NULL);
    CHECK_EQ(mt_stream_sync(stream[0], 0.1, &err), MT_ESTALL);
    CHECK(mt_now_s() - start_s >= 0.1 && strstr(err.text, "\"compute\""), "%s", err.text);
    err = (struct mt_err)MT_ERR_INIT;
    while (!mt_stream_query(stream[0]).what) mt_sleep_s(1e-3); /* until it is begun */
    CHECK_EQ(mt_stream_sync(stream[0], 0.01, &err), MT_ESTALL);
    CHECK(strstr(err.text, "fill"), "%s", err.text);
    err = (struct mt_err)MT_ERR_INIT;
    pthread_mutex_unlock(&gate);
    CHECK_OK(mt_stream_sync(stream[0], INFINITY, &err), err);
    CHECK_EQ(counter, 1);
}

/* A stream that is freed leaves out what it has not begun, and a wait that nothing will end. */
static void test_free(void) {
    struct mt_stream *doomed;
    struct mt_event *never;
    int counter = 0;
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    struct work held = {.counter = &counter, .gate = &gate}, not_run = {.counter = &counter};
    struct mt_call calls[2] = {call_of(&held), call_of(&not_run)};
    CHECK_OK(mt_stream_new(device, "doomed", &doomed, &err), err);
    CHECK_OK(mt_event_new(device, &never, &err), err);
    pthread_mutex_lock(&gate);
    mt_stream_op(stream[0], &backend, &calls[0], NULL);
    mt_event_record(never, stream[0]);
    mt_stream_wait(doomed, never);
    mt_stream_op(doomed, &backend, &calls[1], NULL);
    mt_stream_free(doomed);
    pthread_mutex_unlock(&gate);
    CHECK_OK(mt_stream_sync(stream[0], 30, &err), err);
    CHECK_EQ(counter, 1);
    mt_event_free(never);
}

/* Copies keep the stream's order; waiting for an event leaves what comes after it alone, reports errors before it, and
 * has the stream's deadline. */
static void test_copies_and_events(void) {
    int counter = 0;
    void *inside, *outside[2];
    struct work first = {.counter = &counter, .sleep_s = 0.05}, bad = {.counter = &counter, .fails = true};
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    struct work held = {.counter = &counter, .before = 1, .gate = &gate};
    struct mt_call calls[3] = {call_of(&first), call_of(&held), call_of(&bad)};
    CHECK_EQ(mt_device_depth(device), 1);
    CHECK(!mt_device_captures(device));
    CHECK_OK(mt_device_alloc(device, 8, &inside, &err), err);
    for (int i = 0; i < 2; i++) CHECK_OK(mt_device_host_alloc(device, 8, &outside[i], &err), err);
    CHECK_OK(mt_event_sync(event[1], 0.01, &err), err); /* its last record was made long ago */
    pthread_mutex_lock(&gate);
    mt_stream_op(stream[0], &backend, &calls[0], NULL);
    mt_stream_copy(stream[0], MT_COPY_IN, inside, &counter, sizeof counter); /* what the operator has made it */
    mt_event_record(event[0], stream[0]);
    mt_stream_op(stream[0], &backend, &calls[1], NULL);
    mt_event_record(event[1], stream[0]);
    CHECK_OK(mt_event_sync(event[0], 30, &err), err);
    CHECK_EQ(*(int *)inside, 1);
    while (!mt_stream_query(stream[0]).what) mt_sleep_s(1e-3);
    CHECK_EQ(mt_event_sync(event[1], 0.1, &err), MT_ESTALL);
    CHECK(strstr(err.text, "fill"), "%s", err.text);
    err = (struct mt_err)MT_ERR_INIT;
    pthread_mutex_unlock(&gate);
    mt_stream_copy(stream[0], MT_COPY_OUT, outside[0], &counter, sizeof counter);
    mt_stream_op(stream[0], &backend, &calls[2], NULL);
    mt_stream_copy(stream[0], MT_COPY_OUT, outside[1], &counter, sizeof counter); /* left out */
    mt_event_record(event[0], stream[0]);
    CHECK_EQ(mt_event_sync(event[0], 30, &err), MT_ESYSTEM);
    CHECK_TEXT(err.text, "fill: failed on purpose");
    err = (struct mt_err)MT_ERR_INIT;
    CHECK_OK(mt_stream_sync(stream[0], 30, &err), err);
    CHECK_EQ(*(int *)outside[0], 2);
    CHECK_EQ(*(int *)outside[1], 0);
    for (int i = 0; i < 2; i++) mt_device_host_free(device, outside[i]);
    mt_device_free(device, inside);
}

static void test_memory(void) {
    static const int64_t sizes[] = {0, 1, 4097, 3 << 20, 100 << 20};
    void *memory[5];
    for (int i = 0; i < 5; i++) {
        CHECK_OK(mt_device_alloc(device, sizes[i], &memory[i], &err), err);
        CHECK_EQ((uintptr_t)memory[i] % (sizes[i] >= 2 << 20 ? 2 << 20 : 64), 0);
        char first = 7, last = 9, back[2];
        if (sizes[i] < 2) continue;
        CHECK_OK(mt_device_copy_in(device, memory[i], &first, 1, &err), err);
        CHECK_OK(mt_device_copy_in(device, (char *)memory[i] + sizes[i] - 1, &last, 1, &err), err);
        CHECK_OK(mt_device_copy_out(device, back, memory[i], 1, &err), err);
        CHECK_OK(mt_device_copy_out(device, back + 1, (char *)memory[i] + sizes[i] - 1, 1, &err), err);
        CHECK(back[0] == 7 && back[1] == 9);
    }
    char *repeated = memory[2]; /* the last time in part */
    CHECK_OK(mt_device_repeat(device, repeated, 4096, "abcde", 5, &err), err);
    for (int i = 0; i < 4096; i++) CHECK_EQ(repeated[i], "abcde"[i % 5]);
    CHECK_EQ(repeated[4096], 9);
    repeated = memory[3]; /* by many copies */
    CHECK_OK(mt_device_repeat(device, repeated, (3 << 20) - 1, "abcde", 5, &err), err);
    for (int i = 0; i < (3 << 20) - 1; i++) CHECK_EQ(repeated[i], "abcde"[i % 5]);
    CHECK_EQ(repeated[(3 << 20) - 1], 9);
    for (int i = 0; i < 4; i++) mt_device_free(device, memory[(i + 2) % 5]); /* the last by closing */
    mt_device_free(device, NULL);
    void *none;
    CHECK_EQ(mt_device_alloc(device, INT64_MAX / 4, &none, &err), MT_ESYSTEM);
    CHECK(strstr(err.text, "GB free"), "%s", err.text);
    int64_t available = mt_device_memory_bytes(device);
    CHECK(available > 1 << 20 && available < (int64_t)1 << 50, "%lld", (long long)available);
}

static int copies;

static enum mt_status count_copy(struct mt_device *counted, void *to, const void *from, int64_t size_bytes,
                                 struct mt_err *error) {
    (void)counted, (void)error;
    memcpy(to, from, (size_t)size_bytes);
    copies++;
    return MT_OK;
}

/* Where each copy is a turn to a GPU and back, a short pattern is not copied by itself. */
static void test_repeat_in_few_copies(void) {
    const struct mt_device_class class = {.copy_in = count_copy};
    struct mt_device counted = {.class = &class};
    int64_t size_bytes = 5 << 20;
    char *memory = mt_malloc((size_t)size_bytes);
    CHECK_OK(mt_device_repeat(&counted, memory, size_bytes, "\377\376", 2, &err), err);
    CHECK(copies <= 5, "%d copies", copies);
    for (int64_t i = 0; i < size_bytes; i++) CHECK_EQ((unsigned char)memory[i], i % 2 ? 254 : 255);
    free(memory);
}

/* A real operator, by the backend that the device names. */
static void test_backend(void) {
    double a[4] = {1, 2, 3, 4}, b[4] = {10, 20, 30, 40}, y[4] = {0};
    struct mt_attr attr = {.axes = 1};
    struct mt_tensor in[2] = {{a, MT_F64, 1, {4}, {0}, {4}}, {b, MT_F64, 1, {4}, {0}, {4}}},
                     out = {y, MT_F64, 1, {4}, {0}, {4}};
    struct mt_call call = {.kind = MT_OP_add, .attr = &attr, .nin = 2, .nout = 1, .in = in, .out = &out};
    const struct mt_backend *chosen = mt_device_backend(device, &call);
    CHECK(chosen == &mt_backend_c, "%s", chosen->name);
    mt_stream_op(stream[0], chosen, &call, NULL);
    CHECK_OK(mt_stream_sync(stream[0], 30, &err), err);
    for (int i = 0; i < 4; i++) CHECK_EQ(y[i], a[i] + b[i]);
}

/* A rank that waits polls for milliseconds, unless its other threads compute. */
static void test_backoff(void) {
    CHECK(!mt_comm_computes() && mt_comm_backoff_s(4e-3, false) == 0 && mt_comm_backoff_s(4e-3, true) > 0);
    for (int computes = 0; computes < 2; computes++) {
        CHECK(mt_comm_backoff_s(1e-4, computes) == 0);
        CHECK(mt_comm_backoff_s(10, computes) <= 2e-3 && mt_comm_backoff_s(10, computes) > 0);
    }
}

int main(void) {
    CHECK_EQ(mt_device_open("abacus", &device, &err), MT_EINPUT);
    CHECK(strstr(err.text, "abacus"), "%s", err.text);
    CHECK_OK(mt_device_open("cpu", &device, &err), err);
    CHECK(!strncmp(mt_device_describe(device), "cpu, ", 5), "%s", mt_device_describe(device));
    static const char *const names[2] = {"compute", "communication that has a long name"};
    for (int s = 0; s < 2; s++) {
        CHECK_OK(mt_stream_new(device, names[s], &stream[s], &err), err);
        CHECK_OK(mt_event_new(device, &event[s], &err), err);
    }
    test_backoff();
    test_order();
    test_denormals();
    test_tickets();
    test_error();
    test_deadline();
    test_free();
    test_copies_and_events();
    test_memory();
    test_repeat_in_few_copies();
    test_backend();
    for (int s = 0; s < 2; s++) {
        mt_stream_free(stream[s]);
        mt_event_free(event[s]);
    }
    mt_device_close(device);
    return 0;
}
