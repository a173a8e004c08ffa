/* From the plan's names to the builder's rules: the first, small enumeration of the search space.
 *
 * Sample operators take the first rule row that matches their name and whose splits they can use. Parameters take the
 * first storage row; their casts, norms and updates follow. Sums of gradients stay partial, so that they are reduced
 * once. */
#include "planner/plan/choice.h"

#include <string.h>

#include "planner/plan/patterns.h"
#include "synth/ops/ops.h"

/* What a row, or a parameter's storage, divides: of an operator's indices, or of a parameter's axes. */
struct placing {
    const struct mt_split *outer; /* null: nothing, or with inner: the hosts do the same */
    int at;                       /* the index or axis */
    bool two_levels;
    const struct mt_split **inner; /* [nnodes]; null: the node's ranks do the same */
    int *inner_at;                 /* [nnodes] */
};

struct row { /* its splits by name */
    const char *list, *pattern;
    int number;
    const struct mt_split *outer;
    const struct mt_split **inner; /* [nnodes], or null */
    const struct mt_row_levels *levels;
    bool is_used, matches; /* an operator or parameter takes it; its name matches that of one */
};

struct parameter {
    bool sharded;           /* by its storage row */
    struct placing storage; /* that of the row, or of the split "storage:LABEL" of its sharding axis */
};

struct enumeration {
    const struct mt_graph *graph;
    const struct mt_plan *plan;
    struct mt_choice *choice;
    struct mt_arena *arena;
    struct mt_err *err;
    struct row *rules, *storage;
    struct mt_patterns rule_patterns, storage_patterns; /* of the rows */
    struct parameter *parameters;                       /* [values]: of those that are parameters */
    int *param_of;                                      /* [values]: the parameter whose gradient it is, or -1 */
    int *host_of;                                       /* [nnodes]: the plan's number of each host */
};

/* ---- the mesh, and splits over it ---- */

static const struct mt_split *split_named(const struct mt_choice *choice, const char *name) {
    for (int s = 0; s < choice->nsplits; s++)
        if (!strcmp(choice->splits[s].name, name)) return &choice->splits[s];
    return NULL;
}

/* The places by host: nodes are numbered by first place, the plan's hosts by first rank. */
static void find_mesh(struct enumeration *e) {
    const struct mt_plan *plan = e->plan;
    int nhosts, *host = mt_plan_hosts(plan, e->arena, &nhosts), nnodes = 0;
    int *node_of = mt_new(e->arena, int, nhosts), *node = mt_new(e->arena, int, plan->nplaces);
    e->host_of = mt_new(e->arena, int, nhosts);
    for (int i = 0; i < plan->nplaces; i++) {
        int h = host[plan->order[i]];
        if (!node_of[h]) e->host_of[nnodes] = h, node_of[h] = ++nnodes;
        node[i] = node_of[h] - 1;
    }
    e->choice->mesh = (struct mt_mesh){plan->nplaces, nnodes, node};
}

/* Places of one device class are alike: a class is a model of device with a number of threads, or of multiprocessors
 * that compute. (A CPU whose time is stretched runs the kernels of its class.) Null: the plan names no classes. */
static int *find_alike(const struct mt_plan *plan, struct mt_arena *arena) {
    int *alike = mt_new(arena, int, plan->nplaces);
    for (int i = 0; i < plan->nplaces; i++) {
        const char *class = plan->ranks[plan->order[i]].class;
        if (!class[0]) return NULL;
        while (strcmp(plan->ranks[plan->order[alike[i]]].class, class) != 0) alike[i]++;
    }
    return alike;
}

static const enum mt_axis axis_of[MT_NOVER] = {
    [MT_OVER_ALL] = MT_AXIS_ALL, [MT_OVER_HOST] = MT_AXIS_HOST, [MT_OVER_DEVICE] = MT_AXIS_DEVICE};

static enum mt_status refuse_sum(struct enumeration *e, const struct mt_plan_split *split, int64_t sum) {
    int64_t extent = e->graph->labels[mt_graph_find_label(e->graph, split->label)].extent;
    mt_fail(e->err, MT_EINPUT, "split \"%s\" sums to %lld%s, but %s is %lld", split->name, (long long)sum,
            split->over == MT_OVER_HOST ? " over hosts" : "", split->label, (long long)extent);
    return mt_err_hint(e->err, "run `motley plan` again, or edit the sizes so that they sum to %lld",
                       (long long)extent);
}

