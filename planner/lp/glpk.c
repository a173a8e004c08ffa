/* The GLPK module: solves a linear programme by the simplex method and an integer one by branch and bound.
 *
 * GLPK prints, and ends the process when it finds a fault; here it is silent, and its error hook jumps back to the
 * call, which then drops all of GLPK's memory. Its environment belongs to the calling thread and to one call. */
#include <glpk.h>

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "planner/lp/module.h"

struct call {
    const struct mt_lp *lp;
    struct mt_lp_solution *solution;
    struct mt_err *err;
    double end_s; /* by the monotonic clock */
    int64_t nodes;
    jmp_buf fault;
    char said[256];
};

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int left_ms(const struct call *call) {
    double ms = ceil((call->end_s - now_s()) * 1000);
    return ms < 1 ? 1 : ms > INT_MAX ? INT_MAX : (int)ms;
}

static int on_output(void *info, const char *text) {
    struct call *call = info;
    size_t used = strlen(call->said);
    snprintf(call->said + used, sizeof call->said - used, "%s", text);
    return 1; /* not printed: a fault turns GLPK's output on */
}

static void on_fault(void *info) {
    longjmp(((struct call *)info)->fault, 1);
}

static int bounds_type(double least, double most) {
    if (least == most) return GLP_FX;
    if (isfinite(least)) return isfinite(most) ? GLP_DB : GLP_LO;
    return isfinite(most) ? GLP_UP : GLP_FR;
}

static int by_place(const void *a, const void *b) {
    const struct mt_lp_entry *x = a, *y = b;
    if (x->row != y->row) return x->row < y->row ? -1 : 1;
    return (x->col > y->col) - (x->col < y->col);
}

/* GLPK takes each place once: entries of the same place are added up. */
static void load_entries(glp_prob *prob, const struct mt_lp *lp) {
    size_t n = (size_t)lp->nentries;
    struct mt_lp_entry *sorted = glp_alloc((int)n + 1, sizeof *sorted); /* GLPK's, so that a fault frees it */
    if (n) memcpy(sorted, lp->entries, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_place);
    int *row = glp_alloc((int)n + 1, sizeof *row), *col = glp_alloc((int)n + 1, sizeof *col), used = 0;
    double *value = glp_alloc((int)n + 1, sizeof *value);
    for (size_t i = 0; i < n; i++) {
        if (i && by_place(&sorted[i - 1], &sorted[i]) == 0) {
            value[used] += sorted[i].value;
            continue;
        }
        used++;
        row[used] = sorted[i].row + 1, col[used] = sorted[i].col + 1, value[used] = sorted[i].value;
    }
    glp_load_matrix(prob, used, row, col, value);
}

static glp_prob *make(const struct mt_lp *lp) {
    glp_prob *prob = glp_create_prob();
    glp_set_obj_dir(prob, GLP_MIN);
    if (lp->nrows) glp_add_rows(prob, lp->nrows);
    if (lp->ncols) glp_add_cols(prob, lp->ncols);
    for (int r = 0; r < lp->nrows; r++)
        glp_set_row_bnds(prob, r + 1, bounds_type(lp->rows[r].least, lp->rows[r].most), lp->rows[r].least,
                         lp->rows[r].most);
    for (int c = 0; c < lp->ncols; c++) {
        glp_set_col_kind(prob, c + 1, lp->cols[c].integer ? GLP_IV : GLP_CV);
        glp_set_col_bnds(prob, c + 1, bounds_type(lp->cols[c].least, lp->cols[c].most), lp->cols[c].least,
                         lp->cols[c].most);
        glp_set_obj_coef(prob, c + 1, lp->cols[c].cost);
    }
    load_entries(prob, lp);
    glp_scale_prob(prob, GLP_SF_AUTO);
    glp_adv_basis(prob, 0);
    return prob;
}

/* Names the row or column furthest beyond its bounds in the simplex method's last point. */
static enum mt_status infeasible(glp_prob *prob, const struct call *call) {
    const struct mt_lp *lp = call->lp;
    const char *name = NULL;
    double worst = 0, value = 0, least = 0, most = 0;
    for (int i = 0; i < lp->nrows + lp->ncols; i++) {
        bool row = i < lp->nrows;
        double at = row ? glp_get_row_prim(prob, i + 1) : glp_get_col_prim(prob, i - lp->nrows + 1);
        double low = row ? lp->rows[i].least : lp->cols[i - lp->nrows].least;
        double high = row ? lp->rows[i].most : lp->cols[i - lp->nrows].most;
        double bound = at < low ? low : at > high ? high : at;
        double off = fabs(at - bound) / (1 + fabs(bound));
        if (off <= worst) continue;
        worst = off, value = at, least = low, most = high;
        name = row ? lp->rows[i].name : lp->cols[i - lp->nrows].name;
    }
    if (!name) return mt_fail(call->err, MT_EINPUT, "the programme has no solution");
    if (value < least)
        return mt_fail(call->err, MT_EINPUT,
                       "the programme has no solution: \"%s\" must be at least %g, and reaches %g", name, least, value);
    return mt_fail(call->err, MT_EINPUT, "the programme has no solution: \"%s\" must be at most %g, and is %g", name,
                   most, value);
}

