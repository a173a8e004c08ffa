/* Inside the profiler: what all probes share. A probe is a file probe_NAME.c and a row of probes.def:
 *
 *     enum mt_status mt_probe_NAME(struct mt_profile *profile, double budget_s, struct mt_err *err)
 *
 * called on all ranks at once, in the order of the rows. */
#ifndef MT_PROFILER_PROBE_H
#define MT_PROFILER_PROBE_H

#include <stdio.h>

#include "kernels/device_facts.h"
#include "profiler/fit.h"
#include "profiler/grid.h"
#include "profiler/load.h"
#include "profiler/measure.h"
#include "profiler/profile.h"
#include "profiler/topology.h"

/* What every rank knows of every rank. */
struct mt_place {
    struct mt_topology topology;
    char kind[16], model[128];    /* of the device */
    struct mt_device_facts facts; /* of a GPU */
    int threads, pid;             /* threads: of a GPU the multiprocessors that compute */
    double emulated_exact_s;      /* mt_device_emulated_exact_s */
    int64_t room_bytes; /* that can still be had: of a GPU its own, else its host's, by all of its ranks together */
    int node;           /* a number for the host; hosts in the order of their first ranks */
    int class;          /* likewise for kind, model and threads */
};

/* Times of one shape on this rank. */
struct mt_op_times {
    struct mt_op_shape shape;
    struct mt_samples series;
};

/* A measured pair; all ranks have all of them. */
struct mt_pair_times {
    int a, b;
    bool between; /* nodes */
    struct mt_interval latency, bandwidth;
    double copy_Bps; /* by copy engine; 0: not measured, or there is no way */
};

/* Ranks that run collectives together, and what came out; ranks outside have no times. */
struct mt_coll_case {
    int group; /* an index into groups */
    const struct mt_coll_algorithm *algorithm;
    enum mt_type wire;
    int64_t *counts;
};
struct mt_group {
    char name[300];
    int n, *ranks;
};

/* While a collective runs over a link: what takes (1 + x) as long; negative: not measured. */
enum mt_slowed { MT_SLOWED_COMPUTE, MT_SLOWED_COMM, MT_NSLOWED };

struct mt_profile {
    const struct mt_profile_options *options;
    struct mt_arena arena;
    struct mt_comm *comm, *wire; /* for what ranks tell each other; for what is measured */
    struct mt_exchange *exchange;
    struct mt_device *device;         /* as slow as it is emulated */
    bool gpu;                         /* all ranks' devices are, or none */
    struct mt_stream *compute, *talk; /* talk: for the wire, where there is one */
    struct mt_calls *calls;           /* on that device */
    int rank, nranks, nnodes, nclasses;
    double deadline_s;          /* without an answer from a rank */
    struct mt_place *places;    /* [nranks] */
    struct mt_load_report load; /* while operators were measured */
    int64_t free_bytes; /* of the device's memory, for a job: with all that computing and talking take beside it */
    double host_Bps[2]; /* of a GPU: from the host's memory, and to it */

    struct mt_op_times *ops;
    int nops, ops_capacity;
    double memory_Bps, flops[MT_NTYPES]; /* quick estimates of the slowest rank, to choose sizes by; 0: not yet known */
    struct mt_samples copy_Bps, overhead_s;

    struct mt_pair_times *pairs; /* in order of a, then b */
    int npairs;
    double shared_Bps[2]; /* by `between`; 0: not measured */

    struct mt_group *groups;
    int ngroups, groups_capacity;
    struct mt_coll_case *colls;
    struct mt_samples *coll_times; /* [ncolls], of this rank */
    int ncolls, colls_capacity;

    double slowdown[2][MT_NSLOWED]; /* by `between` */
};

#define MT_PROBE(name, share, alone)                                                                                   \
    enum mt_status mt_probe_##name(struct mt_profile *profile, double budget_s, struct mt_err *err);
#include "profiler/probes.def"
#undef MT_PROBE

/* Whether a GPU reaches another of its host by NVLink, as NVML says. */
bool mt_profile_nvlink(const struct mt_place *from, const struct mt_place *to);

