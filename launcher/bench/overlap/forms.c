/* The variants of a case. At first few forms, and the parts that rates come from; when there are rates, all candidates
 * are predicted, and the best of each implementation join. */
#include <assert.h>
#include <math.h>
#include <mpi.h>
#include <stdlib.h>

#include "launcher/bench/overlap/internal.h"
#include "launcher/session/agree.h"

/* Candidates that join: of one kernel, and by chunks; groups where they are within `near` of the best. */
enum { FUSED = 3, CHUNKS = 1 };
static const double near = 1.1;
enum { SHORT_K = 64, LARGE_TILES = 2, GROUPS_FLAGS_BYTES = 64 << 10, ALIGN = 256 };

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static bool on_gpu(const struct mt_bench_case *c) {
    int all;
    return mt_device_multiprocessors(c->bench->device, &all) > 0;
}

struct mt_bench_variant *mt_bench_add(struct mt_bench_case *c, enum mt_bench_part part, const char *name) {
    assert(c->nvariants < MT_BENCH_VARIANTS);
    struct mt_bench_variant *v = &c->variants[c->nvariants++];
    int n = (int)larger(c->bench->options->repetitions, MT_BENCH_PILOT_ROUNDS);
    *v = (struct mt_bench_variant){.part = part,
                                   .name = name,
                                   .time_s = mt_new(&c->arena, double, n),
                                   .own_s = mt_new(&c->arena, double, n),
                                   .final_s = mt_new(&c->arena, double, n),
                                   .predicted_s = NAN};
    return v;
}

static void add_part(struct mt_bench_case *c, enum mt_bench_part part, const struct mt_overlap *problem,
                     const char *name) {
    struct mt_bench_variant *v = mt_bench_add(c, part, name);
    v->problem = *problem;
    mt_overlap_schedule(problem, c->bench->rank, &v->schedule);
    mt_bench_variant_reduce(v, c->bench->rank);
}

/* ---- names ---- */

/* "groups 64+128+64": as many as the largest share has. */
static const char *groups_name(struct mt_bench_case *c, const struct mt_overlap *p) {
    const char *name = "groups";
    for (int g = 0; g < p->ngroups && g < 8; g++)
        name = mt_arena_printf(&c->arena, "%s%s%lld", name, g ? "+" : " ", (long long)p->groups[g]);
    return p->ngroups > 8 ? mt_arena_printf(&c->arena, "%s+...", name) : name;
}

static const char *name_of(struct mt_bench_case *c, const struct mt_overlap *p) {
    if (p->how == MT_OVERLAP_NCCL) return "NCCL in waves";
    if (p->how == MT_OVERLAP_FUSED) {
        struct mt_overlap open = *p;
        const char *more = p->engines ? ", engines" : p->joint ? ", joint" : "";
        open.how = MT_OVERLAP_ANY;
        return mt_arena_printf(&c->arena, "one kernel, %lldx%lld, %s%s", (long long)p->tile[0], (long long)p->tile[1],
                               name_of(c, &open), more);
    }
    if (p->ngroups) return groups_name(c, p);
    if (p->form == MT_OVERLAP_GATHER && p->slabs > 1)
        return mt_arena_printf(&c->arena, "chunk %lld, %d slabs", (long long)p->chunk, p->slabs);
    if (p->form == MT_OVERLAP_GATHER) return mt_arena_printf(&c->arena, "chunk %lld", (long long)p->chunk);
    return p->direct ? "direct" : mt_arena_printf(&c->arena, "mix %d", p->mix);
}

/* Add a form, unless it is there. */
static void add_form(struct mt_bench_case *c, const struct mt_overlap *problem) {
    for (int i = 0; i < c->nvariants; i++)
        if (c->variants[i].part == MT_BENCH_OVERLAPPED && mt_overlap_equal(&c->variants[i].problem, problem)) return;
    add_part(c, MT_BENCH_OVERLAPPED, problem, name_of(c, problem));
}

