/* Slurm: the script that submits a plan, and what a job asks of Slurm while it runs.
 *
 * The script's last line is an exec of `motley launch --slurm-job`, so that Slurm's signal before the end of the time
 * (--signal=B:USR2, to the batch process alone) reaches it, which has mpirun pass it to every rank. It maps the plan to
 * the nodes of the allocation, goes on with the run's checkpoint if there is one, and has the job queued again where it
 * was stopped before its last step. */
#ifndef MT_LAUNCHER_LAUNCH_SLURM_H
#define MT_LAUNCHER_LAUNCH_SLURM_H

#include "launcher/launch/hosts.h"
#include "planner/plan/plan.h"

struct mt_slurm_options {
    const char *folder, *program;
    const char *partition, *account, *time; /* as sbatch takes them; or null */
    int64_t stop_s;                         /* before the end of the time, the job is asked to stop */
    /* The nodes by name; null: any, of the plan's shape. */
    const char *const *names;
    char **words; /* of the script's last line after the program, ended by null */
};

/* Refuse words that cannot be in a script, and a time that is over before the job is asked to stop: it would be queued
 * again for ever. */
enum mt_status mt_slurm_check(const struct mt_slurm_options *options, struct mt_err *err);

/* Write FOLDER/job.sbatch. Nodes are the job's own (--exclusive, which also gives it all their GPUs, however many each
 * has). Without names, nodes of several kinds are asked for by their features, which are taken to have the names of
 * device classes. */
enum mt_status mt_slurm_write(const struct mt_slurm_options *options, const struct mt_plan *plan,
                              struct mt_arena *arena, struct mt_err *err);

/* The hosts of an allocation, from Slurm's list of nodes ("n[1-3],x"), as `scontrol show hostnames` names them. They
 * count as answering. */
enum mt_status mt_slurm_hosts(const char *nodes, struct mt_arena *arena, struct mt_hosts *hosts, struct mt_err *err);

/* If the run was stopped by a signal: have this job queued again. */
enum mt_status mt_slurm_requeue(const char *run_folder, struct mt_err *err);

#endif
