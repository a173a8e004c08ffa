/* Rates of one kernel, from the medians of its parts.
 *
 *   a tile       of a kernel of tiles alone, which stores them locally: its time by whole rounds of the multiprocessors
 *   the sums     by movers beside the tiles, from a kernel of sums alone
 *   latency      half the time of a kernel of flags alone; the other half is its launch, as the tiles' time has one too
 *   bandwidth    bytes of the rank that sends or receives most, over the time of the puts alone; where tiles are put as
 *                they are stored, of a GEMM with a short K
 *   slowdown     by the kernel when nothing is awaited, against its tiles and its puts alone
 *
 * Puts, sums and flags are measured with the first tile. What the form for few rows (planner/overlap/few.c) puts takes
 * as long, with its flags and sums, as copies of the bytes by copy engines; it is so little that nothing slows down.
 * Where copy engines put, all but the tiles is as by chunks (rates.c), whose flags are also raised by copies, after a
 * kernel that begins the run. */
#include <math.h>
#include <mpi.h>

#include "launcher/bench/overlap/internal.h"

/* Of a tile, for its pipeline and its epilogue: measured on an H200. */
static const double fused_tile_s = 2.2e-6;

static bool same_tiles(const struct mt_overlap *a, const struct mt_overlap *b) {
    return a->tile[0] == b->tile[0] && a->tile[1] == b->tile[1] && mt_overlap_fused_few(a) == mt_overlap_fused_few(b);
}

const struct mt_bench_variant *mt_bench_fused_part_of(const struct mt_bench_case *c, enum mt_bench_part part,
                                                      const struct mt_overlap *problem) {
    for (int i = 0; i < c->nvariants; i++) {
        const struct mt_bench_variant *v = &c->variants[i];
        if (v->part != part || v->problem.how != MT_OVERLAP_FUSED) continue;
        if (problem ? same_tiles(&v->problem, problem) : !mt_overlap_fused_few(&v->problem)) return v;
    }
    return NULL;
}

struct own {
    int workers;
    double each_s, memory_Bps; /* of a tile; of all sums */
};

static struct own find_own(const struct mt_bench_case *c, const struct mt_overlap *p) {
    const struct mt_bench_variant *tiles = mt_bench_fused_part_of(c, MT_BENCH_TILES, p);
    const struct mt_bench_variant *sums = mt_bench_fused_part_of(c, MT_BENCH_SUMS, NULL);
    struct own own = {.memory_Bps = INFINITY};
    int all, ntiles = 0, at_once = own.workers = mt_device_multiprocessors(c->bench->device, &all);
    if (mt_overlap_fused_few(p)) at_once = mt_overlap_few_of(p, c->bench->rank, own.workers).workers;
    for (int t = 0; t < tiles->schedule.ntiles; t++) ntiles += tiles->schedule.tiles[t].kind == MT_TILE_MATMUL;
    own.each_s = mt_bench_own_median(c, tiles) / fmax(1, ceil((double)ntiles / at_once));
    if (!sums) return own;
    double launch_s = mt_bench_fused_part_of(c, MT_BENCH_FLAGS, NULL)->median_s / 2;
    double sums_s = mt_bench_own_median(c, sums);
    own.memory_Bps = mt_bench_bytes_of_sums(&sums->problem, &sums->schedule) / fmax(sums_s / 2, sums_s - launch_s);
    return own;
}

/* The rates of rank r but for what is put. */
static struct mt_overlap_rates rates_of(const struct mt_overlap *p, int r, const struct own *own) {
    struct mt_overlap_rates rates = {.workers = own->workers,
                                     .memory_Bps = own->memory_Bps,
                                     .whole_tiles = true,
                                     .within = true,
                                     .egress_Bps = INFINITY,
                                     .ingress_Bps = INFINITY};
    if (mt_overlap_fused_few(p)) {
        struct mt_overlap_few few = mt_overlap_few_of(p, r, own->workers);
        rates.memory_Bps = INFINITY; /* sums of few rows are in the cache, and not by movers, as those measured */
        mt_overlap_few_rates(p, r, &few, own->each_s, &rates);
        return rates;
    }
    double k = (double)(p->form == MT_OVERLAP_GATHER ? p->k : p->shares[r]);
    rates.tile_s = fmin(fused_tile_s, own->each_s / 4);
    rates.flops = 2 * (double)(p->tile[0] * p->tile[1]) * k / (own->each_s - rates.tile_s);
    rates.streams = mt_overlap_fused_streams(p, own->workers), rates.unsent = mt_overlap_fused_unsent(p, own->workers);
    if (isinf(own->memory_Bps)) return rates;
    rates.movers = mt_overlap_fused_movers(p, own->workers);
    rates.memory_Bps /= rates.movers;
    return rates;
}

/* Large tiles have been measured together with puts; of others it is as of the first. */
static double slowdown_of(const struct mt_bench_case *c, const struct mt_overlap *p, double puts_s) {
    if (mt_overlap_fused_few(p)) return 1;
    const struct mt_bench_variant *together = mt_bench_fused_part_of(c, MT_BENCH_TOGETHER, p);
    if (!together) together = mt_bench_fused_part_of(c, MT_BENCH_TOGETHER, NULL);
    const struct mt_bench_variant *tiles = mt_bench_fused_part_of(c, MT_BENCH_TILES, &together->problem);
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
    double slower = slowdown_of(c, p, puts->median_s), latency = flags_s / 2, egress = INFINITY;
    const struct mt_bench_variant *engine = mt_bench_first_part_of(c, MT_BENCH_ENGINE);
    if (mt_overlap_fused_few(p) && engine) {
        bandwidth = egress = mt_bench_engine_bytes(p) / engine->median_s;
        latency = 0;
    }
    for (int r = 0; r < p->n; r++) {
        found.rates[r] = rates_of(p, r, &all[r]);
        found.rates[r].compute_slowdown = found.rates[r].put_slowdown = slower;
        found.rates[r].egress_Bps = egress;
        for (int q = 0; q < p->n; q++) bandwidth_Bps[r * p->n + q] = bandwidth, latency_s[r * p->n + q] = latency;
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
