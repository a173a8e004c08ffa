/* Layouts between two others: conversions over a mesh that take several collectives. */
#ifndef MT_SYNTH_LAYOUT_CONVERT_ROUTE_H
#define MT_SYNTH_LAYOUT_CONVERT_ROUTE_H

#include "synth/layout/layout.h"
#include "synth/layout/mesh.h"

/* The layout that a value takes next on its way to `to`: that, or one between, which is added to the table. */
int mt_layout_route(struct mt_layouts *table, const struct mt_mesh *mesh, int from, int to);
/* A layout of partial sums over nodes, each reduced within its node, for values that will be wanted in `to`; -1: none.
 */
int mt_layout_within_nodes(struct mt_layouts *table, const struct mt_mesh *mesh, int from, int to);

#endif
