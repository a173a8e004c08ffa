/* The grid of operators (profiler/measure/grid.def), on all devices concurrently.
 *
 * The expected time of each case follows from a quick measurement of one GEMM for each type. Cases that would take too
 * much of the budget are left out, except the smallest of each row and type. */
#include <math.h>

#include "profiler/probes/internal.h"

static const double largest_part = 1.0 / 50, filled_part = 0.7;
enum { LEAST_ROUNDS = 4 }; /* with the first, untimed call */

struct probe {
    struct mt_profile *profile;
    int ncases;
    struct mt_grid_case *cases;
    struct mt_samples *series;
};

static enum mt_status run(struct probe *probe, const struct mt_grid_case *k, int count, double *times_s,
                          struct mt_err *err) {
    enum mt_status st = mt_calls_queue(probe->profile->calls, probe->profile->compute, k, count, err);
    return st ? st : mt_calls_wait(probe->profile->calls, probe->profile->compute, times_s, err);
}

static enum mt_status once(void *context, int which, double slot_s, struct mt_err *err) {
    struct probe *probe = context;
    struct mt_samples *series = &probe->series[which];
    double times_s[MT_MOST_CALLS], start_s = mt_now_s();
    enum mt_status st;
    if (!series->count && (st = run(probe, &probe->cases[which], 1, times_s, err))) return st; /* compiles kernels */
    do {
        double each_s = series->count ? series->values[series->count - 1] : times_s[0];
        double left_s = slot_s - (mt_now_s() - start_s);
        int count = (int)fmin(fmax(left_s / each_s, 1), MT_MOST_CALLS);
        bool short_ones = count > 3; /* then the first, which wakes the stream, is not counted */
        if ((st = run(probe, &probe->cases[which], count, times_s, err))) return st;
        for (int i = short_ones; i < count; i++) mt_samples_add(series, times_s[i]);
    } while (mt_now_s() - start_s < 0.5 * slot_s);
    return MT_OK;
}

/* Rough time of a case on the slowest rank. */
static double expected_s(const struct mt_profile *p, const struct mt_grid_case *k) {
    double rate = p->flops[k->shape.type == MT_I32 ? MT_F32 : k->shape.type];
    bool gemm = k->shape.kind == MT_OP_matmul || k->shape.kind == MT_OP_fused_matmul;
    return 5e-6 + k->shape.flops / (gemm ? rate : 0.3 * rate) + 1.5 * k->shape.bytes / p->memory_Bps;
}

static enum mt_status measure_rates(struct probe *probe, struct mt_err *err) {
    enum { CALLS = 3 };
    double slowest_s[MT_NTYPES] = {0}, flops = 1;
    bool served[MT_NTYPES] = {false};
    const int64_t n = probe->profile->gpu ? 2048 : 256, sizes[3] = {n, n, n};
    enum mt_status st = MT_OK;
    for (int t = 0; t < mt_grid_ntypes && !st; t++) {
        enum mt_type type = mt_grid_types[t];
        struct mt_grid_case k;
        double times_s[CALLS];
        mt_grid_make(MT_OP_matmul, &(struct mt_attr){.nm = 1, .nn = 1, .nk = 1}, "Try Tyx", "Trx", type, sizes, &k);
        flops = k.shape.flops;
        if (!(served[type] = mt_calls_serve(probe->profile->calls, &k))) continue;
        if ((st = run(probe, &k, CALLS, times_s, err))) break;
        slowest_s[type] = mt_quantile(times_s, CALLS, 0);
    }
    st = mt_exchange_agree(probe->profile->exchange, st, err);
    if (!st) st = mt_exchange_max(probe->profile->exchange, slowest_s, MT_NTYPES, err);
    for (int t = 0; t < MT_NTYPES && !st; t++)
        if (served[t]) probe->profile->flops[t] = flops / slowest_s[t];
    return st;
}

/* Drop cases without an implementation. GPUs of one job may differ, but not in this: all ranks drop the same cases. */
static void leave_unserved(struct probe *probe) {
    int kept = 0;
    for (int i = 0; i < probe->ncases; i++)
        if (mt_calls_serve(probe->profile->calls, &probe->cases[i])) probe->cases[kept++] = probe->cases[i];
    probe->ncases = kept;
}

/* Drop the longest cases until the rest fits the budget; the first of each row and type stays. */
static void choose(struct probe *probe, double budget_s) {
    double cap_s = largest_part * budget_s, sum_s;
    int kept;
    do {
        sum_s = 0, kept = 0;
        for (int i = 0; i < probe->ncases; i++) {
            double each_s = expected_s(probe->profile, &probe->cases[i]);
            if (each_s > cap_s && !probe->cases[i].first) continue;
            sum_s += LEAST_ROUNDS * (each_s + 20e-6);
            kept++;
        }
        cap_s *= 0.8;
    } while (sum_s > filled_part * budget_s && cap_s > 1e-6);
    cap_s /= 0.8;
    kept = 0;
    for (int i = 0; i < probe->ncases; i++) {
        const struct mt_grid_case *k = &probe->cases[i];
        if (!mt_calls_fit(probe->profile->calls, k) || (!k->first && expected_s(probe->profile, k) > cap_s)) continue;
        probe->cases[kept++] = *k;
    }
    probe->ncases = kept;
}

enum mt_status mt_probe_compute(struct mt_profile *p, double budget_s, struct mt_err *err) {
    struct probe probe = {.profile = p};
    enum mt_status st = measure_rates(&probe, err);
    probe.cases = mt_grid_cases(&p->arena, p->gpu, &probe.ncases);
    leave_unserved(&probe);
    if (!st) choose(&probe, budget_s);
    probe.series = mt_new(&p->arena, struct mt_samples, probe.ncases);
    const struct mt_measure measure = {probe.ncases, probe.series, once, &probe, "operators"};
    if (!st) st = mt_measure_run(&measure, p->exchange, budget_s, err);
    for (int i = 0; i < probe.ncases; i++) {
        for (int k = 0; k < probe.series[i].count && !st; k++)
            mt_profile_op(p, &probe.cases[i].shape, probe.series[i].values[k]);
        mt_samples_release(&probe.series[i]);
    }
    return st;
}
