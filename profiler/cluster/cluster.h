/* The cluster: nodes, devices, links, and how fast they are, as measured or as described. Format "motley-cluster",
 * version 1.
 *
 *     struct mt_cluster *cluster;
 *     if ((st = mt_cluster_read("cluster.json", &cluster, err))) return st;
 *     ... mt_cluster_free(cluster);
 *
 * Figures are medians; beside each, `error` is half the width of its 95% confidence interval, relative to it. What is
 * marked nominal comes from public figures and was never measured. The document is immutable once checked, except by
 * profiler/describe/edit.h, and lives in one arena.
 *
 * A device is what one rank computes with. Devices of one class share its curves, divided by their own speed: a
 * device slowed by a quota, a neighbour or emulation stays in its class with a speed below 1.
 *
 * The link between two devices is that of their row in `pairs`, if there is one; else the `inside` link of their node,
 * if they share it; else `network`. */
#ifndef MT_PROFILER_CLUSTER_CLUSTER_H
#define MT_PROFILER_CLUSTER_CLUSTER_H

#include <stdio.h>

#include "kernels/base/arena.h"
#include "kernels/base/err.h"
#include "kernels/base/number/type.h"
#include "kernels/coll/coll.h"

#define MT_CLUSTER_FORMAT "motley-cluster"
#define MT_CLUSTER_VERSION 1
#define MT_CLUSTER_MOST_DEVICES 4096
#define MT_CLUSTER_MOST_PAIRS 1000000

/* How long one family of operators takes, over the number of rows (shape.h): linear between points; beyond the last by
 * the slope of the last two. */
struct mt_curve {
    const char *op, *variant; /* "matmul" "nt"; see shape.h */
    enum mt_type type;
    int64_t dim[2];
    int npoints; /* at least one; rows rise */
    int64_t *rows;
    double *time_s, *error; /* of a device of speed 1 */
};

struct mt_cluster_class {
    const char *name;     /* "xeon-8481c-1t", "h100" : unique */
    const char *kind;     /* "cpu" or "cuda": what mt_device_open takes */
    const char *model;    /* as the hardware calls itself */
    int threads;          /* cpu: of a device; cuda: multiprocessors that compute; 0: not known */
    int capability;       /* cuda: 90 is 9.0; 0: not known, or a CPU */
    bool nominal;         /* rates and memory figures are public ones, times follow from them */
    double calibration;   /* nominal classes: what is reached of the public rates, typically or as measured of such
                             devices (describe.h); times are by rates times this. 1 for measured ones */
    int64_t memory_bytes; /* of a device */
    double memory_Bps, memory_error; /* streaming: bytes read and written a second */
    double overhead_s;               /* of starting one operator */
    double flops[MT_NTYPES];         /* best product rate per precision; 0: not known or not able */
    int ncurves;
    struct mt_curve *curves;
};

struct mt_cluster_node {
    const char *name; /* host */
    int cores;
    int64_t memory_bytes;
    int inside;         /* the link between its devices; an index into links, or -1: it has one device */
    const char *driver; /* of its GPUs, "580.95.05"; null: none, or not known */
    const char *nics;   /* its network devices, "eth0 mlx5_0"; null where nobody looked */
};

/* What was seen of a GPU when it was measured; zero: not told. */
struct mt_cluster_gpu {
    const char *bus;        /* its place on the host's bus, "0000:1b:00.0" */
    int64_t reserved_bytes; /* of its memory, what a process takes beside a job's own: context, kernels, NCCL */
    double from_host_Bps, to_host_Bps;                                           /* memory that is not pinned */
    double sm_clock_Hz, sm_clock_most_Hz, memory_clock_Hz, memory_clock_most_Hz; /* after working; at most */
    double power_W, power_limit_W, temperature_C;
};

/* Its figures by name, as documents have them; those that are zero are left out there. */
#define MT_CLUSTER_GPU_FIGURES 9
extern const struct mt_cluster_gpu_figure {
    const char *name;
    size_t offset;
} mt_cluster_gpu_figures[MT_CLUSTER_GPU_FIGURES];
double mt_cluster_gpu_figure(const struct mt_cluster_gpu *gpu, int figure);

struct mt_cluster_device { /* in the order of ranks */
    int node, class;
    double speed, speed_error;  /* relative to its class's curves */
    double emulated;            /* the speed that --emulate gave it; 1: none. `speed` includes it */
    double stolen;              /* part of its time that other processes had while it was measured */
    int64_t memory_bytes;       /* what it may use: kernel, cgroup, neighbours */
    const char *mask;           /* cpu: its cores, "0-1,4"; else "" */
    struct mt_cluster_gpu *gpu; /* or null */
};

