/* One-sided puts between GPUs of a host (kernels/device/put.h), which overlapped kernels are priced by: how fast copy
 * engines and kernels put into a peer's memory, how long a signal takes, and what puts and a GEMM cost each other.
 * Pairs without peer access have no figures.
 *
 * For rates the first rank of a pair puts to the second, and neither computes. For slowdowns both compute and put to
 * each other, as in an overlapped GEMM: so many puts that they outlast the GEMMs, of which the slowdown is taken; then
 * so few that the GEMMs outlast them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/log.h"
#include "kernels/device/put.h"
#include "profiler/probes/internal.h"

enum { SAMPLES = 3, REPEATS = 8, SMALL_REPEATS = 32, FLIGHT_BYTES = 32 << 10, ROUNDS = 400, GEMMS = 12, EXTENT = 4096 };
enum { COPY_BPS, FAILED, PUTS, FIGURES = PUTS + MT_CLUSTER_PUTS_FIGURES };
static const int64_t large_bytes = 64 << 20, small_bytes = 256 << 10, signal_bytes = 16;
static const double longer = 2, least_put_s = 1e-9, turns_deadline_s = 10;

struct probe {
    struct mt_profile *profile;
    void *buffer;
    char (*handles)[MT_DEVICE_HANDLE_BYTES]; /* [nranks]; all zero: none */
    struct mt_stream *compute;
    struct mt_calls *calls;
    struct mt_grid_case gemm;
    double (*figures)[FIGURES]; /* [npairs]: copy_Bps, 1 if a rank has failed, then puts; all 0 for pairs of others */
    /* This rank's pair in a round; -1: it has none, or the pair has failed. */
    int pair, peer;
    void *there;
    struct mt_cluster_puts puts;
    double copy_Bps, put_s, gemm_s;
};

/* ---- puts alone ---- */

/* The fastest of some samples. */
static enum mt_status time_puts(struct probe *probe, struct mt_put_probe put, double *each_s, struct mt_err *err) {
    struct mt_device *device = probe->profile->device;
    enum mt_status st = MT_OK;
    put.to = probe->there, put.from = probe->buffer;
    for (int i = 0; i < SAMPLES && !st; i++) {
        double s = 0;
        st = mt_device_puts_start(device, &put, err);
        if (!st) st = mt_device_puts_finish(device, &s, err);
        if (!st && (!i || s < *each_s)) *each_s = fmax(s, least_put_s);
    }
    return st;
}

static enum mt_status import(struct probe *probe, struct mt_err *err) {
    return mt_device_import(probe->profile->device, probe->handles[probe->peer], &probe->there, err);
}

/* Copy engines are timed with two sizes, through which a line is laid; of two kinds of kernels the faster counts. */
static enum mt_status measure_alone(struct probe *probe, struct mt_err *err) {
    const struct mt_profile *p = probe->profile;
    int blocks = p->places[p->rank].threads;
    struct mt_put_probe large = {.how = MT_PUT_ENGINE, .size_bytes = large_bytes, .repeats = REPEATS};
    struct mt_put_probe small = {.how = MT_PUT_ENGINE, .size_bytes = small_bytes, .repeats = SMALL_REPEATS};
    double small_s = 0;
    enum mt_status st = time_puts(probe, large, &probe->put_s, err);
    if (!st) st = time_puts(probe, small, &small_s, err);
    if (st || p->pairs[probe->pair].a != p->rank) return st;
    probe->copy_Bps = (double)large_bytes / probe->put_s;
    probe->puts.copy_s = fmax(0, small_s - (double)small_bytes / probe->copy_Bps);
    large.blocks = blocks > 0 ? blocks : 1, large.flight_bytes = FLIGHT_BYTES;
    for (int bulk = 0; bulk < 2; bulk++) {
        double s = 0;
        struct mt_err missing = MT_ERR_INIT;
        large.how = bulk ? MT_PUT_BULK : MT_PUT_STORES;
        st = time_puts(probe, large, &s, &missing);
        if (st == MT_EMISSING) continue;
        if (st) return *err = missing, st;
        probe->puts.blocks_Bps = fmax(probe->puts.blocks_Bps, (double)large_bytes / s);
    }
    return MT_OK;
}

/* Words of signals begin as zeros, but the copies before may have written others there. */
static enum mt_status clear(struct probe *probe, struct mt_err *err) {
    static const char zeros[MT_TURNS_BYTES];
    return mt_device_copy_in(probe->profile->device, probe->buffer, zeros, sizeof zeros, err);
}

