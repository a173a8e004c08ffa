/* First shares of all labels: in proportion to the ranks' speeds, as far as alignment allows. */
#include <math.h>
#include <string.h>

#include "planner/balance/split.h"
#include "planner/divide/internal.h"
#include "synth/ops/ops.h"

/* Of an axis: how many members, and which node's ranks. */
static enum mt_status divide_members(const struct mt_dividing *d, struct mt_split *split, int64_t extent, int64_t align,
                                     const double *weight, int first, int n) {
    return mt_split_proportional(extent, align, weight + first, n, split->sizes + first, d->err);
}

enum mt_status mt_divide_label(const struct mt_dividing *d, struct mt_split *split, int64_t align, const double *weight,
                               const struct mt_split *hosts) {
    int64_t extent = d->divide->graph->labels[split->label].extent;
    int members = split->axis == MT_AXIS_HOST ? d->nnodes : d->nranks;
    enum mt_status st = MT_OK;
    if (split->axis != MT_AXIS_DEVICE) {
        st = divide_members(d, split, extent, align, weight, 0, members);
        for (int i = 0; i < members && !st; i++) split->starts[i + 1] = split->starts[i] + split->sizes[i];
        return st;
    }
    for (int first = 0, end; first < d->nranks && !st; first = end) { /* ranks of a node follow each other */
        for (end = first; end < d->nranks && d->mesh.node[end] == d->mesh.node[first];) end++;
        if (hosts && hosts->label == split->label) extent = hosts->sizes[d->mesh.node[first]];
        st = divide_members(d, split, extent, align, weight, first, end - first);
        for (int r = first; r < end && !st; r++)
            split->starts[r] = r > first ? split->starts[r - 1] + split->sizes[r - 1] : 0;
    }
    return st;
}

static struct mt_split *add_split(struct mt_dividing *d, struct divide_splits *s, int at, const char *name, int label,
                                  enum mt_axis axis) {
    int n = axis == MT_AXIS_HOST ? d->nnodes : d->nranks;
    s->items[at] = (struct mt_split){.name = name,
                                     .label = label,
                                     .axis = axis,
                                     .sizes = mt_new(d->arena, int64_t, n),
                                     .starts = mt_new(d->arena, int64_t, n + 1)};
    return &s->items[at];
}

/* Whether some operator with samples can be divided by the label. */
static bool divides_work(const struct mt_graph *g, int label) {
    for (int o = 0; o < g->nops; o++) {
        const struct mt_op *op = &g->ops[o];
        bool samples = false, divides = false;
        for (int i = 0; i < op->nindices && op->role == MT_ROLE_FORWARD; i++) {
            samples |= op->index_label[i] == g->batch;
            divides |= op->index_label[i] == label && mt_op_index_role(op, i) != MT_INDEX_WHOLE;
        }
        if (samples && divides) return true;
    }
    return false;
}

/* Speeds of nodes, where samples are divided among them: of their ranks together. */
static void node_speeds(const struct mt_dividing *d, double *speed) {
    memset(speed, 0, (size_t)d->nnodes * sizeof *speed);
    for (int r = 0; r < d->nranks; r++) speed[d->mesh.node[r]] += d->speed[r];
}

/* Even shares of the labels by which parameters are sharded. */
static enum mt_status store_by(struct mt_dividing *d, struct divide_splits *s, int *n, enum mt_axis axis) {
    const struct mt_graph *g = d->divide->graph;
    int *labels = mt_new(d->arena, int, g->nlabels), nlabels = mt_sharding_labels(g, labels);
    double *even = mt_new(d->arena, double, d->nranks);
    enum mt_status st = MT_OK;
    for (int r = 0; r < d->nranks; r++) even[r] = 1;
    for (int i = 0; i < nlabels && !st; i++) {
        const char *label = g->labels[labels[i]].name; /* "storage:": what rows of parameters may leave out */
        const char *name = axis == MT_AXIS_HOST ? mt_arena_printf(d->arena, "state:%s", label)
                                                : mt_arena_printf(d->arena, "storage:%s", label);
        st = mt_divide_label(d, add_split(d, s, (*n)++, name, labels[i], axis), g->labels[labels[i]].align, even, NULL);
    }
    return st;
}

enum mt_status mt_divide_splits(struct mt_dividing *d, const struct mt_strategy *strategy, struct divide_splits *s) {
    const struct mt_graph *g = d->divide->graph;
    bool nodes = strategy->among == MT_AMONG_NODES && d->nodes;
    bool allowed[] = {[MT_LABEL_SAMPLES] = strategy->samples,
                      [MT_LABEL_POSITIONS] = strategy->positions,
                      [MT_LABEL_WIDTH] = strategy->widths};
    int n = 0, first;
    enum mt_axis within = nodes ? MT_AXIS_DEVICE : MT_AXIS_ALL;
    enum mt_status st = MT_OK;
    *s = (struct divide_splits){.items = mt_new(d->arena, struct mt_split, 3 * g->nlabels + 1)};
    if (nodes) {
        double *speed = mt_new(d->arena, double, d->nnodes);
        node_speeds(d, speed);
        st = mt_divide_label(d, add_split(d, s, n++, "batch", g->batch, MT_AXIS_HOST), g->labels[g->batch].align, speed,
                             NULL);
    }
    if (!nodes && !strategy->samples) /* nothing divides samples, but micro-batches are of such shares */
        st = mt_divide_label(d, add_split(d, s, n++, "batch", g->batch, MT_AXIS_ALL), g->labels[g->batch].align,
                             d->speed, NULL);
    first = n;
    for (int pass = 0; pass < 2 && !st; pass++) /* samples first */
        for (int l = 0; l < g->nlabels && !st; l++) {
            if ((l == g->batch) != (pass == 0) || !allowed[d->kind[l]] || !divides_work(g, l)) continue;
            const char *name = l != g->batch ? g->labels[l].name : nodes ? "samples" : "batch";
            st = mt_divide_label(d, add_split(d, s, n++, name, l, within), g->labels[l].align, d->speed,
                                 nodes ? &s->items[0] : NULL);
        }
    s->ncompute = n - first;
    /* Where state is replicated, its norms are computed from shares. */
    bool in_node = strategy->state == MT_STORE_NODE && d->nodes;
    if (!st) st = store_by(d, s, &n, in_node ? MT_AXIS_DEVICE : MT_AXIS_ALL);
    if (!st && nodes && strategy->state == MT_STORE_ANY) st = store_by(d, s, &n, MT_AXIS_HOST);
    s->nstorage = n - first - s->ncompute;
    s->compute = s->items + first;
    s->n = n;
    s->hosts = nodes ? &s->items[0] : NULL;
    return st;
}
