/* A job's GEMMs as ranks run them that divide its layers (tensor parallelism): all the batch's rows, and one of the
 * other two extents divided.
 *
 *     st = mt_profile_divided(comm, device, &probe, micro, left_s, &times, err);    // after the job's own sizes
 *
 * Each is measured alone, and scaled by what the whole GEMM took in the job's step over what it takes alone: in a step
 * operands are in caches, and clocks are those of a busy device. */
#ifndef MT_LAUNCHER_PROFILE_DIVIDED_H
#define MT_LAUNCHER_PROFILE_DIVIDED_H

#include "launcher/profile/job.h"

/* micro: the samples of this rank's last steps, which `times` holds. Adds samples to `times`, for at most about
 * budget_s seconds: extents divided by the number of ranks first, then by less. Collective, agrees. */
enum mt_status mt_profile_divided(MPI_Comm comm, struct mt_device *device, const struct mt_profile_job_probe *probe,
                                  int64_t micro, double budget_s, struct mt_profile_job_times *times,
                                  struct mt_err *err);

#endif
