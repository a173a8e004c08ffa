/* The structure of graphs: operands and indices agree, roles are what the mathematics says, names are unique. */
#include "synth/job/job.h"
#include "synth/models/model.h"
#include "synth/ops/ops.h"
#include "tests/check.h"
#include "tests/synth/find_op.h"
#include "synth/autodiff/autodiff.h"

static struct mt_graph *training_graph(const char *text, enum mt_type type, double dropout,
                                       enum mt_optimizer_kind kind) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_model model;
    struct mt_graph *g;
    struct mt_optimizer optimizer = {.kind = kind, .decay = 0.1, .clip = 1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};
    CHECK_OK(mt_model_parse(text, &model, &err), err);
    CHECK_OK(mt_model_graph(&model, type, 4, 0, dropout, &g, &err), err);
    CHECK_OK(mt_graph_differentiate(g, &err), err);
    CHECK_OK(mt_graph_optimize(g, &optimizer, &err), err);
    return g;
}

static void check_operand(const struct mt_graph *g, const struct mt_op *op, int value, const int *index, bool *used) {
    for (int a = 0; a < MT_MAX_AXES; a++) {
        if (a >= g->values[value].naxes) {
            CHECK_EQ(index[a], -1);
            continue;
        }
        CHECK(index[a] >= 0 && index[a] < op->nindices, "%s", op->name);
        CHECK_EQ(mt_value_extent(g, value, a), g->labels[op->index_label[index[a]]].extent);
        CHECK_EQ(g->values[value].label[a], op->index_label[index[a]]);
        for (int b = 0; b < a; b++) CHECK(index[a] != index[b], "%s: an index twice on one operand", op->name);
        used[index[a]] = true;
    }
}

/* Every operator: maps, order, roles and links. */
static void check_structure(const struct mt_graph *g) {
    bool *made = mt_calloc((size_t)g->nvalues, sizeof *made);
    for (int v = 0; v < g->nvalues; v++) {
        made[v] = g->values[v].kind != MT_VALUE_TEMP;
        CHECK_EQ(mt_graph_find_value(g, g->values[v].name), v);
        CHECK_EQ(g->values[v].group_end[g->values[v].ndims ? g->values[v].ndims - 1 : 0],
                 g->values[v].ndims ? g->values[v].naxes : 0);
    }
    enum mt_op_role role = MT_ROLE_FORWARD;
    for (int i = 0; i < g->nops; i++) {
        const struct mt_op *op = &g->ops[i];
        bool used[MT_MAX_INDICES] = {false};
        CHECK_EQ(find_op(g, op->name), i);
        CHECK(op->role >= role, "%s: forward, backward, update", op->name);
        role = op->role;
        for (int k = 0; k < op->nin; k++) {
            CHECK(made[op->in[k]], "%s uses %s before it is made", op->name, g->values[op->in[k]].name);
            check_operand(g, op, op->in[k], op->in_index[k], used);
        }
        for (int o = 0; o < op->nout; o++) {
            CHECK(!made[op->out[o]], "%s makes %s again", op->name, g->values[op->out[o]].name);
            CHECK_EQ(g->values[op->out[o]].producer, i);
            made[op->out[o]] = true;
            check_operand(g, op, op->out[o], op->out_index[o], used);
        }
        for (int k = 0; k < op->nindices; k++) CHECK(used[k], "%s: index %d is nowhere", op->name, k);
        if (op->role == MT_ROLE_BACKWARD)
            CHECK(op->forward >= 0 && g->ops[op->forward].role == MT_ROLE_FORWARD, "%s", op->name);
        if (op->role == MT_ROLE_FORWARD) CHECK_EQ(op->forward, -1);
        if (op->kind == MT_OP_adamw || op->kind == MT_OP_sgd) CHECK(g->values[op->forward].param, "%s", op->name);
    }
    free(made);
}

