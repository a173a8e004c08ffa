/* The parts of one kernel that `motley bench overlap` measures, which no CPU runs: what is left of schedules; and rates
 * and predictions from times that are reckoned, not measured.
 * ranks: 2 */
#include <mpi.h>

#include "kernels/device/class.h"
#include "launcher/bench/overlap/internal.h"
#include "launcher/session/session.h"
#include "launcher/watch/watch.h"
#include "tests/check.h"

enum { WORKERS = 4, ROUNDS = 3, RANKS = 2 };
static int64_t even[RANKS] = {1024, 1024}, ragged[RANKS] = {1280, 768};

static struct mt_overlap pose(enum mt_overlap_form form, const int64_t *rows) {
    bool gather = form == MT_OVERLAP_GATHER;
    return (struct mt_overlap){.form = form,
                               .n = RANKS,
                               .m = 2048,
                               .cols = gather ? 2048 : 1024,
                               .k = gather ? 1024 : 2048,
                               .rows = rows,
                               .shares = even,
                               .type = MT_BF16,
                               .out = MT_BF16,
                               .wire = MT_BF16,
                               .tile = {128, 256},
                               .chunk = 256,
                               .how = MT_OVERLAP_FUSED};
}

static struct mt_bench_variant part_of(const struct mt_overlap *p, enum mt_bench_part part, int me) {
    struct mt_bench_variant v = {.part = part, .problem = *p, .name = "a part"};
    mt_overlap_schedule(p, me, &v.schedule);
    mt_bench_variant_reduce(&v, me);
    return v;
}

/* Nothing is awaited, or leaves the rank; all tiles are there, each with a place of its own among its slots. */
static void check_local_tiles(const struct mt_overlap *p, int me) {
    struct mt_bench_variant v = part_of(p, MT_BENCH_TILES, me);
    const struct mt_overlap_schedule *s = &v.schedule;
    bool gather = p->form == MT_OVERLAP_GATHER;
    int64_t elements = 0, first, own = mt_overlap_owned(p, me, &first);
    for (int t = 0; t < s->ntiles; t++) {
        CHECK(s->tiles[t].kind == MT_TILE_MATMUL && !s->tiles[t].nwaits, "tile %d", t);
        elements += s->tiles[t].rows * s->tiles[t].cols;
    }
    CHECK_EQ(elements, p->m * (gather ? p->shares[me] : p->cols));
    CHECK_EQ(s->nputs, gather ? 0 : s->ntiles);
    for (int j = 0; j < s->nputs; j++) {
        const struct mt_overlap_put *put = &s->puts[j];
        CHECK(put->peer == me && !put->nwaits && put->tile == j, "put %d", j);
        if (!put->rows) continue;
        const struct mt_overlap_tile *tile = &s->tiles[put->tile];
        CHECK_EQ(put->to_row - me * own, tile->from_row - (me ? 0 : p->rows[0])); /* in the other's rows */
    }
    CHECK(s->part, "devices would take it for the whole");
    mt_bench_variant_release(&v);
}

static void check_others(const struct mt_overlap *p, int me) {
    struct mt_bench_variant sums = part_of(p, MT_BENCH_SUMS, me), puts = part_of(p, MT_BENCH_PUTS, me);
    struct mt_bench_variant together = part_of(p, MT_BENCH_TOGETHER, me), flags = part_of(p, MT_BENCH_FLAGS, me);
    bool gather = p->form == MT_OVERLAP_GATHER;
    CHECK(sums.schedule.nputs == 0 && !sums.schedule.ntiles == gather, "%d tiles", sums.schedule.ntiles);
    for (int t = 0; t < sums.schedule.ntiles; t++)
        CHECK(!sums.schedule.tiles[t].nwaits && sums.schedule.tiles[t].to == MT_OVERLAP_OUT, "tile %d", t);
    CHECK(!puts.schedule.ntiles == gather && puts.schedule.nputs > 0, "%d puts", puts.schedule.nputs);
    for (int t = 0; t < together.schedule.ntiles; t++) CHECK_EQ(together.schedule.tiles[t].nwaits, 0);
    for (int j = 0; j < flags.schedule.nputs; j++) CHECK_EQ(flags.schedule.puts[j].rows, 0);
    int parts[] = {sums.schedule.part, puts.schedule.part, together.schedule.part, flags.schedule.part};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j <= i; j++) CHECK((parts[i] == parts[j]) == (i == j) && parts[i], "parts %d, %d", i, j);
    mt_bench_variant_release(&sums), mt_bench_variant_release(&puts);
    mt_bench_variant_release(&together), mt_bench_variant_release(&flags);
}

/* ---- rates ---- */

/* Seconds: of a tile with its K loop, of all puts, of a kernel's flags, of all sums. */
static const double tile_s = 20e-6, puts_s = 400e-6, flags_s = 4e-6, sums_s = 30e-6;
static const double beside_sums = 1.04, beside_sent = 1.08; /* as in launcher/bench/overlap/fused.c */

