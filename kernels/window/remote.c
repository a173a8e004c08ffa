/* Ranks of other hosts: a queue of operations, started in segments as slots are free.
 *
 * Puts of one rank run together; a signal starts when all before it to its rank are done. What is done at the queue's
 * head is dropped. Every call makes progress, for this rank and within MPI for those that access its memory. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/wait.h"
#include "kernels/comm/rma.h"
#include "kernels/window/internal.h"

struct operation {
    struct mt_rma_op op;       /* size_bytes: of the whole */
    int64_t started, finished; /* bytes; of words 8 when done */
};

struct mt_window_remote {
    struct mt_rma *rma;
    struct operation *queue;
    int head, tail, capacity;
    uint64_t dropped;  /* operations and segments that are done */
    int *ahead;        /* [nranks]: operations of a pass before the current one, not done */
    int nranks, nbusy; /* slots of the queue's: one is left to reads, which must not wait for a long queue */
    struct {
        int operation; /* of the queue; -1: none */
        int64_t bytes;
    } slot[MT_RMA_SLOTS];
};

struct mt_window_remote *mt_window_remote_new(struct mt_rma *rma, int nranks) {
    struct mt_window_remote *r = mt_calloc(1, sizeof *r);
    r->rma = rma;
    r->nranks = nranks;
    r->ahead = mt_calloc((size_t)nranks, sizeof *r->ahead);
    for (int s = 0; s < MT_RMA_SLOTS; s++) r->slot[s].operation = -1;
    return r;
}

static void push(struct mt_window_remote *r, struct mt_rma_op op) {
    if (r->head == r->tail) r->head = r->tail = 0;
    if (r->tail == r->capacity && r->head > r->capacity / 2) {
        r->tail -= r->head;
        memmove(r->queue, r->queue + r->head, (size_t)r->tail * sizeof *r->queue);
        for (int s = 0; s < MT_RMA_SLOTS; s++)
            if (r->slot[s].operation >= 0) r->slot[s].operation -= r->head;
        r->head = 0;
    }
    if (r->tail == r->capacity) {
        r->capacity = 2 * r->capacity + 16;
        r->queue = mt_realloc(r->queue, (size_t)r->capacity * sizeof *r->queue);
    }
    r->queue[r->tail++] = (struct operation){.op = op};
}

void mt_window_remote_put(struct mt_window_remote *r, int64_t place, const void *from, int64_t size_bytes, int rank) {
    push(r, (struct mt_rma_op){MT_RMA_PUT, rank, .at = place, .from = from, .size_bytes = size_bytes});
}

void mt_window_remote_signal(struct mt_window_remote *r, int64_t place, uint64_t value, enum mt_signal how, int rank) {
    push(r, (struct mt_rma_op){how == MT_SIGNAL_ADD ? MT_RMA_ADD : MT_RMA_SET, rank, .at = place, .size_bytes = 8,
                               .value = value});
}

void mt_window_remote_get(struct mt_window_remote *r, void *to, int64_t place, int64_t size_bytes, int rank) {
    if (size_bytes) push(r, (struct mt_rma_op){MT_RMA_GET, rank, .at = place, .to = to, .size_bytes = size_bytes});
}

/* Start as much of an operation as slots allow. */
static enum mt_status start(struct mt_window_remote *r, int o, struct mt_err *err) {
    struct operation *x = &r->queue[o];
    while (x->started < x->op.size_bytes && r->nbusy < MT_RMA_SLOTS - 1) {
        struct mt_rma_op part = x->op;
        int64_t left = x->op.size_bytes - x->started;
        part.size_bytes = left < MT_RMA_SEGMENT_BYTES ? left : MT_RMA_SEGMENT_BYTES;
        part.at += x->started;
        if (part.from) part.from = (const char *)part.from + x->started;
        if (part.to) part.to = (char *)part.to + x->started;
        err->status = MT_OK;
        int s = r->rma->class->start(r->rma, &part, err);
        if (s < 0) return err->status;
        assert(r->slot[s].operation < 0);
        r->nbusy++;
        r->slot[s].operation = o;
        r->slot[s].bytes = part.size_bytes;
        x->started += part.size_bytes;
    }
    return MT_OK;
}

enum mt_status mt_window_remote_progress(struct mt_window_remote *r, uint64_t *done, int *left, struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int s = 0; s < MT_RMA_SLOTS && !st; s++) {
        bool is_done = false;
        uint64_t ignored;
        if (r->slot[s].operation < 0) continue;
        st = r->rma->class->test(r->rma, s, &is_done, &ignored, err);
        if (st || !is_done) continue;
        r->queue[r->slot[s].operation].finished += r->slot[s].bytes;
        r->slot[s].operation = -1;
        r->nbusy--;
        r->dropped++;
    }
    for (int n = 0; n < r->nranks; n++) r->ahead[n] = 0;
    for (int o = r->head; o < r->tail && !st; o++) {
        struct operation *x = &r->queue[o];
        bool word = x->op.kind == MT_RMA_SET || x->op.kind == MT_RMA_ADD;
        bool may = !(word && r->ahead[x->op.rank]);
        if (may) st = start(r, o, err);
        if (may && x->started < x->op.size_bytes) break; /* no slot is free */
        r->ahead[x->op.rank] += x->finished < x->op.size_bytes;
    }
    while (r->head < r->tail && r->queue[r->head].finished == r->queue[r->head].op.size_bytes) r->head++;
    *done = r->dropped;
    *left = r->tail - r->head;
    return st;
}

int mt_window_remote_waits_for(const struct mt_window_remote *r) {
    return r->head < r->tail ? r->queue[r->head].op.rank : -1;
}

enum mt_status mt_window_remote_read(struct mt_window_remote *r, int64_t place, int rank, double deadline_s,
                                     uint64_t *value, struct mt_err *err) {
    struct mt_rma_op op = {MT_RMA_READ, rank, .at = place, .size_bytes = 8};
    struct mt_awake awake = {0};
    bool done = false;
    int left;
    uint64_t count;
    enum mt_status st = mt_window_remote_progress(r, &count, &left, err);
    if (st) return st;
    err->status = MT_OK;
    int s = r->rma->class->start(r->rma, &op, err);
    if (s < 0) return err->status ? err->status : mt_fail(err, MT_EBUG, "no slot is left for a signal to be read");
    while (!done) {
        if ((st = r->rma->class->test(r->rma, s, &done, value, err))) return st;
        if (!done && mt_awake_check(&awake, 1) > deadline_s)
            return mt_fail(err, MT_ESTALL, "a signal of this rank could not be read for %g s", deadline_s);
    }
    return MT_OK;
}

void mt_window_remote_free(struct mt_window_remote *r, bool broken) {
    if (!r) return;
    r->rma->class->release(r->rma, broken);
    free(r->queue);
    free(r->ahead);
    free(r);
}
