/* Rates of forms by chunks, or of a CPU's, from the medians of turns.
 *
 *   a tile       its share of the tiles' time alone, as its operations or its bytes; and a time of each, by what many
 *                small ones take longer than few large ones
 *   latency      the time of the flags alone
 *   bandwidth    bytes of the rank that sends or receives most, over the time of the puts alone, less the flags' and
 *                the additions'
 *   a put        by what many small puts take longer than few large ones
 *   slowdown     of GPUs, by the form when nothing is awaited, against its GEMM and its puts alone; of sums a constant
 *   in step      what a GEMM takes longer where ranks wait for each other each time: the slower of them, time by time,
 *                is slower than either on average
 *
 * Of sums on GPUs these parts say too little: turns of flags and of puts also have kernels of empty tiles, copies of
 * flags, and additions, one after the other. There bandwidth is that of copies of the bytes by copy engines, and what a
 * put, a flag and a kernel take is known (see below).
 *
 * All ranks work in these turns as they do in the forms, so that what ranks of a host take from each other is in the
 * rates. */
#include <math.h>
#include <mpi.h>
#include <stdlib.h>

#include "kernels/base/number/stats.h"
#include "kernels/overlap/chunk.h"
#include "launcher/bench/overlap/internal.h"
#include "launcher/session/agree.h"

static const double most_slowdown = 1; /* beyond 1 */

/* Of what copy engines put by chunks, in captured graphs, as measured on two H200 (36 shapes, by which the rest was
 * fitted too). Of sums: a kernel of an empty tile; a put, which ends with its flag, and half of that where it is a flag
 * alone; how many times as long as others a flag takes to whom it lets add all rows; how many times as long GEMMs and
 * puts take beside each other. */
static const double kernel_s = 2.8e-6, engine_put_s = 1.2e-6, direct_latency = 1.6;
static const double sums_beside_puts = 1.08, puts_beside_sums = 1.24;
/* The time of all flags over that of one: those of sums follow each other. */
static const double in_a_row[MT_OVERLAP_NFORMS] = {1, 3.2, 1.7};
/* Of gathers: what a kernel that begins has of the time of all flags; how many times as long GEMMs take beside puts,
 * where the measured slowdown is none. */
static const double begin_s = 2.2e-6, beside_puts = 1.15;

static bool is_part(const struct mt_bench_variant *v, enum mt_bench_part part) {
    return v->part == part && v->problem.how != MT_OVERLAP_FUSED;
}

/* Of several the last: of puts the coarse ones, of tiles those of the usual size. */
const struct mt_bench_variant *mt_bench_part_of(const struct mt_bench_case *c, enum mt_bench_part part) {
    const struct mt_bench_variant *last = NULL;
    for (int i = 0; i < c->nvariants; i++)
        if (is_part(&c->variants[i], part)) last = &c->variants[i];
    return last;
}
const struct mt_bench_variant *mt_bench_first_part_of(const struct mt_bench_case *c, enum mt_bench_part part) {
    for (int i = 0; i < c->nvariants; i++)
        if (is_part(&c->variants[i], part)) return &c->variants[i];
    return NULL;
}

