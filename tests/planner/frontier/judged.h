/* The fastest program by brute force: all rules of all operators, for all shares of two labels on two ranks, each
 * program built and simulated (mt_predict); against what the frontier programme chooses for the same shares.
 *
 * A linear rule is left out where its operands cannot be partial sums: the builder then replicates the operator. */
#ifndef MT_TESTS_PLANNER_FRONTIER_JUDGED_H
#define MT_TESTS_PLANNER_FRONTIER_JUDGED_H

#include "planner/frontier/space.h"
#include "planner/predict/predict.h"
#include "synth/builder/build.h"
#include "tests/planner/frontier/graphs.h"
#include "tests/synth/layout/rules.h"

enum { JUDGED_MOST_VARS = 24 };

struct judged {
    struct small_job job;
    struct mt_layouts layouts;
    struct mt_rule *rules;            /* [nops]: at hand */
    int nvars, var[JUDGED_MOST_VARS]; /* operators, and of storage the parameter as -1 - value */
    int *layout;                      /* [graph values]: in which it is made */
    int64_t units[2], least_units[2]; /* of the two labels: shares are multiples of an extent's unit */
    int64_t nprograms;
    double at_shares_s, best_s;            /* all programs: at the shares at hand, at all */
    double found_at_shares_s, found_s;     /* the frontier's */
    double data_s, tensor_s, replicated_s; /* the simple strategies, at all shares */
    double regret_at_shares;               /* sum over shares */
    int nshares;
    double comm_s; /* of the last program that was judged, of its first rank */
    char best[400];
};

/* ---- the judge ---- */

static inline double judge(struct judged *j, struct mt_rule *rules) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_program program;
    struct mt_prediction prediction;
    const struct mt_cluster_link *link = &j->job.cluster->links[mt_cost_link(&j->job.costs, j->job.device, 2)];
    struct mt_lower_options options = {.fuse = true,
                                       .sketch = true,
                                       .unplaced = true,
                                       .latency_s = link->latency_s,
                                       .bandwidth_Bps = link->bandwidth_Bps};
    struct mt_choice choice = {.nranks = 2,
                               .splits = j->job.splits,
                               .nsplits = j->job.nsplits,
                               .batch = &j->job.splits[0],
                               .rules = rules,
                               .node = j->job.node,
                               .decisions = {.gradient_wire = MT_F32}};
    CHECK_OK(mt_build(j->job.graph, &choice, &program, &err), err);
    CHECK_OK(mt_predict(&program, &j->job.costs, &options, &prediction, &err), err);
    double step_s = prediction.step_s;
    j->comm_s = prediction.ranks[0].comm_s;
    mt_arena_release(&prediction.arena);
    mt_program_release(&program);
    j->nprograms++;
    return step_s;
}

/* ---- all rules ---- */

static inline bool judged_has_axes(const struct mt_graph *g, const struct mt_op *op) {
    bool some = false;
    for (int i = 0; i < op->nin; i++) some |= g->values[op->in[i]].naxes > 0;
    for (int i = 0; i < op->nout; i++) some |= g->values[op->out[i]].naxes > 0;
    return some;
}

static inline void judged_list(struct judged *j) {
    const struct mt_graph *g = j->job.graph;
    for (int o = 0; o < g->nops; o++)
        if (g->ops[o].role != MT_ROLE_UPDATE && judged_has_axes(g, &g->ops[o])) j->var[j->nvars++] = o;
    for (int v = 0; v < g->nvalues; v++)
        if (g->values[v].param) j->var[j->nvars++] = -1 - v;
    CHECK(j->nvars <= JUDGED_MOST_VARS);
}

static inline void judged_describe(const struct judged *j, const struct mt_rule *rules, char *text, size_t size) {
    const struct mt_graph *g = j->job.graph;
    size_t length = 0;
    for (int s = 0; s < 2; s++)
        length += (size_t)snprintf(text + length, size - length, "%s %lld:%lld, ", j->job.splits[s].name,
                                   (long long)j->job.splits[s].sizes[0], (long long)j->job.splits[s].sizes[1]);
    for (int o = 0; o < g->nops && length < size - 1; o++) {
        if (!judged_has_axes(g, &g->ops[o])) continue;
        const struct mt_rule *r = &rules[o];
        const char *how = r->kind == MT_RULE_SPLIT ? r->split->name : r->kind == MT_RULE_LINEAR ? "partial" : "whole";
        length += (size_t)snprintf(text + length, size - length, "%s=%s ", g->ops[o].name, how);
    }
}

static inline void judged_try(struct judged *j) {
    double step_s = judge(j, j->rules);
    j->at_shares_s = fmin(j->at_shares_s, step_s);
    if (step_s >= j->best_s) return;
    j->best_s = step_s;
    judged_describe(j, j->rules, j->best, sizeof j->best);
}

/* Whether a linear rule's operands are partial sums. */
static inline bool judged_is_able(const struct judged *j, const struct mt_op *op, const struct mt_rule *rule) {
    unsigned sets[MT_MAX_IN];
    if (rule->kind != MT_RULE_LINEAR) return true;
    mt_op_linear_sets(op, sets);
    for (int i = 0; i < op->nin; i++) {
        int layout = j->layout[op->in[i]];
        if (!(sets[rule->set] >> i & 1)) continue;
        if (layout < 0 || j->layouts.items[layout].reduce != MT_SUM) return false;
    }
    return true;
}

static inline void judged_enumerate(struct judged *j, int at);

