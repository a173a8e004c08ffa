/* Measuring a job: all ranks run synthetic steps of growing size at the same time, so that they share memory and caches
 * as in training. A sample is a step's mean over all operators of one shape: layers are equal, steps vary. */
#include "launcher/profile/job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/log.h"
#include "kernels/base/number/stats.h"
#include "launcher/profile/divided.h"
#include "launcher/session/agree.h"
#include "launcher/profile/synthetic.h"
#include "launcher/profile/size_walk.h"

enum {
    WARM_STEPS = 2,
    GPU_WARM_STEPS = 3,
    LEAST_STEPS = 3,
    ENOUGH_STEPS = 40,
    MOST_STEPS = 2000,
    SURE_SIZES = 2,
    MOST_ROUNDS = 8
};
static const double enough_s = 1;  /* a visit measures at most so long, or ENOUGH_STEPS if they take longer */
static const double long_s = 0.25; /* of a step so long, one warms up and one is measured */
/* Fractions: of free memory, to use; of the budget, for pairs of micro-batches, and for products in parts; of the time
 * left for a size, for its first visit. */
static const double memory_fraction = 0.8, gpu_memory_fraction = 0.97, pairs_fraction = 0.15, divided_fraction = 0.3,
                    first_fraction = 0.4;

struct job_meter {
    MPI_Comm comm;
    int rank;
    struct mt_device *device;
    bool gpu;
    const struct mt_profile_job_probe *probe;
    struct mt_profile_job_times *times;
    double end_s; /* of the budget */
    double part;  /* this rank's size, relative to that of the fastest */
    /* On a GPU: the time of a visit outside its measured steps, on the slowest rank, by the last visit: the first one
     * to a size, whose GEMMs are tuned, and a later one. steps_s: in measured steps of this visit. */
    double first_overhead_s, next_overhead_s, steps_s;
};

/* ---- one step ---- */

/* Times of a step's operators, summed by shape. */
struct step {
    const int *shape_of; /* [ninstrs] */
    int nshapes;
    double *sum_s;
    int64_t *count;
    int last; /* the previous instruction of the iteration, or -1 */
    int64_t iteration;
    double end_s;
};

/* An operator's time starts at the end of the previous one, so that the gap between them is counted. */
static void record_operator(void *context, const struct mt_lowered *low, int instr, int64_t iteration, double start_s,
                            double end_s) {
    struct step *step = context;
    bool follows = instr > step->last && iteration == step->iteration && step->last >= 0;
    int shape = step->shape_of[instr];
    if (shape >= 0) {
        step->sum_s[shape] += end_s - (follows ? step->end_s : start_s);
        step->count[shape]++;
    }
    bool computes = low->instrs[instr].stream == MT_STREAM_COMPUTE;
    step->last = computes ? instr : step->last;
    step->iteration = iteration;
    step->end_s = computes ? end_s : step->end_s;
}

static int find_shape(struct mt_profile_job_times *times, const struct mt_op_shape *shape) {
    int s = times->nshapes;
    while (s > 0 && !mt_op_shape_equal(&times->shapes[s - 1], shape)) s--;
    if (s > 0) return s - 1;
    mt_arena_grow(&times->arena, &times->shapes, times->nshapes, &times->shapes_capacity, sizeof *times->shapes);
    times->shapes[times->nshapes] = *shape;
    return times->nshapes++;
}

static void add_samples(struct mt_profile_job_times *times, const struct step *step) {
    for (int s = 0; s < step->nshapes; s++) {
        if (!step->count[s]) continue;
        mt_arena_grow(&times->arena, &times->samples, times->nsamples, &times->samples_capacity,
                      sizeof *times->samples);
        times->samples[times->nsamples++] = (struct mt_profile_job_sample){s, step->sum_s[s] / (double)step->count[s]};
    }
}

static double sum_of(const struct step *step) {
    double sum_s = 0;
    for (int s = 0; s < step->nshapes; s++) sum_s += step->sum_s[s];
    return sum_s;
}

/* ---- one size ---- */

static double max_over_ranks(const struct job_meter *m, double value) {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, m->comm);
    return value;
}

