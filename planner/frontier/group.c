/* Groups of operators and their alternatives. */
#include "planner/frontier/group.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "synth/ops/ops.h"

int mt_space_param_of(const struct mt_graph *g, int op) {
    const struct mt_op *o = &g->ops[op];
    if (o->role == MT_ROLE_UPDATE) return o->forward;
    return o->kind == MT_OP_cast && g->values[o->in[0]].param ? o->in[0] : -1;
}

/* Whether the operator has a value of some axes: decisions on scalars cost nothing. */
static bool has_axes(const struct mt_graph *g, const struct mt_op *o) {
    for (int i = 0; i < o->nin; i++)
        if (g->values[o->in[i]].naxes) return true;
    for (int i = 0; i < o->nout; i++)
        if (g->values[o->out[i]].naxes) return true;
    return false;
}

static bool has_batch(const struct mt_graph *g, const struct mt_op *o) {
    for (int i = 0; i < o->nindices; i++)
        if (o->index_label[i] == g->batch) return true;
    return false;
}

/* ---- groups ---- */

enum { MOST_BUNDLE = 32 }; /* operators of a group */
enum { MOST_WAYS = 64 };   /* rules of an operator */

static int following(struct mt_space *s, const struct mt_op *first, const struct mt_rule *rule, const struct mt_op *op,
                     struct mt_rule *ways);

struct listing {
    struct mt_space *space;
    const struct mt_graph *graph;
    int capacity;
    bool *listed;      /* [nops] */
    int *first, *next; /* [nops]: backward operators by their forward operator */
    int *stored;       /* [nvalues]: operators of a parameter's group, listed by next_stored; -1: no more */
    int *next_stored;  /* [nops] */
    int *gradient_of;  /* [nvalues]: the parameter whose gradient it is, or -1 */
    /* [nvalues]: of a parameter, operators outside of storage that meet its weight or gradient, and are not listed */
    int *unlisted;
    int *original;                      /* [nops]: find_originals */
    int npartial, partial[MOST_BUNDLE]; /* forward operators that wait for their bundle */
};

/* The parameter whose weight or gradient a value is, or -1. */
static int parameter_at(const struct listing *l, int value) {
    int param = mt_graph_param_of(l->graph, value);
    return param >= 0 ? param : l->gradient_of[value];
}

/* Each parameter once that an operator outside of storage meets. */
static int parameters_of(const struct listing *l, int op, int params[MT_MAX_IN + MT_MAX_OUT]) {
    const struct mt_op *o = &l->graph->ops[op];
    int n = 0;
    for (int k = 0; k < o->nin + o->nout; k++) {
        int param = parameter_at(l, k < o->nin ? o->in[k] : o->out[k - o->nin]), i = 0;
        while (i < n && params[i] != param) i++;
        if (param >= 0 && i == n) params[n++] = param;
    }
    return n;
}

static void add_group(struct listing *l, const int *ops, int nops, int param) {
    struct mt_space *s = l->space;
    mt_arena_grow(&s->arena, &s->groups, s->problem.ngroups, &l->capacity, sizeof *s->groups);
    s->groups[s->problem.ngroups++] = (struct mt_space_group){
        .nops = nops, .ops = mt_arena_memdup(&s->arena, ops, (size_t)nops * sizeof *ops), .param = param};
    for (int i = 0; i < nops; i++) l->listed[ops[i]] = true;
}

static void add_storage(struct listing *l, int param) {
    int ops[8], n = 0;
    for (int o = l->stored[param]; o >= 0; o = l->next_stored[o]) ops[n++] = o;
    if (n && !l->listed[ops[0]]) add_group(l, ops, n, param);
}

/* A group that is not storage; then the storage of which nothing else is to come. */
static void add_working(struct listing *l, const int *ops, int nops) {
    add_group(l, ops, nops, -1);
    for (int i = 0; i < nops; i++) {
        int params[MT_MAX_IN + MT_MAX_OUT], n = parameters_of(l, ops[i], params);
        for (int k = 0; k < n; k++)
            if (--l->unlisted[params[k]] == 0) add_storage(l, params[k]);
    }
}

