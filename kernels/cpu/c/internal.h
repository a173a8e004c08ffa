/* Inside the plain C backend: how operators are written once and made for each type.
 *
 * An operator's file includes itself four times through each_type.h. In the first reading it has what no type
 * changes and, at its end, a row for each kind; in the other readings
 *
 *     T          the activation type: double, float, mt_bf16 or mt_f16
 *     A          its accumulation type: double or float; all arithmetic is done in it
 *     LOAD(x), STORE(x)   T to A and back
 *     EXP(x), LOG(x), SQRT(x)   of A; EXP can be vectorised for float
 *     TYPED(name)         name_f64, name_f32, name_bf16, name_f16
 *
 * Loops that matter are functions of their own, marked MT_CLONES: they are compiled for several instruction sets and
 * the best is taken when the program starts. OpenMP stands around calls of them, because what it outlines would not be
 * cloned. Arrays are indexed by blocks and rows of fixed sizes, so no result depends on the number of threads. */
#ifndef MT_KERNELS_CPU_C_INTERNAL_H
#define MT_KERNELS_CPU_C_INTERNAL_H

#include <math.h>

#include "kernels/base/clones.h"
#include "kernels/op/op.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* One kind: its runs by the activation type (MT_F64, MT_F32, MT_BF16, MT_F16), and the memory they want at
 * call->scratch (null: none): planned, for the whole call, or allocated for the time of the call, for each thread of
 * the team. */
struct mt_c_op {
    void (*run[MT_I32])(const struct mt_call *call);
    int64_t (*scratch_bytes)(const struct mt_call *call);
    int64_t (*thread_bytes)(const struct mt_call *call);
};
#define MT_OP(kind, ...) extern const struct mt_c_op mt_c_##kind;
#include "kernels/op/ops.def"
#undef MT_OP
#define C_OP(kind, scratch, thread)                                                                                    \
    const struct mt_c_op mt_c_##kind = {{kind##_f64, kind##_f32, kind##_bf16, kind##_f16}, scratch, thread}

/* The type that decides which run is taken. */
static inline enum mt_type mt_c_type(const struct mt_call *call) {
    return call->in[0].type == MT_I32 ? call->out[0].type : call->in[0].type;
}

enum {
    BLOCK = 8192,        /* elements of an element-wise block: what a thread takes at a time */
    WORTH_A_TEAM = 16384 /* elements below which one thread is faster */
};

static inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t largest(int64_t a, int64_t b) {
    return a > b ? a : b;
}
static inline int64_t last_extent(const struct mt_tensor *t) {
    return t->extent[t->naxes - 1];
}
/* The product of all extents but the last. */
static inline int64_t row_count(const struct mt_tensor *t) {
    int64_t rows = 1;
    for (int a = 0; a < t->naxes - 1; a++) rows *= t->extent[a];
    return rows;
}

/* Sums over rows are made by chunks of rows, each into a partial of its own, added up in order: chunks depend on the
 * number of rows alone. */
static inline int64_t chunk_rows(int64_t rows) {
    return largest(32, (rows + 63) / 64);
}
static inline int64_t chunk_count(int64_t rows) {
    return (rows + chunk_rows(rows) - 1) / chunk_rows(rows);
}

/* to[n] = (its old content if `accumulate`) + the sum of partial[parts][n]; of the accumulation type `acc`. */
void mt_c_add_partials(enum mt_type acc, int64_t parts, int64_t n, const void *partial, bool accumulate, void *to);

/* The axes of `whole`, those of extent 1 left out and neighbours joined, in groups that are alternately in `axes` and
 * not; `step` is how far a step in the group goes in a dense tensor that has the axes in `axes` only, 0 for the others.
 */
struct groups {
    int n;
    int64_t extent[MT_MAX_AXES], stride[MT_MAX_AXES], step[MT_MAX_AXES];
    bool in[MT_MAX_AXES];
};
void mt_c_groups(const struct mt_tensor *whole, unsigned axes, struct groups *groups);
/* Where row `index` of all groups but the last lies in the dense tensor that has the axes only. */
int64_t mt_c_outer_step(const struct groups *groups, int64_t index);
/* The product of the extents of the groups but the last that are in the axes (or not), and where the `index`-th
 * combination of their indices lies in `whole`. */
int64_t mt_c_outer_count(const struct groups *groups, bool in);
int64_t mt_c_outer_offset(const struct groups *groups, bool in, int64_t index);

/* The row-major index in the whole value of the box's element `index`. */
uint64_t mt_c_global_index(const struct mt_tensor *box, int64_t index);

/* `count` random numbers for dropout, of the elements from `first` on: returns where they are in `buffer`, which has
 * room for count + 8. */
const uint32_t *mt_c_random(uint64_t seed, uint64_t stream, uint64_t first, int64_t count, uint32_t *buffer);

/* e^x to 1.5e-7 of itself (double: 4e-16), with the right limits at both ends; NaN stays NaN. Without branches or
 * calls, so that loops of it are vectorised. Reduction by powers of two in two parts, then the Taylor series, of which
 * the first term left out is below the rounding for |r| <= ln(2) / 2; the power is applied in two halves, to reach the
 * ends. */
ALWAYS_INLINE float mt_c_expf(float x) {
    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    float shifted = x * 1.44269504f + 0x1.8p23f; /* the sum's last bits are the whole number */
    int32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    float whole = shifted - 0x1.8p23f;
    float r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    int32_t n = (int32_t)((uint32_t)bits - 0x4B400000u), half = n >> 1;
    int32_t low = (int32_t)((uint32_t)(half + 127) << 23), high = (int32_t)((uint32_t)(n - half + 127) << 23);
    float f, g;
    memcpy(&f, &low, sizeof f), memcpy(&g, &high, sizeof g);
    return p * f * g;
}

ALWAYS_INLINE double mt_c_exp(double x) {
    x = x < -746.0 ? -746.0 : x;
    x = x > 710.0 ? 710.0 : x;
    double shifted = x * 1.4426950408889634 + 0x1.8p52;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    double whole = shifted - 0x1.8p52;
    double r = (x - whole * 0x1.62e42fefap-1) - whole * 0x1.cf79abc9e3b3ap-40;
    double p = 1.0 / 6227020800;
    p = p * r + 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r * r + r + 1.0;
    uint64_t n = bits - 0x4338000000000000u + 2048, half = n >> 1; /* 2048 more than it is: never negative */
    uint64_t low = (half - 1024 + 1023) << 52, high = (n - half - 1024 + 1023) << 52;
    double f, g;
    memcpy(&f, &low, sizeof f), memcpy(&g, &high, sizeof g);
    return p * f * g;
}

/* gelu in its tanh form is x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3), since (1 + tanh u) / 2 = sigmoid(2 u):
 * one exponential, and no cancellation where the tanh is near -1. */
#define GELU_TWICE_U(type, x) ((type)1.5957691216057308 * ((x) + (type)0.044715 * (x) * (x) * (x)))
#define GELU_TWICE_U_SLOPE(type, x) ((type)1.5957691216057308 * (1 + (type)0.134145 * (x) * (x)))

#endif
