/* Overlapped GEMMs of ragged shares, run on a window and compared with a GEMM in f64: ten epochs, with outputs,
 * scratch and staging poisoned, and equal bits in all of them. */
#ifndef MT_TESTS_KERNELS_OVERLAP_JOB_H
#define MT_TESTS_KERNELS_OVERLAP_JOB_H

#include "kernels/base/number/rng.h"
#include "kernels/base/wait.h"
#include "kernels/op/op.h"
#include "kernels/overlap/overlap.h"
#include "kernels/window/window.h"
#include "tests/check.h"

enum { JOB_RANKS = 8, JOB_EPOCHS = 10, JOB_NTYPES = 7, JOB_NFORMS = 4, JOB_NEPILOGUES = 5 };
static const enum mt_op_kind job_epilogues[JOB_NEPILOGUES] = {MT_OP_add, MT_OP_gelu, MT_OP_relu, MT_OP_gelu_grad,
                                                              MT_OP_relu_grad};
static const struct {
    enum mt_type type, out, wire;
    bool tf32;
} job_types[JOB_NTYPES] = {{MT_F64, MT_F64, MT_F64, false},    {MT_F32, MT_F32, MT_F32, false},
                           {MT_F32, MT_F32, MT_BF16, false},   {MT_BF16, MT_F32, MT_F32, false},
                           {MT_BF16, MT_BF16, MT_BF16, false}, {MT_F16, MT_F16, MT_F16, false},
                           {MT_F32, MT_F32, MT_F32, true}};

static inline int64_t job_scratch(void *context, const struct mt_call *call) {
    return ((const struct mt_backend *)context)->scratch_bytes(call);
}

struct job {
    struct mt_overlap problem;
    bool trans_a, trans_b, trans_out;
    enum mt_op_kind epilogue; /* 0: none */
    const struct mt_backend *ops;
    double slack; /* as of job_compare */
    int64_t rows[JOB_RANKS], shares[JOB_RANKS], groups[4];
};

/* Job `number` of n ranks; some have nothing. */
static inline void job_init(struct job *job, int n, int number, uint64_t seed) {
    uint64_t draw = 0, stream = (uint64_t)(n * 1000 + number);
#define DRAW(below) ((int64_t)mt_random_below(seed, stream, draw++, (uint64_t)(below)))
    int form = number % JOB_NFORMS, types = number / JOB_NFORMS % JOB_NTYPES;
    *job = (struct job){.problem = {.n = n,
                                    .type = job_types[types].type,
                                    .out = job_types[types].out,
                                    .wire = job_types[types].wire,
                                    .tf32 = job_types[types].tf32}};
    struct mt_overlap *p = &job->problem;
    p->direct = form == MT_OVERLAP_NFORMS;
    p->form = p->direct ? MT_OVERLAP_REDUCE : (enum mt_overlap_form)form;
    if (p->form == MT_OVERLAP_GATHER) p->wire = p->type;
    int64_t shares = 0;
    for (int r = 0; r < n; r++) {
        p->m += job->rows[r] = DRAW(4) ? DRAW(70) : 0;
        shares += job->shares[r] = DRAW(4) ? 1 + DRAW(50) : 0;
    }
    p->rows = job->rows, p->shares = job->shares;
    p->cols = p->form == MT_OVERLAP_GATHER ? shares : 1 + DRAW(90);
    p->k = p->form == MT_OVERLAP_GATHER ? 1 + DRAW(60) : shares;
    p->tile[0] = 1 + DRAW(40), p->tile[1] = 1 + DRAW(40);
    p->chunk = 1 + DRAW(30);
    p->mix = (int)DRAW(3);
    p->keep = p->form == MT_OVERLAP_GATHER && DRAW(2);
    job->trans_b = DRAW(2);
    job->trans_a = DRAW(2) && p->form != MT_OVERLAP_GATHER;
    job->trans_out = DRAW(2);
    if (p->form == MT_OVERLAP_GATHER && DRAW(3)) p->slabs = 1 + (int)DRAW(6);
    if (p->form == MT_OVERLAP_GATHER && p->slabs > 1 && DRAW(2)) p->k += 64 * p->slabs + DRAW(100);
    if (DRAW(3)) return;
    p->groups = job->groups, p->ngroups = 1 + (int)DRAW(4); /* unequal, instead of chunks */
    for (int i = 0; i < p->ngroups; i++) job->groups[i] = 1 + DRAW(p->tile[0]);
#undef DRAW
}

