/* Every operator in f32, bf16 and f16 against f64 on the same numbers, into poisoned outputs; and the same bits with
 * any number of threads. */
#include <omp.h>

#include "tests/kernels/op/samples.h"

/* Largest |got - want| / (|want| + rms of all). */
static double difference(const double *got, const double *want, int64_t n) {
    double squares = 0, worst = 0;
    for (int64_t i = 0; i < n; i++) squares += want[i] * want[i];
    double rms = n ? sqrt(squares / (double)n) : 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs(got[i] - want[i]);
        if (!(d <= worst * (fabs(want[i]) + rms))) worst = d / (fabs(want[i]) + rms);
        if (worst != worst) return INFINITY;
    }
    return worst;
}

static void compare(const struct sample *s, enum mt_type type, double **want, double **got) {
    sample_run(s, type, NULL, got);
    for (int o = 0; o < s->nout; o++) {
        enum mt_type out = sample_type(s, s->nin + o, type);
        static const double limits[MT_NTYPES] = {[MT_F32] = 1e-5, [MT_BF16] = 6e-3, [MT_F16] = 8e-4};
        double limit = limits[out];
        /* norms of a rounded sum, sums of a rounded gradient */
        bool rounds =
            mt_type_is_half(type) && (s->spec->kind == MT_OP_residual_norm || s->spec->kind == MT_OP_residual_rms);
        bool sums = mt_type_is_half(type) && s->spec->kind == MT_OP_layer_norm_grad && o == 3;
        if (rounds || sums) limit = 2 * limits[type];
        double off = difference(got[o], want[o], sample_count(s, s->nin + o));
        CHECK(off <= limit, "%s in %s: output %d is off by %g", sample_text(s), mt_type_name(type), o, off);
    }
}

/* Under sanitizers a run takes long: one other number of threads is enough to run the same code. */
#ifdef MOTLEY_SANITIZE
static const int threads[] = {3};
#else
static const int threads[] = {2, 3, 5};
#endif

static void same_bits(const struct sample *s, enum mt_type type, double **want, double **got) {
    omp_set_num_threads(1);
    sample_run(s, type, NULL, want);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        omp_set_num_threads(threads[i]);
        sample_run(s, type, NULL, got);
        for (int o = 0; o < s->nout; o++)
            CHECK(!memcmp(got[o], want[o], (size_t)sample_count(s, s->nin + o) * sizeof(double)),
                  "%s in %s: output %d differs on %d threads", sample_text(s), mt_type_name(type), o, threads[i]);
    }
    omp_set_num_threads(2);
}

static void check_types(struct sample *s, int sizes, double **want, double **got) {
    sample_run(s, MT_F64, NULL, want);
    compare(s, MT_F32, want, got);
    compare(s, MT_BF16, want, got);
    compare(s, MT_F16, want, got);
    same_bits(s, MT_F32, want, got);
    if (sizes == 0) same_bits(s, MT_F64, want, got);
}

int main(void) {
    each_sample(20, check_types);
    return 0;
}
