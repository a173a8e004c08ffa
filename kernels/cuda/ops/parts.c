/* Parts in the order of their calls. */
#include "kernels/cuda/ops/parts.h"

#include "kernels/cuda/jit/shape.h"

bool cuda_parts_next(const struct mt_call *call, int *next, const struct cuda_parts_shape *shape,
                     struct cuda_parts *parts) {
    *parts = (struct cuda_parts){.count = 0};
    int p = 0;
    int64_t blocks = 0;
    for (; *next < mt_call_count(call) && p < CUDA_MOST_PARTS; ++*next) {
        struct mt_call part = mt_call_nth(call, *next);
        int64_t n = mt_tensor_count(shape->operand < 0 ? &part.out[0] : &part.in[shape->operand]), chunk = shape->chunk;
        if (!n && !shape->empty) continue;
        if (shape->blocks) chunk = largest(chunk, divide_up(divide_up(n, shape->blocks), shape->chunk) * shape->chunk);
        if (blocks && blocks + divide_up(n, chunk) > INT32_MAX) break;
        blocks += divide_up(n, chunk);
        parts->call[p] = *next;
        parts->table.chunk[p] = chunk;
        parts->table.first[++p] = (int)blocks;
    }
    parts->count = parts->table.count = p;
    return p > 0;
}
