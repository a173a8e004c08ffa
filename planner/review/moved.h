/* What collectives move, in the words that people use. */
#ifndef MT_PLANNER_REVIEW_MOVED_H
#define MT_PLANNER_REVIEW_MOVED_H

#include "synth/graph/graph.h"

enum mt_moved {
    MT_MOVED_ACTIVATIONS,
    MT_MOVED_ACTIVATION_GRADIENTS,
    MT_MOVED_WEIGHTS,
    MT_MOVED_GRADIENTS, /* of parameters */
    MT_MOVED_SCALARS,
    MT_NMOVED
};
extern const char *const mt_moved_names[MT_NMOVED]; /* "activations", "activations' gradients", ... */

enum mt_moved mt_moved_of(const struct mt_graph *graph, int gvalue);

#endif
