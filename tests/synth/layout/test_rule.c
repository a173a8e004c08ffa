/* Every rule of every operator kind, in f64 on ragged splits with zero shares, against the operator on whole operands.
 *
 * A model that uses every kind is differentiated; each of its operators is taken into a graph of its own. For each of
 * its rules, a program of that one operator is fed as the rule demands (partial inputs as random parts) and what it
 * gives is assembled by the layouts that the rule promises. The same of random trees of rules on random meshes. */
#include "synth/job/job.h"
#include "synth/ops/ops.h"
#include "synth/layout/rule.h"
#include "tests/check.h"
#include "tests/synth/layout/rules.h"
#include "tests/synth/layout/trees.h"
#include "tests/synth/find_op.h"
#include "tests/synth/parts.h"
#include "synth/autodiff/autodiff.h"

enum { MAX_RANKS = 5, MOST_RANKS = 6, TREES = 60, MAX_COUNT = 5 * 3 * 3 * 3 * 2 * 20 };

/* Three query heads for each of two heads of keys and values, which have weights of their own. */
static int grouped_attention(struct mt_graph *g, int x) {
    int q = mt_graph_param(g, "q", "embed,groups queries headsize", MT_INIT_NORMAL, 1);
    int k = mt_graph_param(g, "k", "embed,groups headsize", MT_INIT_NORMAL, 1);
    int v = mt_graph_param(g, "v", "embed,groups headsize", MT_INIT_NORMAL, 1);
    int proj = mt_graph_param(g, "grouped_proj", "groups queries headsize,embed", MT_INIT_NORMAL, 1);
    int keys[2] = {mt_op_matmul(g, "to_k", x, k, 1, 0), mt_op_matmul(g, "to_v", x, v, 1, 0)};
    int kv = mt_op_join(g, "kv", keys, 2, 5, 2, mt_graph_find_label(g, "two"));
    const struct mt_attr rope = {.rope_base = 3};
    int turned = mt_op_rotary(g, "rotary", mt_op_matmul(g, "to_q", x, q, 1, 0), &rope);
    int heads = mt_op_window_attention(g, "grouped", turned, kv, 2, 0.25);
    return mt_op_matmul(g, "from_groups", heads, proj, 3, 0);
}

