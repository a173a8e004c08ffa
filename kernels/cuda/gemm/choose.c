/* Which way, and which of cuBLASLt's algorithms, runs a product: measured once, then remembered. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/number/hash.h"
#include "kernels/base/log.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/tune/signature.h"
#include "kernels/cuda/tune/tune.h"
#include "kernels/cuda/tune/variant.h"

/* ---- the tuning file ---- */

enum { SEARCH = 2 }; /* counts up with what search.c and measure.c find: old choices then lapse */

static void key_of(const struct cuda_queue *queue, const struct product_shape *shape, char *key, size_t room) {
    char device[200], product[200];
    cuda_device_key(queue->cuda, device, sizeof device);
    product_describe(shape, product, sizeof product);
    snprintf(key, room, "%s, cuBLASLt %zu, search %d | %s, align %d", device, cublasLtGetVersion(), SEARCH, product,
             shape->align);
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

/* What there is, best guess first. */
static enum mt_status offered(const struct product_shape *shape, struct product_list *list, struct mt_err *err) {
    static const enum product_how usual[NHOWS] = {HOW_STRIPS, HOW_WHOLE, HOW_BIAS, HOW_PLAIN};
    static const enum product_how sums[NHOWS] = {HOW_PLAIN, HOW_WHOLE, HOW_BIAS, HOW_STRIPS};
    bool biased = shape->finish >= FINISH_BIAS && shape->finish <= FINISH_RELU;
    const enum product_how *hows = shape->finish == FINISH_SUM ? sums : usual;
    enum mt_status st = MT_OK;
    for (int i = 0; !st && i < NHOWS; i++) {
        if (hows[i] == HOW_PLAIN && biased && list->count) continue; /* never better, only always possible */
        st = product_offered(shape, hows[i], list, err);
    }
    if (st || list->count) return st;
    char text[200];
    product_describe(shape, text, sizeof text);
    return mt_fail(err, MT_ESYSTEM, "cuBLASLt: %s: it has no algorithm", text);
}

/* Measures and keeps the best; where that cannot be, known->choice stays. */
static void settle(const struct cuda_queue *queue, const char *key, const char *wrong, const struct product_list *list,
                   struct known *known) {
    const struct product_shape *shape = &known->shape;
    struct mt_err err = MT_ERR_INIT;
    char text[200];
    struct product_choice theirs;
    double time_s;
    if (product_measure(queue, shape, list, &known->choice, &time_s, &err)) {
        mt_log(MT_LOG_WARN, "%s: not measured, the library's first choice is taken: %s", key, err.text);
        return;
    }
    double flops = 2.0 * (double)shape->m * (double)shape->n * (double)shape->k;
    choice_text(key, &known->choice, text, sizeof text);
    mt_log(MT_LOG_DEBUG, "%s: %.1f TFLOP/s by %.30s", key, flops / time_s / 1e12, text);
    const char *kept = tune_keep(key, text, &(struct tune_facts){.time_s = time_s}, wrong);
    if (strcmp(kept, text) && choice_parse(key, kept, &theirs) && product_usable(shape, &theirs))
        known->choice = theirs;
}

static enum mt_status decide(const struct cuda_queue *queue, bool capturing, struct known *known, struct mt_err *err) {
    const struct product_shape *shape = &known->shape;
    struct product_list list = {0};
    char key[500];
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
    enum mt_status st = offered(shape, &list, err);
    if (!st) known->choice = list.choices[0];
    if (!st && !shape->heuristic && capturing)
        mt_log(MT_LOG_WARN, "%s: captured before it was measured, with the library's first choice", key);
    else if (!st && !shape->heuristic)
        settle(queue, key, kept, &list, known);
    free(list.choices);
    return st;
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
