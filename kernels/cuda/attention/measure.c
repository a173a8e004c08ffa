/* Whether an implementation of attention is right, and how long it takes.
 *
 * Each candidate runs the call on random operands. The outputs of its last sample are compared with what the plain
 * kernels ("row") give for that sample alone. A candidate is out if it differs by more than its precision explains, or
 * gives other bits the second time (unless it says so: then it only runs where the job allows it). The fastest of the
 * others wins. */
#include <math.h>
#include <stdlib.h>

#include "kernels/base/arena.h"
#include "kernels/base/log.h"
#include "kernels/base/number/hash.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/tune/bench.h"
#include "kernels/cuda/tune/choose.h"

enum { MOST_TENSORS = 7, ROUNDS = 3, ALIGN = 256 };
static const double round_s = 0.004; /* of timing; at least one run */

/* ---- a call on operands of its own ---- */

struct trial {
    struct cuda_bench bench;
    struct mt_call call, last; /* the last sample alone, with outputs of its own */
    struct mt_tensor tensors[MOST_TENSORS], last_tensors[MOST_TENSORS];
    char *want[MT_MAX_OUT], *got[MT_MAX_OUT]; /* the last sample's outputs, on the host */
    const struct attention_impl *impl;        /* that is timed */
};

static void trial_release(struct trial *t) {
    cuda_bench_release(&t->bench);
    for (int o = 0; o < MT_MAX_OUT; o++) free(t->want[o]), free(t->got[o]);
}

static enum mt_status fill(const struct cuda_queue *queue, const struct mt_tensor *t, struct mt_err *err) {
    return cuda_bench_numbers(queue, t->type, t->data, mt_tensor_count(t), 0, -0.5f, 1, err);
}

/* The last sample of a tensor; its batch is axis 0. */
static struct mt_tensor last_sample(const struct mt_tensor *t) {
    struct mt_tensor one = *t;
    one.extent[0] = 1;
    one.offset[0] += t->extent[0] - 1;
    one.data = (char *)t->data + mt_tensor_bytes(t) - mt_tensor_bytes(&one);
    return one;
}

static enum mt_status allocate(struct trial *t, int64_t scratch_bytes, struct mt_err *err) {
    const struct mt_call call = t->call;
    int64_t at[2 * MOST_TENSORS], size_bytes = ALIGN, n = call.nin + call.nout;
    for (int i = 0; i < n; i++) t->tensors[i] = i < call.nin ? call.in[i] : call.out[i - call.nin];
    for (int i = 0; i < n; i++) {
        at[i] = size_bytes;
        size_bytes += (mt_tensor_bytes(&t->tensors[i]) + ALIGN - 1) / ALIGN * ALIGN;
        at[MOST_TENSORS + i] = size_bytes; /* outputs of the last sample alone */
        if (i >= call.nin)
            size_bytes += (mt_tensor_bytes(&t->tensors[i]) / call.in[0].extent[0] + ALIGN) / ALIGN * ALIGN;
    }
    CUDA_TRY(cuMemAlloc(&t->bench.memory, (size_t)(size_bytes + scratch_bytes)), err, "memory to time attention in");
    char *memory = (char *)(uintptr_t)t->bench.memory;
    for (int i = 0; i < n; i++) {
        t->tensors[i].data = memory + at[i];
        t->last_tensors[i] = last_sample(&t->tensors[i]);
        if (i >= call.nin) t->last_tensors[i].data = memory + at[MOST_TENSORS + i];
    }
    t->call.in = t->tensors, t->call.out = t->tensors + call.nin;
    t->last.in = t->last_tensors, t->last.out = t->last_tensors + call.nin;
    t->call.scratch = t->last.scratch = memory + size_bytes;
    return MT_OK;
}

/* Of the gradient's inputs, o and lse are those of its queries, keys and values. */
static enum mt_status fill_inputs(struct trial *t, struct mt_err *err) {
    enum mt_status st = MT_OK;
    const struct mt_attention a = mt_attention_of(&t->call);
    int drawn = a.gradient ? t->call.nin - 2 : t->call.nin;
    for (int i = 0; !st && i < drawn; i++) st = fill(&t->bench.queue, &t->tensors[i], err);
    if (st || !a.gradient) return st;
    struct mt_call forward = t->call;
    forward.kind = a.packed ? MT_OP_attention_packed : MT_OP_attention;
    forward.nin = drawn - 1, forward.nout = 2;
    forward.in = &t->tensors[1], forward.out = &t->tensors[drawn];
    for (int i = 0; !st && i < ATTENTION_NIMPLS; i++)
        if (attention_can(attention_impls[i], t->bench.queue.cuda, &forward))
            return attention_impls[i]->queue(&t->bench.queue, &forward, err);
    return st;
}

