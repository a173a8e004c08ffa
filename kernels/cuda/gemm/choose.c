/* Implementations of a GEMM with cuBLASLt's algorithms, as a class of choices (choose.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/log.h"
#include "kernels/base/number/hash.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/tune/choose.h"
#include "kernels/cuda/tune/signature.h"

enum {
    SEARCH = 4
}; /* counted up when candidates.c, tiles.c or measure.c change: entries of before are not found then */
enum { WORDS = sizeof(cublasLtMatmulAlgo_t) / sizeof(uint64_t) };

struct job {
    const struct cuda_queue *queue;
    struct gemm_shape shape; /* the id */
    struct gemm_list list;   /* of candidates */
};

/* In keys. */
static const char *const among[GEMM_NAMONG] = {"", "", " of the library's", " of our own"};

static bool job_key(void *job, char key[CUDA_KEY_TEXT]) {
    const struct job *j = job;
    char device[200], gemm[200];
    cuda_device_key(j->queue->cuda, device, sizeof device);
    gemm_describe(&j->shape, gemm, sizeof gemm);
    const uint16_t *form = j->shape.form;
    char tiles[40] = "";
    if (form[0]) snprintf(tiles, sizeof tiles, " %dx%d/%d/%d", form[0], form[1], form[2], form[3]);
    snprintf(key, CUDA_KEY_TEXT, "%s, cuBLASLt %zu, search %d%s%s | %s, align %d", device, cublasLtGetVersion(), SEARCH,
             among[j->shape.among], tiles, gemm, j->shape.align);
    return true;
}

/* All that cuBLASLt offers, the best guess first, then our own. */
static enum mt_status job_first(void *job, void *choice, struct mt_err *err) {
    static const enum gemm_impl usual[GEMM_LIBRARY_IMPLS] = {GEMM_STRIPS, GEMM_WHOLE, GEMM_BIAS, GEMM_PLAIN};
    static const enum gemm_impl sums[GEMM_LIBRARY_IMPLS] = {GEMM_PLAIN, GEMM_WHOLE, GEMM_BIAS, GEMM_STRIPS};
    struct job *j = job;
    bool biased = j->shape.epilogue >= EPILOGUE_BIAS && j->shape.epilogue <= EPILOGUE_RELU;
    const enum gemm_impl *impls = j->shape.epilogue == EPILOGUE_SUM ? sums : usual;
    bool first = j->shape.among == GEMM_AMONG_FIRST, own = j->shape.among == GEMM_AMONG_OWN;
    if (own) gemm_tiles_offered(j->queue->cuda, &j->shape, &j->list);
    own = j->list.count > 0;
    for (int i = 0; i < GEMM_LIBRARY_IMPLS && !own; i++) {
        if (impls[i] == GEMM_PLAIN && biased && j->list.count) continue; /* never better, only always possible */
        enum mt_status st = gemm_offered(&j->shape, impls[i], &j->list, err);
        if (st) return st;
    }
    if (!first && j->shape.among != GEMM_AMONG_LIBRARY) gemm_tiles_offered(j->queue->cuda, &j->shape, &j->list);
    char text[200];
    gemm_describe(&j->shape, text, sizeof text);
    if (!j->list.count) return mt_fail(err, MT_ESYSTEM, "cuBLASLt: %s: it has no algorithm", text);
    *(struct gemm_choice *)choice = j->list.choices[0];
    return MT_OK;
}

/* "whole", the algorithm's words, and a hash of that and the key: the library misses some invalid algorithms. */
static void job_text(void *job, const char *key, const void *choice, char text[CUDA_CHOICE_TEXT]) {
    const struct gemm_choice *c = choice;
    uint64_t hash = mt_hash64(c->algo.data, sizeof c->algo.data, mt_hash64(key, strlen(key), (uint64_t)c->impl));
    int n = snprintf(text, CUDA_CHOICE_TEXT, "%s", gemm_impl_names[c->impl]);
    (void)job;
    for (int i = 0; i < WORDS; i++)
        n += snprintf(text + n, CUDA_CHOICE_TEXT - (size_t)n, " %016llx", (unsigned long long)c->algo.data[i]);
    snprintf(text + n, CUDA_CHOICE_TEXT - (size_t)n, " %016llx", (unsigned long long)hash);
}

/* Only what job_text would write is taken, with its hash. */
static bool job_parse(void *job, const char *key, const char *text, void *choice) {
    const struct job *j = job;
    struct gemm_choice c = {0};
    char again[CUDA_CHOICE_TEXT];
    size_t name = strcspn(text, " ");
    int impl = 0;
    while (impl < GEMM_NIMPLS && (strlen(gemm_impl_names[impl]) != name || strncmp(text, gemm_impl_names[impl], name)))
        impl++;
    if (impl == GEMM_NIMPLS) return false;
    c.impl = (enum gemm_impl)impl;
    const char *at = text + name;
    for (int i = 0; i < WORDS; i++) {
        char *end;
        c.algo.data[i] = strtoull(at, &end, 16);
        if (end == at) return false;
        at = end;
    }
    job_text(job, key, &c, again);
    bool usable = c.impl == GEMM_TILES ? gemm_tiles_usable(j->queue->cuda, &j->shape, &c) : gemm_usable(&j->shape, &c);
    if (strcmp(again, text) || !usable) return false;
    *(struct gemm_choice *)choice = c;
    return true;
}

static enum mt_status job_measure(void *job, const char *key, void *choice, struct tune_facts *facts,
                                  struct mt_err *err) {
    const struct job *j = job;
    double flops = 2.0 * (double)j->shape.m * (double)j->shape.n * (double)j->shape.k;
    enum mt_status st = gemm_measure(j->queue, &j->shape, &j->list, choice, &facts->time_s, err);
    if (!st) mt_log(MT_LOG_DEBUG, "%s: %.1f TFLOP/s", key, flops / facts->time_s / 1e12);
    return st;
}

static const struct cuda_choices class = {
    sizeof(struct gemm_shape), sizeof(struct gemm_choice), job_key, job_first, job_text, job_parse, job_measure};

/* Who may run GEMMs, as the environment says. */
static enum mt_status find_among(struct gemm_shape *shape, struct mt_err *err) {
    static const char own[] = "own:";
    bool untuned;
    enum mt_status st = cuda_untuned(&untuned, err);
    const char *only = getenv("MOTLEY_GEMM");
    if (st) return st;
    if (untuned) return shape->among = GEMM_AMONG_FIRST, MT_OK;
    if (!only || !*only) return shape->among = GEMM_AMONG_ALL, MT_OK;
    shape->among = GEMM_AMONG_LIBRARY;
    if (!strcmp(only, "library")) return MT_OK;
    shape->among = GEMM_AMONG_OWN;
    if (!strcmp(only, "own")) return MT_OK;
    if (!strncmp(only, own, sizeof own - 1) && gemm_tiles_form(only + sizeof own - 1, shape->form)) return MT_OK;
    mt_fail(err, MT_EINPUT, "MOTLEY_GEMM: \"%.40s\" is no implementation of GEMMs", only);
    return mt_err_hint(err, "library, own, or own:128x256/1/2: rows and columns of a tile, 0 to 3 for what neighbours "
                            "share, and parts of k");
}

enum mt_status gemm_choose(const struct cuda_queue *queue, const struct gemm_shape *shape, struct gemm_choice *choice,
                           struct mt_err *err) {
    struct job job = {.queue = queue, .shape = *shape};
    enum mt_status st = find_among(&job.shape, err);
    if (!st) st = cuda_choose(&class, queue, &job.shape, &job, choice, err);
    free(job.list.choices);
    return st;
}
