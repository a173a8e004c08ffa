/* The choice of pairs to measure, and their rounds. Rounds are greedy: each pair takes the first round in which its
 * ranks, and its nodes' memory or network, are free. */
#include <stdlib.h>

#include "profiler/probes/internal.h"

enum { MOST_PAIRS = 64, PAIRS_OF_A_KIND = 8 };

static int kind_of_pair(const struct mt_profile *p, int a, int b) {
    int low = p->places[a].class, high = p->places[b].class;
    if (low > high) low = p->places[b].class, high = p->places[a].class;
    return (low * p->nclasses + high) * 2 + (p->places[a].node != p->places[b].node);
}

void mt_pairs_choose(struct mt_profile *p) {
    int64_t all = (int64_t)p->nranks * (p->nranks - 1) / 2;
    int nkinds = p->nclasses * p->nclasses * 2;
    int64_t *of_kind = mt_new(&p->arena, int64_t, nkinds), *seen = mt_new(&p->arena, int64_t, nkinds);
    for (int a = 0; a < p->nranks; a++)
        for (int b = a + 1; b < p->nranks; b++) of_kind[kind_of_pair(p, a, b)]++;
    int most = all <= MOST_PAIRS ? (int)all : nkinds * PAIRS_OF_A_KIND;
    p->pairs = mt_new(&p->arena, struct mt_pair_times, most + p->nnodes);
    bool *met = mt_new(&p->arena, bool, p->nnodes);
    for (int a = 0; a < p->nranks; a++)
        for (int b = a + 1; b < p->nranks; b++) {
            int kind = kind_of_pair(p, a, b);
            int64_t number = seen[kind]++, parts = of_kind[kind] < PAIRS_OF_A_KIND ? of_kind[kind] : PAIRS_OF_A_KIND;
            /* evenly spaced among its kind */
            bool wanted = number * parts / of_kind[kind] != (number - 1) * parts / of_kind[kind] || !number;
            int node = p->places[a].node;
            bool first =
                node == p->places[b].node && !met[node]; /* the first of its node, whose link may differ from others */
            if (first) met[node] = true;
            if (all > MOST_PAIRS && !wanted && !first) continue;
            p->pairs[p->npairs++] =
                (struct mt_pair_times){.a = a, .b = b, .between = p->places[a].node != p->places[b].node};
        }
}

int mt_pairs_rounds(const struct mt_profile *p, int *round_of) {
    int nresources = p->nranks + 2 * p->nnodes, nrounds = 0;
    bool *taken = mt_calloc((size_t)p->npairs * (size_t)nresources + 1, sizeof *taken);
    for (int i = 0; i < p->npairs; i++) {
        const struct mt_pair_times *pair = &p->pairs[i];
        int link = p->nranks + (pair->between ? p->nnodes : 0), round = 0;
        int needs[4] = {pair->a, pair->b, link + p->places[pair->a].node, link + p->places[pair->b].node};
        for (bool busy = true; busy; round += busy) {
            busy = false;
            for (int k = 0; k < 4; k++) busy = busy || taken[(size_t)round * (size_t)nresources + (size_t)needs[k]];
        }
        for (int k = 0; k < 4; k++) taken[(size_t)round * (size_t)nresources + (size_t)needs[k]] = true;
        round_of[i] = round;
        if (round >= nrounds) nrounds = round + 1;
    }
    free(taken);
    return nrounds;
}
