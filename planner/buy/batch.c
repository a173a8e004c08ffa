/* Judging several configurations at the same time. What is found does not depend on how many threads there are. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "planner/buy/internal.h"

struct batch {
    const struct mt_buy *buy;
    const struct candidate *candidates;
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

enum mt_status mt_buy_judge_batch(struct searching *s, const struct candidate *candidates, int count) {
    struct candidate chosen[BATCH];
    struct batch b = {.buy = s->buy, .candidates = chosen, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t threads[BATCH];
    enum mt_status st = MT_OK;
    int started = 0;
    for (int i = 0; i < count; i++)
        if (candidates[i].money <= s->top) chosen[b.count++] = candidates[i];
    while (started + 1 < s->buy->threads && started + 1 < b.count && !pthread_create(&threads[started], NULL, work, &b))
        started++;
    work(&b);
    for (int t = 0; t < started; t++) pthread_join(threads[t], NULL);
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
