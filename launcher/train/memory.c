/* The memory of a host, which its ranks share. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/units.h"
#include "launcher/session/agree.h"
#include "launcher/train/internal.h"

struct need {
    char host[256];
    int64_t needs, has;
    int32_t own; /* the memory is this rank's alone (a GPU's) */
};

static bool share(const struct need *needs, int a, int b) {
    return a == b || (!needs[a].own && !needs[b].own && !strcmp(needs[a].host, needs[b].host));
}

/* Ranks of a host take memory in order of rank; the first that finds too little is reported. A GPU's memory is
 * separate. */
static enum mt_status check_host(const struct trainer *t, const struct need *needs, int first, struct mt_err *err) {
    int64_t left = needs[first].has;
    for (int r = first; r < t->nranks; r++) {
        if (!share(needs, r, first)) continue;
        if (needs[r].has < left) left = needs[r].has;
    }
    int before = 0;
    for (int r = first; r < t->nranks; r++) {
        if (!share(needs, r, first)) continue;
        int64_t allowed = t->plan->ranks[t->plan->order[r]].memory_bytes,
                can = allowed && allowed < left ? allowed : left;
        if (needs[r].needs > can) {
            char lacks[MT_UNITS_TEXT], wants[MT_UNITS_TEXT], has[MT_UNITS_TEXT];
            mt_units_bytes((double)(needs[r].needs - can), lacks);
            mt_units_bytes((double)needs[r].needs, wants);
            mt_units_bytes((double)(can > 0 ? can : 0), has);
            mt_fail(err, MT_EINPUT, "rank %d on %s lacks %s of memory: it needs %s, and %s are free%s",
                    t->plan->order[r], needs[r].host, lacks, wants, has,
                    before && can == left ? " after the ranks before it" : "");
            return mt_err_hint(err, "plan with a smaller --micro or --batch, with --storage split, or with a lower "
                                    "speed for this rank");
        }
        left -= needs[r].needs;
        before++;
    }
    return MT_OK;
}

enum mt_status mt_trainer_check_memory(struct trainer *t, struct mt_err *err) {
    struct need mine = {.has = mt_device_memory_bytes(t->device), .own = t->mine.all_multiprocessors > 0};
    struct need *all = mt_malloc((size_t)t->nranks * sizeof *all);
    strncpy(mine.host, mt_agree_host(), sizeof mine.host - 1);
    for (int r = 0; r < MT_NRUNS; r++)
        if (t->lowered[r] && t->lowered[r]->arena_bytes > mine.needs) mine.needs = t->lowered[r]->arena_bytes;
    t->mine.arena_bytes = mine.needs;
    for (int r = 0; r < MT_NRUNS; r++) mine.needs += t->lowered[r] ? t->lowered[r]->window_bytes : 0;
    MPI_Allgather(&mine, (int)sizeof mine, MPI_BYTE, all, (int)sizeof mine, MPI_BYTE, t->comm);
    enum mt_status st = MT_OK;
    for (int r = 0; r < t->nranks && !st; r++) {
        bool first = true;
        for (int q = 0; q < r; q++) first = first && !share(all, q, r);
        if (first) st = check_host(t, all, r, err);
    }
    free(all);
    return mt_agree_rank0(t->comm, st, err);
}
