/* Operators, copies, links, and the memory of answers. */
#include "planner/cost/cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/hash.h"
#include "kernels/coll/nccl_impl.h"
#include "planner/cost/internal.h"

static const double piece_s = 100e-9; /* finding a piece's place and walking its axes; of a CPU, roughly */

static const struct mt_cluster_device *device_of(const struct mt_costs *costs, int rank) {
    return &costs->cluster->devices[costs->device[rank]];
}

static const struct mt_cluster_class *class_of(const struct mt_costs *costs, int rank) {
    return &costs->cluster->classes[device_of(costs, rank)->class];
}

/* Emulation slows operators only. */
double mt_cost_copy_s(const struct mt_costs *costs, int rank, int64_t bytes, int npieces) {
    enum { PIECES_A_LAUNCH = 16 }; /* of a GPU */
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

static void take_slower(struct mt_path *slowest, int *slowest_link, struct mt_path path) {
    if (path.latency_s > slowest->latency_s) slowest->latency_s = path.latency_s;
    if (path.bandwidth_Bps < slowest->bandwidth_Bps) {
        slowest->bandwidth_Bps = path.bandwidth_Bps;
        *slowest_link = path.link;
    }
}

/* By kinds of link, not by pairs: pairs are as many as the square of the ranks. Pairs that have rows of their own hide
 * their link's figures only where all pairs have. */
struct mt_path mt_cost_slowest(const struct mt_costs *costs, const int *group, int n) {
    const struct mt_cluster *cluster = costs->cluster;
    struct mt_path slowest = {-1, 0, INFINITY};
    if (n < 2) return slowest;
    bool *member = mt_calloc((size_t)cluster->ndevices, sizeof *member);
    int *on_node = mt_calloc((size_t)cluster->nnodes, sizeof *on_node), nodes = 0, link = -1;
    for (int i = 0; i < n; i++) {
        int device = costs->device[group[i]];
        member[device] = true;
        nodes += on_node[cluster->devices[device].node]++ == 0;
    }
    int64_t rows = 0;
    for (int p = 0; p < cluster->npairs; p++) {
        const struct mt_cluster_pair *pair = &cluster->pairs[p];
        if (!member[pair->a] || !member[pair->b]) continue;
        rows++;
        take_slower(&slowest, &link, (struct mt_path){pair->link, pair->latency_s, pair->bandwidth_Bps});
    }
    if (rows < (int64_t)n * (n - 1) / 2) {
        for (int i = 0; i < cluster->nnodes; i++) {
            int inside = cluster->nodes[i].inside;
            if (on_node[i] < 2 || inside < 0) continue;
            const struct mt_cluster_link *l = &cluster->links[inside];
            take_slower(&slowest, &link, (struct mt_path){inside, l->latency_s, l->bandwidth_Bps});
        }
        if (nodes > 1 && cluster->network >= 0) {
            const struct mt_cluster_link *l = &cluster->links[cluster->network];
            take_slower(&slowest, &link, (struct mt_path){cluster->network, l->latency_s, l->bandwidth_Bps});
        }
    }
    slowest.link = link;
    free(member);
    free(on_node);
    return slowest;
}

int mt_cost_link(const struct mt_costs *costs, const int *group, int n) {
    return mt_cost_slowest(costs, group, n).link;
}

/* ---- answers ---- */

/* Open addressing by 64 bits of hash, which stand for the question. */
struct answer {
    uint64_t question; /* 0: free */
    struct mt_cost cost;
};
struct mt_cost_memo {
    struct answer *answers;
    size_t count, capacity; /* a power of two */
};

struct mt_cost_memo *mt_cost_memo_new(void) {
    return mt_calloc(1, sizeof(struct mt_cost_memo));
}

void mt_cost_memo_free(struct mt_cost_memo *memo) {
    if (!memo) return;
    free(memo->answers);
    free(memo);
}

static struct answer *place_of(const struct mt_cost_memo *memo, uint64_t question) {
    size_t at = question & (memo->capacity - 1);
    while (memo->answers[at].question && memo->answers[at].question != question) at = (at + 1) & (memo->capacity - 1);
    return &memo->answers[at];
}

static void grow(struct mt_cost_memo *memo) {
    struct mt_cost_memo old = *memo;
    memo->capacity = old.capacity ? 2 * old.capacity : 256;
    memo->answers = mt_calloc(memo->capacity, sizeof *memo->answers);
    for (size_t i = 0; i < old.capacity; i++)
        if (old.answers[i].question) *place_of(memo, old.answers[i].question) = old.answers[i];
    free(old.answers);
}

/* Where the answer is, or goes. */
static struct answer *answer_to(struct mt_cost_memo *memo, uint64_t question, bool *known) {
    if (4 * memo->count >= 3 * memo->capacity) grow(memo);
    struct answer *answer = place_of(memo, question ? question : 1);
    *known = answer->question != 0;
    if (*known) return answer;
    answer->question = question ? question : 1;
    memo->count++;
    return answer;
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
    uint64_t question = mt_hash64(shape->variant, strlen(shape->variant),
                                  mt_hash64(figures, sizeof figures, mt_hash64(what, sizeof what, 0)));
    bool known;
    struct answer *answer = answer_to(costs->memo, question, &known);
    if (!known) answer->cost = cost_op(costs, rank, shape);
    return answer->cost;
}

static uint64_t question_of(const struct mt_costs *costs, const struct mt_coll *problem, const int *group,
                            const struct mt_coll_algorithm *algorithm) {
    size_t n = (size_t)problem->n, ncounts = problem->kind == MT_ALL_TO_ALL ? n * n : n;
    int *devices = mt_calloc(n, sizeof *devices);
    for (size_t i = 0; i < n; i++) devices[i] = costs->device[group[i]];
    struct mt_hasher *hasher = mt_hasher_new();
    int what[] = {(int)problem->kind, (int)problem->wire, (int)problem->acc, problem->n, problem->root};
    mt_hasher_add(hasher, what, sizeof what);
    mt_hasher_add(hasher, &algorithm, sizeof algorithm);
    mt_hasher_add(hasher, devices, n * sizeof *devices);
    mt_hasher_add(hasher, problem->counts, ncounts * sizeof *problem->counts);
    uint64_t hash = mt_hasher_end(hasher);
    free(devices);
    return hash;
}

struct mt_cost mt_cost_coll(const struct mt_costs *costs, const struct mt_coll *problem, const int *group,
                            const struct mt_coll_algorithm *algorithm) {
    if (!costs->memo) return mt_cost_coll_uncached(costs, problem, group, algorithm);
    bool known;
    struct answer *answer = answer_to(costs->memo, question_of(costs, problem, group, algorithm), &known);
    if (!known) answer->cost = mt_cost_coll_uncached(costs, problem, group, algorithm);
    return answer->cost;
}

/* Whether the formulas of two algorithms are the same for a problem, and what was measured differs by no more than
 * their bands: then it is noise that differs. */
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
