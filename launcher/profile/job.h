/* The job's own layers, measured: the training program of one rank as it runs, on all ranks at the same time, for
 * several numbers of samples. So a plan for this job finds times of exactly its shapes, with the caches as they are in
 * a step, and ranks' speeds at this work.
 *
 *     struct mt_job_probe probe = {.model = "gpt2:124m", .job = &job, .budget_s = 30};
 *     struct mt_job_times times = {0};
 *     st = mt_job_measure(comm, device, &probe, &times, err);              // and other jobs, into the same times
 *     if (!st) st = mt_job_apply(comm, &times, cluster, err);              // rank 0's cluster
 *     mt_job_times_release(&times);
 *
 * Rank r of the communicator is device r of the cluster. Both functions are collective and agree. */
#ifndef MT_LAUNCHER_PROFILE_JOB_H
#define MT_LAUNCHER_PROFILE_JOB_H

#include <mpi.h>

#include "kernels/device/device.h"
#include "synth/job/job.h"
#include "profiler/cluster/cluster.h"
#include "profiler/cluster/shape.h"

struct mt_job_probe {
    const char *model;
    const struct mt_job *job;
    int64_t most;    /* samples a micro-batch, at most; 0: as many as a plan may well give the fastest rank */
    double budget_s; /* for all of it, about; the smallest sizes are measured whatever they take */
};

/* What one rank has measured. */
struct mt_job_times {
    struct mt_arena arena;
    int nshapes, shapes_capacity;
    struct mt_op_shape *shapes;
    int nsamples, samples_capacity;
    struct mt_job_sample { /* the mean over a step's operators of that shape, from one's end to the next one's */
        int shape;
        double time_s;
    } * samples;
    int nprobes; /* jobs */
    int nsteps, steps_capacity;
    struct mt_job_step { /* a visit: the mean of its steps; as many visits on all ranks */
        int64_t probe, batch, micro;
        double time_s;
    } * steps;
};

/* Sizes grow (size_walk.h) as far as memory, budget and `most` allow; slower ranks have smaller ones, which take them
 * as long. Then sizes between them, if there is time, and all of them again, so that a machine whose speed drifts does
 * not bend the curves. At last, with a part of the budget, pairs of micro-batches, whose gradients are added up. Adds
 * to `times`. */
enum mt_status mt_job_measure(MPI_Comm comm, struct mt_device *device, const struct mt_job_probe *probe,
                              struct mt_job_times *times, struct mt_err *err);

/* The speeds of all devices, by whole steps against those of their class's fastest one, and the curves of each class
 * from that one and others as fast, in the place of those of the same name. `cluster` counts at rank 0 only. */
enum mt_status mt_job_apply(MPI_Comm comm, const struct mt_job_times *times, struct mt_cluster *cluster,
                            struct mt_err *err);
void mt_job_times_release(struct mt_job_times *times);

#endif
