/* The least step over subsets, by bisection for each slowest member and each number of members. */
#include "planner/balance/subset.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"

static const double bisection = 1e-5, worthwhile = 1e-4; /* relative */
enum { EVERY_NUMBER = 32 };                              /* up to so many members each number is looked at */

/* ---- exchanges ---- */

static double over(double bytes, double Bps) {
    return bytes > 0 ? bytes / Bps : 0;
}

/* The member owns a part s of the elements. */
static double with_owners(const struct mt_subset_chain *c, double s, double out_Bps, double in_Bps) {
    double sum_s = fmax(over((1 - s) * c->sum_bytes, out_Bps), over(s * c->sum_bytes, in_Bps));
    return sum_s + fmax(over(s * c->result_bytes, out_Bps), over((1 - s) * c->result_bytes, in_Bps));
}

/* The time with owners is convex and piecewise linear in s: the least is at an end or where a maximum changes sides. */
double mt_subset_exchange_s(const struct mt_subset_chain *c, double out_Bps, double in_Bps) {
    double slower_Bps = fmin(out_Bps, in_Bps), least_s = over(c->sum_bytes, slower_Bps);
    double turns[] = {0, 1, isinf(in_Bps) ? 1 : in_Bps / (out_Bps + in_Bps),
                      isinf(out_Bps) ? 1 : out_Bps / (out_Bps + in_Bps)};
    for (int i = 0; i < 4; i++) least_s = fmin(least_s, with_owners(c, turns[i], out_Bps, in_Bps));
    return least_s + over(c->all_bytes, slower_Bps) +
           over(c->other_sum_bytes + c->other_result_bytes, out_Bps + in_Bps);
}

double mt_subset_total_s(const struct mt_subset_chain *c, int64_t count, double out_Bps, double in_Bps) {
    double bytes = c->sum_bytes + fmin(c->sum_bytes, c->result_bytes) + 2 * c->all_bytes;
    bytes += c->other_sum_bytes + c->other_result_bytes;
    return over((double)(count - 1) * bytes, fmin(out_Bps, in_Bps));
}

/* ---- members ---- */

/* Hosts, or the ranks of one host: equal ones together. */
struct members {
    int64_t count;
    double out_Bps, in_Bps;
    double slowest_s; /* the exchange of the chain with most bytes: who is slowest goes by this */
    int nranks;
    const struct mt_subset_ranks *ranks; /* of one member */
    bool alone;                          /* one rank of ranks[0] */
    double share;                        /* of one member, in the time that is looked at */
};

struct bounding {
    const struct mt_subset *s;
    struct members *members;
    int nmembers;
    double inside_Bps;  /* all messages between members together */
    double latency_s;   /* the least between members */
    double *exchange_s; /* [nchains] of the subset that is looked at */
    double best_s;
};

/* The largest share of a rank within a step. */
static int64_t largest(const struct bounding *b, const struct mt_subset_ranks *r, double step_s) {
    const struct mt_subset_curves *curves = &b->s->curves[r->curves];
    int most = curves->npoints - 1;
    for (int k = 0; k < b->s->nchains && most >= 0; k++) {
        double own_s = mt_subset_exchange_s(&b->s->chains[k], r->out_Bps, r->in_Bps);
        double exchange_s = fmax(b->exchange_s[k], own_s) + b->s->chains[k].rounds * (b->latency_s + r->each_s);
        double left_s = (step_s - exchange_s) * r->speed;
        const double *least_s = curves->least_s + (int64_t)k * curves->npoints;
        int low = -1, high = most; /* least_s[low] <= left_s */
        while (low < high) {
            int middle = low + (high - low + 1) / 2;
            if (least_s[middle] <= left_s)
                low = middle;
            else
                high = middle - 1;
        }
        most = low;
    }
    if (most < 0) return 0;
    return most + 1 < curves->npoints ? curves->at[most + 1] - 1 : curves->at[most];
}

static int by_share(const void *a, const void *b) {
    double x = (*(struct members *const *)a)->share, y = (*(struct members *const *)b)->share;
    return (x < y) - (x > y);
}

static int by_out(const void *a, const void *b) {
    double x = (*(struct members *const *)a)->out_Bps, y = (*(struct members *const *)b)->out_Bps;
    return (x < y) - (x > y);
}

static int by_in(const void *a, const void *b) {
    double x = (*(struct members *const *)a)->in_Bps, y = (*(struct members *const *)b)->in_Bps;
    return (x < y) - (x > y);
}

/* Members that are no slower than `slowest`, in some order. Returns how many classes. */
static int list_members(const struct bounding *b, const struct members *slowest, struct members **order,
                        int (*by)(const void *, const void *)) {
    int n = 0;
    for (int i = 0; i < b->nmembers; i++)
        if (b->members[i].slowest_s <= slowest->slowest_s) order[n++] = &b->members[i];
    qsort(order, (size_t)n, sizeof(struct members *), by);
    return n;
}

/* The exchange of each chain when from `least` to `most` members take part, the fastest that there are. */
static void price_exchange(struct bounding *b, const struct members *slowest, int64_t least, int64_t most) {
    const struct mt_subset *s = b->s;
    struct members **order = mt_calloc((size_t)b->nmembers + 1, sizeof(struct members *));
    double rate[2] = {0, 0};
    for (int in = 0; in < 2; in++) {
        int n = list_members(b, slowest, order, in ? by_in : by_out);
        int64_t left = most;
        for (int i = 0; i < n && left > 0; i++) {
            int64_t taken = order[i]->count < left ? order[i]->count : left;
            rate[in] += (double)taken * (in ? order[i]->in_Bps : order[i]->out_Bps);
            left -= taken;
        }
        rate[in] = fmin(rate[in], b->inside_Bps);
    }
    for (int k = 0; k < s->nchains; k++)
        b->exchange_s[k] = fmax(mt_subset_exchange_s(&s->chains[k], slowest->out_Bps, slowest->in_Bps),
                                mt_subset_total_s(&s->chains[k], least, rate[0], rate[1]));
    free(order);
}

