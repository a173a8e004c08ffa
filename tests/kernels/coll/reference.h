/* Collective problems with known answers, for every way to run them: inputs are random numbers indexed by (rank,
 * element), and results are checked element by element against sums made here in f64. */
#ifndef MT_TESTS_KERNELS_COLL_REFERENCE_H
#define MT_TESTS_KERNELS_COLL_REFERENCE_H

#include "kernels/base/number/rng.h"
#include "kernels/comm/comm.h"
#include "tests/check.h"

static const uint64_t reference_seed = 20261120;

struct reference_types {
    enum mt_type wire, acc;
    double unit; /* of the wire's rounding */
};
static const struct reference_types reference_types[] = {
    {MT_F64, MT_F64, 0x1p-53},  {MT_F32, MT_F32, 0x1p-24}, {MT_BF16, MT_F32, 0x1p-8},
    {MT_BF16, MT_BF16, 0x1p-8}, {MT_F32, MT_F64, 0x1p-24}, {MT_F16, MT_F32, 0x1p-11},
};
enum { REFERENCE_NTYPES = sizeof reference_types / sizeof *reference_types };

static inline double reference_unit(const struct mt_coll *problem) {
    for (int t = 0; t < REFERENCE_NTYPES; t++)
        if (reference_types[t].wire == problem->wire && reference_types[t].acc == problem->acc)
            return reference_types[t].unit;
    return 0; /* integers */
}

/* What rounding to the wire's type loses of `magnitude`; small numbers of f16 have steps of 2^-24. */
static inline double reference_slack(const struct mt_coll *problem, double magnitude) {
    return reference_unit(problem) * magnitude + (problem->wire == MT_F16 ? 0x1p-25 : 0);
}

/* Element i of what rank r puts in, as the working type holds it. */
static inline double reference_value(const struct mt_coll *problem, int r, int64_t i) {
    double held, value = 2 * mt_random_uniform(reference_seed, (uint64_t)r, (uint64_t)i) - 1;
    if (problem->acc == MT_I32) return (double)(int64_t)(1e9 * value);
    mt_type_store(problem->acc, &held, 0, value);
    return mt_type_load(problem->acc, &held, 0);
}

/* Counts in several shapes: even, ragged with zeros, one owner, nothing at all. */
enum { REFERENCE_NSHAPES = 5 };
static inline void reference_counts(int shape, int n, int cells, int64_t scale, int64_t *counts) {
    for (int i = 0; i < cells; i++) {
        int64_t random = (int64_t)mt_random_below(reference_seed, 1000 + (uint64_t)shape, (uint64_t)(i * 31 + n), 100);
        switch (shape) {
        case 0: counts[i] = scale; break;
        case 1: counts[i] = random < 30 ? 0 : random * scale / 50; break;
        case 2: counts[i] = i == (n > 1 ? 1 : 0) ? scale * n : 0; break;
        case 3: counts[i] = 0; break;
        default: counts[i] = i % 2 ? 1 : scale * 2 + i; break;
        }
    }
}

/* Nodes of n ranks, numbered by first place: 8 + 4 + 2 + 1 + ..., interleaved over two and over three, at random, and
 * all single but the last two. */
enum { REFERENCE_NMAPS = 6 };
static inline void reference_nodes(int map, int n, int *node) {
    int number[64], nnodes = 0;
    for (int i = 0; i < 64; i++) number[i] = -1;
    for (int p = 0; p < n; p++) {
        int of = p % 3;
        switch (map) {
        case 0: of = p < 8 ? 0 : p < 12 ? 1 : p < 14 ? 2 : p - 11; break;
        case 1: of = p % 2; break;
        case 2: break;
        case 3: of = (int)mt_random_below(reference_seed, 2000, (uint64_t)(p * 31 + n), 4); break;
        case 4: of = p * 2 / n; break;
        default: of = p < n - 1 ? p : n - 2 < 0 ? 0 : n - 2; break;
        }
        if (number[of] < 0) number[of] = nnodes++;
        node[p] = number[of];
    }
}

static inline int64_t reference_start(const struct mt_coll *problem, int block) {
    int64_t start = 0;
    for (int r = 0; r < block; r++) start += problem->counts[r];
    return start;
}

static inline int64_t reference_row(const struct mt_coll *p, int r, int to) { /* where r's block for `to` begins */
    int64_t start = 0;
    for (int c = 0; c < to; c++) start += p->counts[r * p->n + c];
    return start;
}

/* Elements of buffer 0 or 1 of rank `me`. */
static inline int64_t reference_size(const struct mt_coll *p, int buffer) {
    if (p->kind != MT_ALL_TO_ALL) return buffer ? 0 : reference_start(p, p->n);
    if (!buffer) return reference_row(p, p->me, p->n);
    int64_t size = 0;
    for (int r = 0; r < p->n; r++) size += p->counts[r * p->n + p->me];
    return size;
}

