/* A run of calls grows while the next one is independent of all in it: about (calls^2) comparisons of addresses. */
#include "launcher/execute/merge.h"

#include <stdint.h>
#include <string.h>

static bool overlap(const struct mt_tensor *a, const struct mt_tensor *b) {
    uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    uintptr_t xs = (uintptr_t)(mt_tensor_count(a) * mt_type_size(a->type));
    uintptr_t ys = (uintptr_t)(mt_tensor_count(b) * mt_type_size(b->type));
    return x < y + ys && y < x + xs && xs && ys;
}

/* Whether the call's input 1 is the sum so far (op.h). */
static bool sums_up(const struct mt_call *call) {
    return call->kind == MT_OP_sq_norm_add;
}

/* Whether `writer` writes what `other` reads, or writes too. */
static bool disturbs(const struct mt_call *writer, const struct mt_call *other) {
    for (int o = 0; o < writer->nout; o++) {
        for (int i = 0; i < (sums_up(other) ? 1 : other->nin); i++)
            if (overlap(&writer->out[o], &other->in[i])) return true;
        for (int p = 0; p < (sums_up(other) ? 0 : other->nout); p++)
            if (overlap(&writer->out[o], &other->out[p])) return true;
    }
    return false;
}

static bool alike(const struct mt_call *a, const struct mt_call *b) {
    if (a->kind != b->kind || a->nin != b->nin || a->nout != b->nout || a->clock != b->clock || a->ncalls || b->ncalls)
        return false;
    for (int i = 0; i < a->nin; i++)
        if (a->in[i].type != b->in[i].type) return false;
    for (int o = 0; o < a->nout; o++)
        if (a->out[o].type != b->out[o].type) return false;
    return true;
}

static bool joins(const struct mt_call *calls, int first, int i) {
    if (!alike(&calls[first], &calls[i])) return false;
    if (sums_up(&calls[i]) && calls[i].in[1].data != calls[i - 1].out[0].data) return false;
    for (int k = first; k < i; k++)
        if (disturbs(&calls[k], &calls[i]) || disturbs(&calls[i], &calls[k])) return false;
    return true;
}

/* Calls [first, end) as one, in the first's place. */
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

void mt_merge_calls(struct mt_call *calls, const bool merges[MT_NOPS], const bool *apart, int n, struct mt_arena *arena,
                    int *many) {
    for (int first = 0, end; first < n; first = end) {
        end = first + 1;
        while (merges[calls[first].kind] && end < n && !apart[end] && joins(calls, first, end)) end++;
        for (int i = first; i < end; i++) many[i] = i == first ? end - first : 0;
        if (end - first > 1) merge(calls, first, end, arena);
    }
}