/* States go on from step to step; every parameter has its gradient, update and optimizer state. */
static void check_states(const struct mt_graph *g, enum mt_optimizer_kind kind) {
    int params = 0, owned = 0;
    for (int v = 0; v < g->nvalues; v++) {
        const struct mt_value *value = &g->values[v];
        if (value->kind != MT_VALUE_STATE) continue;
        CHECK(value->next >= 0, "%s is not updated", value->name);
        const struct mt_op *update = &g->ops[g->values[value->next].producer];
        CHECK_EQ(update->kind, kind == MT_ADAMW ? MT_OP_adamw : MT_OP_sgd);
        CHECK_EQ(update->forward, value->param ? v : value->owner);
        CHECK_EQ(value->type, g->acc);
        if (value->param) {
            params++;
            CHECK_EQ(update->in[kind == MT_ADAMW ? 3 : 2], value->gradient);
            CHECK_NEAR(update->attr.decay, value->ndims >= 2 ? 0.1 : 0, 0);
        } else {
            owned++;
            const char *prefix = kind == MT_SGD ? "sgd.m." : value->next == update->out[1] ? "adamw.m." : "adamw.v.";
            char want[128];
            snprintf(want, sizeof want, "%s%s", prefix, g->values[value->owner].name);
            CHECK_TEXT(value->name, want);
        }
    }
    CHECK_EQ(owned, kind == MT_ADAMW ? 2 * params : params);
}

/* "batch:m seq:m embed:s" for one operator. */
static void check_roles(const struct mt_graph *g, const char *name, const char *want) {
    int id = find_op(g, name);
    CHECK(id >= 0, "%s", name);
    const struct mt_op *op = &g->ops[id];
    char got[256] = "";
    for (int i = 0; i < op->nindices; i++) {
        size_t used = strlen(got);
        snprintf(got + used, sizeof got - used, "%s%s:%c", i ? " " : "", g->labels[op->index_label[i]].name,
                 "msxw"[mt_op_index_role(op, i)]);
    }
    CHECK_TEXT(got, want);
}

/* The linear sets of one operator as input letters: "a,b" or "afg". */
static void check_linear(const struct mt_graph *g, const char *name, const char *want) {
    const struct mt_op *op = &g->ops[find_op(g, name)];
    unsigned sets[MT_MAX_IN];
    int n = mt_op_linear_sets(op, sets), used = 0;
    char got[64] = "";
    for (int s = 0; s < n; s++) {
        if (s) got[used++] = ',';
        for (int i = 0; i < MT_MAX_IN; i++)
            if (sets[s] >> i & 1) got[used++] = (char)('a' + i);
    }
    CHECK_TEXT(got, want);
}

static void gpt2_roles(void) {
    struct mt_graph *g = training_graph("gpt2:layers=1,heads=2,embed=8,context=4,vocab=16", MT_BF16, 0.1, MT_ADAMW);
    check_roles(g, "wte", "batch:m seq:m vocab:s embed:m");
    check_roles(g, "wte/grad_w", "batch:s seq:s vocab:m embed:m");
    check_roles(g, "embed", "batch:m seq:m embed:m");
    check_roles(g, "h.0.ln_1.sqdev", "batch:m seq:m embed:s");
    check_roles(g, "h.0.ln_1", "batch:m seq:m embed:m");
    check_roles(g, "h.0.ln_1/grad_dots", "batch:m seq:m embed:s");
    check_roles(g, "h.0.ln_1/grad_x", "batch:m seq:m embed:m");
    check_roles(g, "h.0.ln_1/grad_w", "batch:s seq:s embed:m");
    check_roles(g, "h.0.attn.c_attn", "batch:m seq:m embed:s three:m heads:m headsize:m");
    check_roles(g, "h.0.attn.c_attn/grad_w", "batch:s seq:s embed:m three:m heads:m headsize:m");
    check_roles(g, "h.0.attn", "batch:m seq:m heads:m headsize:w seq:w two:w");
    check_roles(g, "h.0.attn/grad_q", "batch:m seq:s heads:m headsize:w seq:w two:w");
    check_roles(g, "h.0.attn.qkv", "batch:m seq:m heads:m headsize:m three:w two:w");
    check_roles(g, "h.0.attn.qkv/grad_x", "batch:m seq:m heads:m headsize:m two:w three:w");
    check_roles(g, "h.0.attn.c_proj", "batch:m seq:m heads:s headsize:s embed:m");
    check_roles(g, "h.0.mlp.gelu", "batch:m seq:m ffn:m");
    check_roles(g, "lm_head", "batch:m seq:m embed:s vocab:m");
    check_roles(g, "loss.max", "batch:m seq:m vocab:x");
    check_roles(g, "loss.exp_sum", "batch:m seq:m vocab:s");
    check_roles(g, "loss.pick", "batch:m seq:m vocab:s");
    check_roles(g, "loss.nll", "batch:m seq:m");
    check_roles(g, "loss.nll/grad_x", "batch:m seq:m vocab:m");
    check_roles(g, "loss", "batch:s seq:s");
    check_roles(g, "count", "batch:s seq:s");
    check_roles(g, "wte.weight/cast", "vocab:m embed:m");
    check_roles(g, "wte.weight/sq_norm", "vocab:s embed:s");
    check_roles(g, "wte.weight/update", "vocab:m embed:m");
    check_roles(g, "grad_scale", "");
    check_linear(g, "h.0.mlp.c_fc", "a,b");
    check_linear(g, "embed", "ab");
    check_linear(g, "h.0.ln_1/grad_x", "afg");
    check_linear(g, "h.0.attn/grad_q", "a");
    check_linear(g, "h.0.attn.qkv", "a");
    check_linear(g, "h.0.attn.qkv/grad_x", "ab");
    check_linear(g, "h.0.attn", "");
    check_linear(g, "h.0.mlp.gelu", "");
    check_linear(g, "h.0.mlp.gelu/grad_x", "a");
    check_linear(g, "loss.nll/grad_x", "e");
    check_linear(g, "loss.nll", "");
    check_linear(g, "wte.weight/update", "");
    mt_graph_free(g);
}

