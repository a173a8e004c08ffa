/* What a configuration costs and draws, and the least time it may take. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/buy/internal.h"

void mt_buy_price(const struct searching *s, int64_t *counts, struct candidate *c) {
    const struct mt_buy *buy = s->buy;
    *c = (struct candidate){.counts = counts, .bound_s = -1, .devices = buy->owned ? buy->owned->ndevices : 0};
    for (int i = 0; i < buy->nitems; i++) {
        const struct mt_purchase_item *item = &buy->items[i].shown;
        double count = (double)counts[i];
        c->price += count * item->price, c->per_hour += count * item->per_hour;
        c->power_W += count * item->power_W, c->rack_units += count * item->rack_units;
        c->nodes += (int)counts[i], c->devices += (int)counts[i] * item->devices;
    }
    c->money = s->rent ? c->per_hour : c->price;
}

bool mt_buy_within(const struct searching *s, const struct candidate *c) {
    const struct mt_purchase_limits *l = &s->buy->limits;
    if (c->devices < 1 || c->devices > l->devices || (l->nodes > 0 && c->nodes > l->nodes)) return false;
    if (l->power_W > 0 && c->power_W > l->power_W * ROUNDING) return false;
    if (l->rack_units > 0 && c->rack_units > l->rack_units * ROUNDING) return false;
    return s->rent || !(l->budget_per_hour > 0) || c->per_hour <= l->budget_per_hour * ROUNDING;
}

/* Seconds of all jobs by the bound on a cluster. times_s: [njobs], out, or null. */
static double bound_of(const struct searching *s, const struct mt_cluster *cluster, double *times_s) {
    int *devices = mt_malloc((size_t)cluster->ndevices * sizeof *devices);
    for (int d = 0; d < cluster->ndevices; d++) devices[d] = d;
    struct mt_costs costs = {.cluster = cluster, .nranks = cluster->ndevices, .device = devices};
    double sum = 0;
    for (int j = 0; j < s->buy->njobs; j++) {
        double time_s = mt_divide_bound_s(s->bounds[j], &costs) * s->buy->jobs[j].steps;
        if (times_s) times_s[j] = time_s;
        sum += time_s;
    }
    free(devices);
    return sum;
}

enum mt_status mt_buy_bound(struct searching *s, struct candidate *c) {
    struct mt_cluster *cluster;
    if (c->bound_s >= 0) return MT_OK;
    enum mt_status st = mt_buy_cluster(s->buy, c->counts, &cluster, s->err);
    if (st) return st;
    c->bound_s = bound_of(s, cluster, NULL);
    mt_cluster_free(cluster);
    return MT_OK;
}

/* What the bounds are made from outlives them: the jobs' graphs, on the first cluster that there is. */
static enum mt_status open_bounds(struct searching *s) {
    const struct mt_buy *buy = s->buy;
    int64_t *counts = mt_new(&s->arena, int64_t, buy->nitems);
    if (!buy->owned) counts[0] = 1;
    enum mt_status st = mt_buy_cluster(buy, counts, &s->cluster, s->err);
    if (st) return st;
    s->plannings = mt_new(&s->arena, struct mt_planning, buy->njobs);
    s->bounds = mt_new(&s->arena, struct mt_divide_bound *, buy->njobs);
    for (int j = 0; j < buy->njobs; j++) {
        struct mt_planning *p = &s->plannings[j];
        if ((st = mt_planning_open(s->cluster, buy->jobs[j].model, &buy->jobs[j].job, p, s->err))) return st;
        s->nplannings++;
        st = mt_divide_bound_open(p->planned.graph, &p->job, mt_cluster_kind(s->cluster), &p->options, &s->bounds[j],
                                  s->err);
        if (st) return st;
    }
    return MT_OK;
}

/* Rates of a node of each item alone, and of what is owned. */
static enum mt_status find_rates(struct searching *s) {
    const struct mt_buy *buy = s->buy;
    struct mt_buy alone = *buy;
    int64_t *counts = mt_new(&s->arena, int64_t, buy->nitems);
    double *times_s = mt_new(&s->arena, double, buy->njobs);
    struct mt_cluster *cluster;
    s->rate = mt_new(&s->arena, double, buy->nitems * buy->njobs);
    s->owned_rate = mt_new(&s->arena, double, buy->njobs);
    alone.owned = NULL;
    for (int i = 0; i < buy->nitems; i++) {
        counts[i] = 1;
        enum mt_status st = mt_buy_cluster(&alone, counts, &cluster, s->err);
        counts[i] = 0;
        if (st) return st;
        bound_of(s, cluster, times_s);
        mt_cluster_free(cluster);
        for (int j = 0; j < buy->njobs; j++) s->rate[i * buy->njobs + j] = 1 / fmax(times_s[j], 1e-12);
    }
    if (!buy->owned) return MT_OK;
    bound_of(s, buy->owned, times_s);
    for (int j = 0; j < buy->njobs; j++) s->owned_rate[j] = 1 / fmax(times_s[j], 1e-12);
    return MT_OK;
}

