/* Rates of one kernel, from the medians of its parts.
 *
 *   a tile       of a kernel of tiles alone, which stores them locally: its time after the launch, by whole rounds of
 *                the multiprocessors; longer where tiles add what the peer sent
 *   the sums     by movers beside the tiles, from a kernel of sums alone; of a direct AllReduce, where that kernel may
 *                have copies alone, as best.c says
 *   latency      half the time of a kernel of flags alone, less what that half has of its launch; of sums, which have
 *                flags after flags, a part of what a kernel of nothing does not take
 *   bandwidth    of a gather's bytes, of the rank that sends or receives most, over the time of the puts alone; of
 *                tiles that are put as they are stored nearly that of copy engines
 *   slowdown     by the kernel when nothing is awaited, against its tiles and its puts alone; a constant where tiles
 *                add
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

/* The rest was measured on two H200, or fitted to what was, of 36 shapes. Kernels: a launch, and what half of a kernel
 * of flags has of it; kernels of sums and of flags that have nothing to do. */
static const double launch_s = 9e-6, launch_of_flags_s = 4e-6, idle_sums_s = 20e-6, idle_flags_s = 14e-6;
/* What flags of sums take beyond that: the part that delays tiles, where tiles add, and where movers do; and of the
 * latter where all rows are added; the least. */
static const double flags_part[MT_OVERLAP_NFORMS] = {0, 0.2, 0.5}, moved_flags_part = 0.7, direct_part = 0.6,
                    least_latency_s = 2e-6;
/* A sum beside its bytes, and the least rate of what adds it. */
static const double sum_s = 0.05e-6, least_sum_Bps = 40e9;
/* Stores to a peer beside the rate of copy engines, and where a tile goes to all; how long these take to begin; one of
 * their puts with its flag. */
static const double stores_rate = 0.93, direct_rate = 0.87, engine_begin_s = 2.2e-6, engine_put_s = 3.5e-6;
/* Rows of slabs that the kernel puts are short: beside their bytes each takes as long as so many more, and flags of
 * slabs come later, by slab_bytes_s over the bytes of a row. */
static const double row_bytes = 300, whole_row_bytes = 4096, slab_bytes_s = 5e-3;
/* How many times as long tiles take in a kernel beside copy engines, and while these put; and where slabs are rotated,
 * so that tiles read other parts of B at a time. Large tiles were measured in a kernel that puts, where they have less
 * memory, so beside copy engines they take no longer. */
static const double beside_engines = 1.03, engines_slowdown = 1.05, in_rotation = 1.02;
/* How many times as long tiles take where some add, and while tiles are sent; how many times as long these take to be
 * sent. What a tile that adds takes longer after another one that does. What all tiles take longer beside movers; and
 * small ones where they are sent, or added. */
static const double beside_sums = 1.04, beside_sent = 1.08, sent_beside[MT_OVERLAP_NFORMS] = {1, 1.25, 1.1},
                    adds_s[MT_OVERLAP_NFORMS] = {0, 1e-6, 6e-6}, beside_movers_s = 2.5e-6, small_sent_s = 0.6e-6;

static bool is_large(const struct mt_overlap *p) {
    return p->tile[0] * p->tile[1] > 128 * 192;
}

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
    double begin_s, each_s, memory_Bps; /* of a tile; of all sums */
};

