/* One random program on GPUs, run twice: instruction by instruction, and captured and launched ahead. Other inputs and
 * another clock every step, evaluations between; losses and states must be the same bits. */
#ifndef MT_TESTS_LAUNCHER_EXECUTE_CAPTURED_ROUND_H
#define MT_TESTS_LAUNCHER_EXECUTE_CAPTURED_ROUND_H

#include "launcher/execute/executor.h"
#include "tests/launcher/execute/poison.h"
#include "synth/interp/init.h"
#include "tests/synth/random_program.h"

enum { CAPTURED_STEPS = 9, EVALUATED_AFTER = 4, EVALUATIONS = 4, REPORTS = 3 };

struct captured_round {
    const struct mt_graph *graph;
    struct mt_program train, forward;
    struct mt_lowered *low[MT_NRUNS];
    struct mt_device *device;
    struct mt_comm *comm;
};

/* What a way of running leaves. */
struct captured_end {
    double reports[CAPTURED_STEPS + EVALUATIONS][REPORTS];
    int nreports;
    double stream_s[MT_MOST_STREAMS], wall_s;
    char **states; /* [graph->nvalues] */
};

struct captured_feed {
    const struct mt_graph *graph;
    int value;
    uint64_t salt;
};

static void captured_fill(void *context, int64_t sample, void *row) {
    const struct captured_feed *f = context;
    bool rows = sample >= 0, positions = !strcmp(f->graph->values[f->value].name, "positions");
    int64_t count = mt_value_count(f->graph, f->value) / (rows ? f->graph->labels[f->graph->batch].extent : 1);
    for (int64_t i = 0; i < count; i++) {
        uint64_t at = (uint64_t)((rows ? sample : 0) * count + i);
        ((int32_t *)row)[i] =
            positions ? (int32_t)i : (int32_t)mt_random_below(SEED + f->salt, (uint64_t)f->value, at, 7);
    }
}

/* Positions do not change: they are fed once, though another program's inputs lie where theirs do. */
static void captured_give(const struct captured_round *round, struct mt_executor *ex, enum mt_run run, uint64_t salt,
                          bool positions) {
    struct mt_err err = MT_ERR_INIT;
    const struct mt_graph *g = round->graph;
    for (int v = 0; v < g->nvalues; v++) {
        struct captured_feed feed = {g, v, salt};
        if (g->values[v].kind != MT_VALUE_INPUT || (!positions && !strcmp(g->values[v].name, "positions"))) continue;
        CHECK_OK(mt_executor_feed(ex, run, v, captured_fill, &feed, &err), err);
    }
}

static void captured_set_states(const struct captured_round *round, struct mt_executor *ex) {
    struct mt_err err = MT_ERR_INIT;
    for (int v = 0; v < round->graph->nvalues; v++) {
        const struct mt_tensor *held = mt_executor_state(ex, v);
        if (!held || !mt_tensor_count(held)) continue;
        struct mt_box box = {{0}, {0}};
        for (int a = 0; a < held->naxes; a++)
            box.lo[a] = held->offset[a], box.hi[a] = held->offset[a] + held->extent[a];
        void *numbers = malloc((size_t)(mt_tensor_count(held) * mt_type_size(held->type)));
        mt_init_fill(round->graph, v, &box, SEED, numbers);
        CHECK_OK(mt_executor_set_state(ex, v, numbers, &err), err);
        free(numbers);
    }
}

static void captured_finish(const struct captured_round *round, struct mt_executor *ex, enum mt_run run,
                            struct captured_end *end) {
    const struct mt_graph *g = round->graph;
    struct mt_err err = MT_ERR_INIT;
    int values[REPORTS] = {g->loss_sum, g->token_count, run == MT_RUN_TRAIN ? g->sq_norm : -1};
    CHECK_OK(mt_executor_finish(ex, &err), err);
    for (int i = 0; i < REPORTS; i++)
        if (mt_executor_output(ex, run, values[i]))
            CHECK_OK(mt_executor_result(ex, run, values[i], &end->reports[end->nreports][i], &err), err);
    end->nreports++;
    struct mt_run_times times = mt_executor_times(ex);
    for (int s = 0; s < MT_MOST_STREAMS; s++) end->stream_s[s] += times.stream_s[s];
    CHECK(times.stream_s[MT_STREAM_COMPUTE] > 0 && times.wall_s > 0 && times.wait_s >= 0);
}

static void captured_runs(const struct captured_round *round, struct mt_executor *ex, enum mt_run run, int count,
                          uint64_t first, bool ahead, struct captured_end *end) {
    struct mt_err err = MT_ERR_INIT;
    int depth = ahead ? mt_executor_depth(ex) : 1;
    double start_s = mt_now_s();
    for (int i = 0; i < count; i++) {
        uint64_t number = first + (uint64_t)i;
        struct mt_clock clock = {.step = (int64_t)number, .seed = SEED, .lr = 0.01 * (double)number};
        captured_give(round, ex, run, number, i == 0 && (first == 1 || run == MT_RUN_FORWARD));
        CHECK_OK(mt_executor_submit(ex, run, &clock, &err), err);
        while (mt_executor_in_flight(ex) >= depth) captured_finish(round, ex, run, end);
    }
    while (mt_executor_in_flight(ex)) captured_finish(round, ex, run, end);
    end->wall_s += mt_now_s() - start_s;
}

