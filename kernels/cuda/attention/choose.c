/* Which way attention goes: measured once for each shape, then remembered.
 *
 * Each way that is possible runs the call on random operands. The last sample of what it gives is compared with what
 * the plain kernels ("row") give for that sample alone; a way that is further off than its precision explains, or gives
 * other bits the second time, is out (but for those that say so, which only run where the job allows it). Of the others
 * the fastest is kept, with its time, in the tuning file. */
#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/number/hash.h"
#include "kernels/base/log.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/tune/benchmark.h"
#include "kernels/cuda/jit/jit.h"
#include "kernels/cuda/tune/signature.h"
#include "kernels/cuda/tune/tune.h"
#include "kernels/cuda/tune/variant.h"
#ifdef MOTLEY_HAS_CUDNN
#include "kernels/cuda/attention/cudnn/cudnn.h"
#endif

enum { MOST_TENSORS = 6, ROUNDS = 3, ALIGN = 256 };
static const double round_s = 0.004; /* of timing; at least one run */

/* ---- a call on operands of its own ---- */

struct bench {
    struct cuda_queue queue;
    CUevent begin, end;
    CUdeviceptr memory;
    struct mt_call call, last; /* the last sample alone, with outputs of its own */
    struct mt_tensor tensors[MOST_TENSORS], last_tensors[MOST_TENSORS];
    char *want[MT_MAX_OUT], *got[MT_MAX_OUT]; /* the last sample's outputs, on the host */
};

static int64_t bytes_of(const struct mt_tensor *t) {
    return mt_tensor_count(t) * mt_type_size(t->type);
}

static void bench_release(struct bench *b) {
    if (b->begin) cuEventDestroy(b->begin);
    if (b->end) cuEventDestroy(b->end);
    if (b->memory) cuMemFree(b->memory);
    for (int o = 0; o < MT_MAX_OUT; o++) free(b->want[o]), free(b->got[o]);
}

static enum mt_status fill(const struct cuda_queue *queue, const struct mt_tensor *t, struct mt_err *err) {
    return cuda_numbers(queue, t->type, t->data, mt_tensor_count(t), 0, -0.5f, 1, err);
}

/* The last sample of a tensor; its batch is axis 0. */
static struct mt_tensor last_sample(const struct mt_tensor *t) {
    struct mt_tensor one = *t;
    one.extent[0] = 1;
    one.offset[0] += t->extent[0] - 1;
    one.data = (char *)t->data + bytes_of(t) - bytes_of(&one);
    return one;
}

static enum mt_status bench_memory(struct bench *b, const struct mt_call *call, int64_t scratch_bytes,
                                   struct mt_err *err) {
    int64_t at[2 * MOST_TENSORS], size_bytes = ALIGN, n = call->nin + call->nout;
    for (int i = 0; i < n; i++) b->tensors[i] = i < call->nin ? call->in[i] : call->out[i - call->nin];
    for (int i = 0; i < n; i++) {
        at[i] = size_bytes;
        size_bytes += (bytes_of(&b->tensors[i]) + ALIGN - 1) / ALIGN * ALIGN;
        at[MOST_TENSORS + i] = size_bytes; /* outputs of the last sample alone */
        if (i >= call->nin) size_bytes += (bytes_of(&b->tensors[i]) / call->in[0].extent[0] + ALIGN) / ALIGN * ALIGN;
    }
    CUDA_TRY(cuMemAlloc(&b->memory, (size_t)(size_bytes + scratch_bytes)), err, "memory to time attention in");
    for (int i = 0; i < n; i++) {
        b->tensors[i].data = (char *)(uintptr_t)b->memory + at[i];
        b->last_tensors[i] = last_sample(&b->tensors[i]);
        if (i >= call->nin) b->last_tensors[i].data = (char *)(uintptr_t)b->memory + at[MOST_TENSORS + i];
    }
    b->call.in = b->tensors, b->call.out = b->tensors + call->nin;
    b->last.in = b->last_tensors, b->last.out = b->last_tensors + call->nin;
    b->call.scratch = b->last.scratch = (char *)(uintptr_t)b->memory + size_bytes;
    return MT_OK;
}

