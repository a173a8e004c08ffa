/* Variants as a class of choices (choose.h): what they are called, and the race between them. */
#include "kernels/cuda/tune/variant.h"

#include <math.h>
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/log.h"
#include "kernels/base/number/hash.h"
#include "kernels/cuda/jit/jit.h"
#include "kernels/cuda/tune/call_bench.h"
#include "kernels/cuda/tune/choose.h"
#include "kernels/cuda/tune/halving.h"
#include "kernels/cuda/tune/signature.h"

static const double race_s = 0.15, margin = 0.01, least_filled = 0.4;

/* What this thread's calls use instead of choosing. */
static _Thread_local struct {
    const struct cuda_family *family; /* that is being measured; or null */
    struct cuda_variant variant;
    const struct mt_call *whole; /* that this thread's calls of its kind are parts of; or null */
    char choices[MT_TUNING_CHOICE];
} trial;

const struct mt_call *cuda_part_of(const struct mt_call *whole) {
    const struct mt_call *was = trial.whole;
    trial.whole = whole;
    return was;
}

const struct mt_call *cuda_chosen_for(const struct mt_call *call) {
    return trial.whole && trial.whole->kind == call->kind ? trial.whole : call;
}

void cuda_choices_begin(void) {
    trial.choices[0] = 0;
}

const char *cuda_choices_text(void) {
    return trial.choices;
}

int cuda_variant_pairs(struct cuda_variant first, const int *a, const int *b, struct cuda_variant *list) {
    int count = 0;
    list[count++] = first;
    for (const int *x = a; *x; x++)
        for (const int *y = b; *y && count < CUDA_MOST_VARIANTS; y++) {
            struct cuda_variant v = {{*x, *y}};
            if (memcmp(&v, &first, sizeof v)) list[count++] = v;
        }
    return count;
}

/* ---- the class: a question, its key and its values ---- */

struct id {
    const struct cuda_family *family;
    uint64_t call;
};

struct job {
    const struct cuda_queue *queue;
    const struct cuda_family *family;
    const struct mt_call *call;
    int count; /* of variants; 0: not listed yet */
    struct cuda_variant list[CUDA_MOST_VARIANTS];
};

static void list_variants(struct job *j) {
    if (!j->count) j->count = j->family->variants(j->queue->cuda, j->call, j->list);
}

static void variant_text(const struct cuda_family *f, const struct cuda_variant *v, char text[CUDA_CHOICE_TEXT]) {
    size_t used = 0;
    *text = 0;
    for (int i = 0; i < CUDA_PARAMS && f->params[i] && used < CUDA_CHOICE_TEXT; i++)
        used += (size_t)snprintf(text + used, CUDA_CHOICE_TEXT - used, "%s%s=%d", i ? " " : "", f->params[i], v->p[i]);
}

static bool job_key(void *job, char key[CUDA_KEY_TEXT]) {
    struct job *j = job;
    const struct cuda_family *f = j->family;
    char device[200], text[CUDA_CALL_TEXT];
    const char *source = cuda_source(f->source), *prelude = cuda_source("prelude");
    int major = 0, minor = 0;
    list_variants(j);
    if (j->count == 1) return false;
    nvrtcVersion(&major, &minor);
    cuda_device_key(j->queue->cuda, device, sizeof device);
    cuda_call_text(j->call, false, text);
    uint64_t hash = strstr(source, "#include") ? cuda_headers_hash() : 0;
    hash = mt_hash64(source, strlen(source), mt_hash64(prelude, strlen(prelude), hash));
    snprintf(key, CUDA_KEY_TEXT, "%s, NVRTC %d.%d, %s.cu %08x | %s: %s", device, major, minor, f->source,
             (unsigned)hash, f->name, text);
    return true;
}

static enum mt_status job_first(void *job, void *choice, struct mt_err *err) {
    struct job *j = job;
    (void)err;
    list_variants(j);
    *(struct cuda_variant *)choice = j->list[0];
    return MT_OK;
}

