/* Hierarchical collectives on described nodes, with devices in any order: an AllReduce of 256 MiB takes at most 1.25
 * times what the network needs, 2 (N - 1)/N of the message in and out of each of N nodes; and mt_cost_choose takes an
 * algorithm that does. What the network needs is computed here, from nodes and blocks. A ReduceScatter or AllGather in
 * even blocks gives nodes of 8, 4 and 2 ranks unequal blocks: the ring of nodes then takes as long as the longest. */
#include "kernels/base/number/rng.h"
#include "planner/cost/cost.h"
#include "profiler/describe/describe.h"
#include "tests/check.h"

enum { SEED = 20261123, MOST = 64 };
static const double most = 1.25, most_of_unequal = 1.45;

enum order { DOCUMENT, REVERSED, INTERLEAVED, SHUFFLED, NORDERS = SHUFFLED + 4 };
static const char *const order_names[] = {"document", "reversed", "interleaved", "shuffled"};

/* Devices in an order; and the node of each place, numbered by first place. */
static void arrange(const struct mt_cluster *c, int order, int *device, int *node) {
    int n = c->ndevices, number[MOST], nnodes = 0, at = 0;
    for (int i = 0; i < n; i++) device[i] = order == REVERSED ? n - 1 - i : i;
    for (int turn = 0; order == INTERLEAVED && turn < n; turn++) /* the turn-th device of each node */
        for (int j = 0; j < c->nnodes; j++)
            for (int d = 0, seen = 0; d < n; d++)
                if (c->devices[d].node == j && seen++ == turn) device[at++] = d;
    for (int i = n - 1; i > 0 && order >= SHUFFLED; i--) {
        int j = (int)mt_random_below(SEED, (uint64_t)order, (uint64_t)i, (uint64_t)i + 1), kept = device[i];
        device[i] = device[j], device[j] = kept;
    }
    for (int j = 0; j < c->nnodes; j++) number[j] = -1;
    for (int i = 0; i < n; i++) {
        int *of = &number[c->devices[device[i]].node];
        if (*of < 0) *of = nnodes++;
        node[i] = *of;
    }
}

/* Seconds that the busiest node's network needs at least: AllReduce 2 (N - 1)/N of the message, Broadcast all of it;
 * ReduceScatter and AllGather the blocks of all other nodes out, or in. */
static double network_s(const struct mt_cluster *c, enum mt_coll_kind kind, int64_t bytes) {
    const struct mt_cluster_link *net = &c->links[c->network];
    double rate_Bps = net->shared_Bps > 0 ? net->shared_Bps : net->bandwidth_Bps, n = c->nnodes;
    double part = kind == MT_ALL_REDUCE ? 2 * (n - 1) / n : 1;
    int smallest = c->ndevices, of[MOST] = {0};
    for (int d = 0; d < c->ndevices; d++) of[c->devices[d].node]++;
    for (int j = 0; j < c->nnodes; j++)
        if (of[j] < smallest) smallest = of[j];
    if (kind == MT_REDUCE_SCATTER || kind == MT_ALL_GATHER) part = 1 - (double)smallest / c->ndevices;
    return part * (double)bytes / rate_Bps;
}

static double trial(const struct mt_cluster *c, const char *text, enum mt_coll_kind kind, int order, int64_t bytes) {
    int device[MOST], node[MOST], group[MOST], n = c->ndevices;
    int64_t counts[MOST];
    arrange(c, order, device, node);
    for (int i = 0; i < n; i++) counts[i] = bytes / 4 / n, group[i] = i;
    struct mt_costs costs = {.cluster = c, .nranks = n, .device = device};
    struct mt_coll problem = {.kind = kind,
                              .reduce = mt_coll_reduces(kind) ? MT_SUM : MT_REDUCE_NONE,
                              .wire = MT_F32,
                              .acc = MT_F32,
                              .n = n,
                              .counts = counts,
                              .node = node};
    struct mt_cost cost;
    const struct mt_coll_algorithm *chosen = mt_cost_choose(&costs, &problem, group, &cost);
    double own_s =
        mt_cost_schedule_s(&costs, &problem, group,
                           mt_coll_find(kind, kind == MT_BROADCAST ? "hierarchical_chain" : "hierarchical_pipeline"));
    double least_s = network_s(c, kind, bytes);
    if (getenv("SHOW"))
        printf("%-45s %-13s %-11s %6.1f MiB: hierarchical %.3f, %s %.3f of the network's %.3g ms\n", text,
               mt_coll_name(kind), order_names[order < SHUFFLED ? order : SHUFFLED], (double)bytes / 0x1p20,
               own_s / least_s, chosen->name, cost.s / least_s, 1e3 * least_s);
    CHECK(cost.s <= own_s * (1 + 1e-9), "%s: chose %s", text, chosen->name);
    return own_s / least_s;
}

/* GPUs that were measured run what NCCL runs: in phases, as groups of its calls (kernels/coll/nccl_nodes.h). */
static void test_measured(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_cluster *c;
    CHECK_OK(mt_cluster_describe("h100:2x8 net=100G", NULL, &c, &err), err);
    for (int k = 0; k < c->nclasses; k++) c->classes[k].nominal = false;
    for (int order = DOCUMENT; order < NORDERS; order++) {
        int device[MOST], node[MOST], group[MOST];
        int64_t counts[MOST];
        arrange(c, order, device, node);
        for (int i = 0; i < c->ndevices; i++) counts[i] = 4 << 20, group[i] = i;
        struct mt_costs costs = {.cluster = c, .nranks = c->ndevices, .device = device};
        struct mt_coll problem = {MT_ALL_REDUCE, MT_SUM, MT_F32, MT_F32, c->ndevices, 0, 0, counts, false, node};
        for (problem.kind = MT_ALL_REDUCE; problem.kind <= MT_ALL_GATHER; problem.kind++) {
            problem.reduce = mt_coll_reduces(problem.kind) ? MT_SUM : MT_REDUCE_NONE;
            CHECK_TEXT(mt_cost_choose(&costs, &problem, group, NULL)->name, "hierarchical");
        }
    }
    mt_cluster_free(c);
}

int main(void) {
    test_measured();
    static const char *const clusters[] = {"h100:1x8 net=100G + h100:1x4 + h100:1x2",
                                           "h100:4x8 net=100G",
                                           "a100-80:1x8 net=100G + a100-40:1x4 + v100:1x2",
                                           "v100:4x8 net=100G",
                                           "h100:2x8 net=100G",
                                           "h100:8x2 net=100G"};
    for (size_t t = 0; t < sizeof clusters / sizeof *clusters; t++) {
        struct mt_err err = MT_ERR_INIT;
        struct mt_cluster *c;
        CHECK_OK(mt_cluster_describe(clusters[t], NULL, &c, &err), err);
        for (int order = DOCUMENT; order < NORDERS; order++)
            for (int kind = MT_ALL_REDUCE; kind <= MT_BROADCAST; kind++) {
                double ratio = trial(c, clusters[t], (enum mt_coll_kind)kind, order, INT64_C(256) << 20);
                bool blocks = kind == MT_REDUCE_SCATTER || kind == MT_ALL_GATHER, unequal = strchr(clusters[t], '+');
                double limit = blocks && unequal ? most_of_unequal : most;
                CHECK(ratio <= limit, "%s, %s, order %d: %g of what the network needs", clusters[t],
                      mt_coll_name((enum mt_coll_kind)kind), order, ratio);
            }
        mt_cluster_free(c);
    }
    return 0;
}