/* Shares by place, or by node; each rank's share of its node's part begins after those of the ranks before it. */
static void fill_split(const struct enumeration *e, const struct mt_plan_split *from, struct mt_split *to) {
    const struct mt_mesh *mesh = &e->choice->mesh;
    int64_t *sizes = mt_plan_at_places(e->plan, from->sizes, e->arena);
    int n = to->axis == MT_AXIS_HOST ? mesh->nnodes : mesh->nranks;
    to->sizes = mt_new(e->arena, int64_t, n);
    to->starts = mt_new(e->arena, int64_t, n + 1);
    for (int i = 0; i < mesh->nranks; i++) to->sizes[to->axis == MT_AXIS_HOST ? mesh->node[i] : i] = sizes[i];
    if (to->axis != MT_AXIS_DEVICE) {
        for (int i = 0; i < n; i++) to->starts[i + 1] = to->starts[i] + to->sizes[i];
        return;
    }
    int64_t *end = mt_new(e->arena, int64_t, mesh->nnodes);
    for (int i = 0; i < n; i++) to->starts[i] = end[mesh->node[i]], end[mesh->node[i]] += sizes[i];
}

static enum mt_status take_splits(struct enumeration *e) {
    const struct mt_graph *g = e->graph;
    const struct mt_plan *plan = e->plan;
    struct mt_split *splits = mt_new(e->arena, struct mt_split, plan->nsplits);
    for (int s = 0; s < plan->nsplits; s++) {
        const struct mt_plan_split *from = &plan->splits[s];
        int label = mt_graph_find_label(g, from->label);
        if (label < 0)
            return mt_fail(e->err, MT_EINPUT, "the plan splits \"%s\", a label that the model does not have",
                           from->label);
        splits[s] = (struct mt_split){.name = from->name, .label = label, .axis = axis_of[from->over]};
        fill_split(e, from, &splits[s]);
        int n = from->over == MT_OVER_HOST ? e->choice->mesh.nnodes : plan->nplaces;
        if (from->over != MT_OVER_DEVICE && splits[s].starts[n] != g->labels[label].extent)
            return refuse_sum(e, from, splits[s].starts[n]);
    }
    e->choice->splits = splits;
    e->choice->nsplits = plan->nsplits;
    e->choice->batch = split_named(e->choice, "batch");
    return MT_OK;
}

/* ---- rows ---- */

/* What stands for a level that is linear (MT_ROW_LINEAR): its members compute different terms. */
static const struct mt_split linear = {.name = MT_ROW_LINEAR, .label = -1};

static const struct mt_split *level_named(const struct mt_choice *choice, const struct row *row, const char *name) {
    bool is_linear = !strcmp(name, MT_ROW_LINEAR) && !strcmp(row->list, "rules");
    return is_linear ? &linear : split_named(choice, name);
}

static enum mt_status name_splits(struct enumeration *e, struct row *row, const char *name) {
    const struct mt_row_levels *levels = row->levels;
    int nnodes = e->choice->mesh.nnodes;
    if (name && name[0] && !(row->outer = level_named(e->choice, row, name)))
        return mt_fail(e->err, MT_EINPUT, "%s[%d] names the split \"%s\", which the plan does not have", row->list,
                       row->number, name);
    if (!levels->ninner) return MT_OK;
    row->inner = mt_new(e->arena, const struct mt_split *, nnodes);
    for (int k = 0; k < nnodes; k++) {
        const char *inner = levels->inner[levels->ninner == 1 ? 0 : e->host_of[k]];
        if (inner[0] && !(row->inner[k] = level_named(e->choice, row, inner)))
            return mt_fail(e->err, MT_EINPUT, "%s[%d] names the split \"%s\", which the plan does not have", row->list,
                           row->number, inner);
    }
    return MT_OK;
}

