/* Groups of waves: in which unequal pieces a share is computed and sent, when a piece is one GEMM and one put. Few
 * pieces waste little on starting each; the first of a gather should be short, for it is awaited, and the last of a
 * sum, for nothing hides its put. FlashOverlap (Hong et al., arXiv 2504.19519) searches such groups by pruned
 * enumeration.
 *
 * Here, for each number G of groups, a dynamic programme over the W waves of a share finds the best sizes, if a peer's
 * share alone is looked at and nothing slows down: of a gather, group i may start when its rows are there, at a time
 * that depends on i and on the waves so far only; of a sum, the same with puts and the GEMMs before them. O(G W^2)
 * each. Then the best by simulation is improved, wave by wave between neighbours, by splitting and by merging, until
 * nothing is faster by simulation, which knows all peers and what slows what. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/overlap/predict.h"

enum { MOST_WAVES = 64, MOST_GROUPS = 16, MOST_TRIED = 2000, MOST_MIX = 4 };

struct sizes { /* waves of each group */
    int count, of[MOST_WAVES];
};

struct search {
    const struct mt_overlap *problem;
    const struct mt_overlap_rates *rates;
    const struct mt_overlap_links *links;
    int64_t rows; /* of a wave */
    int waves;    /* of the largest share */
    /* Of the largest share, on the rank that has most to multiply: a GEMM and a put of w waves take
     * gemm_s + w wave_s and put_s + w sent_s. */
    double gemm_s, wave_s, put_s, sent_s, latency_s;
    int mix; /* of sums */
    int tried;
};

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t pieces(int64_t extent, int64_t most) {
    return (extent + most - 1) / most;
}

/* The rank with most operations. */
static int busiest(const struct mt_overlap *p) {
    int most = 0;
    for (int r = 1; r < p->n; r++)
        if (p->shares[r] > p->shares[most]) most = r;
    return most;
}

static int64_t columns_of(const struct mt_overlap *p, int rank) {
    return larger(1, p->form == MT_OVERLAP_GATHER ? p->shares[rank] : p->cols);
}

int64_t mt_overlap_wave_rows(const struct mt_overlap *p, const struct mt_overlap_rates *rates) {
    int most = busiest(p);
    const struct mt_overlap_rates *r = &rates[most];
    if (!r->units) return p->tile[0];
    return r->unit[0] * larger(1, r->units / pieces(columns_of(p, most), r->unit[1]));
}

/* ---- sizes as a problem, simulated ---- */

static struct mt_overlap pose(const struct search *s, const struct sizes *sizes, int64_t *rows) {
    struct mt_overlap p = *s->problem;
    p.groups = rows, p.ngroups = sizes->count;
    p.tile[0] = 1, p.tile[1] = 1, p.mix = s->mix, p.direct = false;
    for (int g = 0; g < sizes->count; g++) {
        rows[g] = sizes->of[g] * s->rows;
        p.tile[0] = larger(p.tile[0], rows[g]);
    }
    for (int r = 0; r < p.n; r++) p.tile[1] = larger(p.tile[1], columns_of(&p, r));
    if (p.form == MT_OVERLAP_GATHER) p.chunk = p.tile[0];
    return p;
}

static enum mt_status simulate(struct search *s, const struct sizes *sizes, struct mt_overlap_prediction *prediction,
                               struct mt_err *err) {
    int64_t rows[MOST_WAVES];
    struct mt_overlap p = pose(s, sizes, rows);
    s->tried++;
    return mt_overlap_predict_problem(&p, s->rates, s->links, prediction, err);
}

/* ---- the dynamic programme ---- */

/* The second of two works, which groups go through one after the other: group i, with w waves up to it, comes from the
 * first at i first_s + w each_s, and takes start_s + its waves times long_s. */
struct second {
    double before_s; /* it is busy until then */
    double first_s, each_s, start_s, long_s;
};

/* The sizes of `count` groups with which it ends first. */
static void divide(const struct search *s, int count, const struct second *work, struct sizes *sizes) {
    int waves = s->waves, (*from)[MOST_WAVES + 1] = mt_calloc((size_t)count + 1, sizeof *from);
    double ends[2][MOST_WAVES + 1];
    for (int w = 0; w <= waves; w++) ends[0][w] = w ? INFINITY : work->before_s;
    for (int i = 1; i <= count; i++)
        for (int w = 0; w <= waves; w++) {
            double *best = &ends[i % 2][w], ready = i * work->first_s + w * work->each_s;
            *best = INFINITY;
            for (int v = 0; v < w; v++) {
                double end = fmax(ends[(i - 1) % 2][v], ready) + work->start_s + (w - v) * work->long_s;
                if (end < *best) *best = end, from[i][w] = v;
            }
        }
    sizes->count = count;
    for (int i = count, w = waves; i; w = from[i--][w]) sizes->of[i - 1] = w - from[i][w];
    free(from);
}

