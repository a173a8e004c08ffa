/* The slowest path among ranks. */
#include <math.h>
#include <stdlib.h>

#include "planner/cost/internal.h"

static void take_slower(struct mt_path *slowest, int *slowest_link, struct mt_path path) {
    if (path.latency_s > slowest->latency_s) slowest->latency_s = path.latency_s;
    if (path.bandwidth_Bps < slowest->bandwidth_Bps) {
        slowest->bandwidth_Bps = path.bandwidth_Bps;
        *slowest_link = path.link;
    }
}

/* By links, not by pairs, of which there are n^2. Rows of single pairs hide their link's figures only where all pairs
 * have rows. */
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
