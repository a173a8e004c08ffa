/* Measuring a job: rehearsals of growing size at the same time, so that ranks share memory and caches as they will in
 * training. A sample is a step's mean over all operators of one shape: layers are alike, steps are not. */
#include "launcher/profile/job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/log.h"
#include "kernels/base/number/stats.h"
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
static const double enough_s = 1;  /* of one visit: this and so many steps */
static const double long_s = 0.25; /* a step: one such warms up, and one tells something */
/* Of the memory that can be had; of the budget, for pairs of micro-batches; of what is left for a size, the first
 * visit's. */
static const double memory_part = 0.8, gpu_memory_part = 0.97, pairs_part = 0.15, first_part = 0.4;

struct measuring {
    MPI_Comm comm;
    int rank;
    struct mt_device *device;
    bool gpu;
    const struct mt_job_probe *probe;
    struct mt_job_times *times;
    double end_s; /* of the budget */
    double part;  /* this rank's size, of that of the fastest */
    /* Of a GPU, what a visit takes beside its steps, on the slowest rank, by the last one: to a size that is met for
     * the first time, whose products are tuned; and to one that is known. */
    double fresh_s, again_s, steps_s; /* steps_s: in this visit's steps */
};

/* ---- one step ---- */

/* What a step's operators of each shape took. */
struct step {
    const int *shape_of; /* [ninstrs] */
    int nshapes;
    double *sum_s;
    int64_t *count;
    int last; /* the instruction before, in the same iteration; -1 */
    int64_t iteration;
    double end_s;
};

/* An operator's time goes from the end of the one before it, so that what lies between is counted too. */
static void note(void *context, const struct mt_lowered *low, int instr, int64_t iteration, double start_s,
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

static bool same_shape(const struct mt_op_shape *a, const struct mt_op_shape *b) {
    return a->kind == b->kind && a->type == b->type && a->rows == b->rows && a->dim[0] == b->dim[0] &&
           a->dim[1] == b->dim[1] && !strcmp(a->variant, b->variant);
}

static int find_shape(struct mt_job_times *times, const struct mt_op_shape *shape) {
    int s = times->nshapes;
    while (s > 0 && !same_shape(&times->shapes[s - 1], shape)) s--;
    if (s > 0) return s - 1;
    mt_arena_grow(&times->arena, &times->shapes, times->nshapes, &times->shapes_capacity, sizeof *times->shapes);
    times->shapes[times->nshapes] = *shape;
    return times->nshapes++;
}

static void keep_samples(struct mt_job_times *times, const struct step *step) {
    for (int s = 0; s < step->nshapes; s++) {
        if (!step->count[s]) continue;
        mt_arena_grow(&times->arena, &times->samples, times->nsamples, &times->samples_capacity,
                      sizeof *times->samples);
        times->samples[times->nsamples++] = (struct mt_job_sample){s, step->sum_s[s] / (double)step->count[s]};
    }
}

static double sum_of(const struct step *step) {
    double sum_s = 0;
    for (int s = 0; s < step->nshapes; s++) sum_s += step->sum_s[s];
    return sum_s;
}

/* ---- one size ---- */

static double most_of_all(const struct measuring *m, double value) {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, m->comm);
    return value;
}

/* The mean of a step but for the slowest in ten: a hiccup does not count, and a processor that is taken away at regular
 * times does. */
static double trimmed_mean(double *step_s, int n) {
    double most = mt_quantile(step_s, (size_t)n, 0.9), sum = 0;
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (step_s[i] <= most) sum += step_s[i], kept++;
    return sum / kept;
}

/* Steps by the executor's own clock; `step` (may be null) gets what each operator took, and sum_s all of them. */
static enum mt_status run_steps(const struct measuring *m, struct mt_synthetic *r, struct step *step, int nsteps,
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
        if ((st = mt_synthetic_step(r, step ? note : NULL, step, &times, err))) break;
        step_s[i] = times.run.wall_s;
        if (!step) continue;
        sums_s[i] = sum_of(step);
        keep_samples(m->times, step);
    }
    if (st) return st;
    *mean_s = trimmed_mean(step_s, nsteps);
    if (step) *sum_s = trimmed_mean(sums_s, nsteps);
    return MT_OK;
}

