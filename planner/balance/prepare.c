/* Balance: checks the problem and makes it ready. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "planner/balance/internal.h"

#define TABLE 30000 /* numbers in the tables of a split */
#define TABLE_RANK 1000

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

bool balance_time_is_up(const struct balance *b) {
    return now_s() > b->end_s;
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

/* A split may follow one that follows nobody, where every share it can get is whole and aligned. */
static enum mt_status check_same(const struct mt_balance *p, int split, struct mt_err *err) {
    int to = p->same ? p->same[split] : -1;
    if (to < 0) return MT_OK;
    const struct mt_balance_split *s = &p->splits[split], *root = &p->splits[to < p->nsplits ? to : 0];
    if (to >= p->nsplits || to == split || p->same[to] >= 0)
        return mt_fail(err, MT_EINPUT, "split \"%s\" follows a split that is not there or follows itself", s->name);
    if (!root->extent || (root->align * s->extent) % root->extent ||
        (root->align * s->extent / root->extent) % s->align)
        return mt_fail(err, MT_EINPUT,
                       "split \"%s\" (extent %lld, multiples of %lld) cannot follow \"%s\" (extent %lld, multiples of "
                       "%lld): its shares would not be whole and aligned",
                       s->name, (long long)s->extent, (long long)s->align, root->name, (long long)root->extent,
                       (long long)root->align);
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
        if (check_same(p, s, err)) return err->status;
    }
    return check_curves(p, err);
}

double mt_share_curve_at(const struct mt_share_curve *curve, int64_t share) {
    int n = curve->npoints;
    if (n < 2) return n ? curve->value[0] : 0;
    int i = 0;
    while (i < n - 2 && curve->at[i + 1] <= share) i++;
    double slope = (curve->value[i + 1] - curve->value[i]) / (double)(curve->at[i + 1] - curve->at[i]);
    return fmax(0, curve->value[i] + slope * (double)(share - curve->at[i]));
}

