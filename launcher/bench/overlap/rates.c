/* Rates from the medians of turns, predictions by them, and the choice of a form.
 *
 *   a tile       its share of the tiles' time alone, as its operations or its bytes; and a time of each, by what many
 *                small ones take longer than few large ones
 *   latency      the time of the flags alone
 *   bandwidth    bytes of the rank that sends or receives most, over the time of the puts alone, less the flags' and
 * the additions' a put        by what many small puts take longer than few large ones
 *
 *   slowdown     of GPUs, by the form when nothing is awaited, against its GEMM and its puts alone
 *   in step      what a GEMM takes longer where ranks wait for each other each time: the slower of them, time by time,
 * is slower than either on average
 *
 * All ranks work in these turns as they do in the forms, so that what ranks of a host take from each other is in the
 * rates. Sequential is predicted as the GEMM, in step, the collective and the handovers between their streams. */
#include <math.h>
#include <mpi.h>
#include <stdlib.h>

#include "kernels/base/number/stats.h"
#include "launcher/bench/overlap/internal.h"
#include "launcher/session/agree.h"

/* Overlapped only where it is predicted to be faster than sequential by this, and by what the medians may be off. */
static const double worth = 0.01, most_doubt = 0.2;
static const double most_slowdown = 1; /* beyond 1 */

/* Of several the last: of puts the coarse ones, of tiles those of the usual size. */
static const struct mt_bench_variant *find(const struct mt_bench_case *c, enum mt_bench_part part) {
    const struct mt_bench_variant *last = NULL;
    for (int i = 0; i < c->nvariants; i++)
        if (c->variants[i].part == part) last = &c->variants[i];
    return last;
}
static const struct mt_bench_variant *find_first(const struct mt_bench_case *c, enum mt_bench_part part) {
    int i = 0;
    while (c->variants[i].part != part) i++;
    return &c->variants[i];
}

static double own_median(const struct mt_bench_case *c, const struct mt_bench_variant *v) {
    return v ? mt_median(v->own_s, (size_t)c->rounds) : 0;
}

/* ---- work of a schedule ---- */

/* Units of a GPU's GEMMs, as tiles of its library are mostly. */
static const int64_t unit[2] = {128, 256};

/* Of the GEMM; of a GPU with `units` multiprocessors in whole waves. */
static double operations(const struct mt_overlap *p, int rank, const struct mt_overlap_schedule *s, int units) {
    double k = (double)(p->form == MT_OVERLAP_GATHER ? p->k : p->shares[rank]), sum = 0;
    for (int t = 0; t < s->ntiles; t++) {
        const struct mt_overlap_tile *tile = &s->tiles[t];
        if (tile->kind != MT_TILE_MATMUL) continue;
        double parts = ceil((double)tile->rows / (double)unit[0]) * ceil((double)tile->cols / (double)unit[1]);
        sum += units ? 2.0 * ceil(parts / units) * units * (double)(unit[0] * unit[1]) * k
                     : 2.0 * (double)tile->rows * (double)tile->cols * k;
    }
    return sum;
}

/* That tiles of sums and copies read and write, as predictions count them. */
static double bytes_of_sums(const struct mt_overlap *p, const struct mt_overlap_schedule *s) {
    double sum = 0;
    for (int t = 0; t < s->ntiles; t++) {
        const struct mt_overlap_tile *tile = &s->tiles[t];
        if (tile->kind == MT_TILE_MATMUL) continue;
        int sources = tile->kind == MT_TILE_ADD ? p->n : 1;
        sum +=
            (double)tile->rows * (double)tile->cols * (double)(sources * mt_type_size(p->wire) + mt_type_size(p->out));
    }
    return sum;
}

struct traffic {
    double bytes; /* of the rank that sends or receives most */
    double puts;  /* of the rank with most of them */
};

static struct traffic traffic_of(const struct mt_overlap *p, struct mt_arena *arena) {
    struct traffic most = {0};
    double *received = mt_new(arena, double, p->n);
    for (int r = 0; r < p->n; r++) {
        struct mt_overlap_schedule s;
        double sent = 0, puts = 0;
        mt_overlap_schedule(p, r, &s);
        for (int j = 0; j < s.nputs; j++) {
            const struct mt_overlap_put *put = &s.puts[j];
            if (put->peer == r || !put->rows) continue;
            double bytes = (double)(put->rows * put->cols * mt_type_size(mt_overlap_type(p, put->to)));
            sent += bytes, received[put->peer] += bytes, puts++;
        }
        mt_overlap_schedule_release(&s);
        most.bytes = fmax(most.bytes, sent), most.puts = fmax(most.puts, puts);
    }
    for (int r = 0; r < p->n; r++) most.bytes = fmax(most.bytes, received[r]);
    return most;
}

