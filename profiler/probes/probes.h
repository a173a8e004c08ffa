/* The probes: each measures one thing on all ranks. profiler/profile.c runs them; profiler/assemble makes the document.
 *
 *     struct mt_profile profile = {.comm = comm, ...};       // see start() of profiler/profile.c
 *     st = mt_probe_memory(&profile, budget_s, err);         // samples are in profile.copy_Bps and profile.overhead_s
 *
 * A probe is a file NAME.c and a row of probes.def. It is collective: all ranks call it at once, in the order of the
 * rows. What it has measured goes to struct mt_profile, whose arrays live in its arena. */
#ifndef MT_PROFILER_PROBES_PROBES_H
#define MT_PROFILER_PROBES_PROBES_H

#include <stdio.h>

#include "kernels/device/device.h"
#include "kernels/device/facts.h"
#include "profiler/cluster/shape.h"
#include "profiler/measure/load.h"
#include "profiler/measure/measure.h"
#include "profiler/measure/topology.h"

/* What every rank knows of every rank. */
struct mt_place {
    struct mt_topology topology;
    char kind[16], model[128];    /* of the device */
    struct mt_device_facts facts; /* of a GPU */
    int threads, pid;             /* threads: of a GPU the multiprocessors that compute */
    double emulated_exact_s;      /* mt_device_emulated_exact_s */
    int64_t room_bytes;           /* free memory: a GPU's own; else of the host, shared by all of its ranks */
    int node;                     /* number of the host; hosts are in the order of their first ranks */
    int class;                    /* number of the (kind, model, threads); in the order of first ranks */
};

struct mt_op_times {
    struct mt_op_shape shape;
    struct mt_samples series; /* seconds */
};

/* A measured pair; all ranks have all of them. */
struct mt_pair_times {
    int a, b;
    bool between;                                   /* its ranks are on two nodes */
    struct mt_interval latency, bandwidth, reverse; /* reverse: the bandwidth from b to a */
    double copy_Bps;                                /* by copy engine; 0: not measured, or not possible */
    struct mt_cluster_puts puts;                    /* all 0: not measured, or not possible */
};

/* A group of ranks, and one collective that it runs. */
struct mt_group {
    char name[300];
    int n, *ranks;
    int *node; /* [n]: the node of each rank, numbered from 0 by first rank */
};
struct mt_coll_case {
    int group; /* an index into groups */
    const struct mt_coll_algorithm *algorithm;
    enum mt_type wire;
    int64_t *counts;
};

/* Slowdown x by overlap: computation, or the collective, takes (1 + x) times as long. */
enum mt_slowed { MT_SLOWED_COMPUTE, MT_SLOWED_COMM, MT_NSLOWED };

struct mt_calls;
struct mt_profile {
    struct mt_arena arena;
    struct mt_comm *comm, *wire; /* for the profiler's own messages; for what is measured */
    struct mt_exchange *exchange;
    struct mt_device *device;         /* emulated speed included */
    double emulate;                   /* that speed; 1: none */
    bool gpu;                         /* all ranks have GPUs; else none has */
    struct mt_stream *compute, *talk; /* talk: the stream of `wire`; null: wire runs in the calling thread */
    struct mt_calls *calls;           /* on that device */
    int rank, nranks, nnodes, nclasses;
    double deadline_s;          /* without an answer from a rank */
    int64_t largest_bytes;      /* of a job's collectives; 0: no job is known */
    struct mt_place *places;    /* [nranks] */
    struct mt_load_report load; /* while operators were measured */
    int64_t free_bytes;         /* device memory for a job: less what computing and communicating take themselves */
    double host_Bps[2];         /* of a GPU: host to device, device to host */

    struct mt_op_times *ops;
    int nops, ops_capacity;
    double memory_Bps, flops[MT_NTYPES]; /* quick estimates of the slowest rank, to choose sizes by; 0: not yet known */
    struct mt_samples copy_Bps, overhead_s;

    struct mt_pair_times *pairs; /* in order of a, then b */
    int npairs;
    double shared_Bps;                /* within a node: all its pairs together; 0: not measured */
    double *egress_Bps, *ingress_Bps; /* [nnodes], over the network, all pairs together; null: there is one node */

    struct mt_group *groups;
    int ngroups, groups_capacity;
    struct mt_coll_case *colls;
    struct mt_samples *coll_times; /* [ncolls], seconds; empty where this rank is not in the group */
    int ncolls, colls_capacity;

    double slowdown[2][MT_NSLOWED]; /* by `between`; negative: not measured */
};

#define MT_PROBE(name, share, alone)                                                                                   \
    enum mt_status mt_probe_##name(struct mt_profile *profile, double budget_s, struct mt_err *err);
#include "profiler/probes/probes.def"
#undef MT_PROBE

/* Whether a GPU reaches another of its host by NVLink, according to NVML. */
bool mt_profile_nvlink(const struct mt_place *from, const struct mt_place *to);

/* The number of ranks that share a rank's free memory: of a GPU 1, else all of its host. */
int mt_profile_sharing(const struct mt_profile *profile, int rank);

/* Add a time that an operator of this shape took on this rank's device. */
void mt_profile_op(struct mt_profile *profile, const struct mt_op_shape *shape, double time_s);

/* This rank's samples as lines of CSV, "probe,what,rank,value"; rank 0 writes the header first. */
void mt_profile_print_samples(const struct mt_profile *profile, FILE *file);

/* Free the samples, which are not in the arena. */
void mt_profile_release_samples(struct mt_profile *profile);

#endif
