/* Times of every algorithm of every collective in every kind of group, at several sizes, with even and uneven blocks.
 *
 * All ranks of a group start from a barrier, and the slowest rank's time counts. Short collectives are run several
 * times in a row, so that the skew of the barrier is negligible. Nodes measure their own groups concurrently, as in
 * training. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/coll/nccl_nodes.h"
#include "profiler/probes/internal.h"

enum { MOST_PAIR_GROUPS = 6, MOST_IN_A_ROW = 16, MOST_SAMPLES = 16, ROUNDS = 3, TAG = 2 };
static const double least_run_s = 2e-3, long_run_s = 10e-3, once_s = 0.2;

/* Bytes of all blocks on the wire: these, up to the largest that is wanted, and that one. */
static const int64_t size_ladder[] = {1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10,
                                      1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20};
enum { MOST_SIZES = sizeof size_ladder / sizeof *size_ladder, LEAST_SIZES = 5 };
static const int64_t usual_bytes[2] = {16 << 20, 256 << 20}; /* the largest where no job says: of CPUs, of GPUs */
static const int64_t most_bytes[2] = {128 << 20, 256 << 20};

/* What is measured of a size: nothing; the best algorithm of each collective that moves gradients and parameters; the
 * two best, also with uneven blocks; all algorithms that are not far worse than the best of their collective; all, also
 * with bf16, and every collective with uneven blocks. */
enum breadth { NOTHING, BEST, CORE, USEFUL, FULL };
static const double not_far_worse = 2;
/* For the largest size beyond the budget: three times the budget, but no longer than this. */
static const double beyond_budget = 3, longest_beyond_s = 20;

/* Disjoint groups are measured concurrently: in a set of groups each rank is in at most one. */
struct probe {
    struct mt_profile *profile;
    int nsets, *set_of; /* [ngroups] */
    int ncases;         /* of a set: what its largest group has */
    int *case_at;       /* [nsets * per_set]: this rank's entry in profile->colls, or -1 */
    int nsizes;
    int64_t size[MOST_SIZES + 1];
    enum breadth breadth[MOST_SIZES + 1]; /* of each size */
    double *expected_s;                   /* [ngroups][mt_coll_nalgorithms][nsizes]; 0: does not apply */
    int64_t most_bytes;                   /* of the sizes that were chosen */
    void *buffer[2];
};

/* The nodes of a group's ranks, numbered by first rank. */
static int *nodes_of(struct mt_profile *p, int n, const int *ranks) {
    int *node = mt_new(&p->arena, int, n), *number = mt_new(&p->arena, int, p->nnodes), known = 0; /* + 1 */
    for (int i = 0; i < n; i++) {
        int *of = &number[p->places[ranks[i]].node];
        if (!*of) *of = ++known;
        node[i] = *of - 1;
    }
    return node;
}

static int add_group(struct probe *probe, int set, const char *name, int n, const int *ranks) {
    struct mt_profile *p = probe->profile;
    for (int g = 0; g < p->ngroups; g++)
        if (p->groups[g].n == n && !memcmp(p->groups[g].ranks, ranks, (size_t)n * sizeof *ranks)) return g;
    mt_arena_grow(&p->arena, &p->groups, p->ngroups, &p->groups_capacity, sizeof *p->groups);
    struct mt_group *group = &p->groups[p->ngroups];
    *group = (struct mt_group){.n = n, .ranks = mt_arena_memdup(&p->arena, ranks, (size_t)n * sizeof *ranks)};
    snprintf(group->name, sizeof group->name, "%s", name);
    group->node = nodes_of(p, n, ranks);
    probe->set_of[p->ngroups] = set;
    return p->ngroups++;
}

