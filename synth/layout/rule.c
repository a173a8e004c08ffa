/* Layouts of operands by rule.
 *
 * Rules of one level over all ranks give R, S and P, which have constructors of their own. Of others, what each level
 * does to the operand is found first: it divides an axis, or terms, or nothing; layouts are noted by a hash of that.
 * Only if there is none, each rank's box and terms are made.
 *
 * The terms of a LINEAR level are not known. Its members divide an interval in a way of their own, which differs by
 * node, so that nodes form covers of their own; where the operand's parts are divided alike on several nodes, that is a
 * slice. */
#include "synth/layout/rule.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/hash.h"
#include "synth/ops/ops.h"

/* What a level does to an operand. */
struct effect {
    enum { NOTHING, AXIS, TERMS } kind;
    int which; /* axis, or term axis; LINEAR is term axis 0 */
    const struct mt_split *split;
};

struct operand {
    const struct mt_op *op;
    const struct mt_rule *rule;
    const struct mt_mesh *mesh;
    const int *index; /* of its axes */
    int naxes;
    const int64_t *extent;
    bool output;
    int input; /* or -1 */
    int nterms;
    int term_index[MT_MAX_TERMS]; /* the operator's index that is term axis t; -1: LINEAR */
    int64_t term_extent[MT_MAX_TERMS];
    enum mt_reduce reduce;
    bool mixed; /* sums and maxima, or too many terms */
};

/* The axis of an operand that carries the index, or -1. */
static int axis_of(const int *axis_index, int naxes, int index) {
    for (int a = 0; a < naxes; a++)
        if (axis_index[a] == index) return a;
    return -1;
}

static bool in_linear_set(const struct mt_op *op, const struct mt_rule *rule, int input) {
    unsigned sets[MT_MAX_IN];
    int nsets = mt_op_linear_sets(op, sets);
    assert(rule->set >= 0 && rule->set < nsets);
    (void)nsets;
    return sets[rule->set] >> input & 1;
}

/* ---- one level over all ranks ---- */

static bool is_flat(const struct mt_rule *rule) {
    return !rule->inner && (rule->kind != MT_RULE_SPLIT || rule->split->axis == MT_AXIS_ALL);
}

static enum mt_reduce reduce_of(const struct mt_op *op, int index) {
    enum mt_index_role role = mt_op_index_role(op, index);
    assert(role == MT_INDEX_SUM || role == MT_INDEX_MAX);
    return role == MT_INDEX_MAX ? MT_MAX : MT_SUM;
}

static int flat_layout(struct mt_layouts *table, const struct operand *o) {
    const struct mt_rule *rule = o->rule;
    if (rule->kind == MT_RULE_SPLIT) {
        int axis = axis_of(o->index, o->naxes, rule->index);
        if (axis >= 0) return mt_layout_split(table, o->naxes, o->extent, axis, rule->split);
        if (o->output) return mt_layout_partial(table, o->naxes, o->extent, reduce_of(o->op, rule->index));
    }
    if (rule->kind == MT_RULE_LINEAR && (o->output || in_linear_set(o->op, rule, o->input)))
        return mt_layout_partial(table, o->naxes, o->extent, MT_SUM);
    return mt_layout_replicated(table, o->naxes, o->extent);
}

/* ---- levels ---- */

/* The level of the nodes, and that within a node; null: it replicates. */
static const struct mt_rule *node_level(const struct mt_rule *rule) {
    bool device = !rule->inner && rule->kind == MT_RULE_SPLIT && rule->split->axis == MT_AXIS_DEVICE;
    return device ? NULL : rule;
}

static const struct mt_rule *device_level(const struct mt_rule *rule, int node) {
    if (rule->inner) return &rule->inner[node];
    return node_level(rule) ? NULL : rule;
}

