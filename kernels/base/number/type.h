/* Element types of tensors and messages, and the conversions between them.
 *
 * A job's precision fixes two types: the *activation* type (f64, f32, bf16 or f16) and the *accumulation* type
 * (f64, and f32 for the others) of statistics, weight gradients, master weights and optimizer state. */
#ifndef MT_KERNELS_BASE_NUMBER_TYPE_H
#define MT_KERNELS_BASE_NUMBER_TYPE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum mt_type { MT_F64, MT_F32, MT_BF16, MT_F16, MT_I32, MT_NTYPES }; /* integers after all floating-point types */

/* "f64", "f32", "bf16", "f16", "i32" */
const char *mt_type_name(enum mt_type type);
int64_t mt_type_size(enum mt_type type);

/* The accumulation type that goes with an activation type. */
static inline enum mt_type mt_type_acc(enum mt_type type) {
    return type == MT_F64 ? MT_F64 : MT_F32;
}

/* Whether it is a floating-point type of two bytes. */
static inline bool mt_type_is_half(enum mt_type type) {
    return type == MT_BF16 || type == MT_F16;
}

typedef uint16_t mt_bf16; /* the upper half of an IEEE single */
typedef uint16_t mt_f16;  /* an IEEE half: up to 65504, normal from 2^-14, steps of 2^-24 below */

static inline float mt_bf16_to_f32(mt_bf16 b) {
    uint32_t bits = (uint32_t)b << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Round to nearest, ties to even; NaN stays NaN. */
static inline mt_bf16 mt_bf16_from_f32(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    uint32_t nan = (bits >> 16) | 0x40u;
    return (mt_bf16)((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

static inline float mt_f16_to_f32(mt_f16 h) {
    uint32_t magnitude = h & 0x7fffu, bits = (magnitude << 13) + (112u << 23);
    bits += magnitude >= 0x7c00u ? 112u << 23 : 0; /* infinity and NaN */
    float f,
        small = (float)(int32_t)magnitude * 0x1p-24f; /* by arithmetic: as subnormal bits it could be flushed to zero */
    memcpy(&f, &bits, sizeof f);
    f = magnitude < 0x0400u ? small : f;
    memcpy(&bits, &f, sizeof bits);
    bits |= (uint32_t)(h & 0x8000u) << 16;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Round to nearest, ties to even; results of 65536 or more become infinite, NaN stays NaN. */
static inline mt_f16 mt_f16_from_f32(float f) {
    uint32_t bits, shifted;
    memcpy(&bits, &f, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    uint32_t normal = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    memcpy(&f, &magnitude, sizeof f);
    f += 0.5f; /* whose last place is 2^-24 */
    memcpy(&shifted, &f, sizeof shifted);
    uint32_t half = magnitude < 0x38800000u ? shifted - 0x3f000000u : normal;
    half = magnitude >= 0x477ff000u ? 0x7c00u : half;
    half = magnitude > 0x7f800000u ? (magnitude >> 13 & 0x3ffu) | 0x7e00u : half;
    return (mt_f16)(sign | half);
}

/* Convert `count` elements. `to` and `from` may be equal only if the types have one size. Integers convert only to
 * integers. */
void mt_type_convert(enum mt_type to_type, void *to, enum mt_type from_type, const void *from, int64_t count);

/* One element as a double, and back with rounding. */
double mt_type_load(enum mt_type type, const void *data, int64_t index);
void mt_type_store(enum mt_type type, void *data, int64_t index, double value);

/* The index of the first element that is infinite or no number; -1: there is none. */
int64_t mt_type_not_finite(enum mt_type type, const void *data, int64_t count);

/* Synthetic elements for measurements, from a fixed generator: uniform in [low, low + span), integers rounded down. */
void mt_type_noise(enum mt_type type, void *data, int64_t count, double low, double span);

#endif