struct mt_cluster_link {
    const char *name; /* "memory", "net", "nvlink", "pcie": unique */
    bool nominal;
    double latency_s, latency_error;
    double bandwidth_Bps, bandwidth_error; /* of one pair, one way, nobody else talking */
    double shared_Bps; /* network: what one node sends (or receives) at most, all pairs together; node: all its pairs
                          together; 0: pairs do not disturb each other */
    /* While a collective runs over it, computing takes (1 + compute_slowdown) as long; and the collective takes
     * (1 + comm_slowdown) as long as it does when nothing is computed. */
    double compute_slowdown, comm_slowdown;
    double copy_Bps; /* of GPUs: a pair by copy engine, without a kernel; 0: not measured, or there is none */
};

struct mt_cluster_pair { /* a measured pair, a < b; both ways, the slower; rows in order of a, then b */
    int a, b, link;
    double latency_s, latency_error, bandwidth_Bps, bandwidth_error;
};

/* One algorithm in one group: its time is cost_s(problem, latency_s, bandwidth_Bps) times the ratio for the problem's
 * bytes (on the wire, all blocks), linear between points in the logarithm of bytes, constant beyond the ends. */
struct mt_coll_fit {
    enum mt_coll_kind kind;
    const char *algorithm;
    enum mt_type wire, acc;
    double latency_s, bandwidth_Bps, error;
    int npoints; /* 0: the ratio is 1 */
    int64_t *size_bytes;
    double *ratio;
};
struct mt_cluster_group {
    const char *name;       /* "all", "node:a", "pair:0-2" */
    int ndevices, *devices; /* at least two, rising */
    int link;               /* its slowest */
    int nfits;
    struct mt_coll_fit *fits;
};

struct mt_cluster {
    struct mt_arena arena;
    char hash[33];           /* of the document without this field; filled by read and write */
    const char *made_by;     /* "motley 0.1.0" */
    const char *source;      /* "measured", "described", "edited" */
    const char *description; /* described or edited: from what text; else "" */
    const char *nccl;        /* the version that GPUs talked through, "2.28.9"; else null */
    int nclasses, nnodes, ndevices, nlinks, npairs, ngroups;
    struct mt_cluster_class *classes;
    struct mt_cluster_node *nodes;
    struct mt_cluster_device *devices;
    struct mt_cluster_link *links;
    struct mt_cluster_pair *pairs;
    struct mt_cluster_group *groups;
    int network; /* the link between nodes, or -1: there is one node */
    int nwarnings;
    const char **warnings; /* what the profiler noticed: "rank 1 on a: its mask has 1 of 8 cores: ..." */
};

/* Empty: no rows, all strings "", source "measured", no network. Rows and strings are made in cluster->arena. */
struct mt_cluster *mt_cluster_new(void);
void mt_cluster_free(struct mt_cluster *cluster);
struct mt_cluster *mt_cluster_copy(const struct mt_cluster *cluster);
/* Its strings and curves in another cluster's arena. */
struct mt_cluster_class mt_cluster_class_copy(const struct mt_cluster_class *class, struct mt_arena *arena);

/* Within the document: indices, ranges, names. The message begins with the member's path. */
enum mt_status mt_cluster_check(const struct mt_cluster *cluster, struct mt_err *err);

/* Read and check; unknown keys and a text that does not fit its hash are refused. */
enum mt_status mt_cluster_read(const char *path, struct mt_cluster **cluster, struct mt_err *err);
enum mt_status mt_cluster_parse(const char *name, const char *text, size_t length, struct mt_cluster **cluster,
                                struct mt_err *err);
/* The hash of the document as it is now. */
void mt_cluster_hash(const struct mt_cluster *cluster, char hash[33]);
/* Fill in the hash, and replace the file. mt_cluster_text: the document alone; free() it. */
enum mt_status mt_cluster_write(struct mt_cluster *cluster, const char *path, struct mt_err *err);
char *mt_cluster_text(struct mt_cluster *cluster, size_t *length);

void mt_cluster_print(const struct mt_cluster *cluster, FILE *file);      /* tables for people */
void mt_cluster_print_gpus(const struct mt_cluster *cluster, FILE *file); /* of that: what was seen of GPUs, if any */

/* "cpu" or "cuda": what all devices are, or the first is. */
const char *mt_cluster_kind(const struct mt_cluster *cluster);

/* The row of that name, or -1. */
int mt_cluster_class_named(const struct mt_cluster *cluster, const char *name);
int mt_cluster_node_named(const struct mt_cluster *cluster, const char *name);
int mt_cluster_link_named(const struct mt_cluster *cluster, const char *name);

/* The link between two devices, and the figures of that pair: its own row, or its link's. Of a device with itself:
 * link -1, no latency, infinite bandwidth. */
struct mt_path {
    int link;
    double latency_s, bandwidth_Bps;
};
struct mt_path mt_cluster_path(const struct mt_cluster *cluster, int a, int b);

#endif
