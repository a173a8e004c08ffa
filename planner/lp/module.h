/* The interface of the GLPK module (planner/lp/glpk.c). mt_lp_solve has checked the programme (numbers are finite,
 * bounds in order and, of integer columns, whole) and allocated the solution's vectors. */
#ifndef MT_PLANNER_LP_MODULE_H
#define MT_PLANNER_LP_MODULE_H

#include "kernels/base/module.h"
#include "planner/lp/lp.h"

struct mt_lp_module {
    struct mt_module_head head;
    enum mt_status (*solve)(const struct mt_lp *lp, double limit_s, struct mt_lp_solution *solution,
                            struct mt_err *err);
};

#define MT_LP_SHAPE                                                                                                    \
    { (int64_t)sizeof(struct mt_lp), (int64_t)sizeof(struct mt_lp_col), (int64_t)sizeof(struct mt_lp_solution), 1 }

#endif