/* A square layer: one label, two indices, of which one is summed. */
static void square_layer(void) {
    struct mt_graph *g = training_graph("mlp:context=3,embed=4,hidden=8,vocab=16", MT_F32, 0, MT_SGD);
    check_roles(g, "hidden.0", "batch:m seq:s embed:s hidden:m");
    check_roles(g, "hidden.1", "batch:m hidden:s hidden:m");
    check_roles(g, "hidden.1/grad_w", "batch:s hidden:m hidden:m");
    mt_graph_free(g);
}

/* GEMMs by their formula: forward and twice that backward; attention by the pairs that see each other. */
static void work(void) {
    struct mt_graph *g = training_graph("gpt2:layers=3,heads=2,embed=8,context=5,vocab=16", MT_F32, 0, MT_ADAMW);
    double gemms = 0, forward = 0, backward = 0, all = 0;
    for (int i = 0; i < g->nops; i++) {
        int64_t extent[MT_MAX_INDICES];
        mt_op_extents(g, &g->ops[i], extent);
        double flops = mt_op_flops(&g->ops[i], extent);
        all += flops;
        if (g->ops[i].kind == MT_OP_matmul) gemms += flops;
        if (g->ops[i].kind == MT_OP_attention) forward += flops;
        if (g->ops[i].kind == MT_OP_attention_grad) backward += flops;
    }
    CHECK_NEAR(gemms, 3.0 * 2 * (4 * 5) * (3 * 12 * 8 * 8 + 16 * 8), 0);
    CHECK_NEAR(forward, 3.0 * 4 * 2 * (1 + 2 + 3 + 4 + 5) * (2 * 2 * 4), 0);
    CHECK_NEAR(backward, 2.5 * forward, 0);
    CHECK_NEAR(mt_graph_flops(g), all, 0);
    const struct mt_op *fc = &g->ops[find_op(g, "h.0.mlp.c_fc")];
    int64_t half[MT_MAX_INDICES];
    mt_op_extents(g, fc, half);
    half[0] = 2; /* of 4 samples */
    CHECK_NEAR(mt_op_flops(fc, half), 2 * 2 * 5 * 8 * 32, 0);
    mt_graph_free(g);
}

/* Gradients of late layers come first, and a weight's before the data's. */
static void backward_order(void) {
    struct mt_graph *g = training_graph("gpt2:layers=2,heads=2,embed=8,context=4,vocab=16,tied=0", MT_F32, 0, MT_ADAMW);
    const char *const order[] = {
        "lm_head/grad_w",         "lm_head/grad_x",      "h.1.mlp.c_fc/grad_w",    "h.1.mlp.c_fc/grad_x",
        "h.1.attn.c_attn/grad_w", "h.0.mlp.c_fc/grad_w", "h.0.attn.c_attn/grad_w", "wte/grad_w"};
    for (int i = 1; i < 8; i++) CHECK(find_op(g, order[i - 1]) < find_op(g, order[i]), "%s", order[i]);
    mt_graph_free(g);
}