/* The groups: all ranks; each node; and one pair of each kind (the classes of the two ranks, one node or two). */
static void make_groups(struct probe *probe) {
    struct mt_profile *p = probe->profile;
    int *ranks = mt_new(&p->arena, int, p->nranks), n, set = 0;
    char name[300];
    probe->set_of = mt_new(&p->arena, int, p->nnodes + MOST_PAIR_GROUPS + 1);
    for (int r = 0; r < p->nranks; r++) ranks[r] = r;
    add_group(probe, set++, "all", p->nranks, ranks);
    for (int node = 0; node < p->nnodes && p->nnodes > 1; node++) {
        n = 0;
        for (int r = 0; r < p->nranks; r++)
            if (p->places[r].node == node) ranks[n++] = r;
        snprintf(name, sizeof name, "node:%.250s", p->places[ranks[0]].topology.host);
        if (n > 1) add_group(probe, set, name, n, ranks);
    }
    set++;
    for (int i = 0, added = 0; i < p->npairs && added < MOST_PAIR_GROUPS; i++) {
        const struct mt_pair_times *pair = &p->pairs[i];
        int before = p->ngroups;
        bool seen = false;
        for (int k = 0; k < i && !seen; k++) {
            const struct mt_place *a = &p->places[pair->a], *b = &p->places[pair->b];
            const struct mt_place *c = &p->places[p->pairs[k].a], *d = &p->places[p->pairs[k].b];
            bool same =
                (a->class == c->class && b->class == d->class) || (a->class == d->class && b->class == c->class);
            seen = same && p->pairs[k].between == pair->between;
        }
        if (seen) continue;
        snprintf(name, sizeof name, "pair:%d-%d", pair->a, pair->b);
        add_group(probe, set, name, 2, (int[2]){pair->a, pair->b});
        set += p->ngroups > before, added++;
    }
    probe->nsets = set;
}

/* ---- cases ---- */

/* Blocks in proportion to 1, 1, ..., or if uneven to 1, 3, 1, 3, ...; none is empty, and they sum to `total`. */
static int64_t *divide(struct mt_arena *arena, enum mt_coll_kind kind, int n, int64_t total, bool uneven) {
    int64_t cells = kind == MT_ALL_TO_ALL ? (int64_t)n * n : n, *counts = mt_new(arena, int64_t, cells), sum = 0,
            at = 0;
    for (int64_t i = 0; i < cells; i++) {
        int64_t row = kind == MT_ALL_TO_ALL ? i / n : i, column = kind == MT_ALL_TO_ALL ? i % n : 0;
        counts[i] = uneven ? (row % 2 ? 3 : 1) * (column % 2 ? 3 : 1) : 1;
        sum += counts[i];
    }
    for (int64_t i = 0, weight = 0; i < cells; i++) {
        weight += counts[i];
        int64_t end = (int64_t)((double)total * (double)weight / (double)sum);
        counts[i] = end - at;
        at = end;
    }
    return counts;
}

static struct mt_coll problem_of(const struct mt_profile *p, const struct mt_coll_case *c) {
    const struct mt_group *group = &p->groups[c->group];
    struct mt_coll problem = {.kind = c->algorithm->kind, .wire = c->wire, .n = group->n};
    problem.acc = mt_coll_acc(problem.kind, c->wire, p->gpu);
    problem.counts = c->counts;
    if (mt_coll_reduces(problem.kind)) problem.reduce = MT_SUM;
    problem.node = group->node;
    while (problem.me < group->n - 1 && group->ranks[problem.me] != p->rank) problem.me++;
    return problem;
}

/* The case of a group, an algorithm and a size, with counts in `arena`; false: the algorithm does not apply. */
static bool make_case(const struct mt_profile *p, struct mt_arena *arena, int group,
                      const struct mt_coll_algorithm *algorithm, enum mt_type wire, int64_t size_bytes, bool uneven,
                      struct mt_coll_case *c) {
    *c = (struct mt_coll_case){.group = group, .algorithm = algorithm, .wire = wire};
    c->counts = divide(arena, algorithm->kind, p->groups[group].n, size_bytes / mt_type_size(wire), uneven);
    struct mt_coll problem = problem_of(p, c);
    return algorithm->applies(&problem);
}

