/* Medians, predictions, and the choice of a form. All ranks predict some, and all choose by the same numbers.
 *
 * Sequential is predicted as the GEMM, in step, the collective and the handovers between their streams. In a captured
 * graph a handover is a wait for a kernel to begin; and both take longer by a part than when they run again and again,
 * with caches that have their operands: a product more of what has just come. A form is chosen over it if it is
 * predicted to be faster by a margin:
 *
 *   worth     what a prediction of a form is off by, mostly, beyond what rates are
 *   doubt     what the rates are off by: half the interval of the longest part, but not more than most_doubt
 *
 * To choose a form that is a little slower than sequential costs what it is slower; not to choose one that is faster
 * costs as much. So the margin is a small one: with a larger one forms that win by a few percent would be left out,
 * where rounds are few and intervals wide. */
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/stats.h"
#include "launcher/bench/overlap/internal.h"
#include "launcher/session/agree.h"

static const double worth = 0.01, most_doubt = 0.02;
/* Predictions of slabs that one kernel puts itself are off by more than others, by so much, in both directions: of many
 * forms one that is predicted too fast would be chosen too often. */
static const double slabs_doubt = 0.05;
/* Measured on two H100, 42 shapes. */
static const double captured_handover_s = 3.5e-6, in_turn = 1.025, gather_in_turn = 1.05;

void mt_bench_find_medians(struct mt_bench_case *c) {
    c->collective = -1;
    for (int i = 0; i < c->nvariants; i++) {
        struct mt_bench_variant *v = &c->variants[i];
        v->median_s = mt_median(v->time_s, (size_t)c->rounds);
        if (v->part == MT_BENCH_GEMM) c->gemm_alone = i;
        if (v->part == MT_BENCH_SEQUENTIAL) c->sequential = c->best = i;
        if (v->part == MT_BENCH_OVERLAPPED && v->median_s < c->variants[c->best].median_s) c->best = i;
        if (v->part != MT_BENCH_COLLECTIVE && v->part != MT_BENCH_ENGINE && v->part != MT_BENCH_PUTS) continue;
        if (c->collective < 0 || v->median_s < c->variants[c->collective].median_s) c->collective = i;
    }
}

/* ---- predictions ---- */

bool mt_bench_predicts(const struct mt_bench_case *c, const struct mt_overlap *p) {
    if (p->how == MT_OVERLAP_ANY) return true;
    return p->how == MT_OVERLAP_FUSED && mt_bench_fused_part_of(c, MT_BENCH_TILES, p);
}

/* By chunks, or in one kernel with such tiles, putting alike, in equal slabs. */
static bool has_rates_of(const struct mt_overlap *a, const struct mt_overlap *b) {
    if (a->how != b->how || a->direct != b->direct) return false;
    bool alike = a->engines == b->engines && a->slabs == b->slabs;
    if (!a->ngroups != !b->ngroups) return false;
    return a->how != MT_OVERLAP_FUSED || (alike && memcmp(a->tile, b->tile, sizeof a->tile) == 0 &&
                                          mt_overlap_fused_few(a) == mt_overlap_fused_few(b));
}

/* Rates of each problem, those of one tile once. */
static struct mt_bench_rates *find_rates(struct mt_bench_case *c, const struct mt_overlap *problems, int count) {
    struct mt_bench_rates *rates = mt_new(&c->arena, struct mt_bench_rates, count + 1);
    for (int i = 0; i < count; i++) {
        const struct mt_overlap *p = &problems[i];
        int like = 0;
        if (!mt_bench_predicts(c, p)) continue;
        while (like < i && !has_rates_of(&problems[like], p)) like++;
        rates[i] = like < i                     ? rates[like]
                   : p->how == MT_OVERLAP_FUSED ? mt_bench_rates_of_fused(c, p)
                                                : mt_bench_rates_of_chunks(c, p);
        if (p->how != MT_OVERLAP_FUSED) continue;
        struct mt_overlap_rates *own = mt_new(&c->arena, struct mt_overlap_rates, p->n);
        memcpy(own, rates[i].rates, (size_t)p->n * sizeof *own);
        for (int r = 0; r < p->n; r++) own[r].streams = mt_overlap_fused_streams(p, own[r].workers);
        rates[i].rates = own;
    }
    return rates;
}

