/* The plain C backend: one file for each family of operators, written once and compiled for each type.
 *
 * An operator's file includes itself four times through each_type.h. Read first, it has what no type changes; read
 * again for each type, its typed part; at the end come the rows of its kinds. Names in the typed part:
 *
 *     T          the activation type: double, float, mt_bf16 or mt_f16
 *     A          its accumulation type, double or float, in which all arithmetic is done
 *     LOAD(x), STORE(x)   conversion from T to A, and back
 *     EXP(x), LOG(x), SQRT(x)   of A; EXP of float vectorises
 *     TYPED(name)         name_f64, name_f32, name_bf16, name_f16
 *
 *     #define TYPED_SOURCE "kernels/cpu/c/activation.c"
 *     #define KINDS(row) row(gelu) row(relu)      // rows of kinds without scratch; others: C_OP_WITH
 *     #include "kernels/cpu/c/each_type.h"
 *
 * Hot loops are functions of their own, marked MT_CLONES: compiled for several instruction sets, of which the loader
 * picks the best. OpenMP regions call them and do not contain them, since the outlined part of a region is not cloned.
 * Arrays are divided into blocks of fixed sizes, so that no result depends on the number of threads. */
#ifndef MT_KERNELS_CPU_C_INTERNAL_H
#define MT_KERNELS_CPU_C_INTERNAL_H

#include <math.h>

#include "kernels/base/clones.h"
#include "kernels/op/op.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* One kind: its functions by activation type (MT_F64, MT_F32, MT_BF16, MT_F16), and the memory they need at
 * call->scratch (null: none): scratch_bytes for the whole call, planned by the caller; or thread_bytes for each thread
 * of the team, allocated for the duration of the call. */
struct mt_c_op {
    void (*run[MT_I32])(const struct mt_call *call);
    int64_t (*scratch_bytes)(const struct mt_call *call);
    int64_t (*thread_bytes)(const struct mt_call *call);
};
#define MT_OP(kind, ...) extern const struct mt_c_op mt_c_##kind;
#include "kernels/op/ops.def"
#undef MT_OP
#define C_OP_WITH(kind, scratch, thread)                                                                               \
    const struct mt_c_op mt_c_##kind = {{kind##_f64, kind##_f32, kind##_bf16, kind##_f16}, scratch, thread}
#define C_OP(kind) C_OP_WITH(kind, NULL, NULL);

static inline enum mt_type mt_c_type(const struct mt_call *call) {
    return call->in[0].type == MT_I32 ? call->out[0].type : call->in[0].type;
}

enum {
    BLOCK = 8192,        /* elements of an element-wise block, the unit of work of a thread */
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

/* Sums over rows: each chunk of rows has a partial sum, and partial sums are added in order. The chunks depend on the
 * number of rows alone, so results do not depend on the number of threads. */
static inline int64_t chunk_rows(int64_t rows) {
    return largest(32, (rows + 63) / 64);
}
static inline int64_t chunk_count(int64_t rows) {
    return (rows + chunk_rows(rows) - 1) / chunk_rows(rows);
}

/* to[n] = (accumulate ? to[n] : 0) + the sum over parts of partial[parts][n]; all of accumulation type `acc`. */
void mt_c_add_partials(enum mt_type acc, int64_t parts, int64_t n, const void *partial, bool accumulate, void *to);

/* The axes of `whole` as groups of adjacent axes that are all in `axes` (in) or all not; axes of extent 1 are left out.
 * stride: of the group in `whole`; step: of the group in a contiguous tensor that has only the axes in `axes`, 0 for
 * groups not in `axes`. */
struct groups {
    int n;
    int64_t extent[MT_MAX_AXES], stride[MT_MAX_AXES], step[MT_MAX_AXES];
    bool in[MT_MAX_AXES];
};
void mt_c_groups(const struct mt_tensor *whole, unsigned axes, struct groups *groups);
/* The offset, in the contiguous tensor that has only the axes in `axes`, of row `index` over all groups but the last.
 */
int64_t mt_c_outer_step(const struct groups *groups, int64_t index);
/* Over all groups but the last that are in `axes` (or not, if !in): the product of their extents, and the offset in
 * `whole` of the `index`-th combination of their indices. */
int64_t mt_c_outer_count(const struct groups *groups, bool in);
int64_t mt_c_outer_offset(const struct groups *groups, bool in, int64_t index);

/* The row-major index in the whole value of the box's element `index`. */
uint64_t mt_c_global_index(const struct mt_tensor *box, int64_t index);

/* `count` random numbers for dropout, of the elements from `first` on. Returns a pointer into `buffer`, which has room
 * for count + 8. */
const uint32_t *mt_c_random(uint64_t seed, uint64_t stream, uint64_t first, int64_t count, uint32_t *buffer);

/* e^x with a relative error of 1.5e-7 (double: 4e-16), and the right limits at both ends; NaN stays NaN. No branches or
 * calls, so that loops of it vectorise. x = k ln 2 + r with |r| <= ln(2) / 2, ln 2 in two parts; Taylor series of e^r
 * up to a term below the rounding error; 2^k in two factors, so that the largest and smallest results do not overflow.
 */
#define EXP_SERIES(type, p, r)                                                                                         \
    p = p * r + (type)1 / 720, p = p * r + (type)1 / 120, p = p * r + (type)1 / 24, p = p * r + (type)1 / 6,           \
    p = p * r + (type)0.5, p = p * r * r + r + 1

ALWAYS_INLINE float mt_c_expf(float x) {
    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    float shifted = x * 1.44269504f + 0x1.8p23f; /* k, in the sum's low bits */
    int32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    float whole = shifted - 0x1.8p23f;
    float r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    float p = 1.0f / 5040;
    EXP_SERIES(float, p, r);
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
    EXP_SERIES(double, p, r);
    uint64_t n = bits - 0x4338000000000000u + 2048, half = n >> 1; /* k + 2048, never negative */
    uint64_t low = (half - 1024 + 1023) << 52, high = (n - half - 1024 + 1023) << 52;
    double f, g;
    memcpy(&f, &low, sizeof f), memcpy(&g, &high, sizeof g);
    return p * f * g;
}

/* gelu, tanh form: x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3), since (1 + tanh u) / 2 = sigmoid(2 u). One
 * exponential, and no cancellation where tanh is near -1. */
#define GELU_TWICE_U(type, x) ((type)1.5957691216057308 * ((x) + (type)0.044715 * (x) * (x) * (x)))
#define GELU_TWICE_U_SLOPE(type, x) ((type)1.5957691216057308 * (1 + (type)0.134145 * (x) * (x)))

#endif
