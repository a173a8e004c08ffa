/* Measuring a job's own layers: one rank's training program, run on all ranks at the same time for several numbers of
 * samples. A plan for this job then has times of exactly its shapes, with caches as in a step, and ranks' speeds at
 * this work.
 *
 *     struct mt_profile_job_probe probe = {.model = "gpt2:124m", .job = &job, .budget_s = 30};
 *     struct mt_profile_job_times times = {0};
 *     st = mt_profile_job(comm, device, &probe, &times, err);           // other jobs likewise, into the same times
 *     if (!st) st = mt_profile_job_apply(comm, &times, cluster, err);   // rank 0's cluster
 *     mt_profile_job_times_release(&times);
 *
 * Rank r of the communicator is device r of the cluster. Both functions are collective and agree. */
#ifndef MT_LAUNCHER_PROFILE_JOB_H
#define MT_LAUNCHER_PROFILE_JOB_H

#include <mpi.h>

#include "kernels/device/device.h"
#include "synth/job/job.h"
#include "profiler/cluster/cluster.h"
#include "profiler/cluster/shape.h"

struct mt_profile_job_probe {
    const char *model;
    const struct mt_job *job;
    int64_t most;    /* samples per micro-batch at most; 0: what a plan is likely to give the fastest rank */
    double budget_s; /* about, in all; the smallest sizes are always measured */
};

struct mt_profile_job_times {
    struct mt_arena arena;
    int nshapes, shapes_capacity;
    struct mt_op_shape *shapes;
    int nsamples, samples_capacity;
    struct mt_profile_job_sample { /* the mean over a step's operators of that shape, each from the end of the previous
                                    * operator
                                    */
        int shape;
        double time_s;
    } * samples;
    int nprobes; /* jobs */
    int nsteps, steps_capacity;
    struct mt_profile_job_step { /* a visit to a size: the mean of its steps; all ranks have the same number of visits
                                  */
        int64_t probe, batch, micro;
        double time_s;
    } * steps;
};

/* Measure growing sizes (size_walk.h) as far as memory, budget and `most` allow; slower ranks have smaller sizes, which
 * take as long. Then, while there is time, sizes between them, and all of them again, so that a machine whose speed
 * drifts does not distort the curves. A fraction of the budget is for pairs of micro-batches, which accumulate
 * gradients; and, of several ranks, one for products in parts (divided.h). Adds to `times`. */
enum mt_status mt_profile_job(MPI_Comm comm, struct mt_device *device, const struct mt_profile_job_probe *probe,
                              struct mt_profile_job_times *times, struct mt_err *err);

/* Set the speeds of all devices, by whole steps relative to the fastest device of their class, and replace each class's
 * curves of the same name by those of that device and others as fast. `cluster` is used at rank 0 only. */
enum mt_status mt_profile_job_apply(MPI_Comm comm, const struct mt_profile_job_times *times, struct mt_cluster *cluster,
                                    struct mt_err *err);
void mt_profile_job_times_release(struct mt_profile_job_times *times);

#endif
