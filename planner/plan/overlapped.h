/* The overlapped GEMMs of a plan's program, by shape, and the plan's rows of "overlapped", which are about them.
 *
 *     struct mt_overlapped_gemms found;
 *     mt_overlapped_find(plan, &program, &arena, &found);
 *     for (int i = 0; i < found.count; i++) ... found.items[i].row ... */
#ifndef MT_PLANNER_PLAN_OVERLAPPED_H
#define MT_PLANNER_PLAN_OVERLAPPED_H

#include "kernels/base/table/table.h"
#include "planner/plan/plan.h"
#include "synth/program/program.h"

struct mt_overlapped_gemm {
    struct mt_overlap_choice row; /* the shape, and how it runs: as a row says, or as the program has it without one */
    int count;                    /* of them in the program, each of them among some ranks at least */
    int last;                     /* of them, as a number of the program's pairs */
    bool one_host;                /* some ranks that run one together are on one host */
    bool one_kernel;              /* and some are served by one kernel per GPU */
};
struct mt_overlapped_gemms {
    struct mt_overlapped_gemm *items; /* in the order in which the first of each runs; rows' groups are borrowed */
    int count, capacity;
};

/* `program`: of the plan, with its rows or others. Items are in the arena. */
void mt_overlapped_find(const struct mt_plan *plan, const struct mt_program *program, struct mt_arena *arena,
                        struct mt_overlapped_gemms *found);

/* All items of the row's shape as one; count 0: there is none. */
struct mt_overlapped_gemm mt_overlapped_of_shape(const struct mt_overlapped_gemms *found,
                                                 const struct mt_overlap_choice *row);

/* Refuse a row that decides nothing, MT_EINPUT with its path: of a form that is not among the plan's, of a shape that
 * no GEMM of the program has, or by what cannot run it. `another`: the program has become another than the rows were
 * made for, and such rows leave plan and program. */
enum mt_status mt_overlapped_match(struct mt_plan *plan, struct mt_program *program, bool another, struct mt_err *err);

/* What of the plan's decision no GEMM of the program can carry out: "gather" of "gather+scatter"; null: nothing. Of
 * "all" forms that are not there count only if none is. */
const char *mt_overlapped_in_vain(const struct mt_plan *plan, const struct mt_program *program);
/* The same as a remark on a plan that is complete. */
enum mt_status mt_overlapped_remark(const struct mt_plan *plan, struct mt_tables *remarks, struct mt_err *err);

#endif
