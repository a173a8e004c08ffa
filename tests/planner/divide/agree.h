/* A plan's program, proven, against one rank in fp64: losses and states after some steps. */
#ifndef MT_TESTS_PLANNER_DIVIDE_AGREE_H
#define MT_TESTS_PLANNER_DIVIDE_AGREE_H

#include <string.h>

#include "planner/plan/choice.h"
#include "planner/plan/planned.h"
#include "synth/check/check.h"
#include "tests/planner/divide/classics.h"
#include "tests/synth/states_agree.h"

static struct mt_err err = MT_ERR_INIT;

/* ---- what one rank computes ---- */

struct reference {
    struct mt_graph *graph;
    struct mt_program program;
    struct mt_interp *interp;
    double loss;
};

static inline struct mt_job job_of(int64_t batch) {
    struct mt_job job;
    mt_job_default(&job);
    job.batch = batch;
    job.precision = MT_F64;
    job.recompute = MT_RECOMPUTE_NONE;
    job.optimizer.clip = 0.5;
    return job;
}

static inline void make_reference(const char *text, const struct mt_job *job, struct reference *ref) {
    struct mt_model model;
    struct mt_choice one = {.nranks = 1, .decisions.gradient_wire = MT_F64};
    CHECK_OK(mt_model_parse(text, &model, &err), err);
    CHECK_OK(mt_training_graph(&model, job, &ref->graph, &err), err);
    one.rules = calloc((size_t)ref->graph->nops, sizeof *one.rules);
    CHECK_OK(mt_build(ref->graph, &one, &ref->program, &err), err);
    ref->interp = run_steps(&ref->program, &ref->loss, &err);
    CHECK_OK(err.status, err);
    free(one.rules);
}

static inline void free_reference(struct reference *ref) {
    mt_interp_free(ref->interp);
    mt_program_release(&ref->program);
    mt_graph_free(ref->graph);
}

/* ---- one plan ---- */

/* A plan's graph, choice and program, proven. */
struct opened {
    struct mt_planned planned;
    char hash[33];
};

static inline void open_plan(const struct mt_plan *plan, const char *what, struct opened *o) {
    CHECK_OK(mt_planned_graph(plan, &o->planned, &err), err);
    mt_planned_program(plan, &o->planned, &err);
    CHECK(!err.status, "%s: %s", what, err.text);
    mt_check_program(&o->planned.program, NULL, &err);
    CHECK(!err.status, "%s: %s", what, err.text);
    mt_program_hash(&o->planned.program, o->hash);
}

static inline double agree_with(const struct reference *ref, const struct opened *o, const char *what) {
    double loss;
    struct mt_interp *interp = run_steps(&o->planned.program, &loss, &err);
    CHECK(!err.status, "%s: %s", what, err.text);
    double worst = disagreement_of(o->planned.graph, interp, ref->graph, ref->interp);
    CHECK(worst <= 1, "%s: %g times what is allowed", what, worst);
    CHECK(fabs(loss - ref->loss) <= 1e-10 * ref->loss, "%s: loss %.17g, not %.17g", what, loss, ref->loss);
    mt_interp_free(interp);
    return worst;
}

#endif
