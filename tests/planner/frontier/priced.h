/* The priced sum of a training graph, for any rules of its operators; nothing is shared with the frontier programme but
 * the prices (price.h), the rules' layouts (rule.h) and the meaning of the sum (space.h):
 *
 *   sum = prices of operators + over values: the cheapest order in which every layout that is wanted of the value is
 *         converted once from one that is held by then
 *
 * Variables are operators, and one for each parameter's storage; their values are the ways to run them. branch.h finds
 * the least sum. */
#ifndef MT_TESTS_PLANNER_FRONTIER_PRICED_H
#define MT_TESTS_PLANNER_FRONTIER_PRICED_H

#include "planner/frontier/price.h"
#include "synth/ops/ops.h"
#include "tests/planner/frontier/graphs.h"

enum {
    PRICED_WAYS = 24,
    PRICED_TOUCHED = 16,
    PRICED_LAYOUTS = 14,
    PRICED_READERS = 24,
};

struct priced_var {
    int param; /* storage; else -1 */
    int nops, ops[4];
    int nways;
    struct mt_rule rules[PRICED_WAYS][4]; /* [way][op] */
    double cost_s[PRICED_WAYS];
    int ntouched, touched[PRICED_TOUCHED]; /* values */
    int made[PRICED_WAYS][PRICED_TOUCHED]; /* by the value's own numbers; -1: not made here */
    unsigned wanted[PRICED_WAYS][PRICED_TOUCHED];
};

struct priced_value {
    bool counts; /* made by one variable, read by some */
    bool bulk;
    int maker, nreaders, readers[PRICED_READERS];
    int nlayouts, layout[PRICED_LAYOUTS];
    double *convert_s;                /* [from nlayouts + to] */
    double *serve[PRICED_LAYOUTS];    /* [made][set of wanted]; null: not asked for yet */
    double *at_least[PRICED_LAYOUTS]; /* of any set that has these */
};

struct priced {
    struct mt_arena arena;
    const struct mt_graph *graph;
    const struct mt_split *splits, *storage, *hosts; /* hosts: null if not meshed */
    const struct mt_mesh *mesh;
    int nsplits, nstorage;
    double exposed;
    struct mt_layouts layouts;
    struct mt_pricing pricing;
    int nvars;
    struct priced_var *vars;
    struct priced_value *values; /* [graph->nvalues] */
};

/* ---- variables and values ---- */

static inline bool priced_has_axes(const struct mt_graph *g, const struct mt_op *op) {
    bool some = false;
    for (int i = 0; i < op->nin; i++) some |= g->values[op->in[i]].naxes > 0;
    for (int i = 0; i < op->nout; i++) some |= g->values[op->out[i]].naxes > 0;
    return some;
}

/* The parameter whose storage an operator belongs to: casts, norms and updates. */
static inline int priced_owner(const struct mt_graph *g, const struct mt_op *op) {
    if (op->role == MT_ROLE_UPDATE) return op->forward;
    return op->kind == MT_OP_cast && g->values[op->in[0]].param ? op->in[0] : -1;
}

static inline void priced_read(struct priced *p, int v, int var) {
    struct priced_value *value = &p->values[v];
    for (int i = 0; i < value->nreaders; i++)
        if (value->readers[i] == var) return;
    CHECK(value->nreaders < PRICED_READERS);
    value->readers[value->nreaders++] = var;
}

