/* What follows from a plan's decisions: hashes, work, memory, and which collectives there are. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/units.h"
#include "planner/make/make.h"
#include "planner/plan/planned.h"
#include "planner/plan/choice.h"
#include "planner/plan/overlapped.h"
#include "synth/ops/ops.h"

static enum mt_status refuse_algorithm(const struct mt_algorithm_row *row, struct mt_err *err) {
    mt_fail(err, MT_EINPUT, "collectives: the plan's program has no %s, so its algorithm \"%s\" has no use",
            mt_coll_name(row->kind), row->algorithm);
    return mt_err_hint(err, "remove the rows of %s from \"collectives\"", mt_coll_name(row->kind));
}

/* Of the kinds of collective that the program has: rows that are missing are "auto". Rows of other kinds are dropped; a
 * person's choice among them is refused, not lost, unless another program was made of the plan. */
static enum mt_status match_algorithms(struct mt_plan *p, const struct mt_program *program, bool another,
                                       struct mt_err *err) {
    struct mt_decisions *d = &p->decisions;
    struct mt_algorithm_row *rows = mt_new(&p->arena, struct mt_algorithm_row, d->nalgorithms + MT_NCOLLS);
    bool used[MT_NCOLLS] = {false}, there[MT_NCOLLS] = {false};
    int n = 0;
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < program->blocks[b].ninstrs; i++)
            if (program->blocks[b].instrs[i].kind == MT_INSTR_COLLECTIVE)
                used[program->blocks[b].instrs[i].coll] = true;
    for (int i = 0; i < d->nalgorithms; i++) {
        const struct mt_algorithm_row row = d->algorithms[i];
        there[row.kind] = true;
        if (used[row.kind])
            rows[n++] = row;
        else if (!another && !mt_algorithm_is_auto(row.algorithm))
            return refuse_algorithm(&row, err);
    }
    for (int k = 0; k < MT_NCOLLS; k++)
        if (used[k] && !there[k]) rows[n++] = (struct mt_algorithm_row){(enum mt_coll_kind)k, "auto", 0};
    d->algorithms = rows;
    d->nalgorithms = n;
    return MT_OK;
}

static enum mt_status check_memory(const struct mt_plan *p, int rank, struct mt_err *err) {
    int64_t has = p->ranks[rank].memory_bytes, needs = mt_plan_needs_bytes(p, rank);
    char needs_text[MT_UNITS_TEXT], has_text[MT_UNITS_TEXT], lacks_text[MT_UNITS_TEXT];
    if (!has || needs <= has) return MT_OK;
    mt_units_bytes((double)needs, needs_text);
    mt_units_bytes((double)has, has_text);
    mt_units_bytes((double)(needs - has), lacks_text);
    mt_fail(err, MT_EINPUT, "rank %d%s%s needs %s of memory, but has %s: %s too little", rank,
            p->ranks[rank].host[0] ? " on host " : "", p->ranks[rank].host, needs_text, has_text, lacks_text);
    return mt_err_hint(err, "a smaller --micro needs less for activations, --storage split less for the state, and a "
                            "lower speed both");
}

static enum mt_status predict_memory(struct mt_plan *p, const struct mt_program *program, struct mt_err *err) {
    struct mt_device *device;
    struct mt_lower_options options;
    enum mt_status st = mt_planned_options_for(p->device, &device, &options, err);
    if (st) return st;
    options.sketch = true;
    int *same = mt_calloc((size_t)program->nranks, sizeof *same);
    mt_lower_fold(program, NULL, same);
    memset(p->memory, 0, (size_t)p->nranks * sizeof *p->memory);
    for (int i = 0; i < program->nranks && !st; i++) {
        struct mt_plan_memory *memory = &p->memory[p->order[i]];
        struct mt_lowered *lowered;
        if (same[i] < i) {
            *memory = p->memory[p->order[same[i]]];
        } else {
            if ((st = mt_lower(program, i, &options, &lowered, err))) break;
            *memory = (struct mt_plan_memory){.state_bytes = lowered->state_bytes,
                                              .arena_bytes = lowered->arena_bytes,
                                              .window_bytes = lowered->window_bytes};
            mt_lowered_free(lowered);
        }
        st = check_memory(p, p->order[i], err);
    }
    free(same);
    mt_device_close(device);
    return st;
}

static enum mt_status derive(struct mt_plan *plan, const struct mt_graph *graph, bool another, struct mt_err *err) {
    struct mt_program program;
    enum mt_status st;
    if ((st = mt_plan_check(plan, err)) || (st = mt_program_from_plan(graph, plan, true, &program, err))) return st;
    plan->parameters = mt_graph_parameters(graph);
    plan->flops_per_step = mt_graph_flops(graph);
    if (!(st = match_algorithms(plan, &program, another, err)) &&
        !(st = mt_overlapped_match(plan, &program, another, err)) && !(st = predict_memory(plan, &program, err))) {
        mt_graph_hash(graph, plan->model_hash);
        mt_program_hash(&program, plan->program_hash);
    }
    mt_program_release(&program);
    return st;
}

enum mt_status mt_plan_derive(struct mt_plan *plan, const struct mt_graph *graph, struct mt_err *err) {
    return derive(plan, graph, false, err);
}

enum mt_status mt_plan_derive_another(struct mt_plan *plan, struct mt_err *err) {
    struct mt_planned planned;
    enum mt_status st = mt_planned_graph(plan, &planned, err);
    if (!st) st = derive(plan, planned.graph, true, err);
    mt_planned_release(&planned);
    return st;
}
