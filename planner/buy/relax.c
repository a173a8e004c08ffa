/* The relaxation: nodes x[i] of each item, a rate f[j] of each job (jobs a second) and its time t[j],
 *
 *     minimize    sum over j of t[j]
 *     such that   t[j] >= 1 / f[j]                              by tangents
 *                 f[j] <= owned[j] + sum over i of rate[i, j] x[i]                 priced throughput, linear scaling
 *                 f[j] <= f[j](s) + m[s, j] (R[j](x) - R[j](s)) + M (kinds of s that x has not)      cuts
 *                 money, power, rack units, nodes, devices <= limits
 *                 x[i] <= most[i] y[i],   y[i] <= x[i]          whether it has nodes of that kind
 *
 * R[j] is the right side of the second line. A cut says that what has all the kinds of nodes that the judged
 * configuration s has scales no better from there on than it did up to there: m is the slope of f over R between the
 * two largest that were judged of these kinds, at most their mean rate. Of each set of kinds the largest is a cut. For
 * duals x is not whole, and y would then be a part that leaves cuts without effect: it is 1 for the kinds of the best.
 * Where a configuration could not be planned, others of its kinds alone must have more nodes. Rates, times and money
 * are scaled to about 1. */
#include <math.h>
#include <string.h>

#include "planner/buy/internal.h"
#include "planner/lp/lp.h"

enum { TANGENTS = 24, MOST_CUTS = 48 };
enum limit { MONEY, PER_HOUR, POWER, RACK_UNITS, NODES, DEVICES, NLIMITS };

struct relaxing {
    struct searching *s;
    struct mt_lp lp;
    bool integer;
    const int64_t *kinds;     /* that it must have; or null */
    double money, *most_rate; /* [njobs]: what f is divided by */
    double least_time_s;      /* what times are divided by */
    int *x, *y, *f, *t;
    int limits[NLIMITS];   /* rows, or -1 */
    double scale[NLIMITS]; /* what a limit's row is divided by */
};

static void add_limit(struct relaxing *r, enum limit limit, const char *name, double most, const double *each) {
    r->limits[limit] = -1;
    if (!(most > 0) || !isfinite(most)) {
        if (limit != MONEY || !isfinite(most)) return;
        most = 0; /* nothing can be spent */
    }
    r->scale[limit] = most > 0 ? most : 1;
    int row = r->limits[limit] = mt_lp_row(&r->lp, name, -INFINITY, most > 0 ? 1 : 0);
    for (int i = 0; i < r->s->buy->nitems; i++)
        if (each[i] > 0) mt_lp_set(&r->lp, row, r->x[i], each[i] / r->scale[limit]);
}

static void add_limits(struct relaxing *r) {
    const struct mt_buy *buy = r->s->buy;
    const struct mt_purchase_limits *l = &buy->limits;
    int n = buy->nitems;
    double *each[NLIMITS];
    for (int k = 0; k < NLIMITS; k++) each[k] = mt_new(&r->lp.arena, double, n);
    for (int i = 0; i < n; i++) {
        const struct mt_purchase_item *item = &buy->items[i].shown;
        each[MONEY][i] = r->s->rent ? item->per_hour : item->price;
        each[PER_HOUR][i] = item->per_hour;
        each[POWER][i] = item->power_W;
        each[RACK_UNITS][i] = item->rack_units;
        each[NODES][i] = 1;
        each[DEVICES][i] = item->devices;
    }
    double devices = l->devices - (buy->owned ? buy->owned->ndevices : 0);
    add_limit(r, MONEY, "money", r->money, each[MONEY]);
    add_limit(r, PER_HOUR, "money for an hour", r->s->rent ? 0 : l->budget_per_hour, each[PER_HOUR]);
    add_limit(r, POWER, "power", l->power_W, each[POWER]);
    add_limit(r, RACK_UNITS, "rack units", l->rack_units, each[RACK_UNITS]);
    add_limit(r, NODES, "nodes", l->nodes, each[NODES]);
    add_limit(r, DEVICES, "devices", fmax(devices, 0.5), each[DEVICES]);
}

