/* Balance: a lower bound of each stage, and the case in which it is the optimum.
 *
 * Within a time for a stage, each class has a largest share of a split, if the other splits cost their least (time and
 * memory). The stage takes at least the least time for which these shares sum to the extent, found by bisection. With
 * one split in one stage and curves that never fall, smaller shares are possible too, so that this time is the optimum.
 */
#include <math.h>

#include "planner/balance/internal.h"

static bool rises(const struct balance_curve *curve) {
    for (int i = 1; i < curve->n; i++)
        if (curve->value[i] < curve->value[i - 1]) return false;
    return true;
}

static double least(const struct balance_curve *curve) {
    double value = curve->n ? INFINITY : 0;
    for (int i = 0; i < curve->n; i++) value = fmin(value, curve->value[i]);
    return value;
}

/* The largest whole share with curve(share) <= limit; -1 for none. */
static int64_t largest(const struct balance_curve *curve, double limit, int64_t extent) {
    if (!curve->n) return limit >= 0 ? extent : -1;
    for (int i = curve->n - 2; i >= 0; i--) {
        double x = curve->at[i + 1];
        if (curve->value[i + 1] > limit) {
            if (curve->value[i] > limit) continue;
            x = curve->at[i] + (limit - curve->value[i]) / curve->slope[i];
        }
        double whole = floor(x * (1 + 1e-14));
        if (whole >= curve->at[i]) return (int64_t)whole;
    }
    return curve->value[0] <= limit ? 0 : -1;
}

/* One split in one stage, the other splits costing each class their least. */
struct one_split {
    int stage, split;
    double *compute, *comm,
        *memory;   /* [nclasses]: fixed costs and the other splits' least; memory: what they leave of the limit */
    int64_t *most; /* out: units of a rank of each class */
    int ragged;    /* out: the class that has the ragged share */
};

static void one_split_of(struct balance *b, int stage, int split, struct one_split *a) {
    const struct mt_balance *p = b->problem;
    *a = (struct one_split){stage,
                            split,
                            mt_new(&b->arena, double, b->nclasses),
                            mt_new(&b->arena, double, b->nclasses),
                            mt_new(&b->arena, double, b->nclasses),
                            mt_new(&b->arena, int64_t, b->nclasses),
                            0};
    for (int c = 0; c < b->nclasses; c++) {
        a->compute[c] = p->compute_fixed[stage * b->nclasses + c];
        a->comm[c] = p->comm_fixed[stage * b->nclasses + c];
        double limit = (double)p->memory_limit[c];
        a->memory[c] = limit > 0 ? limit + 0.25 - (double)p->memory_fixed[c] : INFINITY;
        for (int s = 0; s < b->nsplits; s++) {
            if (s == split) continue;
            int at = (stage * b->nsplits + s) * b->nclasses + c;
            a->compute[c] += least(&b->compute[at]);
            a->comm[c] += least(&b->comm[at]);
            a->memory[c] -= least(&b->memory[s * b->nclasses + c]);
        }
    }
}

/* Whether the largest shares within the stage's time reach the extent. */
static bool reach(struct balance *b, struct one_split *a, double stage_s) {
    int64_t extent = b->extent[a->split], align = b->align[a->split], ragged = extent % align, units = 0, room = -1;
    for (int c = 0; c < b->nclasses; c++) {
        if (!b->nranks[c]) continue;
        int at = (a->stage * b->nsplits + a->split) * b->nclasses + c;
        int64_t x = largest(&b->compute[at], stage_s - a->compute[c], extent);
        int64_t y = largest(&b->comm[at], stage_s - a->comm[c], extent);
        int64_t z = largest(&b->memory[a->split * b->nclasses + c], a->memory[c], extent);
        if (y < x) x = y;
        if (z < x) x = z;
        if (x < 0) return false;
        a->most[c] = x / align;
        units += a->most[c] * b->nranks[c];
        /* The ragged share displaces a unit where the largest does not hold both. */
        if (x < ragged) continue;
        int64_t lost = a->most[c] * align + ragged > x ? 1 : 0;
        if (room < 0 || lost < room) room = lost, a->ragged = c;
    }
    if (ragged && room < 0) return false;
    return units - (ragged ? room : 0) >= extent / align;
}

/* The least time for which `reach` holds; infinity if there is none. *below_s: a time for which it does not. */
static double bisect(struct balance *b, struct one_split *a, double *below_s) {
    double low = 0, high = 1e-6;
    if (reach(b, a, 0)) return *below_s = 0;
    while (high < 1e15 && !reach(b, a, high)) low = high, high *= 4;
    *below_s = low;
    if (high >= 1e15) return INFINITY;
    while (high - low > high * 1e-14) {
        double middle = low + (high - low) / 2;
        if (reach(b, a, middle))
            high = middle;
        else
            low = middle;
    }
    *below_s = low;
    reach(b, a, high);
    return high;
}

double mt_balance_least_times(struct balance *b) {
    double sum = 0;
    for (int k = 0; k < b->nstages; k++) {
        b->least_t[k] = 0;
        for (int s = 0; s < b->nsplits; s++) {
            struct one_split a;
            double below_s;
            one_split_of(b, k, s, &a);
            bisect(b, &a, &below_s);
            b->least_t[k] = balance_larger(b->least_t[k], below_s * (1 - 1e-12));
        }
        sum += b->least_t[k];
    }
    return sum;
}

bool mt_balance_bisect(struct balance *b, struct balance_state *state) {
    if (b->nsplits > 1 || b->nstages > 1) return false;
    for (int c = 0; c < b->nclasses; c++)
        if (!rises(&b->compute[c]) || !rises(&b->comm[c]) || !rises(&b->memory[c])) return false;
    struct one_split a;
    double below_s;
    one_split_of(b, 0, 0, &a);
    if (!isfinite(bisect(b, &a, &below_s))) return false;
    int64_t *total = mt_new(&b->arena, int64_t, b->nclasses), left = b->extent[0] / b->align[0], sum = 0;
    for (int c = 0; c < b->nclasses; c++) sum += a.most[c] * b->nranks[c];
    /* All take the same part of what they could take; the remainder of rounding goes to classes with room. */
    double part = sum > 0 ? (double)left / (double)sum : 0;
    for (int round = 0; round < 2; round++)
        for (int c = 0; c < b->nclasses; c++) {
            int64_t room = a.most[c] * b->nranks[c] - total[c];
            int64_t units = round ? room : (int64_t)((double)room * part);
            if (units > left) units = left;
            total[c] += units, left -= units;
        }
    for (int c = 0; c < b->nclasses; c++) total[c] *= b->align[0];
    total[a.ragged] += b->extent[0] % b->align[0];
    mt_balance_state_of_totals(b, total, state);
    return true;
}
