/* Windows: memory of every rank that the other ranks read and write without its help, in the terms of OpenSHMEM.
 *
 *   window   size_bytes on each rank, at the same offsets; zero at first
 *   signal   an aligned 64-bit word of a window, by its offset; set or added to by other ranks, waited for by its owner
 *
 *     mt_window_new(comm, node, size_bytes, 10, &window, &err);                     // collective
 *     mt_window_put_signal(window, x_at, x, bytes, ready_at, 1, MT_SIGNAL_ADD, peer, &err);
 *     mt_window_wait(window, ready_at, MT_CMP_GE, epoch, "the rows of rank 2", &err); // on the peer: x is there
 *     mt_window_quiet(window, &err);
 *     mt_window_free(window);                                                       // collective
 *
 * One rule: what a rank puts to a peer before it signals that peer, the peer sees after the wait that the signal
 * satisfies. Puts to others, and puts without a later signal, are complete after quiet, and seen after the signal or
 * barrier that follows quiet.
 *
 * Signals that count only grow: in epoch e (from 1) a rank waits for e times what it gets in an epoch, so that nothing
 * is ever reset. To set and to add to one signal at one time is an error, as in OpenSHMEM.
 *
 * Ranks of one host share memory: a put is a copy, a signal an atomic store or addition with release order, a wait
 * loads with acquire order. Between hosts puts are MPI's (kernels/comm/rma.h), and where a window spans hosts all
 * signals are, so that they are atomic to each other. Then ranks make progress within calls of this header only.
 *
 * Nothing hangs: every wait polls an abort word and a clock. A rank that waits for deadline_s without a change says for
 * what, aborts the window, and gets MT_ESTALL; the others then get MT_EPEER with its reason, or one of their own. A
 * rank of this host whose process has ended is found within a second. After an error a window can only be freed.
 *
 * One thread at a time may use a rank's window.
 *
 * The same operations, with the same names, have three callers:
 *
 *   host     here; put and signal return when they have begun, get and wait when they are done
 *   stream   kernels/device/window.h, mt_window_put_on_stream and so on: in the order of a stream's work
 *   kernel   kernels/cuda/window/window.cuh, put<BLOCK> and so on: by a thread, a warp or a block
 *
 *             put  put_rows  put_signal  get  signal  wait  test  fence  quiet  barrier
 *   host       x      x          x        x      x      x     x     x      x       x
 *   stream     x      x          x        x      x      x                  x
 *   kernel     x                 x        x      x      x     x     x      x       x
 *
 * All have both kinds of signal and the six comparisons, and keep the one rule. */
#ifndef MT_KERNELS_WINDOW_WINDOW_H
#define MT_KERNELS_WINDOW_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/err.h"

struct mt_comm;
struct mt_window;

enum mt_signal { MT_SIGNAL_SET, MT_SIGNAL_ADD };
enum mt_cmp { MT_CMP_EQ, MT_CMP_NE, MT_CMP_GT, MT_CMP_GE, MT_CMP_LT, MT_CMP_LE };
const char *mt_cmp_sign(enum mt_cmp cmp); /* "==", "!=", ">", ">=", "<", "<=" */

/* Make a window on the ranks of a communicator; collective. node[nranks]: each rank's host, numbered in any way; null:
 * all ranks are on one host. All ranks fail together: MT_ESYSTEM when a host has no room for the memory. The
 * communicator must outlive the window. */
enum mt_status mt_window_new(struct mt_comm *comm, const int *node, int64_t size_bytes, double deadline_s,
                             struct mt_window **window, struct mt_err *err);
/* Which ranks share memory, as `node` wants it: those whose host has the same name, has booted once, and has the same
 * /dev/shm; collective. node[nranks]: out. */
enum mt_status mt_window_hosts(struct mt_comm *comm, double deadline_s, int *node, struct mt_err *err);
/* Windows for `nranks` threads of this process; each is freed on its own. */
void mt_window_local_new(int nranks, int64_t size_bytes, double deadline_s, struct mt_window **windows);
/* Collective, but after an error. Puts in flight are completed. */
void mt_window_free(struct mt_window *window);

