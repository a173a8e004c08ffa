/* Operators that no kernel of this backend runs yet: calls of them are refused by name (device/stream.c). */
#include "kernels/cuda/driver/driver.h"

static bool supports(const struct mt_call *call) {
    (void)call;
    return false;
}

#define NO_KERNEL(kind) const struct cuda_op cuda_##kind = {supports, NULL, NULL};
NO_KERNEL(rms_sq)
NO_KERNEL(rms_apply)
NO_KERNEL(rms_dot)
NO_KERNEL(rms_grad)
NO_KERNEL(rms_param_grad)
NO_KERNEL(rotary)
NO_KERNEL(silu_mul)
NO_KERNEL(silu_mul_grad)
