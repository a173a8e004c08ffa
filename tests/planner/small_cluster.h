/* Clusters by hand: nodes of equal devices, an `inside` link and a network. */
#ifndef MT_TESTS_PLANNER_SMALL_CLUSTER_H
#define MT_TESTS_PLANNER_SMALL_CLUSTER_H

#include "planner/cost/cost.h"
#include "tests/check.h"

enum { MOST_DEVICES = 10240, MOST_GROUPS = 4, MEMORY = 0, NETWORK = 1 };

struct small_cluster {
    struct mt_cluster cluster;
    struct mt_cluster_class classes[2];
    struct mt_cluster_node nodes[MOST_DEVICES];
    struct mt_cluster_device devices[MOST_DEVICES];
    struct mt_cluster_link links[2];
    struct mt_cluster_group groups[MOST_GROUPS];
    int device[MOST_DEVICES]; /* of ranks: as they come */
    struct mt_costs costs;
};

/* One class, 1e11 flops; 1 us and 10 GB/s in a node, 50 us and 100 MB/s between nodes; nothing shared. */
static inline struct small_cluster *small_cluster(int nnodes, int per_node) {
    struct small_cluster *s = calloc(1, sizeof *s);
    CHECK(s && nnodes * per_node <= MOST_DEVICES);
    s->classes[0] = (struct mt_cluster_class){.name = "one",
                                              .kind = "cpu",
                                              .model = "test",
                                              .threads = 1,
                                              .calibration = 1,
                                              .memory_Bps = 1e10,
                                              .overhead_s = 2e-6,
                                              .flops = {[MT_F64] = 5e10, [MT_F32] = 1e11, [MT_BF16] = 1e11}};
    s->classes[1] = s->classes[0];
    s->classes[1].name = "two";
    s->links[MEMORY] = (struct mt_cluster_link){.name = "memory", .latency_s = 1e-6, .bandwidth_Bps = 1e10};
    s->links[NETWORK] = (struct mt_cluster_link){.name = "net", .latency_s = 50e-6, .bandwidth_Bps = 1e8};
    for (int n = 0; n < nnodes; n++)
        s->nodes[n] = (struct mt_cluster_node){.name = "node", .cores = per_node, .inside = per_node > 1 ? MEMORY : -1};
    for (int d = 0; d < nnodes * per_node; d++) {
        s->device[d] = d;
        s->devices[d] = (struct mt_cluster_device){.node = d / per_node, .speed = 1, .emulated = 1, .mask = ""};
    }
    s->cluster = (struct mt_cluster){.made_by = "test",
                                     .source = "measured",
                                     .description = "",
                                     .nclasses = 2,
                                     .nnodes = nnodes,
                                     .ndevices = nnodes * per_node,
                                     .nlinks = 2,
                                     .classes = s->classes,
                                     .nodes = s->nodes,
                                     .devices = s->devices,
                                     .links = s->links,
                                     .groups = s->groups,
                                     .network = nnodes > 1 ? NETWORK : -1};
    s->costs = (struct mt_costs){.cluster = &s->cluster, .nranks = nnodes * per_node, .device = s->device};
    return s;
}

/* A group of devices without fits; `devices` must last. */
static inline struct mt_cluster_group *add_group(struct small_cluster *s, int *devices, int n, int link) {
    CHECK(s->cluster.ngroups < MOST_GROUPS);
    struct mt_cluster_group *g = &s->groups[s->cluster.ngroups++];
    *g = (struct mt_cluster_group){.name = "group", .ndevices = n, .devices = devices, .link = link};
    return g;
}

#endif
