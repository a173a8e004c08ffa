/* One kernel's form for few rows (mt_overlap_fused_few). Its tiles run at once, each by a cluster of up to 8
 * multiprocessors, which divide K, or in rounds where there are more. So the time is that of reading B, or of
 * multiplying; of reading A for each tile from the L2 cache, at about 12 times memory's rate; and 3.8 us beside, 2 us
 * more where parts of K are added. Before it come a gather's rows, after it the exchange of sums, as though nothing
 * were hidden: what is loaded ahead of a gather's rows delays them by about as much as it saves.
 *
 * Measured on two H100s, N = K = 8192, in us: the tiles alone; what the whole takes more; what copies of the bytes by
 * copy engines take.
 *
 *   M                         16    64   128
 *   AllGather+GEMM   tiles  30.6  31.8  33.0
 *                    more    2.5   4.0   5.9
 *                    copies  2.6   3.7   5.2
 *   GEMM+AllReduce   tiles  28.2  28.5  28.6
 *                    more    3.9   6.0   9.4
 *                    copies  2.8   5.2   8.2 */
#include <math.h>

#include "planner/overlap/predict.h"

enum { MOST_PARTS = 8, SLAB = 64 /* terms; no part of K is without one */ };
static const double launch_s = 3.8e-6, add_parts_s = 2e-6, cache_rate = 12;

static int64_t pieces(int64_t extent, int64_t most) {
    return (extent + most - 1) / most;
}

struct mt_overlap_few mt_overlap_few_of(const struct mt_overlap *p, int rank, int multiprocessors) {
    bool gather = p->form == MT_OVERLAP_GATHER;
    int64_t cols = gather ? p->shares[rank] : p->cols, k = gather ? p->k : p->shares[rank], parts = MOST_PARTS;
    int64_t tiles = pieces(p->m, p->tile[0]) * pieces(cols, p->tile[1]);
    int64_t slabs = pieces(k, SLAB);
    while (parts > 1 && (tiles * parts > multiprocessors || (parts - 1) * pieces(slabs, parts) >= slabs)) parts /= 2;
    int64_t workers = multiprocessors < parts ? 1 : multiprocessors / parts,
            running = tiles < workers ? tiles : workers;
    return (struct mt_overlap_few){.workers = (int)workers,
                                   .parts = (int)parts,
                                   .bytes = (double)(running * p->tile[1] * k * mt_type_size(p->type)),
                                   .again = (double)(running * p->m * k * mt_type_size(p->type)) / cache_rate,
                                   .beside_s = launch_s + (parts > 1 ? add_parts_s : 0)};
}

void mt_overlap_few_rates(const struct mt_overlap *p, int rank, const struct mt_overlap_few *few, double tile_s,
                          struct mt_overlap_rates *rates) {
    bool gather = p->form == MT_OVERLAP_GATHER;
    double operations = 2.0 * (double)(p->tile[0] * p->tile[1] * (gather ? p->k : p->shares[rank]));
    rates->workers = few->workers;
    rates->tile_s = rates->sum_s = 0; /* sums do not begin with another launch */
    rates->flops = fmax(operations, 1) / fmax(tile_s, 1e-12);
    rates->memory_Bps /= few->workers;
    rates->whole_tiles = true;
    rates->movers = 0;
    rates->unsent = mt_overlap_fused_unsent(p, few->workers);
    rates->streams = mt_overlap_fused_streams(p, few->workers);
    rates->put_s = 0;
}
