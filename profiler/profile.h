/* Profile a cluster: measure all ranks of a communicator, one device each, concurrently, as they train.
 *
 *     struct mt_profile_options options = {.budget_s = 60, .emulate = 1};
 *     struct mt_cluster *cluster;                   // on rank 0; null elsewhere
 *     if ((st = mt_profile_run(comm, &options, &cluster, NULL, err))) return st;
 *
 * Collective. Without options.device the device is the CPU: the process's affinity mask (launcher/session/cores.h
 * divides the cores of a host between its ranks first). Nothing here calls MPI: ranks communicate by schedules.
 *
 * profiler/cluster    the document
 * profiler/describe   documents from text and from public figures, and their edits
 * profiler/measure    sampling, fits, topology, load of other processes
 * profiler/probes     one file for each thing that is measured
 * profiler/assemble   the document from what the probes have measured */
#ifndef MT_PROFILER_PROFILE_H
#define MT_PROFILER_PROFILE_H

#include "kernels/device/device.h"
#include "profiler/cluster/cluster.h"

struct mt_profile_options {
    /* Null: the process's CPU is opened. Not owned; must have no streams yet, and be emulated as `emulate` says. */
    struct mt_device *device;
    /* Communicator of the devices' data, used through a stream; null: `comm`, called directly. Not owned. */
    struct mt_comm *wire;
    double budget_s;
    double emulate;                     /* speed to which this rank's device is slowed; 1: full */
    double deadline_s;                  /* without an answer from a rank; 0: 60 */
    int64_t largest_bytes;              /* of the collectives of the jobs that will run; 0: not known. Collectives are
                                           measured up to that size (not known: 16 MiB, of GPUs 256 MiB), if that takes
                                           no longer than the budget by 20 s, and if there is memory for it */
    void (*progress)(const char *what); /* progress: called repeatedly with what is measured; or null */
};

/* *raw (raw may be null): on rank 0 all samples as CSV with the header "probe,what,rank,value", the caller's to free;
 * null elsewhere. */
enum mt_status mt_profile_run(struct mt_comm *comm, const struct mt_profile_options *options,
                              struct mt_cluster **cluster, char **raw, struct mt_err *err);

#endif
