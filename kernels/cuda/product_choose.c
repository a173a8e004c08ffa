/* Which of cuBLASLt's algorithms runs a product: measured once, then remembered.
 *
 * Candidates are what the library's heuristic offers, for each way of sharing the work with our own passes. They run on
 * a stream and on memory of their own, since accumulating changes its operand, with random operands, since zeros draw
 * less power and run at higher clocks. Successive halving: all run a little, the better half twice as long, and so on:
 * about 80 runs in all for 8 candidates, less where a run is long. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/hash.h"
#include "kernels/base/log.h"
#include "kernels/cuda/bench.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/signature.h"
#include "kernels/cuda/tune.h"
#include "kernels/cuda/variant.h"

static const double long_run_s = 0.02; /* one of these is enough */

struct candidate {
    struct product_choice choice;
    double time_s; /* of a run; infinite where it fails */
};

/* ---- the bench: a stream, events and operands ---- */

enum { NBLOCKS = 6 };

struct bench {
    struct cuda_queue queue;
    CUevent begin, end;
    CUdeviceptr memory;
    struct product_data data;
};

static void bench_release(struct bench *b) {
    if (b->queue.stream) cuStreamSynchronize(b->queue.stream);
    if (b->begin) cuEventDestroy(b->begin);
    if (b->end) cuEventDestroy(b->end);
    if (b->queue.stream) cuStreamDestroy(b->queue.stream);
    if (b->memory) cuMemFree(b->memory);
}

static enum mt_status fill(const struct cuda_queue *queue, enum mt_type type, const void *x, int64_t count,
                           struct mt_err *err) {
    char definitions[32];
    CUfunction kernel;
    snprintf(definitions, sizeof definitions, "-DTYPE=%s", cuda_type(type));
    enum mt_status st = cuda_kernel(queue->cuda, "matmul_epilogue", definitions, "noise", 0, &kernel, err);
    int64_t blocks = (count + 255) / 256;
    return st ? st : cuda_launch(queue, kernel, blocks < 4096 ? blocks : 4096, 256, 0, (void *[]){&x, &count}, err);
}

static enum mt_status bench_init(struct bench *b, const struct cuda_queue *queue, const struct product_shape *s,
                                 struct mt_err *err) {
    enum mt_type in = s->in, out = s->out;
    const struct {
        int64_t count;
        enum mt_type type;
    } blocks[NBLOCKS] = {{s->m * s->k, in},
                         {s->k * s->n, in},
                         {s->finish ? s->n : 0, in},
                         {s->m * s->n, out},
                         {s->finish >= FINISH_GELU ? s->m * s->n : 0, out},
                         {PRODUCT_WORKSPACE_BYTES / 4, MT_F32}};
    int64_t at[NBLOCKS], size_bytes = 0;
    for (int i = 0; i < NBLOCKS; i++) {
        at[i] = size_bytes;
        size_bytes += (blocks[i].count * mt_type_size(blocks[i].type) + 255) / 256 * 256;
    }
    *b = (struct bench){.queue = {.cuda = queue->cuda, .clock = queue->clock}};
    CUDA_TRY(cuStreamSynchronize(queue->stream), err, "before timing products");
    CUDA_TRY(cuMemAlloc(&b->memory, (size_t)size_bytes), err, "memory to time products in");
    enum mt_status st = cuda_stream_beside(queue->stream, &b->queue.stream, err);
    if (st) return st;
    CUDA_TRY(cuEventCreate(&b->begin, CU_EVENT_DEFAULT), err, "cuEventCreate");
    CUDA_TRY(cuEventCreate(&b->end, CU_EVENT_DEFAULT), err, "cuEventCreate");
    void *place[NBLOCKS];
    for (int i = 0; !st && i < NBLOCKS; i++) {
        place[i] = (void *)(uintptr_t)(b->memory + (CUdeviceptr)at[i]);
        if (blocks[i].count) st = fill(&b->queue, blocks[i].type, place[i], blocks[i].count, err);
    }
    if (st) return st;
    b->data = (struct product_data){place[0], place[1], place[2], place[3], place[4], place[5]};
    CUDA_TRY(cuStreamSynchronize(b->queue.stream), err, "filling operands");
    return MT_OK;
}

