/* A model's options, its canonical text, and the graph that its front-end builds. */
#include "synth/models/model.h"

#include <assert.h>
#include <string.h>

#include "synth/ops/ops.h"

int64_t mt_model_get(const struct mt_model *model, const char *option) {
    for (int i = 0; i < model->noptions; i++)
        if (!strcmp(model->options[i].name, option)) return model->options[i].value;
    assert(!"an option that the class does not have");
    return 0;
}

void mt_model_set(struct mt_model *model, const char *option, int64_t value) {
    for (int i = 0; i < model->noptions; i++)
        if (!strcmp(model->options[i].name, option)) model->options[i].value = value;
}

double mt_model_real(const struct mt_model *model, const char *option) {
    for (int i = 0; i < model->noptions; i++)
        if (!strcmp(model->options[i].name, option))
            return (double)model->options[i].value / (double)(model->options[i].per ? model->options[i].per : 1);
    assert(!"an option that the class does not have");
    return 0;
}

char *mt_model_option_text(const struct mt_model_option *o, int64_t value, struct mt_arena *arena) {
    if (o->per) return mt_arena_printf(arena, "%s=%.15g", o->name, (double)value / (double)o->per);
    return mt_arena_printf(arena, "%s=%lld", o->name, (long long)value);
}

char *mt_model_text(const struct mt_model *model, struct mt_arena *arena) {
    char *text = mt_arena_printf(arena, "%s:", model->class->name);
    for (int i = 0; i < model->noptions; i++)
        text = mt_arena_printf(arena, "%s%s%s", text, i ? "," : "",
                               mt_model_option_text(&model->options[i], model->options[i].value, arena));
    return text;
}

/* Element numbers must stay exact in double: no value has 2^53 elements or more. */
static enum mt_status check_sizes(const struct mt_graph *graph, struct mt_err *err) {
    for (int v = 0; v < graph->nvalues; v++) {
        double n = 1;
        for (int a = 0; a < graph->values[v].naxes; a++) n *= (double)mt_value_extent(graph, v, a);
        if (n >= 0x1p53)
            return mt_fail(err, MT_EINPUT, "%s would have %.3g elements: take a smaller batch, sequence or model",
                           graph->values[v].name, n);
    }
    return MT_OK;
}

enum mt_status mt_model_graph(const struct mt_model *model, enum mt_type type, int64_t batch, int64_t seq,
                              double dropout, struct mt_graph **graph, struct mt_err *err) {
    *graph = NULL;
    if (batch < 1) return mt_fail(err, MT_EINPUT, "the batch is %lld: it must be at least 1", (long long)batch);
    if (seq < 0) return mt_fail(err, MT_EINPUT, "the sequence is %lld: it must be at least 1", (long long)seq);
    if (!(dropout >= 0 && dropout < 1)) return mt_fail(err, MT_EINPUT, "dropout is %g, not in [0, 1)", dropout);
    struct mt_graph *made = mt_graph_new(type);
    enum mt_status st =
        model->class->build(model, batch, seq ? seq : mt_model_get(model, "context"), dropout, made, err);
    if (!st) {
        int targets = mt_graph_find_value(made, "targets");
        made->loss_sum = mt_op_cross_entropy(made, "loss", made->logits, targets);
        made->token_count = mt_op_count(made, "count", targets);
        st = check_sizes(made, err);
    }
    if (st) {
        mt_graph_free(made);
        return mt_err_context(err, "model %s", model->class->name);
    }
    *graph = made;
    return MT_OK;
}

double mt_model_flops_per_token(const struct mt_model *model, int64_t seq) {
    return model->class->flops_per_token(model, seq);
}

enum mt_status mt_model_check_seq(const struct mt_model *model, int64_t seq, struct mt_err *err) {
    int64_t context = mt_model_get(model, "context");
    if (seq <= context) return MT_OK;
    return mt_fail(err, MT_EINPUT, "a sequence of %lld is longer than the model's context=%lld", (long long)seq,
                   (long long)context);
}

int mt_model_residual(struct mt_graph *graph, const char *of, int x, int branch, double dropout) {
    char name[128];
    snprintf(name, sizeof name, "%s.dropout", of);
    branch = mt_op_dropout(graph, name, branch, dropout);
    snprintf(name, sizeof name, "%s.residual", of);
    return mt_op_add(graph, name, x, branch);
}

void mt_model_head(const struct mt_model *model, struct mt_graph *graph, int table, int x) {
    int head = table;
    if (!mt_model_get(model, "tied"))
        head = mt_graph_param(graph, "lm_head.weight", "vocab,embed", MT_INIT_NORMAL, 0.02);
    graph->logits = mt_op_matmul(graph, "lm_head", x, head, 1, MT_TRANS_B);
}