static enum mt_status fetch(struct trial *t, const struct mt_tensor *out, char **to, struct mt_err *err) {
    CUstream stream = t->bench.queue.stream;
    for (int o = 0; o < t->call.nout; o++)
        CUDA_TRY(cuMemcpyDtoHAsync(to[o], (CUdeviceptr)out[o].data, (size_t)mt_tensor_bytes(&out[o]), stream), err,
                 "fetching outputs of attention");
    CUDA_TRY(cuStreamSynchronize(stream), err, "attention");
    return MT_OK;
}

static enum mt_status trial_init(struct trial *t, const struct cuda_queue *queue, const struct mt_call *call,
                                 int64_t scratch_bytes, struct mt_err *err) {
    *t = (struct trial){.call = *call, .last = *call};
    enum mt_status st = cuda_bench_init(&t->bench, queue, err);
    if (!st) st = allocate(t, scratch_bytes, err);
    if (st) return st;
    for (int o = 0; o < call->nout; o++) {
        size_t size_bytes = (size_t)mt_tensor_bytes(&t->last.out[o]);
        t->want[o] = mt_malloc(size_bytes), t->got[o] = mt_malloc(size_bytes);
    }
    st = fill_inputs(t, err);
    if (!st) st = attention_impl_row.queue(&t->bench.queue, &t->last, err);
    return st ? st : fetch(t, t->last.out, t->want, err);
}

/* ---- is it right? ---- */

static enum mt_status run_poisoned(struct trial *t, const struct attention_impl *impl, unsigned char poison,
                                   struct mt_err *err) {
    struct mt_tensor last[MT_MAX_OUT];
    CUstream stream = t->bench.queue.stream;
    for (int o = 0; o < t->call.nout; o++) {
        const struct mt_tensor *out = &t->call.out[o];
        CUDA_TRY(cuMemsetD8Async((CUdeviceptr)out->data, poison, (size_t)mt_tensor_bytes(out), stream), err,
                 "poisoning");
        last[o] = last_sample(out);
    }
    enum mt_status st = impl->queue(&t->bench.queue, &t->call, err);
    return st ? st : fetch(t, last, t->got, err);
}

static double relative(double diff, double norm) {
    double error = diff > 0 ? sqrt(diff / norm) : diff == 0 ? 0 : INFINITY;
    return isfinite(error) ? error : INFINITY;
}

/* The error of an output, |got - want| / |want| in the Euclidean norm; infinite where something is not a number.
 *
 * That norm is dominated by the large rows (a row: one head at one position), and by dv where dq is small. So errors
 * are also taken locally, and more is allowed there: *local is the maximum of
 *
 *   |got - want| / |want| / 10   of each row; |want| counts as at least 1e-3 of the root mean square of the rows
 *   |got - want| / |want| / 3    of each of q, k and v in dqkv (nparts 3), or of k and v in dkv (2); |want| counts as
 * at least 1e-2 of the whole */
static double error_of(const struct mt_tensor *t, int nparts, const char *got, const char *want, double *local) {
    int64_t size = t->naxes > 3 ? t->extent[t->naxes - 1] : 1, nrows = mt_tensor_count(t) / size;
    double(*rows)[2] = mt_calloc((size_t)nrows + 1, sizeof *rows), parts[3][2] = {{0}}; /* squares: got - want, want */
    for (int64_t r = 0; r < nrows; r++) {
        int part = nparts > 1 ? (int)(r / t->extent[3] % nparts) : 0;
        for (int64_t i = r * size; i < (r + 1) * size; i++) {
            double is = mt_type_load(t->type, got, i), shall = mt_type_load(t->type, want, i);
            rows[r][0] += (is - shall) * (is - shall), rows[r][1] += shall * shall;
        }
        for (int j = 0; j < 2; j++) parts[part][j] += rows[r][j];
    }
    *local = 0;
    const double diff = parts[0][0] + parts[1][0] + parts[2][0], norm = parts[0][1] + parts[1][1] + parts[2][1];
    for (int p = 0; p < 3; p++) {
        parts[p][1] = fmax(parts[p][1], 1e-4 * norm);
        *local = fmax(*local, relative(parts[p][0], parts[p][1]) / 3);
    }
    for (int64_t r = 0; r < nrows; r++) {
        double usual = nparts > 1 ? nparts * parts[r / t->extent[3] % nparts][1] / (double)nrows : norm / (double)nrows;
        *local = fmax(*local, relative(rows[r][0], fmax(rows[r][1], 1e-6 * usual)) / 10);
    }
    free(rows);
    return relative(diff, norm);
}

/* q, k and v in output o, or k and v; else 1. */
static int parts_of(const struct mt_call *call, int o) {
    const struct mt_attention a = mt_attention_of(call);
    return !a.gradient || &call->out[o] != a.dkv ? 1 : a.packed ? 3 : 2;
}

