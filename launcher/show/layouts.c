/* How a plan's program divides a model, by kind of layer, on one screen.
 *
 *   module    what the parameters "h.0.mlp.c_fc.weight" and ".bias" belong to: "h.0.mlp.c_fc"
 *   section   modules side by side, and the operators among them: "h.0.mlp"
 *   layer     a section whose name has a number. Layers whose sections read the same are printed once: "h.0-11.mlp"
 *
 * A box is the axes of a value by label: [embed | ffn/4]. "/4": divided over four (of the parts of a node over its
 * devices "/4 device", of nodes "/2 host"); "~": by unequal shares; "sum/2": each rank has one of two terms. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/printed.h"
#include "kernels/base/text/ranks.h"
#include "kernels/base/text/table.h"
#include "kernels/base/text/units.h"
#include "launcher/show/show.h"
#include "planner/plan/planned.h"

struct section {
    const char *pattern; /* "h.*.mlp" */
    const char *path;    /* "h.0.mlp" */
    int layer;           /* -1: has no number */
    const char *kind;
    const char *text; /* what is printed of it */
    bool printed;
};

struct layouts {
    const struct mt_program *program;
    const struct mt_graph *graph;
    struct mt_arena arena;
    int nnodes;
    int *place, *first_of_node, *first_at_place; /* with several nodes: [nranks], [nnodes], [places]: ranks */
    struct section *sections;
    int nsections, capacity;
    int *section_of; /* [gvalues]; -1: of none */
    int *stored, *used,
        *made; /* [gvalues of parameters]: program values; made: the gradient as the backward pass makes it */
};

/* ---- names ---- */

static char *without_last(struct layouts *l, const char *path) {
    const char *dot = strrchr(path, '.');
    return dot ? mt_arena_printf(&l->arena, "%.*s", (int)(dot - path), path) : NULL;
}

