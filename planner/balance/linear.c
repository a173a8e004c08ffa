/* Balance: the linear and the integer programme over classes.
 *
 * Columns: each class's average share of each split; each stage's time. Curves are replaced by their lower convex
 * hulls, as segments that fill up in order because their slopes rise. On a convex curve the time of the mean share is
 * at most that of the slowest rank, so the optimum is a lower bound of all divisions. Shares are counted in extents,
 * time in approximate steps, memory in limits, so that all numbers are near 1. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "planner/balance/internal.h"
#include "planner/lp/lp.h"

#define MOST_NODES 100 /* of the integer programme's tree, which is one start of several */
#define INTEGER_GAP 2e-3
#define LEAST_LIMIT_S 10 /* of the relaxation, which cannot be done without */

struct programme {
    struct balance *b;
    struct mt_lp lp;
    double scale_s;
    int *share;  /* [split nclasses + class]: columns; -1 where the class has no ranks */
    int *stage;  /* [nstages]: columns */
    int *rows;   /* [(stage nclasses + class) 2 + (0: compute, 1: comm)]; -1 where nothing depends on shares */
    int *memory; /* [nclasses]: rows, or -1 */
};

/* The lower convex hull of a curve (Andrew's monotone chain). Returns the number of points, put into at and value. */
static int hull(const struct balance_curve *curve, double *at, double *value) {
    int n = 0;
    for (int i = 0; i < curve->n; i++) {
        double x = curve->at[i], y = curve->value[i];
        while (n > 1 && (value[n - 1] - value[n - 2]) * (x - at[n - 1]) >= (y - value[n - 1]) * (at[n - 1] - at[n - 2]))
            n--;
        at[n] = x, value[n++] = y;
    }
    return n;
}

/* Add sign * (hull(share) - hull(0)) / scale to the row. Returns hull(0) / scale. */
static double add_curve(struct programme *p, const struct balance_curve *curve, int split, int share, int row,
                        double sign, double scale) {
    if (!curve->n) return 0;
    double *at = mt_new(&p->lp.arena, double, curve->n), *value = mt_new(&p->lp.arena, double, curve->n);
    int n = hull(curve, at, value);
    double extent = (double)p->b->extent[split];
    int link = n > 2 ? mt_lp_row(&p->lp, "segments", 0, 0) : -1;
    if (link >= 0) mt_lp_set(&p->lp, link, share, 1);
    for (int i = 0; i + 1 < n; i++) {
        double slope = (value[i + 1] - value[i]) / (at[i + 1] - at[i]) * extent / scale;
        int col = n > 2 ? mt_lp_col(&p->lp, "segment", 0, (at[i + 1] - at[i]) / extent, 0, false) : share;
        if (link >= 0) mt_lp_set(&p->lp, link, col, -1);
        mt_lp_set(&p->lp, row, col, sign * slope);
    }
    return value[0] / scale;
}

static void add_times(struct programme *p, int stage, int class) {
    const struct balance *b = p->b;
    for (int kind = 0; kind < 2; kind++) {
        const struct balance_curve *curves = kind ? b->comm : b->compute;
        const double *fixed = kind ? b->problem->comm_fixed : b->problem->compute_fixed;
        int at = (stage * b->nclasses + class) * 2 + kind;
        double least = fixed[stage * b->nclasses + class] / p->scale_s;
        bool any = false;
        for (int s = 0; s < b->nsplits; s++) any = any || curves[(stage * b->nsplits + s) * b->nclasses + class].n;
        p->rows[at] = -1;
        if (!any && least <= 0) continue;
        p->rows[at] = mt_lp_row(&p->lp, b->problem->stage_names[stage], 0, INFINITY);
        mt_lp_set(&p->lp, p->rows[at], p->stage[stage], 1);
        for (int s = 0; s < b->nsplits; s++)
            least += add_curve(p, &curves[(stage * b->nsplits + s) * b->nclasses + class], s,
                               p->share[s * b->nclasses + class], p->rows[at], -1, p->scale_s);
        p->lp.rows[p->rows[at]].least = least;
    }
}

