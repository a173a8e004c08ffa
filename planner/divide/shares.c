/* Shares of all labels together, by a linear programme (GLPK).
 *
 * Operators that are divided by one split take, on rank r, time in proportion to its share x[k][r]; the ranks that
 * share the split wait for each other before the operators of the next split, because a collective stands between them.
 * So
 *
 *     minimize T:  T >= fixed[g] + sum over splits k of tau[k][g]      for each group g of ranks that share work
 *                  tau[k][g] >= seconds[k][r] x[k][r]                  for each rank r of g
 *                  sum over r of g of x[k][r] = the extent that g has
 *                  sum over k of bytes[k][r] x[k][r] <= memory[r] - what does not depend on shares
 *
 * and, of equal T, the least sum of tau: a group that waits for others has even shares too.
 *
 * The groups are the nodes, where samples are divided among nodes first; else all ranks are one. A node's time is in
 * proportion to its samples as well, which makes shares of nodes and shares within nodes bilinear: they are solved for
 * in turn, each with the other fixed, and the judge decides whether the pair is better. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/hash.h"
#include "planner/divide/internal.h"
#include "planner/lp/lp.h"
#include "synth/ops/ops.h"

struct balancing {
    struct mt_dividing *d;
    const struct mt_divided *c;
    struct mt_arena scratch;
    struct mt_layouts layouts;
    struct mt_pricing pricing;
    int nsplits;
    double *seconds; /* [nsplits nranks]: of the operators that a split divides, on each rank as it is */
    double *bytes;   /* [nsplits nranks]: of state that a split divides */
    double *fixed;   /* [nranks]: seconds of what no split divides */
    int hosts;       /* the split of samples among nodes, or -1 */
    struct known {
        uint64_t hash;
        double *seconds; /* [nranks] */
    } * known;
    int nknown, known_capacity;
};

/* Of the solver, which it does not come near: shares must not depend on how busy the machine is. */
static const double most_s = 600;

/* ---- what operators take ---- */

static uint64_t rule_hash(const struct mt_rule *rule, uint64_t hash) {
    uintptr_t what[] = {(uintptr_t)rule->kind, (uintptr_t)rule->index, (uintptr_t)rule->set, (uintptr_t)rule->split};
    hash = mt_hash64(what, sizeof what, hash);
    return rule->inner ? rule_hash(&rule->inner[0], hash + 1) : hash;
}

static uint64_t op_hash(const struct mt_graph *g, const struct mt_op *op, const struct mt_rule *rule) {
    struct mt_attr attr = op->attr;
    attr.tag = 0;
    uint64_t hash = mt_hash64(&attr, sizeof attr, (uint64_t)op->kind);
    hash = mt_hash64(op->index_label, (size_t)op->nindices * sizeof(int), hash);
    hash = mt_hash64(op->in_index, sizeof op->in_index, hash);
    for (int i = 0; i < op->nin; i++) hash = hash * 31 + (uint64_t)g->values[op->in[i]].type;
    return rule_hash(rule, hash);
}

/* Seconds on each rank; equal operators are priced once. */
static const double *op_seconds(struct balancing *b, int o) {
    const struct mt_graph *g = b->d->divide->graph;
    const struct mt_op *op = &g->ops[o];
    const struct mt_rule *rule = &b->c->choice.rules[o];
    uint64_t hash = op_hash(g, op, rule);
    for (int i = 0; i < b->nknown; i++)
        if (b->known[i].hash == hash) return b->known[i].seconds;
    int in[MT_MAX_IN], out[MT_MAX_OUT];
    int64_t extent[MT_MAX_AXES];
    for (int k = 0; k < op->nin + op->nout; k++) {
        int v = k < op->nin ? op->in[k] : op->out[k - op->nin];
        for (int a = 0; a < g->values[v].naxes; a++) extent[a] = mt_value_extent(g, v, a);
        if (k < op->nin)
            in[k] = mt_rule_input(&b->layouts, g, op, rule, &b->d->mesh, k, extent);
        else
            out[k - op->nin] = mt_rule_output(&b->layouts, g, op, rule, &b->d->mesh, k - op->nin, extent);
    }
    mt_arena_grow(&b->scratch, &b->known, b->nknown, &b->known_capacity, sizeof *b->known);
    double *seconds = mt_new(&b->scratch, double, b->d->nranks);
    b->known[b->nknown++] = (struct known){hash, seconds};
    mt_price_op(&b->pricing, o, in, out, seconds);
    return seconds;
}