static int term_axis(struct operand *o, int index, enum mt_reduce reduce) {
    if (o->reduce != MT_REDUCE_NONE && o->reduce != reduce) o->mixed = true;
    o->reduce = reduce;
    for (int t = 0; t < o->nterms; t++)
        if (o->term_index[t] == index) return t;
    if (o->nterms == MT_MAX_TERMS) {
        o->mixed = true;
        return 0;
    }
    o->term_index[o->nterms] = index;
    return o->nterms++;
}

static struct effect effect_of(struct operand *o, const struct mt_rule *level) {
    if (!level || level->kind == MT_RULE_REPLICATE) return (struct effect){.kind = NOTHING};
    if (level->kind == MT_RULE_LINEAR) {
        if (!o->output && !in_linear_set(o->op, level, o->input)) return (struct effect){.kind = NOTHING};
        return (struct effect){.kind = TERMS, .which = term_axis(o, -1, MT_SUM)};
    }
    int axis = axis_of(o->index, o->naxes, level->index);
    if (axis >= 0) return (struct effect){.kind = AXIS, .which = axis, .split = level->split};
    if (!o->output) return (struct effect){.kind = NOTHING};
    return (struct effect){
        .kind = TERMS, .which = term_axis(o, level->index, reduce_of(o->op, level->index)), .split = level->split};
}

/* A rank's place in its node, and how many ranks each node has. */
struct places {
    int *local, *count, most;
    int *order; /* the ranks, node by node */
};

static void find_places(const struct mt_mesh *mesh, struct places *p, struct mt_arena *arena) {
    p->local = mt_new(arena, int, mesh->nranks);
    p->count = mt_new(arena, int, mesh->nnodes + 1);
    p->order = mt_new(arena, int, mesh->nranks);
    int *next = mt_new(arena, int, mesh->nnodes);
    for (int r = 0; r < mesh->nranks; r++) {
        p->local[r] = p->count[mesh->node[r]]++;
        if (p->count[mesh->node[r]] > p->most) p->most = p->count[mesh->node[r]];
    }
    for (int k = 1; k < mesh->nnodes; k++) next[k] = next[k - 1] + p->count[k - 1];
    for (int r = 0; r < mesh->nranks; r++) p->order[next[mesh->node[r]]++] = r;
}

/* ---- what a rank has ---- */

static struct mt_range node_share(const struct mt_split *split, int node) {
    return (struct mt_range){split->starts[node], split->starts[node + 1]};
}

/* The share of a rank in what its node has. */
static struct mt_range device_share(const struct mt_split *split, int rank, struct mt_range of) {
    int64_t lo = of.lo + split->starts[rank];
    return (struct mt_range){lo, lo + split->sizes[rank]};
}

/* Member m of a LINEAR level of node `node`: node's own way to divide the interval. */
static struct mt_range linear_share(const struct mt_mesh *mesh, int node, int m, int count, struct mt_range of) {
    int64_t unit = mesh->nnodes + 1;
    struct mt_range share = {m ? of.lo + m * unit + node : of.lo, of.lo + (m + 1) * unit + node};
    if (m == count - 1) share.hi = of.hi;
    return share;
}

static struct mt_range *place_of(struct mt_range *axes, struct mt_range *terms, struct effect e) {
    return e.kind == AXIS ? &axes[e.which] : &terms[e.which];
}

/* A rank without terms is told apart by its places in the levels that divide them. */
static void mark_empty(struct operand *o, struct mt_range *terms, struct effect outer, struct effect inner, int node,
                       int local) {
    bool empty = false;
    for (int t = 0; t < o->nterms; t++) empty |= terms[t].hi <= terms[t].lo;
    int64_t place = (outer.kind == TERMS ? node + 1 : 0) * (int64_t)(o->mesh->nranks + 1);
    if (inner.kind == TERMS) place += local + 1;
    for (int t = 0; t < o->nterms && empty; t++) terms[t] = (struct mt_range){place, place};
}

