/* The scratch of schedules by chunks. */
#include <string.h>

#include "kernels/op/op.h"
#include "kernels/overlap/chunk.h"
#include "kernels/overlap/internal.h"

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

int64_t mt_overlap_chunks_scratch_bytes(const struct mt_overlap *p, int me, enum mt_op_kind epilogue,
                                        int64_t (*scratch_bytes)(void *context, const struct mt_call *call),
                                        void *context) {
    static char nowhere[1];
    struct mt_overlap_scratch s;
    enum mt_type target = target_of(p), out = target == p->type ? p->type : MT_F32;
    int64_t most[2], bytes = 0, k = p->form == MT_OVERLAP_GATHER ? p->k : p->shares[me];
    largest(p, me, most);
    for (int i = 0; i < 8 * RESIDUES && k && most[1]; i++) {
        bool turned = i / 4 % 2;
        int64_t m = most[0] - i / 8, mnk[3] = {turned ? most[1] : m, turned ? m : most[1], k};
        struct mt_overlap_gemm gemm = {
            .attr = {.trans_a = i & 1, .trans_b = i & 2, .out_acc = out != p->type, .tf32 = p->tf32}};
        if (m <= 0) break;
        if (!turned && p->form == MT_OVERLAP_GATHER) gemm.attr.epilogue = epilogue;
        mt_overlap_gemm_call(&gemm, mnk, p->type, out, NULL);
        int64_t needs = scratch_bytes(context, &gemm.call);
        if (needs > bytes) bytes = needs;
    }
    return ALIGN + mt_overlap_lay_out_scratch(p, me, nowhere, &s) + round_up(bytes);
}
