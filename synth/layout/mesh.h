/* The mesh: the ranks of a program by node, and the ways to address them.
 *
 *   ALL     the ranks, one after another
 *   HOST    the nodes, numbered by first rank; what is divided over them, every rank of a node sees
 *   DEVICE  the ranks of each node, in order of rank */
#ifndef MT_SYNTH_LAYOUT_MESH_H
#define MT_SYNTH_LAYOUT_MESH_H

enum mt_axis { MT_AXIS_ALL, MT_AXIS_HOST, MT_AXIS_DEVICE };

struct mt_mesh {
    int nranks, nnodes;
    const int *node; /* [nranks]: numbered from 0 by first rank; not owned */
};

#endif