/* The finest split of a rule, or -1. */
static int split_of(const struct balancing *b, const struct mt_rule *rule) {
    const struct mt_rule *within = rule->inner ? &rule->inner[0] : rule;
    const struct mt_split *split = within->kind == MT_RULE_SPLIT ? within->split
                                   : rule->kind == MT_RULE_SPLIT ? rule->split
                                                                 : NULL;
    return split ? (int)(split - b->c->choice.splits) : -1;
}

static void add_times(struct balancing *b) {
    const struct mt_graph *g = b->d->divide->graph;
    int n = b->d->nranks;
    for (int o = 0; o < g->nops; o++) {
        const struct mt_op *op = &g->ops[o];
        int split = split_of(b, &b->c->choice.rules[o]);
        const double *seconds = op_seconds(b, o);
        double *to = split < 0 ? b->fixed : b->seconds + (size_t)split * (size_t)n;
        for (int r = 0; r < n; r++) to[r] += seconds[r];
        if (split < 0 || (op->kind != MT_OP_adamw && op->kind != MT_OP_sgd)) continue;
        int64_t state = 0;
        for (int i = 0; i < op->nin; i++)
            if (g->values[op->in[i]].kind == MT_VALUE_STATE && g->values[op->in[i]].naxes)
                state += mt_value_count(g, op->in[i]) * mt_type_size(g->values[op->in[i]].type);
        const struct mt_split *s = &b->c->choice.splits[split];
        double extent = (double)g->labels[s->label].extent;
        for (int r = 0; r < n && s->axis != MT_AXIS_HOST; r++)
            b->bytes[(size_t)split * (size_t)n + (size_t)r] += (double)state * (double)s->sizes[r] / extent;
    }
}

/* ---- the programme ---- */

static int group_of(const struct balancing *b, int rank) {
    return b->hosts >= 0 ? b->d->mesh.node[rank] : 0;
}

/* Whether the split is one of shares among ranks that some work or state depends on. */
static bool is_balanced(const struct balancing *b, int split) {
    const struct mt_split *s = &b->c->choice.splits[split];
    double sum = 0;
    for (int r = 0; r < b->d->nranks; r++) sum += b->seconds[(size_t)split * (size_t)b->d->nranks + (size_t)r];
    return s->axis != MT_AXIS_HOST && sum > 0;
}

/* Seconds, or bytes, of one more unit of a share; of a rank without a share, by its speed. */
static double per_unit(const struct balancing *b, const double *of, int split, int rank) {
    const struct mt_split *s = &b->c->choice.splits[split];
    size_t n = (size_t)b->d->nranks, at = (size_t)split * n;
    if (s->sizes[rank] > 0) return of[at + (size_t)rank] / (double)s->sizes[rank];
    double weighed = 0, shares = 0;
    for (int r = 0; r < b->d->nranks; r++)
        if (group_of(b, r) == group_of(b, rank))
            weighed += of[at + (size_t)r] * b->d->speed[r], shares += (double)s->sizes[r];
    return shares > 0 ? weighed / shares / b->d->speed[rank] : 0;
}

/* Times are in `unit_s`, shares are parts of what the group has: the solver's tolerances are absolute. */
struct columns {
    struct mt_lp lp;
    int *x; /* [nsplits nranks], or -1 */
    int step;
    double unit_s;
};

