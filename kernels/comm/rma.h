/* One-sided access between ranks that share no memory: each exposes a range, and the others read and write it while its
 * owner computes.
 *
 *     mt_comm_expose(comm, memory, size_bytes, &rma, &err);                      // on all ranks
 *     slot = rma->class->start(rma, &(struct mt_rma_op){MT_RMA_PUT, peer, .at = 64, .from = x, .size_bytes = n}, &err);
 *     do st = rma->class->test(rma, slot, &done, &value, &err); while (!st && !done);
 *     rma->class->release(rma);                                                  // on all ranks
 *
 * Operations are independent: what must be in order waits until the one before is done. "Done" is done at both ends.
 * The owner of the memory makes progress for the others whenever it calls test (MPI has no thread of its own).
 * kernels/window/window.h is what programs use. */
#ifndef MT_KERNELS_COMM_RMA_H
#define MT_KERNELS_COMM_RMA_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/err.h"

enum mt_rma_kind {
    MT_RMA_PUT,  /* memory[at, +size_bytes) of `rank` = from */
    MT_RMA_GET,  /* to = memory[at, +size_bytes) of `rank` */
    MT_RMA_SET,  /* the 64-bit word at `at` = value; atomic, as are the next two */
    MT_RMA_ADD,  /* the word += value */
    MT_RMA_READ, /* read the word */
};

enum { MT_RMA_SLOTS = 32, MT_RMA_SEGMENT_BYTES = 256 << 10 };

struct mt_rma_op {
    enum mt_rma_kind kind;
    int rank;
    int64_t at;         /* bytes; of words a multiple of 8 */
    const void *from;   /* PUT: must stay as it is until done */
    void *to;           /* GET */
    int64_t size_bytes; /* PUT and GET: at most MT_RMA_SEGMENT_BYTES */
    uint64_t value;
};

struct mt_rma;
struct mt_rma_class {
    /* Start an operation: its slot, 0 to MT_RMA_SLOTS - 1; or -1 when none is free, or with `err` set when it failed.
     */
    int (*start)(struct mt_rma *rma, const struct mt_rma_op *op, struct mt_err *err);
    /* Whether the slot's operation is done, which frees the slot; *value: what READ has read. */
    enum mt_status (*test)(struct mt_rma *rma, int slot, bool *done, uint64_t *value, struct mt_err *err);
    /* Collective; `broken`: operations are still in flight or ranks are missing, so nothing is waited for and what MPI
     * may still write to is not freed; the exposed memory must then stay as well. */
    void (*release)(struct mt_rma *rma, bool broken);
};
struct mt_rma {
    const struct mt_rma_class *class;
};

#endif
