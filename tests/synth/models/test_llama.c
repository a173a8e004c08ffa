/* Losses, gradients and ten steps of AdamW of small Llamas against other implementations, whose results are in golden/:
 * the formulas written out in PyTorch (fp64), and transformers' Llama and Qwen2 (fp32). All begin with weights and
 * tokens drawn by the same hash, below, so that the files have results alone.
 *
 * A file has lines "model TEXT", "batch N", "loss SUM count N", and then "gradient NAME N" or "after NAME N" with N
 * numbers on the next line: of the sum of the losses, and the weights after ten steps. A difference is measured
 * against the tensor's norm, or 1e-3 of what a tensor of its size has on average, if that is more. */
#include <stdlib.h>

#include "synth/autodiff/autodiff.h"
#include "synth/models/model.h"
#include "tests/synth/eval.h"

enum { STEPS = 10, FORWARD = 1u << MT_ROLE_FORWARD, BACKWARD = 1u << MT_ROLE_BACKWARD, UPDATE = 1u << MT_ROLE_UPDATE };

struct golden {
    FILE *file;
    struct mt_graph *graph;
    struct eval eval;
    enum mt_type type;
    double loss, count;
};

/* The draws of the golden files: FNV-1a of the name, then an integer hash of that and the element's number. */
static uint32_t draw(const char *name, int64_t i) {
    uint32_t x = 2166136261u;
    for (; *name; name++) x = (x ^ (unsigned char)*name) * 16777619u;
    x += 2654435761u * (uint32_t)i;
    x = (x ^ x >> 16) * 0x45d9f3bu;
    x = (x ^ x >> 16) * 0x45d9f3bu;
    return x ^ x >> 16;
}

/* Numbers that f32 holds exactly. */
static void set_weights(struct eval *e) {
    const struct mt_graph *g = e->graph;
    for (int v = 0; v < g->nvalues; v++) {
        if (!g->values[v].param) continue;
        bool norm = strstr(g->values[v].name, "norm") != NULL;
        for (int64_t i = 0; i < mt_value_count(g, v); i++) {
            double unit = (double)(draw(g->values[v].name, i) >> 10) / 0x1p22 - 0.5;
            eval_set(e, v, i, norm ? 1 + unit / 2 : unit);
        }
    }
}

static void set_tokens(struct eval *e) {
    const struct mt_graph *g = e->graph;
    static const char *const names[] = {"tokens", "targets"};
    uint32_t vocab = (uint32_t)g->labels[mt_graph_find_label(g, "vocab")].extent;
    for (int k = 0; k < 2; k++) {
        int v = mt_graph_find_value(g, names[k]);
        for (int64_t i = 0; i < mt_value_count(g, v); i++)
            eval_set_ids(e, v, i, k && i % 7 == 3 ? -1 : (int32_t)(draw(names[k], i) % vocab));
    }
}

static void open_golden(const char *name, enum mt_type type, struct golden *g) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_model model;
    struct mt_optimizer adamw = {.kind = MT_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .decay = 0.1, .clip = 1};
    char path[512], text[512], line[512];
    int batch;
    snprintf(path, sizeof path, "%s/tests/synth/models/golden/%s", MOTLEY_SOURCE, name);
    *g = (struct golden){.file = fopen(path, "r"), .type = type};
    CHECK(g->file, "cannot open %s", path);
    CHECK(fgets(line, sizeof line, g->file) && line[0] == '#', "%s has no head", name);
    CHECK_EQ(fscanf(g->file, "model %511s batch %d loss %lf count %lf", text, &batch, &g->loss, &g->count), 4);
    CHECK_OK(mt_model_parse(text, &model, &err), err);
    CHECK_OK(mt_model_graph(&model, type, batch, 0, 0, &g->graph, &err), err);
    CHECK_OK(mt_graph_differentiate(g->graph, &err), err);
    CHECK_OK(mt_graph_optimize(g->graph, &adamw, &err), err);
    g->eval = eval_new(g->graph);
    set_tokens(&g->eval);
    set_weights(&g->eval);
    g->eval.clock = (struct mt_clock){.step = 1, .seed = 1, .lr = 0.01};
}