/* Sums of gradients, casts and fills are decided apart from the operator whose differentiation added them. */
static bool in_bundle(const struct mt_graph *g, int op) {
    enum mt_op_kind kind = g->ops[op].kind;
    return kind != MT_OP_add && kind != MT_OP_cast && kind != MT_OP_fill && has_batch(g, &g->ops[op]);
}

/* Backward operators of equal layers may stand in another order. */
static int by_structure(const void *left, const void *right, void *context) {
    const struct mt_graph *g = context;
    const struct mt_op *a = &g->ops[*(const int *)left], *b = &g->ops[*(const int *)right];
    if (a->kind != b->kind) return (a->kind > b->kind) - (a->kind < b->kind);
    int differs = memcmp(a->index_label, b->index_label, sizeof a->index_label);
    if (!differs) differs = memcmp(a->in_index, b->in_index, sizeof a->in_index);
    if (!differs) differs = memcmp(a->out_index, b->out_index, sizeof a->out_index);
    return differs ? differs : *(const int *)left - *(const int *)right;
}

/* How many of a bundle's operators, from its first on, have few alternatives together: what the others may do when the
 * first is not divided is a product. The rest are groups of their own. */
static int few_alternatives(struct mt_space *s, const int *ops, int n) {
    enum { FEW = 512 };
    const struct mt_graph *g = s->options.graph;
    struct mt_rule ways[MOST_WAYS], whole = {.kind = MT_RULE_REPLICATE};
    int64_t product = 1;
    for (int i = 1; i < n; i++) {
        product *= following(s, &g->ops[ops[0]], &whole, &g->ops[ops[i]], ways);
        if (product > FEW) return i;
    }
    return n;
}

/* Forward operators without derivatives of their own (sums within a norm, within cross entropy) wait for the one whose
 * derivative is theirs as well. */
static void add_forward(struct listing *l, int op) {
    const struct mt_graph *g = l->graph;
    int ops[MOST_BUNDLE], n = 0, nforward;
    if (l->first[op] < 0 && !l->space->options.unbundled && l->npartial + 1 < MOST_BUNDLE / 2) {
        l->partial[l->npartial++] = op;
        return;
    }
    ops[n++] = op;
    for (int i = 0; i < l->npartial; i++) ops[n++] = l->partial[i];
    nforward = n;
    l->npartial = 0;
    for (int b = l->first[op]; b >= 0 && !l->space->options.unbundled; b = l->next[b])
        if ((in_bundle(g, b) || l->original[b] == op) && n < MOST_BUNDLE) ops[n++] = b;
    qsort_r(ops + nforward, (size_t)(n - nforward), sizeof *ops, by_structure, (void *)(uintptr_t)g);
    add_working(l, ops, few_alternatives(l->space, ops, n));
    for (int i = 1; i < nforward; i++)
        if (!l->listed[ops[i]]) add_working(l, &ops[i], 1);
    for (int b = l->first[op]; b >= 0; b = l->next[b])
        if (!l->listed[b] && has_axes(g, &g->ops[b])) add_working(l, &b, 1);
}

/* original[nops]: the forward operator that a recomputed one repeats, with which it is decided; else -1. */
static void find_originals(const struct mt_graph *g, int *original) {
    for (int o = 0; o < g->nops; o++) original[o] = -1;
    for (int v = 0; v < g->nrecomputed; v++)
        if (g->recomputed[v] >= 0) original[g->values[g->recomputed[v]].producer] = g->values[v].producer;
}