/* Whether `most` members that are no slower than `slowest` reach the extent, in the exchange that was priced. */
static bool reach(struct bounding *b, const struct members *slowest, int64_t most, double step_s) {
    struct members **order = mt_calloc((size_t)b->nmembers + 1, sizeof(struct members *));
    for (int i = 0; i < b->nmembers; i++) {
        struct members *m = &b->members[i];
        m->share = 0;
        for (int r = 0; r < m->nranks && m->slowest_s <= slowest->slowest_s; r++)
            m->share += (double)(m->alone ? 1 : m->ranks[r].count) * (double)largest(b, &m->ranks[r], step_s);
    }
    int n = list_members(b, slowest, order, by_share);
    double sum = 0;
    int64_t left = most;
    for (int i = 0; i < n && left > 0; i++) {
        int64_t taken = order[i]->count < left ? order[i]->count : left;
        sum += (double)taken * order[i]->share;
        left -= taken;
    }
    free(order);
    return sum >= (double)b->s->extent;
}

static void try_subset(struct bounding *b, const struct members *slowest, int64_t least, int64_t most) {
    double high = isinf(b->best_s) ? 1e-6 : b->best_s * (1 - worthwhile), low = 0;
    price_exchange(b, slowest, least, most);
    while (isinf(b->best_s) && high < 1e15 && !reach(b, slowest, most, high)) low = high, high *= 4;
    if (high >= 1e15 || (!isinf(b->best_s) && !reach(b, slowest, most, high))) return;
    while (high - low > high * bisection) {
        double middle = low + (high - low) / 2;
        if (reach(b, slowest, most, middle))
            high = middle;
        else
            low = middle;
    }
    b->best_s = low;
}

/* At least two members take part. */
static void try_members(struct bounding *b) {
    const struct mt_subset *s = b->s;
    struct mt_subset_chain all = {0};
    for (int k = 0; k < s->nchains; k++)
        if (s->chains[k].sum_bytes + s->chains[k].all_bytes >= all.sum_bytes + all.all_bytes) all = s->chains[k];
    for (int i = 0; i < b->nmembers; i++)
        b->members[i].slowest_s = mt_subset_exchange_s(&all, b->members[i].out_Bps, b->members[i].in_Bps);
    for (int i = 0; i < b->nmembers; i++) {
        int64_t count = 0;
        for (int j = 0; j < b->nmembers; j++)
            if (b->members[j].slowest_s <= b->members[i].slowest_s) count += b->members[j].count;
        for (int64_t least = 2, most; least <= count; least = most + 1) {
            most = least <= EVERY_NUMBER ? least : least + least / 16;
            if (most > count) most = count;
            try_subset(b, &b->members[i], least, most);
        }
    }
}

static void try_ranks_of(struct bounding *b, const struct mt_subset_hosts *host) {
    struct members *members = mt_calloc((size_t)host->nranks, sizeof *members);
    for (int r = 0; r < host->nranks; r++) {
        const struct mt_subset_ranks *ranks = &host->ranks[r];
        members[r] = (struct members){.count = ranks->count,
                                      .out_Bps = ranks->out_Bps,
                                      .in_Bps = ranks->in_Bps,
                                      .nranks = 1,
                                      .ranks = ranks,
                                      .alone = true};
    }
    b->members = members;
    b->nmembers = host->nranks;
    b->inside_Bps = host->inside_Bps;
    b->latency_s = host->latency_s;
    try_members(b);
    free(members);
}

static void try_hosts(struct bounding *b) {
    const struct mt_subset *s = b->s;
    struct members *members = mt_calloc((size_t)s->nhosts, sizeof *members);
    for (int h = 0; h < s->nhosts; h++) {
        const struct mt_subset_hosts *host = &s->hosts[h];
        members[h] = (struct members){.count = host->count,
                                      .out_Bps = host->out_Bps,
                                      .in_Bps = host->in_Bps,
                                      .nranks = host->nranks,
                                      .ranks = host->ranks};
    }
    b->members = members;
    b->nmembers = s->nhosts;
    b->inside_Bps = INFINITY;
    b->latency_s = s->latency_s;
    try_members(b);
    free(members);
}

/* One rank computes all: nothing needs to be exchanged. */
static double alone_s(const struct mt_subset *s, const struct mt_subset_ranks *r) {
    const struct mt_subset_curves *curves = &s->curves[r->curves];
    int i = curves->npoints - 1;
    while (i > 0 && curves->at[i] > s->extent) i--;
    return i >= 0 ? curves->least_s[i] / r->speed : INFINITY;
}

double mt_subset_bound(const struct mt_subset *s) {
    struct bounding b = {.s = s, .best_s = INFINITY};
    b.exchange_s = mt_calloc((size_t)s->nchains + 1, sizeof *b.exchange_s);
    for (int h = 0; h < s->nhosts && s->alone; h++)
        for (int r = 0; r < s->hosts[h].nranks; r++) b.best_s = fmin(b.best_s, alone_s(s, &s->hosts[h].ranks[r]));
    for (int h = 0; h < s->nhosts; h++) try_ranks_of(&b, &s->hosts[h]);
    try_hosts(&b);
    free(b.exchange_s);
    return b.best_s * (1 - worthwhile);
}
