#include "kernels/cuda/tune/call_bench.h"

#include <string.h>

#include "kernels/cuda/jit/shape.h"
#include "kernels/cuda/tune/signature.h"

enum { ALIGN = 256, LEVELS = 3 /* operands exceed so many level-2 caches */ };
enum { ANY_ID = 50257 /* where the call does not bound them */ };
static const int64_t most_bytes = INT64_C(2) << 30;

/* ---- operands ---- */

static int64_t padded(int64_t size_bytes) {
    return (size_bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* The input whose memory output o has, or -1. */
static int shares_with(const struct mt_call *call, int o) {
    int from = mt_op_info[call->kind].in_place[o];
    return from >= 0 && from < call->nin && call->out[o].data && call->out[o].data == call->in[from].data ? from : -1;
}

/* The offsets of operands in a set, which keep the lowest bits of their addresses; returns the size of a set. */
static int64_t lay_out(const struct mt_call *call, int64_t at[MT_MAX_IN + MT_MAX_OUT]) {
    int64_t size_bytes = 0;
    for (int i = 0; i < call->nin + call->nout; i++) {
        const struct mt_tensor *t = i < call->nin ? &call->in[i] : &call->out[i - call->nin];
        int shared = i < call->nin ? -1 : shares_with(call, i - call->nin);
        at[i] = shared >= 0 ? at[shared] : size_bytes + (int64_t)((uintptr_t)t->data % ALIGN);
        if (shared < 0) size_bytes = padded(at[i] + mt_tensor_bytes(t));
    }
    return size_bytes;
}

static int64_t kept_bytes(const struct mt_call *call) {
    int64_t size_bytes = 0;
    for (int o = 0; o < call->nout; o++) size_bytes += padded(mt_tensor_bytes(&call->out[o]));
    return size_bytes;
}

/* All memory, with so many sets. */
static int64_t all_bytes(const struct cuda *cuda, const struct mt_call *call, int nsets) {
    int64_t unused[MT_MAX_IN + MT_MAX_OUT];
    const struct cuda_op *op = cuda_ops[call->kind];
    int64_t scratch = op->scratch_bytes ? op->scratch_bytes(cuda, call) : 0;
    return nsets * lay_out(call, unused) + kept_bytes(call) + padded(scratch) + CUDA_BENCH_SUMS_BYTES +
           padded(sizeof(struct mt_clock));
}

/* Halve the leading axis of all operands that have it; false if that is impossible. */
static bool halve_rows(struct mt_call *call, struct mt_tensor *tensors) {
    bool any = false;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < call->nin + call->nout; i++) {
            int axis = cuda_leading_axis(call, i);
            if (axis < 0) continue;
            if (tensors[i].extent[axis] < 2) return false;
            if (pass) tensors[i].extent[axis] /= 2;
            any = true;
        }
    return any;
}

static enum mt_status choose_size(struct cuda_call_bench *b, struct mt_err *err) {
    const struct cuda *cuda = b->bench.queue.cuda;
    struct mt_call *call = &b->calls[0];
    int64_t unused[MT_MAX_IN + MT_MAX_OUT];
    size_t available, total;
    int cache_bytes;
    CUDA_TRY(cuMemGetInfo(&available, &total), err, "cuMemGetInfo");
    CUDA_TRY(cuDeviceGetAttribute(&cache_bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, cuda->handle), err,
             "cuDeviceGetAttribute");
    int64_t room = (int64_t)(available / 10 * 9);
    b->cut = 1;
    while (all_bytes(cuda, call, 1) > least(room, most_bytes) && halve_rows(call, b->tensors[0])) b->cut *= 2;
    if (all_bytes(cuda, call, 1) > room)
        return mt_fail(err, MT_ESYSTEM, "too little memory is left to measure in: %.3f GB", 1e-9 * (double)available);
    b->nsets = (int)least(LEVELS * (int64_t)cache_bytes / largest(lay_out(call, unused), 1) + 1, CUDA_CALL_BENCH_SETS);
    while (b->nsets > 1 && all_bytes(cuda, call, b->nsets) > room) b->nsets--;
    return MT_OK;
}

static enum mt_status allocate(struct cuda_call_bench *b, struct mt_err *err) {
    const struct cuda *cuda = b->bench.queue.cuda;
    const struct mt_call *call = &b->calls[0];
    const struct cuda_op *op = cuda_ops[call->kind];
    int64_t at[MT_MAX_IN + MT_MAX_OUT], set_bytes = lay_out(call, at);
    int64_t scratch = op->scratch_bytes ? padded(op->scratch_bytes(cuda, call)) : 0;
    CUDA_TRY(cuMemAlloc(&b->bench.memory, (size_t)all_bytes(cuda, call, b->nsets)), err, "memory to measure in");
    for (int s = b->nsets - 1; s >= 0; s--) {
        memcpy(b->tensors[s], b->tensors[0], sizeof b->tensors[0]);
        b->calls[s] = *call;
        b->calls[s].in = b->tensors[s], b->calls[s].out = b->tensors[s] + call->nin;
        for (int i = 0; i < call->nin + call->nout; i++)
            b->tensors[s][i].data = mt_tensor_count(&b->tensors[s][i])
                                        ? (void *)(uintptr_t)(b->bench.memory + (CUdeviceptr)(s * set_bytes + at[i]))
                                        : NULL;
    }
    CUdeviceptr next = b->bench.memory + (CUdeviceptr)(b->nsets * set_bytes);
    for (int s = 0; s < b->nsets; s++) b->calls[s].scratch = scratch ? (void *)(uintptr_t)next : NULL;
    next += (CUdeviceptr)scratch;
    for (int o = 0; o < call->nout; o++) {
        b->kept[o] = next;
        next += (CUdeviceptr)padded(mt_tensor_bytes(&call->out[o]));
    }
    b->bench.queue.clock = next;
    b->sums = next + (CUdeviceptr)padded(sizeof(struct mt_clock));
    static const struct mt_clock clock = {.step = 1, .seed = 1, .lr = 1e-4};
    CUDA_TRY(cuMemcpyHtoD(b->bench.queue.clock, &clock, sizeof clock), err, "sending the clock");
    return MT_OK;
}

/* Activations are about zero; operands of type 'A' (ops.def: statistics, moments and the like) are positive. */
static enum mt_status fill(struct cuda_call_bench *b, const struct mt_tensor *t, bool positive, uint32_t seed,
                           struct mt_err *err) {
    int64_t count = mt_tensor_count(t);
    if (!count) return MT_OK;
    if (t->type == MT_I32) return cuda_bench_ids(&b->bench.queue, t->data, count, seed, (uint32_t)b->ids_below, err);
    return cuda_bench_numbers(&b->bench.queue, t->type, t->data, count, seed, positive ? 0.25f : -0.5f,
                              positive ? 0.75f : 1, err);
}

static enum mt_status fill_set(struct cuda_call_bench *b, int set, struct mt_err *err) {
    const struct mt_call *call = &b->calls[set];
    const char *types = mt_op_info[call->kind].in_types;
    enum mt_status st = MT_OK;
    for (int o = 0; o < call->nout && !st; o++) {
        const struct mt_tensor *t = &call->out[o];
        if (call->attr->accumulate)
            st = fill(b, t, false, (uint32_t)(100 + o), err);
        else if (mt_tensor_count(t))
            CUDA_TRY(cuMemsetD8Async((CUdeviceptr)t->data, 0xff, (size_t)mt_tensor_bytes(t), b->bench.queue.stream),
                     err, "poisoning outputs");
    }
    for (int i = 0; i < call->nin && !st; i++) st = fill(b, &call->in[i], types[i] == 'A', (uint32_t)(i + 1), err);
    return st;
}

/* ---- running ---- */

enum mt_status cuda_call_bench_init(struct cuda_call_bench *b, const struct cuda_queue *queue,
                                    const struct mt_call *call, struct mt_err *err) {
    memset(b, 0, sizeof *b);
    b->run = cuda_ops[call->kind]->queue;
    b->calls[0] = *call;
    memcpy(b->tensors[0], call->in, (size_t)call->nin * sizeof *call->in);
    memcpy(b->tensors[0] + call->nin, call->out, (size_t)call->nout * sizeof *call->out);
    b->calls[0].in = b->tensors[0], b->calls[0].out = b->tensors[0] + call->nin;
    b->ids_below = mt_call_ids_below(call);
    if (!b->ids_below) b->ids_below = ANY_ID;
    enum mt_status st = cuda_bench_init(&b->bench, queue, err);
    if (!st) st = choose_size(b, err);
    if (!st) st = allocate(b, err);
    for (int s = 0; s < b->nsets && !st; s++) st = fill_set(b, s, err);
    return st;
}

static enum mt_status run_once(struct cuda_call_bench *b, struct mt_err *err) {
    enum mt_status st = fill_set(b, 0, err);
    if (!st) st = b->run(&b->bench.queue, &b->calls[0], err);
    if (st) return st;
    CUDA_TRY(cuStreamSynchronize(b->bench.queue.stream), err, "a call that is measured");
    return MT_OK;
}

enum mt_status cuda_call_bench_keep(struct cuda_call_bench *b, struct mt_err *err) {
    enum mt_status st = run_once(b, err);
    for (int o = 0; o < b->calls[0].nout && !st; o++) {
        const struct mt_tensor *t = &b->calls[0].out[o];
        if (mt_tensor_bytes(t))
            CUDA_TRY(
                cuMemcpyDtoDAsync(b->kept[o], (CUdeviceptr)t->data, (size_t)mt_tensor_bytes(t), b->bench.queue.stream),
                err, "keeping outputs");
    }
    if (st) return st;
    CUDA_TRY(cuStreamSynchronize(b->bench.queue.stream), err, "keeping outputs");
    return MT_OK;
}

enum mt_status cuda_call_bench_error(struct cuda_call_bench *b, double *error, struct mt_err *err) {
    enum mt_status st = run_once(b, err);
    *error = 0;
    for (int o = 0; o < b->calls[0].nout && !st; o++) {
        const struct mt_tensor *t = &b->calls[0].out[o];
        double one;
        st = cuda_bench_compare(&b->bench.queue, t->type, t->data, b->kept[o], mt_tensor_count(t), b->sums, &one, err);
        if (!st && !(one <= *error)) *error = one;
    }
    return st;
}

enum mt_status cuda_call_bench_record(struct cuda_call_bench *b, CUgraphExec *exec, struct mt_err *err) {
    CUgraph graph = NULL;
    enum mt_status st = MT_OK;
    CUDA_TRY(cuStreamBeginCapture(b->bench.queue.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), err,
             "cuStreamBeginCapture");
    for (int s = 0; s < b->nsets && !st; s++) st = b->run(&b->bench.queue, &b->calls[s], err);
    CUresult result = cuStreamEndCapture(b->bench.queue.stream, &graph);
    if (!st && result) st = cuda_fail(err, result, "cuStreamEndCapture");
    if (!st && (result = cuGraphInstantiate(exec, graph, 0))) st = cuda_fail(err, result, "cuGraphInstantiate");
    if (graph) cuGraphDestroy(graph);
    return st;
}

struct launch {
    CUgraphExec graph;
    CUstream stream;
};

static enum mt_status launch(void *context, struct mt_err *err) {
    const struct launch *l = context;
    CUDA_TRY(cuGraphLaunch(l->graph, l->stream), err, "cuGraphLaunch");
    return MT_OK;
}

enum mt_status cuda_call_bench_time(struct cuda_call_bench *b, CUgraphExec graph, double *time_s, struct mt_err *err) {
    struct launch l = {graph, b->bench.queue.stream};
    enum mt_status st = cuda_bench_time(&b->bench, launch, &l, 1, time_s, err);
    if (!st) *time_s = *time_s / b->nsets * b->cut;
    return st;
}