/* How many ranks divide the memory that a rank has room in. */
int mt_profile_sharing(const struct mt_profile *profile, int rank);

/* A time that an operator of this shape took on this rank's device. */
void mt_profile_op(struct mt_profile *profile, const struct mt_op_shape *shape, double time_s);

/* The pairs to measure, in profile->pairs: all, or where they are more than 64 up to eight of each kind (between which
 * classes, on one node or two), evenly among them, and the first of each node. Needs nranks, nnodes, nclasses and
 * places. */
void mt_pairs_choose(struct mt_profile *profile);
/* round_of[npairs]: in one round no two pairs share a rank, a node's memory or a node's network. Returns the number of
 * rounds. */
int mt_pairs_rounds(const struct mt_profile *profile, int *round_of);

/* One message from group[0] to group[1] of two ranks, or between all ranks of a group by a matrix of counts (bytes /
 * 4); both buffers of this rank. */
enum mt_status mt_probe_move(struct mt_profile *profile, const int *group, int n, const int64_t *counts,
                             void *const buffer[2], struct mt_err *err);

/* Problems in a row, two in turn, as a wire that queues takes them. */
struct mt_probe_row {
    const int *ranks; /* of the group */
    struct mt_coll problem[2];
    struct mt_schedule schedule[2];
    void *const *buffer;
    const char *what; /* for messages */
};
/* Queue `count` of them and one before, which waits for all ranks and is not timed; *each_s: what one of the others
 * takes on this rank, from end to end. */
enum mt_status mt_probe_queue(struct mt_profile *profile, const struct mt_probe_row *row, int count, double *each_s,
                              struct mt_err *err);
enum { MT_PROBE_MOST_QUEUED = 64 };

/* One message from group[0] to group[1], and the other way by turns: `count` pairs of `there` and `back` bytes, queued;
 * *pair_s: of one pair. */
enum mt_status mt_probe_queue_pairs(struct mt_profile *profile, const int group[2], const int64_t bytes[2],
                                    void *const buffer[2], int count, double *pair_s, struct mt_err *err);

/* Memory for messages, as training has it (of profile->device), and written to: what was never written is one page of
 * zeros to the kernel, and in every cache. */
enum mt_status mt_probe_buffer(struct mt_profile *profile, int64_t size_bytes, void **buffer, struct mt_err *err);

/* This rank's group of a set that divides ranks, for probes that nodes run at the same time: the ranks of its node
 * (between: false), or all ranks. In the profile's arena. */
struct mt_group mt_probe_group(struct mt_profile *profile, bool between);
/* Whether there are two ranks on one node, or two nodes. */
bool mt_probe_has_link(const struct mt_profile *profile, bool between);

/* Calls of operators one after the other on a stream, their operands moving through more memory than caches hold. */
struct mt_calls;
enum mt_status mt_calls_new(struct mt_device *device, int64_t room_bytes, struct mt_calls **calls, struct mt_err *err);
void mt_calls_free(struct mt_calls *calls);
/* Whether the device computes such calls at all. */
bool mt_calls_serve(const struct mt_calls *calls, const struct mt_grid_case *c);
/* The largest operands that fit. */
bool mt_calls_fit(const struct mt_calls *calls, const struct mt_grid_case *c);
/* Queue `count` (at most MT_MOST_CALLS) calls; times from one start to the next, the last's to its end, when they are
 * done: mt_calls_wait. times_s[count]. */
enum { MT_MOST_CALLS = 32 };
enum mt_status mt_calls_queue(struct mt_calls *calls, struct mt_stream *stream, const struct mt_grid_case *c, int count,
                              struct mt_err *err);
enum mt_status mt_calls_wait(struct mt_calls *calls, struct mt_stream *stream, double *times_s, struct mt_err *err);
/* Start and end of the calls that were queued last; valid until more are queued. */
const double (*mt_calls_seconds(const struct mt_calls *calls))[2];

/* The document, on rank 0, of what has been measured. Collective. */
enum mt_status mt_profile_assemble(struct mt_profile *profile, struct mt_cluster **cluster, struct mt_err *err);

#endif