static inline void judged_storage(struct judged *j, int at, int param) {
    const struct mt_graph *g = j->job.graph;
    for (int a = -1; a < g->values[param].naxes; a++)
        for (int s = 0; s < (a < 0 ? 1 : 2); s++) {
            if (a >= 0 && j->job.splits[s].label != g->values[param].label[a]) continue;
            for (int o = 0; o < g->nops; o++) {
                const struct mt_op *op = &g->ops[o];
                if (op->role != MT_ROLE_UPDATE || op->forward != param) continue;
                j->rules[o] = (struct mt_rule){.kind = MT_RULE_REPLICATE};
                if (a >= 0)
                    j->rules[o] = (struct mt_rule){
                        .kind = MT_RULE_SPLIT, .index = op->in_index[0][a], .split = &j->job.splits[s]};
            }
            judged_enumerate(j, at + 1);
        }
}

/* Operators with samples have all rules, others the replicated and the linear ones, as in the space. */
static inline void judged_enumerate(struct judged *j, int at) {
    const struct mt_graph *g = j->job.graph;
    if (at == j->nvars) {
        judged_try(j);
        return;
    }
    if (j->var[at] < 0) {
        judged_storage(j, at, -1 - j->var[at]);
        return;
    }
    const struct mt_op *op = &g->ops[j->var[at]];
    struct mt_rule ways[MOST_RULES];
    bool samples = false;
    for (int i = 0; i < op->nindices; i++) samples |= op->index_label[i] == g->batch;
    int n = all_rules(op, j->job.splits, samples ? 2 : 0, ways);
    for (int w = 0; w < n; w++) {
        if (!judged_is_able(j, op, &ways[w])) continue;
        j->rules[j->var[at]] = ways[w];
        for (int i = 0; i < op->nout; i++) {
            int64_t extent[MT_MAX_AXES];
            int v = op->out[i];
            for (int a = 0; a < g->values[v].naxes; a++) extent[a] = mt_value_extent(g, v, a);
            j->layout[v] = mt_rule_output(&j->layouts, g, op, &ways[w], NULL, i, extent);
        }
        judged_enumerate(j, at + 1);
    }
}

/* ---- simple strategies, and the frontier ---- */

/* Everything that has the label is split by it, by its last occurrence, and the rest whole; -1: everything whole. With
 * `stores`, storage too. */
static inline double judged_simple(struct judged *j, int split, bool stores) {
    const struct mt_graph *g = j->job.graph;
    for (int o = 0; o < g->nops; o++) {
        const struct mt_op *op = &g->ops[o];
        j->rules[o] = (struct mt_rule){.kind = MT_RULE_REPLICATE};
        for (int i = 0; i < op->nindices && split >= 0 && (stores || op->role != MT_ROLE_UPDATE); i++)
            if (op->index_label[i] == j->job.splits[split].label && mt_op_index_role(op, i) != MT_INDEX_WHOLE)
                j->rules[o] = (struct mt_rule){.kind = MT_RULE_SPLIT, .index = i, .split = &j->job.splits[split]};
    }
    return judge(j, j->rules);
}

static inline void judged_frontier(struct judged *j) {
    static const double exposed[] = {0, 0.3, 1};
    struct mt_err err = MT_ERR_INIT;
    for (int bundled = 0; bundled < 2; bundled++)
        for (size_t e = 0; e < sizeof exposed / sizeof *exposed; e++) {
            struct mt_arena arena = MT_ARENA_INIT;
            struct mt_space space;
            struct mt_frontier_solution solution;
            struct mt_space_options options = {.graph = j->job.graph,
                                               .costs = &j->job.costs,
                                               .mesh = &j->job.mesh,
                                               .splits = j->job.splits,
                                               .nsplits = j->job.nsplits,
                                               .unbundled = !bundled,
                                               .exposed = exposed[e]};
            CHECK_OK(mt_space_open(&options, &space, &err), err);
            CHECK(mt_frontier_solve(&space.problem, &arena, &solution));
            mt_space_rules(&space, solution.choice, j->rules);
            j->found_at_shares_s = fmin(j->found_at_shares_s, judge(j, j->rules));
            mt_space_release(&space);
            mt_arena_release(&arena);
        }
}

/* ---- shares ---- */

static inline void judged_at_shares(struct judged *j) {
    j->at_shares_s = j->found_at_shares_s = INFINITY;
    judged_frontier(j);
    j->replicated_s = fmin(j->replicated_s, judged_simple(j, -1, false));
    for (int stores = 0; stores < 2; stores++) {
        j->data_s = fmin(j->data_s, judged_simple(j, 0, stores));
        j->tensor_s = fmin(j->tensor_s, judged_simple(j, 1, stores));
    }
    judged_enumerate(j, 0);
    j->found_s = fmin(j->found_s, j->found_at_shares_s);
    j->regret_at_shares += j->found_at_shares_s / j->at_shares_s - 1;
    j->nshares++;
}

/* Shares of a label in units; 0..units, or with `step` only some. */
static inline void judged_set_share(struct judged *j, int s, int64_t share) {
    struct mt_split *split = &j->job.splits[s];
    int64_t extent = j->job.graph->labels[split->label].extent, unit = extent / j->units[s];
    split->sizes[0] = share * unit, split->sizes[1] = extent - share * unit;
    split->starts[1] = split->sizes[0], split->starts[2] = extent;
}

static inline void judged_all_shares(struct judged *j) {
    for (int64_t a = 0; a <= j->units[0]; a++)
        for (int64_t b = 0; b <= j->units[1]; b++) {
            judged_set_share(j, 0, a);
            judged_set_share(j, 1, b);
            judged_at_shares(j);
        }
}

#endif
