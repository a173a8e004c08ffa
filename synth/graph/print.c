/* A graph as text: every label, value and operator with all that decides what is computed. The text's hash identifies
 * the graph. */
#include <stdlib.h>

#include "kernels/base/number/hash.h"
#include "kernels/base/text/printed.h"
#include "synth/graph/graph.h"

static void print_value(const struct mt_graph *graph, int value, FILE *file) {
    const struct mt_value *v = &graph->values[value];
    fprintf(file, "%s:%s[", v->name, mt_type_name(v->type));
    for (int a = 0; a < v->naxes; a++) fprintf(file, "%s%s", a ? " " : "", graph->labels[v->label[a]].name);
    fputc(']', file);
}

/* In the fewest digits that strtod reads back exactly. */
static void print_number(FILE *file, double value) {
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    fputs(text, file);
}

static void print_real(FILE *file, const char *name, double value) {
    if (value == 0) return;
    fprintf(file, " %s=", name);
    print_number(file, value);
}

static void print_whole(FILE *file, const char *name, long long value) {
    if (value != 0) fprintf(file, " %s=%lld", name, value);
}

/* Attributes that are not zero. */
#define WHOLE(field) print_whole(file, #field, (long long)at->field)
#define REAL(field) print_real(file, #field, at->field)
static void print_attr(const struct mt_op *op, FILE *file) {
    const struct mt_attr *at = &op->attr;
    WHOLE(nm), WHOLE(nn), WHOLE(nk), WHOLE(trans_a), WHOLE(trans_b), WHOLE(out_acc), WHOLE(tf32), WHOLE(axes),
        WHOLE(axis), WHOLE(parts), REAL(p), WHOLE(tag), REAL(scale), WHOLE(causal), WHOLE(window), WHOLE(any_order),
        REAL(eps), REAL(rope_base), REAL(rope_factor), REAL(rope_low), REAL(rope_high), WHOLE(rope_context),
        WHOLE(inverse), REAL(value);
    if (op->kind == MT_OP_cast || op->kind == MT_OP_fill) fprintf(file, " to=%s", mt_type_name(at->to));
    REAL(clip), REAL(beta1), REAL(beta2), REAL(momentum), REAL(decay), REAL(lr_scale), WHOLE(nesterov), WHOLE(interval);
}

static void print_op(const struct mt_graph *graph, int op, FILE *file) {
    const struct mt_op *o = &graph->ops[op];
    for (int i = 0; i < o->nout; i++) {
        if (i) fputs(", ", file);
        print_value(graph, o->out[i], file);
    }
    fprintf(file, " = %s(", mt_op_info[o->kind].name);
    for (int i = 0; i < o->nin; i++) fprintf(file, "%s%s", i ? ", " : "", graph->values[o->in[i]].name);
    fputc(')', file);
    print_attr(o, file);
    fputc('\n', file);
}

static void print_kept(const struct mt_graph *graph, int value, FILE *file) {
    static const char *const inits[] = {
        [MT_INIT_ZERO] = "zero", [MT_INIT_ONE] = "one", [MT_INIT_NORMAL] = "normal", [MT_INIT_CONSTANT] = "all"};
    const struct mt_value *v = &graph->values[value];
    if (v->kind == MT_VALUE_TEMP) return;
    fputs(v->kind == MT_VALUE_INPUT ? "input " : v->param ? "param " : "state ", file);
    print_value(graph, value, file);
    if (v->kind == MT_VALUE_STATE) {
        fprintf(file, " init %s", inits[v->init]);
        if (v->init == MT_INIT_NORMAL) {
            fputs(" with deviation ", file);
            print_number(file, v->init_std);
        }
        if (v->init == MT_INIT_CONSTANT) fputc(' ', file), print_number(file, v->init_std);
        if (v->decay) fputs(", decays", file);
        fputs(", dimensions end at", file);
        for (int d = 0; d < v->ndims; d++) fprintf(file, " %d", v->group_end[d]);
        if (v->next >= 0) fprintf(file, ", becomes %s", graph->values[v->next].name);
    }
    fputc('\n', file);
}

void mt_graph_print(const struct mt_graph *graph, FILE *file) {
    fprintf(file, "types %s, sums in %s\n", mt_type_name(graph->type), mt_type_name(graph->acc));
    for (int l = 0; l < graph->nlabels; l++)
        fprintf(file, "label %s %lld, in multiples of %lld%s\n", graph->labels[l].name,
                (long long)graph->labels[l].extent, (long long)graph->labels[l].align,
                l == graph->batch ? ", samples" : "");
    for (int v = 0; v < graph->nvalues; v++) print_kept(graph, v, file);
    enum mt_op_role role = MT_ROLE_FORWARD;
    static const char *const roles[] = {"forward", "backward", "update"};
    for (int i = 0; i < graph->nops; i++) {
        if (i == 0 || graph->ops[i].role != role) fprintf(file, "%s\n", roles[role = graph->ops[i].role]);
        fputs("  ", file);
        print_op(graph, i, file);
    }
    const int named[] = {graph->loss_sum, graph->token_count, graph->logits};
    static const char *const names[] = {"loss", "count", "logits"};
    for (int i = 0; i < 3; i++)
        if (named[i] >= 0) fprintf(file, "%s is %s\n", names[i], graph->values[named[i]].name);
}

void mt_graph_hash(const struct mt_graph *graph, char out[33]) {
    struct mt_printed printed;
    mt_graph_print(graph, mt_printed_begin(&printed));
    char *text = mt_printed_end(&printed);
    mt_hash_text(text, printed.length, out);
    free(text);
}
