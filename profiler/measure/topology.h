/* The topology of this process: its host, the host's processors and caches, and the cores that it may use.
 *
 *     struct mt_topology topology;
 *     if ((st = mt_topology_read(NULL, &topology, err))) return st;
 *
 * A "core" here is a logical CPU of the kernel: a hardware thread. */
#ifndef MT_PROFILER_MEASURE_TOPOLOGY_H
#define MT_PROFILER_MEASURE_TOPOLOGY_H

#include <sched.h>
#include <stdint.h>

#include "kernels/base/err.h"

struct mt_topology {
    char host[256];
    char model[128];  /* CPU model name; "unknown CPU" if there is none */
    int cores;        /* of the host that its processes may use (the cgroup's cpuset) */
    int numa_nodes;   /* with cores among them */
    int mask_numa;    /* NUMA nodes that the mask touches */
    int64_t l2_bytes; /* of one core; 0: none */
    int64_t l3_bytes; /* of the largest there is; 0: none */
    int64_t memory_bytes;
    cpu_set_t set;   /* the calling thread's affinity mask */
    int mask_cores;  /* in it */
    char mask[1024]; /* "0-1,4" */
    char nics[128];  /* network devices that could carry a job, "eth0 mlx5_0" */
    /* The cores nearest to the device `bus`, if it was given and they are not all cores; else none. */
    cpu_set_t near;
    int near_cores;
    char near_text[128];
};

/* Read the topology of this machine; or, for tests, of `synthetic`, an hwloc description such as "pack:2 core:4 pu:2"
 * or hwloc's XML, with a mask of all cores. `bus`: "0000:1b:00.0", the device for `near`, or null. MT_ESYSTEM when
 * hwloc fails, MT_EINPUT for a description that it does not understand. */
enum mt_status mt_topology_read(const char *synthetic, const char *bus, struct mt_topology *topology,
                                struct mt_err *err);

#endif
