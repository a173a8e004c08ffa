/* One call of an operator by the plain C backend, and tensors for it. */
#ifndef MT_TESTS_KERNELS_OP_CALLS_H
#define MT_TESTS_KERNELS_OP_CALLS_H

#include "kernels/op/op.h"
#include "tests/check.h"

/* A whole value, poisoned; free its data. */
static inline struct mt_tensor call_tensor(enum mt_type type, int naxes, const int64_t *extent) {
    struct mt_tensor t = {.type = type, .naxes = naxes};
    for (int a = 0; a < naxes; a++) t.extent[a] = t.global[a] = extent[a];
    size_t size_bytes = (size_t)(mt_tensor_count(&t) * mt_type_size(type));
    if (size_bytes) t.data = memset(malloc(size_bytes), 0xff, size_bytes);
    return t;
}

/* Checked, with the scratch it wants, poisoned. */
static inline void call_run(struct mt_call call) {
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_call_check(&call, &err), err);
    int64_t scratch_bytes = mt_backend_c.scratch_bytes(&call);
    if (scratch_bytes) {
        call.scratch = aligned_alloc(64, (size_t)(scratch_bytes + 63) / 64 * 64);
        memset(call.scratch, 0xff, (size_t)scratch_bytes);
    }
    CHECK_OK(mt_backend_c.run(&call, &err), err);
    free(call.scratch);
}

/* CALL(relu, attr, &clock, (x), (y)): tensors in parentheses. */
#define CALL_LIST(...)                                                                                                 \
    (int)(sizeof((struct mt_tensor[]){__VA_ARGS__}) / sizeof(struct mt_tensor)), (struct mt_tensor[]) {                \
        __VA_ARGS__                                                                                                    \
    }
#define CALL(op, attributes, the_clock, inputs, outputs)                                                               \
    call_run(call_of(MT_OP_##op, attributes, the_clock, CALL_LIST inputs, CALL_LIST outputs))

static inline struct mt_call call_of(enum mt_op_kind kind, const struct mt_attr *attr, const struct mt_clock *clock,
                                     int nin, const struct mt_tensor *in, int nout, const struct mt_tensor *out) {
    return (struct mt_call){kind, attr, nin, nout, in, out, clock, NULL, "sample", 0};
}

#endif
