/* Which variant runs a call: the table of what is known, the tuning file, the measurement. */
#include "kernels/cuda/tune/variant.h"

#include <math.h>
#include <nvrtc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/number/hash.h"
#include "kernels/base/log.h"
#include "kernels/cuda/tune/benchmark.h"
#include "kernels/cuda/tune/halving.h"
#include "kernels/cuda/jit/jit.h"
#include "kernels/cuda/tune/signature.h"
#include "kernels/cuda/tune/tune.h"

enum { VALUE_TEXT = 160, KEY_TEXT = 700, NBUCKETS = 1024 };
static const double race_s = 0.15, margin = 0.01, least_filled = 0.4;

struct known {
    uint64_t hash;
    const struct cuda_family *family;
    struct cuda_variant variant;
    struct known *next;
};
/* Measuring a variant runs the operator, which chooses again. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static struct known *buckets[NBUCKETS];
static unsigned known_epoch;

/* What this thread's calls shall use instead of choosing. */
static _Thread_local struct {
    const struct cuda_family *family;
    struct cuda_variant variant;
    bool measuring, defaults;
    const struct mt_call *whole; /* that this thread's calls of its kind are parts of; or null */
    char choices[MT_TUNING_CHOICE];
} trial;

bool cuda_defaults_only(bool only) {
    bool was = trial.defaults;
    trial.defaults = only;
    return was;
}

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

enum mt_status cuda_untuned(bool *untuned, struct mt_err *err) {
    const char *text = getenv("MOTLEY_TUNE");
    *untuned = trial.defaults || (text && !strcmp(text, "off"));
    if (!text || !*text || !strcmp(text, "off") || !strcmp(text, "on")) return MT_OK;
    return mt_fail(err, MT_EINPUT, "MOTLEY_TUNE is \"%.40s\", but must be on or off", text);
}

/* ---- the tuning file ---- */

static void variant_text(const struct cuda_family *f, const struct cuda_variant *v, char text[VALUE_TEXT]) {
    size_t used = 0;
    *text = 0;
    for (int i = 0; i < CUDA_PARAMS && f->params[i] && used < VALUE_TEXT; i++)
        used += (size_t)snprintf(text + used, VALUE_TEXT - used, "%s%s=%d", i ? " " : "", f->params[i], v->p[i]);
}

/* Only what is worth trying here is taken. */
static const struct cuda_variant *parse(const struct cuda_family *f, const char *value, const struct cuda_variant *list,
                                        int count) {
    for (int i = 0; i < count; i++) {
        char text[VALUE_TEXT];
        variant_text(f, &list[i], text);
        if (!strcmp(text, value)) return &list[i];
    }
    return NULL;
}

static void key_of(const struct cuda *cuda, const struct cuda_family *f, const struct mt_call *call,
                   char key[KEY_TEXT]) {
    char device[200], text[CUDA_CALL_TEXT];
    const char *source = cuda_source(f->source), *prelude = cuda_source("prelude");
    int major = 0, minor = 0;
    nvrtcVersion(&major, &minor);
    cuda_device_key(cuda, device, sizeof device);
    cuda_call_text(call, false, text);
    uint64_t hash = strstr(source, "#include") ? cuda_headers_hash() : 0;
    hash = mt_hash64(source, strlen(source), mt_hash64(prelude, strlen(prelude), hash));
    snprintf(key, KEY_TEXT, "%s, NVRTC %d.%d, %s.cu %08x | %s: %s", device, major, minor, f->source, (unsigned)hash,
             f->name, text);
}

/* ---- measuring ---- */

struct race {
    struct cuda_bench bench;
    const struct cuda_family *family;
    char key[KEY_TEXT];
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
    enum mt_status st = r->bench.run(&r->bench.queue, call, err);
    cuda_probe(NULL);
    return st;
}

/* Leave out what cannot be good. */
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

/* Relative in norm: two ways to add up, in the type that results are stored in. */
static double tolerance_of(const struct mt_call *call) {
    for (int o = 0; o < call->nout; o++)
        if (mt_type_size(call->out[o].type) == 2) return 1e-2;
    return 1e-5;
}

