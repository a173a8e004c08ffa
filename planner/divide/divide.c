/* Which candidates are tried: all strategies at two prices, then the cheapest judged; where one does not fit, with less
 * held at once; the best with other shares and other times of gathers and sums. */
#include "planner/divide/divide.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/log.h"
#include "kernels/base/wait.h"
#include "planner/divide/internal.h"
#include "planner/divide/rows.h"
#include "synth/ops/ops.h"

enum { MOST_STATES = 400, MOST_STATES_ALONE = 2000, MOST_JUDGED = 10 }; /* alone: of one strategy that is wanted */
static const double far_priced = 1.03; /* times the cheapest choice: one that costs more is not looked for closely */
static const double gain = 0.999;      /* what other shares must make of the step to be looked for again */

/* ---- the ranks ---- */

/* The first rank with each kind of device, of[nranks]: which of them is like a rank. */
static int list_devices(const struct mt_costs *costs, int *first, int *of) {
    int n = 0;
    for (int r = 0; r < costs->nranks; r++) {
        const struct mt_cluster_device *d = &costs->cluster->devices[costs->device[r]];
        for (of[r] = 0; of[r] < n; of[r]++) {
            const struct mt_cluster_device *other = &costs->cluster->devices[costs->device[first[of[r]]]];
            if (other->class == d->class && other->speed == d->speed) break;
        }
        if (of[r] == n) first[n++] = r;
    }
    return n;
}

/* Relative speeds by all operators of the step, each whole. */
static void find_speeds(struct mt_dividing *d) {
    const struct mt_graph *g = d->divide->graph;
    struct mt_arena scratch = MT_ARENA_INIT;
    struct mt_layouts layouts;
    struct mt_costs costs = *d->divide->costs; /* of one rank of each kind */
    int *first = mt_new(&scratch, int, d->nranks), *of = mt_new(&scratch, int, d->nranks);
    costs.nranks = list_devices(d->divide->costs, first, of);
    int *device = mt_new(&scratch, int, costs.nranks);
    double *seconds = mt_new(&scratch, double, costs.nranks), *sum = mt_new(&scratch, double, costs.nranks);
    for (int i = 0; i < costs.nranks; i++) device[i] = d->divide->costs->device[first[i]];
    costs.device = device;
    mt_layouts_init(&layouts, costs.nranks);
    struct mt_pricing pricing = {.costs = &costs, .graph = g, .layouts = &layouts};
    for (int o = 0; o < g->nops; o++) {
        const struct mt_op *op = &g->ops[o];
        int in[MT_MAX_IN], out[MT_MAX_OUT];
        for (int k = 0; k < op->nin + op->nout; k++) {
            int v = k < op->nin ? op->in[k] : op->out[k - op->nin];
            int64_t extent[MT_MAX_AXES];
            for (int a = 0; a < g->values[v].naxes; a++) extent[a] = mt_value_extent(g, v, a);
            *(k < op->nin ? &in[k] : &out[k - op->nin]) = mt_layout_replicated(&layouts, g->values[v].naxes, extent);
        }
        mt_price_op(&pricing, o, in, out, seconds);
        for (int i = 0; i < costs.nranks; i++) sum[i] += seconds[i];
    }
    d->speed = mt_new(d->arena, double, d->nranks);
    for (int r = 0; r < d->nranks; r++) d->speed[r] = 1 / fmax(sum[of[r]], 1e-12);
    mt_layouts_release(&layouts);
    mt_arena_release(&scratch);
}

static void find_mesh(struct mt_dividing *d) {
    const int *node = d->divide->node;
    int *all = mt_new(d->arena, int, d->nranks);
    d->nnodes = 1;
    for (int r = 0; r < d->nranks && node; r++)
        if (node[r] >= d->nnodes) d->nnodes = node[r] + 1;
    d->nodes = node && d->nnodes > 1;
    for (int r = 1; r < d->nranks && node; r++) /* ranks of a node follow each other */
        if (node[r] < node[r - 1]) d->nodes = false;
    if (!d->nodes) d->nnodes = 1;
    d->mesh = (struct mt_mesh){d->nranks, d->nnodes, d->nodes ? node : all};
}

/* ---- candidates ---- */

/* Whether a strategy is solved for: also those that others hold in the priced sum, because the judge may think better
 * of them. Without nodes some strategies are others. */