static inline void priced_list(struct priced *p) {
    const struct mt_graph *g = p->graph;
    p->vars = mt_new(&p->arena, struct priced_var, g->nops);
    p->values = mt_new(&p->arena, struct priced_value, g->nvalues);
    int *var_of = mt_new(&p->arena, int, g->nvalues); /* of parameters, + 1 */
    for (int v = 0; v < g->nvalues; v++) p->values[v].maker = -1;
    for (int o = 0; o < g->nops; o++) {
        const struct mt_op *op = &g->ops[o];
        int owner = priced_owner(g, op), at = owner >= 0 ? var_of[owner] - 1 : -1;
        if (!priced_has_axes(g, op)) continue;
        if (at < 0) {
            at = p->nvars++;
            p->vars[at].param = owner;
            if (owner >= 0) var_of[owner] = at + 1, p->values[owner].maker = at;
        }
        CHECK(p->vars[at].nops < 4);
        p->vars[at].ops[p->vars[at].nops++] = o;
        for (int i = 0; i < op->nin; i++)
            if (op->in[i] != owner) priced_read(p, op->in[i], at);
        for (int i = 0; i < op->nout; i++) p->values[op->out[i]].maker = at;
    }
    for (int v = 0; v < g->nvalues; v++) {
        const struct mt_value *value = &g->values[v];
        p->values[v].counts = value->naxes > 0 && p->values[v].maker >= 0 && p->values[v].nreaders > 0 &&
                              (value->kind == MT_VALUE_TEMP || value->param);
        p->values[v].bulk |= mt_graph_param_of(g, v) >= 0;
        if (value->param && value->gradient >= 0) p->values[value->gradient].bulk = true;
    }
    for (int i = 0; i < p->nvars; i++)
        for (int v = 0; v < g->nvalues; v++) {
            bool touches = p->values[v].maker == i;
            for (int r = 0; r < p->values[v].nreaders; r++) touches |= p->values[v].readers[r] == i;
            if (!touches || !p->values[v].counts) continue;
            CHECK(p->vars[i].ntouched < PRICED_TOUCHED);
            p->vars[i].touched[p->vars[i].ntouched++] = v;
        }
}

/* ---- ways ---- */

static inline int priced_local(struct priced_value *value, int layout) {
    for (int i = 0; i < value->nlayouts; i++)
        if (value->layout[i] == layout) return i;
    CHECK(value->nlayouts < PRICED_LAYOUTS);
    value->layout[value->nlayouts] = layout;
    return value->nlayouts++;
}

static inline int priced_touched(const struct priced_var *var, int v) {
    for (int t = 0; t < var->ntouched; t++)
        if (var->touched[t] == v) return t;
    return -1;
}

/* Replicas are updated with equal gradients: with what a collective made, or one rank's. A layout of its own. */
enum { PRICED_EQUAL = -2 };
static inline int priced_wanted(struct priced *p, const struct mt_op *op, int v, int layout) {
    const struct mt_graph *g = p->graph;
    int64_t extent[MT_MAX_AXES];
    for (int a = 0; a < g->values[v].naxes; a++) extent[a] = mt_value_extent(g, v, a);
    bool updates = op->kind == MT_OP_adamw || op->kind == MT_OP_sgd;
    if (!updates || mt_op_info[g->ops[g->values[v].producer].kind].exact) return layout;
    return layout == mt_layout_replicated(&p->layouts, g->values[v].naxes, extent) ? PRICED_EQUAL : layout;
}

static inline void priced_add_way(struct priced *p, struct priced_var *var, const struct mt_rule *rules) {
    const struct mt_graph *g = p->graph;
    int w = var->nways++;
    CHECK(w < PRICED_WAYS);
    for (int t = 0; t < var->ntouched; t++) var->made[w][t] = -1;
    for (int k = 0; k < var->nops; k++) {
        const struct mt_op *op = &g->ops[var->ops[k]];
        int in[MT_MAX_IN], out[MT_MAX_OUT];
        var->rules[w][k] = rules[k];
        for (int i = 0; i < op->nin + op->nout; i++) {
            bool input = i < op->nin;
            int v = input ? op->in[i] : op->out[i - op->nin], t = priced_touched(var, v);
            int64_t extent[MT_MAX_AXES];
            for (int a = 0; a < g->values[v].naxes; a++) extent[a] = mt_value_extent(g, v, a);
            int layout = input ? mt_rule_input(&p->layouts, g, op, &rules[k], p->mesh, i, extent)
                               : mt_rule_output(&p->layouts, g, op, &rules[k], p->mesh, i - op->nin, extent);
            if (input)
                in[i] = layout;
            else
                out[i - op->nin] = layout;
            if (t < 0) continue;
            bool wants = input && v != var->param;
            int local = priced_local(&p->values[v], wants ? priced_wanted(p, op, v, layout) : layout);
            if (wants)
                var->wanted[w][t] |= 1u << local;
            else
                var->made[w][t] = local;
        }
        var->cost_s[w] += mt_price_op(&p->pricing, var->ops[k], in, out, NULL);
    }
}

/* `within` in every node, below `root`. */
static inline struct mt_rule priced_tree(struct priced *p, struct mt_rule root, struct mt_rule within) {
    struct mt_rule *inner = mt_new(&p->arena, struct mt_rule, p->mesh->nnodes);
    for (int n = 0; n < p->mesh->nnodes; n++) inner[n] = within;
    root.inner = inner;
    return root;
}