static enum mt_status measure_signal(struct probe *probe, struct mt_err *err) {
    const struct mt_profile *p = probe->profile;
    struct mt_turns_probe turns = {.mine = probe->buffer,
                                   .peer = probe->there,
                                   .size_bytes = signal_bytes,
                                   .rounds = ROUNDS,
                                   .leads = p->pairs[probe->pair].a == p->rank,
                                   .deadline_s = fmin(turns_deadline_s, p->deadline_s),
                                   .level = MT_TURNS_WARP};
    enum mt_status st = mt_device_turns(p->device, &turns, &probe->puts.signal_s, err);
    probe->puts.signal_s = fmax(probe->puts.signal_s, least_put_s);
    return st;
}

/* ---- while computing ---- */

static enum mt_status start_puts(struct probe *probe, int repeats, struct mt_err *err) {
    struct mt_put_probe put = {.how = MT_PUT_ENGINE, .size_bytes = large_bytes, .repeats = repeats};
    put.to = probe->there, put.from = probe->buffer;
    return mt_device_puts_start(probe->profile->device, &put, err);
}

/* *gemm_s: the median GEMM's time; *put_s: each put's. Without `repeats` there are no puts. */
static enum mt_status run_both(struct probe *probe, int gemms, int repeats, double *gemm_s, double *put_s,
                               struct mt_err *err) {
    double times_s[MT_MOST_CALLS];
    struct mt_err ignored = MT_ERR_INIT;
    enum mt_status st = repeats ? start_puts(probe, repeats, err) : MT_OK;
    if (st) return st;
    st = mt_calls_queue(probe->calls, probe->compute, &probe->gemm, gemms, err);
    if (!st) st = mt_calls_wait(probe->calls, probe->compute, times_s, err);
    if (!st) *gemm_s = mt_median(times_s, (size_t)gemms);
    enum mt_status other = repeats ? mt_device_puts_finish(probe->profile->device, put_s, &ignored) : MT_OK;
    if (!st && other) *err = ignored;
    return st ? st : other;
}

/* The first GEMM chooses its kernel, and is not timed. */
static enum mt_status measure_gemm(struct probe *probe, struct mt_err *err) {
    double ignored_s;
    enum mt_status st = run_both(probe, 1, 0, &ignored_s, NULL, err);
    return st ? st : run_both(probe, GEMMS, 0, &probe->gemm_s, NULL, err);
}

static enum mt_status slow_gemm(struct probe *probe, struct mt_err *err) {
    double gemm_s = 0, put_s;
    int repeats = (int)fmin(ceil(longer * GEMMS * probe->gemm_s / probe->put_s), 4096);
    enum mt_status st = run_both(probe, GEMMS, repeats, &gemm_s, &put_s, err);
    probe->puts.compute_slowdown = st ? 0 : fmax(0, gemm_s / probe->gemm_s - 1);
    return st;
}

static enum mt_status slow_puts(struct probe *probe, struct mt_err *err) {
    double gemm_s, put_s = 0;
    int repeats = (int)fmax(GEMMS * probe->gemm_s / longer / probe->put_s, 1);
    enum mt_status st = run_both(probe, GEMMS, repeats, &gemm_s, &put_s, err);
    probe->puts.put_slowdown = st ? 0 : fmax(0, put_s / probe->put_s - 1);
    return st;
}

/* ---- the whole ---- */

static enum mt_status (*const steps[])(struct probe *, struct mt_err *) = {
    import, measure_alone, clear, measure_signal, measure_gemm, slow_gemm, slow_puts};
enum { NSTEPS = sizeof steps / sizeof *steps };

static void begin_round(struct probe *probe, const int *round_of, int round) {
    static const char none[MT_DEVICE_HANDLE_BYTES];
    struct mt_profile *p = probe->profile;
    probe->pair = -1, probe->there = NULL;
    probe->puts = (struct mt_cluster_puts){0}, probe->copy_Bps = 0;
    for (int i = 0; i < p->npairs; i++) {
        const struct mt_pair_times *pair = &p->pairs[i];
        if (round_of[i] != round || pair->between || (pair->a != p->rank && pair->b != p->rank)) continue;
        probe->peer = pair->a == p->rank ? pair->b : pair->a;
        bool reachable = memcmp(probe->handles[pair->a], none, sizeof none) != 0 &&
                         memcmp(probe->handles[pair->b], none, sizeof none) != 0;
        if (reachable) probe->pair = i;
    }
}