void mt_space_list_groups(struct mt_space *space) {
    const struct mt_graph *g = space->options.graph;
    struct mt_arena scratch = MT_ARENA_INIT;
    struct listing l = {.space = space,
                        .graph = g,
                        .listed = mt_new(&scratch, bool, g->nops + 1),
                        .first = mt_new(&scratch, int, g->nops + 1),
                        .next = mt_new(&scratch, int, g->nops + 1),
                        .stored = mt_new(&scratch, int, g->nvalues + 1),
                        .next_stored = mt_new(&scratch, int, g->nops + 1),
                        .original = mt_new(&scratch, int, g->nops + 1),
                        .unlisted = mt_new(&scratch, int, g->nvalues + 1),
                        .gradient_of = mt_new(&scratch, int, g->nvalues + 1)};
    for (int o = 0; o < g->nops; o++) l.first[o] = l.next[o] = l.next_stored[o] = -1;
    for (int v = 0; v < g->nvalues; v++) l.stored[v] = l.gradient_of[v] = -1;
    for (int v = 0; v < g->nvalues; v++)
        if (g->values[v].param && g->values[v].gradient >= 0) l.gradient_of[g->values[v].gradient] = v;
    find_originals(g, l.original);
    for (int o = g->nops - 1; o >= 0; o--) {
        const struct mt_op *op = &g->ops[o];
        int param = mt_space_param_of(g, o);
        if (param >= 0)
            l.next_stored[o] = l.stored[param], l.stored[param] = o;
        else if (has_axes(g, op))
            for (int params[MT_MAX_IN + MT_MAX_OUT], k = parameters_of(&l, o, params) - 1; k >= 0; k--)
                l.unlisted[params[k]]++;
        int home = l.original[o] >= 0 ? l.original[o] : op->forward;
        if (param < 0 && op->role == MT_ROLE_BACKWARD && home >= 0) l.next[o] = l.first[home], l.first[home] = o;
    }
    for (int o = 0; o < g->nops; o++)
        if (g->ops[o].role == MT_ROLE_FORWARD && !l.listed[o] && mt_space_param_of(g, o) < 0 && has_axes(g, &g->ops[o]))
            add_forward(&l, o);
    for (int i = 0; i < l.npartial; i++) add_working(&l, &l.partial[i], 1);
    for (int o = 0; o < g->nops; o++) /* what is left: gradients of no operator, parameters that nothing reads */
        if (!l.listed[o] && has_axes(g, &g->ops[o])) {
            int param = mt_space_param_of(g, o);
            if (param >= 0)
                add_storage(&l, param);
            else if (g->ops[o].role == MT_ROLE_BACKWARD)
                add_working(&l, &o, 1);
        }
    mt_arena_release(&scratch);
}

/* ---- rules ---- */

/* Rules of one operator, among all ranks or within nodes (over_nodes). Operators without samples, other than storage,
 * work on little: they are not divided, but may be linear in sums over all ranks, or over nodes. */
static int ways_of(struct mt_space *s, const struct mt_op *op, struct mt_rule *ways) {
    unsigned sets[MT_MAX_IN];
    int n = 0, nsets = mt_op_linear_sets(op, sets);
    bool samples = has_batch(s->options.graph, op);
    ways[n++] = (struct mt_rule){.kind = MT_RULE_REPLICATE};
    for (int i = 0; i < op->nindices && samples; i++)
        for (int k = 0; k < s->options.nsplits && mt_op_index_role(op, i) != MT_INDEX_WHOLE; k++)
            if (s->options.splits[k].label == op->index_label[i] && n < MOST_WAYS)
                ways[n++] = (struct mt_rule){.kind = MT_RULE_SPLIT, .index = i, .split = &s->options.splits[k]};
    for (int k = 0; k < nsets && n + 1 < MOST_WAYS; k++) {
        ways[n++] = (struct mt_rule){.kind = MT_RULE_LINEAR, .set = k};
        if (samples || !s->options.hosts) continue;
        ways[n] = ways[n - 1];
        ways[n++].inner = mt_new(&s->arena, struct mt_rule, s->options.mesh->nnodes); /* replicated within nodes */
    }
    return n;
}

