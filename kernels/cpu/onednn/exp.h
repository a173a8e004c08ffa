/* exp for loops that the compiler vectorises: no branch, no call. Relative error below 3e-7 in [-60, 60]; for smaller x
 * the result is 0, for larger x a number above 1e26. That is enough for softmax and GELU, and avoids subnormal results,
 * which are a hundred times slower. For |x| <= 1e9; NaN and infinities give NaN. Cody and Waite's reduction
 * x = k ln 2 + r, |r| <= ln 2 / 2, and a polynomial of degree 6. The limits are applied to the integer k: for limits on
 * x gcc 12 generates branches. */
#ifndef MT_ONEDNN_EXP_H
#define MT_ONEDNN_EXP_H

#include <stdint.h>
#include <string.h>

static inline float fast_exp(float x) {
    const float magic = 0x1.8p23f; /* adding it rounds to an integer, in the low bits */
    float shifted = x * 0x1.715476p0f + magic, whole = shifted - magic;
    float r = x - whole * 0x1.62e4p-1f;
    r -= whole * 0x1.7f7d1cp-20f;
    float p = 0x1.6c16c2p-10f;
    p = p * r + 0x1.111112p-7f;
    p = p * r + 0x1.555556p-5f;
    p = p * r + 0x1.555556p-3f;
    p = p * r + 0.5f;
    p = p * r + 1;
    p = p * r + 1;
    int32_t k;
    memcpy(&k, &shifted, sizeof k);
    k -= 0x4b400000; /* the bits of magic */
    k = k > 87 ? 87 : k;
    k = k < -87 ? -127 : k; /* exponent bits 0: the factor is 0 */
    k = (int32_t)((uint32_t)(k + 127) << 23);
    float power;
    memcpy(&power, &k, sizeof power);
    return p * power;
}

#endif