double balance_curve_at(const struct balance_curve *curve, double share) {
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

static void add_point(struct balance_curve *to, double at) {
    to->at[to->n++] = at;
}

/* The kinks of `curve` over shares up to extent, each divided by `ratio`, with both sides of where it comes down to 0.
 */
static void kinks(const struct mt_share_curve *curve, int64_t extent, double ratio, struct balance_curve *to) {
    int n = curve->npoints;
    for (int i = 0; i < n && curve->at[i] < extent; i++) add_point(to, (double)curve->at[i] / ratio);
    if (n < 2 || curve->at[n - 1] >= extent || curve->value[n - 1] <= 0) return;
    double slope = (curve->value[n - 1] - curve->value[n - 2]) / (double)(curve->at[n - 1] - curve->at[n - 2]);
    double zero = slope < 0 ? (double)curve->at[n - 1] - curve->value[n - 1] / slope : INFINITY;
    if (zero < (double)extent) add_point(to, floor(zero) / ratio);
    if (zero + 1 < (double)extent) add_point(to, (floor(zero) + 1) / ratio);
}

static int by_number(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Linear as mt_share_curve_at is, at shares that need not be whole. */
static double between(const struct mt_share_curve *curve, double share) {
    double low = floor(share), rest = share - low;
    double value = mt_share_curve_at(curve, (int64_t)low);
    return rest > 0 ? value + rest * (mt_share_curve_at(curve, (int64_t)low + 1) - value) : value;
}

/* The sum of a split's curve and of those that follow it, by the split's own shares. curves[split stride]. */
static struct balance_curve merged(struct balance *b, const struct mt_share_curve *curves, int stride, int root) {
    const struct mt_balance *p = b->problem;
    int points = 2;
    bool follows[MT_BALANCE_MOST_SPLITS], any = false;
    for (int s = 0; s < p->nsplits; s++) {
        follows[s] = s == root || (p->same && p->same[s] == root);
        if (!follows[s] || !curves[s * stride].npoints) continue;
        any = true;
        points += curves[s * stride].npoints + 2;
    }
    struct balance_curve f = {0};
    if (!any) return f;
    f.at = mt_new(&b->arena, double, points);
    f.value = mt_new(&b->arena, double, points);
    f.slope = mt_new(&b->arena, double, points);
    double extent = (double)p->splits[root].extent, ratio[MT_BALANCE_MOST_SPLITS];
    add_point(&f, 0), add_point(&f, extent);
    for (int s = 0; s < p->nsplits; s++) {
        ratio[s] = extent > 0 ? (double)p->splits[s].extent / extent : 1;
        if (follows[s] && ratio[s] > 0) kinks(&curves[s * stride], p->splits[s].extent, ratio[s], &f);
    }
    qsort(f.at, (size_t)f.n, sizeof *f.at, by_number);
    int n = 0;
    for (int i = 0; i < f.n; i++)
        if (!n || f.at[i] > f.at[n - 1]) f.at[n++] = f.at[i];
    f.n = n;
    for (int i = 0; i < n; i++)
        for (int s = 0; s < p->nsplits; s++)
            if (follows[s]) f.value[i] += between(&curves[s * stride], f.at[i] * ratio[s]);
    for (int i = 0; i + 1 < n; i++) f.slope[i] = (f.value[i + 1] - f.value[i]) / (f.at[i + 1] - f.at[i]);
    return f;
}

double balance_memory(const struct balance *b, int class, const int64_t *x) {
    double bytes = (double)b->problem->memory_fixed[class];
    for (int s = 0; s < b->nsplits; s++) bytes += balance_curve_at(&b->memory[s * b->nclasses + class], (double)x[s]);
    return bytes;
}

static void cost_of(const struct balance *b, int split, int class, int64_t share, double *row) {
    for (int k = 0; k < b->nstages; k++) {
        int at = (k * b->nsplits + split) * b->nclasses + class;
        row[2 * k] = balance_curve_at(&b->compute[at], (double)share);
        row[2 * k + 1] = balance_curve_at(&b->comm[at], (double)share);
    }
    row[2 * b->nstages] = balance_curve_at(&b->memory[split * b->nclasses + class], (double)share);
}

/* Searching looks up the same shares over and over: tables, as large as the problem deserves. */
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

enum mt_status balance_prepare(struct balance *b, const struct mt_balance *p, struct mt_err *err) {
    if (check(p, err)) return err->status;
    *b = (struct balance){.problem = p, .nclasses = p->nclasses, .nstages = p->nstages, .end_s = now_s() + p->limit_s};
    b->nranks = mt_new(&b->arena, int64_t, p->nclasses);
    for (int r = 0; r < p->nranks; r++) b->nranks[p->class[r]]++;
    b->root = mt_new(&b->arena, int, p->nsplits);
    b->extent = mt_new(&b->arena, int64_t, p->nsplits);
    b->align = mt_new(&b->arena, int64_t, p->nsplits);
    for (int s = 0; s < p->nsplits; s++) {
        if (p->same && p->same[s] >= 0) continue;
        b->extent[b->nsplits] = p->splits[s].extent;
        b->align[b->nsplits] = p->splits[s].align;
        b->root[b->nsplits++] = s;
    }
    int n = b->nsplits * b->nclasses;
    b->compute = mt_new(&b->arena, struct balance_curve, n * b->nstages);
    b->comm = mt_new(&b->arena, struct balance_curve, n * b->nstages);
    b->memory = mt_new(&b->arena, struct balance_curve, n);
    for (int s = 0; s < b->nsplits; s++)
        for (int c = 0; c < b->nclasses; c++) {
            b->memory[s * b->nclasses + c] = merged(b, p->memory + c, b->nclasses, b->root[s]);
            for (int k = 0; k < b->nstages; k++) {
                int from = k * p->nsplits * p->nclasses + c, to = (k * b->nsplits + s) * b->nclasses + c;
                b->compute[to] = merged(b, p->compute + from, b->nclasses, b->root[s]);
                b->comm[to] = merged(b, p->comm + from, b->nclasses, b->root[s]);
            }
        }
    tabulate(b);
    return MT_OK;
}

void balance_rank(struct balance *b, struct balance_group *group) {
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
    /* Bytes are whole: a rounding is not beyond the limit. */
    group->over = limit > 0 && bytes > limit + 0.25 ? (bytes - limit) / limit : 0;
}