/* While a tied table's gradient is sent, the first layers' weights get theirs: as much as half of it, from the end of
 * the pass. Names and producers go with the operators. Not where backward makes things again: memory is short there. */
static void delayed_gradients(void) {
    struct mt_err err = MT_ERR_INIT;
    for (int again = 0; again < 2; again++) {
        struct mt_model model;
        struct mt_graph *g;
        CHECK_OK(mt_model_parse("gpt2:layers=4,heads=2,embed=8,context=4,vocab=500", &model, &err), err);
        CHECK_OK(mt_model_graph(&model, MT_F32, 4, 0, 0, &g, &err), err);
        mt_graph_recompute(g, again ? MT_RECOMPUTE_POINTWISE : MT_RECOMPUTE_NONE);
        CHECK_OK(mt_graph_differentiate(g, &err), err);
        int table = g->values[mt_graph_find_value(g, "wte.weight")].gradient, at = g->values[table].producer;
        int64_t behind = 0, before = 0;
        for (int o = 0; o < g->nops; o++) {
            const struct mt_op *op = &g->ops[o];
            CHECK_EQ(find_op(g, op->name), o);
            for (int i = 0; i < op->nin; i++) CHECK(g->values[op->in[i]].producer < o, "%s", op->name);
            for (int i = 0; i < op->nout; i++) CHECK_EQ(g->values[op->out[i]].producer, o);
            if (op->role == MT_ROLE_BACKWARD && op->kind == MT_OP_matmul && strstr(op->name, "/grad_w"))
                *(o > at ? &behind : &before) += mt_value_count(g, op->out[0]);
        }
        int64_t most = mt_value_count(g, table) / 2, widest = 8 * 32;
        CHECK(again ? behind == 0 : behind > most - widest - 64 && behind <= most, "%lld", (long long)behind);
        CHECK(before > 0, "none is left");
        CHECK((find_op(g, "h.0.attn.c_attn/grad_w") > at) == !again, "the first layer's");
        CHECK(find_op(g, "h.3.mlp.c_proj/grad_w") < at, "the last layer's");
        mt_graph_free(g);
    }
}

/* A gradient that is one more operator's business is made where it was: here that of p, as q's way begins with it. */
static void gradient_in_use(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_graph *g = mt_graph_new(MT_F32);
    const struct mt_label labels[] = {{"batch", 4, 1}, {"seq", 3, 1}, {"embed", 8, 1}, {"vocab", 500, 1}};
    CHECK_OK(mt_graph_labels(g, labels, 4, &err), err);
    int table = mt_graph_param(g, "table", "vocab,embed", MT_INIT_NORMAL, 1);
    int p = mt_graph_param(g, "p", "embed", MT_INIT_NORMAL, 1), q = mt_graph_param(g, "q", "embed", MT_INIT_NORMAL, 1);
    int x = mt_op_embedding(g, "x", table, mt_graph_input(g, "tokens", MT_I32, "batch seq"));
    int y = mt_op_add(g, "y", x, mt_op_add(g, "w", p, mt_op_gelu(g, "bent", q)));
    int logits = mt_op_matmul(g, "head", y, table, 1, MT_TRANS_B);
    g->loss_sum = mt_op_cross_entropy(g, "loss", logits, mt_graph_input(g, "targets", MT_I32, "batch seq"));
    CHECK_OK(mt_graph_differentiate(g, &err), err);
    for (int o = 0; o < g->nops; o++)
        for (int i = 0; i < g->ops[o].nin; i++) CHECK(g->values[g->ops[o].in[i]].producer < o, "%s", g->ops[o].name);
    mt_graph_free(g);
}

/* Unequal graphs have unequal hashes, equal ones equal. */
static void hashes(void) {
    char a[33], b[33], c[33], d[33];
    struct mt_graph *g[] = {
        training_graph("gpt2:char", MT_F32, 0.1, MT_ADAMW), training_graph("gpt2:char", MT_F32, 0.1, MT_ADAMW),
        training_graph("gpt2:char", MT_F32, 0.2, MT_ADAMW), training_graph("gpt2:char,heads=8", MT_F32, 0.1, MT_ADAMW)};
    char *const hash[] = {a, b, c, d};
    for (int i = 0; i < 4; i++) mt_graph_hash(g[i], hash[i]), mt_graph_free(g[i]);
    CHECK_TEXT(a, b);
    CHECK(strcmp(a, c) && strcmp(a, d) && strcmp(c, d), "%s %s %s", a, c, d);
}

