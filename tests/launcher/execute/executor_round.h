/* One random program, run by executors and by the interpreter: what tests of the executor compare. Each rank calls
 * run_rank with its communicator; what lies outside the states is poisoned before every step. */
#ifndef MT_TESTS_LAUNCHER_EXECUTE_EXECUTOR_ROUND_H
#define MT_TESTS_LAUNCHER_EXECUTE_EXECUTOR_ROUND_H

#include <omp.h>

#include "launcher/execute/executor.h"
#include "tests/launcher/execute/poison.h"
#include "tests/synth/parts.h"
#include "tests/synth/random_program.h"

enum { STEPS = 3, ROUND_RANKS = 8 };

struct round {
    const struct mt_graph *graph;
    const struct mt_program *train, *forward;
    struct mt_interp *want, *want_forward;
    char **begin;            /* [graph->nvalues]: whole states before the first step */
    char **end[ROUND_RANKS]; /* the ranks' boxes of the states after the last */
    bool fuse;
    int copy_streams;
};

static int64_t scratch_bytes(void *device, const struct mt_call *call) {
    return mt_device_backend(device, call)->scratch_bytes(call);
}

static inline bool is_state(const struct mt_program *p, int value) {
    return p->values[value].input && p->graph->values[p->values[value].gvalue].kind == MT_VALUE_STATE;
}

static void fill(void *context, int64_t sample, void *row) {
    const struct mt_graph *g = ((void **)context)[0];
    int value = *(int *)((void **)context)[1];
    int32_t *ids = input_ids(g, value);
    int64_t n = mt_value_count(g, value), rows = sample < 0 ? 1 : g->labels[g->batch].extent;
    memcpy(row, ids + (sample < 0 ? 0 : sample) * (n / rows), (size_t)(n / rows) * sizeof *ids);
    free(ids);
}

static void feed(struct mt_executor *ex, enum mt_run run, const struct mt_graph *g) {
    struct mt_err err = MT_ERR_INIT;
    for (int v = 0; v < g->nvalues; v++) {
        void *context[] = {(void *)(uintptr_t)g, &v};
        if (g->values[v].kind == MT_VALUE_INPUT) CHECK_OK(mt_executor_feed(ex, run, v, fill, context, &err), err);
    }
}

/* How far a sum may be from the interpreter's: fused kernels round less often. */
static double tolerance(const struct mt_graph *g) {
    return g->type == MT_F64 ? 1e-10 : g->type == MT_F32 ? 1e-4 : 3e-2;
}

static void check_reports(struct mt_executor *ex, enum mt_run run, const struct mt_interp *want) {
    const struct mt_graph *g = want->program->graph;
    struct mt_err err = MT_ERR_INIT;
    int reports[] = {g->loss_sum, g->token_count, run == MT_RUN_TRAIN ? g->sq_norm : -1};
    for (int i = 0; i < 3; i++) {
        double got, whole;
        if (reports[i] < 0) continue;
        CHECK_OK(mt_executor_result(ex, run, reports[i], &got, &err), err);
        CHECK(mt_interp_result(want, reports[i], &whole), "the interpreter has it too");
        CHECK_NEAR(got, whole, tolerance(g) * fabs(whole) + 1e-13);
    }
}

/* Copy a rank's box out of a whole value. */
static void cut_box(const struct mt_program *p, int value, int rank, const char *whole, char *box) {
    const struct mt_layout *l = mt_pvalue_layout(p, value);
    size_t size = (size_t)mt_type_size(p->values[value].type);
    for (int64_t e = 0; e < value_count(l); e++) {
        int64_t place = element_in_box(l, &l->box[rank], e);
        if (place >= 0) memcpy(box + (size_t)place * size, whole + (size_t)e * size, size);
    }
}

static void set_states(const struct round *round, int rank, struct mt_executor *ex) {
    const struct mt_program *p = round->train;
    struct mt_err err = MT_ERR_INIT;
    for (int v = 0; v < p->nvalues; v++) {
        int g = p->values[v].gvalue;
        if (!is_state(p, v)) continue;
        char *box = malloc((size_t)(mt_value_count(p->graph, g) * mt_type_size(p->values[v].type)) + 1);
        cut_box(p, v, rank, round->begin[g], box);
        CHECK_OK(mt_executor_set_state(ex, g, box, &err), err);
        free(box);
    }
}

static void take_states(struct round *round, int rank, struct mt_executor *ex) {
    struct mt_err err = MT_ERR_INIT;
    round->end[rank] = calloc((size_t)round->graph->nvalues, sizeof(char *));
    for (int v = 0; v < round->graph->nvalues; v++) {
        const struct mt_tensor *t = mt_executor_state(ex, v);
        if (!t) continue;
        round->end[rank][v] = malloc((size_t)(mt_tensor_count(t) * mt_type_size(t->type)) + 1);
        CHECK_OK(mt_executor_get_state(ex, v, round->end[rank][v], &err), err);
    }
}

/* In f64 the states are the interpreter's. (Otherwise AdamW makes steps of full length from gradients that are
 * rounding.) */
