/* Variants of a plan. */
#include "launcher/verify/proxy_plan.h"

#include <string.h>

#include "planner/plan/planned.h"
#include "planner/balance/split.h"

/* A plan that shares all that `plan` has, with an arena of its own. */
static struct mt_plan *borrow(const struct mt_plan *plan) {
    struct mt_plan *variant = mt_plan_new(plan->nranks);
    struct mt_arena arena = variant->arena;
    *variant = *plan;
    variant->arena = arena;
    variant->hash[0] = variant->model_hash[0] = variant->program_hash[0] = 0;
    return variant;
}

struct mt_plan *mt_variant_wide(const struct mt_plan *plan) {
    struct mt_plan *wide = borrow(plan);
    wide->job.precision = MT_F64;
    wide->job.tf32 = false;
    wide->decisions.gradient_wire = MT_F64;
    return wide;
}

struct mt_plan *mt_variant_alone(const struct mt_plan *plan) {
    struct mt_plan *alone = borrow(plan);
    alone->nranks = 1;
    alone->splits = mt_arena_memdup(&alone->arena, plan->splits, (size_t)plan->nsplits * sizeof *plan->splits);
    for (int s = 0; s < plan->nsplits; s++) {
        alone->splits[s].sizes = mt_new(&alone->arena, int64_t, 1);
        for (int r = 0; r < plan->nranks; r++) alone->splits[s].sizes[0] += plan->splits[s].sizes[r];
    }
    alone->micro = mt_new(&alone->arena, int64_t, 1);
    alone->micro[0] = plan->job.batch;
    return alone;
}

static int64_t at_most(int64_t value, int64_t most) {
    return value < most ? value : most;
}

/* Options that make a model big, and what they are cut to. Heads divide the width, so both are cut or neither. */
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

/* The split's proportions over what the label has now. */
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

enum mt_status mt_variant_small(const struct mt_plan *plan, struct mt_plan **small, struct mt_err *err) {
    struct mt_plan *p = borrow(plan);
    struct mt_planned planned = {0};
    enum mt_status st = mt_model_parse(plan->model, &planned.model, err);
    if (st) goto out;
    p->model = small_model(&planned.model, &p->arena);
    p->job.seq = at_most(plan->job.seq, at_most(mt_model_get(&planned.model, "context"), 32));
    if ((st = mt_planned_graph(p, &planned, err))) goto out;
    p->splits = mt_arena_memdup(&p->arena, plan->splits, (size_t)plan->nsplits * sizeof *plan->splits);
    for (int s = 0; s < p->nsplits && !st; s++)
        if (strcmp(p->splits[s].name, "batch")) st = shrink_split(planned.graph, p, &p->splits[s], err);
out:
    mt_planned_release(&planned);
    if (st)
        mt_plan_free(p);
    else
        *small = p;
    return st;
}