enum mt_status mt_bench_predict(struct mt_bench_case *c, const struct mt_overlap *problems, int count, double *seconds,
                                struct mt_err *err) {
    struct mt_bench_rates *rates = find_rates(c, problems, count);
    struct mt_overlap_prediction now;
    enum mt_status st = MT_OK;
    for (int i = 0; i < count; i++) {
        seconds[i] = INFINITY;
        if (i % c->bench->nranks != c->bench->rank || !rates[i].rates || st) continue;
        st = mt_overlap_predict_problem(&problems[i], rates[i].rates, &rates[i].links, &now, err);
        seconds[i] = st ? INFINITY : now.s;
    }
    MPI_Allreduce(MPI_IN_PLACE, seconds, count, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    return mt_agree(MPI_COMM_WORLD, st, err);
}

/* ---- the choice ---- */

/* How far the prediction of sequential, or of a form, may be off: half the interval of the longest part. */
static double doubt(const struct mt_bench_case *c) {
    size_t n = (size_t)c->rounds;
    double gemm = mt_interval_error(mt_median_interval(c->variants[c->gemm_alone].time_s, n));
    double tiles = mt_interval_error(mt_median_interval(mt_bench_part_of(c, MT_BENCH_IN_STEP)->time_s, n));
    return fmin(most_doubt, fmax(gemm, tiles) / 2);
}

/* All variants have been measured, the one that is chosen among them. */
static enum mt_status choose(struct mt_bench_case *c, struct mt_err *err) {
    struct mt_overlap *problems = mt_new(&c->arena, struct mt_overlap, c->nvariants);
    double *seconds = mt_new(&c->arena, double, c->nvariants);
    int *which = mt_new(&c->arena, int, c->nvariants), count = 0;
    for (int i = 0; i < c->nvariants; i++)
        if (c->variants[i].part == MT_BENCH_OVERLAPPED) problems[count] = c->variants[i].problem, which[count++] = i;
    enum mt_status st = mt_bench_predict(c, problems, count, seconds, err);
    double best_s = (1 - worth - doubt(c)) * c->variants[c->sequential].predicted_s;
    c->chosen = c->sequential;
    for (int i = 0; i < count && !st; i++) {
        bool slabs = problems[i].how == MT_OVERLAP_FUSED && problems[i].slabs > 1 && !problems[i].engines;
        double surely_s = seconds[i] * (slabs ? 1 + slabs_doubt : 1);
        c->variants[which[i]].predicted_s = isinf(seconds[i]) ? NAN : seconds[i];
        if (surely_s < best_s) best_s = surely_s, c->chosen = which[i];
    }
    int chosen[2] = {c->chosen, c->best};
    MPI_Bcast(chosen, 2, MPI_INT, 0, MPI_COMM_WORLD); /* one judgement */
    c->chosen = chosen[0], c->best = chosen[1];
    return st;
}

static struct mt_overlap_rates slowest(const struct mt_bench_rates *found, int n) {
    struct mt_overlap_rates slowest = found->rates[0];
    for (int r = 1; r < n; r++)
        if (found->rates[r].flops < slowest.flops) slowest = found->rates[r];
    return slowest;
}

/* For the tables. */
static void note_rates(struct mt_bench_case *c) {
    const struct mt_bench_variant *tiles = mt_bench_fused_part_of(c, MT_BENCH_TILES, NULL);
    struct mt_bench_rates found = mt_bench_rates_of_chunks(c, &c->problem);
    c->rates = slowest(&found, c->problem.n);
    c->bandwidth_Bps = found.links.bandwidth_Bps[1], c->latency_s = found.links.latency_s[1];
    c->in_step = mt_bench_in_step(c);
    if (!tiles) return;
    found = mt_bench_rates_of_fused(c, &tiles->problem);
    c->fused = slowest(&found, c->problem.n);
    c->fused_bandwidth_Bps = found.links.bandwidth_Bps[1], c->fused_latency_s = found.links.latency_s[1];
}

static double predict_sequential(const struct mt_bench_case *c) {
    const struct mt_bench_variant *handover = mt_bench_part_of(c, MT_BENCH_HANDOVER); /* none in a captured graph */
    double s = c->in_step * c->variants[c->gemm_alone].median_s + mt_bench_part_of(c, MT_BENCH_COLLECTIVE)->median_s;
    if (handover) return s + handover->median_s;
    return s * (c->problem.form == MT_OVERLAP_GATHER ? gather_in_turn : in_turn) + captured_handover_s;
}

enum mt_status mt_bench_case_judge(struct mt_bench_case *c, struct mt_err *err) {
    mt_bench_find_medians(c);
    note_rates(c);
    c->variants[c->sequential].predicted_s = predict_sequential(c);
    return choose(c, err);
}
