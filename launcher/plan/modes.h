/* The modes of `motley plan`. Each makes a plan that is complete and checked but for its hash, and adds to `remarks`
 * what a person should know about it. Free the plan with mt_plan_free. */
#ifndef MT_LAUNCHER_PLAN_MODES_H
#define MT_LAUNCHER_PLAN_MODES_H

#include "kernels/base/table/table.h"
#include "launcher/flags/plan_flags.h"

/* Shares by speeds, or as given; nothing is predicted. */
enum mt_status mt_plan_by_speeds(struct mt_plan_flags *flags, struct mt_plan **plan, struct mt_tables *remarks,
                                 struct mt_err *err);

/* cluster.c: the fastest that the search finds. A plan of the same model, job and cluster that --out names already
 * is where it starts from. */
enum mt_status mt_plan_for_cluster(struct mt_plan_flags *flags, struct mt_plan **plan, struct mt_tables *remarks,
                                   struct mt_err *err);

/* check.c: a plan that a person has edited; with a cluster its step is predicted again and printed with the old
 * prediction and the best that the search finds. */
enum mt_status mt_plan_check_edited(struct mt_plan_flags *flags, struct mt_plan **plan, struct mt_tables *remarks,
                                    struct mt_err *err);

/* replan.c: what a run trained, by the speeds that it has seen; without a cluster only the shares of the batch
 * change. */
enum mt_status mt_plan_replan(struct mt_plan_flags *flags, struct mt_plan **plan, struct mt_tables *remarks,
                              struct mt_err *err);

/* The summary of a plan that was made for a cluster, and its bottleneck: "binds      compute of t4 (ranks 6-13): one
 * percent more of it saves 2.10 ms a step". `fixed` (may be null): what a person has fixed. */
enum mt_status mt_plan_print_found(const struct mt_plan *plan, const struct mt_cluster *cluster,
                                   const struct mt_plan_fixed *fixed, struct mt_tables *remarks, struct mt_err *err);

#endif