/* A pair that cannot put does not fail the profile. Both ranks have done a step before either does the next. */
static enum mt_status take_steps(struct probe *probe, struct mt_err *err) {
    struct mt_profile *p = probe->profile;
    int pair = probe->pair;
    enum mt_status st = MT_OK;
    for (int s = 0; s < NSTEPS && !st; s++) {
        struct mt_err failure = MT_ERR_INIT;
        double come = 0;
        if (probe->pair >= 0 && steps[s](probe, &failure)) {
            mt_log(MT_LOG_INFO, "no figures of puts from rank %d to rank %d: %s", p->rank, probe->peer, failure.text);
            probe->pair = -1;
        }
        st = mt_exchange_max(p->exchange, &come, 1, err);
    }
    if (probe->there) mt_device_forget(p->device, probe->there);
    if (pair >= 0) {
        probe->figures[pair][COPY_BPS] = probe->copy_Bps;
        probe->figures[pair][FAILED] = probe->pair < 0;
        for (int f = 0; f < MT_CLUSTER_PUTS_FIGURES; f++)
            probe->figures[pair][PUTS + f] = mt_cluster_puts_figure(&probe->puts, f);
    }
    return st;
}

/* A figure is the larger (slower) one of the pair's two ranks, unless one has failed; rates are measured by the first
 * alone. */
static enum mt_status measure(struct probe *probe, const int *round_of, int nrounds, struct mt_err *err) {
    struct mt_profile *p = probe->profile;
    enum mt_status st = MT_OK;
    for (int round = 0; round < nrounds && !st; round++) {
        begin_round(probe, round_of, round);
        st = take_steps(probe, err);
    }
    if (!st) st = mt_exchange_max(p->exchange, probe->figures[0], p->npairs * FIGURES, err);
    for (int i = 0; i < p->npairs && !st; i++) {
        struct mt_cluster_puts *puts = &p->pairs[i].puts;
        p->pairs[i].copy_Bps = probe->figures[i][COPY_BPS];
        for (int f = 0; f < MT_CLUSTER_PUTS_FIGURES && !(probe->figures[i][FAILED] > 0); f++)
            *(double *)((char *)puts + mt_cluster_puts_figures[f].offset) = probe->figures[i][PUTS + f];
    }
    return st;
}

static enum mt_status open(struct probe *probe, struct mt_err *err) {
    struct mt_profile *p = probe->profile;
    const int64_t sizes[3] = {EXTENT, EXTENT, EXTENT}, room_bytes = (int64_t)4096 << 20;
    enum mt_type type = p->flops[MT_BF16] > 0 ? MT_BF16 : MT_F32;
    mt_grid_make(MT_OP_matmul, &(struct mt_attr){.nm = 1, .nn = 1, .nk = 1}, "Try Tyx", "Trx", type, sizes,
                 &probe->gemm);
    enum mt_status st = mt_probe_buffer(p, large_bytes, &probe->buffer, err);
    if (!st) st = mt_stream_new(p->device, "compute", &probe->compute, err);
    return st ? st : mt_calls_new(p->device, room_bytes, &probe->calls, err);
}

enum mt_status mt_probe_puts(struct mt_profile *p, double budget_s, struct mt_err *err) {
    struct probe probe = {.profile = p};
    char mine[MT_DEVICE_HANDLE_BYTES] = {0};
    struct mt_err ignored = MT_ERR_INIT;
    (void)budget_s; /* some milliseconds for each pair */
    if (!p->gpu || !mt_probe_has_link(p, false)) return MT_OK;
    int *round_of = mt_new(&p->arena, int, p->npairs), nrounds = mt_pairs_rounds(p, round_of);
    probe.figures = mt_arena_alloc(&p->arena, (size_t)p->npairs * sizeof *probe.figures);
    probe.handles = mt_arena_alloc(&p->arena, (size_t)p->nranks * MT_DEVICE_HANDLE_BYTES);
    enum mt_status st = open(&probe, err);
    if ((st = mt_exchange_agree(p->exchange, st, err))) goto out;
    if (mt_device_export(p->device, probe.buffer, mine, &ignored)) memset(mine, 0, sizeof mine);
    st = mt_exchange_gather(p->exchange, mine, sizeof mine, probe.handles, err);
    if (!st) st = measure(&probe, round_of, nrounds, err);
out:
    mt_stream_free(probe.compute);
    mt_calls_free(probe.calls);
    mt_device_free(p->device, probe.buffer);
    return st;
}