/* Of a GPU: some steps with each operator timed, which makes them longer, and then steps as they are trained. The
 * operators' times are brought to the sum that these have. */
static enum mt_status run_apart(const struct measuring *m, struct mt_synthetic *r, struct step *step, int nsteps,
                                double *mean_s, struct mt_err *err) {
    enum { MOST_TIMED = 4 };
    struct mt_job_times *times = m->times;
    int timed = nsteps / 3 < 1 ? 1 : nsteps / 3 > MOST_TIMED ? MOST_TIMED : nsteps / 3, first = times->nsamples;
    int whole = nsteps - timed < 1 ? 1 : nsteps - timed;
    double timed_s, sum_s, warm_s;
    enum mt_status st;
    if ((st = run_steps(m, r, step, timed, &timed_s, &sum_s, err)) ||
        (st = run_steps(m, r, NULL, 1, &warm_s, NULL, err)) || (st = run_steps(m, r, NULL, whole, mean_s, NULL, err)))
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

/* What a visit takes at the least. */
static double visit_s(double step_s) {
    return (least_steps(step_s) + warm_steps(step_s)) * step_s;
}

/* A GPU's kernels are made in the first step, and the step is captured in the second. */
static int first_steps(const struct measuring *m) {
    return m->gpu ? GPU_WARM_STEPS : WARM_STEPS;
}

/* Warm up, until all are. *step_s: of the slowest rank's last step; *mine_s: this one's. */
static enum mt_status warm_up(const struct measuring *m, struct mt_synthetic *r, double *mine_s, double *step_s,
                              struct mt_err *err) {
    struct mt_synthetic_times times = {0};
    enum mt_status st = mt_synthetic_start(r, err);
    for (int i = 0, steps = first_steps(m); i < steps; i++) {
        if (!st) st = mt_synthetic_step(r, NULL, NULL, &times, err);
        if ((st = mt_agree(m->comm, st, err))) return st;
        *mine_s = times.run.wall_s;
        *step_s = most_of_all(m, *mine_s);
        if (!m->gpu) steps = warm_steps(*step_s);
    }
    return st;
}

static void keep_step(const struct measuring *m, const struct mt_synthetic *r, int64_t micro, double time_s) {
    struct mt_job_times *times = m->times;
    mt_arena_grow(&times->arena, &times->steps, times->nsteps, &times->steps_capacity, sizeof *times->steps);
    times->steps[times->nsteps++] = (struct mt_job_step){times->nprobes, r->job.batch, micro, time_s};
}

/* Begin together; faster ranks make more steps of the time. *step_s: the slowest rank's. */
static enum mt_status rehearse(struct measuring *m, struct mt_synthetic *r, int64_t micro, double budget_s,
                               double *step_s, struct mt_err *err) {
    const struct mt_lowered *low = r->lowered;
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
    enum mt_status st = warm_up(m, r, &mine_s, &slowest_s, err);
    if (st) goto out;
    double all_s = fmin(budget_s - warm_steps(slowest_s) * slowest_s, fmax(enough_s, ENOUGH_STEPS * slowest_s));
    all_s = fmax(all_s, least_steps(slowest_s) * slowest_s);
    int nsteps = (int)fmin(fmax(all_s / mine_s, 1), MOST_STEPS);
    double start_s = mt_now_s();
    st = m->gpu ? run_apart(m, r, &step, nsteps, &mean_s, err) : run_steps(m, r, &step, nsteps, &mean_s, &sum_s, err);
    m->steps_s = mt_now_s() - start_s;
    if ((st = mt_agree(m->comm, st, err))) goto out;
    keep_step(m, r, micro, mean_s);
    *step_s = most_of_all(m, mean_s);
out:
    mt_arena_release(&arena);
    return st;
}

/* Whether the ranks of every host find room together; GPUs have memory of their own. */
static bool fits(const struct measuring *m, const struct mt_synthetic *r) {
    MPI_Comm host;
    MPI_Comm_split_type(m->comm, MPI_COMM_TYPE_SHARED, m->rank, MPI_INFO_NULL, &host);
    double wanted = (double)r->lowered->arena_bytes;
    if (!m->gpu) MPI_Allreduce(MPI_IN_PLACE, &wanted, 1, MPI_DOUBLE, MPI_SUM, host);
    MPI_Comm_free(&host);
    int room = wanted <= (m->gpu ? gpu_memory_part : memory_part) * (double)mt_device_memory_bytes(m->device);
    MPI_Allreduce(MPI_IN_PLACE, &room, 1, MPI_INT, MPI_MIN, m->comm);
    return room;
}

/* `*step_s` stays when the size does not fit; *done: it did. */
static enum mt_status measure_size(struct measuring *m, int64_t batch, int64_t micro, double budget_s, double *step_s,
                                   bool *done, struct mt_err *err) {
    struct mt_synthetic r;
    *done = false;
    enum mt_status st = mt_synthetic_open(m->device, m->probe->model, m->probe->job, batch, micro, &r, err);
    bool open = !st;
    if (!(st = mt_agree(m->comm, st, err)) && (*done = fits(m, &r))) st = rehearse(m, &r, micro, budget_s, step_s, err);
    if (open) mt_synthetic_close(&r);
    return st;
}

/* ---- all sizes ---- */

static double left_s(const struct measuring *m) {
    return -most_of_all(m, mt_now_s() - m->end_s);
}

/* What has been measured, in order of size. */
struct size {
    int64_t samples;
    double step_s; /* the slowest rank's */
};
struct sizes {
    struct size *items;
    int count, capacity;
};

/* What this rank does when the fastest has so many samples. */
static int64_t own_size(const struct measuring *m, int64_t samples) {
    int64_t own = (int64_t)floor((double)samples * m->part + 0.5);
    return own < 1 ? 1 : own;
}

static enum mt_status visit(struct measuring *m, double budget_s, struct size *size, bool *fitted, struct mt_err *err) {
    int64_t own = own_size(m, size->samples);
    double *beside_s = size->step_s > 0 ? &m->again_s : &m->fresh_s, start_s = mt_now_s();
    m->steps_s = 0;
    enum mt_status st = measure_size(m, own, own, budget_s, &size->step_s, fitted, err);
    if (!st && m->gpu) *beside_s = most_of_all(m, mt_now_s() - start_s - m->steps_s);
    return st;
}

static enum mt_status add_size(struct measuring *m, int64_t samples, double budget_s, struct sizes *sizes, bool *fitted,
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

/* This rank's samples a second, by its last visit. */
static double rate(const struct measuring *m) {
    const struct mt_job_step *last = &m->times->steps[m->times->nsteps - 1];
    return (double)last->batch / last->time_s;
}

/* The largest share that a plan may well give the fastest rank, and some more. */
static int64_t largest_share(const struct measuring *m) {
    static const double more = 1.25;
    int64_t batch = m->probe->job->batch, most = m->probe->most;
    double best = most_of_all(m, rate(m)), sum = rate(m);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, m->comm);
    int64_t share = (int64_t)ceil(more * (double)batch * best / sum);
    if (share > batch) share = batch;
    return most > 0 && most < share ? most : share;
}

/* A power of two, so that ranks have sizes in common. */
static double part_of_fastest(const struct measuring *m) {
    return exp2(floor(log2(rate(m) / most_of_all(m, rate(m))) + 0.5));
}

/* A step of another size, from this rank's last visit; the slowest rank's. */
static double expected_s(const struct measuring *m, int64_t samples) {
    const struct mt_job_step *last = &m->times->steps[m->times->nsteps - 1];
    return most_of_all(m, last->time_s * (double)own_size(m, samples) / (double)last->batch);
}

/* One size after the other, as far as there is time. */
static enum mt_status measure_growing(struct measuring *m, double reserved_s, struct sizes *sizes, struct mt_err *err) {
    int64_t batch = m->probe->job->batch, most = batch;
    struct mt_size_walk walk;
    int nranks;
    bool fitted;
    MPI_Comm_size(m->comm, &nranks);
    mt_size_walk_begin(&walk, m->gpu, batch, nranks);
    do {
        double left = left_s(m) - reserved_s;
        int sizes_left = 1 + (int)ceil(log2((double)most / (double)walk.size));
        if (sizes->count >= SURE_SIZES && m->fresh_s + visit_s(expected_s(m, walk.size)) > left) break;
        enum mt_status st = add_size(m, walk.size, first_part * left / sizes_left, sizes, &fitted, err);
        if (st) return st;
        if (!fitted) continue;
        if (sizes->count == 1) m->part = part_of_fastest(m);
        most = largest_share(m);
    } while (mt_size_walk_next(&walk, fitted, most));
    return MT_OK;
}

/* Between the sizes, the largest first: where steps are short there is time for it, and their times the least even. */
static enum mt_status measure_between(struct measuring *m, double reserved_s, struct sizes *sizes, struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int i = sizes->count - 1; i > 0 && !st; i--) {
        int64_t size = (sizes->items[i].samples + sizes->items[i - 1].samples) / 2;
        double part_s = first_part * (left_s(m) - reserved_s) / i;
        bool fitted;
        if (size > sizes->items[i - 1].samples && m->fresh_s + visit_s(sizes->items[i].step_s) < part_s)
            st = add_size(m, size, part_s, sizes, &fitted, err);
    }
    return st;
}