static enum mt_status relaxation(glp_prob *prob, struct call *call) {
    glp_smcp parameters;
    glp_init_smcp(&parameters);
    parameters.msg_lev = GLP_MSG_OFF;
    parameters.tm_lim = left_ms(call);
    int rc = glp_simplex(prob, &parameters);
    if (rc == GLP_ESING || rc == GLP_ECOND || rc == GLP_EFAIL) { /* from the standard basis, by the dual method */
        glp_std_basis(prob);
        parameters.meth = GLP_DUALP, parameters.tm_lim = left_ms(call);
        rc = glp_simplex(prob, &parameters);
    }
    if (rc == GLP_ETMLIM)
        return mt_fail(call->err, MT_ESTALL, "GLPK has not solved the linear programme in the time given");
    int status = glp_get_status(prob);
    if (status == GLP_NOFEAS) return infeasible(prob, call);
    if (status == GLP_UNBND)
        return mt_fail(call->err, MT_EINPUT, "the programme is unbounded: its objective falls without end");
    if (rc || status != GLP_OPT)
        return mt_fail(call->err, MT_EBUG, "GLPK gave up on the linear programme (code %d, status %d)", rc, status);
    struct mt_lp_solution *s = call->solution;
    for (int r = 0; r < call->lp->nrows; r++) s->dual[r] = glp_get_row_dual(prob, r + 1);
    for (int c = 0; c < call->lp->ncols; c++) s->x[c] = glp_get_col_prim(prob, c + 1);
    s->objective = s->bound = glp_get_obj_val(prob);
    s->optimal = true;
    return MT_OK;
}

static void on_node(glp_tree *tree, void *info) {
    struct call *call = info;
    if (glp_ios_reason(tree) != GLP_ISELECT) return;
    int best = glp_ios_best_node(tree);
    if (best) call->solution->bound = glp_ios_node_bound(tree, best);
    call->nodes++;
    if (call->lp->most_nodes && call->nodes > call->lp->most_nodes) glp_ios_terminate(tree);
}

static enum mt_status integers(glp_prob *prob, struct call *call) {
    glp_iocp parameters;
    glp_init_iocp(&parameters);
    parameters.msg_lev = GLP_MSG_OFF;
    parameters.tm_lim = left_ms(call);
    parameters.mip_gap = call->lp->gap;
    parameters.mir_cuts = GLP_ON;
    parameters.cb_func = on_node, parameters.cb_info = call;
    int rc = glp_intopt(prob, &parameters);
    int status = glp_mip_status(prob);
    struct mt_lp_solution *s = call->solution;
    if (status == GLP_NOFEAS) return mt_fail(call->err, MT_EINPUT, "the programme has no solution in whole numbers");
    if (status != GLP_OPT && status != GLP_FEAS) {
        if (rc == GLP_ETMLIM || rc == GLP_ESTOP)
            return mt_fail(call->err, MT_ESTALL, "GLPK has found no whole numbers in the time or the nodes given");
        return mt_fail(call->err, MT_EBUG, "GLPK gave up on the integer programme (code %d, status %d)", rc, status);
    }
    for (int c = 0; c < call->lp->ncols; c++) {
        s->x[c] = glp_mip_col_val(prob, c + 1);
        if (call->lp->cols[c].integer) s->x[c] = nearbyint(s->x[c]);
    }
    s->objective = glp_mip_obj_val(prob);
    s->optimal = status == GLP_OPT || rc == GLP_EMIPGAP;
    if (rc == GLP_EMIPGAP) s->bound = fmax(s->bound, s->objective - call->lp->gap * fabs(s->objective));
    if (status == GLP_OPT || s->bound > s->objective) s->bound = s->objective;
    return MT_OK;
}

static enum mt_status solve(const struct mt_lp *lp, double limit_s, struct mt_lp_solution *solution,
                            struct mt_err *err) {
    struct call call = {.lp = lp, .solution = solution, .err = err, .end_s = now_s() + limit_s};
    glp_term_hook(on_output, &call);
    glp_error_hook(on_fault, &call);
    enum mt_status st;
    if (setjmp(call.fault)) {
        st = mt_fail(err, MT_EBUG, "GLPK found a fault in itself or in the programme: %.200s", call.said);
    } else {
        glp_prob *prob = make(lp);
        bool whole = false;
        for (int c = 0; c < lp->ncols; c++) whole = whole || lp->cols[c].integer;
        st = relaxation(prob, &call);
        if (!st && whole) st = integers(prob, &call);
    }
    glp_free_env(); /* all that GLPK has allocated, and the hooks */
    return st;
}

extern const struct mt_lp_module mt_lp_module;
__attribute__((visibility("default"))) const struct mt_lp_module mt_lp_module = {{MOTLEY_VERSION, MT_LP_SHAPE}, solve};
