/* Sections of a model. */
#include "launcher/show/sections.h"

#include <stdlib.h>
#include <string.h>

#include "synth/ops/ops.h"

static char *without_last(struct mt_sections *l, const char *path) {
    const char *dot = strrchr(path, '.');
    return dot ? mt_arena_printf(&l->arena, "%.*s", (int)(dot - path), path) : NULL;
}

/* The pattern of a path: its first component that is a number becomes "*", and that number is *layer. */
static const char *pattern_of(struct mt_sections *l, const char *path, int *layer) {
    *layer = -1;
    for (const char *at = path; at; at = strchr(at, '.')) {
        at += *at == '.';
        size_t digits = strspn(at, "0123456789");
        if (!digits || digits > 6 || (at[digits] && at[digits] != '.')) continue;
        *layer = atoi(at);
        return mt_arena_printf(&l->arena, "%.*s*%s", (int)(at - path), path, at + digits);
    }
    return path;
}

static int section_named(struct mt_sections *l, const char *path, bool add) {
    for (int s = 0; s < l->count; s++)
        if (!strcmp(l->items[s].path, path)) return s;
    if (!add) return -1;
    mt_arena_grow(&l->arena, &l->items, l->count, &l->capacity, sizeof *l->items);
    struct mt_section *section = &l->items[l->count];
    *section = (struct mt_section){.path = path, .kind = ""};
    section->pattern = pattern_of(l, path, &section->layer);
    return l->count++;
}

/* The section that an operator's name belongs to: the longest that is a beginning of it; or -1. */
static int section_of_op(struct mt_sections *l, const char *name) {
    char *path = mt_arena_printf(&l->arena, "%.*s", (int)strcspn(name, "/"), name);
    for (; path; path = without_last(l, path)) {
        int s = section_named(l, path, false);
        if (s >= 0) return s;
    }
    return -1;
}

bool mt_sections_is_module(const struct mt_sections *l, const char *name) {
    size_t length = strlen(name);
    for (int v = 0; v < l->graph->nvalues; v++)
        if (l->graph->values[v].param && !strncmp(l->graph->values[v].name, name, length) &&
            l->graph->values[v].name[length] == '.' && !strchr(l->graph->values[v].name + length + 1, '.'))
            return true;
    return false;
}

static void find_sections(struct mt_sections *l) {
    const struct mt_graph *g = l->graph;
    for (int v = 0; v < g->nvalues; v++) {
        if (!g->values[v].param) continue;
        char *module = without_last(l, g->values[v].name);
        char *path = module ? without_last(l, module) : NULL;
        l->of_value[v] = section_named(l, path ? path : module ? module : g->values[v].name, true);
    }
    for (int o = 0; o < g->nops; o++) {
        const struct mt_op *op = &g->ops[o];
        int s = section_of_op(l, op->name);
        if (s < 0 && op->role == MT_ROLE_FORWARD && !strchr(op->name, '.')) s = section_named(l, op->name, true);
        for (int k = 0; k < op->nout; k++)
            if (l->of_value[op->out[k]] < 0) l->of_value[op->out[k]] = s;
    }
    for (int v = 0; v < g->nvalues; v++) { /* a gradient belongs to its parameter, so does a cast; scalars to none */
        if (!g->values[v].naxes) l->of_value[v] = -1;
        int param = mt_graph_param_of(g, v);
        if (param >= 0) l->of_value[v] = l->of_value[param];
        if (g->values[v].param && g->values[v].gradient >= 0) l->of_value[g->values[v].gradient] = l->of_value[v];
    }
}

/* The most telling operator of a section gives it a name. */
static void name_kinds(struct mt_sections *l) {
    static const char *const words[] = {"", "norm", "mlp", "embedding", "head", "attention"};
    const struct mt_graph *g = l->graph;
    int *rank = mt_new(&l->arena, int, l->count);
    for (int o = 0; o < g->nops; o++) {
        const struct mt_op *op = &g->ops[o];
        int s = op->role == MT_ROLE_FORWARD ? l->of_value[op->out[0]] : -1, word = 0;
        const char *kind = mt_op_info[op->kind].name;
        if (s < 0) continue;
        if (!strncmp(kind, "attention", 9))
            word = 5;
        else if (op->out[0] == g->logits)
            word = 4;
        else if (!strncmp(kind, "embedding", 9))
            word = 3;
        else if (op->kind == MT_OP_matmul)
            word = 2;
        else if (!strncmp(kind, "norm", 4))
            word = 1;
        if (word > rank[s]) rank[s] = word;
    }
    for (int s = 0; s < l->count; s++) l->items[s].kind = words[rank[s]];
}

void mt_sections_find(const struct mt_graph *graph, struct mt_sections *sections) {
    *sections = (struct mt_sections){.graph = graph};
    sections->of_value = mt_new(&sections->arena, int, graph->nvalues);
    for (int v = 0; v < graph->nvalues; v++) sections->of_value[v] = -1;
    find_sections(sections);
    name_kinds(sections);
}

void mt_sections_release(struct mt_sections *sections) {
    mt_arena_release(&sections->arena);
}