static void add_memory(struct programme *p, int class) {
    const struct balance *b = p->b;
    double limit = (double)b->problem->memory_limit[class];
    p->memory[class] = -1;
    if (limit <= 0) return;
    char name[128];
    snprintf(name, sizeof name, "memory of class %s", b->problem->class_names[class]);
    int row = p->memory[class] = mt_lp_row(&p->lp, name, -INFINITY, INFINITY);
    double most = (limit + 0.25 - (double)b->problem->memory_fixed[class]) / limit;
    for (int s = 0; s < b->nsplits; s++)
        most -= add_curve(p, &b->memory[s * b->nclasses + class], s, p->share[s * b->nclasses + class], row, 1, limit);
    p->lp.rows[row].most = most;
}

static void make(struct programme *p, struct balance *b, double scale_s) {
    *p = (struct programme){.b = b, .scale_s = scale_s};
    p->share = mt_new(&p->lp.arena, int, b->nsplits * b->nclasses);
    p->stage = mt_new(&p->lp.arena, int, b->nstages);
    p->rows = mt_new(&p->lp.arena, int, b->nstages * b->nclasses * 2);
    p->memory = mt_new(&p->lp.arena, int, b->nclasses);
    for (int k = 0; k < b->nstages; k++)
        p->stage[k] = mt_lp_col(&p->lp, b->problem->stage_names[k], 0, INFINITY, 1, false);
    for (int s = 0; s < b->nsplits; s++) {
        const char *name = b->problem->splits[s].name;
        double whole = b->extent[s] > 0 ? 1 : 0;
        int row = mt_lp_row(&p->lp, name, whole, whole);
        for (int c = 0; c < b->nclasses; c++) {
            int *col = &p->share[s * b->nclasses + c];
            *col = b->nranks[c] ? mt_lp_col(&p->lp, name, 0, whole, 0, false) : -1;
            if (*col >= 0) mt_lp_set(&p->lp, row, *col, (double)b->nranks[c]);
        }
    }
    for (int c = 0; c < b->nclasses; c++) {
        p->memory[c] = -1;
        for (int k = 0; k < b->nstages; k++)
            p->rows[(k * b->nclasses + c) * 2] = p->rows[(k * b->nclasses + c) * 2 + 1] = -1;
        if (!b->nranks[c]) continue;
        for (int k = 0; k < b->nstages; k++) add_times(p, k, c);
        add_memory(p, c);
    }
}

static int by_dual(const void *a, const void *b) {
    const struct mt_binding *x = a, *y = b;
    if (x->dual != y->dual) return x->dual < y->dual ? 1 : -1;
    if (x->kind != y->kind) return (int)x->kind - (int)y->kind;
    return x->stage != y->stage ? x->stage - y->stage : x->class - y->class;
}

/* Dual values as seconds per percent: a percent more speed takes a percent off a row's time, a percent more memory adds
 * one to a row's limit. */
static void bindings(const struct programme *p, const struct mt_lp_solution *solution, struct balance_relaxed *out) {
    struct balance *b = p->b;
    out->bindings = mt_new(&b->arena, struct mt_binding, b->nstages * (b->nclasses + 1) + b->nclasses);
    out->nbindings = 0;
    double none = solution->objective * p->scale_s * 1e-9;
    for (int k = 0; k < b->nstages; k++) {
        double stage_s = solution->x[p->stage[k]] * p->scale_s, comm = 0;
        for (int c = 0; c < b->nclasses; c++) {
            const int *rows = &p->rows[(k * b->nclasses + c) * 2];
            double compute = rows[0] >= 0 ? 0.01 * stage_s * solution->dual[rows[0]] : 0;
            if (rows[1] >= 0) comm += 0.01 * stage_s * solution->dual[rows[1]];
            if (compute > none) out->bindings[out->nbindings++] = (struct mt_binding){MT_BINDS_COMPUTE, k, c, compute};
        }
        if (comm > none) out->bindings[out->nbindings++] = (struct mt_binding){MT_BINDS_COMM, k, -1, comm};
    }
    for (int c = 0; c < b->nclasses; c++) {
        double memory = p->memory[c] >= 0 ? -0.01 * p->scale_s * solution->dual[p->memory[c]] : 0;
        if (memory > none) out->bindings[out->nbindings++] = (struct mt_binding){MT_BINDS_MEMORY, -1, c, memory};
    }
    qsort(out->bindings, (size_t)out->nbindings, sizeof *out->bindings, by_dual);
}