static struct mt_graph *model(void) {
    struct mt_graph *g = mt_graph_new(MT_F64);
    struct mt_err err = MT_ERR_INIT;
    static const struct {
        const char *name;
        int64_t extent;
    } labels[] = {{"batch", 5}, {"seq", 3}, {"embed", 7},  {"ffn", 9},     {"heads", 3}, {"headsize", 2},
                  {"three", 3}, {"two", 2}, {"groups", 2}, {"queries", 3}, {"vocab", 11}};
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        int id;
        CHECK_OK(mt_graph_label(g, labels[i].name, labels[i].extent, 1, &id, &err), err);
    }
    g->batch = 0;
    int tokens = mt_graph_input(g, "tokens", MT_I32, "batch seq"),
        targets = mt_graph_input(g, "targets", MT_I32, "batch seq");
    int wte = mt_graph_param(g, "wte", "vocab,embed", MT_INIT_NORMAL, 1);
    int gamma = mt_graph_param(g, "gamma", "embed", MT_INIT_ONE, 0),
        beta = mt_graph_param(g, "beta", "embed", MT_INIT_ZERO, 0);
    int qkv = mt_graph_param(g, "qkv", "embed,three heads headsize", MT_INIT_NORMAL, 1);
    int proj = mt_graph_param(g, "proj", "heads headsize,embed", MT_INIT_NORMAL, 1);
    int square = mt_graph_param(g, "square", "embed,embed", MT_INIT_NORMAL, 1);
    int up = mt_graph_param(g, "up", "embed,ffn", MT_INIT_NORMAL, 1),
        bias = mt_graph_param(g, "bias", "ffn", MT_INIT_ZERO, 0);
    int down = mt_graph_param(g, "down", "ffn,embed", MT_INIT_NORMAL, 1);

    int x = mt_op_embedding(g, "embed", wte, tokens);
    int h = mt_op_layer_norm(g, "norm", x, gamma, beta, 1e-5);
    const struct mt_part parts[] = {{".q", -1}, {".kv", mt_graph_find_label(g, "two")}};
    int of[2];
    mt_op_separate(g, "parts", mt_op_matmul(g, "to_qkv", h, qkv, 1, 0), 2, parts, 2, of);
    int heads = mt_op_attention(g, "attention", of[0], of[1], true, 0.25);
    x = mt_op_add(g, "residual", x, mt_op_matmul(g, "from_heads", heads, proj, 2, 0));
    x = mt_op_add(g, "residual2", x, grouped_attention(g, mt_op_rms_norm(g, "rms", h, gamma, 1e-5)));
    x = mt_op_add(g, "twice", mt_op_matmul(g, "square", x, square, 1, 0), x);
    h = mt_op_add(g, "bias", mt_op_matmul(g, "up", mt_op_layer_norm(g, "norm2", x, gamma, -1, 1e-5), up, 1, 0), bias);
    h = mt_op_silu_mul(g, "silu", h, mt_op_gelu(g, "gelu", h));
    h = mt_op_dropout(g, "dropout", mt_op_relu(g, "relu", h), 0.3);
    x = mt_op_cast(g, "cast", mt_op_matmul(g, "down", h, down, 1, 0), MT_F64);
    int logits = mt_op_matmul(g, "logits", x, wte, 1, MT_TRANS_B);
    g->loss_sum = mt_op_cross_entropy(g, "loss", logits, targets);
    g->token_count = mt_op_count(g, "count", targets);
    mt_op_fill(g, "fill", x, 2.5, MT_F64);
    mt_graph_set_precision(g, &(struct mt_job){.precision = MT_F64, .loss_scale = 8, .loss_scale_interval = 3});
    CHECK_OK(mt_graph_differentiate(g, &err), err);
    struct mt_optimizer adamw = {.kind = MT_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .decay = 0.1, .clip = 1};
    CHECK_OK(mt_graph_optimize(g, &adamw, &err), err);
    struct mt_attr sgd = {.momentum = 0.9, .nesterov = true, .decay = 0.1, .lr_scale = 1};
    int in[] = {square, g->values[square].gradient, g->values[square].gradient, g->scale};
    mt_op_update(g, "sgd", MT_OP_sgd, &sgd, in, 4);
    return g;
}

/* The operator alone, its inputs states (which the interpreter keeps as they are fed). */
static struct mt_graph *alone(const struct mt_graph *g, const struct mt_op *op) {
    struct mt_graph *one = mt_graph_new(g->type);
    struct mt_err err = MT_ERR_INIT;
    for (int l = 0; l < g->nlabels; l++) {
        int id;
        CHECK_OK(mt_graph_label(one, g->labels[l].name, g->labels[l].extent, 1, &id, &err), err);
        CHECK_EQ(id, l);
    }
    one->batch = g->batch;
    struct mt_op copy = *op;
    for (int k = 0; k < op->nin + op->nout; k++) {
        int *operand = k < op->nin ? &copy.in[k] : &copy.out[k - op->nin];
        const struct mt_value *v = &g->values[*operand];
        *operand =
            mt_graph_value(one, v->name, k < op->nin ? MT_VALUE_STATE : MT_VALUE_TEMP, v->type, v->naxes, v->label);
    }
    mt_graph_op(one, op->name, &copy);
    return one;
}

static int label_extent(const struct mt_graph *g, const char *name) {
    return (int)g->labels[mt_graph_find_label(g, name)].extent;
}

/* Inputs that may not be negative, by kind: variances, sums of exponentials, counts, second moments. */
static bool is_positive(enum mt_op_kind kind, int input) {
    static const unsigned positive[MT_NOPS] = {
        [MT_OP_norm_apply] = 1u << 2,     [MT_OP_norm_dots] = 1u << 3,       [MT_OP_norm_grad] = 1u << 3,
        [MT_OP_rms_apply] = 1u << 1,      [MT_OP_rms_dot] = 1u << 2,         [MT_OP_rms_grad] = 1u << 2,
        [MT_OP_rms_param_grad] = 1u << 2, [MT_OP_norm_param_grad] = 1u << 3, [MT_OP_nll] = 1u << 1,
        [MT_OP_nll_grad] = 1u << 2,       [MT_OP_grad_scale] = 7u,           [MT_OP_adamw] = 1u << 2};
    return positive[kind] >> input & 1;
}