static bool belongs(const struct mt_dividing *d, const struct mt_strategy *s) {
    bool hybrid = s->state == MT_STORE_NODE, mesh = s->among == MT_AMONG_NODES && s->samples;
    if (d->divide->only) return s == d->divide->only;
    return d->nodes || !(hybrid || mesh);
}

/* Whether the same program was found before. */
static bool is_known(const struct mt_dividing *d, const struct mt_divided *c) {
    for (int i = 0; i < d->found->ncandidates; i++) {
        const struct mt_divided *other = d->found->candidates[i];
        int o = 0;
        while (o < d->divide->graph->nops && mt_divide_same_rule(&c->choice.rules[o], &other->choice.rules[o])) o++;
        if (o == d->divide->graph->nops && c->choice.decisions.gather == other->choice.decisions.gather &&
            c->choice.decisions.reduced == other->choice.decisions.reduced &&
            c->choice.decisions.overlapped == other->choice.decisions.overlapped)
            return true;
    }
    return false;
}

static void add_candidate(struct mt_dividing *d, struct mt_divided *c, int *capacity) {
    mt_arena_grow(d->arena, &d->found->candidates, d->found->ncandidates, capacity, sizeof c);
    d->found->candidates[d->found->ncandidates++] = c;
}

static struct mt_choice choice_of(struct mt_dividing *d, const struct mt_strategy *strategy,
                                  const struct divide_splits *splits) {
    const struct mt_graph *g = d->divide->graph;
    struct mt_decisions decisions = d->divide->decisions;
    if (decisions.gather < 0) decisions.gather = strategy->gather;
    if (decisions.reduced < 0) decisions.reduced = strategy->reduced;
    if (decisions.overlapped < 0) decisions.overlapped = MT_OVERLAPPED_NONE;
    if (decisions.sync < 0) decisions.sync = MT_SYNC_REDUCE_SCATTER;
    return (struct mt_choice){.nranks = d->nranks,
                              .splits = splits->items,
                              .nsplits = splits->n,
                              .micro = mt_new(d->arena, int64_t, d->nranks),
                              .rules = mt_new(d->arena, struct mt_rule, g->nops),
                              .mesh = d->mesh,
                              .node = d->divide->node,
                              .decisions = decisions};
}

static bool allows(const void *context, const struct mt_op *op, const struct mt_rule *rule) {
    return mt_strategy_allows(context, op, rule);
}

/* least_s: of the choices that were solved for with messages exposed so, and of this one. */
static enum mt_status solve(struct mt_dividing *d, const struct mt_strategy *strategy, double exposed, double *least_s,
                            int *capacity) {
    const struct mt_divide *q = d->divide;
    struct divide_splits splits;
    struct mt_space space;
    struct mt_frontier_solution solution;
    struct mt_arena scratch = MT_ARENA_INIT;
    enum mt_status st = mt_divide_splits(d, strategy, &splits);
    if (st) return st;
    struct mt_strategy_limits limits = {strategy, q->graph, d->kind, d->nodes, splits.compute, splits.ncompute};
    struct mt_space_options options = {.graph = q->graph,
                                       .costs = q->costs,
                                       .mesh = d->nodes ? &d->mesh : NULL,
                                       .hosts = splits.hosts,
                                       .splits = splits.compute,
                                       .storage = splits.compute + splits.ncompute,
                                       .nsplits = splits.ncompute,
                                       .nstorage = splits.nstorage,
                                       .exposed = exposed,
                                       .order_s = 1e-11,
                                       .allows = allows,
                                       .context = &limits,
                                       .most_states = q->only ? MOST_STATES_ALONE : MOST_STATES,
                                       .far_s = q->only || q->compare || isinf(*least_s) ? 0 : far_priced * *least_s};
    if ((st = mt_space_open(&options, &space, d->err))) goto out;
    if (!mt_frontier_solve(&space.problem, &scratch, &solution)) goto out;
    *least_s = fmin(*least_s, solution.cost_s);
    struct mt_divided c = {.strategy = strategy, .priced_s = solution.cost_s * d->priced_more};
    c.choice = choice_of(d, strategy, &splits);
    mt_space_rules(&space, solution.choice, c.choice.rules);
    c.choice.batch = &splits.items[0];
    if (d->divide->compare || !is_known(d, &c)) add_candidate(d, mt_divide_copy(d, &c), capacity);
out:
    mt_space_release(&space);
    mt_arena_release(&scratch);
    return st;
}