/* The rule of an operator with samples: they are divided among nodes first, if `hosts` is there. */
static struct mt_rule over_nodes(struct mt_space *s, const struct mt_op *op, const struct mt_rule *within) {
    const struct mt_graph *g = s->options.graph;
    if (!s->options.hosts || !has_batch(g, op)) return *within;
    struct mt_rule root = {.kind = MT_RULE_REPLICATE};
    for (int i = 0; i < op->nindices; i++)
        if (op->index_label[i] == g->batch && mt_op_index_role(op, i) != MT_INDEX_WHOLE)
            root = (struct mt_rule){.kind = MT_RULE_SPLIT, .index = i, .split = s->options.hosts};
    struct mt_rule *inner = mt_new(&s->arena, struct mt_rule, s->options.mesh->nnodes);
    for (int i = 0; i < s->options.mesh->nnodes; i++) inner[i] = *within;
    root.inner = inner;
    return root;
}

static bool is_allowed(const struct mt_space *s, const struct mt_op *op, const struct mt_rule *rule) {
    return !s->options.allows || s->options.allows(s->options.context, op, rule);
}

static void add_alternative(struct mt_space *s, struct mt_space_group *group, int *capacity,
                            const struct mt_rule *rules) {
    size_t nops = (size_t)group->nops;
    mt_arena_grow(&s->arena, &group->rules, group->nalternatives, capacity, nops * sizeof *rules);
    struct mt_rule *to = group->rules + (size_t)group->nalternatives++ * nops;
    for (int i = 0; i < group->nops; i++)
        to[i] = group->param >= 0 ? rules[i] : over_nodes(s, &s->options.graph->ops[group->ops[i]], &rules[i]);
}

/* The axis of operand `value` that has an index, among those of an operator's operands; through it two operators of a
 * bundle share indices. */
static int index_on(const struct mt_op *op, int value, int axis) {
    for (int i = 0; i < op->nin; i++)
        if (op->in[i] == value) return op->in_index[i][axis];
    for (int i = 0; i < op->nout; i++)
        if (op->out[i] == value) return op->out_index[i][axis];
    return -1;
}

/* to[index of `from`]: the index of `op` that is the same, or -1: by operands that both have, then by label among those
 * that are left, in order. */
static void match_indices(const struct mt_graph *g, const struct mt_op *from, const struct mt_op *op, int *to) {
    bool taken[MT_MAX_INDICES] = {false};
    for (int i = 0; i < from->nindices; i++) to[i] = -1;
    for (int k = 0; k < op->nin; k++) {
        int value = op->in[k];
        for (int a = 0; a < g->values[value].naxes; a++) {
            int i = index_on(from, value, a), j = op->in_index[k][a];
            if (i >= 0 && to[i] < 0 && !taken[j]) to[i] = j, taken[j] = true;
        }
    }
    for (int i = 0; i < from->nindices; i++)
        for (int j = 0; j < op->nindices && to[i] < 0; j++)
            if (!taken[j] && op->index_label[j] == from->index_label[i]) to[i] = j, taken[j] = true;
}

bool mt_space_gathers(const struct mt_space *s, const struct mt_rule *first, const struct mt_op *op) {
    const struct mt_graph *g = s->options.graph;
    bool divided = first->kind == MT_RULE_SPLIT && !first->inner && first->split->label == g->batch;
    if (!divided || s->options.hosts || op->role != MT_ROLE_BACKWARD || !mt_op_repeats(op->kind)) return false;
    for (int o = 0; o < op->nout; o++)
        for (int a = 0; a < g->values[op->out[o]].naxes; a++)
            if (g->values[op->out[o]].label[a] == g->batch) return false;
    return true;
}

static bool has_index(const struct mt_graph *g, const struct mt_op *op, int index) {
    for (int a = 0; a < g->values[op->out[0]].naxes; a++)
        if (op->out_index[0][a] == index) return true;
    return false;
}

