/* Attention's implementations as a class of choices (choose.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/hash.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/jit/jit.h"
#include "kernels/cuda/tune/choose.h"
#include "kernels/cuda/tune/signature.h"
#include "kernels/cuda/tune/variant.h"
#ifdef MOTLEY_HAS_CUDNN
#include "kernels/cuda/attention/cudnn/cudnn.h"
#endif

static const struct attention_impl *impl_of(const char *name) {
    for (int i = 0; i < ATTENTION_NIMPLS; i++)
        if (!strcmp(attention_impls[i]->name, name)) return attention_impls[i];
    return NULL;
}

/* ---- MOTLEY_CUDA_ATTENTION ---- */

/* *impl: null where the variable is not set. */
static enum mt_status named(const struct attention_impl **impl, struct mt_err *err) {
    const char *given = getenv("MOTLEY_CUDA_ATTENTION");
    char names[200] = "";
    *impl = NULL;
    if (!given || !*given) return MT_OK;
    if ((*impl = impl_of(given)) || (*impl = attention_impl_of_row(attention_forced_row()))) return MT_OK;
    for (int i = 0; i < ATTENTION_NIMPLS; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s, ", attention_impls[i]->name);
    return mt_fail(err, MT_EINPUT,
                   "MOTLEY_CUDA_ATTENTION is \"%.40s\", but must be %sor the number of a row of attention_tiles.def",
                   given, names);
}

static enum mt_status forced(const struct cuda *cuda, const struct mt_call *call, const struct attention_impl **impl,
                             struct mt_err *err) {
    const struct mt_attention a = mt_attention_of(call);
    enum mt_status st = named(impl, err);
    if (*impl && (*impl)->any_order && !a.gradient) *impl = NULL;
    if (st || !*impl || attention_can(*impl, cuda, call)) return st;
    const char *missing = (*impl)->missing ? (*impl)->missing() : NULL;
    if (missing) return mt_fail(err, MT_EMISSING, "MOTLEY_CUDA_ATTENTION asks for \"%s\": %s", (*impl)->name, missing);
    if ((*impl)->any_order && !call->attr->any_order)
        return mt_fail(err, MT_EINPUT,
                       "MOTLEY_CUDA_ATTENTION asks for \"%s\", but the job wants the same bits every time",
                       (*impl)->name);
    mt_fail(err, MT_EINPUT,
            "MOTLEY_CUDA_ATTENTION asks for \"%s\", which cannot run this call: %s, sequences of %lld, heads of %lld, "
            "dropout %g%s%s, on sm_%d",
            (*impl)->name, mt_type_name(a.q->type), (long long)a.t, (long long)a.d, call->attr->p,
            a.packed ? "" : ", queries apart from keys", a.window ? ", a window" : "", cuda->sm);
    return mt_err_hint(err, "unset it, and the fastest implementation that can is taken");
}

/* ---- the class ---- */

struct id {
    uint64_t call;
    unsigned long long context;
};

struct job {
    const struct cuda_queue *queue;
    const struct mt_call *call;
    int count; /* of candidates; 0: not listed yet */
    const struct attention_impl *candidates[ATTENTION_NIMPLS];
};

/* The plain kernels are a candidate only where there is no other: they are never faster. */
static void list_candidates(struct job *j) {
    for (int i = 0; i < ATTENTION_NIMPLS; i++)
        if (attention_impls[i] != &attention_impl_row && attention_can(attention_impls[i], j->queue->cuda, j->call))
            j->candidates[j->count++] = attention_impls[i];
    if (!j->count) j->candidates[j->count++] = &attention_impl_row;
}

/* With what the choice is among. */
static bool job_key(void *job, char key[CUDA_KEY_TEXT]) {
    struct job *j = job;
    const struct mt_attention a = mt_attention_of(j->call);
    char device[200], names[100] = "", keys[80] = "", window[40] = "";
    size_t cudnn = 0;
    list_candidates(j);
    if (j->count == 1) return false;
    for (int i = 0; i < j->count; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? " " : "", j->candidates[i]->name);
#ifdef MOTLEY_HAS_CUDNN
    cudnn = cudnn_version();
#endif
    cuda_device_key(j->queue->cuda, device, sizeof device);
    if (!a.packed)
        snprintf(keys, sizeof keys, " from %lld t=%lld g=%lld", (long long)a.first, (long long)a.t,
                 (long long)a.groups);
    if (a.window) snprintf(window, sizeof window, ", window %lld", (long long)a.window);
    snprintf(key, CUDA_KEY_TEXT, "%s, kernels %08x, cuDNN %zu | %s %s b=%lld s=%lld%s h=%lld d=%lld%s%s%s%s, of %s",
             device, (unsigned)cuda_sources_hash(), cudnn, a.gradient ? "attention_grad" : "attention",
             mt_type_name(a.q->type), (long long)a.b, (long long)a.s, keys, (long long)a.heads, (long long)a.d,
             j->call->attr->causal ? ", causal" : "", window, j->call->attr->p > 0 ? ", dropout" : "",
             attention_aligned(j->call, 16) ? "" : ", unaligned", names);
    return true;
}

static enum mt_status job_first(void *job, void *choice, struct mt_err *err) {
    struct job *j = job;
    (void)err;
    if (!j->count) list_candidates(j);
    *(const struct attention_impl **)choice = j->candidates[0];
    return MT_OK;
}

static void job_text(void *job, const char *key, const void *choice, char text[CUDA_CHOICE_TEXT]) {
    (void)job, (void)key;
    snprintf(text, CUDA_CHOICE_TEXT, "%s", (*(const struct attention_impl *const *)choice)->name);
}

static bool job_parse(void *job, const char *key, const char *text, void *choice) {
    const struct job *j = job;
    const struct attention_impl *impl = impl_of(text);
    (void)key;
    if (!impl || !attention_can(impl, j->queue->cuda, j->call)) return false;
    *(const struct attention_impl **)choice = impl;
    return true;
}

static enum mt_status job_measure(void *job, const char *key, void *choice, struct tune_facts *facts,
                                  struct mt_err *err) {
    const struct job *j = job;
    return attention_measure(j->queue, j->call, key, j->candidates, j->count, choice, facts, err);
}

static const struct cuda_choices class = {
    sizeof(struct id), sizeof(struct attention_impl *), job_key, job_first, job_text, job_parse, job_measure};

/* ---- choosing ---- */

static uint64_t hash_of(const struct mt_call *call) {
    const struct mt_attention a = mt_attention_of(call);
    const int64_t facts[] = {call->kind,
                             a.q->type,
                             a.b,
                             a.s,
                             a.t,
                             a.first,
                             a.heads,
                             a.groups,
                             a.d,
                             call->attr->causal,
                             a.window,
                             call->attr->p > 0,
                             attention_aligned(call, 16),
                             call->attr->any_order};
    return mt_hash64(facts, sizeof facts, 0);
}

static _Thread_local const struct attention_impl *only;

const struct attention_impl *attention_only(const struct attention_impl *impl) {
    const struct attention_impl *was = only;
    only = impl;
    return was;
}

enum mt_status attention_choose(const struct cuda_queue *queue, const struct mt_call *one,
                                const struct attention_impl **impl, struct mt_err *err) {
    struct job job = {.queue = queue, .call = cuda_chosen_for(one)};
    struct id id = {.call = hash_of(job.call)};
    if ((*impl = only)) return MT_OK;
    enum mt_status st = forced(queue->cuda, job.call, impl, err);
    if (st || *impl) return st;
    CUDA_TRY(cuCtxGetId(queue->cuda->context, &id.context), err, "cuCtxGetId");
    return cuda_choose(&class, queue, &id, &job, impl, err);
}
