/* GEMMs in strips, without a GPU: the library's calls, copies and kernels that kernels/cuda/gemm/strips.c makes are
 * done here on the host, element by element, and the result is the GEMM. Every call must be one that the library
 * is fast with: rows, GEMMs of a batch and addresses at multiples of 16 bytes; and stay within its operands. */
#include <stdio.h>

#include "kernels/base/arena.h"
#include "kernels/base/number/rng.h"
#include "tests/check.h"

#ifndef MOTLEY_CUDA
int main(void) {
    printf("skipped: built without CUDA\n");
    return 77;
}
#else
#include "kernels/cuda/gemm/gemm.h"

static const uint64_t seed = 20261122;

/* ---- memory, and who may be where ---- */

enum { MOST_BUFFERS = 4 };
static struct buffer {
    char *at;
    size_t bytes;
} buffers[MOST_BUFFERS];
static int nbuffers;

static void *buffer(size_t bytes) {
    CHECK(nbuffers < MOST_BUFFERS, "no more buffers");
    struct buffer *b = &buffers[nbuffers++];
    *b = (struct buffer){aligned_alloc(GEMM_ALIGN, (bytes + GEMM_ALIGN - 1) / GEMM_ALIGN * GEMM_ALIGN), bytes};
    memset(b->at, 0xff, bytes); /* not a number */
    return b->at;
}

static void release_all(void) {
    while (nbuffers) free(buffers[--nbuffers].at);
}

static void check_inside(const void *data, size_t bytes) {
    const char *at = data;
    for (int i = 0; i < nbuffers; i++)
        if (at >= buffers[i].at && at + bytes <= buffers[i].at + buffers[i].bytes) return;
    CHECK(false, "%zu bytes at %p are nobody's", bytes, data);
}

static double get(enum mt_type type, const void *data, int64_t i) {
    check_inside((const char *)data + i * mt_type_size(type), (size_t)mt_type_size(type));
    return mt_type_load(type, data, i);
}

static void put(enum mt_type type, void *data, int64_t i, double x) {
    check_inside((char *)data + i * mt_type_size(type), (size_t)mt_type_size(type));
    mt_type_store(type, data, i, x);
}

/* ---- what stands in for the device ---- */

static int calls, strip_calls;

static void check_aligned(const char *what, const void *at, int64_t ld, int64_t step, int64_t extent,
                          enum mt_type type) {
    int64_t size = mt_type_size(type);
    CHECK((uintptr_t)at % 16 == 0, "%s begins off 16 bytes", what);
    CHECK(ld * size % 16 == 0, "rows of %s are %lld elements apart", what, (long long)ld);
    CHECK(step * size % 16 == 0, "GEMMs of %s are %lld elements apart", what, (long long)step);
    CHECK(extent * size % 16 == 0, "rows of %s have %lld elements", what, (long long)extent);
}

enum mt_status gemm_multiply(const struct cuda_queue *queue, const struct gemm_shape *s, enum gemm_impl impl,
                             const struct gemm_view *v, const cublasLtMatmulAlgo_t *algo, const struct gemm_data *data,
                             struct mt_err *err) {
    (void)queue, (void)impl, (void)err;
    calls++, strip_calls += algo != NULL;
    check_aligned("a", data->a, v->lda, v->step_a, s->trans_a ? v->m : v->k, s->in);
    check_aligned("b", data->b, v->ldb, v->step_b, s->trans_b ? v->k : v->n, s->in);
    check_aligned("y", data->y, v->ldy, v->step_y, v->n, s->out);
    for (int batch = 0; batch < v->batches; batch++)
        for (int64_t i = 0; i < v->m; i++)
            for (int64_t j = 0; j < v->n; j++) {
                int64_t to = batch * v->step_y + i * v->ldy + j;
                double sum = 0;
                for (int64_t k = 0; k < v->k; k++) {
                    int64_t at_a = batch * v->step_a + (s->trans_a ? k * v->lda + i : i * v->lda + k);
                    int64_t at_b = batch * v->step_b + (s->trans_b ? j * v->ldb + k : k * v->ldb + j);
                    sum += get(s->in, data->a, at_a) * get(s->in, data->b, at_b);
                }
                put(s->out, data->y, to, sum + (v->beta != 0 ? v->beta * get(s->out, data->y, to) : 0));
            }
    return MT_OK;
}

static bool scatters;
static enum mt_type moved_type;
static int moved_strips;

enum mt_status cuda_kernel(struct cuda *cuda, const char *source, const char *definitions, const char *name,
                           int shared_bytes, CUfunction *kernel, struct mt_err *err) {
    (void)cuda, (void)source, (void)shared_bytes, (void)err;
    scatters = !strcmp(name, "scatter_edges");
    CHECK(scatters || !strcmp(name, "gather_edges"), "an unknown kernel: %s", name);
    moved_type = strstr(definitions, "-DTYPE=bf16") ? MT_BF16 : MT_F32;
    CHECK_EQ(sscanf(strstr(definitions, "-DSTRIPS="), "-DSTRIPS=%d", &moved_strips), 1);
    *kernel = NULL;
    return MT_OK;
}

/* gather_edges and scatter_edges of matmul_epilogue.cu, written from their specification. */
enum mt_status cuda_launch(const struct cuda_queue *queue, CUfunction kernel, int64_t blocks, int threads,
                           int shared_bytes, void **arguments, struct mt_err *err) {
    (void)queue, (void)kernel, (void)blocks, (void)shared_bytes, (void)err;
    const void *from = *(void **)arguments[0];
    void *to = *(void **)arguments[1];
    int64_t rows = *(int64_t *)arguments[2], width = *(int64_t *)arguments[3];
    int64_t shift = *(int64_t *)arguments[4], window = *(int64_t *)arguments[5];
    CHECK_EQ(threads, 128);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t e = 0; e < 128; e++) {
            int64_t column = e < 64 ? e : width - 64 + (e - 64), first = i % moved_strips * shift;
            bool over = column < first || column >= first + window;
            if (scatters && over) put(moved_type, to, i * width + column, get(moved_type, from, i * 128 + e));
            if (!scatters) put(moved_type, to, i * 128 + e, over ? get(moved_type, from, i * width + column) : 0);
        }
    return MT_OK;
}

