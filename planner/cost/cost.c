/* Operators and copies by their curves; the cheapest algorithm; the memo of costs. */
#include "planner/cost/cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/hash.h"
#include "kernels/coll/nccl_unequal.h"
#include "planner/cost/internal.h"

static const double piece_s = 100e-9; /* offsets and axes of a piece, on a CPU; roughly */

static const struct mt_cluster_device *device_of(const struct mt_costs *costs, int rank) {
    return &costs->cluster->devices[costs->device[rank]];
}

static const struct mt_cluster_class *class_of(const struct mt_costs *costs, int rank) {
    return &costs->cluster->classes[device_of(costs, rank)->class];
}

/* Emulation slows operators only. */
double mt_cost_copy_s(const struct mt_costs *costs, int rank, int64_t bytes, int npieces) {
    enum { PIECES_A_LAUNCH = 16 }; /* on a GPU */
    const struct mt_cluster_device *device = device_of(costs, rank);
    const struct mt_cluster_class *class = class_of(costs, rank);
    if (!strcmp(class->kind, "cuda"))
        return (npieces + PIECES_A_LAUNCH - 1) / PIECES_A_LAUNCH * class->overhead_s +
               2 * (double)bytes / (class->memory_Bps * (class->nominal ? class->calibration : 1));
    double calibration = class->nominal && class->calibration > 0 ? class->calibration : 1;
    double Bps = class->memory_Bps * calibration * device->speed / (device->emulated > 0 ? device->emulated : 1);
    return npieces * piece_s + (Bps > 0 ? 2 * (double)bytes / Bps : 0);
}

bool mt_cost_takes_arrays(const struct mt_costs *costs, int rank, const struct mt_coll *problem) {
    if (!mt_coll_takes_arrays(problem) || strcmp(class_of(costs, rank)->kind, "cuda")) return false;
    bool even = true;
    for (int r = 1; r < problem->n; r++) even = even && problem->counts[r] == problem->counts[0];
    return problem->kind == MT_ALL_REDUCE || even || mt_nccl_impl_choose(problem) == MT_NCCL_ROOTED;
}

double mt_cost_yield_s(const struct mt_costs *costs, int rank, double sum_s, double squares_s2) {
    return sum_s > 0 && !strcmp(class_of(costs, rank)->kind, "cuda") ? squares_s2 / sum_s / 2 : 0;
}

/* ---- the memo ---- */

/* A hash table with open addressing; the key is a 64-bit hash of the arguments. */
struct entry {
    uint64_t key; /* 0: free */
    struct mt_cost cost;
};
struct mt_cost_memo {
    struct entry *entries;
    size_t count, capacity; /* a power of two */
};

struct mt_cost_memo *mt_cost_memo_new(void) {
    return mt_calloc(1, sizeof(struct mt_cost_memo));
}

void mt_cost_memo_free(struct mt_cost_memo *memo) {
    if (!memo) return;
    free(memo->entries);
    free(memo);
}

static struct entry *place_of(const struct mt_cost_memo *memo, uint64_t key) {
    size_t at = key & (memo->capacity - 1);
    while (memo->entries[at].key && memo->entries[at].key != key) at = (at + 1) & (memo->capacity - 1);
    return &memo->entries[at];
}

static void grow(struct mt_cost_memo *memo) {
    struct mt_cost_memo old = *memo;
    memo->capacity = old.capacity ? 2 * old.capacity : 256;
    memo->entries = mt_calloc(memo->capacity, sizeof *memo->entries);
    for (size_t i = 0; i < old.capacity; i++)
        if (old.entries[i].key) *place_of(memo, old.entries[i].key) = old.entries[i];
    free(old.entries);
}

/* The entry of a key, added if it is not there. */
static struct entry *entry_of(struct mt_cost_memo *memo, uint64_t key, bool *known) {
    if (4 * memo->count >= 3 * memo->capacity) grow(memo);
    struct entry *entry = place_of(memo, key ? key : 1);
    *known = entry->key != 0;
    if (*known) return entry;
    entry->key = key ? key : 1;
    memo->count++;
    return entry;
}

static struct mt_cost cost_op(const struct mt_costs *costs, int rank, const struct mt_op_shape *shape) {
    const struct mt_cluster_device *device = device_of(costs, rank);
    const struct mt_cluster_class *class = &costs->cluster->classes[device->class];
    double error, s = mt_class_op_s(class, shape, &error) / device->speed;
    return (struct mt_cost){s, hypot(error, device->speed_error), class->nominal ? MT_COST_NOMINAL : MT_COST_MEASURED};
}

