/* A table of oneDNN matmul primitives by shape. A primitive is created with the number of threads that will run it,
 * since oneDNN divides the work and sizes the scratch then. */
#include "kernels/cpu/onednn/gemm.h"

#include <assert.h>
#include <dnnl.h>
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/onednn/half.h"

struct gemm {
    struct gemm_shape shape;
    struct gemm *next; /* in its bucket */
    dnnl_primitive_t primitive;
    dnnl_memory_desc_t a, b, bias, c, scratch;
    bool half; /* by half.c, without a primitive */
};

enum { NBUCKETS = 1024 };
static struct gemm *buckets[NBUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static dnnl_engine_t engine;
static dnnl_stream_t stream; /* CPU streams run the work in the calling thread and keep no state */

static enum mt_status failed(dnnl_status_t status, const struct gemm_shape *s, struct mt_err *err) {
    enum mt_status kind = status == dnnl_out_of_memory ? MT_ESYSTEM : MT_EBUG;
    return mt_fail(err, kind, "oneDNN: GEMM m=%lld n=%lld k=%lld %s to %s: %s", (long long)s->m, (long long)s->n,
                   (long long)s->k, mt_type_name(s->in), mt_type_name(s->out),
                   status == dnnl_out_of_memory ? "out of memory" : "refused");
}

static bool same(const struct gemm_shape *x, const struct gemm_shape *y) {
    return x->m == y->m && x->n == y->n && x->k == y->k && x->lda == y->lda && x->ldb == y->ldb && x->ldc == y->ldc &&
           x->trans_a == y->trans_a && x->trans_b == y->trans_b && x->accumulate == y->accumulate &&
           x->bias == y->bias && x->in == y->in && x->out == y->out && x->threads == y->threads;
}

static unsigned bucket_of(const struct gemm_shape *s) {
    uint64_t h = 0;
    const int64_t fields[] = {s->m,
                              s->n,
                              s->k,
                              s->lda,
                              s->ldb,
                              s->ldc,
                              s->trans_a | s->trans_b << 1 | s->accumulate << 2 | s->bias << 3,
                              (int64_t)s->in | (int64_t)s->out << 4,
                              s->threads};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        h = (h ^ (uint64_t)fields[i]) * 0x9E3779B97F4A7C15u, h ^= h >> 29;
    return (unsigned)(h % NBUCKETS);
}

static dnnl_data_type_t dnnl_type(enum mt_type type) {
    assert(type == MT_F32 || type == MT_BF16);
    return type == MT_F32 ? dnnl_f32 : dnnl_bf16;
}

static dnnl_status_t matrix(dnnl_memory_desc_t *md, int64_t rows, int64_t cols, int64_t ld, bool trans,
                            enum mt_type type) {
    dnnl_dims_t dims = {rows, cols}, strides = {trans ? 1 : ld, trans ? ld : 1};
    return dnnl_memory_desc_init_by_strides(md, 2, dims, dnnl_type(type), strides);
}

static dnnl_status_t make_attr(const struct gemm_shape *s, dnnl_primitive_attr_t *attr) {
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t st = dnnl_primitive_attr_create(attr);
    if (!st) st = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (!st) st = dnnl_post_ops_create(&ops);
    if (!st && s->accumulate) st = dnnl_post_ops_append_sum(ops, 1);
    if (!st) st = dnnl_primitive_attr_set_post_ops(*attr, ops);
    if (ops) dnnl_post_ops_destroy(ops);
    return st;
}

/* In f32 oneDNN prefers an implementation that does not pack. It loses up to half of its speed when the leading
 * dimension is a multiple of 4 KiB, and a quarter with odd row lengths. The packing one, "gemm:jit", reaches 90% of the
 * peak on all. */
static dnnl_status_t choose(dnnl_matmul_desc_t *desc, const_dnnl_primitive_attr_t attr, enum mt_type in,
                            dnnl_primitive_desc_t *pd) {
    dnnl_primitive_desc_iterator_t it = NULL;
    dnnl_status_t st = in == MT_F32 ? dnnl_primitive_desc_iterator_create(&it, desc, attr, engine, NULL) : dnnl_success;
    for (; !st && it && !*pd; st = dnnl_primitive_desc_iterator_next(it)) {
        const char *kernel = NULL;
        dnnl_primitive_desc_t candidate = dnnl_primitive_desc_iterator_fetch(it);
        dnnl_primitive_desc_query(candidate, dnnl_query_impl_info_str, 0, &kernel);
        if (kernel && !strcmp(kernel, "gemm:jit"))
            *pd = candidate;
        else
            dnnl_primitive_desc_destroy(candidate);
    }
    if (it) dnnl_primitive_desc_iterator_destroy(it);
    return *pd ? dnnl_success : dnnl_primitive_desc_create(pd, desc, attr, engine, NULL);
}

static dnnl_status_t make_primitive(struct gemm *p) {
    const struct gemm_shape *s = &p->shape;
    dnnl_matmul_desc_t desc;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_dims_t bias_dims = {1, s->n}, bias_strides = {s->n, 1};
    dnnl_status_t st = make_attr(s, &attr);
    if (!st) st = matrix(&p->a, s->m, s->k, s->lda, s->trans_a, s->in);
    if (!st) st = matrix(&p->b, s->k, s->n, s->ldb, s->trans_b, s->in);
    if (!st) st = matrix(&p->c, s->m, s->n, s->ldc, false, s->out);
    if (!st) st = dnnl_memory_desc_init_by_strides(&p->bias, 2, bias_dims, dnnl_type(s->in), bias_strides);
    if (!st) st = dnnl_matmul_desc_init(&desc, &p->a, &p->b, s->bias ? &p->bias : NULL, &p->c);
    if (!st) st = choose(&desc, attr, s->in, &pd);
    if (!st) {
        const dnnl_memory_desc_t *scratch = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
        if (scratch) p->scratch = *scratch;
        st = dnnl_primitive_create(&p->primitive, pd);
    }
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (attr) dnnl_primitive_attr_destroy(attr);
    return st;
}

/* The lock is held. */
static dnnl_status_t make(const struct gemm_shape *shape, struct gemm **gemm) {
    dnnl_status_t st = engine ? dnnl_success : dnnl_engine_create(&engine, dnnl_cpu, 0);
    if (!st && !stream) st = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
    if (st) return st;
    struct gemm *p = calloc(1, sizeof *p);
    if (!p) return dnnl_out_of_memory;
    p->shape = *shape;
    if (shape->in == MT_BF16 && half_is_best()) {
        p->half = true;
        *gemm = p;
        return st;
    }
    int threads = omp_get_max_threads();
    omp_set_num_threads(shape->threads);
    st = make_primitive(p);
    omp_set_num_threads(threads);
    if (st) {
        free(p);
        return st;
    }
    *gemm = p;
    return st;
}

enum mt_status gemm_get(const struct gemm_shape *shape, const struct gemm **gemm, struct mt_err *err) {
    assert(shape->m > 0 && shape->n > 0 && shape->k > 0 && shape->threads > 0);
    struct gemm **bucket = &buckets[bucket_of(shape)], *p;
    dnnl_status_t st = dnnl_success;
    pthread_mutex_lock(&lock);
    for (p = *bucket; p && !same(&p->shape, shape); p = p->next)
        ;
    if (!p) {
        st = make(shape, &p);
        if (!st) p->next = *bucket, *bucket = p;
    }
    pthread_mutex_unlock(&lock);
    *gemm = p;
    return st ? failed(st, shape, err) : MT_OK;
}

int64_t gemm_scratch_bytes(const struct gemm *gemm) {
    if (gemm->half) return half_scratch_bytes(&gemm->shape);
    return (int64_t)dnnl_memory_desc_get_size(&gemm->scratch);
}

enum mt_status gemm_run(const struct gemm *p, const void *a, const void *b, const void *bias, void *c, void *scratch,
                        struct mt_err *err) {
    if (p->half) {
        half_run(&p->shape, a, b, bias, c, scratch);
        return MT_OK;
    }
    const struct {
        int arg;
        const dnnl_memory_desc_t *md;
        const void *data;
    } operands[] = {{DNNL_ARG_SRC, &p->a, a},
                    {DNNL_ARG_WEIGHTS, &p->b, b},
                    {DNNL_ARG_DST, &p->c, c},
                    {DNNL_ARG_BIAS, &p->bias, bias},
                    {DNNL_ARG_SCRATCHPAD, &p->scratch, scratch}};
    dnnl_exec_arg_t args[5];
    int nargs = 0;
    dnnl_status_t st = dnnl_success;
    for (int i = 0; !st && i < 5; i++) {
        if (!operands[i].data) continue;
        args[nargs].arg = operands[i].arg;
        st = dnnl_memory_create(&args[nargs].memory, operands[i].md, engine, (void *)(uintptr_t)operands[i].data);
        nargs += !st;
    }
    if (!st) st = dnnl_primitive_execute(p->primitive, stream, nargs, args);
    for (int i = 0; i < nargs; i++) dnnl_memory_destroy(args[i].memory);
    return st ? failed(st, &p->shape, err) : MT_OK;
}
