/* Element types of tensors and messages, and the conversions between them.
 *
 * A job's precision fixes two types: the *activation* type (f64, f32 or bf16) and the *accumulation* type
 * (f64, f32, f32) of statistics, weight gradients, master weights and optimizer state. */
#ifndef MT_KERNELS_BASE_TYPE_H
#define MT_KERNELS_BASE_TYPE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum mt_type { MT_F64, MT_F32, MT_BF16, MT_I32, MT_NTYPES };

/* "f64", "f32", "bf16", "i32" */
const char *mt_type_name(enum mt_type type);
bool mt_type_parse(const char *name, enum mt_type *type);
int64_t mt_type_size(enum mt_type type);

/* The accumulation type that goes with an activation type. */
static inline enum mt_type mt_type_acc(enum mt_type type) {
    return type == MT_F64 ? MT_F64 : MT_F32;
}

typedef uint16_t mt_bf16; /* the upper half of an IEEE single */

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

/* Convert `count` elements; `to` and `from` may be the same place only if the sizes are equal. Integers
 * convert only to themselves. */
void mt_type_convert(enum mt_type to_type, void *to, enum mt_type from_type, const void *from, int64_t count);

/* One element as a double, and back with rounding. */
double mt_type_load(enum mt_type type, const void *data, int64_t index);
void mt_type_store(enum mt_type type, void *data, int64_t index, double value);

#endif