/* Of the gradient's inputs, o and lse are those of qkv. */
static enum mt_status bench_inputs(struct bench *b, struct mt_err *err) {
    enum mt_status st = MT_OK;
    if (b->call.kind == MT_OP_attention) return fill(&b->queue, &b->tensors[0], err);
    for (int i = 0; !st && i < 2; i++) st = fill(&b->queue, &b->tensors[i], err);
    struct mt_call forward = b->call;
    forward.kind = MT_OP_attention;
    forward.nin = 1, forward.nout = 2;
    forward.in = &b->tensors[1], forward.out = &b->tensors[2];
    for (int i = 0; !st && i < ATTENTION_NWAYS; i++)
        if (attention_can(attention_ways[i], b->queue.cuda, &forward))
            return attention_ways[i]->queue(&b->queue, &forward, err);
    return st;
}

static enum mt_status fetch(struct bench *b, const struct mt_tensor *out, char **to, struct mt_err *err) {
    for (int o = 0; o < b->call.nout; o++)
        CUDA_TRY(cuMemcpyDtoHAsync(to[o], (CUdeviceptr)out[o].data, (size_t)bytes_of(&out[o]), b->queue.stream), err,
                 "fetching what attention gave");
    CUDA_TRY(cuStreamSynchronize(b->queue.stream), err, "attention");
    return MT_OK;
}

static enum mt_status bench_init(struct bench *b, const struct cuda_queue *queue, const struct mt_call *call,
                                 int64_t scratch_bytes, struct mt_err *err) {
    *b = (struct bench){.queue = *queue, .call = *call, .last = *call};
    enum mt_status st = bench_memory(b, call, scratch_bytes, err);
    if (st) return st;
    CUDA_TRY(cuEventCreate(&b->begin, CU_EVENT_DEFAULT), err, "cuEventCreate");
    CUDA_TRY(cuEventCreate(&b->end, CU_EVENT_DEFAULT), err, "cuEventCreate");
    for (int o = 0; o < call->nout; o++) {
        size_t size_bytes = (size_t)bytes_of(&b->last.out[o]);
        b->want[o] = mt_malloc(size_bytes), b->got[o] = mt_malloc(size_bytes);
    }
    st = bench_inputs(b, err);
    if (!st) st = attention_way_row.queue(&b->queue, &b->last, err);
    return st ? st : fetch(b, b->last.out, b->want, err);
}

/* ---- judging a way ---- */

static enum mt_status run_poisoned(struct bench *b, const struct attention_way *way, unsigned char poison,
                                   struct mt_err *err) {
    struct mt_tensor last[MT_MAX_OUT];
    for (int o = 0; o < b->call.nout; o++) {
        const struct mt_tensor *t = &b->call.out[o];
        CUDA_TRY(cuMemsetD8Async((CUdeviceptr)t->data, poison, (size_t)bytes_of(t), b->queue.stream), err, "poisoning");
        last[o] = last_sample(t);
    }
    enum mt_status st = way->queue(&b->queue, &b->call, err);
    return st ? st : fetch(b, last, b->got, err);
}

static double relative(double diff, double norm) {
    double error = diff > 0 ? sqrt(diff / norm) : diff == 0 ? 0 : INFINITY;
    return isfinite(error) ? error : INFINITY;
}

/* The difference of an output, relative in norm; infinite where something is not a number. Few rows, or small ones, as
 * causal attention has, and dq beside dv, would drown in that: *local is a tenth of the largest of a row (a head's at
 * one position) by its own norm, or a third of that of q's, k's or v's part by its own, if that is more. Parts of next
 * to nothing count as a hundredth of all, rows as a thousandth of the usual. */
static double error_of(const struct mt_tensor *t, const char *got, const char *want, double *local) {
    bool of_qkv = t->naxes == 5;
    int64_t size = t->naxes > 3 ? t->extent[t->naxes - 1] : 1, nrows = mt_tensor_count(t) / size;
    double(*rows)[2] = mt_calloc((size_t)nrows + 1, sizeof *rows), parts[3][2] = {{0}};
    for (int64_t r = 0; r < nrows; r++) {
        int part = of_qkv ? (int)(r / t->extent[3] % 3) : 0;
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
        double usual = of_qkv ? 3 * parts[r / t->extent[3] % 3][1] / (double)nrows : norm / (double)nrows;
        *local = fmax(*local, relative(rows[r][0], fmax(rows[r][1], 1e-6 * usual)) / 10);
    }
    free(rows);
    return relative(diff, norm);
}

