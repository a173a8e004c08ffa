/* What the implementations of attention ask about a call. */
#include "kernels/cuda/attention/attention.h"

#include <ctype.h>
#include <stdlib.h>

bool attention_aligned(const struct mt_call *call, uintptr_t size_bytes) {
    uintptr_t all = 0;
    for (int i = 0; i < call->nin; i++) all |= (uintptr_t)call->in[i].data;
    for (int i = 0; i < call->nout; i++) all |= (uintptr_t)call->out[i].data;
    return all % size_bytes == 0;
}

bool attention_can(const struct attention_impl *impl, const struct cuda *cuda, const struct mt_call *call) {
    bool allowed = !impl->any_order || (mt_op_is_attention_grad(call->kind) && call->attr->any_order);
    return allowed && impl->possible(cuda, call) && !(impl->missing && impl->missing());
}

int64_t attention_rows_bytes(const struct mt_call *call) {
    const struct mt_attention a = mt_attention_of(call);
    return a.gradient ? a.b * a.heads * a.s * 2 * (int64_t)sizeof(float) : 0;
}

int attention_forced_row(void) {
    const char *given = getenv("MOTLEY_CUDA_ATTENTION");
    char *end;
    if (!given || !isdigit((unsigned char)*given)) return -1;
    long row = strtol(given, &end, 10);
    return *end || row >= INT32_MAX ? -1 : (int)row;
}