static enum mt_status read_rows(struct enumeration *e) {
    const struct mt_decisions *d = &e->choice->decisions;
    enum mt_status st = MT_OK;
    e->rules = mt_new(e->arena, struct row, d->nrules);
    e->storage = mt_new(e->arena, struct row, d->nstorage);
    mt_patterns_open(&e->rule_patterns, e->arena, d->nrules);
    mt_patterns_open(&e->storage_patterns, e->arena, d->nstorage);
    for (int r = 0; r < d->nrules; r++) mt_patterns_add(&e->rule_patterns, d->rules[r].pattern);
    for (int r = 0; r < d->nstorage; r++) mt_patterns_add(&e->storage_patterns, d->storage[r].pattern);
    for (int r = 0; r < d->nrules && !st; r++) {
        const struct mt_rule_row *row = &d->rules[r];
        e->rules[r] = (struct row){.list = "rules", .pattern = row->pattern, .number = r, .levels = &row->levels};
        if (row->operators == MT_OPERATORS_SPLIT) st = name_splits(e, &e->rules[r], row->split);
    }
    for (int r = 0; r < d->nstorage && !st; r++) {
        const struct mt_storage_row *row = &d->storage[r];
        e->storage[r] = (struct row){.list = "storage", .pattern = row->pattern, .number = r, .levels = &row->levels};
        if (row->state == MT_STATE_SPLIT) st = name_splits(e, &e->storage[r], row->split);
    }
    return st;
}

/* What a row is applied to: labels of an operator's indices, or of a parameter's axes. */
struct target {
    const char *name;
    const int *label;
    int n;
    const struct mt_op *op; /* null: a parameter */
};

/* The n-th place (from 1) that has the split's label and can be divided, or the n-th linear set; -1 if there is none.
 */
static int place_of(const struct target *t, const struct mt_split *split, int occurrence) {
    int n = occurrence > 0 ? occurrence : 1;
    unsigned sets[MT_MAX_IN];
    if (split == &linear) return n <= mt_op_linear_sets(t->op, sets) ? n - 1 : -1;
    for (int i = 0; i < t->n; i++)
        if (t->label[i] == split->label && !(t->op && mt_op_index_role(t->op, i) == MT_INDEX_WHOLE) && !--n) return i;
    return -1;
}

/* The shares of a node's ranks are what the node has to divide. */
static enum mt_status check_node(struct enumeration *e, const struct row *row, const struct target *t,
                                 const struct mt_split *split, int node, int64_t extent) {
    const struct mt_mesh *mesh = &e->choice->mesh;
    int64_t sum = 0;
    int first = -1;
    for (int i = 0; i < mesh->nranks; i++) {
        if (mesh->node[i] != node) continue;
        sum += split->sizes[i];
        if (first < 0) first = e->plan->order[i];
    }
    if (sum == extent) return MT_OK;
    mt_fail(e->err, MT_EINPUT,
            "%s[%d]: the ranks of host \"%.60s\" have %lld of split \"%s\", but %lld of %s to divide", row->list,
            row->number, e->plan->ranks[first].host, (long long)sum, split->name, (long long)extent, t->name);
    return mt_err_hint(e->err,
                       "edit its sizes: those of one host sum to %s, or to the host's share of it where the row "
                       "divides the same axis over hosts",
                       e->graph->labels[split->label].name);
}

/* The row applied to a target; *applies: false if the target lacks a label. */
static enum mt_status apply(struct enumeration *e, const struct row *row, const struct target *t, struct placing *p,
                            bool *applies) {
    const struct mt_mesh *mesh = &e->choice->mesh;
    *p = (struct placing){.outer = row->outer, .at = -1, .two_levels = row->inner != NULL};
    *applies = false;
    if (p->outer && (p->at = place_of(t, p->outer, row->levels->occurrence)) < 0) return MT_OK;
    if (p->two_levels) {
        p->inner = row->inner;
        p->inner_at = mt_new(e->arena, int, mesh->nnodes);
    }
    enum mt_status st = MT_OK;
    for (int k = 0; k < mesh->nnodes && p->two_levels; k++)
        if (p->inner[k] && (p->inner_at[k] = place_of(t, p->inner[k], row->levels->inner_occurrence)) < 0) return MT_OK;
    *applies = true;
    for (int k = 0; k < mesh->nnodes && !st; k++) {
        const struct mt_split *s = p->two_levels ? p->inner[k] : p->outer;
        if (!s || s->axis != MT_AXIS_DEVICE) continue;
        bool shared = p->two_levels && p->outer && p->inner_at[k] == p->at;
        st = check_node(e, row, t, s, k, shared ? p->outer->sizes[k] : e->graph->labels[s->label].extent);
    }
    return st;
}

