/* sq_norm, sq_norm_add and count. */
#include <stdio.h>

#include "kernels/cuda/driver/driver.h"
#include "kernels/cuda/ops/multi_tensor.h"
#include "kernels/cuda/jit/shape.h"

enum {
    THREADS = 256,
    WORTH_A_BLOCK = 4096, /* elements */
    MOST_BLOCKS = 1024,
    ROOM_BLOCKS = CUDA_ROOM_BYTES / (int)sizeof(double) /* whose sums fit into cuda_queue.room */
};

static int64_t block_count(const struct mt_call *call) {
    return least(divide_up(mt_tensor_count(&call->in[0]), WORTH_A_BLOCK), MOST_BLOCKS);
}

static int64_t scratch_bytes(const struct cuda *cuda, const struct mt_call *call) {
    (void)cuda;
    return block_count(call) * (int64_t)sizeof(double);
}

static enum mt_status run(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    int64_t n = mt_tensor_count(&call->in[0]), blocks = block_count(call);
    const void *x = call->in[0].data;
    void *partial = call->scratch, *to = call->out[0].data;
    char definitions[64];
    snprintf(definitions, sizeof definitions, "-DVECTOR=%d", cuda_vector(MT_F32, 0, cuda_alignment(call)));
    CUfunction first, second;
    enum mt_status st;
    if ((st = cuda_kernel(queue->cuda, "reduce", definitions, mt_op_info[call->kind].name, 0, &first, err)) ||
        (st = cuda_kernel(queue->cuda, "reduce", definitions, "add_partials", 0, &second, err)) ||
        (st = cuda_launch(queue, first, blocks, THREADS, 0, (void *[]){&n, &x, &partial}, err)))
        return st;
    return cuda_launch(queue, second, 1, THREADS, 0, (void *[]){&blocks, &partial, &to}, err);
}

/* A tensor of a multi-tensor launch, as in reduce.cu. */
struct norm_tensor {
    const void *x, *before;
    void *to;
    int64_t n;
};

/* Any number of calls, each of which adds to the output of the one before it. */
static enum mt_status run_sq_norm_add(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    static const struct cuda_multi_tensor_shape shape = {
        .operand = 0, .chunk = WORTH_A_BLOCK, .blocks = ROOM_BLOCKS / CUDA_MOST_TENSORS, .empty = true};
    struct cuda_multi_tensor batch;
    char definitions[64];
    CUfunction first, second;
    snprintf(definitions, sizeof definitions, "-DVECTOR=%d", cuda_vector(MT_F32, 0, cuda_alignment(call)));
    enum mt_status st = cuda_kernel(queue->cuda, "reduce", definitions, "sq_norm_add", 0, &first, err);
    if (!st) st = cuda_kernel(queue->cuda, "reduce", definitions, "add_partials_of_each", 0, &second, err);
    for (int next = 0; !st && cuda_multi_tensor_next(call, &next, &shape, &batch);) {
        struct norm_tensor all[CUDA_MOST_TENSORS] = {0};
        for (int t = 0; t < batch.count; t++) {
            struct mt_call one = mt_call_nth(call, batch.call[t]);
            all[t] = (struct norm_tensor){one.in[0].data, one.in[1].data, one.out[0].data, mt_tensor_count(&one.in[0])};
        }
        st = cuda_launch(queue, first, batch.table.first[batch.count], THREADS, 0,
                         (void *[]){&batch.table, all, (void *)&queue->room}, err);
        if (!st)
            st = cuda_launch(queue, second, 1, 32 * CUDA_MOST_TENSORS, 0,
                             (void *[]){&batch.table, all, (void *)&queue->room}, err);
    }
    return st;
}

const struct cuda_op cuda_sq_norm = {NULL, scratch_bytes, run};
const struct cuda_op cuda_count = {NULL, scratch_bytes, run};
const struct cuda_op cuda_sq_norm_add = {NULL, NULL, run_sq_norm_add};
