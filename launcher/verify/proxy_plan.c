/* Proxies of a plan. */
#include "launcher/verify/proxy_plan.h"

#include <string.h>

#include "planner/plan/planned.h"
#include "planner/balance/split.h"

/* A shallow copy with an arena of its own and no hashes. */
static struct mt_plan *borrow(const struct mt_plan *plan) {
    struct mt_plan *proxy = mt_plan_new(plan->nranks);
    struct mt_arena arena = proxy->arena;
    *proxy = *plan;
    proxy->arena = arena;
    proxy->hash[0] = proxy->model_hash[0] = proxy->program_hash[0] = 0;
    return proxy;
}

struct mt_plan *mt_proxy_plan_fp64(const struct mt_plan *plan) {
    struct mt_plan *fp64 = borrow(plan);
    fp64->job.precision = MT_F64;
    fp64->job.tf32 = false;
    fp64->decisions.gradient_wire = MT_F64;
    return fp64;
}

struct mt_plan *mt_proxy_plan_one_rank(const struct mt_plan *plan) {
    struct mt_plan *one = borrow(plan);
    one->nranks = one->nplaces = 1;
    one->order = mt_new(&one->arena, int, 1);
    one->splits = mt_arena_memdup(&one->arena, plan->splits, (size_t)plan->nsplits * sizeof *plan->splits);
    for (int s = 0; s < plan->nsplits; s++) {
        one->splits[s].sizes = mt_new(&one->arena, int64_t, 1);
        for (int r = 0; r < plan->nranks; r++) one->splits[s].sizes[0] += plan->splits[s].sizes[r];
    }
    one->micro = mt_new(&one->arena, int64_t, 1);
    one->micro[0] = plan->job.batch;
    return one;
}

static int64_t at_most(int64_t value, int64_t most) {
    return value < most ? value : most;
}

/* Options that determine a model's size, and their limits. Heads divide the width, so both are cut or neither. */
static char *small_model(const struct mt_model *model, struct mt_arena *arena) {
    static const struct {
        const char *name;
        int64_t most;
        bool with_width;
    } cuts[] = {{"layers", 2, false},  {"embed", 32, false}, {"heads", 2, true},   {"context", 32, false},
                {"vocab", 256, false}, {"ffn", 128, true},   {"hidden", 64, false}};
    bool wide = mt_model_get(model, "embed") > 32;
    char *text = mt_arena_printf(arena, "%s:", model->class->name);
    for (int o = 0; o < model->noptions; o++) {
        int64_t value = model->options[o].value;
        for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++)
            if (!strcmp(cuts[c].name, model->options[o].name) && (wide || !cuts[c].with_width))
                value = at_most(value, cuts[c].most);
        text = mt_arena_printf(arena, "%s%s%s=%lld", text, o ? "," : "", model->options[o].name, (long long)value);
    }
    return text;
}

/* The split's proportions over the label's extent in the small model. */
static enum mt_status shrink_split(const struct mt_graph *graph, struct mt_plan *small, struct mt_plan_split *split,
                                   struct mt_err *err) {
    int label = mt_graph_find_label(graph, split->label);
    if (label < 0) return mt_fail(err, MT_EINPUT, "splits: the model has no label \"%s\"", split->label);
    double *speeds = mt_new(&small->arena, double, small->nranks);
    int64_t *sizes = mt_new(&small->arena, int64_t, small->nranks);
    for (int r = 0; r < small->nranks; r++) speeds[r] = (double)split->sizes[r];
    split->sizes = sizes;
    split->align = graph->labels[label].align;
    return mt_split_proportional(graph->labels[label].extent, split->align, speeds, small->nranks, sizes, err);
}

/* A split by the name that divides state by a label. */
static const char *storage_name(const struct mt_graph *graph, int label, struct mt_arena *arena) {
    return mt_arena_printf(arena, "storage:%s", graph->labels[label].name);
}

/* In the small model another axis of a parameter may be the one by which it is sharded, of a label that the plan does
 * not divide: as the parameter's own axis is divided in the plan. */
static enum mt_status add_splits(const struct mt_graph *graph, const struct mt_graph *whole, const struct mt_plan *plan,
                                 struct mt_plan *small, struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int v = 0; v < graph->nvalues && !st; v++) {
        const struct mt_value *value = &graph->values[v];
        int axis = value->param ? mt_sharding_axis(graph, v) : -1, own = mt_graph_find_value(whole, value->name);
        int own_axis = own >= 0 ? mt_sharding_axis(whole, own) : -1;
        if (axis < 0 || own_axis < 0 || !mt_plan_stored_split(plan, value->name)) continue;
        const char *name = storage_name(graph, value->label[axis], &small->arena);
        const struct mt_plan_split *like =
            mt_plan_split_named(plan, storage_name(whole, whole->values[own].label[own_axis], &small->arena));
        if (!like || mt_plan_split_named(small, name)) continue;
        struct mt_plan_split *split = &small->splits[small->nsplits++];
        *split = *like;
        split->name = name;
        split->label = graph->labels[value->label[axis]].name;
        st = shrink_split(graph, small, split, err);
        split->label = mt_arena_strdup(&small->arena, split->label);
    }
    return st;
}

static enum mt_status shrink(const struct mt_plan *plan, const struct mt_graph *whole, struct mt_plan *small,
                             struct mt_planned *planned, struct mt_err *err) {
    enum mt_status st = mt_model_parse(small->model, &planned->model, err);
    if (st) return st;
    small->model = small_model(&planned->model, &small->arena);
    small->job.seq = at_most(small->job.seq, at_most(mt_model_get(&planned->model, "context"), 32));
    if ((st = mt_planned_graph(small, planned, err))) return st;
    const struct mt_graph *graph = planned->graph;
    small->splits = mt_new(&small->arena, struct mt_plan_split, plan->nsplits + graph->nlabels);
    memcpy(small->splits, plan->splits, (size_t)plan->nsplits * sizeof *small->splits);
    for (int s = 0; s < small->nsplits && !st; s++)
        if (strcmp(small->splits[s].name, "batch")) st = shrink_split(graph, small, &small->splits[s], err);
    return st ? st : add_splits(graph, whole, plan, small, err);
}

enum mt_status mt_proxy_plan_small(const struct mt_plan *plan, struct mt_plan **small, struct mt_err *err) {
    struct mt_planned planned = {0}, whole = {0};
    *small = borrow(plan);
    enum mt_status st = mt_planned_graph(plan, &whole, err);
    if (!st) st = shrink(plan, whole.graph, *small, &planned, err);
    mt_planned_release(&planned);
    mt_planned_release(&whole);
    if (!st) return MT_OK;
    mt_plan_free(*small);
    *small = NULL;
    return st;
}