/* The mean without the slowest tenth: a single disturbance does not count, a processor that is regularly taken away
 * does. */
static double trimmed_mean(double *step_s, int n) {
    double most = mt_quantile(step_s, (size_t)n, 0.9), sum = 0;
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (step_s[i] <= most) sum += step_s[i], kept++;
    return sum / kept;
}

/* Run nsteps, timed by the executor. `step`, if not null, gets the operators' times, and *sum_s their sum. */
static enum mt_status run_steps(const struct job_meter *m, struct mt_synthetic *run, struct step *step, int nsteps,
                                double *mean_s, double *sum_s, struct mt_err *err) {
    double step_s[MOST_STEPS] = {0}, sums_s[MOST_STEPS] = {0};
    struct mt_synthetic_times times;
    enum mt_status st = MT_OK;
    for (int i = 0; i < nsteps && !st; i++) {
        if (step) {
            memset(step->sum_s, 0, (size_t)step->nshapes * sizeof *step->sum_s);
            memset(step->count, 0, (size_t)step->nshapes * sizeof *step->count);
            step->last = -1;
        }
        if ((st = mt_synthetic_step(run, step ? record_operator : NULL, step, &times, err))) break;
        step_s[i] = times.run.wall_s;
        if (!step) continue;
        sums_s[i] = sum_of(step);
        add_samples(m->times, step);
    }
    if (st) return st;
    *mean_s = trimmed_mean(step_s, nsteps);
    if (step) *sum_s = trimmed_mean(sums_s, nsteps);
    return MT_OK;
}

/* On a GPU: first some eager steps with each operator timed, which takes longer, then launched steps as in training.
 * The operators' times are scaled so that their sum is that of launched steps. */
static enum mt_status run_timed_and_whole(const struct job_meter *m, struct mt_synthetic *run, struct step *step,
                                          int nsteps, double *mean_s, struct mt_err *err) {
    enum { MOST_TIMED = 4 };
    struct mt_profile_job_times *times = m->times;
    int timed = nsteps / 3 < 1 ? 1 : nsteps / 3 > MOST_TIMED ? MOST_TIMED : nsteps / 3, first = times->nsamples;
    int whole = nsteps - timed < 1 ? 1 : nsteps - timed;
    double timed_s, sum_s, warm_s;
    enum mt_status st;
    if ((st = run_steps(m, run, step, timed, &timed_s, &sum_s, err)) ||
        (st = run_steps(m, run, NULL, 1, &warm_s, NULL, err)) ||
        (st = run_steps(m, run, NULL, whole, mean_s, NULL, err)))
        return st;
    for (int i = first; i < times->nsamples && sum_s > 0; i++) times->samples[i].time_s *= *mean_s / sum_s;
    return MT_OK;
}

static int least_steps(double step_s) {
    return step_s > long_s ? 1 : LEAST_STEPS;
}

static int warm_steps(double step_s) {
    return step_s > long_s ? 1 : WARM_STEPS;
}

/* The least time of a visit. */
static double least_visit_s(double step_s) {
    return (least_steps(step_s) + warm_steps(step_s)) * step_s;
}

/* A GPU compiles kernels in the first step and captures the second. */
static int first_steps(const struct job_meter *m) {
    return m->gpu ? GPU_WARM_STEPS : WARM_STEPS;
}

/* Warm up on all ranks. *mine_s: this rank's last step; *step_s: the slowest rank's. */
static enum mt_status warm_up(const struct job_meter *m, struct mt_synthetic *run, double *mine_s, double *step_s,
                              struct mt_err *err) {
    struct mt_synthetic_times times = {0};
    enum mt_status st = mt_synthetic_start(run, err);
    for (int i = 0, steps = first_steps(m); i < steps; i++) {
        if (!st) st = mt_synthetic_step(run, NULL, NULL, &times, err);
        if ((st = mt_agree(m->comm, st, err))) return st;
        *mine_s = times.run.wall_s;
        *step_s = max_over_ranks(m, *mine_s);
        if (!m->gpu) steps = warm_steps(*step_s);
    }
    return st;
}

