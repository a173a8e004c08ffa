/* Which host, and which device of it, each rank of a plan gets.
 *
 *     struct mt_place_request request = {.plan = plan, .hosts = &hosts, .cluster = cluster};
 *     if ((st = mt_place(&request, &arena, &places, stderr, err))) return st;
 *     ... places.host[rank], places.cores[rank] ...
 *
 * A plan whose ranks name hosts of the list (a measured one) gets these; one without hosts fills them in order. The
 * nodes of any other plan (a described one) are matched with the hosts that the profile knows: a host is fit for a node
 * if it has a device of the right class, with enough memory, for each of its ranks, and slots for them; with the
 * cluster that the plan was made for, links are compared too. The assignment is a matching in the bipartite graph of
 * nodes and hosts (augmenting paths), so that one is found if there is one; of several, hosts are taken in their
 * order. */
#ifndef MT_LAUNCHER_LAUNCH_PLACE_H
#define MT_LAUNCHER_LAUNCH_PLACE_H

#include <stdio.h>

#include "launcher/launch/hosts.h"
#include "planner/plan/plan.h"
#include "profiler/cluster/cluster.h"

/* A measured link may have so much less than the planned one before it does not match: described links are nominal. */
#define MT_PLACE_LINK_LEAST 0.7

struct mt_place_request {
    const struct mt_plan *plan;
    const struct mt_hosts *hosts;
    const struct mt_cluster *cluster;   /* what profile says of the hosts; or null */
    const struct mt_cluster *described; /* what the plan was made for, to compare links; or null */
    bool asked;                         /* hosts were asked: nodes are matched only with those that answer */
    bool chosen; /* hosts were chosen for the plan: without a profile, nodes that are alike take them in order, others
                    by features that have the names of device classes */
};

struct mt_places {      /* [nranks] of the plan, in the caller's arena */
    int *host;          /* index into the hosts */
    int *device;        /* of the profile; -1: it does not say */
    const char **cores; /* processors of the kernel, "0-3,8"; "": not bound */
    int *gpu;           /* index among its host's GPUs in the profile; -1: no GPU, or not known */
    bool matched;       /* nodes were matched with hosts of other names */
};

/* MT_EINPUT when something does not match; what, is printed to `why` as a table. */
enum mt_status mt_place(const struct mt_place_request *request, struct mt_arena *arena, struct mt_places *places,
                        FILE *why, struct mt_err *err);

/* A copy of the plan whose ranks have the names of their hosts, where these differ and the plan names any. */
enum mt_status mt_places_name(const struct mt_plan *plan, const struct mt_hosts *hosts, const struct mt_places *places,
                              struct mt_plan **named, struct mt_err *err);

#endif