static void add_columns(struct relaxing *r) {
    const struct mt_buy *buy = r->s->buy;
    int n = buy->nitems, m = buy->njobs;
    r->x = mt_new(&r->lp.arena, int, n), r->y = mt_new(&r->lp.arena, int, n);
    r->f = mt_new(&r->lp.arena, int, m), r->t = mt_new(&r->lp.arena, int, m);
    r->most_rate = mt_new(&r->lp.arena, double, m);
    for (int i = 0; i < n; i++) {
        r->x[i] = mt_lp_col(&r->lp, "nodes", 0, (double)r->s->most[i], 0, r->integer);
        r->y[i] = mt_lp_col(&r->lp, "kind", r->kinds && r->kinds[i] > 0, 1, 0, r->integer);
        int row = mt_lp_row(&r->lp, "has the kind", -INFINITY, 0);
        mt_lp_set(&r->lp, row, r->x[i], 1);
        mt_lp_set(&r->lp, row, r->y[i], -(double)r->s->most[i]);
        row = mt_lp_row(&r->lp, "has a node", -INFINITY, 0);
        mt_lp_set(&r->lp, row, r->y[i], 1);
        mt_lp_set(&r->lp, row, r->x[i], -1);
    }
    for (int j = 0; j < m; j++) {
        r->most_rate[j] = mt_buy_rate(r->s, r->s->most, j);
        r->least_time_s += 1 / r->most_rate[j];
    }
    for (int j = 0; j < m; j++) {
        r->f[j] = mt_lp_col(&r->lp, "rate", 0, 1, 0, false);
        r->t[j] = mt_lp_col(&r->lp, "time", 0, INFINITY, 1, false);
    }
}

/* t >= 2 / g - f / g^2 at points g, from the slowest rate that anything has. */
static void add_tangents(struct relaxing *r, int j) {
    const struct mt_buy *buy = r->s->buy;
    double least = r->s->owned_rate[j] > 0 ? r->s->owned_rate[j] : INFINITY;
    for (int i = 0; i < buy->nitems; i++) least = fmin(least, r->s->rate[i * buy->njobs + j]);
    least = fmax(1e-5, 0.3 * least / r->most_rate[j]);     /* what is judged is slower than its bound */
    double unit = 1 / (r->most_rate[j] * r->least_time_s); /* of 1 / f in units of time */
    for (int k = 0; k < TANGENTS; k++) {
        double g = least * pow(1 / least, k / (TANGENTS - 1.0));
        int row = mt_lp_row(&r->lp, "time of a rate", 2 * unit / g * 1e-2, INFINITY); /* in hundredths: rows near 1 */
        mt_lp_set(&r->lp, row, r->t[j], 1e-2);
        mt_lp_set(&r->lp, row, r->f[j], unit / (g * g) * 1e-2);
    }
}

/* f <= value + slope (R(x) - R), where x has the kinds of `counts` (null: always). */
static void add_cut(struct relaxing *r, int j, double value, double slope, double rate, const int64_t *counts) {
    const struct mt_buy *buy = r->s->buy;
    double most = r->most_rate[j], fixed = value + slope * (r->s->owned_rate[j] - rate);
    int kinds = 0;
    for (int i = 0; i < buy->nitems; i++) kinds += counts && counts[i] > 0;
    int row = mt_lp_row(&r->lp, "scaling", -INFINITY, fixed / most + kinds);
    mt_lp_set(&r->lp, row, r->f[j], 1);
    for (int i = 0; i < buy->nitems; i++) {
        mt_lp_set(&r->lp, row, r->x[i], -slope * r->s->rate[i * buy->njobs + j] / most);
        if (counts && counts[i] > 0) mt_lp_set(&r->lp, row, r->y[i], 1);
    }
}

static bool same_kinds(const struct mt_buy *buy, const int64_t *a, const int64_t *b) {
    for (int i = 0; i < buy->nitems; i++)
        if ((a[i] > 0) != (b[i] > 0)) return false;
    return true;
}

/* The cuts of one set of kinds, of which `largest` was judged with the most devices, and `other` (or null) before. */
static void add_cuts_of(struct relaxing *r, const struct mt_buy_config *largest, const struct mt_buy_config *other) {
    for (int j = 0; j < r->s->buy->njobs; j++) {
        double rate = mt_buy_rate(r->s, largest->counts, j), f = 1 / largest->jobs[j].time_s, slope = f / rate;
        if (other) {
            double rate_before = mt_buy_rate(r->s, other->counts, j), f_before = 1 / other->jobs[j].time_s;
            if (rate > rate_before * (1 + 1e-9)) slope = fmin(slope, fmax(0, (f - f_before) / (rate - rate_before)));
        }
        add_cut(r, j, f, slope, rate, largest->counts);
    }
}

