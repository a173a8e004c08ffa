/* Freeing lowered programs. */
#include "synth/lower/lower.h"

#include <stdlib.h>

void mt_lowered_free(struct mt_lowered *lowered) {
    if (!lowered) return;
    for (int i = 0; i < lowered->ninstrs; i++) {
        if (lowered->instrs[i].schedule) mt_schedule_release(lowered->instrs[i].schedule);
        struct mt_loverlap *overlap = lowered->instrs[i].overlap;
        if (overlap && overlap->schedule) mt_overlap_schedule_release(overlap->schedule);
    }
    mt_arena_release(&lowered->arena);
    free(lowered);
}
