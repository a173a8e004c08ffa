/* Put, signal, get and order: by loads and stores within a host, else queued for MPI (remote.c).
 *
 * Within a host a signal is stored with release order, and the addition is a read-modify-write, so that a wait for a
 * sum sees what all who added to it had put: each addition continues the release sequences of those before. */
#include "kernels/window/window.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "kernels/comm/comm.h"
#include "kernels/window/internal.h"

int mt_window_rank(const struct mt_window *w) {
    return w->rank;
}

int mt_window_nranks(const struct mt_window *w) {
    return w->nranks;
}

int mt_window_name(const struct mt_window *w, int rank) {
    return w->comm && rank >= 0 ? mt_comm_rank_name(w->comm, rank) : rank;
}

int64_t mt_window_size_bytes(const struct mt_window *w) {
    return w->size_bytes;
}

void mt_window_attach(struct mt_window *w, struct mt_window_memory *memory) {
    w->memory = memory;
}

const struct mt_window_memory *mt_window_attached(const struct mt_window *w) {
    return w->memory;
}

bool mt_window_failed(const struct mt_window *w) {
    return w->failed;
}

double mt_window_deadline_s(const struct mt_window *w) {
    return w->deadline_s;
}

static inline bool inside(const struct mt_window *w, int64_t at, int64_t size_bytes) {
    return at >= 0 && size_bytes >= 0 && at <= w->size_bytes - size_bytes;
}

void *mt_window_ptr(const struct mt_window *w, int64_t at, int rank) {
    assert(inside(w, at, 0) && rank >= 0 && rank < w->nranks);
    return w->part[rank] ? w->part[rank] + MT_WINDOW_HEADER_BYTES + at : NULL;
}

/* What keeps the queue from growing without end, and a failed window from being used. */
static enum mt_status progress(struct mt_window *w, struct mt_err *err) {
    uint64_t done;
    int left;
    if (w->failed) return mt_fail(err, MT_EPEER, "rank %d uses a window after an error", mt_window_name(w, w->rank));
    return w->remote ? mt_window_remote_progress(w->remote, &done, &left, err) : MT_OK;
}

enum mt_status mt_window_put(struct mt_window *w, int64_t to, const void *from, int64_t size_bytes, int rank,
                             struct mt_err *err) {
    return mt_window_put_rows(w, to, size_bytes, from, size_bytes, size_bytes, 1, rank, err);
}

enum mt_status mt_window_put_rows(struct mt_window *w, int64_t to, int64_t to_stride, const void *from,
                                  int64_t from_stride, int64_t row_bytes, int64_t rows, int rank, struct mt_err *err) {
    if (rows <= 0 || row_bytes <= 0) return progress(w, err);
    assert(inside(w, to, (rows - 1) * to_stride + row_bytes));
    if (to_stride == row_bytes && from_stride == row_bytes) row_bytes *= rows, rows = 1;
    char *place = mt_window_ptr(w, to, rank);
    for (int64_t r = 0; r < rows; r++) {
        const char *source = (const char *)from + r * from_stride;
        if (place)
            memcpy(place + r * to_stride, source, (size_t)row_bytes);
        else
            mt_window_remote_put(w->remote, MT_WINDOW_HEADER_BYTES + to + r * to_stride, source, row_bytes, rank);
    }
    return progress(w, err);
}

enum mt_status mt_window_signal_at(struct mt_window *w, int64_t place, uint64_t value, enum mt_signal how, int rank,
                                   struct mt_err *err) {
    if (w->failed) return progress(w, err); /* peers do not take what was put in vain */
    if (w->remote) {
        mt_window_remote_signal(w->remote, place, value, how, rank);
        return progress(w, err);
    }
    _Atomic uint64_t *word = (_Atomic uint64_t *)(void *)(w->part[rank] + place);
    if (how == MT_SIGNAL_ADD)
        atomic_fetch_add_explicit(word, value, memory_order_release);
    else
        atomic_store_explicit(word, value, memory_order_release);
    return progress(w, err);
}

enum mt_status mt_window_signal(struct mt_window *w, int64_t signal, uint64_t value, enum mt_signal how, int rank,
                                struct mt_err *err) {
    assert(inside(w, signal, 8) && signal % 8 == 0 && rank >= 0 && rank < w->nranks);
    return mt_window_signal_at(w, MT_WINDOW_HEADER_BYTES + signal, value, how, rank, err);
}

enum mt_status mt_window_put_signal(struct mt_window *w, int64_t to, const void *from, int64_t size_bytes,
                                    int64_t signal, uint64_t value, enum mt_signal how, int rank, struct mt_err *err) {
    enum mt_status st = mt_window_put(w, to, from, size_bytes, rank, err);
    return st ? st : mt_window_signal(w, signal, value, how, rank, err);
}

enum mt_status mt_window_load(struct mt_window *w, int64_t place, uint64_t *value, struct mt_err *err) {
    if (w->remote) return mt_window_remote_read(w->remote, place, w->rank, w->deadline_s, value, err);
    *value = atomic_load_explicit((_Atomic uint64_t *)(void *)(w->part[w->rank] + place), memory_order_acquire);
    return MT_OK;
}

/* All that is queued is done. */
static enum mt_status all_done(struct mt_window *w, void *of, bool *yes, uint64_t *change, struct mt_err *err) {
    int left;
    (void)of;
    enum mt_status st = mt_window_remote_progress(w->remote, change, &left, err);
    *yes = !left;
    return st;
}

static void what_is_left(const void *of, uint64_t change, char *text, int size) {
    (void)change;
    const struct mt_window *w = of;
    snprintf(text, (size_t)size, "its puts to rank %d to be done",
             mt_window_name(w, mt_window_remote_waits_for(w->remote)));
}

/* All is done, as far as other hosts are concerned: MPI orders puts in no other way. */
static enum mt_status drain(struct mt_window *w, struct mt_err *err) {
    if (!w->remote) return progress(w, err);
    return mt_window_await(w, &(struct mt_window_wait){all_done, what_is_left, w}, err);
}

/* Puts within a host are plain stores, which a weakly ordered CPU keeps in order only by a fence: a release fence for
 * stores to come; after a full one they are done, before loads too. */
enum mt_status mt_window_fence(struct mt_window *w, struct mt_err *err) {
    enum mt_status st = drain(w, err);
    atomic_thread_fence(memory_order_release);
    return st;
}

enum mt_status mt_window_quiet(struct mt_window *w, struct mt_err *err) {
    enum mt_status st = drain(w, err);
    atomic_thread_fence(memory_order_seq_cst);
    return st;
}

enum mt_status mt_window_get(struct mt_window *w, void *to, int64_t from, int64_t size_bytes, int rank,
                             struct mt_err *err) {
    assert(inside(w, from, size_bytes));
    const char *place = mt_window_ptr(w, from, rank);
    if (!place) {
        mt_window_remote_get(w->remote, to, MT_WINDOW_HEADER_BYTES + from, size_bytes, rank);
        return drain(w, err);
    }
    if (size_bytes) memcpy(to, place, (size_t)size_bytes);
    return progress(w, err);
}
