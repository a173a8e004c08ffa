/* The flags that describe a job, as a child of a command's argp.
 *
 *     struct mt_job_flags job;
 *     mt_job_flags_init(&job, err);
 *     struct argp_child children[] = {{mt_job_argp(), 0, "The job", 2}, {0}};
 *     ... in ARGP_KEY_INIT: state->child_inputs[0] = &job; after parsing: mt_job_flags_resolve(&job, err) */
#ifndef MT_LAUNCHER_FLAGS_JOB_FLAGS_H
#define MT_LAUNCHER_FLAGS_JOB_FLAGS_H

#include <argp.h>

#include "profiler/cluster/cluster.h"
#include "synth/job/job.h"

struct mt_job_flags {
    struct mt_job job;
    bool automatic;     /* --precision auto, until mt_job_flags_choose */
    unsigned given;     /* bits: rows of the table in job_flags.c */
    struct mt_err *err; /* where a wrong value is reported */
};

void mt_job_flags_init(struct mt_job_flags *flags, struct mt_err *err);
const struct argp *mt_job_argp(void);

/* With --precision auto, choose by the cluster (null: there is none): bf16 if all its devices have it, else f16 if all
 * have it, else f32. */
enum mt_status mt_job_flags_choose(struct mt_job_flags *flags, const struct mt_cluster *cluster, struct mt_err *err);

/* Apply defaults that depend on other flags (lr_min is a tenth of lr), refuse flags that the optimizer or the schedule
 * does not use, and check the job. */
enum mt_status mt_job_flags_resolve(struct mt_job_flags *flags, struct mt_err *err);

#endif