/* ---- rates ---- */

/* *put_s: of a put, beside its bytes. */
static double bandwidth_of(struct mt_bench_case *c, double latency_s, double *put_s) {
    const struct mt_bench_variant *coarse = find(c, MT_BENCH_PUTS), *fine = find_first(c, MT_BENCH_PUTS);
    struct traffic of_coarse = traffic_of(&coarse->problem, &c->arena), of_fine = traffic_of(&fine->problem, &c->arena);
    double sums_s = find(c, MT_BENCH_SUMS) ? find(c, MT_BENCH_SUMS)->median_s : 0;
    *put_s = 0;
    if (of_fine.puts > of_coarse.puts)
        *put_s = fmax(0, (fine->median_s - coarse->median_s) / (of_fine.puts - of_coarse.puts));
    double least_s = coarse->median_s / 20;
    return of_coarse.bytes / fmax(least_s, coarse->median_s - sums_s - latency_s - of_coarse.puts * *put_s);
}

static double in_step(const struct mt_bench_case *c) {
    double tiles_s = find(c, MT_BENCH_TILES)->median_s;
    return fmax(1, (find(c, MT_BENCH_IN_STEP)->median_s - find(c, MT_BENCH_FLAGS)->median_s) / tiles_s);
}

/* How many times as long computing and putting take while the other goes on: by how much longer they take together than
 * the longer of them. A CPU does one after the other. */
static double slowdown(const struct mt_bench_case *c, double latency_s) {
    const struct mt_bench_variant *together = find(c, MT_BENCH_TOGETHER), *sums = find(c, MT_BENCH_SUMS);
    if (!together) return 1;
    double tiles_s = find(c, MT_BENCH_TILES)->median_s, sums_s = sums ? sums->median_s : 0;
    double puts_s = find(c, MT_BENCH_PUTS)->median_s - sums_s - latency_s;
    double over_s = together->median_s - sums_s - latency_s - fmax(tiles_s, puts_s);
    return 1 + fmin(most_slowdown, fmax(0, over_s / fmax(1e-9, fmin(tiles_s, puts_s))));
}

/* Of this rank: operations and bytes a second, and what a tile takes beside them: what many small tiles of a GEMM take
 * longer than few large ones. */
struct own {
    double flops, memory_Bps, tile_s;
    int units; /* 0: a CPU */
};

static struct own find_own(const struct mt_bench_case *c) {
    const struct mt_bench_variant *tiles = find(c, MT_BENCH_TILES), *large = find_first(c, MT_BENCH_TILES);
    const struct mt_bench_variant *sums = find(c, MT_BENCH_SUMS);
    double tiles_s = own_median(c, tiles), sums_s = own_median(c, sums);
    struct own own = {.memory_Bps = INFINITY};
    int all;
    own.units = mt_device_multiprocessors(c->bench->device, &all);
    int more = tiles->schedule.ntiles - large->schedule.ntiles;
    if (more > 0) own.tile_s = fmax(0, (tiles_s - own_median(c, large)) / more);
    own.tile_s = fmin(own.tile_s, tiles_s / 2 / tiles->schedule.ntiles);
    own.flops = operations(&c->problem, c->bench->rank, &tiles->schedule, own.units) /
                (in_step(c) * (tiles_s - own.tile_s * tiles->schedule.ntiles));
    if (sums)
        own.memory_Bps =
            bytes_of_sums(&c->problem, &sums->schedule) / fmax(sums_s / 2, sums_s - own.tile_s * sums->schedule.ntiles);
    return own;
}

static void find_rates(struct mt_bench_case *c, struct mt_overlap_rates *rates, double *bandwidth_Bps,
                       double *latency_s) {
    const struct mt_overlap *p = &c->problem;
    double put_s, latency = find(c, MT_BENCH_FLAGS)->median_s, bandwidth = bandwidth_of(c, latency, &put_s);
    struct own own = find_own(c), *all = mt_new(&c->arena, struct own, p->n);
    MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, MPI_COMM_WORLD);
    double slower = slowdown(c, latency);
    for (int r = 0; r < p->n; r++) {
        rates[r] = (struct mt_overlap_rates){.workers = 1,
                                             .flops = all[r].flops,
                                             .tile_s = all[r].tile_s,
                                             .memory_Bps = all[r].memory_Bps,
                                             .streams = 1,
                                             .put_s = put_s,
                                             .unit = {unit[0], unit[1]},
                                             .units = all[r].units,
                                             .holds = !all[r].units,
                                             .egress_Bps = INFINITY,
                                             .ingress_Bps = INFINITY,
                                             .compute_slowdown = slower,
                                             .put_slowdown = slower};
        for (int q = 0; q < p->n; q++) bandwidth_Bps[r * p->n + q] = bandwidth, latency_s[r * p->n + q] = latency;
    }
}

