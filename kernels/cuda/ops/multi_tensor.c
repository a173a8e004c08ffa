#include "kernels/cuda/ops/multi_tensor.h"

#include "kernels/cuda/jit/shape.h"

bool cuda_multi_tensor_next(const struct mt_call *call, int *next, const struct cuda_multi_tensor_shape *shape,
                            struct cuda_multi_tensor *batch) {
    *batch = (struct cuda_multi_tensor){.count = 0};
    int t = 0;
    int64_t blocks = 0;
    for (; *next < mt_call_count(call) && t < CUDA_MOST_TENSORS; ++*next) {
        struct mt_call one = mt_call_nth(call, *next);
        int64_t n = mt_tensor_count(shape->operand < 0 ? &one.out[0] : &one.in[shape->operand]), chunk = shape->chunk;
        if (!n && !shape->empty) continue;
        if (shape->blocks) chunk = largest(chunk, divide_up(divide_up(n, shape->blocks), shape->chunk) * shape->chunk);
        if (blocks && blocks + divide_up(n, chunk) > INT32_MAX) break;
        blocks += divide_up(n, chunk);
        batch->call[t] = *next;
        batch->table.chunk[t] = chunk;
        batch->table.first[++t] = (int)blocks;
    }
    batch->count = batch->table.count = t;
    return t > 0;
}