/* Expected times of f32 in even blocks, by the slowest pair of each group, into probe->expected_s. */
static void expect(struct probe *probe) {
    struct mt_profile *p = probe->profile;
    double *to = probe->expected_s = mt_new(&p->arena, double, p->ngroups *mt_coll_nalgorithms * probe->nsizes);
    for (int g = 0; g < p->ngroups; g++) {
        double latency_s = 0, bandwidth_Bps = 1e15;
        for (int i = 0; i < p->npairs; i++) {
            int ends = 0;
            for (int k = 0; k < p->groups[g].n; k++)
                ends += p->groups[g].ranks[k] == p->pairs[i].a || p->groups[g].ranks[k] == p->pairs[i].b;
            if (ends < 2 && p->npairs > 1) continue;
            latency_s = fmax(latency_s, p->pairs[i].latency.median);
            bandwidth_Bps = fmin(bandwidth_Bps, fmin(p->pairs[i].bandwidth.median, p->pairs[i].reverse.median));
        }
        for (int a = 0; a < mt_coll_nalgorithms; a++)
            for (int size = 0; size < probe->nsizes; size++, to++) {
                struct mt_arena arena = MT_ARENA_INIT;
                struct mt_coll_case c;
                if (make_case(p, &arena, g, mt_coll_algorithms[a], MT_F32, probe->size[size], false, &c)) {
                    struct mt_coll problem = problem_of(p, &c);
                    *to = 50e-6 + 1.3 * c.algorithm->cost_s(&problem, latency_s, bandwidth_Bps);
                }
                mt_arena_release(&arena);
            }
    }
}

/* 0: the algorithm does not apply. */
static double expected_s(const struct probe *probe, int group, int algorithm, int size) {
    return probe->expected_s[(group * mt_coll_nalgorithms + algorithm) * probe->nsizes + size];
}

static bool is_core(enum mt_coll_kind kind) {
    return kind == MT_ALL_REDUCE || kind == MT_REDUCE_SCATTER || kind == MT_ALL_GATHER;
}

/* Whether the algorithm is measured at this size, by how many of its collective are expected to be faster, and by how
 * much. Those that know nodes are compared with no other: what is expected of them is as if all links were the slowest.
 */
static bool is_wanted(const struct probe *probe, int group, int algorithm, int size) {
    const struct mt_coll_algorithm *own = mt_coll_algorithms[algorithm];
    enum breadth breadth = probe->breadth[size];
    double own_s = expected_s(probe, group, algorithm, size), best_s = own_s;
    int better = 0;
    if (probe->profile->gpu && !mt_nccl_runs(own)) return false;
    if (!(own_s > 0) || breadth == NOTHING || (breadth <= CORE && !is_core(own->kind))) return false;
    if (probe->profile->gpu || breadth == FULL || own->by_node) return true;
    for (int a = 0; a < mt_coll_nalgorithms; a++) {
        const struct mt_coll_algorithm *other = mt_coll_algorithms[a];
        double other_s = expected_s(probe, group, a, size);
        if (a == algorithm || other->kind != own->kind || other->by_node || !(other_s > 0)) continue;
        better += other_s < own_s || (other_s == own_s && a < algorithm);
        best_s = fmin(best_s, other_s);
    }
    if (breadth <= CORE) return better < (breadth == CORE ? 2 : 1);
    return own_s <= not_far_worse * best_s;
}

/* The number of wire types and of divisions into blocks that are measured; f32, and even blocks, are the first. */
static int wires_of(const struct probe *probe, int algorithm, int size) {
    return probe->breadth[size] == FULL && mt_coll_reduces(mt_coll_algorithms[algorithm]->kind) ? 2 : 1;
}