double mt_bench_own_median(const struct mt_bench_case *c, const struct mt_bench_variant *v) {
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
double mt_bench_bytes_of_sums(const struct mt_overlap *p, const struct mt_overlap_schedule *s) {
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

struct mt_bench_traffic mt_bench_traffic_of(const struct mt_overlap *p, struct mt_arena *arena) {
    struct mt_bench_traffic most = {0};
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
    const struct mt_bench_variant *coarse = mt_bench_part_of(c, MT_BENCH_PUTS),
                                  *fine = mt_bench_first_part_of(c, MT_BENCH_PUTS);
    struct mt_bench_traffic of_coarse = mt_bench_traffic_of(&coarse->problem, &c->arena);
    struct mt_bench_traffic of_fine = mt_bench_traffic_of(&fine->problem, &c->arena);
    double sums_s = mt_bench_part_of(c, MT_BENCH_SUMS) ? mt_bench_part_of(c, MT_BENCH_SUMS)->median_s : 0;
    *put_s = 0;
    if (of_fine.puts > of_coarse.puts)
        *put_s = fmax(0, (fine->median_s - coarse->median_s) / (of_fine.puts - of_coarse.puts));
    double least_s = coarse->median_s / 20;
    return of_coarse.bytes / fmax(least_s, coarse->median_s - sums_s - latency_s - of_coarse.puts * *put_s);
}

double mt_bench_in_step(const struct mt_bench_case *c) {
    double tiles_s = mt_bench_part_of(c, MT_BENCH_TILES)->median_s;
    return fmax(1, (mt_bench_part_of(c, MT_BENCH_IN_STEP)->median_s - mt_bench_part_of(c, MT_BENCH_FLAGS)->median_s) /
                       tiles_s);
}

double mt_bench_slowdown(double together_s, double tiles_s, double puts_s) {
    double over_s = together_s - fmax(tiles_s, puts_s);
    return 1 + fmin(most_slowdown, fmax(0, over_s / fmax(1e-9, fmin(tiles_s, puts_s))));
}

/* A CPU does one after the other. */
static double slowdown(const struct mt_bench_case *c, double latency_s) {
    const struct mt_bench_variant *together = mt_bench_part_of(c, MT_BENCH_TOGETHER);
    const struct mt_bench_variant *sums = mt_bench_part_of(c, MT_BENCH_SUMS);
    if (!together) return 1;
    double sums_s = sums ? sums->median_s : 0, puts_s = mt_bench_part_of(c, MT_BENCH_PUTS)->median_s;
    double passes_s = mt_overlap_gemms_add(&c->problem) ? 0 : sums_s; /* that are kernels of their own in the whole */
    return mt_bench_slowdown(together->median_s - passes_s - latency_s, mt_bench_part_of(c, MT_BENCH_TILES)->median_s,
                             puts_s - sums_s - latency_s);
}

/* Whether copy engines put partial sums. */
static bool puts_sums(const struct mt_bench_case *c) {
    return c->problem.form != MT_OVERLAP_GATHER && mt_bench_first_part_of(c, MT_BENCH_ENGINE);
}

/* Whether copy engines put. */
static bool has_engines(const struct mt_bench_case *c) {
    return mt_bench_first_part_of(c, MT_BENCH_ENGINE);
}

struct route {
    double bandwidth_Bps, latency_s, put_s;
};
static struct route find_route(struct mt_bench_case *c, bool direct) {
    const struct mt_bench_variant *flags = mt_bench_part_of(c, MT_BENCH_FLAGS);
    struct route r = {.latency_s = flags->median_s};
    if (puts_sums(c)) {
        int puts = 0;
        for (int j = 0; j < flags->schedule.nputs; j++) puts += flags->schedule.puts[j].peer != c->bench->rank;
        double kernels_s = kernel_s * flags->schedule.ntiles + engine_put_s / 2 * puts;
        r.latency_s = fmax(flags->median_s / 4, flags->median_s - kernels_s) / in_a_row[c->problem.form];
        if (direct) r.latency_s *= direct_latency;
        r.put_s = engine_put_s;
        r.bandwidth_Bps = mt_bench_engine_bytes(&c->problem) / mt_bench_first_part_of(c, MT_BENCH_ENGINE)->median_s;
    } else {
        if (has_engines(c)) r.latency_s = fmax(flags->median_s / 4, flags->median_s - begin_s);
        r.bandwidth_Bps = bandwidth_of(c, r.latency_s, &r.put_s);
    }
    return r;
}

struct slowdowns {
    double compute, put;
};
static struct slowdowns slowdowns_of(struct mt_bench_case *c) {
    if (puts_sums(c)) return (struct slowdowns){sums_beside_puts, puts_beside_sums};
    double slower = slowdown(c, find_route(c, false).latency_s);
    return (struct slowdowns){has_engines(c) ? slower + beside_puts - 1 : slower, slower};
}

/* Of this rank: operations and bytes a second, and what a tile takes beside them: what many small tiles of a GEMM take
 * longer than few large ones. */
struct own {
    double flops, memory_Bps, tile_s, sum_s;
    int units; /* 0: a CPU */
};

/* Operations of the GEMM in one piece, in whole waves, and how many these are. */
static double whole_operations(const struct mt_overlap *p, int rank, int units, double *waves) {
    bool gather = p->form == MT_OVERLAP_GATHER;
    double cols = (double)(gather ? p->shares[rank] : p->cols), k = (double)(gather ? p->k : p->shares[rank]);
    *waves = ceil(ceil((double)p->m / (double)unit[0]) * ceil(cols / (double)unit[1]) / units);
    return *waves * 2.0 * (double)(unit[0] * unit[1]) * k * units;
}

enum { SEVERAL = 3 };
static struct own find_own(const struct mt_bench_case *c, bool other) {
    const struct mt_bench_variant *tiles = mt_bench_part_of(c, MT_BENCH_TILES);
    const struct mt_bench_variant *large = mt_bench_first_part_of(c, MT_BENCH_TILES);
    const struct mt_bench_variant *sums = mt_bench_part_of(c, MT_BENCH_SUMS);
    double tiles_s = mt_bench_own_median(c, tiles), sums_s = mt_bench_own_median(c, sums);
    struct own own = {.memory_Bps = INFINITY};
    int all;
    own.units = mt_device_multiprocessors(c->bench->device, &all);
    int nlarge = large->schedule.ntiles;
    if (own.units) large = &c->variants[c->gemm_alone], nlarge = 1;
    int more = tiles->schedule.ntiles - nlarge;
    if (more > 0) own.tile_s = fmax(0, (tiles_s - mt_bench_own_median(c, large)) / more);
    own.tile_s = fmin(own.tile_s, tiles_s / 2 / tiles->schedule.ntiles);
    own.flops = operations(&c->problem, c->bench->rank, &tiles->schedule, own.units) /
                (mt_bench_in_step(c) * (tiles_s - own.tile_s * tiles->schedule.ntiles));
    /* Groups, and chunks of a direct AllReduce, which have rows of all, are other GEMMs than the tiles measured: of
     * fewer waves, which are fuller. They are no faster than the whole GEMM, where that has several. */
    double waves = 0, whole = own.units ? whole_operations(&c->problem, c->bench->rank, own.units, &waves) : 0;
    if (other && waves >= SEVERAL)
        own.flops =
            fmin(own.flops, whole / (mt_bench_in_step(c) * mt_bench_own_median(c, &c->variants[c->gemm_alone])));
    own.sum_s = own.units ? kernel_s : own.tile_s;
    if (sums)
        own.memory_Bps = mt_bench_bytes_of_sums(&c->problem, &sums->schedule) /
                         fmax(sums_s / (own.units ? 8 : 2), sums_s - own.sum_s * sums->schedule.ntiles);
    return own;
}

struct mt_bench_rates mt_bench_rates_of_chunks(struct mt_bench_case *c, const struct mt_overlap *problem) {
    const struct mt_overlap *p = &c->problem;
    double *bandwidth_Bps = mt_new(&c->arena, double, p->n * p->n), *latency_s = mt_new(&c->arena, double, p->n * p->n);
    struct mt_bench_rates found = {mt_new(&c->arena, struct mt_overlap_rates, p->n), {bandwidth_Bps, latency_s}};
    struct route route = find_route(c, problem->direct);
    struct own own = find_own(c, problem->direct || problem->ngroups), *all = mt_new(&c->arena, struct own, p->n);
    MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, MPI_COMM_WORLD);
    struct slowdowns slower = slowdowns_of(c);
    for (int r = 0; r < p->n; r++) {
        double all_Bps = all[r].units ? route.bandwidth_Bps : INFINITY; /* which a GPU sends, to whichever peers */
        found.rates[r] = (struct mt_overlap_rates){.workers = 1,
                                                   .flops = all[r].flops,
                                                   .tile_s = all[r].tile_s,
                                                   .sum_s = all[r].sum_s,
                                                   .memory_Bps = all[r].memory_Bps,
                                                   .streams = 1,
                                                   .put_s = route.put_s,
                                                   .unit = {unit[0], unit[1]},
                                                   .units = all[r].units,
                                                   .holds = !all[r].units,
                                                   .egress_Bps = all_Bps,
                                                   .ingress_Bps = all_Bps,
                                                   .compute_slowdown = slower.compute,
                                                   .put_slowdown = slower.put};
        for (int q = 0; q < p->n; q++)
            bandwidth_Bps[r * p->n + q] = route.bandwidth_Bps, latency_s[r * p->n + q] = route.latency_s;
    }
    return found;
}
