/* From the plan's names to the builder's rules: the first, small enumeration of the search space.
 *
 * Sample operators take the first rule row that matches their name and whose split they can use. Parameters take the
 * first storage row; their casts, norms and updates follow. Sums of gradients stay partial, so that they are reduced
 * once. */
#include "planner/plan/choice.h"
#include "synth/ops/ops.h"

#include <fnmatch.h>
#include <string.h>

struct parameter {
    int axis;                     /* its sharding axis; -1: a scalar */
    bool sharded;                 /* by its storage row */
    const struct mt_split *split; /* the split "storage:LABEL" of that axis, or null */
};

struct enumeration {
    const struct mt_graph *graph;
    struct mt_choice *choice;
    const struct mt_split **of_row;       /* [rule rows]: the split that it names, or null */
    bool *rule_is_used, *storage_is_used; /* [rows]: some operator or parameter takes it */
    struct parameter *parameters;         /* [values]: of those that are parameters */
    int *param_of;                        /* [values]: the parameter whose gradient it is, or -1 */
};

static const struct mt_split *split_named(const struct mt_choice *choice, const char *name) {
    for (int s = 0; s < choice->nsplits; s++)
        if (!strcmp(choice->splits[s].name, name)) return &choice->splits[s];
    return NULL;
}

static enum mt_status take_splits(const struct mt_graph *g, const struct mt_plan *plan, struct mt_arena *arena,
                                  struct mt_choice *choice, struct mt_err *err) {
    int nplaces = plan->nplaces;
    struct mt_split *splits = mt_new(arena, struct mt_split, plan->nsplits);
    for (int s = 0; s < plan->nsplits; s++) {
        const struct mt_plan_split *from = &plan->splits[s];
        int label = mt_graph_find_label(g, from->label);
        if (label < 0)
            return mt_fail(err, MT_EINPUT, "the plan splits \"%s\", a label that the model does not have", from->label);
        int64_t *starts = mt_new(arena, int64_t, nplaces + 1), extent = g->labels[label].extent;
        int64_t *sizes = mt_plan_at_places(plan, from->sizes, arena);
        for (int i = 0; i < nplaces; i++) starts[i + 1] = starts[i] + sizes[i];
        if (starts[nplaces] != extent) {
            mt_fail(err, MT_EINPUT, "split \"%s\" sums to %lld, but %s is %lld", from->name, (long long)starts[nplaces],
                    from->label, (long long)extent);
            return mt_err_hint(err, "run `motley plan` again, or edit the sizes so that they sum to %lld",
                               (long long)extent);
        }
        splits[s] = (struct mt_split){.name = from->name, .label = label, .sizes = sizes, .starts = starts};
    }
    choice->splits = splits;
    choice->nsplits = plan->nsplits;
    choice->batch = split_named(choice, "batch");
    return MT_OK;
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

/* The rule that an operator on samples gets from the first row that applies; without one it is replicated. */
static struct mt_rule sample_rule(const struct enumeration *e, const struct mt_op *op) {
    const struct mt_decisions *d = &e->choice->decisions;
    for (int r = 0; r < d->nrules; r++) {
        if (fnmatch(d->rules[r].pattern, op->name, 0)) continue;
        int index = e->of_row[r] ? index_of(op, e->of_row[r]) : -1;
        if (e->of_row[r] && index < 0) continue;
        e->rule_is_used[r] = true;
        if (e->of_row[r]) return split_rule(index, e->of_row[r]);
        break;
    }
    return (struct mt_rule){.kind = MT_RULE_REPLICATE};
}

static enum mt_status find_rule_splits(struct enumeration *e, struct mt_err *err) {
    const struct mt_decisions *d = &e->choice->decisions;
    for (int r = 0; r < d->nrules; r++) {
        if (d->rules[r].operators == MT_OPERATORS_REPLICATE) continue;
        if (!(e->of_row[r] = split_named(e->choice, d->rules[r].split)))
            return mt_fail(err, MT_EINPUT, "rules[%d] names the split \"%s\", which the plan does not have", r,
                           d->rules[r].split);
    }
    return MT_OK;
}

/* The storage row and the split of each parameter. A plan that stores a parameter in shares has the split for it. */
static enum mt_status store_parameters(struct enumeration *e, const struct mt_plan *plan, struct mt_err *err) {
    const struct mt_graph *g = e->graph;
    for (int v = 0; v < g->nvalues; v++) {
        const struct mt_value *value = &g->values[v];
        struct parameter *p = &e->parameters[v];
        if (!value->param) continue;
        if (value->gradient >= 0) e->param_of[value->gradient] = v;
        int row = mt_plan_storage_row(plan, value->name);
        if (row >= 0) e->storage_is_used[row] = true;
        p->axis = mt_sharding_axis(g, v);
        p->sharded = row >= 0 && plan->decisions.storage[row].state == MT_STATE_SPLIT;
        for (int s = 0; p->axis >= 0 && s < e->choice->nsplits; s++)
            if (e->choice->splits[s].label == value->label[p->axis] &&
                !strncmp(e->choice->splits[s].name, "storage:", 8))
                p->split = &e->choice->splits[s];
        if (p->axis < 0 || !p->sharded || p->split) continue;
        const char *label = g->labels[value->label[p->axis]].name;
        mt_fail(err, MT_EINPUT, "%s is stored in shares of \"%s\", and the plan has no split \"storage:%s\"",
                value->name, label, label);
        return mt_err_hint(err, "add it to the plan's splits, store the parameter \"replicated\", or plan anew");
    }
    return MT_OK;
}

/* The parameter that a cast, a norm or an update belongs to, and which of its inputs has the parameter's axes; -1:
 * none. */
static int param_of(const struct enumeration *e, const struct mt_op *op) {
    for (int i = 0; i < op->nin; i++)
        if (e->graph->values[op->in[i]].param) return op->in[i];
    for (int i = 0; i < op->nin; i++)
        if (e->param_of[op->in[i]] >= 0) return e->param_of[op->in[i]];
    return -1;
}

static bool takes_shares(enum mt_op_kind kind) {
    return kind == MT_OP_cast || kind == MT_OP_sq_norm || kind == MT_OP_adamw || kind == MT_OP_sgd;
}

/* Operators without samples: storage, or sums that stay partial. A norm is computed from shares even of a replicated
 * gradient, so that the clip factor comes from a collective's result and is the same on every rank. */
static struct mt_rule other_rule(const struct enumeration *e, const struct mt_op *op) {
    int param = takes_shares(op->kind) ? param_of(e, op) : -1;
    if (param >= 0) {
        const struct parameter *p = &e->parameters[param];
        if (p->split && (p->sharded || op->kind == MT_OP_sq_norm))
            return split_rule(op->in_index[0][p->axis], p->split);
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

static enum mt_status refuse_row(const char *list, int row, const char *pattern, struct mt_err *err) {
    mt_fail(err, MT_EINPUT, "%s[%d].pattern: \"%.100s\" has no effect", list, row, pattern);
    return mt_err_hint(err,
                       "either nothing of the model has such a name and what it splits, or rows before it take all "
                       "of it; `motley show graph` lists names");
}

/* "*" may catch nothing. */
static enum mt_status check_rows(const struct enumeration *e, struct mt_err *err) {
    const struct mt_decisions *d = &e->choice->decisions;
    for (int r = 0; r < d->nrules; r++)
        if (!e->rule_is_used[r] && strcmp(d->rules[r].pattern, "*"))
            return refuse_row("rules", r, d->rules[r].pattern, err);
    for (int s = 0; s < d->nstorage; s++)
        if (!e->storage_is_used[s] && strcmp(d->storage[s].pattern, "*"))
            return refuse_row("storage", s, d->storage[s].pattern, err);
    return MT_OK;
}

enum mt_status mt_choice_from_plan(const struct mt_graph *graph, const struct mt_plan *plan, bool strict,
                                   struct mt_arena *arena, struct mt_choice *choice, struct mt_err *err) {
    const struct mt_decisions *d = &plan->decisions;
    *choice = (struct mt_choice){
        .nranks = plan->nplaces, .micro = mt_plan_at_places(plan, plan->micro, arena), .decisions = *d};
    choice->node = mt_plan_nodes(plan, arena);
    if (!mt_type_is_half(d->gradient_wire)) choice->decisions.gradient_wire = graph->acc;
    enum mt_status st = take_splits(graph, plan, arena, choice, err);
    if (st) return st;
    struct enumeration e = {.graph = graph,
                            .choice = choice,
                            .of_row = mt_new(arena, const struct mt_split *, d->nrules),
                            .rule_is_used = mt_new(arena, bool, d->nrules),
                            .storage_is_used = mt_new(arena, bool, d->nstorage),
                            .parameters = mt_new(arena, struct parameter, graph->nvalues),
                            .param_of = mt_new(arena, int, graph->nvalues)};
    for (int v = 0; v < graph->nvalues; v++) e.param_of[v] = -1;
    if ((st = find_rule_splits(&e, err)) || (st = store_parameters(&e, plan, err))) return st;
    choice->rules = mt_new(arena, struct mt_rule, graph->nops);
    for (int o = 0; o < graph->nops; o++) {
        const struct mt_op *op = &graph->ops[o];
        choice->rules[o] = has_batch_index(graph, op) ? sample_rule(&e, op) : other_rule(&e, op);
    }
    return strict ? check_rows(&e, err) : MT_OK;
}

enum mt_status mt_program_from_plan(const struct mt_graph *graph, const struct mt_plan *plan, bool strict,
                                    struct mt_program *program, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_choice choice;
    enum mt_status st = mt_choice_from_plan(graph, plan, strict, &arena, &choice, err);
    if (!st) st = mt_build(graph, &choice, program, err);
    mt_arena_release(&arena);
    return st;
}
