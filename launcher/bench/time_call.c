/* Timing a call by the device, on more sets of operands than the caches hold. */
#include "launcher/bench/suite.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/base/number/stats.h"
#include "kernels/base/wait.h"

enum { ALIGN = 256, MOST_SETS = 16, MOST_RUNS = 64, MOST_ROUNDS = 30, PATTERN = 1 << 18 };
static const int64_t cache_bytes = INT64_C(160)
                                   << 20; /* more than any level-2 cache, and than a core's part of a level-3 cache */
static const double deadline_s = 120;

/* Copies of a call's operands, and runs on them in turn. */
struct bench_call {
    struct mt_bench *bench;
    const struct mt_call *call;
    char *memory;
    int nsets;
    struct mt_tensor tensors[MOST_SETS][MT_MAX_IN + MT_MAX_OUT];
    struct mt_call calls[MOST_SETS];
    struct mt_clock clock;
    int64_t ids_below;
};

static int64_t padded(const struct mt_tensor *t) {
    return (mt_tensor_bytes(t) + ALIGN - 1) / ALIGN * ALIGN;
}

static const struct mt_tensor *operand(const struct mt_call *call, int i) {
    return i < call->nin ? &call->in[i] : &call->out[i - call->nin];
}

/* The input that output i overwrites, as in training; -1: none. */
static int in_place(const struct mt_call *call, int i) {
    int from = i < call->nin ? -1 : mt_op_info[call->kind].in_place[i - call->nin];
    return from >= 0 && from < call->nin ? from : -1;
}

static int64_t set_bytes(const struct mt_call *call) {
    int64_t size_bytes = 0;
    for (int i = 0; i < call->nin + call->nout; i++)
        if (in_place(call, i) < 0) size_bytes += padded(operand(call, i));
    return size_bytes;
}

/* Fill with a repeated pattern: activations around 0; statistics and moments above 0; ids. */
static enum mt_status fill(const struct bench_call *b, const struct mt_tensor *t, char letter, struct mt_err *err) {
    int64_t each = mt_type_size(t->type);
    double low = letter == 'A' ? 0.25 : -0.5, span = letter == 'A' ? 0.75 : 1;
    char *pattern = mt_malloc((size_t)(PATTERN * each));
    if (t->type == MT_I32) low = 0, span = (double)b->ids_below;
    mt_type_noise(t->type, pattern, PATTERN, low, span);
    enum mt_status st =
        mt_device_repeat(b->bench->device, t->data, mt_tensor_count(t) * each, pattern, PATTERN * each, err);
    free(pattern);
    return st;
}

static enum mt_status place_operands(struct bench_call *b, int64_t scratch_bytes, struct mt_err *err) {
    const struct mt_call *call = b->call;
    char *next = b->memory + (scratch_bytes + ALIGN - 1) / ALIGN * ALIGN;
    enum mt_status st = MT_OK;
    for (int s = 0; s < b->nsets && !st; s++) {
        struct mt_tensor *tensors = b->tensors[s];
        for (int i = 0; i < call->nin + call->nout && !st; i++) {
            int from = in_place(call, i);
            tensors[i] = *operand(call, i);
            tensors[i].data = from >= 0 ? tensors[from].data : next;
            if (from < 0) next += padded(&tensors[i]);
            if (i < call->nin || call->attr->accumulate)
                st = fill(b, &tensors[i], i < call->nin ? mt_op_info[call->kind].in_types[i] : 'A', err);
        }
        b->calls[s] = *call;
        b->calls[s].in = tensors, b->calls[s].out = tensors + call->nin;
        b->calls[s].scratch = scratch_bytes ? b->memory : NULL;
        b->calls[s].clock = &b->clock;
    }
    return st;
}

/* `count` runs back to back, each on the next set; *each_s: seconds per run. */
static enum mt_status run(struct bench_call *b, const struct mt_backend *backend, int count, double *each_s,
                          struct mt_err *err) {
    double seconds[MOST_RUNS][2];
    for (int i = 0; i < count; i++) mt_stream_op(b->bench->stream, backend, &b->calls[i % b->nsets], seconds[i]);
    enum mt_status st = mt_stream_sync(b->bench->stream, deadline_s, err);
    *each_s = (seconds[count - 1][1] - seconds[0][0]) / count;
    return st;
}

static enum mt_status measure(struct bench_call *b, const struct mt_backend *backend, double seconds, double *time_s,
                              struct mt_err *err) {
    double times_s[MOST_ROUNDS], each_s, start_s;
    int rounds = 0;
    enum mt_status st = run(b, backend, 1, &each_s, err); /* compiles kernels */
    if (!st) st = run(b, backend, 2, &each_s, err);
    int count = (int)fmin(fmax(seconds / 5 / fmax(each_s, 1e-6), 1), MOST_RUNS);
    for (start_s = mt_now_s(); !st && rounds < MOST_ROUNDS; rounds++) {
        if (rounds && mt_now_s() - start_s > seconds) break;
        st = run(b, backend, count, &times_s[rounds], err);
    }
    if (!st) *time_s = mt_median(times_s, (size_t)rounds);
    return st;
}

enum mt_status mt_bench_call(struct mt_bench *bench, const struct mt_call *call, double seconds, double *time_s,
                             struct mt_err *err) {
    const struct mt_backend *backend = mt_device_backend(bench->device, call);
    struct bench_call *b = mt_calloc(1, sizeof *b);
    *b = (struct bench_call){.bench = bench, .call = call, .clock = {.step = 1, .seed = 1, .lr = 1e-4}};
    b->ids_below = mt_call_ids_below(call);
    *time_s = 0;
    enum mt_status st = MT_OK;
    if (!backend->supports(call)) goto out;
    int64_t scratch = backend->scratch_bytes ? backend->scratch_bytes(call) : 0, each = set_bytes(call) + 1;
    int64_t sets = cache_bytes / each + 1, room = mt_device_memory_bytes(bench->device) / 10 * 8;
    b->nsets = (int)(sets < MOST_SETS ? sets : MOST_SETS);
    while (b->nsets && b->nsets * each + scratch + ALIGN > room) b->nsets--;
    if (!b->nsets) goto out;
    st = mt_device_alloc(bench->device, b->nsets * each + scratch + 2 * ALIGN, (void **)&b->memory, err);
    if (!st) st = place_operands(b, scratch, err);
    if (!st) st = measure(b, backend, seconds, time_s, err);
    if (b->memory) mt_device_free(bench->device, b->memory);
out:
    free(b);
    return st;
}

double mt_bench_part(const struct mt_bench *bench, const struct mt_op_shape *shape, double time_s) {
    const struct mt_bench_peak *c = &bench->peak;
    if (!(time_s > 0) || !(c->flops > 0) || !(c->copy_Bps > 0)) return 0;
    return fmax(shape->flops / c->flops, shape->bytes / c->copy_Bps) / time_s;
}