static int divisions_of(const struct probe *probe, int algorithm, int size) {
    enum mt_coll_kind kind = mt_coll_algorithms[algorithm]->kind;
    enum breadth breadth = probe->breadth[size];
    bool blind = kind == MT_ALL_REDUCE || kind == MT_BROADCAST; /* to NCCL these have no blocks */
    return (breadth == FULL || (breadth >= CORE && is_core(kind))) && !(probe->profile->gpu && blind) ? 2 : 1;
}

/* Cases that take long are measured once, others in three rounds. */
static double expected_all_s(const struct probe *probe) {
    double all_s = 0;
    for (int g = 0; g < probe->profile->ngroups; g++)
        for (int a = 0; a < mt_coll_nalgorithms; a++)
            for (int s = 0; s < probe->nsizes; s++) {
                if (!is_wanted(probe, g, a, s)) continue;
                double each_s = fmax(expected_s(probe, g, a, s), least_run_s);
                all_s += wires_of(probe, a, s) * divisions_of(probe, a, s) * each_s * (each_s < once_s ? ROUNDS : 1);
            }
    return all_s;
}

static void add_cases(struct probe *probe, int group) {
    static const enum mt_type wires[] = {MT_F32, MT_BF16};
    struct mt_profile *p = probe->profile;
    for (int a = 0; a < mt_coll_nalgorithms; a++)
        for (int w = 0; w < 2; w++)
            for (int s = 0; s < probe->nsizes; s++) {
                if (!is_wanted(probe, group, a, s) || w >= wires_of(probe, a, s)) continue;
                for (int uneven = 0; uneven < divisions_of(probe, a, s); uneven++) {
                    struct mt_coll_case c;
                    const struct mt_coll_algorithm *algorithm = mt_coll_algorithms[a];
                    if (!make_case(p, &p->arena, group, algorithm, wires[w], probe->size[s], uneven, &c)) continue;
                    mt_arena_grow(&p->arena, &p->colls, p->ncolls, &p->colls_capacity, sizeof *p->colls);
                    p->colls[p->ncolls++] = c;
                }
            }
}

/* The sizes to choose from: the ladder up to the largest message of the job, and that. Equal on all ranks. */
static void choose_sizes(struct probe *probe) {
    struct mt_profile *p = probe->profile;
    int64_t wanted = p->largest_bytes > 0 ? p->largest_bytes : usual_bytes[p->gpu];
    if (wanted > most_bytes[p->gpu]) wanted = most_bytes[p->gpu];
    for (int r = 0; r < p->nranks; r++) { /* two buffers of twice that, in at most half of the memory */
        int64_t room_bytes = p->places[r].room_bytes / mt_profile_sharing(p, r) / 8;
        if (wanted > room_bytes) wanted = room_bytes;
    }
    for (int s = 0; s < MOST_SIZES; s++)
        if (s < LEAST_SIZES || 3 * size_ladder[s] <= 2 * wanted) probe->size[probe->nsizes++] = size_ladder[s];
    if (wanted > probe->size[probe->nsizes - 1]) probe->size[probe->nsizes++] = wanted / 4 * 4;
}

/* Choose the breadth of each size by the budget. The least sizes are always measured; the largest as CORE, or
 * as BEST, even if that takes beyond_s longer, else the next smaller one; those between as BEST in the same time; and
 * what the budget allows beyond, from the small sizes. */
