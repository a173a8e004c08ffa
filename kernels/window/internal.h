/* Inside windows: a rank's part in memory, and access to other hosts.
 *
 *   window.c   put, signal, get, and order
 *   wait.c     wait, test, barrier, abort; deadlines
 *   open.c     making windows: shared memory of a host
 *   remote.c   ranks of other hosts: a queue of operations by rma.h */
#ifndef MT_KERNELS_WINDOW_INTERNAL_H
#define MT_KERNELS_WINDOW_INTERNAL_H

#include <stdatomic.h>

#include "kernels/window/window.h"

enum { MT_WINDOW_BARRIER_ROUNDS = 32, MT_WINDOW_REASON = 512, MT_WINDOW_HEADER_BYTES = 4096 };

/* Before each rank's memory. Offsets inside are in bytes from the header on ("places"): a signal is at
 * MT_WINDOW_HEADER_BYTES + its offset. */
struct mt_window_header {
    _Atomic uint64_t aborted;                           /* 1 + the rank that did it; 0: none */
    _Atomic uint64_t barrier[MT_WINDOW_BARRIER_ROUNDS]; /* arrivals, by round */
    _Atomic int64_t process;                            /* 0: not known, or gone as it should */
    char reason[MT_WINDOW_REASON]; /* written before `aborted` of others is set to 1 + this part's rank */
};
_Static_assert(sizeof(struct mt_window_header) <= MT_WINDOW_HEADER_BYTES, "a header");
_Static_assert(sizeof(_Atomic uint64_t) == 8 && ATOMIC_LLONG_LOCK_FREE == 2, "words that processes share");

struct mt_window_remote;
struct mt_window {
    int rank, nranks;
    const struct mt_comm *comm; /* has names of ranks for messages; null: of threads, by their numbers */
    int64_t size_bytes;
    double deadline_s;
    uint64_t barriers;
    bool failed;
    char **part;                     /* [nranks]: of this host; else null */
    struct mt_window_remote *remote; /* null: all ranks are on this host */
    struct mt_window_memory *memory; /* elsewhere, or null */
    /* what mt_window_free gives back */
    char *mapping;
    int64_t mapping_bytes;
    atomic_int *users; /* of a local window's memory; else null */
};

static inline struct mt_window_header *mt_window_header(const struct mt_window *w, int rank) {
    return (struct mt_window_header *)(void *)w->part[rank];
}
static inline int64_t mt_window_part_bytes(int64_t size_bytes) {
    return MT_WINDOW_HEADER_BYTES + (size_bytes + 4095) / 4096 * 4096;
}

enum mt_status mt_window_signal_at(struct mt_window *window, int64_t place, uint64_t value, enum mt_signal how,
                                   int rank, struct mt_err *err);
enum mt_status mt_window_load(struct mt_window *window, int64_t place, uint64_t *value, struct mt_err *err);

/* Wait for `done`, which is asked again and again; *change is what it counts, a change of which puts the deadline off.
 * `what` describes the wait when it fails. */
struct mt_window_wait {
    enum mt_status (*done)(struct mt_window *window, void *of, bool *yes, uint64_t *change, struct mt_err *err);
    void (*what)(const void *of, uint64_t change, char *text, int size);
    void *of;
};
enum mt_status mt_window_await(struct mt_window *window, const struct mt_window_wait *wait, struct mt_err *err);

/* ---- other hosts ---- */

struct mt_rma;
struct mt_window_remote *mt_window_remote_new(struct mt_rma *rma, int nranks);
/* Queue; done by mt_window_remote_progress. Signals of a rank follow its puts and signals before. */
void mt_window_remote_put(struct mt_window_remote *remote, int64_t place, const void *from, int64_t size_bytes,
                          int rank);
void mt_window_remote_signal(struct mt_window_remote *remote, int64_t place, uint64_t value, enum mt_signal how,
                             int rank);
void mt_window_remote_get(struct mt_window_remote *remote, void *to, int64_t place, int64_t size_bytes, int rank);
/* *done: operations so far; *left: those in the queue. */
enum mt_status mt_window_remote_progress(struct mt_window_remote *remote, uint64_t *done, int *left,
                                         struct mt_err *err);
int mt_window_remote_waits_for(const struct mt_window_remote *remote); /* the first operation's rank, or -1 */
enum mt_status mt_window_remote_read(struct mt_window_remote *remote, int64_t place, int rank, double deadline_s,
                                     uint64_t *value, struct mt_err *err);
void mt_window_remote_free(struct mt_window_remote *remote, bool broken);

#endif
