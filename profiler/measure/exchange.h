/* Small things that ranks tell each other while they measure, over any communicator.
 *
 *     struct mt_exchange *exchange = mt_exchange_new(comm, 60);
 *     if ((st = mt_exchange_gather(exchange, &mine, sizeof mine, all, err))) ...
 *     if ((st = mt_exchange_agree(exchange, st, err))) ...    // all ranks go on, or none
 *     mt_exchange_free(exchange);
 *
 * All calls are collective. MT_ESTALL or MT_EPEER when a rank does not answer: the communicator is of no more use. */
#ifndef MT_PROFILER_MEASURE_EXCHANGE_H
#define MT_PROFILER_MEASURE_EXCHANGE_H

#include <stddef.h>

#include "kernels/comm/comm.h"

struct mt_exchange;
struct mt_exchange *mt_exchange_new(struct mt_comm *comm, double deadline_s);
void mt_exchange_free(struct mt_exchange *exchange);

/* Who watches over this process is told what it is at; not collective. At first nobody is. */
void mt_exchange_listen(struct mt_exchange *exchange, void (*tell)(const char *what));
void mt_exchange_tell(const struct mt_exchange *exchange, const char *what);

/* Everybody's record of size_bytes, in the order of ranks. */
enum mt_status mt_exchange_gather(struct mt_exchange *exchange, const void *mine, size_t size_bytes, void *all,
                                  struct mt_err *err);

/* Everybody's bytes, however many, one after the other in the order of ranks: on rank 0 *all (the caller's to free) and
 * where each rank's begin, starts[nranks + 1]; elsewhere *all is null. */
enum mt_status mt_exchange_collect(struct mt_exchange *exchange, const void *mine, size_t size_bytes, char **all,
                                   size_t *starts, struct mt_err *err);

/* values[count] become the maxima over ranks; nobody leaves before all have come. */
enum mt_status mt_exchange_max(struct mt_exchange *exchange, double *values, int count, struct mt_err *err);

/* The status of the first rank that failed, and its text, on all ranks. A rank that could not be heard is not waited
 * for: MT_ESTALL and MT_EPEER come back as they are. */
enum mt_status mt_exchange_agree(struct mt_exchange *exchange, enum mt_status mine, struct mt_err *err);

#endif
