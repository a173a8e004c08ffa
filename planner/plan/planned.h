/* The graph and the program that a plan stands for.
 *
 *     struct mt_planned planned;
 *     if ((st = mt_planned_open(plan, &planned, err))) return st;
 *     ... planned.graph, &planned.program ...
 *     mt_planned_release(&planned); */
#ifndef MT_PLANNER_PLAN_PLANNED_H
#define MT_PLANNER_PLAN_PLANNED_H

#include "planner/plan/plan.h"
#include "synth/builder/build.h"
#include "synth/lower/lower.h"
#include "synth/models/model.h"

struct mt_planned {
    struct mt_model model;
    struct mt_graph *graph; /* the training graph: differentiated, with updates */
    struct mt_arena arena;  /* what the choice points to, besides the plan: keep that for mt_planned_evaluation */
    struct mt_choice choice;
    struct mt_program program;
};

/* Both steps, and refuse by name a plan whose model or program is not what it was made from. On failure there is
 * nothing to release. */
enum mt_status mt_planned_open(const struct mt_plan *plan, struct mt_planned *planned, struct mt_err *err);

/* The steps, for those who make plans: the graph; then the choice and the program.
 * After a failure mt_planned_release frees what there is. */
enum mt_status mt_planned_graph(const struct mt_plan *plan, struct mt_planned *planned, struct mt_err *err);
enum mt_status mt_planned_program(const struct mt_plan *plan, struct mt_planned *planned, struct mt_err *err);

/* The job's graph with backward pass and updates. After a failure mt_graph_free frees what there is. */
enum mt_status mt_training_graph(const struct mt_model *model, const struct mt_job *job, struct mt_graph **graph,
                                 struct mt_err *err);

/* Forward only, on the same states and shares, without dropout. `graph` borrows everything from planned->graph but its
 * operators, which are planned's; the program is the caller's to release. */
enum mt_status mt_planned_evaluation(struct mt_planned *planned, struct mt_graph *graph, struct mt_program *program,
                                     struct mt_err *err);

void mt_planned_release(struct mt_planned *planned);

/* Options of lowering, the same for training and for the prediction of memory: fused, scratch as the device's backends
 * want it; for messages whose algorithm is "auto" one that suits a network of 30 microseconds and 1 GB/s. */
struct mt_lower_options mt_planned_lower_options(struct mt_device *device);

/* The same for planning, where a device of that kind ("cpu", "cuda") need not be: of CPUs this host's, of GPUs what
 * kernels/device/cuda_scratch.h says. *device is opened for it, or null; close it when the options are of no more use.
 */
enum mt_status mt_planned_options_for(const char *kind, struct mt_device **device, struct mt_lower_options *options,
                                      struct mt_err *err);

#endif