/* ---- predictions ---- */

/* How far the prediction of sequential, or of a form, may be off: half the interval of the longest part. */
static double doubt(const struct mt_bench_case *c) {
    size_t n = (size_t)c->rounds;
    double gemm = mt_interval_error(mt_median_interval(c->variants[c->gemm_alone].time_s, n));
    double tiles = mt_interval_error(mt_median_interval(find(c, MT_BENCH_IN_STEP)->time_s, n));
    return fmin(most_doubt, fmax(gemm, tiles));
}

/* All variants have been measured, the one that is chosen among them. Rates are those of the implementation that the
 * device takes by itself. Others are measured, but neither predicted nor chosen. */
static enum mt_status choose(struct mt_bench_case *c, const struct mt_overlap_rates *rates,
                             const struct mt_overlap_links *links, struct mt_err *err) {
    struct mt_overlap_prediction now;
    double best_s = (1 - worth - doubt(c)) * c->variants[c->sequential].predicted_s;
    enum mt_status st = MT_OK;
    c->chosen = c->sequential;
    for (int i = 0; i < c->nvariants && !st; i++) {
        struct mt_bench_variant *v = &c->variants[i];
        if (v->part != MT_BENCH_OVERLAPPED || v->problem.how) continue;
        st = mt_overlap_predict_problem(&v->problem, rates, links, &now, err);
        v->predicted_s = now.s;
        if (now.s < best_s) best_s = now.s, c->chosen = i;
    }
    return st;
}

static void find_fastest(struct mt_bench_case *c) {
    c->collective = -1;
    for (int i = 0; i < c->nvariants; i++) {
        struct mt_bench_variant *v = &c->variants[i];
        v->median_s = mt_median(v->time_s, (size_t)c->rounds);
        if (v->part == MT_BENCH_GEMM) c->gemm_alone = i;
        if (v->part == MT_BENCH_SEQUENTIAL) c->sequential = c->best = i;
        if (v->part == MT_BENCH_OVERLAPPED && v->median_s < c->variants[c->best].median_s) c->best = i;
        if (v->part != MT_BENCH_COLLECTIVE && v->part != MT_BENCH_PUTS) continue;
        if (c->collective < 0 || v->median_s < c->variants[c->collective].median_s) c->collective = i;
    }
}

struct found {
    struct mt_overlap_rates *rates;
    struct mt_overlap_links links;
};

static struct found find_all(struct mt_bench_case *c) {
    int n = c->problem.n;
    double *bandwidth_Bps = mt_new(&c->arena, double, n *n), *latency_s = mt_new(&c->arena, double, n *n);
    struct found found = {mt_new(&c->arena, struct mt_overlap_rates, n), {bandwidth_Bps, latency_s}};
    find_fastest(c);
    find_rates(c, found.rates, bandwidth_Bps, latency_s);
    c->rates = found.rates[0];
    for (int r = 1; r < n; r++)
        if (found.rates[r].flops < c->rates.flops) c->rates = found.rates[r];
    c->bandwidth_Bps = bandwidth_Bps[1], c->latency_s = latency_s[1], c->in_step = in_step(c);
    return found;
}

enum mt_status mt_bench_case_judge(struct mt_bench_case *c, struct mt_err *err) {
    struct found found = find_all(c);
    const struct mt_bench_variant *handover = find(c, MT_BENCH_HANDOVER); /* none in a captured graph */
    c->variants[c->sequential].predicted_s = in_step(c) * c->variants[c->gemm_alone].median_s +
                                             find(c, MT_BENCH_COLLECTIVE)->median_s +
                                             (handover ? handover->median_s : 0);
    return mt_agree(MPI_COMM_WORLD, choose(c, found.rates, &found.links, err), err);
}

enum mt_status mt_bench_case_groups(struct mt_bench_case *c, struct mt_overlap *problem, struct mt_err *err) {
    struct found found = find_all(c);
    struct mt_overlap_prediction prediction;
    *problem = c->problem;
    enum mt_status st = mt_overlap_best_groups(problem, found.rates, &found.links, &c->arena, &prediction, err);
    return mt_agree(MPI_COMM_WORLD, st, err);
}
