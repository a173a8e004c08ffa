/* The cluster document: nodes, devices, links and their performance, measured or described. Format "motley-cluster",
 * version 1.
 *
 *     struct mt_cluster *cluster;
 *     if ((st = mt_cluster_read("cluster.json", &cluster, err))) return st;
 *     ... mt_cluster_free(cluster);
 *
 * Figures are medians; the `error` of each is half the width of its 95% confidence interval, relative to it. Rows
 * marked nominal are from public figures, not measured. The document lives in one arena, which mt_cluster_free frees.
 * Once checked it is immutable, except by profiler/describe/edit.h.
 *
 * A device is what one rank computes with. Devices of one class share its curves, whose times are divided by a device's
 * speed: a device slowed by a quota, other processes or emulation stays in its class with a speed below 1.
 *
 * The link between two devices is that of their row in `pairs`, if there is one; else, on one node, its `inside` link;
 * else `network`. */
#ifndef MT_PROFILER_CLUSTER_CLUSTER_H
#define MT_PROFILER_CLUSTER_CLUSTER_H

#include <stdio.h>

#include "kernels/base/arena.h"
#include "kernels/base/err.h"
#include "kernels/base/number/type.h"
#include "kernels/coll/coll.h"

#define MT_CLUSTER_FORMAT "motley-cluster"
#define MT_CLUSTER_VERSION 1
/* A plan for so many takes about a minute and a quarter of a GiB of memory; four times as many would take an hour. */
#define MT_CLUSTER_MOST_DEVICES 4096
#define MT_CLUSTER_MOST_PAIRS 1000000

/* The time of one family of operators as a function of rows (shape.h): linear between points, and beyond the last with
 * the slope of the last two. */
struct mt_curve {
    const char *op, *variant; /* "matmul" "nt"; see shape.h */
    enum mt_type type;
    int64_t dim[2];
    int npoints; /* at least one, by increasing rows */
    int64_t *rows;
    double *time_s, *error; /* of a device of speed 1 */
};

struct mt_cluster_class {
    const char *name;     /* "xeon-8481c-1t", "h100" : unique */
    const char *kind;     /* "cpu" or "cuda": what mt_device_open takes */
    const char *model;    /* name given by the hardware */
    int threads;          /* cpu: of a device; cuda: multiprocessors that compute; 0: not known */
    int capability;       /* cuda: 90 is 9.0; 0: not known, or a CPU */
    bool nominal;         /* rates and memory figures are public ones; times follow from them */
    double calibration;   /* nominal classes: the fraction of the public rates that is reached, typically or as measured
                             on such devices (describe.h); times use rates times this. 1 for measured classes */
    int64_t memory_bytes; /* of a device */
    double memory_Bps, memory_error; /* streaming: bytes read and written a second */
    double overhead_s;               /* of launching one operator */
    double flops[MT_NTYPES];         /* best GEMM rate by precision; 0: not known or not supported */
    int ncurves;
    struct mt_curve *curves;
};

struct mt_cluster_node {
    const char *name; /* host */
    int cores;
    int64_t memory_bytes;
    int inside;         /* the link between its devices, an index into links; -1: it has one device */
    const char *driver; /* of its GPUs, "580.95.05"; null: none, or not known */
    const char *nics;   /* its network devices, "eth0 mlx5_0"; null: not known */
    /* The most that it sends (receives) over the network with all its pairs together; 0: not known, then the network
     * link's shared_Bps. mt_cluster_node_egress and _ingress resolve that. */
    double egress_Bps, ingress_Bps;
};

/* A GPU's state when it was measured; zero: not known. */
struct mt_cluster_gpu {
    const char *bus;                   /* its PCI address, "0000:1b:00.0" */
    int64_t reserved_bytes;            /* memory that a process takes besides a job's own: context, kernels, NCCL */
    double from_host_Bps, to_host_Bps; /* of pageable host memory */
    double sm_clock_Hz, sm_clock_most_Hz, memory_clock_Hz, memory_clock_most_Hz; /* under load; at most */
    double power_W, power_limit_W, temperature_C;
};