static enum mt_status judge(struct bench *b, const struct attention_way *way, double *error, struct mt_err *err) {
    static const double limits[MT_NTYPES] = {[MT_F32] = 1e-5, [MT_BF16] = 1e-2, [MT_F16] = 2e-3};
    const double allowed = limits[b->call.in[0].type];
    uint64_t hash[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        enum mt_status st = run_poisoned(b, way, i ? 0x7f : 0xff, err);
        if (st) return st;
        for (int o = 0; o < b->call.nout; o++)
            hash[i] = mt_hash64(b->got[o], (size_t)bytes_of(&b->last.out[o]), hash[i]);
    }
    double most_local = 0;
    *error = 0;
    for (int o = 0; o < b->call.nout; o++) {
        double local;
        *error = fmax(*error, error_of(&b->last.out[o], b->got[o], b->want[o], &local));
        most_local = fmax(most_local, local);
    }
    if (hash[0] != hash[1] && !way->any_order) return mt_fail(err, MT_ESYSTEM, "it gives other bits the second time");
    if (!(*error <= allowed))
        return mt_fail(err, MT_ESYSTEM, "its error is %.3g, and %.3g is allowed", *error, allowed);
    if (!(most_local <= allowed))
        return mt_fail(err, MT_ESYSTEM, "its error in places is %.3g of what is allowed", most_local / allowed);
    return MT_OK;
}

static enum mt_status time_runs(struct bench *b, const struct attention_way *way, int runs, double *time_s,
                                struct mt_err *err) {
    float ms = 0;
    enum mt_status st = MT_OK;
    CUDA_TRY(cuEventRecord(b->begin, b->queue.stream), err, "cuEventRecord");
    for (int i = 0; !st && i < runs; i++) st = way->queue(&b->queue, &b->call, err);
    CUDA_TRY(cuEventRecord(b->end, b->queue.stream), err, "cuEventRecord");
    CUDA_TRY(cuEventSynchronize(b->end), err, "timing attention");
    CUDA_TRY(cuEventElapsedTime(&ms, b->begin, b->end), err, "cuEventElapsedTime");
    *time_s = ms * 1e-3 / runs;
    return st;
}

/* The least of a few rounds. */
static enum mt_status time_way(struct bench *b, const struct attention_way *way, double *time_s, struct mt_err *err) {
    double once;
    enum mt_status st = time_runs(b, way, 1, &once, err);
    int runs = once > 0 && once < round_s ? (int)fmin(round_s / once, 100) : 1;
    *time_s = INFINITY;
    for (int i = 0; !st && i < ROUNDS; i++) {
        st = time_runs(b, way, runs, &once, err);
        *time_s = fmin(*time_s, once);
    }
    return st;
}

/* ---- what is known ---- */

/* All that a choice holds for, and what it is among; compared as text, and the key of the tuning file. */
static void key_of(const struct cuda_queue *queue, const struct mt_call *call, const struct attention_way *const *ways,
                   int n, char *key, size_t room) {
    const struct mt_tensor *x = attention_qkv(call);
    char device[200], names[100] = "";
    size_t cudnn = 0;
    for (int i = 0; i < n; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? " " : "", ways[i]->name);
#ifdef MOTLEY_HAS_CUDNN
    cudnn = cudnn_version();
#endif
    cuda_device_key(queue->cuda, device, sizeof device);
    snprintf(key, room, "%s, kernels %08x, cuDNN %zu | %s %s b=%lld s=%lld h=%lld d=%lld%s%s%s, of %s", device,
             (unsigned)cuda_sources_hash(), cudnn, call->kind == MT_OP_attention ? "attention" : "attention_grad",
             mt_type_name(x->type), (long long)x->extent[0], (long long)x->extent[1], (long long)x->extent[3],
             (long long)x->extent[4], call->attr->causal ? ", causal" : "", call->attr->p > 0 ? ", dropout" : "",
             attention_aligned(call, 16) ? "" : ", unaligned", names);
}

