/* Each call is one collective: bytes are sent as 32-bit integers, maxima as doubles. */
#include "profiler/measure/exchange.h"

#include <stdlib.h>
#include <string.h>

enum { TAG = 7, WORD_BYTES = 4 };

struct mt_exchange {
    struct mt_comm *comm;
    double deadline_s;
    int *group;
    void (*progress)(const char *what);
};

struct mt_exchange *mt_exchange_new(struct mt_comm *comm, double deadline_s) {
    struct mt_exchange *x = mt_malloc(sizeof *x);
    *x = (struct mt_exchange){comm, deadline_s, mt_malloc((size_t)comm->nranks * sizeof *x->group), NULL};
    for (int r = 0; r < comm->nranks; r++) x->group[r] = r;
    return x;
}

void mt_exchange_free(struct mt_exchange *x) {
    if (!x) return;
    free(x->group);
    free(x);
}

void mt_exchange_on_progress(struct mt_exchange *x, void (*progress)(const char *what)) {
    x->progress = progress;
}

void mt_exchange_progress(const struct mt_exchange *x, const char *what) {
    if (x->progress) x->progress(what);
}

static enum mt_status run(struct mt_exchange *x, const struct mt_coll *problem, void *const buffer[2],
                          struct mt_err *err) {
    struct mt_schedule schedule = MT_SCHEDULE_INIT;
    mt_coll_choose(problem, 1e-5, 1e9)->schedule(problem, &schedule);
    enum mt_status st = mt_comm_run(x->comm, problem, &schedule, x->group, buffer, TAG, x->deadline_s, err);
    mt_schedule_release(&schedule);
    return st;
}

static int64_t words(size_t size_bytes) {
    return (int64_t)((size_bytes + WORD_BYTES - 1) / WORD_BYTES);
}

enum mt_status mt_exchange_gather(struct mt_exchange *x, const void *mine, size_t size_bytes, void *all,
                                  struct mt_err *err) {
    int n = x->comm->nranks, me = x->comm->rank;
    int64_t count = words(size_bytes), *counts = mt_malloc((size_t)n * sizeof *counts);
    size_t room = (size_t)count * WORD_BYTES;
    char *buffer = mt_calloc((size_t)n, room + 1);
    for (int r = 0; r < n; r++) counts[r] = count;
    memcpy(buffer + (size_t)me * room, mine, size_bytes);
    struct mt_coll problem = {MT_ALL_GATHER, MT_REDUCE_NONE, MT_I32, MT_I32, n, me, 0, counts, false, NULL};
    enum mt_status st = run(x, &problem, (void *[2]){buffer, NULL}, err);
    for (int r = 0; r < n && !st; r++)
        memcpy((char *)all + (size_t)r * size_bytes, buffer + (size_t)r * room, size_bytes);
    free(buffer);
    free(counts);
    return st;
}

enum mt_status mt_exchange_collect(struct mt_exchange *x, const void *mine, size_t size_bytes, char **all,
                                   size_t *starts, struct mt_err *err) {
    int n = x->comm->nranks, me = x->comm->rank;
    size_t *sizes = mt_malloc((size_t)n * sizeof *sizes);
    *all = NULL;
    enum mt_status st = mt_exchange_gather(x, &size_bytes, sizeof size_bytes, sizes, err);
    if (st) {
        free(sizes);
        return st;
    }
    int64_t *counts = mt_calloc((size_t)n * (size_t)n, sizeof *counts), total = 0;
    for (int r = 0; r < n; r++) total += counts[(int64_t)r * n] = words(sizes[r]);
    char *send = mt_calloc((size_t)words(size_bytes) + 1, WORD_BYTES);
    char *received = me ? NULL : mt_malloc((size_t)total * WORD_BYTES + 1);
    if (size_bytes) memcpy(send, mine, size_bytes);
    struct mt_coll problem = {MT_ALL_TO_ALL, MT_REDUCE_NONE, MT_I32, MT_I32, n, me, 0, counts, false, NULL};
    st = run(x, &problem, (void *[2]){send, received}, err);
    if (!st && !me) { /* remove the padding to whole words */
        size_t from = 0, to = 0;
        for (int r = 0; r < n; r++) {
            memmove(received + to, received + from, sizes[r]);
            starts[r] = to;
            to += sizes[r], from += (size_t)words(sizes[r]) * WORD_BYTES;
        }
        starts[n] = to;
        *all = received;
    } else {
        free(received);
    }
    free(send);
    free(counts);
    free(sizes);
    return st;
}

enum mt_status mt_exchange_max(struct mt_exchange *x, double *values, int count, struct mt_err *err) {
    int n = x->comm->nranks;
    int64_t *counts = mt_calloc((size_t)n, sizeof *counts);
    counts[0] = count;
    struct mt_coll problem = {MT_ALL_REDUCE, MT_MAX, MT_F64, MT_F64, n, x->comm->rank, 0, counts, false, NULL};
    enum mt_status st = run(x, &problem, (void *[2]){values, NULL}, err);
    free(counts);
    return st;
}

enum mt_status mt_exchange_agree(struct mt_exchange *x, enum mt_status mine, struct mt_err *err) {
    if (mine == MT_ESTALL || mine == MT_EPEER) return mine;
    int n = x->comm->nranks;
    struct mt_err heard = MT_ERR_INIT;
    double worst = (double)mine;
    enum mt_status st = mt_exchange_max(x, &worst, 1, &heard);
    if (!st && worst == 0) return MT_OK;
    struct mt_err own = mine ? *err : (struct mt_err)MT_ERR_INIT, *all = mt_calloc((size_t)n, sizeof *all);
    own.status = mine;
    if (!st) st = mt_exchange_gather(x, &own, sizeof own, all, &heard);
    if (st) *err = heard;
    for (int r = n - 1; r >= 0 && !st; r--)
        if (all[r].status) *err = all[r];
    free(all);
    return st ? st : err->status;
}
