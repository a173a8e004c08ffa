/* Speeds and curves of the cluster from a job's measurements. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "kernels/base/number/stats.h"
#include "launcher/session/agree.h"
#include "launcher/profile/job.h"
#include "profiler/measure/disturbed.h"

/* The reference device of a class: the fastest of those that are emulated least. */
static void choose_references(const struct mt_cluster *cluster, int *reference) {
    for (int c = 0; c < cluster->nclasses; c++) {
        reference[c] = -1;
        for (int d = 0; d < cluster->ndevices; d++) {
            const struct mt_cluster_device *device = &cluster->devices[d];
            const struct mt_cluster_device *best = reference[c] < 0 ? NULL : &cluster->devices[reference[c]];
            bool better = !best || device->emulated > best->emulated ||
                          (device->emulated == best->emulated && device->speed > best->speed);
            if (device->class == c && better) reference[c] = d;
        }
    }
}

static bool same_case(const struct mt_profile_job_step *a, const struct mt_profile_job_step *b) {
    return a->probe == b->probe && a->batch == b->batch && a->micro == b->micro;
}

/* The median of all visits to a case; 0 without visits. */
static double median_of_case(const struct mt_profile_job_step *steps, int nsteps,
                             const struct mt_profile_job_step *of) {
    double *times_s = mt_malloc((size_t)(nsteps + 1) * sizeof *times_s);
    size_t n = 0;
    for (int i = 0; i < nsteps; i++)
        if (same_case(&steps[i], of)) times_s[n++] = steps[i].time_s;
    double median_s = n ? mt_median(times_s, n) : 0;
    free(times_s);
    return median_s;
}

/* The ratio of times summed over all cases that both devices have; the error is the cases' mean deviation from it,
 * weighted by their times, and wider by the time that other processes took of either. A device that does not differ by
 * more than the first gets the same speed: plans should not be uneven by chance; but one that is emulated differs on
 * purpose. */
static void set_speed(struct mt_cluster_device *device, const struct mt_cluster_device *reference, int nsteps,
                      const struct mt_profile_job_step *steps, const struct mt_profile_job_step *reference_steps) {
    double sum_s = 0, reference_sum_s = 0, error_s = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < nsteps; i++) {
            bool seen = false;
            for (int k = 0; k < i && !seen; k++) seen = same_case(&steps[k], &steps[i]);
            double reference_s = median_of_case(reference_steps, nsteps, &steps[i]);
            if (seen || !reference_s) continue;
            double own_s = median_of_case(steps, nsteps, &steps[i]);
            if (pass)
                error_s += fabs(reference_s - own_s * reference_sum_s / sum_s);
            else
                sum_s += own_s, reference_sum_s += reference_s;
        }
    double ratio = reference_sum_s / sum_s; /* every rank has size 1, so that the sums are not 0 */
    double error = error_s / reference_sum_s, stolen = fmax(device->stolen, reference->stolen);
    if (device->emulated < reference->emulated)
        ratio = mt_disturbed_speed(ratio, device->emulated / reference->emulated, reference->stolen);
    else if (fabs(ratio - 1) <= error)
        ratio = 1;
    device->speed = reference->speed * ratio;
    device->speed_error = mt_disturbed_error(error, stolen);
}

static void set_speeds(struct mt_cluster *cluster, const int *reference, int nsteps,
                       const struct mt_profile_job_step *all) {
    for (int d = 0; d < cluster->ndevices; d++) {
        int r = reference[cluster->devices[d].class];
        if (d != r)
            set_speed(&cluster->devices[d], &cluster->devices[r], nsteps, all + (ptrdiff_t)d * nsteps,
                      all + (ptrdiff_t)r * nsteps);
    }
}

/* Bytes of rank `from`, at rank 0; allocated in the arena. */
static void *fetch(MPI_Comm comm, int rank, int from, void *mine, size_t size_bytes, struct mt_arena *arena) {
    long long count = (long long)size_bytes;
    void *all = mine;
    if (from == 0) return mine;
    if (rank == from) {
        MPI_Send(&count, 1, MPI_LONG_LONG, 0, 0, comm);
        MPI_Send(mine, (int)size_bytes, MPI_BYTE, 0, 0, comm);
    } else if (rank == 0) {
        MPI_Recv(&count, 1, MPI_LONG_LONG, from, 0, comm, MPI_STATUS_IGNORE);
        all = mt_arena_alloc(arena, (size_t)count);
        MPI_Recv(all, (int)count, MPI_BYTE, from, 0, comm, MPI_STATUS_IGNORE);
    }
    return all;
}

