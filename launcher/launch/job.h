/* A job from its plan to its end, with restarts.
 *
 * After a death (a rank that was lost or stood still, a host that does not answer, mpirun's own) the hosts are asked
 * who is there. If all are, the same plan is started again, but a rank that died twice is left out; else it is planned
 * again for what is left (again.h). The run goes on from its last checkpoint. Every event is a line of the log. */
#ifndef MT_LAUNCHER_LAUNCH_JOB_H
#define MT_LAUNCHER_LAUNCH_JOB_H

#include "kernels/base/table/table.h"
#include "launcher/launch/files.h"

struct mt_job_options {
    struct mt_mpirun_options start;
    const char *plan, *hosts, *folder; /* the plan's path; the hostfile (null in a Slurm job); what is written */
    const char *cluster, *described;   /* texts, or null */
    bool dry_run;                      /* only write files, and tell who goes where */
    struct mt_tables *doc;             /* after a dry run: that, for the caller to print */
    bool requeue;                      /* of a Slurm job that was stopped before its end */
    int restarts;
    double answer_s, start_s, end_s;
    /* Flags of train, each one word, ended by null; of these --out, --resume and --init are set here. */
    char **words;
    const char *out, *resume,
        *init;         /* the run's folder, null: it writes nothing; what it goes on from or begins with */
    const char *slurm; /* the nodes of a Slurm job, as Slurm lists them, or null */
};

/* *code: the exit code, as of train. Tables of what does not match go to standard error. */
enum mt_status mt_job_launch(const struct mt_job_options *options, int *code, struct mt_err *err);

/* Write FOLDER/job.sbatch (slurm.h) and the plan that it is for, instead of starting it. */
struct mt_slurm_options;
enum mt_status mt_job_write_slurm(const struct mt_job_options *options, struct mt_slurm_options *slurm,
                                  struct mt_err *err);

#endif