struct known {
    uint64_t hash; /* of the shape */
    unsigned long long context;
    const struct attention_way *way;
    bool settled; /* not made up for a capture */
    struct known *next;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known *all;

static const struct attention_way *way_of(const char *name) {
    for (int i = 0; name && i < ATTENTION_NWAYS; i++)
        if (!strcmp(attention_ways[i]->name, name)) return attention_ways[i];
    return NULL;
}

static bool eligible(const struct attention_way *way, const struct cuda *cuda, const struct mt_call *call) {
    return way && attention_can(way, cuda, call);
}

/* The plain kernels are candidates only where there are no others: they are never faster. */
static int candidates_of(const struct cuda *cuda, const struct mt_call *call, const struct attention_way **ways) {
    int n = 0;
    for (int i = 0; i < ATTENTION_NWAYS; i++)
        if (attention_ways[i] != &attention_way_row && eligible(attention_ways[i], cuda, call))
            ways[n++] = attention_ways[i];
    if (!n) ways[n++] = &attention_way_row;
    return n;
}

/* Which ways are right, and how long each takes; infinite: it is out. Kernels of ours run with their default tiles. */
static double try_ways(struct bench *b, const char *key, const struct attention_way **ways, int n, double *times_s,
                       double *errors) {
    double least_s = INFINITY;
    bool was = cuda_defaults_only(true);
    for (int i = 0; i < n; i++) {
        struct mt_err err = MT_ERR_INIT;
        if (judge(b, ways[i], &errors[i], &err) || time_way(b, ways[i], &times_s[i], &err)) {
            mt_log(MT_LOG_INFO, "%s: \"%s\" is out: %s", key, ways[i]->name, err.text);
            times_s[i] = INFINITY;
            continue;
        }
        mt_log(MT_LOG_DEBUG, "%s: \"%s\" takes %.1f us, its error is %.2g", key, ways[i]->name, 1e6 * times_s[i],
               errors[i]);
        least_s = fmin(least_s, times_s[i]);
    }
    cuda_defaults_only(was);
    return least_s;
}

/* The fastest comes to the front; where nothing can be measured, all stays as it is. Ways that come near the fastest
 * have their tiles tuned, and run again. */
static void measure(const struct cuda_queue *queue, const struct mt_call *call, const char *key,
                    const struct attention_way **ways, int n, struct tune_facts *facts) {
    static const double near = 1.3;
    double times_s[ATTENTION_NWAYS], errors[ATTENTION_NWAYS] = {0};
    struct bench b;
    struct mt_err err = MT_ERR_INIT;
    int64_t scratch_bytes = attention_rows_bytes(call);
    int best = -1;
    for (int i = 0; i < n; i++) {
        int64_t bytes = ways[i]->scratch_bytes ? ways[i]->scratch_bytes(call) : 0;
        if (bytes > scratch_bytes) scratch_bytes = bytes;
    }
    *facts = (struct tune_facts){.time_s = INFINITY};
    enum mt_status st = bench_init(&b, queue, call, scratch_bytes, &err);
    if (st) mt_log(MT_LOG_WARN, "%s: not measured, \"%s\" is taken: %s", key, ways[0]->name, err.text);
    double least_s = st ? 0 : try_ways(&b, key, ways, n, times_s, errors);
    for (int i = 0; !st && i < n; i++) {
        double again_s;
        if (i == 0 && !isinf(times_s[0])) facts->default_s = times_s[0];
        if (isinf(times_s[i]) || times_s[i] > near * least_s) continue;
        if (ways[i]->queue(&b.queue, &b.call, &err) || time_way(&b, ways[i], &again_s, &err)) continue;
        if (again_s < facts->time_s) facts->time_s = again_s, facts->error = errors[i], best = i;
    }
    bench_release(&b);
    if (best > 0) ways[0] = ways[best];
    if (st || best >= 0) return;
    ways[0] = &attention_way_row;
    mt_log(MT_LOG_WARN, "%s: no way is right but the plain kernels, which are slow", key);
}

static void decide(const struct cuda_queue *queue, const struct mt_call *call, bool capturing, struct known *k) {
    const struct attention_way *ways[ATTENTION_NWAYS];
    char key[500];
    struct tune_facts facts;
    int n = candidates_of(queue->cuda, call, ways);
    k->way = ways[0], k->settled = true;
    if (n == 1) return;
    key_of(queue, call, ways, n, key, sizeof key);
    const char *kept = tune_find(key, NULL);
    const struct attention_way *way = way_of(kept);
    if (eligible(way, queue->cuda, call)) {
        k->way = way;
        return;
    }
    if (kept) mt_log(MT_LOG_WARN, "%s: what the tuning file has is of no use here, and is measured again", key);
    if (capturing) {
        mt_log(MT_LOG_WARN, "%s: captured before it was measured, as \"%s\"", key, k->way->name);
        k->settled = false;
        return;
    }
    measure(queue, call, key, ways, n, &facts);
    k->way = ways[0];
    if (isinf(facts.time_s)) return;
    way = way_of(tune_keep(key, ways[0]->name, &facts, kept));
    if (eligible(way, queue->cuda, call)) k->way = way;
}

enum mt_status attention_forced(const struct attention_way **way, int *row, struct mt_err *err) {
    const char *given = getenv("MOTLEY_CUDA_ATTENTION");
    char names[200] = "";
    *way = NULL, *row = -1;
    if (!given || !*given) return MT_OK;
    if ((*way = way_of(given))) return MT_OK;
    char *end;
    long number = strtol(given, &end, 10);
    if (isdigit((unsigned char)*given) && !*end && number < INT32_MAX && (*way = attention_way_of_row((int)number))) {
        *row = (int)number;
        return MT_OK;
    }
    for (int i = 0; i < ATTENTION_NWAYS; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s, ", attention_ways[i]->name);
    return mt_fail(err, MT_EINPUT,
                   "MOTLEY_CUDA_ATTENTION is \"%.40s\", but must be %sor the number of a row of attention_tiles.def",
                   given, names);
}

static enum mt_status forced(const struct cuda *cuda, const struct mt_call *call, const struct attention_way **way,
                             struct mt_err *err) {
    int row;
    const struct mt_tensor *x = attention_qkv(call);
    enum mt_status st = attention_forced(way, &row, err);
    if (*way && (*way)->any_order && call->kind == MT_OP_attention) *way = NULL;
    if (st || !*way || attention_can(*way, cuda, call)) return st;
    const char *missing = (*way)->missing ? (*way)->missing() : NULL;
    if (missing) return mt_fail(err, MT_EMISSING, "MOTLEY_CUDA_ATTENTION asks for \"%s\": %s", (*way)->name, missing);
    if ((*way)->any_order && !call->attr->any_order)
        return mt_fail(err, MT_EINPUT,
                       "MOTLEY_CUDA_ATTENTION asks for \"%s\", but the job wants the same bits every time",
                       (*way)->name);
    mt_fail(err, MT_EINPUT,
            "MOTLEY_CUDA_ATTENTION asks for \"%s\", which cannot run this call: %s, sequences of %lld, heads of %lld, "
            "dropout %g, on sm_%d",
            (*way)->name, mt_type_name(x->type), (long long)x->extent[1], (long long)x->extent[4], call->attr->p,
            cuda->sm);
    return mt_err_hint(err, "unset it, and the fastest way that can is taken");
}

static uint64_t hash_of(const struct mt_call *call) {
    const struct mt_tensor *x = attention_qkv(call);
    const int64_t facts[] = {call->kind,           x->type,           x->extent[0],
                             x->extent[1],         x->extent[3],      x->extent[4],
                             call->attr->causal,   call->attr->p > 0, attention_aligned(call, 16),
                             call->attr->any_order};
    return mt_hash64(facts, sizeof facts, 0);
}

/* What was taken from other processes may say something else. The list is locked. */
static void forget_old(void) {
    static unsigned known_epoch;
    unsigned epoch = tune_epoch();
    for (struct known *k; epoch != known_epoch && (k = all);) all = k->next, free(k);
    known_epoch = epoch;
}

static _Thread_local const struct attention_way *only;

const struct attention_way *attention_only(const struct attention_way *way) {
    const struct attention_way *was = only;
    only = way;
    return was;
}

enum mt_status attention_choose(const struct cuda_queue *queue, const struct mt_call *one,
                                const struct attention_way **way, struct mt_err *err) {
    CUstreamCaptureStatus capture;
    const struct mt_call *call = cuda_chosen_for(one);
    struct known fresh = {.hash = hash_of(call)}, *k;
    bool untuned;
    if ((*way = only)) return MT_OK;
    enum mt_status st = forced(queue->cuda, call, way, err);
    if (st || *way || (st = cuda_untuned(&untuned, err))) return st;
    CUDA_TRY(cuStreamIsCapturing(queue->stream, &capture), err, "cuStreamIsCapturing");
    CUDA_TRY(cuCtxGetId(queue->cuda->context, &fresh.context), err, "cuCtxGetId");
    bool capturing = capture != CU_STREAM_CAPTURE_STATUS_NONE;
    if (untuned) {
        const struct attention_way *ways[ATTENTION_NWAYS];
        candidates_of(queue->cuda, call, ways);
        *way = ways[0];
        return MT_OK;
    }
    pthread_mutex_lock(&lock);
    forget_old();
    for (k = all; k && (k->hash != fresh.hash || k->context != fresh.context);) k = k->next;
    if (!k || (!k->settled && !capturing)) {
        decide(queue, call, capturing, &fresh);
        if (!k) {
            k = mt_calloc(1, sizeof *k);
            k->next = all;
            all = k;
        }
        fresh.next = k->next, *k = fresh;
    }
    *way = k->way;
    pthread_mutex_unlock(&lock);
    return MT_OK;
}