/* All sizes again, from the last one back, as often as there is time: a machine is not the same at all times, and what
 * disturbed one visit is over. */
static enum mt_status measure_again(struct measuring *m, double reserved_s, const struct sizes *sizes,
                                    struct mt_err *err) {
    enum mt_status st = MT_OK;
    bool any = true;
    for (int round = 0; round < MOST_ROUNDS && any && !st; round++) {
        any = false;
        for (int i = sizes->count - 1; i >= 0 && !st; i--) {
            double part_s = (left_s(m) - reserved_s) / (i + 1);
            bool fitted;
            if (m->again_s + visit_s(sizes->items[i].step_s) > part_s) continue;
            any = true;
            st = visit(m, (part_s - m->again_s) / 2, &sizes->items[i], &fitted, err);
        }
    }
    return st;
}

static enum mt_status measure_sizes(struct measuring *m, struct sizes *sizes, struct mt_err *err) {
    double reserved_s = pairs_part * m->probe->budget_s;
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

/* Two micro-batches, the second added to the first; of size 1 (of a GPU not even this for certain), and of every other
 * size as long as there is time. */
static enum mt_status measure_pairs(struct measuring *m, int64_t most, struct mt_err *err) {
    double step_s = 0; /* of the pair before */
    enum mt_status st = MT_OK;
    for (int64_t size = 1; 2 * size <= most && !st; size *= 4) {
        double left = left_s(m);
        int64_t own = own_size(m, size);
        bool fitted;
        if ((size > 1 || m->gpu) && left <= m->fresh_s + visit_s(4 * step_s)) break;
        int sizes_left = 1 + (int)(log2((double)most / (double)size) / 2);
        st = measure_size(m, 2 * own, own, left / sizes_left, &step_s, &fitted, err);
        if (!fitted) break;
    }
    return st;
}

enum mt_status mt_job_measure(MPI_Comm comm, struct mt_device *device, const struct mt_job_probe *probe,
                              struct mt_job_times *times, struct mt_err *err) {
    struct measuring m = {.comm = comm,
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
    times->nprobes++;
    return st;
}