/* A way to divide the work among all ranks, or, if meshed, within nodes, whose samples are divided before. */
static inline void priced_add_within(struct priced *p, struct priced_var *var, struct mt_rule rule) {
    const struct mt_op *op = &p->graph->ops[var->ops[0]];
    struct mt_rule root = {.kind = MT_RULE_REPLICATE};
    bool samples = false;
    for (int i = 0; i < op->nindices; i++) {
        if (op->index_label[i] != p->graph->batch) continue;
        samples = true;
        if (mt_op_index_role(op, i) != MT_INDEX_WHOLE)
            root = (struct mt_rule){.kind = MT_RULE_SPLIT, .index = i, .split = p->hosts};
    }
    if (p->hosts && samples) rule = priced_tree(p, root, rule);
    priced_add_way(p, var, &rule);
}

static inline void priced_ways_of_op(struct priced *p, struct priced_var *var) {
    const struct mt_op *op = &p->graph->ops[var->ops[0]];
    const struct mt_rule whole = {.kind = MT_RULE_REPLICATE};
    unsigned sets[MT_MAX_IN];
    int nsets = mt_op_linear_sets(op, sets);
    bool samples = false;
    for (int i = 0; i < op->nindices; i++) samples |= op->index_label[i] == p->graph->batch;
    priced_add_within(p, var, whole);
    for (int s = 0; s < nsets; s++) {
        struct mt_rule linear = {.kind = MT_RULE_LINEAR, .set = s}, nodes;
        priced_add_within(p, var, linear);
        if (!p->hosts || samples) continue;
        nodes = priced_tree(p, linear, whole); /* sums over nodes, that their ranks share */
        priced_add_way(p, var, &nodes);
    }
    for (int s = 0; s < p->nsplits && samples; s++)
        for (int i = 0; i < op->nindices; i++)
            if (op->index_label[i] == p->splits[s].label && mt_op_index_role(op, i) != MT_INDEX_WHOLE)
                priced_add_within(p, var, (struct mt_rule){.kind = MT_RULE_SPLIT, .index = i, .split = &p->splits[s]});
}

/* A split for storage, before those for computing. */
static inline const struct mt_split *priced_stored(const struct priced *p, int s) {
    return s < p->nstorage ? &p->storage[s] : &p->splits[s - p->nstorage];
}

/* The operators of storage, divided by splits of axes among nodes and within them, or among all ranks; null: not. */
static inline struct mt_rule priced_stored_by(struct priced *p, const struct mt_op *op, int host_axis,
                                              const struct mt_split *hosts, int axis, const struct mt_split *split) {
    struct mt_rule root = {.kind = MT_RULE_REPLICATE}, within = root;
    if (hosts) root = (struct mt_rule){.kind = MT_RULE_SPLIT, .index = op->in_index[0][host_axis], .split = hosts};
    if (split) within = (struct mt_rule){.kind = MT_RULE_SPLIT, .index = op->in_index[0][axis], .split = split};
    return hosts || (split && split->axis != MT_AXIS_ALL) ? priced_tree(p, root, within) : within;
}

static inline void priced_add_stored(struct priced *p, struct priced_var *var, int host_axis,
                                     const struct mt_split *hosts, int axis, const struct mt_split *split) {
    struct mt_rule rules[4];
    for (int k = 0; k < var->nops; k++)
        rules[k] = priced_stored_by(p, &p->graph->ops[var->ops[k]], host_axis, hosts, axis, split);
    priced_add_way(p, var, rules);
}

/* Whole, with the norm computed from the first shares of the sharding axis that there are. */
static inline void priced_add_whole(struct priced *p, struct priced_var *var) {
    const struct mt_graph *g = p->graph;
    int shared = mt_sharding_axis(g, var->param);
    struct mt_rule rules[4];
    for (int k = 0; k < var->nops; k++) {
        const struct mt_op *op = &g->ops[var->ops[k]];
        const struct mt_split *first = NULL;
        for (int s = 0; s < p->nstorage + p->nsplits && op->kind == MT_OP_sq_norm && !first; s++)
            if (priced_stored(p, s)->label == g->values[var->param].label[shared] &&
                priced_stored(p, s)->axis != MT_AXIS_HOST)
                first = priced_stored(p, s);
        rules[k] = priced_stored_by(p, op, -1, NULL, shared, first);
    }
    priced_add_way(p, var, rules);
}

