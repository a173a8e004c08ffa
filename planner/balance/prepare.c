/* Balance: checks the problem and prepares it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/wait.h"
#include "planner/balance/internal.h"

#define TABLE 30000 /* numbers in the tables of a split */
#define TABLE_RANK 1000

bool mt_balance_time_is_up(const struct balance *b) {
    return mt_now_s() > b->end_s;
}

static enum mt_status check_curve(const struct mt_share_curve *curve, const char *what, const struct mt_balance *p,
                                  int split, int class, struct mt_err *err) {
    for (int i = 0; i < curve->npoints; i++) {
        if (!isfinite(curve->value[i]) || curve->value[i] < 0)
            return mt_fail(err, MT_EINPUT, "the %s of split \"%s\" on class \"%s\" is %g at share %lld", what,
                           p->splits[split].name, p->class_names[class], curve->value[i], (long long)curve->at[i]);
        if (i ? curve->at[i] <= curve->at[i - 1] : curve->at[i] != 0)
            return mt_fail(err, MT_EINPUT, "the %s of split \"%s\" on class \"%s\": shares must rise from 0", what,
                           p->splits[split].name, p->class_names[class]);
    }
    return MT_OK;
}

static enum mt_status check_curves(const struct mt_balance *p, struct mt_err *err) {
    for (int c = 0; c < p->nclasses; c++) {
        for (int k = 0; k < p->nstages; k++) {
            double compute = p->compute_fixed[k * p->nclasses + c], comm = p->comm_fixed[k * p->nclasses + c];
            if (!isfinite(compute) || compute < 0 || !isfinite(comm) || comm < 0)
                return mt_fail(err, MT_EINPUT, "stage \"%s\" on class \"%s\" takes at least %g and %g s",
                               p->stage_names[k], p->class_names[c], compute, comm);
        }
        for (int s = 0; s < p->nsplits; s++) {
            for (int k = 0; k < p->nstages; k++) {
                int at = (k * p->nsplits + s) * p->nclasses + c;
                if (check_curve(&p->compute[at], "time", p, s, c, err) ||
                    check_curve(&p->comm[at], "communication", p, s, c, err))
                    return mt_err_context(err, "stage \"%s\"", p->stage_names[k]);
            }
            if (check_curve(&p->memory[s * p->nclasses + c], "memory", p, s, c, err)) return err->status;
        }
    }
    return MT_OK;
}

static enum mt_status check(const struct mt_balance *p, struct mt_err *err) {
    if (p->nranks < 1 || p->nclasses < 1 || p->nsplits < 1 || p->nstages < 1 || p->nsplits > MT_BALANCE_MOST_SPLITS ||
        p->nstages > MT_BALANCE_MOST_STAGES)
        return mt_fail(err, MT_EINPUT,
                       "cannot balance %d ranks of %d classes, %d splits (at most %d), %d stages (at "
                       "most %d)",
                       p->nranks, p->nclasses, p->nsplits, MT_BALANCE_MOST_SPLITS, p->nstages, MT_BALANCE_MOST_STAGES);
    for (int r = 0; r < p->nranks; r++)
        if (p->class[r] < 0 || p->class[r] >= p->nclasses)
            return mt_fail(err, MT_EINPUT, "rank %d is of class %d, but there are %d", r, p->class[r], p -> nclasses);
    for (int s = 0; s < p->nsplits; s++) {
        const struct mt_balance_split *split = &p->splits[s];
        if (split->extent < 0 || split->align < 1 || split->extent > (int64_t)1 << 40 || split->align > 1 << 20)
            return mt_fail(err, MT_EINPUT, "split \"%s\": extent %lld in multiples of %lld", split->name,
                           (long long)split->extent, (long long)split->align);
    }
    return check_curves(p, err);
}

double mt_share_curve_at(const struct mt_share_curve *curve, int64_t share) {
    int n = curve->npoints;
    if (n < 2) return n ? curve->value[0] : 0;
    int i = 0, end = n - 1; /* the segment: at[i] <= share, or the first; at[end] > share, or the last */
    while (end - i > 1) {
        int middle = (i + end) / 2;
        if (curve->at[middle] <= share)
            i = middle;
        else
            end = middle;
    }
    double slope = (curve->value[i + 1] - curve->value[i]) / (double)(curve->at[i + 1] - curve->at[i]);
    return fmax(0, curve->value[i] + slope * (double)(share - curve->at[i]));
}

double mt_balance_curve_at(const struct balance_curve *curve, double share) {
    if (!curve->n) return 0;
    int low = 0, high = curve->n; /* at[low] <= share < at[high] */
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (curve->at[middle] <= share)
            low = middle;
        else
            high = middle;
    }
    return curve->value[low] + curve->slope[low] * (share - curve->at[low]);
}

