/* Inside the prediction: how long an overlapped instruction takes, from when its last rank has arrived. */
#ifndef MT_PLANNER_PREDICT_OVERLAPPED_H
#define MT_PLANNER_PREDICT_OVERLAPPED_H

#include "planner/cost/cost.h"
#include "planner/overlap/predict.h"

/* Rates of the ranks group[0..problem->n) as the cluster was measured, and the links between them. Vectors are in the
 * arena. *error: the largest relative half-width of their GEMMs; *nominal: some were never measured. */
void mt_predict_overlap_rates(const struct mt_costs *costs, const struct mt_overlap *problem, const int *group,
                              struct mt_arena *arena, struct mt_overlap_rates **rates, struct mt_overlap_links *links,
                              double *error, bool *nominal);

/* Seconds of the instruction, by its schedules (planner/overlap/predict.h); remembered in costs->memo. */
enum mt_status mt_predict_overlapped(const struct mt_costs *costs, const struct mt_overlap *problem, const int *group,
                                     struct mt_cost *cost, struct mt_err *err);

/* What its epilogue adds to a rank's GEMM, by the times of both alone; at least 0. So too of sums, whose bias is no
 * part of the GEMM, but none more is read, in no pass of its own. */
struct mt_cost mt_predict_epilogue(const struct mt_costs *costs, int rank, const struct mt_call *gemm);

/* Whether the ranks group[n] are GPUs of one host between which puts were measured. */
bool mt_predict_puts_measured(const struct mt_costs *costs, const int *group, int n);

/* Choose for GPUs what the problem leaves open, by the least predicted time. Within a host that is chunks as devices
 * make them, groups of waves, or one kernel, with its tile, puts and order; across hosts chunks or groups that NCCL
 * sends.
 *
 * transposed[3]  of A, B and the result (mt_pair_transposes)
 * *best          out: the problem itself where nothing is faster, and for other devices; groups are in the arena */
enum mt_status mt_predict_overlap_choice(const struct mt_costs *costs, const struct mt_overlap *problem,
                                         const int *group, const bool transposed[3], struct mt_arena *arena,
                                         struct mt_overlap *best, double *best_s, struct mt_err *err);

#endif
