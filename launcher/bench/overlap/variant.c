/* One variant of a GEMM with its collective: what it queues, and its turns. */
#include <math.h>
#include <mpi.h>
#include <stdlib.h>

#include "kernels/base/log.h"
#include "kernels/base/wait.h"
#include "launcher/bench/overlap/internal.h"
#include "launcher/session/session.h"
#include "launcher/watch/watch.h"

/* A turn is so many slices of about this time, of which the fastest counts. One is long, so that its launch and its
 * end, about 0.4 ms of two H200s, are little beside it. At least so many instances where they are captured, each after
 * the one before. */
static const double slice_s = 0.016, short_s = 0.0005;
enum { SLICES = 1, LEAST_CAPTURED = 20, MOST_INSTANCES = 256 };
_Static_assert(LEAST_CAPTURED % 2 == 0, "epochs before a capture");
/* There should be time for so many rounds of all variants. */
enum { ROUNDS = 10 };
static const struct mt_clock one_step = {.step = 1, .seed = 1};

/* ---- schedules in parts ---- */

/* Tiles that copy one element of the result to itself, but await what they did. */
static void empty_tiles(struct mt_overlap_schedule *s, bool gemm, bool others) {
    for (int t = 0; t < s->ntiles; t++) {
        struct mt_overlap_tile *tile = &s->tiles[t];
        if (!(tile->kind == MT_TILE_MATMUL ? gemm : others)) continue;
        tile->kind = MT_TILE_COPY;
        tile->from = tile->to = MT_OVERLAP_OUT;
        tile->row = tile->from_row = tile->col = 0;
        tile->rows = tile->cols = 1;
    }
}

static void empty_puts(struct mt_overlap_schedule *s) {
    for (int j = 0; j < s->nputs; j++) s->puts[j].rows = 0;
}

/* Nothing awaits what peers send in this epoch, but what says that they are ready. */
static void drop_waits(struct mt_overlap_schedule *s) {
    for (int t = 0; t < s->ntiles; t++) s->tiles[t].nwaits = 0;
}

/* Only the tiles of the GEMM, or only the others; nothing is awaited or put. Sums go to the result. */
static void keep_tiles(struct mt_overlap_schedule *s, bool gemm) {
    int kept = 0;
    for (int t = 0; t < s->ntiles; t++) {
        struct mt_overlap_tile *tile = &s->tiles[t];
        if ((tile->kind == MT_TILE_MATMUL) != gemm) continue;
        tile->nwaits = 0;
        if (tile->kind == MT_TILE_ADD) tile->to = MT_OVERLAP_OUT;
        s->tiles[kept++] = *tile;
    }
    s->ntiles = kept;
    s->nputs = 0;
}

/* Of an AllReduce whose tiles add, movers copy the peer's rows alone. */
static void keep_copies_of_others(struct mt_overlap_schedule *s, const struct mt_overlap *p, int me) {
    int kept = 0;
    int64_t first, own = mt_overlap_owned(p, me, &first);
    for (int t = 0; t < s->ntiles; t++) {
        const struct mt_overlap_tile *tile = &s->tiles[t];
        if (tile->kind == MT_TILE_COPY && (tile->row < first || tile->row >= first + own)) s->tiles[kept++] = *tile;
    }
    s->ntiles = kept;
}

/* One kernel stores a tile where its put goes: here into a slot of this rank's own. The tiles of the GEMM come before
 * all others. */
static void keep_local_tiles(struct mt_overlap_schedule *s, const struct mt_overlap *p, int me) {
    int tiles = 0, puts = 0;
    int64_t first, own = mt_overlap_owned(p, me, &first);
    while (tiles < s->ntiles && s->tiles[tiles].kind == MT_TILE_MATMUL) s->tiles[tiles++].nwaits = 0;
    for (int j = 0; j < s->nputs; j++) {
        struct mt_overlap_put put = s->puts[j];
        if (put.tile < 0 || put.tile >= tiles) continue;
        if (put.rows) put.to_row += me * (own - mt_overlap_owned(p, put.peer, &first));
        put.peer = me, put.nwaits = 0;
        s->puts[puts++] = put;
    }
    s->ntiles = tiles, s->nputs = puts;
}

/* Of one kernel without sums the puts are left; with sums, which tiles put as they are stored, its K is short. */
static void keep_puts(struct mt_bench_variant *v) {
    struct mt_overlap_schedule *s = &v->schedule;
    if (v->problem.how != MT_OVERLAP_FUSED)
        empty_tiles(s, true, false);
    else if (v->problem.form == MT_OVERLAP_GATHER)
        s->ntiles = 0;
}