/* The figures by their names in documents, which leave out those that are zero. */
#define MT_CLUSTER_GPU_FIGURES 9
extern const struct mt_cluster_gpu_figure {
    const char *name;
    size_t offset;
} mt_cluster_gpu_figures[MT_CLUSTER_GPU_FIGURES];
double mt_cluster_gpu_figure(const struct mt_cluster_gpu *gpu, int figure);

struct mt_cluster_device { /* in the order of ranks */
    int node, class;
    double speed, speed_error;  /* relative to its class's curves */
    double emulated;            /* the speed given by --emulate, included in `speed`; 1: none */
    double stolen;              /* fraction of its time that other processes used during measurement */
    int64_t memory_bytes;       /* available to it: by kernel, cgroup, other ranks of the host */
    const char *mask;           /* cpu: its cores, "0-1,4"; else "" */
    struct mt_cluster_gpu *gpu; /* or null */
};

/* One-sided puts by a GPU into the memory of another GPU of its host, for overlapped kernels
 * (kernels/overlap/overlap.h): member "puts" of a link, which exists if signal_s is above 0. The figures are those of
 * the link's typical pair; the rate of copy engines for large puts is the link's copy_Bps. */
struct mt_cluster_puts {
    double copy_s;     /* that each put by copy engine takes, in addition to its bytes */
    double blocks_Bps; /* by a kernel with a block on every multiprocessor */
    double signal_s;   /* a few bytes with their signal, from the store until the peer has seen it */
    /* While copy engines put both ways, a GEMM takes (1 + compute_slowdown) times as long; while the GEMM runs, puts
     * take (1 + put_slowdown) times as long. */
    double compute_slowdown, put_slowdown;
};
#define MT_CLUSTER_PUTS_FIGURES 5
/* The figures by their names in documents, with their units. */
extern const struct mt_cluster_puts_figure {
    const char *name;
    size_t offset;
} mt_cluster_puts_figures[MT_CLUSTER_PUTS_FIGURES];
double mt_cluster_puts_figure(const struct mt_cluster_puts *puts, int figure);

struct mt_cluster_link {
    const char *name; /* "memory", "net", "nvlink", "pcie": unique */
    bool nominal;
    double latency_s, latency_error;
    double bandwidth_Bps, bandwidth_error; /* of one pair, one way, without other traffic */
    double shared_Bps; /* network: the most that one node sends (or receives) over all its pairs; node: all its pairs
                          together; 0: pairs do not share bandwidth */
    /* Overlap: while a collective runs over the link, computation takes (1 + compute_slowdown) times as long; while
     * computation runs, the collective takes (1 + comm_slowdown) times as long. */
    double compute_slowdown, comm_slowdown;
    double copy_Bps;             /* GPUs: of a pair by copy engine; 0: not measured, or not possible */
    struct mt_cluster_puts puts; /* GPUs; all 0: not measured, or not possible */
};

/* A measured pair, a < b; rows are in order of a, then b. Latency is half a round trip. The bandwidth is that from a to
 * b; reverse_Bps is that from b to a, and 0 if it is the same (then reverse_error is 0, too). */
struct mt_cluster_pair {
    int a, b, link;
    double latency_s, latency_error, bandwidth_Bps, bandwidth_error, reverse_Bps, reverse_error;
};

/* One algorithm in one group: time = cost_s(problem, latency_s, bandwidth_Bps) * ratio(bytes), with the bytes of all
 * blocks on the wire. ratio is linear in log(bytes) between points, and constant beyond the ends. Blocks that are not
 * even have a ratio of their own (messages in one direction slow each other less than in both): the skew of a problem
 * is its bandwidth term in cost_s over that of even blocks; the ratio is linear in it, from even blocks (1) to `skew`,
 * and constant beyond. */
