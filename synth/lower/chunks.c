/* Large collectives are cut into chunks (synth/program/cut.h): a pass over the program, before a rank's own
 * instructions are known, so that all ranks cut alike. */
#include <limits.h>

#include "synth/lower/internal.h"

/* What decides on which values a collective may overwrite its input, on all ranks alike. */
struct readers {
    int *last;    /* [pvalues]: the last instruction that reads it, counted over all blocks; -1: none; INT_MAX: kept */
    bool *shared; /* [pvalues]: it may share memory with a slice, or with the value that it is a slice of */
};

static struct readers find_readers(struct mt_lowering *l) {
    const struct mt_program *p = l->program;
    struct readers r = {mt_new(&l->scratch, int, p->nvalues), mt_new(&l->scratch, bool, p->nvalues)};
    for (int v = 0; v < p->nvalues; v++) r.last[v] = -1;
    for (int b = 0, at = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < p->blocks[b].ninstrs; i++, at++) {
            const struct mt_instr *instr = &p->blocks[b].instrs[i];
            for (int k = 0; k < instr->nin; k++) r.last[instr->in[k]] = at;
            if (instr->kind == MT_INSTR_SLICE) r.shared[instr->in[0]] = r.shared[instr->out[0]] = true;
        }
    for (int v = 0; v < p->nvalues; v++) {
        if (p->values[v].input) r.last[v] = INT_MAX;
        if (p->values[v].next >= 0) r.last[p->values[v].next] = INT_MAX;
    }
    return r;
}

/* A collective that has been cut, and its chunks: layers repeat. */
struct cut {
    const struct mt_instr *instr;
    bool takes;
    struct mt_chunks chunks;
};
struct cuts {
    struct cut *items;
    int count, capacity;
};

static enum mt_status cut(struct mt_lowering *l, struct cuts *known, const struct mt_instr *instr, bool *takes,
                          struct mt_chunks *chunks) {
    for (int i = 0; i < known->count; i++)
        if (known->items[i].takes == takes[0] && mt_message_same(l->program, instr, known->items[i].instr))
            return *chunks = known->items[i].chunks, MT_OK;
    const struct mt_cut_form form = {takes, l->options->wire_sums};
    enum mt_status st = mt_message_cut(l->program, instr, &form, &l->scratch, &chunks->items, &chunks->count, l->err);
    if (st || instr->nin > 1) return st; /* of a bucket, each operand has its own `takes` */
    mt_arena_grow(&l->scratch, &known->items, known->count, &known->capacity, sizeof *known->items);
    known->items[known->count++] = (struct cut){instr, takes[0], *chunks};
    return MT_OK;
}

enum mt_status mt_lowering_cut(struct mt_lowering *l) {
    const struct mt_program *p = l->program;
    const struct readers readers = find_readers(l);
    struct cuts known = {0};
    int most = 1;
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < p->blocks[b].ninstrs; i++)
            if (p->blocks[b].instrs[i].nin > most) most = p->blocks[b].instrs[i].nin;
    bool *takes = mt_new(&l->scratch, bool, most);
    for (int b = 0, at = 0; b < MT_NBLOCKS; b++) {
        l->chunks[b] = mt_new(&l->scratch, struct mt_chunks, p->blocks[b].ninstrs);
        for (int i = 0; i < p->blocks[b].ninstrs; i++, at++) {
            const struct mt_instr *instr = &p->blocks[b].instrs[i];
            if (instr->kind != MT_INSTR_COLLECTIVE) continue;
            for (int k = 0; k < instr->nin; k++) {
                int v = instr->in[k];
                bool carried = b == MT_BODY && p->values[v].block != MT_BODY;
                takes[k] = readers.last[v] == at && !readers.shared[v] && !carried;
            }
            enum mt_status st = cut(l, &known, instr, takes, &l->chunks[b][i]);
            if (st) return st;
        }
    }
    return MT_OK;
}
