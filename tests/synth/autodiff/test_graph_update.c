/* A whole training step: norm, clipping and updates against the formulas written out here; and that steps learn. */
#include "synth/job/job.h"
#include "synth/models/model.h"
#include "tests/synth/eval.h"
#include "synth/autodiff/autodiff.h"

enum { ALL = 1u << MT_ROLE_FORWARD | 1u << MT_ROLE_BACKWARD | 1u << MT_ROLE_UPDATE };

static struct mt_graph *training_graph(const char *text, const struct mt_optimizer *optimizer, double loss_scale) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_model model;
    struct mt_graph *g;
    CHECK_OK(mt_model_parse(text, &model, &err), err);
    CHECK_OK(mt_model_graph(&model, MT_F64, 6, 0, 0, &g, &err), err);
    mt_graph_set_precision(g,
                           &(struct mt_job){.precision = MT_F64, .loss_scale = loss_scale, .loss_scale_interval = 2});
    CHECK_OK(mt_graph_differentiate(g, &err), err);
    CHECK_OK(mt_graph_optimize(g, optimizer, &err), err);
    return g;
}

/* States take the values that they become. */
static void advance(struct eval *e) {
    for (int v = 0; v < e->graph->nvalues; v++) {
        int next = e->graph->values[v].next;
        if (next >= 0) memcpy(e->data[v], e->data[next], (size_t)mt_value_count(e->graph, v) * sizeof(double));
    }
    e->clock.step++;
}

static double whole_norm(const struct eval *e, double count) {
    double sq = 0;
    for (int v = 0; v < e->graph->nvalues; v++) {
        if (!e->graph->values[v].param) continue;
        for (int64_t i = 0; i < mt_value_count(e->graph, v); i++) {
            double g = eval_get(e, e->graph->values[v].gradient, i) / count;
            sq += g * g;
        }
    }
    return sqrt(sq);
}

/* State `prefix`.NAME of a parameter. */
static int state(const struct mt_graph *g, const char *prefix, int param) {
    char name[128];
    snprintf(name, sizeof name, "%s.%s", prefix, g->values[param].name);
    int v = mt_graph_find_value(g, name);
    CHECK(v >= 0, "%s", name);
    return v;
}

/* One element before and after, with the gradient g that is already divided and clipped. */
static void check_adamw(const struct eval *e, const struct mt_optimizer *o, int param, int64_t i, double g) {
    const struct mt_value *value = &e->graph->values[param];
    int sm = state(e->graph, "adamw.m", param), sv = state(e->graph, "adamw.v", param);
    double step = (double)e->clock.step, w = eval_get(e, param, i);
    double m = o->beta1 * eval_get(e, sm, i) + (1 - o->beta1) * g;
    double v = o->beta2 * eval_get(e, sv, i) + (1 - o->beta2) * g * g;
    double change = m / (1 - pow(o->beta1, step)) / (sqrt(v / (1 - pow(o->beta2, step))) + o->eps);
    double decay = value->ndims > 1 ? o->decay : 0;
    CHECK_NEAR(eval_get(e, value->next, i), w - e->clock.lr * (change + decay * w), 1e-14);
    CHECK_NEAR(eval_get(e, e->graph->values[sm].next, i), m, 1e-15);
    CHECK_NEAR(eval_get(e, e->graph->values[sv].next, i), v, 1e-15);
}

static void check_sgd(const struct eval *e, const struct mt_optimizer *o, int param, int64_t i, double g) {
    const struct mt_value *value = &e->graph->values[param];
    int sm = state(e->graph, "sgd.m", param);
    double w = eval_get(e, param, i), d = g + (value->ndims > 1 ? o->decay : 0) * w;
    double m = o->momentum * eval_get(e, sm, i) + d;
    CHECK_NEAR(eval_get(e, value->next, i), w - e->clock.lr * (o->nesterov ? d + o->momentum * m : m), 1e-14);
    CHECK_NEAR(eval_get(e, e->graph->values[sm].next, i), m, 1e-14);
}

