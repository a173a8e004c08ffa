/* Rates from the medians of turns, predictions by them, and the choice of a form.
 *
 *   a tile       its share of the tiles' time alone, as its operations or its bytes
 *   latency      the time of the flags alone
 *   bandwidth    bytes of the rank that sends or receives most, over the time of the puts alone, less the flags' and
 * the additions' a put        by what many small puts take longer than few large ones
 *
 *   in step      what a GEMM takes longer where ranks wait for each other each time: the slower of them, time by time,
 * is slower than either on average
 *
 * All ranks work in these turns as they do in the forms, so that what ranks of a host take from each other is in the
 * rates. Sequential is predicted as the GEMM, in step, the collective and the handovers between their streams. */
#include <math.h>
#include <mpi.h>
#include <stdlib.h>

#include "kernels/base/number/stats.h"
#include "launcher/bench/overlap/internal.h"
#include "launcher/session/agree.h"

/* Overlapped only where it is predicted to be faster than sequential by this, and by what the medians may be off. */
static const double worth = 0.01, most_doubt = 0.2;

static const struct mt_bench_variant *find(const struct mt_bench_case *c, enum mt_bench_part part) {
    const struct mt_bench_variant *last = NULL; /* of puts the coarse ones */
    for (int i = 0; i < c->nvariants; i++)
        if (c->variants[i].part == part) last = &c->variants[i];
    return last;
}

static double own_median(const struct mt_bench_case *c, const struct mt_bench_variant *v) {
    return v ? mt_median(v->own_s, (size_t)c->bench->options->repetitions) : 0;
}

/* ---- work of a schedule ---- */

static double operations(const struct mt_overlap *p, int rank, const struct mt_overlap_schedule *s) {
    double k = (double)(p->form == MT_OVERLAP_GATHER ? p->k : p->shares[rank]), sum = 0;
    for (int t = 0; t < s->ntiles; t++)
        if (s->tiles[t].kind == MT_TILE_MATMUL) sum += 2.0 * (double)s->tiles[t].rows * (double)s->tiles[t].cols * k;
    return sum;
}