static enum mt_status solve_all(struct mt_dividing *d) {
    static const double exposed[] = {1, 0.2};
    double least_s[] = {INFINITY, INFINITY};
    int capacity = d->found->ncandidates;
    for (int i = 0; i < MT_NSTRATEGIES; i++) {
        const struct mt_strategy *s = &mt_strategies[i];
        if (!belongs(d, s)) continue;
        bool wide = s->state == MT_STORE_ANY || (d->divide->only && s->widths); /* the price decides much */
        for (int e = 0; e < (wide ? 2 : 1) && mt_now_s() < d->divide->end_s; e++) {
            enum mt_status st = solve(d, s, exposed[e], &least_s[e], &capacity);
            if (st && (st != MT_EINPUT || d->divide->only)) return st;
        }
    }
    return MT_OK;
}

/* ---- judging ---- */

static int by_price(const void *a, const void *b) {
    double x = (*(struct mt_divided *const *)a)->priced_s, y = (*(struct mt_divided *const *)b)->priced_s;
    return (x > y) - (x < y);
}

static void take_if_best(struct mt_dividing *d, struct mt_divided *c) {
    struct mt_divided *best = d->found->best;
    if (c->fits && (!best || c->prediction.step_s < best->prediction.step_s)) d->found->best = c;
}

static enum mt_status judge(struct mt_dividing *d, struct mt_divided *c) {
    enum mt_status st = mt_divide_judge(d, c);
    if (!st) take_if_best(d, c);
    mt_log(MT_LOG_DEBUG, "%s%s, gather %s, reduce %s, priced %.4g s: %.4g s in %lld micro-batches%s%s",
           c->strategy->name, d->layers ? " with few layers" : "", mt_gather_names[c->choice.decisions.gather],
           mt_reduced_names[c->choice.decisions.reduced], c->priced_s, c->judged ? c->prediction.step_s : 0,
           (long long)c->count, c->why ? ": " : "", c->why ? c->why : "");
    return st;
}

/* When weights are gathered and gradients reduced: with less held at once, or with fewer messages. */
static const struct times {
    enum mt_gather gather;
    enum mt_reduced reduced;
} times[] = {{MT_GATHER_LAYER, MT_REDUCED_MICRO_BATCH},
             {MT_GATHER_LAYER, MT_REDUCED_NODE},
             {MT_GATHER_LAYER, MT_REDUCED_STEP},
             {MT_GATHER_STEP, MT_REDUCED_STEP}};
enum { LEAST_HELD = 0, NTIMES = sizeof times / sizeof *times };

/* Whether some rank has several micro-batches: else gradients are reduced once. */
static bool has_body(const struct mt_dividing *d, const struct mt_choice *choice) {
    bool several = false;
    for (int r = 0; r < d->nranks; r++) several |= choice->micro[r] < mt_divide_samples(d, choice, r);
    return several;
}

/* Whether other times make another program, and are not given. */
static bool may_have(const struct mt_dividing *d, const struct mt_divided *c, const struct times *t) {
    const struct mt_decisions *given = &d->divide->decisions, *own = &c->choice.decisions;
    if (d->divide->only || given->gather >= 0 || given->reduced >= 0) return false;
    if (!c->plan || !mt_decisions_shard_state(&c->plan->decisions)) return false;
    if (!d->nodes && t->reduced == MT_REDUCED_NODE) return false;
    bool first = t->reduced == (t->gather == MT_GATHER_LAYER ? MT_REDUCED_MICRO_BATCH : MT_REDUCED_STEP);
    return has_body(d, &c->choice) || (first && own->gather != t->gather);
}

/* The same division with other times, judged. */
static enum mt_status try_times(struct mt_dividing *d, const struct mt_divided *c, const struct times *t) {
    int capacity = d->found->ncandidates;
    if (!may_have(d, c, t) || mt_now_s() > d->divide->end_s) return MT_OK;
    struct mt_divided *other = mt_divide_copy(d, c);
    other->choice.decisions.gather = t->gather;
    other->choice.decisions.reduced = t->reduced;
    if (is_known(d, other)) return MT_OK;
    add_candidate(d, other, &capacity);
    return judge(d, other);
}

/* The fastest of each strategy, the fastest first: at most `most`. Returns how many. */
static int list_fastest(const struct mt_divide_found *found, int most, const struct mt_divided **fastest) {
    int n = 0;
    while (n < most) {
        const struct mt_divided *next = NULL;
        for (int i = 0; i < found->ncandidates; i++) {
            const struct mt_divided *c = found->candidates[i];
            bool may = c->fits;
            for (int k = 0; k < n; k++) may &= c->strategy != fastest[k]->strategy;
            if (may && (!next || c->prediction.step_s < next->prediction.step_s)) next = c;
        }
        if (!next) break;
        fastest[n++] = next;
    }
    return n;
}