static void add(struct mt_bench_case *c, enum mt_bench_part part, const struct mt_overlap *p, double s) {
    struct mt_bench_variant *v = mt_bench_add(c, part, "a part");
    v->problem = *p;
    mt_overlap_schedule(p, c->bench->rank, &v->schedule);
    mt_bench_variant_reduce(v, c->bench->rank);
    v->median_s = s;
    for (int i = 0; i < ROUNDS; i++) v->time_s[i] = v->own_s[i] = s;
}

/* As long as its tiles, where all else is hidden; and no less than what is put. */
static void check_predictions(struct mt_bench_overlap *bench, enum mt_overlap_form form) {
    struct mt_bench_case c = {.bench = bench, .rounds = ROUNDS, .problem = pose(form, even)};
    struct mt_overlap p = c.problem;
    struct mt_err err = MT_ERR_INIT;
    double seconds[2], tiles = 2048 / 128 * 1024 / 256, computes_s = tiles / WORKERS * tile_s;
    add(&c, MT_BENCH_PUTS, &p, puts_s + flags_s);
    add(&c, MT_BENCH_FLAGS, &p, flags_s);
    if (form != MT_OVERLAP_GATHER) add(&c, MT_BENCH_SUMS, &p, sums_s + flags_s / 2);
    add(&c, MT_BENCH_TILES, &p, computes_s);
    double together_s = fmax(computes_s, puts_s + flags_s), all_s = computes_s;
    if (mt_overlap_fused_adds(&p)) all_s *= beside_sums;
    add(&c, MT_BENCH_TOGETHER, &p, together_s);
    struct mt_bench_rates rates = mt_bench_rates_of_fused(&c, &p);
    CHECK_EQ(rates.rates[1].workers, WORKERS);
    double each_s = 2.0 * 128 * 256 * 1024 / rates.rates[1].flops + rates.rates[1].tile_s;
    double begin_s = rates.rates[1].begin_s;
    CHECK(begin_s > 0 && begin_s < all_s / 2, "a launch of %g s", begin_s);
    CHECK_NEAR(begin_s + tiles / WORKERS * each_s, all_s, 1e-12);
    CHECK_NEAR(mt_bench_traffic_of(&p, &c.arena).bytes / rates.links.bandwidth_Bps[1], puts_s, 1e-12);
    for (int r = 0; r < bench->nranks; r++) { /* to whichever peers */
        CHECK_NEAR(rates.rates[r].egress_Bps, rates.links.bandwidth_Bps[1], 1);
        CHECK_NEAR(rates.rates[r].ingress_Bps, rates.links.bandwidth_Bps[1], 1);
    }
    CHECK_NEAR(rates.links.latency_s[1], flags_s / 2, 1e-15);
    CHECK_NEAR(rates.rates[0].compute_slowdown, mt_overlap_fused_adds(&p) ? beside_sent : 1, 1e-12);
    struct mt_overlap both[2] = {p, p};
    both[1].tile[1] = 128; /* of which nothing is known */
    CHECK(mt_bench_predicts(&c, &both[0]) && !mt_bench_predicts(&c, &both[1]), "the tile is not told apart");
    CHECK_OK(mt_bench_predict(&c, both, 2, seconds, &err), err);
    double longest_s = fmax(computes_s, puts_s);
    CHECK(seconds[0] > longest_s * (1 - 1e-9) && seconds[0] < all_s + puts_s + sums_s + flags_s, "form %d: %g", form,
          seconds[0]);
    CHECK(isinf(seconds[1]), "it is predicted");
    for (int i = 0; i < c.nvariants; i++) mt_bench_variant_release(&c.variants[i]);
    mt_arena_release(&c.arena);
}

/* ---- few rows ---- */

/* 32 rows, and 8192 columns or terms in all: 64 tiles of 64 columns on a rank, each of one multiprocessor or two. */
static struct mt_overlap pose_few(enum mt_overlap_form form) {
    static const int64_t rows[RANKS] = {20, 12}, shares[RANKS] = {4096, 4096};
    bool gather = form == MT_OVERLAP_GATHER;
    struct mt_overlap p = pose(form, rows), few;
    p.m = 32, p.cols = gather ? 8192 : 4096, p.k = gather ? 4096 : 8192, p.shares = shares;
    CHECK(mt_overlap_few_candidate(&p, 0, &few), "of 32 rows");
    return few;
}

