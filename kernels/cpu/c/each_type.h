/* Include TYPED_SOURCE for each activation type, then make the rows of KINDS: see internal.h. */
#define T double
#define A double
#define LOAD(x) (x)
#define STORE(x) (x)
#define EXP(x) mt_c_exp(x)
#define LOG(x) log(x)
#define SQRT(x) sqrt(x)
#define TYPED(name) name##_f64
#include TYPED_SOURCE
#undef T
#undef A
#undef EXP
#undef LOG
#undef SQRT
#undef TYPED

#define T float
#define A float
#define EXP(x) mt_c_expf(x)
#define LOG(x) logf(x)
#define SQRT(x) sqrtf(x)
#define TYPED(name) name##_f32
#include TYPED_SOURCE
#undef T
#undef LOAD
#undef STORE
#undef TYPED

#define T mt_bf16
#define LOAD(x) mt_bf16_to_f32(x)
#define STORE(x) mt_bf16_from_f32(x)
#define TYPED(name) name##_bf16
#include TYPED_SOURCE
#undef T
#undef LOAD
#undef STORE
#undef TYPED

#define T mt_f16
#define LOAD(x) mt_f16_to_f32(x)
#define STORE(x) mt_f16_from_f32(x)
#define TYPED(name) name##_f16
#include TYPED_SOURCE
#undef T
#undef A
#undef LOAD
#undef STORE
#undef EXP
#undef LOG
#undef SQRT
#undef TYPED
#undef TYPED_SOURCE

#ifdef KINDS
KINDS(C_OP)
#undef KINDS
#endif
