#include "launcher/profile/divided.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/log.h"
#include "kernels/base/number/stats.h"
#include "launcher/session/agree.h"
#include "profiler/probes/calls.h"

enum { UNIT = 8, LEAST_EXTENT = 64, CALLS = 8, FEW_CALLS = 3, MOST_PARTS = 32 };
static const double call_s = 2e-3, memory_part = 0.5;
static const double most_ratio = 2; /* of a GEMM in a step to the same alone; more is a disturbance */

struct meter {
    struct mt_device *device;
    struct mt_stream *stream;
    struct mt_calls *calls;
    struct mt_profile_job_times *times;
    double end_s;
    int measured;
};

/* ---- what to measure ---- */

/* The plain product with these extents; as a transposed one (first letters of the variant) runs. */
static bool plain_gemm(const struct mt_op_shape *like, int64_t rows, const int64_t dim[2], struct mt_grid_case *c) {
    static const struct {
        const char *name, *in, *out;
        struct mt_attr attr;
    } forms[] = {{"nn", "Try Tyx", "Trx", {.nm = 1, .nn = 1, .nk = 1}},
                 {"nt", "Try Txy", "Trx", {.nm = 1, .nn = 1, .nk = 1, .trans_b = true}},
                 {"tn", "Trx Try", "Axy", {.nm = 1, .nn = 1, .nk = 1, .trans_a = true, .out_acc = true}}};
    const int64_t sizes[3] = {rows, dim[0], dim[1]};
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        if (!strncmp(like->variant, forms[f].name, 2)) {
            mt_grid_make(MT_OP_matmul, &forms[f].attr, forms[f].in, forms[f].out, like->type, sizes, c);
            return true;
        }
    return false;
}

static bool is_gemm(const struct mt_op_shape *shape) {
    return shape->kind == MT_OP_matmul || shape->kind == MT_OP_fused_matmul;
}

static bool same_product(const struct mt_op_shape *a, const struct mt_op_shape *b) {
    return a->type == b->type && a->dim[0] == b->dim[0] && a->dim[1] == b->dim[1] &&
           !strncmp(a->variant, b->variant, 2);
}

/* Whether it is the first of the job's products of its extents with the most rows. */
static bool is_largest(const struct mt_profile_job_times *times, int shape, int nshapes) {
    const struct mt_op_shape *mine = &times->shapes[shape];
    if (!is_gemm(mine) || mine->rows < 1) return false;
    for (int s = 0; s < nshapes; s++) {
        const struct mt_op_shape *other = &times->shapes[s];
        if (!is_gemm(other) || !same_product(mine, other)) continue;
        if (other->rows > mine->rows || (other->rows == mine->rows && s < shape)) return false;
    }
    return true;
}

/* An extent of a part, a multiple of UNIT; 0: too small to be worth it. */
static int64_t part_of(int64_t extent, int parts) {
    int64_t part = extent / parts / UNIT * UNIT;
    return part < LEAST_EXTENT ? 0 : part;
}

/* ---- measuring ---- */

/* The median of some calls alone; 0: it is not served, or has no room. */
static enum mt_status time_alone(struct meter *m, const struct mt_grid_case *c, double *alone_s, struct mt_err *err) {
    double times_s[CALLS];
    *alone_s = 0;
    if (!mt_calls_serve(m->calls, c) || !mt_calls_fit(m->calls, c)) return MT_OK;
    enum mt_status st = mt_calls_queue(m->calls, m->stream, c, 1, err); /* the first chooses an algorithm */
    if (!st) st = mt_calls_wait(m->calls, m->stream, times_s, err);
    int count = !st && times_s[0] > call_s ? FEW_CALLS : CALLS;
    if (!st) st = mt_calls_queue(m->calls, m->stream, c, count, err);
    if (!st) st = mt_calls_wait(m->calls, m->stream, times_s, err);
    if (!st) *alone_s = mt_median(times_s + 1, (size_t)count - 1);
    return st;
}

/* What the shape took in the job's steps. */
static double time_in_step(const struct mt_profile_job_times *times, int shape, int nsamples) {
    double *seen = mt_malloc(((size_t)nsamples + 1) * sizeof *seen);
    size_t n = 0;
    for (int i = 0; i < nsamples; i++)
        if (times->samples[i].shape == shape) seen[n++] = times->samples[i].time_s;
    double s = n ? mt_median(seen, n) : 0;
    free(seen);
    return s;
}