/* What the job allows reaches the gradients of attention, and nothing else; another graph it is all the same. */
static void any_order(void) {
    char fixed[33], any[33];
    for (int allowed = 0; allowed < 2; allowed++) {
        struct mt_err err = MT_ERR_INIT;
        struct mt_model model;
        struct mt_graph *g;
        int gradients = 0;
        CHECK_OK(mt_model_parse("gpt2:layers=3", &model, &err), err);
        CHECK_OK(mt_model_graph(&model, MT_F32, 4, 0, 0, &g, &err), err);
        mt_graph_set_precision(g, &(struct mt_job){.precision = MT_F32, .any_order = allowed});
        CHECK_OK(mt_graph_differentiate(g, &err), err);
        for (int i = 0; i < g->nops; i++) {
            CHECK_EQ(g->ops[i].attr.any_order, allowed && g->ops[i].kind == MT_OP_attention_grad);
            gradients += g->ops[i].kind == MT_OP_attention_grad;
        }
        CHECK_EQ(gradients, 3);
        mt_graph_hash(g, allowed ? any : fixed);
        mt_graph_free(g);
    }
    CHECK(strcmp(fixed, any), "%s", any);
}

static void labels_and_names(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_graph *g = mt_graph_new(MT_F32);
    int first, again;
    CHECK_OK(mt_graph_label(g, "batch", 4, 1, &first, &err), err);
    CHECK_OK(mt_graph_label(g, "batch", 4, 1, &again, &err), err);
    CHECK_EQ(first, again);
    CHECK_EQ(mt_graph_label(g, "batch", 5, 1, &again, &err), MT_EINPUT);
    CHECK(strstr(err.text, "batch") && strstr(err.text, "4") && strstr(err.text, "5"), "%s", err.text);
    CHECK_EQ(mt_graph_find_label(g, "seq"), -1);
    for (int i = 0; i < 300; i++) mt_graph_value(g, "x", MT_VALUE_TEMP, MT_F32, 1, &first);
    CHECK_EQ(mt_graph_find_value(g, "x"), 0);
    CHECK_EQ(mt_graph_find_value(g, "x.300"), 299);
    CHECK_EQ(mt_graph_find_value(g, "x.301"), -1);
    mt_graph_free(g);
}

/* A parameter that the loss does not depend on is refused by name. */
static void unused_parameter(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_graph *g = mt_graph_new(MT_F32);
    const struct mt_label labels[] = {{"batch", 4, 1}, {"vocab", 8, 1}};
    CHECK_OK(mt_graph_labels(g, labels, 2, &err), err);
    int used = mt_graph_param(g, "used", "batch,vocab", MT_INIT_ZERO, 0);
    mt_graph_param(g, "forgotten", "vocab", MT_INIT_ZERO, 0);
    g->loss_sum = mt_op_cross_entropy(g, "loss", used, mt_graph_input(g, "targets", MT_I32, "batch"));
    CHECK_EQ(mt_graph_differentiate(g, &err), MT_EBUG);
    CHECK(strstr(err.text, "forgotten"), "%s", err.text);
    mt_graph_free(g);
}

int main(void) {
    static const char *const texts[] = {"gpt2:layers=2,heads=2,embed=8,context=4,vocab=16",
                                        "gpt2:layers=2,heads=2,embed=8,context=4,vocab=16,tied=0,bias=0",
                                        "mlp:layers=3"};
    for (int t = 0; t < 3; t++)
        for (enum mt_type type = MT_F64; type <= MT_BF16; type++) {
            enum mt_optimizer_kind kind = t == 1 ? MT_SGD : MT_ADAMW;
            struct mt_graph *g = training_graph(texts[t], type, type == MT_F32 ? 0 : 0.1, kind);
            check_structure(g);
            check_states(g, kind);
            mt_graph_free(g);
        }
    gpt2_roles();
    square_layer();
    work();
    backward_order();
    delayed_gradients();
    gradient_in_use();
    hashes();
    any_order();
    labels_and_names();
    unused_parameter();
    return 0;
}