/* What has these kinds alone needs more nodes. */
static void add_refusal(struct relaxing *r, const struct mt_buy_config *refused) {
    const struct mt_buy *buy = r->s->buy;
    double nodes = 0;
    for (int i = 0; i < buy->nitems; i++) nodes += (double)refused->counts[i];
    int row = mt_lp_row(&r->lp, "larger", 1, INFINITY);
    for (int i = 0; i < buy->nitems; i++)
        mt_lp_set(&r->lp, row, refused->counts[i] > 0 || !nodes ? r->x[i] : r->y[i],
                  refused->counts[i] > 0 ? 1 / (nodes + 1) : 1);
}

static double devices_of(const struct searching *s, int judged) {
    return s->judged_as[judged].devices;
}

static void add_cuts(struct relaxing *r) {
    const struct searching *s = r->s;
    int cuts = 0;
    for (int i = s->njudged - 1; i >= 0 && cuts < MOST_CUTS; i--) {
        const struct mt_buy_config *c = s->judged[i];
        int largest = -1, second = -1;
        bool later = false;
        for (int k = 0; k < s->njudged; k++) {
            if (!same_kinds(s->buy, s->judged[k]->counts, c->counts) || !s->judged[k]->refused != !c->refused) continue;
            later |= k > i;
            if (largest < 0 || devices_of(s, k) > devices_of(s, largest))
                second = largest, largest = k;
            else if (second < 0 || devices_of(s, k) > devices_of(s, second))
                second = k;
        }
        if (later) continue;
        cuts++;
        if (c->refused)
            add_refusal(r, s->judged[largest]);
        else
            add_cuts_of(r, s->judged[largest], second >= 0 ? s->judged[second] : NULL);
    }
}

/* The limit whose relief by a part saves most, by the duals. */
static void read_duals(const struct relaxing *r, const struct mt_lp_solution *solution, struct relaxed *relaxed) {
    static const char *const names[NLIMITS] = {"budget", "budget for an hour", "power", "rack units", "nodes",
                                               "devices"};
    double most = 1e-9;
    relaxed->binds = "";
    relaxed->dual = 0;
    for (int k = 0; k < NLIMITS; k++) {
        double saves = r->limits[k] >= 0 ? -solution->dual[r->limits[k]] : 0; /* by as much again */
        if (k == MONEY && saves > 0) relaxed->dual = saves * r->least_time_s / r->scale[k];
        if (saves > most) most = saves, relaxed->binds = names[k];
    }
    if (r->s->rent && !strcmp(relaxed->binds, names[MONEY])) relaxed->binds = names[PER_HOUR];
}

enum mt_status mt_buy_relax(struct searching *s, double money, const int64_t *kinds, int64_t *counts, bool *found,
                            struct relaxed *relaxed) {
    static const double long_s = 1e6; /* it ends by its number of nodes */
    struct relaxing r = {.s = s, .integer = !kinds, .kinds = kinds, .money = fmin(money, mt_buy_most_money(s))};
    struct mt_lp_solution solution;
    struct mt_err why = MT_ERR_INIT;
    *found = false;
    if (!s->buy->nitems) return MT_OK;
    r.lp.gap = 1e-3, r.lp.most_nodes = 3000;
    add_columns(&r);
    add_limits(&r);
    for (int j = 0; j < s->buy->njobs; j++) {
        add_tangents(&r, j);
        add_cut(&r, j, 0, 1, 0, NULL);
    }
    add_cuts(&r);
    enum mt_status st = mt_lp_solve(&r.lp, long_s, &solution, &why);
    if (!st) {
        *found = true;
        relaxed->time_s = solution.objective * r.least_time_s;
        for (int i = 0; i < s->buy->nitems && counts; i++) counts[i] = (int64_t)llround(solution.x[r.x[i]]);
        read_duals(&r, &solution, relaxed);
    }
    mt_lp_release(&r.lp);
    if (st == MT_EINPUT || st == MT_ESTALL) return MT_OK; /* nothing is within the limits, or it was not found */
    if (st) *s->err = why;
    return st;
}
