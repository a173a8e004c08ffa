/* `motley tune`: tuning the kernels of a plan's programs ahead of time. */
#ifndef MT_LAUNCHER_TUNE_TUNE_JOB_H
#define MT_LAUNCHER_TUNE_TUNE_JOB_H

#include "kernels/base/table/table.h"
#include "launcher/session/emulate.h"

struct mt_tune_options {
    const char *plan;
    const char *device; /* a kind */
    struct mt_emulation emulation;
};

/* Tune the programs of the plan's ranks; the gains become tables at rank 0: "training", "evaluation", "processes";
 * collective over MPI_COMM_WORLD, agrees. Process p of n tunes those of ranks p, p + n and so on, on its own device. */
enum mt_status mt_tune_job(const struct mt_tune_options *options, struct mt_tables *out, struct mt_err *err);

#endif
