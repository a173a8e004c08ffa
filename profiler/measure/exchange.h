/* Small exchanges between ranks while they measure, over any communicator.
 *
 *     struct mt_exchange *exchange = mt_exchange_new(comm, 60);
 *     if ((st = mt_exchange_gather(exchange, &mine, sizeof mine, all, err))) ...
 *     if ((st = mt_exchange_agree(exchange, st, err))) ...    // all ranks go on, or none
 *     mt_exchange_free(exchange);
 *
 * All calls are collective, unless they say otherwise. MT_ESTALL or MT_EPEER when a rank does not answer; then the
 * communicator cannot be used any more. */
#ifndef MT_PROFILER_MEASURE_EXCHANGE_H
#define MT_PROFILER_MEASURE_EXCHANGE_H

#include <stddef.h>

#include "kernels/comm/comm.h"

struct mt_exchange;
struct mt_exchange *mt_exchange_new(struct mt_comm *comm, double deadline_s);
void mt_exchange_free(struct mt_exchange *exchange);

/* Progress reports for a watchdog of this process; not collective. At first there is no listener. */
void mt_exchange_on_progress(struct mt_exchange *exchange, void (*progress)(const char *what));
void mt_exchange_progress(const struct mt_exchange *exchange, const char *what);

/* AllGather of one record of size_bytes from each rank, in the order of ranks. */
enum mt_status mt_exchange_gather(struct mt_exchange *exchange, const void *mine, size_t size_bytes, void *all,
                                  struct mt_err *err);

/* Gather of each rank's bytes, of any length, on rank 0: *all, in the order of ranks (the caller's to free; null on
 * other ranks), and starts[nranks + 1], the offsets of each rank's. */
enum mt_status mt_exchange_collect(struct mt_exchange *exchange, const void *mine, size_t size_bytes, char **all,
                                   size_t *starts, struct mt_err *err);

/* AllReduce (maximum) of values[count]; also a barrier. */
enum mt_status mt_exchange_max(struct mt_exchange *exchange, double *values, int count, struct mt_err *err);

/* Agree on a status: on all ranks that of the first rank that failed, with its text. MT_ESTALL and MT_EPEER are
 * returned without communication, since a peer does not answer. */
enum mt_status mt_exchange_agree(struct mt_exchange *exchange, enum mt_status mine, struct mt_err *err);

#endif