struct mt_coll_fit {
    enum mt_coll_kind kind;
    const char *algorithm;
    enum mt_type wire, acc;
    double latency_s, bandwidth_Bps, error;
    int npoints; /* 0: the ratio is 1 */
    int64_t *size_bytes;
    double *ratio;
    double skew; /* above 1, of the uneven blocks that were measured too; 0: none were */
    double *skewed_ratio;
};
struct mt_cluster_group {
    const char *name;       /* "all", "node:a", "pair:0-2" */
    int ndevices, *devices; /* at least two, increasing */
    int link;               /* the slowest link between them */
    int nfits;
    struct mt_coll_fit *fits;
};

struct mt_cluster {
    struct mt_arena arena;
    char hash[33];           /* of the document without this field; filled by read and write */
    const char *made_by;     /* "motley 0.1.0" */
    const char *source;      /* "measured", "described", "edited" */
    const char *description; /* described or edited: from what text; else "" */
    const char *nccl;        /* NCCL's version when GPUs were measured, "2.28.9"; else null */
    int nclasses, nnodes, ndevices, nlinks, npairs, ngroups;
    struct mt_cluster_class *classes;
    struct mt_cluster_node *nodes;
    struct mt_cluster_device *devices;
    struct mt_cluster_link *links;
    struct mt_cluster_pair *pairs;
    struct mt_cluster_group *groups;
    int network; /* the link between nodes, or -1: there is one node */
    int nwarnings;
    const char **warnings; /* "rank 1 on a: its mask has 1 of 8 cores: ..." */
};

/* An empty cluster: no rows, all strings "", source "measured", no network. Rows and strings are to be allocated in
 * cluster->arena. mt_cluster_free frees all; it takes null. */
struct mt_cluster *mt_cluster_new(void);
void mt_cluster_free(struct mt_cluster *cluster);
struct mt_cluster *mt_cluster_copy(const struct mt_cluster *cluster);
/* A copy of a class, with strings and curves in `arena`. */
struct mt_cluster_class mt_cluster_class_copy(const struct mt_cluster_class *class, struct mt_arena *arena);

/* Check indices, ranges and names. The message begins with the member's path. MT_EINPUT. */
enum mt_status mt_cluster_check(const struct mt_cluster *cluster, struct mt_err *err);

/* Read and check; the caller frees the cluster. MT_EINPUT also for unknown keys and a wrong hash. */
enum mt_status mt_cluster_read(const char *path, struct mt_cluster **cluster, struct mt_err *err);
enum mt_status mt_cluster_parse(const char *name, const char *text, size_t length, struct mt_cluster **cluster,
                                struct mt_err *err);
/* The hash of the document's present content. */
void mt_cluster_hash(const struct mt_cluster *cluster, char hash[33]);
/* Fill in the hash, and replace the file. mt_cluster_text: the text alone, the caller's to free. */
enum mt_status mt_cluster_write(struct mt_cluster *cluster, const char *path, struct mt_err *err);
char *mt_cluster_text(struct mt_cluster *cluster, size_t *length);

/* "cpu" or "cuda": the kind of the first device, and in measured clusters of all. */
const char *mt_cluster_kind(const struct mt_cluster *cluster);

static inline bool mt_cluster_has_puts(const struct mt_cluster_link *link) {
    return link->puts.signal_s > 0;
}

/* The row of that name, or -1. */
int mt_cluster_class_named(const struct mt_cluster *cluster, const char *name);
int mt_cluster_node_named(const struct mt_cluster *cluster, const char *name);
int mt_cluster_link_named(const struct mt_cluster *cluster, const char *name);

/* The most that a node sends (receives) over the network with all its pairs together: its own figure, else the network
 * link's shared_Bps, else infinity. */
double mt_cluster_node_egress(const struct mt_cluster *cluster, int node);
double mt_cluster_node_ingress(const struct mt_cluster *cluster, int node);

/* The way from device a to device b: the link, with latency and bandwidth of the pair's row in that direction. Without
 * a row: those of the link; between nodes at most a's egress and b's ingress, where these are given. Of a device with
 * itself: link -1, latency 0, infinite bandwidth. */
struct mt_path {
    int link;
    double latency_s, bandwidth_Bps;
};
struct mt_path mt_cluster_path(const struct mt_cluster *cluster, int a, int b);

#endif
