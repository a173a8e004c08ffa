/* Labels, values and operators of a training graph: vectors in one arena, and names found by hash. */
#include "synth/graph/graph.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/hash.h"

struct mt_graph *mt_graph_new(enum mt_type activation_type) {
    struct mt_graph *graph = mt_calloc(1, sizeof *graph);
    graph->batch = graph->loss_sum = graph->token_count = -1;
    graph->logits = graph->sq_norm = graph->scale = -1;
    graph->loss_scale = graph->good_steps = graph->skipped_steps = -1;
    graph->forward = -1;
    graph->type = activation_type;
    graph->acc = mt_type_acc(activation_type);
    return graph;
}

void mt_graph_free(struct mt_graph *graph) {
    if (!graph) return;
    mt_arena_release(&graph->arena);
    free(graph);
}

/* The slot of `name`, or the empty one for it; the table is never full. */
static struct mt_name *names_slot(const struct mt_names *names, const char *name) {
    uint64_t at = mt_hash64(name, strlen(name), 0);
    for (;; at++) {
        struct mt_name *slot = &names->slots[at & (uint64_t)(names->capacity - 1)];
        if (!slot->name || !strcmp(slot->name, name)) return slot;
    }
}

static int names_find(const struct mt_names *names, const char *name) {
    if (!names->capacity) return -1;
    const struct mt_name *slot = names_slot(names, name);
    return slot->name ? slot->id : -1;
}

static void names_add(struct mt_arena *arena, struct mt_names *names, const char *name, int id) {
    if (2 * names->count >= names->capacity) {
        struct mt_names grown = {.capacity = names->capacity ? 2 * names->capacity : 64, .count = names->count};
        grown.slots = mt_new(arena, struct mt_name, grown.capacity);
        for (int i = 0; i < names->capacity; i++)
            if (names->slots[i].name) *names_slot(&grown, names->slots[i].name) = names->slots[i];
        *names = grown;
    }
    *names_slot(names, name) = (struct mt_name){name, id, 1};
    names->count++;
}

/* A copy of the first of "name", "name.2", "name.3", ... that is not taken. */
static const char *names_unique(struct mt_arena *arena, const struct mt_names *names, const char *name) {
    if (names_find(names, name) < 0) return mt_arena_strdup(arena, name);
    struct mt_name *first = names_slot(names, name);
    for (;;) {
        const char *tried = mt_arena_printf(arena, "%s.%d", name, ++first->copies);
        if (names_find(names, tried) < 0) return tried;
    }
}

int mt_graph_find_label(const struct mt_graph *graph, const char *name) {
    for (int l = 0; l < graph->nlabels; l++)
        if (!strcmp(graph->labels[l].name, name)) return l;
    return -1;
}

int mt_graph_find_value(const struct mt_graph *graph, const char *name) {
    return names_find(&graph->value_names, name);
}

enum mt_status mt_graph_label(struct mt_graph *graph, const char *name, int64_t extent, int64_t align, int *label,
                              struct mt_err *err) {
    assert(align > 0);
    if (extent < 0) return mt_fail(err, MT_EINPUT, "label %s: its extent %lld is negative", name, (long long)extent);
    int found = mt_graph_find_label(graph, name);
    if (found >= 0 && graph->labels[found].extent != extent)
        return mt_fail(err, MT_EINPUT, "label %s: its extent is %lld in one place and %lld in another", name,
                       (long long)graph->labels[found].extent, (long long)extent);
    if (found < 0) {
        mt_arena_grow(&graph->arena, &graph->labels, graph->nlabels, &graph->labels_capacity, sizeof *graph->labels);
        found = graph->nlabels++;
        graph->labels[found] = (struct mt_label){mt_arena_strdup(&graph->arena, name), extent, align};
    }
    *label = found;
    return MT_OK;
}

enum mt_status mt_graph_labels(struct mt_graph *graph, const struct mt_label *labels, size_t nlabels,
                               struct mt_err *err) {
    for (size_t l = 0; l < nlabels; l++) {
        int id;
        enum mt_status st = mt_graph_label(graph, labels[l].name, labels[l].extent, labels[l].align, &id, err);
        if (st) return st;
    }
    graph->batch = mt_graph_find_label(graph, "batch");
    return MT_OK;
}

