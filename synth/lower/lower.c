/* Freeing lowered programs, and classes of ranks whose lowered programs take the same memory. */
#include "synth/lower/lower.h"

#include <stdlib.h>

#include "kernels/base/number/hash.h"

void mt_lowered_free(struct mt_lowered *lowered) {
    if (!lowered) return;
    for (int i = 0; i < lowered->ninstrs; i++)
        if (lowered->instrs[i].schedule) mt_schedule_release(lowered->instrs[i].schedule);
    mt_arena_release(&lowered->arena);
    free(lowered);
}

/* Of what decides memory (lower.h): the boxes' extents, the iterations of BODY, the groups of collectives. */
static uint64_t class_hash(const struct mt_program *p, const bool *used, int rank) {
    uint64_t hash = mt_hash64(&p->body_count[rank], sizeof p->body_count[rank], 0);
    for (int l = 0; l < p->layouts.count; l++) {
        const struct mt_layout *layout = &p->layouts.items[l];
        int64_t extent[MT_MAX_AXES];
        if (!used[l]) continue;
        for (int a = 0; a < layout->naxes; a++) extent[a] = layout->box[rank].hi[a] - layout->box[rank].lo[a];
        hash = mt_hash64(extent, (size_t)layout->naxes * sizeof *extent, hash);
    }
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < p->blocks[b].ninstrs; i++) {
            const struct mt_instr *instr = &p->blocks[b].instrs[i];
            if (instr->kind != MT_INSTR_COLLECTIVE) continue;
            int with = instr->coll == MT_ALL_TO_ALL ? rank : instr->group[rank];
            hash = mt_hash64(&with, sizeof with, hash);
        }
    return hash;
}

void mt_lower_fold(const struct mt_program *program, int *first) {
    int n = program->nranks, nslots = 16;
    while (nslots < 2 * n) nslots *= 2;
    bool *used = mt_calloc((size_t)program->layouts.count + 1, sizeof *used);
    uint64_t *hash = mt_calloc((size_t)n, sizeof *hash);
    int *slots = mt_calloc((size_t)nslots, sizeof *slots); /* the first rank of a class + 1; open addressing */
    for (int v = 0; v < program->nvalues; v++) used[program->values[v].layout] = true;
    for (int r = 0; r < n; r++) {
        hash[r] = class_hash(program, used, r);
        uint64_t at = hash[r] & (uint64_t)(nslots - 1);
        while (slots[at] && hash[slots[at] - 1] != hash[r]) at = (at + 1) & (uint64_t)(nslots - 1);
        if (!slots[at]) slots[at] = r + 1;
        first[r] = slots[at] - 1;
    }
    free(used);
    free(hash);
    free(slots);
}