static void close_golden(struct golden *g) {
    eval_free(&g->eval);
    mt_graph_free(g->graph);
    fclose(g->file);
}

/* Root mean square of all gradients, or of all weights. */
static double typical(const struct golden *g, bool gradient) {
    double squares = 0, n = 0;
    for (int v = 0; v < g->graph->nvalues; v++) {
        if (!g->graph->values[v].param) continue;
        int of = gradient ? g->graph->values[v].gradient : v;
        for (int64_t i = 0; i < mt_value_count(g->graph, v); i++, n++) squares += pow(eval_get(&g->eval, of, i), 2);
    }
    return sqrt(squares / n);
}

/* The tensor of the next two lines, of which the kind has been read. Returns how far it is off. */
static double next_tensor(struct golden *g, const char *kind) {
    bool gradient = !strcmp(kind, "gradient");
    char name[128];
    long n;
    CHECK(gradient || !strcmp(kind, "after"), "a line that begins with %s", kind);
    CHECK_EQ(fscanf(g->file, "%127s %ld", name, &n), 2);
    int v = mt_graph_find_value(g->graph, name);
    CHECK(v >= 0 && g->graph->values[v].param, "no parameter %s", name);
    CHECK_EQ(mt_value_count(g->graph, v), n);
    double apart = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        double want, got = eval_get(&g->eval, gradient ? g->graph->values[v].gradient : v, i);
        CHECK_EQ(fscanf(g->file, "%lf", &want), 1);
        apart += (got - want) * (got - want), norm += want * want;
    }
    double off = sqrt(apart) / fmax(sqrt(norm), 1e-3 * typical(g, gradient) * sqrt((double)n));
    double limit = g->type == MT_F32 ? 1e-5 : gradient ? 1e-9 : 1e-7;
    CHECK(off <= limit, "%s of %s is off by %g, not %g", kind, name, off, limit);
    return off;
}

/* States take the values that they become. */
static void advance(struct eval *e) {
    for (int v = 0; v < e->graph->nvalues; v++) {
        int next = e->graph->values[v].next;
        if (next >= 0)
            memcpy(e->data[v], e->data[next],
                   (size_t)(mt_value_count(e->graph, v) * mt_type_size(e->graph->values[v].type)));
    }
    e->clock.step++;
}

static void agrees(const char *name, enum mt_type type) {
    struct golden g;
    char kind[16];
    double worst[2] = {0, 0};
    int compared[2] = {0, 0}, params = 0;
    open_golden(name, type, &g);
    eval_run(&g.eval, FORWARD | BACKWARD | UPDATE);
    CHECK_NEAR(eval_get(&g.eval, g.graph->token_count, 0), g.count, 0);
    CHECK_NEAR(eval_get(&g.eval, g.graph->loss_sum, 0) / g.loss, 1, type == MT_F32 ? 1e-5 : 1e-9);
    while (fscanf(g.file, "%15s", kind) == 1) {
        bool after = !strcmp(kind, "after");
        for (bool first = after && !compared[1]; first && g.eval.clock.step <= STEPS; advance(&g.eval))
            if (g.eval.clock.step > 1) eval_run(&g.eval, FORWARD | BACKWARD | UPDATE);
        worst[after] = fmax(worst[after], next_tensor(&g, kind));
        compared[after]++;
    }
    for (int v = 0; v < g.graph->nvalues; v++) params += g.graph->values[v].param;
    CHECK_EQ(compared[0], params);
    CHECK_EQ(compared[1], type == MT_F32 ? 0 : params);
    printf("%s: %d gradients at most %.2g apart, weights after %d steps %.2g\n", name, params, worst[0], STEPS,
           worst[1]);
    close_golden(&g);
}

int main(void) {
    agrees("llama3_f64.txt", MT_F64);
    agrees("qwen2_f64.txt", MT_F64);
    agrees("llama3_f32.txt", MT_F32);
    agrees("qwen2_f32.txt", MT_F32);
    return 0;
}