int mt_graph_value(struct mt_graph *graph, const char *name, enum mt_value_kind kind, enum mt_type type, int naxes,
                   const int *labels) {
    assert(naxes <= MT_MAX_AXES);
    mt_arena_grow(&graph->arena, &graph->values, graph->nvalues, &graph->values_capacity, sizeof *graph->values);
    int id = graph->nvalues++;
    struct mt_value *v = &graph->values[id];
    *v = (struct mt_value){.kind = kind, .type = type, .naxes = naxes, .ndims = naxes};
    v->producer = v->owner = v->next = v->gradient = -1;
    for (int a = 0; a < naxes; a++) {
        assert(labels[a] >= 0 && labels[a] < graph->nlabels);
        v->label[a] = labels[a];
        v->group_end[a] = a + 1;
    }
    v->name = names_unique(&graph->arena, &graph->value_names, name);
    names_add(&graph->arena, &graph->value_names, v->name, id);
    return id;
}

int mt_graph_param_of(const struct mt_graph *graph, int value) {
    const struct mt_value *v = &graph->values[value];
    if (v->producer >= 0 && graph->ops[v->producer].kind == MT_OP_cast) {
        value = graph->ops[v->producer].in[0];
        v = &graph->values[value];
    }
    return v->param ? value : -1;
}

int64_t mt_value_count(const struct mt_graph *graph, int value) {
    int64_t n = 1;
    for (int a = 0; a < graph->values[value].naxes; a++) n *= mt_value_extent(graph, value, a);
    return n;
}

int64_t mt_graph_parameters(const struct mt_graph *graph) {
    int64_t n = 0;
    for (int v = 0; v < graph->nvalues; v++)
        if (graph->values[v].param) n += mt_value_count(graph, v);
    return n;
}

/* Operand `value` has the type of its letter in ops.def, and the labels of its indices. */
static void assert_operand(const struct mt_graph *graph, const struct mt_op *op, int value, char letter,
                           const int *index) {
    assert(value >= 0 && value < graph->nvalues);
    const struct mt_value *v = &graph->values[value];
    switch (letter) {
    case 'T': assert(v->type == graph->type); break;
    case 'A': assert(v->type == graph->acc); break;
    case 'I': assert(v->type == MT_I32); break;
    case 'S': assert(v->type == graph->values[op->in[0]].type); break;
    default: assert(letter == '*'); break;
    }
    for (int a = 0; a < MT_MAX_AXES; a++) {
        assert(a < v->naxes ? index[a] >= 0 && index[a] < op->nindices : index[a] == -1);
        assert(a >= v->naxes || v->label[a] == op->index_label[index[a]]);
    }
    (void)v, (void)letter, (void)index, (void)op; /* without asserts */
}

void mt_graph_reorder(struct mt_graph *graph, int first, const int *order, int count) {
    struct mt_op *moved = mt_malloc((size_t)count * sizeof *moved);
    for (int i = 0; i < count; i++) moved[i] = graph->ops[order[i]];
    for (int i = 0; i < count; i++) {
        graph->ops[first + i] = moved[i];
        for (int o = 0; o < moved[i].nout; o++) graph->values[moved[i].out[o]].producer = first + i;
    }
    free(moved);
}

int mt_graph_op(struct mt_graph *graph, const char *name, const struct mt_op *op) {
    const struct mt_op_info *info = &mt_op_info[op->kind];
    assert(!info->fused && op->nin >= info->min_in && op->nin <= info->max_in);
    assert(op->nout == mt_op_nout(op->kind, &op->attr));
    for (int i = 0; i < op->nin; i++) assert_operand(graph, op, op->in[i], info->in_types[i], op->in_index[i]);
    mt_arena_grow(&graph->arena, &graph->ops, graph->nops, &graph->ops_capacity, sizeof *graph->ops);
    int id = graph->nops++;
    for (int o = 0; o < op->nout; o++) {
        assert_operand(graph, op, op->out[o], info->out_types[o], op->out_index[o]);
        assert(graph->values[op->out[o]].producer < 0 && graph->values[op->out[o]].kind == MT_VALUE_TEMP);
        graph->values[op->out[o]].producer = id;
    }
    struct mt_op *added = &graph->ops[id];
    *added = *op;
    added->role = graph->role;
    added->forward = graph->forward;
    added->name = names_unique(&graph->arena, &graph->op_names, name);
    names_add(&graph->arena, &graph->op_names, added->name, id);
    return id;
}
