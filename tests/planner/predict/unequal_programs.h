/* Programs of all styles, and clusters of unequal devices to simulate them on. */
#ifndef MT_TESTS_PLANNER_PREDICT_UNEQUAL_PROGRAMS_H
#define MT_TESTS_PLANNER_PREDICT_UNEQUAL_PROGRAMS_H

#include "tests/planner/small_cluster.h"
#include "tests/synth/programs.h"

/* Two devices a node, of two classes and five speeds; so slow that operators are long against ticks; three threads, and
 * links with slowdowns. */
static inline struct small_cluster *unequal_cluster(int nranks) {
    struct small_cluster *s = small_cluster((nranks + 1) / 2, 2);
    static const double speeds[] = {1, 0.5, 0.8, 0.3, 1};
    for (int c = 0; c < 2; c++) {
        for (int t = 0; t < MT_NTYPES; t++) s->classes[c].flops[t] = 1e6 * (c + 1);
        s->classes[c].memory_Bps = 2e6 * (c + 1);
        s->classes[c].overhead_s = 1e-4;
        s->classes[c].threads = 3;
    }
    for (int d = 0; d < nranks; d++) s->devices[d].speed = speeds[d % 5], s->devices[d].class = d % 3 == 2;
    for (int l = 0; l < 2; l++) s->links[l].compute_slowdown = 0.4, s->links[l].comm_slowdown = 0.7;
    s->links[MEMORY].bandwidth_Bps = 1e7, s->links[NETWORK].bandwidth_Bps = 1e6, s->links[NETWORK].latency_s = 1e-3;
    s->links[NETWORK].shared_Bps = 1.5e6;
    s->costs.nranks = nranks;
    return s;
}

/* A program of one of several kinds; the batch is even in half of them, so that ranks form classes. */
static inline void make_program(struct mt_arena *arena, const struct mt_graph *g, int round, struct mt_program *p) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_choice choice;
    if (round % 5 == 4) {
        choice_in_step(arena, g, 2 + (int)below(3), 3, true, &choice);
    } else {
        make_choice(arena, g, (enum style)(round % 5), &choice);
        if (round % 2 && round % 5 != MICRO)
            for (int r = 0; r <= choice.nranks; r++) {
                int64_t batch = g->labels[g->batch].extent;
                choice.batch->starts[r] = r * batch / choice.nranks;
                if (r) choice.batch->sizes[r - 1] = choice.batch->starts[r] - choice.batch->starts[r - 1];
                if (r) choice.micro[r - 1] = choice.batch->sizes[r - 1];
            }
    }
    CHECK_OK(mt_build(g, &choice, p, &err), err);
}

#endif