static void random_input(struct dice *dice, const struct mt_graph *g, const struct mt_op *op, int input, double *data) {
    bool ids = op->kind == MT_OP_embedding || op->kind == MT_OP_embedding_grad;
    int vocab = label_extent(g, "vocab");
    for (int64_t e = 0; e < mt_value_count(g, op->in[input]); e++) {
        data[e] = roll_real(dice);
        if (is_positive(op->kind, input)) data[e] = fabs(data[e]) + 0.5;
        if (g->values[op->in[input]].type == MT_I32)
            data[e] = ids ? (double)roll(dice, vocab) : (double)roll(dice, vocab + 1) - 1;
    }
}

struct sample {
    const struct mt_graph *graph; /* of one operator */
    const struct mt_op *op;
    const struct mt_mesh *mesh;                 /* of the rule; or null */
    double (*in)[MAX_COUNT], (*out)[MAX_COUNT]; /* whole */
};

static void extents_of(const struct mt_graph *g, int value, int64_t *extent) {
    for (int a = 0; a < g->values[value].naxes; a++) extent[a] = mt_value_extent(g, value, a);
}

/* Run the operator on `nranks` by the rule and check what it gives against s->out; or, with null for the rule, on one
 * rank to fill s->out. False if the rule gives no layouts. */
static bool run_rule(struct dice *dice, struct sample *s, int nranks, const struct mt_rule *rule,
                     const struct mt_split *batch, const char *what) {
    const struct mt_graph *g = s->graph;
    const struct mt_op *op = s->op;
    struct mt_program p;
    int in[MT_MAX_IN], out[MT_MAX_OUT];
    struct mt_rule replicate = {.kind = MT_RULE_REPLICATE};
    mt_program_init(&p, g, nranks);
    for (int r = 0; r < nranks; r++) {
        p.batch_size[r] = p.last_size[r] = batch ? batch->sizes[r] : g->labels[g->batch].extent;
        p.batch_start[r] = batch ? batch->starts[r] : 0;
    }
    for (int i = 0; i < op->nin; i++) {
        int64_t extent[MT_MAX_AXES];
        extents_of(g, op->in[i], extent);
        int layout = mt_rule_input(&p.layouts, g, op, rule ? rule : &replicate, s->mesh, i, extent);
        if (layout < 0) return mt_program_release(&p), false;
        in[i] = mt_program_value(&p, op->in[i], layout, g->values[op->in[i]].type, MT_LAST);
        p.values[in[i]].input = true;
    }
    for (int o = 0; o < op->nout; o++) {
        int64_t extent[MT_MAX_AXES];
        extents_of(g, op->out[o], extent);
        int layout = mt_rule_output(&p.layouts, g, op, rule ? rule : &replicate, s->mesh, o, extent);
        if (layout < 0) return mt_program_release(&p), false;
        out[o] = mt_program_value(&p, op->out[o], layout, g->values[op->out[o]].type, MT_LAST);
    }
    struct mt_instr instr = {.kind = MT_INSTR_OP, .gop = 0, .nin = op->nin, .nout = op->nout, .in = in, .out = out};
    mt_program_add(&p, MT_LAST, &instr);

    struct mt_interp *interp = mt_interp_new(&p);
    struct mt_clock clock = {.step = 3, .seed = 5, .lr = 0.1};
    struct mt_err err = MT_ERR_INIT;
    for (int i = 0; i < op->nin; i++) feed_value(dice, interp, in[i], s->in[i]);
    if (mt_interp_step(interp, &clock, &err)) CHECK(false, "%s: %s", what, err.text);
    for (int o = 0; o < op->nout; o++) {
        if (rule)
            check_value(interp, out[o], s->out[o], 1e-12, what);
        else
            CHECK(mt_interp_result(interp, op->out[o], s->out[o]), "%s has no result", what);
    }
    mt_interp_free(interp);
    mt_program_release(&p);
    return true;
}