static enum mt_status check(struct trial *t, const struct attention_impl *impl, double *error, struct mt_err *err) {
    static const double limits[MT_NTYPES] = {[MT_F32] = 1e-5, [MT_BF16] = 1e-2, [MT_F16] = 2e-3};
    const double allowed = limits[t->call.in[0].type];
    uint64_t hash[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        enum mt_status st = run_poisoned(t, impl, i ? 0x7f : 0xff, err);
        if (st) return st;
        for (int o = 0; o < t->call.nout; o++)
            hash[i] = mt_hash64(t->got[o], (size_t)mt_tensor_bytes(&t->last.out[o]), hash[i]);
    }
    double most_local = 0;
    *error = 0;
    for (int o = 0; o < t->call.nout; o++) {
        double local;
        *error = fmax(*error, error_of(&t->last.out[o], parts_of(&t->call, o), t->got[o], t->want[o], &local));
        most_local = fmax(most_local, local);
    }
    if (hash[0] != hash[1] && !impl->any_order) return mt_fail(err, MT_ESYSTEM, "it gives other bits the second time");
    if (!(*error <= allowed))
        return mt_fail(err, MT_ESYSTEM, "its error is %.3g, and %.3g is allowed", *error, allowed);
    if (!(most_local <= allowed))
        return mt_fail(err, MT_ESYSTEM, "its local error is %.3g times what is allowed", most_local / allowed);
    return MT_OK;
}

/* ---- how long does it take? ---- */

static enum mt_status run(void *context, struct mt_err *err) {
    const struct trial *t = context;
    return t->impl->queue(&t->bench.queue, &t->call, err);
}

/* The least of a few rounds. */
static enum mt_status time_impl(struct trial *t, const struct attention_impl *impl, double *time_s,
                                struct mt_err *err) {
    double once;
    t->impl = impl;
    enum mt_status st = cuda_bench_time(&t->bench, run, t, 1, &once, err);
    int runs = !st && once > 0 && once < round_s ? (int)fmin(round_s / once, 100) : 1;
    *time_s = INFINITY;
    for (int i = 0; !st && i < ROUNDS; i++)
        if (!(st = cuda_bench_time(&t->bench, run, t, runs, &once, err))) *time_s = fmin(*time_s, once);
    return st;
}

/* Times and errors of all; times are infinite for those that are out. Kernels of ours run with their default tiles.
 * Returns the least time. */
static double try_impls(struct trial *t, const char *key, const struct attention_impl *const *impls, int count,
                        double *times_s, double *errors) {
    double least_s = INFINITY;
    bool was = cuda_defaults_only(true);
    for (int i = 0; i < count; i++) {
        struct mt_err err = MT_ERR_INIT;
        if (check(t, impls[i], &errors[i], &err) || time_impl(t, impls[i], &times_s[i], &err)) {
            mt_log(MT_LOG_INFO, "%s: \"%s\" is out: %s", key, impls[i]->name, err.text);
            times_s[i] = INFINITY;
            continue;
        }
        mt_log(MT_LOG_DEBUG, "%s: \"%s\" takes %.1f us, its error is %.2g", key, impls[i]->name, 1e6 * times_s[i],
               errors[i]);
        least_s = fmin(least_s, times_s[i]);
    }
    cuda_defaults_only(was);
    return least_s;
}

/* Candidates within `near` of the fastest have their tiles tuned, and run again. */
static enum mt_status measure(struct trial *t, const char *key, const struct attention_impl *const *impls, int count,
                              const struct attention_impl **best, struct tune_facts *facts, struct mt_err *err) {
    static const double near = 1.3;
    double times_s[ATTENTION_NIMPLS] = {0}, errors[ATTENTION_NIMPLS] = {0};
    double least_s = try_impls(t, key, impls, count, times_s, errors);
    *facts = (struct tune_facts){.time_s = INFINITY, .default_s = isinf(times_s[0]) ? 0 : times_s[0]};
    for (int i = 0; i < count; i++) {
        double again_s;
        struct mt_err ignored = MT_ERR_INIT;
        if (isinf(times_s[i]) || times_s[i] > near * least_s) continue;
        if (impls[i]->queue(&t->bench.queue, &t->call, &ignored)) continue;
        if (time_impl(t, impls[i], &again_s, &ignored)) continue;
        if (again_s < facts->time_s) facts->time_s = again_s, facts->error = errors[i], *best = impls[i];
    }
    if (!isinf(facts->time_s)) return MT_OK;
    *best = &attention_impl_row;
    return mt_fail(err, MT_ESYSTEM, "no implementation is right but the plain kernels, which are slow");
}

enum mt_status attention_measure(const struct cuda_queue *queue, const struct mt_call *call, const char *key,
                                 const struct attention_impl *const *impls, int count,
                                 const struct attention_impl **best, struct tune_facts *facts, struct mt_err *err) {
    struct trial t;
    int64_t scratch_bytes = attention_rows_bytes(call);
    for (int i = 0; i < count; i++) {
        int64_t bytes = impls[i]->scratch_bytes ? impls[i]->scratch_bytes(call) : 0;
        if (bytes > scratch_bytes) scratch_bytes = bytes;
    }
    enum mt_status st = trial_init(&t, queue, call, scratch_bytes, err);
    if (!st) st = measure(&t, key, impls, count, best, facts, err);
    trial_release(&t);
    return st;
}