static void captured_ignore(void *context, const struct mt_lowered *low, int instr, int64_t iteration, double start_s,
                            double end_s) {
    (void)context, (void)iteration;
    CHECK(end_s >= start_s && instr < low->ninstrs);
}

/* `whole`: captured; otherwise traced, which is run as it comes. */
static void captured_run(const struct captured_round *round, bool whole, struct captured_end *end) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_executor *ex;
    *end = (struct captured_end){.states = calloc((size_t)round->graph->nvalues, sizeof(char *))};
    CHECK_OK(mt_executor_new(round->device, round->comm, round->low[MT_RUN_TRAIN], round->low[MT_RUN_FORWARD], 60, &ex,
                             &err),
             err);
    if (!whole) mt_executor_trace(ex, captured_ignore, NULL);
    captured_set_states(round, ex);
    CHECK_OK(poison(ex, &err), err);
    captured_runs(round, ex, MT_RUN_TRAIN, EVALUATED_AFTER, 1, whole, end);
    captured_runs(round, ex, MT_RUN_FORWARD, EVALUATIONS, 100, whole, end);
    captured_runs(round, ex, MT_RUN_TRAIN, CAPTURED_STEPS - EVALUATED_AFTER, 1 + EVALUATED_AFTER, whole, end);
    for (int s = 0; s < MT_MOST_STREAMS; s++)
        CHECK(end->stream_s[s] < end->wall_s, "stream %d: %g s of %g s", s, end->stream_s[s], end->wall_s);
    for (int v = 0; v < round->graph->nvalues; v++) {
        const struct mt_tensor *t = mt_executor_state(ex, v);
        if (!t) continue;
        end->states[v] = calloc(1, (size_t)(mt_tensor_count(t) * mt_type_size(t->type)) + 1);
        CHECK_OK(mt_executor_get_state(ex, v, end->states[v], &err), err);
    }
    mt_executor_free(ex);
}

static int64_t captured_scratch(void *device, const struct mt_call *call) {
    return mt_device_backend(device, call)->scratch_bytes(call);
}

/* Build and lower the round's two programs. */
static void captured_make(struct captured_round *round, const struct mt_choice *choice, int rank) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_lower_options options = {.fuse = true,
                                       .latency_s = 1e-5,
                                       .bandwidth_Bps = 1e9,
                                       .scratch_bytes = captured_scratch,
                                       .context = round->device,
                                       .chunks = true,
                                       .wire_sums = true};
    CHECK_OK(mt_build(round->graph, choice, &round->train, &err), err);
    CHECK_OK(mt_build_forward(round->graph, choice, &round->forward, &err), err);
    CHECK_OK(mt_lower(&round->train, rank, &options, &round->low[MT_RUN_TRAIN], &err), err);
    options.states = round->low[MT_RUN_TRAIN];
    CHECK_OK(mt_lower(&round->forward, rank, &options, &round->low[MT_RUN_FORWARD], &err), err);
}

static void captured_release(struct captured_round *round) {
    for (int r = 0; r < MT_NRUNS; r++) mt_lowered_free(round->low[r]);
    mt_program_release(&round->train);
    mt_program_release(&round->forward);
}

/* Returns the number of reports that were compared. */
static int captured_compare(const struct mt_graph *g, const struct mt_choice *choice, int rank,
                            struct mt_device *device, struct mt_comm *comm) {
    struct captured_round round = {.graph = g, .device = device, .comm = comm};
    struct captured_end ends[2];
    captured_make(&round, choice, rank);
    for (int whole = 0; whole < 2; whole++) captured_run(&round, whole, &ends[whole]);
    CHECK_EQ(ends[0].nreports, CAPTURED_STEPS + EVALUATIONS);
    for (int i = 0; i < ends[0].nreports; i++)
        for (int k = 0; k < REPORTS; k++)
            CHECK(!memcmp(&ends[0].reports[i][k], &ends[1].reports[i][k], sizeof(double)),
                  "run %d, report %d: %.17g as it comes, %.17g launched", i, k, ends[0].reports[i][k],
                  ends[1].reports[i][k]);
    for (int v = 0; v < g->nvalues; v++) {
        if (!ends[0].states[v]) continue;
        const struct mt_tensor *t = &round.low[MT_RUN_TRAIN]->values[round.low[MT_RUN_TRAIN]->state_at[v]].tensor;
        CHECK(!memcmp(ends[0].states[v], ends[1].states[v], (size_t)(mt_tensor_count(t) * mt_type_size(t->type))),
              "%s: other bits", g->values[v].name);
        free(ends[0].states[v]), free(ends[1].states[v]);
    }
    for (int whole = 0; whole < 2; whole++) free(ends[whole].states);
    captured_release(&round);
    return ends[0].nreports;
}

#endif
