/* Candidates for what an overlapped form leaves open, a short list. */
#include <math.h>
#include <stdlib.h>

#include "planner/overlap/predict.h"

/* Rows of a put as parts of the largest share: fewer puts, or an earlier first tile. */
static const int parts[] = {1, 2, 4, 8, 16, 32}, mixes[] = {0, 1, 2, 4};
/* Slabs of K, with the first of these parts, for devices that wait within tiles: put by the kernel, and by copy
 * engines, which halve them; so many columns at least, or flags cost more than they bring. */
static const struct {
    int slabs;
    bool engines;
} slabs[] = {{4, false}, {8, false}, {16, false}, {0, true}, {3, true}, {4, true}, {5, true}};
enum { NPARTS = sizeof parts / sizeof *parts, NMIXES = sizeof mixes / sizeof *mixes };
enum { NSLABS = sizeof slabs / sizeof *slabs, FEW_PARTS = 3, SLAB_COLUMNS = 256 };

/* A block puts a piece of 32 KiB at a time, in the order of puts. */
int mt_overlap_fused_streams(const struct mt_overlap *p, int blocks) {
    enum { STREAMS = 16, PIECE_BYTES = 32 << 10 };
    int64_t cols, rows = p->chunk;
    if (p->form != MT_OVERLAP_GATHER || mt_overlap_fused_few(p)) return STREAMS;
    if (p->engines) return 1;
    mt_overlap_slab(p, 0, &cols);
    if (mt_overlap_nslabs(p) > 1 && p->tile[0] < rows) rows = p->tile[0];
    double bytes = (double)rows * (double)cols * (double)mt_type_size(p->wire);
    double puts = ceil((double)blocks * PIECE_BYTES / fmax(bytes, 1));
    return puts < STREAMS ? (int)puts : STREAMS;
}

int mt_overlap_fused_movers(const struct mt_overlap *p, int blocks) {
    enum { PIECE = 4096 /* elements, of a block's one warp that moves while there are tiles */ };
    int64_t pieces = p->tile[0] * p->tile[1] / PIECE, movers = blocks / (pieces < 1 ? 1 : pieces);
    return movers < 1 ? 1 : (int)movers;
}

/* Both were fitted to 14 shapes on two H200. What the cache does not hold is read at moves_Bps, whatever memory has:
 * few bytes are on their way. */
const double mt_overlap_fused_moves_slowdown = 1.8;
double mt_overlap_fused_moves_Bps(const struct mt_overlap *p, int rank, double memory_Bps) {
    static const double moves_Bps = 0.95e12, cache_bytes = 20e6;
    int64_t first, owned = mt_overlap_owned(p, rank, &first);
    double rows = p->direct ? (double)p->m : (double)owned;
    double bytes = rows * (double)p->cols * (double)(p->n * mt_type_size(p->wire) + mt_type_size(p->out));
    double beyond = fmax(0, bytes - cache_bytes);
    if (memory_Bps <= moves_Bps || bytes <= 0) return memory_Bps;
    return bytes / ((bytes - beyond) / memory_Bps + beyond / moves_Bps);
}

int mt_overlap_fused_unsent(const struct mt_overlap *p, int blocks) {
    if (p->form == MT_OVERLAP_GATHER || mt_overlap_fused_few(p)) return 0; /* of few rows no tile follows another */
    if (mt_overlap_fused_adds(p))
        return 2 * blocks; /* fitted; half a tile has room beside the one that is multiplied */
    return p->direct ? blocks * (p->n > 1 ? p->n - 1 : 1) : blocks;
}

static int64_t largest_share(const struct mt_overlap *p) {
    int64_t most = 1;
    for (int r = 0; r < p->n; r++) most = p->rows[r] > most ? p->rows[r] : most;
    return most;
}

/* Slabs for so many columns, in order; of those by copy engines the last has the least. */
static bool slabs_serve(const struct mt_overlap *problem, int i) {
    int64_t least = slabs[i].engines && slabs[i].slabs ? 1 << (slabs[i].slabs - 1) : slabs[i].slabs;
    return problem->how == MT_OVERLAP_FUSED && problem->k >= SLAB_COLUMNS * least;
}

/* First those of whole rows, then those with slabs, then those by copy engines. */
static bool gather_candidate(const struct mt_overlap *problem, int i, struct mt_overlap *out) {
    int64_t most = largest_share(problem);
    int nparts = 0, which = 0;
    while (nparts < NPARTS && parts[nparts] <= most) nparts++;
    int few = nparts < FEW_PARTS ? nparts : FEW_PARTS, part = i < nparts ? i : (i - nparts) % few;
    int left = i < nparts ? -1 : (i - nparts) / few; /* that serve, before the one that is wanted */
    for (; which < NSLABS && left >= 0; which++) left -= slabs_serve(problem, which);
    if (left >= 0) return false;
    out->engines = i >= nparts && slabs[which - 1].engines;
    out->slabs = i >= nparts ? slabs[which - 1].slabs : 0;
    out->chunk = (most + parts[part] - 1) / parts[part];
    return true;
}

bool mt_overlap_candidate(const struct mt_overlap *problem, int i, struct mt_overlap *out) {
    *out = *problem;
    out->joint = false;
    if (problem->form == MT_OVERLAP_GATHER) return gather_candidate(problem, i, out);
    out->direct = i == NMIXES;
    out->mix = out->direct ? 0 : i < NMIXES ? mixes[i] : 0;
    return i < NMIXES || (i == NMIXES && problem->form == MT_OVERLAP_REDUCE);
}

bool mt_overlap_few_candidate(const struct mt_overlap *problem, int i, struct mt_overlap *out) {
    enum { FEW_PUTS = 64 }; /* to each rank, a block each: many move at a time, and a warp looks at all their flags */
    *out = *problem;
    out->how = MT_OVERLAP_FUSED;
    out->groups = NULL, out->ngroups = 0, out->slabs = 0, out->engines = false, out->mix = 0;
    out->joint = problem->form == MT_OVERLAP_GATHER, out->direct = problem->form == MT_OVERLAP_REDUCE;
    if (out->joint) out->chunk = (largest_share(problem) + FEW_PUTS - 1) / FEW_PUTS;
    return mt_overlap_few_tile(problem, i, out->tile);
}

enum mt_status mt_overlap_predict_problem(const struct mt_overlap *problem, const struct mt_overlap_rates *rates,
                                          const struct mt_overlap_links *links,
                                          struct mt_overlap_prediction *prediction, struct mt_err *err) {
    struct mt_overlap_schedule *schedules = mt_calloc((size_t)problem->n, sizeof *schedules);
    for (int r = 0; r < problem->n; r++) mt_overlap_schedule(problem, r, &schedules[r]);
    enum mt_status st = mt_overlap_predict(problem, schedules, rates, links, prediction, err);
    for (int r = 0; r < problem->n; r++) mt_overlap_schedule_release(&schedules[r]);
    free(schedules);
    return st;
}