/* That tiles of sums and copies read and write, as predictions count them. */
static double bytes_of_sums(const struct mt_overlap *p, const struct mt_overlap_schedule *s) {
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

struct traffic {
    double bytes; /* of the rank that sends or receives most */
    double puts;  /* of the rank with most of them */
};

static struct traffic traffic_of(const struct mt_overlap *p, struct mt_arena *arena) {
    struct traffic most = {0};
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
    const struct mt_bench_variant *coarse = find(c, MT_BENCH_PUTS), *fine = coarse;
    for (int i = c->nvariants - 1; i >= 0; i--)
        if (c->variants[i].part == MT_BENCH_PUTS) fine = &c->variants[i];
    struct traffic of_coarse = traffic_of(&coarse->problem, &c->arena), of_fine = traffic_of(&fine->problem, &c->arena);
    double sums_s = find(c, MT_BENCH_SUMS) ? find(c, MT_BENCH_SUMS)->median_s : 0;
    *put_s = 0;
    if (of_fine.puts > of_coarse.puts)
        *put_s = fmax(0, (fine->median_s - coarse->median_s) / (of_fine.puts - of_coarse.puts));
    double least_s = coarse->median_s / 20;
    return of_coarse.bytes / fmax(least_s, coarse->median_s - sums_s - latency_s - of_coarse.puts * *put_s);
}

static double in_step(const struct mt_bench_case *c) {
    double tiles_s = find(c, MT_BENCH_TILES)->median_s;
    return fmax(1, (find(c, MT_BENCH_IN_STEP)->median_s - find(c, MT_BENCH_FLAGS)->median_s) / tiles_s);
}

static void find_rates(struct mt_bench_case *c, struct mt_overlap_rates *rates, double *bandwidth_Bps,
                       double *latency_s) {
    const struct mt_overlap *p = &c->problem;
    const struct mt_bench_variant *tiles = find(c, MT_BENCH_TILES), *sums = find(c, MT_BENCH_SUMS);
    double own[2] = {0, 0}, *all = mt_new(&c->arena, double, 2 * p->n), put_s;
    own[0] = operations(p, c->bench->rank, &tiles->schedule) / own_median(c, tiles) / in_step(c);
    if (sums) own[1] = bytes_of_sums(p, &sums->schedule) / own_median(c, sums);
    MPI_Allgather(own, 2, MPI_DOUBLE, all, 2, MPI_DOUBLE, MPI_COMM_WORLD);
    double latency = find(c, MT_BENCH_FLAGS)->median_s, bandwidth = bandwidth_of(c, latency, &put_s);
    for (int r = 0; r < p->n; r++) {
        rates[r] = (struct mt_overlap_rates){.workers = 1,
                                             .flops = all[2 * r],
                                             .memory_Bps = all[2 * r + 1] > 0 ? all[2 * r + 1] : INFINITY,
                                             .streams = 1,
                                             .put_s = put_s,
                                             .holds = true,
                                             .egress_Bps = INFINITY,
                                             .ingress_Bps = INFINITY,
                                             .compute_slowdown = 1,
                                             .put_slowdown = 1};
        for (int q = 0; q < p->n; q++) bandwidth_Bps[r * p->n + q] = bandwidth, latency_s[r * p->n + q] = latency;
    }
}

/* ---- predictions ---- */

static enum mt_status predict(const struct mt_overlap *p, const struct mt_overlap_rates *rates,
                              const struct mt_overlap_links *links, double *predicted_s, struct mt_err *err) {
    struct mt_overlap_schedule *schedules = mt_calloc((size_t)p->n, sizeof *schedules);
    struct mt_overlap_prediction prediction;
    for (int r = 0; r < p->n; r++) mt_overlap_schedule(p, r, &schedules[r]);
    enum mt_status st = mt_overlap_predict(p, schedules, rates, links, &prediction, err);
    for (int r = 0; r < p->n; r++) mt_overlap_schedule_release(&schedules[r]);
    free(schedules);
    if (!st) *predicted_s = prediction.s;
    return st;
}

/* How far the prediction of sequential, or of a form, may be off: half the interval of the longest part. */
static double doubt(const struct mt_bench_case *c) {
    size_t n = (size_t)c->bench->options->repetitions;
    double gemm = mt_interval_error(mt_median_interval(c->variants[c->gemm_alone].time_s, n));
    double tiles = mt_interval_error(mt_median_interval(find(c, MT_BENCH_IN_STEP)->time_s, n));
    return fmin(most_doubt, fmax(gemm, tiles));
}

static enum mt_status choose(struct mt_bench_case *c, const struct mt_overlap_rates *rates,
                             const struct mt_overlap_links *links, struct mt_err *err) {
    struct mt_overlap chosen = c->problem;
    struct mt_overlap_prediction prediction;
    bool faster;
    double sequential_s = (1 - worth - doubt(c)) * c->variants[c->sequential].predicted_s;
    enum mt_status st = mt_overlap_best(&chosen, rates, links, sequential_s, &faster, &prediction, err);
    c->chosen = c->sequential;
    for (int i = 0; i < c->nvariants && !st; i++) {
        struct mt_bench_variant *v = &c->variants[i];
        if (v->part != MT_BENCH_OVERLAPPED) continue;
        st = predict(&v->problem, rates, links, &v->predicted_s, err);
        if (faster && mt_overlap_equal(&v->problem, &chosen)) c->chosen = i;
    }
    return st;
}

static void find_fastest(struct mt_bench_case *c) {
    c->collective = -1;
    for (int i = 0; i < c->nvariants; i++) {
        struct mt_bench_variant *v = &c->variants[i];
        v->median_s = mt_median(v->time_s, (size_t)c->bench->options->repetitions);
        if (v->part == MT_BENCH_GEMM) c->gemm_alone = i;
        if (v->part == MT_BENCH_SEQUENTIAL) c->sequential = c->best = i;
        if (v->part == MT_BENCH_OVERLAPPED && v->median_s < c->variants[c->best].median_s) c->best = i;
        if (v->part != MT_BENCH_COLLECTIVE && v->part != MT_BENCH_PUTS) continue;
        if (c->collective < 0 || v->median_s < c->variants[c->collective].median_s) c->collective = i;
    }
}

enum mt_status mt_bench_case_judge(struct mt_bench_case *c, struct mt_err *err) {
    int n = c->problem.n;
    struct mt_overlap_rates *rates = mt_new(&c->arena, struct mt_overlap_rates, n);
    double *bandwidth_Bps = mt_new(&c->arena, double, n *n), *latency_s = mt_new(&c->arena, double, n *n);
    find_fastest(c);
    find_rates(c, rates, bandwidth_Bps, latency_s);
    c->variants[c->sequential].predicted_s = in_step(c) * c->variants[c->gemm_alone].median_s +
                                             find(c, MT_BENCH_COLLECTIVE)->median_s +
                                             find(c, MT_BENCH_HANDOVER)->median_s;
    const struct mt_overlap_links links = {bandwidth_Bps, latency_s};
    return mt_agree(MPI_COMM_WORLD, choose(c, rates, &links, err), err);
}