/* Only its tiles, of all rows: a product of its own. */
static void check_few_tiles(enum mt_overlap_form form, int me) {
    struct mt_overlap p = pose_few(form);
    struct mt_bench_variant v = part_of(&p, MT_BENCH_TILES, me);
    const struct mt_overlap_schedule *s = &v.schedule;
    CHECK_EQ(s->ntiles, 4096 / 64);
    CHECK_EQ(s->nputs, 0);
    CHECK(s->part, "devices would take it for the whole");
    for (int t = 0; t < s->ntiles; t++) {
        CHECK(s->tiles[t].kind == MT_TILE_MATMUL && !s->tiles[t].nwaits && s->tiles[t].rows == 32, "tile %d", t);
        if (form == MT_OVERLAP_REDUCE) CHECK(s->tiles[t].to == MT_OVERLAP_SLOTS && s->tiles[t].row == 32 * me, "%d", t);
    }
    mt_bench_variant_release(&v);
}

/* It is predicted from its own tiles' time, though one kernel has such a tile of the other kind as well: all tiles run
 * at once; before them come a gather's rows, or after them the exchange of sums, which takes as long as copies of its
 * bytes. */
static void check_few_predictions(struct mt_bench_overlap *bench, enum mt_overlap_form form) {
    enum { MULTIPROCESSORS = 132 };
    struct mt_device device = {.multiprocessors = MULTIPROCESSORS, .all_multiprocessors = MULTIPROCESSORS};
    struct mt_bench_overlap large = *bench;
    struct mt_bench_case c = {.bench = &large, .rounds = ROUNDS, .problem = pose(form, even)};
    struct mt_overlap first = c.problem, few = pose_few(form), like = few, any;
    struct mt_err err = MT_ERR_INIT;
    const double few_s = 30e-6, other_s = 90e-6, engine_s = 2e-6;
    double seconds[2];
    large.device = &device;
    first.m = few.m, first.rows = few.rows, first.cols = few.cols, first.k = few.k, first.shares = few.shares;
    like.joint = like.direct = false;
    add(&c, MT_BENCH_PUTS, &first, 5e-6 + flags_s);
    add(&c, MT_BENCH_FLAGS, &first, flags_s);
    if (form != MT_OVERLAP_GATHER) add(&c, MT_BENCH_SUMS, &first, 3e-6 + flags_s / 2);
    add(&c, MT_BENCH_TILES, &first, 60e-6);
    add(&c, MT_BENCH_TOGETHER, &first, 120e-6); /* which slows those down, not these */
    CHECK(!mt_bench_predicts(&c, &few), "nothing is known of its tile");
    any = first, any.how = MT_OVERLAP_ANY;
    add(&c, MT_BENCH_ENGINE, &any, engine_s);
    add(&c, MT_BENCH_TILES, &like, other_s);
    CHECK(!mt_bench_predicts(&c, &few), "another kind's tile");
    add(&c, MT_BENCH_TILES, &few, few_s);
    CHECK(mt_bench_fused_part_of(&c, MT_BENCH_TILES, NULL)->problem.tile[0] == 128, "the first is another");
    struct mt_bench_rates rates = mt_bench_rates_of_fused(&c, &few);
    CHECK_EQ(rates.rates[0].workers, MULTIPROCESSORS / 2);
    CHECK_NEAR(2.0 * 32 * 64 * 4096 / rates.rates[0].flops + rates.rates[0].tile_s, few_s, 1e-12);
    CHECK_NEAR(rates.rates[0].compute_slowdown, 1, 0);
    CHECK_OK(mt_bench_predict(&c, (struct mt_overlap[]){few, like}, 2, seconds, &err), err);
    CHECK_NEAR(seconds[0], few_s + engine_s, 1e-9);
    CHECK(seconds[1] > other_s / 2, "%g s", seconds[1]);
    for (int i = 0; i < c.nvariants; i++) mt_bench_variant_release(&c.variants[i]);
    mt_arena_release(&c.arena);
}

int main(void) {
    const struct mt_watch_options watch = {.heartbeat_s = MT_WATCH_HEARTBEAT_S, .deadline_s = 600};
    const struct mt_bench_overlap_options options = {.repetitions = ROUNDS};
    struct mt_device device = {.multiprocessors = WORKERS, .all_multiprocessors = WORKERS};
    struct mt_bench_overlap bench = {.options = &options, .nranks = RANKS, .device = &device};
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_session_begin(&watch, MT_OK, &err), err);
    MPI_Comm_rank(MPI_COMM_WORLD, &bench.rank);
    for (int form = 0; form < MT_OVERLAP_NFORMS; form++) {
        struct mt_overlap p = pose((enum mt_overlap_form)form, even), q = pose((enum mt_overlap_form)form, ragged);
        check_local_tiles(&p, bench.rank);
        check_local_tiles(&q, bench.rank);
        check_others(&p, bench.rank);
        check_predictions(&bench, (enum mt_overlap_form)form);
        if (form == MT_OVERLAP_SCATTER) continue;
        check_few_tiles((enum mt_overlap_form)form, bench.rank);
        check_few_predictions(&bench, (enum mt_overlap_form)form);
    }
    return mt_session_end(MT_OK, 0, &err);
}
