/* Synthetic runs. The data is random but reproducible; a learning rate of 0 keeps the parameters from growing. */
#include "launcher/profile/synthetic.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/rng.h"
#include "planner/make/make.h"
#include "launcher/watch/watch.h"
#include "synth/interp/init.h"

static const double deadline_s = 600; /* of a single rank, which waits only for its own device */

enum mt_status mt_synthetic_open(struct mt_device *device, const char *model, const struct mt_job *job, int64_t batch,
                                 int64_t micro, struct mt_synthetic *run, struct mt_err *err) {
    struct mt_job sized = *job;
    sized.batch = batch;
    return mt_synthetic_open_among(device, model, &sized, micro, NULL, run, err);
}

enum mt_status mt_synthetic_open_among(struct mt_device *device, const char *model, const struct mt_job *job,
                                       int64_t micro, struct mt_comm *wire, struct mt_synthetic *run,
                                       struct mt_err *err) {
    *run = (struct mt_synthetic){.device = device, .job = *job, .wire = wire};
    int nranks = wire ? wire->nranks : 1;
    int64_t *micros = mt_malloc((size_t)nranks * sizeof *micros);
    for (int i = 0; i < nranks; i++) micros[i] = micro;
    struct mt_plan_request request = {.model = model,
                                      .device = mt_device_kind(device),
                                      .job = run->job,
                                      .nranks = nranks,
                                      .fixed = {.micro = micros, .decisions = mt_decisions_unset}};
    request.fixed.decisions.bucket_bytes = 0;
    struct mt_plan *plan;
    enum mt_status st = mt_plan_make(&request, &plan, err);
    free(micros);
    if (st) return st;
    struct mt_lower_options options = mt_planned_lower_options(device);
    st = mt_planned_graph(plan, &run->planned, err);
    if (!st) st = mt_planned_program(plan, &run->planned, err);
    if (!st) st = mt_lower(&run->planned.program, wire ? wire->rank : 0, &options, &run->lowered, err);
    mt_plan_free(plan);
    if (st) mt_synthetic_close(run);
    return st;
}

void mt_synthetic_close(struct mt_synthetic *run) {
    mt_executor_free(run->executor);
    mt_comm_free(run->comm);
    mt_lowered_free(run->lowered);
    mt_planned_release(&run->planned);
}

/* A state's initial values; a large state repeats its first rows, which saves time. The caller frees it. */
static void *repeated_rows(const struct mt_graph *g, int v, const struct mt_tensor *held, uint64_t seed) {
    enum { ENOUGH = 1 << 16 };
    struct mt_box box = {{0}, {0}};
    memcpy(box.hi, held->extent, sizeof held->extent);
    int64_t bytes = mt_tensor_bytes(held), rows = held->naxes ? held->extent[0] : 1;
    int64_t row_bytes = bytes / rows, made = ENOUGH * mt_type_size(held->type) / row_bytes;
    made = made < 1 ? 1 : made > rows ? rows : made;
    if (held->naxes) box.hi[0] = made;
    char *numbers = mt_malloc((size_t)bytes);
    mt_init_fill(g, v, &box, seed, numbers);
    for (int64_t row = made; row < rows; row++)
        memcpy(numbers + row * row_bytes, numbers + (row - made) * row_bytes, (size_t)row_bytes);
    return numbers;
}

enum mt_status mt_synthetic_start(struct mt_synthetic *run, struct mt_err *err) {
    const struct mt_graph *g = run->planned.graph;
    if (!run->wire) mt_comm_local_new(1, &run->comm);
    struct mt_comm *comm = run->wire ? run->wire : run->comm;
    enum mt_status st = mt_executor_new(run->device, comm, run->lowered, NULL, deadline_s, &run->executor, err);
    for (int v = 0; v < g->nvalues && !st; v++) {
        const struct mt_tensor *held = mt_executor_state(run->executor, v);
        if (!held || !mt_tensor_count(held)) continue;
        void *numbers = repeated_rows(g, v, held, run->job.seed);
        st = mt_executor_set_state(run->executor, v, numbers, err);
        free(numbers);
    }
    return st;
}

/* A row of an input: positions count up, other inputs are tokens. */
struct row {
    uint64_t seed, vocab;
    int value;
    bool positions;
    int64_t count;
};

static void fill(void *context, int64_t sample, void *to) {
    const struct row *row = context;
    int32_t *ids = to;
    for (int64_t i = 0; i < row->count; i++) {
        uint64_t index = (uint64_t)(sample < 0 ? 0 : sample) << 32 | (uint64_t)i;
        ids[i] =
            row->positions ? (int32_t)i : (int32_t)mt_random_below(row->seed, (uint64_t)row->value, index, row->vocab);
    }
}

enum mt_status mt_synthetic_feed(struct mt_executor *executor, const struct mt_graph *g, int64_t vocab,
                                 const struct mt_job *job, struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int v = 0; v < g->nvalues && !st; v++) {
        if (g->values[v].kind != MT_VALUE_INPUT) continue;
        bool samples = g->values[v].naxes && g->values[v].label[0] == g->batch;
        struct row row = {.seed = job->seed,
                          .vocab = (uint64_t)vocab,
                          .value = v,
                          .positions = !strcmp(g->values[v].name, "positions"),
                          .count = mt_value_count(g, v) / (samples ? job->batch : 1)};
        st = mt_executor_feed(executor, MT_RUN_TRAIN, v, fill, &row, err);
    }
    return st;
}

static enum mt_status run_step(struct mt_synthetic *run, mt_trace *trace, void *context, struct mt_err *err) {
    struct mt_clock clock = {.step = run->step + 1, .seed = run->job.seed};
    mt_executor_trace(run->executor, trace, context);
    enum mt_status st = mt_executor_run(run->executor, MT_RUN_TRAIN, &clock, err);
    if (!st) mt_watch_progress();
    return st;
}

enum mt_status mt_synthetic_step(struct mt_synthetic *run, mt_trace *trace, void *context,
                                 struct mt_synthetic_times *times, struct mt_err *err) {
    bool traced_separately = trace && mt_device_captures(run->device);
    double start_s = mt_now_s();
    int64_t vocab = mt_model_get(&run->planned.model, "vocab");
    enum mt_status st = mt_synthetic_feed(run->executor, run->planned.graph, vocab, &run->job, err);
    times->feed_s = mt_now_s() - start_s;
    if (!st) st = run_step(run, traced_separately ? NULL : trace, context, err);
    if (st) return st;
    times->run = mt_executor_times(run->executor);
    if (traced_separately) st = run_step(run, trace, context, err);
    run->step++;
    return st;
}

struct mt_op_shape mt_synthetic_shape(const struct mt_linstr *instr) {
    struct mt_call call = mt_linstr_call(instr, instr->tensor);
    struct mt_op_shape shape;
    mt_op_shape(&call, &shape);
    return shape;
}
