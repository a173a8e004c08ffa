/* Multi-tensor launches: several calls (mt_call.ncalls) by few launches. A launch has a batch of tensors, and each
 * tensor a number of blocks. The table of the batch is a kernel parameter (at most 4 KiB), so that launches can be
 * captured.
 *
 *     struct cuda_multi_tensor batch;
 *     for (int next = 0; cuda_multi_tensor_next(call, &next, &shape, &batch);) {
 *         for (int t = 0; t < batch.count; t++) { ... of mt_call_nth(call, batch.call[t]) ... }
 *         ... cuda_launch(queue, kernel, batch.table.first[batch.count], threads, 0, (void *[]){&batch.table, ...})
 *     } */
#ifndef MT_KERNELS_CUDA_OPS_MULTI_TENSOR_H
#define MT_KERNELS_CUDA_OPS_MULTI_TENSOR_H

#include "kernels/op/op.h"

enum { CUDA_MOST_TENSORS = 30 };

struct cuda_multi_tensor {
    int count, call[CUDA_MOST_TENSORS];
    struct {                                     /* as struct batch of prelude.cuh */
        int count, first[CUDA_MOST_TENSORS + 1]; /* blocks */
        int64_t chunk[CUDA_MOST_TENSORS];        /* elements of a block */
    } table;
};

struct cuda_multi_tensor_shape {
    int operand;    /* the input that has the elements; -1: output 0 */
    int64_t chunk;  /* elements of a block, at least: more where `blocks` asks for it */
    int64_t blocks; /* of a tensor, at most; 0: any number */
    bool empty;     /* tensors without elements are in the batch as well; they have no blocks */
};

/* The next calls from *next on, as many as fit into a launch. False: there are none. */
bool cuda_multi_tensor_next(const struct mt_call *call, int *next, const struct cuda_multi_tensor_shape *shape,
                            struct cuda_multi_tensor *batch);

#endif
