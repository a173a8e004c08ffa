/* Collectives of a section. */
#include "launcher/show/moves.h"

#include <stdlib.h>

static int64_t moved_bytes(const struct mt_program *p, enum mt_block_kind block, const struct mt_instr *instr, int k) {
    int64_t most = 0, times = 1;
    for (int r = 0; r < p->nranks; r++)
        for (int side = 0; side < 2; side++) {
            int v = side ? instr->out[k] : instr->in[k];
            int64_t count = mt_box_count(mt_pvalue_box(p, v, r), mt_pvalue_layout(p, v)->naxes);
            if (count > most) most = count;
        }
    for (int r = 0; r < p->nranks && block == MT_BODY; r++)
        if (p->body_count[r] > times) times = p->body_count[r];
    return most * times * mt_type_size(instr->wire);
}

static int group_size(const struct mt_program *p, const struct mt_instr *instr) {
    int most = 0, *count = mt_calloc((size_t)p->nranks, sizeof *count);
    for (int r = 0; r < p->nranks; r++)
        if (++count[instr->group[r]] > most) most = count[instr->group[r]];
    free(count);
    return most;
}

/* Groups within hosts are over their devices, groups of one rank a host are over hosts. */
static enum mt_move_over group_over(const struct mt_program *p, const struct mt_instr *instr) {
    bool within = true, between = true, hosts = false;
    for (int r = 0; r < p->nranks && p->node; r++) hosts |= p->node[r] > 0;
    for (int r = 0; r < p->nranks && hosts; r++)
        for (int q = 0; q < r && (within || between); q++) {
            if (instr->group[q] != instr->group[r]) continue;
            within &= p->node[q] == p->node[r];
            between &= p->node[q] != p->node[r];
        }
    return !hosts ? MT_OVER_RANKS : within ? MT_OVER_DEVICES : between ? MT_OVER_HOSTS : MT_OVER_BOTH;
}

int mt_moves_list(const struct mt_program *p, const struct mt_sections *sections, int s, struct mt_arena *arena,
                  struct mt_move **list) {
    int count = 0, capacity = 0;
    *list = NULL;
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < p->blocks[b].ninstrs; i++) {
            const struct mt_instr *instr = &p->blocks[b].instrs[i];
            if (instr->kind != MT_INSTR_COLLECTIVE) continue;
            struct mt_move m = {.coll = instr->coll, .size = -1};
            int before = -1; /* the row that this message has been counted in */
            for (int k = 0; k < instr->nin; k++) {
                int gvalue = p->values[instr->in[k]].gvalue, at = 0;
                if (sections->of_value[gvalue] != s) continue;
                if (m.size < 0) m.size = group_size(p, instr), m.over = group_over(p, instr);
                m.what = mt_moved_of(p->graph, gvalue);
                while (at < count && ((*list)[at].coll != m.coll || (*list)[at].what != m.what ||
                                      (*list)[at].over != m.over || (*list)[at].size != m.size))
                    at++;
                if (at == count) {
                    mt_arena_grow(arena, list, count, &capacity, sizeof **list);
                    (*list)[count++] = m;
                }
                (*list)[at].bytes += moved_bytes(p, (enum mt_block_kind)b, instr, k);
                (*list)[at].messages += b != MT_BODY && at != before;
                before = at;
            }
        }
    return count;
}
