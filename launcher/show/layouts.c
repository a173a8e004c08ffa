/* How a plan's program divides a model, by kind of layer, on one screen.
 *
 * Layers whose sections (sections.h) read the same are printed once: "h.0-11.mlp".
 *
 * A box is the axes of a value by label: [embed | ffn/4]. "/4": divided over four (of the parts of a node over its
 * devices "/4 device", of nodes "/2 host"); "~": by unequal shares; "sum/2": each rank has one of two terms. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/printed.h"
#include "kernels/base/text/ranks.h"
#include "kernels/base/text/units.h"
#include "launcher/show/moves.h"
#include "launcher/show/sections.h"
#include "launcher/show/show.h"
#include "planner/plan/planned.h"

struct layouts {
    const struct mt_program *program;
    const struct mt_graph *graph;
    struct mt_arena arena;
    int nnodes;
    int *place, *first_of_node, *first_at_place; /* with several nodes: [nranks], [nnodes], [places]: ranks */
    struct mt_sections sections;
    const char **text, **name; /* [sections]: what people read of each; "h.0-11.mlp" of the first of alike ones */
    bool *printed, *first;     /* [sections]; first of those that read the same */
    int *stored, *used,
        *made; /* [gvalues of parameters]: program values; made: the gradient as the backward pass makes it */
};

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

/* ---- one section ---- */

/* "c_fc.weight" of "h.0.mlp"; "mlp" of itself. */
static const char *short_name(const struct mt_section *section, const char *name) {
    size_t length = strlen(section->path);
    const char *dot = strrchr(name, '.');
    if (!strcmp(name, section->path)) return dot ? dot + 1 : name;
    return !strncmp(name, section->path, length) && name[length] == '.' ? name + length + 1 : name;
}

/* The first cells of a row: the section's name and number of layers. */
static void begin_row(struct layouts *l, int s, struct mt_table *table) {
    mt_table_row(table);
    mt_cell_text(table, "%s", l->name[s] ? l->name[s] : "");
    mt_cell_text(table, "%s", s < 0 ? "" : l->sections.items[s].kind);
}