enum mt_status mt_buy_bounds_open(struct searching *s) {
    enum mt_status st = open_bounds(s);
    return st ? st : find_rates(s);
}

void mt_buy_bounds_close(struct searching *s) {
    for (int j = 0; j < s->nplannings; j++) {
        mt_divide_bound_close(s->bounds[j]);
        mt_planning_close(&s->plannings[j]);
    }
    mt_cluster_free(s->cluster);
}

/* Whether its programs divide samples alone: what needs others lacks memory, and may scale better with more nodes. */
static bool has_room(const struct searching *s, const struct mt_buy_config *c) {
    bool room = !c->refused;
    for (int j = 0; j < s->buy->njobs && room; j++) room = !strcmp(c->jobs[j].program, "samples");
    return room;
}

/* A node of item i alone, in jobs a second: as judged, else by the bound. */
static double single_rate(const struct searching *s, int i, int j) {
    for (int k = 0; k < s->njudged && !s->buy->owned; k++)
        if (s->judged_as[k].nodes == 1 && s->judged[k]->counts[i] == 1 && has_room(s, s->judged[k]))
            return 1 / s->judged[k]->jobs[j].time_s;
    return s->rate[i * s->buy->njobs + j];
}

/* When each job ends at the earliest if rates do not add up to more than their sum: that of a judged part of it, and of
 * each further node alone. */
static void promise_of(const struct searching *s, const struct candidate *c, double ends_s[MT_PURCHASE_MOST_JOBS]) {
    static const double margin = 0.97; /* what adds up to more than the sum after all */
    double sum = 0;
    for (int j = 0; j < s->buy->njobs; j++) {
        double rate = mt_buy_rate(s, c->counts, j), single[MT_PURCHASE_MOST_ITEMS];
        for (int i = 0; i < s->buy->nitems; i++) single[i] = single_rate(s, i, j);
        for (int k = 0; k < s->njudged; k++) {
            const struct mt_buy_config *part = s->judged[k];
            if (!has_room(s, part)) continue;
            double with = 1 / part->jobs[j].time_s;
            bool is_part = true;
            for (int i = 0; i < s->buy->nitems && is_part; i++) {
                is_part = part->counts[i] <= c->counts[i];
                with += (double)(c->counts[i] - part->counts[i]) * single[i];
            }
            if (is_part) rate = fmin(rate, with);
        }
        sum += margin / rate;
        ends_s[j] = sum;
    }
}

/* Whether no job that is late on what was judged can end in time on what ends its jobs at `ends_s` at the earliest. */
static bool is_late_too(const struct searching *s, const struct mt_buy_config *judged, const double *ends_s) {
    bool late = true;
    for (int j = 0; j < s->buy->njobs; j++) late &= !judged->jobs[j].late || ends_s[j] > s->buy->jobs[j].deadline_s;
    return late;
}

bool mt_buy_is_beaten(const struct searching *s, const struct candidate *c) {
    double ends_s[MT_PURCHASE_MOST_JOBS];
    promise_of(s, c, ends_s);
    double least_s = fmax(c->bound_s, ends_s[s->buy->njobs - 1]);
    double least_cost = c->price + c->per_hour * least_s / 3600;
    for (int i = 0; i < s->njudged; i++) {
        const struct mt_buy_config *j = s->judged[i];
        const struct candidate *as = &s->judged_as[i];
        if (j->refused || as->price > c->price || as->per_hour > c->per_hour) continue;
        double cost = as->price + as->per_hour * j->time_s / 3600;
        if (!is_late_too(s, j, ends_s)) continue;
        if (cost <= least_cost && (1 - MT_BUY_SLACK) * j->time_s <= least_s) return true;
    }
    return false;
}

bool mt_buy_is_judged(const struct searching *s, const int64_t *counts) {
    for (int i = 0; i < s->njudged; i++)
        if (!memcmp(s->judged[i]->counts, counts, (size_t)s->buy->nitems * sizeof *counts)) return true;
    return false;
}

double mt_buy_best(const struct searching *s, double money, int *which) {
    double best = INFINITY;
    if (which) *which = -1;
    for (int i = 0; i < s->njudged; i++) {
        if (s->judged[i]->refused || s->judged_as[i].money > money || s->judged[i]->time_s >= best) continue;
        best = s->judged[i]->time_s;
        if (which) *which = i;
    }
    return best;
}

double mt_buy_rate(const struct searching *s, const int64_t *counts, int job) {
    double rate = s->owned_rate[job];
    for (int i = 0; i < s->buy->nitems; i++) rate += (double)counts[i] * s->rate[i * s->buy->njobs + job];
    return rate;
}
