/* The table of algorithms, and the making of schedules. */
#include "kernels/coll/coll.h"

#include <assert.h>
#include <string.h>

#include "kernels/coll/internal.h"

#define MT_COLL_ALGORITHM(kind, name, prefix, by_node)                                                                 \
    static const struct mt_coll_algorithm prefix = {                                                                   \
        name, kind, by_node, mt_##prefix##_applies, mt_##prefix##_schedule, mt_##prefix##_cost_s};
#include "kernels/coll/algorithms.def"
#undef MT_COLL_ALGORITHM

const struct mt_coll_algorithm *const mt_coll_algorithms[] = {
#define MT_COLL_ALGORITHM(kind, name, prefix, by_node) &prefix,
#include "kernels/coll/algorithms.def"
#undef MT_COLL_ALGORITHM
};
const int mt_coll_nalgorithms = sizeof mt_coll_algorithms / sizeof *mt_coll_algorithms;

const char *mt_coll_name(enum mt_coll_kind kind) {
    static const char *const names[MT_NCOLLS] = {[MT_ALL_REDUCE] = "AllReduce",
                                                 [MT_REDUCE_SCATTER] = "ReduceScatter",
                                                 [MT_ALL_GATHER] = "AllGather",
                                                 [MT_BROADCAST] = "Broadcast",
                                                 [MT_ALL_TO_ALL] = "AllToAll"};
    assert(kind < MT_NCOLLS);
    return names[kind];
}

const struct mt_coll_algorithm *mt_coll_find(enum mt_coll_kind kind, const char *name) {
    for (int i = 0; i < mt_coll_nalgorithms; i++)
        if (mt_coll_algorithms[i]->kind == kind && !strcmp(mt_coll_algorithms[i]->name, name))
            return mt_coll_algorithms[i];
    return NULL;
}

const struct mt_coll_algorithm *mt_coll_of_nccl(enum mt_coll_kind kind) {
    static const char *const names[MT_NCOLLS] = {[MT_ALL_REDUCE] = "ring",
                                                 [MT_REDUCE_SCATTER] = "ring",
                                                 [MT_ALL_GATHER] = "ring",
                                                 [MT_BROADCAST] = "chain",
                                                 [MT_ALL_TO_ALL] = "direct"};
    return mt_coll_find(kind, names[kind]);
}

const struct mt_coll_algorithm *mt_coll_choose(const struct mt_coll *problem, double latency_s, double bandwidth_Bps) {
    const struct mt_coll_algorithm *best = NULL;
    double best_s = 0;
    for (int i = 0; i < mt_coll_nalgorithms; i++) {
        const struct mt_coll_algorithm *candidate = mt_coll_algorithms[i];
        if (candidate->kind != problem->kind || candidate->by_node || !candidate->applies(problem)) continue;
        double cost_s = candidate->cost_s(problem, latency_s, bandwidth_Bps);
        if (!best || cost_s < best_s) best = candidate, best_s = cost_s;
    }
    assert(best);
    return best;
}

void mt_schedule_release(struct mt_schedule *schedule) {
    mt_arena_release(&schedule->arena);
    *schedule = (struct mt_schedule)MT_SCHEDULE_INIT;
}

void mt_schedule_add(struct mt_schedule *schedule, struct mt_step step) {
    assert(step.count >= 0 && step.offset >= 0);
    if (!step.count) return;
    mt_arena_grow(&schedule->arena, &schedule->steps, schedule->nsteps, &schedule->steps_capacity, sizeof step);
    schedule->steps[schedule->nsteps++] = step;
}

void mt_schedule_end_round(struct mt_schedule *schedule) {
    int begin = schedule->nrounds ? schedule->round_end[schedule->nrounds - 1] : 0;
    if (begin == schedule->nsteps) return;
    mt_arena_grow(&schedule->arena, &schedule->round_end, schedule->nrounds, &schedule->rounds_capacity, sizeof(int));
    schedule->round_end[schedule->nrounds++] = schedule->nsteps;
}

void mt_step_send(struct mt_schedule *schedule, int peer, int64_t offset, int64_t count) {
    mt_schedule_add(schedule, (struct mt_step){MT_STEP_SEND, .peer = peer, .offset = offset, .count = count});
}

void mt_step_recv(struct mt_schedule *schedule, int peer, int64_t offset, int64_t count) {
    mt_schedule_add(schedule, (struct mt_step){MT_STEP_RECV, .peer = peer, .offset = offset, .count = count});
}

void mt_step_reduce(struct mt_schedule *schedule, int peer, int64_t offset, int64_t count) {
    mt_schedule_add(schedule, (struct mt_step){MT_STEP_REDUCE, .peer = peer, .offset = offset, .count = count});
}

void mt_round_to_wire(const struct mt_coll *problem, struct mt_schedule *schedule, int64_t offset, int64_t count) {
    if (problem->wire == problem->acc) return;
    mt_schedule_end_round(schedule);
    mt_schedule_add(schedule, (struct mt_step){MT_STEP_ROUND, .offset = offset, .count = count});
    mt_schedule_end_round(schedule);
}

int64_t *mt_coll_starts(const struct mt_coll *problem, struct mt_schedule *schedule) {
    int64_t *starts = mt_new(&schedule->arena, int64_t, problem->n + 1);
    for (int r = 0; r < problem->n; r++) starts[r + 1] = starts[r] + problem->counts[r];
    return starts;
}

int64_t mt_coll_total(const struct mt_coll *problem) {
    int64_t total = 0;
    for (int r = 0; r < problem->n; r++) total += problem->counts[r];
    return total;
}

int64_t mt_coll_largest(const struct mt_coll *problem) {
    int64_t largest = 0;
    for (int r = 0; r < problem->n; r++)
        if (problem->counts[r] > largest) largest = problem->counts[r];
    return largest;
}

int mt_coll_nonzero(const struct mt_coll *problem) {
    int nonzero = 0;
    for (int r = 0; r < problem->n; r++) nonzero += problem->counts[r] > 0;
    return nonzero;
}

double mt_coll_seconds(const struct mt_coll *problem, int peers, int64_t count, double latency_s,
                       double bandwidth_Bps) {
    return peers * latency_s + (double)(count * mt_type_size(problem->wire)) / bandwidth_Bps;
}

int mt_log2_ceil(int n) {
    int bits = 0;
    while (1 << bits < n) bits++;
    return bits;
}
