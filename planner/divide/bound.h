/* A lower bound on all programs of a job, however they divide it.
 *
 *     struct mt_divide_bound *bound;
 *     if ((st = mt_divide_bound_open(graph, &job, "cuda", options, &bound, err))) return st;
 *     ... mt_divide_bound_s(bound, &costs) ...
 *     mt_divide_bound_close(bound);
 *
 * What a job's operators are is found once; the bound among some ranks is quick. */
#ifndef MT_PLANNER_DIVIDE_BOUND_H
#define MT_PLANNER_DIVIDE_BOUND_H

#include "planner/cost/cost.h"
#include "synth/graph/graph.h"
#include "synth/job/job.h"
#include "synth/lower/lower.h"

struct mt_divide_bound;

/* graph: of the whole batch, differentiated, with updates. device: the kind of devices, as a plan's. */
enum mt_status mt_divide_bound_open(const struct mt_graph *graph, const struct mt_job *job, const char *device,
                                    const struct mt_lower_options *options, struct mt_divide_bound **bound,
                                    struct mt_err *err);
/* Null is allowed. */
void mt_divide_bound_close(struct mt_divide_bound *bound);

/* Seconds: no program among any of these ranks takes less. 0: no bound is known. */
double mt_divide_bound_s(const struct mt_divide_bound *bound, const struct mt_costs *costs);

#endif
