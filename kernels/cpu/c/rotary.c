/* rotary: pairs (x[i], x[i + d/2]) of each head turned by angles in proportion to the position. Su et al., "RoFormer:
 * Enhanced transformer with rotary position embedding" (2021), with halves of a head as the pairs, as in the published
 * checkpoints. Angles are computed in f64, once for each position of the box: an angle may be a million radians, of
 * which f32 would keep no more than a digit after the point. */
#ifndef T
#include <omp.h>

#include "kernels/cpu/c/internal.h"

/* The frequency of each pair; cosines, then sines, of a position. */
static int64_t turn_bytes(const struct mt_call *call) {
    int64_t pairs = last_extent(&call->in[0]) / 2;
    return (3 * pairs * (int64_t)sizeof(double) + 127) / 64 * 64; /* not 0, also where a head has no elements */
}

#define TYPED_SOURCE "kernels/cpu/c/rotary.c"
#include "kernels/cpu/c/each_type.h"
C_OP_WITH(rotary, NULL, turn_bytes);

#else

MT_CLONES static void TYPED(turn_head)(int64_t half, const A *cosine, const A *sine, const T *x, T *y) {
#pragma omp simd
    for (int64_t i = 0; i < half; i++) {
        A a = LOAD(x[i]), b = LOAD(x[i + half]);
        y[i] = STORE(a * cosine[i] - b * sine[i]);
        y[i + half] = STORE(b * cosine[i] + a * sine[i]);
    }
}

static void TYPED(turns_of)(double position, int64_t half, const double *frequency, A *cosine, A *sine) {
    for (int64_t i = 0; i < half; i++) {
        cosine[i] = (A)cos(position * frequency[i]);
        sine[i] = (A)sin(position * frequency[i]);
    }
}

static void TYPED(rotary)(const struct mt_call *call) {
    const struct mt_tensor *t = &call->in[0];
    int64_t samples = t->extent[0], positions = t->extent[1], d = last_extent(t), half = d / 2;
    int64_t heads = mt_tensor_extent(t, 2, t->naxes - 3);
#pragma omp parallel if (samples * positions * heads * d >= WORTH_A_TEAM)
    {
        double *frequency = (double *)(void *)((char *)call->scratch + omp_get_thread_num() * turn_bytes(call));
        A *cosine = (A *)(void *)(frequency + half), *sine = cosine + half;
        for (int64_t i = 0; i < half; i++)
            frequency[i] = (call->attr->inverse ? -1 : 1) * mt_rotary_frequency(call->attr, i, d);
#pragma omp for schedule(static)
        for (int64_t p = 0; p < positions; p++) {
            TYPED(turns_of)((double)(t->offset[1] + p), half, frequency, cosine, sine);
            for (int64_t b = 0; b < samples; b++)
                for (int64_t h = 0; h < heads; h++) {
                    int64_t at = ((b * positions + p) * heads + h) * d;
                    TYPED(turn_head)
                    (half, cosine, sine, (const T *)t->data + at, (T *)call->out[0].data + at);
                }
        }
    }
}
#endif
