/* sq_norm and count. */
#include <stdio.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/shape.h"

enum { THREADS = 256, WORTH_A_BLOCK = 4096, MOST_BLOCKS = 1024 };

static int64_t part_count(const struct mt_call *call) {
    return least(divide_up(mt_tensor_count(&call->in[0]), WORTH_A_BLOCK), MOST_BLOCKS);
}

static int64_t scratch_bytes(const struct cuda *cuda, const struct mt_call *call) {
    (void)cuda;
    return part_count(call) * (int64_t)sizeof(double);
}

static enum mt_status run(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    int64_t n = mt_tensor_count(&call->in[0]), parts = part_count(call);
    const void *x = call->in[0].data;
    void *partial = call->scratch, *to = call->out[0].data;
    char definitions[64];
    snprintf(definitions, sizeof definitions, "-DVECTOR=%d", cuda_vector(MT_F32, 0, cuda_alignment(call)));
    CUfunction first, second;
    enum mt_status st;
    if ((st = cuda_kernel(queue->cuda, "reduce", definitions, mt_op_info[call->kind].name, 0, &first, err)) ||
        (st = cuda_kernel(queue->cuda, "reduce", definitions, "finish", 0, &second, err)) ||
        (st = cuda_launch(queue, first, parts, THREADS, 0, (void *[]){&n, &x, &partial}, err)))
        return st;
    return cuda_launch(queue, second, 1, THREADS, 0, (void *[]){&parts, &partial, &to}, err);
}

const struct cuda_op cuda_sq_norm = {NULL, scratch_bytes, run};
const struct cuda_op cuda_count = {NULL, scratch_bytes, run};
