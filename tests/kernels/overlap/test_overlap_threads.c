/* Overlapped GEMMs by threads, up to eight, and sums with a bias, with operators of plain loops: built a second time
 * under ThreadSanitizer (tests/CMakeLists.txt), which sees every access to staging. */
#include <pthread.h>

#include "tests/kernels/overlap/job.h"

static const uint64_t seed = 20261124;

static bool supports(const struct mt_call *call) {
    (void)call;
    return true;
}

/* As odd as a library's may be: a smaller GEMM may need more. */
static int64_t scratch_bytes(const struct mt_call *call) {
    uint64_t shape = (uint64_t)(call->out[0].extent[0] * 1000 + call->out[0].extent[1]);
    return (int64_t)mt_random_below(seed, shape, (uint64_t)(call->attr->trans_a + 2 * call->attr->trans_b), 4000);
}

static double operand(const struct mt_call *call, const struct mt_tensor *t, int64_t i) {
    struct mt_overlap p = {.tf32 = call->attr->tf32};
    return job_operand(&p, mt_type_load(t->type, t->data, i));
}

static enum mt_status add_row(const struct mt_call *call) {
    const struct mt_tensor *a = &call->in[0], *b = &call->in[1], *y = &call->out[0];
    int64_t cols = y->extent[1];
    for (int64_t i = 0; i < y->extent[0] * cols; i++)
        mt_type_store(y->type, y->data, i,
                      mt_type_load(a->type, a->data, i) + mt_type_load(b->type, b->data, i % cols));
    return MT_OK;
}

static enum mt_status compute(const struct mt_call *call, struct mt_err *err) {
    const struct mt_tensor *a = &call->in[0], *b = &call->in[1], *y = &call->out[0];
    bool trans_a = call->attr->trans_a;
    if (call->kind == MT_OP_add) return add_row(call);
    int64_t m = y->extent[0], n = y->extent[1], k = a->extent[!trans_a];
    (void)err;
    memset(call->scratch, 0xff, (size_t)scratch_bytes(call));
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += operand(call, a, trans_a ? l * m + i : i * k + l) *
                       operand(call, b, call->attr->trans_b ? j * k + l : l * n + j);
            mt_type_store(y->type, y->data, i * n + j, sum);
        }
    return MT_OK;
}

static const struct mt_backend plain = {"plain", supports, scratch_bytes, compute};

struct part {
    const struct job *job;
    struct mt_window *window;
    bool apart;
    uint64_t sum;
};

static void *run(void *of) {
    struct part *part = of;
    part->sum = job_run(part->job, part->window, &plain, part->apart, "a GEMM");
    return NULL;
}

static void run_all(const struct job *job, int number) {
    struct mt_window *windows[JOB_RANKS];
    struct part parts[JOB_RANKS];
    pthread_t threads[JOB_RANKS];
    int n = job->problem.n;
    mt_window_local_new(n, mt_overlap_window_bytes(&job->problem), 60, windows);
    for (int r = 0; r < n; r++) {
        parts[r] = (struct part){job, windows[r], number % 2, 0};
        CHECK(!pthread_create(&threads[r], NULL, run, &parts[r]), "a thread");
    }
    for (int r = 0; r < n; r++) pthread_join(threads[r], NULL);
    for (int r = 1; r < n && job->problem.form == MT_OVERLAP_REDUCE; r++)
        CHECK(parts[r].sum == parts[0].sum, "%d ranks, job %d: replicas differ", n, number);
    for (int r = 0; r < n; r++) mt_window_free(windows[r]);
}

/* Jobs of fewer than eight ranks: each so manieth, which has all forms. */
#if defined MOTLEY_TSAN
enum { EVERY = 7 };
#elif defined MOTLEY_SANITIZE
enum { EVERY = 5 };
#else
enum { EVERY = 3 };
#endif

int main(void) {
    static const int counts[] = {1, 2, 3, 4, 5, 8};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (int number = 0, n = counts[c]; number < JOB_NFORMS * JOB_NTYPES; number += n < 8 ? EVERY : 7) {
            struct job job;
            job_init(&job, n, number, seed);
            run_all(&job, number);
            bool gather = job.problem.form == MT_OVERLAP_GATHER;
            if (!gather && (n + number) % 3) continue; /* a third of the sums have a bias as well */
            if (gather)
                job_join(&job);
            else
                job_end_by(&job, MT_OP_add, &plain);
            run_all(&job, number);
        }
    return 0;
}