static void add_weights(struct layouts *l, int s, struct mt_table *table) {
    const struct mt_graph *g = l->graph;
    for (int v = 0; v < g->nvalues; v++) {
        if (!g->values[v].param || l->sections.of_value[v] != s) continue;
        begin_row(l, s, table);
        mt_cell_text(table, "%s", short_name(&l->sections.items[s], g->values[v].name));
        mt_cell_text(table, "%s", box_text(l, l->stored[v]));
        mt_cell_text(table, "%s", box_text(l, l->used[v] >= 0 ? l->used[v] : l->stored[v]));
        mt_cell_text(table, "%s", box_text(l, g->values[v].gradient >= 0 ? l->made[g->values[v].gradient] : -1));
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
    return !same || mt_op_is_attention(op->kind) || mt_sections_is_module(&l->sections, op->name);
}

static void add_activations(struct layouts *l, int s, struct mt_table *table) {
    const struct mt_graph *g = l->graph;
    for (int o = 0; o < g->nops; o++) {
        const struct mt_op *op = &g->ops[o];
        if (l->sections.of_value[op->out[0]] != s || l->made[op->out[0]] < 0 || !is_told(l, op)) continue;
        begin_row(l, s, table);
        mt_cell_text(table, "%s", short_name(&l->sections.items[s], op->name));
        mt_cell_text(table, "activation");
        mt_cell_text(table, "%s", box_text(l, l->made[op->out[0]]));
    }
}

static const char *const over_names[] = {"", "devices", "hosts", "all"};

static void print_collectives(struct layouts *l, int s, FILE *out) {
    struct mt_move *list;
    int count = mt_moves_list(l->program, &l->sections, s, &l->arena, &list);
    char text[MT_UNITS_TEXT];
    for (int i = 0; i < count; i++) {
        const char *over = over_names[list[i].over];
        fprintf(out, "  %s of %s: %d ranks%s%s%s, %s%s\n", mt_coll_name(list[i].coll), mt_moved_names[list[i].what],
                list[i].size, *over ? " (" : "", over, *over ? ")" : "", mt_units_bytes((double)list[i].bytes, text),
                s >= 0 && l->sections.items[s].layer >= 0 ? " a layer" : "");
    }
}

static struct mt_table *begin_boxes(struct mt_tables *out, bool machines) {
    struct mt_table *t = mt_tables_add(out, "layouts", "", "");
    t->machines_only = machines;
    mt_table_column(t, "section", "", MT_UNIT_TEXT)->machines_only = true;
    mt_table_column(t, "kind", "", MT_UNIT_TEXT)->machines_only = true;
    mt_table_columns(t, {"name", "", MT_UNIT_TEXT}, {"stored", "stored", MT_UNIT_TEXT}, {"used", "used", MT_UNIT_TEXT},
                     {"gradient", "gradient", MT_UNIT_TEXT});
    return t;
}

/* What people read of a section, by which sections are compared. */
static void describe(struct layouts *l, int s) {
    struct mt_printed printed;
    FILE *out = mt_printed_begin(&printed);
    struct mt_tables doc = MT_TABLES_INIT;
    struct mt_table *table = begin_boxes(&doc, false);
    add_weights(l, s, table);
    add_activations(l, s, table);
    if (table->nrows) mt_tables_write(&doc, MT_TABLES_TEXT, out);
    mt_tables_release(&doc);
    print_collectives(l, s, out);
    char *text = mt_printed_end(&printed);
    l->text[s] = mt_arena_strdup(&l->arena, text);
    free(text);
}

/* ---- all sections ---- */

/* "h.0-11.mlp" for the layers that read as this one; *n: how many there are. */
static const char *name_of(struct layouts *l, int s, int *n) {
    const struct mt_section *first = &l->sections.items[s];
    int *layers = mt_new(&l->arena, int, l->sections.count);
    *n = 0;
    for (int i = s; i < l->sections.count; i++) {
        const struct mt_section *other = &l->sections.items[i];
        if (l->printed[i] || strcmp(other->pattern, first->pattern) || strcmp(l->text[i], l->text[s])) continue;
        l->printed[i] = true;
        layers[(*n)++] = other->layer;
    }
    const char *star = strchr(first->pattern, '*');
    if (!star || *n < 2) return first->path;
    char *ranks = mt_arena_strdup(&l->arena, mt_ranks_text(layers, *n, MT_RANKS_RANGES, &l->arena));
    for (char *gap = ranks; (gap = strchr(gap, ' ')) != NULL;) *gap = ',';
    return mt_arena_printf(&l->arena, "%.*s%s%s", (int)(star - first->pattern), first->pattern, ranks, star + 1);
}

static void say_section(struct layouts *l, int s, struct mt_tables *out) {
    int n;
    l->name[s] = name_of(l, s, &n);
    l->first[s] = true;
    FILE *file = mt_tables_say_begin(out);
    fprintf(file, "\n%s", l->name[s]);
    if (*l->sections.items[s].kind) fprintf(file, "  %s", l->sections.items[s].kind);
    if (n > 1) fprintf(file, ", %d layers", n);
    fprintf(file, "\n%s", l->text[s]);
    mt_tables_say_end(out);
}

/* The same for machines. */
static void add_boxes(struct layouts *l, struct mt_tables *out) {
    struct mt_table *t = begin_boxes(out, true);
    for (int s = 0; s < l->sections.count; s++) {
        if (!l->first[s]) continue;
        add_weights(l, s, t);
        add_activations(l, s, t);
    }
}

static void add_moves(struct layouts *l, struct mt_tables *out) {
    struct mt_table *t = mt_tables_add(out, "moves", "", "");
    t->machines_only = true;
    mt_table_column(t, "section", "", MT_UNIT_TEXT); /* "": what is in no section */
    mt_table_column(t, "collective", "", MT_UNIT_TEXT);
    mt_table_columns(t, {"of", "", MT_UNIT_TEXT}, {"ranks", "", MT_UNIT_COUNT}, {"over", "", MT_UNIT_TEXT},
                     {"bytes", "", MT_UNIT_BYTES});
    for (int s = -1; s < l->sections.count; s++) {
        struct mt_move *list;
        if (s >= 0 && !l->first[s]) continue;
        int count = mt_moves_list(l->program, &l->sections, s, &l->arena, &list);
        for (int i = 0; i < count; i++) {
            mt_table_row(t);
            mt_cell_text(t, "%s", s < 0 ? "" : l->name[s]);
            mt_cell_text(t, "%s", mt_coll_name(list[i].coll));
            mt_cell_text(t, "%s", mt_moved_names[list[i].what]);
            mt_cell_int(t, list[i].size);
            mt_cell_text(t, "%s", over_names[list[i].over]);
            mt_cell_int(t, list[i].bytes);
        }
    }
}

static void say_rest(struct layouts *l, struct mt_tables *out) {
    mt_tables_say(out, "\nthe rest");
    print_collectives(l, -1, mt_tables_say_begin(out));
    mt_tables_say_end(out);
}

void mt_layouts_tables(const struct mt_program *program, struct mt_tables *out) {
    const struct mt_graph *g = program->graph;
    struct layouts l = {.program = program, .graph = g, .nnodes = 1};
    find_places(&l);
    mt_sections_find(g, &l.sections);
    l.text = mt_new(&l.arena, const char *, l.sections.count + 1);
    l.name = mt_new(&l.arena, const char *, l.sections.count + 1);
    l.first = mt_new(&l.arena, bool, l.sections.count + 1);
    l.printed = mt_new(&l.arena, bool, l.sections.count + 1);
    l.stored = mt_new(&l.arena, int, g->nvalues);
    l.used = mt_new(&l.arena, int, g->nvalues);
    l.made = mt_new(&l.arena, int, g->nvalues);
    for (int v = 0; v < g->nvalues; v++) l.stored[v] = l.used[v] = l.made[v] = -1;
    find_values(&l);
    for (int s = 0; s < l.sections.count; s++) describe(&l, s);
    FILE *file = mt_tables_say_begin(out);
    fprintf(file, "%d rank%s", program->nranks, program->nranks == 1 ? "" : "s");
    if (l.nnodes > 1) fprintf(file, " on %d hosts", l.nnodes);
    fprintf(file, "; [a | b/4]: axis b divided over 4 ranks%s; ~: unequally; sum/2: each has one of 2 terms\n",
            l.nnodes > 1 ? " (host, device: over these)" : "");
    mt_tables_say_end(out);
    for (int s = 0; s < l.sections.count; s++)
        if (!l.printed[s] && *l.text[s]) say_section(&l, s, out);
    say_rest(&l, out);
    add_boxes(&l, out);
    add_moves(&l, out);
    mt_sections_release(&l.sections);
    mt_arena_release(&l.arena);
}
