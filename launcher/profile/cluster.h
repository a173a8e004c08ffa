/* Measuring a cluster: `motley profile` under mpirun, or alone. */
#ifndef MT_LAUNCHER_PROFILE_CLUSTER_H
#define MT_LAUNCHER_PROFILE_CLUSTER_H

#include "launcher/session/emulate.h"
#include "synth/job/job.h"

struct mt_profile_flags {
    const char *out;    /* where the document goes */
    const char *raw;    /* where all samples go, or null */
    const char *device; /* "cpu", "cuda" */
    double budget_s, deadline_s;
    double heartbeat_s, start_s; /* see launcher/watch/watch.h */
    struct mt_emulation emulation;
    /* Models whose own layers are measured too, by this job; they get most of the budget. */
    int nmodels;
    const char **models;
    struct mt_job job;
};

/* Measure, write the document and print what it says; collective, in a session (session.h). Failures are rank 0's to
 * print: elsewhere err->text is empty. */
enum mt_status mt_profile(const struct mt_profile_flags *flags, struct mt_err *err);

#endif
