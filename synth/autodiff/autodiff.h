/* From the forward graph to the training graph: gradients and updates are operators like the others. */
#ifndef MT_SYNTH_AUTODIFF_AUTODIFF_H
#define MT_SYNTH_AUTODIFF_AUTODIFF_H

#include "synth/graph/graph.h"

/* What the job asks of arithmetic beside the types, once the forward graph is there: tf32 in its products, the order in
 * which attention's gradients are added up, and states for the scaling of the loss. Scaled gradients are summed, their
 * norm tells whether one overflowed, and the update is then skipped; all of it in the graph (ops.def: grad_scale,
 * loss_scale). */
struct mt_job;
void mt_graph_set_precision(struct mt_graph *graph, const struct mt_job *job);

/* Differentiate the sum of losses `graph->loss_sum` with respect to every parameter, on the graph: adds the
 * backward operators (role BACKWARD) and sets `gradient` of each. Gradients of several uses are added. */
enum mt_status mt_graph_differentiate(struct mt_graph *graph, struct mt_err *err);
/* Its last pass: of the operators from `first` on, the first of the backward pass, put some gradients of weights behind
 * the last large gradient. */
void mt_graph_delay_gradients(struct mt_graph *graph, int first);

/* Add sq_norm, grad_scale and the updates of every parameter (role UPDATE), with their optimizer states. */
struct mt_optimizer;
enum mt_status mt_graph_optimize(struct mt_graph *graph, const struct mt_optimizer *optimizer, struct mt_err *err);

#endif
