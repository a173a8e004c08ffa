/* Programs by the reference interpreter, and how their results are compared. */
#ifndef MT_TESTS_SYNTH_RUN_PROGRAM_H
#define MT_TESTS_SYNTH_RUN_PROGRAM_H

#include <math.h>
#include <stdlib.h>

#include "tests/synth/random_program.h"

enum { STEPS = 2 };

/* Null if the program contradicts itself: err says how. */
static inline struct mt_interp *run_program(const struct mt_program *program, double *loss, struct mt_err *err) {
    struct mt_interp *interp = mt_interp_new(program);
    mt_interp_init_states(interp, SEED);
    set_inputs(interp, program->graph);
    for (int step = 1; step <= STEPS; step++) {
        struct mt_clock clock = {.step = step, .seed = SEED, .lr = 0.01};
        if (mt_interp_step(interp, &clock, err)) {
            mt_interp_free(interp);
            return NULL;
        }
    }
    if (!mt_interp_result(interp, program->graph->loss_sum, loss)) *loss = NAN;
    return interp;
}

/* The largest relative difference of a state; infinite where replicas differ. */
static inline double state_difference(const struct mt_graph *g, struct mt_interp *got, struct mt_interp *want) {
    double worst = 0;
    for (int v = 0; v < g->nvalues; v++) {
        if (g->values[v].kind != MT_VALUE_STATE) continue;
        int64_t n = mt_value_count(g, v);
        double *a = malloc((size_t)n * sizeof *a), *b = malloc((size_t)n * sizeof *b), spread, none;
        mt_interp_get(got, v, a, &spread);
        mt_interp_get(want, v, b, &none);
        double norm = 0, difference = 0;
        for (int64_t i = 0; i < n; i++) {
            norm += b[i] * b[i];
            difference += (a[i] - b[i]) * (a[i] - b[i]);
        }
        double relative = sqrt(difference) / (sqrt(norm) + 1e-3);
        if (spread != 0 || !(relative <= worst)) worst = spread != 0 || isnan(relative) ? INFINITY : relative;
        free(a);
        free(b);
    }
    return worst;
}

#endif