/* All rules of one operator on `nranks` ranks with fresh splits of all labels; returns how many. */
static int try_rules(struct dice *dice, struct sample *s, int nranks) {
    struct mt_arena arena = MT_ARENA_INIT;
    const struct mt_graph *g = s->graph;
    struct mt_split splits[16], shares;
    for (int l = 0; l < g->nlabels; l++) {
        random_split(dice, &arena, nranks, g->labels[l].extent, &splits[l]);
        splits[l].label = l;
    }
    random_split(dice, &arena, nranks, g->labels[g->batch].extent, &shares);
    struct mt_rule rules[MT_MAX_INDICES + MT_MAX_IN + 1];
    int nrules = all_rules(s->op, splits, g->nlabels, rules);
    for (int k = 0; k < nrules; k++) {
        const struct mt_rule *rule = &rules[k];
        bool by_batch = rule->kind == MT_RULE_SPLIT && rule->split->label == g->batch;
        const char *what =
            mt_arena_printf(&arena, "%s %s on %d ranks, %s %s", mt_op_info[s->op->kind].name, s->op->name, nranks,
                            rule->kind == MT_RULE_SPLIT    ? "split over"
                            : rule->kind == MT_RULE_LINEAR ? "linear"
                                                           : "replicated",
                            rule->kind == MT_RULE_SPLIT ? g->labels[rule->split->label].name : "");
        CHECK(run_rule(dice, s, nranks, rule, by_batch ? rule->split : &shares, what), "%s", what);
    }
    mt_arena_release(&arena);
    return nrules;
}

static const char *level_text(const struct mt_graph *g, const struct mt_op *op, const struct mt_rule *rule,
                              struct mt_arena *arena) {
    if (rule->kind != MT_RULE_SPLIT) return rule->kind == MT_RULE_LINEAR ? "linear" : "replicated";
    return mt_arena_printf(arena, "%s over %s", g->labels[op->index_label[rule->index]].name,
                           rule->split->axis == MT_AXIS_HOST     ? "nodes"
                           : rule->split->axis == MT_AXIS_DEVICE ? "devices"
                                                                 : "all");
}

static const char *tree_text(const struct mt_graph *g, const struct mt_op *op, const struct mt_rule *rule,
                             const struct mt_mesh *mesh, struct mt_arena *arena) {
    char *text =
        mt_arena_printf(arena, "%s %s, %s", mt_op_info[op->kind].name, op->name, level_text(g, op, rule, arena));
    for (int k = 0; k < mesh->nnodes && rule->inner; k++)
        text = mt_arena_printf(arena, "%s; %s", text, level_text(g, op, &rule->inner[k], arena));
    text = mt_arena_printf(arena, "%s; nodes", text);
    for (int r = 0; r < mesh->nranks; r++) text = mt_arena_printf(arena, "%s %d", text, mesh->node[r]);
    return text;
}

/* A random tree of one operator on a random mesh; false if it gives no layouts. */
static bool try_tree(struct dice *dice, struct sample *s) {
    struct mt_arena arena = MT_ARENA_INIT;
    const struct mt_graph *g = s->graph;
    int64_t extent[MT_MAX_INDICES];
    struct mt_mesh mesh = random_mesh(dice, &arena, 2 + (int)roll(dice, MOST_RANKS - 1), 3);
    struct mt_split shares;
    mt_op_extents(g, s->op, extent);
    random_split(dice, &arena, mesh.nranks, g->labels[g->batch].extent, &shares);
    struct mt_rule tree = random_tree(dice, &arena, s->op, &mesh, extent);
    s->mesh = &mesh;
    bool ran = run_rule(dice, s, mesh.nranks, &tree, &shares, tree_text(g, s->op, &tree, &mesh, &arena));
    s->mesh = NULL;
    mt_arena_release(&arena);
    return ran;
}

static void test_numbers(struct dice *dice, const struct mt_graph *g) {
    static double in[MT_MAX_IN][MAX_COUNT], out[MT_MAX_OUT][MAX_COUNT];
    int tried[MT_NOPS] = {0}, trees = 0, none = 0;
    for (int o = 0; o < g->nops; o++) {
        struct mt_graph *one = alone(g, &g->ops[o]);
        struct sample s = {.graph = one, .op = &one->ops[0], .in = in, .out = out};
        for (int i = 0; i < s.op->nin; i++) {
            CHECK(mt_value_count(one, s.op->in[i]) <= MAX_COUNT, "operand too large for the test");
            random_input(dice, one, s.op, i, in[i]);
        }
        run_rule(dice, &s, 1, NULL, NULL, s.op->name);
        for (int n = 2; n <= MAX_RANKS; n++)
            for (int again = 0; again < 2; again++) tried[s.op->kind] += try_rules(dice, &s, n);
        for (int t = 0; t < TREES; t++)
            if (try_tree(dice, &s))
                trees++;
            else
                none++;
        mt_graph_free(one);
    }
    printf("%d trees, %d that give no layouts\n", trees, none);
    CHECK(none * 50 < trees, "%d of %d trees give no layouts", none, trees + none);
    for (int kind = 0; kind < MT_NOPS; kind++) {
        if (mt_op_info[kind].fused) continue;
        printf("%s: %d\n", mt_op_info[kind].name, tried[kind]);
        CHECK(tried[kind] > 0, "no operator of kind %s was tried", mt_op_info[kind].name);
    }
}

