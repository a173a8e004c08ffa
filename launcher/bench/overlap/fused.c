/* Rates of one kernel, from the medians of its parts.
 *
 *   a tile       of a kernel of tiles alone, which stores them locally: its time by whole rounds of the multiprocessors
 *   the sums     by movers beside the tiles, from a kernel of sums alone
 *   latency      half the time of a kernel of flags alone; the other half is its launch, as the tiles' time has one too
 *   bandwidth    bytes of the rank that sends or receives most, over the time of the puts alone; where tiles are put as
 *                they are stored, of a GEMM with a short K
 *   slowdown     by the kernel when nothing is awaited, against its tiles and its puts alone
 *
 * Puts, sums and flags are measured with the first tile. Where copy engines put, all but the tiles is as by chunks
 * (rates.c), whose flags are also raised by copies, after a kernel that begins the run. */
#include <math.h>
#include <mpi.h>

#include "launcher/bench/overlap/internal.h"

/* Of a tile, for its pipeline and its epilogue: measured on an H200. */
static const double fused_tile_s = 2.2e-6;

static bool same_tile(const int64_t a[2], const int64_t b[2]) {
    return a[0] == b[0] && a[1] == b[1];
}

const struct mt_bench_variant *mt_bench_fused_part_of(const struct mt_bench_case *c, enum mt_bench_part part,
                                                      const int64_t tile[2]) {
    for (int i = 0; i < c->nvariants; i++) {
        const struct mt_bench_variant *v = &c->variants[i];
        if (v->part == part && v->problem.how == MT_OVERLAP_FUSED && (!tile || same_tile(v->problem.tile, tile)))
            return v;
    }
    return NULL;
}

struct own {
    int workers, movers;
    double flops, tile_s, memory_Bps; /* of a worker, and of a mover */
};

static struct own find_own(const struct mt_bench_case *c, const struct mt_overlap *p) {
    const struct mt_bench_variant *tiles = mt_bench_fused_part_of(c, MT_BENCH_TILES, p->tile);
    const struct mt_bench_variant *sums = mt_bench_fused_part_of(c, MT_BENCH_SUMS, NULL);
    double k = (double)(p->form == MT_OVERLAP_GATHER ? p->k : p->shares[c->bench->rank]);
    struct own own = {.memory_Bps = INFINITY};
    int all, ntiles = 0;
    own.workers = mt_device_multiprocessors(c->bench->device, &all);
    for (int t = 0; t < tiles->schedule.ntiles; t++) ntiles += tiles->schedule.tiles[t].kind == MT_TILE_MATMUL;
    double each_s = mt_bench_own_median(c, tiles) / fmax(1, ceil((double)ntiles / own.workers));
    own.tile_s = fmin(fused_tile_s, each_s / 4);
    own.flops = 2 * (double)(p->tile[0] * p->tile[1]) * k / (each_s - own.tile_s);
    if (!sums) return own;
    double launch_s = mt_bench_fused_part_of(c, MT_BENCH_FLAGS, NULL)->median_s / 2;
    double sums_s = mt_bench_own_median(c, sums);
    own.movers = mt_overlap_fused_movers(p, own.workers);
    own.memory_Bps =
        mt_bench_bytes_of_sums(&sums->problem, &sums->schedule) / fmax(sums_s / 2, sums_s - launch_s) / own.movers;
    return own;
}

/* Large tiles have been measured together with puts; of others it is as of the first. */
static double slowdown_of(const struct mt_bench_case *c, const struct mt_overlap *p, double puts_s) {
    const struct mt_bench_variant *together = mt_bench_fused_part_of(c, MT_BENCH_TOGETHER, p->tile);
    if (!together) together = mt_bench_fused_part_of(c, MT_BENCH_TOGETHER, NULL);
    const struct mt_bench_variant *tiles = mt_bench_fused_part_of(c, MT_BENCH_TILES, together->problem.tile);
    return mt_bench_slowdown(together->median_s, tiles->median_s, puts_s);
}

/* What the kernel puts itself. */
static struct mt_bench_rates rates_of_blocks(struct mt_bench_case *c, const struct mt_overlap *p) {
    const struct mt_bench_variant *puts = mt_bench_fused_part_of(c, MT_BENCH_PUTS, NULL);
    double *bandwidth_Bps = mt_new(&c->arena, double, p->n * p->n), *latency_s = mt_new(&c->arena, double, p->n * p->n);
    struct mt_bench_rates found = {mt_new(&c->arena, struct mt_overlap_rates, p->n), {bandwidth_Bps, latency_s}};
    struct own own = find_own(c, p), *all = mt_new(&c->arena, struct own, p->n);
    MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, MPI_COMM_WORLD);
    double flags_s = mt_bench_fused_part_of(c, MT_BENCH_FLAGS, NULL)->median_s;
    double puts_s = fmax(puts->median_s / 2, puts->median_s - flags_s);
    double bandwidth = mt_bench_traffic_of(&puts->problem, &c->arena).bytes / puts_s;
    double slower = slowdown_of(c, p, puts->median_s);
    for (int r = 0; r < p->n; r++) {
        found.rates[r] = (struct mt_overlap_rates){.workers = all[r].workers,
                                                   .flops = all[r].flops,
                                                   .tile_s = all[r].tile_s,
                                                   .memory_Bps = all[r].memory_Bps,
                                                   .whole_tiles = true,
                                                   .within = true,
                                                   .movers = all[r].movers,
                                                   .streams = mt_overlap_fused_streams(p, all[r].workers),
                                                   .unsent = mt_overlap_fused_unsent(p, all[r].workers),
                                                   .egress_Bps = INFINITY,
                                                   .ingress_Bps = INFINITY,
                                                   .compute_slowdown = slower,
                                                   .put_slowdown = slower};
        for (int q = 0; q < p->n; q++) bandwidth_Bps[r * p->n + q] = bandwidth, latency_s[r * p->n + q] = flags_s / 2;
    }
    return found;
}

struct mt_bench_rates mt_bench_rates_of_fused(struct mt_bench_case *c, const struct mt_overlap *p) {
    struct mt_bench_rates found = rates_of_blocks(c, p);
    if (!p->engines) return found;
    struct mt_bench_rates chunks = mt_bench_rates_of_chunks(c);
    found.links = chunks.links;
    for (int r = 0; r < p->n; r++) {
        found.rates[r].put_s = chunks.rates[r].put_s;
        found.rates[r].compute_slowdown = chunks.rates[r].compute_slowdown;
        found.rates[r].put_slowdown = chunks.rates[r].put_slowdown;
    }
    return found;
}
