/* Several calls (mt_call.ncalls) by few launches: their arrays are the parts of a launch, each a number of blocks.
 * What a kernel wants to know of them goes with its parameters (4 KiB at most), so that launches can be captured.
 *
 *     struct cuda_parts parts;
 *     for (int next = 0; cuda_parts_next(call, &next, &shape, &parts);) {
 *         for (int p = 0; p < parts.count; p++) { ... of mt_call_nth(call, parts.call[p]) ... }
 *         ... cuda_launch(queue, kernel, parts.table.first[parts.count], threads, 0, (void *[]){&parts.table, ...})
 *     } */
#ifndef MT_KERNELS_CUDA_OPS_PARTS_H
#define MT_KERNELS_CUDA_OPS_PARTS_H

#include "kernels/op/op.h"

enum { CUDA_MOST_PARTS = 32 };

struct cuda_parts {
    int count, call[CUDA_MOST_PARTS];
    struct {                                   /* as struct parts of prelude.cuh */
        int count, first[CUDA_MOST_PARTS + 1]; /* blocks */
        int64_t chunk[CUDA_MOST_PARTS];        /* elements of a block */
    } table;
};

struct cuda_parts_shape {
    int operand;    /* the input that has the elements; -1: output 0 */
    int64_t chunk;  /* elements of a block, or more: */
    int64_t blocks; /* of a part, at most; 0: any number */
    bool empty;     /* parts without elements count as well; they have no blocks */
};

/* The next calls from *next on, as many as fit. False: there are none. */
bool cuda_parts_next(const struct mt_call *call, int *next, const struct cuda_parts_shape *shape,
                     struct cuda_parts *parts);

#endif