static void job_text(void *job, const char *key, const void *choice, char text[CUDA_CHOICE_TEXT]) {
    (void)key;
    variant_text(((struct job *)job)->family, choice, text);
}

/* Only variants that are worth trying here. */
static bool job_parse(void *job, const char *key, const char *value, void *choice) {
    const struct job *j = job;
    char text[CUDA_CHOICE_TEXT];
    (void)key;
    for (int i = 0; i < j->count; i++) {
        variant_text(j->family, &j->list[i], text);
        if (strcmp(text, value)) continue;
        *(struct cuda_variant *)choice = j->list[i];
        return true;
    }
    return false;
}

/* ---- measuring ---- */

struct race {
    struct cuda_call_bench bench;
    const struct cuda_family *family;
    const char *key;
    int count;
    struct cuda_variant variants[CUDA_MOST_VARIANTS];
    double error[CUDA_MOST_VARIANTS];
    CUgraphExec graphs[CUDA_MOST_VARIANTS];
};

static void try_variant(const struct race *r, int which) {
    trial.family = r->family;
    trial.variant = r->variants[which];
}

static enum mt_status look(struct race *r, int which, struct cuda_probe *probe, struct mt_err *err) {
    const struct mt_call *call = &r->bench.calls[0];
    *probe = (struct cuda_probe){0};
    try_variant(r, which);
    cuda_probe(probe);
    enum mt_status st = r->bench.run(&r->bench.bench.queue, call, err);
    cuda_probe(NULL);
    return st;
}

/* Leave out variants that cannot be fast. */
static void prune(struct race *r) {
    struct cuda_probe probes[CUDA_MOST_VARIANTS];
    double best = 0;
    int kept = 0;
    for (int i = 0; i < r->count; i++) {
        struct mt_err err = MT_ERR_INIT;
        if (look(r, i, &probes[i], &err)) {
            mt_log(MT_LOG_DEBUG, "a variant is left out: %s", err.text);
            probes[i].impossible = true;
        }
        if (!probes[i].impossible) best = fmax(best, probes[i].filled);
    }
    for (int i = 0; i < r->count; i++) {
        bool good = !probes[i].impossible && probes[i].filled >= least_filled * best &&
                    probes[i].spilled_bytes <= 2 * probes[0].spilled_bytes + 16;
        if (i && !good) continue;
        r->variants[kept++] = r->variants[i];
    }
    r->count = kept;
}

/* Relative in norm: two orders of summation, in the type that results are stored in. */
static double tolerance_of(const struct mt_call *call) {
    for (int o = 0; o < call->nout; o++)
        if (mt_type_size(call->out[o].type) == 2) return 1e-2;
    return 1e-5;
}

/* Record a graph of each variant whose result is right. The default must run. */
static enum mt_status check(struct race *r, struct mt_err *err) {
    double tolerance = tolerance_of(&r->bench.calls[0]);
    int kept = 0;
    enum mt_status st = MT_OK;
    for (int i = 0; i < r->count; i++) {
        struct mt_err ignored = MT_ERR_INIT, *failure = i ? &ignored : err;
        char text[CUDA_CHOICE_TEXT];
        double error = 0;
        try_variant(r, i);
        st = i ? cuda_call_bench_error(&r->bench, &error, failure) : cuda_call_bench_keep(&r->bench, failure);
        bool right = !st && error <= tolerance;
        if (right) st = cuda_call_bench_record(&r->bench, &r->graphs[kept], failure);
        if (st && !i) return st;
        variant_text(r->family, &r->variants[i], text);
        if (st) mt_log(MT_LOG_DEBUG, "%s: %s is left out: %s", r->key, text, ignored.text);
        if (!st && !right)
            mt_log(MT_LOG_WARN, "%s: %s is left out: its result is off by %.2g, where %.0g is allowed", r->key, text,
                   error, tolerance);
        if (st || !right) continue;
        r->variants[kept] = r->variants[i];
        r->error[kept++] = error;
    }
    r->count = kept;
    return MT_OK;
}