/* Whole; one split for all its operators; among nodes by one axis and within them by a computing split of another. */
static inline void priced_ways_of_storage(struct priced *p, struct priced_var *var) {
    const struct mt_value *v = &p->graph->values[var->param];
    priced_add_whole(p, var);
    for (int a = 0; a < v->naxes; a++)
        for (int s = 0; s < p->nsplits + p->nstorage; s++) {
            const struct mt_split *split = priced_stored(p, s);
            if (split->label != v->label[a]) continue;
            if (split->axis != MT_AXIS_HOST) {
                priced_add_stored(p, var, -1, NULL, a, split);
                continue;
            }
            priced_add_stored(p, var, a, split, -1, NULL);
            for (int b = 0; b < v->naxes; b++)
                for (int k = 0; k < p->nsplits && b != a; k++)
                    if (p->splits[k].label == v->label[b]) priced_add_stored(p, var, a, split, b, &p->splits[k]);
        }
}

/* ---- conversions ---- */

static inline double priced_convert(struct priced *p, int v, int from, int to) {
    const struct mt_graph *g = p->graph;
    const struct priced_value *value = &p->values[v];
    int64_t extent[MT_MAX_AXES];
    for (int a = 0; a < g->values[v].naxes; a++) extent[a] = mt_value_extent(g, v, a);
    int whole = mt_layout_replicated(&p->layouts, g->values[v].naxes, extent);
    if (from == whole && to == PRICED_EQUAL) return mt_price_broadcast(&p->pricing, v, whole, false);
    if (from == PRICED_EQUAL) from = whole;
    if (to == PRICED_EQUAL) to = whole;
    return mt_price_convert(&p->pricing, v, from, to, value->bulk) * (value->bulk ? p->exposed : 1);
}

static inline void priced_conversions(struct priced *p, int v) {
    struct priced_value *value = &p->values[v];
    int n = value->nlayouts;
    value->convert_s = mt_new(&p->arena, double, n *n);
    for (int i = 0; i < n * n; i++)
        if (i / n != i % n) value->convert_s[i] = priced_convert(p, v, value->layout[i / n], value->layout[i % n]);
}

/* serve[made][held]: what it costs to hold these, one conversion after another. */
static inline void priced_serve_from(struct priced *p, struct priced_value *value, int made) {
    int n = value->nlayouts, all = 1 << n;
    double *serve = mt_new(&p->arena, double, all), *at_least = mt_new(&p->arena, double, all);
    for (int set = 0; set < all; set++) serve[set] = set == 1 << made ? 0 : INFINITY;
    for (int set = 0; set < all; set++)
        for (int to = 0; to < n && !isinf(serve[set]); to++) {
            double least = INFINITY;
            for (int from = 0; from < n; from++)
                if (set >> from & 1) least = fmin(least, value->convert_s[from * n + to]);
            int more = set | 1 << to;
            if (more != set) serve[more] = fmin(serve[more], serve[set] + least);
        }
    for (int set = 0; set < all; set++) serve[set] = serve[set | 1 << made];
    memcpy(at_least, serve, (size_t)all * sizeof *serve);
    for (int l = 0; l < n; l++)
        for (int set = 0; set < all; set++)
            if (!(set >> l & 1)) at_least[set] = fmin(at_least[set], at_least[set | 1 << l]);
    value->serve[made] = serve;
    value->at_least[made] = at_least;
}

static inline void priced_open(struct priced *p, const struct small_job *job, const struct mt_split *storage,
                               int nstorage, double exposed) {
    *p = (struct priced){.graph = job->graph,
                         .splits = job->splits,
                         .nsplits = job->nsplits,
                         .storage = storage,
                         .nstorage = nstorage,
                         .hosts = job->meshed ? &job->hosts : NULL,
                         .mesh = &job->mesh,
                         .exposed = exposed};
    mt_layouts_init(&p->layouts, job->costs.nranks);
    p->pricing = (struct mt_pricing){&job->costs, job->graph, &p->layouts, &job->mesh};
    priced_list(p);
    for (int i = 0; i < p->nvars; i++)
        if (p->vars[i].param >= 0)
            priced_ways_of_storage(p, &p->vars[i]);
        else
            priced_ways_of_op(p, &p->vars[i]);
    for (int v = 0; v < p->graph->nvalues; v++) {
        if (!p->values[v].counts) continue;
        priced_conversions(p, v);
        for (int made = 0; made < p->values[v].nlayouts; made++) priced_serve_from(p, &p->values[v], made);
    }
}

