/* Operators and copies by their curves; the cheapest algorithm; the memo of costs. */
#include "planner/cost/cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/hash.h"
#include "kernels/coll/nccl_nodes.h"
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

bool mt_cost_wire_sums(const struct mt_costs *costs, int rank) {
    return !strcmp(class_of(costs, rank)->kind, "cuda");
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

/* Rates are those of the class, without its calibration. A measured class may read faster than its memory, from
 * caches, so that its bytes bound nothing. */
static double floor_of_op(const struct mt_cluster_class *class, const struct mt_op_shape *shape) {
    double flops = class->flops[shape->type], floor_s = flops > 0 ? shape->flops / flops : 0;
    if (class->nominal && class->memory_Bps > 0) floor_s = fmax(floor_s, shape->bytes / class->memory_Bps);
    return floor_s;
}

static struct mt_cost cost_op(const struct mt_costs *costs, int rank, const struct mt_op_shape *shape) {
    const struct mt_cluster_device *device = device_of(costs, rank);
    const struct mt_cluster_class *class = &costs->cluster->classes[device->class];
    double error, s = mt_class_op_s(class, shape, &error) / device->speed;
    return (struct mt_cost){.s = s,
                            .error = hypot(error, device->speed_error),
                            .basis = class->nominal ? MT_COST_NOMINAL : MT_COST_MEASURED,
                            .floor_s = fmin(floor_of_op(class, shape) / device->speed, s)};
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
    struct cost_entry *entry = mt_cost_memo_entry(costs->memo, key, &known);
    if (!known) entry->cost = cost_op(costs, rank, shape);
    return entry->cost;
}

static uint64_t key_of(const struct cost_group *g, const struct mt_coll *problem,
                       const struct mt_coll_algorithm *algorithm) {
    uint64_t what[] = {(uintptr_t)g,           (uintptr_t)algorithm,   (uint64_t)problem->kind, (uint64_t)problem->wire,
                       (uint64_t)problem->acc, (uint64_t)problem->root};
    return mt_hash64(problem->counts, (size_t)cost_ncounts(problem) * sizeof *problem->counts,
                     mt_hash64(what, sizeof what, 0));
}

struct mt_cost mt_cost_coll(const struct mt_costs *costs, const struct mt_coll *problem, const int *group,
                            const struct mt_coll_algorithm *algorithm) {
    struct mt_costs own = mt_cost_memo_borrow(costs);
    struct cost_group *g = mt_cost_group_of(&own, group, problem->n);
    struct mt_coll here = *problem;
    here.node = mt_cost_group_nodes(g);
    bool known;
    uint64_t key = key_of(g, problem, algorithm);
    struct mt_cost cost = mt_cost_memo_entry(own.memo, key, &known)->cost;
    if (!known) {
        cost = mt_cost_coll_uncached(own.memo, g, &here, algorithm);
        mt_cost_memo_entry(own.memo, key, &known)->cost = cost; /* entries have moved */
    }
    mt_cost_memo_return(costs, &own);
    return cost;
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

static bool offers(const struct cost_group *g, const struct mt_coll_algorithm *algorithm) {
    return !g->nccl || mt_nccl_runs(algorithm);
}

bool mt_cost_offers(const struct mt_costs *costs, const int *group, int n, const struct mt_coll_algorithm *algorithm) {
    struct mt_costs own = mt_cost_memo_borrow(costs);
    bool offered = offers(mt_cost_group_of(&own, group, n), algorithm);
    mt_cost_memo_return(costs, &own);
    return offered;
}

const struct mt_coll_algorithm *mt_cost_choose(const struct mt_costs *costs, const struct mt_coll *problem,
                                               const int *group, struct mt_cost *cost) {
    const struct mt_coll_algorithm *best = NULL;
    struct mt_cost least = {0};
    struct mt_costs own = mt_cost_memo_borrow(costs);
    struct mt_coll here = *problem;
    const struct cost_group *g = mt_cost_group_of(&own, group, problem->n);
    here.node = mt_cost_group_nodes(g);
    for (int i = 0; i < mt_coll_nalgorithms; i++) {
        const struct mt_coll_algorithm *candidate = mt_coll_algorithms[i];
        if (candidate->kind != problem->kind || !candidate->applies(&here) || !offers(g, candidate)) continue;
        struct mt_cost found = mt_cost_coll(&own, &here, group, candidate);
        if (best && (found.s >= least.s || same_cost(&here, best, least, candidate, found))) continue;
        best = candidate, least = found;
    }
    mt_cost_memo_return(costs, &own);
    if (cost) *cost = least;
    return best;
}
