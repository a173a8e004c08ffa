/* A list of what was asked and the answers: there are some hundreds, and each takes milliseconds to find. What two
 * threads look for at the same time is found twice, and kept once. */
#include "planner/work/memo.h"

#include <pthread.h>
#include <stdlib.h>

struct question {
    int nranks;
    struct mt_decisions decisions;
    bool work, body;        /* mt_work_open */
    int64_t samples, micro; /* mt_work_memory */
};

struct entry {
    struct question question;
    struct mt_work found;
    struct mt_plan_memory memory;
    struct entry *next;
};

struct mt_work_memo {
    struct mt_arena arena;
    struct entry *entries;
    pthread_mutex_t lock;
};

struct mt_work_memo *mt_work_memo_new(void) {
    struct mt_work_memo *memo = mt_calloc(1, sizeof *memo);
    pthread_mutex_init(&memo->lock, NULL);
    return memo;
}

void mt_work_memo_free(struct mt_work_memo *memo) {
    if (!memo) return;
    for (struct entry *e = memo->entries; e; e = e->next) mt_work_release(&e->found);
    pthread_mutex_destroy(&memo->lock);
    mt_arena_release(&memo->arena);
    free(memo);
}

/* Algorithms are read by neither. */
static bool same(const struct question *a, const struct question *b) {
    const struct mt_decisions *x = &a->decisions, *y = &b->decisions;
    return a->nranks == b->nranks && a->work == b->work && a->body == b->body && a->samples == b->samples &&
           a->micro == b->micro && x->bucket_bytes == y->bucket_bytes && x->staging_bytes == y->staging_bytes &&
           x->gradient_wire == y->gradient_wire && mt_decisions_same_values(x, y) && mt_decisions_same_rows(x, y);
}

/* The memo is locked. */
static const struct entry *look_up(const struct mt_work_memo *memo, const struct question *question) {
    const struct entry *e = memo->entries;
    while (e && !same(&e->question, question)) e = e->next;
    return e;
}

static const struct entry *find(struct mt_work_memo *memo, const struct question *question) {
    pthread_mutex_lock(&memo->lock);
    const struct entry *e = look_up(memo, question);
    pthread_mutex_unlock(&memo->lock);
    return e;
}

/* Entries stay where they are, and do not change. */
static const struct entry *keep(struct mt_work_memo *memo, struct entry *made) {
    pthread_mutex_lock(&memo->lock);
    const struct entry *known = look_up(memo, &made->question);
    if (known) {
        mt_work_release(&made->found);
    } else {
        struct entry *e = mt_arena_memdup(&memo->arena, made, sizeof *made);
        e->question.decisions = mt_decisions_copy(&made->question.decisions, &memo->arena);
        e->next = memo->entries;
        known = memo->entries = e;
    }
    pthread_mutex_unlock(&memo->lock);
    return known;
}

enum mt_status mt_work_memo_open(struct mt_work_memo *memo, const struct mt_graph *graph, const struct mt_plan *plan,
                                 bool body, const struct mt_lower_options *options, const struct mt_work **work,
                                 struct mt_err *err) {
    struct entry made = {.question = {.nranks = plan->nranks, .decisions = plan->decisions}};
    made.question.work = true, made.question.body = body;
    const struct entry *known = find(memo, &made.question);
    if (!known) {
        enum mt_status st = mt_work_open(graph, plan, body, options, &made.found, err);
        if (st) return st;
        known = keep(memo, &made);
    }
    *work = &known->found;
    return MT_OK;
}

enum mt_status mt_work_memo_memory(struct mt_work_memo *memo, const struct mt_graph *graph, const struct mt_plan *plan,
                                   int64_t samples, int64_t micro, const struct mt_lower_options *options,
                                   struct mt_plan_memory *memory, struct mt_err *err) {
    if (!memo) return mt_work_memory(graph, plan, samples, micro, options, memory, err);
    struct entry made = {.question = {.nranks = plan->nranks, .decisions = plan->decisions}};
    made.question.samples = samples, made.question.micro = micro;
    const struct entry *known = find(memo, &made.question);
    if (!known) {
        enum mt_status st = mt_work_memory(graph, plan, samples, micro, options, &made.memory, err);
        if (st) return st;
        known = keep(memo, &made);
    }
    *memory = known->memory;
    return MT_OK;
}
