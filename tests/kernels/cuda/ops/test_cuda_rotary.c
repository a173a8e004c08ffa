/* rotary on a CUDA device at positions up to 131071 and beyond, against plain C in f64: heads of every width of access,
 * and wider than one launch turns; into other memory and in place. Turned back, the result is what it was. */
#include "kernels/base/number/rng.h"
#include "kernels/device/device.h"
#include "tests/kernels/op/calls.h"

static struct mt_device *device;
static struct mt_stream *stream;

/* Runs with the output in the input's memory or in other, which is poisoned; the result goes to the host's y. */
static void run(const struct mt_attr *attr, const struct mt_tensor *x, const struct mt_tensor *y, bool in_place) {
    struct mt_err err = MT_ERR_INIT;
    int64_t size_bytes = mt_tensor_bytes(x);
    void *memory;
    CHECK_OK(mt_device_alloc(device, 2 * size_bytes, &memory, &err), err);
    char *both = memset(malloc(2 * (size_t)size_bytes), 0xff, 2 * (size_t)size_bytes);
    memcpy(both, x->data, (size_t)size_bytes);
    CHECK_OK(mt_device_copy_in(device, memory, both, 2 * size_bytes, &err), err);
    struct mt_tensor in = *x, out = *y;
    in.data = memory, out.data = (char *)memory + (in_place ? 0 : size_bytes);
    struct mt_call call = call_of(MT_OP_rotary, attr, NULL, 1, &in, 1, &out);
    CHECK_OK(mt_call_check(&call, &err), err);
    const struct mt_backend *backend = mt_device_backend(device, &call);
    CHECK(backend->supports(&call), "rotary is not supported");
    mt_stream_op(stream, backend, &call, NULL);
    CHECK_OK(mt_stream_sync(stream, 60, &err), err);
    CHECK_OK(mt_device_copy_out(device, both, memory, 2 * size_bytes, &err), err);
    CHECK(in_place || !memcmp(both, x->data, (size_t)size_bytes), "the input was written to");
    memcpy(y->data, both + (in_place ? 0 : size_bytes), (size_t)size_bytes);
    free(both);
    mt_device_free(device, memory);
}

static void compare(const struct mt_tensor *got, const struct mt_tensor *want, double near, const char *what) {
    for (int64_t i = 0; i < mt_tensor_count(want); i++) {
        double is = mt_type_load(got->type, got->data, i), shall = mt_type_load(want->type, want->data, i);
        CHECK(fabs(is - shall) <= near * (1 + fabs(shall)),
              "%s in %s, heads of %lld from position %lld: [%lld] is %.9g, not %.9g", what, mt_type_name(got->type),
              (long long)got->extent[got->naxes - 1], (long long)got->offset[1], (long long)i, is, shall);
    }
}

static void check(struct mt_attr attr, enum mt_type type, int64_t size, int64_t first) {
    static const double limits[MT_NTYPES] = {[MT_F32] = 4e-6, [MT_BF16] = 8e-3, [MT_F16] = 1e-3};
    const int64_t shape[4] = {2, 7, 5, size};
    struct mt_tensor exact[2], x = call_tensor(type, 4, shape), y = call_tensor(type, 4, shape);
    for (int i = 0; i < 2; i++) exact[i] = call_tensor(MT_F64, 4, shape);
    struct mt_tensor *all[4] = {&exact[0], &exact[1], &x, &y};
    for (int i = 0; i < 4; i++) all[i]->offset[1] = first, all[i]->global[1] = first + 7;
    for (int64_t i = 0; i < mt_tensor_count(&x); i++) {
        float value = (float)mt_random_normal(31, 0, (uint64_t)i);
        double held = (double)mt_bf16_to_f32(mt_bf16_from_f32(value));
        mt_type_store(MT_F64, exact[0].data, i, held), mt_type_store(type, x.data, i, held);
    }
    CALL(rotary, &attr, NULL, (exact[0]), (exact[1]));
    for (int in_place = 0; in_place < 2; in_place++) {
        memset(y.data, 0xff, (size_t)mt_tensor_bytes(&y));
        run(&attr, &x, &y, in_place);
        compare(&y, &exact[1], limits[type], in_place ? "in place" : "apart");
    }
    attr.inverse = !attr.inverse;
    run(&attr, &y, &x, false);
    compare(&x, &exact[0], 3 * limits[type], "turned back");
    for (int i = 0; i < 4; i++) free(all[i]->data);
}

int main(void) {
    static const int64_t sizes[] = {2, 6, 16, 24, 64, 80, 128, 512, 1032}, firsts[] = {0, 4090, 131065, (1 << 24) - 7};
    static const struct mt_attr attrs[] = {
        {.rope_base = 10000},
        {.rope_base = 500000, .rope_factor = 8, .rope_low = 1, .rope_high = 4, .rope_context = 8192},
        {.rope_base = 0.5, .inverse = true}}; /* more than a turn each position */
    struct mt_err err = MT_ERR_INIT;
    setenv("MOTLEY_TUNE", "off", 0);
    if (mt_device_open("cuda", &device, &err)) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    CHECK_OK(mt_stream_new(device, "compute", &stream, &err), err);
    for (int type = MT_F32; type <= MT_F16; type++)
        for (int a = 0; a < 3; a++)
            for (int s = 0; s < 9; s++)
                for (int p = 0; p < 4; p++) check(attrs[a], (enum mt_type)type, sizes[s], firsts[p]);
    mt_stream_free(stream);
    mt_device_close(device);
    return 0;
}