static void check_states(const struct round *round, int rank) {
    const struct mt_program *p = round->train;
    for (int v = 0; v < p->nvalues && p->graph->type == MT_F64; v++) {
        if (!is_state(p, v)) continue;
        const struct mt_layout *l = mt_pvalue_layout(p, v);
        const double *got = (const double *)round->end[rank][p->values[v].gvalue];
        double *want = malloc((size_t)value_count(l) * sizeof *want), spread, norm = 0, difference = 0;
        mt_interp_get(round->want, p->values[v].gvalue, want, &spread);
        for (int64_t e = 0; e < value_count(l); e++) {
            int64_t place = element_in_box(l, &l->box[rank], e);
            norm += want[e] * want[e];
            if (place >= 0) difference += (got[place] - want[e]) * (got[place] - want[e]);
        }
        CHECK(sqrt(difference) <= 1e-9 * sqrt(norm) + 1e-12, "rank %d, %s: difference %g of %g", rank,
              p->graph->values[p->values[v].gvalue].name, sqrt(difference), sqrt(norm));
        free(want);
    }
}

/* Operators are called on what the rank holds: no operand of a call is larger or smaller than its box. */
static void check_operands(const struct mt_lowered *low) {
    for (int i = 0; i < low->ninstrs; i++) {
        const struct mt_linstr *c = &low->instrs[i];
        for (int k = 0; k < c->nin + c->nout && c->what == MT_LOWERED_OP; k++) {
            int value = k < c->nin ? c->in[k] : c->out[k - c->nin];
            CHECK(mt_tensor_count(&c->tensor[k]) == mt_tensor_count(&low->values[value].tensor), "%s: operand %d",
                  c->name, k);
        }
    }
}

/* A rank's whole test: a forward run, then the steps. Leaves its states in round->end[rank]. */
static void run_rank(struct round *round, int rank, struct mt_comm *comm) {
    const struct mt_graph *g = round->graph;
    struct mt_err err = MT_ERR_INIT;
    struct mt_device *device;
    struct mt_lowered *train, *forward;
    struct mt_executor *ex;
    omp_set_num_threads(1);
    CHECK_OK(mt_device_open("cpu", &device, &err), err);
    struct mt_lower_options options = {.fuse = round->fuse,
                                       .copy_streams = round->copy_streams,
                                       .latency_s = 1e-5,
                                       .bandwidth_Bps = 1e9,
                                       .scratch_bytes = scratch_bytes,
                                       .context = device};
    CHECK_OK(mt_lower(round->train, rank, &options, &train, &err), err);
    options.states = train;
    CHECK_OK(mt_lower(round->forward, rank, &options, &forward, &err), err);
    check_operands(train);
    check_operands(forward);
    CHECK_OK(mt_executor_new(device, comm, train, forward, 60, &ex, &err), err);
    set_states(round, rank, ex);
    struct mt_clock clock = {.step = 1, .seed = SEED, .lr = 0.01};
    CHECK_OK(poison(ex, &err), err);
    feed(ex, MT_RUN_FORWARD, g);
    CHECK_OK(mt_executor_run(ex, MT_RUN_FORWARD, &clock, &err), err);
    check_reports(ex, MT_RUN_FORWARD, round->want_forward);
    for (clock.step = 1; clock.step <= STEPS; clock.step++) {
        if (clock.step == 2) mt_executor_states_changed(ex);
        CHECK_OK(poison(ex, &err), err);
        feed(ex, MT_RUN_TRAIN, g);
        CHECK_OK(mt_executor_run(ex, MT_RUN_TRAIN, &clock, &err), err);
    }
    check_reports(ex, MT_RUN_TRAIN, round->want);
    take_states(round, rank, ex);
    check_states(round, rank);
    mt_executor_free(ex);
    mt_lowered_free(forward);
    mt_lowered_free(train);
    mt_device_close(device);
}

/* What the interpreter makes of the programs: the states before, and all after. */
static void begin_round(struct round *round) {
    const struct mt_graph *g = round->graph;
    struct mt_err err = MT_ERR_INIT;
    round->want = mt_interp_new(round->train);
    round->want_forward = mt_interp_new(round->forward);
    round->begin = calloc((size_t)g->nvalues, sizeof *round->begin);
    mt_interp_init_states(round->want, SEED);
    mt_interp_init_states(round->want_forward, SEED);
    set_inputs(round->want, g);
    set_inputs(round->want_forward, g);
    for (int v = 0; v < g->nvalues; v++) {
        if (g->values[v].kind != MT_VALUE_STATE) continue;
        double spread;
        round->begin[v] = malloc((size_t)(mt_value_count(g, v) * mt_type_size(g->values[v].type)));
        mt_interp_get(round->want, v, round->begin[v], &spread);
    }
    struct mt_clock clock = {.step = 1, .seed = SEED, .lr = 0.01};
    CHECK_OK(mt_interp_step(round->want_forward, &clock, &err), err);
    for (; clock.step <= STEPS; clock.step++) CHECK_OK(mt_interp_step(round->want, &clock, &err), err);
}

static void forget_states(struct round *round, int rank) {
    for (int v = 0; v < round->graph->nvalues && round->end[rank]; v++) free(round->end[rank][v]);
    free(round->end[rank]);
    round->end[rank] = NULL;
}

static void end_round(struct round *round) {
    for (int r = 0; r < ROUND_RANKS; r++) forget_states(round, r);
    for (int v = 0; v < round->graph->nvalues; v++) free(round->begin[v]);
    free(round->begin);
    mt_interp_free(round->want);
    mt_interp_free(round->want_forward);
}

#endif
