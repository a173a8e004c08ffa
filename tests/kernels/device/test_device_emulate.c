/* An emulated device takes 1/speed of what its operators worked, whatever else the machine does at the time: the work
 * measures itself. What comes out to the last digit is shown with a clock of the test's own, in whose time nothing
 * happens but what the test says; with the machine's, only what holds however fast and busy that is. */
#include <omp.h>
#include <stdatomic.h>
#include <time.h>

#include "kernels/cpu/internal.h"
#include "tests/check.h"

/* ---- a clock of the test's own ---- */

/* It goes on by what operators work, by what others take from them, by each reading and by what sleeps are too long. */
static struct {
    pthread_mutex_t lock;
    double now_s;
    double reading_s, sleeping_s, late_s; /* work: of a reading of a thread's clock, of a sleep; and how late it ends */
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Thread_local double fake_worked_s;

static double fake_go(double s) {
    pthread_mutex_lock(&fake.lock);
    double now_s = fake.now_s += s;
    pthread_mutex_unlock(&fake.lock);
    return now_s;
}

static double fake_now_s(void) {
    return fake_go(0);
}

static void fake_work(double s) {
    fake_worked_s += s;
    fake_go(s);
}

static double fake_thread_s(void) {
    fake_work(fake.reading_s);
    return fake_worked_s;
}

static void fake_sleep(double when_s) {
    fake_work(fake.sleeping_s);
    pthread_mutex_lock(&fake.lock);
    if (fake.now_s < when_s) fake.now_s = when_s;
    fake.now_s += fake.late_s;
    pthread_mutex_unlock(&fake.lock);
}

static const struct mt_cpu_clock fake_clock = {fake_now_s, fake_thread_s, fake_sleep};

/* ---- operators ---- */

static double worked_s, stolen_s; /* of all operators: on the processor, and in addition */
static atomic_int burnt;          /* how many on the fake clock */

/* An operator that takes attr.value seconds of the processor; on the fake clock, others take half as much from it. */
static enum mt_status burn(const struct mt_call *call, struct mt_err *err) {
    (void)err;
    struct timespec now;
    double start_s = mt_now_s(), first = -1, used = 0;
    while (used < call->attr->value) {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        double t = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
        if (first < 0) first = t;
        used = t - first;
    }
    worked_s += used;
    stolen_s += mt_now_s() - start_s - used;
    return MT_OK;
}
static const struct mt_backend burner = {.name = "burner", .run = burn};

static enum mt_status burn_fake(const struct mt_call *call, struct mt_err *err) {
    (void)err;
    fake_work(call->attr->value);
    fake_go(call->attr->value / 2);
    worked_s += call->attr->value;
    stolen_s += call->attr->value / 2;
    atomic_fetch_add(&burnt, 1);
    return MT_OK;
}
static const struct mt_backend fake_burner = {.name = "fake burner", .run = burn_fake};

/* Nothing is taken from the queue until all is in it: a stream that waits for work is neither late nor early. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static enum mt_status pass_gate(const struct mt_call *call, struct mt_err *err) {
    (void)call, (void)err;
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return MT_OK;
}
static const struct mt_backend gatekeeper = {.name = "gate", .run = pass_gate};

static struct mt_device *open_device(const struct mt_cpu_clock *clock, int threads, double speed) {
    struct mt_device *device;
    struct mt_err err = MT_ERR_INIT;
    omp_set_num_threads(threads);
    CHECK_OK(mt_device_open("cpu", &device, &err), err);
    ((struct mt_cpu_device *)device)->clock = clock;
    mt_device_emulate(device, speed);
    CHECK((strstr(mt_device_describe(device), "emulated speed") != NULL) == (speed != 1));
    return device;
}

/* ---- what streams take and report ---- */

/* `count` operators, with an event after every `every`; end_s (may be null): when each was over. Returns the time that
 * passed; *reported_s is the sum of what the stream says that they took. */
static double take(struct mt_device *device, double each_s, int count, int every, double *reported_s) {
    enum { MOST = 2000 };
    static double seconds[MOST][2];
    struct mt_err err = MT_ERR_INIT;
    const struct mt_cpu_clock *clock = ((struct mt_cpu_device *)device)->clock;
    struct mt_attr attr = {.value = each_s};
    struct mt_call call = {.kind = MT_OP_count, .attr = &attr};
    struct mt_stream *stream, *other;
    struct mt_event *event;
    CHECK_OK(mt_stream_new(device, "compute", &stream, &err), err);
    CHECK_OK(mt_stream_new(device, "comm", &other, &err), err);
    CHECK_OK(mt_event_new(device, &event, &err), err);
    CHECK(count <= MOST);
    worked_s = stolen_s = *reported_s = 0;
    double start_s = clock->now_s();
    pthread_mutex_lock(&gate);
    mt_stream_op(stream, &gatekeeper, &call, NULL);
    for (int i = 0; i < count; i++) {
        mt_stream_op(stream, clock == &fake_clock ? &fake_burner : &burner, &call, seconds[i]);
        if (i % every == every - 1) mt_event_record(event, stream);
    }
    pthread_mutex_unlock(&gate);
    CHECK_OK(mt_stream_sync(stream, 600, &err), err);
    double wall_s = clock->now_s() - start_s;
    for (int i = 0; i < count; i++) {
        *reported_s += seconds[i][1] - seconds[i][0];
        CHECK(i == 0 || seconds[i][0] >= seconds[i - 1][1] - 1e-9, "operator %d starts before its turn", i);
    }
    mt_stream_free(stream), mt_stream_free(other);
    mt_event_free(event);
    return wall_s;
}

static double wanted_s(double speed, int threads) {
    return worked_s / speed + stolen_s / (threads > 1 ? speed : 1);
}

/* By the machine's clock: never less than the slower device takes, and nothing reported that did not pass. */
static void test_stretch(double speed, double each_s, int count, int every, int threads) {
    struct mt_device *device = open_device(&mt_cpu_clock, threads, speed);
    double reported_s, wall_s = take(device, each_s, count, every, &reported_s), want_s = wanted_s(speed, threads);
    printf("speed %g, operators of %g ms: wall %.4f of what is wanted, reported %.4f; exact from %.1f us on\n", speed,
           each_s * 1e3, wall_s / want_s, reported_s / want_s, 1e6 * mt_device_emulated_exact_s(device));
    CHECK(reported_s > 0.98 * want_s, "%g s, not %g s", reported_s, want_s);
    CHECK(wall_s > reported_s - 1e-3, "%g s reported of %g s", reported_s, wall_s);
    mt_device_close(device);
}

/* By the test's own clock: exactly what the slower device takes, and what one reading for each operator adds. What
 * passed is longer by no more than a reading for each sleep and by how late the last of them was. */
static void test_exact(double speed, double each_s, int count, int every, int threads, double reading_s) {
    fake.reading_s = reading_s, fake.sleeping_s = 33e-6, fake.late_s = 50e-6;
    struct mt_device *device = open_device(&fake_clock, threads, speed);
    double reported_s, wall_s = take(device, each_s, count, every, &reported_s), want_s = wanted_s(speed, threads);
    if (threads == 1 && speed != 1) want_s += count * reading_s / speed;
    /* One reading more where the stream had to wait behind the gate. */
    CHECK(reported_s > want_s - 1e-9 && reported_s < want_s + reading_s / speed + 1e-9, "%.9f s, not %.9f s",
          reported_s, want_s);
    double most_s = want_s + fake.sleeping_s + fake.late_s + (2 * count + 2) * reading_s / speed + 1e-9;
    CHECK(wall_s > want_s - 20e-6 - 1e-9 && wall_s < most_s, "%g s, not %g to %g s", wall_s, want_s, most_s);
    mt_device_close(device);
}

/* How exact it is: what an operator is charged beyond its work, ten times; said where that is more than is promised.
 */
static void test_doubt(double reading_s, const char *said) {
    fake.reading_s = reading_s, fake.sleeping_s = 33e-6, fake.late_s = 50e-6;
    struct mt_device *device = open_device(&fake_clock, 1, 0.25);
    CHECK_NEAR(mt_device_emulated_exact_s(device), reading_s / MT_EMULATED_ERROR, 1e-9);
    const char *text = strstr(mt_device_describe(device), "emulated speed 0.25");
    CHECK(text);
    CHECK_TEXT(text, said);
    mt_device_close(device);
    device = open_device(&fake_clock, 1, 1);
    CHECK(mt_device_emulated_exact_s(device) == 0);
    mt_device_close(device);
}

/* Another stream that waits for an event sees it when the slower device would have come to it; copies without any
 * operator, and collectives, are as fast as ever. */
static void test_dependants(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_stream *compute, *comm;
    struct mt_event *event;
    struct mt_attr attr = {.value = 0.02};
    struct mt_call call = {.kind = MT_OP_count, .attr = &attr};
    double op[2], copy[2], buffer[4] = {1, 2, 3, 4};
    struct mt_piece piece = {.naxes = 1, .extent = {4}, .stride = {1}, .data = buffer, .type = MT_F64};
    double message[4] = {0};
    struct mt_coll_call copies = {
        .problem = {.acc = MT_F64}, .npack = 1, .pack = &piece, .message = {message}, .message_count = {4}};
    fake.reading_s = fake.sleeping_s = fake.late_s = 0;
    struct mt_device *device = open_device(&fake_clock, 1, 0.2);
    CHECK_OK(mt_stream_new(device, "compute", &compute, &err), err);
    CHECK_OK(mt_stream_new(device, "comm", &comm, &err), err);
    CHECK_OK(mt_event_new(device, &event, &err), err);
    mt_stream_op(compute, &fake_burner, &call, op);
    mt_event_record(event, compute);
    mt_stream_wait(comm, event);
    mt_stream_coll(comm, &copies, copy);
    CHECK_OK(mt_stream_sync(comm, 60, &err), err);
    CHECK_OK(mt_stream_sync(compute, 60, &err), err);
    CHECK_NEAR(op[1] - op[0], 0.02 / 0.2 + 0.01, 1e-9);
    CHECK(copy[0] >= op[1] - 1e-9, "the copy starts %g s before the operator's end", op[1] - copy[0]);
    CHECK_NEAR(copy[1] - copy[0], 0, 1e-9);
    CHECK(message[3] == 4);
    mt_stream_free(compute), mt_stream_free(comm);
    mt_event_free(event);
    mt_device_close(device);
}

/* A stream that owes much can be stopped at once: it looks ten times a second whether it is to stop. */
static void test_stop(void) {
    struct mt_cpu_debt debt = {.clock = &fake_clock, .owed_s = 100};
    atomic_bool stop = true, go_on = false;
    double start_s = fake_now_s();
    mt_cpu_debt_pay(&debt, 20e-6, &stop);
    CHECK_NEAR(fake_now_s() - start_s, 0, 1e-9);
    CHECK_NEAR(debt.owed_s, 100, 1e-9);
    mt_cpu_debt_pay(&debt, 20e-6, &go_on);
    CHECK_NEAR(fake_now_s() - start_s, 100, 1e-6);
    CHECK_NEAR(debt.owed_s, 0, 1e-6);

    struct mt_err err = MT_ERR_INIT;
    struct mt_stream *stream;
    struct mt_attr attr = {.value = 36};
    struct mt_call call = {.kind = MT_OP_count, .attr = &attr};
    const struct mt_cpu_clock real_sleep = {mt_now_s, fake_thread_s, mt_cpu_clock.sleep_until_s};
    struct mt_device *device = open_device(&real_sleep, 1, 0.01);
    CHECK_OK(mt_stream_new(device, "compute", &stream, &err), err);
    atomic_store(&burnt, 0);
    mt_stream_op(stream, &fake_burner, &call, NULL);
    while (!atomic_load(&burnt)) mt_sleep_s(1e-3);
    mt_sleep_s(0.05);
    mt_stream_free(stream); /* an hour is owed: CTest ends who pays it */
    mt_device_close(device);
}

int main(void) {
    test_stretch(1, 1e-3, 100, 1000, 1);
    test_stretch(0.5, 2e-3, 50, 3, 2);
    test_stretch(0.5, 50e-6, 1000, 7, 1);
    test_stretch(0.25, 0.05, 2, 2, 1);
    test_exact(1, 1e-3, 500, 1000, 1, 1e-6);
    test_exact(0.5, 2e-3, 250, 3, 2, 0);
    test_exact(0.5, 50e-6, 2000, 7, 1, 0);
    test_exact(0.5, 50e-6, 2000, 7, 1, 4e-6);
    test_exact(0.25, 0.1, 5, 2, 1, 1e-6);
    test_exact(0.01, 1e-6, 2000, 1, 1, 0.5e-6);
    test_doubt(4.9e-6, "emulated speed 0.25");
    test_doubt(8e-6, "emulated speed 0.25 (inexact for operators below 80 us)");
    test_dependants();
    test_stop();
    return 0;
}
