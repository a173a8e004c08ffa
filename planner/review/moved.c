/* What collectives move. */
#include "planner/review/moved.h"

const char *const mt_moved_names[MT_NMOVED] = {"activations", "activations' gradients", "weights", "gradients",
                                               "scalars"};

enum mt_moved mt_moved_of(const struct mt_graph *g, int gvalue) {
    if (!g->values[gvalue].naxes) return MT_MOVED_SCALARS;
    if (mt_graph_param_of(g, gvalue) >= 0) return MT_MOVED_WEIGHTS;
    for (int v = 0; v < g->nvalues; v++)
        if (g->values[v].param && g->values[v].gradient == gvalue) return MT_MOVED_GRADIENTS;
    int o = g->values[gvalue].producer;
    return o >= 0 && g->ops[o].role == MT_ROLE_BACKWARD ? MT_MOVED_ACTIVATION_GRADIENTS : MT_MOVED_ACTIVATIONS;
}