/* Add a sample of a shape that the job itself has not run. */
static void add(struct meter *m, const struct mt_op_shape *shape, double time_s) {
    struct mt_profile_job_times *times = m->times;
    for (int s = 0; s < times->nshapes; s++)
        if (mt_op_shape_equal(&times->shapes[s], shape)) return;
    mt_arena_grow(&times->arena, &times->shapes, times->nshapes, &times->shapes_capacity, sizeof *times->shapes);
    times->shapes[times->nshapes++] = *shape;
    mt_arena_grow(&times->arena, &times->samples, times->nsamples, &times->samples_capacity, sizeof *times->samples);
    times->samples[times->nsamples++] = (struct mt_profile_job_sample){times->nshapes - 1, time_s};
    m->measured++;
}

/* One product: whole, as in the job's step, and each extent in `parts`. rows: of the whole batch. */
static enum mt_status measure_product(struct meter *m, int shape, int nsamples, int64_t rows, int parts,
                                      struct mt_err *err) {
    const struct mt_op_shape whole = m->times->shapes[shape];
    struct mt_grid_case c;
    double alone_s, step_s = time_in_step(m->times, shape, nsamples), start_s = mt_now_s();
    double expected_s = (CALLS + 1) * step_s * (1 + 2.0 / parts * (double)rows / (double)whole.rows);
    if (!plain_gemm(&whole, whole.rows, whole.dim, &c) || !(step_s > 0) || start_s + expected_s > m->end_s)
        return MT_OK;
    enum mt_status st = time_alone(m, &c, &alone_s, err);
    if (st || !(alone_s > 0)) return st;
    double ratio = fmin(fmax(step_s / alone_s, 1 / most_ratio), most_ratio);
    for (int d = 0; d < 2 && !st && mt_now_s() < m->end_s; d++) {
        int64_t dim[2] = {whole.dim[0], whole.dim[1]};
        dim[d] = part_of(dim[d], parts);
        if (!dim[d] || !plain_gemm(&whole, rows, dim, &c)) continue;
        if (!(st = time_alone(m, &c, &alone_s, err)) && alone_s > 0) add(m, &c.shape, ratio * alone_s);
    }
    return st;
}

static enum mt_status measure(struct meter *m, const struct mt_profile_job_probe *probe, int64_t micro, int nranks,
                              struct mt_err *err) {
    int nshapes = m->times->nshapes, nsamples = m->times->nsamples;
    enum mt_status st = mt_stream_new(m->device, "compute", &m->stream, err);
    int64_t room_bytes = (int64_t)(memory_part * (double)mt_device_memory_bytes(m->device));
    if (!st) st = mt_calls_new(m->device, room_bytes, &m->calls, err);
    for (int parts = nranks < MOST_PARTS ? nranks : MOST_PARTS; parts > 1 && !st; parts /= 2)
        for (int s = 0; s < nshapes && !st && mt_now_s() < m->end_s; s++) {
            if (!is_largest(m->times, s, nshapes)) continue;
            int64_t rows = m->times->shapes[s].rows / micro * probe->job->batch;
            st = measure_product(m, s, nsamples, rows, parts, err);
        }
    mt_calls_free(m->calls);
    mt_stream_free(m->stream);
    return st;
}

enum mt_status mt_profile_divided(MPI_Comm comm, struct mt_device *device, const struct mt_profile_job_probe *probe,
                                  int64_t micro, double budget_s, struct mt_profile_job_times *times,
                                  struct mt_err *err) {
    struct meter m = {.device = device, .times = times, .end_s = mt_now_s() + budget_s};
    int nranks;
    MPI_Comm_size(comm, &nranks);
    if (nranks < 2 || micro < 1) return MT_OK;
    double start_s = mt_now_s();
    enum mt_status st = mt_agree(comm, measure(&m, probe, micro, nranks, err), err);
    if (!st) mt_log(MT_LOG_INFO, "%s: %d products in parts: %.1f s", probe->model, m.measured, mt_now_s() - start_s);
    return st;
}