static struct own find_own(const struct mt_bench_case *c, const struct mt_overlap *p) {
    const struct mt_bench_variant *tiles = mt_bench_fused_part_of(c, MT_BENCH_TILES, p);
    const struct mt_bench_variant *sums = mt_bench_fused_part_of(c, MT_BENCH_SUMS, NULL);
    struct own own = {.memory_Bps = INFINITY};
    int all, ntiles = 0, at_once = own.workers = mt_device_multiprocessors(c->bench->device, &all);
    if (mt_overlap_fused_few(p)) at_once = mt_overlap_few_of(p, c->bench->rank, own.workers).workers;
    for (int t = 0; t < tiles->schedule.ntiles; t++) ntiles += tiles->schedule.tiles[t].kind == MT_TILE_MATMUL;
    double tiles_s = mt_bench_own_median(c, tiles), sums_s = mt_bench_own_median(c, sums);
    if (mt_overlap_fused_adds(p))
        tiles_s *= beside_sums;
    else if (sums && !mt_overlap_fused_few(p))
        tiles_s += beside_movers_s;
    if (!mt_overlap_fused_few(p)) own.begin_s = fmin(launch_s, tiles_s / 3);
    own.each_s = (tiles_s - own.begin_s) / fmax(1, ceil((double)ntiles / at_once));
    if (p->form != MT_OVERLAP_GATHER && !is_large(p) && !mt_overlap_fused_few(p)) own.each_s += small_sent_s;
    if (sums)
        own.memory_Bps =
            mt_bench_bytes_of_sums(&sums->problem, &sums->schedule) / fmax(sums_s / 8, sums_s - idle_sums_s);
    return own;
}

/* The rates of rank r but for what is put. */
static struct mt_overlap_rates rates_of(const struct mt_overlap *p, int r, const struct own *own) {
    struct mt_overlap_rates rates = {
        .workers = own->workers, .memory_Bps = own->memory_Bps, .whole_tiles = true, .within = true};
    if (mt_overlap_fused_few(p)) {
        struct mt_overlap_few few = mt_overlap_few_of(p, r, own->workers);
        rates.memory_Bps = INFINITY; /* sums of few rows are in the cache, and not by movers, as those measured */
        mt_overlap_few_rates(p, r, &few, own->each_s, &rates);
        return rates;
    }
    double k = (double)(p->form == MT_OVERLAP_GATHER ? p->k : p->shares[r]);
    rates.begin_s = own->begin_s;
    double slower = p->slabs > 1 && !p->engines ? in_rotation : 1;
    rates.tile_s = fmin(fused_tile_s, own->each_s / 4);
    rates.sum_s = sum_s, rates.adds_s = adds_s[p->form];
    rates.flops = 2 * (double)(p->tile[0] * p->tile[1]) * k / (own->each_s - rates.tile_s) / slower;
    rates.streams = mt_overlap_fused_streams(p, own->workers), rates.unsent = mt_overlap_fused_unsent(p, own->workers);
    if (isinf(own->memory_Bps)) return rates;
    rates.movers = mt_overlap_fused_movers(p, own->workers);
    rates.memory_Bps = fmax(rates.memory_Bps / rates.movers, least_sum_Bps);
    if (p->direct) rates.memory_Bps = mt_overlap_fused_moves_Bps(p, r, rates.memory_Bps * rates.movers) / rates.movers;
    rates.moves_slowdown = mt_overlap_fused_moves_slowdown;
    return rates;
}

/* How many times as long tiles and puts take beside each other. Large tiles have been measured together with puts; of
 * others it is as of the first. */
struct slowdowns {
    double compute, put;
};
static struct slowdowns slowdowns_of(const struct mt_bench_case *c, const struct mt_overlap *p, double puts_s) {
    if (mt_overlap_fused_few(p)) return (struct slowdowns){1, 1};
    if (mt_overlap_fused_adds(p)) return (struct slowdowns){beside_sent, sent_beside[p->form]};
    const struct mt_bench_variant *together = mt_bench_fused_part_of(c, MT_BENCH_TOGETHER, p);
    if (!together) together = mt_bench_fused_part_of(c, MT_BENCH_TOGETHER, NULL);
    const struct mt_bench_variant *tiles = mt_bench_fused_part_of(c, MT_BENCH_TILES, &together->problem);
    double slower = mt_bench_slowdown(together->median_s, tiles->median_s, puts_s);
    return (struct slowdowns){slower, slower};
}

