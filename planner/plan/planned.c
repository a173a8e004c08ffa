/* From a plan to its graph and program. */
#include "planner/plan/planned.h"

#include <string.h>

#include "kernels/device/cuda_scratch.h"
#include "synth/autodiff/autodiff.h"
#include "planner/plan/choice.h"

void mt_planned_release(struct mt_planned *planned) {
    if (planned->program.graph) mt_program_release(&planned->program);
    mt_arena_release(&planned->arena);
    mt_graph_free(planned->graph);
    memset(planned, 0, sizeof *planned);
}

enum mt_status mt_training_graph(const struct mt_model *model, const struct mt_job *job, struct mt_graph **graph,
                                 struct mt_err *err) {
    enum mt_status st = mt_model_graph(model, job->precision, job->batch, job->seq, job->dropout, graph, err);
    if (st) return st;
    mt_graph_set_precision(*graph, job);
    mt_graph_recompute(*graph, job->recompute);
    st = mt_graph_differentiate(*graph, err);
    return st ? st : mt_graph_optimize(*graph, &job->optimizer, err);
}

enum mt_status mt_planned_graph(const struct mt_plan *plan, struct mt_planned *planned, struct mt_err *err) {
    *planned = (struct mt_planned){.graph = NULL};
    enum mt_status st = mt_model_parse(plan->model, &planned->model, err);
    return st ? st : mt_training_graph(&planned->model, &plan->job, &planned->graph, err);
}

enum mt_status mt_planned_program(const struct mt_plan *plan, struct mt_planned *planned, struct mt_err *err) {
    enum mt_status st = mt_choice_from_plan(planned->graph, plan, false, &planned->arena, &planned->choice, err);
    return st ? st : mt_build(planned->graph, &planned->choice, &planned->program, err);
}

enum mt_status mt_planned_open(const struct mt_plan *plan, struct mt_planned *planned, struct mt_err *err) {
    char hash[33];
    enum mt_status st = mt_planned_graph(plan, planned, err);
    if (st) goto out;
    mt_graph_hash(planned->graph, hash);
    if (strcmp(hash, plan->model_hash)) {
        st = mt_fail(err, MT_EINPUT, "model_hash: the plan was made for another graph of %.200s (%s, here %s)",
                     plan->model, plan->model_hash, hash);
        mt_err_hint(err,
                    "it may be of another version (made by %s): make the plan again, or sign it for this one "
                    "with `motley plan --check`",
                    plan->made_by);
        goto out;
    }
    if ((st = mt_planned_program(plan, planned, err))) goto out;
    mt_program_hash(&planned->program, hash);
    if (strcmp(hash, plan->program_hash)) {
        st = mt_fail(err, MT_EINPUT,
                     "program_hash: the plan stands for another program (%s) than is built from it "
                     "here (%s)",
                     plan->program_hash, hash);
        mt_err_hint(err, "it was made by %s: make it again, or sign it for this one with `motley plan --check`",
                    plan->made_by);
    }
out:
    if (st) mt_planned_release(planned);
    return st;
}

enum mt_status mt_planned_evaluation(struct mt_planned *planned, struct mt_graph *graph, struct mt_program *program,
                                     struct mt_err *err) {
    const struct mt_graph *g = planned->graph;
    *graph = *g;
    graph->ops = mt_arena_memdup(&planned->arena, g->ops, (size_t)g->nops * sizeof *g->ops);
    for (int o = 0; o < g->nops; o++)
        if (g->ops[o].role == MT_ROLE_FORWARD) graph->ops[o].attr.p = 0;
    return mt_build_forward(graph, &planned->choice, program, err);
}

static int64_t scratch_of(void *context, const struct mt_call *call) {
    const struct mt_backend *backend = mt_device_backend(context, call);
    return backend->scratch_bytes ? backend->scratch_bytes(call) : 0;
}

static int64_t scratch_of_gpu(void *context, const struct mt_call *call) {
    (void)context;
    return mt_cuda_scratch_bytes(call);
}

/* Plain C runs every fused call; what a faster backend does in parts stays in parts. */
static bool worth_fusing(void *context, const struct mt_call *fused, const struct mt_call *member) {
    return mt_device_backend(context, fused) != &mt_backend_c || mt_device_backend(context, member) == &mt_backend_c;
}

struct mt_lower_options mt_planned_lower_options(struct mt_device *device) {
    bool gpu = !strcmp(mt_device_kind(device), "cuda");
    return (struct mt_lower_options){.fuse = true,
                                     .latency_s = 30e-6,
                                     .bandwidth_Bps = 1e9,
                                     .scratch_bytes = scratch_of,
                                     .worth_fusing = worth_fusing,
                                     .context = device,
                                     .chunks = gpu,
                                     .wire_sums = gpu};
}

enum mt_status mt_planned_options_for(const char *kind, struct mt_device **device, struct mt_lower_options *options,
                                      struct mt_err *err) {
    *device = NULL;
    if (!strcmp(kind, "cuda")) { /* there may be no such device to ask */
        *options = (struct mt_lower_options){.fuse = true,
                                             .latency_s = 30e-6,
                                             .bandwidth_Bps = 1e9,
                                             .scratch_bytes = scratch_of_gpu,
                                             .chunks = true,
                                             .wire_sums = true};
        return MT_OK;
    }
    enum mt_status st = mt_device_open(kind, device, err);
    if (!st) *options = mt_planned_lower_options(*device);
    return st;
}