/* Ways of a product with gathered factors, from ways[n] on. */
static int ways_with_factors(struct mt_space *s, const struct mt_op *op, struct mt_rule *ways, int n) {
    const struct mt_space_options *o = &s->options;
    if (s->alike) ways[n++] = (struct mt_rule){.kind = MT_RULE_REPLICATE};
    for (int i = 0; i < op->nindices; i++)
        for (int k = 0; k < o->nsplits + o->nstorage && has_index(o->graph, op, i); k++) {
            const struct mt_split *split = k < o->nsplits ? &o->splits[k] : &o->storage[k - o->nsplits];
            bool divides = split->label == op->index_label[i] && mt_op_index_role(op, i) != MT_INDEX_WHOLE;
            if (divides && split->axis == MT_AXIS_ALL && n < MOST_WAYS)
                ways[n++] = (struct mt_rule){.kind = MT_RULE_SPLIT, .index = i, .split = split};
        }
    return n;
}

/* The rules that a bundle's operator may have when its first operator has `rule`: by the same index, or with gathered
 * factors; else any by which the first could not be divided. */
static int following(struct mt_space *s, const struct mt_op *first, const struct mt_rule *rule, const struct mt_op *op,
                     struct mt_rule *ways) {
    int n = ways_of(s, op, ways), kept = 0, to[MT_MAX_INDICES];
    match_indices(s->options.graph, first, op, to);
    int index = rule->kind == MT_RULE_SPLIT ? to[rule->index] : -1;
    if (index >= 0 && mt_op_index_role(op, index) != MT_INDEX_WHOLE) {
        ways[0] = (struct mt_rule){.kind = MT_RULE_SPLIT, .index = index, .split = rule->split};
        return mt_space_gathers(s, rule, op) ? ways_with_factors(s, op, ways, 1) : 1;
    }
    for (int w = 0; w < n; w++) {
        bool shared = false;
        for (int i = 0; i < first->nindices && ways[w].kind == MT_RULE_SPLIT; i++) shared |= to[i] == ways[w].index;
        if (!shared) ways[kept++] = ways[w];
    }
    return kept;
}

/* The product of what the operators from `at` on may do; that of the group's first is rules[0]. */
static void bundle(struct mt_space *s, struct mt_space_group *group, int *capacity, struct mt_rule *rules, int at) {
    const struct mt_graph *g = s->options.graph;
    struct mt_rule ways[MOST_WAYS];
    if (at == group->nops) {
        add_alternative(s, group, capacity, rules);
        return;
    }
    const struct mt_op *op = &g->ops[group->ops[at]];
    int n = at ? following(s, &g->ops[group->ops[0]], &rules[0], op, ways) : ways_of(s, op, ways);
    for (int w = 0; w < n; w++) {
        if (!is_allowed(s, op, &ways[w])) continue;
        rules[at] = ways[w];
        bundle(s, group, capacity, rules, at + 1);
    }
}

/* ---- storage ---- */

static const struct mt_op *update_of(const struct mt_graph *g, const struct mt_space_group *group) {
    for (int i = 0; i < group->nops; i++) {
        const struct mt_op *op = &g->ops[group->ops[i]];
        if (op->kind == MT_OP_adamw || op->kind == MT_OP_sgd) return op;
    }
    return NULL;
}

/* How a parameter is stored: divided by splits of its axes; axis -1: not divided at that level. */
struct stored {
    int host_axis, axis;
    const struct mt_split *hosts, *split;
};

static struct mt_rule level(const struct mt_op *op, int axis, const struct mt_split *split) {
    if (axis < 0) return (struct mt_rule){.kind = MT_RULE_REPLICATE};
    return (struct mt_rule){.kind = MT_RULE_SPLIT, .index = op->in_index[0][axis], .split = split};
}

static struct mt_rule stored_rule(struct mt_space *s, const struct mt_op *op, const struct stored *how) {
    struct mt_rule within = level(op, how->axis, how->split), root = level(op, how->host_axis, how->hosts);
    if (how->host_axis < 0 && (how->axis < 0 || how->split->axis == MT_AXIS_ALL)) return within;
    struct mt_rule *inner = mt_new(&s->arena, struct mt_rule, s->options.mesh->nnodes);
    for (int i = 0; i < s->options.mesh->nnodes; i++) inner[i] = within;
    root.inner = inner;
    return root;
}

/* The norm of what is stored whole is computed from shares, so that the clip factor comes from a collective's result.
 */
