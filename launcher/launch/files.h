/* The files that start a job, for people to read and to use without Motley's launch:
 *
 *     FOLDER/plan.json   the plan, with the names of the hosts
 *     FOLDER/hostfile    each host with as many slots as it has ranks
 *     FOLDER/rankfile    where ranks are bound to the processors that the profile saw them on
 *     FOLDER/mpirun.sh   the command: `sh FOLDER/mpirun.sh`
 *
 * Where a host's ranks need their own environment (some of its GPUs, not the first ones), the command has a context for
 * each host instead of the hostfile; an appfile could not hold words with blanks in them. */
#ifndef MT_LAUNCHER_LAUNCH_FILES_H
#define MT_LAUNCHER_LAUNCH_FILES_H

#include "launcher/launch/place.h"

struct mt_mpirun_options {
    const char *program; /* motley's path, the same on every host */
    const char *agent;   /* what starts a daemon on a host, and asks it */
    bool agent_given;
    int nmca, nexports, ntrain;
    const char **mca;     /* "NAME=VALUE" */
    const char **exports; /* "NAME=VALUE" */
    bool in_slurm;        /* hosts are those of a Slurm job, which starts the daemons */
};

struct mt_job_files {
    const struct mt_mpirun_options *options;
    const struct mt_plan *plan; /* with the names of the hosts */
    const struct mt_hosts *hosts;
    const struct mt_places *places;
    const char *folder;
    char **words; /* the flags of train, ended by null */
};

enum mt_status mt_job_folder_make(const char *folder, struct mt_err *err);

/* Make the folder and write them. Files of an earlier start that are not needed now are removed. */
enum mt_status mt_job_files_write(const struct mt_job_files *start, struct mt_arena *arena, struct mt_err *err);

/* A word of a shell's line, quoted where it must be. */
const char *mt_shell_word(const char *word, struct mt_arena *arena);

/* Variables of this process that ranks need too, as "NAME=VALUE": those of Motley, NCCL, CUDA, OpenMP and the
 * loader's path; but not CUDA_VISIBLE_DEVICES, which each host has its own of. */
int mt_job_exports(struct mt_arena *arena, const char ***exports);

#endif