void mt_bench_variant_reduce(struct mt_bench_variant *v, int me) {
    struct mt_overlap_schedule *s = &v->schedule;
    bool stores = v->problem.how == MT_OVERLAP_FUSED && v->problem.form != MT_OVERLAP_GATHER;
    if (mt_overlap_fused_few(&v->problem)) stores = false; /* such tiles go to this rank's slot, then to others' */
    switch (v->part) {
    case MT_BENCH_PUTS: keep_puts(v); break;
    case MT_BENCH_FLAGS: empty_tiles(s, true, true), empty_puts(s); break;
    case MT_BENCH_IN_STEP: empty_tiles(s, false, true), empty_puts(s); break;
    case MT_BENCH_TOGETHER: drop_waits(s); break;
    case MT_BENCH_TILES: stores ? keep_local_tiles(s, &v->problem, me) : keep_tiles(s, true); break;
    case MT_BENCH_SUMS:
        keep_tiles(s, false);
        if (stores && v->problem.form == MT_OVERLAP_REDUCE && mt_overlap_fused_adds(&v->problem))
            keep_copies_of_others(s, &v->problem, me);
        break;
    default: return;
    }
    s->part = (int)v->part;
}

/* ---- work ---- */

/* The compute stream comes first and last, so that the GEMM of one instance follows the message of the one before. */
static void queue_sequential(struct mt_bench_case *c, struct mt_bench_variant *v) {
    struct mt_bench_overlap *b = c->bench;
    bool gather = c->problem.form == MT_OVERLAP_GATHER, works = v->part == MT_BENCH_SEQUENTIAL;
    if (works && !gather) mt_stream_op(b->compute, c->backend, &c->gemm, NULL);
    mt_event_record(b->computed, b->compute);
    mt_stream_wait(b->talk, b->computed);
    if (works) mt_stream_coll(b->talk, &v->message, NULL);
    mt_event_record(b->told, b->talk);
    mt_stream_wait(b->compute, b->told);
    if (works && gather) mt_stream_op(b->compute, c->backend, &c->gemm, NULL);
}

void mt_bench_variant_queue(struct mt_bench_case *c, struct mt_bench_variant *v) {
    struct mt_bench_overlap *b = c->bench;
    switch (v->part) {
    case MT_BENCH_GEMM: mt_stream_op(b->compute, c->backend, &c->gemm, NULL); break;
    case MT_BENCH_COLLECTIVE: mt_stream_coll(b->talk, &v->message, NULL); break;
    case MT_BENCH_SEQUENTIAL:
    case MT_BENCH_HANDOVER: queue_sequential(c, v); break;
    default: mt_stream_overlap(b->compute, &v->call, NULL);
    }
}

static enum mt_status finish(const struct mt_bench_overlap *b, struct mt_err *err) {
    enum mt_status st = mt_stream_sync(b->talk, b->options->deadline_s, err);
    return st ? st : mt_stream_sync(b->compute, b->options->deadline_s, err);
}

static void fail(struct mt_bench_case *c, const struct mt_bench_variant *v, struct mt_err *err) {
    mt_err_context(err, "%s %lld,%lld,%lld, %s", mt_overlap_name(c->problem.form), (long long)c->shape[0],
                   (long long)c->shape[1], (long long)c->shape[2], v->name);
    if (c->window) mt_window_abort(c->window, err->text);
    mt_session_abort(err);
}

static double slowest(double value) {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return value;
}

