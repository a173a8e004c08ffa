/* Synthetic clusters that pass mt_cluster_check, for tests: figures are round and known. A device of speed 1 of any
 * class c multiplies at 100 / (c + 1) Gflop/s in f32 (f64: half, bf16: twice), streams 10 GB/s, and starts an operator
 * in 2 us; there are no curves, groups or pairs but where a test adds them. The link within a node: "memory", 1 us, 5
 * GB/s; between nodes: "net", 50 us, 125 MB/s (1 Gbit/s), shared by a node's devices. Errors are 1%. */
#ifndef MT_TESTS_PROFILER_CLUSTERS_H
#define MT_TESTS_PROFILER_CLUSTERS_H

#include "profiler/cluster/cluster.h"
#include "tests/check.h"

/* Devices dealt to nodes in blocks of `per_node`, and to classes in turn ("class0", "class1", ...). */
static inline struct mt_cluster *make_cluster(int ndevices, int per_node, int nclasses) {
    struct mt_cluster *c = mt_cluster_new();
    struct mt_arena *arena = &c->arena;
    c->made_by = "motley test";
    c->nclasses = nclasses < ndevices ? nclasses : ndevices;
    c->classes = mt_new(arena, struct mt_cluster_class, c->nclasses);
    for (int i = 0; i < c->nclasses; i++) {
        struct mt_cluster_class *class = &c->classes[i];
        double f32 = 100e9 / (i + 1);
        *class = (struct mt_cluster_class){.name = mt_arena_printf(arena, "class%d", i),
                                           .kind = "cpu",
                                           .model = "Test CPU",
                                           .threads = 1,
                                           .calibration = 1,
                                           .memory_bytes = (int64_t)4 << 30,
                                           .memory_Bps = 10e9,
                                           .memory_error = 0.01,
                                           .overhead_s = 2e-6,
                                           .flops = {[MT_F64] = f32 / 2, [MT_F32] = f32, [MT_BF16] = f32 * 2}};
    }
    c->nlinks = 2;
    c->links = mt_new(arena, struct mt_cluster_link, 2);
    c->links[0] = (struct mt_cluster_link){"memory", false, 1e-6, 0.01, 5e9, 0.01, 0, 0, 0, 0, {0, 0, 0, 0, 0}};
    c->links[1] = (struct mt_cluster_link){"net", false, 50e-6, 0.01, 125e6, 0.01, 125e6, 0, 0, 0, {0, 0, 0, 0, 0}};
    c->ndevices = ndevices;
    c->devices = mt_new(arena, struct mt_cluster_device, ndevices);
    c->nnodes = (ndevices + per_node - 1) / per_node;
    c->nodes = mt_new(arena, struct mt_cluster_node, c->nnodes);
    c->network = c->nnodes > 1 ? 1 : -1;
    for (int n = 0; n < c->nnodes; n++)
        c->nodes[n] = (struct mt_cluster_node){
            .name = mt_arena_printf(arena, "node%d", n), .cores = per_node, .memory_bytes = (int64_t)per_node << 32};
    for (int d = 0; d < ndevices; d++)
        c->devices[d] = (struct mt_cluster_device){.node = d / per_node,
                                                   .class = d % c->nclasses,
                                                   .speed = 1,
                                                   .speed_error = 0.01,
                                                   .emulated = 1,
                                                   .memory_bytes = (int64_t)4 << 30,
                                                   .mask = mt_arena_printf(arena, "%d", d % per_node)};
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_cluster_check(c, &err), err);
    mt_cluster_hash(c, c->hash);
    return c;
}

/* Enough of a cluster for mt_profile_job_apply: one class, without curves. */
static inline struct mt_cluster *make_blank_cluster(int ndevices) {
    struct mt_cluster *cluster = mt_cluster_new();
    cluster->nclasses = 1, cluster->ndevices = ndevices;
    cluster->classes = mt_new(&cluster->arena, struct mt_cluster_class, 1);
    cluster->devices = mt_new(&cluster->arena, struct mt_cluster_device, ndevices);
    cluster->classes[0] = (struct mt_cluster_class){.name = "cpu", .kind = "cpu", .memory_Bps = 1e10};
    for (int d = 0; d < ndevices; d++) cluster->devices[d] = (struct mt_cluster_device){.speed = 1, .emulated = 1};
    return cluster;
}

/* Two equal ranks on one node. */
static inline struct mt_cluster *make_pair(void) {
    return make_cluster(2, 2, 1);
}

/* Two ranks of one class on one node, the second at half the speed. */
static inline struct mt_cluster *make_unequal_pair(void) {
    struct mt_cluster *c = make_cluster(2, 2, 1);
    c->devices[1].speed = 0.5;
    mt_cluster_hash(c, c->hash);
    return c;
}

/* Two nodes of two ranks each, over a slow network. */
static inline struct mt_cluster *make_two_nodes(void) {
    return make_cluster(4, 2, 1);
}

#endif