/* Whether the devices of all ranks run it. Collective. */
static bool all_overlap(const struct mt_bench_overlap *b, const struct mt_overlap *problem) {
    int all = mt_device_overlaps(b->device, problem, b->rank);
    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    return all;
}

/* ---- one kernel ---- */

/* Tile `t` of those that are worth trying on these devices; collective. */
static bool fused_tile(const struct mt_bench_case *c, int t, struct mt_overlap *fused) {
    int all, most = mt_device_multiprocessors(c->bench->device, &all);
    MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    *fused = c->problem;
    fused->how = MT_OVERLAP_FUSED;
    return mt_overlap_fused_tile(fused, t, most, fused->tile);
}

/* Candidate `i` of a tile of one kernel that devices of all ranks run, but those for few rows; *runs; collective.
 * False: there are no more. */
static bool fused_candidate(const struct mt_bench_case *c, const struct mt_overlap *fused, int i,
                            struct mt_overlap *tried, bool *runs) {
    if (!mt_overlap_candidate(fused, i, tried)) return false;
    *runs = !mt_overlap_fused_few(tried) && all_overlap(c->bench, tried);
    return true;
}

/* Whole rows in puts of a 4th of a share, or more; or all tiles for peers first. */
static struct mt_overlap plain(const struct mt_overlap *fused) {
    struct mt_overlap found = *fused, tried;
    bool gather = fused->form == MT_OVERLAP_GATHER;
    for (int i = 0; i <= (gather ? 2 : 0) && mt_overlap_candidate(fused, i, &tried); i++)
        if (tried.slabs <= 1 && !tried.engines) found = tried;
    return found;
}

/* The same with little to multiply: what is left is what is put. */
static struct mt_overlap with_short_k(struct mt_bench_case *c, const struct mt_overlap *fused) {
    struct mt_overlap p = *fused;
    int64_t *shares = mt_new(&c->arena, int64_t, p.n);
    p.k = 0;
    for (int r = 0; r < p.n; r++) {
        shares[r] = p.shares[r] < SHORT_K ? p.shares[r] : SHORT_K;
        p.k += shares[r];
    }
    p.shares = shares;
    return p;
}

/* Of the first tile all parts; of the other large one its tiles, and all together; of others the tiles. */
static void add_fused_parts(struct mt_bench_case *c, const struct mt_overlap *p, bool first, bool large) {
    bool sums = p->form != MT_OVERLAP_GATHER;
    struct mt_overlap puts = sums ? with_short_k(c, p) : *p;
    const char *tile = mt_arena_printf(&c->arena, "%lldx%lld", (long long)p->tile[0], (long long)p->tile[1]);
    if (first) {
        add_part(c, MT_BENCH_PUTS, &puts, sums ? "one kernel, K of 64" : "puts, one kernel");
        add_part(c, MT_BENCH_FLAGS, p, "fused_flags_s");
        if (sums) add_part(c, MT_BENCH_SUMS, p, "fused_sums_s");
    }
    add_part(c, MT_BENCH_TILES, p, mt_arena_printf(&c->arena, "fused_%s_tiles_s", tile));
    if (first || large) add_part(c, MT_BENCH_TOGETHER, p, mt_arena_printf(&c->arena, "fused_%s_together_s", tile));
}

/* Of a tile's forms beside the plain one: a direct one of sums; of large tiles one by slabs of K, and of the first one
 * by copy engines, in halves of a share, and of a whole share in slabs. */
static bool is_fixed_fused(const struct mt_overlap *fused, const struct mt_overlap *plain, int t,
                           const struct mt_overlap *tried) {
    struct mt_overlap share;
    if (tried->direct) return true;
    if (tried->engines)
        return t == 0 && tried->slabs % 4 == 0 && mt_overlap_candidate(fused, !tried->slabs, &share) &&
               tried->chunk == share.chunk;
    return t < LARGE_TILES && tried->slabs == 8 && tried->chunk == plain->chunk;
}

