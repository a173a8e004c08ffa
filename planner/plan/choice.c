/* From the plan's names to the builder's rules: the first, small enumeration of the search space.
 *
 * Sample operators take the first rule row that matches their name and whose split they can use. Parameters take the
 * first storage row; their casts, norms and updates follow. Sums of gradients stay partial, so that they are reduced
 * once. */
#include "planner/plan/choice.h"
#include "synth/ops/ops.h"

#include <fnmatch.h>
#include <string.h>

struct enumeration {
    const struct mt_graph *graph;
    const struct mt_plan *plan;
    struct mt_choice *choice;
    struct mt_arena *arena;
    struct mt_err *err;
};

static enum mt_status take_splits(struct enumeration *e) {
    int nranks = e->plan->nranks;
    struct mt_split *splits = mt_new(e->arena, struct mt_split, e->plan->nsplits);
    for (int s = 0; s < e->plan->nsplits; s++) {
        const struct mt_plan_split *from = &e->plan->splits[s];
        int label = mt_graph_find_label(e->graph, from->label);
        if (label < 0)
            return mt_fail(e->err, MT_EINPUT, "the plan splits \"%s\", a label that the model does not have",
                           from->label);
        splits[s].name = from->name;
        splits[s].label = label;
        splits[s].sizes = mt_arena_memdup(e->arena, from->sizes, (size_t)nranks * sizeof(int64_t));
        splits[s].starts = mt_new(e->arena, int64_t, nranks + 1);
        for (int r = 0; r < nranks; r++) splits[s].starts[r + 1] = splits[s].starts[r] + from->sizes[r];
        int64_t extent = e->graph->labels[label].extent, sum = splits[s].starts[nranks];
        if (sum != extent) {
            mt_fail(e->err, MT_EINPUT, "split \"%s\" sums to %lld, but %s is %lld", from->name, (long long)sum,
                    from->label, (long long)extent);
            return mt_err_hint(e->err, "run `motley plan` again, or edit the sizes so that they sum to %lld",
                               (long long)extent);
        }
    }
    e->choice->splits = splits;
    e->choice->nsplits = e->plan->nsplits;
    return MT_OK;
}

static const struct mt_split *split_named(const struct enumeration *e, const char *name) {
    for (int s = 0; s < e->choice->nsplits; s++)
        if (!strcmp(e->choice->splits[s].name, name)) return &e->choice->splits[s];
    return NULL;
}

/* The first index of `op` that carries the split's label and can be split; -1 if there is none. */
static int index_of(const struct mt_op *op, const struct mt_split *split) {
    for (int i = 0; i < op->nindices; i++)
        if (op->index_label[i] == split->label && mt_op_index_role(op, i) != MT_INDEX_WHOLE) return i;
    return -1;
}

static struct mt_rule split_rule(int index, const struct mt_split *split) {
    return (struct mt_rule){.kind = MT_RULE_SPLIT, .index = index, .split = split};
}

/* The row of the plan's rules that an operator on samples takes, and the rule that it makes; -1: no row applies. */
static int sample_rule(const struct enumeration *e, const struct mt_op *op, struct mt_rule *rule) {
    const struct mt_decisions *d = &e->plan->decisions;
    *rule = (struct mt_rule){.kind = MT_RULE_REPLICATE};
    for (int r = 0; r < d->nrules; r++) {
        if (fnmatch(d->rules[r].pattern, op->name, 0)) continue;
        if (d->rules[r].operators == MT_OPERATORS_REPLICATE) return r;
        const struct mt_split *split = split_named(e, d->rules[r].split);
        int index = index_of(op, split);
        if (index < 0) continue;
        *rule = split_rule(index, split);
        return r;
    }
    return -1;
}

static enum mt_status find_rule_splits(const struct enumeration *e) {
    for (int r = 0; r < e->plan->decisions.nrules; r++) {
        const struct mt_rule_row *row = &e->plan->decisions.rules[r];
        if (row->operators == MT_OPERATORS_SPLIT && !split_named(e, row->split))
            return mt_fail(e->err, MT_EINPUT, "rules[%d] names the split \"%s\", which the plan does not have", r,
                           row->split);
    }
    return MT_OK;
}

static const struct mt_split *storage_split(const struct enumeration *e, int param) {
    const struct mt_value *v = &e->graph->values[param];
    if (!v->naxes) return NULL;
    char name[128];
    snprintf(name, sizeof name, "storage:%s", e->graph->labels[v->label[mt_sharding_axis(e->graph, param)]].name);
    return split_named(e, name);
}

/* A plan that stores a parameter in shares has the split for it. */
static enum mt_status find_storage_splits(const struct enumeration *e) {
    const struct mt_graph *g = e->graph;
    for (int v = 0; v < g->nvalues; v++) {
        const struct mt_value *value = &g->values[v];
        if (!value->param || !value->naxes || !mt_plan_stored_split(e->plan, value->name) || storage_split(e, v))
            continue;
        mt_fail(e->err, MT_EINPUT, "%s is stored in shares of \"%s\", and the plan has no split \"storage:%s\"",
                value->name, g->labels[value->label[mt_sharding_axis(g, v)]].name,
                g->labels[value->label[mt_sharding_axis(g, v)]].name);
        return mt_err_hint(e->err, "add it to the plan's splits, store the parameter \"replicated\", or plan anew");
    }
    return MT_OK;
}

