/* The tuner: a call is run once, which makes and measures all of its choices; then it is timed in turns with the
 * defaults. */
#include <math.h>
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/tune/call_bench.h"
#include "kernels/cuda/tune/choose.h"
#include "kernels/cuda/device/internal.h"
#include "kernels/cuda/tune/halving.h"
#include "kernels/cuda/jit/jit.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/tune/signature.h"
#include "kernels/cuda/tune/tune.h"
#include "kernels/cuda/tune/variant.h"

static const double timing_s = 0.03;

static const struct cuda *handles_of(const struct mt_device *device) {
    return &((const struct cuda_device *)device)->cuda;
}

static void class_of(struct mt_device *device, char text[MT_TUNING_KEY]) {
    cuda_device_key(handles_of(device), text, MT_TUNING_KEY);
}

static void key_of(struct mt_device *device, const struct mt_call *call, char text[MT_TUNING_KEY]) {
    char call_text[CUDA_CALL_TEXT], class[400];
    int major = 0, minor = 0;
    nvrtcVersion(&major, &minor);
    cuda_device_key(handles_of(device), class, sizeof class);
    cuda_call_text(call, true, call_text);
    snprintf(text, MT_TUNING_KEY, "%s, NVRTC %d.%d, cuBLASLt %zu, kernels %08x | call: %s", class, major, minor,
             cublasLtGetVersion(), (unsigned)cuda_sources_hash(), call_text);
}

static bool find(struct mt_device *device, const char *key, struct mt_tuning *tuning) {
    struct tune_facts facts;
    const char *how = tune_find(key, &facts);
    (void)device;
    if (!how) return false;
    *tuning = (struct mt_tuning){
        .tuned_s = facts.time_s, .default_s = facts.default_s, .vendor_s = facts.vendor_s, .error = facts.error};
    snprintf(tuning->choice, sizeof tuning->choice, "%s", how);
    return true;
}

enum which { DEFAULTS, TUNED, VENDOR, NWHICH };

struct pair {
    struct cuda_call_bench bench;
    CUgraphExec graphs[NWHICH];
};

static bool run_graph(void *context, int which, double *time_s) {
    struct pair *p = context;
    struct mt_err ignored = MT_ERR_INIT;
    return !cuda_call_bench_time(&p->bench, p->graphs[which], time_s, &ignored);
}

/* The vendor's library alone: for GEMMs, the first choice of cuBLASLt, which is the default; for attention, cuDNN,
 * where it can run the call, in any order if the job allows that. */
static void record_vendor(struct pair *p) {
    struct cuda_call_bench *b = &p->bench;
    const struct mt_call *call = &b->calls[0];
    struct mt_err ignored = MT_ERR_INIT;
    double unused;
    if (!mt_op_is_attention(call->kind) && !mt_op_is_attention_grad(call->kind)) return;
    const struct attention_impl *impl = &attention_impl_cudnn_any_order;
    if (!attention_can(impl, b->bench.queue.cuda, call)) impl = &attention_impl_cudnn;
    if (!attention_can(impl, b->bench.queue.cuda, call)) return;
    const struct attention_impl *was = attention_only(impl);
    if (!cuda_call_bench_error(b, &unused, &ignored)) cuda_call_bench_record(b, &p->graphs[VENDOR], &ignored);
    attention_only(was);
}

static enum mt_status measure(struct pair *p, const struct cuda_queue *queue, const struct mt_call *call,
                              char how[MT_TUNING_CHOICE], struct tune_facts *facts, struct mt_err *err) {
    double times_s[NWHICH] = {0};
    bool gemm = call->kind == MT_OP_matmul || call->kind == MT_OP_fused_matmul;
    enum mt_status st = cuda_call_bench_init(&p->bench, queue, call, err);
    cuda_choices_begin();
    if (!st) st = cuda_call_bench_keep(&p->bench, err); /* and choices that are not known are measured */
    snprintf(how, MT_TUNING_CHOICE, "%s", cuda_choices_text());
    if (!st) st = cuda_call_bench_record(&p->bench, &p->graphs[TUNED], err);
    bool was = cuda_defaults_only(true);
    if (!st) st = cuda_call_bench_error(&p->bench, &facts->error, err);
    if (!st) st = cuda_call_bench_record(&p->bench, &p->graphs[DEFAULTS], err);
    cuda_defaults_only(was);
    if (st) return st;
    record_vendor(p);
    const struct halving halving = {p->graphs[VENDOR] ? 3 : 2, 5, timing_s, 0, run_graph, p};
    if (halve(&halving, times_s) < 0) return mt_fail(err, MT_ESYSTEM, "it cannot be timed");
    facts->time_s = times_s[TUNED], facts->default_s = times_s[DEFAULTS];
    facts->vendor_s = gemm ? times_s[DEFAULTS] : p->graphs[VENDOR] && !isinf(times_s[VENDOR]) ? times_s[VENDOR] : 0;
    if (isnan(facts->error) || isinf(facts->error)) return mt_fail(err, MT_ESYSTEM, "the tuned result is not a number");
    return MT_OK;
}

static enum mt_status tune(struct mt_stream *stream, const struct mt_call *call, struct mt_err *err) {
    char key[MT_TUNING_KEY], how[MT_TUNING_CHOICE];
    const struct cuda_queue *queue = cuda_stream_queue(stream);
    struct tune_facts facts = {0};
    bool untuned, empty = true;
    enum mt_status st = cuda_untuned(&untuned, err);
    for (int o = 0; o < call->nout; o++) empty = empty && !mt_tensor_count(&call->out[o]);
    if (st || untuned || empty || (st = cuda_enter(queue->cuda, err))) return st;
    key_of(stream->device, call, key);
    if (tune_find(key, NULL)) return MT_OK;
    struct pair *p = calloc(1, sizeof *p);
    if (!p) return mt_fail(err, MT_ESYSTEM, "out of memory");
    const struct mt_call *was = cuda_part_of(call); /* operands that are too large are cut (call_bench.h) */
    st = measure(p, queue, call, how, &facts, err);
    cuda_part_of(was);
    for (int i = 0; i < NWHICH; i++)
        if (p->graphs[i]) cuGraphExecDestroy(p->graphs[i]);
    cuda_bench_release(&p->bench.bench);
    free(p);
    if (st) return mt_err_context(err, "tuning %s", strstr(key, "call: "));
    tune_keep(key, how, &facts, NULL);
    return MT_OK;
}

static char *export(struct mt_device *device, size_t *length) {
    char class[MT_TUNING_KEY];
    class_of(device, class);
    return tune_export(class, length);
}

static uint64_t hash(struct mt_device *device) {
    char class[MT_TUNING_KEY];
    class_of(device, class);
    return tune_hash(class);
}

static enum mt_status import(struct mt_device *device, int count, const char *const *texts, const size_t *lengths,
                             struct mt_err *err) {
    char class[MT_TUNING_KEY];
    class_of(device, class);
    return tune_import(count, texts, lengths, class, err);
}

const struct mt_tuner cuda_tuner = {class_of, key_of, find, tune, export, hash, import};
