/* Names, sizes and conversions of element types. */
#include "kernels/base/number/type.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

#include "kernels/base/clones.h"

static const struct {
    const char *name;
    int64_t size_bytes;
} types[MT_NTYPES] = {[MT_F64] = {"f64", 8},
                      [MT_F32] = {"f32", 4},
                      [MT_BF16] = {"bf16", 2},
                      [MT_F16] = {"f16", 2},
                      [MT_I32] = {"i32", 4}};

const char *mt_type_name(enum mt_type type) {
    return types[type].name;
}

int64_t mt_type_size(enum mt_type type) {
    return types[type].size_bytes;
}

double mt_type_load(enum mt_type type, const void *data, int64_t index) {
    switch (type) {
    case MT_F64: return ((const double *)data)[index];
    case MT_F32: return (double)((const float *)data)[index];
    case MT_BF16: return (double)mt_bf16_to_f32(((const mt_bf16 *)data)[index]);
    case MT_F16: return (double)mt_f16_to_f32(((const mt_f16 *)data)[index]);
    case MT_I32: return ((const int32_t *)data)[index];
    case MT_NTYPES: break;
    }
    assert(!"element type");
    return 0;
}

/* Round to single by rounding to odd, so that rounding the result to half rounds `value` once. */
static float to_odd(double value) {
    float f = (float)value;
    if ((double)f == value || isnan(value)) return f;
    if (fabs((double)f) > fabs(value)) f = nextafterf(f, 0);
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    bits |= 1u;
    memcpy(&f, &bits, sizeof f);
    return f;
}

void mt_type_store(enum mt_type type, void *data, int64_t index, double value) {
    switch (type) {
    case MT_F64: ((double *)data)[index] = value; return;
    case MT_F32: ((float *)data)[index] = (float)value; return;
    case MT_BF16: ((mt_bf16 *)data)[index] = mt_bf16_from_f32(to_odd(value)); return;
    case MT_F16: ((mt_f16 *)data)[index] = mt_f16_from_f32(to_odd(value)); return;
    case MT_I32: ((int32_t *)data)[index] = (int32_t)value; return;
    case MT_NTYPES: break;
    }
    assert(!"element type");
}

/* Only the magnitude of an element that is not finite is no less than that of infinity; its bits compare as integers.
 * The loops have no exit, so that they are vectorized; the element is looked for only where there is one. */
#define COUNT_NOT_FINITE(name, word, magnitude, infinity)                                                              \
    MT_CLONES static int64_t name(const word *data, int64_t count) {                                                   \
        int64_t found = 0;                                                                                             \
        _Pragma("omp simd reduction(+ : found)") for (int64_t i = 0; i < count; i++) found +=                          \
            (word)(data[i] & magnitude) >= infinity;                                                                   \
        return found;                                                                                                  \
    }
COUNT_NOT_FINITE(count_f64, uint64_t, UINT64_C(0x7fffffffffffffff), UINT64_C(0x7ff0000000000000))
COUNT_NOT_FINITE(count_f32, uint32_t, UINT32_C(0x7fffffff), UINT32_C(0x7f800000))
COUNT_NOT_FINITE(count_bf16, uint16_t, 0x7fff, 0x7f80)
COUNT_NOT_FINITE(count_f16, uint16_t, 0x7fff, 0x7c00)

int64_t mt_type_not_finite(enum mt_type type, const void *data, int64_t count) {
    bool found = false;
    switch (type) {
    case MT_F64: found = count_f64(data, count) > 0; break;
    case MT_F32: found = count_f32(data, count) > 0; break;
    case MT_BF16: found = count_bf16(data, count) > 0; break;
    case MT_F16: found = count_f16(data, count) > 0; break;
    case MT_I32:
    case MT_NTYPES: break;
    }
    if (!found) return -1;
    int64_t at = 0;
    while (isfinite(mt_type_load(type, data, at))) at++;
    return at;
}

void mt_type_noise(enum mt_type type, void *data, int64_t count, double low, double span) {
    uint32_t x = 12345;
    for (int64_t i = 0; i < count; i++) {
        x = x * 1664525u + 1013904223u;
        double value = low + span * ((x >> 8) * 0x1p-24);
        mt_type_store(type, data, i, type == MT_I32 ? floor(value) : value);
    }
}

#define CONVERSION(name, to_type, from_type, convert)                                                                  \
    MT_CLONES static void name(to_type *restrict to, const from_type *restrict from, int64_t count) {                  \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++) to[i] = convert(from[i]);                              \
    }
CONVERSION(f32_to_bf16, mt_bf16, float, mt_bf16_from_f32)
CONVERSION(bf16_to_f32, float, mt_bf16, mt_bf16_to_f32)
CONVERSION(f32_to_f16, mt_f16, float, mt_f16_from_f32)
CONVERSION(f16_to_f32, float, mt_f16, mt_f16_to_f32)
CONVERSION(f64_to_f32, float, double, (float))
CONVERSION(f32_to_f64, double, float, (double))

void mt_type_convert(enum mt_type to_type, void *to, enum mt_type from_type, const void *from, int64_t count) {
    if (to_type == from_type) {
        if (to != from && count) memmove(to, from, (size_t)(count * mt_type_size(to_type)));
        return;
    }
    assert(to_type != MT_I32 && from_type != MT_I32);
    if (to_type == MT_BF16 && from_type == MT_F32)
        f32_to_bf16(to, from, count);
    else if (to_type == MT_F32 && from_type == MT_BF16)
        bf16_to_f32(to, from, count);
    else if (to_type == MT_F16 && from_type == MT_F32)
        f32_to_f16(to, from, count);
    else if (to_type == MT_F32 && from_type == MT_F16)
        f16_to_f32(to, from, count);
    else if (to_type == MT_F32 && from_type == MT_F64)
        f64_to_f32(to, from, count);
    else if (to_type == MT_F64 && from_type == MT_F32)
        f32_to_f64(to, from, count);
    else
        for (int64_t i = 0; i < count; i++) mt_type_store(to_type, to, i, mt_type_load(from_type, from, i));
}