static struct mt_rule level(const struct mt_split *split, int at, const int *index) {
    if (!split) return (struct mt_rule){.kind = MT_RULE_REPLICATE};
    if (split == &linear) return (struct mt_rule){.kind = MT_RULE_LINEAR, .set = at};
    return (struct mt_rule){.kind = MT_RULE_SPLIT, .index = index ? index[at] : at, .split = split};
}

/* The rule of an operator of which axis or index i is index[i] (null: i itself). */
static struct mt_rule rule_of(const struct enumeration *e, const struct placing *p, const int *index) {
    struct mt_rule rule = level(p->outer, p->at, index);
    if (!p->two_levels) return rule;
    int nnodes = e->choice->mesh.nnodes;
    struct mt_rule *inner = mt_new(e->arena, struct mt_rule, nnodes);
    for (int k = 0; k < nnodes; k++) inner[k] = level(p->inner[k], p->inner_at[k], index);
    rule.inner = inner;
    return rule;
}

/* ---- operators and parameters ---- */

/* The rule that an operator on samples gets from the first row that applies; without one it is replicated. */
static enum mt_status sample_rule(struct enumeration *e, const struct mt_op *op, struct mt_rule *rule) {
    struct target target = {op->name, op->index_label, op->nindices, op};
    *rule = (struct mt_rule){.kind = MT_RULE_REPLICATE};
    for (int r = mt_patterns_next(&e->rule_patterns, op->name, -1); r >= 0;
         r = mt_patterns_next(&e->rule_patterns, op->name, r)) {
        struct placing placing;
        bool applies;
        e->rules[r].matches = true;
        enum mt_status st = apply(e, &e->rules[r], &target, &placing, &applies);
        if (st) return st;
        if (!applies) continue;
        e->rules[r].is_used = true;
        *rule = rule_of(e, &placing, NULL);
        break;
    }
    return MT_OK;
}

/* A split "storage:LABEL" of the sharding axis, if the plan has one. */
static enum mt_status place_by_default(struct enumeration *e, int v, struct placing *p) {
    const struct mt_value *value = &e->graph->values[v];
    *p = (struct placing){.at = mt_sharding_axis(e->graph, v)};
    for (int s = 0; p->at >= 0 && s < e->choice->nsplits; s++)
        if (e->choice->splits[s].label == value->label[p->at] && !strncmp(e->choice->splits[s].name, "storage:", 8))
            p->outer = &e->choice->splits[s];
    if (!p->outer || p->outer->axis != MT_AXIS_DEVICE) return MT_OK;
    struct row row = {.list = "splits", .number = (int)(p->outer - e->choice->splits)};
    struct target target = {.name = value->name};
    for (int k = 0; k < e->choice->mesh.nnodes; k++) {
        int64_t extent = e->graph->labels[p->outer->label].extent;
        enum mt_status st = check_node(e, &row, &target, p->outer, k, extent);
        if (st) return st;
    }
    return MT_OK;
}

static enum mt_status refuse_label(struct enumeration *e, const struct row *row, const struct mt_value *value) {
    char labels[200] = "";
    for (int a = 0; a < value->naxes; a++) {
        size_t used = strlen(labels);
        snprintf(labels + used, sizeof labels - used, "%s%s", a ? ", " : "", e->graph->labels[value->label[a]].name);
    }
    mt_fail(e->err, MT_EINPUT, "storage[%d]: divides a label that %s does not have, or not so often (it has %s)",
            row->number, value->name, labels[0] ? labels : "none");
    return mt_err_hint(e->err, "narrow the pattern, or put a row for that parameter before");
}