/* What each rule of a named operator demands and gives, as one text. */
static void check_rules(const struct mt_graph *g, const char *name, const char *const *want, int count) {
    int found = find_op(g, name), sizes_at = 0;
    CHECK(found >= 0, "no operator %s", name);
    const struct mt_op *op = &g->ops[found];
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_layouts table;
    struct mt_split splits[16];
    mt_layouts_init(&table, 2);
    for (int l = 0; l < g->nlabels; l++) { /* all but one on rank 0 */
        int64_t extent = g->labels[l].extent, sizes[] = {extent - 1, 1}, starts[] = {0, extent - 1, extent};
        splits[sizes_at++] = (struct mt_split){.label = l,
                                               .sizes = mt_arena_memdup(&arena, sizes, sizeof sizes),
                                               .starts = mt_arena_memdup(&arena, starts, sizeof starts)};
    }
    struct mt_rule rules[MT_MAX_INDICES + MT_MAX_IN + 1];
    int nrules = all_rules(op, splits, g->nlabels, rules);
    for (int k = 0; k < nrules && k < count; k++) {
        char *text = mt_arena_printf(&arena, "%s", "");
        for (int i = 0; i < op->nin + op->nout; i++) {
            int64_t extent[MT_MAX_AXES];
            bool input = i < op->nin;
            extents_of(g, input ? op->in[i] : op->out[i - op->nin], extent);
            int layout = input ? mt_rule_input(&table, g, op, &rules[k], NULL, i, extent)
                               : mt_rule_output(&table, g, op, &rules[k], NULL, i - op->nin, extent);
            text = mt_arena_printf(&arena, "%s%s%s", text,
                                   i == op->nin ? " -> "
                                   : i          ? ", "
                                                : "",
                                   mt_layout_text(&table, layout, &arena));
        }
        CHECK_TEXT(text, want[k]);
    }
    CHECK_EQ(nrules, count);
    mt_layouts_release(&table);
    mt_arena_release(&arena);
}

#define CHECK_RULES(graph, name, ...)                                                                                  \
    do {                                                                                                               \
        const char *const want_[] = {__VA_ARGS__};                                                                     \
        check_rules(graph, name, want_, (int)(sizeof want_ / sizeof *want_));                                          \
    } while (0)

