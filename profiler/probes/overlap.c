/* The slowdown by overlap of computation and communication: GEMMs on one stream and AllReduces on another, each alone
 * and then both concurrently. Of the concurrent run only items that ran while the other stream was busy count.
 *
 * A CPU runs at full speed here, even if it is emulated: emulation sleeps, which does not slow communication. */
#include <math.h>
#include <stdlib.h>

#include "profiler/probes/internal.h"

enum { USUAL_CALLS = 16, LEAST_CALLS = 8, LEAST_COLLS = 3, MOST_COLLS = 64, TAG = 3 };
static const double longest_gemm_s = 8e-3, gemm_part = 0.01; /* part: of the budget */
static const double longer = 1.5;                            /* GEMMs than messages, if neither is slowed */
enum { NMESSAGES = 4 };
static const int64_t messages[2][NMESSAGES] = {{4 << 20, 1 << 20, 256 << 10, 64 << 10}, /* bytes, of CPUs */
                                               {64 << 20, 16 << 20, 4 << 20, 1 << 20}}; /* of GPUs */

struct probe {
    struct mt_profile *profile;
    struct mt_device *device;
    struct mt_stream *compute, *communication;
    struct mt_calls *calls;
    struct mt_grid_case gemm;
    struct mt_group group;
    int64_t *counts;
    struct mt_coll_call coll;
    struct mt_schedule schedule;
    int ncalls, ncolls;
    double seconds[MOST_COLLS][2];
    struct mt_samples slowed[MT_NSLOWED]; /* time overlapped / time alone */
};

/* A GEMM with m = n = k: on a CPU of `flops`; false: as it was. */
static bool make_gemm(struct probe *probe, double flops) {
    const int64_t of_gpu[3] = {4096, 4096, 4096};
    if (probe->profile->gpu && probe->gemm.shape.rows) return false;
    if (probe->profile->gpu) {
        enum mt_type type = probe->profile->flops[MT_BF16] > 0 ? MT_BF16 : MT_F32;
        mt_grid_make(MT_OP_matmul, &(struct mt_attr){.nm = 1, .nn = 1, .nk = 1}, "Try Tyx", "Trx", type, of_gpu,
                     &probe->gemm);
        return true;
    }
    int64_t n = (int64_t)fmin(fmax(cbrt(0.5 * flops) / 64, 1), 32) * 64, sizes[3] = {n, n, n};
    mt_grid_make(MT_OP_matmul, &(struct mt_attr){.nm = 1, .nn = 1, .nk = 1}, "Try Tyx", "Trx", MT_F32, sizes,
                 &probe->gemm);
    return true;
}

static void make_coll(struct probe *probe, int64_t size_bytes) {
    struct mt_profile *p = probe->profile;
    int n = probe->group.n, me = 0;
    while (probe->group.ranks[me] != p->rank) me++;
    for (int r = 0; r < n; r++) probe->counts[r] = size_bytes / 4 * (r + 1) / n - size_bytes / 4 * r / n;
    mt_schedule_release(&probe->schedule);
    struct mt_coll *problem = &probe->coll.problem;
    *problem = (struct mt_coll){MT_ALL_REDUCE, MT_SUM, MT_F32, MT_F32, n, me, 0, probe->counts, false, NULL};
    mt_coll_choose(problem, p->pairs[0].latency.median, p->pairs[0].bandwidth.median)
        ->schedule(problem, &probe->schedule);
    probe->coll.schedule = &probe->schedule;
    probe->coll.message_count[0] = size_bytes / 4;
}

/* Start on all ranks at once, and wait for the end of both streams. */
static enum mt_status run(struct probe *probe, bool compute, bool communicate, struct mt_err *err) {
    double come = 0;
    enum mt_status st = mt_exchange_max(probe->profile->exchange, &come, 1, err);
    if (st) return st;
    communicate = communicate && probe->group.n > 1;
    for (int i = 0; i < probe->ncolls && communicate; i++)
        mt_stream_coll(probe->communication, &probe->coll, probe->seconds[i]);
    if (compute) st = mt_calls_queue(probe->calls, probe->compute, &probe->gemm, probe->ncalls, err);
    double times_s[MT_MOST_CALLS];
    struct mt_err ignored = MT_ERR_INIT;
    if (compute && !st) st = mt_calls_wait(probe->calls, probe->compute, times_s, err);
    /* Longer than the communicator's own deadline, whose message names the rank that it waits for. */
    enum mt_status other = mt_stream_sync(probe->communication, 1.25 * probe->profile->deadline_s + 2, &ignored);
    if (!st && other) *err = ignored;
    return st ? st : other;
}

