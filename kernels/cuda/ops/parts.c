/* separate and join: for each part one launch, which copies runs of the axis and all that come after it. */
#include <stdio.h>

#include "kernels/cuda/driver/driver.h"
#include "kernels/cuda/jit/shape.h"

enum { THREADS = 256, MOST_BLOCKS = 4096 };

static bool supports(const struct mt_call *call) {
    return call->in[0].type == MT_F32 || mt_type_is_half(call->in[0].type);
}

/* The widest access that divides all sizes and addresses. */
static const char *word_of(uintptr_t all, int64_t *size_bytes) {
    static const char *const words[] = {"u16", "u32", "uint2", "uint4"};
    int w = 3;
    while (w > 0 && all % (2u << w)) w--;
    *size_bytes = 2 << w;
    return words[w];
}

static enum mt_status copy_part(const struct cuda_queue *queue, const struct mt_tensor *whole, int axis, int64_t at,
                                const struct mt_tensor *part, bool out, struct mt_err *err) {
    int64_t size = mt_type_size(whole->type), rows = mt_tensor_extent(whole, 0, axis), word;
    int64_t pitch = mt_tensor_extent(whole, axis, whole->naxes - axis) * size, run = mt_tensor_bytes(part) / rows;
    const char *inside = (const char *)whole->data + at;
    const char *name = word_of((uintptr_t)inside | (uintptr_t)part->data | (uintptr_t)pitch | (uintptr_t)run, &word);
    const void *from = out ? (const void *)inside : part->data, *to = out ? part->data : (const void *)inside;
    int64_t n = run / word, from_pitch = (out ? pitch : run) / word, to_pitch = (out ? run : pitch) / word;
    char definitions[32];
    CUfunction kernel;
    snprintf(definitions, sizeof definitions, "-DWORD=%s", name);
    enum mt_status st = cuda_kernel(queue->cuda, "parts", definitions, "copy_rows", 0, &kernel, err);
    if (st) return st;
    return cuda_launch(queue, kernel, least(divide_up(rows * n, THREADS), MOST_BLOCKS), THREADS, 0,
                       (void *[]){&rows, &n, &from_pitch, &to_pitch, &from, &to}, err);
}

static enum mt_status queue_parts(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    bool out = call->kind == MT_OP_separate;
    const struct mt_tensor *whole = out ? &call->in[0] : &call->out[0], *parts = out ? call->out : call->in;
    int nparts = out ? call->nout : call->nin, axis = call->attr->axis;
    int64_t at = 0;
    enum mt_status st = MT_OK;
    for (int p = 0; p < nparts && !st && mt_tensor_count(whole); p++) {
        if (!mt_tensor_count(&parts[p])) continue;
        st = copy_part(queue, whole, axis, at, &parts[p], out, err);
        at += mt_tensor_bytes(&parts[p]) / mt_tensor_extent(whole, 0, axis);
    }
    return st;
}

const struct cuda_op cuda_separate = {supports, NULL, queue_parts};
const struct cuda_op cuda_join = {supports, NULL, queue_parts};
