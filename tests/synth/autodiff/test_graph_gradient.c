/* Gradients of whole graphs against central finite differences in f64, and the narrow types against f64. */
#include <omp.h>

#include "synth/models/model.h"
#include "synth/ops/ops.h"
#include "tests/synth/eval.h"
#include "synth/autodiff/autodiff.h"

enum { FORWARD = 1u << MT_ROLE_FORWARD, BACKWARD = 1u << MT_ROLE_BACKWARD };

/* Parameters far from their gentle beginning, so that every path matters. */
static void randomize(struct eval *e) {
    const struct mt_graph *g = e->graph;
    for (int v = 0; v < g->nvalues; v++) {
        if (!g->values[v].param) continue;
        double mean = g->values[v].init == MT_INIT_ONE;
        for (int64_t i = 0; i < mt_value_count(g, v); i++)
            eval_set(e, v, i, mean + 0.3 * mt_random_normal(11, (uint64_t)v, (uint64_t)i));
    }
}

static double loss(struct eval *e) {
    eval_run(e, FORWARD);
    return eval_get(e, e->graph->loss_sum, 0);
}

/* d loss / d element, by the values at +h and -h. */
static double slope(struct eval *e, int param, int64_t i) {
    double h = 1e-5, old = eval_get(e, param, i);
    eval_set(e, param, i, old + h);
    double above = loss(e);
    eval_set(e, param, i, old - h);
    double below = loss(e);
    eval_set(e, param, i, old);
    return (above - below) / (2 * h);
}

/* Elements spread over the parameter, and all of a small one. */
static void check_param(struct eval *e, int param) {
    const struct mt_graph *g = e->graph;
    int gradient = g->values[param].gradient;
    CHECK(gradient >= 0, "%s", g->values[param].name);
    CHECK_EQ(g->values[gradient].type, g->acc);
    int64_t n = mt_value_count(g, param), most = 10;
    CHECK_EQ(mt_value_count(g, gradient), n);
    double largest = 0;
    for (int64_t k = 0; k < (n < most ? n : most); k++) {
        int64_t i = n < most ? k : (int64_t)mt_random_below(5, (uint64_t)param, (uint64_t)k, (uint64_t)n);
        double want = slope(e, param, i), got = eval_get(e, gradient, i);
        CHECK(fabs(got - want) <= 2e-8 + 1e-6 * fabs(want), "%s[%lld]: %.12g, but by differences %.12g",
              g->values[param].name, (long long)i, got, want);
        largest = fmax(largest, fabs(want));
    }
    CHECK(largest > 1e-3, "%s: no gradient to speak of", g->values[param].name);
}

static void check_graph(struct mt_graph *g) {
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_graph_differentiate(g, &err), err);
    struct eval e = eval_new(g);
    eval_inputs(&e, 21);
    randomize(&e);
    eval_run(&e, FORWARD | BACKWARD);
    for (int v = 0; v < g->nvalues; v++)
        if (g->values[v].param) check_param(&e, v);
    eval_free(&e);
}

static struct mt_graph *model_graph(const char *text, enum mt_type type, int64_t seq, double dropout) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_model model;
    struct mt_graph *g;
    CHECK_OK(mt_model_parse(text, &model, &err), err);
    CHECK_OK(mt_model_graph(&model, type, 3, seq, dropout, &g, &err), err);
    return g;
}

static void models_in_f64(void) {
    for (int bits = 0; bits < 8; bits++) {
        char text[128];
        snprintf(text, sizeof text, "gpt2:layers=2,heads=2,embed=8,context=6,vocab=11,ffn=12,bias=%d,tied=%d", bits & 1,
                 bits >> 1 & 1);
        struct mt_graph *g = model_graph(text, MT_F64, 5, bits >> 2 ? 0.3 : 0);
        check_graph(g);
        mt_graph_free(g);
    }
    for (int bits = 0; bits < 8; bits++) { /* one head of keys for 1, 2 or 4 query heads */
        char text[192];
        snprintf(text, sizeof text,
                 "llama:layers=2,heads=4,kv_heads=%d,embed=8,headsize=4,ffn=12,context=7,vocab=11,eps=0.01,qkv_bias=%d,"
                 "tied=%d,window=%d,theta=10,rope_factor=%d,rope_context=5,rope_low=0.5,rope_high=2",
                 bits == 5  ? 4
                 : bits & 1 ? 2
                            : 1,
                 bits & 1, bits >> 1 & 1, bits & 1 ? 3 : 0, bits > 3 ? 4 : 0);
        struct mt_graph *g = model_graph(text, MT_F64, 7, bits >> 2 ? 0.3 : 0);
        check_graph(g);
        mt_graph_free(g);
    }
    for (int layers = 1; layers <= 3; layers += 2) {
        char text[128];
        snprintf(text, sizeof text, "mlp:context=4,embed=5,hidden=7,vocab=9,layers=%d", layers);
        struct mt_graph *g = model_graph(text, MT_F64, 0, layers > 1 ? 0.3 : 0);
        check_graph(g);
        mt_graph_free(g);
    }
}

