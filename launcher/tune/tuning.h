/* Tuning the kernels of a job before its first step: each is measured once per class of devices, so that all ranks of a
 * class run the same kernels and get the same bits. tune_job.h is `motley tune`.
 *
 *     const struct mt_lowered *lowered[] = {train, forward};
 *     st = mt_tuning_share(comm, device, lowered, 2, NULL, err);     // collective; agrees
 *
 * Ranks of one class first exchange the contents of their tuning files (where two differ, the lower rank's counts).
 * Calls that none of them has tuned are divided among the ranks that have such calls, and the results exchanged. Then
 * the tables are compared. Without anything new this is one exchange of a few bytes. */
#ifndef MT_LAUNCHER_TUNE_TUNING_H
#define MT_LAUNCHER_TUNE_TUNING_H

#include <mpi.h>

#include "kernels/device/tuner.h"
#include "kernels/overlap/chunk.h"
#include "synth/lower/lower.h"

/* A call of this rank's programs, and how often it runs. */
struct mt_tuned_call {
    const struct mt_lowered *lowered;
    int instr;
    const struct mt_overlap_gemm *gemm; /* of a chunk of an overlapped instruction; or null */
    int64_t runs;                       /* in one run of that program */
    struct mt_tuning tuning;
    bool known; /* `tuning` is set; not with MOTLEY_TUNE off, or if the device does not support the call */
};

struct mt_tuning_report {
    struct mt_arena arena;
    struct mt_tuned_call *calls; /* equal calls of a program are one entry */
    int ncalls;
    int nmeasured; /* by this rank, now */
    double time_s;
};
void mt_tuning_report_release(struct mt_tuning_report *report);

/* Collective over `comm`; agrees. `lowered[count]` may have null entries. The device must have no stream "compute" in
 * use, and some free memory. `report` may be null; the caller releases it. Ranks without a tuner must call it too. */
enum mt_status mt_tuning_share(MPI_Comm comm, struct mt_device *device, const struct mt_lowered *const *lowered,
                               int count, struct mt_tuning_report *report, struct mt_err *err);

#endif
