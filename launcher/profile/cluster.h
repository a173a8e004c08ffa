/* Profiling for `motley profile`, under mpirun or alone.
 *
 * cluster.h measures the cluster, job.h also the layers of jobs, by synthetic runs (synthetic.h) of growing size
 * (size_walk.h); describe_cluster.h writes a cluster document without measuring. */
#ifndef MT_LAUNCHER_PROFILE_CLUSTER_H
#define MT_LAUNCHER_PROFILE_CLUSTER_H

#include "launcher/flags/output.h"
#include "launcher/session/emulate.h"
#include "synth/job/job.h"

struct mt_profile_cluster_options {
    const char *out;         /* the cluster document to write */
    const char *raw;         /* a CSV file for all samples, or null */
    const char *device;      /* "cpu", "cuda" */
    struct mt_output output; /* of its tables */
    double budget_s, deadline_s;
    double heartbeat_s, start_s; /* see launcher/watch/watch.h */
    struct mt_emulation emulation;
    /* Models whose layers are measured too, in this job; they get most of the budget. */
    int nmodels;
    const char **models;
    struct mt_job job;
};

/* Measure, write the document and print it; collective, in a session (session.h). Only rank 0 has the error's text. */
enum mt_status mt_profile_cluster(const struct mt_profile_cluster_options *options, struct mt_err *err);

#endif
