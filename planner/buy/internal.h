/* Inside the search for purchases.
 *
 *   exclude.c    which items of the catalogue are left out, and why
 *   judge.c      a configuration's plans
 *   relax.c      the integer programme over priced throughput, and its duals
 *   candidate.c  a configuration's money, limits and lower bound; which are not worth judging
 *   enumerate.c  configurations in the order of money; how many there are
 *   batch.c      judging several at the same time
 *   search.c     which configurations are judged
 *   answer.c     what was judged as a purchase */
#ifndef MT_PLANNER_BUY_INTERNAL_H
#define MT_PLANNER_BUY_INTERNAL_H

#include "planner/buy/buy.h"
#include "planner/divide/bound.h"
#include "planner/make/planning.h"

/* Sums of prices, watts and rack units round: three of 0.1 are within 0.3. */
#define ROUNDING (1 + 1e-12)

struct candidate {
    int64_t *counts;
    double money, price, per_hour, power_W, rack_units;
    int nodes, devices; /* nodes: that are bought; devices: in all */
    double bound_s;     /* no plans take less; negative: not computed */
};

struct searching {
    const struct mt_buy *buy; /* with the items that are left */
    struct mt_arena arena;
    struct mt_err *err;
    bool rent;     /* money is that of an hour: nothing has a price to buy */
    double top;    /* the most money that is looked at */
    int64_t *most; /* [nitems]: nodes within the limits, each item alone */
    int njudged, capacity;
    struct mt_buy_config **judged; /* in order */
    struct candidate *judged_as;   /* [njudged] */
    int as_capacity;
    int64_t plans;
    /* Of jobs: for bounds. */
    struct mt_cluster *cluster;
    struct mt_planning *plannings; /* [nplannings] */
    int nplannings;
    struct mt_divide_bound **bounds;
    /* Of jobs j, in jobs a second by the bound: that of a node of item i, [i njobs + j], and of what is owned, [j]. */
    double *rate, *owned_rate;
};

/* exclude.c: kept[nitems]: out; excluded rows are added to the purchase. */
enum mt_status mt_buy_exclude(const struct mt_buy *buy, bool *kept, struct mt_purchase *purchase, struct mt_err *err);

/* candidate.c */
enum mt_status mt_buy_bounds_open(struct searching *s);
void mt_buy_bounds_close(struct searching *s);
void mt_buy_price(const struct searching *s, int64_t *counts, struct candidate *candidate);
bool mt_buy_within(const struct searching *s, const struct candidate *candidate); /* limits, other than of money */
enum mt_status mt_buy_bound(struct searching *s, struct candidate *candidate);
/* Whether something judged that costs no more is as fast as the candidate can be, but for MT_BUY_SLACK: by its bound,
 * and by the rates of its parts, which add up to no more than their sum. */
bool mt_buy_is_beaten(const struct searching *s, const struct candidate *candidate);
bool mt_buy_is_judged(const struct searching *s, const int64_t *counts);
/* The least time of what is judged with so much money; infinite: there is none. *which: its index, or -1. */
double mt_buy_best(const struct searching *s, double money, int *which);
/* Jobs a second, by the bound: what linear scaling would reach. */
double mt_buy_rate(const struct searching *s, const int64_t *counts, int job);

/* enumerate.c: the first `most` configurations in the order of money (then of an hour's, of devices, of counts) up to
 * s->top, in the arena; *all: there are no others. */
int mt_buy_enumerate(struct searching *s, int most, struct candidate **candidates, bool *all);
double mt_buy_configurations(const struct searching *s, double money, double most);

/* batch.c: judge those that have at most s->top money, in order. */
enum { BATCH = 4 };
enum mt_status mt_buy_judge_batch(struct searching *s, const struct candidate *candidates, int count);

/* Plan judged configurations again by the whole search; judged[count]: their indices. */
enum mt_status mt_buy_plan_batch(struct searching *s, const int *judged, int count);

/* relax.c: the least time by the relaxation with at most so much money. kinds: [nitems], counts of a configuration
 * whose kinds of nodes it must have, for duals, which numbers of nodes need not be whole for; or null: numbers are
 * whole, of any kinds. counts: [nitems], out, or null. *found: there is a solution. */
struct relaxed {
    double time_s;
    double dual;       /* seconds that a unit of money saves; of the relaxation without whole numbers */
    const char *binds; /* the limit whose relief saves most; "" */
};
enum mt_status mt_buy_relax(struct searching *s, double money, const int64_t *kinds, int64_t *counts, bool *found,
                            struct relaxed *relaxed);

/* search.c */
double mt_buy_most_money(const struct searching *s); /* of all nodes within the limits */
enum mt_status mt_buy_sequence(struct searching *s);

/* answer.c: fill in rows, next sums and what binds. item_of: [buy->nitems], the row of the purchase's items. */
enum mt_status mt_buy_answer(struct searching *s, struct mt_purchase *purchase);

#endif