static enum mt_status time_runs(struct bench *b, const struct product_shape *shape, const struct product_choice *choice,
                                int runs, double *time_s, struct mt_err *err) {
    float ms = 0;
    enum mt_status st = MT_OK;
    CUDA_TRY(cuEventRecord(b->begin, b->queue.stream), err, "cuEventRecord");
    for (int i = 0; !st && i < runs; i++) st = product_run(&b->queue, shape, choice, &b->data, err);
    CUDA_TRY(cuEventRecord(b->end, b->queue.stream), err, "cuEventRecord");
    CUDA_TRY(cuEventSynchronize(b->end), err, "timing a product");
    CUDA_TRY(cuEventElapsedTime(&ms, b->begin, b->end), err, "cuEventElapsedTime");
    *time_s = ms * 1e-3 / runs;
    return st;
}

/* One run to warm up, which tells whether more than one is needed. */
static void time_candidate(struct bench *b, const struct product_shape *shape, int runs, struct candidate *c) {
    struct mt_err err = MT_ERR_INIT;
    enum mt_status st = time_runs(b, shape, &c->choice, 1, &c->time_s, &err);
    if (!st) st = time_runs(b, shape, &c->choice, c->time_s > long_run_s ? 1 : runs, &c->time_s, &err);
    if (!st) return;
    c->time_s = INFINITY;
    mt_log(MT_LOG_DEBUG, "a candidate is out: %s", err.text);
}

static int by_time(const void *a, const void *b) {
    double x = ((const struct candidate *)a)->time_s, y = ((const struct candidate *)b)->time_s;
    return (x > y) - (x < y);
}

/* The best comes to the front. */
static enum mt_status measure(const struct cuda_queue *queue, const struct product_shape *shape,
                              struct candidate *candidates, int count, struct mt_err *err) {
    struct bench b;
    enum mt_status st = bench_init(&b, queue, shape, err);
    for (int runs = 3; !st; runs *= 2) {
        for (int i = 0; i < count; i++) time_candidate(&b, shape, runs, &candidates[i]);
        qsort(candidates, (size_t)count, sizeof *candidates, by_time);
        if (count == 1 || isinf(candidates[0].time_s)) break;
        count = (count + 1) / 2;
    }
    bench_release(&b);
    if (!st && isinf(candidates[0].time_s)) st = mt_fail(err, MT_ESYSTEM, "none of the algorithms runs");
    return st;
}

/* ---- the tuning file ---- */

static void key_of(const struct cuda_queue *queue, const struct product_shape *shape, char *key, size_t room) {
    char device[200], product[200];
    cuda_device_key(queue->cuda, device, sizeof device);
    product_describe(shape, product, sizeof product);
    snprintf(key, room, "%s, cuBLASLt %zu | %s, align %d", device, cublasLtGetVersion(), product, shape->align);
}

enum { WORDS = sizeof(cublasLtMatmulAlgo_t) / sizeof(uint64_t) };

/* "whole", the algorithm's words, and a hash of it all and the key: the library does not notice all that could be wrong
 * with an algorithm. */
static void choice_text(const char *key, const struct product_choice *choice, char *text, size_t room) {
    uint64_t hash =
        mt_hash64(choice->algo.data, sizeof choice->algo.data, mt_hash64(key, strlen(key), (uint64_t)choice->how));
    int n = snprintf(text, room, "%s", product_how_names[choice->how]);
    for (int i = 0; i < WORDS; i++)
        n += snprintf(text + n, room - (size_t)n, " %016llx", (unsigned long long)choice->algo.data[i]);
    snprintf(text + n, room - (size_t)n, " %016llx", (unsigned long long)hash);
}

/* Only what choice_text would write is taken, with its hash. */
static bool choice_parse(const char *key, const char *text, struct product_choice *choice) {
    char again[200];
    size_t name = strcspn(text, " ");
    int how = 0;
    while (how < NHOWS && (strlen(product_how_names[how]) != name || strncmp(text, product_how_names[how], name)))
        how++;
    if (how == NHOWS) return false;
    choice->how = (enum product_how)how;
    const char *at = text + name;
    for (int i = 0; i < WORDS; i++) {
        char *end;
        choice->algo.data[i] = strtoull(at, &end, 16);
        if (end == at) return false;
        at = end;
    }
    choice_text(key, choice, again, sizeof again);
    return !strcmp(again, text);
}

/* ---- choosing ---- */

struct known {
    struct product_shape shape;
    struct product_choice choice;
    bool settled; /* not made up for a capture */
    struct known *next;
};