static inline void priced_close(struct priced *p) {
    mt_layouts_release(&p->layouts);
    mt_arena_release(&p->arena);
}

/* ---- the sum ---- */

/* A value's share, of the ways of its variables. */
static inline double priced_value_s(const struct priced *p, int v, const int *way) {
    const struct priced_value *value = &p->values[v];
    unsigned wanted = 0;
    for (int r = 0; r < value->nreaders; r++) {
        const struct priced_var *var = &p->vars[value->readers[r]];
        wanted |= var->wanted[way[value->readers[r]]][priced_touched(var, v)];
    }
    const struct priced_var *maker = &p->vars[value->maker];
    return value->serve[maker->made[way[value->maker]][priced_touched(maker, v)]][wanted];
}

static inline double priced_sum(const struct priced *p, const int *way) {
    double sum = 0;
    for (int i = 0; i < p->nvars; i++) sum += p->vars[i].cost_s[way[i]];
    for (int v = 0; v < p->graph->nvalues; v++)
        if (p->values[v].counts) sum += priced_value_s(p, v, way);
    return sum;
}

static inline bool priced_same_level(const struct mt_rule *a, const struct mt_rule *b, const struct mt_mesh *mesh) {
    if (a->kind != b->kind || !a->inner != !b->inner) return false;
    if (a->kind == MT_RULE_LINEAR) return a->set == b->set;
    if (a->kind == MT_RULE_REPLICATE) return true;
    int n = a->split->axis == MT_AXIS_HOST ? mesh->nnodes : mesh->nranks;
    return a->index == b->index && a->split->axis == b->split->axis &&
           !memcmp(a->split->sizes, b->split->sizes, (size_t)n * sizeof *a->split->sizes);
}

static inline bool priced_same_rule(const struct mt_rule *a, const struct mt_rule *b, const struct mt_mesh *mesh) {
    bool same = priced_same_level(a, b, mesh);
    for (int n = 0; n < mesh->nnodes && same && a->inner; n++)
        same = priced_same_level(&a->inner[n], &b->inner[n], mesh);
    return same;
}

/* The sum of given rules, rules[graph->nops], which must be among the ways. */
static inline double priced_sum_of_rules(const struct priced *p, const struct mt_rule *rules) {
    int *way = mt_calloc((size_t)p->nvars + 1, sizeof *way);
    for (int i = 0; i < p->nvars; i++) {
        const struct priced_var *var = &p->vars[i];
        for (way[i] = 0; way[i] < var->nways; way[i]++) {
            bool same = true;
            for (int k = 0; k < var->nops; k++)
                same &= priced_same_rule(&var->rules[way[i]][k], &rules[var->ops[k]], p->mesh);
            if (same) break;
        }
        CHECK(way[i] < var->nways, "%s: a rule that is not in the space", p->graph->ops[var->ops[0]].name);
    }
    double sum = priced_sum(p, way);
    free(way);
    return sum;
}

/* ---- simple strategies ---- */

static inline bool priced_splits(const struct mt_rule *rule, int label) {
    const struct mt_rule *leaf = rule->inner ? &rule->inner[0] : rule;
    return leaf->kind == MT_RULE_SPLIT && leaf->split->label == label;
}

/* Everything that can be is split by one label, with or without storage, and the rest is whole; the cheapest label, or
 * none. */
static inline double priced_simple_s(const struct priced *p) {
    int *way = mt_calloc((size_t)p->nvars + 1, sizeof *way);
    double least = priced_sum(p, way);
    for (int s = 0; s < p->nsplits; s++)
        for (int stores = 0; stores < 2; stores++) {
            for (int i = 0; i < p->nvars; i++) {
                const struct priced_var *var = &p->vars[i];
                way[i] = 0;
                for (int w = 0; w < var->nways && (stores || var->param < 0); w++)
                    if (priced_splits(&var->rules[w][var->nops - 1], p->splits[s].label)) way[i] = w;
            }
            least = fmin(least, priced_sum(p, way));
        }
    free(way);
    return least;
}

#endif
