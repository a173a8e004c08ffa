/* Checks linear programmes and passes them to the GLPK module. */
#include "planner/lp/module.h"

#include <math.h>
#include <pthread.h>

/* The module calls it: a reference here links it into every program that loads the module. */
static enum mt_status (*const called)(struct mt_err *, enum mt_status, const char *, ...)
    __attribute__((used)) = mt_fail;

static enum mt_status check_bounds(const char *what, const char *name, double least, double most, struct mt_err *err) {
    if (isnan(least) || isnan(most) || least == INFINITY || most == -INFINITY)
        return mt_fail(err, MT_EINPUT, "%s \"%s\": its bounds are %g and %g", what, name, least, most);
    if (least > most)
        return mt_fail(err, MT_EINPUT, "%s \"%s\": must be at least %g and at most %g", what, name, least, most);
    return MT_OK;
}

static enum mt_status check(const struct mt_lp *lp, struct mt_err *err) {
    for (int c = 0; c < lp->ncols; c++) {
        struct mt_lp_col *col = &lp->cols[c];
        if (!isfinite(col->cost)) return mt_fail(err, MT_EINPUT, "column \"%s\": its cost is %g", col->name, col->cost);
        if (check_bounds("column", col->name, col->least, col->most, err)) return err->status;
        if (!col->integer) continue;
        col->least = ceil(col->least), col->most = floor(col->most);
        if (col->least > col->most)
            return mt_fail(err, MT_EINPUT, "column \"%s\": no whole number lies within its bounds", col->name);
    }
    for (int r = 0; r < lp->nrows; r++)
        if (check_bounds("row", lp->rows[r].name, lp->rows[r].least, lp->rows[r].most, err)) return err->status;
    for (int e = 0; e < lp->nentries; e++)
        if (!isfinite(lp->entries[e].value))
            return mt_fail(err, MT_EINPUT, "row \"%s\", column \"%s\": the coefficient is %g",
                           lp->rows[lp->entries[e].row].name, lp->cols[lp->entries[e].col].name, lp->entries[e].value);
    return MT_OK;
}

enum mt_status mt_lp_solve(struct mt_lp *lp, double limit_s, struct mt_lp_solution *solution, struct mt_err *err) {
    static struct mt_module glpk =
        MT_MODULE("motley_glpk.so", "mt_lp_module", MT_LP_SHAPE,
                  "install libglpk-dev (to build it; libglpk40 to run), configure and build again; or set "
                  "MOTLEY_MODULES to the module's folder. Training by a plan that is there needs none of it");
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    const struct mt_lp_module *module = mt_module_load(&glpk, err);
    if (!module) return mt_err_context(err, "shares are solved for with GLPK");
    if (check(lp, err)) return err->status;
    *solution = (struct mt_lp_solution){.x = mt_new(&lp->arena, double, lp->ncols),
                                        .dual = mt_new(&lp->arena, double, lp->nrows)};
    pthread_mutex_lock(&one_at_a_time);
    enum mt_status st = module->solve(lp, limit_s, solution, err);
    pthread_mutex_unlock(&one_at_a_time);
    return st;
}
