/* The plain C backend: the table of kinds, and what the operators' files share. */
#include <assert.h>
#include <omp.h>
#include <stdlib.h>

#include "kernels/base/number/rng.h"
#include "kernels/cpu/c/internal.h"

static const struct mt_c_op *const ops[MT_NOPS] = {
#define MT_OP(kind, ...) [MT_OP_##kind] = &mt_c_##kind,
#include "kernels/op/ops.def"
#undef MT_OP
};

static bool supports(const struct mt_call *call) {
    (void)call;
    return true;
}

static int64_t scratch_bytes(const struct mt_call *call) {
    int64_t (*bytes)(const struct mt_call *) = ops[call->kind]->scratch_bytes;
    return bytes ? bytes(call) : 0;
}

/* With memory for each thread, aligned to 64 bytes. */
static enum mt_status run_with_threads_memory(const struct mt_call *call, int64_t size_bytes, struct mt_err *err) {
    struct mt_call with = *call;
    with.scratch = aligned_alloc(64, (size_t)size_bytes);
    if (!with.scratch)
        return mt_fail(err, MT_ESYSTEM, "%s: no memory for %.0f MB of workspace", mt_op_info[call->kind].name,
                       (double)size_bytes / 1e6);
    ops[call->kind]->run[mt_c_type(call)](&with);
    free(with.scratch);
    return MT_OK;
}

static enum mt_status run(const struct mt_call *call, struct mt_err *err) {
    const struct mt_c_op *op = ops[call->kind];
    assert(mt_call_check(call, err) == MT_OK && !call->ncalls);
    assert(call->scratch || !scratch_bytes(call));
    if (op->thread_bytes) return run_with_threads_memory(call, op->thread_bytes(call) * omp_get_max_threads(), err);
    op->run[mt_c_type(call)](call);
    return MT_OK;
}

const struct mt_backend mt_backend_c = {"c", supports, scratch_bytes, run};

void mt_c_groups(const struct mt_tensor *whole, unsigned axes, struct groups *g) {
    g->n = 0;
    for (int a = 0; a < whole->naxes; a++) {
        bool in = axes >> a & 1u;
        if (whole->extent[a] == 1) continue;
        if (g->n && g->in[g->n - 1] == in) {
            g->extent[g->n - 1] *= whole->extent[a];
        } else {
            g->in[g->n] = in;
            g->extent[g->n++] = whole->extent[a];
        }
    }
    int64_t stride = 1, step = 1;
    for (int i = g->n - 1; i >= 0; i--) {
        g->stride[i] = stride;
        g->step[i] = g->in[i] ? step : 0;
        stride *= g->extent[i];
        if (g->in[i]) step *= g->extent[i];
    }
}

int64_t mt_c_outer_step(const struct groups *g, int64_t index) {
    int64_t at = 0;
    for (int i = g->n - 2; i >= 0; index /= g->extent[i--]) at += index % g->extent[i] * g->step[i];
    return at;
}

int64_t mt_c_outer_count(const struct groups *g, bool in) {
    int64_t count = 1;
    for (int i = 0; i < g->n - 1; i++)
        if (g->in[i] == in) count *= g->extent[i];
    return count;
}

int64_t mt_c_outer_offset(const struct groups *g, bool in, int64_t index) {
    int64_t at = 0;
    for (int i = g->n - 2; i >= 0; i--)
        if (g->in[i] == in) {
            at += index % g->extent[i] * g->stride[i];
            index /= g->extent[i];
        }
    return at;
}

uint64_t mt_c_global_index(const struct mt_tensor *box, int64_t index) {
    uint64_t at = 0, stride = 1;
    for (int a = box->naxes - 1; a >= 0; a--) {
        at += (uint64_t)(box->offset[a] + index % box->extent[a]) * stride;
        stride *= (uint64_t)box->global[a];
        index /= box->extent[a];
    }
    return at;
}

const uint32_t *mt_c_random(uint64_t seed, uint64_t stream, uint64_t first, int64_t count, uint32_t *buffer) {
    uint64_t block = first >> 2, end = (first + (uint64_t)count + 3) >> 2;
    mt_philox_blocks(seed, stream, block, (int64_t)(end - block), buffer);
    return buffer + (first & 3);
}
