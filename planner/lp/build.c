/* Linear programmes: putting one together. */
#include <assert.h>

#include "planner/lp/lp.h"

int mt_lp_col(struct mt_lp *lp, const char *name, double least, double most, double cost, bool integer) {
    mt_arena_grow(&lp->arena, &lp->cols, lp->ncols, &lp->cols_capacity, sizeof *lp->cols);
    lp->cols[lp->ncols] = (struct mt_lp_col){mt_arena_strdup(&lp->arena, name), least, most, cost, integer};
    return lp->ncols++;
}

int mt_lp_row(struct mt_lp *lp, const char *name, double least, double most) {
    mt_arena_grow(&lp->arena, &lp->rows, lp->nrows, &lp->rows_capacity, sizeof *lp->rows);
    lp->rows[lp->nrows] = (struct mt_lp_row){mt_arena_strdup(&lp->arena, name), least, most};
    return lp->nrows++;
}

void mt_lp_set(struct mt_lp *lp, int row, int col, double value) {
    assert(row >= 0 && row < lp->nrows && col >= 0 && col < lp->ncols);
    mt_arena_grow(&lp->arena, &lp->entries, lp->nentries, &lp->entries_capacity, sizeof *lp->entries);
    lp->entries[lp->nentries++] = (struct mt_lp_entry){row, col, value};
}

void mt_lp_release(struct mt_lp *lp) {
    mt_arena_release(&lp->arena);
    *lp = (struct mt_lp)MT_LP_INIT;
}