static void add_step(const struct job_meter *m, const struct mt_synthetic *run, int64_t micro, double time_s) {
    struct mt_profile_job_times *times = m->times;
    mt_arena_grow(&times->arena, &times->steps, times->nsteps, &times->steps_capacity, sizeof *times->steps);
    times->steps[times->nsteps++] = (struct mt_profile_job_step){times->nprobes, run->job.batch, micro, time_s};
}

/* Measure for the same time on all ranks; faster ones take more steps. *step_s: the slowest rank's. */
static enum mt_status measure_steps(struct job_meter *m, struct mt_synthetic *run, int64_t micro, double budget_s,
                                    double *step_s, struct mt_err *err) {
    const struct mt_lowered *low = run->lowered;
    struct mt_arena arena = MT_ARENA_INIT;
    int *shape_of = mt_new(&arena, int, low->ninstrs);
    for (int i = 0; i < low->ninstrs; i++) {
        const struct mt_linstr *c = &low->instrs[i];
        struct mt_op_shape shape;
        if (c->what == MT_LOWERED_OP) shape = mt_synthetic_shape(c);
        shape_of[i] = c->what == MT_LOWERED_OP ? find_shape(m->times, &shape) : -1;
    }
    struct step step = {.shape_of = shape_of, .nshapes = m->times->nshapes};
    step.sum_s = mt_new(&arena, double, step.nshapes);
    step.count = mt_new(&arena, int64_t, step.nshapes);
    double mine_s, slowest_s, mean_s = 0, sum_s;
    enum mt_status st = warm_up(m, run, &mine_s, &slowest_s, err);
    if (st) goto out;
    double all_s = fmin(budget_s - warm_steps(slowest_s) * slowest_s, fmax(enough_s, ENOUGH_STEPS * slowest_s));
    all_s = fmax(all_s, least_steps(slowest_s) * slowest_s);
    int nsteps = (int)fmin(fmax(all_s / mine_s, 1), MOST_STEPS);
    double start_s = mt_now_s();
    st = m->gpu ? run_timed_and_whole(m, run, &step, nsteps, &mean_s, err)
                : run_steps(m, run, &step, nsteps, &mean_s, &sum_s, err);
    m->steps_s = mt_now_s() - start_s;
    if ((st = mt_agree(m->comm, st, err))) goto out;
    add_step(m, run, micro, mean_s);
    *step_s = max_over_ranks(m, mean_s);
out:
    mt_arena_release(&arena);
    return st;
}

/* Whether the ranks of every host fit into its memory together; a GPU's memory is its rank's alone. */
static bool fits(const struct job_meter *m, const struct mt_synthetic *run) {
    MPI_Comm host;
    MPI_Comm_split_type(m->comm, MPI_COMM_TYPE_SHARED, m->rank, MPI_INFO_NULL, &host);
    double wanted = (double)run->lowered->arena_bytes;
    if (!m->gpu) MPI_Allreduce(MPI_IN_PLACE, &wanted, 1, MPI_DOUBLE, MPI_SUM, host);
    MPI_Comm_free(&host);
    int room = wanted <= (m->gpu ? gpu_memory_fraction : memory_fraction) * (double)mt_device_memory_bytes(m->device);
    MPI_Allreduce(MPI_IN_PLACE, &room, 1, MPI_INT, MPI_MIN, m->comm);
    return room;
}

/* *done: whether the size fits; if not, *step_s is unchanged. */
static enum mt_status measure_size(struct job_meter *m, int64_t batch, int64_t micro, double budget_s, double *step_s,
                                   bool *done, struct mt_err *err) {
    struct mt_synthetic run;
    *done = false;
    enum mt_status st = mt_synthetic_open(m->device, m->probe->model, m->probe->job, batch, micro, &run, err);
    bool open = !st;
    if (!(st = mt_agree(m->comm, st, err)) && (*done = fits(m, &run)))
        st = measure_steps(m, &run, micro, budget_s, step_s, err);
    if (open) mt_synthetic_close(&run);
    return st;
}

/* ---- all sizes ---- */

static double left_s(const struct job_meter *m) {
    return -max_over_ranks(m, mt_now_s() - m->end_s);
}