static bool run_graph(void *context, int which, double *time_s) {
    struct race *r = context;
    struct mt_err err = MT_ERR_INIT;
    if (!cuda_call_bench_time(&r->bench, r->graphs[which], time_s, &err)) return true;
    mt_log(MT_LOG_DEBUG, "a variant is left out: %s", err.text);
    return false;
}

/* The winner among r's variants, and what to keep of it. */
static enum mt_status run_race(struct race *r, struct cuda_variant *winner, struct tune_facts *facts,
                               struct mt_err *err) {
    double times_s[CUDA_MOST_VARIANTS];
    int listed = r->count;
    prune(r);
    int looked = r->count;
    enum mt_status st = check(r, err);
    trial.family = NULL;
    if (st) return st;
    const struct halving halving = {r->count, 3, race_s, margin, run_graph, r};
    int which = halve(&halving, times_s);
    if (which < 0) return mt_fail(err, MT_ESYSTEM, "no variant runs");
    *winner = r->variants[which];
    *facts = (struct tune_facts){.time_s = times_s[which], .default_s = times_s[0], .error = r->error[which]};
    mt_log(MT_LOG_DEBUG, "%s: the default takes %.1f us; %d of %d variants raced, %d were pruned", r->key,
           1e6 * facts->default_s, r->count, listed, listed - looked);
    return MT_OK;
}

static enum mt_status job_measure(void *job, const char *key, void *choice, struct tune_facts *facts,
                                  struct mt_err *err) {
    const struct job *j = job;
    struct race *r = mt_calloc(1, sizeof *r);
    r->family = j->family, r->key = key, r->count = j->count;
    memcpy(r->variants, j->list, sizeof r->variants);
    enum mt_status st = cuda_call_bench_init(&r->bench, j->queue, j->call, err);
    if (r->family->queue) r->bench.run = r->family->queue;
    if (!st) st = run_race(r, choice, facts, err);
    for (int i = 0; i < CUDA_MOST_VARIANTS; i++)
        if (r->graphs[i]) cuGraphExecDestroy(r->graphs[i]);
    cuda_bench_release(&r->bench.bench);
    free(r);
    return st;
}

static const struct cuda_choices class = {
    sizeof(struct id), sizeof(struct cuda_variant), job_key, job_first, job_text, job_parse, job_measure};

/* ---- choosing ---- */

static void note(const struct cuda_family *family, const struct cuda_variant *variant) {
    char text[CUDA_CHOICE_TEXT];
    size_t used = strlen(trial.choices);
    variant_text(family, variant, text);
    snprintf(trial.choices + used, sizeof trial.choices - used, "%s%s: %s", used ? "; " : "", family->name, text);
}

/* The largest of the calls of a multi-tensor launch: its variant is used for all. */
static struct mt_call representative(const struct mt_call *call) {
    struct mt_call most = mt_call_nth(call, 0);
    for (int i = 1; i < mt_call_count(call); i++) {
        struct mt_call part = mt_call_nth(call, i);
        if (mt_tensor_count(&part.out[0]) > mt_tensor_count(&most.out[0])) most = part;
    }
    return most;
}

enum mt_status cuda_choose_variant(const struct cuda_queue *queue, const struct cuda_family *family,
                                   const struct mt_call *all, struct cuda_variant *variant, struct mt_err *err) {
    if (trial.family == family) {
        *variant = trial.variant;
        return MT_OK;
    }
    struct mt_call one = representative(all);
    struct job job = {.queue = queue, .family = family, .call = cuda_chosen_for(&one)};
    struct id id = {family, cuda_call_hash(job.call)};
    bool untuned;
    enum mt_status st = cuda_untuned(&untuned, err);
    if (!st) st = cuda_choose(&class, queue, &id, &job, variant, err);
    if (!st && !untuned && !trial.family) note(family, variant);
    return st;
}
