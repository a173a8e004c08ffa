/* Groups that communicate at the same time: those of one instruction. What a host sends over the network is shared by
 * the groups with members there and elsewhere, what its pairs share inside by the groups that it has whole. */
#include <stdlib.h>

#include "planner/cost/internal.h"

struct member {
    int node, group, rank;
};

static int by_node_and_group(const void *a, const void *b) {
    const struct member *x = a, *y = b;
    return x->node != y->node ? x->node - y->node : x->group != y->group ? x->group - y->group : x->rank - y->rank;
}

/* sizes[groups]: members; crosses[groups]: whether they are on several hosts. Returns how many groups there are. */
static int list_groups(const struct member *members, int n, int *sizes, bool *crosses, int *first_node) {
    int ngroups = 0;
    for (int i = 0; i < n; i++) {
        int g = members[i].group;
        if (g >= ngroups) ngroups = g + 1;
        if (!sizes[g]++) first_node[g] = members[i].node;
        crosses[g] |= first_node[g] != members[i].node;
    }
    return ngroups;
}

void mt_cost_concurrent(const struct mt_costs *costs, const int *group_of, int nranks, int *concurrent) {
    int n = nranks, *sizes = mt_calloc((size_t)n, sizeof *sizes), *node = mt_calloc((size_t)n, sizeof *node);
    int *most = mt_calloc((size_t)n, sizeof *most);
    bool *crosses = mt_calloc((size_t)n, sizeof *crosses);
    struct member *members = mt_calloc((size_t)n, sizeof *members);
    for (int r = 0; r < n; r++)
        members[r] = (struct member){costs->cluster->devices[costs->device[r]].node, group_of[r], r};
    int ngroups = list_groups(members, n, sizes, crosses, node);
    if (ngroups > 1) qsort(members, (size_t)n, sizeof *members, by_node_and_group);
    for (int i = 0, end; i < n && ngroups > 1; i = end) { /* the ranks of a node */
        int shares[2] = {0, 0};                           /* groups: inside, over the network */
        for (end = i; end < n && members[end].node == members[i].node; end++) {
            int g = members[end].group;
            bool again = end > i && members[end - 1].group == g;
            shares[crosses[g]] += sizes[g] > 1 && !again;
        }
        for (int k = i; k < end; k++) {
            int g = members[k].group;
            if (shares[crosses[g]] > most[g]) most[g] = shares[crosses[g]];
        }
    }
    for (int r = 0; r < n; r++) concurrent[r] = ngroups > 1 && sizes[group_of[r]] > 1 ? most[group_of[r]] : 1;
    free(members), free(crosses), free(most), free(node), free(sizes);
}
