/* The rows of hardware.def, and nominal classes and links made from them.
 *
 *     struct mt_hardware row;
 *     if (mt_hardware_find("h100", &row)) class = mt_hardware_class(&row, "h100", measured, &arena); */
#ifndef MT_PROFILER_DESCRIBE_HARDWARE_H
#define MT_PROFILER_DESCRIBE_HARDWARE_H

#include "kernels/base/text/nearest.h"
#include "profiler/cluster/cluster.h"

struct mt_hardware {
    const char *name, *kind, *model;
    int capability, threads;
    double memory_MiB, tflops[MT_NTYPES], memory_GBps, reached, overhead_us;
    const char *link; /* within a node */
    double link_GBps;
};
struct mt_hardware_link {
    const char *name;
    bool bits;
    double rate, reached, latency_us, shared, compute_slowdown, comm_slowdown;
    double engines_reach, copy_us, blocks_reach, signal_us, put_compute_slowdown, put_slowdown; /* 0: no puts */
};

/* "h100" or "H100", "cpu", "cpu-8t". */
bool mt_hardware_find(const char *name, struct mt_hardware *row);
/* The row's name for a model such as "NVIDIA H200"; or null. */
const char *mt_hardware_of_model(const char *model);
/* The row of that name, which may have a number after it ("nvlink2"); or null. */
const struct mt_hardware_link *mt_hardware_link_find(const char *name);
/* The hint about a name that there is none of: "a100-40 or a100-80?" where several begin like it, else the nearest, and
 * all names, with those of the classes of `measured` (may be null). */
enum mt_status mt_hardware_hint(const char *name, const struct mt_cluster *measured, struct mt_err *err);
/* Add the names of all rows, for hints. */
void mt_hardware_names(struct mt_nearest *near);
void mt_hardware_link_names(struct mt_nearest *near);

/* A nominal class. Its calibration is the row's `reached`, the fraction of the public rates that is typically reached.
 * If `measured` (may be null) has measured classes that are rows too (by name or model), it is scaled by their measured
 * fraction over their row's: that of the same row, else the mean of all of the same kind. */
struct mt_cluster_class mt_hardware_class(const struct mt_hardware *row, const char *name,
                                          const struct mt_cluster *measured, struct mt_arena *arena);

/* The bandwidth that messages reach on a link of this rate (bits or bytes a second, by row->bits). */
double mt_hardware_link_Bps(const struct mt_hardware_link *row, double rate);
struct mt_cluster_link mt_hardware_link(const struct mt_hardware_link *row, double rate);

#endif
