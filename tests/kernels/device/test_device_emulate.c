/* An emulated device takes 1/speed of what its operators worked, whatever else the machine does meanwhile: the work
 * measures itself. */
#include <omp.h>
#include <stdatomic.h>
#include <time.h>

#include "kernels/device/device.h"
#include "tests/check.h"

static double worked_s, stolen_s; /* of all operators: on the processor, and beside that */

/* An operator that takes attr.value seconds of the processor. */
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

/* As many operators as take half a second, with an event after every `every`. Returns the wall time; *reported_s is the
 * sum of what the stream says that they took. */
static double take(struct mt_device *device, double each_s, int every, double *reported_s) {
    enum { MOST = 20000 };
    static double seconds[MOST][2];
    struct mt_err err = MT_ERR_INIT;
    struct mt_attr attr = {.value = each_s};
    struct mt_call call = {.kind = MT_OP_count, .attr = &attr};
    struct mt_stream *stream, *other;
    struct mt_event *event;
    CHECK_OK(mt_stream_new(device, "compute", &stream, &err), err);
    CHECK_OK(mt_stream_new(device, "comm", &other, &err), err);
    CHECK_OK(mt_event_new(device, &event, &err), err);
    int count = (int)(0.5 / each_s);
    CHECK(count <= MOST);
    worked_s = stolen_s = *reported_s = 0;
    double start_s = mt_now_s();
    for (int i = 0; i < count; i++) {
        mt_stream_op(stream, &burner, &call, seconds[i]);
        if (i % every == every - 1) mt_event_record(event, stream);
    }
    CHECK_OK(mt_stream_sync(stream, 60, &err), err);
    double wall_s = mt_now_s() - start_s;
    for (int i = 0; i < count; i++) {
        *reported_s += seconds[i][1] - seconds[i][0];
        CHECK(i == 0 || seconds[i][0] >= seconds[i - 1][1] - 1e-9, "operator %d starts before its turn", i);
    }
    mt_stream_free(stream), mt_stream_free(other);
    mt_event_free(event);
    return wall_s;
}

static void test_stretch(double speed, double each_s, int every, int threads) {
    struct mt_device *device;
    struct mt_err err = MT_ERR_INIT;
    double reported_s;
    omp_set_num_threads(threads);
    CHECK_OK(mt_device_open("cpu", &device, &err), err);
    mt_device_emulate(device, speed);
    CHECK((strstr(mt_device_describe(device), "emulated speed") != NULL) == (speed != 1));
    double wall_s = take(device, each_s, every, &reported_s),
           want_s = worked_s / speed + stolen_s / (threads > 1 ? speed : 1);
    printf("speed %g, operators of %g ms: wall %.4f of what is wanted, reported %.4f\n", speed, each_s * 1e3,
           wall_s / want_s, reported_s / want_s);
    CHECK(wall_s > 0.98 * want_s && wall_s < 1.5 * want_s, "%g s, not %g s", wall_s, want_s);
    CHECK(reported_s > 0.98 * want_s && reported_s < 1.1 * want_s, "%g s, not %g s", reported_s, want_s);
    mt_device_close(device);
}

/* Another stream that waits for an event sees it when the slower device would have come to it; copies without any
 * operator, and collectives, are as fast as ever. */
static void test_dependants(void) {
    struct mt_device *device;
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
    CHECK_OK(mt_device_open("cpu", &device, &err), err);
    mt_device_emulate(device, 0.2);
    CHECK_OK(mt_stream_new(device, "compute", &compute, &err), err);
    CHECK_OK(mt_stream_new(device, "comm", &comm, &err), err);
    CHECK_OK(mt_event_new(device, &event, &err), err);
    worked_s = 0;
    mt_stream_op(compute, &burner, &call, op);
    mt_event_record(event, compute);
    mt_stream_wait(comm, event);
    mt_stream_coll(comm, &copies, copy);
    CHECK_OK(mt_stream_sync(comm, 60, &err), err);
    CHECK_OK(mt_stream_sync(compute, 60, &err), err);
    CHECK(op[1] - op[0] > 0.98 * worked_s / 0.2, "%g s, not %g", op[1] - op[0], worked_s / 0.2);
    CHECK(copy[0] >= op[1] - 1e-3, "the copy starts %g s before the operator's end", op[1] - copy[0]);
    CHECK(message[3] == 4);
    mt_stream_free(compute), mt_stream_free(comm);
    mt_event_free(event);
    mt_device_close(device);
}

/* A stream that owes much can be stopped at once. */
static void test_stop(void) {
    struct mt_device *device;
    struct mt_err err = MT_ERR_INIT;
    struct mt_stream *stream;
    struct mt_attr attr = {.value = 0.1};
    struct mt_call call = {.kind = MT_OP_count, .attr = &attr};
    CHECK_OK(mt_device_open("cpu", &device, &err), err);
    mt_device_emulate(device, 0.001); /* 100 s */
    CHECK_OK(mt_stream_new(device, "compute", &stream, &err), err);
    double start_s = mt_now_s();
    mt_stream_op(stream, &burner, &call, NULL);
    mt_sleep_s(0.3);
    mt_stream_free(stream);
    CHECK(mt_now_s() - start_s < 30, "%g s", mt_now_s() - start_s);
    mt_device_close(device);
}

int main(void) {
    test_stretch(1, 1e-3, 1000, 1);
    test_stretch(0.5, 2e-3, 3, 2);
    test_stretch(0.5, 50e-6, 7, 1);
    test_stretch(0.25, 0.1, 2, 1);
    test_dependants();
    test_stop();
    return 0;
}