struct mt_cost mt_cost_op(const struct mt_costs *costs, int rank, const struct mt_op_shape *shape) {
    if (!costs->memo) return cost_op(costs, rank, shape);
    const struct mt_cluster_device *device = device_of(costs, rank);
    int64_t what[] = {device->class, (int64_t)shape->kind, (int64_t)shape->type,
                      shape->rows,   shape->dim[0],        shape->dim[1]};
    double figures[] = {device->speed, device->speed_error, shape->flops, shape->bytes};
    uint64_t key = mt_hash64(shape->variant, strlen(shape->variant),
                             mt_hash64(figures, sizeof figures, mt_hash64(what, sizeof what, 0)));
    bool known;
    struct entry *entry = entry_of(costs->memo, key, &known);
    if (!known) entry->cost = cost_op(costs, rank, shape);
    return entry->cost;
}

static uint64_t key_of(const struct mt_costs *costs, const struct mt_coll *problem, const int *group,
                       const struct mt_coll_algorithm *algorithm) {
    size_t n = (size_t)problem->n, ncounts = (size_t)cost_ncounts(problem);
    int *devices = mt_calloc(n, sizeof *devices);
    for (size_t i = 0; i < n; i++) devices[i] = costs->device[group[i]];
    struct mt_hasher *hasher = mt_hasher_new();
    int what[] = {(int)problem->kind, (int)problem->wire, (int)problem->acc, problem->n, problem->root};
    mt_hasher_add(hasher, what, sizeof what);
    mt_hasher_add(hasher, &algorithm, sizeof algorithm);
    mt_hasher_add(hasher, devices, n * sizeof *devices);
    mt_hasher_add(hasher, problem->counts, ncounts * sizeof *problem->counts);
    if (algorithm->by_node) mt_hasher_add(hasher, problem->node, n * sizeof *problem->node);
    uint64_t hash = mt_hasher_end(hasher);
    free(devices);
    return hash;
}

struct mt_cost mt_cost_coll(const struct mt_costs *costs, const struct mt_coll *problem, const int *group,
                            const struct mt_coll_algorithm *algorithm) {
    if (!costs->memo) return mt_cost_coll_uncached(costs, problem, group, algorithm);
    bool known;
    struct entry *entry = entry_of(costs->memo, key_of(costs, problem, group, algorithm), &known);
    if (!known) entry->cost = mt_cost_coll_uncached(costs, problem, group, algorithm);
    return entry->cost;
}

/* Whether two algorithms have equal formulas for a problem, and measurements within their error bands: these differ by
 * noise. */
static bool same_cost(const struct mt_coll *problem, const struct mt_coll_algorithm *a, struct mt_cost a_cost,
                      const struct mt_coll_algorithm *b, struct mt_cost b_cost) {
    if (a_cost.basis != MT_COST_MEASURED || b_cost.basis != MT_COST_MEASURED) return false;
    return a->cost_s(problem, 1, INFINITY) == b->cost_s(problem, 1, INFINITY) &&
           a->cost_s(problem, 0, 1) == b->cost_s(problem, 0, 1) &&
           fabs(a_cost.s - b_cost.s) <= a_cost.s * a_cost.error + b_cost.s * b_cost.error;
}

bool mt_cost_offers(const struct mt_costs *costs, const int *group, int n, const struct mt_coll_algorithm *algorithm) {
    if (algorithm == mt_coll_of_nccl(algorithm->kind)) return true;
    for (int i = 0; i < n; i++) {
        const struct mt_cluster_class *class = class_of(costs, group[i]);
        if (!class->nominal && !strcmp(class->kind, "cuda")) return false;
    }
    return true;
}

const struct mt_coll_algorithm *mt_cost_choose(const struct mt_costs *costs, const struct mt_coll *problem,
                                               const int *group, struct mt_cost *cost) {
    const struct mt_coll_algorithm *best = NULL;
    struct mt_cost least = {0};
    for (int i = 0; i < mt_coll_nalgorithms; i++) {
        const struct mt_coll_algorithm *candidate = mt_coll_algorithms[i];
        if (candidate->kind != problem->kind || !candidate->applies(problem) ||
            !mt_cost_offers(costs, group, problem->n, candidate))
            continue;
        struct mt_cost found = mt_cost_coll(costs, problem, group, candidate);
        if (best && (found.s >= least.s || same_cost(problem, best, least, candidate, found))) continue;
        best = candidate, least = found;
    }
    if (cost) *cost = least;
    return best;
}
