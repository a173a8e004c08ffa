/* One kernel's form for few rows (mt_overlap_fused_few). All its tiles run at once, each by a cluster of up to 8
 * multiprocessors, which divide K; so the time is that of reading B, or of multiplying, from the launch on.
 *
 * What is assumed: a launch takes 2.5 us. A multiprocessor reads 190 KiB of B into its shared memory before it awaits
 * anything (25 MB in all, on an H100); until then a gather's rows are on their way, and cost only what they take
 * longer. Bytes arrive evenly over the tile's time. A rank puts its rows, its own too, from the launch on, to all at
 * once; a tile's sums are put when it ends, and the cluster that had it adds what comes. Where there are more tiles
 * than multiprocessors they run in rounds. */
#include <math.h>

#include "planner/overlap/predict.h"

enum { MOST_PARTS = 8, AHEAD_BYTES = 190 << 10 };
static const double launch_s = 2.5e-6;

static int64_t pieces(int64_t extent, int64_t most) {
    return (extent + most - 1) / most;
}

struct mt_overlap_few mt_overlap_few_of(const struct mt_overlap *p, int rank, int multiprocessors) {
    bool gather = p->form == MT_OVERLAP_GATHER;
    int64_t cols = gather ? p->shares[rank] : p->cols, k = gather ? p->k : p->shares[rank], parts = MOST_PARTS;
    int64_t tiles = pieces(p->m, p->tile[0]) * pieces(cols, p->tile[1]);
    while (parts > 1 && tiles * parts > multiprocessors) parts /= 2;
    int64_t workers = multiprocessors < parts ? 1 : multiprocessors / parts,
            running = tiles < workers ? tiles : workers;
    double bytes = (double)(running * p->tile[1] * k * mt_type_size(p->type));
    double ahead = (double)(running * parts * AHEAD_BYTES);
    return (struct mt_overlap_few){.workers = (int)workers,
                                   .parts = (int)parts,
                                   .bytes = bytes,
                                   .ahead = bytes > ahead ? ahead / bytes : 1,
                                   .launch_s = launch_s};
}

void mt_overlap_few_rates(const struct mt_overlap *p, int rank, const struct mt_overlap_few *few, double tile_s,
                          struct mt_overlap_rates *rates) {
    bool gather = p->form == MT_OVERLAP_GATHER;
    double operations = 2.0 * (double)(p->tile[0] * p->tile[1] * (gather ? p->k : p->shares[rank]));
    rates->workers = few->workers;
    rates->tile_s = 0; /* the launch is in the tile's time: sums do not begin with another */
    rates->flops = fmax(operations, 1) / fmax(tile_s, 1e-12);
    rates->ahead = fmin(1, (launch_s + few->ahead * fmax(0, tile_s - launch_s)) / fmax(tile_s, 1e-12));
    rates->memory_Bps /= few->workers;
    rates->whole_tiles = rates->within = true;
    rates->movers = 0;
    rates->unsent = mt_overlap_fused_unsent(p, few->workers);
    rates->streams = mt_overlap_fused_streams(p, few->workers);
    rates->put_s = gather ? launch_s : 0;
}