/* The storage row and the splits of each parameter. A plan that stores a parameter in shares has the split for it. */
static enum mt_status store_parameter(struct enumeration *e, int v) {
    const struct mt_value *value = &e->graph->values[v];
    struct parameter *p = &e->parameters[v];
    int number = mt_patterns_next(&e->storage_patterns, value->name, -1);
    enum mt_status st = place_by_default(e, v, &p->storage);
    if (st || number < 0) return st;
    struct row *row = &e->storage[number];
    row->is_used = true;
    p->sharded = e->choice->decisions.storage[number].state == MT_STATE_SPLIT;
    if (mt_storage_row_names_split(&e->choice->decisions.storage[number])) {
        struct target target = {value->name, value->label, value->naxes, NULL};
        bool applies;
        if ((st = apply(e, row, &target, &p->storage, &applies))) return st;
        return applies ? MT_OK : refuse_label(e, row, value);
    }
    if (p->storage.at < 0 || !p->sharded || p->storage.outer) return MT_OK;
    const char *label = e->graph->labels[value->label[p->storage.at]].name;
    mt_fail(e->err, MT_EINPUT, "%s is stored in shares of \"%s\", and the plan has no split \"storage:%s\"",
            value->name, label, label);
    return mt_err_hint(e->err, "add it to the plan's splits, store the parameter \"replicated\", or plan anew");
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
        bool divided = p->storage.outer || p->storage.two_levels;
        if (divided && (p->sharded || op->kind == MT_OP_sq_norm)) return rule_of(e, &p->storage, op->in_index[0]);
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

static enum mt_status refuse_row(const struct row *row, struct mt_err *err) {
    mt_fail(err, MT_EINPUT, "%s[%d].pattern: \"%.100s\" has no effect", row->list, row->number, row->pattern);
    if (row->matches)
        return mt_err_hint(err, "none of the operators with such names that rows before it leave has the labels of its "
                                "splits, where they can be divided; `motley show graph` lists labels");
    return mt_err_hint(err,
                       "either nothing of the model has such a name and what it splits, or rows before it take all "
                       "of it; `motley show graph` lists names");
}

/* "*" may catch nothing. */
static enum mt_status check_rows(const struct enumeration *e) {
    const struct mt_decisions *d = &e->choice->decisions;
    for (int r = 0; r < d->nrules; r++)
        if (!e->rules[r].is_used && strcmp(d->rules[r].pattern, "*")) return refuse_row(&e->rules[r], e->err);
    for (int s = 0; s < d->nstorage; s++)
        if (!e->storage[s].is_used && strcmp(d->storage[s].pattern, "*")) return refuse_row(&e->storage[s], e->err);
    return MT_OK;
}

enum mt_status mt_choice_from_plan(const struct mt_graph *graph, const struct mt_plan *plan, bool strict,
                                   struct mt_arena *arena, struct mt_choice *choice, struct mt_err *err) {
    const struct mt_decisions *d = &plan->decisions;
    *choice = (struct mt_choice){
        .nranks = plan->nplaces, .micro = mt_plan_at_places(plan, plan->micro, arena), .decisions = *d};
    choice->node = mt_plan_nodes(plan, arena);
    if (!mt_type_is_half(d->gradient_wire)) choice->decisions.gradient_wire = graph->acc;
    struct enumeration e = {.graph = graph,
                            .plan = plan,
                            .choice = choice,
                            .arena = arena,
                            .err = err,
                            .parameters = mt_new(arena, struct parameter, graph->nvalues),
                            .param_of = mt_new(arena, int, graph->nvalues)};
    find_mesh(&e);
    choice->alike = find_alike(plan, arena);
    enum mt_status st = take_splits(&e);
    if (!st) st = read_rows(&e);
    for (int v = 0; v < graph->nvalues; v++) e.param_of[v] = -1;
    for (int v = 0; v < graph->nvalues && !st; v++) {
        if (!graph->values[v].param) continue;
        if (graph->values[v].gradient >= 0) e.param_of[graph->values[v].gradient] = v;
        st = store_parameter(&e, v);
    }
    choice->rules = mt_new(arena, struct mt_rule, graph->nops);
    for (int o = 0; o < graph->nops && !st; o++) {
        const struct mt_op *op = &graph->ops[o];
        if (has_batch_index(graph, op))
            st = sample_rule(&e, op, &choice->rules[o]);
        else
            choice->rules[o] = other_rule(&e, op);
    }
    return st || !strict ? st : check_rows(&e);
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