/* What a rank's group has of the label. */
static double group_extent(const struct balancing *b, int split, int group) {
    double extent = 0;
    for (int r = 0; r < b->d->nranks; r++)
        if (group_of(b, r) == group) extent += (double)b->c->choice.splits[split].sizes[r];
    return extent;
}

static void add_split_rows(const struct balancing *b, struct columns *k, int split, int group, int step_row) {
    const struct mt_split *s = &b->c->choice.splits[split];
    double extent = group_extent(b, split, group);
    double little = 1e-3 / (b->hosts >= 0 ? b->d->nnodes : 1);
    int tau = mt_lp_col(&k->lp, "tau", 0, INFINITY, little, false), sum_row;
    mt_lp_set(&k->lp, step_row, tau, -1);
    sum_row = mt_lp_row(&k->lp, s->name, 1, 1);
    for (int r = 0; r < b->d->nranks; r++) {
        if (group_of(b, r) != group) continue;
        int x = k->x[split * b->d->nranks + r] = mt_lp_col(&k->lp, s->name, 0, 1, 0, false);
        int row = mt_lp_row(&k->lp, "tau", 0, INFINITY);
        mt_lp_set(&k->lp, sum_row, x, 1);
        mt_lp_set(&k->lp, row, tau, 1);
        mt_lp_set(&k->lp, row, x, -per_unit(b, b->seconds, split, r) * extent / k->unit_s);
    }
}

/* Memory that shares of state move; what else the rank holds stays. */
static void add_memory_rows(const struct balancing *b, struct columns *k) {
    const int64_t *limit = b->d->divide->memory_bytes;
    for (int r = 0; r < b->d->nranks && limit; r++) {
        double held = (double)mt_rank_needs_bytes(&b->c->prediction.ranks[r]), most = (double)limit[r];
        bool moves = false;
        if (!limit[r]) continue;
        for (int s = 0; s < b->nsplits; s++) {
            int x = k->x[s * b->d->nranks + r];
            if (x < 0) continue;
            held -= b->bytes[s * b->d->nranks + r];
            moves |= b->bytes[s * b->d->nranks + r] > 0;
        }
        if (!moves) continue;
        int row = mt_lp_row(&k->lp, "memory", -INFINITY, fmax(most - held, 0) / most);
        for (int s = 0; s < b->nsplits; s++)
            if (k->x[s * b->d->nranks + r] >= 0)
                mt_lp_set(&k->lp, row, k->x[s * b->d->nranks + r],
                          per_unit(b, b->bytes, s, r) * group_extent(b, s, group_of(b, r)) / most);
    }
}

/* The longest that a rank computes for. */
static double longest_s(const struct balancing *b) {
    double longest = 0;
    for (int r = 0; r < b->d->nranks; r++) {
        double sum = b->fixed[r];
        for (int s = 0; s < b->nsplits; s++) sum += b->seconds[s * b->d->nranks + r];
        longest = fmax(longest, sum);
    }
    return longest > 0 ? longest : 1;
}

