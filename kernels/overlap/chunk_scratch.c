/* The scratch of schedules by chunks. */
#include <string.h>

#include "kernels/op/op.h"
#include "kernels/overlap/chunk.h"

enum { ALIGN = 256, RESIDUES = 8 /* of extents, by which backends tell aligned GEMMs from others */ };

static int64_t round_up(int64_t bytes) {
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Rows and columns of the largest GEMM. */
static void largest(const struct mt_overlap *p, int me, int64_t extent[2]) {
    extent[0] = p->m;
    extent[1] = p->form == MT_OVERLAP_GATHER ? p->shares[me] : p->cols;
}

static enum mt_type target_of(const struct mt_overlap *p) {
    return p->form == MT_OVERLAP_GATHER ? p->out : p->wire;
}

int64_t mt_overlap_lay_out_scratch(const struct mt_overlap *p, int me, void *memory, struct mt_overlap_scratch *s) {
    int64_t partial[2], most[2], at = 0;
    enum mt_type target = target_of(p);
    bool wide = target != p->type && target != MT_F32;
    char *base = (char *)round_up((int64_t)(uintptr_t)memory);
    mt_overlap_extent(p, me, MT_OVERLAP_PARTIAL, partial);
    largest(p, me, most);
    s->words = base + at, at += round_up(8 * (int64_t)mt_overlap_nflags(p));
    s->partial = base + at, at += round_up(partial[0] * partial[1] * mt_type_size(p->wire));
    s->wide = base + at, at += wide ? round_up(most[0] * most[1] * mt_type_size(MT_F32)) : 0;
    s->gemm = base + at;
    return at;
}

static int64_t gemm_bytes(const struct mt_overlap *p, int64_t m, int64_t n, int64_t k, int trans,
                          int64_t (*scratch_bytes)(void *context, const struct mt_call *call), void *context) {
    struct mt_attr attr = {.nm = 1, .nn = 1, .nk = 1, .trans_a = trans & 1, .trans_b = trans & 2, .tf32 = p->tf32};
    int64_t extents[3][2] = {{m, k}, {k, n}, {m, n}};
    struct mt_tensor tensors[3];
    if (attr.trans_a) extents[0][0] = k, extents[0][1] = m;
    if (attr.trans_b) extents[1][0] = n, extents[1][1] = k;
    for (int i = 0; i < 3; i++) {
        enum mt_type target = target_of(p), type = i < 2 || target == p->type ? p->type : MT_F32;
        tensors[i] = (struct mt_tensor){.type = type, .naxes = 2};
        for (int a = 0; a < 2; a++) tensors[i].extent[a] = tensors[i].global[a] = extents[i][a];
    }
    attr.out_acc = tensors[2].type != p->type;
    struct mt_call call = {.kind = MT_OP_matmul, .attr = &attr, .nin = 2, .nout = 1, .in = tensors, .out = tensors + 2};
    return scratch_bytes(context, &call);
}

int64_t mt_overlap_chunks_scratch_bytes(const struct mt_overlap *p, int me,
                                        int64_t (*scratch_bytes)(void *context, const struct mt_call *call),
                                        void *context) {
    static char nowhere[1];
    struct mt_overlap_scratch s;
    int64_t most[2], bytes = 0, k = p->form == MT_OVERLAP_GATHER ? p->k : p->shares[me];
    largest(p, me, most);
    for (int trans = 0; trans < 4 && k; trans++)
        for (int64_t m = most[0]; m > 0 && m > most[0] - RESIDUES && most[1]; m--) {
            int64_t plain = gemm_bytes(p, m, most[1], k, trans, scratch_bytes, context);
            int64_t turned = gemm_bytes(p, most[1], m, k, trans, scratch_bytes, context);
            if (plain > bytes) bytes = plain;
            if (turned > bytes) bytes = turned;
        }
    return ALIGN + mt_overlap_lay_out_scratch(p, me, nowhere, &s) + round_up(bytes);
}