enum { MOST_IMPROVED = 2 };

/* Other times for the fastest few of different strategies. */
static enum mt_status improve_times(struct mt_dividing *d, int most) {
    const struct mt_divided *taken[MOST_IMPROVED];
    int ntaken = list_fastest(d->found, most, taken);
    enum mt_status st = MT_OK;
    for (int k = 0; k < ntaken; k++)
        for (int i = 0; i < NTIMES && !st; i++) st = try_times(d, taken[k], &times[i]);
    return st;
}

/* Whether all ranks are as fast and have as much memory: their first shares are as good as any. */
static bool are_equal(const struct mt_dividing *d) {
    const int64_t *memory = d->divide->memory_bytes;
    bool equal = true;
    for (int r = 1; r < d->nranks; r++) equal &= d->speed[r] == d->speed[0] && (!memory || memory[r] == memory[0]);
    return equal;
}

/* Other shares for what is best, as long as they help. */
static enum mt_status improve_shares(struct mt_dividing *d) {
    int capacity = d->found->ncandidates;
    for (int round = 0; round < 4 && d->found->best && !are_equal(d) && mt_now_s() < d->divide->end_s; round++) {
        struct mt_divided *best = d->found->best, *other;
        enum mt_status st = mt_divide_balance(d, best, &other);
        if (st) return st;
        if (!other) break;
        add_candidate(d, other, &capacity);
        double before_s = best->prediction.step_s;
        if ((st = judge(d, other))) return st;
        if (d->found->best == best || d->found->best->prediction.step_s > gain * before_s) break;
    }
    return MT_OK;
}

/* The fastest of each strategy with overlapped instructions, where it may become the best so. */
static enum mt_status overlap_fastest(struct mt_dividing *d) {
    const struct mt_divided *fastest[MT_NSTRATEGIES];
    int n = d->divide->overlap ? list_fastest(d->found, MT_NSTRATEGIES, fastest) : 0, capacity = d->found->ncandidates;
    for (int i = 0; i < n && mt_now_s() < d->divide->end_s; i++) {
        const struct mt_divided *c = fastest[i];
        double best_s = c->prediction.step_s;
        struct mt_divided *overlapped;
        if (!d->divide->compare) best_s = fmin(best_s, d->found->best->prediction.step_s);
        if (!d->divide->compare && d->divide->known_s > 0) best_s = fmin(best_s, d->divide->known_s);
        if (!mt_divide_may_overlap(d, c, best_s)) continue;
        enum mt_status st = mt_divide_overlap(d, c, &overlapped);
        if (st) return st;
        if (!overlapped) continue;
        add_candidate(d, overlapped, &capacity);
        take_if_best(d, overlapped);
    }
    return MT_OK;
}

/* The candidates, the cheapest first. */
static enum mt_status judge_all(struct mt_dividing *d) {
    struct mt_divide_found *found = d->found;
    int n = found->ncandidates;
    struct mt_divided **order = mt_arena_memdup(d->arena, found->candidates, (size_t)n * sizeof *order);
    qsort(order, (size_t)n, sizeof *order, by_price);
    for (int i = 0, judged = 0; i < n; i++) {
        /* What overlap makes of a candidate, its price does not say. */
        bool hopeless = !d->divide->overlap && mt_divide_is_hopeless(d, order[i]->priced_s);
        bool may_win = judged < MOST_JUDGED && !hopeless;
        if (!(may_win || d->divide->compare) || mt_now_s() > d->divide->end_s) continue;
        enum mt_status st = judge(d, order[i]);
        if (!st && (order[i]->too_large || (order[i]->judged && !order[i]->fits)))
            st = try_times(d, order[i], &times[LEAST_HELD]);
        if (st) return st;
        judged += order[i]->judged;
    }
    return MT_OK;
}

/* ---- few layers ---- */

enum { MOST_WITH_ALL = 4 };
static const double near = 1.03;  /* times the best judged step with all layers: judged so, too */
static const double far = 1.15;   /* times the step that is known: not judged with all layers */
static const double little = 0.1; /* of its memory: what a rank may lack with few layers to be judged with all */

