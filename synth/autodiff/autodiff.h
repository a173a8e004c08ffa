/* From the forward graph to the training graph: gradients and updates become operators like the others.
 *
 *   gradient    of a value: the derivative of the loss with respect to it, an operator's output
 *   recompute   compute a forward value a second time in backward instead of keeping it (graph.h)
 *
 *     mt_graph_set_precision(graph, &job);
 *     mt_graph_recompute(graph, job.recompute);
 *     if ((st = mt_graph_differentiate(graph, err))) return st;
 *     if ((st = mt_graph_optimize(graph, &job.optimizer, err))) return st; */
#ifndef MT_SYNTH_AUTODIFF_AUTODIFF_H
#define MT_SYNTH_AUTODIFF_AUTODIFF_H

#include "synth/graph/graph.h"

/* Apply the job's arithmetic to a forward graph: tf32 in GEMMs, any order of attention's gradient sums, and the states
 * of loss scaling. With loss scaling the norm of the summed gradients shows an overflow, and the update is then
 * skipped; all of it in the graph (ops.def: grad_scale, loss_scale). */
struct mt_job;
void mt_graph_set_precision(struct mt_graph *graph, const struct mt_job *job);

/* Differentiate `graph->loss_sum` with respect to every parameter: adds the backward operators (role BACKWARD) and sets
 * each parameter's `gradient`. Gradients of several uses are added. MT_EBUG names a parameter that the loss does not
 * depend on, or an operator without a derivative. */
enum mt_status mt_graph_differentiate(struct mt_graph *graph, struct mt_err *err);
/* The last pass of differentiation: of the backward operators, which begin at `first`, move some weights' gradients
 * behind the last large gradient. */
void mt_graph_delay_gradients(struct mt_graph *graph, int first);

/* Add sq_norm, grad_scale and the updates of every parameter (role UPDATE) with their optimizer states. MT_EINPUT if
 * there is no parameter. */
struct mt_optimizer;
enum mt_status mt_graph_optimize(struct mt_graph *graph, const struct mt_optimizer *optimizer, struct mt_err *err);

#endif