static void choose_cases(struct probe *probe, double budget_s) {
    struct mt_profile *p = probe->profile;
    choose_sizes(probe);
    expect(probe);
    for (int s = 0; s < LEAST_SIZES; s++) probe->breadth[s] = s < LEAST_SIZES - 1 ? FULL : USEFUL;
    int last = probe->nsizes - 1;
    double beyond_s = fmin(beyond_budget * budget_s, longest_beyond_s);
    double most_s = fmax(budget_s, expected_all_s(probe) + beyond_s);
    for (; last >= LEAST_SIZES; probe->breadth[last--] = NOTHING) {
        probe->breadth[last] = CORE;
        if (expected_all_s(probe) < most_s) break;
        probe->breadth[last] = BEST;
        if (expected_all_s(probe) < most_s) break;
    }
    for (enum breadth breadth = BEST; breadth <= FULL; breadth++)
        for (int s = 0; s <= last; s++) {
            enum breadth before = probe->breadth[s];
            if (before >= breadth) continue;
            probe->breadth[s] = breadth;
            if (expected_all_s(probe) >= (breadth == BEST ? most_s : budget_s)) probe->breadth[s] = before;
        }
    for (int g = 0; g < p->ngroups; g++) add_cases(probe, g);
    for (int s = 0; s < probe->nsizes; s++)
        if (probe->breadth[s] != NOTHING) probe->most_bytes = probe->size[s];
}

/* The schedule of this rank's cases: all groups of a set go through their cases in step. */
static void schedule_cases(struct probe *probe) {
    struct mt_profile *p = probe->profile;
    int *next = mt_new(&p->arena, int, p->ngroups), *first = mt_new(&p->arena, int, probe->nsets + 1);
    for (int i = 0; i < p->ncolls; i++) next[p->colls[i].group]++;
    for (int s = 0; s < probe->nsets; s++) {
        int most = 0;
        for (int g = 0; g < p->ngroups; g++)
            if (probe->set_of[g] == s && next[g] > most) most = next[g];
        first[s + 1] = first[s] + most;
    }
    probe->ncases = first[probe->nsets];
    probe->case_at = mt_new(&p->arena, int, probe->ncases);
    for (int c = 0; c < probe->ncases; c++) probe->case_at[c] = -1;
    memset(next, 0, (size_t)p->ngroups * sizeof *next);
    for (int i = 0; i < p->ncolls; i++) {
        const struct mt_group *group = &p->groups[p->colls[i].group];
        int at = first[probe->set_of[p->colls[i].group]] + next[p->colls[i].group]++;
        for (int k = 0; k < group->n; k++)
            if (group->ranks[k] == p->rank) probe->case_at[at] = i;
    }
}

/* ---- measuring ---- */

/* The largest of the group's values, on all of its ranks. */
static enum mt_status group_max(struct mt_profile *p, const struct mt_group *group, int me, double *value,
                                struct mt_err *err) {
    int64_t *counts = mt_calloc((size_t)group->n, sizeof *counts);
    struct mt_schedule schedule = MT_SCHEDULE_INIT;
    counts[0] = 1;
    struct mt_coll problem = {MT_ALL_REDUCE, MT_MAX, MT_F64, MT_F64, group->n, me, 0, counts, false, NULL};
    mt_coll_choose(&problem, 1e-5, 1e9)->schedule(&problem, &schedule);
    enum mt_status st =
        mt_comm_run(p->comm, &problem, &schedule, group->ranks, (void *[2]){value, NULL}, TAG, p->deadline_s, err);
    mt_schedule_release(&schedule);
    free(counts);
    return st;
}

/* A series of one collective. Two roots alternate: a single root would run ahead of the other ranks. */
struct row {
    const struct mt_group *group;
    struct mt_probe_row row;
};

static enum mt_status run_queued(struct probe *probe, const struct row *row, int in_a_row, double *each_s,
                                 struct mt_err *err) {
    struct mt_profile *p = probe->profile;
    int me = row->row.problem[0].me;
    double start_s = 0;
    enum mt_status st = group_max(p, row->group, me, &start_s, err);
    if (!st) st = mt_probe_queue(p, &row->row, in_a_row, each_s, err);
    return st ? st : group_max(p, row->group, me, each_s, err);
}

