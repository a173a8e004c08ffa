/* Device memory that the library of the wire takes to connect all ranks, as in every job. Run each collective of
 * training once, with a long message in even blocks, and a sum of one number; then record the free memory. This comes
 * before all other communication: messages between two ranks take more, which only programs with an AllToAll need. */
#include <stdlib.h>

#include "profiler/probes/internal.h"

enum { LONG_BYTES = 64 << 20 };

static enum mt_status run_once(struct mt_profile *p, enum mt_coll_kind kind, int64_t total, void *buffer,
                               struct mt_err *err) {
    int64_t *counts = mt_calloc((size_t)p->nranks, sizeof *counts);
    int *ranks = mt_calloc((size_t)p->nranks, sizeof *ranks);
    double each_s;
    for (int r = 0; r < p->nranks; r++) counts[r] = total / p->nranks + (r < total % p->nranks), ranks[r] = r;
    const struct mt_coll problem = {.kind = kind,
                                    .reduce = mt_coll_reduces(kind) ? MT_SUM : MT_REDUCE_NONE,
                                    .wire = MT_F32,
                                    .acc = MT_F32,
                                    .n = p->nranks,
                                    .me = p->rank,
                                    .counts = counts};
    struct mt_probe_row row = {
        .ranks = ranks, .problem = {problem, problem}, .buffer = (void *[2]){buffer, NULL}, .what = mt_coll_name(kind)};
    for (int i = 0; i < 2; i++) mt_coll_of_nccl(kind)->schedule(&problem, &row.schedule[i]);
    enum mt_status st = mt_probe_queue(p, &row, 1, &each_s, err);
    for (int i = 0; i < 2; i++) mt_schedule_release(&row.schedule[i]);
    free(counts);
    free(ranks);
    return st;
}

enum mt_status mt_probe_connect(struct mt_profile *p, double budget_s, struct mt_err *err) {
    static const enum mt_coll_kind kinds[] = {MT_ALL_REDUCE, MT_REDUCE_SCATTER, MT_ALL_GATHER};
    void *buffer = NULL;
    (void)budget_s; /* some milliseconds, whatever the budget */
    if (!p->talk) return MT_OK;
    enum mt_status st = mt_probe_buffer(p, LONG_BYTES, &buffer, err);
    st = mt_exchange_agree(p->exchange, st, err);
    int64_t count = LONG_BYTES / 4 / p->nranks * p->nranks;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds && !st; k++) st = run_once(p, kinds[k], count, buffer, err);
    if (!st) st = run_once(p, MT_ALL_REDUCE, 1, buffer, err);
    p->free_bytes = mt_device_memory_bytes(p->device) + LONG_BYTES;
    mt_device_free(p->device, buffer);
    return mt_exchange_agree(p->exchange, st, err);
}
