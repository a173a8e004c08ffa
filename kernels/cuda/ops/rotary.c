/* rotary: the frequencies are computed here in f64 and passed to the kernel, up to MOST_PAIRS a launch. */
#include <math.h>
#include <stdio.h>

#include "kernels/cuda/driver/driver.h"
#include "kernels/cuda/jit/shape.h"
#include "kernels/cuda/tune/variant.h"

enum { THREADS = 256, ROWS = 4, MOST_PAIRS = 256 };

/* As in rotary.cu. */
struct shape {
    int64_t positions, first, rows, heads;
    int half, begin, pairs;
};
struct turns {
    uint64_t of[MOST_PAIRS];
};

static int variants(const struct cuda *cuda, const struct mt_call *call, struct cuda_variant *list) {
    static const int threads[] = {64, 128, 256, 512, 0}, rows[] = {1, 2, 4, 8, 0};
    (void)cuda, (void)call;
    return cuda_variant_pairs((struct cuda_variant){{THREADS, ROWS}}, threads, rows, list);
}
static const struct cuda_family family = {"rotary", "rotary", {"threads", "rows"}, variants, NULL};

/* What one position adds to the angle of pair i, less whole turns: positions are whole numbers. */
static uint64_t turn_of(const struct mt_attr *attr, int64_t i, int64_t size) {
    static const double circle = 6.283185307179586;
    double turns = mt_rotary_frequency(attr, i, size) / circle;
    uint64_t turn = (uint64_t)ldexp(turns - floor(turns), 64);
    return attr->inverse ? -turn : turn;
}

static enum mt_status queue_rotary(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err) {
    const struct mt_tensor *t = &call->in[0];
    const void *x = t->data;
    void *y = call->out[0].data;
    int64_t size = t->extent[t->naxes - 1], heads = mt_tensor_extent(t, 2, t->naxes - 3);
    if (!mt_tensor_count(t)) return MT_OK;
    struct shape shape = {t->extent[1], t->offset[1], t->extent[0] * heads, heads, (int)(size / 2), 0, 0};
    int v = cuda_vector(t->type, shape.half, cuda_alignment(call));
    struct cuda_variant variant;
    enum mt_status st = cuda_choose_variant(queue, &family, call, &variant, err);
    if (st) return st;
    char definitions[96];
    CUfunction kernel;
    snprintf(definitions, sizeof definitions, "-DTYPE=%s -DVECTOR=%d -DROWS=%d -ftz=true", cuda_type(t->type), v,
             variant.p[1]);
    st = cuda_kernel(queue->cuda, "rotary", definitions, "rotary", 0, &kernel, err);
    for (; !st && shape.begin < shape.half; shape.begin += MOST_PAIRS) {
        struct turns turns = {{0}};
        shape.pairs = (int)least(shape.half - shape.begin, MOST_PAIRS);
        for (int i = 0; i < shape.pairs; i++) turns.of[i] = turn_of(call->attr, shape.begin + i, size);
        int64_t items = shape.positions * divide_up(shape.rows, variant.p[1]) * (shape.pairs / v);
        st = cuda_launch(queue, kernel, divide_up(items, variant.p[0]), variant.p[0], 0,
                         (void *[]){&shape, &turns, &x, &y}, err);
    }
    return st;
}

const struct cuda_op cuda_rotary = {NULL, NULL, queue_rotary};