/* The median time of the spans within [from_s, to_s]; 0 if there is none. */
static double median_within(const double (*spans)[2], int count, double from_s, double to_s) {
    double times_s[MOST_COLLS];
    size_t n = 0;
    for (int i = 0; i < count; i++)
        if (spans[i][0] >= from_s && spans[i][1] <= to_s) times_s[n++] = spans[i][1] - spans[i][0];
    return n ? mt_median(times_s, n) : 0;
}

/* Run computation alone, communication alone, and both. */
static enum mt_status once(void *context, int which, double slot_s, struct mt_err *err) {
    struct probe *probe = context;
    const double(*gemms)[2] = mt_calls_seconds(probe->calls), (*colls)[2] = (const double(*)[2])probe->seconds;
    (void)slot_s, (void)which; /* every run gives both figures */
    enum mt_status st = run(probe, true, false, err);
    if (st) return st;
    double gemm_alone_s = median_within(gemms, probe->ncalls, 0, INFINITY);
    if ((st = run(probe, false, true, err))) return st;
    double coll_alone_s = median_within(colls, probe->ncolls, 0, INFINITY);
    if ((st = run(probe, true, true, err)) || probe->group.n < 2) return st;
    double from_s = fmax(gemms[0][0], colls[0][0]);
    double to_s = fmin(gemms[probe->ncalls - 1][1], colls[probe->ncolls - 1][1]);
    double gemm_both_s = median_within(gemms, probe->ncalls, from_s, to_s);
    double coll_both_s = median_within(colls, probe->ncolls, from_s, to_s);
    /* None has ended in a time in which it would have, alone: it takes longer. */
    if (coll_both_s == 0 && to_s - from_s > coll_alone_s) coll_both_s = to_s - from_s;
    if (gemm_both_s > 0) mt_samples_add(&probe->slowed[MT_SLOWED_COMPUTE], gemm_both_s / gemm_alone_s);
    if (coll_both_s > 0) mt_samples_add(&probe->slowed[MT_SLOWED_COMM], coll_both_s / coll_alone_s);
    return MT_OK;
}

/* The median time of the GEMM alone, the largest of all ranks'. */
static enum mt_status time_gemm(struct probe *probe, double *gemm_s, struct mt_err *err) {
    probe->ncalls = LEAST_CALLS;
    enum mt_status st = mt_exchange_agree(probe->profile->exchange, run(probe, true, false, err), err);
    if (st) return st;
    *gemm_s = median_within(mt_calls_seconds(probe->calls), probe->ncalls, 0, INFINITY);
    return mt_exchange_max(probe->profile->exchange, gemm_s, 1, err);
}

/* A GEMM that takes as long as a large one in training, or as the budget allows: by the rate of the class, and again by
 * its time. Equal on all ranks. */
static enum mt_status choose_gemm(struct probe *probe, double budget_s, double *gemm_s, struct mt_err *err) {
    double wanted_s = fmin(longest_gemm_s, gemm_part * budget_s);
    make_gemm(probe, wanted_s * probe->profile->flops[MT_F32]);
    enum mt_status st = time_gemm(probe, gemm_s, err);
    if (st || !make_gemm(probe, wanted_s / *gemm_s * probe->gemm.shape.flops)) return st;
    return time_gemm(probe, gemm_s, err);
}

/* Choose the largest message of which several are covered by GEMMs, as many of them as fill the time of the usual
 * number of GEMMs, and as many GEMMs as cover these. (Small messages wait for a core, or for a kernel to end, longer
 * than they last; in training most bytes are in large ones.) Equal on all ranks. */