/* The sizes measured so far, in order. */
struct size {
    int64_t samples;
    double step_s; /* the slowest rank's */
};
struct sizes {
    struct size *items;
    int count, capacity;
};

/* This rank's samples when the fastest rank has `samples`. */
static int64_t own_size(const struct job_meter *m, int64_t samples) {
    int64_t own = (int64_t)floor((double)samples * m->part + 0.5);
    return own < 1 ? 1 : own;
}

static enum mt_status visit(struct job_meter *m, double budget_s, struct size *size, bool *fitted, struct mt_err *err) {
    int64_t own = own_size(m, size->samples);
    double *overhead_s = size->step_s > 0 ? &m->next_overhead_s : &m->first_overhead_s, start_s = mt_now_s();
    m->steps_s = 0;
    enum mt_status st = measure_size(m, own, own, budget_s, &size->step_s, fitted, err);
    if (!st && m->gpu) *overhead_s = max_over_ranks(m, mt_now_s() - start_s - m->steps_s);
    return st;
}

static enum mt_status add_size(struct job_meter *m, int64_t samples, double budget_s, struct sizes *sizes, bool *fitted,
                               struct mt_err *err) {
    struct size size = {samples, 0};
    enum mt_status st = visit(m, budget_s, &size, fitted, err);
    if (st || !*fitted) return st;
    mt_log(MT_LOG_INFO, "%s: %lld sample%s a step: %.3g s", m->probe->model, (long long)own_size(m, samples),
           own_size(m, samples) == 1 ? "" : "s", size.step_s);
    mt_arena_grow(&m->times->arena, &sizes->items, sizes->count, &sizes->capacity, sizeof size);
    int at = sizes->count++;
    for (; at > 0 && sizes->items[at - 1].samples > samples; at--) sizes->items[at] = sizes->items[at - 1];
    sizes->items[at] = size;
    return MT_OK;
}

/* This rank's samples per second, by its last visit. */
static double rate(const struct job_meter *m) {
    const struct mt_profile_job_step *last = &m->times->steps[m->times->nsteps - 1];
    return (double)last->batch / last->time_s;
}

/* The largest share that a plan is likely to give the fastest rank, with a margin. */
static int64_t largest_share(const struct job_meter *m) {
    static const double more = 1.25;
    int64_t batch = m->probe->job->batch, most = m->probe->most;
    double best = max_over_ranks(m, rate(m)), sum = rate(m);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, m->comm);
    int64_t share = (int64_t)ceil(more * (double)batch * best / sum);
    if (share > batch) share = batch;
    return most > 0 && most < share ? most : share;
}

/* This rank's speed relative to the fastest, rounded to a power of two, so that ranks have sizes in common. */
static double relative_size(const struct job_meter *m) {
    return exp2(floor(log2(rate(m) / max_over_ranks(m, rate(m))) + 0.5));
}

/* The slowest rank's step of another size, extrapolated from the last visits. */
static double expected_s(const struct job_meter *m, int64_t samples) {
    const struct mt_profile_job_step *last = &m->times->steps[m->times->nsteps - 1];
    return max_over_ranks(m, last->time_s * (double)own_size(m, samples) / (double)last->batch);
}

static enum mt_status measure_growing(struct job_meter *m, double reserved_s, struct sizes *sizes, struct mt_err *err) {
    int64_t batch = m->probe->job->batch, most = batch;
    struct mt_size_walk walk;
    int nranks;
    bool fitted;
    MPI_Comm_size(m->comm, &nranks);
    mt_size_walk_begin(&walk, m->gpu, batch, nranks);
    do {
        double left = left_s(m) - reserved_s;
        int sizes_left = 1 + (int)ceil(log2((double)most / (double)walk.size));
        if (sizes->count >= SURE_SIZES && m->first_overhead_s + least_visit_s(expected_s(m, walk.size)) > left) break;
        enum mt_status st = add_size(m, walk.size, first_fraction * left / sizes_left, sizes, &fitted, err);
        if (st) return st;
        if (!fitted) continue;
        if (sizes->count == 1) m->part = relative_size(m);
        most = largest_share(m);
    } while (mt_size_walk_next(&walk, fitted, most));
    return MT_OK;
}