/* Add one device's samples to rank 0's builder, scaled to a device of speed 1. */
static void add_samples(MPI_Comm comm, int rank, int from, struct mt_profile_job_times times,
                        const struct mt_cluster *cluster, struct mt_curve_builder *builder, struct mt_arena *arena) {
    int *count = fetch(comm, rank, from, &times.nsamples, sizeof times.nsamples, arena);
    struct mt_op_shape *shapes =
        fetch(comm, rank, from, times.shapes, (size_t)times.nshapes * sizeof *times.shapes, arena);
    struct mt_profile_job_sample *samples =
        fetch(comm, rank, from, times.samples, (size_t)times.nsamples * sizeof *times.samples, arena);
    for (int i = 0; i < *count && !rank; i++)
        mt_curves_sample(builder, &shapes[samples[i].shape], samples[i].time_s * cluster->devices[from].speed);
}

/* class_of[d]: the class whose curves use device d's samples, or -1. Used are the reference and the first few devices
 * that are as fast, so that curves are not those of the luckiest device. */
static void choose_sampled(const struct mt_cluster *cluster, const int *reference, int *class_of) {
    enum { ENOUGH = 4 };
    for (int d = 0; d < cluster->ndevices; d++) {
        int class = cluster->devices[d].class, others = 0;
        for (int k = 0; k < d; k++) others += class_of[k] == class && k != reference[class];
        bool as_fast = cluster->devices[d].speed == cluster->devices[reference[class]].speed && others < ENOUGH - 1;
        class_of[d] = d == reference[class] || as_fast ? class : -1;
    }
}

static void fit_curves(MPI_Comm comm, int rank, const int *class_of, int nranks, int nclasses,
                       const struct mt_profile_job_times *times, struct mt_cluster *cluster, struct mt_arena *arena) {
    for (int c = 0; c < nclasses; c++) {
        struct mt_curve_builder *builder = rank ? NULL : mt_curves_new();
        for (int d = 0; d < nranks; d++)
            if (class_of[d] == c) add_samples(comm, rank, d, *times, cluster, builder, arena);
        double stolen = 0;
        for (int d = 0; d < nranks && !rank; d++)
            if (class_of[d] == c) stolen = fmax(stolen, cluster->devices[d].stolen);
        if (!rank) mt_curves_finish(builder, stolen, cluster, &cluster->classes[c]);
    }
}

enum mt_status mt_profile_job_apply(MPI_Comm comm, const struct mt_profile_job_times *times, struct mt_cluster *cluster,
                                    struct mt_err *err) {
    int rank, nranks, nclasses;
    enum mt_status st = MT_OK;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &nranks);
    if (!rank && cluster->ndevices != nranks)
        st = mt_fail(err, MT_EBUG, "%d ranks measured a job for a cluster of %d devices", nranks, cluster->ndevices);
    if ((st = mt_agree_rank0(comm, st, err))) return st;
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_profile_job_step *all = mt_new(&arena, struct mt_profile_job_step, nranks * times->nsteps);
    int bytes = times->nsteps * (int)sizeof *all, *class_of = mt_new(&arena, int, nranks);
    MPI_Gather(times->steps, bytes, MPI_BYTE, all, bytes, MPI_BYTE, 0, comm);
    if (!rank) {
        nclasses = cluster->nclasses;
        int *reference = mt_new(&arena, int, nclasses);
        choose_references(cluster, reference);
        set_speeds(cluster, reference, times->nsteps, all);
        choose_sampled(cluster, reference, class_of);
    }
    MPI_Bcast(&nclasses, 1, MPI_INT, 0, comm);
    MPI_Bcast(class_of, nranks, MPI_INT, 0, comm);
    fit_curves(comm, rank, class_of, nranks, nclasses, times, cluster, &arena);
    mt_arena_release(&arena);
    return st;
}

void mt_profile_job_times_release(struct mt_profile_job_times *times) {
    mt_arena_release(&times->arena);
    *times = (struct mt_profile_job_times){0};
}