static enum mt_status choose_message(struct probe *probe, double budget_s, struct mt_err *err) {
    struct mt_profile *p = probe->profile;
    double gemm_s = 0, coll_s = 0;
    enum mt_status st = choose_gemm(probe, budget_s, &gemm_s, err);
    for (int m = 0; m < NMESSAGES && !st; m++) {
        make_coll(probe, messages[p->gpu][m]);
        probe->ncolls = LEAST_COLLS;
        if ((st = mt_exchange_agree(p->exchange, run(probe, false, true, err), err))) break;
        coll_s = 0;
        if (probe->group.n > 1) coll_s = median_within((const double(*)[2])probe->seconds, LEAST_COLLS, 0, INFINITY);
        if ((st = mt_exchange_max(p->exchange, &coll_s, 1, err))) break;
        if (longer * LEAST_COLLS * coll_s <= MT_MOST_CALLS * gemm_s) break;
    }
    if (st || !(coll_s > 0)) return st;
    probe->ncolls = (int)fmin(fmax(USUAL_CALLS * gemm_s / coll_s, LEAST_COLLS), MOST_COLLS);
    probe->ncalls = (int)fmin(fmax(longer * probe->ncolls * coll_s / gemm_s, LEAST_CALLS), MT_MOST_CALLS);
    return MT_OK;
}

/* The median over all ranks that have samples. */
static enum mt_status gather_slowdowns(struct probe *probe, double slowdown[MT_NSLOWED], struct mt_err *err) {
    struct mt_profile *p = probe->profile;
    double mine[MT_NSLOWED], *all = mt_new(&p->arena, double, p->nranks *MT_NSLOWED);
    for (int k = 0; k < MT_NSLOWED; k++)
        mine[k] = probe->slowed[k].count ? mt_samples_interval(&probe->slowed[k]).median : -1;
    enum mt_status st = mt_exchange_gather(p->exchange, mine, sizeof mine, all, err);
    for (int k = 0; k < MT_NSLOWED && !st; k++) {
        double *measured = mt_new(&p->arena, double, p->nranks);
        size_t n = 0;
        for (int r = 0; r < p->nranks; r++)
            if (all[r * MT_NSLOWED + k] > 0) measured[n++] = all[r * MT_NSLOWED + k];
        slowdown[k] = n ? fmax(mt_median(measured, n) - 1, 0) : -1;
    }
    return st;
}

static enum mt_status measure_link(struct probe *probe, bool between, double budget_s, struct mt_err *err) {
    struct mt_profile *p = probe->profile;
    const struct mt_measure measure = {2, probe->slowed, once, probe,
                                       between ? "overlap, between nodes" : "overlap, within nodes"};
    enum mt_status st = choose_message(probe, budget_s, err);
    if (!st) st = mt_measure_run(&measure, p->exchange, budget_s, err);
    if (!st) st = gather_slowdowns(probe, p->slowdown[between], err);
    for (int k = 0; k < MT_NSLOWED; k++) mt_samples_release(&probe->slowed[k]);
    return st;
}

/* A GPU is opened once in a process, so its device is shared. */
static enum mt_status open_streams(struct probe *probe, struct mt_err *err) {
    const int64_t room_bytes = (int64_t)(probe->profile->gpu ? 4096 : 256) << 20;
    enum mt_status st = MT_OK;
    probe->device = probe->profile->device;
    if (!probe->profile->gpu) st = mt_device_open("cpu", &probe->device, err);
    if (st || (st = mt_stream_new(probe->device, "compute", &probe->compute, err)) ||
        (st = mt_stream_new(probe->device, "comm", &probe->communication, err)))
        return st;
    return mt_calls_new(probe->device, room_bytes, &probe->calls, err);
}

enum mt_status mt_probe_overlap(struct mt_profile *p, double budget_s, struct mt_err *err) {
    struct probe probe = {.profile = p, .coll = {.comm = p->wire, .tag = TAG, .deadline_s = p->deadline_s}};
    probe.coll.what = "AllReduce while computing";
    probe.counts = mt_new(&p->arena, int64_t, p->nranks);
    int nlinks = mt_probe_has_link(p, false) + mt_probe_has_link(p, true);
    enum mt_status st = mt_probe_buffer(p, messages[p->gpu][0], &probe.coll.message[0], err);
    if (!st) st = open_streams(&probe, err);
    st = mt_exchange_agree(p->exchange, st, err);
    for (int between = 0; between < 2 && !st; between++) {
        if (!mt_probe_has_link(p, between)) continue;
        probe.group = mt_probe_group(p, between);
        probe.coll.group = probe.group.ranks;
        st = measure_link(&probe, between, budget_s / nlinks, err);
    }
    mt_stream_free(probe.compute);
    mt_stream_free(probe.communication);
    mt_calls_free(probe.calls);
    if (probe.device != p->device) mt_device_close(probe.device);
    mt_schedule_release(&probe.schedule);
    mt_device_free(p->device, probe.coll.message[0]);
    return st;
}