/* The pattern of a path: its first component that is a number becomes "*", and that number is *layer. */
static const char *pattern_of(struct layouts *l, const char *path, int *layer) {
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

static int section_named(struct layouts *l, const char *path, bool add) {
    for (int s = 0; s < l->nsections; s++)
        if (!strcmp(l->sections[s].path, path)) return s;
    if (!add) return -1;
    mt_arena_grow(&l->arena, &l->sections, l->nsections, &l->capacity, sizeof *l->sections);
    struct section *section = &l->sections[l->nsections];
    *section = (struct section){.path = path, .kind = "", .text = ""};
    section->pattern = pattern_of(l, path, &section->layer);
    return l->nsections++;
}

/* The section that an operator's name belongs to: the longest that is a beginning of it; or -1. */
static int section_of_op(struct layouts *l, const char *name) {
    char *path = mt_arena_printf(&l->arena, "%.*s", (int)strcspn(name, "/"), name);
    for (; path; path = without_last(l, path)) {
        int s = section_named(l, path, false);
        if (s >= 0) return s;
    }
    return -1;
}

static bool is_module(struct layouts *l, const char *name) {
    size_t length = strlen(name);
    for (int v = 0; v < l->graph->nvalues; v++)
        if (l->graph->values[v].param && !strncmp(l->graph->values[v].name, name, length) &&
            l->graph->values[v].name[length] == '.' && !strchr(l->graph->values[v].name + length + 1, '.'))
            return true;
    return false;
}

/* ---- boxes ---- */

/* How numbers of ranks are spread: over all, over hosts, or over the devices of each host alike. */
static const char *spread_over(const struct layouts *l, const int64_t *of) {
    bool by_host = true, by_device = true;
    for (int r = 0; r < l->program->nranks && l->nnodes > 1; r++) {
        by_host &= of[r] == of[l->first_of_node[l->program->node[r]]];
        by_device &= of[r] == of[l->first_at_place[l->place[r]]];
    }
    return l->nnodes < 2 ? "" : by_host ? " host" : by_device ? " device" : "";
}

static int compare(const void *left, const void *right) {
    const int64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* How many different numbers from 0 up there are. */
static int distinct(struct layouts *l, const int64_t *of) {
    int n = l->program->nranks, count = 0;
    int64_t *sorted = mt_arena_memdup(&l->arena, of, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare);
    for (int r = 0; r < n; r++) count += sorted[r] >= 0 && (!r || sorted[r] != sorted[r - 1]);
    return count;
}

/* The place of each rank among those of its node. */
static void find_places(struct layouts *l) {
    const struct mt_program *p = l->program;
    for (int r = 0; r < p->nranks && p->node; r++)
        if (p->node[r] >= l->nnodes) l->nnodes = p->node[r] + 1;
    if (l->nnodes < 2) return;
    int *count = mt_new(&l->arena, int, l->nnodes);
    l->place = mt_new(&l->arena, int, p->nranks);
    l->first_of_node = mt_new(&l->arena, int, l->nnodes);
    l->first_at_place = mt_new(&l->arena, int, p->nranks);
    for (int r = p->nranks - 1; r >= 0; r--) l->first_of_node[p->node[r]] = r;
    for (int r = 0; r < p->nranks; r++) l->place[r] = count[p->node[r]]++;
    for (int r = p->nranks - 1; r >= 0; r--) l->first_at_place[l->place[r]] = r;
}

/* "ffn/4", "batch/2~ host". */
static char *axis_text(struct layouts *l, const struct mt_layout *layout, int gvalue, int axis) {
    int n = l->program->nranks, parts;
    int64_t *lo = mt_new(&l->arena, int64_t, n), least = INT64_MAX, most = 0;
    for (int r = 0; r < n; r++) {
        const struct mt_box *box = &layout->box[r];
        int64_t size = box->hi[axis] - box->lo[axis];
        lo[r] = mt_box_count(box, layout->naxes) ? box->lo[axis] : -1;
        if (lo[r] < 0) continue;
        if (size < least) least = size;
        if (size > most) most = size;
    }
    const char *name = l->graph->labels[l->graph->values[gvalue].label[axis]].name;
    if ((parts = distinct(l, lo)) < 2) return mt_arena_strdup(&l->arena, name);
    return mt_arena_printf(&l->arena, "%s/%d%s%s", name, parts, most > least + 1 ? "~" : "", spread_over(l, lo));
}

static char *box_text(struct layouts *l, int pvalue) {
    if (pvalue < 0) return mt_arena_strdup(&l->arena, "-");
    const struct mt_layout *layout = mt_pvalue_layout(l->program, pvalue);
    int gvalue = l->program->values[pvalue].gvalue, n = l->program->nranks, most = 1;
    char *text = mt_arena_strdup(&l->arena, "[");
    for (int a = 0; a < layout->naxes; a++)
        text = mt_arena_printf(&l->arena, "%s%s%s", text, a ? " | " : "", axis_text(l, layout, gvalue, a));
    text = mt_arena_printf(&l->arena, "%s]", text);
    for (int c = 0; c < layout->ncovers; c++)
        if (layout->cover_parts[c] > most) most = layout->cover_parts[c];
    if (most < 2) return text;
    int64_t *part = mt_new(&l->arena, int64_t, n);
    for (int r = 0; r < n; r++) part[r] = layout->part[r];
    return mt_arena_printf(&l->arena, "%s %s/%d%s", text, layout->reduce == MT_MAX ? "max" : "sum", most,
                           spread_over(l, part));
}

/* ---- what there is ---- */

static void find_sections(struct layouts *l) {
    const struct mt_graph *g = l->graph;
    for (int v = 0; v < g->nvalues; v++) {
        if (!g->values[v].param) continue;
        char *module = without_last(l, g->values[v].name);
        char *path = module ? without_last(l, module) : NULL;
        l->section_of[v] = section_named(l, path ? path : module ? module : g->values[v].name, true);
    }
    for (int o = 0; o < g->nops; o++) {
        const struct mt_op *op = &g->ops[o];
        int s = section_of_op(l, op->name);
        if (s < 0 && op->role == MT_ROLE_FORWARD && !strchr(op->name, '.')) s = section_named(l, op->name, true);
        for (int k = 0; k < op->nout; k++)
            if (l->section_of[op->out[k]] < 0) l->section_of[op->out[k]] = s;
    }
    for (int v = 0; v < g->nvalues; v++) { /* a gradient belongs to its parameter, so does a cast; scalars to none */
        if (!g->values[v].naxes) l->section_of[v] = -1;
        int param = mt_graph_param_of(g, v);
        if (param >= 0) l->section_of[v] = l->section_of[param];
        if (g->values[v].param && g->values[v].gradient >= 0) l->section_of[g->values[v].gradient] = l->section_of[v];
    }
}

static void find_values(struct layouts *l) {
    const struct mt_program *p = l->program;
    const struct mt_graph *g = l->graph;
    for (int v = 0; v < p->nvalues; v++)
        if (p->values[v].input) l->stored[p->values[v].gvalue] = v;
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < p->blocks[b].ninstrs; i++) {
            const struct mt_instr *instr = &p->blocks[b].instrs[i];
            if (instr->kind != MT_INSTR_OP) continue;
            bool forward = g->ops[instr->gop].role == MT_ROLE_FORWARD;
            for (int k = 0; k < instr->nin && forward; k++) {
                int param = mt_graph_param_of(g, p->values[instr->in[k]].gvalue);
                if (param >= 0 && p->values[instr->out[0]].gvalue != p->values[instr->in[k]].gvalue &&
                    mt_graph_param_of(g, p->values[instr->out[0]].gvalue) < 0)
                    l->used[param] = instr->in[k];
            }
            for (int k = 0; k < instr->nout; k++) l->made[p->values[instr->out[k]].gvalue] = instr->out[k];
        }
}

/* The most telling operator of a section gives it a name. */
static void name_kinds(struct layouts *l) {
    static const char *const words[] = {"", "norm", "mlp", "embedding", "head", "attention"};
    const struct mt_graph *g = l->graph;
    int *rank = mt_new(&l->arena, int, l->nsections);
    for (int o = 0; o < g->nops; o++) {
        const struct mt_op *op = &g->ops[o];
        int s = op->role == MT_ROLE_FORWARD ? l->section_of[op->out[0]] : -1, word = 0;
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
    for (int s = 0; s < l->nsections; s++) l->sections[s].kind = words[rank[s]];
}

/* ---- one section ---- */

/* "c_fc.weight" of "h.0.mlp"; "mlp" of itself. */
static const char *short_name(const struct section *section, const char *name) {
    size_t length = strlen(section->path);
    const char *dot = strrchr(name, '.');
    if (!strcmp(name, section->path)) return dot ? dot + 1 : name;
    return !strncmp(name, section->path, length) && name[length] == '.' ? name + length + 1 : name;
}

static void add_weights(struct layouts *l, int s, struct mt_table *table) {
    const struct mt_graph *g = l->graph;
    for (int v = 0; v < g->nvalues; v++) {
        if (!g->values[v].param || l->section_of[v] != s) continue;
        mt_table_row(table);
        mt_table_cell(table, "%s", short_name(&l->sections[s], g->values[v].name));
        mt_table_cell(table, "%s", box_text(l, l->stored[v]));
        mt_table_cell(table, "%s", box_text(l, l->used[v] >= 0 ? l->used[v] : l->stored[v]));
        mt_table_cell(table, "%s", box_text(l, g->values[v].gradient >= 0 ? l->made[g->values[v].gradient] : -1));
    }
}

/* Results that have another shape than the first input, or are attention's or those of a module; of samples and of a
 * parameter's label. */
static bool is_told(struct layouts *l, const struct mt_op *op) {
    const struct mt_graph *g = l->graph;
    const struct mt_value *out = &g->values[op->out[0]], *in = op->nin ? &g->values[op->in[0]] : NULL;
    bool samples = false, wide = false;
    for (int a = 0; a < out->naxes; a++) {
        samples |= out->label[a] == g->batch;
        for (int v = 0; v < g->nvalues && !wide; v++)
            for (int b = 0; b < g->values[v].naxes && g->values[v].param; b++)
                wide |= g->values[v].label[b] == out->label[a];
    }
    if (op->role != MT_ROLE_FORWARD || !samples || !wide) return false;
    if (op->kind == MT_OP_separate || op->kind == MT_OP_join) return false; /* parts of what is told already */
    bool same = in && in->naxes == out->naxes && !memcmp(in->label, out->label, (size_t)in->naxes * sizeof *in->label);
    return !same || mt_op_is_attention(op->kind) || is_module(l, op->name);
}

static void add_activations(struct layouts *l, int s, struct mt_table *table) {
    const struct mt_graph *g = l->graph;
    for (int o = 0; o < g->nops; o++) {
        const struct mt_op *op = &g->ops[o];
        if (l->section_of[op->out[0]] != s || l->made[op->out[0]] < 0 || !is_told(l, op)) continue;
        mt_table_row(table);
        mt_table_cell(table, "%s", short_name(&l->sections[s], op->name));
        mt_table_cell(table, "activation");
        mt_table_cell(table, "%s", box_text(l, l->made[op->out[0]]));
    }
}

/* Collectives of one kind, on one sort of values, in groups of one size. */
struct moved {
    enum mt_coll_kind coll;
    const char *what, *over;
    int size;
    int64_t bytes;
};

static const char *sort_of(const struct mt_graph *g, int gvalue) {
    if (!g->values[gvalue].naxes) return "scalars";
    if (mt_graph_param_of(g, gvalue) >= 0) return "weights";
    for (int v = 0; v < g->nvalues; v++)
        if (g->values[v].param && g->values[v].gradient == gvalue) return "gradients";
    int o = g->values[gvalue].producer;
    return o >= 0 && g->ops[o].role == MT_ROLE_BACKWARD ? "activations' gradients" : "activations";
}

/* Bytes of one value on the wire in a step, on the rank where they are most: of the larger of its two boxes. */
static int64_t moved_bytes(const struct mt_program *p, enum mt_block_kind block, const struct mt_instr *instr, int k) {
    int64_t most = 0, times = 1;
    for (int r = 0; r < p->nranks; r++)
        for (int side = 0; side < 2; side++) {
            int v = side ? instr->out[k] : instr->in[k];
            int64_t count = mt_box_count(mt_pvalue_box(p, v, r), mt_pvalue_layout(p, v)->naxes);
            if (count > most) most = count;
        }
    for (int r = 0; r < p->nranks && block == MT_BODY; r++)
        if (p->body_count[r] > times) times = p->body_count[r];
    return most * times * mt_type_size(instr->wire);
}

static int group_size(struct layouts *l, const struct mt_instr *instr) {
    int most = 0, *count = mt_new(&l->arena, int, l->program->nranks);
    for (int r = 0; r < l->program->nranks; r++)
        if (++count[instr->group[r]] > most) most = count[instr->group[r]];
    return most;
}

/* Groups within hosts are over their devices, groups of one rank a host are over hosts. */
static const char *group_over(const struct layouts *l, const struct mt_instr *instr) {
    const struct mt_program *p = l->program;
    bool within = true, between = true;
    for (int r = 0; r < p->nranks && l->nnodes > 1; r++)
        for (int q = 0; q < r && (within || between); q++) {
            if (instr->group[q] != instr->group[r]) continue;
            within &= p->node[q] == p->node[r];
            between &= p->node[q] != p->node[r];
        }
    return l->nnodes < 2 ? "" : within ? " (devices)" : between ? " (hosts)" : " (all)";
}

static void print_collectives(struct layouts *l, int s, FILE *out) {
    struct moved *list = NULL;
    int count = 0, capacity = 0;
    char text[MT_UNITS_TEXT];
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < l->program->blocks[b].ninstrs; i++) {
            const struct mt_instr *instr = &l->program->blocks[b].instrs[i];
            if (instr->kind != MT_INSTR_COLLECTIVE) continue;
            const char *over = group_over(l, instr);
            int size = group_size(l, instr);
            for (int k = 0; k < instr->nin; k++) {
                int gvalue = l->program->values[instr->in[k]].gvalue, at = 0;
                if (l->section_of[gvalue] != s) continue;
                struct moved m = {instr->coll, sort_of(l->graph, gvalue), over, size, 0};
                while (at < count && (list[at].coll != m.coll || strcmp(list[at].what, m.what) != 0 ||
                                      strcmp(list[at].over, m.over) != 0 || list[at].size != m.size))
                    at++;
                if (at == count) {
                    mt_arena_grow(&l->arena, &list, count, &capacity, sizeof *list);
                    list[count++] = m;
                }
                list[at].bytes += moved_bytes(l->program, (enum mt_block_kind)b, instr, k);
            }
        }
    for (int i = 0; i < count; i++)
        fprintf(out, "  %s of %s: %d ranks%s, %s%s\n", mt_coll_name(list[i].coll), list[i].what, list[i].size,
                list[i].over, mt_units_bytes((double)list[i].bytes, text),
                s >= 0 && l->sections[s].layer >= 0 ? " a layer" : "");
}

static void describe(struct layouts *l, int s) {
    struct mt_printed printed;
    FILE *out = mt_printed_begin(&printed);
    struct mt_table table = MT_TABLE_INIT;
    mt_table_header(&table, "", "stored", "used", "gradient", NULL);
    add_weights(l, s, &table);
    add_activations(l, s, &table);
    if (table.nlines > 1)
        mt_table_print(&table, 2, out);
    else
        mt_arena_release(&table.arena);
    print_collectives(l, s, out);
    char *text = mt_printed_end(&printed);
    l->sections[s].text = mt_arena_strdup(&l->arena, text);
    free(text);
}

/* ---- all sections ---- */

/* "h.0-11.mlp" for the layers that read as this one. */
static void print_section(struct layouts *l, int s, FILE *file) {
    const struct section *first = &l->sections[s];
    int *layers = mt_new(&l->arena, int, l->nsections), n = 0;
    for (int i = s; i < l->nsections; i++) {
        struct section *other = &l->sections[i];
        if (other->printed || strcmp(other->pattern, first->pattern) || strcmp(other->text, first->text)) continue;
        other->printed = true;
        layers[n++] = other->layer;
    }
    const char *star = strchr(first->pattern, '*');
    if (star && n > 1) {
        char *ranks = mt_arena_strdup(&l->arena, mt_ranks_text(layers, n, MT_RANKS_RANGES, &l->arena));
        for (char *gap = ranks; (gap = strchr(gap, ' ')) != NULL;) *gap = ',';
        fprintf(file, "\n%.*s%s%s", (int)(star - first->pattern), first->pattern, ranks, star + 1);
    } else {
        fprintf(file, "\n%s", first->path);
    }
    if (*first->kind) fprintf(file, "  %s", first->kind);
    if (n > 1) fprintf(file, ", %d layers", n);
    fprintf(file, "\n%s", first->text);
}

void mt_layouts_print(const struct mt_program *program, FILE *file) {
    const struct mt_graph *g = program->graph;
    struct layouts l = {.program = program, .graph = g, .nnodes = 1};
    find_places(&l);
    l.section_of = mt_new(&l.arena, int, g->nvalues);
    l.stored = mt_new(&l.arena, int, g->nvalues);
    l.used = mt_new(&l.arena, int, g->nvalues);
    l.made = mt_new(&l.arena, int, g->nvalues);
    for (int v = 0; v < g->nvalues; v++) l.section_of[v] = l.stored[v] = l.used[v] = l.made[v] = -1;
    find_sections(&l);
    find_values(&l);
    name_kinds(&l);
    for (int s = 0; s < l.nsections; s++) describe(&l, s);
    fprintf(file, "%d rank%s", program->nranks, program->nranks == 1 ? "" : "s");
    if (l.nnodes > 1) fprintf(file, " on %d hosts", l.nnodes);
    fprintf(file, "; [a | b/4]: axis b divided over 4 ranks%s; ~: unequally; sum/2: each has one of 2 terms\n",
            l.nnodes > 1 ? " (host, device: over these)" : "");
    for (int s = 0; s < l.nsections; s++)
        if (!l.sections[s].printed && *l.sections[s].text) print_section(&l, s, file);
    fprintf(file, "\nthe rest\n");
    print_collectives(&l, -1, file);
    mt_arena_release(&l.arena);
}