/* Of those whose results are right a graph each. The default must run. */
static enum mt_status check(struct race *r, struct mt_err *err) {
    double tolerance = tolerance_of(&r->bench.calls[0]);
    int kept = 0;
    enum mt_status st = MT_OK;
    for (int i = 0; i < r->count; i++) {
        struct mt_err ignored = MT_ERR_INIT, *told = i ? &ignored : err;
        char text[VALUE_TEXT];
        double error = 0;
        try_variant(r, i);
        st = i ? cuda_bench_error(&r->bench, &error, told) : cuda_bench_keep(&r->bench, told);
        bool right = !st && error <= tolerance;
        if (right) st = cuda_bench_record(&r->bench, &r->graphs[kept], told);
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
    if (!cuda_bench_time(&r->bench, r->graphs[which], time_s, &err)) return true;
    mt_log(MT_LOG_DEBUG, "a variant is left out: %s", err.text);
    return false;
}

/* The winner among r's variants, and what to keep of it. */
static enum mt_status run_race(struct race *r, struct cuda_variant *variant, struct tune_facts *facts,
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
    *variant = r->variants[which];
    *facts = (struct tune_facts){.time_s = times_s[which], .default_s = times_s[0], .error = r->error[which]};
    mt_log(MT_LOG_DEBUG, "%s: %.1f us, the default %.1f; %d of %d variants raced, %d were pruned", r->key,
           1e6 * facts->time_s, 1e6 * facts->default_s, r->count, listed, listed - looked);
    return MT_OK;
}

/* Of the variants in r, which is made for this: the winner, and what to keep of it. */
static enum mt_status measure(const struct cuda_queue *queue, const struct mt_call *call, struct race *r,
                              struct cuda_variant *variant, struct tune_facts *facts, struct mt_err *err) {
    trial.measuring = true;
    enum mt_status st = cuda_bench_init(&r->bench, queue, call, err);
    if (r->family->queue) r->bench.run = r->family->queue;
    if (!st) st = run_race(r, variant, facts, err);
    trial.measuring = false;
    for (int i = 0; i < CUDA_MOST_VARIANTS; i++)
        if (r->graphs[i]) cuGraphExecDestroy(r->graphs[i]);
    cuda_bench_release(&r->bench);
    return st;
}

/* ---- choosing ---- */

int cuda_variant_pairs(struct cuda_variant first, const int *a, const int *b,
                       bool (*fits)(const struct cuda_variant *variant, const struct cuda *cuda,
                                    const struct mt_call *call),
                       const struct cuda *cuda, const struct mt_call *call, struct cuda_variant *list) {
    int count = 0;
    list[count++] = first;
    for (const int *x = a; *x; x++)
        for (const int *y = b; *y && count < CUDA_MOST_VARIANTS; y++) {
            struct cuda_variant v = {{*x, *y}};
            if (memcmp(&v, &first, sizeof v) && (!fits || fits(&v, cuda, call))) list[count++] = v;
        }
    return count;
}

static struct known *find_known(const struct cuda_family *family, uint64_t hash) {
    unsigned epoch = tune_epoch();
    if (known_epoch != epoch) /* what was taken from other processes may say something else */
        for (int b = 0; b < NBUCKETS; b++)
            for (struct known *k; (k = buckets[b]);) buckets[b] = k->next, free(k);
    known_epoch = epoch;
    struct known *k = buckets[hash % NBUCKETS];
    while (k && (k->hash != hash || k->family != family)) k = k->next;
    return k;
}

static void remember(const struct cuda_family *family, uint64_t hash, const struct cuda_variant *variant) {
    if (find_known(family, hash)) return;
    struct known *k = mt_calloc(1, sizeof *k);
    *k = (struct known){hash, family, *variant, buckets[hash % NBUCKETS]};
    buckets[hash % NBUCKETS] = k;
}

/* Measures, and keeps the winner (`wrong`: see tune_keep); the default where it cannot be measured. */
static void settle(const struct cuda_queue *queue, const struct mt_call *call, struct race *r, const char *wrong,
                   struct cuda_variant *variant) {
    char value[VALUE_TEXT];
    struct cuda_variant list[CUDA_MOST_VARIANTS];
    struct tune_facts facts;
    struct mt_err err = MT_ERR_INIT;
    int count = r->count;
    memcpy(list, r->variants, sizeof list);
    if (measure(queue, call, r, variant, &facts, &err)) {
        mt_log(MT_LOG_WARN, "%s: not measured, the default is taken: %s", r->key, err.text);
        *variant = list[0];
        return;
    }
    variant_text(r->family, variant, value);
    const struct cuda_variant *known = parse(r->family, tune_keep(r->key, value, &facts, wrong), list, count);
    if (known) *variant = *known;
}

/* From the file, or by a measurement; the default where neither can be. Whether it is settled. */
static bool decide(const struct cuda_queue *queue, const struct cuda_family *family, const struct mt_call *call,
                   bool may_measure, struct cuda_variant *variant) {
    struct race *r = mt_calloc(1, sizeof *r);
    r->family = family;
    r->count = family->variants(queue->cuda, call, r->variants);
    *variant = r->variants[0];
    bool settled = r->count == 1;
    if (!settled) {
        key_of(queue->cuda, family, call, r->key);
        const char *kept = tune_find(r->key, NULL);
        const struct cuda_variant *known = kept ? parse(family, kept, r->variants, r->count) : NULL;
        if (known) *variant = *known;
        if (kept && !known) mt_log(MT_LOG_WARN, "%s: the tuning file's \"%.60s\" is of no use here", r->key, kept);
        settled = known || may_measure;
        if (!known && may_measure) settle(queue, call, r, kept, variant);
    }
    free(r);
    return settled;
}

static void note(const struct cuda_family *family, const struct cuda_variant *variant) {
    char text[VALUE_TEXT];
    size_t used = strlen(trial.choices);
    variant_text(family, variant, text);
    snprintf(trial.choices + used, sizeof trial.choices - used, "%s%s: %s", used ? "; " : "", family->name, text);
}

static enum mt_status choose_default(const struct cuda_queue *queue, const struct cuda_family *family,
                                     const struct mt_call *call, struct cuda_variant *variant) {
    struct cuda_variant list[CUDA_MOST_VARIANTS];
    family->variants(queue->cuda, call, list);
    *variant = list[0];
    return MT_OK;
}

/* Of several calls that are done as one the largest: its variant serves all. */
static struct mt_call representative(const struct mt_call *call) {
    struct mt_call most = mt_call_nth(call, 0);
    for (int i = 1; i < mt_call_count(call); i++) {
        struct mt_call part = mt_call_nth(call, i);
        if (mt_tensor_count(&part.out[0]) > mt_tensor_count(&most.out[0])) most = part;
    }
    return most;
}

enum mt_status cuda_choose(const struct cuda_queue *queue, const struct cuda_family *family, const struct mt_call *all,
                           struct cuda_variant *variant, struct mt_err *err) {
    if (trial.family == family) {
        *variant = trial.variant;
        return MT_OK;
    }
    CUstreamCaptureStatus capture;
    bool untuned;
    enum mt_status st = cuda_untuned(&untuned, err);
    if (st) return st;
    struct mt_call one = representative(all);
    const struct mt_call *call = cuda_chosen_for(&one);
    if (untuned) return choose_default(queue, family, call, variant);
    CUDA_TRY(cuStreamIsCapturing(queue->stream, &capture), err, "cuStreamIsCapturing");
    bool may_measure = capture == CU_STREAM_CAPTURE_STATUS_NONE && !trial.measuring;
    uint64_t hash = cuda_call_hash(call);
    pthread_mutex_lock(&lock);
    const struct known *k = find_known(family, hash);
    if (k)
        *variant = k->variant;
    else if (decide(queue, family, call, may_measure, variant))
        remember(family, hash, variant);
    pthread_mutex_unlock(&lock);
    if (may_measure) note(family, variant);
    return MT_OK;
}