/* Shares among ranks. MT_EINPUT where memory allows none. */
static enum mt_status solve_ranks(struct balancing *b, struct mt_divided *to, bool *changed) {
    struct columns k = {.x = mt_new(&b->scratch, int, b->nsplits * b->d->nranks), .unit_s = longest_s(b)};
    struct mt_lp_solution solution;
    int groups = b->hosts >= 0 ? b->d->nnodes : 1, nbalanced = 0;
    for (int i = 0; i < b->nsplits * b->d->nranks; i++) k.x[i] = -1;
    k.step = mt_lp_col(&k.lp, "step", 0, INFINITY, 1, false);
    for (int g = 0; g < groups; g++) {
        double fixed = 0;
        for (int r = 0; r < b->d->nranks; r++)
            if (group_of(b, r) == g) fixed = fmax(fixed, b->fixed[r]);
        int row = mt_lp_row(&k.lp, "step", fixed / k.unit_s, INFINITY);
        mt_lp_set(&k.lp, row, k.step, 1);
        for (int s = 0; s < b->nsplits; s++)
            if (is_balanced(b, s)) add_split_rows(b, &k, s, g, row), nbalanced++;
    }
    add_memory_rows(b, &k);
    enum mt_status st = nbalanced ? mt_lp_solve(&k.lp, most_s, &solution, b->d->err) : MT_OK;
    for (int s = 0; s < b->nsplits && !st && nbalanced; s++) {
        if (!is_balanced(b, s)) continue;
        struct mt_split *split = &to->splits[s];
        double *weight = mt_new(&b->scratch, double, b->d->nranks);
        for (int r = 0; r < b->d->nranks; r++) weight[r] = fmax(0, solution.x[k.x[s * b->d->nranks + r]]);
        st = mt_divide_label(b->d, split, b->d->divide->graph->labels[split->label].align, weight,
                             b->hosts >= 0 ? &to->choice.splits[b->hosts] : NULL);
        *changed |= memcmp(split->sizes, b->c->choice.splits[s].sizes, (size_t)b->d->nranks * sizeof(int64_t)) != 0;
    }
    mt_lp_release(&k.lp);
    return st;
}

/* Samples among nodes: in proportion to what each computes a second, by the slowest of its ranks in each split. */
static enum mt_status solve_hosts(struct balancing *b, struct mt_divided *to, bool *changed) {
    const struct mt_graph *g = b->d->divide->graph;
    struct mt_split *hosts = &to->splits[b->hosts];
    double *weight = mt_new(&b->scratch, double, b->d->nnodes);
    for (int n = 0; n < b->d->nnodes; n++) {
        double step = 0;
        for (int s = 0; s < b->nsplits; s++) {
            double slowest = 0;
            for (int r = 0; r < b->d->nranks; r++)
                if (b->d->mesh.node[r] == n) slowest = fmax(slowest, b->seconds[s * b->d->nranks + r]);
            step += slowest;
        }
        weight[n] = step > 0 ? (double)b->c->choice.splits[b->hosts].sizes[n] / step : 0;
    }
    enum mt_status st = mt_divide_label(b->d, hosts, g->labels[g->batch].align, weight, NULL);
    *changed |= memcmp(hosts->sizes, b->c->choice.splits[b->hosts].sizes, (size_t)b->d->nnodes * sizeof(int64_t)) != 0;
    return st;
}

enum mt_status mt_divide_balance(struct mt_dividing *d, const struct mt_divided *c, struct mt_divided **balanced) {
    struct balancing b = {.d = d, .c = c, .nsplits = c->choice.nsplits, .hosts = -1};
    size_t cells = (size_t)b.nsplits * (size_t)d->nranks;
    *balanced = NULL;
    if (d->nranks == 1 || !b.nsplits) return MT_OK;
    mt_layouts_init(&b.layouts, d->nranks);
    b.pricing = (struct mt_pricing){.costs = d->divide->costs, .graph = d->divide->graph, .layouts = &b.layouts};
    b.seconds = mt_new(&b.scratch, double, cells);
    b.bytes = mt_new(&b.scratch, double, cells);
    b.fixed = mt_new(&b.scratch, double, d->nranks);
    for (int s = 0; s < b.nsplits; s++)
        if (c->choice.splits[s].axis == MT_AXIS_HOST && c->choice.splits[s].label == d->divide->graph->batch)
            b.hosts = s;
    add_times(&b);
    struct mt_divided *to = mt_divide_copy(d, c);
    bool changed = false;
    enum mt_status st = b.hosts >= 0 ? solve_hosts(&b, to, &changed) : MT_OK;
    if (!st) st = solve_ranks(&b, to, &changed);
    if (!st && changed) *balanced = to;
    if (st == MT_EINPUT) st = MT_OK; /* memory allows no shares of these rules */
    mt_layouts_release(&b.layouts);
    mt_arena_release(&b.scratch);
    return st;
}