/* The parameter that a cast, a norm or an update belongs to, and which of its inputs has the parameter's axes; -1:
 * none. */
static int param_of(const struct mt_graph *g, const struct mt_op *op) {
    for (int i = 0; i < op->nin; i++)
        if (g->values[op->in[i]].param) return op->in[i];
    for (int v = 0; v < g->nvalues; v++)
        for (int i = 0; i < op->nin && g->values[v].param; i++)
            if (g->values[v].gradient == op->in[i]) return v;
    return -1;
}

static bool takes_shares(enum mt_op_kind kind) {
    return kind == MT_OP_cast || kind == MT_OP_sq_norm || kind == MT_OP_adamw || kind == MT_OP_sgd;
}

/* Operators without samples: storage, or sums that stay partial. A norm is computed from shares even of a replicated
 * gradient, so that the clip factor comes from a collective's result and is the same on every rank. */
static struct mt_rule other_rule(const struct enumeration *e, const struct mt_op *op) {
    const struct mt_graph *g = e->graph;
    int param = takes_shares(op->kind) ? param_of(g, op) : -1;
    if (param >= 0) {
        const struct mt_split *split = storage_split(e, param);
        bool shares = mt_plan_stored_split(e->plan, g->values[param].name) || op->kind == MT_OP_sq_norm;
        if (split && shares) return split_rule(op->in_index[0][mt_sharding_axis(g, param)], split);
        return (struct mt_rule){.kind = MT_RULE_REPLICATE};
    }
    unsigned sets[MT_MAX_IN];
    bool sum = op->role != MT_ROLE_FORWARD && mt_op_linear_sets(op, sets) > 0;
    return (struct mt_rule){.kind = sum ? MT_RULE_LINEAR : MT_RULE_REPLICATE, .set = 0};
}

static bool has_batch_index(const struct mt_graph *g, const struct mt_op *op) {
    for (int i = 0; i < op->nindices; i++)
        if (op->index_label[i] == g->batch) return true;
    return false;
}

enum mt_status mt_choice_from_plan(const struct mt_graph *graph, const struct mt_plan *plan, struct mt_arena *arena,
                                   struct mt_choice *choice, struct mt_err *err) {
    struct enumeration e = {graph, plan, choice, arena, err};
    *choice = (struct mt_choice){.nranks = plan->nranks, .decisions = plan->decisions};
    if (!mt_type_is_half(plan->decisions.gradient_wire)) choice->decisions.gradient_wire = graph->acc;
    enum mt_status st = take_splits(&e);
    if (st || (st = find_rule_splits(&e)) || (st = find_storage_splits(&e))) return st;
    choice->batch = split_named(&e, "batch");
    choice->micro = mt_arena_memdup(arena, plan->micro, (size_t)plan->nranks * sizeof *plan->micro);
    choice->rules = mt_new(arena, struct mt_rule, graph->nops);
    for (int o = 0; o < graph->nops; o++) {
        const struct mt_op *op = &graph->ops[o];
        if (has_batch_index(graph, op))
            sample_rule(&e, op, &choice->rules[o]);
        else
            choice->rules[o] = other_rule(&e, op);
    }
    return MT_OK;
}

static bool catches_all(const char *pattern) {
    return !strcmp(pattern, "*");
}

static enum mt_status refuse_row(const char *list, int row, const char *pattern, struct mt_err *err) {
    mt_fail(err, MT_EINPUT, "%s[%d].pattern: \"%.100s\" has no effect", list, row, pattern);
    return mt_err_hint(err,
                       "either nothing of the model has such a name and what it splits, or rows before it take all "
                       "of it; `motley show graph` lists names");
}

enum mt_status mt_choice_check_rows(const struct mt_graph *graph, const struct mt_plan *plan,
                                    const struct mt_choice *choice, struct mt_err *err) {
    struct mt_choice same = *choice;
    struct mt_arena arena = MT_ARENA_INIT;
    struct enumeration e = {graph, plan, &same, &arena, err};
    const struct mt_decisions *d = &plan->decisions;
    bool *used = mt_new(&arena, bool, d->nrules + 1), *stored = mt_new(&arena, bool, d->nstorage + 1);
    enum mt_status st = MT_OK;
    for (int o = 0; o < graph->nops; o++) {
        struct mt_rule rule;
        int row = has_batch_index(graph, &graph->ops[o]) ? sample_rule(&e, &graph->ops[o], &rule) : -1;
        if (row >= 0) used[row] = true;
    }
    for (int v = 0; v < graph->nvalues; v++) {
        int row = graph->values[v].param ? mt_plan_storage_row(plan, graph->values[v].name) : -1;
        if (row >= 0) stored[row] = true;
    }
    for (int r = 0; r < d->nrules && !st; r++)
        if (!used[r] && !catches_all(d->rules[r].pattern)) st = refuse_row("rules", r, d->rules[r].pattern, err);
    for (int s = 0; s < d->nstorage && !st; s++)
        if (!stored[s] && !catches_all(d->storage[s].pattern))
            st = refuse_row("storage", s, d->storage[s].pattern, err);
    mt_arena_release(&arena);
    return st;
}
