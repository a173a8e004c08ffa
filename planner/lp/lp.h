/* Linear and integer programmes, solved by GLPK.
 *
 * GLPK is a module (motley_glpk.so), loaded when first needed: planning needs it, training does not. Only
 * planner/lp/glpk.c, of which the module is made, includes glpk.h.
 *
 *     struct mt_lp lp = MT_LP_INIT;
 *     int x = mt_lp_col(&lp, "x", 0, INFINITY, 1.0, false);       // minimize 1.0 x
 *     int row = mt_lp_row(&lp, "need", 3, INFINITY);
 *     mt_lp_set(&lp, row, x, 2.0);
 *     if ((st = mt_lp_solve(&lp, 5.0, &solution, err))) goto out;  // solution.x[x] = 1.5, solution.dual[row] = 0.5
 *     mt_lp_release(&lp); */
#ifndef MT_PLANNER_LP_LP_H
#define MT_PLANNER_LP_LP_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/arena.h"
#include "kernels/base/err.h"

struct mt_lp_col {
    const char *name;
    double least, most, cost;
    bool integer;
};
struct mt_lp_row {
    const char *name;
    double least, most;
};
struct mt_lp_entry {
    int row, col;
    double value;
};
struct mt_lp {
    struct mt_arena arena;
    struct mt_lp_col *cols;
    struct mt_lp_row *rows;
    struct mt_lp_entry *entries;
    int ncols, nrows, nentries, cols_capacity, rows_capacity, entries_capacity;
    /* When an integer programme may stop: within this much of the bound, relative; after so many nodes of its tree. */
    double gap;
    int64_t most_nodes; /* 0: any number */
};
#define MT_LP_INIT                                                                                                     \
    { 0 }

/* Bounds may be -INFINITY and INFINITY; names are copied and only appear in messages. Return the index. */
int mt_lp_col(struct mt_lp *lp, const char *name, double least, double most, double cost, bool integer);
int mt_lp_row(struct mt_lp *lp, const char *name, double least, double most);
void mt_lp_set(struct mt_lp *lp, int row, int col, double value); /* adds up */
void mt_lp_release(struct mt_lp *lp);

struct mt_lp_solution {
    double objective;
    double *x;    /* [ncols], in the lp's arena */
    double *dual; /* [nrows] of the relaxation: objective per unit of the row's bound */
    bool optimal; /* within the gap; an integer programme that ran out of time or nodes has its best so far */
    double bound; /* lower bound of the objective */
};
/* Minimize. MT_EINPUT when there is no solution (naming a row that cannot be met, if one is known), when the objective
 * is unbounded, and for numbers that are not finite; MT_EMISSING without GLPK, naming its package; MT_ESTALL when
 * limit_s (or most_nodes) passed before there was a solution. Any thread may call; one programme is solved at a time.
 */
enum mt_status mt_lp_solve(struct mt_lp *lp, double limit_s, struct mt_lp_solution *solution, struct mt_err *err);

#endif