int mt_window_rank(const struct mt_window *window);
int mt_window_nranks(const struct mt_window *window);
int mt_window_name(const struct mt_window *window, int rank); /* by which messages name a rank (kernels/comm/comm.h) */
int64_t mt_window_size_bytes(const struct mt_window *window);

/* The place `at` of `rank`'s part, for loads and stores of one's own; null if that rank is on another host. */
void *mt_window_ptr(const struct mt_window *window, int64_t at, int rank);

/* Copy to `rank`'s part, at `to`. The source must stay as it is until quiet, or until a later wait tells that the peer
 * has used the data. */
enum mt_status mt_window_put(struct mt_window *window, int64_t to, const void *from, int64_t size_bytes, int rank,
                             struct mt_err *err);
/* A box: `rows` rows of row_bytes each, which are to_stride and from_stride bytes apart. */
enum mt_status mt_window_put_rows(struct mt_window *window, int64_t to, int64_t to_stride, const void *from,
                                  int64_t from_stride, int64_t row_bytes, int64_t rows, int rank, struct mt_err *err);
/* Set, or add to, a signal of `rank`, after all puts and signals of this rank to that one. */
enum mt_status mt_window_signal(struct mt_window *window, int64_t signal, uint64_t value, enum mt_signal how, int rank,
                                struct mt_err *err);
enum mt_status mt_window_put_signal(struct mt_window *window, int64_t to, const void *from, int64_t size_bytes,
                                    int64_t signal, uint64_t value, enum mt_signal how, int rank, struct mt_err *err);
/* Copy from `rank`'s part; returns when `to` is filled. */
enum mt_status mt_window_get(struct mt_window *window, void *to, int64_t from, int64_t size_bytes, int rank,
                             struct mt_err *err);

/* Wait until this rank's signal compares with `value`. `what`: what is waited for, for messages. */
enum mt_status mt_window_wait(struct mt_window *window, int64_t signal, enum mt_cmp cmp, uint64_t value,
                              const char *what, struct mt_err *err);
/* Whether it does now; makes progress. If so, what preceded it is seen, as after a wait. */
enum mt_status mt_window_test(struct mt_window *window, int64_t signal, enum mt_cmp cmp, uint64_t value, bool *yes,
                              struct mt_err *err);

/* Puts and signals from now on, to any rank, are seen after those before: who sees one of them, by a wait or a load
 * with acquire order, sees all before the fence. Signals imply it for puts to their own rank; puts that are read
 * without a signal need it, and those that are followed by a signal to another rank. */
enum mt_status mt_window_fence(struct mt_window *window, struct mt_err *err);
/* Wait until all puts and signals of this rank are done at their ranks: who hears of it in any way sees them. */
enum mt_status mt_window_quiet(struct mt_window *window, struct mt_err *err);
/* Quiet, then wait for all ranks to arrive: what any rank put before is seen by all after. */
enum mt_status mt_window_barrier(struct mt_window *window, struct mt_err *err);

/* End all waits of all ranks with MT_EPEER and this reason. */
void mt_window_abort(struct mt_window *window, const char *reason);
/* For a rank that waits elsewhere, for `what`: MT_EPEER if someone gave up, or a process of this host has ended. */
enum mt_status mt_window_check(struct mt_window *window, const char *what, struct mt_err *err);

/* ---- memory elsewhere: of GPUs (kernels/device/window.h) ----
 *
 * Puts, signals and waits there are the devices' own; the window's own memory serves ranks' hosts meanwhile. */
struct mt_window_memory {
    char **part; /* [nranks]: each rank's, as this process addresses it; null: out of reach */
    int64_t size_bytes;
    bool lacks_atomics; /* some rank's kernels cannot add atomically in another's part; all ranks say the same */
    void (*release)(struct mt_window *window, struct mt_window_memory *memory); /* with the window */
    void *context;
};
void mt_window_attach(struct mt_window *window, struct mt_window_memory *memory);
const struct mt_window_memory *mt_window_attached(const struct mt_window *window); /* or null */
bool mt_window_failed(const struct mt_window *window); /* after an error: others may still access its memory */
double mt_window_deadline_s(const struct mt_window *window);

#endif