static enum mt_status run_row(struct probe *probe, const struct row *row, int in_a_row, double *each_s,
                              struct mt_err *err) {
    struct mt_profile *p = probe->profile;
    double start_s = 0;
    if (p->talk) return run_queued(probe, row, in_a_row, each_s, err);
    /* A rank that is early at the first barrier may be asleep when it ends; at the second no rank is. */
    enum mt_status st = group_max(p, row->group, row->row.problem[0].me, &start_s, err);
    if (!st) st = group_max(p, row->group, row->row.problem[0].me, &start_s, err);
    start_s = mt_now_s();
    for (int i = 0; i < in_a_row && !st; i++)
        st = mt_comm_run(p->wire, &row->row.problem[i % 2], &row->row.schedule[i % 2], row->group->ranks, probe->buffer,
                         TAG, p->deadline_s, err);
    *each_s = (mt_now_s() - start_s) / in_a_row;
    return st ? st : group_max(p, row->group, row->row.problem[0].me, each_s, err);
}

static enum mt_status once(void *context, int which, double slot_s, struct mt_err *err) {
    struct probe *probe = context;
    struct mt_profile *p = probe->profile;
    if (probe->case_at[which] < 0) return MT_OK;
    const struct mt_coll_case *c = &p->colls[probe->case_at[which]];
    struct mt_samples *series = &p->coll_times[which];
    struct row row = {.group = &p->groups[c->group],
                      .row = {.problem = {problem_of(p, c), problem_of(p, c)},
                              .ranks = p->groups[c->group].ranks,
                              .buffer = probe->buffer,
                              .what = mt_coll_name(c->algorithm->kind)}};
    row.row.problem[1].root = row.group->n - 1;
    for (int i = 0; i < 2; i++) c->algorithm->schedule(&row.row.problem[i], &row.row.schedule[i]);
    double each_s;
    enum mt_status st = MT_OK;
    bool first = !series->count;
    /* The first run makes connections; its time is kept only if it is long. All ranks have the same series. */
    if (first)
        st = run_row(probe, &row, 1, &each_s, err);
    else
        each_s = series->values[series->count - 1];
    bool enough = first && !st && each_s > fmax(slot_s, long_run_s);
    if (enough) mt_samples_add(series, each_s);
    int in_a_row = st ? 1 : (int)fmin(fmax(ceil(least_run_s / each_s), 1), MOST_IN_A_ROW);
    int samples = st || enough ? 0 : (int)fmin(fmax(slot_s / (each_s * in_a_row), 1), MOST_SAMPLES);
    for (int i = 0; i < samples && !st; i++) {
        st = run_row(probe, &row, in_a_row, &each_s, err);
        if (!st) mt_samples_add(series, each_s);
    }
    for (int i = 0; i < 2; i++) mt_schedule_release(&row.row.schedule[i]);
    return st;
}

/* Reorder the series from the order of measurement to that of colls. */
static void put_in_order(struct probe *probe) {
    struct mt_profile *p = probe->profile;
    struct mt_samples *series = mt_new(&p->arena, struct mt_samples, p->ncolls);
    for (int c = 0; c < probe->ncases; c++)
        if (probe->case_at[c] >= 0) series[probe->case_at[c]] = p->coll_times[c];
    p->coll_times = series;
}

enum mt_status mt_probe_coll(struct mt_profile *p, double budget_s, struct mt_err *err) {
    struct probe probe = {.profile = p};
    make_groups(&probe);
    choose_cases(&probe, budget_s);
    schedule_cases(&probe);
    /* working buffers of bf16 sums are f32, twice as long */
    enum mt_status st = MT_OK;
    for (int b = 0; b < 2 && !st; b++) st = mt_probe_buffer(p, 2 * probe.most_bytes, &probe.buffer[b], err);
    st = mt_exchange_agree(p->exchange, st, err);
    p->coll_times = mt_new(&p->arena, struct mt_samples, probe.ncases);
    const struct mt_measure measure = {probe.ncases, p->coll_times, once, &probe, "collectives"};
    if (!st) st = mt_measure_run(&measure, p->exchange, budget_s, err);
    put_in_order(&probe);
    for (int b = 0; b < 2; b++) mt_device_free(p->device, probe.buffer[b]);
    return st;
}