const char *cuda_type(enum mt_type type) {
    return type == MT_BF16 ? "bf16" : "float";
}
enum mt_status cuda_fail(struct mt_err *err, CUresult result, const char *what) {
    return mt_fail(err, MT_ESYSTEM, "%s: %d", what, (int)result);
}
CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    (void)stream;
    check_inside((void *)from, bytes), check_inside((void *)to, bytes);
    memcpy((void *)to, (void *)from, bytes);
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream) {
    (void)stream;
    check_inside((void *)to, bytes);
    memset((void *)to, byte, bytes);
    return CUDA_SUCCESS;
}

/* ---- the GEMMs ---- */

/* Small whole numbers: every sum is exact. */
static void *random_matrix(enum mt_type type, int64_t count, uint64_t stream) {
    void *m = buffer((size_t)(count * mt_type_size(type)));
    for (int64_t i = 0; i < count; i++)
        mt_type_store(type, m, i, (double)mt_random_below(seed, stream, (uint64_t)i, 5) - 2);
    return m;
}

static void one(struct gemm_shape s, int want_calls) {
    struct mt_err err = MT_ERR_INIT;
    const struct cuda_queue queue = {0};
    struct gemm_choice choice = {.impl = GEMM_STRIPS};
    char text[100];
    snprintf(text, sizeof text, "m=%lld n=%lld k=%lld%s%s %s", (long long)s.m, (long long)s.n, (long long)s.k,
             s.trans_a ? " ta" : "", s.trans_b ? " tb" : "", s.accumulate ? "added" : "");
    CHECK(gemm_strips_possible(&s), "%s: no strips", text);
    void *a = random_matrix(s.in, s.m * s.k, 1), *b = random_matrix(s.in, s.k * s.n, 2);
    void *y = s.accumulate ? random_matrix(s.out, s.m * s.n, 3) : buffer((size_t)(s.m * s.n * mt_type_size(s.out)));
    double *want = mt_calloc((size_t)(s.m * s.n), sizeof *want);
    for (int64_t i = 0; i < s.m; i++)
        for (int64_t j = 0; j < s.n; j++) {
            double sum = s.accumulate ? mt_type_load(s.out, y, i * s.n + j) : 0;
            for (int64_t k = 0; k < s.k; k++)
                sum += mt_type_load(s.in, a, s.trans_a ? k * s.m + i : i * s.k + k) *
                       mt_type_load(s.in, b, s.trans_b ? j * s.k + k : k * s.n + j);
            mt_type_store(s.out, &want[i * s.n + j], 0, sum);
            want[i * s.n + j] = mt_type_load(s.out, &want[i * s.n + j], 0);
        }
    const struct gemm_data data = {
        .a = a, .b = b, .y = y, .scratch = buffer((size_t)(GEMM_WORKSPACE_BYTES + gemm_strips_bytes(&s)))};
    calls = strip_calls = 0;
    CHECK_OK(gemm_strips_run(&queue, &s, &choice, &data, &err), err);
    for (int64_t i = 0; i < s.m * s.n; i++) {
        double got = mt_type_load(s.out, y, i);
        CHECK(got == want[i], "%s: element %lld of row %lld is %g, not %g", text, (long long)(i % s.n),
              (long long)(i / s.n), got, want[i]);
    }
    CHECK_EQ(strip_calls, want_calls);
    free(want);
    release_all();
}

static void refused(struct gemm_shape s, const char *why) {
    CHECK(!gemm_strips_possible(&s), "strips in spite of %s", why);
}

int main(void) {
#ifdef MOTLEY_SANITIZE /* where each takes long: eight, four and two strips */
    static const int64_t extents[] = {513, 514, 516};
#else
    static const int64_t extents[] = {513, 514, 515, 516, 517, 518, 519, 777};
#endif
    const struct gemm_shape half = {.align = 16, .in = MT_BF16, .out = MT_BF16};
    printf("seed %llu\n", (unsigned long long)seed);
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++) {
        struct gemm_shape n = half, k = half, m = half;
        n.m = 512, n.n = extents[i], n.k = 24, n.trans_b = 1;
        one(n, 1);
        k.m = 520, k.n = 16, k.k = extents[i], k.out = MT_F32;
        one(k, 1);
        k.accumulate = 1;
        one(k, 1);
        m.m = extents[i], m.n = 8, m.k = 512, m.trans_a = 1, m.out = MT_F32;
        one(m, 8);
        m.accumulate = 1;
        one(m, 8);
    }
    struct gemm_shape tf32 = {.m = 516, .n = 1021, .k = 8, .align = 16, .in = MT_F32, .out = MT_F32, .trans_b = 1};
    refused(tf32, "full precision");
    tf32.tf32 = 1;
    one(tf32, 1);
    struct gemm_shape s = half;
    s.m = 512, s.n = 520, s.k = 24, s.trans_b = 1;
    refused(s, "aligned rows");
    s.n = 519, s.m = 513;
    refused(s, "rows that no strips share");
    s.m = 512, s.k = 25;
    refused(s, "two odd extents");
    s.k = 24, s.align = 8;
    refused(s, "addresses off 16 bytes");
    s.align = 16, s.trans_b = 0;
    refused(s, "b's rows being odd as well");
    return 0;
}
#endif