static int by_number(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The curve from 0 to extent, with points on both sides of where it falls to 0. */
static struct balance_curve cut_curve(struct balance *b, const struct mt_share_curve *curve, int64_t extent) {
    int n = curve->npoints;
    struct balance_curve f = {0};
    if (!n) return f;
    f.at = mt_new(&b->arena, double, n + 4);
    f.value = mt_new(&b->arena, double, n + 4);
    f.slope = mt_new(&b->arena, double, n + 4);
    f.at[f.n++] = 0, f.at[f.n++] = (double)extent;
    for (int i = 0; i < n && curve->at[i] < extent; i++) f.at[f.n++] = (double)curve->at[i];
    if (n > 1 && curve->at[n - 1] < extent && curve->value[n - 1] > 0) {
        double slope = (curve->value[n - 1] - curve->value[n - 2]) / (double)(curve->at[n - 1] - curve->at[n - 2]);
        double zero = slope < 0 ? (double)curve->at[n - 1] - curve->value[n - 1] / slope : INFINITY;
        if (zero < (double)extent) f.at[f.n++] = floor(zero);
        if (zero + 1 < (double)extent) f.at[f.n++] = floor(zero) + 1;
    }
    qsort(f.at, (size_t)f.n, sizeof *f.at, by_number);
    int last = 0;
    for (int i = 1; i < f.n; i++)
        if (f.at[i] > f.at[last]) f.at[++last] = f.at[i];
    f.n = last + 1;
    for (int i = 0; i < f.n; i++) f.value[i] = mt_share_curve_at(curve, (int64_t)f.at[i]);
    for (int i = 0; i < last; i++) f.slope[i] = (f.value[i + 1] - f.value[i]) / (f.at[i + 1] - f.at[i]);
    return f;
}

double mt_balance_memory(const struct balance *b, int class, const int64_t *x) {
    double bytes = (double)b->problem->memory_fixed[class];
    for (int s = 0; s < b->nsplits; s++)
        bytes += mt_balance_curve_at(&b->memory[s * b->nclasses + class], (double)x[s]);
    return bytes;
}

static void cost_of(const struct balance *b, int split, int class, int64_t share, double *row) {
    for (int k = 0; k < b->nstages; k++) {
        int at = (k * b->nsplits + split) * b->nclasses + class;
        row[2 * k] = mt_balance_curve_at(&b->compute[at], (double)share);
        row[2 * k + 1] = mt_balance_curve_at(&b->comm[at], (double)share);
    }
    row[2 * b->nstages] = mt_balance_curve_at(&b->memory[split * b->nclasses + class], (double)share);
}

/* Tables of costs by shares, which the search looks up again and again; larger for more ranks. */
static void tabulate(struct balance *b) {
    const struct mt_balance *p = b->problem;
    b->width = 2 * b->nstages + 1;
    b->fixed = mt_new(&b->arena, double, b->nclasses * b->width);
    b->cost = mt_new(&b->arena, double *, b->nsplits * b->nclasses);
    for (int c = 0; c < b->nclasses; c++) {
        double *row = b->fixed + c * b->width;
        for (int k = 0; k < b->nstages; k++) {
            row[2 * k] = p->compute_fixed[k * b->nclasses + c];
            row[2 * k + 1] = p->comm_fixed[k * b->nclasses + c];
        }
        row[2 * b->nstages] = (double)p->memory_fixed[c];
    }
    for (int s = 0; s < b->nsplits; s++) {
        int64_t units = b->extent[s] / b->align[s] + 1;
        if (units * b->width * b->nclasses > TABLE + TABLE_RANK * p->nranks) continue;
        for (int c = 0; c < b->nclasses; c++) {
            if (!b->nranks[c]) continue;
            double *rows = b->cost[s * b->nclasses + c] = mt_new(&b->arena, double, units * b->width);
            for (int64_t u = 0; u < units; u++) cost_of(b, s, c, u * b->align[s], rows + u * b->width);
        }
    }
}

enum mt_status mt_balance_prepare(struct balance *b, const struct mt_balance *p, struct mt_err *err) {
    if (check(p, err)) return err->status;
    *b = (struct balance){.problem = p,
                          .nclasses = p->nclasses,
                          .nsplits = p->nsplits,
                          .nstages = p->nstages,
                          .end_s = mt_now_s() + p->limit_s};
    b->nranks = mt_new(&b->arena, int64_t, p->nclasses);
    for (int r = 0; r < p->nranks; r++) b->nranks[p->class[r]]++;
    b->extent = mt_new(&b->arena, int64_t, b->nsplits);
    b->align = mt_new(&b->arena, int64_t, b->nsplits);
    for (int s = 0; s < b->nsplits; s++) b->extent[s] = p->splits[s].extent, b->align[s] = p->splits[s].align;
    int n = b->nsplits * b->nclasses;
    b->compute = mt_new(&b->arena, struct balance_curve, n * b->nstages);
    b->comm = mt_new(&b->arena, struct balance_curve, n * b->nstages);
    b->memory = mt_new(&b->arena, struct balance_curve, n);
    for (int i = 0; i < n; i++) b->memory[i] = cut_curve(b, &p->memory[i], b->extent[i / b->nclasses]);
    for (int i = 0; i < n * b->nstages; i++) {
        int64_t extent = b->extent[i / b->nclasses % b->nsplits];
        b->compute[i] = cut_curve(b, &p->compute[i], extent);
        b->comm[i] = cut_curve(b, &p->comm[i], extent);
    }
    tabulate(b);
    return MT_OK;
}

void mt_balance_rank(struct balance *b, struct balance_group *group) {
    double sum[2 * MT_BALANCE_MOST_STAGES + 1], other[2 * MT_BALANCE_MOST_STAGES + 1];
    int c = group->class;
    b->work++;
    memcpy(sum, b->fixed + c * b->width, (size_t)b->width * sizeof *sum);
    for (int s = 0; s < b->nsplits; s++) {
        const double *table = b->cost[s * b->nclasses + c], *row = other;
        int64_t units = b->align[s] > 1 ? group->x[s] / b->align[s] : group->x[s];
        if (table && units * b->align[s] == group->x[s])
            row = table + units * b->width;
        else
            cost_of(b, s, c, group->x[s], other);
        for (int i = 0; i < b->width; i++) sum[i] += row[i];
    }
    for (int k = 0; k < b->nstages; k++) group->t[k] = balance_larger(sum[2 * k], sum[2 * k + 1]);
    double limit = (double)b->problem->memory_limit[c], bytes = sum[2 * b->nstages];
    /* Bytes are whole: a difference below 0.25 is rounding. */
    group->over = limit > 0 && bytes > limit + 0.25 ? (bytes - limit) / limit : 0;
}