/* What the rank lacks that lacks most, as a part of its memory; 0: it fits. */
static double lacks(const struct mt_dividing *d, const struct mt_divided *c) {
    double most = 0;
    for (int r = 0; r < d->nranks && d->divide->memory_bytes; r++)
        if (d->divide->memory_bytes[r])
            most = fmax(most,
                        (double)mt_rank_needs_bytes(&c->prediction.ranks[r]) / (double)d->divide->memory_bytes[r] - 1);
    return most;
}

/* The next to be judged with all layers: the fastest that fits; where none does, what lacks least, and little. */
static struct mt_divided *next_with_all(const struct mt_dividing *d, const struct mt_divide_found *few,
                                        const bool *done, bool fits) {
    struct mt_divided *next = NULL;
    for (int i = 0; i < few->ncandidates; i++) {
        struct mt_divided *c = few->candidates[i];
        if (done[i] || !c->judged || c->fits != fits || (!fits && lacks(d, c) > little)) continue;
        if (!next || (fits ? c->prediction.step_s < next->prediction.step_s : lacks(d, c) < lacks(d, next))) next = c;
    }
    return next;
}

/* Judge the best of those with few layers with all of them. */
static enum mt_status judge_with_all(struct mt_dividing *d, const struct mt_divide_found *few) {
    int capacity = d->found->ncandidates;
    bool *done = mt_new(d->arena, bool, few->ncandidates + 1);
    for (int judged = 0; judged < MOST_WITH_ALL;) {
        struct mt_divided *c = next_with_all(d, few, done, true);
        if (!c && !d->found->best) c = next_with_all(d, few, done, false);
        if (!c) break;
        if (c->fits && d->found->best && c->prediction.step_s > near * d->found->best->prediction.step_s) break;
        if (c->fits && d->divide->known_s > 0 && c->prediction.step_s > far * d->divide->known_s) break;
        if (d->found->best && mt_now_s() > d->divide->end_s) break;
        for (int i = 0; i < few->ncandidates; i++) done[i] |= few->candidates[i] == c;
        struct mt_divided *all = mt_divide_with_all(d, c);
        if (!all || is_known(d, all)) continue;
        add_candidate(d, all, &capacity);
        enum mt_status st = judge(d, all);
        if (st) return st;
        judged++;
    }
    return MT_OK;
}

/* Look for programs with some of the layers, then take over the best. */
static enum mt_status search_layers(struct mt_dividing *d) {
    struct mt_divide divide;
    struct mt_dividing some;
    d->found->few = mt_new(d->arena, struct mt_divide_found, 1);
    mt_divide_begin_layers(d, &divide, d->found->few, &some);
    enum mt_status st = solve_all(&some);
    if (!st) st = judge_all(&some);
    if (!st) st = improve_times(&some, MOST_IMPROVED);
    if (!st) st = overlap_fastest(&some);
    return st ? st : judge_with_all(d, d->found->few);
}

static enum mt_status search_all(struct mt_dividing *d) {
    enum mt_status st = solve_all(d);
    if (!st) st = judge_all(d);
    return st ? st : improve_times(d, 1);
}

enum mt_status mt_divide_search(const struct mt_divide *divide, struct mt_divide_found *found, struct mt_err *err) {
    *found = (struct mt_divide_found){.ncandidates = 0};
    struct mt_dividing d = {.divide = divide,
                            .found = found,
                            .arena = &found->arena,
                            .nranks = divide->costs->nranks,
                            .priced_more = 1,
                            .err = err};
    d.kind = mt_new(d.arena, enum mt_label_kind, divide->graph->nlabels);
    mt_label_kinds(divide->graph, d.kind);
    find_mesh(&d);
    find_speeds(&d);
    found->speed = d.speed;
    enum mt_status st = divide->layers ? search_layers(&d) : search_all(&d);
    if (!st) st = improve_shares(&d);
    const struct mt_divided *best = found->best;
    if (!st && !divide->layers) st = overlap_fastest(&d);
    return st || found->best == best ? st : improve_shares(&d);
}

void mt_divide_release(struct mt_divide_found *found) {
    if (found->few) mt_divide_release(found->few);
    for (int i = 0; i < found->ncandidates; i++) {
        if (found->candidates[i]->judged) mt_arena_release(&found->candidates[i]->prediction.arena);
        mt_plan_free(found->candidates[i]->plan);
    }
    mt_arena_release(&found->arena);
    *found = (struct mt_divide_found){.ncandidates = 0};
}
