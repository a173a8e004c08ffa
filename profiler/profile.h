/* Measuring a cluster: all ranks of a communicator, one device each, at the same time, since that is how they train.
 *
 *     struct mt_profile_options options = {.budget_s = 60, .emulate = 1};
 *     struct mt_cluster *cluster;                   // on rank 0; null elsewhere
 *     if ((st = mt_profile_run(comm, &options, &cluster, NULL, err))) return st;
 *
 * Collective. Without a device, it is the process's affinity mask (launcher/session/cores.h divides hosts before). MPI
 * is not known here: what ranks tell each other goes by schedules. */
#ifndef MT_PROFILER_PROFILE_H
#define MT_PROFILER_PROFILE_H

#include "kernels/device/device.h"
#include "profiler/cluster/cluster.h"

struct mt_profile_options {
    /* Null: the process's CPU is opened. Not owned, has no streams yet, and computes as `emulate` says already. */
    struct mt_device *device;
    /* What the devices' data goes by, through a stream; null: the communicator itself, as it is called. Not owned. */
    struct mt_comm *wire;
    double budget_s;
    double emulate;                 /* this rank's device is slowed to this speed; 1: not */
    double deadline_s;              /* without any answer from a rank; 0: 60 */
    void (*tell)(const char *what); /* told what is being measured, again and again; or null */
};

/* *raw (may be null): on rank 0 all samples as CSV, "probe,what,rank,value" with a header; free() it; null elsewhere.
 */
enum mt_status mt_profile_run(struct mt_comm *comm, const struct mt_profile_options *options,
                              struct mt_cluster **cluster, char **raw, struct mt_err *err);

#endif
