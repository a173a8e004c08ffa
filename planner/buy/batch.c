/* Judging several configurations at the same time. What is found does not depend on how many threads there are. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "planner/buy/internal.h"

struct batch {
    const struct mt_buy *buy;
    const struct candidate *candidates; /* null: `found` are planned again */
    int count, next;
    pthread_mutex_t lock;
    struct mt_buy_config *found[BATCH];
    enum mt_status status[BATCH];
    struct mt_err errors[BATCH];
};

static void *work(void *context) {
    struct batch *b = context;
    for (;;) {
        pthread_mutex_lock(&b->lock);
        int i = b->next++;
        pthread_mutex_unlock(&b->lock);
        if (i >= b->count) return NULL;
        if (!b->candidates) {
            b->status[i] = mt_buy_plan_again(b->buy, b->found[i], &b->errors[i]);
            continue;
        }
        b->found[i] = mt_calloc(1, sizeof *b->found[i]);
        b->status[i] = mt_buy_judge(b->buy, b->candidates[i].counts, b->found[i], &b->errors[i]);
    }
}

static void keep(struct searching *s, struct mt_buy_config *config, const struct candidate *candidate) {
    mt_arena_grow(&s->arena, &s->judged, s->njudged, &s->capacity, sizeof *s->judged);
    mt_arena_grow(&s->arena, &s->judged_as, s->njudged, &s->as_capacity, sizeof *s->judged_as);
    s->judged[s->njudged] = config;
    s->judged_as[s->njudged] = *candidate;
    s->njudged++;
    for (int j = 0; j < s->buy->njobs; j++) s->plans += config->plans[j] != NULL;
    if (s->buy->judged) s->buy->judged(s->buy->context, s->njudged, candidate->money);
}

/* On as many threads as there may be. */
static void run(struct batch *b) {
    pthread_t threads[BATCH];
    int started = 0;
    while (started + 1 < b->buy->threads && started + 1 < b->count && !pthread_create(&threads[started], NULL, work, b))
        started++;
    work(b);
    for (int t = 0; t < started; t++) pthread_join(threads[t], NULL);
}

enum mt_status mt_buy_plan_batch(struct searching *s, const int *judged, int count) {
    enum mt_status st = MT_OK;
    for (int first = 0; first < count && !st; first += BATCH) {
        struct batch b = {.buy = s->buy, .lock = PTHREAD_MUTEX_INITIALIZER};
        for (int i = first; i < count && b.count < BATCH; i++) b.found[b.count++] = s->judged[judged[i]];
        run(&b);
        for (int i = 0; i < b.count && !st; i++)
            if (b.status[i]) st = b.status[i], *s->err = b.errors[i];
        s->plans += (int64_t)b.count * s->buy->njobs;
        if (s->buy->judged) s->buy->judged(s->buy->context, s->njudged, s->judged_as[judged[first]].money);
    }
    return st;
}

enum mt_status mt_buy_judge_batch(struct searching *s, const struct candidate *candidates, int count) {
    struct candidate chosen[BATCH];
    struct batch b = {.buy = s->buy, .candidates = chosen, .lock = PTHREAD_MUTEX_INITIALIZER};
    enum mt_status st = MT_OK;
    for (int i = 0; i < count; i++)
        if (candidates[i].money <= s->top) chosen[b.count++] = candidates[i];
    run(&b);
    for (int i = 0; i < b.count; i++) {
        if (!b.status[i] && !st) {
            keep(s, b.found[i], &chosen[i]);
            continue;
        }
        if (!st) st = b.status[i], *s->err = b.errors[i];
        if (!b.status[i]) mt_buy_config_release(b.found[i], s->buy->njobs);
        free(b.found[i]);
    }
    return st;
}