static void divide_rank(struct operand *o, const struct places *p, struct effect outer, struct effect inner, int rank,
                        struct mt_box *box, struct mt_terms *term) {
    struct mt_range axes[MT_MAX_AXES], terms[MT_MAX_TERMS];
    int node = o->mesh->node[rank], local = p->local[rank];
    for (int a = 0; a < o->naxes; a++) axes[a] = (struct mt_range){0, o->extent[a]};
    for (int t = 0; t < o->nterms; t++) terms[t] = (struct mt_range){0, o->term_extent[t]};
    if (outer.kind != NOTHING) {
        struct mt_range *mine = place_of(axes, terms, outer);
        int64_t wide = outer.split ? 0 : mine->hi / o->mesh->nnodes;
        *mine = outer.split ? node_share(outer.split, node) : (struct mt_range){node * wide, (node + 1) * wide};
    }
    if (inner.kind != NOTHING) {
        struct mt_range *mine = place_of(axes, terms, inner);
        *mine = inner.split ? device_share(inner.split, rank, *mine)
                            : linear_share(o->mesh, node, local, p->count[node], *mine);
    }
    mark_empty(o, terms, outer, inner, node, local);
    *box = (struct mt_box){{0}, {0}};
    *term = (struct mt_terms){{0}, {0}};
    for (int a = 0; a < o->naxes; a++) box->lo[a] = axes[a].lo, box->hi[a] = axes[a].hi;
    for (int t = 0; t < o->nterms; t++) term->lo[t] = terms[t].lo, term->hi[t] = terms[t].hi;
}

/* ---- trees ---- */

/* The extent of an index that is a term axis: where a level splits it, what its splits sum to. */
static int64_t split_extent(const struct operand *o, int index) {
    const struct mt_rule *outer = node_level(o->rule);
    if (outer && outer->kind == MT_RULE_SPLIT && outer->index == index) return outer->split->starts[o->mesh->nnodes];
    for (int k = 0; k < o->mesh->nnodes; k++) {
        const struct mt_rule *inner = device_level(o->rule, k);
        int64_t sum = 0;
        if (!inner || inner->kind != MT_RULE_SPLIT || inner->index != index) continue;
        for (int r = 0; r < o->mesh->nranks; r++)
            if (o->mesh->node[r] == k) sum += inner->split->sizes[r];
        return sum;
    }
    return 0;
}

static uint64_t hash_split(const struct effect *e, int count, uint64_t hash) {
    if (!e->split) return hash;
    return mt_hash64(e->split->sizes, (size_t)count * sizeof *e->split->sizes, hash);
}

/* All that the layout is made from: what the levels do, by which splits. */
static uint64_t hash_of(const struct operand *o, struct effect outer, const struct effect *inner) {
    const struct mt_mesh *mesh = o->mesh;
    int head[] = {-2, o->naxes, o->nterms, (int)o->reduce, (int)outer.kind, outer.which};
    uint64_t hash = mt_hash64(head, sizeof head, 0);
    hash = mt_hash64(o->extent, (size_t)o->naxes * sizeof *o->extent, hash);
    hash = mt_hash64(o->term_extent, (size_t)o->nterms * sizeof *o->term_extent, hash);
    hash = hash_split(&outer, mesh->nnodes, hash);
    for (int k = 0; k < mesh->nnodes; k++) {
        int what[] = {(int)inner[k].kind, inner[k].which};
        bool repeats = k > 0 && inner[k].split == inner[k - 1].split;
        hash = mt_hash64(what, sizeof what, hash);
        if (!repeats) hash = hash_split(&inner[k], mesh->nranks, hash);
    }
    return hash;
}

