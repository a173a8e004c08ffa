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
    int npartial, partial[32]; /* forward operators that wait for their bundle */
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

/* Forward operators without derivatives of their own (sums within a norm, within cross entropy) wait for the one whose
 * derivative is theirs as well. */
static void add_forward(struct listing *l, int op) {
    const struct mt_graph *g = l->graph;
    enum { MOST = 32 };
    int ops[MOST], n = 0, nforward;
    if (l->first[op] < 0 && !l->space->options.unbundled && l->npartial + 1 < MOST / 2) {
        l->partial[l->npartial++] = op;
        return;
    }
    ops[n++] = op;
    for (int i = 0; i < l->npartial; i++) ops[n++] = l->partial[i];
    nforward = n;
    l->npartial = 0;
    for (int b = l->first[op]; b >= 0 && !l->space->options.unbundled; b = l->next[b])
        if (in_bundle(g, b) && n < MOST) ops[n++] = b;
    qsort_r(ops + nforward, (size_t)(n - nforward), sizeof *ops, by_structure, (void *)(uintptr_t)g);
    add_working(l, ops, n);
    for (int b = l->first[op]; b >= 0; b = l->next[b])
        if (!l->listed[b] && has_axes(g, &g->ops[b])) add_working(l, &b, 1);
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
                        .unlisted = mt_new(&scratch, int, g->nvalues + 1),
                        .gradient_of = mt_new(&scratch, int, g->nvalues + 1)};
    for (int o = 0; o < g->nops; o++) l.first[o] = l.next[o] = l.next_stored[o] = -1;
    for (int v = 0; v < g->nvalues; v++) l.stored[v] = l.gradient_of[v] = -1;
    for (int v = 0; v < g->nvalues; v++)
        if (g->values[v].param && g->values[v].gradient >= 0) l.gradient_of[g->values[v].gradient] = v;
    for (int o = g->nops - 1; o >= 0; o--) {
        const struct mt_op *op = &g->ops[o];
        int param = mt_space_param_of(g, o);
        if (param >= 0)
            l.next_stored[o] = l.stored[param], l.stored[param] = o;
        else if (has_axes(g, op))
            for (int params[MT_MAX_IN + MT_MAX_OUT], k = parameters_of(&l, o, params) - 1; k >= 0; k--)
                l.unlisted[params[k]]++;
        if (param < 0 && op->role == MT_ROLE_BACKWARD && op->forward >= 0)
            l.next[o] = l.first[op->forward], l.first[op->forward] = o;
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

enum { MOST_WAYS = 64 };

/* All rules of one operator. Those without samples, other than storage, work on little: whole, or on sums. */
static int ways_of(const struct mt_space *s, const struct mt_op *op, struct mt_rule *ways) {
    unsigned sets[MT_MAX_IN];
    int n = 0, nsets = mt_op_linear_sets(op, sets);
    bool samples = has_batch(s->options.graph, op);
    ways[n++] = (struct mt_rule){.kind = MT_RULE_REPLICATE};
    for (int i = 0; i < op->nindices && samples; i++)
        for (int k = 0; k < s->options.nsplits && mt_op_index_role(op, i) != MT_INDEX_WHOLE; k++)
            if (s->options.splits[k].label == op->index_label[i] && n < MOST_WAYS)
                ways[n++] = (struct mt_rule){.kind = MT_RULE_SPLIT, .index = i, .split = &s->options.splits[k]};
    for (int k = 0; k < nsets && n < MOST_WAYS; k++) ways[n++] = (struct mt_rule){.kind = MT_RULE_LINEAR, .set = k};
    return n;
}

static bool is_allowed(const struct mt_space *s, const struct mt_op *op, const struct mt_rule *rule) {
    return !s->options.allows || s->options.allows(s->options.context, op, rule);
}

static void add_alternative(struct mt_space *s, struct mt_space_group *group, int *capacity,
                            const struct mt_rule *rules) {
    size_t nops = (size_t)group->nops;
    mt_arena_grow(&s->arena, &group->rules, group->nalternatives, capacity, nops * sizeof *rules);
    memcpy(group->rules + (size_t)group->nalternatives * nops, rules, nops * sizeof *rules);
    group->nalternatives++;
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

/* The rules that a bundle's operator may have when its first operator has `rule`: by the same index; else any by which
 * the first could not be divided. */
static int following(const struct mt_space *s, const struct mt_op *first, const struct mt_rule *rule,
                     const struct mt_op *op, struct mt_rule *ways) {
    int n = ways_of(s, op, ways), kept = 0, to[MT_MAX_INDICES];
    match_indices(s->options.graph, first, op, to);
    int index = rule->kind == MT_RULE_SPLIT ? to[rule->index] : -1;
    if (index >= 0 && mt_op_index_role(op, index) != MT_INDEX_WHOLE) {
        ways[0] = (struct mt_rule){.kind = MT_RULE_SPLIT, .index = index, .split = rule->split};
        return 1;
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

/* Whether the shares of an axis are among the alternatives: storage and computing may have equal splits. */
static bool is_listed(const struct mt_space *s, const struct mt_space_group *group, int axis,
                      const struct mt_split *split) {
    size_t bytes = (size_t)s->options.costs->nranks * sizeof *split->sizes;
    for (int a = 0; a < group->nalternatives; a++) {
        const struct mt_rule *rule = &group->rules[a * group->nops + group->nops - 1];
        const struct mt_op *op = &s->options.graph->ops[group->ops[group->nops - 1]];
        if (rule->kind == MT_RULE_SPLIT && rule->index == op->in_index[0][axis] &&
            !memcmp(rule->split->sizes, split->sizes, bytes))
            return true;
    }
    return false;
}

/* The operators of a parameter, stored by a split of an axis, or whole (split null). The norm is computed from shares
 * even then, so that the clip factor comes from a collective's result. */
static void add_stored(struct mt_space *s, struct mt_space_group *group, int *capacity, int axis,
                       const struct mt_split *split) {
    const struct mt_graph *g = s->options.graph;
    if (split && is_listed(s, group, axis, split)) return;
    struct mt_rule *rules = mt_calloc((size_t)group->nops, sizeof *rules);
    int shared = mt_sharding_axis(g, group->param);
    for (int i = 0; i < group->nops; i++) {
        const struct mt_op *op = &g->ops[group->ops[i]];
        int by = axis;
        const struct mt_split *with = split;
        for (int k = 0; k < s->options.nstorage && !split && shared >= 0 && op->kind == MT_OP_sq_norm; k++)
            if (s->options.storage[k].label == g->values[group->param].label[shared])
                by = shared, with = &s->options.storage[k];
        if (with)
            rules[i] = (struct mt_rule){.kind = MT_RULE_SPLIT, .index = op->in_index[0][by], .split = with};
        else
            rules[i] = (struct mt_rule){.kind = MT_RULE_REPLICATE};
    }
    const struct mt_op *update = update_of(g, group);
    struct mt_rule asked = {.kind = split ? MT_RULE_SPLIT : MT_RULE_REPLICATE, .split = split};
    if (split && update) asked.index = update->in_index[0][axis];
    if (!update || is_allowed(s, update, &asked)) add_alternative(s, group, capacity, rules);
    free(rules);
}

static void list_storage(struct mt_space *s, struct mt_space_group *group) {
    const struct mt_value *v = &s->options.graph->values[group->param];
    int capacity = 0;
    add_stored(s, group, &capacity, -1, NULL);
    for (int a = 0; a < v->naxes; a++) {
        for (int k = 0; k < s->options.nsplits; k++)
            if (s->options.splits[k].label == v->label[a]) add_stored(s, group, &capacity, a, &s->options.splits[k]);
        for (int k = 0; k < s->options.nstorage; k++)
            if (s->options.storage[k].label == v->label[a]) add_stored(s, group, &capacity, a, &s->options.storage[k]);
    }
}

void mt_space_list_rules(struct mt_space *s, struct mt_space_group *group) {
    struct mt_rule rules[32];
    int capacity = 0;
    if (group->param >= 0)
        list_storage(s, group);
    else
        bundle(s, group, &capacity, rules, 0);
}
