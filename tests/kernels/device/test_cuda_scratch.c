/* What planning takes GPUs' operators to want of scratch, against what they ask for on a GPU: never less, and together
 * not much more. */
#include "kernels/device/cuda_scratch.h"
#include "kernels/device/device.h"
#include "profiler/measure/grid.h"
#include "tests/check.h"

int main(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_device *device;
    struct mt_arena arena = MT_ARENA_INIT;
    if (mt_device_open("cuda", &device, &err)) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    int ncases, served = 0;
    double wanted = 0, planned = 0;
    const struct mt_grid_case *cases = mt_grid_cases(&arena, true, &ncases);
    for (int i = 0; i < ncases; i++) {
        struct mt_call call = mt_grid_call(&cases[i], cases[i].tensors);
        struct mt_attr attr = *call.attr;
        call.attr = &attr;
        const struct mt_backend *backend = mt_device_backend(device, &call);
        if (!backend->supports(&call)) continue;
        for (int any = 0; any <= mt_op_is_attention_grad(call.kind); any++) {
            attr.any_order = any;
            int64_t asked = backend->scratch_bytes(&call), expected = mt_cuda_scratch_bytes(&call);
            CHECK(asked <= expected, "%s %s%s of %lld rows: asks for %lld bytes, planned were %lld",
                  mt_op_info[call.kind].name, cases[i].shape.variant, any ? " in any order" : "",
                  (long long)cases[i].shape.rows, (long long)asked, (long long)expected);
            wanted += (double)asked, planned += (double)expected;
            served++;
        }
    }
    printf("%d calls: %.1f MB asked for, %.1f MB planned\n", served, 1e-6 * wanted, 1e-6 * planned);
    CHECK(served > 100 && planned < 1.25 * wanted + 64e6, "%g, %g", planned, wanted);
    mt_arena_release(&arena);
    mt_device_close(device);
    return 0;
}
