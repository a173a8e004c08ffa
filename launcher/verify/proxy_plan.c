/* Proxies of a plan. */
#include "launcher/verify/proxy_plan.h"

#include <stdlib.h>
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

/* The whole batch, and everything else whole. */
struct mt_plan *mt_proxy_plan_one_rank(const struct mt_plan *plan) {
    struct mt_plan *one = borrow(plan);
    struct mt_decisions *d = &one->decisions;
    one->nranks = one->nplaces = one->nsplits = 1;
    one->order = mt_new(&one->arena, int, 1);
    one->splits = mt_new(&one->arena, struct mt_plan_split, 1);
    one->splits[0] = *mt_plan_split_named(plan, "batch");
    one->splits[0].over = MT_OVER_ALL;
    one->splits[0].sizes = mt_new(&one->arena, int64_t, 1);
    one->splits[0].sizes[0] = plan->job.batch;
    one->micro = mt_new(&one->arena, int64_t, 1);
    one->micro[0] = plan->job.batch;
    d->nrules = d->nstorage = 0;
    mt_decisions_complete(d, &one->arena);
    return one;
}

static int64_t at_most(int64_t value, int64_t most) {
    return value < most ? value : most;
}

static bool has_option(const struct mt_model *model, const char *name) {
    for (int o = 0; o < model->noptions; o++)
        if (!strcmp(model->options[o].name, name)) return true;
    return false;
}

/* Heads of the small model. Those of keys and values serve several query heads where they do in the model. */
static int64_t small_heads(const struct mt_model *model, int64_t most) {
    int64_t heads = mt_model_get(model, "heads"), groups = heads;
    if (has_option(model, "kv_heads")) groups = mt_model_get(model, "kv_heads");
    return at_most(groups, most) * at_most(heads / groups, most);
}

/* Options that determine a model's size, and their limits. Heads divide the width, so both are cut or neither. */
static char *small_model(const struct mt_model *model, struct mt_arena *arena) {
    static const struct {
        const char *name;
        int64_t most;
        bool with_width;
    } cuts[] = {{"layers", 2, false},  {"embed", 32, false}, {"heads", 2, true},    {"context", 32, false},
                {"vocab", 256, false}, {"ffn", 128, true},   {"hidden", 64, false}, {"kv_heads", 2, true},
                {"headsize", 8, true}, {"window", 8, false}};
    bool wide = mt_model_get(model, "embed") > 32;
    char *text = mt_arena_printf(arena, "%s:", model->class->name);
    for (int o = 0; o < model->noptions; o++) {
        int64_t value = model->options[o].value;
        for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++)
            if (!strcmp(cuts[c].name, model->options[o].name) && (wide || !cuts[c].with_width))
                value =
                    !strcmp(cuts[c].name, "heads") ? small_heads(model, cuts[c].most) : at_most(value, cuts[c].most);
        text = mt_arena_printf(arena, "%s%s%s", text, o ? "," : "",
                               mt_model_option_text(&model->options[o], value, arena));
    }
    return text;
}

/* extent[nhosts]: what the ranks of each host divide in the small model: as in the plan, where their shares are its
 * share by a split over hosts of the same label, which has shrunk already, or the whole extent. */
static void host_extents(const struct mt_plan *plan, const struct mt_plan *small, const struct mt_plan_split *split,
                         const int *host, int nhosts, int64_t whole, int64_t *extent) {
    struct mt_arena arena = MT_ARENA_INIT;
    int64_t *sum = mt_new(&arena, int64_t, nhosts);
    for (int r = 0; r < plan->nranks; r++) sum[host[r]] += split->sizes[r];
    for (int h = 0; h < nhosts; h++) extent[h] = whole;
    for (int s = 0; s < plan->nsplits; s++) {
        const struct mt_plan_split *over = &plan->splits[s];
        bool same = over->over == MT_OVER_HOST && !strcmp(over->label, split->label);
        for (int r = 0; r < plan->nranks && same; r++) same = !over->sizes[r] || over->sizes[r] == sum[host[r]];
        for (int r = 0; r < plan->nranks && same; r++)
            if (mt_plan_place(plan, r) >= 0) extent[host[r]] = small->splits[s].sizes[r];
    }
    mt_arena_release(&arena);
}

/* Divide an extent in proportion to the shares of some of the ranks; nobody has any of it where they have none. */
static enum mt_status divide_like(int64_t extent, int64_t align, const int64_t *like, const int *rank, int n,
                                  int64_t *sizes, struct mt_err *err) {
    double *speeds = mt_calloc((size_t)n, sizeof *speeds);
    int64_t *shares = mt_calloc((size_t)n, sizeof *shares), sum = 0;
    for (int i = 0; i < n; i++) sum += like[rank[i]], speeds[i] = (double)like[rank[i]];
    enum mt_status st = sum ? mt_split_proportional(extent, align, speeds, n, shares, err) : MT_OK;
    for (int i = 0; i < n; i++) sizes[rank[i]] = shares[i];
    free(shares);
    free(speeds);
    return st;
}

/* The split's proportions over the label's extent in the small model: of all ranks, of hosts (each by its first rank),
 * or of the ranks of each host. */
static enum mt_status shrink_split(const struct mt_graph *graph, const struct mt_plan *plan, struct mt_plan *small,
                                   struct mt_plan_split *split, struct mt_err *err) {
    int label = mt_graph_find_label(graph, split->label), n = 0, nhosts, *host;
    if (label < 0) return mt_fail(err, MT_EINPUT, "splits: the model has no label \"%s\"", split->label);
    struct mt_arena *arena = &small->arena;
    int64_t *sizes = mt_new(arena, int64_t, small->nranks), whole = graph->labels[label].extent;
    int *rank = mt_new(arena, int, small->nranks);
    enum mt_status st = MT_OK;
    host = mt_plan_hosts(plan, arena, &nhosts);
    int64_t *extent = mt_new(arena, int64_t, nhosts), align = graph->labels[label].align;
    int *first = mt_new(arena, int, nhosts); /* + 1 */
    host_extents(plan, small, split, host, nhosts, whole, extent);
    for (int i = 0; i < plan->nplaces; i++)
        if (!first[host[plan->order[i]]]) first[host[plan->order[i]]] = plan->order[i] + 1;
    for (int h = 0; h < nhosts && split->over == MT_OVER_DEVICE && !st; h++) {
        n = 0;
        for (int r = 0; r < small->nranks; r++)
            if (host[r] == h) rank[n++] = r;
        st = divide_like(extent[h], align, split->sizes, rank, n, sizes, err);
    }
    for (int r = 0; r < small->nranks && split->over != MT_OVER_DEVICE; r++)
        if (split->over == MT_OVER_ALL || first[host[r]] == r + 1) rank[n++] = r;
    if (split->over != MT_OVER_DEVICE) st = divide_like(whole, align, split->sizes, rank, n, sizes, err);
    for (int i = 0; i < plan->nplaces && split->over == MT_OVER_HOST; i++)
        sizes[plan->order[i]] = sizes[first[host[plan->order[i]]] - 1];
    split->sizes = sizes;
    split->align = align;
    return st;
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
        st = shrink_split(graph, plan, small, split, err);
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
    small->nsplits = plan->nsplits;
    for (int within = 0; within < 2; within++) /* splits over devices divide what those over hosts give */
        for (int s = 0; s < plan->nsplits && !st; s++)
            if (strcmp(small->splits[s].name, "batch") && (small->splits[s].over == MT_OVER_DEVICE) == within)
                st = shrink_split(graph, plan, small, &small->splits[s], err);
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
