/* A group grows while the next call is independent of every call in it: O(calls^2) comparisons of addresses. */
#include "launcher/execute/merge.h"

#include <stdint.h>
#include <string.h>

static bool overlap(const struct mt_tensor *a, const struct mt_tensor *b) {
    uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    uintptr_t xs = (uintptr_t)(mt_tensor_bytes(a));
    uintptr_t ys = (uintptr_t)(mt_tensor_bytes(b));
    return x < y + ys && y < x + xs && xs && ys;
}

/* Whether the call adds to the running sum that is its input 1 (op.h). */
static bool accumulates(const struct mt_call *call) {
    return call->kind == MT_OP_sq_norm_add;
}

/* Whether `writer` writes an operand of `other`. */
static bool conflicts(const struct mt_call *writer, const struct mt_call *other) {
    for (int o = 0; o < writer->nout; o++) {
        for (int i = 0; i < (accumulates(other) ? 1 : other->nin); i++)
            if (overlap(&writer->out[o], &other->in[i])) return true;
        for (int p = 0; p < (accumulates(other) ? 0 : other->nout); p++)
            if (overlap(&writer->out[o], &other->out[p])) return true;
    }
    return false;
}

static bool same_signature(const struct mt_call *a, const struct mt_call *b) {
    if (a->kind != b->kind || a->nin != b->nin || a->nout != b->nout || a->clock != b->clock || a->ncalls || b->ncalls)
        return false;
    for (int i = 0; i < a->nin; i++)
        if (a->in[i].type != b->in[i].type) return false;
    for (int o = 0; o < a->nout; o++)
        if (a->out[o].type != b->out[o].type) return false;
    return true;
}

static bool may_join(const struct mt_call *calls, int first, int i) {
    if (!same_signature(&calls[first], &calls[i])) return false;
    if (accumulates(&calls[i]) && calls[i].in[1].data != calls[i - 1].out[0].data) return false;
    for (int k = first; k < i; k++)
        if (conflicts(&calls[k], &calls[i]) || conflicts(&calls[i], &calls[k])) return false;
    return true;
}

/* Replace call `first` by one that performs calls [first, end). */
static void merge(struct mt_call *calls, int first, int end, struct mt_arena *arena) {
    struct mt_call *all = &calls[first];
    int n = end - first, nin = all->nin, nout = all->nout;
    struct mt_tensor *in = mt_new(arena, struct mt_tensor, n * nin), *out = mt_new(arena, struct mt_tensor, n * nout);
    struct mt_attr *attr = mt_new(arena, struct mt_attr, n);
    for (int i = 0; i < n; i++) {
        const struct mt_call *one = &calls[first + i];
        attr[i] = *one->attr;
        memcpy(in + i * nin, one->in, (size_t)nin * sizeof *in);
        memcpy(out + i * nout, one->out, (size_t)nout * sizeof *out);
    }
    all->attr = attr, all->in = in, all->out = out;
    all->scratch = NULL;
    all->ncalls = n;
}

void mt_merge_calls(struct mt_call *calls, const bool merges[MT_NOPS], const bool *separate, int n,
                    struct mt_arena *arena, int *many) {
    for (int first = 0, end; first < n; first = end) {
        end = first + 1;
        while (merges[calls[first].kind] && end < n && !separate[end] && may_join(calls, first, end)) end++;
        for (int i = first; i < end; i++) many[i] = i == first ? end - first : 0;
        if (end - first > 1) merge(calls, first, end, arena);
    }
}
