/* Kernels of a job, tuned before its first step: measured once, by ranks whose devices are alike together, so that all
 * of them run the same kernels and get the same bits.
 *
 *     const struct mt_lowered *lowered[] = {train, forward};
 *     st = mt_tuning_share(comm, device, lowered, 2, NULL, err);     // collective; agrees
 *
 * Ranks of one class of devices first hand round what their files hold (where two differ, the lower rank's is taken);
 * what none of them knows is divided among those that have such calls, and handed round again. Then their tables are
 * compared. Where nothing is new that is one exchange of a few bytes. */
#ifndef MT_LAUNCHER_TUNE_TUNING_H
#define MT_LAUNCHER_TUNE_TUNING_H

#include <mpi.h>

#include "kernels/device/tuner.h"
#include "synth/lower/lower.h"

/* A call of this rank's programs, and how often it runs. */
struct mt_tuned_call {
    const struct mt_lowered *lowered;
    int instr;
    int64_t runs; /* in one run of that program */
    struct mt_tuning tuning;
    bool known; /* the tuning is there: not where MOTLEY_TUNE is off, or the device does not run the call */
};

struct mt_tuning_report {
    struct mt_arena arena;
    struct mt_tuned_call *calls; /* equal ones of a program are one */
    int ncalls;
    int nmeasured; /* by this rank, now */
    double time_s;
};
void mt_tuning_report_release(struct mt_tuning_report *report);

/* Collective over `comm`; all ranks return the same. `lowered[count]` may have null entries. The device must have no
 * stream "compute" in use, and some memory left. `report` may be null. Devices without a tuner take part, and do
 * nothing. */
enum mt_status mt_tuning_share(MPI_Comm comm, struct mt_device *device, const struct mt_lowered *const *lowered,
                               int count, struct mt_tuning_report *report, struct mt_err *err);

#endif
