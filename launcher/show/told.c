/* What a program does, in words, by kind of layer: what is divided over what, what moves, and where weights and
 * optimizer state are. Layers that are told alike are one row; every word follows from the program's rules, layouts and
 * collectives. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/ranks.h"
#include "kernels/base/text/units.h"
#include "launcher/show/moves.h"
#include "launcher/show/show.h"
#include "planner/plan/planned.h"
#include "synth/ops/ops.h"

enum { LINES = MT_MOVED_GRADIENTS + 3, MOST_TEXTS = 8 }; /* divided, each sort of what is moved, state */

struct telling {
    struct mt_arena arena;
    const struct mt_choice *choice;
    const struct mt_program *program;
    const struct mt_graph *graph;
    struct mt_sections sections;
    const char *(*lines)[LINES]; /* [sections]; "" where there is nothing to tell */
    bool *told;                  /* [sections] */
};

/* Texts with a weight, the heaviest first. */
struct texts {
    int count;
    const char *text[MOST_TEXTS];
    double weight[MOST_TEXTS];
};

static void add_text(struct texts *t, const char *text, double weight) {
    int i = 0;
    while (i < t->count && strcmp(t->text[i], text) != 0) i++;
    if (i == MOST_TEXTS) return;
    if (i == t->count) t->text[t->count] = text, t->weight[t->count++] = 0;
    for (t->weight[i] += weight; i > 0 && t->weight[i] > t->weight[i - 1]; i--) {
        const char *other = t->text[i - 1];
        double of = t->weight[i - 1];
        t->text[i - 1] = t->text[i], t->weight[i - 1] = t->weight[i];
        t->text[i] = other, t->weight[i] = of;
    }
}

/* "a; b": the first few. */
static const char *join(struct telling *t, const struct texts *texts, int most) {
    const char *all = "";
    for (int i = 0; i < texts->count && i < most; i++)
        all = mt_arena_printf(&t->arena, "%s%s%s", all, i ? "; " : "", texts->text[i]);
    return texts->count > most ? mt_arena_printf(&t->arena, "%s; ...", all) : all;
}

/* ---- rules ---- */

/* "4 each", "11 5", "3 to 9". */
static const char *shares_text(struct telling *t, const struct mt_split *split) {
    enum { MOST = 8 };
    int n = split->axis == MT_AXIS_HOST ? t->choice->mesh.nnodes : t->choice->nranks;
    int64_t least = split->sizes[0], most = split->sizes[0];
    const char *all = "";
    for (int i = 1; i < n; i++) {
        if (split->sizes[i] < least) least = split->sizes[i];
        if (split->sizes[i] > most) most = split->sizes[i];
    }
    if (least == most) return mt_arena_printf(&t->arena, "%lld each", (long long)least);
    if (n > MOST) return mt_arena_printf(&t->arena, "%lld to %lld", (long long)least, (long long)most);
    for (int i = 0; i < n; i++)
        all = mt_arena_printf(&t->arena, "%s%s%lld", all, i ? " " : "", (long long)split->sizes[i]);
    return all;
}

/* "" where a level is not divided; `under`: of a host. */
static const char *level_text(struct telling *t, const struct mt_rule *rule, bool under) {
    if (rule->kind == MT_RULE_LINEAR) return under ? "terms of sums over its devices" : "terms of sums";
    if (rule->kind != MT_RULE_SPLIT) return "";
    const struct mt_split *split = rule->split;
    const char *label = t->graph->labels[split->label].name, *shares = shares_text(t, split);
    if (split->axis == MT_AXIS_HOST)
        return mt_arena_printf(&t->arena, "%s over %d hosts (%s)", label, t->choice->mesh.nnodes, shares);
    if (split->axis == MT_AXIS_DEVICE)
        return mt_arena_printf(&t->arena, "%s over the devices of each host (%s)", label, shares);
    return mt_arena_printf(&t->arena, "%s over %d ranks (%s)", label, t->choice->nranks, shares);
}

static const char *rule_text(struct telling *t, const struct mt_rule *rule) {
    const char *root = level_text(t, rule, false), *inner = rule->inner ? level_text(t, &rule->inner[0], true) : "";
    return mt_arena_printf(&t->arena, "%s%s%s", root, *root && *inner ? ", " : "", inner);
}

static bool has_batch(const struct mt_graph *g, const struct mt_op *op) {
    for (int i = 0; i < op->nindices; i++)
        if (op->index_label[i] == g->batch) return true;
    return false;
}

/* GEMMs, attention and embeddings; then what most of the others do, if that is something else. */
static const char *divided_text(struct telling *t, int s) {
    struct texts main = {0}, others = {0};
    for (int o = 0; o < t->graph->nops; o++) {
        const struct mt_op *op = &t->graph->ops[o];
        if (op->role != MT_ROLE_FORWARD || t->sections.of_value[op->out[0]] != s || !has_batch(t->graph, op)) continue;
        bool works = op->kind == MT_OP_matmul || op->kind == MT_OP_embedding || mt_op_is_attention(op->kind);
        const char *text = rule_text(t, &t->choice->rules[o]);
        add_text(works ? &main : &others, *text ? text : "not divided", 1);
    }
    if (!main.count) return join(t, &others, 2);
    const char *text = join(t, &main, 3);
    bool same = !others.count;
    for (int i = 0; i < main.count && !same; i++) same = !strcmp(main.text[i], others.text[0]);
    return same ? text : mt_arena_printf(&t->arena, "%s; the rest: %s", text, others.text[0]);
}