/* A gather with joint tiles instead, which have neither slabs nor groups. */
static inline void job_join(struct job *job) {
    job->problem.joint = true;
    job->problem.slabs = 0, job->problem.groups = NULL, job->problem.ngroups = 0;
}

/* With an epilogue instead, which sums have no other than a bias; its operators are `ops`'s. */
static inline void job_end_by(struct job *job, enum mt_op_kind epilogue, const struct mt_backend *ops) {
    job->epilogue = epilogue, job->ops = ops;
    job->trans_out = false;
    job->problem.out = job->problem.type;
    CHECK(mt_overlap_takes_epilogue(&job->problem, false, epilogue), "%s", mt_op_info[epilogue].name);
}
static inline void job_end(struct job *job, enum mt_op_kind epilogue) {
    job_end_by(job, epilogue, &mt_backend_c);
}

/* Elements of the whole A and B, and of a bias (2) and an activation's input (3), rounded to the type. */
static inline double job_element(const struct mt_overlap *p, int matrix, int64_t row, int64_t col) {
    double value = 0, x = mt_random_uniform(5, (uint64_t)matrix, (uint64_t)(row * 1000 + col)) * 2 - 1;
    mt_type_store(p->type, &value, 0, x);
    return mt_type_load(p->type, &value, 0);
}

/* As a GEMM takes it: of tf32 are the first 10 bits of the mantissa. */
static inline double job_operand(const struct mt_overlap *p, double element) {
    int exponent;
    if (!p->tf32 || element == 0) return element;
    double mantissa = frexp(element, &exponent);
    return ldexp(nearbyint(ldexp(mantissa, 11)), exponent - 11);
}

static inline int64_t job_start(const int64_t *shares, int rank) {
    int64_t at = 0;
    for (int r = 0; r < rank; r++) at += shares[r];
    return at;
}

static inline void *job_poison(int64_t bytes) {
    void *memory = aligned_alloc(64, (size_t)(bytes + 127) / 64 * 64);
    memset(memory, 0xff, (size_t)bytes); /* NaN in every type */
    return memory;
}

/* rows by cols elements of a matrix, from (row, col) on; transposed in memory. */
static inline void *job_matrix(const struct mt_overlap *p, int matrix, int64_t row, int64_t rows, int64_t col,
                               int64_t cols, bool trans) {
    void *memory = job_poison(rows * cols * mt_type_size(p->type) + 1);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            mt_type_store(p->type, memory, trans ? j * rows + i : i * cols + j,
                          job_element(p, matrix, row + i, col + j));
    return memory;
}

/* What the epilogue of a rank takes, or NULL: of a sum, the bias of all columns; of a gather, its columns'. */
static inline void *job_extra(const struct job *job, int me, int64_t *bytes) {
    const struct mt_op_epilogue *info = mt_op_epilogue(job->epilogue);
    const struct mt_overlap *p = &job->problem;
    bool gather = p->form == MT_OVERLAP_GATHER;
    int64_t rows = !info ? 0 : info->bias ? 1 : p->m, cols = gather ? p->shares[me] : p->cols;
    *bytes = rows * cols * mt_type_size(p->type);
    return info ? job_matrix(p, info->bias ? 2 : 3, 0, rows, gather ? job_start(p->shares, me) : 0, cols, false) : NULL;
}