/* Sizes between those measured, the largest first, while there is time. */
static enum mt_status measure_between(struct job_meter *m, double reserved_s, struct sizes *sizes, struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int i = sizes->count - 1; i > 0 && !st; i--) {
        int64_t size = (sizes->items[i].samples + sizes->items[i - 1].samples) / 2;
        double part_s = first_fraction * (left_s(m) - reserved_s) / i;
        bool fitted;
        if (size > sizes->items[i - 1].samples && m->first_overhead_s + least_visit_s(sizes->items[i].step_s) < part_s)
            st = add_size(m, size, part_s, sizes, &fitted, err);
    }
    return st;
}

/* All sizes again, from the largest down, while there is time: a machine's speed varies, and a disturbance of one visit
 * is over in the next. */
static enum mt_status measure_again(struct job_meter *m, double reserved_s, const struct sizes *sizes,
                                    struct mt_err *err) {
    enum mt_status st = MT_OK;
    bool any = true;
    for (int round = 0; round < MOST_ROUNDS && any && !st; round++) {
        any = false;
        for (int i = sizes->count - 1; i >= 0 && !st; i--) {
            double part_s = (left_s(m) - reserved_s) / (i + 1);
            bool fitted;
            if (m->next_overhead_s + least_visit_s(sizes->items[i].step_s) > part_s) continue;
            any = true;
            st = visit(m, (part_s - m->next_overhead_s) / 2, &sizes->items[i], &fitted, err);
        }
    }
    return st;
}

static enum mt_status measure_sizes(struct job_meter *m, struct sizes *sizes, struct mt_err *err) {
    double reserved_s = (pairs_fraction + divided_fraction) * m->probe->budget_s;
    enum mt_status st = measure_growing(m, reserved_s, sizes, err);
    if (!st) st = measure_between(m, reserved_s, sizes, err);
    if (!st) st = measure_again(m, reserved_s, sizes, err);
    if (st || sizes->count) return st;
    if (!m->rank) {
        mt_fail(err, MT_EINPUT, "%s: not even one sample a step fits into memory", m->probe->model);
        mt_err_hint(err, "profile without --model, and plan with --storage split");
    }
    return MT_EINPUT;
}

/* Pairs of micro-batches, of which the second accumulates gradients: of size 1 (on CPUs always), then of every other
 * size while there is time. */
static enum mt_status measure_pairs(struct job_meter *m, int64_t most, struct mt_err *err) {
    double step_s = 0; /* of the pair before */
    enum mt_status st = MT_OK;
    for (int64_t size = 1; 2 * size <= most && !st; size *= 4) {
        double left = left_s(m) - divided_fraction * m->probe->budget_s;
        int64_t own = own_size(m, size);
        bool fitted;
        if ((size > 1 || m->gpu) && left <= m->first_overhead_s + least_visit_s(4 * step_s)) break;
        int sizes_left = 1 + (int)(log2((double)most / (double)size) / 2);
        st = measure_size(m, 2 * own, own, left / sizes_left, &step_s, &fitted, err);
        if (!fitted) break;
    }
    return st;
}

enum mt_status mt_profile_job(MPI_Comm comm, struct mt_device *device, const struct mt_profile_job_probe *probe,
                              struct mt_profile_job_times *times, struct mt_err *err) {
    struct job_meter m = {.comm = comm,
                          .device = device,
                          .gpu = !strcmp(mt_device_kind(device), "cuda"),
                          .probe = probe,
                          .times = times,
                          .end_s = mt_now_s() + probe->budget_s,
                          .part = 1};
    MPI_Comm_rank(comm, &m.rank);
    struct sizes sizes = {0};
    enum mt_status st = measure_sizes(&m, &sizes, err);
    if (!st) st = measure_pairs(&m, sizes.items[sizes.count - 1].samples, err);
    if (!st)
        st = mt_profile_divided(comm, device, probe, own_size(&m, sizes.items[sizes.count - 1].samples),
                                fmax(left_s(&m), divided_fraction * probe->budget_s), times, err);
    times->nprobes++;
    return st;
}
