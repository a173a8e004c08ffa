/* A GPU under test with its streams and events, and calls of the module's own operators on it. */
#ifndef MT_TESTS_KERNELS_CUDA_DEVICE_WORK_H
#define MT_TESTS_KERNELS_CUDA_DEVICE_WORK_H

#include "kernels/device/device.h"
#include "tests/check.h"

static struct mt_device *device;
static struct mt_stream *stream[2];
static struct mt_event *event[2];
static struct mt_err err = MT_ERR_INIT;

/* A call with what it points to. */
struct work {
    struct mt_call call;
    struct mt_attr attr;
    struct mt_tensor tensors[8];
};

/* f32; a scalar has no axes. */
static struct mt_tensor tensor_of(void *data, int64_t count) {
    return (struct mt_tensor){data, MT_F32, count != 1, {count}, {0}, {count}};
}

static void *memory_of(int64_t bytes) {
    void *memory;
    CHECK_OK(mt_device_alloc(device, bytes, &memory, &err), err);
    return memory;
}

static void make(struct work *work, enum mt_op_kind kind, int nin, int nout, void *const *data, int64_t count) {
    for (int i = 0; i < nin + nout; i++) work->tensors[i] = tensor_of(data[i], count);
    work->call = (struct mt_call){
        .kind = kind, .attr = &work->attr, .nin = nin, .nout = nout, .in = work->tensors, .out = work->tensors + nin};
}

/* y = value */
static void make_fill(struct work *work, void *y, int64_t count, double value) {
    *work = (struct work){.attr = {.value = value, .to = MT_F32}};
    make(work, MT_OP_fill, 1, 1, (void *[]){y, y}, count);
}

/* y = a + b */
static void make_add(struct work *work, void *a, void *b, void *y, int64_t count) {
    *work = (struct work){.attr = {.axes = 1}};
    make(work, MT_OP_add, 2, 1, (void *[]){a, b, y}, count);
}

static void finish(int s) {
    CHECK_OK(mt_stream_sync(stream[s], 60, &err), err);
}

#endif