static void check_steps(const char *text, const struct mt_optimizer *o, bool clips) {
    struct mt_graph *g = training_graph(text, o, 0);
    struct eval e = eval_new(g);
    e.clock.step = 1;
    eval_inputs(&e, 9);
    eval_init(&e, 77);
    for (int step = 0; step < 3; step++) {
        eval_run(&e, ALL);
        double count = eval_get(&e, g->token_count, 0), norm = whole_norm(&e, count);
        CHECK(!clips || norm > 1.1 * o->clip, "norm %g does not clip", norm);
        CHECK_NEAR(sqrt(eval_get(&e, g->sq_norm, 0)) / count, norm, 1e-12 * norm);
        double scale = 1 / count * (clips ? o->clip / (norm + 1e-6) : 1);
        CHECK_NEAR(eval_get(&e, g->scale, 0), scale, 1e-12 * scale);
        for (int v = 0; v < g->nvalues; v++)
            for (int64_t i = 0; g->values[v].param && i < mt_value_count(g, v); i++) {
                double gradient = eval_get(&e, g->values[v].gradient, i) * scale;
                if (o->kind == MT_ADAMW)
                    check_adamw(&e, o, v, i, gradient);
                else
                    check_sgd(&e, o, v, i, gradient);
            }
        advance(&e);
    }
    eval_free(&e);
    mt_graph_free(g);
}

/* A scaled loss: the same steps, but those that overflow, which leave everything as it was and do not count. */
static void check_scaled(const char *text, const struct mt_optimizer *o) {
    enum { STEPS = 8, OVERFLOWS = 1 << 1 | 1 << 2 | 1 << 6 };
    static const double scales[STEPS + 1] = {8, 8, 8, 8, 8, 16, 16, 16, 16};
    struct mt_graph *plain = training_graph(text, o, 0), *scaled = training_graph(text, o, 8);
    struct eval want = eval_new(plain), e = eval_new(scaled);
    want.clock.step = e.clock.step = 1;
    eval_inputs(&want, 9), eval_inputs(&e, 9);
    eval_init(&want, 77), eval_init(&e, 77);
    int skipped = 0;
    for (int step = 0; step < STEPS; step++) {
        bool overflows = OVERFLOWS >> step & 1;
        double scale = overflows ? 1e300 : scales[step];
        eval_set(&e, scaled->loss_scale, 0, scale);
        eval_run(&e, ALL);
        CHECK(!isfinite(eval_get(&e, scaled->sq_norm, 0)) == overflows, "step %d", step);
        skipped += overflows;
        advance(&e);
        CHECK_NEAR(eval_get(&e, scaled->skipped_steps, 0), skipped, 0);
        CHECK_NEAR(eval_get(&e, scaled->loss_scale, 0), overflows ? scale / 2 : scales[step + 1], 0);
        if (!overflows) {
            eval_run(&want, ALL);
            advance(&want);
        }
        for (int v = 0; v < plain->nvalues; v++) {
            if (plain->values[v].kind != MT_VALUE_STATE) continue;
            int same = mt_graph_find_value(scaled, plain->values[v].name);
            for (int64_t i = 0; i < mt_value_count(plain, v); i++)
                CHECK(eval_get(&e, same, i) == eval_get(&want, v, i), "step %d: %s", step, plain->values[v].name);
        }
    }
    eval_free(&want), eval_free(&e);
    mt_graph_free(plain), mt_graph_free(scaled);
}

/* Twenty-five steps on one batch of random tokens: what can be learnt by heart is. */
static void learns(const char *text) {
    struct mt_optimizer o = {.kind = MT_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .clip = 1};
    struct mt_graph *g = training_graph(text, &o, 0);
    struct eval e = eval_new(g);
    e.clock.step = 1;
    e.clock.lr = 1e-2;
    eval_inputs(&e, 9);
    eval_init(&e, 77);
    double first = 0, last = 0;
    for (int step = 0; step < 25; step++) {
        eval_run(&e, ALL);
        last = eval_get(&e, g->loss_sum, 0);
        if (step == 0) first = last;
        advance(&e);
    }
    CHECK(last < 0.4 * first, "%s: from %g to %g", text, first, last);
    eval_free(&e);
    mt_graph_free(g);
}

int main(void) {
    const char *gpt2 = "gpt2:layers=2,heads=2,embed=16,context=8,vocab=13",
               *mlp = "mlp:context=4,embed=8,hidden=16,vocab=13";
    struct mt_optimizer adamw = {.kind = MT_ADAMW, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .decay = 0.2};
    struct mt_optimizer sgd = {.kind = MT_SGD, .momentum = 0.7, .decay = 0.2};
    check_steps(gpt2, &adamw, false);
    check_steps(mlp, &sgd, false);
    adamw.clip = sgd.clip = 0.05;
    sgd.nesterov = true;
    check_steps(gpt2, &adamw, true);
    check_steps(gpt2, &sgd, true);
    check_scaled(gpt2, &adamw);
    check_scaled(mlp, &sgd);
    learns(gpt2);
    learns(mlp);
    learns("llama:layers=2,heads=4,kv_heads=2,embed=16,context=8,vocab=13");
    return 0;
}