static void divide_share(const struct search *s, int count, struct sizes *sizes) {
    int peers = s->problem->n > 1 ? s->problem->n - 1 : 1;
    double own_s = count * s->gemm_s + s->waves * s->wave_s - s->latency_s;
    /* Puts, then GEMMs, after those of a rank's own rows; or GEMMs for each peer, then puts. */
    struct second gemms = {own_s, s->put_s, s->sent_s, s->gemm_s, s->wave_s};
    struct second puts = {0, peers * s->gemm_s, peers * s->wave_s, peers * s->put_s, peers * s->sent_s};
    divide(s, count, s->problem->form == MT_OVERLAP_GATHER ? &gemms : &puts, sizes);
}

/* ---- improvement ---- */

/* Change k of the sizes, into *out; false: it is none. There are 5 for each group. */
static bool change(const struct sizes *in, int k, struct sizes *out) {
    int g = k / 5;
    bool next = g + 1 < in->count;
    *out = *in;
    switch (k % 5) {
    case 0: /* a wave to the next */
    case 1: /* from the next */
        if (!next || in->of[k % 5 ? g + 1 : g] < 2) return false;
        out->of[g] += k % 5 ? 1 : -1, out->of[g + 1] -= k % 5 ? 1 : -1;
        return true;
    case 2: /* merge with the next */
        if (!next) return false;
        out->of[g] += in->of[g + 1];
        memmove(&out->of[g + 1], &in->of[g + 2], (size_t)(in->count - g - 2) * sizeof *out->of);
        out->count--;
        return true;
    default: { /* in two: its first wave apart, or half */
        int first = k % 5 == 3 ? 1 : in->of[g] / 2;
        if (in->of[g] < 2 || (k % 5 == 4 && first == 1)) return false;
        memmove(&out->of[g + 1], &in->of[g], (size_t)(in->count - g) * sizeof *out->of);
        out->of[g] = first, out->of[g + 1] = in->of[g] - first;
        out->count++;
        return true;
    }
    }
}

static enum mt_status improve(struct search *s, struct sizes *best, struct mt_overlap_prediction *found,
                              struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int k = 0, since = 0; since < 5 * best->count && s->tried < MOST_TRIED && !st; k++, since++) {
        struct mt_overlap_prediction now;
        struct sizes tried;
        if (!change(best, k % (5 * best->count), &tried)) continue;
        st = simulate(s, &tried, &now, err);
        if (st || now.s >= found->s) continue;
        *best = tried, *found = now, since = -1;
    }
    return st;
}

/* ---- the whole ---- */

static void set_up(struct search *s) {
    const struct mt_overlap *p = s->problem;
    int most = busiest(p), peer = (most + 1) % p->n;
    const struct mt_overlap_rates *r = &s->rates[most];
    int64_t share = 0, columns = columns_of(p, most), k = p->form == MT_OVERLAP_GATHER ? p->k : p->shares[most];
    for (int i = 0; i < p->n; i++) share = larger(share, p->rows[i]);
    s->rows = mt_overlap_wave_rows(p, s->rates);
    if (pieces(share, s->rows) > MOST_WAVES) s->rows *= pieces(pieces(share, s->rows), MOST_WAVES);
    s->waves = (int)larger(1, pieces(share, s->rows));
    double sent = (double)(s->rows * (p->form == MT_OVERLAP_GATHER ? p->k : p->cols) * mt_type_size(p->wire));
    double rate_Bps =
        fmin(s->links->bandwidth_Bps[most * p->n + peer], fmin(r->egress_Bps, s->rates[peer].ingress_Bps));
    s->gemm_s = r->tile_s;
    s->wave_s = 2 * (double)s->rows * (double)columns * (double)k / r->flops / r->workers;
    s->put_s = r->put_s;
    s->sent_s = sent / rate_Bps;
    s->latency_s = s->links->latency_s[most * p->n + peer];
}

enum mt_status mt_overlap_best_groups(struct mt_overlap *problem, const struct mt_overlap_rates *rates,
                                      const struct mt_overlap_links *links, struct mt_arena *arena,
                                      struct mt_overlap_prediction *prediction, struct mt_err *err) {
    struct search s = {.problem = problem, .rates = rates, .links = links};
    struct sizes best = {0}, tried;
    struct mt_overlap_prediction now;
    enum mt_status st = MT_OK;
    set_up(&s);
    for (int count = 1; count <= MOST_GROUPS && count <= s.waves && !st; count++) {
        divide_share(&s, count, &tried);
        st = simulate(&s, &tried, &now, err);
        if (st || (best.count && now.s >= prediction->s)) continue;
        best = tried, *prediction = now;
    }
    if (!st) st = improve(&s, &best, prediction, err);
    for (int mix = 1, best_mix = 0; mix <= MOST_MIX && problem->form != MT_OVERLAP_GATHER && !st; mix *= 2) {
        s.mix = mix;
        st = simulate(&s, &best, &now, err);
        if (!st && now.s < prediction->s) *prediction = now, best_mix = mix;
        s.mix = best_mix;
    }
    if (!st) *problem = pose(&s, &best, mt_new(arena, int64_t, best.count));
    return st;
}