static void test_layouts(const struct mt_graph *g) {
    /* x[b s e] w[e f] -> y[b s f]: rules in order of indices. */
    CHECK_RULES(g, "up", "R, R -> R", "S(0: 4 1), R -> S(0: 4 1)", "S(1: 2 1), R -> S(1: 2 1)",
                "S(2: 6 1), S(0: 6 1) -> P(sum)", "R, S(1: 8 1) -> S(2: 8 1)", "P(sum), R -> P(sum)",
                "R, P(sum) -> P(sum)");
    /* One label, two occurrences: summed over, or kept. */
    CHECK_RULES(g, "square", "R, R -> R", "S(0: 4 1), R -> S(0: 4 1)", "S(1: 2 1), R -> S(1: 2 1)",
                "S(2: 6 1), S(0: 6 1) -> P(sum)", "R, S(1: 6 1) -> S(2: 6 1)", "P(sum), R -> P(sum)",
                "R, P(sum) -> P(sum)");
    CHECK_RULES(g, "residual", "R, R -> R", "S(0: 4 1), S(0: 4 1) -> S(0: 4 1)", "S(1: 2 1), S(1: 2 1) -> S(1: 2 1)",
                "S(2: 6 1), S(2: 6 1) -> S(2: 6 1)", "P(sum), P(sum) -> P(sum)");
    /* Queries b s h d, keys and values b t 2 h d: samples, queries' positions, heads. */
    CHECK_RULES(g, "attention", "R, R -> R, R", "S(0: 4 1), S(0: 4 1) -> S(0: 4 1), S(0: 4 1)",
                "S(1: 2 1), R -> S(1: 2 1), S(2: 2 1)", "S(2: 2 1), S(3: 2 1) -> S(2: 2 1), S(1: 2 1)");
    CHECK_RULES(g, "attention/grad_q", "R, R, R, R, R -> R, R",
                "S(0: 4 1), S(0: 4 1), S(0: 4 1), S(0: 4 1), S(0: 4 1) -> S(0: 4 1), S(0: 4 1)",
                "S(1: 2 1), S(1: 2 1), R, S(1: 2 1), S(2: 2 1) -> S(1: 2 1), P(sum)",
                "S(2: 2 1), S(2: 2 1), S(3: 2 1), S(2: 2 1), S(1: 2 1) -> S(2: 2 1), S(3: 2 1)",
                "P(sum), R, R, R, R -> P(sum), P(sum)");
    /* Queries b s g n d: whole groups, or the queries of each, which sum the gradient of keys and values. */
    CHECK_RULES(g, "grouped", "R, R -> R, R", "S(0: 4 1), S(0: 4 1) -> S(0: 4 1), S(0: 4 1)",
                "S(1: 2 1), R -> S(1: 2 1), S(3: 2 1)", "S(2: 1 1), S(3: 1 1) -> S(2: 1 1), S(1: 1 1)",
                "S(3: 2 1), R -> S(3: 2 1), S(2: 2 1)");
    CHECK_RULES(g, "grouped/grad_q", "R, R, R, R, R -> R, R",
                "S(0: 4 1), S(0: 4 1), S(0: 4 1), S(0: 4 1), S(0: 4 1) -> S(0: 4 1), S(0: 4 1)",
                "S(1: 2 1), S(1: 2 1), R, S(1: 2 1), S(3: 2 1) -> S(1: 2 1), P(sum)",
                "S(2: 1 1), S(2: 1 1), S(3: 1 1), S(2: 1 1), S(1: 1 1) -> S(2: 1 1), S(3: 1 1)",
                "S(3: 2 1), S(3: 2 1), R, S(3: 2 1), S(2: 2 1) -> S(3: 2 1), P(sum)",
                "P(sum), R, R, R, R -> P(sum), P(sum)");
    CHECK_RULES(g, "parts", "R -> R, R", "S(0: 4 1) -> S(0: 4 1), S(0: 4 1)", "S(1: 2 1) -> S(1: 2 1), S(1: 2 1)",
                "S(3: 2 1) -> S(2: 2 1), S(3: 2 1)", "S(4: 1 1) -> S(3: 1 1), S(4: 1 1)", "P(sum) -> P(sum), P(sum)");
    CHECK_RULES(g, "parts/grad_x", "R, R -> R", "S(0: 4 1), S(0: 4 1) -> S(0: 4 1)",
                "S(1: 2 1), S(1: 2 1) -> S(1: 2 1)", "S(2: 2 1), S(3: 2 1) -> S(3: 2 1)",
                "S(3: 1 1), S(4: 1 1) -> S(4: 1 1)", "P(sum), P(sum) -> P(sum)");
    CHECK_RULES(g, "loss.max", "R -> R", "S(0: 4 1) -> S(0: 4 1)", "S(1: 2 1) -> S(1: 2 1)", "S(2: 10 1) -> P(max)");
    CHECK_RULES(g, "embed", "R, R -> R", "R, S(0: 4 1) -> S(0: 4 1)", "R, S(1: 2 1) -> S(1: 2 1)",
                "S(0: 10 1), R -> P(sum)", "S(1: 6 1), R -> S(2: 6 1)", "P(sum), R -> P(sum)");
    CHECK_RULES(g, "grad_scale", "R, R, R -> R");
    CHECK_RULES(g, "loss_scale/update", "R, R, R, R -> R, R, R");
    CHECK_RULES(g, "count", "R -> R", "S(0: 4 1) -> P(sum)", "S(1: 2 1) -> P(sum)");
}

int main(void) {
    struct dice dice = {.seed = 20261122};
    printf("seed %llu\n", (unsigned long long)dice.seed);
    struct mt_graph *g = model();
    test_layouts(g);
    test_numbers(&dice, g);
    mt_graph_free(g);
    return 0;
}