enum { NBUCKETS = 256 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known *buckets[NBUCKETS];

static enum mt_status offered(const struct product_shape *shape, struct candidate *candidates, int *count,
                              struct mt_err *err) {
    struct product_choice choices[PRODUCT_MOST];
    enum mt_status st = MT_OK;
    *count = 0;
    for (int how = 0; !st && how < NHOWS; how++) {
        int n = 0;
        if (how == HOW_SPREAD && *count) break; /* never better, only always possible */
        st = product_candidates(shape, (enum product_how)how, choices, &n, err);
        for (int i = 0; i < n; i++) candidates[(*count)++] = (struct candidate){choices[i], 0};
    }
    if (st || *count) return st;
    char text[200];
    product_describe(shape, text, sizeof text);
    return mt_fail(err, MT_ESYSTEM, "cuBLASLt: %s: it has no algorithm", text);
}

/* Measures and keeps the best; where that cannot be, known->choice stays. */
static void settle(const struct cuda_queue *queue, const char *key, const char *wrong, struct candidate *candidates,
                   int count, struct known *known) {
    const struct product_shape *shape = &known->shape;
    struct mt_err err = MT_ERR_INIT;
    char text[200];
    struct product_choice theirs;
    if (measure(queue, shape, candidates, count, &err)) {
        mt_log(MT_LOG_WARN, "%s: not measured, the library's first choice is taken: %s", key, err.text);
        return;
    }
    double flops = 2.0 * (double)shape->m * (double)shape->n * (double)shape->k;
    known->choice = candidates[0].choice;
    choice_text(key, &known->choice, text, sizeof text);
    mt_log(MT_LOG_DEBUG, "%s: %.1f TFLOP/s by %.30s", key, flops / candidates[0].time_s / 1e12, text);
    const char *kept = tune_keep(key, text, &(struct tune_facts){.time_s = candidates[0].time_s}, wrong);
    if (strcmp(kept, text) && choice_parse(key, kept, &theirs) && product_usable(shape, &theirs))
        known->choice = theirs;
}

static enum mt_status decide(const struct cuda_queue *queue, bool capturing, struct known *known, struct mt_err *err) {
    const struct product_shape *shape = &known->shape;
    struct candidate candidates[NHOWS * PRODUCT_MOST];
    char key[500];
    int count;
    const char *kept = NULL;
    known->settled = !capturing || shape->heuristic;
    key_of(queue, shape, key, sizeof key);
    if (!shape->heuristic && (kept = tune_find(key, NULL))) {
        if (choice_parse(key, kept, &known->choice) && product_usable(shape, &known->choice)) {
            known->settled = true;
            return MT_OK;
        }
        mt_log(MT_LOG_WARN, "%s: what the tuning file has is of no use here, and is measured again", key);
    }
    enum mt_status st = offered(shape, candidates, &count, err);
    if (st) return st;
    known->choice = candidates[0].choice;
    if (shape->heuristic) return MT_OK;
    if (capturing)
        mt_log(MT_LOG_WARN, "%s: captured before it was measured, with the library's first choice", key);
    else
        settle(queue, key, kept, candidates, count, known);
    return MT_OK;
}

/* What was taken from other processes may say something else. */
static void forget_old(void) {
    static unsigned known_epoch;
    unsigned epoch = tune_epoch();
    for (int b = 0; b < NBUCKETS && epoch != known_epoch; b++)
        for (struct known *k; (k = buckets[b]);) buckets[b] = k->next, free(k);
    known_epoch = epoch;
}

enum mt_status product_choose(const struct cuda_queue *queue, const struct product_shape *shape,
                              struct product_choice *choice, struct mt_err *err) {
    struct known fresh = {.shape = *shape};
    CUstreamCaptureStatus capture;
    bool off;
    enum mt_status st = cuda_untuned(&off, err);
    if (st) return st;
    CUDA_TRY(cuStreamIsCapturing(queue->stream, &capture), err, "cuStreamIsCapturing");
    bool capturing = capture != CU_STREAM_CAPTURE_STATUS_NONE;
    if (off) fresh.shape.heuristic = true;
    pthread_mutex_lock(&lock);
    forget_old();
    struct known **bucket = &buckets[mt_hash64(&fresh.shape, sizeof fresh.shape, 0) % NBUCKETS], *k;
    for (k = *bucket; k && memcmp(&k->shape, &fresh.shape, sizeof fresh.shape);) k = k->next;
    if (!k || (!k->settled && !capturing)) {
        st = decide(queue, capturing, &fresh, err);
        if (!st && !k) {
            k = mt_calloc(1, sizeof *k);
            k->next = *bucket;
            *bucket = k;
        }
        if (!st) fresh.next = k->next, *k = fresh;
    }
    if (!st) *choice = k->choice;
    pthread_mutex_unlock(&lock);
    return st;
}