/* FNV-1a. */
static inline uint64_t job_checksum(const void *data, int64_t bytes) {
    uint64_t sum = 0xcbf29ce484222325u;
    for (int64_t i = 0; i < bytes; i++) sum = (sum ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
    return sum;
}

static inline double job_epsilon(enum mt_type type) {
    return type == MT_F64 ? 0x1p-52 : type == MT_F32 ? 0x1p-23 : type == MT_F16 ? 0x1p-10 : 0x1p-7;
}

/* What an epilogue makes of a sum, and of the element of `extra`; the largest factor by which it enlarges an error. */
static inline double job_epilogue(enum mt_op_kind epilogue, double sum, double extra, double *enlarges) {
    const double c = 0.79788456080286536, cubic = 0.044715;
    double x = epilogue == MT_OP_gelu ? sum + extra : extra, t = tanh(c * (x + cubic * x * x * x));
    double slope = (1 + t) / 2 + x * (1 - t * t) / 2 * c * (1 + 3 * cubic * x * x);
    *enlarges = 1.13; /* the steepest slope of GELU */
    switch (epilogue) {
    case MT_OP_add: return sum + extra;
    case MT_OP_relu: return fmax(sum + extra, 0);
    case MT_OP_gelu: return x * (1 + t) / 2;
    case MT_OP_gelu_grad: return sum * slope;
    case MT_OP_relu_grad: return extra > 0 ? sum : 0;
    default: return sum;
    }
}

/* slack: error of each term that the device may make beyond rounding, relative. `pre`: where there is an epilogue that
 * has it. */
static inline void job_compare(const struct job *job, int me, const void *out, const void *pre, double slack,
                               const char *what) {
    const struct mt_op_epilogue *info = mt_op_epilogue(job->epilogue);
    const struct mt_overlap *p = &job->problem;
    bool gather = p->form == MT_OVERLAP_GATHER;
    int64_t extent[2], row = p->form == MT_OVERLAP_SCATTER ? job_start(p->rows, me) : 0;
    int64_t col = gather ? job_start(p->shares, me) : 0;
    double acc = job_epsilon(mt_type_acc(p->type)), wire = gather ? 0 : job_epsilon(p->wire);
    mt_overlap_extent(p, me, MT_OVERLAP_OUT, extent);
    double *a = malloc((size_t)(extent[0] * p->k + 1) * 8), *b = malloc((size_t)(extent[1] * p->k + 1) * 8);
    for (int64_t i = 0; i < extent[0] * p->k; i++) a[i] = job_operand(p, job_element(p, 0, row + i / p->k, i % p->k));
    for (int64_t i = 0; i < extent[1] * p->k; i++) b[i] = job_operand(p, job_element(p, 1, i % p->k, col + i / p->k));
    for (int64_t i = 0; i < extent[0]; i++)
        for (int64_t j = 0; j < extent[1]; j++) {
            double want = 0, size = 0;
            for (int64_t k = 0; k < p->k; k++) {
                double term = a[i * p->k + k] * b[j * p->k + k];
                want += term;
                size += fabs(term);
            }
            double tolerance = size * ((double)(p->k + p->n) * acc + 2 * wire + slack) +
                               fabs(want) * job_epsilon(p->out) + (p->type == MT_F16 ? 1e-6 : 1e-30);
            double have = mt_type_load(p->out, out, job->trans_out ? j * extent[0] + i : i * extent[1] + j);
            if (info) {
                double extra = job_element(p, info->bias ? 2 : 3, info->bias ? 0 : row + i, col + j), enlarges;
                double sum = want + extra, result = job_epilogue(job->epilogue, want, extra, &enlarges);
                double rounded = tolerance + fabs(sum) * job_epsilon(p->out) + fabs(extra) * wire; /* of RESULT */
                double biased = info->nout > 1 ? mt_type_load(p->out, pre, i * extent[1] + j) : sum;
                CHECK(fabs(biased - sum) <= rounded, "%s, rank %d, (%lld, %lld), before the activation: %g, not %g",
                      what, me, (long long)i, (long long)j, biased, sum);
                tolerance = enlarges * rounded + fabs(result) * job_epsilon(p->out) + 16 * (1 + fabs(sum)) * acc;
                want = result;
            }
            CHECK(fabs(have - want) <= tolerance, "%s, rank %d, (%lld, %lld): %g, not %g +- %g", what, me, (long long)i,
                  (long long)j, have, want, tolerance);
        }
    free(a);
    free(b);
}

/* Ten epochs of a job on a fresh window of mt_overlap_window_bytes; a checksum of the result. `apart`: with barriers,
 * and staging poisoned in between; else with delays. */
static inline uint64_t job_run(const struct job *job, struct mt_window *window, const struct mt_backend *matmul,
                               bool apart, const char *what) {
    const struct mt_overlap *p = &job->problem;
    struct mt_overlap_schedule schedule;
    struct mt_err err = MT_ERR_INIT;
    int me = mt_window_rank(window);
    bool gather = p->form == MT_OVERLAP_GATHER;
    int64_t out_extent[2], share = p->shares[me], share_at = job_start(p->shares, me);
    uint64_t hash = 0;
    CHECK_OK(mt_overlap_check(p, &err), err);
    mt_overlap_schedule(p, me, &schedule);
    mt_overlap_extent(p, me, MT_OVERLAP_OUT, out_extent);
    int64_t bytes = out_extent[0] * out_extent[1] * mt_type_size(p->out);
    int64_t scratch_bytes = mt_overlap_scratch_bytes(p, me, job->epilogue, job_scratch, (void *)(uintptr_t)matmul);
    int64_t staging = mt_overlap_place(p, MT_OVERLAP_STAGED, 0), all = mt_overlap_window_bytes(p);
    void *a = gather ? job_matrix(p, 0, job_start(p->rows, me), p->rows[me], 0, p->k, false)
                     : job_matrix(p, 0, 0, p->m, share_at, share, job->trans_a);
    void *b = gather ? job_matrix(p, 1, 0, p->k, share_at, share, job->trans_b)
                     : job_matrix(p, 1, share_at, share, 0, p->cols, job->trans_b);
    int64_t extra_bytes;
    void *extra = job_extra(job, me, &extra_bytes);
    for (int64_t epoch = 1; epoch <= JOB_EPOCHS; epoch++) {
        int64_t whole_bytes = p->keep ? p->m * p->k * mt_type_size(p->type) : 0;
        void *whole = job_poison(whole_bytes + 1), *out = job_poison(bytes + 1), *pre = job_poison(bytes + 1),
             *scratch = job_poison(scratch_bytes + 1);
        struct mt_overlap_operands operands = {.a = a,
                                               .b = b,
                                               .trans_a = job->trans_a,
                                               .trans_b = job->trans_b,
                                               .trans_out = job->trans_out,
                                               .whole = whole,
                                               .out = out,
                                               .epilogue = job->epilogue,
                                               .extra = extra,
                                               .pre = pre,
                                               .matmul = matmul,
                                               .ops = job->ops,
                                               .scratch = scratch,
                                               .what = what};
        if (apart || epoch == 1) {
            CHECK_OK(mt_window_barrier(window, &err), err);
            memset(mt_window_ptr(window, staging, me), 0xff, (size_t)(all - staging));
            CHECK_OK(mt_window_barrier(window, &err), err);
        } else if (mt_random_below(3, (uint64_t)me, (uint64_t)epoch, 3) == 0) {
            mt_sleep_s(1e-3 * mt_random_uniform(4, (uint64_t)me, (uint64_t)epoch));
        }
        ((unsigned char *)scratch)[scratch_bytes] = 0x5a;
        CHECK_OK(mt_overlap_run(p, &schedule, window, 0, epoch, &operands, &err), err);
        CHECK_EQ(((unsigned char *)scratch)[scratch_bytes], 0x5a); /* nothing beyond it was written */
        uint64_t now = job_checksum(out, bytes) + 3 * job_checksum(pre, bytes);
        if (p->keep) {
            void *want = job_matrix(p, 0, 0, p->m, 0, p->k, false);
            CHECK(!memcmp(whole, want, (size_t)whole_bytes), "%s, rank %d: the gathered operand", what, me);
            free(want);
        }
        free(whole);
        if (epoch == 1) {
            job_compare(job, me, out, pre, job->slack, what);
            hash = now;
        }
        CHECK(now == hash, "%s, rank %d: epoch %lld has other bits", what, me, (long long)epoch);
        free(out);
        free(pre);
        free(scratch);
    }
    mt_overlap_schedule_release(&schedule);
    free(a);
    free(b);
    free(extra);
    return hash;
}

#endif
