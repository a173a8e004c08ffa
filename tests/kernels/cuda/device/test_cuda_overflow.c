/* The scaling of the loss on the GPU, where norms overflowed and where they did not: every bit as in plain C. */
#include "kernels/base/arena.h"
#include "kernels/base/number/rng.h"
#include "kernels/device/device.h"
#include "tests/kernels/op/calls.h"

enum { N = 5003, MOST = 9 };
static struct mt_device *device;
static struct mt_stream *stream;
static int checks, failures;

/* Outputs first in `t`, then inputs; all are copied to the GPU, and what comes back is compared with plain C. */
static void run(enum mt_op_kind kind, const struct mt_attr *attr, int nout, int nin, const struct mt_tensor *t,
                const char *what) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_tensor there[MOST];
    const struct mt_clock clock = {.step = 7, .lr = 0.25};
    struct mt_call here = call_of(kind, attr, &clock, nin, t + nout, nout, t);
    for (int i = 0; i < nout + nin; i++) {
        size_t size_bytes = (size_t)mt_tensor_count(&t[i]) * sizeof(float);
        there[i] = t[i];
        if (i < nout) memset(t[i].data, 0xff, size_bytes);
        CHECK_OK(mt_device_alloc(device, (int64_t)size_bytes, &there[i].data, &err), err);
        CHECK_OK(mt_device_copy_in(device, there[i].data, t[i].data, (int64_t)size_bytes, &err), err);
    }
    struct mt_call call = call_of(kind, attr, &clock, nin, there + nout, nout, there);
    const struct mt_backend *backend = mt_device_backend(device, &call);
    CHECK(backend && backend->supports(&call));
    mt_stream_op(stream, backend, &call, NULL);
    CHECK_OK(mt_stream_sync(stream, 60, &err), err);
    call_run(here);
    for (int o = 0; o < nout; o++) {
        size_t size_bytes = (size_t)mt_tensor_count(&t[o]) * sizeof(float);
        char *got = mt_malloc(size_bytes);
        CHECK_OK(mt_device_copy_out(device, got, there[o].data, (int64_t)size_bytes, &err), err);
        checks++;
        if (memcmp(got, t[o].data, size_bytes)) {
            float first[2];
            memcpy(&first[0], got, sizeof(float)), memcpy(&first[1], t[o].data, sizeof(float));
            printf("FAILED %s, %s: output %d differs; its first is %.9g, and %.9g in plain C\n", mt_op_info[kind].name,
                   what, o, (double)first[0], (double)first[1]);
            failures++;
        }
        free(got);
    }
    for (int i = 0; i < nout + nin; i++) mt_device_free(device, there[i].data);
}

static void set(const struct mt_tensor *t, float x) {
    *(float *)t->data = x;
}

static void scales(void) {
    static const float norms[] = {INFINITY, -INFINITY, NAN, 0, 4, 3e38F}, loss_scales[] = {0x1p-14F, 1, 4096, 0x1p24F};
    const struct mt_attr clips[] = {{.clip = 0}, {.clip = 0.5}}, intervals[] = {{.interval = 1}, {.interval = 4}};
    struct mt_tensor t[MOST];
    for (int i = 0; i < MOST; i++) t[i] = call_tensor(MT_F32, 0, NULL);
    for (int n = 0; n < 6; n++)
        for (int s = 0; s < 4; s++)
            for (int a = 0; a < 2; a++) {
                char what[80];
                snprintf(what, sizeof what, "squared norm %g, loss scale %g", (double)norms[n], (double)loss_scales[s]);
                set(&t[1], norms[n]), set(&t[2], 12), set(&t[3], loss_scales[s]);
                run(MT_OP_grad_scale, &clips[a], 1, 3, t, what);
                if (s == 0) run(MT_OP_grad_scale, &clips[a], 1, 2, t, what);
                for (int good = 0; good < 5; good += 2) {
                    set(&t[3], loss_scales[s]), set(&t[4], (float)good), set(&t[5], 6), set(&t[6], norms[n]);
                    run(MT_OP_loss_scale, &intervals[a], 3, 4, t, what);
                }
            }
    for (int i = 0; i < MOST; i++) free(t[i].data);
}

static void updates(void) {
    const struct mt_attr attr = {
        .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .decay = 0.1, .lr_scale = 1, .momentum = 0.9};
    struct mt_tensor t[9];
    for (int i = 0; i < 7; i++) t[i] = call_tensor(MT_F32, 1, (int64_t[]){N});
    for (int i = 7; i < 9; i++) t[i] = call_tensor(MT_F32, 0, NULL);
    for (int i = 3; i < 7; i++)
        for (int k = 0; k < N; k++) {
            float x = (float)mt_random_normal(1, (uint64_t)i, (uint64_t)k);
            ((float *)t[i].data)[k] = i == 5 ? fabsf(x) : x;
        }
    for (int zero = 0; zero < 2; zero++)
        for (int skipped = 0; skipped < 8; skipped += 3) {
            const char *what = zero ? "a step that is skipped" : "a step after skipped ones";
            for (int k = 0; zero && k < N; k += 2) ((float *)t[6].data)[k] = k % 4 ? INFINITY : NAN;
            set(&t[7], zero ? 0 : 0.125F), set(&t[8], (float)skipped);
            run(MT_OP_adamw, &attr, 3, 6, t, what);
            struct mt_tensor sgd[6] = {t[0], t[1], t[3], t[4], t[6], t[7]};
            run(MT_OP_sgd, &attr, 2, 4, sgd, what);
        }
    for (int i = 0; i < 9; i++) free(t[i].data);
}

int main(void) {
    struct mt_err err = MT_ERR_INIT;
    setenv("MOTLEY_TUNE", "off", 0); /* what tuning finds has tests of its own; here it would take minutes */
    if (mt_device_open("cuda", &device, &err)) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    CHECK_OK(mt_stream_new(device, "compute", &stream, &err), err);
    scales();
    updates();
    mt_stream_free(stream);
    mt_device_close(device);
    printf("%d of %d checks failed\n", failures, checks);
    return failures > 0;
}