/* Both operands are parameters; all ways to store them, several axes in every group. */
static void gemms(void) {
    struct mt_err err = MT_ERR_INIT;
    for (int flags = 0; flags < 4; flags++) {
        struct mt_graph *g = mt_graph_new(MT_F64);
        const struct mt_label labels[] = {{"m1", 2, 1}, {"m2", 3, 1}, {"k1", 4, 1}, {"k2", 2, 1}, {"vocab", 5, 1}};
        for (int l = 0; l < 5; l++) {
            int id;
            CHECK_OK(mt_graph_label(g, labels[l].name, labels[l].extent, 1, &id, &err), err);
        }
        int a = mt_graph_param(g, "a", flags & MT_TRANS_A ? "k1 k2 m1 m2" : "m1 m2 k1 k2", MT_INIT_NORMAL, 1);
        int b = mt_graph_param(g, "b", flags & MT_TRANS_B ? "vocab k1 k2" : "k1 k2 vocab", MT_INIT_NORMAL, 1);
        int targets = mt_graph_input(g, "targets", MT_I32, "m1 m2");
        int y = mt_op_matmul(g, "y", a, b, 2, flags);
        y = mt_op_add(g, "twice", y, y); /* two uses of one value */
        g->loss_sum = mt_op_cross_entropy(g, "loss", y, targets);
        check_graph(g);
        mt_graph_free(g);
    }
}

/* ‖a - b‖ / ‖b‖ over one gradient; a may be of a narrower type. */
static double distance(const struct eval *a, const struct eval *b, int va, int vb) {
    double apart = 0, norm = 0;
    for (int64_t i = 0; i < mt_value_count(a->graph, va); i++) {
        double x = eval_get(a, va, i), y = eval_get(b, vb, i);
        apart += (x - y) * (x - y), norm += y * y;
    }
    return sqrt(apart / norm);
}

/* In bf16 parameters pass through casts and gradients change type on the way; they must mean the same. */
static void narrow_types(const char *text, double dropout) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_graph *wide = model_graph(text, MT_F64, 0, dropout);
    CHECK_OK(mt_graph_differentiate(wide, &err), err);
    struct eval reference = eval_new(wide);
    eval_inputs(&reference, 21);
    randomize(&reference);
    /* Numbers that bf16 holds exactly, so that only the arithmetic differs. */
    for (int v = 0; v < wide->nvalues; v++)
        for (int64_t i = 0; wide->values[v].param && i < mt_value_count(wide, v); i++)
            eval_set(&reference, v, i, mt_bf16_to_f32(mt_bf16_from_f32((float)eval_get(&reference, v, i))));
    eval_run(&reference, FORWARD | BACKWARD);
    for (enum mt_type type = MT_F32; type <= MT_BF16; type++) {
        struct mt_graph *g = model_graph(text, type, 0, dropout);
        CHECK_OK(mt_graph_differentiate(g, &err), err);
        struct eval e = eval_new(g);
        eval_inputs(&e, 21);
        for (int v = 0; v < g->nvalues; v++) {
            if (g->values[v].kind == MT_VALUE_TEMP) continue;
            int same = mt_graph_find_value(wide, g->values[v].name);
            for (int64_t i = 0; i < mt_value_count(g, v); i++)
                if (g->values[v].param)
                    eval_set(&e, v, i, eval_get(&reference, same, i));
                else
                    eval_set_ids(&e, v, i, ((int32_t *)reference.data[same])[i]);
        }
        eval_run(&e, FORWARD | BACKWARD);
        for (int v = 0; v < g->nvalues; v++) {
            if (!g->values[v].param) continue;
            int same = wide->values[mt_graph_find_value(wide, g->values[v].name)].gradient;
            double apart = distance(&e, &reference, g->values[v].gradient, same);
            CHECK(apart < (type == MT_F32 ? 1e-5 : 0.05), "%s of %s: %g from f64", g->values[v].name,
                  mt_type_name(type), apart);
        }
        eval_free(&e);
        mt_graph_free(g);
    }
    eval_free(&reference);
    mt_graph_free(wide);
}

int main(void) {
    omp_set_num_threads(1); /* a hundred thousand tiny operators: a team would cost more than it gives */
    gemms();
    models_in_f64();
    narrow_types("gpt2:layers=2,heads=2,embed=16,context=6,vocab=11", 0.2);
    narrow_types("mlp:context=4,embed=8,hidden=16,vocab=9", 0);
    narrow_types("llama:layers=2,heads=4,kv_heads=2,embed=16,context=6,vocab=11,window=3", 0);
    return 0;
}
