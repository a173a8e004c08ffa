#include "kernels/cuda/tune/choose.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/log.h"
#include "kernels/base/number/hash.h"

enum { NBUCKETS = 1024 };

struct known {
    const struct cuda_choices *class;
    uint64_t hash; /* of the id */
    bool untuned;  /* asked for where only defaults are wanted */
    bool final;    /* false: the default, as it could not be measured */
    struct known *next;
    char bytes[]; /* the id, then the choice */
};

static struct {
    pthread_mutex_t lock; /* recursive: measuring runs operators, which choose */
    struct known *buckets[NBUCKETS];
    unsigned epoch;
} table = {.lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP};

static _Thread_local bool defaults_only;
/* The classes that this thread measures, the innermost first. */
struct measuring {
    const struct cuda_choices *class;
    const struct measuring *outer;
};
static _Thread_local const struct measuring *measuring;

static bool is_measured(const struct cuda_choices *class) {
    const struct measuring *m = measuring;
    while (m && m->class != class) m = m->outer;
    return m != NULL;
}

bool cuda_defaults_only(bool only) {
    bool was = defaults_only;
    defaults_only = only;
    return was;
}

enum mt_status cuda_untuned(bool *untuned, struct mt_err *err) {
    const char *text = getenv("MOTLEY_TUNE");
    *untuned = defaults_only || (text && !strcmp(text, "off"));
    if (!text || !*text || !strcmp(text, "off") || !strcmp(text, "on")) return MT_OK;
    return mt_fail(err, MT_EINPUT, "MOTLEY_TUNE is \"%.40s\", but must be on or off", text);
}

/* ---- what is remembered; the table is locked ---- */

static void forget_old(void) {
    unsigned epoch = tune_epoch();
    for (int b = 0; b < NBUCKETS && epoch != table.epoch; b++)
        for (struct known *k; (k = table.buckets[b]);) table.buckets[b] = k->next, free(k);
    table.epoch = epoch;
}

static struct known *find(const struct cuda_choices *class, uint64_t hash, const void *id, bool untuned) {
    forget_old();
    struct known *k = table.buckets[hash % NBUCKETS];
    while (k &&
           (k->class != class || k->hash != hash || k->untuned != untuned || memcmp(k->bytes, id, class->id_bytes)))
        k = k->next;
    return k;
}

/* Deciding may have chosen others, and changed the epoch. */
static void remember(const struct cuda_choices *class, uint64_t hash, const void *id, bool untuned, const void *choice,
                     bool final) {
    struct known *k = find(class, hash, id, untuned);
    if (!k) {
        k = mt_malloc(sizeof *k + class->id_bytes + class->choice_bytes);
        *k = (struct known){class, hash, untuned, final, table.buckets[hash % NBUCKETS]};
        table.buckets[hash % NBUCKETS] = k;
        memcpy(k->bytes, id, class->id_bytes);
    }
    k->final = final;
    memcpy(k->bytes + class->id_bytes, choice, class->choice_bytes);
}

/* ---- deciding ---- */

/* The winner, or what another process has kept for the key; `wrong`: see tune_keep. */
static void measure(const struct cuda_choices *class, void *job, const char *key, const char *wrong, void *choice) {
    char text[CUDA_CHOICE_TEXT];
    struct tune_facts facts = {0};
    struct mt_err err = MT_ERR_INIT;
    const struct measuring inner = {class, measuring};
    measuring = &inner;
    enum mt_status st = class->measure(job, key, choice, &facts, &err);
    measuring = inner.outer;
    class->text(job, key, choice, text);
    if (st) {
        mt_log(MT_LOG_WARN, "%s: not measured, \"%.30s\" is taken: %s", key, text, err.text);
        return;
    }
    mt_log(MT_LOG_DEBUG, "%s: %.1f us by \"%.30s\"", key, 1e6 * facts.time_s, text);
    const char *kept = tune_keep(key, text, &facts, wrong);
    if (strcmp(kept, text)) class->parse(job, key, kept, choice);
}

/* *final: whether the choice stays. */
static enum mt_status decide(const struct cuda_choices *class, void *job, bool untuned, bool may_measure, void *choice,
                             bool *final, struct mt_err *err) {
    char key[CUDA_KEY_TEXT];
    bool open = !untuned && class->key(job, key);
    const char *kept = open ? tune_find(key, NULL) : NULL;
    *final = true;
    if (kept && class->parse(job, key, kept, choice)) return MT_OK;
    if (kept) mt_log(MT_LOG_WARN, "%s: ignoring the tuning file's \"%.60s\", which is no candidate here", key, kept);
    enum mt_status st = class->first(job, choice, err);
    if (st || !open) return st;
    *final = may_measure;
    if (may_measure)
        measure(class, job, key, kept, choice);
    else if (!is_measured(class))
        mt_log(MT_LOG_WARN, "%s: captured before it was measured, with the default", key);
    return MT_OK;
}

enum mt_status cuda_choose(const struct cuda_choices *class, const struct cuda_queue *queue, const void *id, void *job,
                           void *choice, struct mt_err *err) {
    CUstreamCaptureStatus capture;
    bool untuned, final;
    enum mt_status st = cuda_untuned(&untuned, err);
    if (st) return st;
    CUDA_TRY(cuStreamIsCapturing(queue->stream, &capture), err, "cuStreamIsCapturing");
    bool may_measure = capture == CU_STREAM_CAPTURE_STATUS_NONE && !is_measured(class);
    uint64_t hash = mt_hash64(id, class->id_bytes, 0);
    pthread_mutex_lock(&table.lock);
    const struct known *k = find(class, hash, id, untuned);
    if (k && (k->final || !may_measure))
        memcpy(choice, k->bytes + class->id_bytes, class->choice_bytes);
    else if (!(st = decide(class, job, untuned, may_measure, choice, &final, err)))
        remember(class, hash, id, untuned, choice, final);
    pthread_mutex_unlock(&table.lock);
    return st;
}