/* For few rows all, and their tiles; what else rates need is measured with the first tile of others. */
static void add_few(struct mt_bench_case *c) {
    struct mt_overlap few;
    for (int i = 0; mt_overlap_few_candidate(&c->problem, i, &few); i++) {
        if (!all_overlap(c->bench, &few)) continue;
        add_form(c, &few);
        add_part(c, MT_BENCH_TILES, &few,
                 mt_arena_printf(&c->arena, "few_%lldx%lld_tiles_s", (long long)few.tile[0], (long long)few.tile[1]));
    }
}

/* Of each tile a plain form, and some others; then those for few rows. */
static void add_fused(struct mt_bench_case *c) {
    struct mt_overlap fused, tried;
    bool first = true, runs;
    for (int t = 0; fused_tile(c, t, &fused); t++) {
        if (!all_overlap(c->bench, &fused)) continue;
        struct mt_overlap p = plain(&fused);
        add_form(c, &p);
        for (int i = 0; fused_candidate(c, &fused, i, &tried, &runs); i++)
            if (runs && is_fixed_fused(&fused, &p, t, &tried)) add_form(c, &tried);
        add_fused_parts(c, &p, first, t < LARGE_TILES);
        first = false;
    }
    if (!first) add_few(c);
}

/* ---- by chunks, and by waves ---- */

/* On a CPU all; on a GPU every other one, and the rest by prediction. */
static bool is_fixed(const struct mt_bench_case *c, int i, const struct mt_overlap *tried) {
    return !on_gpu(c) || i % 2 == 0 || tried->direct;
}

static void add_chunk_parts(struct mt_bench_case *c, const struct mt_overlap *coarse, const struct mt_overlap *fine) {
    if (c->problem.form == MT_OVERLAP_GATHER && fine->chunk != coarse->chunk)
        add_part(c, MT_BENCH_PUTS, fine, mt_arena_printf(&c->arena, "puts, %s", name_of(c, fine)));
    add_part(c, MT_BENCH_PUTS, coarse, "puts");
    add_part(c, MT_BENCH_FLAGS, coarse, "flags_s");
    struct mt_overlap large = *coarse; /* a tile for each share; a GPU's GEMM alone is as large */
    for (int r = 0; r < large.n; r++) large.tile[0] = larger(large.tile[0], large.rows[r]);
    large.tile[1] = larger(1, larger(large.tile[1], large.cols));
    if (!on_gpu(c)) add_part(c, MT_BENCH_TILES, &large, "large_tiles_s");
    add_part(c, MT_BENCH_TILES, coarse, "tiles_s");
    add_part(c, MT_BENCH_IN_STEP, coarse, "tiles_in_step_s");
    if (c->problem.form != MT_OVERLAP_GATHER) add_part(c, MT_BENCH_SUMS, coarse, "sums_s");
    if (mt_device_captures(c->bench->device))
        add_part(c, MT_BENCH_TOGETHER, coarse, "together_s");
    else
        mt_bench_add(c, MT_BENCH_HANDOVER, "handover_s");
}

/* It is not predicted, since none of its rates is measured. */
static void add_waves(struct mt_bench_case *c) {
    struct mt_overlap waves = c->problem;
    waves.how = MT_OVERLAP_NCCL;
    if (!c->bench->wire->class->queue || !all_overlap(c->bench, &waves)) return;
    mt_overlap_choose_tiles(&waves);
    waves.direct = false;
    add_form(c, &waves);
}

void mt_bench_forms_add(struct mt_bench_case *c) {
    struct mt_overlap tried, fine = c->problem, coarse = c->problem;
    mt_bench_add(c, MT_BENCH_GEMM, "GEMM");
    mt_bench_add(c, MT_BENCH_COLLECTIVE, "collective");
    if (mt_bench_engine_serves(c)) mt_bench_add(c, MT_BENCH_ENGINE, "copy engines");
    mt_bench_add(c, MT_BENCH_SEQUENTIAL, "sequential");
    for (int i = 0; mt_overlap_candidate(&c->problem, i, &tried); i++) {
        if (!i) coarse = tried;
        fine = tried;
        if (is_fixed(c, i, &tried)) add_form(c, &tried);
    }
    add_chunk_parts(c, &coarse, &fine);
    add_fused(c);
    add_waves(c);
}

