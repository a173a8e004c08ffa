/* Some steps by the reference interpreter, and how far the states of two programs of a graph are apart afterwards. */
#ifndef MT_TESTS_SYNTH_STATES_AGREE_H
#define MT_TESTS_SYNTH_STATES_AGREE_H

#include <math.h>

#include "tests/synth/random_program.h"

enum { AGREEMENT_STEPS = 5 };

static inline struct mt_interp *run_steps(const struct mt_program *program, double *loss, struct mt_err *err) {
    struct mt_interp *interp = mt_interp_new(program);
    mt_interp_init_states(interp, SEED);
    set_inputs(interp, program->graph);
    for (int step = 1; step <= AGREEMENT_STEPS && !err->status; step++) {
        struct mt_clock clock = {.step = step, .seed = SEED, .lr = 0.01};
        mt_interp_step(interp, &clock, err);
    }
    *loss = NAN;
    if (!err->status) mt_interp_result(interp, program->graph->loss_sum, loss);
    return interp;
}

/* The largest difference of a state's element, as a share of what is allowed: 1e-10 of the state's root mean square,
 * and 1e-10. Infinite where replicas differ. `want` may be of another graph with states of the same names. */
static inline double disagreement_of(const struct mt_graph *g, const struct mt_interp *got,
                                     const struct mt_graph *want_graph, const struct mt_interp *want) {
    double worst = 0;
    for (int v = 0; v < g->nvalues; v++) {
        if (g->values[v].kind != MT_VALUE_STATE) continue;
        int other = mt_graph_find_value(want_graph, g->values[v].name);
        int64_t n = mt_value_count(g, v);
        CHECK(other >= 0 && mt_value_count(want_graph, other) == n, "%s", g->values[v].name);
        double *a = malloc((size_t)n * sizeof *a), *b = malloc((size_t)n * sizeof *b), spread, none, square = 0;
        mt_interp_get(got, v, a, &spread);
        mt_interp_get(want, other, b, &none);
        for (int64_t i = 0; i < n; i++) square += b[i] * b[i];
        double allowed = 1e-10 * sqrt(square / (double)n) + 1e-10;
        if (spread != 0) worst = INFINITY; /* replicas drift */
        for (int64_t i = 0; i < n; i++)
            if (!(fabs(a[i] - b[i]) / allowed <= worst)) worst = fabs(a[i] - b[i]) / allowed;
        if (isnan(worst)) worst = INFINITY;
        free(a), free(b);
    }
    return worst;
}

static inline double disagreement(const struct mt_graph *g, const struct mt_interp *got, const struct mt_interp *want) {
    return disagreement_of(g, got, g, want);
}

#endif