/* Of what the kernel puts itself. The bandwidth is that of all that a rank sends, to whichever peers. */
struct route {
    double bandwidth_Bps, latency_s;
};
static double slab_row_bytes(const struct mt_overlap *p) {
    int64_t cols;
    mt_overlap_slab(p, 0, &cols);
    return (double)(cols * mt_type_size(p->type));
}
static struct route find_route(struct mt_bench_case *c, const struct mt_overlap *p) {
    const struct mt_bench_variant *puts = mt_bench_fused_part_of(c, MT_BENCH_PUTS, NULL);
    const struct mt_bench_variant *engine = mt_bench_first_part_of(c, MT_BENCH_ENGINE);
    double flags_s = mt_bench_fused_part_of(c, MT_BENCH_FLAGS, NULL)->median_s;
    struct route r = {mt_bench_traffic_of(&puts->problem, &c->arena).bytes /
                          fmax(puts->median_s / 2, puts->median_s - flags_s),
                      flags_s / 2};
    if (!engine) return r;
    double bytes = mt_bench_engine_bytes(p), begun_s = engine->median_s - engine_begin_s;
    if (mt_overlap_fused_few(p)) return (struct route){bytes / engine->median_s, 0};
    if (p->form == MT_OVERLAP_GATHER) {
        r.latency_s = fmax(least_latency_s, r.latency_s - launch_of_flags_s);
        if (p->slabs <= 1 || p->engines) return r;
        r.bandwidth_Bps /= 1 + row_bytes * fmax(0, 1 / slab_row_bytes(p) - 1 / whole_row_bytes);
        r.latency_s += slab_bytes_s / slab_row_bytes(p);
        return r;
    }
    double part = mt_overlap_fused_adds(p) ? flags_part[p->form] : moved_flags_part * (p->direct ? direct_part : 1);
    r.bandwidth_Bps = (p->direct ? direct_rate : stores_rate) * bytes / fmax(engine->median_s / 3, begun_s);
    r.latency_s = fmax(least_latency_s, flags_s - idle_flags_s) * part;
    return r;
}

static struct mt_bench_rates rates_of_blocks(struct mt_bench_case *c, const struct mt_overlap *p) {
    const struct mt_bench_variant *puts = mt_bench_fused_part_of(c, MT_BENCH_PUTS, NULL);
    double *bandwidth_Bps = mt_new(&c->arena, double, p->n * p->n), *latency_s = mt_new(&c->arena, double, p->n * p->n);
    struct mt_bench_rates found = {mt_new(&c->arena, struct mt_overlap_rates, p->n), {bandwidth_Bps, latency_s}};
    struct own own = find_own(c, p), *all = mt_new(&c->arena, struct own, p->n);
    MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, MPI_COMM_WORLD);
    struct route route = find_route(c, p);
    struct slowdowns slower = slowdowns_of(c, p, puts->median_s);
    for (int r = 0; r < p->n; r++) {
        found.rates[r] = rates_of(p, r, &all[r]);
        found.rates[r].compute_slowdown = slower.compute, found.rates[r].put_slowdown = slower.put;
        found.rates[r].egress_Bps = found.rates[r].ingress_Bps = route.bandwidth_Bps;
        for (int q = 0; q < p->n; q++)
            bandwidth_Bps[r * p->n + q] = route.bandwidth_Bps, latency_s[r * p->n + q] = route.latency_s;
    }
    return found;
}

struct mt_bench_rates mt_bench_rates_of_fused(struct mt_bench_case *c, const struct mt_overlap *p) {
    struct mt_bench_rates found = rates_of_blocks(c, p);
    if (!p->engines) return found;
    struct mt_bench_rates chunks = mt_bench_rates_of_chunks(c, p);
    found.links = chunks.links;
    for (int r = 0; r < p->n; r++) {
        found.rates[r].egress_Bps = chunks.rates[r].egress_Bps,
        found.rates[r].ingress_Bps = chunks.rates[r].ingress_Bps;
        if (!is_large(p)) found.rates[r].flops /= beside_engines;
        found.rates[r].put_s = fmax(engine_put_s, chunks.rates[r].put_s);
        found.rates[r].compute_slowdown = engines_slowdown;
        found.rates[r].put_slowdown = chunks.rates[r].put_slowdown;
    }
    return found;
}