/* ---- by prediction ---- */

/* All candidates, those of one kernel last and by tiles; *fused_from: where they begin. */
static struct mt_overlap *find_pool(struct mt_bench_case *c, int *count, int *fused_from) {
    struct mt_overlap *pool = NULL, fused, tried;
    int capacity = 0;
    bool runs;
    *count = 0;
    for (int i = 0; mt_overlap_candidate(&c->problem, i, &tried); i++) {
        mt_arena_grow(&c->arena, &pool, *count, &capacity, sizeof *pool);
        pool[(*count)++] = tried;
    }
    *fused_from = *count;
    for (int t = 0; fused_tile(c, t, &fused); t++)
        for (int i = 0; all_overlap(c->bench, &fused) && fused_candidate(c, &fused, i, &tried, &runs); i++) {
            if (!runs) continue;
            mt_arena_grow(&c->arena, &pool, *count, &capacity, sizeof *pool);
            pool[(*count)++] = tried;
        }
    return pool;
}

int64_t mt_bench_forms_window_bytes(struct mt_bench_case *c) {
    int count, fused_from;
    const struct mt_overlap *pool = find_pool(c, &count, &fused_from);
    int64_t most = 0;
    for (int i = 0; i < count; i++) most = larger(most, mt_overlap_window_bytes(&pool[i]));
    for (int i = 0; i < c->nvariants; i++)
        if (mt_bench_is_form(&c->variants[i])) most = larger(most, mt_overlap_window_bytes(&c->variants[i].problem));
    return (most + GROUPS_FLAGS_BYTES + ALIGN - 1) / ALIGN * ALIGN;
}

/* The fastest `most` of candidates [first, end) by prediction. */
static void add_best(struct mt_bench_case *c, const struct mt_overlap *pool, double *seconds, int first, int end,
                     int most) {
    for (int n = 0; n < most && n < end - first; n++) {
        int best = first;
        for (int i = first; i < end; i++)
            if (seconds[i] < seconds[best]) best = i;
        if (isinf(seconds[best])) return;
        add_form(c, &pool[best]);
        seconds[best] = INFINITY;
    }
}

static enum mt_status add_groups(struct mt_bench_case *c, double best_s, struct mt_err *err) {
    struct mt_overlap problem = c->problem, grouped = c->problem;
    grouped.ngroups = 1; /* whose rates are those of groups */
    struct mt_bench_rates found = mt_bench_rates_of_chunks(c, &grouped);
    struct mt_overlap_prediction prediction;
    enum mt_status st = mt_overlap_best_groups(&problem, found.rates, &found.links, &c->arena, &prediction, err);
    if (!st && (!on_gpu(c) || prediction.s < near * best_s)) add_form(c, &problem);
    return mt_agree(MPI_COMM_WORLD, st, err);
}

enum mt_status mt_bench_forms_add_fast(struct mt_bench_case *c, struct mt_err *err) {
    int count, fused_from;
    struct mt_overlap *pool = find_pool(c, &count, &fused_from);
    double *seconds = mt_new(&c->arena, double, count), best_s = INFINITY;
    mt_bench_find_medians(c);
    enum mt_status st = mt_bench_predict(c, pool, count, seconds, err);
    if (st) return st;
    for (int i = 0; i < count; i++) best_s = fmin(best_s, seconds[i]);
    add_best(c, pool, seconds, 0, fused_from, CHUNKS);
    add_best(c, pool, seconds, fused_from, count, FUSED);
    return add_groups(c, best_s, err);
}
