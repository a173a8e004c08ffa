/* Sums and maxima, vectorised; operands of another type are converted in chunks that stay in the cache. */
#include "kernels/coll/reduce.h"

#include <assert.h>
#include <math.h>

#include "kernels/base/clones.h"

enum { PIECE = 1024 }; /* elements that are converted at a time */

static inline float max_f32(float a, float b) {
    uint32_t x, y;
    memcpy(&x, &a, sizeof x), memcpy(&y, &b, sizeof y);
    x &= y; /* of +0 and -0 this is +0, and equal numbers are unchanged */
    float both;
    memcpy(&both, &x, sizeof both);
    float most = a > b ? a : b;
    most = a == b ? both : most;
    return a != a ? a : most;
}

static inline double max_f64(double a, double b) {
    uint64_t x, y;
    memcpy(&x, &a, sizeof x), memcpy(&y, &b, sizeof y);
    x &= y;
    double both;
    memcpy(&both, &x, sizeof both);
    double most = a > b ? a : b;
    most = a == b ? both : most;
    return a != a ? a : most;
}

#define REDUCTION(name, to_type, from_type, value)                                                                     \
    MT_CLONES static void name(to_type *restrict to, const from_type *restrict from, int64_t count) {                  \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++) to[i] = (value);                                       \
    }
REDUCTION(add_f32, float, float, to[i] + from[i])
REDUCTION(add_f64, double, double, to[i] + from[i])
REDUCTION(maximum_f32, float, float, max_f32(to[i], from[i]))
REDUCTION(maximum_f64, double, double, max_f64(to[i], from[i]))
REDUCTION(add_bf16_f32, float, mt_bf16, to[i] + mt_bf16_to_f32(from[i]))
REDUCTION(add_f16_f32, float, mt_f16, to[i] + mt_f16_to_f32(from[i]))

static void same_type(enum mt_reduce reduce, enum mt_type type, void *to, const void *from, int64_t count) {
    bool sum = reduce == MT_SUM;
    if (type == MT_F32)
        (sum ? add_f32 : maximum_f32)(to, from, count);
    else if (type == MT_F64)
        (sum ? add_f64 : maximum_f64)(to, from, count);
    else
        assert(!"a type that can be reduced");
}

void mt_coll_reduce(enum mt_reduce reduce, enum mt_type to_type, void *to, enum mt_type from_type, const void *from,
                    int64_t count) {
    assert(reduce != MT_REDUCE_NONE);
    if (to_type == from_type && !mt_type_is_half(to_type)) {
        same_type(reduce, to_type, to, from, count);
        return;
    }
    if (reduce == MT_SUM && to_type == MT_F32 && mt_type_is_half(from_type)) {
        (from_type == MT_BF16 ? add_bf16_f32 : add_f16_f32)(to, from, count);
        return;
    }
    enum mt_type math = mt_type_is_half(to_type) ? MT_F32 : to_type;
    double a[PIECE], b[PIECE];
    for (int64_t at = 0; at < count; at += PIECE) {
        int64_t piece = count - at < PIECE ? count - at : PIECE;
        char *target = (char *)to + at * mt_type_size(to_type);
        mt_type_convert(math, b, from_type, (const char *)from + at * mt_type_size(from_type), piece);
        if (to_type == math) {
            same_type(reduce, math, target, b, piece);
        } else {
            mt_type_convert(math, a, to_type, target, piece);
            same_type(reduce, math, a, b, piece);
            mt_type_convert(to_type, target, math, a, piece);
        }
    }
}

void mt_coll_round(enum mt_type wire, enum mt_type type, void *data, int64_t count) {
    if (wire == type) return;
    double rounded[PIECE];
    for (int64_t at = 0; at < count; at += PIECE) {
        int64_t piece = count - at < PIECE ? count - at : PIECE;
        char *place = (char *)data + at * mt_type_size(type);
        mt_type_convert(wire, rounded, type, place, piece);
        mt_type_convert(type, place, wire, rounded, piece);
    }
}

void mt_coll_neutral(enum mt_reduce reduce, enum mt_type type, void *data, int64_t count) {
    if (!count) return;
    if (reduce != MT_MAX) {
        memset(data, 0, (size_t)(count * mt_type_size(type)));
        return;
    }
    assert(type != MT_I32);
    for (int64_t i = 0; i < count; i++) mt_type_store(type, data, i, -INFINITY);
}