enum mt_status mt_balance_relax(struct balance *b, double scale_s, struct balance_relaxed *relaxed,
                                struct mt_err *err) {
    struct programme p;
    struct mt_lp_solution solution;
    make(&p, b, scale_s);
    enum mt_status st = mt_lp_solve(&p.lp, fmax(b->problem->limit_s, LEAST_LIMIT_S), &solution, err);
    if (!st) {
        relaxed->bound_s = fmax(0, solution.objective * scale_s * (1 - 1e-6)); /* GLPK's tolerance is 1e-7 */
        relaxed->share = mt_new(&b->arena, double, b->nsplits * b->nclasses);
        for (int i = 0; i < b->nsplits * b->nclasses; i++)
            relaxed->share[i] = p.share[i] >= 0 ? solution.x[p.share[i]] * (double)b->extent[i / b->nclasses] : 0;
        bindings(&p, &solution, relaxed);
    }
    mt_lp_release(&p.lp);
    return st;
}

/* Columns of the integer programme: the ranks of a class have `base` units of a split, and `more` of them one more;
 * `some` = 1 if there are such. The relaxation's share becomes the largest share of the class. */
struct whole {
    int base, more, some;
};

static struct whole add_whole(struct programme *p, int split, int class, int total) {
    const struct balance *b = p->b;
    double n = (double)b->nranks[class], units = floor((double)b->extent[split] / (double)b->align[split]);
    double unit = (double)b->align[split] / (double)b->extent[split];
    struct whole w = {mt_lp_col(&p->lp, "base", 0, units, 0, true), mt_lp_col(&p->lp, "more", 0, n - 1, 0, true),
                      mt_lp_col(&p->lp, "some", 0, 1, 0, true)};
    int row = mt_lp_row(&p->lp, "largest share", 0, 0);
    mt_lp_set(&p->lp, row, p->share[split * b->nclasses + class], 1);
    mt_lp_set(&p->lp, row, w.base, -unit);
    mt_lp_set(&p->lp, row, w.some, -unit);
    row = mt_lp_row(&p->lp, "some have more", -INFINITY, 0);
    mt_lp_set(&p->lp, row, w.more, 1);
    mt_lp_set(&p->lp, row, w.some, 1 - n);
    mt_lp_set(&p->lp, total, w.base, n);
    mt_lp_set(&p->lp, total, w.more, 1);
    return w;
}

enum mt_status mt_balance_integers(struct balance *b, double scale_s, int64_t *total, struct mt_err *err) {
    struct programme p;
    struct mt_lp_solution solution;
    make(&p, b, scale_s);
    struct whole *whole = mt_new(&p.lp.arena, struct whole, b->nsplits * b->nclasses);
    for (int s = 0; s < b->nsplits; s++) {
        double units = (double)(b->extent[s] / b->align[s]);
        int row = mt_lp_row(&p.lp, b->problem->splits[s].name, units, units);
        p.lp.rows[s].least = -INFINITY, p.lp.rows[s].most = INFINITY; /* the sum of largest shares is free */
        for (int c = 0; c < b->nclasses && b->extent[s] > 0; c++)
            if (b->nranks[c]) whole[s * b->nclasses + c] = add_whole(&p, s, c, row);
    }
    p.lp.gap = INTEGER_GAP;
    p.lp.most_nodes = MOST_NODES;
    enum mt_status st = mt_lp_solve(&p.lp, b->problem->limit_s, &solution, err);
    for (int s = 0; s < b->nsplits && !st; s++) {
        int largest = 0;
        for (int c = 0; c < b->nclasses; c++) {
            const struct whole *w = &whole[s * b->nclasses + c];
            bool any = b->nranks[c] && b->extent[s] > 0;
            double units = any ? solution.x[w->base] * (double)b->nranks[c] + solution.x[w->more] : 0;
            total[s * b->nclasses + c] = (int64_t)units * b->align[s];
            if (total[s * b->nclasses + c] > total[s * b->nclasses + largest]) largest = c;
        }
        total[s * b->nclasses + largest] += b->extent[s] % b->align[s];
    }
    mt_lp_release(&p.lp);
    return st;
}
