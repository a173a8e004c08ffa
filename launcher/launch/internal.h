/* What the files of placing share: the nodes of a plan while hosts are sought for them. */
#ifndef MT_LAUNCHER_LAUNCH_INTERNAL_H
#define MT_LAUNCHER_LAUNCH_INTERNAL_H

#include "kernels/base/table/table.h"
#include "launcher/launch/place.h"

struct plan_node {
    const char *name;
    int n, *ranks; /* of the plan */
    int host;      /* -1: none yet */
    int profile;   /* the profile's node of that host; -1: it is not there */
};

struct placing {
    const struct mt_place_request *q;
    struct mt_arena *arena;
    int nnodes, *node_of; /* [nranks] */
    struct plan_node *nodes;
    bool matching;          /* nodes have other names than hosts */
    bool by_features;       /* of nodes of Slurm, as there is no profile */
    int *profile;           /* [nhosts]: the profile's node, or -1 */
    struct mt_tables doc;   /* what does not match */
    struct mt_table *table; /* its only one; null: nothing was told yet */
};

/* fit.c: why a host is not fit for a node, in the arena; null if it is. */
const char *mt_place_lacks(const struct placing *p, int node, int host);
/* A device of the profile's node for each rank of a node of the plan, device[nranks], -1: none; false: they do not
 * suffice. */
bool mt_place_devices(const struct placing *p, int node, int profile, int *device);
/* Add a row to the table of what does not match (host -1: none), and print it. */
void mt_place_tell(struct placing *p, int node, int host, const char *lacks);
void mt_place_print(struct placing *p, FILE *file);

#endif