/* Nothing is on its way any more: all ranks have seen the ends of what ran before. */
void mt_bench_variant_begin(struct mt_bench_case *c, struct mt_bench_variant *v) {
    struct mt_err err = MT_ERR_INIT;
    if (!mt_bench_is_form(v)) return;
    int64_t bytes = mt_overlap_place(&v->problem, MT_OVERLAP_STAGED, 0);
    char *zeros = mt_calloc(1, (size_t)bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    enum mt_status st =
        mt_device_copy_in(c->bench->device, mt_device_window_ptr(c->window, 0, c->bench->rank), zeros, bytes, &err);
    if (st) fail(c, v, &err);
    v->epoch = 0;
    free(zeros);
}

double mt_bench_variant_run(struct mt_bench_case *c, struct mt_bench_variant *v, int count, double *own_s) {
    struct mt_err err = MT_ERR_INIT;
    MPI_Barrier(MPI_COMM_WORLD);
    double start_s = mt_now_s();
    if (v->part == MT_BENCH_ENGINE) {
        if (mt_bench_engine_run(c, count, own_s, &err)) fail(c, v, &err);
    } else {
        for (int i = 0; i < count; i++) mt_bench_variant_queue(c, v);
        if (finish(c->bench, &err)) fail(c, v, &err);
        *own_s = (mt_now_s() - start_s) / count;
    }
    mt_watch_progress();
    return slowest(*own_s);
}

/* ---- turns ---- */

/* The number of instances is even, so that the epochs of a form have the same parity in each launch. */
static void capture(struct mt_bench_case *c, struct mt_bench_variant *v) {
    struct mt_bench_overlap *b = c->bench;
    struct mt_err err = MT_ERR_INIT;
    bool talks = v->part == MT_BENCH_COLLECTIVE;
    struct mt_stream *streams[2] = {talks ? b->talk : b->compute, b->talk};
    int64_t epoch = v->epoch;
    enum mt_status st = mt_capture_begin(streams, v->part == MT_BENCH_SEQUENTIAL ? 2 : 1, &v->capture, &err);
    if (!st) {
        for (int i = 0; i < v->instances; i++) mt_bench_variant_queue(c, v);
        st = mt_capture_end(v->capture, &err);
    }
    if (st) fail(c, v, &err);
    v->epoch = epoch; /* nothing ran */
}

static int slices_of(const struct mt_bench_case *c) {
    return c->bench->slices ? c->bench->slices : SLICES;
}

void mt_bench_variant_prepare(struct mt_bench_case *c, struct mt_bench_variant *v) {
    bool captures = mt_device_captures(c->bench->device);
    int least = !captures ? 1 : c->bench->least ? c->bench->least : LEAST_CAPTURED;
    mt_bench_variant_begin(c, v);
    double own_s, each_s = fmax(mt_bench_variant_run(c, v, 2, &own_s), 1e-6);
    /* What two runs take is mostly their start, where one is short. */
    if (each_s < short_s) each_s = fmax(mt_bench_variant_run(c, v, LEAST_CAPTURED, &own_s), 1e-6);
    v->instances = (int)fmin(fmax(slice_s / each_s, least), MOST_INSTANCES);
    double turn_s = c->bench->options->seconds / ROUNDS / c->nvariants;
    if (turn_s > 0) v->instances = (int)fmax(1, fmin(v->instances, turn_s / slices_of(c) / each_s));
    if (!c->bench->rank && v->part <= MT_BENCH_PUTS)
        mt_log(MT_LOG_DEBUG, "%s %lld,%lld,%lld, %s: about %.3g ms", mt_overlap_name(c->problem.form),
               (long long)c->shape[0], (long long)c->shape[1], (long long)c->shape[2], v->name, 1e3 * each_s);
    if (!captures || v->part == MT_BENCH_ENGINE) return;
    v->instances += v->instances % 2;
    capture(c, v);
}

static enum mt_status launch(struct mt_bench_case *c, struct mt_bench_variant *v, struct mt_err *err) {
    struct mt_bench_overlap *b = c->bench;
    struct mt_stream *stream = v->part == MT_BENCH_COLLECTIVE ? b->talk : b->compute;
    uint64_t number;
    enum mt_status st = mt_capture_launch(v->capture, &one_step, &number, err);
    if (st) return st;
    v->epoch += v->instances;
    mt_event_record(b->computed, stream);
    return mt_event_sync(b->computed, b->options->deadline_s, err);
}

static double slice(struct mt_bench_case *c, struct mt_bench_variant *v, double *own_s) {
    struct mt_err err = MT_ERR_INIT;
    if (!v->capture) return mt_bench_variant_run(c, v, v->instances, own_s);
    MPI_Barrier(MPI_COMM_WORLD);
    double start_s = mt_now_s();
    if (launch(c, v, &err)) fail(c, v, &err);
    *own_s = (mt_now_s() - start_s) / v->instances;
    mt_watch_progress();
    return slowest(*own_s);
}

void mt_bench_variant_turn(struct mt_bench_case *c, struct mt_bench_variant *v, double *time_s, double *own_s) {
    *time_s = *own_s = INFINITY;
    mt_bench_variant_begin(c, v);
    for (int i = 0; i < slices_of(c); i++) {
        double own, time = slice(c, v, &own);
        *time_s = fmin(*time_s, time), *own_s = fmin(*own_s, own);
    }
}

void mt_bench_variant_release(struct mt_bench_variant *v) {
    if (v->capture) mt_capture_free(v->capture);
    mt_overlap_schedule_release(&v->schedule);
    mt_schedule_release(&v->steps);
}
