/* Sequence parallelism as a choice: every operator that has positions is split over them, samples are not. */
#ifndef MT_TESTS_SYNTH_POSITIONS_H
#define MT_TESTS_SYNTH_POSITIONS_H

#include "tests/synth/random_program.h"

/* Shares of the label seq; `micro`: samples of a micro-batch, 0: all. Updates are replicated. */
static inline void positions_choice(struct mt_arena *arena, const struct mt_graph *g, int nranks, const int64_t *sizes,
                                    int64_t micro, struct mt_choice *choice) {
    struct mt_split *positions = mt_new(arena, struct mt_split, 1);
    *positions = (struct mt_split){.name = "positions", .label = label_named(g, "seq")};
    positions->sizes = mt_arena_memdup(arena, sizes, (size_t)nranks * sizeof *sizes);
    positions->starts = mt_new(arena, int64_t, nranks + 1);
    for (int r = 0; r < nranks; r++) positions->starts[r + 1] = positions->starts[r] + sizes[r];
    CHECK_EQ(positions->starts[nranks], g->labels[positions->label].extent);
    *choice =
        (struct mt_choice){.nranks = nranks, .splits = positions, .nsplits = 1, .decisions = {.gradient_wire = g->acc}};
    choice->decisions.sync = MT_SYNC_ALL_REDUCE;
    choice->micro = mt_new(arena, int64_t, nranks);
    for (int r = 0; r < nranks; r++) choice->micro[r] = micro;
    choice->rules = mt_new(arena, struct mt_rule, g->nops);
    for (int o = 0; o < g->nops; o++) {
        struct mt_rule rules[MOST_RULES];
        int n = all_rules(&g->ops[o], positions, 1, rules);
        for (int r = 0; r < n; r++)
            if (rules[r].kind == MT_RULE_SPLIT) choice->rules[o] = rules[r];
    }
}

#endif