static const char *state_text(struct telling *t, int s) {
    struct texts all = {0};
    for (int o = 0; o < t->graph->nops; o++) {
        const struct mt_op *op = &t->graph->ops[o];
        if ((op->kind != MT_OP_adamw && op->kind != MT_OP_sgd) || t->sections.of_value[op->in[0]] != s) continue;
        const char *text = rule_text(t, &t->choice->rules[o]);
        text = *text ? mt_arena_printf(&t->arena, "in shares: %s", text) : "on every rank";
        add_text(&all, text, (double)mt_value_count(t->graph, op->in[0]));
    }
    return join(t, &all, 2);
}

/* ---- messages ---- */

static const char *members_text(struct telling *t, const struct mt_move *m) {
    static const char *const over[] = {"%d ranks", "%d devices of each host", "%d hosts", "all %d ranks"};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    return mt_arena_printf(&t->arena, over[m->over], m->size);
#pragma GCC diagnostic pop
}

static const char *moved_text(struct telling *t, int s, enum mt_moved what) {
    struct mt_move *list;
    int count = mt_moves_list(t->program, &t->sections, s, &t->arena, &list);
    bool layer = t->sections.items[s].layer >= 0;
    const char *all = "";
    char bytes[MT_UNITS_TEXT];
    for (int i = 0; i < count; i++) {
        const struct mt_move *m = &list[i];
        if (m->what != what || m->size < 2) continue;
        const char *times = what > MT_MOVED_ACTIVATION_GRADIENTS || m->messages < 2
                                ? ""
                                : mt_arena_printf(&t->arena, "%d ", m->messages);
        all = mt_arena_printf(&t->arena, "%s%s%s%s over %s, %s%s", all, *all ? "; " : "", times, mt_coll_name(m->coll),
                              members_text(t, m), mt_units_bytes((double)m->bytes, bytes), layer ? " a layer" : "");
    }
    return all;
}

/* ---- rows ---- */

static bool same_lines(const struct telling *t, int a, int b) {
    for (int i = 0; i < LINES; i++)
        if (strcmp(t->lines[a][i], t->lines[b][i]) != 0) return false;
    return !strcmp(t->sections.items[a].kind, t->sections.items[b].kind);
}

/* "attention of 12 layers", of all that there are; "attention of layers 1-11"; "head". */
static const char *name_of(struct telling *t, const int *layers, int n, int s) {
    const struct mt_section *first = &t->sections.items[s];
    int all = 0;
    if (first->layer < 0) return first->kind;
    for (int i = 0; i < t->sections.count; i++) all += !strcmp(t->sections.items[i].pattern, first->pattern);
    if (n == all) return mt_arena_printf(&t->arena, "%s of %d layer%s", first->kind, n, n == 1 ? "" : "s");
    return mt_arena_printf(&t->arena, "%s of layer%s %s", first->kind, n == 1 ? "" : "s",
                           mt_ranks_text(layers, n, MT_RANKS_NAME, &t->arena));
}

static void add_rows(struct telling *t, int s, struct mt_table *table) {
    static const char *const titles[LINES] = {"divided", "forward", "backward", "weights", "gradients", "state"};
    int *layers = mt_new(&t->arena, int, t->sections.count), n = 0;
    for (int i = s; i < t->sections.count; i++)
        if (!t->told[i] && same_lines(t, s, i)) t->told[i] = true, layers[n++] = t->sections.items[i].layer;
    const char *name = name_of(t, layers, n, s);
    for (int i = 0; i < LINES; i++) {
        if (!*t->lines[s][i]) continue;
        mt_table_row(table);
        mt_cell_text(table, "%s", name);
        mt_cell_text(table, "%s", titles[i]);
        mt_cell_text(table, "%s", t->lines[s][i]);
    }
}

static void tell_section(struct telling *t, int s) {
    const char **lines = t->lines[s];
    lines[0] = divided_text(t, s);
    for (int m = 0; m <= MT_MOVED_GRADIENTS; m++) lines[1 + m] = moved_text(t, s, (enum mt_moved)m);
    lines[LINES - 1] = state_text(t, s);
    t->told[s] = !*t->sections.items[s].kind || !*lines[0];
}

void mt_told_tables(const struct mt_planned *planned, struct mt_tables *out) {
    const struct mt_decisions *d = &planned->choice.decisions;
    struct telling t = {.choice = &planned->choice, .program = &planned->program, .graph = planned->graph};
    const char *note = d->gather == MT_GATHER_LAYER
                           ? "weights that are not where they are used are gathered for each layer"
                           : "weights that are not where they are used are gathered once a step";
    struct mt_table *table =
        mt_tables_add(out, "program", "what the program does", mt_decisions_shard_state(d) ? note : "");
    table->bare = true;
    mt_table_column(table, "layers", "layers", MT_UNIT_TEXT)->once = true;
    mt_table_column(table, "what", "what", MT_UNIT_TEXT);
    mt_table_column(table, "how", "how", MT_UNIT_TEXT);
    mt_sections_find(t.graph, &t.sections);
    t.lines = mt_arena_alloc(&t.arena, (size_t)(t.sections.count + 1) * sizeof *t.lines);
    t.told = mt_new(&t.arena, bool, t.sections.count + 1);
    for (int s = 0; s < t.sections.count; s++) tell_section(&t, s);
    for (int s = 0; s < t.sections.count; s++)
        if (!t.told[s]) add_rows(&t, s, table);
    mt_sections_release(&t.sections);
    mt_arena_release(&t.arena);
}