static struct stored for_norm(const struct mt_space *s, int param, const struct stored *how) {
    const struct mt_graph *g = s->options.graph;
    int axis = mt_sharding_axis(g, param);
    struct stored shares = *how;
    for (int k = 0; k < s->options.nstorage + s->options.nsplits && axis >= 0 && how->axis < 0 && how->host_axis < 0;
         k++) {
        const struct mt_split *split =
            k < s->options.nstorage ? &s->options.storage[k] : &s->options.splits[k - s->options.nstorage];
        if (shares.axis < 0 && split->label == g->values[param].label[axis] && split->axis != MT_AXIS_HOST)
            shares.axis = axis, shares.split = split;
    }
    return shares;
}

static void add_stored(struct mt_space *s, struct mt_space_group *group, int *capacity, const struct stored *how) {
    const struct mt_graph *g = s->options.graph;
    const struct mt_op *update = update_of(g, group);
    struct mt_rule rules[8];
    if (update) {
        struct mt_rule asked = stored_rule(s, update, how);
        if (!is_allowed(s, update, &asked)) return;
    }
    for (int i = 0; i < group->nops; i++) {
        const struct mt_op *op = &g->ops[group->ops[i]];
        struct stored shares = op->kind == MT_OP_sq_norm ? for_norm(s, group->param, how) : *how;
        rules[i] = stored_rule(s, op, &shares);
    }
    add_alternative(s, group, capacity, rules);
}

/* Whether a split of storage has the shares of one for computing. */
static bool is_like_computing(const struct mt_space *s, const struct mt_split *split) {
    for (int k = 0; k < s->options.nsplits; k++) {
        const struct mt_split *other = &s->options.splits[k];
        if (other->label == split->label && other->axis == split->axis && split->axis != MT_AXIS_HOST &&
            !memcmp(other->sizes, split->sizes, (size_t)s->options.costs->nranks * sizeof *split->sizes))
            return true;
    }
    return false;
}

/* Across nodes by a split of one axis, and within them whole or by splits of others. */
static void list_across_nodes(struct mt_space *s, struct mt_space_group *group, int *capacity, int host_axis,
                              const struct mt_split *hosts) {
    const struct mt_value *v = &s->options.graph->values[group->param];
    add_stored(s, group, capacity, &(struct stored){host_axis, -1, hosts, NULL});
    for (int a = 0; a < v->naxes; a++)
        for (int k = 0; k < s->options.nsplits && a != host_axis; k++)
            if (s->options.splits[k].label == v->label[a] && s->options.splits[k].axis == MT_AXIS_DEVICE)
                add_stored(s, group, capacity, &(struct stored){host_axis, a, hosts, &s->options.splits[k]});
}

static void list_storage(struct mt_space *s, struct mt_space_group *group) {
    const struct mt_value *v = &s->options.graph->values[group->param];
    int capacity = 0;
    add_stored(s, group, &capacity, &(struct stored){-1, -1, NULL, NULL});
    for (int a = 0; a < v->naxes; a++) {
        for (int k = 0; k < s->options.nsplits; k++)
            if (s->options.splits[k].label == v->label[a])
                add_stored(s, group, &capacity, &(struct stored){-1, a, NULL, &s->options.splits[k]});
        for (int k = 0; k < s->options.nstorage; k++) {
            const struct mt_split *split = &s->options.storage[k];
            if (split->label != v->label[a] || is_like_computing(s, split)) continue;
            if (split->axis == MT_AXIS_HOST)
                list_across_nodes(s, group, &capacity, a, split);
            else
                add_stored(s, group, &capacity, &(struct stored){-1, a, NULL, split});
        }
    }
}

void mt_space_list_rules(struct mt_space *s, struct mt_space_group *group) {
    struct mt_rule rules[MOST_BUNDLE] = {{MT_RULE_REPLICATE}};
    int capacity = 0;
    if (group->param >= 0)
        list_storage(s, group);
    else
        bundle(s, group, &capacity, rules, 0);
}
