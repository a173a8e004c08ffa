/* Copies between GPUs of a host by their copy engines, which need no multiprocessor: the first rank of a pair writes to
 * the memory of the second. Pairs without peer access have no figure. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/log.h"
#include "profiler/probes/internal.h"

enum { REPEATS = 8, SAMPLES = 3 };
static const int64_t size_bytes = 64 << 20;

struct probe {
    struct mt_profile *profile;
    void *buffer;
    char (*handles)[MT_DEVICE_HANDLE_BYTES]; /* [nranks]; all zero: none */
};

static enum mt_status write_to(struct probe *probe, int peer, double *copy_Bps, struct mt_err *err) {
    struct mt_device *device = probe->profile->device;
    void *there;
    double each_s, fastest_s = 0;
    enum mt_status st = mt_device_import(device, probe->handles[peer], &there, err);
    if (st) return st;
    for (int i = 0; i < SAMPLES && !st; i++) {
        st = mt_device_copy_peer(device, there, probe->buffer, size_bytes, REPEATS, &each_s, err);
        if (!st && (!i || each_s < fastest_s)) fastest_s = each_s;
    }
    mt_device_forget(device, there);
    if (!st) *copy_Bps = (double)size_bytes / fastest_s;
    return st;
}

/* A pair that cannot copy does not fail the profile. */
static void try_pair(struct probe *probe, const struct mt_pair_times *pair, double *copy_Bps) {
    static const char none[MT_DEVICE_HANDLE_BYTES];
    struct mt_err err = MT_ERR_INIT;
    if (pair->a != probe->profile->rank || !memcmp(probe->handles[pair->b], none, sizeof none)) return;
    if (write_to(probe, pair->b, copy_Bps, &err))
        mt_log(MT_LOG_INFO, "no copies by copy engine from rank %d to rank %d: %s", pair->a, pair->b, err.text);
}

static enum mt_status measure(struct probe *probe, const int *round_of, int nrounds, double *copy_Bps,
                              struct mt_err *err) {
    struct mt_profile *p = probe->profile;
    for (int round = 0; round < nrounds; round++) {
        double come = 0;
        enum mt_status st = mt_exchange_max(p->exchange, &come, 1, err);
        if (st) return st;
        for (int i = 0; i < p->npairs; i++)
            if (round_of[i] == round && !p->pairs[i].between) try_pair(probe, &p->pairs[i], &copy_Bps[i]);
    }
    return mt_exchange_max(p->exchange, copy_Bps, p->npairs, err);
}

enum mt_status mt_probe_copy(struct mt_profile *p, double budget_s, struct mt_err *err) {
    struct probe probe = {.profile = p};
    char mine[MT_DEVICE_HANDLE_BYTES] = {0};
    struct mt_err ignored = MT_ERR_INIT;
    (void)budget_s; /* some milliseconds for each pair */
    if (!p->gpu || !mt_probe_has_link(p, false)) return MT_OK;
    int *round_of = mt_new(&p->arena, int, p->npairs), nrounds = mt_pairs_rounds(p, round_of);
    double *copy_Bps = mt_new(&p->arena, double, p->npairs);
    probe.handles = mt_arena_alloc(&p->arena, (size_t)p->nranks * MT_DEVICE_HANDLE_BYTES);
    enum mt_status st = mt_probe_buffer(p, size_bytes, &probe.buffer, err);
    if ((st = mt_exchange_agree(p->exchange, st, err))) goto out;
    if (mt_device_export(p->device, probe.buffer, mine, &ignored)) memset(mine, 0, sizeof mine);
    st = mt_exchange_gather(p->exchange, mine, sizeof mine, probe.handles, err);
    if (!st) st = measure(&probe, round_of, nrounds, copy_Bps, err);
    for (int i = 0; i < p->npairs && !st; i++) p->pairs[i].copy_Bps = copy_Bps[i];
out:
    mt_device_free(p->device, probe.buffer);
    return st;
}