/* What rank `me` has before; what others will bring is poisoned. */
static inline void reference_fill(const struct mt_coll *p, void *buffer, void *received) {
    int64_t own = p->kind == MT_ALL_GATHER ? reference_start(p, p->me) : 0, size = reference_size(p, 0);
    int64_t end = p->kind == MT_ALL_GATHER ? own + p->counts[p->me] : size;
    if (p->kind == MT_BROADCAST && p->me != p->root) end = 0;
    memset(buffer, 0xff, (size_t)(size * mt_type_size(p->acc)));
    for (int64_t i = own; i < end; i++) mt_type_store(p->acc, buffer, i, reference_value(p, p->me, i));
    if (p->kind == MT_ALL_TO_ALL) memset(received, 0xff, (size_t)(reference_size(p, 1) * mt_type_size(p->acc)));
}

static inline void reference_check_moved(const struct mt_coll *p, const void *data, int64_t at, int from, int64_t first,
                                         int64_t count, const char *name) {
    for (int64_t i = 0; i < count; i++) {
        double got = mt_type_load(p->acc, data, at + i), want = reference_value(p, from, first + i);
        CHECK(fabs(got - want) <= reference_slack(p, fabs(want)), "%s n %d root %d: rank %d, element %lld: %g, not %g",
              name, p->n, p->root, p->me, (long long)(at + i), got, want);
    }
}

static inline void reference_check_reduced(const struct mt_coll *p, const void *data, int64_t begin, int64_t end,
                                           const char *name) {
    for (int64_t i = begin; i < end; i++) {
        double sum = 0, most = -INFINITY, magnitude = 0;
        for (int r = 0; r < p->n; r++) {
            double value = reference_value(p, r, i);
            sum += value, magnitude += fabs(value);
            if (value > most) most = value;
        }
        double want = p->reduce == MT_SUM ? sum : most, got = mt_type_load(p->acc, data, i);
        double slack = p->reduce == MT_SUM ? p->n * reference_slack(p, magnitude) : reference_slack(p, fabs(want));
        CHECK(fabs(got - want) <= slack, "%s n %d, %s in %s: rank %d, element %lld: %.17g, not %.17g", name, p->n,
              mt_type_name(p->wire), mt_type_name(p->acc), p->me, (long long)i, got, want);
    }
}

/* Every element that rank `me` must have afterwards. */
static inline void reference_check(const struct mt_coll *p, const void *buffer, const void *received,
                                   const char *name) {
    int64_t size = reference_size(p, 0), own = p->kind == MT_REDUCE_SCATTER ? reference_start(p, p->me) : 0, at = 0;
    switch (p->kind) {
    case MT_ALL_REDUCE: reference_check_reduced(p, buffer, 0, size, name); break;
    case MT_REDUCE_SCATTER: reference_check_reduced(p, buffer, own, own + p->counts[p->me], name); break;
    case MT_BROADCAST: reference_check_moved(p, buffer, 0, p->root, 0, size, name); break;
    case MT_ALL_GATHER:
        for (int r = 0; r < p->n; at += p->counts[r++]) reference_check_moved(p, buffer, at, r, at, p->counts[r], name);
        break;
    case MT_ALL_TO_ALL:
        for (int r = 0; r < p->n; r++) {
            int64_t count = p->counts[r * p->n + p->me];
            reference_check_moved(p, received, at, r, reference_row(p, r, p->me), count, name);
            at += count;
        }
        break;
    case MT_NCOLLS: CHECK(0, "kind"); break;
    }
}

/* Run an algorithm among `group`, of whose places this process is problem->me, and check it; free both buffers. */
static inline void reference_run(struct mt_comm *comm, const struct mt_coll_algorithm *algorithm,
                                 const struct mt_coll *problem, const int *group, int tag, void *buffer[2]) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_schedule schedule = MT_SCHEDULE_INIT;
    size_t acc = (size_t)mt_type_size(problem->acc);
    for (int b = 0; b < 2; b++) buffer[b] = malloc((size_t)reference_size(problem, b) * acc + 1);
    reference_fill(problem, buffer[0], buffer[1]);
    algorithm->schedule(problem, &schedule);
    CHECK_OK(mt_comm_run(comm, problem, &schedule, group, buffer, tag, 60, &err), err);
    reference_check(problem, buffer[0], buffer[1], algorithm->name);
    mt_schedule_release(&schedule);
}

/* Whether all ranks must end with the same bits. */
static inline int reference_replicates(enum mt_coll_kind kind) {
    return kind == MT_ALL_REDUCE || kind == MT_ALL_GATHER || kind == MT_BROADCAST;
}

#endif