static int make_layout(struct mt_layouts *table, struct operand *o, struct effect outer, const struct effect *inner) {
    struct mt_arena arena = MT_ARENA_INIT;
    int n = o->mesh->nranks;
    struct mt_box *box = mt_new(&arena, struct mt_box, n);
    struct mt_terms *term = mt_new(&arena, struct mt_terms, n);
    struct places places = {0};
    find_places(o->mesh, &places, &arena);
    for (int r = 0; r < n; r++) divide_rank(o, &places, outer, inner[o->mesh->node[r]], r, &box[r], &term[r]);
    struct mt_division division = {
        .box = box, .term = term, .nterms = o->nterms, .reduce = o->reduce, .order = places.order};
    memcpy(division.term_extent, o->term_extent, sizeof division.term_extent);
    int layout = mt_layout_of(table, o->naxes, o->extent, &division);
    mt_arena_release(&arena);
    return layout;
}

static int most_in_node(const struct mt_mesh *mesh) {
    int *count = mt_calloc((size_t)mesh->nnodes, sizeof *count), most = 0;
    for (int r = 0; r < mesh->nranks; r++)
        if (++count[mesh->node[r]] > most) most = count[mesh->node[r]];
    free(count);
    return most;
}

static int tree_layout(struct mt_layouts *table, struct operand *o) {
    assert(o->mesh && o->mesh->nranks == table->nranks);
    int nnodes = o->mesh->nnodes, layout = -1;
    struct effect *inner = mt_calloc((size_t)nnodes, sizeof *inner), outer = effect_of(o, node_level(o->rule));
    for (int k = 0; k < nnodes; k++) inner[k] = effect_of(o, device_level(o->rule, k));
    for (int t = 0; t < o->nterms; t++)
        o->term_extent[t] = o->term_index[t] >= 0 ? split_extent(o, o->term_index[t])
                                                  : (int64_t)most_in_node(o->mesh) * (nnodes + 1) * nnodes;
    if (!o->mixed) {
        int *noted = mt_layout_noted(table, hash_of(o, outer, inner));
        if (!*noted) *noted = make_layout(table, o, outer, inner) + 1;
        layout = *noted - 1;
    }
    free(inner);
    return layout;
}

int mt_rule_input(struct mt_layouts *table, const struct mt_graph *graph, const struct mt_op *op,
                  const struct mt_rule *rule, const struct mt_mesh *mesh, int input, const int64_t *extent) {
    struct operand o = {.op = op,
                        .rule = rule,
                        .mesh = mesh,
                        .index = op->in_index[input],
                        .naxes = graph->values[op->in[input]].naxes,
                        .extent = extent,
                        .input = input};
    return is_flat(rule) ? flat_layout(table, &o) : tree_layout(table, &o);
}

int mt_rule_output(struct mt_layouts *table, const struct mt_graph *graph, const struct mt_op *op,
                   const struct mt_rule *rule, const struct mt_mesh *mesh, int output, const int64_t *extent) {
    struct operand o = {.op = op,
                        .rule = rule,
                        .mesh = mesh,
                        .index = op->out_index[output],
                        .naxes = graph->values[op->out[output]].naxes,
                        .extent = extent,
                        .output = true,
                        .input = -1};
    return is_flat(rule) ? flat_layout(table, &o) : tree_layout(table, &o);
}

void mt_rule_ranges(const struct mt_op *op, const struct mt_rule *rule, const struct mt_mesh *mesh, int rank,
                    const int64_t *extent, struct mt_range *range) {
    for (int i = 0; i < op->nindices; i++) range[i] = (struct mt_range){0, extent[i]};
    if (is_flat(rule)) {
        if (rule->kind == MT_RULE_SPLIT) range[rule->index] = node_share(rule->split, rank);
        return;
    }
    const struct mt_rule *outer = node_level(rule), *inner = device_level(rule, mesh->node[rank]);
    if (outer && outer->kind == MT_RULE_SPLIT) range[outer->index] = node_share(outer->split, mesh->node[rank]);
    if (inner && inner->kind == MT_RULE_SPLIT)
        range[inner->index] = device_share(inner->split, rank, range[inner->index]);
}
